"""Today: whether all is well, and how the service is used today compared with the last 7 days."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import date, datetime, timedelta

from msgspec import Struct

from counterfoil.checks.findings import Finding, Status, worst_first, worst_status
from counterfoil.checks.overview import KeyToday
from counterfoil.console.charts import Bar, ChartWords, bar_chart
from counterfoil.console.display import (
    LATEST_LOAD,
    PageColumn,
    ago,
    day_name,
    duration,
    finding_list,
    finding_text,
    key_link,
    name_of,
    number,
    percent,
    section,
    table,
    tile,
    tiles,
    utc_time,
)
from counterfoil.console.layout import notice
from counterfoil.console.pages.shops import silent_rule
from counterfoil.console.texts import Texts
from counterfoil.console.visit import ConsolePage, PageContent, Visit
from counterfoil.domain.activity import format_usual
from counterfoil.domain.calendar import days_until, thai_day
from counterfoil.operator_reads import DayOfKey
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.text import size
from counterfoil.web.html import Html, element, markup

WEEK = 7
MOST_KEYS = 8


class DaySum(Struct, frozen=True, rename="camel"):
    """The requests of all keys on one day (Thailand time)."""

    day: date
    requests: int
    errors: int
    refused: int


class BusyKey(Struct, frozen=True, rename="camel"):
    key_id: str
    label: str
    today: int
    yesterday: int
    errors_today: int


class SilentShop(Struct, frozen=True, rename="camel"):
    shop_id: str
    name: str
    last_bill_at: datetime | None
    usual_since_last: float


class TodayView(Struct, frozen=True, kw_only=True, rename="camel"):
    status: Status
    findings: list[Finding]
    days: list[DaySum]
    keys: list[BusyKey]
    near_quota: Sequence[KeyToday]
    silent_shops: list[SilentShop]
    horizon_age_ms: int | None
    last_load_idle_ms: int | None
    last_load_rejected: int | None
    disk_free_bytes: int | None
    store_bytes: int | None

    @property
    def today(self) -> DaySum:
        return self.days[-1]


def read(visit: Visit) -> TodayView:
    overview = visit.store.overview()
    seen, findings = overview.store, visit.store.findings()
    try:
        days, keys = _usage(visit)
    except (StoreUnavailable, StoreMismatch):
        # The findings already say that the store cannot be read.
        days, keys = [DaySum(day, 0, 0, 0) for day in days_until(thai_day(visit.now), WEEK + 1)], []
    return TodayView(
        status=worst_status(findings),
        findings=worst_first(findings),
        days=days,
        keys=keys,
        near_quota=seen.near_quota,
        silent_shops=[
            SilentShop(shop.shop_id, name_of(shop.name), utc_time(shop.last_bill_at), shop.usual_since_last)
            for shop in seen.shops
            if shop.is_silent
        ],
        horizon_age_ms=None if overview.horizon_age_ms is None else max(0, overview.horizon_age_ms),
        last_load_idle_ms=seen.load.idle_ms if seen.load else None,
        last_load_rejected=seen.load.rejected if seen.load else None,
        disk_free_bytes=seen.disk.free_bytes if seen.disk else None,
        store_bytes=seen.extent.size_bytes if seen.extent else None,
    )


def _usage(visit: Visit) -> tuple[list[DaySum], list[BusyKey]]:
    today = thai_day(visit.now)
    with visit.store.reads() as reads:
        found = reads.days(today - timedelta(days=WEEK), today)
    labels = {key.key_id: key.label for key in visit.store.all_keys()}
    by_day: defaultdict[date, list[DayOfKey]] = defaultdict(list)
    for one in found:
        by_day[one.day].append(one)
    days = [
        DaySum(
            day,
            sum(one.requests for one in by_day[day]),
            sum(one.errors for one in by_day[day]),
            sum(one.rate_limited + one.refused for one in by_day[day]),
        )
        for day in days_until(today, WEEK + 1)
    ]
    return days, _busy_keys(by_day[today], by_day[today - timedelta(days=1)], labels)


def _busy_keys(today: list[DayOfKey], yesterday: list[DayOfKey], labels: dict[str, str]) -> list[BusyKey]:
    now, before = ({one.key_id: one for one in day} for day in (today, yesterday))
    nothing = DayOfKey(key_id="", day=date.min)
    keys = [
        BusyKey(
            key_id,
            labels.get(key_id, ""),
            now.get(key_id, nothing).requests,
            before.get(key_id, nothing).requests,
            now.get(key_id, nothing).errors,
        )
        for key_id in {*now, *before}
    ]
    return sorted(keys, key=lambda one: (-one.yesterday, -one.today, one.key_id))[:MOST_KEYS]


# --- drawing -------------------------------------------------------------------------


def draw(visit: Visit, view: TodayView) -> PageContent:
    t = visit.t
    return PageContent(
        title=t("today.title"),
        lead=_verdict(visit, view),
        main=markup(
            _tiles(visit, view),
            element("div", element("div", _chart(t, view), _silent(visit, view)), _keys(visit, view), class_="split"),
        ),
        command="counterfoil status",
        command_text=t("today.command"),
        shows_service=True,
    )


def _chart(t: Texts, view: TodayView) -> Html:
    words = ChartWords(t("today.chart"), t("day"), t("requests"), t("errors"))
    return bar_chart(
        t, words, [Bar(day.day.isoformat(), day_name(t, day.day), day.requests, day.errors) for day in view.days]
    )


def _verdict(visit: Visit, view: TodayView) -> Html:
    t = visit.t
    wrong = [one for one in view.findings if one.status != "ok"]
    if not wrong:
        return notice(t("today.well"), "good")
    first, *others = wrong
    kind = "bad" if view.status == "fail" else "warn"
    return element(
        "div",
        element(
            "p",
            element("strong", t(f"today.{view.status}")),
            " ",
            finding_text(t, first),
        ),
        element(
            "details",
            element("summary", t("today.others", count=len(others))),
            finding_list(t, others),
        )
        if others
        else None,
        class_=f"notice {kind}",
        role="status",
    )


def _tiles(visit: Visit, view: TodayView) -> Html:
    t, today, earlier = visit.t, view.today, view.days[:-1]
    usual, usual_errors = sum(day.requests for day in earlier), sum(day.errors for day in earlier)
    load = "–" if view.last_load_idle_ms is None else t("span.ago", span=duration(t, view.last_load_idle_ms))
    rejected = (
        None
        if view.last_load_rejected is None
        else element("a", t("today.rejected", count=number(view.last_load_rejected)), href=LATEST_LOAD)
    )
    horizon = None if view.horizon_age_ms is None else f"{view.horizon_age_ms / 1000:,.1f} s"
    return tiles(
        tile(t("today.requests"), number(today.requests), t("today.usual", count=number(usual / WEEK))),
        tile(
            t("today.errors"),
            percent(today.errors, today.requests),
            t("today.usual_errors", share=percent(usual_errors, usual)),
            "warn"
            if today.requests and today.errors / today.requests > max(0.05, 2 * usual_errors / (usual or 1))
            else "",
        ),
        tile(
            t("today.horizon"),
            horizon or t("unknown"),
            t("today.horizon_note"),
            "bad" if view.horizon_age_ms is None or view.horizon_age_ms > 5_000 else "",
        ),
        tile(
            t("today.load"),
            load,
            rejected,
            "warn" if view.last_load_rejected else "",
        ),
        tile(
            t("today.near_quota"),
            number(len(view.near_quota)),
            _near_quota(view.near_quota) or t("today.near_quota_none"),
            "warn" if view.near_quota else "",
        ),
        tile(
            t("today.disk"),
            size(view.disk_free_bytes) if view.disk_free_bytes is not None else t("today.database"),
            t("today.store_size", size=size(view.store_bytes)) if view.store_bytes is not None else None,
        ),
    )


def _near_quota(keys: Sequence[KeyToday]) -> Html | None:
    if not keys:
        return None
    return markup([[key_link(one.key_id, one.label), " "] for one in keys[:3]])


def _silent(visit: Visit, view: TodayView) -> Html | None:
    if not view.silent_shops:
        return None
    t = visit.t
    rows = [
        (
            element("a", shop.name, href=f"/shops#shop-{shop.shop_id}"),
            ago(t, shop.last_bill_at, visit.now),
            format_usual(shop.usual_since_last),
        )
        for shop in view.silent_shops
    ]
    columns = (
        PageColumn(t("shop")),
        PageColumn(t("shops.last_bill")),
        PageColumn(t("shops.usual_since"), is_number=True),
    )
    return section(t("today.silent"), table(silent_rule(t), columns, rows))


def _keys(visit: Visit, view: TodayView) -> Html:
    t = visit.t
    columns = (
        PageColumn(t("key")),
        PageColumn(t("yesterday"), is_number=True),
        PageColumn(t("today.title"), is_number=True),
        PageColumn(t("today.errors_today"), is_number=True),
    )
    rows = [
        (key_link(one.key_id, one.label), number(one.yesterday), number(one.today), number(one.errors_today))
        for one in view.keys
    ]
    return section(t("today.keys"), table(t("today.keys_caption"), columns, rows, empty=t("today.no_keys")))


PAGE = ConsolePage(name="today", read=read, draw=draw)
