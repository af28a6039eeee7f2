"""The write side of the books, used by loaders and by the ticker that advances the horizon.

A transaction takes its stamp under the write lock, above every horizon given
out, and moves the horizon to it. So a row with a stamp never becomes visible
later than a horizon at or above that stamp, whatever the clock does and
whenever a process dies.
"""

import sqlite3
from collections.abc import Callable, Sequence
from datetime import date
from hashlib import blake2b
from pathlib import Path
from typing import Any

from msgspec import json
from msgspec.structs import replace

from counterfoil.backends.sqlite.files import WAIT_SEC, checkpoint, read_write, translated, writing
from counterfoil.backends.sqlite.membership import Membership
from counterfoil.backends.sqlite.removals import Removals, is_late
from counterfoil.domain.bills import ClosedBill, Withheld, under_facts
from counterfoil.domain.calendar import as_number, iso
from counterfoil.domain.resources import Bill
from counterfoil.domain.shops import ShopFacts
from counterfoil.ports import (
    Change,
    Clock,
    KnownFacts,
    LoadProgress,
    Outcome,
    PutBase,
    PutBill,
    PutMember,
    PutShop,
    RemoveBill,
    RemoveMember,
    RemoveShop,
    StoreMismatch,
)

# Each shop numbers its bills in a range of its own, with room for a trillion bills.
SHOP_SHIFT = 40
NO_DAY = 0
UNSTAMPED = b'"updatedAt":null'

_HORIZON = "SELECT at FROM horizon"
_SET_HORIZON = "UPDATE horizon SET at = ?"

_SHOP = "SELECT number, removed, rev, next_bill, facts_version, facts, body FROM shops WHERE id = ?"
_ADD_SHOP = """
    INSERT INTO shops
        (id, franchise_id, provider_id, removed, rev, next_bill, facts_version, applied_version, facts, body)
    VALUES (?, ?, ?, 0, ?, 1, 1, 1, ?, ?)
"""
_CHANGE_SHOP = """
    UPDATE shops SET franchise_id = ?, provider_id = ?, removed = 0, rev = ?, facts_version = ?, facts = ?, body = ?
    WHERE number = ?
"""
_REMOVE_SHOP = "UPDATE shops SET removed = 1, rev = ? WHERE number = ?"
_FACTS = "SELECT facts_version, facts FROM shops WHERE id = ?"
_NEXT_BILL = "UPDATE shops SET next_bill = ? WHERE number = ?"

_BILL = "SELECT number, trading_day, rev, withheld, digest FROM bills WHERE id = ? AND shop = ?"
_ADD_BILL = """
    INSERT INTO bills
        (number, shop, id, bill_day, closed_at, updated_at, trading_day, rev, facts_version, digest, seal, withheld,
        body)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_CHANGE_BILL = """
    UPDATE bills SET bill_day = ?, closed_at = ?, updated_at = ?, trading_day = ?, rev = ?, facts_version = ?,
        digest = ?, seal = ?, withheld = ?, body = ?
    WHERE number = ?
"""
_SETTLE_BILL = "UPDATE bills SET trading_day = ?, rev = ?, withheld = ? WHERE number = ?"
_SETTLE_FACTS = "UPDATE bills SET facts_version = ?, trading_day = ?, withheld = ? WHERE number = ?"
_REMOVE_BILL = "DELETE FROM bills WHERE number = ?"

_TO_REWRITE = "SELECT number, facts_version, facts FROM shops WHERE applied_version < facts_version LIMIT 1"
_OUTDATED_BILLS = """
    SELECT number, closed_at, updated_at, trading_day, rev, withheld, body FROM bills
    WHERE number BETWEEN ? AND ? AND facts_version < ? ORDER BY number LIMIT ?
"""
_REWRITTEN = "UPDATE shops SET applied_version = ? WHERE number = ?"

_BEGIN_LOAD = "INSERT INTO loads (source, started_at, seen_at) VALUES (?, ?, ?)"
_SAVE_LOAD = "UPDATE loads SET seen_at = ?, lines = ?, changed = ?, rejected = ?, finished_at = ? WHERE number = ?"
_FORGET_LOADS = "DELETE FROM loads WHERE number <= ? - 100"

_FINGERPRINT = "SELECT secret_fingerprint FROM deployment"
_SET_FINGERPRINT = "INSERT INTO deployment (one, secret_fingerprint) VALUES (1, ?)"

_facts = json.Decoder(ShopFacts).decode
_bill = json.Decoder(Bill).decode
_withheld = json.Decoder(Withheld).decode
_encode = json.Encoder().encode


class SqliteLedger:
    """The write side of `books.sqlite3`."""

    def __init__(self, folder: Path, clock: Clock, fingerprint: str) -> None:
        self._clock = clock
        self._connection: sqlite3.Connection = read_write(folder, "books")
        self._removals = Removals(self._connection)
        self._membership = Membership(self._connection, self._removals)
        self._shops: dict[str, _OpenShop | None] = {}
        self._rewritten: dict[tuple[int, int], int] = {}
        self._stamp = 0
        self._apply_one: dict[type, Callable[[Any], Outcome]] = {
            PutShop: self._put_shop,
            RemoveShop: self._remove_shop,
            PutBase: self._membership.put_base,
            PutMember: self._membership.put_member,
            RemoveMember: self._membership.remove_member,
            PutBill: self._put_bill,
            RemoveBill: self._remove_bill,
        }
        self._settle_fingerprint(fingerprint)

    def close(self) -> None:
        self._connection.close()

    def facts(self, shop_id: str) -> KnownFacts | None:
        with translated():
            row = self._connection.execute(_FACTS, (shop_id,)).fetchone()
        return KnownFacts(row[0], _facts(row[1])) if row else None

    def begin_load(self, source: str) -> LoadProgress:
        now = self._clock.now_ms()
        with translated(), writing(self._connection, WAIT_SEC["books"]):
            number = self._connection.execute(_BEGIN_LOAD, (source, now, now)).lastrowid or 0
            self._connection.execute(_FORGET_LOADS, (number,))
        return LoadProgress(number)

    def apply(self, changes: Sequence[Change], progress: LoadProgress | None = None) -> list[Outcome]:
        with translated(), writing(self._connection, WAIT_SEC["books"]):
            self._take_stamp()
            outcomes = [self._apply_one[type(change)](change) for change in changes]
            self._close_shops()
            if progress:
                self._save(progress)
            return outcomes

    def rewrite_bills(self, most: int) -> bool:
        with translated(), writing(self._connection, WAIT_SEC["books"]):
            shop = self._connection.execute(_TO_REWRITE).fetchone()
            if not shop:
                return False
            self._take_stamp()
            number, version, facts = shop
            known = KnownFacts(version, _facts(facts))
            # Bills up to the last one rewritten are done; after a restart the shop is read from its first bill again.
            first = max(number << SHOP_SHIFT, self._rewritten.get((number, version), 0))
            last = ((number + 1) << SHOP_SHIFT) - 1
            rows = self._connection.execute(_OUTDATED_BILLS, (first, last, version, most)).fetchall()
            for row in rows:
                self._rewrite_bill(row, known)
            if len(rows) < most:
                self._connection.execute(_REWRITTEN, (version, number))
        # Remember the progress only after the commit, because a failed transaction rewrites nothing.
        if len(rows) == most:
            self._rewritten[number, version] = rows[-1][0]
        return True

    def advance_horizon(self) -> int:
        with translated(), writing(self._connection, WAIT_SEC["books"]):
            horizon = self._horizon()
            now = self._clock.now_ms()
            if now > horizon:
                self._connection.execute(_SET_HORIZON, (now,))
            return max(now, horizon)

    def checkpoint(self) -> None:
        checkpoint(self._connection)

    # --- stamps ------------------------------------------------------------------

    def _horizon(self) -> int:
        row: tuple[int] = self._connection.execute(_HORIZON).fetchone()
        return row[0]

    def _take_stamp(self) -> None:
        """Take this transaction's stamp: now, or just above the horizon if the clock has stepped back."""
        self._shops.clear()  # a failed transaction may have left some here
        self._stamp = max(self._clock.now_ms(), self._horizon() + 1)
        self._connection.execute(_SET_HORIZON, (self._stamp,))

    def _save(self, progress: LoadProgress) -> None:
        now = self._clock.now_ms()
        finished_at = now if progress.finished else None
        self._connection.execute(
            _SAVE_LOAD, (now, progress.lines, progress.changed, progress.rejected, finished_at, progress.number)
        )

    def _settle_fingerprint(self, fingerprint: str) -> None:
        with translated(), writing(self._connection, WAIT_SEC["books"]):
            row = self._connection.execute(_FINGERPRINT).fetchone()
            if not row:
                self._connection.execute(_SET_FINGERPRINT, (fingerprint,))
            elif row[0] != fingerprint:
                raise StoreMismatch(
                    "the deployment secret is not the one this store was built with: member tokens would change. "
                    "Give the right secret, or load into an empty store."
                )

    # --- shops -------------------------------------------------------------------

    def _open_shop(self, shop_id: str) -> "_OpenShop | None":
        """Return the shop's row, which is read once per transaction."""
        if shop_id not in self._shops:
            row = self._connection.execute(_SHOP, (shop_id,)).fetchone()
            self._shops[shop_id] = _OpenShop(*row) if row else None
        return self._shops[shop_id]

    def _close_shops(self) -> None:
        for shop in self._shops.values():
            if shop and shop.sold:
                self._connection.execute(_NEXT_BILL, (shop.next_bill, shop.number))
        self._shops.clear()

    def _put_shop(self, change: PutShop) -> Outcome:
        shop, body, facts = change.shop, _encode(change.shop), _encode(change.facts)
        self._close_shops()
        known = self._open_shop(shop.shop_id)
        self._shops.clear()
        if known is None:
            if self._removals.since(change.rev, "shop", "", shop.shop_id):
                return Outcome.LATE
            self._connection.execute(
                _ADD_SHOP, (shop.shop_id, shop.franchise_id, shop.provider_id, change.rev, facts, body)
            )
            return Outcome.ADDED
        if is_late(change.rev, known.rev):
            return Outcome.LATE
        if (known.body, known.facts, known.removed, known.rev) == (body, facts, 0, change.rev):
            return Outcome.UNCHANGED
        version = known.facts_version + (known.facts != facts)
        self._connection.execute(
            _CHANGE_SHOP, (shop.franchise_id, shop.provider_id, change.rev, version, facts, body, known.number)
        )
        return Outcome.CHANGED

    def _remove_shop(self, change: RemoveShop) -> Outcome:
        self._close_shops()
        known = self._open_shop(change.shop_id)
        self._shops.clear()
        if known is None:
            self._removals.remember(change.rev, "shop", "", change.shop_id)
            return Outcome.UNCHANGED
        if known.removed:
            if change.rev is not None and not is_late(change.rev, known.rev):
                self._connection.execute(_REMOVE_SHOP, (change.rev, known.number))
            return Outcome.UNCHANGED
        if is_late(change.rev, known.rev):
            return Outcome.LATE
        self._connection.execute(_REMOVE_SHOP, (change.rev, known.number))
        return Outcome.REMOVED

    # --- bills -------------------------------------------------------------------

    def _put_bill(self, change: PutBill) -> Outcome:
        closed, bill = change.closed, change.closed.bill
        shop = self._open_shop(bill.shop_id)
        if shop is None:
            return Outcome.UNKNOWN_SHOP
        if shop.facts_version != change.known.version:
            return Outcome.FACTS_MOVED
        body = _encode(bill)
        digest = _digest(body)
        known = self._connection.execute(_BILL, (bill.id, shop.number)).fetchone()
        if known is None:
            if self._removals.since(change.rev, "bill", bill.shop_id, bill.id):
                return Outcome.LATE
            self._add_bill(shop, change, body, digest)
            return Outcome.ADDED
        number, trading_day, rev, withheld, known_digest = known
        if is_late(change.rev, rev):
            return Outcome.LATE
        if digest == known_digest:
            settled = (_day_text(closed.trading_day), change.rev, _withheld_json(closed))
            if settled != (trading_day, rev, withheld):
                self._connection.execute(_SETTLE_BILL, (*settled, number))
            return Outcome.UNCHANGED
        self._write_bill(number, closed, change.known, body, change.rev)
        return Outcome.CHANGED

    def _add_bill(self, shop: "_OpenShop", change: PutBill, body: bytes, digest: bytes) -> None:
        closed = change.closed
        stamp = None if closed.history else self._stamp
        finished = body if closed.history else self._stamped(change.known.facts, body)
        self._connection.execute(
            _ADD_BILL,
            (
                (shop.number << SHOP_SHIFT) | shop.next_bill,
                shop.number,
                closed.bill.id,
                _day_number(closed.bill.bill_date),
                closed.closed_at,
                stamp,
                _day_text(closed.trading_day),
                change.rev,
                change.known.version,
                digest,
                _seal(finished),
                _withheld_json(closed),
                finished,
            ),
        )
        shop.next_bill += 1
        shop.sold = True

    def _write_bill(self, number: int, closed: ClosedBill, known: KnownFacts, body: bytes, rev: float | None) -> None:
        finished = self._stamped(known.facts, body)
        self._connection.execute(
            _CHANGE_BILL,
            (
                _day_number(closed.bill.bill_date),
                closed.closed_at,
                self._stamp,
                _day_text(closed.trading_day),
                rev,
                known.version,
                _digest(body),
                _seal(finished),
                _withheld_json(closed),
                finished,
                number,
            ),
        )

    def _stamped(self, facts: ShopFacts, body: bytes) -> bytes:
        """Return the body with `updatedAt` set. Quotes in values are escaped, so the first match is the field."""
        updated_at = iso(self._stamp, facts.zone()).encode()
        return body.replace(UNSTAMPED, b'"updatedAt":"%b"' % updated_at, 1)

    def _remove_bill(self, change: RemoveBill) -> Outcome:
        shop = self._open_shop(change.shop_id)
        known = shop and self._connection.execute(_BILL, (change.bill_id, shop.number)).fetchone()
        if known and is_late(change.rev, known[2]):
            return Outcome.LATE
        self._removals.remember(change.rev, "bill", change.shop_id, change.bill_id)
        if not known:
            return Outcome.UNCHANGED
        self._connection.execute(_REMOVE_BILL, (known[0],))
        return Outcome.REMOVED

    def _rewrite_bill(self, row: tuple[Any, ...], known: KnownFacts) -> None:
        """Rewrite a bill under its shop's new facts; stamp it only if its body changes."""
        number, closed_at, updated_at, trading_day, rev, withheld, body = row
        stored = ClosedBill(
            bill=_bill(body),
            closed_at=closed_at,
            trading_day=date.fromisoformat(trading_day) if trading_day else None,
            history=False,
            withheld=_withheld(withheld) if withheld else None,
        )
        closed = under_facts(stored, known.facts)
        written_at = None if updated_at is None else iso(updated_at, known.facts.zone())
        if _encode(replace(closed.bill, updated_at=written_at)) == body:
            settled = (known.version, _day_text(closed.trading_day), _withheld_json(closed))
            self._connection.execute(_SETTLE_FACTS, (*settled, number))
            return
        self._write_bill(number, closed, known, _encode(replace(closed.bill, updated_at=None)), rev)


class _OpenShop:
    """A shop's row while a transaction writes its bills."""

    __slots__ = ("body", "facts", "facts_version", "next_bill", "number", "removed", "rev", "sold")

    def __init__(
        self,
        number: int,
        removed: int,
        rev: float | None,
        next_bill: int,
        facts_version: int,
        facts: bytes,
        body: bytes,
    ) -> None:
        self.number = number
        self.removed = removed
        self.rev = rev
        self.next_bill = next_bill
        self.facts_version = facts_version
        self.facts = facts
        self.body = body
        self.sold = False


def _digest(unstamped: bytes) -> bytes:
    return blake2b(unstamped, digest_size=16).digest()


def _seal(finished: bytes) -> bytes:
    return blake2b(finished, digest_size=8).digest()


def _withheld_json(closed: ClosedBill) -> bytes | None:
    return None if closed.withheld is None else _encode(closed.withheld)


def _day_text(day: date | None) -> str | None:
    return day.isoformat() if day else None


def _day_number(bill_date: str | None) -> int:
    return as_number(date.fromisoformat(bill_date)) if bill_date else NO_DAY
