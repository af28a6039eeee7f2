"""Runs all checks and collects what they found, for `counterfoil status`, `counterfoil doctor` and the console."""

import os
import platform
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from counterfoil import bootstrap
from counterfoil.checks import cluster, contents, local, running
from counterfoil.checks.findings import Finding, FindingKind, Status, failed, worst_status
from counterfoil.checks.local import PortUse
from counterfoil.checks.open_items import open_item_findings
from counterfoil.model.messages import NOTHING, Message
from counterfoil.model.version import API_VERSION, __version__
from counterfoil.operator_reads import OperatorReads
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.program.clock import SystemClock
from counterfoil.settings import Settings, display_value
from counterfoil.views.store import StoreValues, read


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


VERSIONS = FindingKind(
    code="versions", check="version", status="ok", text="Counterfoil {version} (API {api}), Python {python}{software}."
)


def overview(settings: Settings, now: int, *, deep: bool = False, ask: running.Asking | None = None) -> Overview:
    """Check service and store without changing data. `deep` adds slower checks, which write a temporary file."""
    begun_us = SystemClock().steady_us()
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
    of_store, store = _check_store(settings, inspection, problems, now, begun_us)
    is_new = store.extent is not None and not store.horizon
    service = running.service_finding(settings, store.horizon, now, is_new=is_new, ask=ask)
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
    versions = VERSIONS(version=__version__, api=API_VERSION, python=python, software=software)
    return Overview(now, [*findings, versions], store)


def _deep(
    settings: Settings, inspection: OperatorReads, problems: Mapping[str, Message | None], horizon: int | None, now: int
) -> Iterator[Finding]:
    if settings.database:
        if not problems["store"]:
            yield from cluster.check_login(settings, inspection)
        yield local.clock(None, now)
        if settings.meter:
            from counterfoil.backends.redis import client  # noqa: PLC0415 - an extra

            yield cluster.meter(display_value(settings, "meter"), client.problem(settings.meter))
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
    return "unknown" if running.horizon_motion(horizon, now) == "ahead" else "other"


STORE_REACHABLE = FindingKind(
    code="store_reachable", check="store", status="ok", text="{store} is reachable, and its schema is up to date."
)
STORE_UNUSABLE = FindingKind(
    code="store_unusable",
    check="store",
    status="fail",
    text="{store} cannot be used. The findings about {databases} say why.",
)


def _check_store(
    settings: Settings, inspection: OperatorReads, problems: Mapping[str, Message | None], now: int, begun_us: int
) -> tuple[list[Finding], StoreValues]:
    found = {name: problem for name, problem in problems.items() if problem}
    try:
        if not found:
            store = read(inspection, now)
            if store.horizon:
                # Reading a large store, or one far away, takes seconds, in which a service advances the horizon.
                elapsed_ms = (SystemClock().steady_us() - begun_us) // 1000
                store = replace(store, horizon=running.horizon_as_of(now, store.horizon, elapsed_ms))
            return list(_findings(settings, store, now)), store
    except (StoreUnavailable, StoreMismatch) as error:
        granted = inspection.permissions()
        if granted and not (granted.serves or granted.owns):
            # Only logins that serve or own the schema can read everything.
            reachable = STORE_REACHABLE(store=display_value(settings, "store"))
            servers = inspection.servers()
            return [reachable, *cluster.servers(servers, settings.replica_lag_ms)], StoreValues(servers=servers)
        found = {"store": error.message}
    findings = [failed(name, problem, _advice(settings, problem)) for name, problem in found.items()]
    if "store" not in found:
        findings.insert(0, STORE_UNUSABLE(store=display_value(settings, "store"), databases=list(found)))
    return findings, StoreValues(horizon=inspection.horizon(), disk=inspection.disk_use())


CHECK_OWNER = Message("check_owner", "Check the file's owner and the disk. If the file is damaged, restore a backup.")


def _advice(settings: Settings, problem: Message) -> Message:
    if settings.database:
        return cluster.SEE_POSTGRESQL
    return CHECK_OWNER if problem.code in local.UNEXPLAINED else NOTHING


STORE_WELL = FindingKind(
    code="store_well", check="store", status="ok", text="{store}, {size} MiB, schema {schema}, no problems."
)


def _findings(settings: Settings, store: StoreValues, now: int) -> Iterator[Finding]:
    if store.extent:
        size = f"{store.extent.size_bytes / (1 << 20):,.1f}"
        yield STORE_WELL(store=display_value(settings, "store"), size=size, schema=store.extent.schema)
    yield from cluster.servers(store.servers, settings.replica_lag_ms)
    yield from running.horizon_findings(store.horizon, now)
    yield contents.load(store.load, store.horizon, now)
    yield from open_item_findings(store.items, now)
    yield from contents.forgettings(store.unfinished_forgettings, now)
    yield from contents.sudden_changes(store.intake, now)
    yield from contents.watched_folders(store.folders, now, settings.silent_folder_min)
    yield contents.keys(store.keys, store.near_quota)
    yield contents.shops(store.shops, now)
    yield from contents.business_days(store)
    yield contents.backup(store, settings.backup_max_hours, now)
