"""Runs all checks and collects what they found, for `counterfoil status`, `counterfoil doctor` and the console."""

import http.client
import platform
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC

from msgspec import DecodeError, Struct, field, json

from counterfoil import API_VERSION, __version__, bootstrap
from counterfoil.checks import cluster, local
from counterfoil.checks.findings import Finding, Status, fail, failed, ok, warn, worst_status
from counterfoil.checks.local import PortUse
from counterfoil.domain.access import Key
from counterfoil.domain.activity import ShopActivity, format_usual
from counterfoil.domain.calendar import from_ms, iso_utc
from counterfoil.domain.intake import (
    FOLDER_SILENT,
    WATCHER_STOPPED,
    WATCHER_UNSEEN,
    Intake,
    LatestLoad,
    WatchedFolder,
    describe,
    folder_warning,
)
from counterfoil.domain.messages import NOTHING, Message, duration, first_of, quoted
from counterfoil.machine.addresses import STORE_HEADER, reachable_host
from counterfoil.operator_reads import OperatorReads
from counterfoil.ports import StoreExtent, StoreMismatch, StoreUnavailable
from counterfoil.settings import Settings, display_value
from counterfoil.text import printable
from counterfoil.views.store import KeyToday, StoreValues, read

READY_SEC = 5.0


class Ready(Struct, frozen=True, rename="camel"):
    """The admin listener's response to `/ready`."""

    ready: bool
    not_ready: dict[str, str] = field(default_factory=dict)
    # The ID of the store, from a header; None if the service does not say which store it serves.
    store_id: str | None = None


class Overview(Struct, frozen=True):
    """The state of a deployment at one instant: all findings, and the values in the store that they are based on."""

    at: int
    findings: Sequence[Finding]
    store: StoreValues

    @property
    def status(self) -> Status:
        return worst_status(self.findings)

    @property
    def is_healthy(self) -> bool:
        """Whether everything that the service needs is in order, even if the service is not running."""
        return not any(
            finding.status == "fail" and finding.check not in ("service", "horizon") for finding in self.findings
        )

    @property
    def horizon_age_ms(self) -> int | None:
        """The age of the horizon, which is negative if the horizon is ahead of the clock."""
        return self.at - self.store.horizon if self.store.horizon else None


def overview(settings: Settings, now: int, *, deep: bool = False) -> Overview:
    """Check the service and the store without changing any data.

    `deep` adds the checks of what the service needs: files, secret, clock, ports, permissions and meter. They take
    longer, and write a temporary file.
    """
    absent = local.absent_store(settings)
    if absent:
        machine = [local.clock(None, now), local.disk(settings), *local.ports(settings, "other")]
        return Overview(now, [absent, *machine], StoreValues())
    inspection = bootstrap.operator_reads(settings)
    problems = inspection.problems()
    moved = local.moved_store(settings, problems)
    if moved:
        return Overview(now, [moved], StoreValues())
    of_store, store = _check_store(settings, inspection, problems, now)
    service = service_finding(settings, store.horizon, now, is_new=store.extent is not None and not store.horizon)
    # If neither the admin listener nor the horizon can be asked, nothing is known about the service.
    is_known = bool(settings.admin_port or store.horizon or store.extent)
    findings = [service, *of_store] if is_known else [*of_store]
    if not settings.database:
        findings.append(local.disk(settings))
    if deep:
        findings += _deep(settings, inspection, problems, store.horizon, now)
        findings += local.ports(settings, _port_use(settings, service, store.horizon, now))
    return Overview(now, [*findings, _versions(store.extent)], store)


def _deep(
    settings: Settings, inspection: OperatorReads, problems: Mapping[str, Message | None], horizon: int | None, now: int
) -> Iterator[Finding]:
    if settings.database:
        if not problems["store"]:
            yield from cluster.check_login(settings, inspection)
        yield local.clock(None, now)
        if settings.meter:
            yield cluster.meter(display_value(settings, "meter"), bootstrap.meter_problem(settings))
        return
    yield from local.store_folder(settings)
    yield from local.secret(settings, None if problems["books"] else inspection.fingerprint())
    yield from local.file_modes(settings, [name for name, problem in problems.items() if not problem])
    yield local.write_test(settings)
    yield local.clock(horizon, now)


def _port_use(settings: Settings, service: Finding, horizon: int | None, now: int) -> PortUse:
    """Return what uses the ports that are in use, as far as the finding about the service shows."""
    if not settings.admin_port and (settings.database or not horizon):
        # Every node advances the horizon of a database, so it does not show whether a service is running on this one.
        return "unknown"
    if service.code in (SERVICE_READY.message.code, SERVICE_NOT_READY.message.code, HORIZON_MOVING.message.code):
        return "service"
    return "unknown" if local.horizon_motion(horizon, now) == "ahead" else "other"


# --- the service ----------------------------------------------------------------


CHECK_NTP = Message("check_ntp", "Check the clock against NTP.")
SERVE_OR_LOG = Message("serve_or_log", "Run `counterfoil serve`, or check its log.")
SERVICE_READY = ok("service", "service_ready", "The service is ready at {address}.")
SERVICE_NOT_READY = fail(
    "service", "service_not_ready", "The service is running but not ready: {reasons}", "Check its log."
)
SERVICE_SILENT = fail(
    "service",
    "service_silent",
    "No service responds at {address} ({reason}).",
    "Run `counterfoil serve`, or check admin_host and admin_port.",
)
OTHER_STORE = fail(
    "service",
    "other_store",
    "The service at {address} serves another store.",
    "Check --store and admin_port. Each service on a machine needs its own admin_port.",
)
NOTHING_SERVED = warn(
    "service",
    "nothing_served",
    "Nothing has been loaded into this store or served from it yet.",
    "Run `counterfoil serve` to start the service.",
)
HORIZON_MOVING = ok(
    "service",
    "horizon_moving",
    "The horizon is moving. The admin listener is off, so nothing else about the service was checked.",
)
HORIZON_STILL = fail("service", "horizon_still", "The horizon is not moving.", SERVE_OR_LOG)
SERVICE_UNDECIDED = warn(
    "service",
    "service_undecided",
    "The horizon is ahead of the clock, so it does not show whether the service is running.",
    CHECK_NTP,
)
ANOTHER_PROGRAM = Message("another_program", "another program is using this port")
REFUSED = Message("connection_refused", "connection refused")
TIMED_OUT = Message("timed_out", "timed out")


def service_finding(settings: Settings, horizon: int | None, now: int, *, is_new: bool = False) -> Finding:
    """Ask the admin listener whether the service is ready. If the listener is off, check the horizon instead.

    `is_new` is true if nothing has ever been loaded into the store or served from it.
    """
    if not settings.admin_port:
        if is_new:
            return NOTHING_SERVED()
        motion = local.horizon_motion(horizon, now)
        return {"ahead": SERVICE_UNDECIDED, "moving": HORIZON_MOVING, "still": HORIZON_STILL}[motion]()
    address = f"{settings.admin_host}:{settings.admin_port}"
    answer = ask_ready(settings)
    if isinstance(answer, Message):
        if is_new:
            return NOTHING_SERVED()
        return SERVICE_SILENT(address=address, reason=answer)
    if serves_another_store(settings, answer):
        return OTHER_STORE(address=address)
    if answer.ready:
        return SERVICE_READY(address=f"{settings.host}:{settings.port}")
    return SERVICE_NOT_READY(reasons="; ".join(f"{name}: {problem}" for name, problem in answer.not_ready.items()))


def serves_another_store(settings: Settings, answer: Ready) -> bool:
    """Return whether both stores have an ID and the IDs differ. A restored copy of a store has the same ID."""
    if not answer.store_id:
        return False
    return bootstrap.operator_reads(settings).store_id() not in (None, answer.store_id)


def ask_ready(settings: Settings) -> Ready | Message:
    """Return the service's response to `/ready`, or the reason why there is none."""
    host = reachable_host(settings.admin_host)
    connection = http.client.HTTPConnection(host, settings.admin_port, timeout=READY_SEC)
    try:
        connection.request("GET", "/ready")
        response = connection.getresponse()
        answer = json.decode(response.read(), type=Ready)
        return Ready(answer.ready, answer.not_ready, response.getheader(STORE_HEADER))
    except ConnectionRefusedError:
        return REFUSED
    except TimeoutError:
        return TIMED_OUT
    except OSError as error:
        return quoted((error.strerror or type(error).__name__).lower())
    except (http.client.HTTPException, DecodeError):
        return ANOTHER_PROGRAM
    finally:
        connection.close()


# --- the store --------------------------------------------------------------------


STORE_WELL = ok("store", "store_well", "{store}, {size} MiB, schema {schema}, no problems.")
STORE_REACHABLE = ok("store", "store_reachable", "{store} is reachable, and its schema is up to date.")
STORE_UNUSABLE = fail("store", "store_unusable", "{store} cannot be used. The findings about {databases} say why.")


def _check_store(
    settings: Settings, inspection: OperatorReads, problems: Mapping[str, Message | None], now: int
) -> tuple[list[Finding], StoreValues]:
    """Return the findings about the store, and the values that they are based on."""
    found = {name: problem for name, problem in problems.items() if problem}
    try:
        if not found:
            store = read(inspection, now)
            return list(_findings(settings, store, now)), store
    except (StoreUnavailable, StoreMismatch) as error:
        granted = inspection.permissions()
        if granted and not (granted.serves or granted.owns):
            # Only logins that serve or own the schema can read everything.
            reachable, servers = STORE_REACHABLE(store=display_value(settings, "store")), inspection.servers()
            return [reachable, *cluster.servers(servers, settings.replica_lag_ms)], StoreValues(servers=servers)
        found = {"store": error.message}
    findings = [failed(name, problem, _advice(settings, problem)) for name, problem in found.items()]
    if "store" not in found:
        findings.insert(0, STORE_UNUSABLE(store=display_value(settings, "store"), databases=list(found)))
    return findings, StoreValues(horizon=inspection.horizon(), disk=inspection.disk_use())


def _advice(settings: Settings, problem: Message) -> Message:
    if settings.database:
        return cluster.SEE_POSTGRESQL
    return local.CHECK_OWNER if problem.code in local.UNEXPLAINED else NOTHING


def _findings(settings: Settings, store: StoreValues, now: int) -> Iterator[Finding]:
    if store.extent:
        size = f"{store.extent.size_bytes / (1 << 20):,.1f}"
        yield STORE_WELL(store=display_value(settings, "store"), size=size, schema=store.extent.schema)
    yield from cluster.servers(store.servers, settings.replica_lag_ms)
    yield from horizon_findings(store.horizon, now)
    yield from _load(store.load, store.horizon, now)
    yield from sudden_changes(store.intake, now)
    yield from watched_folders(store.folders, now, settings.silent_folder_min)
    yield _keys(store.keys, store.near_quota)
    yield _shops(store.shops, now)


HORIZON_AHEAD = warn("horizon", "horizon_ahead", "{time} is {span} ahead of the clock.", CHECK_NTP)
HORIZON_OLD = fail("horizon", "horizon_old", "{time}, {span} old: `serverTime` is not advancing.", SERVE_OR_LOG)
HORIZON_AGE = ok("horizon", "horizon_age", "{time}, {seconds} s old.")


def horizon_findings(horizon: int | None, now: int, max_age_ms: int = local.MOVING_MS) -> Iterator[Finding]:
    """Check whether the horizon is advancing. Yield nothing for a store without a horizon."""
    if not horizon:
        return
    time, age = iso_utc(horizon), now - horizon
    if age < -local.CLOCK_BEHIND_MS:
        yield HORIZON_AHEAD(time=time, span=duration(-age))
    elif age >= max_age_ms:
        yield HORIZON_OLD(since=from_ms(horizon, UTC), time=time, span=duration(age))
    else:
        yield HORIZON_AGE(time=time, seconds=f"{max(0, age) / 1000:.1f}")


NOTHING_LOADED = warn("load", "nothing_loaded", "Nothing has been loaded yet.", "Run `counterfoil load`.")
LOAD_REJECTED = warn(
    "load",
    "load_rejected",
    "The latest load rejected lines ({lines:line}, {changed} changed, {rejected} rejected).",
    "Read the reasons in its output, fix the cause, then load its rejects file or repeat the import.",
)
LOAD_FINISHED_AGO = ok(
    "load", "load_finished_ago", "Finished {span} ago: {lines:line}, {changed} changed, {rejected} rejected."
)


def _load(load: LatestLoad | None, horizon: int | None, now: int) -> Iterator[Finding]:
    if load is None:
        yield NOTHING_LOADED()
        return
    if not load.finished:
        yield local.unfinished_load(load, local.horizon_motion(horizon, now))
    if load.rejected or load.finished:
        kind = LOAD_REJECTED if load.rejected else LOAD_FINISHED_AGO
        yield kind(span=duration(load.idle_ms), lines=load.lines, changed=load.changed, rejected=load.rejected)


NO_KEYS = ok("keys", "no_keys", "There are no active keys. Run `counterfoil keys issue` to create one.")
KEYS_BELOW = ok("keys", "keys_below", "{count:active key}, all below 80 % of today's quota.")
KEYS_NEAR = warn(
    "keys",
    "keys_near",
    "{count:active key}; near today's quota: {names}.",
    "Run `counterfoil usage` for details. To raise a quota, run `counterfoil keys update KEYID --per-day N`.",
)
NEAR_QUOTA = Message("near_quota", "{name} ({count} of {quota})")


def _keys(keys: Sequence[Key], near: Sequence[KeyToday]) -> Finding:
    if not keys:
        return NO_KEYS()
    if not near:
        return KEYS_BELOW(count=len(keys))
    named = [
        NEAR_QUOTA(name=key.label or key.key_id, count=min(key.count, key.per_day), quota=key.per_day) for key in near
    ]
    return KEYS_NEAR(amount=len(named), count=len(keys), names=first_of(named))


SHOPS_USUAL = ok("shops", "shops_usual", "{count:shop}, none silent for longer than usual.")
SHOPS_SILENT = warn(
    "shops",
    "shops_silent",
    "{count:shop}, {silent} silent: {names}.",
    "Check their tills and deliveries. Run `counterfoil shops` to see all shops.",
)
SILENT_SHOP = Message("silent_shop", "{name} (no bill for {span}; usually at least {usual} bills in that time)")


def _shops(shops: Sequence[ShopActivity], now: int) -> Finding:
    silent = [shop for shop in shops if shop.is_silent]
    if not silent:
        return SHOPS_USUAL(count=len(shops))
    named = [
        SILENT_SHOP(
            name=printable(shop.name or shop.shop_id),
            span=duration(now - (shop.last_bill_at or now)),
            usual=format_usual(shop.usual_since_last),
        )
        for shop in silent
    ]
    return SHOPS_SILENT(amount=len(silent), count=len(shops), silent=len(silent), names=first_of(named))


VERSIONS = ok("version", "versions", "Counterfoil {version} (API {api}), Python {python}{software}.")


def _versions(extent: StoreExtent | None) -> Finding:
    return VERSIONS(
        version=__version__,
        api=API_VERSION,
        python=platform.python_version(),
        software=f", {extent.software}" if extent else "",
    )


# --- deliveries -----------------------------------------------------------------------


INTAKE_USUAL = ok("intake", "intake_usual", "The latest loads look like earlier ones.")
INTAKE_ALARM = warn(
    "intake",
    "intake_alarm",
    "Sudden change, noticed {span} ago: {change}.",
    "Check the POS export. If the change is intended, run `counterfoil load --accept-change`.",
)
FOLDER_WATCHED = ok(
    "folders", "folder_watched", "{folder} is watched: {files:file} loaded, latest delivery {span} ago."
)
START_WATCHER = Message("start_watcher", "Start it again with `counterfoil load --watch {folder}`, or check its log.")
CHECK_DELIVERY = Message(
    "check_delivery",
    "Check that the POS still delivers files. To change the limit, set silent_folder_min (in minutes).",
)
_ADVICE = {WATCHER_STOPPED.code: START_WATCHER, WATCHER_UNSEEN.code: START_WATCHER, FOLDER_SILENT.code: CHECK_DELIVERY}


def sudden_changes(intake: Intake, now: int) -> Iterator[Finding]:
    """Yield a warning for each active alarm, or one `ok` finding if there are none.

    Yield nothing until the first group of loads is complete (see `Intake.judged`).
    """
    if not intake.judged:
        return
    if not intake.alarms:
        yield INTAKE_USUAL()
    since = from_ms(intake.alarmed_at, UTC)
    for alarm in intake.alarms:
        yield INTAKE_ALARM(since=since, span=duration(now - intake.alarmed_at), change=describe(alarm))


def watched_folders(folders: Sequence[WatchedFolder], now: int, silent_after_min: int) -> Iterator[Finding]:
    for folder in folders:
        warning = folder_warning(folder, now, silent_after_min)
        if warning is None:
            yield FOLDER_WATCHED(
                subject=folder.name, folder=folder.name, files=folder.files, span=duration(now - folder.delivered_at)
            )
        else:
            since = from_ms(folder.seen_at if folder.is_stale(now) else folder.delivered_at, UTC)
            advice = _ADVICE[warning.code](folder=folder.name)
            yield Finding("folders", "warn", warning, advice, warning.code, folder.name, since)
