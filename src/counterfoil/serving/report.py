"""Collects the readiness checks and the metrics that the admin listener reports."""

import http.client
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from prometheus_client.core import Metric

from counterfoil import API_VERSION, __version__
from counterfoil.checks.local import MOVING_MS
from counterfoil.checks.overview import horizon_findings
from counterfoil.domain.access import KEYS_TRUSTED_SEC, NEARLY_USED_UP
from counterfoil.domain.intake import MEASURES, folder_warning
from counterfoil.machine.addresses import is_listening, reachable_host
from counterfoil.machine.clock import SystemClock
from counterfoil.observe.counters import last_store_failure_ms, totals
from counterfoil.observe.metrics import gauge, gauges, request_metrics
from counterfoil.operator_reads import OperatorReads
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.serving.admin import Readiness
from counterfoil.serving.worker import LAYOUT
from counterfoil.settings import Settings

RECENT_FAILURE_MS = 15_000
PROBE_SEC = 2.0


def readiness(settings: Settings, counters: Path, inspection: OperatorReads) -> list[Readiness]:
    checks, _ = _store_checks(counters, inspection)
    return [*checks, Readiness("api", probe(settings)), *_intake_warnings(settings, inspection)]


def _store_checks(counters: Path, inspection: OperatorReads) -> tuple[list[Readiness], int | None]:
    """Return the checks that need no request to a worker, and the age of the horizon or None if it is unknown."""
    checks = [Readiness(name, str(problem) if problem else None) for name, problem in inspection.problems().items()]
    horizon, now = inspection.horizon(), SystemClock().now_ms()
    # With replicas, a node stays ready during a failover for as long as it may use the keys in memory.
    max_age = KEYS_TRUSTED_SEC * 1000 if inspection.survives_primary() else MOVING_MS
    stale = [str(one.message) for one in horizon_findings(horizon, now, max_age) if one.status == "fail"]
    checks += [
        Readiness("horizon", next(iter(stale), None)),
        Readiness("admissions", _recent_store_failure(counters)),
    ]
    return checks, None if horizon is None else max(0, now - horizon)


def _intake_warnings(settings: Settings, inspection: OperatorReads) -> Iterator[Readiness]:
    """Yield the checks of loads and of watched folders. These checks never fail; they only warn.

    The warnings contain no field names, because the listener has no authentication.
    """
    count = len(inspection.intake().alarms)
    changes = f"{count} sudden {'change' if count == 1 else 'changes'} in the loaded records" if count else None
    yield Readiness("intake", None, changes and f"{changes}: see `counterfoil doctor`")
    now = SystemClock().now_ms()
    warnings = [folder_warning(folder, now, settings.silent_folder_min) for folder in inspection.watched_folders(now)]
    yield Readiness("folders", None, " ".join(str(warning) for warning in warnings if warning) or None)


def _recent_store_failure(counters: Path) -> str | None:
    """Return a message about a recent store failure in a worker, or None.

    The other checks do not detect some causes, such as a full disk.
    """
    ago = SystemClock().now_ms() - last_store_failure_ms(counters, LAYOUT)
    return (
        f"a request failed {ago / 1000:.0f} s ago because the store could not be used"
        if ago < RECENT_FAILURE_MS
        else None
    )


def metrics(settings: Settings, counters: Path, inspection: OperatorReads) -> Iterator[Metric]:
    yield gauges(
        "build_info",
        "Always 1. The labels are the versions of the package and of the API.",
        ["version", "api_version"],
        [([__version__, API_VERSION], 1)],
    )
    yield from request_metrics(LAYOUT, totals(counters, LAYOUT))
    checks, age = _store_checks(counters, inspection)
    # This check only connects. The request that `/ready` sends to a worker would appear in the log and in the metrics.
    listening = None if is_listening(settings.host, settings.port) else "no worker accepts connections"
    yield gauges(
        "ready",
        "1 if this check passes, 0 if it does not.",
        ["check"],
        (([check.name], float(not check.problem)) for check in [*checks, Readiness("listening", listening)]),
    )
    yield from _disk_gauges(inspection)
    yield from _server_gauges(inspection)
    if age is None:
        # If the database server does not respond, each further query would take seconds, and scrapes have a time limit.
        return
    yield gauge("horizon_age_seconds", "Seconds that serverTime is behind the clock.", age / 1000)
    with suppress(StoreUnavailable, StoreMismatch):
        yield gauge("store_bytes", "Size of the store on disk.", inspection.extent().size_bytes)
    with suppress(StoreUnavailable, StoreMismatch):
        yield from _quota_gauges(inspection)
    yield from _load_gauges(inspection)
    yield from _intake_gauges(settings, inspection)


def _disk_gauges(inspection: OperatorReads) -> Iterator[Metric]:
    disk = inspection.disk_use()
    if not disk:
        return
    yield gauge("disk_free_bytes", "Free bytes on the disk of the store.", disk.free_bytes)
    yield gauges(
        "wal_bytes",
        "Size of the write-ahead log of each database.",
        ["database"],
        (([name], size) for name, size in disk.log_bytes.items()),
    )


def _quota_gauges(inspection: OperatorReads) -> Iterator[Metric]:
    """Yield gauges that count keys. Metrics contain no key IDs; `counterfoil usage` shows the IDs."""
    used = inspection.quota_use(SystemClock().now_ms())
    yield gauge("active_keys", "Keys that are not revoked.", len(used))
    yield gauges(
        "keys_at_quota",
        "Active keys that have used at least this percentage of today's quota (Thailand time).",
        ["percent"],
        (([f"{share:.0%}".rstrip("%")], sum(one >= share for one in used)) for share in (NEARLY_USED_UP, 1)),
    )


def _load_gauges(inspection: OperatorReads) -> Iterator[Metric]:
    load = inspection.latest_load(SystemClock().now_ms())
    if load:
        running = 0 if load.finished else 1
        yield gauge("load_running", "1 while the latest load has not finished.", running)
        yield gauge("load_lines", "Lines read by the latest load.", load.lines)
        yield gauge("load_changed", "Records that the latest load added, changed or removed.", load.changed)
        yield gauge("load_rejected", "Lines that the latest load rejected.", load.rejected)
        yield gauge("load_idle_seconds", "Time since the latest load last wrote a batch.", load.idle_ms / 1000)


def _intake_gauges(settings: Settings, inspection: OperatorReads) -> Iterator[Metric]:
    measures = Counter(alarm.measure for alarm in inspection.intake().alarms)
    yield gauges(
        "load_alarms",
        "Sudden changes in the loaded records that have not been accepted yet, by measure.",
        ["measure"],
        (([measure], float(measures[measure])) for measure in MEASURES),
    )
    now = SystemClock().now_ms()
    folders = inspection.watched_folders(now)
    if not folders:
        return
    ages = [
        (folder, max(0, now - folder.seen_at) / 1000, max(0, now - folder.delivered_at) / 1000) for folder in folders
    ]
    yield gauges(
        "watched_folder_heartbeat_age_seconds",
        "Seconds since the watcher of a folder last reported to the store.",
        ["folder"],
        (([folder.name], seen) for folder, seen, _ in ages),
    )
    yield gauges(
        "watched_folder_delivery_age_seconds",
        "Seconds since a file was last delivered to a watched folder.",
        ["folder"],
        (([folder.name], delivered) for folder, _, delivered in ages),
    )
    yield gauges(
        "watched_folder_silent",
        "1 if nothing has been delivered to a watched folder for silent_folder_min minutes, otherwise 0.",
        ["folder"],
        (([folder.name], float(folder.is_silent(now, settings.silent_folder_min))) for folder in folders),
    )
    yield gauges(
        "watched_folder_quarantined_files",
        "Number of files that were moved from a watched folder to quarantine.",
        ["folder"],
        (([folder.name], float(folder.quarantined)) for folder in folders),
    )


def _server_gauges(inspection: OperatorReads) -> Iterator[Metric]:
    seen = inspection.servers()
    if not seen:
        return
    latest = max((server.horizon or 0) for server in seen)
    yield gauges(
        "server_up",
        "1 if this server of the store responds, 0 if it does not.",
        ["server", "role"],
        (([server.name, server.role.value], float(server.horizon is not None)) for server in seen),
    )
    yield gauges(
        "server_lag_seconds",
        "Seconds that a server is behind the most up-to-date server.",
        ["server"],
        (([server.name], (latest - server.horizon) / 1000) for server in seen if server.horizon is not None),
    )


def probe(settings: Settings) -> str | None:
    """Send a request to the public port. Return the problem, or None if a worker responds with status 200."""
    connection = http.client.HTTPConnection(reachable_host(settings.host), settings.port, timeout=PROBE_SEC)
    try:
        connection.request("HEAD", f"{settings.prefix}/v1/openapi.json")
        status = connection.getresponse().status
        return None if status == 200 else f"a worker responded with status {status}"
    except OSError as error:
        return f"no worker responds: {error}"
    except http.client.HTTPException:
        return "the response is not valid HTTP. Another program may be using the port."
    finally:
        connection.close()
