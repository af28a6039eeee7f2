"""Runs all checks and collects what they found, for `counterfoil status`, `counterfoil doctor` and the console."""

import http.client
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC

from msgspec import UNSET, DecodeError, Struct, field, json

from counterfoil import bootstrap
from counterfoil.checks import local
from counterfoil.checks.findings import MESSAGES, Finding, Status, failed, finding, worst_status
from counterfoil.checks.local import PortUse
from counterfoil.checks.open_items import open_item_findings
from counterfoil.domain.access import Key
from counterfoil.domain.activity import MOST_COUNTED, ShopActivity
from counterfoil.domain.forgetting import ForgottenMember
from counterfoil.domain.intake import MIN_EARLIER_GROUPS, Intake, LoadRow, WatchedFolder, comparable_groups, describe
from counterfoil.machine.addresses import STORE_HEADER, reachable_host
from counterfoil.model.calendar import DAY_MS, HOUR_MS, MINUTE_MS, from_ms
from counterfoil.model.messages import NOTHING, Message, duration, first_of, quoted
from counterfoil.model.text import format_usual, printable
from counterfoil.model.version import API_VERSION, __version__
from counterfoil.operator_reads import OperatorReads
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.settings import Settings, display_value
from counterfoil.views.store import KeyToday, StoreValues, read

READY_SEC = 5.0
# A forgetting that was begun later may still be running.
FORGETTING_MS = 10 * MINUTE_MS


class Ready(Struct, frozen=True, rename="camel"):
    ready: bool
    not_ready: dict[str, str] = field(default_factory=dict)
    # The ID of the store, from a header; None if the service does not say which store it serves.
    store_id: str | None = None


# Returns what the service answered when it was asked whether it is ready, or why it did not.
Asking = Callable[[], Ready | Message]


class Overview(Struct, frozen=True):
    """The state of a deployment at one instant: all findings, and the values in the store that they are based on."""

    at: int
    findings: Sequence[Finding]
    store: StoreValues

    @property
    def status(self) -> Status:
        return worst_status(self.findings)

    @property
    def is_complete(self) -> bool:
        """Whether the store could be read. Otherwise, a check that found nothing may not have run."""
        return self.store.extent is not None

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


def overview(settings: Settings, now: int, *, deep: bool = False, ask: Asking | None = None) -> Overview:
    """Check service and store without changing data. `deep` adds slower checks, which write a temporary file."""
    variables = local.variables(os.environ, with_all=deep)
    absent = local.absent_store(settings)
    if absent:
        machine = [local.clock(None, now), local.disk(settings), *local.ports(settings, "other")]
        return Overview(now, [absent, *variables, *machine], StoreValues())
    inspection = bootstrap.store(settings).reads()
    problems = inspection.problems()
    moved = local.moved_store(settings, problems)
    if moved:
        return Overview(now, [moved], StoreValues())
    of_store, store = _check_store(settings, inspection, problems, now)
    is_new = store.extent is not None and not store.horizon
    service = service_finding(settings, store.horizon, now, is_new=is_new, ask=ask)
    # If neither the admin listener nor the horizon can be asked, nothing is known about the service.
    is_known = bool(settings.admin_port or store.horizon or store.extent)
    findings = [service, *of_store] if is_known else [*of_store]
    findings += variables
    findings += local.notices(settings, now)
    if not settings.database:
        findings.append(local.disk(settings))
    if deep:
        findings += _deep(settings, inspection, problems, store.horizon, now)
        findings += local.ports(settings, _port_use(settings, service, store.horizon, now))
    software = f", {store.extent.software}" if store.extent else ""
    python = platform.python_version()
    versions = finding("versions", version=__version__, api=API_VERSION, python=python, software=software)
    return Overview(now, [*findings, versions], store)


def _deep(
    settings: Settings, inspection: OperatorReads, problems: Mapping[str, Message | None], horizon: int | None, now: int
) -> Iterator[Finding]:
    if settings.database:
        if not problems["store"]:
            yield from local.check_login(settings, inspection)
        yield local.clock(None, now)
        if settings.meter:
            from counterfoil.backends.redis import client  # noqa: PLC0415 - an extra

            yield local.meter(display_value(settings, "meter"), client.problem(settings.meter))
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
    if service.code in ("service_ready", "service_not_ready", "horizon_moving"):
        return "service"
    return "unknown" if local.horizon_motion(horizon, now) == "ahead" else "other"


def service_finding(
    settings: Settings, horizon: int | None, now: int, *, is_new: bool = False, ask: Asking | None = None
) -> Finding:
    """Ask the admin listener, or look at the horizon if it is off. `is_new`: nothing was ever loaded or served."""
    if not settings.admin_port:
        if is_new:
            return finding("nothing_served")
        motion = local.horizon_motion(horizon, now)
        return finding({"ahead": "service_undecided", "moving": "horizon_moving", "still": "horizon_still"}[motion])
    address = f"{settings.admin_host}:{settings.admin_port}"
    answer = ask() if ask else ask_ready(settings)
    if isinstance(answer, Message):
        silent = finding("service_silent", address=address, reason=answer)
        return finding("nothing_served") if is_new else silent
    store_id = bootstrap.store(settings).reads().store_id()
    if answer.store_id and store_id and answer.store_id != store_id:
        return finding("other_store", address=address)
    if not answer.ready:
        reasons = "; ".join(f"{name}: {problem}" for name, problem in answer.not_ready.items())
        return finding("service_not_ready", reasons=reasons)
    motion = local.horizon_motion(horizon, now)
    if motion == "ahead" or (answer.store_id and not store_id):
        return finding("service_unverified", address=address)
    # A service that is ready moves the horizon of its store.
    if motion == "still":
        return finding("service_elsewhere", address=address)
    return finding("service_ready", address=f"{settings.host}:{settings.port}")


def ask_ready(settings: Settings, timeout_sec: float = READY_SEC) -> Ready | Message:
    host = reachable_host(settings.admin_host)
    connection = http.client.HTTPConnection(host, settings.admin_port, timeout=timeout_sec)
    try:
        connection.request("GET", "/ready")
        response = connection.getresponse()
        answer = json.decode(response.read(), type=Ready)
        return Ready(answer.ready, answer.not_ready, response.getheader(STORE_HEADER))
    except (OSError, http.client.HTTPException, DecodeError) as error:
        return why_no_answer(error)
    finally:
        connection.close()


def why_no_answer(error: Exception) -> Message:
    if isinstance(error, ConnectionRefusedError):
        return MESSAGES["connection_refused"]
    if isinstance(error, TimeoutError):
        return MESSAGES["timed_out"]
    if isinstance(error, OSError):
        return quoted((error.strerror or type(error).__name__).lower())
    return MESSAGES["another_program"]


def _check_store(
    settings: Settings, inspection: OperatorReads, problems: Mapping[str, Message | None], now: int
) -> tuple[list[Finding], StoreValues]:
    found = {name: problem for name, problem in problems.items() if problem}
    try:
        if not found:
            store = read(inspection, now)
            return list(_findings(settings, store, now)), store
    except (StoreUnavailable, StoreMismatch) as error:
        granted = inspection.permissions()
        if granted and not (granted.serves or granted.owns):
            # Only logins that serve or own the schema can read everything.
            reachable = finding("store_reachable", store=display_value(settings, "store"))
            servers = inspection.servers()
            return [reachable, *local.servers(servers, settings.replica_lag_ms)], StoreValues(servers=servers)
        found = {"store": error.message}
    findings = [failed(name, problem, _advice(settings, problem)) for name, problem in found.items()]
    if "store" not in found:
        findings.insert(0, finding("store_unusable", store=display_value(settings, "store"), databases=list(found)))
    return findings, StoreValues(horizon=inspection.horizon(), disk=inspection.disk_use())


def _advice(settings: Settings, problem: Message) -> Message:
    if settings.database:
        return MESSAGES["see_postgresql"]
    return MESSAGES["check_owner"] if problem.code in local.UNEXPLAINED else NOTHING


def _findings(settings: Settings, store: StoreValues, now: int) -> Iterator[Finding]:
    if store.extent:
        size = f"{store.extent.size_bytes / (1 << 20):,.1f}"
        yield finding("store_well", store=display_value(settings, "store"), size=size, schema=store.extent.schema)
    yield from local.servers(store.servers, settings.replica_lag_ms)
    yield from horizon_findings(store.horizon, now)
    yield _load(store.load, store.horizon, now)
    yield from open_item_findings(store.items, now)
    yield from _forgettings(store.unfinished_forgettings, now)
    yield from sudden_changes(store.intake, now)
    yield from watched_folders(store.folders, now, settings.silent_folder_min)
    yield _keys(store.keys, store.near_quota)
    yield _shops(store.shops, now)
    yield from _business_days(store)
    yield _backup(store, settings.backup_max_hours, now)


def horizon_findings(horizon: int | None, now: int, max_age_ms: int = local.MOVING_MS) -> Iterator[Finding]:
    """Check whether the horizon is advancing. Yield nothing for a store without a horizon."""
    if not horizon:
        return
    time, age = from_ms(horizon, UTC), now - horizon
    if age < -local.CLOCK_BEHIND_MS:
        yield finding("horizon_ahead", time=time, span=duration(-age))
    elif age >= max_age_ms:
        yield finding("horizon_old", since=time, time=time, span=duration(age))
    else:
        yield finding("horizon_age", time=time, seconds=f"{max(0, age) / 1000:.1f}")


def _load(load: LoadRow | None, horizon: int | None, now: int) -> Finding:
    if load is None:
        return finding("nothing_loaded")
    if not load.finished:
        return local.unfinished_load(load, local.horizon_motion(horizon, now), now)
    span = duration(load.idle_ms(now))
    return finding("load_finished_ago", span=span, lines=load.lines, changed=load.changed, rejected=load.rejected)


def _forgettings(members: Sequence[ForgottenMember], now: int) -> Iterator[Finding]:
    """Yield a warning if members were not wholly forgotten, because the command was interrupted."""
    interrupted = [member for member in members if now - member.at >= FORGETTING_MS]
    if interrupted:
        since = min(member.at for member in interrupted)
        span = duration(now - since)
        yield finding("forgetting_unfinished", since=from_ms(since, UTC), count=len(interrupted), span=span)


def _keys(keys: Sequence[Key], near: Sequence[KeyToday]) -> Finding:
    if not keys:
        return finding("no_keys")
    if not near:
        return finding("keys_below", count=len(keys))
    named = [
        MESSAGES["near_quota"](name=key.label or key.key_id, count=min(key.count, key.per_day), quota=key.per_day)
        for key in near
    ]
    return finding("keys_near", ids=[key.key_id for key in near], count=len(keys), names=first_of(named))


def _shops(shops: Sequence[ShopActivity], now: int) -> Finding:
    silent = [shop for shop in shops if shop.is_silent]
    if not silent:
        return finding("shops_usual", count=len(shops))
    named = [
        MESSAGES["silent_shop"](
            name=printable(shop.name or shop.shop_id),
            span=duration(now - (shop.last_bill_at or now)),
            usual=format_usual(shop.usual_since_last),
        )
        for shop in silent
    ]
    ids = [shop.shop_id for shop in silent]
    return finding("shops_silent", ids=ids, count=len(shops), silent=len(silent), names=first_of(named))


def _business_days(store: StoreValues) -> Iterator[Finding]:
    """Yield a warning if bills have no business day, because nobody said when the day of their shop ends."""
    lacking = [shop for shop in store.shops if shop.without_business_day]
    if not lacking:
        return
    is_exact = all(shop.without_business_day < MOST_COUNTED for shop in lacking)
    bills = MESSAGES["bills" if is_exact else "bills_or_more"](count=sum(shop.without_business_day for shop in lacking))
    yield finding(
        "no_business_day",
        ids=[shop.shop_id for shop in lacking],
        bills=bills,
        names=first_of([printable(shop.name or shop.shop_id) for shop in lacking]),
        closing=store.proposed_closing or "HH:MM",
    )


def _backup(store: StoreValues, max_hours: int, now: int) -> Finding:
    """Check the age of the latest backup. A store without bills, or one that is less than a day old, needs none yet."""
    latest_at, since, lost = store.backups.latest_at, store.backups.since, store.backups.lost
    if lost and max_hours:
        made_at, folder = lost
        return finding("backup_lost", folder=printable(folder), span=duration(max(0, now - made_at)))
    if latest_at is not None:
        age = max(0, now - latest_at)
        is_old = max_hours and age > max_hours * HOUR_MS
        kind = "backup_old" if is_old else "backup_made" if store.backups.is_checked else "backup_unchecked"
        return finding(kind, since=from_ms(latest_at, UTC) if is_old else UNSET, span=duration(age))
    is_young = since is not None and now - since <= DAY_MS
    is_due = max_hours and not is_young and any(shop.last_bill_at for shop in store.shops)
    return finding("backup_missing" if is_due else "backup_none")


def sudden_changes(intake: Intake, now: int) -> Iterator[Finding]:
    """Yield a warning for each alarm, or an `ok` finding; nothing until the first group of loads is complete."""
    if not intake.judged:
        return
    groups = len(comparable_groups(intake))
    if groups <= MIN_EARLIER_GROUPS and not intake.alarms:
        yield finding("intake_learning", count=groups, needed=MIN_EARLIER_GROUPS)
    elif not intake.alarms:
        yield finding("intake_usual")
    since = from_ms(intake.alarmed_at, UTC)
    for alarm in intake.alarms:
        subject = f"{alarm.measure} {alarm.field}".strip()
        span = duration(now - intake.alarmed_at)
        yield finding("intake_alarm", subject=subject, since=since, span=span, change=describe(alarm))


def watched_folders(folders: Sequence[WatchedFolder], now: int, silent_after_min: int) -> Iterator[Finding]:
    for folder in folders:
        at = folder.delivered_at
        if folder.is_stale(now):
            kind, at = "watcher_stopped" if folder.is_stopped else "watcher_unseen", folder.seen_at
        elif folder.problem:
            kind = "folder_stuck"
        else:
            is_new = not (folder.files or folder.quarantined)
            well = "folder_new" if is_new else "folder_watched"
            kind = "folder_silent" if folder.is_silent(now, silent_after_min) else well
        yield finding(
            kind,
            subject=folder.name,
            since=UNSET if kind in ("folder_new", "folder_watched") else from_ms(at, UTC),
            folder=folder.name,
            files=folder.files,
            problem=folder.problem,
            span=duration(now - at),
        )
