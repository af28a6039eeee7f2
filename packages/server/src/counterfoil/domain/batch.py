"""Applies a batch of changes, one after the other, to the rows that they affect.

A ledger reads those rows under the write lock, calls this module to apply the changes in memory, and then writes the
changed rows. Everything that does not depend on the rows is computed before the lock is taken.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date
from functools import lru_cache
from typing import Any, ClassVar

from msgspec import Struct, json
from msgspec.structs import replace

from counterfoil.domain.bills import ClosedBill, Withheld, under_facts
from counterfoil.domain.changes import (
    SEVERAL_LOADS,
    BaseRow,
    BillRow,
    Change,
    EncodedBill,
    KnownFacts,
    MemberRow,
    Outcome,
    OutdatedBill,
    PutBase,
    PutMember,
    PutShop,
    RecordKey,
    Removal,
    SetShop,
    ShopRow,
    put_bill,
)
from counterfoil.domain.forgetting import mark_of, without_member
from counterfoil.domain.replacements import ReplacementGuard, may_be_replaced
from counterfoil.domain.shops import (
    ShopFacts,
    as_stored,
    settings_kept,
    shop_under,
    with_base,
    with_settings,
    without_settings,
    zone_of,
)
from counterfoil.model.calendar import iso
from counterfoil.model.resources import Bill, Shop

UNSTAMPED = b'"updatedAt":null'

_bill = json.Decoder(Bill).decode
_facts = json.Decoder(ShopFacts).decode
_shop = json.Decoder(Shop).decode
_withheld = json.Decoder(Withheld).decode
_encode = json.Encoder().encode


class NeededRows(Struct):
    """The keys of the rows that a batch needs, without duplicates. `new_shops` is true if it may add shops."""

    shops: list[str]
    bills: list[tuple[str, str]]
    bases: list[str]
    tokens: list[str]
    removals: list[RecordKey]
    new_shops: bool


def needed_rows(changes: Sequence[Change]) -> NeededRows:
    """Return the keys of the rows that changes affect, each once, in the order of the changes."""
    # These dictionaries are ordered sets.
    shops: dict[str, None] = {}
    bills: dict[tuple[str, str], None] = {}
    bases: dict[str, None] = {}
    tokens: dict[str, None] = {}
    removed_bills: dict[tuple[str, str], None] = {}
    removals: dict[RecordKey, None] = {}
    has_new_shops = False
    for change in changes:
        if change.rev is not None:
            removals[change.key] = None
        if type(change) is EncodedBill:
            bills[change.shop_id, change.bill_id] = None
            continue
        shop_id, kind, record_id = change.key
        if kind == "shop":
            shops[record_id] = None
            has_new_shops = has_new_shops or isinstance(change, PutShop)
        elif kind == "bill":
            removed_bills[shop_id, record_id] = None
        elif kind == "base":
            bases[record_id] = None
        else:
            tokens[record_id] = None
    bills |= removed_bills
    shops |= dict.fromkeys([shop_id for shop_id, _ in bills])
    return NeededRows(list(shops), list(bills), list(bases), list(tokens), list(removals), has_new_shops)


class Batch:
    """The rows that were read under the lock, with the changes applied to them."""

    def __init__(
        self,
        stamp: int,
        last_shop: int,
        shops: Iterable[ShopRow],
        bills: Iterable[BillRow],
        bases: Iterable[BaseRow],
        members: Iterable[MemberRow],
        removals: Mapping[RecordKey, float | None],
    ) -> None:
        self.stamp = stamp
        # The number of the load, or 0 if it has none.
        self.load = 0
        # The marks of the members that were forgotten.
        self.forgotten: Collection[str] = ()
        self._last_shop = last_shop
        self.shops = {row.shop_id: row for row in shops}
        self.bills = {(row.shop, row.bill_id): row for row in bills}
        self.bases = {row.provider_id: row for row in bases}
        # If a load was killed while it moved a member, two bases have a row for it. The last is the current one.
        stored = list(members)
        self.members = {row.token: row for row in stored}
        self._removals = dict(removals)
        self.remembered: dict[RecordKey, float] = {}
        self._stored_bills = set(self.bills)
        self._stored_days = {key: row.bill_day for key, row in self.bills.items()}
        self._stored_franchises = {row.number: row.franchise_id for row in self.shops.values()}
        self._stored_members = {(row.provider_id, row.token) for row in stored}
        self._guard: ReplacementGuard | None = None
        self._bodies: dict[tuple[int, str], bytes] = {}

    def bills_to_compare(self, changes: Iterable[Change]) -> list[tuple[int, str]]:
        """Return the stored bills that the changes may replace, so that their bodies are needed for `compare_with`."""
        if not self.bills:
            return []
        numbers = {row.shop_id: row.number for row in self.shops.values()}
        found: dict[tuple[int, str], None] = {}
        for change in changes:
            if not isinstance(change, EncodedBill):
                continue
            key = numbers.get(change.shop_id, 0), change.bill_id
            known = self.bills.get(key)
            if known and may_be_replaced(known, change):
                found[key] = None
        return list(found)

    def compare_with(self, guard: ReplacementGuard, bodies: Iterable[tuple[int, str, bytes]]) -> None:
        """Let the guard see which bills would be replaced, given the bodies of those that are stored."""
        self._guard = guard
        self._bodies = {(shop, bill_id): body for shop, bill_id, body in bodies}

    def apply(self, changes: Iterable[Change]) -> list[Outcome]:
        """Apply the changes in memory, and return their outcomes."""
        outcomes = []
        for change in changes:
            if isinstance(change, EncodedBill):
                outcomes.append(self._put_bill(change))
            else:
                apply = self._APPLY[type(change), change.key[1]]
                outcomes.append(apply(self, change))
        return outcomes

    # --- rows to write -----------------------------------------------------------

    def added_bills(self) -> list[BillRow]:
        return [row for key, row in self.bills.items() if row.body is not None and key not in self._stored_bills]

    def changed_bills(self) -> list[BillRow]:
        return [row for key, row in self.bills.items() if row.body is not None and key in self._stored_bills]

    def settled_bills(self) -> list[BillRow]:
        return [row for row in self.bills.values() if row.settled and row.body is None]

    def removed_bills(self) -> list[tuple[int, str]]:
        return [key for key in self._stored_bills if key not in self.bills]

    def written_shops(self) -> list[ShopRow]:
        return [row for row in self.shops.values() if row.dirty]

    def relisted_shops(self) -> list[ShopRow]:
        """Return the shops whose published entry has changed, appeared or disappeared."""
        return [row for row in self.shops.values() if row.relisted]

    def touched_shops(self) -> list[int]:
        """Return the numbers of the shops whose bills were written or removed."""
        shops = {shop for shop, _ in self.removed_bills()}
        for row in self.bills.values():
            if row.body is not None:
                shops.add(row.shop)
        return sorted(shops)

    def stale_days(self) -> list[tuple[int, int]]:
        """Return pairs of shop number and day for the days whose bills were written, moved or removed."""
        days = {(row.shop, row.bill_day) for row in self.bills.values() if row.body is not None}
        for key, stored_day in self._stored_days.items():
            row = self.bills.get(key)
            if row is None or row.body is not None:
                days.add((key[0], stored_day))
        return sorted(days)

    def departures(self) -> list[tuple[str, int]]:
        """Return the franchise and the shop number for each shop that left a franchise."""
        left = []
        for shop in self.shops.values():
            before = self._stored_franchises.get(shop.number)
            if before is not None and before != shop.franchise_id:
                left.append((before, shop.number))
        return left

    def written_bases(self) -> list[BaseRow]:
        return [row for row in self.bases.values() if row.dirty]

    def written_members(self) -> list[MemberRow]:
        return [row for row in self.members.values() if row.record is not None]

    def removed_members(self) -> list[tuple[str, str]]:
        """Return the removed members, and the old rows of members that moved to another base."""
        return [
            (provider_id, token)
            for provider_id, token in self._stored_members
            if token not in self.members or self.members[token].provider_id != provider_id
        ]

    # --- shops -------------------------------------------------------------------

    def _put_shop(self, change: PutShop) -> Outcome:
        shop, known = change.shop, self.shops.get(change.shop.shop_id)
        if known is None:
            if self._removed_since(change.key, change.rev):
                return Outcome.LATE
            self._last_shop += 1
        elif _is_late(change.rev, known.rev):
            return Outcome.LATE
        if known:
            change = _with_kept_settings(change, known.facts)
            shop = change.shop
        delivered = (change.body, change.facts_body, False, change.rev)
        if known and (known.body, known.facts, known.removed, known.rev) == delivered:
            return Outcome.UNCHANGED
        self.shops[shop.shop_id] = ShopRow(
            known.number if known else self._last_shop,
            shop.shop_id,
            shop.franchise_id,
            shop.provider_id,
            removed=False,
            rev=change.rev,
            facts_version=known.facts_version + _affects_bills(known.facts, change.facts_body) if known else 1,
            applied_version=known.applied_version if known else 1,
            facts=change.facts_body,
            body=change.body,
            dirty=True,
            relisted=known is None or known.relisted or known.removed or known.body != change.body,
        )
        return Outcome.CHANGED if known else Outcome.ADDED

    def _set_shop(self, change: SetShop) -> Outcome:
        known = self.shops.get(change.shop_id)
        if known is None or known.removed:
            return Outcome.UNKNOWN_SHOP
        shop = _shop(known.body)
        facts = with_base(_facts(known.facts), shop.provider_id)
        facts = with_settings(without_settings(facts, change.reset), change.settings)
        facts_body, body = _encode(as_stored(facts)), _encode(shop_under(facts, shop))
        if facts_body == known.facts:
            return Outcome.UNCHANGED
        known.facts_version += _affects_bills(known.facts, facts_body)
        known.franchise_id, known.provider_id = facts.franchise_id, facts.provider_id
        known.relisted = known.relisted or known.body != body
        known.facts, known.body, known.dirty = facts_body, body, True
        return Outcome.CHANGED

    def _remove_shop(self, change: Removal) -> Outcome:
        known = self.shops.get(change.key[2])
        if known is None:
            self._remember(change)
            return Outcome.UNCHANGED
        if known.removed:
            if change.rev is not None and not _is_late(change.rev, known.rev):
                known.rev, known.dirty = change.rev, True
            return Outcome.UNCHANGED
        if _is_late(change.rev, known.rev):
            return Outcome.LATE
        known.removed, known.rev, known.dirty, known.relisted = True, change.rev, True, True
        return Outcome.REMOVED

    # --- removals ----------------------------------------------------------------

    def _remember(self, removal: Removal) -> None:
        key, rev, known = removal.key, removal.rev, self._removals.get(removal.key)
        if rev is not None and (known is None or known < rev):
            self._removals[key] = self.remembered[key] = rev

    def _removed_since(self, key: RecordKey, rev: float | None) -> bool:
        """Return whether the record was removed with a higher revision than `rev`."""
        return _is_late(rev, self._removals.get(key))

    # --- bills -------------------------------------------------------------------

    def _put_bill(self, change: EncodedBill) -> Outcome:
        if self.forgotten:
            change = without_member(change, self.forgotten)
        shop = self.shops.get(change.shop_id)
        if shop is None:
            return Outcome.UNKNOWN_SHOP
        if shop.facts_version != change.facts_version:
            return Outcome.FACTS_MOVED
        key = shop.number, change.bill_id
        known = self.bills.get(key)
        if known is None:
            if self._removals and self._removed_since(change.key, change.rev):
                return Outcome.LATE
            row = _written(shop.number, change, None if change.history else self.stamp, self.load)
            if change.history:
                row.loaded_at = self.stamp
            self.bills[key] = row
            return Outcome.ADDED
        if _is_late(change.rev, known.rev):
            return Outcome.LATE
        if change.digest == known.digest:
            settled = (change.trading_day, change.rev, change.withheld, self._confirmed(known))
            known.settled = known.settled or settled != (
                known.trading_day,
                known.rev,
                known.withheld,
                known.confirmed_by,
            )
            known.trading_day, known.rev, known.withheld, known.confirmed_by = settled
            return Outcome.UNCHANGED
        if self._guard and self._is_rejected(self._guard, known, change):
            return Outcome.OTHER_BILL
        self.bills[key] = _written(shop.number, change, self.stamp, self.load)
        return Outcome.CHANGED

    def _confirmed(self, known: BillRow) -> int | None:
        """Return the load that has delivered a stored bill again, or that there are several."""
        is_of_other_load = bool(known.load and self.load) and known.load != self.load
        if not is_of_other_load:
            return known.confirmed_by
        if known.confirmed_by in (None, self.load):
            return self.load
        return SEVERAL_LOADS

    def _is_rejected(self, guard: ReplacementGuard, known: BillRow, change: EncodedBill) -> bool:
        """Let the guard compare the stored bill with the change; return whether the change is rejected."""
        if not may_be_replaced(known, change):
            return False
        # A bill that an earlier line of the batch has written has its body in memory.
        body = self._bodies.get((known.shop, known.bill_id)) if known.body is None else known.body
        return body is not None and guard.rejects(body, change)

    def _remove_bill(self, change: Removal) -> Outcome:
        shop_id, _, bill_id = change.key
        shop = self.shops.get(shop_id)
        known = self.bills.get((shop.number, bill_id)) if shop else None
        if known and _is_late(change.rev, known.rev):
            return Outcome.LATE
        self._remember(change)
        if not known:
            return Outcome.UNCHANGED
        del self.bills[known.shop, bill_id]
        return Outcome.REMOVED

    # --- membership --------------------------------------------------------------

    def _put_base(self, change: PutBase) -> Outcome:
        known = self.bases.get(change.base.provider_id)
        if known and _is_late(change.rev, known.rev):
            return Outcome.LATE
        if known and (known.rev, known.body) == (change.rev, change.body):
            return Outcome.UNCHANGED
        self.bases[change.base.provider_id] = BaseRow(change.base.provider_id, change.rev, change.body, dirty=True)
        return Outcome.CHANGED if known else Outcome.ADDED

    def _put_member(self, change: PutMember) -> Outcome:
        record = change.record
        if self._is_forgotten(record.token):
            return Outcome.FORGOTTEN
        known = self.members.get(record.token)
        if known and _is_late(change.rev, known.rev):
            return Outcome.LATE
        if known and known.provider_id != record.provider_id and self._guard and self._guard.is_export:
            # The tills of two bases may give out the same IDs.
            return Outcome.OTHER_BASE
        same = known and (known.rev, known.kept) == (change.rev, change.body)
        if known and same and known.template == change.template:
            return Outcome.UNCHANGED
        if not known and self._removed_since(change.key, change.rev):
            return Outcome.LATE
        row = MemberRow(record.provider_id, record.token, change.rev, change.body, change.template, record)
        self.members[record.token] = row
        if same:
            return Outcome.UNCHANGED
        return Outcome.CHANGED if known else Outcome.ADDED

    def _remove_member(self, change: Removal) -> Outcome:
        token = change.key[2]
        known = self.members.get(token)
        if known and _is_late(change.rev, known.rev):
            return Outcome.LATE
        if not self._is_forgotten(token):
            self._remember(change)
        if not known:
            return Outcome.UNCHANGED
        del self.members[token]
        return Outcome.REMOVED

    def _is_forgotten(self, token: str) -> bool:
        return bool(self.forgotten) and mark_of(token) in self.forgotten

    # This table belongs to the class, because bound methods stored in a batch would form a reference cycle and keep the
    # batch in memory until the next garbage collection.
    _APPLY: ClassVar[dict[tuple[type, str], Callable[["Batch", Any], Outcome]]] = {
        (PutShop, "shop"): _put_shop,
        (SetShop, "shop"): _set_shop,
        (Removal, "shop"): _remove_shop,
        (PutBase, "base"): _put_base,
        (PutMember, "member"): _put_member,
        (Removal, "member"): _remove_member,
        (Removal, "bill"): _remove_bill,
    }


def _with_kept_settings(change: PutShop, known: bytes) -> PutShop:
    """Return the change with what the operator has set for the shop, if anything."""
    known_facts = _facts(known)
    if not known_facts.delivered:
        return change
    facts = settings_kept(with_base(change.facts, change.shop.provider_id), known_facts)
    shop = shop_under(facts, change.shop)
    stored = as_stored(facts)
    return PutShop(shop, stored, change.rev, _encode(shop), _encode(stored))


def _affects_bills(before: bytes, after: bytes) -> bool:
    """Return whether facts changed that bills have: not the base, nor what records say about a field that is set."""
    return before != after and _facts_of_bills(before) != _facts_of_bills(after)


def _facts_of_bills(facts: bytes) -> ShopFacts:
    return replace(_facts(facts), provider_id=None, delivered={})


def known_facts(version: int, facts: bytes) -> KnownFacts:
    return KnownFacts(version, _facts(facts))


def rewritten(row: OutdatedBill, shop: int, known: KnownFacts, stamp: int) -> BillRow:
    """Return the bill's row under its shop's new facts. `body` is set, with a new stamp, only if the JSON changes."""
    closed = under_facts(_closed(row), known.facts)
    written_at = None if row.updated_at is None else iso(row.updated_at, known.facts.zone())
    change = put_bill(replace(closed, bill=replace(closed.bill, updated_at=None)), known, row.rev)
    if _encode(replace(closed.bill, updated_at=written_at)) == row.body:
        return replace(_written(shop, change, None, None), body=None)
    return _written(shop, change, stamp, None)


def voided(row: OutdatedBill, shop: int, known: KnownFacts, stamp: int, reason: str, load: int) -> BillRow:
    """Return the bill's row as the undo of a load leaves it. Without a revision, any later record is newer."""
    closed = under_facts(_closed(row), known.facts)
    bill = replace(closed.bill, status="void", void_reason=reason, updated_at=None)
    return _written(shop, put_bill(replace(closed, bill=bill), known, None), stamp, -load)


def unlinked(row: OutdatedBill, shop: int, known: KnownFacts, stamp: int) -> BillRow:
    """Return the bill's row without its member. It stays the bill of its load."""
    closed = under_facts(_closed(row), known.facts)
    bill = replace(closed.bill, member_id=None, updated_at=None)
    return _written(shop, put_bill(replace(closed, bill=bill), known, row.rev), stamp, None)


def _closed(row: OutdatedBill) -> ClosedBill:
    return ClosedBill(
        bill=_bill(row.body),
        closed_at=row.closed_at,
        trading_day=date.fromisoformat(row.trading_day) if row.trading_day else None,
        history=False,
        withheld=_withheld(row.withheld) if row.withheld else None,
    )


def rewritten_days(old: Iterable[OutdatedBill], new: Iterable[BillRow]) -> list[tuple[int, int]]:
    """Return pairs of shop number and day for the days that a rewrite of bills changed."""
    days = set()
    for before, after in zip(old, new, strict=True):
        if after.body is not None:
            days.add((after.shop, before.bill_day))
            days.add((after.shop, after.bill_day))
    return sorted(days)


def _written(shop: int, change: EncodedBill, stamp: int | None, load: int | None) -> BillRow:
    return BillRow(
        shop,
        change.bill_id,
        change.trading_day,
        change.rev,
        change.digest,
        change.withheld,
        change.bill_day,
        load,
        None,
        change.closed_at,
        stamp,
        change.facts_version,
        change.body if stamp is None else stamped(change.body, stamp, change.timezone),
    )


def stamped(body: bytes, stamp: int, timezone: str | None) -> bytes:
    """Return the body with `updatedAt` set. Quotes in values are escaped, so only the field itself is replaced."""
    return body.replace(UNSTAMPED, _stamp_field(stamp, timezone), 1)


@lru_cache(maxsize=64)
def _stamp_field(stamp: int, timezone: str | None) -> bytes:
    """Return `updatedAt` as JSON. The result is cached, because all bills of a batch have the same stamp."""
    return b'"updatedAt":"%b"' % iso(stamp, zone_of(timezone)).encode()


def _is_late(rev: float | None, known: float | None) -> bool:
    return rev is not None and known is not None and rev < known
