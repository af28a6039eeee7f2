"""Runs the worker processes, and chores: the horizon, day totals, deletions, checkpoints and the admin listener."""

import os
import pickle
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from itertools import chain

from msgspec.structs import replace

from counterfoil import bootstrap, observe
from counterfoil.checks.overview import overview
from counterfoil.http.wire import StaticPage
from counterfoil.model.text import counted
from counterfoil.observe import Event, ServerMessage, ServiceChanged, Trouble
from counterfoil.ports import STOP_SAVE_SEC, StoreMismatch, StoreUnavailable
from counterfoil.program.clock import SystemClock
from counterfoil.program.process import StopDeadline, requests_limit_sec
from counterfoil.serving.admin import Admin, metrics, overview_metrics, probe, readiness
from counterfoil.serving.notices import Notifier, Watch
from counterfoil.serving.worker import log_to, open_log
from counterfoil.serving.workers import Workers
from counterfoil.settings import Settings, SettingsError, bound
from counterfoil.unknown_variables import unknown_variables


def hold_port(host: str, port: int) -> socket.socket:
    """Return a socket that holds the API's port for the workers. It does not listen. Raise if the port is in use.

    While it is open, no other user can listen on the port, even if no worker runs: SO_REUSEPORT lets only sockets of
    the same user bind the port, and without SO_REUSEADDR a socket that does not listen conflicts with all others. Nor
    does the system give the port to an outgoing connection, which could block it for a minute.
    """
    held = bound(host, port)
    # Set only now: while binding, the first option ignores connections of a service that has just ended, and without
    # the second one the port of a running service is refused.
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    return held


# --- periodic chores --------------------------------------------------------

CHECKPOINT_SEC = 2.0
USAGE_SEC = 0.5
PRUNE_SEC = 3600.0
# Maximum number of days whose totals are computed per transaction. Each day blocks loads for a few milliseconds.
TOTALS_AT_ONCE = 10
TOTALS_SEC = 1.0
# How long to wait for chores when the service stops. A load can block one for up to a minute.
STOP_SEC = 2.0


class Chores:
    """Runs chores in three threads: for the books, for usage, and for deleting old usage data.

    A load may block the books for up to a minute, and deleting old data may take minutes. Neither may delay the chores
    for usage, because requests can be found only after their records were moved.
    """

    def __init__(self, settings: Settings, log: Callable[[Event], None]) -> None:
        self._settings = settings
        self._log = log
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run_book_chores, name="books", daemon=True),
            threading.Thread(target=self._run_usage_chores, name="usage", daemon=True),
            threading.Thread(target=self._run_pruning, name="prune", daemon=True),
        ]
        self._due: dict[Trouble, float] = {}
        self._failing: set[Trouble] = set()
        self._close = ExitStack()

    def start(self) -> None:
        self._ledger = bootstrap.store(self._settings).ledger()
        self._usage = bootstrap.store(self._settings).usage()
        self._old_usage = bootstrap.store(self._settings).usage()
        for store in (self._ledger, self._usage, self._old_usage):
            self._close.callback(store.close)
        self._run(observe.HORIZON, 0, self._ledger.advance_horizon)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        give_up = time.monotonic() + STOP_SEC
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, give_up - time.monotonic()))
        # A chore may still wait for another process's lock. The stores are then closed when this process ends.
        if not any(thread.is_alive() for thread in self._threads):
            self._close.close()

    def _run_book_chores(self) -> None:
        while not self._stop.wait(self._settings.tick_ms / 1000):
            self._run(observe.HORIZON, 0, self._ledger.advance_horizon)
            self._run(observe.CHECKPOINT, CHECKPOINT_SEC, self._ledger.checkpoint)
            self._run(observe.PRUNE_REMOVALS, PRUNE_SEC, self._ledger.prune_removals)
            self._run(observe.TOTALS, TOTALS_SEC, lambda: self._ledger.compute_totals(TOTALS_AT_ONCE))

    def _run_usage_chores(self) -> None:
        while not self._stop.wait(USAGE_SEC):
            self._run(observe.MOVE_REQUESTS, 0, self._usage.move_recent)
            self._run(observe.USAGE_CHECKPOINT, 0, self._usage.checkpoint)

    def _run_pruning(self) -> None:
        while not self._stop.wait(USAGE_SEC):
            self._run(observe.PRUNE, PRUNE_SEC, self._prune)

    def _run(self, trouble: Trouble, every_sec: float, chore: Callable[[], object]) -> None:
        """Run a chore if it is due. Log when it starts to fail and when it works again."""
        now = time.monotonic()
        if now < self._due.get(trouble, 0):
            return
        self._due[trouble] = now + every_sec
        try:
            chore()
        except (StoreUnavailable, StoreMismatch) as error:
            if trouble not in self._failing:
                self._failing.add(trouble)
                self._log(ServiceChanged(what=trouble.begins, detail=str(error)))
        else:
            if trouble in self._failing:
                self._failing.discard(trouble)
                self._log(ServiceChanged(what=trouble.ends))

    def _prune(self) -> None:
        records, days = self._old_usage.prune()
        cursors = self._old_usage.prune_cursors()
        if records or days or cursors:
            deleted = f"{counted(records, 'request record')}, {counted(days, 'daily total')}"
            self._log(ServiceChanged(what="pruned", detail=f"{deleted}, {counted(cursors, 'expired cursor')}"))


START_CHECKS, START_PAUSE_SEC = 1000, 0.02
# Additional time for the supervisor's own work while it stops.
MARGIN_SEC = 1.0


def serve(
    settings: Settings, on_ready: Callable[[], None] = lambda: None, pages: Mapping[str, StaticPage] | None = None
) -> None:
    """Run the service until a signal asks it to stop. `pages` replaces the pages that the settings select."""
    _require_packages()
    _report_misspelled_variables(settings)
    with hold_port(settings.host, settings.port) as held:
        # Port 0 stands for any free port.
        settings = replace(settings, port=held.getsockname()[1])
        if settings.admin_port:
            bound(settings.admin_host, settings.admin_port, "admin-").close()
        bootstrap.store(settings).require_exists()
        older = bootstrap.store(settings).prepare()
        _require_permission(settings)
        with tempfile.TemporaryFile() as counters:
            _serve(settings, counters.fileno(), on_ready, pages, older)


def _report_misspelled_variables(settings: Settings) -> None:
    """Log which variables have no effect. The name of the store may be among them, so this comes before its checks."""
    misspelled = [variable for variable in unknown_variables(os.environ) if variable.meant]
    if not misspelled:
        return
    log = open_log(settings, _call_now, os.dup(sys.stderr.fileno()))
    for variable in misspelled:
        log(ServiceChanged(what="unknown_variable", detail=str(variable)))


def stop_limit_sec(grace_sec: int) -> float:
    """Return the time limit for stopping the service, including time for requests in progress, saving and chores."""
    return requests_limit_sec(grace_sec) + STOP_SAVE_SEC + STOP_SEC + MARGIN_SEC


def _serve(
    settings: Settings,
    counters: int,
    on_ready: Callable[[], None],
    pages: Mapping[str, StaticPage] | None,
    older: Sequence[str],
) -> None:
    # Workers inherit this descriptor. Their own standard error leads to the supervisor.
    stderr = os.dup(sys.stderr.fileno())
    log = _locked(open_log(settings, _call_now, stderr))
    server_log = _locked(log_to(stderr, settings, _call_now))
    threading.excepthook = partial(_report_crash, server_log)
    if older:
        log(ServiceChanged(what="older_files", detail=", ".join(f"{name}.sqlite3" for name in older)))
    chores = Chores(settings, log)
    watch = Watch(settings, lambda: overview(settings, SystemClock().now_ms()), Notifier(settings, log), log)
    admin = _admin(settings, counters, watch)
    order = pickle.dumps((settings, counters, pages, stderr))
    workers = Workers(settings.workers, order, [stderr, counters], settings.grace_sec, server_log)

    def report_and_kill() -> None:
        workers.kill()
        log(ServiceChanged(what="stop_failed", detail="the service did not stop in time and was killed"))

    deadline = StopDeadline(stop_limit_sec(settings.grace_sec), report_and_kill)
    try:
        chores.start()
        watch.start()
        if admin:
            admin.start()
        threading.Thread(target=_wait_until_ready, args=(settings, log, on_ready), name="ready", daemon=True).start()
        workers.run(deadline.begin)
    finally:
        log(ServiceChanged(what="stopped"))
        watch.stop()
        chores.stop()
        if admin:
            admin.stop()


def _locked(log: Callable[[Event], None]) -> Callable[[Event], None]:
    """Return a log that several threads can write to."""
    lock = threading.Lock()

    def write(event: Event) -> None:
        with lock:
            log(event)

    return write


def _report_crash(log: Callable[[Event], None], crash: threading.ExceptHookArgs) -> None:
    """Log where a thread of the supervisor failed, without the message of the exception, which may be private."""
    frames = traceback.extract_tb(crash.exc_traceback)
    where = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames))
    thread = crash.thread.name if crash.thread else "unknown"
    log(ServerMessage(level="error", message=f"The thread {thread} failed: {crash.exc_type.__name__} in {where}"))


def _admin(settings: Settings, counters: int, watch: Watch) -> Admin | None:
    if not settings.admin_port:
        return None
    inspection = bootstrap.store(settings).reads()
    return Admin(
        settings.admin_host,
        settings.admin_port,
        ready=partial(readiness, settings, counters, inspection),
        metrics=lambda: chain(
            metrics(settings, counters, inspection), overview_metrics(watch.latest, SystemClock().now_ms())
        ),
        names=settings.admin_names,
        store_id=bootstrap.store(settings).reads().store_id,
        worker_problem=partial(probe, settings),
        api_address=f"{settings.host}:{settings.port}",
    )


def _wait_until_ready(settings: Settings, log: Callable[[Event], None], on_ready: Callable[[], None]) -> None:
    problem: str | None = ""
    for _ in range(START_CHECKS):
        problem = probe(settings)
        if problem is None:
            try:
                # Let the command print its own output before the log begins.
                on_ready()
            finally:
                log(ServiceChanged(what="ready", detail=f"{settings.host}:{settings.port}"))
            return
        time.sleep(START_PAUSE_SEC)
    log(ServiceChanged(what="not_ready", detail=problem or ""))


def _call_now(_: float, call: Callable[[], None]) -> None:
    call()


def _require_packages() -> None:
    """Raise ModuleNotFoundError if a package is missing that only workers import."""
    for name in ("granian", "uvloop"):
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _require_permission(settings: Settings) -> None:
    """Raise SettingsError if the login cannot read keys or count requests: every request would get a 503."""
    permissions = bootstrap.store(settings).reads().permissions()
    if permissions and not permissions.serves:
        raise SettingsError(
            f"the login {permissions.login} has no permission to serve. Grant it the role counterfoil_serving."
        )
