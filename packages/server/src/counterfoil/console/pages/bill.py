"""One bill, as a receipt beside its JSON as the API gives it."""

from datetime import datetime
from typing import Any
from urllib.parse import unquote

from msgspec import Raw, Struct, json

from counterfoil.console.visit import ConsolePage, NotFound, Visit
from counterfoil.domain.business_days import BillInStore
from counterfoil.model.calendar import to_ms
from counterfoil.model.resources import Bill


class BillView(Struct, frozen=True, kw_only=True):
    """A bill. If several shops have one with this ID, `bill` is None, and `shops` are theirs by ID."""

    bill_id: str
    stored: BillInStore | None
    bill: Bill | None
    text: str
    shop_name: str
    shops: dict[str, str]

    @property
    def discounts(self) -> list[tuple[str | None, Any]]:
        """The promotions and coupons of the bill with their amounts."""
        if self.bill is None:
            return []
        applied = [*self.bill.amounts.campaign, *self.bill.amounts.coupon]
        return [(promotion.name, promotion.amount) for promotion in applied]

    @property
    def closed_at(self) -> int | None:
        return instant(self.bill.timestamp) if self.bill else None

    @property
    def load(self) -> int | None:
        """The load that added the bill or last changed it, or whose undo did, if it is known."""
        return abs(self.stored.load or 0) or None if self.stored else None

    @property
    def is_undone(self) -> bool:
        return self.stored is not None and (self.stored.load or 0) < 0


def instant(text: str | None) -> int | None:
    return to_ms(datetime.fromisoformat(text)) if text else None


def read(visit: Visit) -> BillView:
    bill_id, shop_id = unquote(visit.values["bill_id"]), visit.query.get("shop") or None
    found = visit.store.reads.bill(bill_id, shop_id)
    if not found:
        raise NotFound(visit.t.gettext("There is no bill with the ID %(id)s.", id=bill_id))
    names = {shop.shop_id: shop.shop_name or shop.shop_id for shop in visit.store.shop_names()}
    if len(found) > 1:
        shops = {stored.shop_id: names.get(stored.shop_id, stored.shop_id) for stored in found}
        return BillView(bill_id=bill_id, stored=None, bill=None, text="", shop_name="", shops=shops)
    (stored,) = found
    return BillView(
        bill_id=bill_id,
        stored=stored,
        bill=json.decode(stored.body, type=Bill),
        text=json.format(stored.body, indent=2).decode(),
        shop_name=names.get(stored.shop_id, stored.shop_id),
        shops={},
    )


def as_json(_: Visit, view: BillView) -> dict[str, object]:
    if view.stored is None:
        return {"billId": view.bill_id, "shops": sorted(view.shops)}
    return {
        "billId": view.bill_id,
        "shopId": view.stored.shop_id,
        "load": view.stored.load,
        "loadBefore": view.stored.load_before,
        "changed": view.stored.is_changed,
        "bill": Raw(view.stored.body),
    }


PAGE = ConsolePage(name="shops", template="bill", read=read, as_json=as_json)
