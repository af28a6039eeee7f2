"""The admin listener: `/live`, `/serving`, `/ready` and `/metrics` on a separate address, never on the public port."""

import http.client
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from itertools import accumulate

from msgspec import Struct, json
from prometheus_client import generate_latest
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from counterfoil import observe
from counterfoil.checks.contents import watched_folders
from counterfoil.checks.findings import Finding
from counterfoil.checks.open_items import open_item_findings
from counterfoil.checks.overview import Overview
from counterfoil.checks.running import MOVING_MS, horizon_findings
from counterfoil.domain.access import KEYS_TRUSTED_SEC, NEARLY_USED_UP
from counterfoil.domain.doubts import MEASURES
from counterfoil.domain.loads import WatchedFolder
from counterfoil.domain.open_items import KINDS, joined, oldest
from counterfoil.domain.problems import TABLE, Stage
from counterfoil.http.wire import PROBE_AGENT
from counterfoil.machine.addresses import STORE_HEADER, HostNames, is_listening, is_loopback, reachable_host
from counterfoil.machine.private_listener import ListenerRequest, ListenerResponse, PrivateListener
from counterfoil.model.text import counted
from counterfoil.model.version import API_VERSION, __version__
from counterfoil.observe import Layout
from counterfoil.operator_reads import OperatorReads
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.program.clock import SystemClock
from counterfoil.serving import metric_kinds
from counterfoil.serving.worker import LAYOUT
from counterfoil.settings import Settings

# --- counters as Prometheus metrics -----------------------------------------


def request_metrics(layout: Layout, sums: list[int]) -> Iterator[Metric]:
    """Yield the summed counters of all workers as Prometheus metrics."""
    rows = {route: sums[start : start + observe.ROW_LENGTH] for route, start in layout.rows.items()}
    requests = {}
    for route, row in rows.items():
        for index, (status, error) in enumerate(observe.OUTCOMES):
            requests[route, status, error] = row[index]
    verdicts = {"admitted": 0, "rate_limited": 0, "quota_exceeded": 0}
    for (route, _, error), count in requests.items():
        if route not in layout.public_routes:
            if error in verdicts:
                verdicts[error] += count
            elif error not in _BEFORE_ADMISSION:
                verdicts["admitted"] += count
    yield metric_kinds.REQUESTS({labels: count for labels, count in requests.items() if count})
    yield _latency(rows)
    yield metric_kinds.SENT_BYTES({route: row[observe.SENT_OFFSET] for route, row in rows.items()})
    yield metric_kinds.ADMISSIONS(verdicts)
    yield metric_kinds.CRASHES(sums[layout.events[observe.HandlerCrashed]])
    yield metric_kinds.STORE_FAILURES(sums[layout.events[observe.StoreFailed]])
    yield metric_kinds.COUNTS_RESEEDED(sums[layout.events[observe.CountsReseeded]])
    yield metric_kinds.SERVER_CHANGES(sums[layout.events[observe.ServerChanged]])


_BEFORE_ADMISSION = {problem.code for problem in TABLE if problem.stage is Stage.BEFORE_ADMISSION}


def _latency(rows: Mapping[str, list[int]]) -> Metric:
    about = metric_kinds.REQUEST_SECONDS
    family = HistogramMetricFamily(about.name, about.help, labels=about.labels)
    bounds = [*(str(bound / 1e6) for bound in observe.BUCKETS_US), "+Inf"]
    for route, row in rows.items():
        cumulative = map(float, accumulate(row[observe.BUCKETS_OFFSET : observe.LATENCY_OFFSET]))
        family.add_metric([route], list(zip(bounds, cumulative, strict=True)), row[observe.LATENCY_OFFSET] / 1e6)
    return family


TEXT = "text/plain; version=0.0.4; charset=utf-8"
ALLOWED = ["GET", "HEAD"]
PATHS = ["/live", "/serving", "/ready", "/metrics"]


class Readiness(Struct, frozen=True):
    """One readiness check: its name, its problem or None, and a warning, which does not make the service unready."""

    name: str
    problem: str | None
    warning: str | None = None


class Admin(Collector):
    """The admin listener. It runs in a thread of the supervisor, so it responds even if all workers are busy."""

    def __init__(
        self,
        host: str,
        port: int,
        ready: Callable[[], list[Readiness]],
        metrics: Callable[[], Iterable[Metric]],
        names: str = "",
        store_id: Callable[[], str | None] = lambda: None,
        worker_problem: Callable[[], str | None] = lambda: None,
        api_address: str = "",
    ) -> None:
        self._ready = ready
        self._api_address = api_address
        self._worker_problem = worker_problem
        self._store_id = store_id
        self._names = HostNames(host, names)
        self._metrics = metrics
        self._listener = PrivateListener(host, port, self.respond, _malformed)
        self.port, self.start, self.stop = self._listener.port, self._listener.start, self._listener.stop

    def respond(self, request: ListenerRequest) -> ListenerResponse:
        refusal = self._refusal(request)
        if refusal:
            return refusal
        if request.method not in ALLOWED:
            return _json(405, {"allowed": ALLOWED}, ("allow", ", ".join(ALLOWED)))
        try:
            response = self._answer(request.path)
            response.headers.extend(self.store_header(request.path, request.peer))
        except Exception as error:  # noqa: BLE001 - report the failure without its message, which may contain data
            return _json(500, {"failed": type(error).__name__})
        return response

    def collect(self) -> Iterable[Metric]:
        return self._metrics()

    def _refusal(self, request: ListenerRequest) -> ListenerResponse | None:
        """Refuse what a web page in an operator's browser may have sent, because the listener has no authentication."""
        host = request.headers.get("host")
        if host is None and request.version != "HTTP/1.0":
            return _json(400, {"refused": "HTTP/1.1 requires exactly one Host header."})
        problem = None if host is None else self._names.problem(host)
        if problem == "malformed":
            return _json(400, {"refused": "The Host header is not valid."})
        if problem:
            return _json(421, {"refused": "Unknown host name. Add it to the setting admin_names."})
        if "origin" in request.headers or request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return _json(403, {"refused": "Requests from web pages are refused."})
        return None

    def store_header(self, path: str, client: str) -> list[tuple[str, str]]:
        """Return the header by which `status` on this machine notices that the port serves another store."""
        store_id = self._store_id() if path == "/ready" and is_loopback(client) else None
        return [(STORE_HEADER, store_id)] if store_id else []

    def _answer(self, path: str) -> ListenerResponse:
        match path:
            case "/live":
                return _json(200, {"live": True})
            case "/serving":
                problem = self._worker_problem()
                return _json(503 if problem else 200, {"serving": not problem, "problem": problem})
            case "/ready":
                checks = self._ready()
                problems = {check.name: check.problem for check in checks if check.problem}
                warnings = {check.name: check.warning for check in checks if check.warning}
                names = [check.name for check in checks]
                body = {
                    "ready": not problems,
                    "notReady": problems,
                    "warnings": warnings,
                    "checked": names,
                    "address": self._api_address,
                }
                return _json(503 if problems else 200, body)
            case "/metrics":
                return ListenerResponse(200, [("content-type", TEXT)], generate_latest(self))
            case _:
                return _json(404, {"paths": PATHS})


def _json(status: int, body: object, *headers: tuple[str, str]) -> ListenerResponse:
    return ListenerResponse(status, [("content-type", "application/json"), *headers], json.encode(body))


def _malformed(status: int, _language: str) -> ListenerResponse:
    return _json(status, {"failed": HTTPStatus(status).phrase})


# --- readiness checks and metrics -------------------------------------------

RECENT_FAILURE_MS = 15_000
PROBE_SEC = 2.0


def readiness(settings: Settings, counters: int, inspection: OperatorReads) -> list[Readiness]:
    checks, _ = _store_checks(counters, inspection)
    return [*checks, Readiness("api", probe(settings)), *_intake_warnings(settings, inspection)]


def _store_checks(counters: int, inspection: OperatorReads) -> tuple[list[Readiness], int | None]:
    """Return the checks that need no request to a worker, and the age of the horizon or None if it is unknown."""
    checks = []
    for database, problem in inspection.problems().items():
        checks.append(Readiness(database, str(problem) if problem else None))
    horizon = inspection.horizon()
    now = SystemClock().now_ms()
    # With replicas, a node stays ready during a failover for as long as it may use the keys in memory.
    max_age = KEYS_TRUSTED_SEC * 1000 if inspection.survives_primary() else MOVING_MS
    failures = [finding for finding in horizon_findings(horizon, now, max_age) if finding.status == "fail"]
    checks.append(Readiness("horizon", str(failures[0].message) if failures else None))
    checks.append(Readiness("admissions", _recent_store_failure(counters)))
    return checks, None if horizon is None else max(0, now - horizon)


def _intake_warnings(settings: Settings, inspection: OperatorReads) -> Iterator[Readiness]:
    """Yield checks that only warn. They contain no field names, because the listener has no authentication."""
    alarms = len(inspection.intake().alarms)
    changes = counted(alarms, "sudden change")
    yield Readiness("intake", None, f"{changes} in the loaded records: see `counterfoil doctor`" if alarms else None)
    now = SystemClock().now_ms()
    with suppress(StoreUnavailable, StoreMismatch):
        yield _warning("items", open_item_findings(inspection.open_items(), now))
    yield _warning("folders", watched_folders(inspection.watched_folders(now), now, settings.silent_folder_min))


def _warning(name: str, findings: Iterable[Finding]) -> Readiness:
    return Readiness(name, None, " ".join(str(found.message) for found in findings if found.status != "ok") or None)


def _recent_store_failure(counters: int) -> str | None:
    """Return a message about a recent failure in a worker, such as a full disk, which other checks do not detect."""
    ago = SystemClock().now_ms() - observe.last_store_failure_ms(counters, LAYOUT)
    failure = f"a request failed {ago / 1000:.0f} s ago because the store could not be used"
    return failure if ago < RECENT_FAILURE_MS else None


def metrics(settings: Settings, counters: int, inspection: OperatorReads) -> Iterator[Metric]:
    yield metric_kinds.BUILD_INFO({(__version__, API_VERSION): 1})
    yield from request_metrics(LAYOUT, observe.totals(counters, LAYOUT))
    checks, age = _store_checks(counters, inspection)
    # This check only connects, because a scrape must not wait for a worker.
    listening = is_listening(settings.host, settings.port)
    yield metric_kinds.READY({**{check.name: not check.problem for check in checks}, "listening": listening})
    disk = inspection.disk_use()
    if disk:
        yield metric_kinds.DISK_FREE_BYTES(disk.free_bytes)
        yield metric_kinds.WAL_BYTES(disk.log_bytes)
    yield from _server_metrics(inspection)
    if age is None:
        # If the database server does not respond, each further query would take seconds, and scrapes have a time limit.
        return
    yield metric_kinds.HORIZON_AGE_SECONDS(age / 1000)
    with suppress(StoreUnavailable, StoreMismatch):
        yield metric_kinds.STORE_BYTES(inspection.extent().size_bytes)
    now = SystemClock().now_ms()
    with suppress(StoreUnavailable, StoreMismatch):
        # Metrics contain no key IDs; `counterfoil usage` shows the IDs.
        used = inspection.quota_use(now)
        yield metric_kinds.ACTIVE_KEYS(len(used))
        nearly = sum(share >= NEARLY_USED_UP for share in used)
        wholly = sum(share >= 1 for share in used)
        yield metric_kinds.KEYS_AT_QUOTA({f"{100 * NEARLY_USED_UP:.0f}": nearly, "100": wholly})
    load = inspection.latest_load()
    if load:
        yield metric_kinds.LOAD_RUNNING(not load.finished)
        yield metric_kinds.LOAD_LINES(load.lines)
        yield metric_kinds.LOAD_CHANGED(load.changed)
        yield metric_kinds.LOAD_REJECTED(load.rejected)
        yield metric_kinds.LOAD_IDLE_SECONDS(load.idle_ms(now) / 1000)
    yield from _intake_metrics(settings, inspection, now)


def overview_metrics(latest: Overview | None, now: int) -> Iterator[Metric]:
    """Yield what the latest check of the deployment found, which takes too long for a scrape. Before it, yield none."""
    if latest is None:
        return
    yield metric_kinds.NOTICES_FAILING(sum(found.check == "notices" for found in latest.findings))
    if not latest.is_complete:
        return
    yield metric_kinds.SHOPS_SILENT(sum(shop.is_silent for shop in latest.store.shops))
    yield metric_kinds.COPIES_BEHIND(latest.store.copies_behind)
    backup_at = latest.store.backups.latest_at
    if backup_at is not None:
        yield metric_kinds.BACKUP_AGE_SECONDS(max(0, now - backup_at) / 1000)


def _server_metrics(inspection: OperatorReads) -> Iterator[Metric]:
    servers = inspection.servers()
    if not servers:
        return
    up: dict[tuple[str, ...], float] = {}
    horizons: dict[str, int] = {}
    for server in servers:
        up[server.name, server.role.value] = server.horizon is not None
        if server.horizon is not None:
            horizons[server.name] = server.horizon
    yield metric_kinds.SERVER_UP(up)
    latest = max(horizons.values(), default=0)
    yield metric_kinds.SERVER_LAG_SECONDS({name: (latest - horizon) / 1000 for name, horizon in horizons.items()})


def _intake_metrics(settings: Settings, inspection: OperatorReads, now: int) -> Iterator[Metric]:
    with suppress(StoreUnavailable, StoreMismatch):
        items = [item for item in joined(inspection.open_items()) if item.is_due(now)]
        waiting = Counter(item.kind for item in items)
        yield metric_kinds.OPEN_ITEMS({kind: waiting[kind] for kind in KINDS})
        since = oldest(items) or now
        yield metric_kinds.OPEN_ITEMS_OLDEST_SECONDS(max(0, now - since) / 1000)
    alarms = Counter(alarm.measure for alarm in inspection.intake().alarms)
    yield metric_kinds.LOAD_ALARMS({measure: alarms[measure] for measure in MEASURES})
    folders = inspection.watched_folders(now)
    if folders:
        yield from _folder_metrics(folders, settings, now)


def _folder_metrics(folders: Sequence[WatchedFolder], settings: Settings, now: int) -> Iterator[Metric]:
    seen_ages: dict[str, float] = {}
    delivery_ages: dict[str, float] = {}
    silent: dict[str, float] = {}
    stuck: dict[str, float] = {}
    quarantined: dict[str, float] = {}
    for folder in folders:
        seen_ages[folder.name] = max(0, now - folder.seen_at) / 1000
        delivery_ages[folder.name] = max(0, now - folder.delivered_at) / 1000
        silent[folder.name] = folder.is_silent(now, settings.silent_folder_min)
        stuck[folder.name] = bool(folder.problem)
        quarantined[folder.name] = folder.quarantined
    yield metric_kinds.WATCHED_FOLDER_HEARTBEAT_AGE_SECONDS(seen_ages)
    yield metric_kinds.WATCHED_FOLDER_DELIVERY_AGE_SECONDS(delivery_ages)
    yield metric_kinds.WATCHED_FOLDER_SILENT(silent)
    yield metric_kinds.WATCHED_FOLDER_STUCK(stuck)
    yield metric_kinds.WATCHED_FOLDER_QUARANTINED_FILES(quarantined)


def probe(settings: Settings) -> str | None:
    """Send a request to the public port. Return the problem, or None if a worker responds with status 200."""
    connection = http.client.HTTPConnection(reachable_host(settings.host), settings.port, timeout=PROBE_SEC)
    try:
        connection.request("HEAD", f"{settings.prefix}/v1/openapi.json", headers={"user-agent": PROBE_AGENT})
        status = connection.getresponse().status
        return None if status == 200 else f"a worker responded with status {status}"
    except OSError as error:
        return f"no worker responds: {error}"
    except http.client.HTTPException:
        return "the response is not valid HTTP. Another program may be using the port."
    finally:
        connection.close()
