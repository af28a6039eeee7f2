"""One open item: what it is, what a held delivery would change, and the buttons that close it."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal

from msgspec import Struct

from counterfoil.console.pages.loads import reasons_of
from counterfoil.console.visit import ConsolePage, NotFound, Visit
from counterfoil.domain.access import Key
from counterfoil.domain.business_days import DayOfShop
from counterfoil.domain.deliveries import ChangedDay, DeliveryPreview, PreviewedBill
from counterfoil.domain.open_items import OpenItem, joined
from counterfoil.model.text import translatable
from counterfoil.operator_reads import OperatorReads
from counterfoil.program.columns import ListColumn, RowList, console_json
from counterfoil.views.loads import find, items


class PlannedDay(Struct, frozen=True, kw_only=True):
    """A day that a delivery would change, with what is stored for it now. `now` is None if it has no bills."""

    change: ChangedDay
    now: DayOfShop | None

    @property
    def bills_now(self) -> int:
        return self.now.bills if self.now else 0

    @property
    def net_now(self) -> Decimal | None:
        return self.now.net if self.now else Decimal(0)

    @property
    def net_after(self) -> Decimal | None:
        return None if self.net_now is None else self.net_now + Decimal(self.change.net)


PLANNED_DAYS = (
    ListColumn[PlannedDay]("shopId", lambda planned: planned.change.shop_id, page=translatable("Shop")),
    ListColumn[PlannedDay]("day", lambda planned: planned.change.day or "", page=translatable("Day")),
    ListColumn[PlannedDay]("added", lambda planned: planned.change.added, "number", page=translatable("New bills")),
    ListColumn[PlannedDay](
        "changed", lambda planned: planned.change.changed, "number", page=translatable("Changed bills")
    ),
    ListColumn[PlannedDay]("netNow", lambda planned: planned.net_now, "number", page=translatable("Net now")),
    ListColumn[PlannedDay]("netAfter", lambda planned: planned.net_after, "number", page=translatable("Net then")),
)
EXAMPLES = (
    ListColumn[PreviewedBill]("billId", kind="code", page=translatable("Bill")),
    ListColumn[PreviewedBill]("shopId", page=translatable("Shop")),
    ListColumn[PreviewedBill]("closedAt", kind="time", page=translatable("Closed")),
    ListColumn[PreviewedBill]("change", page=translatable("What it does")),
    ListColumn[PreviewedBill]("lines", kind="number", page=translatable("Items")),
    ListColumn[PreviewedBill]("net", lambda bill: bill.net or "", "text", page=translatable("Net")),
    ListColumn[PreviewedBill]("stored", lambda bill: bill.stored_net or "", "text", page=translatable("Stored now")),
)


class ItemView(Struct, frozen=True, kw_only=True):
    """The data of the page. `keys` are the active keys that cover a shop in which a held delivery changes bills."""

    item: OpenItem
    preview: DeliveryPreview | None
    days: RowList[PlannedDay]
    keys: list[Key]
    shop_names: Mapping[str, str]
    reasons: Mapping[str, int] | None
    """Why its lines were rejected, if its load says it."""

    @property
    def examples(self) -> RowList[PreviewedBill]:
        return RowList(EXAMPLES, self.preview.examples if self.preview else [])

    def shop_name(self, shop_id: str) -> str:
        return self.shop_names.get(shop_id, shop_id)


def read(visit: Visit) -> ItemView:
    reads, number = visit.store.reads, int(visit.values["number"])
    found = [item for item in joined(reads.open_items()) if item.number == number]
    if not found:
        raise NotFound(visit.t.gettext("Item %(number)s is not open any more.", number=number))
    item = found[0]
    preview = reads.delivery_preview(item.identity) if item.kind == "held" else None
    shops = visit.store.shop_names()
    franchises = {shop.shop_id: shop.franchise_id for shop in shops}
    covered = set()
    for shop_id in preview.shops if preview else ():
        covered |= {("shop", shop_id), ("franchise", franchises.get(shop_id))}
    keys = reads.keys()
    return ItemView(
        item=item,
        preview=preview,
        days=RowList(PLANNED_DAYS, _planned_days(reads, preview)),
        keys=[
            key
            for key in keys
            if not key.is_revoked(visit.now) and not key.is_for_trying and (key.scope.kind, key.scope.id) in covered
        ],
        shop_names={shop.shop_id: shop.shop_name or shop.shop_id for shop in shops},
        reasons=reasons_of(item, find(reads, item.load) if item.load else None),
    )


def _planned_days(reads: OperatorReads, preview: DeliveryPreview | None) -> list[PlannedDay]:
    if preview is None:
        return []
    dated = [date.fromisoformat(change.day) for change in preview.days if change.day]
    stored = reads.days_of_shops(min(dated), max(dated)) if dated else []
    by_day = {(of_shop.shop_id, of_shop.day): of_shop for of_shop in stored}
    planned = []
    for change in preview.days:
        day = date.fromisoformat(change.day) if change.day else None
        now = by_day.get((change.shop_id, day)) if day else reads.undated_bills(change.shop_id)
        planned.append(PlannedDay(change=change, now=now))
    return planned


def as_json(visit: Visit, view: ItemView) -> dict[str, object]:
    return {
        "item": console_json(items(visit.now), view.item),
        "preview": view.preview,
        "days": view.days,
        "keys": [key.key_id for key in view.keys],
    }


PAGE = ConsolePage(name="loads", template="item", read=read, as_json=as_json)
