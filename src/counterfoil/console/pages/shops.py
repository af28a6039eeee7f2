"""Shops: the last bill and the number of bills of each shop, so that operators notice a till that sends nothing."""

from datetime import date, datetime

from msgspec import Struct

from counterfoil.console.charts import spark
from counterfoil.console.display import PageColumn, ago, badge, csv_time, name_of, number, table, utc_time
from counterfoil.console.layout import notice
from counterfoil.console.texts import Texts
from counterfoil.console.visit import ConsolePage, CsvExport, PageContent, Visit
from counterfoil.domain.activity import MISSING_BILLS, ShopActivity, ShopState, format_usual
from counterfoil.domain.calendar import days_until, thai_day
from counterfoil.web.html import Child, Html, element, markup

DAYS = 14
# The states in the order in which shops are listed. Shops that need attention come first.
STATES: tuple[ShopState, ...] = ("silent", "few", "open", "learning", "closed", "empty")


class ShopLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """One shop. `domain/activity.py` explains `state` and the usual numbers, which the state is based on."""

    shop_id: str
    name: str
    franchise_id: str | None
    base: str | None
    state: ShopState
    last_bill_at: datetime | None
    usual_since_last: float
    today: int
    usual_by_now: float
    days: list[int]


class ShopsView(Struct, frozen=True, kw_only=True, rename="camel"):
    """The data of the page. A shop's `days` are its bill counts per day, from `first_day` to today (Thailand time)."""

    first_day: date
    counts: dict[str, int]
    shops: list[ShopLine]


def read(visit: Visit) -> ShopsView:
    span = days_until(thai_day(visit.now), DAYS)
    rows = [_row(shop, days) for shop, days in _with_days(visit, span)]
    rows.sort(key=lambda row: (STATES.index(row.state), row.franchise_id or "~", row.name))
    return ShopsView(
        first_day=span[0], counts={state: sum(row.state == state for row in rows) for state in STATES}, shops=rows
    )


def _with_days(visit: Visit, span: list[date]) -> list[tuple[ShopActivity, list[int]]]:
    with visit.store.reads() as reads:
        found = {(one.shop_id, one.day): one.bills for one in reads.bills(span[0], span[-1])}
    return [(shop, [found.get((shop.shop_id, day), 0) for day in span]) for shop in visit.store.shops()]


def _row(shop: ShopActivity, days: list[int]) -> ShopLine:
    return ShopLine(
        shop_id=shop.shop_id,
        name=name_of(shop.name),
        franchise_id=shop.franchise_id,
        base=shop.provider_id,
        state=shop.state,
        last_bill_at=utc_time(shop.last_bill_at),
        usual_since_last=shop.usual_since_last,
        today=shop.today,
        usual_by_now=shop.usual_by_now,
        days=days,
    )


def draw(visit: Visit, view: ShopsView) -> PageContent:
    t = visit.t
    silent = view.counts["silent"]
    verdict = notice(t("shops.some_silent", count=silent), "warn") if silent else notice(t("shops.none_silent"), "good")
    columns = (
        PageColumn(t("shop")),
        PageColumn(t("state")),
        PageColumn(t("shops.last_bill")),
        PageColumn(t("shops.usual_since"), is_number=True),
        PageColumn(t("shops.today"), is_number=True),
        PageColumn(t("shops.usual"), is_number=True),
        PageColumn(t("shops.days"), is_number=True),
        PageColumn(t("shops.franchise_and_base")),
    )
    return PageContent(
        title=t("shops.title"),
        lead=markup(verdict, element("p", silent_rule(t))) if view.shops else None,
        main=markup(
            table(t("shops.caption"), columns, [_cells(visit, row) for row in view.shops], empty=t("shops.none")),
            element("p", t("shops.explained"), class_="muted"),
        ),
        command="counterfoil shops",
    )


def silent_rule(t: Texts) -> str:
    """Return the text that says when a shop counts as silent and when it counts as closed."""
    return t("shops.silent_means", count=MISSING_BILLS)


def _cells(visit: Visit, row: ShopLine) -> tuple[Child, ...]:
    t = visit.t
    kinds = {"silent": "warn", "open": ""}
    return (
        markup(element("span", row.name, class_="label", id=f"shop-{row.shop_id}"), " ", element("code", row.shop_id)),
        badge(t(f"shops.{row.state}"), kinds.get(row.state, "quiet")),
        ago(t, row.last_bill_at, visit.now),
        format_usual(row.usual_since_last),
        number(row.today),
        format_usual(row.usual_by_now),
        markup(spark(row.days), " ", number(sum(row.days))),
        markup(_or_dash(row.franchise_id), element("br"), _or_dash(row.base)),
    )


def _or_dash(value: str | None) -> Html:
    return element("code", name_of(value)) if value else element("span", "–", class_="muted")


def csv(_: Visit, view: ShopsView) -> CsvExport:
    columns = (
        "shop_id",
        "name",
        "franchise_id",
        "base",
        "state",
        "last_bill_utc",
        "usual_since_last_bill",
        "bills_today",
        "usual_by_now",
        "bills_14_days",
    )
    rows: list[tuple[object, ...]] = [
        (
            row.shop_id,
            row.name,
            row.franchise_id or "",
            row.base or "",
            row.state,
            csv_time(row.last_bill_at),
            row.usual_since_last,
            row.today,
            row.usual_by_now,
            sum(row.days),
        )
        for row in view.shops
    ]
    return CsvExport("shops", columns, rows)


PAGE = ConsolePage(name="shops", read=read, draw=draw, csv=csv)
