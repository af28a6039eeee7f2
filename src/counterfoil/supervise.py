"""Runs the service: the worker processes and the supervisor's chores.

The supervisor does not answer API requests. It advances the horizon while
nothing is loaded, prunes, checkpoints, and serves the admin listener.
"""

import http.client
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Protocol

from prometheus_client.core import Metric

from counterfoil import bootstrap
from counterfoil.addresses import bound, reachable
from counterfoil.http.admin import Admin, Readiness
from counterfoil.http.server import Server
from counterfoil.observe.counters import last_store_failure_ms, totals
from counterfoil.observe.events import Event, ServiceChanged
from counterfoil.observe.metrics import families, gauge, gauges
from counterfoil.ports import StoreUnavailable
from counterfoil.settings import Settings, SettingsError
from counterfoil.worker import LAYOUT, log_to, worker

CHECKPOINT_SEC = 2.0
USAGE_CHECKPOINT_SEC = 0.5
PRUNE_SEC = 3600.0
STALE_HORIZON_MS = 5_000
# With replicas, a node stays ready during a failover for as long as the keys it knows may be trusted.
STALE_WITH_REPLICAS_MS = 270_000
RECENT_FAILURE_MS = 15_000
PROBE_SEC = 2.0
START_TRIES, START_PAUSE_SEC = 1000, 0.02


def serve(settings: Settings, on_ready: Callable[[], None] = lambda: None) -> None:
    """Run the service until the process is told to stop."""
    _require_free(settings.host, settings.port)
    if settings.admin_port:
        _require_free(settings.admin_host, settings.admin_port)
    bootstrap.prepare(settings)
    bootstrap.require_serving(settings)
    with counters_folder(Path(tempfile.gettempdir())) as counters:
        _serve(settings, counters, on_ready)


@contextmanager
def counters_folder(parent: Path) -> Iterator[Path]:
    """Create a folder for the workers' counters. Its name contains our PID, which shows later if it is abandoned."""
    clear_abandoned(parent)
    prefix = f"counterfoil-{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True) as counters:
        yield Path(counters)


def clear_abandoned(parent: Path) -> None:
    """Delete the counters of this user's services that were killed."""
    for folder in parent.glob("counterfoil-*-*"):
        owner = folder.name.split("-")[1]
        # In a container, the previous process may have had our PID.
        gone = owner.isdecimal() and (int(owner) == os.getpid() or not _runs(int(owner)))
        with suppress(OSError):
            if gone and folder.lstat().st_uid == os.getuid():
                shutil.rmtree(folder, ignore_errors=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _serve(settings: Settings, counters: Path, on_ready: Callable[[], None]) -> None:
    log = log_to(settings, _at_once)
    chores = Chores(settings, log)
    admin = _admin(settings, counters)
    server = Server(
        settings.host, settings.port, settings.workers, settings.grace_sec, partial(worker, settings, counters)
    )
    try:
        chores.start()
        if admin:
            admin.start()
        threading.Thread(target=_announce, args=(settings, log, on_ready), name="ready", daemon=True).start()
        server.run()
    finally:
        log(ServiceChanged(what="stopped"))
        chores.stop()
        if admin:
            admin.stop()


class Part(Protocol):
    """Something that must be closed."""

    def close(self) -> None: ...


class Chores:
    """Runs chores in two threads: one for the books, which may wait for a load's lock, and one for usage."""

    def __init__(self, settings: Settings, log: Callable[[Event], None]) -> None:
        self._settings = settings
        self._log = log
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._tend_books, name="books", daemon=True),
            threading.Thread(target=self._tend_usage, name="usage", daemon=True),
        ]
        self._due: dict[str, float] = {}
        self._failing: set[str] = set()
        self._parts: tuple[Part, ...] = ()

    def start(self) -> None:
        self._ledger = bootstrap.ledger(self._settings)
        self._usage = bootstrap.usage(self._settings)
        self._cursors = bootstrap.cursors(self._settings)
        self._parts = (self._ledger, self._usage, self._cursors)
        self._do("horizon", 0, self._ledger.advance_horizon)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        for part in self._parts:
            part.close()

    def _tend_books(self) -> None:
        while not self._stop.wait(self._settings.tick_ms / 1000):
            self._do("horizon", 0, self._ledger.advance_horizon)
            self._do("checkpoint", CHECKPOINT_SEC, self._ledger.checkpoint)

    def _tend_usage(self) -> None:
        while not self._stop.wait(USAGE_CHECKPOINT_SEC):
            self._do("usage_checkpoint", 0, self._usage.checkpoint)
            self._do("prune", PRUNE_SEC, self._prune)

    def _do(self, name: str, every_sec: float, chore: Callable[[], object]) -> None:
        """Run a chore if it is due; log when it starts to fail and when it works again."""
        now = time.monotonic()
        if now < self._due.get(name, 0):
            return
        self._due[name] = now + every_sec
        try:
            chore()
        except StoreUnavailable as error:
            if name not in self._failing:
                self._failing.add(name)
                self._log(ServiceChanged(what=f"{name}_failing", detail=str(error)))
        else:
            if name in self._failing:
                self._failing.discard(name)
                self._log(ServiceChanged(what=f"{name}_recovered"))

    def _prune(self) -> None:
        records, days = self._usage.prune()
        cursors = self._cursors.prune()
        if records or days or cursors:
            self._log(
                ServiceChanged(
                    what="pruned", detail=f"{records} request records, {days} daily totals, {cursors} expired cursors"
                )
            )


# --- what the admin listener reports -----------------------------------------


def _admin(settings: Settings, counters: Path) -> Admin | None:
    if not settings.admin_port:
        return None
    inspection = bootstrap.Inspection(settings)
    return Admin(
        settings.admin_host,
        settings.admin_port,
        ready=partial(_readiness, settings, counters, inspection),
        metrics=partial(_metrics, counters, inspection),
    )


def _readiness(settings: Settings, counters: Path, inspection: "bootstrap.Inspection") -> list[Readiness]:
    checks = [Readiness(name, problem) for name, problem in inspection.problems().items()]
    age = inspection.horizon_age_ms()
    bound = STALE_WITH_REPLICAS_MS if inspection.several() else STALE_HORIZON_MS
    stale = None if age is None or age < bound else f"the horizon has not moved for {age / 1000:.0f} s"
    return [
        *checks,
        Readiness("horizon", stale),
        Readiness("admissions", _store_trouble(counters)),
        Readiness("api", _probe(settings)),
    ]


def _store_trouble(counters: Path) -> str | None:
    """Return a recent store failure of a worker, such as a full disk, which the other checks do not detect."""
    ago = bootstrap.SystemClock().now_ms() - last_store_failure_ms(counters, LAYOUT)
    return f"a request failed for the store {ago / 1000:.0f} s ago" if ago < RECENT_FAILURE_MS else None


def _metrics(counters: Path, inspection: "bootstrap.Inspection") -> Iterator[Metric]:
    yield from families(LAYOUT, totals(counters, LAYOUT))
    age = inspection.horizon_age_ms()
    if age is not None:
        yield gauge("horizon_age_seconds", "How far serverTime is behind the clock.", age / 1000)
    yield from _server_gauges(inspection)
    load = inspection.latest_load()
    if load:
        running = 0 if load.finished else 1
        yield gauge("load_running", "1 while the latest load has not finished.", running)
        yield gauge("load_lines", "Lines read by the latest load.", load.lines)
        yield gauge("load_changed", "Records the latest load added, changed or removed.", load.changed)
        yield gauge("load_rejected", "Lines the latest load set aside.", load.rejected)
        yield gauge("load_idle_seconds", "Since the latest load last wrote a batch.", load.idle_ms / 1000)


def _server_gauges(inspection: "bootstrap.Inspection") -> Iterator[Metric]:
    seen = inspection.servers()
    if not seen:
        return
    latest = max((server.horizon or 0) for server in seen)
    yield gauges(
        "server_up",
        "1 for a server of the store that answers, by what it is.",
        ["server", "role"],
        (([server.name, server.role.value], float(server.horizon is not None)) for server in seen),
    )
    yield gauges(
        "server_lag_seconds",
        "How far a server's data is behind the furthest one's.",
        ["server"],
        (([server.name], (latest - server.horizon) / 1000) for server in seen if server.horizon is not None),
    )


def _probe(settings: Settings) -> str | None:
    """Send a request to the public port; return the problem, or None if a worker answers."""
    connection = http.client.HTTPConnection(reachable(settings.host), settings.port, timeout=PROBE_SEC)
    try:
        connection.request("HEAD", f"{settings.prefix}/v1/openapi.json")
        status = connection.getresponse().status
        return None if status == 200 else f"a worker answered {status}"
    except OSError as error:
        return f"no worker answers: {error}"
    finally:
        connection.close()


def _announce(settings: Settings, log: Callable[[Event], None], on_ready: Callable[[], None]) -> None:
    problem: str | None = ""
    for _ in range(START_TRIES):
        problem = _probe(settings)
        if problem is None:
            log(ServiceChanged(what="ready", detail=f"{settings.host}:{settings.port}"))
            on_ready()
            return
        time.sleep(START_PAUSE_SEC)
    log(ServiceChanged(what="not_ready", detail=problem or ""))


def _require_free(host: str, port: int) -> None:
    """Raise if the port is in use: workers share a port, so the server would silently share another service's."""
    try:
        bound(host, port)
    except OSError as error:
        raise SettingsError(f"cannot listen on {host}:{port}: {error.strerror}") from error


def _at_once(_: float, call: Callable[[], None]) -> None:
    call()
