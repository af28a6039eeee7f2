"""What the undo of a load takes back, and who has read it: see docs/decisions/0023-undo-of-a-load.md."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Literal

from msgspec import Struct, json

from counterfoil.domain.access import Key
from counterfoil.domain.request_records import CHANGE_FEED, CHANGES_OF_SHOP, CopyState

# `added` is taken back. The others stay: the load changed a bill of an earlier load, or a later load changed
# the bill or delivered it again.
Verdict = Literal["added", "changed", "changed_later", "delivered_again"]
# At most this many bills that stay are named.
MAX_NAMED = 20


class LoadedBill(Struct, frozen=True):
    """A bill that a load added or changed. The loads are those of the columns of the table `bills`."""

    shop_id: str
    bill_id: str
    load: int
    load_before: int | None
    confirmed_by: int | None
    body: bytes

    def is_undone(self, load: int) -> bool:
        """Return whether the undo of the load has made the bill void."""
        return self.load == -load and self.load_before == load

    def verdict(self, load: int, undone: Collection[int]) -> Verdict:
        if self.load == -load:
            return "changed"
        if self.load != load:
            return "changed_later"
        return verdict(self.load_before, self.confirmed_by, undone)


def verdict(load_before: int | None, confirmed_by: int | None, undone: Collection[int]) -> Verdict:
    """Return what happens to a bill that no later load has changed. `undone` are the loads that were undone."""
    if load_before is not None and load_before >= 0:
        return "changed"
    # SEVERAL_LOADS is never among the undone, because it does not say which loads they are.
    # A void of an earlier undo is not a record that somebody delivered, so the load has added the bill again.
    return "delivered_again" if confirmed_by is not None and confirmed_by not in undone else "added"


class _BodyAmounts(Struct):
    net: Decimal | None = None


class _Body(Struct, rename="camel"):
    status: str
    amounts: _BodyAmounts
    bill_date: str | None = None


_decode = json.Decoder(_Body).decode


class DayOfUndo(Struct, frozen=True, kw_only=True, rename="camel"):
    """The bills of a shop and a calendar day that are taken back, and the net of those that were not void."""

    shop_id: str
    day: str | None
    bills: int
    net: Decimal


class KeptBill(Struct, frozen=True, kw_only=True, rename="camel"):
    """A bill that stays, and the load of what was stored before, or of what was stored or delivered since, if known."""

    shop_id: str
    bill_id: str
    verdict: Verdict
    other_load: int | None


class UndoPreview(Struct, kw_only=True, rename="camel"):
    """What the undo of a load would do. `kept` counts the bills that stay; `named` has the first of them."""

    load: int
    taken_back: int = 0
    kept: dict[Verdict, int] = {}
    named: list[KeptBill] = []
    days: list[DayOfUndo] = []
    removed: int = 0
    """The bills that the load removed, and that nothing has brought back."""

    @property
    def shops(self) -> set[str]:
        return {day.shop_id for day in self.days}


def preview(load: int, bills: Iterable[LoadedBill], undone: Collection[int], removed: int) -> UndoPreview:
    found = UndoPreview(load=load, removed=removed)
    counts = Counter[tuple[str, str | None]]()
    nets: dict[tuple[str, str | None], Decimal] = defaultdict(Decimal)
    for bill in bills:
        if bill.is_undone(load):
            continue
        kind = bill.verdict(load, undone)
        if kind != "added":
            found.kept[kind] = found.kept.get(kind, 0) + 1
            if len(found.named) < MAX_NAMED:
                found.named.append(_kept(bill, kind))
            continue
        body = _decode(bill.body)
        place = bill.shop_id, body.bill_date
        counts[place] += 1
        if body.status != "void" and body.amounts.net is not None:
            nets[place] += body.amounts.net
    found.taken_back = counts.total()
    found.days = [
        DayOfUndo(shop_id=shop_id, day=day, bills=counts[shop_id, day], net=nets[shop_id, day])
        for shop_id, day in sorted(counts, key=lambda place: (place[0], place[1] or ""))
    ]
    return found


def _kept(bill: LoadedBill, kind: Verdict) -> KeptBill:
    others = {"changed": bill.load_before, "changed_later": bill.load, "delivered_again": bill.confirmed_by}
    # 0 is a load of an older version, whose number is not known, or SEVERAL_LOADS.
    return KeptBill(shop_id=bill.shop_id, bill_id=bill.bill_id, verdict=kind, other_load=others[kind] or None)


# --- who has read them ------------------------------------------------------------------


class KeyThatRead(Struct, frozen=True, kw_only=True, rename="camel"):
    """A key that has read bills of these shops since the load began. Only a reader of the feed learns of removals."""

    key_id: str
    label: str
    reads_feed: bool


def reads_of_shops(
    key: Key, shops: Mapping[str, str | None], since: int, copies: Sequence[CopyState], lists: Collection[str]
) -> KeyThatRead | None:
    """Return the key if it has read the feed or a list of one of the shops, which are given with their franchises.

    `lists` are the shops whose lists the key has read since then. The shop of a single bill is not recorded: "".
    """
    if _is_of_shop(key):
        of_key = {shop for shop in shops if shop == key.scope.id}
    else:
        of_key = {shop for shop, franchise in shops.items() if franchise == key.scope.id}
    if not of_key:
        return None
    recent = [copy for copy in copies if copy.at >= since]
    reads_feed = any(copy.list_name == CHANGE_FEED for copy in recent)
    reads_lists = any(copy.list_name == CHANGES_OF_SHOP and copy.shop_id in of_key for copy in recent)
    if not reads_feed and not reads_lists and not (of_key | {""}) & set(lists):
        return None
    return KeyThatRead(key_id=key.key_id, label=key.label, reads_feed=reads_feed)


def _is_of_shop(key: Key) -> bool:
    return key.scope.kind == "shop"
