"""The write side of the books, used by loaders and by the ticker that advances the horizon.

A transaction takes its stamp under the write lock, above every horizon that was reported, and moves the horizon to the
stamp. So when a horizon is reported, all rows with stamps up to it are already visible, even if the clock is set back
or a process dies. The write lock is the row lock on `horizon`. Stamps use the server's clock, so the clocks of loaders
need not agree.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any

from psycopg import Connection, Cursor
from psycopg.errors import InsufficientPrivilege

from counterfoil.backends.load_book import LoadBook
from counterfoil.backends.postgres.admin_connections import (
    STATEMENT_SEC,
    ReconnectingConnection,
    check_layout,
    fingerprint_of,
    translated,
)
from counterfoil.backends.postgres.written_rows import columns, loaded, rev_text
from counterfoil.domain.batch import Batch, NeededRows
from counterfoil.domain.changes import BaseRow, BillRow, MemberRow, Row, ShopRow, account_values
from counterfoil.model.text import statements
from counterfoil.operator_reads import to_postgres
from counterfoil.ports import StoreMismatch, wrong_secret

CLOCK = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
# The current time: on the server's clock, unless a test passes its own.
NOW = f"coalesce(%(now)s::bigint, {CLOCK})"
_LOCK = f"SELECT {NOW} FROM horizon FOR UPDATE"  # noqa: S608 - contains only constants
_TAKE_STAMP = f"UPDATE horizon SET at = greatest({NOW}, at + 1) RETURNING at, {NOW}"  # noqa: S608 - as above
# If a writer holds the row lock, this statement waits and then sees the value that the writer committed.
_ADVANCE = f"UPDATE horizon SET at = greatest(at, {NOW}) RETURNING at"  # noqa: S608 - as above

LAST_SHOP = "SELECT coalesce(max(number), 0) FROM shops"
SQL = statements(Path(__file__).with_suffix(".sql").read_text("utf-8"))
_SET_FINGERPRINT = "INSERT INTO deployment (one, secret_fingerprint) VALUES (1, %s) ON CONFLICT DO NOTHING"


class PostgresLedger(LoadBook):
    """The write side of the books. It uses the server's clock unless `now_ms` is given."""

    _is_distributed = False

    def __init__(self, url: str, fingerprint: str, now_ms: Callable[[], int] | None = None) -> None:
        super().__init__()
        self._now_ms = now_ms
        self._line = ReconnectingConnection(url, partial(check_layout, is_distributed=self._is_distributed))
        try:
            self._settle_fingerprint(fingerprint)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._line.close()

    def advance_horizon(self) -> int:
        with self._briefly():
            return int(only(self._line().execute(_ADVANCE, self._now()))[0])

    def checkpoint(self) -> None:
        """Do nothing: PostgreSQL runs its own checkpoints."""

    def empty_log(self) -> bool:
        """Return False: what deleted rows have left behind is in the hands of the server (see `VACUUM`)."""
        return False

    def compact(self) -> bool:
        return False

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Run one transaction. Statements are pipelined until a result is needed."""
        with translated():
            connection = self._line()
            with connection.pipeline(), connection.transaction():
                yield

    @contextmanager
    def _briefly(self) -> Iterator[None]:
        with translated(), self._line.within(STATEMENT_SEC):
            yield

    @contextmanager
    def _unlocked(self) -> Iterator[int]:
        with self._briefly(), self._line().transaction():
            yield only(self._line().execute(f"SELECT {NOW}", self._now()))[0]

    def _now(self) -> dict[str, int | None]:
        """Return the parameter of `NOW`."""
        return {"now": self._now_ms() if self._now_ms else None}

    def _run(self, statement: str, **values: object) -> Cursor[Any]:
        return self._line().execute(to_postgres(statement), values, binary=True)

    # --- methods that need the write lock ------------------------------------------

    def _begin(self) -> int:
        return int(only(self._line().execute(_LOCK, self._now()))[0])

    def _take_stamp(self) -> tuple[int, int]:
        stamp, now = only(self._line().execute(_TAKE_STAMP, self._now()))
        return stamp, now

    def _open(self, needed: NeededRows) -> tuple[Batch, int]:
        # All of this takes one round trip.
        connection = self._line()
        stamped = connection.execute(_TAKE_STAMP, self._now(), binary=True)
        last_shop = connection.execute(LAST_SHOP, binary=True) if needed.new_shops else None
        shops = asked_rows(connection, SQL["shops"], needed.shops)
        bills = asked_rows(connection, SQL["bills"], *columns(needed.bills))
        bases = asked_rows(connection, SQL["bases"], needed.bases)
        members = asked_rows(connection, SQL["members"], needed.tokens)
        removals = asked_rows(connection, SQL["removals"], *columns(needed.removals))
        stamp, now = only(stamped)
        batch = Batch(
            stamp,
            only(last_shop)[0] if last_shop else 0,
            starmap(ShopRow, all_rows(shops)),
            starmap(BillRow, all_rows(bills)),
            starmap(BaseRow, all_rows(bases)),
            starmap(MemberRow, all_rows(members)),
            {row[:3]: row[3] for row in all_rows(removals)},
        )
        return batch, now

    def _bodies(self, keys: Sequence[tuple[int, str]]) -> list[Row]:
        return all_rows(asked_rows(self._line(), SQL["bodies"], *columns(keys)))

    def _rev(self, rev: float | None) -> object:
        return rev_text(rev)

    def _loaded(self, row: Row) -> Row:
        return loaded(row)

    def _put_shops(self, rows: Sequence[ShopRow]) -> None:
        self._do(SQL["put_shops"], [row.values(rev_text(row.rev)) for row in rows])

    def _write_records(self, batch: Batch) -> None:
        self._remove_bills(batch.removed_bills())
        # The batch has checked under the write lock that these are not stored yet.
        self._write_bills("add_bills", [row.values(rev_text(row.rev)) for row in batch.added_bills()])
        self._write_bills("put_bills", [row.values(rev_text(row.rev)) for row in batch.changed_bills()])
        self._write_bills("settle_bills", [row.settled_values(rev_text(row.rev)) for row in batch.settled_bills()])
        self._put_members(batch)

    def _write_rewritten(self, bills: Sequence[BillRow]) -> None:
        self._write_bills("put_bills", [bill.values(rev_text(bill.rev)) for bill in bills if bill.body is not None])
        self._write_bills("settle_facts", [bill.facts_values() for bill in bills if bill.body is None])

    def _remove_bills(self, keys: Sequence[tuple[int, str]]) -> None:
        self._write_bills("remove_bills", keys)

    def _write_bills(self, name: str, rows: Sequence[Row]) -> None:
        self._do(SQL[name].format(rows=SQL["bill_arrays"]), rows)

    def _put_members(self, batch: Batch) -> None:
        written, gone = batch.written_members(), batch.removed_members()
        self._do(SQL["remove_members"], gone)
        self._do(SQL["remove_accounts"], [*gone, *((row.provider_id, row.token) for row in written)])
        self._do(
            SQL["put_members"].format(rows=SQL["member_arrays"]), [row.values(rev_text(row.rev)) for row in written]
        )
        self._do(SQL["add_accounts"].format(rows=SQL["account_arrays"]), account_values(written))

    def _do(self, statement: str, rows: Sequence[Row]) -> None:
        """Run one statement for all rows, with each column passed as an array."""
        if rows:
            self._line().execute(statement.encode(), columns(rows))

    def _settle_fingerprint(self, fingerprint: str) -> None:
        with translated():
            found = fingerprint_of(self._line())
            if found is None:
                try:
                    self._line().execute(_SET_FINGERPRINT, (fingerprint,))
                except InsufficientPrivilege as error:
                    raise StoreMismatch(
                        "this store has not been initialised yet, and this login has no permission to initialise it: "
                        "run `counterfoil init` with the owner's login, or `counterfoil load` with the loader's."
                    ) from error
                found = fingerprint_of(self._line())
        if found != fingerprint:
            raise wrong_secret()


def asked_rows(connection: Connection[Any], statement: str, *values: Sequence[object]) -> Cursor[Any] | None:
    """Look up rows by the columns of their keys, unless there are none."""
    return connection.execute(statement.encode(), values, binary=True) if any(values) else None


def all_rows(cursor: Cursor[Any] | None) -> list[Row]:
    """Return all rows, with revisions converted back to the values that were loaded."""
    return [loaded(row) for row in cursor] if cursor else []


def only(cursor: Cursor[Any]) -> Any:
    (row,) = cursor.fetchall()
    return row
