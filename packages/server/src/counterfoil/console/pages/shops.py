"""Shops: the last bill and the number of bills of each shop, so that operators notice a till that sends nothing."""

from collections import Counter
from datetime import date

from msgspec import Struct

from counterfoil.console.display import name_of
from counterfoil.console.key_parts import ScopeNames, scope_names
from counterfoil.console.visit import ConsolePage, Visit
from counterfoil.domain.activity import ShopActivity, ShopState
from counterfoil.program.columns import RowList
from counterfoil.views.shops import STATES, Days, bills_per_day, columns


class ShopsView(Struct, frozen=True, kw_only=True):
    """The data of the page. `days` are the numbers of bills per day, from `first_day` to today (Thailand time).

    `shops_of_base` has the number of shops that share their members, by the membership base.
    """

    first_day: date
    counts: dict[ShopState, int]
    shops: RowList[ShopActivity]
    days: Days
    names: ScopeNames
    shops_of_base: Counter[str | None]


def read(visit: Visit) -> ShopsView:
    shops = sorted(
        visit.store.reads.shops(visit.now, count_all=False),
        key=lambda shop: (list(STATES).index(shop.state), shop.franchise_id or "~", name_of(shop.name)),
    )
    first_day, days = bills_per_day(visit.store.reads, shops, visit.now)
    counts = {state: sum(shop.state == state for shop in shops) for state in STATES}
    return ShopsView(
        first_day=first_day,
        counts=counts,
        shops=RowList(columns(days), shops),
        days=days,
        names=scope_names(visit),
        shops_of_base=Counter(shop.provider_id for shop in shops),
    )


PAGE = ConsolePage(
    name="shops",
    template="shops",
    read=read,
    as_json=lambda _, view: {"firstDay": view.first_day, "counts": view.counts, "shops": view.shops},
    csv=lambda _, view: ("shops", view.shops),
)
