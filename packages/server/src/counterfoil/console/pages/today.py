"""Today: whether all is well, what the shops took, and how the service is used compared with the last 7 days."""

from collections.abc import Sequence
from datetime import date, timedelta

from msgspec import Struct

from counterfoil.checks.findings import Finding, Status, worst_first, worst_status
from counterfoil.console.charts import Use, read_use
from counterfoil.console.visit import ConsolePage, Visit
from counterfoil.domain.activity import ShopActivity
from counterfoil.model.calendar import DAY_MS, days_until, thai_day, thai_midnight
from counterfoil.model.text import translatable
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.program.columns import ListColumn, RowList
from counterfoil.request_reads import DayOfKey
from counterfoil.views.business import DIFFERING, BusinessToday, ShopToday, business_today
from counterfoil.views.shops import columns
from counterfoil.views.store import KeyToday

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
    ListColumn("keyId", kind="key", page=translatable("Key")),
    ListColumn("yesterday", kind="number", page=translatable("Yesterday")),
    ListColumn("today", kind="number", page=translatable("Today")),
    ListColumn("errorsToday", kind="number", page=translatable("Errors today")),
)


class TodayView(Struct, frozen=True, kw_only=True, rename="camel"):
    is_empty: bool
    status: Status
    findings: list[Finding]
    business: BusinessToday | None
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

    @property
    def problems(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.status != "ok"]

    @property
    def today(self) -> DaySum:
        return self.days[-1]

    @property
    def earlier_requests(self) -> int:
        return sum(day.requests for day in self.days[:-1])

    @property
    def earlier_errors(self) -> int:
        return sum(day.errors for day in self.days[:-1])

    @property
    def has_many_errors(self) -> bool:
        """Return whether the share of errors is above 5 % and twice as high as in the days before."""
        if not self.today.requests:
            return False
        usual = self.earlier_errors / (self.earlier_requests or 1)
        return self.today.errors / self.today.requests > max(0.05, 2 * usual)

    @property
    def is_late(self) -> bool:
        return self.horizon_age_ms is None or self.horizon_age_ms > MOST_HORIZON_MS

    @property
    def differing_shops(self) -> RowList[ShopToday]:
        return RowList(DIFFERING, self.business.differing if self.business else [])

    @property
    def busy_keys(self) -> RowList[BusyKey]:
        return RowList(BUSY_KEYS, self.keys)


def read(visit: Visit) -> TodayView:
    overview = visit.store.overview()
    store, findings, yesterday = overview.store, visit.store.findings(), visit.now - DAY_MS
    business: BusinessToday | None = None
    try:
        business = business_today(visit.store.reads, store.shops, visit.now) if store.shops else None
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
        business=business,
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
    """Return the requests of each day of the last week, and the busiest keys of yesterday and today."""
    today = thai_day(visit.now)
    found = visit.store.reads.days(today - timedelta(days=WEEK), today)
    days = []
    for day in days_until(today, WEEK + 1):
        keys_of_day = [of_key for of_key in found if of_key.day == day]
        requests = sum(of_key.requests for of_key in keys_of_day)
        errors = sum(of_key.errors for of_key in keys_of_day)
        refused = sum(of_key.rate_limited + of_key.refused for of_key in keys_of_day)
        days.append(DaySum(day, requests, errors, refused))
    return days, _busy_keys(visit, found, today)


def _busy_keys(visit: Visit, found: Sequence[DayOfKey], today: date) -> list[BusyKey]:
    """Return the keys with the most requests yesterday, without those that the console has issued for Try it."""
    yesterday = today - timedelta(days=1)
    days_of_keys = {(of_key.key_id, of_key.day): of_key for of_key in found}
    used = {of_key.key_id for of_key in found if of_key.day >= yesterday}
    tried = {key.key_id for key in visit.store.reads.keys() if key.is_for_trying}  # noqa: SIM118 - not a dictionary
    labels = visit.store.labels()
    keys = []
    for key_id in used - tried:
        now = days_of_keys.get((key_id, today), DayOfKey(key_id=key_id, day=today))
        before = days_of_keys.get((key_id, yesterday), DayOfKey(key_id=key_id, day=yesterday))
        keys.append(BusyKey(key_id, labels.get(key_id, ""), now.requests, before.requests, now.errors))
    keys.sort(key=lambda busy: (-busy.yesterday, -busy.today, busy.key_id))
    return keys[:MOST_KEYS]


PAGE = ConsolePage(name="today", template="today", read=read, shows_service=True, refresh_sec=lambda *_: REFRESH_SEC)
