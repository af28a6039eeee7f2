"""The write side of the books, used by loaders and by the ticker that advances the horizon.

A transaction takes its stamp under the write lock, above every horizon that was reported, and moves the horizon to the
stamp. So when a horizon is reported, all rows with stamps up to it are already visible, even if the clock is set back
or a process dies.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, starmap
from pathlib import Path

from counterfoil.backends.load_book import LoadBook
from counterfoil.backends.sqlite.files import WAIT_SEC, checkpoint, empty_log, read_write, translated, writing
from counterfoil.backends.sqlite.positions import PositionExchange
from counterfoil.domain.batch import Batch, NeededRows
from counterfoil.domain.changes import BaseRow, BillRow, MemberRow, Row, ShopRow, account_values
from counterfoil.model.text import statements
from counterfoil.ports import Clock, wrong_secret

# Each shop has its own range of bill numbers, with room for a trillion bills.
SHOP_SHIFT = 40
# Number of rows that one statement looks up by key. One statement per row would take three times as long.
KEYS_AT_ONCE = 100
# A failed load waits this long for the write lock before it gives up recording that it has stopped.
SHORT_SEC = 5.0

_SQL = statements(Path(__file__).with_suffix(".sql").read_text("utf-8"))


class SqliteLedger(LoadBook):
    """The write side of `books.sqlite3`."""

    def __init__(self, folder: Path, clock: Clock, fingerprint: str) -> None:
        super().__init__()
        self._clock = clock
        self._connection: sqlite3.Connection = read_write(folder, "books")
        self._positions = PositionExchange(folder, self._connection, clock)
        self._settle_fingerprint(fingerprint)

    def close(self) -> None:
        self._connection.close()

    def advance_horizon(self) -> int:
        with translated(), writing(self._connection, WAIT_SEC["books"]):
            horizon = self._horizon()
            now = self._clock.now_ms()
            if now > horizon:
                self._connection.execute(_SQL["set_horizon"], (now,))
        self._positions.run(max(now, horizon))
        return max(now, horizon)

    def checkpoint(self) -> None:
        checkpoint(self._connection)

    def empty_log(self) -> bool:
        """Move the log into the file and truncate it; return whether no reader prevented that."""
        with translated():
            return empty_log(self._connection)

    def compact(self) -> bool:
        """Write the file anew, without unused space, and return whether the log could be emptied afterwards."""
        with translated():
            self._connection.execute("VACUUM")
        return self.empty_log()

    # --- stamps ------------------------------------------------------------------

    def _horizon(self) -> int:
        row: tuple[int] = self._connection.execute(_SQL["horizon"]).fetchone()
        return row[0]

    def _take_stamp(self) -> tuple[int, int]:
        now = self._clock.now_ms()
        stamp = max(now, self._horizon() + 1)
        self._connection.execute(_SQL["set_horizon"], (stamp,))
        return stamp, now

    def _run(self, statement: str, **values: object) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)

    def _briefly(self) -> translated:
        return translated()

    @contextmanager
    def _writing(self, wait_sec: float = WAIT_SEC["books"]) -> Iterator[None]:
        with translated(), writing(self._connection, wait_sec):
            yield

    def _begin(self) -> int:
        return self._clock.now_ms()

    @contextmanager
    def _unlocked(self) -> Iterator[int]:
        """Open a transaction. SQLite has only one lock, so it waits for other writers, but not long."""
        with self._writing(SHORT_SEC):
            yield self._begin()

    def _settle_fingerprint(self, fingerprint: str) -> None:
        with translated(), writing(self._connection, WAIT_SEC["books"]):
            row = self._connection.execute(_SQL["fingerprint"]).fetchone()
            if not row:
                self._connection.execute(_SQL["set_fingerprint"], (fingerprint,))
            elif row[0] != fingerprint:
                raise wrong_secret()

    # --- methods that need the write lock ------------------------------------------

    def _open(self, needed: NeededRows) -> tuple[Batch, int]:
        stamp, now = self._take_stamp()
        shops = list(starmap(ShopRow, self._found(_SQL["shops"], list(zip(needed.shops)))))
        numbers = {shop.shop_id: shop.number for shop in shops}
        bills = [(numbers[shop_id], bill_id) for shop_id, bill_id in needed.bills if shop_id in numbers]
        batch = Batch(
            stamp,
            self._connection.execute(_SQL["last_shop"]).fetchone()[0],
            shops,
            starmap(BillRow, self._found(_SQL["bills"], bills)),
            starmap(BaseRow, self._found(_SQL["bases"], list(zip(needed.bases)))),
            starmap(MemberRow, self._found(_SQL["members"], list(zip(needed.tokens)))),
            {row[:3]: row[3] for row in self._found(_SQL["removals"], needed.removals)},
        )
        return batch, now

    def _bodies(self, keys: Sequence[tuple[int, str]]) -> Iterator[Row]:
        return self._found(_SQL["bodies"], keys)

    def _put_shops(self, rows: Sequence[ShopRow]) -> None:
        self._connection.executemany(_SQL["put_shop"], (row.values(row.rev) for row in rows))

    def _write_records(self, batch: Batch) -> None:
        self._remove_bills(batch.removed_bills())
        self._add_bills(batch.added_bills())
        self._connection.executemany(_SQL["change_bill"], (row.values(row.rev) for row in batch.changed_bills()))
        self._connection.executemany(
            _SQL["settle_bill"], (row.settled_values(row.rev) for row in batch.settled_bills())
        )
        self._put_members(batch)

    def _write_rewritten(self, bills: Sequence[BillRow]) -> None:
        self._connection.executemany(
            _SQL["change_bill"], (bill.values(bill.rev) for bill in bills if bill.body is not None)
        )
        self._connection.executemany(_SQL["settle_facts"], (bill.facts_values() for bill in bills if bill.body is None))

    def _remove_bills(self, keys: Sequence[tuple[int, str]]) -> None:
        self._connection.executemany(_SQL["remove_bill"], keys)

    def _add_bills(self, rows: Sequence[BillRow]) -> None:
        next_bill: dict[int, int] = dict(self._found(_SQL["next_bills"], list(zip({row.shop for row in rows}))))
        self._connection.executemany(_SQL["add_bill"], _new_bills(rows, next_bill))
        self._connection.executemany(_SQL["set_next_bill"], next_bill.items())

    def _put_members(self, batch: Batch) -> None:
        written, gone = batch.written_members(), batch.removed_members()
        self._connection.executemany(_SQL["put_member"], (row.values(row.rev) for row in written))
        # The statement above has already moved members to their new bases, so this deletes only removed members.
        self._connection.executemany(_SQL["remove_member"], gone)
        self._connection.executemany(
            _SQL["remove_accounts"], [*gone, *((row.provider_id, row.token) for row in written)]
        )
        self._connection.executemany(_SQL["add_account"], account_values(written))

    def _found(self, statement: str, keys: Sequence[Row]) -> Iterator[Row]:
        """Yield the rows with these keys. Unused parameters of the statement are NULL, which matches no key."""
        for start in range(0, len(keys), KEYS_AT_ONCE):
            some = keys[start : start + KEYS_AT_ONCE]
            unused = [None] * len(keys[0]) * (KEYS_AT_ONCE - len(some))
            places = ", ".join(["({})".format(", ".join("?" * len(keys[0])))] * KEYS_AT_ONCE)
            yield from self._connection.execute(statement.format(keys=places), [*chain.from_iterable(some), *unused])


def _new_bills(rows: Sequence[BillRow], next_bill: dict[int, int]) -> Iterator[Row]:
    """Yield the parameters of `add_bill` for each bill. Increment the numbers in `next_bill`."""
    for row in rows:
        number = next_bill[row.shop]
        next_bill[row.shop] = number + 1
        yield ((row.shop << SHOP_SHIFT) | number, *row.values(row.rev))
