"""Shops: the last bill and the number of bills of each shop, so that operators notice a till that sends nothing."""

from collections import Counter
from datetime import date

from msgspec import Struct

from counterfoil.console.charts import spark
from counterfoil.console.display import Cells, badge, brand_and_branch, list_table, name_of, number
from counterfoil.console.key_parts import ScopeNames, scope_names, shop_count
from counterfoil.console.layout import notice
from counterfoil.console.texts import Texts
from counterfoil.console.visit import ConsolePage, PageContent, Visit
from counterfoil.domain.access import Scope
from counterfoil.domain.activity import MISSING_BILLS, ShopActivity, ShopState
from counterfoil.views.columns import RowList
from counterfoil.views.shops import STATES, Days, bills_per_day, columns
from counterfoil.web.html import Html, element, markup


class ShopsView(Struct, frozen=True, kw_only=True):
    """The data of the page. `days` are the numbers of bills per day, from `first_day` to today (Thailand time)."""

    first_day: date
    counts: dict[ShopState, int]
    shops: RowList[ShopActivity]
    days: Days


def read(visit: Visit) -> ShopsView:
    shops = sorted(
        visit.store.reads.shops(visit.now, count_all=False),
        key=lambda shop: (list(STATES).index(shop.state), shop.franchise_id or "~", name_of(shop.name)),
    )
    first_day, days = bills_per_day(visit.store.reads, shops, visit.now)
    counts = {state: sum(shop.state == state for shop in shops) for state in STATES}
    return ShopsView(first_day=first_day, counts=counts, shops=RowList(columns(days), shops), days=days)


def draw(visit: Visit, view: ShopsView) -> PageContent:
    t, names = visit.t, scope_names(visit)
    bases = Counter(shop.provider_id for shop in view.shops.rows)
    silent = view.counts["silent"]
    cells: Cells[ShopActivity] = {
        "shop": _name,
        "state": lambda shop: (
            None if shop.state == "open" else badge(t(f"shops.{shop.state}"), "warn" if shop.is_silent else "quiet")
        ),
        "shops.days": lambda shop: markup(number(sum(view.days[shop.shop_id])), " ", spark(view.days[shop.shop_id])),
        "shops.franchise_and_base": lambda shop: _franchise_and_base(visit, names, bases, shop),
    }
    return PageContent(
        title=t("shops.title"),
        lead=notice(t("shops.some_silent", count=silent), "warn") if silent else notice(t("shops.none_silent")),
        main=markup(
            list_table(visit, t("shops.caption"), view.shops, cells, empty=t("shops.none")),
            element("p", silent_rule(t), " ", t("shops.explained"), class_="muted"),
        ),
        commands=["counterfoil shops"],
    )


def silent_rule(t: Texts) -> str:
    return t("shops.silent_means", count=MISSING_BILLS)


def _name(shop: ShopActivity) -> Html:
    """Return the branch, with the brand below it: shops of the same brand are told apart by their branches."""
    name = name_of(shop.name)
    brand, branch = brand_and_branch(name)
    label = element("span", branch or brand, class_="label", id=f"shop-{shop.shop_id}", title=name)
    of_brand = element("small", brand, title=name) if branch else None
    return markup(label, " ", of_brand, " ", element("code", shop.shop_id))


def _franchise_and_base(visit: Visit, names: ScopeNames, bases: Counter[str | None], shop: ShopActivity) -> Html:
    """Return the name of the franchise, and with how many shops this one shares its members. IDs are tooltips."""
    t, franchise, base = visit.t, shop.franchise_id, shop.provider_id
    named = names.about(t, Scope("franchise", franchise)) if franchise else None
    count = shop_count(t, bases[base])
    return markup(
        element("span", named or name_of(franchise), title=franchise) if franchise else "–",
        element("small", " ", t("shops.base", count=count), title=base) if base else None,
    )


PAGE = ConsolePage(
    name="shops",
    read=read,
    draw=draw,
    as_json=lambda _, view: {"firstDay": view.first_day, "counts": view.counts, "shops": view.shops},
    csv=lambda _, view: ("shops", view.shops),
)
