"""Checks the service and the store, for `counterfoil status` and the console."""

import http.client
import platform
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing

from msgspec import DecodeError, Struct, field, json

from counterfoil import API_VERSION, __version__, bootstrap
from counterfoil.checks import cluster, local
from counterfoil.checks.intake import sudden_changes, watched_folders
from counterfoil.checks.local import Finding, Status, format_duration, printable
from counterfoil.domain.access import Key
from counterfoil.domain.activity import ShopActivity, format_usual
from counterfoil.domain.allowance import NEARLY_USED_UP
from counterfoil.domain.calendar import iso_utc, thai_day
from counterfoil.domain.counted import counted
from counterfoil.domain.intake import IntakeAlarm, WatchedFolder
from counterfoil.domain.load_progress import LatestLoad
from counterfoil.machine.addresses import STORE_HEADER, reachable_host
from counterfoil.ports import DiskUse, Inspection, ServerState, StoreExtent, StoreMismatch, StoreUnavailable
from counterfoil.settings import Settings, display_value

READY_SEC = 5.0
MOST_NAMED = 5
# The possible statuses of a finding, worst first.
SEVERITY: tuple[Status, ...] = ("fail", "warn", "ok")


class Ready(Struct, frozen=True, rename="camel"):
    """The admin listener's response to `/ready`."""

    ready: bool
    not_ready: dict[str, str] = field(default_factory=dict)
    # The ID of the store, from a header; None if the service does not say which store it serves.
    store_id: str | None = None


class KeyToday(Struct, frozen=True, rename="camel"):
    """A key that has used up most of today's quota."""

    key_id: str
    label: str
    count: int
    per_day: int


class StoreStatus(Struct, frozen=True):
    """The findings about the store, and the values that they are based on."""

    findings: list[Finding]
    horizon: int | None = None
    load: LatestLoad | None = None
    extent: StoreExtent | None = None
    shops: Sequence[ShopActivity] = ()
    near_quota: Sequence[KeyToday] = ()
    alarms: Sequence[IntakeAlarm] = ()
    folders: Sequence[WatchedFolder] = ()
    disk: DiskUse | None = None
    servers: Sequence[ServerState] = ()


class Overview(Struct, frozen=True):
    """The state of a deployment at one instant: all findings, and the values in the store that they are based on."""

    at: int
    findings: Sequence[Finding]
    store: StoreStatus

    @property
    def status(self) -> Status:
        return worst_status(self.findings)

    @property
    def problems(self) -> list[Finding]:
        """The findings that are not ok, worst first."""
        return worst_first(finding for finding in self.findings if finding.status != "ok")

    @property
    def horizon_age_ms(self) -> int | None:
        """The age of the horizon, which is negative if the horizon is ahead of the clock."""
        return self.at - self.store.horizon if self.store.horizon else None


def worst_status(findings: Iterable[Finding]) -> Status:
    found = {finding.status for finding in findings}
    return next((status for status in SEVERITY if status in found), "ok")


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: SEVERITY.index(finding.status))


def overview(settings: Settings, now: int) -> Overview:
    """Check the service and the store without changing any data. The store must exist."""
    seen = _store_status(settings, now)
    findings = [service_finding(settings, seen.horizon, now), *seen.findings]
    if not settings.database:
        findings.append(local.disk(settings))
    return Overview(now, [*findings, _versions(seen.extent)], seen)


# --- the service ----------------------------------------------------------------


def service_finding(settings: Settings, horizon: int | None, now: int) -> Finding:
    """Ask the admin listener whether the service is ready. If the listener is off, check the horizon instead."""
    if not settings.admin_port:
        motion = local.horizon_motion(horizon, now)
        if motion == "ahead":
            return Finding(
                "service",
                "warn",
                "The horizon is ahead of the clock, so it does not show whether the service is running.",
                "Check the clock against NTP.",
            )
        if motion == "moving":
            return Finding(
                "service",
                "ok",
                "The horizon is moving. The admin listener is off, so nothing else about the service was checked.",
            )
        return Finding("service", "fail", "The horizon is not moving.", "Run `counterfoil serve`, or check its log.")
    address = f"{settings.admin_host}:{settings.admin_port}"
    answer = ask_ready(settings)
    if isinstance(answer, str):
        advice = "Run `counterfoil serve`, or check admin_host and admin_port."
        return Finding("service", "fail", f"No service responds at {address} ({answer}).", advice)
    if serves_another_store(settings, answer):
        advice = "Check --store and admin_port. Each service on a machine needs its own admin_port."
        return Finding("service", "fail", f"The service at {address} serves another store.", advice)
    if answer.ready:
        return Finding("service", "ok", f"The service is ready at {settings.host}:{settings.port}.")
    reasons = "; ".join(f"{name}: {problem.rstrip('.')}" for name, problem in answer.not_ready.items())
    return Finding("service", "fail", f"The service is running but not ready: {reasons}.", "Check its log.")


def serves_another_store(settings: Settings, answer: Ready) -> bool:
    """Return whether both stores have an ID and the IDs differ. A restored copy of a store has the same ID."""
    if not answer.store_id:
        return False
    return bootstrap.store_id(settings) not in (None, answer.store_id)


def ask_ready(settings: Settings) -> Ready | str:
    """Return the service's response to `/ready`, or the reason why there is none."""
    host = reachable_host(settings.admin_host)
    connection = http.client.HTTPConnection(host, settings.admin_port, timeout=READY_SEC)
    try:
        connection.request("GET", "/ready")
        response = connection.getresponse()
        answer = json.decode(response.read(), type=Ready)
        return Ready(answer.ready, answer.not_ready, response.getheader(STORE_HEADER))
    except OSError as error:
        return (error.strerror or type(error).__name__).lower()
    except (http.client.HTTPException, DecodeError):
        return "another program is using this port"
    finally:
        connection.close()


# --- the store --------------------------------------------------------------------


def _store_status(settings: Settings, now: int) -> StoreStatus:
    inspection = bootstrap.inspection(settings)
    problems = [problem for problem in inspection.problems().values() if problem]
    if problems:
        advice = "Run `counterfoil doctor` for details."
        return StoreStatus([Finding("store", "fail", f"{problem.rstrip('.')}.", advice) for problem in problems])
    try:
        return _readable_store(settings, inspection, now)
    except (StoreUnavailable, StoreMismatch) as error:
        return StoreStatus([Finding("store", "fail", f"{str(error).rstrip('.')}.", "Run `counterfoil doctor`.")])


def _readable_store(settings: Settings, inspection: Inspection, now: int) -> StoreStatus:
    extent, horizon, load = inspection.extent(), inspection.horizon(), inspection.latest_load(now)
    intake, folders = inspection.intake(), inspection.watched_folders(now)
    shops = inspection.shops(now, count_all=False)
    with closing(bootstrap.key_store(settings)) as key_store:
        keys = [key for key in key_store.all() if not key.is_revoked(now)]
    near_quota = _near_quota(settings, keys, now)
    servers = inspection.servers()
    size = f"{extent.size_bytes / (1 << 20):,.1f} MiB"
    findings = [
        Finding("store", "ok", f"{display_value(settings, 'store')}, {size}, schema {extent.schema}, no problems."),
        *(server for server in cluster.servers(servers, settings.replica_lag_ms)),
        _horizon(horizon, now),
        *_load(load, horizon, now),
        *sudden_changes(intake, now),
        *watched_folders(folders, now, settings.silent_folder_min),
        _keys(keys, near_quota),
        _shops(shops, now),
    ]
    return StoreStatus(
        findings, horizon, load, extent, shops, near_quota, intake.alarms, folders, inspection.disk_use(), servers
    )


def _horizon(horizon: int | None, now: int) -> Finding:
    if not horizon:
        return Finding("horizon", "warn", "Nothing has been loaded into this store or served from it yet.")
    age = now - horizon
    if age < -local.CLOCK_BEHIND_MS:
        return Finding(
            "horizon",
            "warn",
            f"{iso_utc(horizon)} is {format_duration(-age)} ahead of the clock.",
            "Check the clock against NTP.",
        )
    if age >= local.MOVING_MS:
        message = f"{iso_utc(horizon)}, {format_duration(age)} old: `serverTime` is not advancing."
        return Finding("horizon", "fail", message, "Run `counterfoil serve`, or check its log.")
    return Finding("horizon", "ok", f"{iso_utc(horizon)}, {max(0, age) / 1000:.1f} s old.")


def _load(load: LatestLoad | None, horizon: int | None, now: int) -> Iterator[Finding]:
    if load is None:
        yield Finding("load", "warn", "Nothing has been loaded yet.", "Run `counterfoil load`.")
        return
    if not load.finished:
        yield from local.latest_load(load, local.horizon_motion(horizon, now))
    about = f"{counted(load.lines, 'line')}, {load.changed:,} changed, {load.rejected:,} rejected"
    if load.rejected:
        advice = "Read the reasons in its output, fix the cause, then load its rejects file or repeat the import."
        yield Finding("load", "warn", f"The latest load rejected lines ({about}).", advice)
    elif load.finished:
        yield Finding("load", "ok", f"Finished {format_duration(load.idle_ms)} ago: {about}.")


def _near_quota(settings: Settings, keys: Sequence[Key], now: int) -> list[KeyToday]:
    """Return the active keys that have used at least 80 % of today's quota."""
    today = thai_day(now)
    with closing(bootstrap.operator_reads(settings)) as reads:
        requests = {one.key_id: one.requests for one in reads.days(today, today)}
    counts = [(key, requests.get(key.key_id, 0)) for key in keys]
    return [
        KeyToday(key.key_id, key.label, count, key.per_day)
        for key, count in counts
        if count >= NEARLY_USED_UP * key.per_day
    ]


def _keys(keys: Sequence[Key], near: Sequence[KeyToday]) -> Finding:
    active = counted(len(keys), "active key")
    if not keys:
        return Finding("keys", "ok", "There are no active keys. Run `counterfoil keys issue` to create one.")
    if not near:
        return Finding("keys", "ok", f"{active}, all below 80 % of today's quota.")
    named = [f"{one.label or one.key_id} ({min(one.count, one.per_day):,} of {one.per_day:,})" for one in near]
    return Finding(
        "keys",
        "warn",
        f"{active}; near today's quota: {_first(named)}.",
        "Run `counterfoil usage` for details. To raise a quota, run `counterfoil keys update KEYID --per-day N`.",
    )


def _shops(shops: Sequence[ShopActivity], now: int) -> Finding:
    number = counted(len(shops), "shop")
    silent = [shop for shop in shops if shop.is_silent]
    if not silent:
        return Finding("shops", "ok", f"{number}, none silent for longer than usual.")
    named = [
        f"{printable(shop.name or shop.shop_id)} (no bill for {format_duration(now - (shop.last_bill_at or now))}; "
        f"usually at least {format_usual(shop.usual_since_last)} bills in that time)"
        for shop in silent
    ]
    advice = "Check their tills and deliveries. Run `counterfoil shops` to see all shops."
    return Finding("shops", "warn", f"{number}, {len(silent):,} silent: {_first(named)}.", advice)


def _first(names: Sequence[str]) -> str:
    rest = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {rest:,} more" if rest > 0 else "")


def _versions(extent: StoreExtent | None) -> Finding:
    software = f", {extent.software}" if extent else ""
    message = f"Counterfoil {__version__} (API {API_VERSION}), Python {platform.python_version()}{software}."
    return Finding("version", "ok", message)
