"""Applies a batch of changes to the rows that it concerns, in memory, one change after the other.

The ledger reads those rows under the write lock, has the changes applied here,
and writes the resulting rows at the end: two round trips per batch, however
many changes it has.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from hashlib import blake2b
from typing import Any

from msgspec import Struct, json
from msgspec.structs import replace

from counterfoil.backends.postgres.rows import NO_DAY, BaseRow, BillRow, MemberRow, Outdated, Removal, ShopRow
from counterfoil.domain.bills import ClosedBill, Withheld, under_facts
from counterfoil.domain.calendar import as_number, iso
from counterfoil.domain.member_template import template_of
from counterfoil.domain.resources import Bill
from counterfoil.domain.shops import ShopFacts
from counterfoil.ports import (
    Change,
    KnownFacts,
    Outcome,
    PutBase,
    PutBill,
    PutMember,
    PutShop,
    RemoveBill,
    RemoveMember,
    RemoveShop,
)

UNSTAMPED = b'"updatedAt":null'

_bill = json.Decoder(Bill).decode
_withheld = json.Decoder(Withheld).decode
_encode = json.Encoder().encode


class Draft(Struct, frozen=True):
    """A change, with everything that can be computed before the lock is taken."""

    change: Any
    body: bytes = b""
    digest: bytes = b""
    facts: bytes = b""
    form: bytes = b""


def _drafted(change: Change) -> Draft:
    match change:
        case PutShop():
            return Draft(change, _encode(change.shop), facts=_encode(change.facts))
        case PutBill():
            body = _encode(change.closed.bill)
            return Draft(change, body, digest_of(body))
        case PutBase():
            return Draft(change, _encode(change.base))
        case PutMember():
            return Draft(change, _encode(change.record), form=template_of(change.record))
        case RemoveShop() | RemoveBill() | RemoveMember():
            return Draft(change)
    raise KeyError(change)


def drafted(changes: Sequence[Change]) -> list[Draft]:
    return [_drafted(change) for change in changes]


class Wanted(Struct):
    """Identifies the rows that a batch concerns."""

    shops: list[str]
    bills: list[tuple[str, str]]
    bases: list[str]
    tokens: list[str]
    removals: list[Removal]
    new_shops: bool


def wanted(drafts: Iterable[Draft]) -> Wanted:
    shops: dict[str, None] = {}
    bills: dict[tuple[str, str], None] = {}
    bases: dict[str, None] = {}
    tokens: dict[str, None] = {}
    removals: dict[Removal, None] = {}
    new_shops = False
    for draft in drafts:
        removal = _removal(draft.change)
        match draft.change:
            case PutShop() | RemoveShop():
                shops[removal[2]] = None
                new_shops = new_shops or isinstance(draft.change, PutShop)
            case PutBill() | RemoveBill():
                shops[removal[0]] = None
                bills[removal[0], removal[2]] = None
            case PutBase(base=base):
                bases[base.provider_id] = None
            case PutMember() | RemoveMember():
                tokens[removal[2]] = None
        if draft.change.rev is not None:
            removals[removal] = None
    return Wanted(list(shops), list(bills), list(bases), list(tokens), list(removals), new_shops)


def _removal(change: Change) -> Removal:
    match change:
        case PutShop():
            return "", "shop", change.shop.shop_id
        case RemoveShop():
            return "", "shop", change.shop_id
        case PutBill():
            return change.closed.bill.shop_id, "bill", change.closed.bill.id
        case RemoveBill():
            return change.shop_id, "bill", change.bill_id
        case PutMember():
            return "", "member", change.record.token
        case RemoveMember():
            return "", "member", change.token
        case PutBase():
            return "", "base", change.base.provider_id


class Batch:
    """The rows as they were under the lock, and as the changes leave them."""

    def __init__(
        self,
        stamp: int,
        last_shop: int,
        shops: Iterable[ShopRow],
        bills: Iterable[BillRow],
        bases: Iterable[BaseRow],
        members: Iterable[MemberRow],
        removals: Mapping[Removal, float | None],
    ) -> None:
        self.stamp = stamp
        self._last_shop = last_shop
        self.shops = {row.shop_id: row for row in shops}
        self.bills = {(row.shop, row.bill_id): row for row in bills}
        self.bases = {row.provider_id: row for row in bases}
        # If a loader died while it moved a member, the member is in two bases; the last row passed in counts.
        stored = list(members)
        self.members = {row.token: row for row in stored}
        self._removals = dict(removals)
        self.remembered: dict[Removal, float] = {}
        self._stored_bills = set(self.bills)
        self._stored_members = {(row.provider_id, row.token) for row in stored}
        self._apply: dict[type, Callable[[Draft, Any], Outcome]] = {
            PutShop: self._put_shop,
            RemoveShop: self._remove_shop,
            PutBase: self._put_base,
            PutMember: self._put_member,
            RemoveMember: self._remove_member,
            PutBill: self._put_bill,
            RemoveBill: self._remove_bill,
        }

    def apply(self, draft: Draft) -> Outcome:
        return self._apply[type(draft.change)](draft, draft.change)

    # --- rows to write -----------------------------------------------------------

    def written_bills(self) -> list[BillRow]:
        return [row for row in self.bills.values() if row.body is not None]

    def settled_bills(self) -> list[BillRow]:
        return [row for row in self.bills.values() if row.settled and row.body is None]

    def removed_bills(self) -> list[tuple[int, str]]:
        return [place for place in self._stored_bills if place not in self.bills]

    def written_shops(self) -> list[ShopRow]:
        return [row for row in self.shops.values() if row.dirty]

    def written_bases(self) -> list[BaseRow]:
        return [row for row in self.bases.values() if row.dirty]

    def written_members(self) -> list[MemberRow]:
        return [row for row in self.members.values() if row.record is not None]

    def removed_members(self) -> list[tuple[str, str]]:
        """Return members that were removed, and the old rows of members that moved to another base."""
        return [
            (provider_id, token)
            for provider_id, token in self._stored_members
            if token not in self.members or self.members[token].provider_id != provider_id
        ]

    # --- shops -------------------------------------------------------------------

    def _put_shop(self, draft: Draft, change: PutShop) -> Outcome:
        shop, known = change.shop, self.shops.get(change.shop.shop_id)
        if known is None:
            if self._removed_since(change):
                return Outcome.LATE
            self._last_shop += 1
            self.shops[shop.shop_id] = ShopRow(
                self._last_shop,
                shop.shop_id,
                shop.franchise_id,
                shop.provider_id,
                removed=False,
                rev=change.rev,
                facts_version=1,
                applied_version=1,
                facts=draft.facts,
                body=draft.body,
                dirty=True,
            )
            return Outcome.ADDED
        if _is_late(change.rev, known.rev):
            return Outcome.LATE
        if (known.body, known.facts, known.removed, known.rev) == (draft.body, draft.facts, False, change.rev):
            return Outcome.UNCHANGED
        known.facts_version += known.facts != draft.facts
        known.franchise_id, known.provider_id = shop.franchise_id, shop.provider_id
        known.removed, known.rev, known.facts, known.body, known.dirty = (
            False,
            change.rev,
            draft.facts,
            draft.body,
            True,
        )
        return Outcome.CHANGED

    def _remove_shop(self, _: Draft, change: RemoveShop) -> Outcome:
        known = self.shops.get(change.shop_id)
        if known is None:
            self._remember_removal(change)
            return Outcome.UNCHANGED
        if known.removed:
            if change.rev is not None and not _is_late(change.rev, known.rev):
                known.rev, known.dirty = change.rev, True
            return Outcome.UNCHANGED
        if _is_late(change.rev, known.rev):
            return Outcome.LATE
        known.removed, known.rev, known.dirty = True, change.rev, True
        return Outcome.REMOVED

    # --- removals ----------------------------------------------------------------

    def _remember_removal(self, change: Change) -> None:
        if change.rev is None:
            return
        removal = _removal(change)
        known = self._removals.get(removal)
        if known is None or known < change.rev:
            self._removals[removal] = self.remembered[removal] = change.rev

    def _removed_since(self, change: Change) -> bool:
        """Return whether a record that is not stored was removed at a later revision than this."""
        return _is_late(change.rev, self._removals.get(_removal(change)))

    # --- bills -------------------------------------------------------------------

    def _put_bill(self, draft: Draft, change: PutBill) -> Outcome:
        closed, bill = change.closed, change.closed.bill
        shop = self.shops.get(bill.shop_id)
        if shop is None:
            return Outcome.UNKNOWN_SHOP
        if shop.facts_version != change.known.version:
            return Outcome.FACTS_MOVED
        known = self.bills.get((shop.number, bill.id))
        if known is None:
            if self._removed_since(change):
                return Outcome.LATE
            stamp = None if closed.history else self.stamp
            self._write(shop.number, closed, change.known, draft.body, draft.digest, change.rev, stamp)
            return Outcome.ADDED
        if _is_late(change.rev, known.rev):
            return Outcome.LATE
        if draft.digest == known.digest:
            settled = (_day_text(closed.trading_day), change.rev, _withheld_json(closed))
            known.settled = known.settled or settled != (known.trading_day, known.rev, known.withheld)
            known.trading_day, known.rev, known.withheld = settled
            return Outcome.UNCHANGED
        self._write(shop.number, closed, change.known, draft.body, draft.digest, change.rev, self.stamp)
        return Outcome.CHANGED

    def _write(
        self,
        shop: int,
        closed: ClosedBill,
        known: KnownFacts,
        body: bytes,
        digest: bytes,
        rev: float | None,
        stamp: int | None,
    ) -> None:
        self.bills[shop, closed.bill.id] = BillRow(
            shop,
            closed.bill.id,
            _day_text(closed.trading_day),
            rev,
            digest,
            _day_number(closed.bill.bill_date),
            closed.closed_at,
            stamp,
            known.version,
            _withheld_json(closed),
            body if stamp is None else stamped(body, stamp, known.facts),
        )

    def _remove_bill(self, _: Draft, change: RemoveBill) -> Outcome:
        shop = self.shops.get(change.shop_id)
        known = self.bills.get((shop.number, change.bill_id)) if shop else None
        if known and _is_late(change.rev, known.rev):
            return Outcome.LATE
        self._remember_removal(change)
        if not known:
            return Outcome.UNCHANGED
        del self.bills[known.shop, change.bill_id]
        return Outcome.REMOVED

    # --- membership --------------------------------------------------------------

    def _put_base(self, draft: Draft, change: PutBase) -> Outcome:
        known = self.bases.get(change.base.provider_id)
        if known and _is_late(change.rev, known.rev):
            return Outcome.LATE
        if known and (known.rev, known.body) == (change.rev, draft.body):
            return Outcome.UNCHANGED
        self.bases[change.base.provider_id] = BaseRow(change.base.provider_id, change.rev, draft.body, dirty=True)
        return Outcome.CHANGED if known else Outcome.ADDED

    def _put_member(self, draft: Draft, change: PutMember) -> Outcome:
        record = change.record
        known = self.members.get(record.token)
        if known and _is_late(change.rev, known.rev):
            return Outcome.LATE
        same = known and (known.rev, known.kept) == (change.rev, draft.body)
        if known and same and known.form == draft.form:
            return Outcome.UNCHANGED
        if not known and self._removed_since(change):
            return Outcome.LATE
        row = MemberRow(record.provider_id, record.token, change.rev, draft.body, draft.form, record)
        self.members[record.token] = row
        if same:
            return Outcome.UNCHANGED
        return Outcome.CHANGED if known else Outcome.ADDED

    def _remove_member(self, _: Draft, change: RemoveMember) -> Outcome:
        known = self.members.get(change.token)
        if known and _is_late(change.rev, known.rev):
            return Outcome.LATE
        self._remember_removal(change)
        if not known:
            return Outcome.UNCHANGED
        del self.members[change.token]
        return Outcome.REMOVED


def rewritten(row: Outdated, shop: int, known: KnownFacts, stamp: int) -> BillRow:
    """Return the bill under its shop's new facts; it has a body, newly stamped, only if the body changes."""
    stored = ClosedBill(
        bill=_bill(row.body),
        closed_at=row.closed_at,
        trading_day=date.fromisoformat(row.trading_day) if row.trading_day else None,
        history=False,
        withheld=_withheld(row.withheld) if row.withheld else None,
    )
    closed = under_facts(stored, known.facts)
    written_at = None if row.updated_at is None else iso(row.updated_at, known.facts.zone())
    as_it_was = _encode(replace(closed.bill, updated_at=written_at)) == row.body
    plain = b"" if as_it_was else _encode(replace(closed.bill, updated_at=None))
    return BillRow(
        shop,
        row.bill_id,
        _day_text(closed.trading_day),
        row.rev,
        digest_of(plain),
        _day_number(closed.bill.bill_date),
        closed.closed_at,
        stamp,
        known.version,
        _withheld_json(closed),
        None if as_it_was else stamped(plain, stamp, known.facts),
    )


def stamped(body: bytes, stamp: int, facts: ShopFacts) -> bytes:
    """Return the body with `updatedAt` set. Quotes in values are escaped, so the first match is the field."""
    updated_at = iso(stamp, facts.zone()).encode()
    return body.replace(UNSTAMPED, b'"updatedAt":"%b"' % updated_at, 1)


def digest_of(unstamped: bytes) -> bytes:
    return blake2b(unstamped, digest_size=16).digest()


def _withheld_json(closed: ClosedBill) -> bytes | None:
    return None if closed.withheld is None else _encode(closed.withheld)


def _is_late(rev: float | None, known: float | None) -> bool:
    return rev is not None and known is not None and rev < known


def _day_text(day: date | None) -> str | None:
    return day.isoformat() if day else None


def _day_number(bill_date: str | None) -> int:
    return as_number(date.fromisoformat(bill_date)) if bill_date else NO_DAY
