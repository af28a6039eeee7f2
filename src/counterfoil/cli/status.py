"""`counterfoil status`: show on one screen whether all is well."""

import http.client
import platform
from collections.abc import Iterator, Sequence
from contextlib import closing

import click
from msgspec import DecodeError, Struct, field, json

from counterfoil import API_VERSION, __version__, bootstrap
from counterfoil.cli.checks import cluster, local
from counterfoil.cli.checks.intake import sudden_changes, watched_folders
from counterfoil.cli.checks.local import Finding, Status, format_duration
from counterfoil.cli.doctor import print_finding
from counterfoil.cli.load_fields import alarm_view
from counterfoil.cli.options import existing_store, json_option, store_option
from counterfoil.cli.shops import printable, shop_view
from counterfoil.cli.terminal import print_json
from counterfoil.domain.access import Key
from counterfoil.domain.activity import ShopActivity
from counterfoil.domain.allowance import NEARLY_USED_UP
from counterfoil.domain.calendar import iso_utc, thai_day
from counterfoil.domain.intake import IntakeAlarm, WatchedFolder
from counterfoil.machine.addresses import reachable_host
from counterfoil.machine.clock import SystemClock
from counterfoil.ports import Inspection, LatestLoad, StoreExtent, StoreMismatch, StoreUnavailable
from counterfoil.settings import Settings, display_value

READY_SEC = 5.0
MOST_NAMED = 5
EXIT_CODES: dict[Status, int] = {"ok": 0, "fail": 1, "warn": 2}


class Ready(Struct, frozen=True, rename="camel"):
    """The admin listener's response to `/ready`."""

    ready: bool
    not_ready: dict[str, str] = field(default_factory=dict)


class KeyToday(Struct, frozen=True, rename="camel"):
    """A key that has used up most of today's quota."""

    key_id: str
    label: str
    count: int
    per_day: int


class StoreStatus(Struct, frozen=True):
    """The findings about the store, and the values that `--json` prints."""

    findings: list[Finding]
    horizon: int | None = None
    load: LatestLoad | None = None
    extent: StoreExtent | None = None
    shops: Sequence[ShopActivity] = ()
    near_quota: Sequence[KeyToday] = ()
    alarms: Sequence[IntakeAlarm] = ()
    folders: Sequence[WatchedFolder] = ()


@click.command()
@store_option
@json_option
@click.pass_context
def command(ctx: click.Context, store: str | None, as_json: bool) -> None:
    """Show the state of the service, the store, the latest load, quotas, shops and disk on one screen.

    Changes no data. Exit status: 0 all is well, 1 there are problems, 2 there
    are only warnings. Incorrect usage also exits with 2, but prints nothing to
    standard output.
    """
    settings = existing_store(ctx, store)
    now = SystemClock().now_ms()
    seen = _store_status(settings, now)
    findings = [_service(settings, seen.horizon, now), *seen.findings]
    if not settings.database:
        findings.append(local.disk(settings))
    findings.append(_versions(seen.extent))
    worst = _worst(findings)
    if as_json:
        print_json(_view(worst, findings, seen, now))
    else:
        for finding in findings:
            print_finding(finding)
        click.echo(f"\n{_summary(findings)}")
    raise click.exceptions.Exit(EXIT_CODES[worst])


def _worst(findings: Sequence[Finding]) -> Status:
    found = {finding.status for finding in findings}
    return "fail" if "fail" in found else "warn" if "warn" in found else "ok"


def _summary(findings: Sequence[Finding]) -> str:
    failed, warned = (sum(finding.status == status for finding in findings) for status in ("fail", "warn"))
    if not failed and not warned:
        return click.style("All is well.", fg="green")
    counts = [(failed, "problem", "red"), (warned, "warning", "yellow")]
    parts = [click.style(f"{n} {what}{'' if n == 1 else 's'}", fg=colour) for n, what, colour in counts if n]
    return f"{' and '.join(parts)}. Run `counterfoil doctor` for details."


# --- the service ----------------------------------------------------------------


def _service(settings: Settings, horizon: int | None, now: int) -> Finding:
    if not settings.admin_port:
        if local.horizon_motion(horizon, now) == "moving":
            return Finding(
                "service", "ok", "The horizon is moving. The admin listener is off, so nothing else was checked."
            )
        return Finding("service", "fail", "The horizon is not moving.", "Run `counterfoil serve`, or check its log.")
    address = f"{settings.admin_host}:{settings.admin_port}"
    answer = _ask_ready(settings)
    if isinstance(answer, str):
        advice = "Run `counterfoil serve`, or check admin_host and admin_port."
        return Finding("service", "fail", f"No service responds at {address} ({answer}).", advice)
    if answer.ready:
        return Finding("service", "ok", f"The service is ready at {settings.host}:{settings.port}.")
    reasons = "; ".join(f"{name}: {problem.rstrip('.')}" for name, problem in answer.not_ready.items())
    return Finding("service", "fail", f"The service is running but not ready: {reasons}.", "Check its log.")


def _ask_ready(settings: Settings) -> Ready | str:
    """Return the response to `/ready`, or the reason why there is none."""
    host = reachable_host(settings.admin_host)
    connection = http.client.HTTPConnection(host, settings.admin_port, timeout=READY_SEC)
    try:
        connection.request("GET", "/ready")
        return json.decode(connection.getresponse().read(), type=Ready)
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
    size = f"{extent.size_bytes / (1 << 20):,.1f} MiB"
    findings = [
        Finding("store", "ok", f"{display_value(settings, 'store')}, {size}, schema {extent.schema}, no problems."),
        *(server for server in cluster.servers(inspection.servers(), settings.replica_lag_ms)),
        _horizon(horizon, now),
        *_load(load, horizon, now),
        *sudden_changes(intake, now),
        *watched_folders(folders, now, settings.silent_folder_min),
        _keys(keys, near_quota),
        _shops(shops, now),
    ]
    return StoreStatus(findings, horizon, load, extent, shops, near_quota, intake.alarms, folders)


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
    about = f"{load.lines:,} lines, {load.changed:,} records changed, {load.rejected:,} lines rejected"
    if load.rejected:
        advice = "Read the reasons in the load's output, fix the cause, then load its rejects file."
        yield Finding("load", "warn", f"The latest load rejected lines ({about}).", advice)
    elif load.finished:
        yield Finding("load", "ok", f"Finished {format_duration(load.idle_ms)} ago: {about}.")


def _near_quota(settings: Settings, keys: Sequence[Key], now: int) -> list[KeyToday]:
    """Return the active keys that have used at least 80 % of today's quota."""
    with closing(bootstrap.usage(settings)) as usage:
        totals, today = usage.totals(1), thai_day(now)
    counts = [(key, totals.get(key.key_id, {}).get(today, 0)) for key in keys]
    return [
        KeyToday(key.key_id, key.label, count, key.per_day)
        for key, count in counts
        if count >= NEARLY_USED_UP * key.per_day
    ]


def _keys(keys: Sequence[Key], near: Sequence[KeyToday]) -> Finding:
    active = f"{len(keys):,} active {'key' if len(keys) == 1 else 'keys'}"
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
    counted = f"{len(shops):,} {'shop' if len(shops) == 1 else 'shops'}"
    silent = [shop for shop in shops if shop.is_silent]
    if not silent:
        return Finding("shops", "ok", f"{counted}, none silent for longer than usual.")
    named = [
        f"{printable(shop.name or shop.shop_id)} (no bill for {format_duration(now - (shop.last_bill_at or now))})"
        for shop in silent
    ]
    advice = "Check their tills and deliveries. Run `counterfoil shops` to see all shops."
    return Finding("shops", "warn", f"{counted}, {len(silent):,} silent: {_first(named)}.", advice)


def _first(names: Sequence[str]) -> str:
    rest = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {rest:,} more" if rest > 0 else "")


def _versions(extent: StoreExtent | None) -> Finding:
    software = f", {extent.software}" if extent else ""
    message = f"Counterfoil {__version__} (API {API_VERSION}), Python {platform.python_version()}{software}."
    return Finding("version", "ok", message)


def _view(worst: Status, findings: Sequence[Finding], seen: StoreStatus, now: int) -> dict[str, object]:
    load = seen.load
    return {
        "status": worst,
        "at": iso_utc(now),
        "version": __version__,
        "checks": findings,
        "horizonAgeMs": now - seen.horizon if seen.horizon else None,
        "storeBytes": seen.extent.size_bytes if seen.extent else None,
        "schema": seen.extent.schema if seen.extent else None,
        "latestLoad": None
        if load is None
        else {
            "lines": load.lines,
            "changed": load.changed,
            "rejected": load.rejected,
            "finished": load.finished,
            "idleMs": load.idle_ms,
        },
        "loadAlarms": alarm_view(seen.alarms),
        "watchedFolders": [
            {
                "name": folder.name,
                "heartbeatAgeMs": max(0, now - folder.seen_at),
                "deliveryAgeMs": max(0, now - folder.delivered_at),
                "files": folder.files,
                "quarantined": folder.quarantined,
                "stopped": folder.is_stopped,
            }
            for folder in seen.folders
        ],
        "keysNearQuota": seen.near_quota,
        "shops": len(seen.shops),
        "silentShops": [shop_view(shop) for shop in seen.shops if shop.is_silent],
    }
