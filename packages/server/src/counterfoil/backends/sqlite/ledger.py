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
from counterfoil.ports import Clock, wrong_secret

# Each shop has its own range of bill numbers, with room for a trillion bills.
SHOP_SHIFT = 40
# Number of rows that one statement looks up by key. One statement per row would take three times as long.
KEYS_AT_ONCE = 100
# A failed load waits this long for the write lock before it gives up recording that it has stopped.
SHORT_SEC = 5.0


def places(columns: int) -> str:
    """Return the places for the values of KEYS_AT_ONCE keys with so many columns, such as `(?, ?), (?, ?)`."""
    key = "({})".format(", ".join(["?"] * columns))
    return ", ".join([key] * KEYS_AT_ONCE)


# --- reading rows by their keys --------------------------------------------------------

_SHOPS = f"""
    WITH asked (id) AS (VALUES {places(1)})
    SELECT number, id, franchise_id, provider_id, removed, rev, latest_version, applied_version, facts, body
    FROM asked CROSS JOIN shops USING (id)
"""  # noqa: S608 - contains only places
_BILLS = f"""
    WITH asked (shop, id) AS (VALUES {places(2)})
    SELECT shop, id, trading_day, rev, digest, withheld, bill_day, load, confirmed_by
    FROM asked CROSS JOIN bills USING (shop, id)
"""  # noqa: S608 - contains only places
_BODIES = f"""
    WITH asked (shop, id) AS (VALUES {places(2)}) SELECT shop, id, body FROM asked CROSS JOIN bills USING (shop, id)
"""  # noqa: S608 - contains only places
_BASES = f"""
    WITH asked (id) AS (VALUES {places(1)}) SELECT id, rev, body FROM asked CROSS JOIN bases USING (id)
"""  # noqa: S608 - contains only places
_MEMBERS = f"""
    WITH asked (token) AS (VALUES {places(1)})
    SELECT provider_id, token, rev, record, form FROM asked CROSS JOIN members USING (token)
"""  # noqa: S608 - contains only places
_REMOVALS = f"""
    WITH asked (shop, kind, id) AS (VALUES {places(3)})
    SELECT shop, kind, id, rev FROM asked CROSS JOIN removals USING (shop, kind, id)
"""  # noqa: S608 - contains only places
_NEXT_BILLS = f"""
    WITH asked (number) AS (VALUES {places(1)}) SELECT number, next_bill FROM asked CROSS JOIN shops USING (number)
"""  # noqa: S608 - contains only places
_LAST_SHOP = "SELECT coalesce(max(number), 0) FROM shops"

# --- writing rows ----------------------------------------------------------------------

_PUT_SHOP = """
    INSERT INTO shops
        (number, id, franchise_id, provider_id, removed, rev, next_bill, latest_version, applied_version, facts, body)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7, ?8, ?9, ?10)
    ON CONFLICT (number) DO UPDATE SET
        franchise_id = excluded.franchise_id, provider_id = excluded.provider_id, removed = excluded.removed,
        rev = excluded.rev, latest_version = excluded.latest_version, facts = excluded.facts, body = excluded.body
"""
# Four of the values are "" instead of None: see `_new_bills`.
_ADD_BILL = """
    INSERT INTO bills
        (number, shop, id, bill_day, closed_at, updated_at, trading_day, rev, facts_version, digest, seal, withheld,
        body, loaded_at, load)
    VALUES (?, ?, ?, ?, ?, nullif(?, ''), nullif(?, ''), nullif(?, ''), ?, ?, ?, nullif(?, ''), ?, ?, ?)
"""
_SET_NEXT_BILL = "UPDATE shops SET next_bill = ?2 WHERE number = ?1"
# Without a load, the bill is rewritten under the facts of its shop, so it stays the bill of its load. If the load was
# undone and had only changed the bill, it counts for nothing: the load before stays the one before it.
_CHANGE_BILL = """
    UPDATE bills SET bill_day = ?3, closed_at = ?4, updated_at = ?5, trading_day = ?6, rev = ?7, facts_version = ?8,
        digest = ?9, seal = ?10, withheld = ?11, body = ?12, loaded_at = ?13, load = coalesce(?14, load),
        load_before = CASE
            WHEN ?14 IS NULL OR ?14 = load THEN load_before
            WHEN load < 0 AND load_before IS NOT -load THEN coalesce(load_before, 0)
            ELSE coalesce(load, 0)
        END,
        confirmed_by = CASE WHEN ?14 IS NULL THEN confirmed_by END
    WHERE shop = ?1 AND id = ?2
"""
_SETTLE_BILL = """
    UPDATE bills SET trading_day = ?3, rev = ?4, withheld = ?5, confirmed_by = ?6 WHERE shop = ?1 AND id = ?2
"""
_SETTLE_FACTS = "UPDATE bills SET facts_version = ?3, trading_day = ?4, withheld = ?5 WHERE shop = ?1 AND id = ?2"
_REMOVE_BILL = "DELETE FROM bills WHERE shop = ? AND id = ?"
_PUT_MEMBER = """
    INSERT INTO members (provider_id, token, created_at, rev, record, form) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (token) DO UPDATE SET
        provider_id = excluded.provider_id, created_at = excluded.created_at, rev = excluded.rev,
        record = excluded.record, form = excluded.form
"""
_REMOVE_MEMBER = "DELETE FROM members WHERE provider_id = ? AND token = ?"
_ADD_ACCOUNT = "INSERT INTO accounts (provider_id, hash, created_at, token, channel) VALUES (?1, ?4, ?5, ?2, ?6)"
_REMOVE_ACCOUNTS = "DELETE FROM accounts WHERE token = ?2"

# --- the store -------------------------------------------------------------------------

_HORIZON = "SELECT at FROM horizon"
_SET_HORIZON = "UPDATE horizon SET at = ?"
_FINGERPRINT = "SELECT secret_fingerprint FROM deployment"
_SET_FINGERPRINT = "INSERT INTO deployment (one, secret_fingerprint) VALUES (1, ?)"


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
                self._connection.execute(_SET_HORIZON, (now,))
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

    # --- transactions --------------------------------------------------------------

    def _reading(self) -> translated:
        return translated()

    @contextmanager
    def _unlocked(self) -> Iterator[int]:
        """Open a transaction. SQLite has only one lock, so it waits for other writers, but not long."""
        with translated(), writing(self._connection, SHORT_SEC):
            yield self._clock.now_ms()

    @contextmanager
    def _locked(self) -> Iterator[int]:
        with translated(), writing(self._connection, WAIT_SEC["books"]):
            yield self._clock.now_ms()

    def _take_stamp(self) -> int:
        stamp = max(self._clock.now_ms(), self._horizon() + 1)
        self._connection.execute(_SET_HORIZON, (stamp,))
        return stamp

    def _horizon(self) -> int:
        row: tuple[int] = self._connection.execute(_HORIZON).fetchone()
        return row[0]

    def _run(self, statement: str, **values: object) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)

    def _settle_fingerprint(self, fingerprint: str) -> None:
        with translated(), writing(self._connection, WAIT_SEC["books"]):
            row = self._connection.execute(_FINGERPRINT).fetchone()
            if not row:
                self._connection.execute(_SET_FINGERPRINT, (fingerprint,))
            elif row[0] != fingerprint:
                raise wrong_secret()

    # --- many rows -----------------------------------------------------------------

    @contextmanager
    def _opened(self, needed: NeededRows) -> Iterator[tuple[Batch, int]]:
        with self._locked() as now:
            stamp = self._take_stamp()
            shops = list(starmap(ShopRow, self._found(_SHOPS, list(zip(needed.shops)))))
            numbers = {shop.shop_id: shop.number for shop in shops}
            bills = [(numbers[shop_id], bill_id) for shop_id, bill_id in needed.bills if shop_id in numbers]
            batch = Batch(
                stamp,
                self._connection.execute(_LAST_SHOP).fetchone()[0],
                shops,
                starmap(BillRow, self._found(_BILLS, bills)),
                starmap(BaseRow, self._found(_BASES, list(zip(needed.bases)))),
                starmap(MemberRow, self._found(_MEMBERS, list(zip(needed.tokens)))),
                {row[:3]: row[3] for row in self._found(_REMOVALS, needed.removals)},
            )
            yield batch, now

    def _bodies(self, keys: Sequence[tuple[int, str]]) -> Iterator[Row]:
        return self._found(_BODIES, keys)

    def _write(self, batch: Batch) -> None:
        self._connection.executemany(_PUT_SHOP, (row.values(row.rev) for row in batch.written_shops()))
        self._note(batch)
        self._remove_bills(batch.removed_bills())
        self._add_bills(batch.added_bills())
        self._connection.executemany(_CHANGE_BILL, (row.values(row.rev) for row in batch.changed_bills()))
        self._connection.executemany(_SETTLE_BILL, (row.settled_values(row.rev) for row in batch.settled_bills()))
        self._put_members(batch)

    def _rewrite(self, bills: Sequence[BillRow]) -> None:
        with_body = [bill for bill in bills if bill.body is not None]
        without_body = [bill for bill in bills if bill.body is None]
        self._connection.executemany(_CHANGE_BILL, (bill.values(bill.rev) for bill in with_body))
        self._connection.executemany(_SETTLE_FACTS, (bill.facts_values() for bill in without_body))

    def _remove_bills(self, keys: Sequence[tuple[int, str]]) -> None:
        self._connection.executemany(_REMOVE_BILL, keys)

    def _add_bills(self, rows: Sequence[BillRow]) -> None:
        shops = {row.shop for row in rows}
        next_bill: dict[int, int] = dict(self._found(_NEXT_BILLS, list(zip(shops))))
        self._connection.executemany(_ADD_BILL, _new_bills(rows, next_bill))
        self._connection.executemany(_SET_NEXT_BILL, next_bill.items())

    def _put_members(self, batch: Batch) -> None:
        written, gone = batch.written_members(), batch.removed_members()
        self._connection.executemany(_PUT_MEMBER, (row.values(row.rev) for row in written))
        # The statement above has already moved members to their new bases, so this deletes only removed members.
        self._connection.executemany(_REMOVE_MEMBER, gone)
        replaced = [(row.provider_id, row.token) for row in written]
        self._connection.executemany(_REMOVE_ACCOUNTS, [*gone, *replaced])
        self._connection.executemany(_ADD_ACCOUNT, account_values(written))

    def _found(self, statement: str, keys: Sequence[Row]) -> Iterator[Row]:
        """Yield the rows with these keys. Unused places of the statement are NULL, which matches no key."""
        for start in range(0, len(keys), KEYS_AT_ONCE):
            asked = keys[start : start + KEYS_AT_ONCE]
            unused = [None] * len(keys[0]) * (KEYS_AT_ONCE - len(asked))
            yield from self._connection.execute(statement, [*chain.from_iterable(asked), *unused])


def _new_bills(rows: Sequence[BillRow], next_bill: dict[int, int]) -> Iterator[Row]:
    """Yield the values of `_ADD_BILL` for each bill. Increment the numbers in `next_bill`.

    For each value that is not a number, a text or a bytearray, Python's `sqlite3` looks for an adapter, which takes a
    third of the time of an insertion. So bytes are given as bytearrays, and "" stands for None.
    """
    for row in rows:
        number = next_bill[row.shop]
        next_bill[row.shop] = number + 1
        yield (
            (row.shop << SHOP_SHIFT) | number,
            row.shop,
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
            bytearray(row.body or b""),
            row.loaded_at,
            row.load,
        )
