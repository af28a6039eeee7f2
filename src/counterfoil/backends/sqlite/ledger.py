"""The write side of the books, used by loaders and by the ticker that advances the horizon.

A transaction takes its stamp under the write lock, above every horizon that was
reported, and moves the horizon to the stamp. So when a horizon is reported, all
rows with stamps up to it are already visible, even if the clock is set back or
a process dies.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, starmap
from pathlib import Path

from msgspec import json

from counterfoil.backends.sqlite import change_feed
from counterfoil.backends.sqlite.files import WAIT_SEC, checkpoint, read_write, translated, writing
from counterfoil.backends.sqlite.positions import PositionExchange
from counterfoil.domain.batch import Batch, NeededRows, known_facts, needed_rows, prepared, rewritten, rewritten_days
from counterfoil.domain.changes import (
    BaseRow,
    BillRow,
    Change,
    KnownFacts,
    MemberRow,
    Outcome,
    OutdatedBill,
    Row,
    ShopRow,
    account_values,
)
from counterfoil.domain.intake import Intake, LoadProgress
from counterfoil.domain.replacements import ReplacementGuard
from counterfoil.ports import Clock, wrong_secret
from counterfoil.statements import read_statements

SQL = read_statements(__file__)

# Each shop has its own range of bill numbers, with room for a trillion bills.
SHOP_SHIFT = 40
# Number of rows that one statement looks up by key. One statement per row would take three times as long.
KEYS_AT_ONCE = 100
# A failed load waits this long for the write lock before it gives up recording that it has stopped.
STOP_SEC = 5.0


class SqliteLedger:
    """The write side of `books.sqlite3`."""

    def __init__(self, folder: Path, clock: Clock, fingerprint: str) -> None:
        self._clock = clock
        self._connection: sqlite3.Connection = read_write(folder, "books")
        self._positions = PositionExchange(folder, self._connection, clock)
        self._rewritten: dict[tuple[int, int], int] = {}
        self._settle_fingerprint(fingerprint)

    def close(self) -> None:
        self._connection.close()

    def facts(self, shop_id: str) -> KnownFacts | None:
        with translated():
            row = self._connection.execute(SQL.FACTS, (shop_id,)).fetchone()
        return known_facts(*row) if row else None

    def begin_load(self, source: str) -> LoadProgress:
        now = self._clock.now_ms()
        with translated(), writing(self._connection, WAIT_SEC["books"]):
            number = self._connection.execute(SQL.BEGIN_LOAD, (source, now, now)).lastrowid or 0
            self._connection.execute(SQL.FORGET_LOADS, (number,))
            self._connection.execute(SQL.FORGET_REJECTS, (number,))
        return LoadProgress(number)

    def stop_load(self, number: int, changed: int) -> None:
        with translated(), writing(self._connection, STOP_SEC):
            self._connection.execute(SQL.STOP_LOAD, (self._clock.now_ms(), changed, number))

    def apply(
        self,
        changes: Sequence[Change],
        progress: LoadProgress | None = None,
        guard: ReplacementGuard | None = None,
    ) -> list[Outcome]:
        ready = prepared(changes)
        needed = needed_rows(ready)
        with translated(), writing(self._connection, WAIT_SEC["books"]):
            batch = self._open(needed)
            if guard:
                batch.compare_with(guard, self._found(SQL.BODIES, batch.bills_to_compare(ready)))
            outcomes = batch.apply(ready)
            if guard and not guard.may_write(len(needed.bills)):
                return outcomes
            self._write(batch)
            if progress:
                self._save(progress)
        return outcomes

    def change_intake(self, change: Callable[[Intake, int], Intake]) -> Intake:
        with translated(), writing(self._connection, WAIT_SEC["books"]):
            row = self._connection.execute(SQL.INTAKE).fetchone()
            intake = change(json.decode(row[0], type=Intake) if row else Intake(), self._clock.now_ms())
            self._connection.execute(SQL.PUT_INTAKE, (json.encode(intake),))
        return intake

    def report_watched_folder(self, name: str, files: int, quarantined: int, *, is_stopped: bool = False) -> None:
        values = {"name": name, "now": self._clock.now_ms(), "files": files, "quarantined": quarantined}
        with translated(), writing(self._connection, WAIT_SEC["books"]):
            self._connection.execute(SQL.REPORT_WATCHED_FOLDER, {**values, "stopped": is_stopped})

    def rewrite_bills(self, most: int) -> bool:
        with translated(), writing(self._connection, WAIT_SEC["books"]):
            shop = self._connection.execute(SQL.TO_REWRITE).fetchone()
            if not shop:
                return False
            stamp = self._take_stamp()
            number, version, facts = shop
            known = known_facts(version, facts)
            # Continue after the last rewritten bill. After a restart, all bills of the shop are checked again.
            first = max(number << SHOP_SHIFT, self._rewritten.get((number, version), 0))
            last = ((number + 1) << SHOP_SHIFT) - 1
            rows = self._connection.execute(SQL.OUTDATED_BILLS, (first, last, version, most)).fetchall()
            outdated = [OutdatedBill(*row[1:]) for row in rows]
            bills = [rewritten(bill, number, known, stamp) for bill in outdated]
            self._write_all(SQL.CHANGE_BILL, (bill.values(bill.rev) for bill in bills if bill.body is not None))
            self._write_all(SQL.SETTLE_FACTS, (bill.facts_values() for bill in bills if bill.body is None))
            change_feed.touch(self._connection, number, stamp)
            change_feed.mark_stale(self._connection, rewritten_days(outdated, bills))
            if len(rows) < most:
                self._connection.execute(SQL.REWRITTEN, (version, number))
        # Record the progress only after the commit, because a failed transaction has rewritten nothing.
        if len(rows) == most:
            self._rewritten[number, version] = rows[-1][0]
        return True

    def advance_horizon(self) -> int:
        with translated(), writing(self._connection, WAIT_SEC["books"]):
            horizon = self._horizon()
            now = self._clock.now_ms()
            if now > horizon:
                self._connection.execute(SQL.SET_HORIZON, (now,))
        self._positions.run(max(now, horizon))
        return max(now, horizon)

    def prune_removals(self) -> int:
        with translated(), writing(self._connection, WAIT_SEC["books"]):
            return change_feed.prune(self._connection, self._horizon())

    def compute_totals(self, most: int) -> int:
        """Compute the totals of up to `most` days whose bills have changed; return the number of days."""
        with translated():
            # This runs often, and usually no day is stale. In that case no lock is taken, so that no load has to wait.
            if not change_feed.has_stale(self._connection):
                return 0
            with writing(self._connection, WAIT_SEC["books"]):
                return change_feed.compute_totals(self._connection, most)

    def checkpoint(self) -> None:
        checkpoint(self._connection)

    # --- stamps ------------------------------------------------------------------

    def _horizon(self) -> int:
        row: tuple[int] = self._connection.execute(SQL.HORIZON).fetchone()
        return row[0]

    def _take_stamp(self) -> int:
        """Take this transaction's stamp and move the horizon to it.

        The stamp is the current time, or 1 ms above the old horizon if that is
        later.
        """
        stamp = max(self._clock.now_ms(), self._horizon() + 1)
        self._connection.execute(SQL.SET_HORIZON, (stamp,))
        return stamp

    def _save(self, progress: LoadProgress) -> None:
        now = self._clock.now_ms()
        self._connection.execute(SQL.SAVE_LOAD, progress.values(now))
        self._connection.executemany(SQL.REMEMBER_REJECT, progress.reject_values())

    def _settle_fingerprint(self, fingerprint: str) -> None:
        with translated(), writing(self._connection, WAIT_SEC["books"]):
            row = self._connection.execute(SQL.FINGERPRINT).fetchone()
            if not row:
                self._connection.execute(SQL.SET_FINGERPRINT, (fingerprint,))
            elif row[0] != fingerprint:
                raise wrong_secret()

    # --- methods that need the write lock ------------------------------------------

    def _open(self, needed: NeededRows) -> Batch:
        """Take a stamp and read the rows that the batch affects."""
        stamp = self._take_stamp()
        shops = list(starmap(ShopRow, self._found(SQL.SHOPS, list(zip(needed.shops)))))
        numbers = {shop.shop_id: shop.number for shop in shops}
        bills = [(numbers[shop_id], bill_id) for shop_id, bill_id in needed.bills if shop_id in numbers]
        return Batch(
            stamp,
            self._connection.execute(SQL.LAST_SHOP).fetchone()[0],
            shops,
            starmap(BillRow, self._found(SQL.BILLS, bills)),
            starmap(BaseRow, self._found(SQL.BASES, list(zip(needed.bases)))),
            starmap(MemberRow, self._found(SQL.MEMBERS, list(zip(needed.tokens)))),
            {row[:3]: row[3] for row in self._found(SQL.REMOVALS, needed.removals)},
        )

    def _write(self, batch: Batch) -> None:
        self._write_all(SQL.PUT_SHOP, (row.values(row.rev) for row in batch.written_shops()))
        self._write_all(SQL.REMEMBER_REMOVAL, ((*removal, rev) for removal, rev in batch.remembered.items()))
        self._write_all(SQL.PUT_BASE, (row.values(row.rev) for row in batch.written_bases()))
        self._write_all(SQL.REMOVE_BILL, batch.removed_bills())
        self._add_bills(batch.added_bills())
        self._write_all(SQL.CHANGE_BILL, (row.values(row.rev) for row in batch.changed_bills()))
        self._write_all(SQL.SETTLE_BILL, (row.settled_values(row.rev) for row in batch.settled_bills()))
        self._put_members(batch)
        change_feed.record(self._connection, batch)
        change_feed.mark_stale(self._connection, batch.stale_days())

    def _add_bills(self, rows: Sequence[BillRow]) -> None:
        next_bill: dict[int, int] = dict(self._found(SQL.NEXT_BILLS, list(zip({row.shop for row in rows}))))
        self._write_all(SQL.ADD_BILL, _new_bills(rows, next_bill))
        self._write_all(SQL.SET_NEXT_BILL, next_bill.items())

    def _put_members(self, batch: Batch) -> None:
        written, gone = batch.written_members(), batch.removed_members()
        self._write_all(SQL.PUT_MEMBER, (row.values(row.rev) for row in written))
        # The statement above has already moved members to their new bases, so this deletes only removed members.
        self._write_all(SQL.REMOVE_MEMBER, gone)
        self._write_all(SQL.REMOVE_ACCOUNTS, [*gone, *((row.provider_id, row.token) for row in written)])
        self._write_all(SQL.ADD_ACCOUNT, account_values(written))

    def _found(self, statement: str, keys: Sequence[Row]) -> Iterator[Row]:
        """Yield the rows with these keys. Unused parameters of the statement are NULL, which matches no key."""
        for start in range(0, len(keys), KEYS_AT_ONCE):
            some = keys[start : start + KEYS_AT_ONCE]
            unused = [None] * len(keys[0]) * (KEYS_AT_ONCE - len(some))
            places = ", ".join(["({})".format(", ".join("?" * len(keys[0])))] * KEYS_AT_ONCE)
            yield from self._connection.execute(statement.format(keys=places), [*chain.from_iterable(some), *unused])

    def _write_all(self, statement: str, rows: Iterable[Row]) -> None:
        self._connection.executemany(statement, rows)


def _new_bills(rows: Sequence[BillRow], next_bill: dict[int, int]) -> Iterator[Row]:
    """Yield the parameters of `SQL.ADD_BILL` for each bill. Increment the numbers in `next_bill`.

    For each value that is not a number, text or a bytearray, Python's `sqlite3`
    looks for an adapter, which takes a third of the time of an insertion. So bytes
    are given as bytearrays, and "" stands for None.
    """
    for row in rows:
        shop, body = row.shop, row.body or b""
        number = next_bill[shop]
        next_bill[shop] = number + 1
        yield (
            (shop << SHOP_SHIFT) | number,
            shop,
            row.bill_id,
            row.bill_day,
            row.closed_at,
            "" if row.updated_at is None else row.updated_at,
            row.trading_day or "",
            "" if row.rev is None else row.rev,
            row.facts_version,
            bytearray(row.digest),
            bytearray(row.seal),
            bytearray(row.withheld) if row.withheld else "",
            bytearray(body),
            row.loaded_at,
        )
