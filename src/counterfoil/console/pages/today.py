"""Today: whether all is well, and how the service is used today compared with the last 7 days."""

import shlex
from collections.abc import Sequence
from datetime import date, timedelta

from msgspec import Struct

from counterfoil.checks.findings import Finding, Status, worst_first, worst_status
from counterfoil.console import display
from counterfoil.console.charts import Use, read_use, use_charts
from counterfoil.console.display import LATEST_LOAD, Cells, list_table, number, section, tile
from counterfoil.console.layout import notice
from counterfoil.console.pages.shops import silent_rule
from counterfoil.console.visit import ConsolePage, PageContent, Visit
from counterfoil.domain.activity import ShopActivity
from counterfoil.domain.calendar import DAY_MS, days_until, thai_day, thai_midnight
from counterfoil.domain.messages import duration
from counterfoil.operator_reads import DayOfKey
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.settings import BY_NAME
from counterfoil.views.columns import ListColumn, RowList
from counterfoil.views.shops import columns
from counterfoil.views.store import KeyToday
from counterfoil.web.html import Html, element, markup

WEEK = 7
MOST_KEYS = 8
REFRESH_SEC = 60
# The page shows the age of the horizon if it is above this.
MOST_HORIZON_MS = 5_000


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


BUSY_KEYS: Sequence[ListColumn[BusyKey]] = (
    ListColumn("keyId", page="key"),
    ListColumn("yesterday", kind="number", page="yesterday"),
    ListColumn("today", kind="number", page="today.title"),
    ListColumn("errorsToday", kind="number", page="today.errors_today"),
)


class TodayView(Struct, frozen=True, kw_only=True, rename="camel"):
    is_empty: bool
    status: Status
    findings: list[Finding]
    days: list[DaySum]
    yesterday_by_now: int
    use: Use | None
    keys: list[BusyKey]
    near_quota: Sequence[KeyToday]
    silent_shops: RowList[ShopActivity]
    horizon_age_ms: int | None
    last_load_idle_ms: int | None
    last_load_rejected: int | None
    disk_free_bytes: int | None
    store_bytes: int | None


def read(visit: Visit) -> TodayView:
    overview = visit.store.overview()
    store, findings, yesterday = overview.store, visit.store.findings(), visit.now - DAY_MS
    try:
        use, (days, keys) = read_use(visit, "7d"), _usage(visit)
        hours = visit.store.reads.hours(None, thai_midnight(thai_day(yesterday)), yesterday)
        yesterday_by_now = sum(hour.requests for hour in hours)
    except (StoreUnavailable, StoreMismatch):
        # The findings already say that the store cannot be read.
        days = [DaySum(day, 0, 0, 0) for day in days_until(thai_day(visit.now), WEEK + 1)]
        use, keys, yesterday_by_now = None, [], 0
    return TodayView(
        is_empty=store.extent is not None and not store.shops,
        status=worst_status(findings),
        findings=worst_first(findings),
        days=days,
        yesterday_by_now=yesterday_by_now,
        use=use,
        keys=keys,
        near_quota=store.near_quota,
        silent_shops=RowList(columns(), [shop for shop in store.shops if shop.is_silent]),
        horizon_age_ms=None if overview.horizon_age_ms is None else max(0, overview.horizon_age_ms),
        last_load_idle_ms=store.load.idle_ms(visit.now) if store.load else None,
        last_load_rejected=store.load.rejected if store.load else None,
        disk_free_bytes=store.disk.free_bytes if store.disk else None,
        store_bytes=store.extent.size_bytes if store.extent else None,
    )


def _usage(visit: Visit) -> tuple[list[DaySum], list[BusyKey]]:
    today, labels = thai_day(visit.now), visit.store.labels()
    found = visit.store.reads.days(today - timedelta(days=WEEK), today)

    def total(day: date, *names: str) -> int:
        return sum(getattr(of_key, name) for of_key in found if of_key.day == day for name in names)

    days = [
        DaySum(day, total(day, "requests"), total(day, "errors"), total(day, "rate_limited", "refused"))
        for day in days_until(today, WEEK + 1)
    ]
    recent = {(of_key.key_id, of_key.day): of_key for of_key in found if of_key.day >= today - timedelta(days=1)}
    keys = []
    tried = {key.key_id for key in visit.store.reads.keys() if key.is_for_trying}  # noqa: SIM118 - not a dictionary
    for key_id in {key_id for key_id, _ in recent} - tried:
        now, before = (
            recent.get((key_id, day)) or DayOfKey(key_id=key_id, day=day) for day in (today, today - timedelta(days=1))
        )
        keys.append(BusyKey(key_id, labels.get(key_id, ""), now.requests, before.requests, now.errors))
    return days, sorted(keys, key=lambda busy: (-busy.yesterday, -busy.today, busy.key_id))[:MOST_KEYS]


def _first_steps(visit: Visit) -> Html:
    """Return what to do with a new store, with the exact commands. The address of a database contains a login."""
    settings = visit.settings
    is_usual = settings.database or str(settings.store) == BY_NAME["store"].default
    store = "" if is_usual else f" --store {shlex.quote(str(settings.store.absolute()))}"
    words = {
        "load": "load FILE",
        "import_": "import FILE --with-shops --franchise my-group --closing-time 04:00 --load",
        "key": "keys issue --franchise my-group --label NAME",
        "serve": "serve",
    }
    commands = {name: display.command_line(f"counterfoil {text}{store}") for name, text in words.items()}
    return section(visit.t("start.title"), display.template("start", visit.t, **commands))


def draw(visit: Visit, view: TodayView) -> PageContent:
    t = visit.t
    main = _first_steps(visit) if view.is_empty else _figures(visit, view)
    return PageContent(
        title=t("today.title"),
        lead=_verdict(visit, view),
        main=main,
        commands=["counterfoil status"],
        command_text=t("today.command"),
        shows_service=True,
        refresh_sec=REFRESH_SEC,
    )


def _figures(visit: Visit, view: TodayView) -> Html:
    return markup(
        _tiles(visit, view),
        section(visit.t("key.use"), use_charts(visit, view.use)) if view.use else None,
        element("div", _keys(visit, view), _silent(visit, view), class_="split"),
    )


def _verdict(visit: Visit, view: TodayView) -> Html:
    t = visit.t
    wrong = [finding for finding in view.findings if finding.status != "ok"]
    if not wrong:
        return notice(t("today.well"), "good")
    first, *others = wrong
    kind = "bad" if view.status == "fail" else "warn"
    summary = element("summary", t("today.others", count=len(others)))
    return element(
        "div",
        element("p", element("strong", t(f"today.{view.status}")), " ", display.finding_text(t, first)),
        element("details", summary, display.finding_list(t, others)) if others else None,
        class_=f"notice {kind}",
        role="status",
    )


def _tiles(visit: Visit, view: TodayView) -> Html:
    t, today, earlier = visit.t, view.days[-1], view.days[:-1]
    usual, usual_errors = sum(day.requests for day in earlier), sum(day.errors for day in earlier)
    usual_share = t("today.usual_errors", share=display.percent(usual_errors, usual))
    has_many = today.requests and today.errors / today.requests > max(0.05, 2 * usual_errors / (usual or 1))
    load = "–" if view.last_load_idle_ms is None else t("span.ago", span=t.message(duration(view.last_load_idle_ms)))
    count = view.last_load_rejected
    rejected = None if count is None else element("a", t("today.rejected", count=number(count)), href=LATEST_LOAD)
    horizon = None if view.horizon_age_ms is None else f"{view.horizon_age_ms / 1000:,.1f} s"
    is_late = view.horizon_age_ms is None or view.horizon_age_ms > MOST_HORIZON_MS
    near_quota = markup([[display.key_link(key.key_id, key.label), " "] for key in view.near_quota[:3]])
    return display.tiles(
        tile(t("today.requests"), number(today.requests), t("today.by_now", count=number(view.yesterday_by_now))),
        tile(t("today.errors"), display.percent(today.errors, today.requests), usual_share, "warn" if has_many else ""),
        tile(t("today.load"), load, rejected, "warn" if count else ""),
        tile(t("today.horizon"), horizon or t("unknown"), t("today.horizon_note"), "bad") if is_late else None,
        tile(t("today.near_quota"), number(len(view.near_quota)), near_quota, "warn") if view.near_quota else None,
    )


def _silent(visit: Visit, view: TodayView) -> Html | None:
    if not view.silent_shops.rows:
        return None
    t = visit.t
    cells: Cells[ShopActivity] = {
        "shop": lambda shop: element("a", display.parts(shop.name), href=f"/shops#shop-{shop.shop_id}")
    }
    shown = [column for column in columns() if column.page in ("shop", "shops.last_bill", "shops.usual_since")]
    return section(t("today.silent"), list_table(visit, silent_rule(t), RowList(shown, view.silent_shops.rows), cells))


def _keys(visit: Visit, view: TodayView) -> Html:
    t = visit.t
    listing = RowList(BUSY_KEYS, view.keys)
    return section(t("today.keys"), list_table(visit, t("today.keys_caption"), listing, empty=t("today.no_keys")))


PAGE = ConsolePage(name="today", read=read, draw=draw)
