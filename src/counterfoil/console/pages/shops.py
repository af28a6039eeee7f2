"""Shops: the last bill and the number of bills of each shop, so that operators notice a till that sends nothing."""

from datetime import date, datetime

from msgspec import Struct

from counterfoil.console.charts import spark
from counterfoil.console.display import PageColumn, ago, badge, csv_time, name_of, number, table, utc_time
from counterfoil.console.layout import notice
from counterfoil.console.visit import ConsolePage, CsvExport, PageContent, Visit
from counterfoil.domain.activity import CLOSED_AFTER_MS, ShopActivity
from counterfoil.domain.calendar import days_until, thai_day
from counterfoil.web.html import Child, Html, element, markup

DAYS = 14
# The states in the order in which shops are listed. Shops that need attention come first.
STATES = ("silent", "open", "closed", "empty")


class ShopLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """One shop. `state` is `silent`, `open`, `closed` (no bill for 4 weeks) or `empty` (no bill at all)."""

    shop_id: str
    name: str
    franchise_id: str | None
    base: str | None
    state: str
    last_bill_at: datetime | None
    today: int
    usual_by_now: float
    days: list[int]


class ShopsView(Struct, frozen=True, kw_only=True, rename="camel"):
    """The data of the page. The `days` of each shop run from `first_day` to today (Thailand time)."""

    first_day: date
    counts: dict[str, int]
    shops: list[ShopLine]


def read(visit: Visit) -> ShopsView:
    span = days_until(thai_day(visit.now), DAYS)
    rows = [_row(shop, visit.now, days) for shop, days in _with_days(visit, span)]
    rows.sort(key=lambda row: (STATES.index(row.state), row.franchise_id or "~", row.name))
    return ShopsView(
        first_day=span[0], counts={state: sum(row.state == state for row in rows) for state in STATES}, shops=rows
    )


def _with_days(visit: Visit, span: list[date]) -> list[tuple[ShopActivity, list[int]]]:
    with visit.store.reads() as reads:
        found = {(one.shop_id, one.day): one.bills for one in reads.bills(span[0], span[-1])}
    return [(shop, [found.get((shop.shop_id, day), 0) for day in span]) for shop in visit.store.shops()]


def _row(shop: ShopActivity, now: int, days: list[int]) -> ShopLine:
    if shop.last_bill_at is None:
        state = "empty"
    elif shop.is_silent:
        state = "silent"
    else:
        state = "closed" if now - shop.last_bill_at >= CLOSED_AFTER_MS else "open"
    return ShopLine(
        shop_id=shop.shop_id,
        name=name_of(shop.name),
        franchise_id=shop.franchise_id,
        base=shop.provider_id,
        state=state,
        last_bill_at=utc_time(shop.last_bill_at),
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
        PageColumn(t("shops.today"), is_number=True),
        PageColumn(t("shops.usual"), is_number=True),
        PageColumn(t("shops.days"), is_number=True),
        PageColumn(t("franchise")),
        PageColumn(t("base")),
    )
    return PageContent(
        title=t("shops.title"),
        lead=verdict if view.shops else None,
        main=markup(
            table(t("shops.caption"), columns, [_cells(visit, row) for row in view.shops], empty=t("shops.none")),
            element("p", t("shops.explained"), " ", t("shops.silent_means"), class_="muted"),
        ),
        command="counterfoil shops",
    )


def _cells(visit: Visit, row: ShopLine) -> tuple[Child, ...]:
    t = visit.t
    kinds = {"silent": "warn", "open": "", "closed": "quiet", "empty": "quiet"}
    return (
        markup(element("span", row.name, class_="label", id=f"shop-{row.shop_id}"), " ", element("code", row.shop_id)),
        badge(t(f"shops.{row.state}"), kinds[row.state]),
        ago(t, row.last_bill_at, visit.now),
        number(row.today),
        number(row.usual_by_now),
        markup(spark(row.days), " ", number(sum(row.days))),
        _or_dash(row.franchise_id),
        _or_dash(row.base),
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
            row.today,
            row.usual_by_now,
            sum(row.days),
        )
        for row in view.shops
    ]
    return CsvExport("shops", columns, rows)


PAGE = ConsolePage(name="shops", read=read, draw=draw, csv=csv)
