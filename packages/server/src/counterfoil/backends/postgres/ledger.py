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
from typing import Any

from psycopg import Connection, Cursor
from psycopg.errors import InsufficientPrivilege

from counterfoil.backends.load_book import LoadBook
from counterfoil.backends.postgres.admin_connections import (
    STATEMENT_SEC,
    ReconnectingConnection,
    check_layout,
    fingerprint_of,
    psycopg_form,
    translated,
)
from counterfoil.backends.postgres.written_rows import columns, rev_text
from counterfoil.domain.batch import Batch, NeededRows
from counterfoil.domain.changes import BaseRow, BillRow, MemberRow, Row, ShopRow, account_values
from counterfoil.ports import StoreMismatch, wrong_secret

# The current time in the next statements is that of the server's clock, unless a test passes its own.
NOW = "SELECT coalesce(%(now)s::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)"
_LOCK = """
    SELECT coalesce(%(now)s::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM horizon FOR UPDATE
"""
_TAKE_STAMP = """
    UPDATE horizon
    SET at = greatest(coalesce(%(now)s::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint), at + 1)
    RETURNING at, coalesce(%(now)s::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
"""
# If a writer holds the row lock, this statement waits and then sees the value that the writer committed.
_ADVANCE = """
    UPDATE horizon
    SET at = greatest(at, coalesce(%(now)s::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint))
    RETURNING at
"""

_SET_FINGERPRINT = "INSERT INTO deployment (one, secret_fingerprint) VALUES (1, %s) ON CONFLICT DO NOTHING"

# --- reading rows by their keys --------------------------------------------------------

LAST_SHOP = "SELECT coalesce(max(number), 0) FROM shops"
SHOPS = """
    SELECT number, id, franchise_id, provider_id, removed, rev, latest_version, applied_version, facts, body
    FROM shops WHERE id = ANY(%s)
"""
_BILLS = """
    SELECT bills.shop, bills.id, bills.trading_day, bills.rev, bills.digest, bills.withheld, bills.bill_day,
        bills.load, bills.confirmed_by
    FROM unnest(%s::text[], %s::text[]) AS asked (shop_id, id)
    JOIN shops ON shops.id = asked.shop_id
    JOIN bills ON bills.shop = shops.number AND bills.id = asked.id
"""
_BODIES = """
    SELECT bills.shop, bills.id, bills.body FROM unnest(%s::integer[], %s::text[]) AS asked (shop, id)
    JOIN bills ON bills.shop = asked.shop AND bills.id = asked.id
"""
BASES = "SELECT id, rev, body FROM bases WHERE id = ANY(%s)"
MEMBERS = "SELECT provider_id, token, rev, record, form FROM members WHERE token = ANY(%s)"
REMOVALS = """
    SELECT removals.* FROM unnest(%s::text[], %s::text[], %s::text[]) AS asked (shop, kind, id)
    JOIN removals USING (shop, kind, id)
"""

# --- writing rows: each column is passed as an array -----------------------------------

PUT_SHOPS = """
    INSERT INTO shops
        (number, id, franchise_id, provider_id, removed, rev, latest_version, applied_version, facts, body)
    SELECT * FROM unnest(%s::integer[], %s::text[], %s::text[], %s::text[], %s::boolean[], %s::numeric[],
        %s::integer[], %s::integer[], %b::bytea[], %b::bytea[])
    ON CONFLICT (number) DO UPDATE SET
        franchise_id = excluded.franchise_id, provider_id = excluded.provider_id, removed = excluded.removed,
        rev = excluded.rev, latest_version = excluded.latest_version, facts = excluded.facts, body = excluded.body
"""
_ADD_BILLS = """
    INSERT INTO bills
        (shop, id, bill_day, closed_at, updated_at, trading_day, rev, facts_version, digest, seal, withheld, body,
        loaded_at, load)
    SELECT * FROM unnest(%s::integer[], %s::text[], %s::integer[], %s::bigint[], %s::bigint[], %s::text[],
        %s::numeric[], %s::integer[], %b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[], %s::bigint[],
        %s::integer[])
"""
# Without a load, the bill is rewritten under the facts of its shop, so it stays the bill of its load.
_PUT_BILLS = """
    INSERT INTO bills
        (shop, id, bill_day, closed_at, updated_at, trading_day, rev, facts_version, digest, seal, withheld, body,
        loaded_at, load)
    SELECT * FROM unnest(%s::integer[], %s::text[], %s::integer[], %s::bigint[], %s::bigint[], %s::text[],
        %s::numeric[], %s::integer[], %b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[], %s::bigint[],
        %s::integer[])
    ON CONFLICT (shop, id) DO UPDATE SET
        bill_day = excluded.bill_day, closed_at = excluded.closed_at, updated_at = excluded.updated_at,
        trading_day = excluded.trading_day, rev = excluded.rev, facts_version = excluded.facts_version,
        digest = excluded.digest, seal = excluded.seal, withheld = excluded.withheld, body = excluded.body,
        loaded_at = excluded.loaded_at, load = coalesce(excluded.load, bills.load),
        load_before = CASE
            WHEN excluded.load IS NULL OR excluded.load = bills.load THEN bills.load_before
            -- An undone load that had only changed the bill counts for nothing.
            WHEN bills.load < 0 AND bills.load_before IS DISTINCT FROM -bills.load THEN coalesce(bills.load_before, 0)
            ELSE coalesce(bills.load, 0)
        END,
        confirmed_by = CASE WHEN excluded.load IS NULL THEN bills.confirmed_by END
"""
_SETTLE_BILLS = """
    UPDATE bills SET trading_day = asked.trading_day, rev = asked.rev, withheld = asked.withheld,
        confirmed_by = asked.confirmed_by
    FROM unnest(%s::integer[], %s::text[], %s::text[], %s::numeric[], %s::bytea[], %s::integer[])
        AS asked (shop, id, trading_day, rev, withheld, confirmed_by)
    WHERE bills.shop = asked.shop AND bills.id = asked.id
"""
_SETTLE_FACTS = """
    UPDATE bills SET facts_version = asked.version, trading_day = asked.trading_day, withheld = asked.withheld
    FROM unnest(%s::integer[], %s::text[], %s::integer[], %s::text[], %s::bytea[])
        AS asked (shop, id, version, trading_day, withheld)
    WHERE bills.shop = asked.shop AND bills.id = asked.id
"""
_REMOVE_BILLS = """
    DELETE FROM bills USING unnest(%s::integer[], %s::text[]) AS asked (shop, id)
    WHERE bills.shop = asked.shop AND bills.id = asked.id
"""
_PUT_MEMBERS = """
    INSERT INTO members (provider_id, token, created_at, rev, record, form)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::numeric[], %b::bytea[], %b::bytea[])
    ON CONFLICT (provider_id, token) DO UPDATE SET
        created_at = excluded.created_at, rev = excluded.rev, record = excluded.record, form = excluded.form
"""
_REMOVE_MEMBERS = """
    DELETE FROM members USING unnest(%s::text[], %s::text[]) AS asked (provider_id, token)
    WHERE members.provider_id = asked.provider_id AND members.token = asked.token
"""
_ADD_ACCOUNTS = """
    INSERT INTO accounts (provider_id, token, place, hash, created_at, channel)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::integer[], %s::text[], %s::bigint[], %s::text[])
"""
_REMOVE_ACCOUNTS = """
    DELETE FROM accounts USING unnest(%s::text[], %s::text[]) AS asked (provider_id, token)
    WHERE accounts.provider_id = asked.provider_id AND accounts.token = asked.token
"""


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
        with self._reading():
            return int(only(self._line().execute(_ADVANCE, self._now()))[0])

    def checkpoint(self) -> None:
        """Do nothing: PostgreSQL runs its own checkpoints."""

    def empty_log(self) -> bool:
        """Return False: what deleted rows have left behind is in the hands of the server (see `VACUUM`)."""
        return False

    def compact(self) -> bool:
        return False

    # --- transactions --------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with translated(), self._line.within(STATEMENT_SEC):
            yield

    @contextmanager
    def _unlocked(self) -> Iterator[int]:
        with self._reading(), self._line().transaction():
            yield only(self._line().execute(NOW, self._now()))[0]

    @contextmanager
    def _locked(self) -> Iterator[int]:
        with self._writing():
            yield int(only(self._line().execute(_LOCK, self._now()))[0])

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Run one transaction. Statements are pipelined until a result is needed."""
        with translated():
            connection = self._line()
            with connection.pipeline(), connection.transaction():
                yield

    def _take_stamp(self) -> int:
        stamp, _ = only(self._line().execute(_TAKE_STAMP, self._now()))
        return int(stamp)

    def _now(self) -> dict[str, int | None]:
        """Return the time that statements take as the current one, or none for that of the server's clock."""
        return {"now": self._now_ms() if self._now_ms else None}

    def _run(self, statement: str, **values: object) -> Cursor[Any]:
        return self._line().execute(psycopg_form(statement), values, binary=True)

    # --- many rows -----------------------------------------------------------------

    @contextmanager
    def _opened(self, needed: NeededRows) -> Iterator[tuple[Batch, int]]:
        with self._writing():
            yield self._batch(needed)

    def _batch(self, needed: NeededRows) -> tuple[Batch, int]:
        """Take a stamp and read the rows, all in one round trip. Return the batch and the current time."""
        connection = self._line()
        stamped = connection.execute(_TAKE_STAMP, self._now(), binary=True)
        last_shop = connection.execute(LAST_SHOP, binary=True) if needed.new_shops else None
        shops = asked_rows(connection, SHOPS, needed.shops)
        bills = asked_rows(connection, _BILLS, *columns(needed.bills))
        bases = asked_rows(connection, BASES, needed.bases)
        members = asked_rows(connection, MEMBERS, needed.tokens)
        removals = asked_rows(connection, REMOVALS, *columns(needed.removals))
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
        return all_rows(asked_rows(self._line(), _BODIES, *columns(keys)))

    def _write(self, batch: Batch) -> None:
        self._do(PUT_SHOPS, [row.values(rev_text(row.rev)) for row in batch.written_shops()])
        self._note(batch)
        self._remove_bills(batch.removed_bills())
        # The batch has checked under the write lock that these are not stored yet.
        self._do(_ADD_BILLS, [row.values(rev_text(row.rev)) for row in batch.added_bills()])
        self._do(_PUT_BILLS, [row.values(rev_text(row.rev)) for row in batch.changed_bills()])
        self._do(_SETTLE_BILLS, [row.settled_values(rev_text(row.rev)) for row in batch.settled_bills()])
        self._put_members(batch)

    def _rewrite(self, bills: Sequence[BillRow]) -> None:
        with_body = [bill for bill in bills if bill.body is not None]
        without_body = [bill for bill in bills if bill.body is None]
        self._do(_PUT_BILLS, [bill.values(rev_text(bill.rev)) for bill in with_body])
        self._do(_SETTLE_FACTS, [bill.facts_values() for bill in without_body])

    def _remove_bills(self, keys: Sequence[tuple[int, str]]) -> None:
        self._do(_REMOVE_BILLS, keys)

    def _put_members(self, batch: Batch) -> None:
        written, gone = batch.written_members(), batch.removed_members()
        replaced = [(row.provider_id, row.token) for row in written]
        self._do(_REMOVE_MEMBERS, gone)
        self._do(_REMOVE_ACCOUNTS, [*gone, *replaced])
        self._do(_PUT_MEMBERS, [row.values(rev_text(row.rev)) for row in written])
        self._do(_ADD_ACCOUNTS, account_values(written))

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
    return cursor.fetchall() if cursor else []


def only(cursor: Cursor[Any]) -> Any:
    (row,) = cursor.fetchall()
    return row
