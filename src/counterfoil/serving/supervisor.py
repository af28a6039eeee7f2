"""Runs the service: the worker processes and the supervisor's chores.

The supervisor does not handle API requests. It holds the port of the API,
advances the horizon while nothing is loaded, computes day totals, deletes
expired data, runs checkpoints, and serves the admin listener.
"""

import os
import pickle
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from msgspec.structs import replace

from counterfoil import bootstrap
from counterfoil.http.pages import StaticPage
from counterfoil.observe.events import Event, ServerMessage, ServiceChanged
from counterfoil.serving.admin import Admin
from counterfoil.serving.chores import Chores
from counterfoil.serving.listeners import hold_port, require_free_admin_port
from counterfoil.serving.log_output import log_to, open_log
from counterfoil.serving.report import metrics, probe, readiness
from counterfoil.serving.stopping import StopDeadline, stop_limit_sec
from counterfoil.serving.workers import Workers
from counterfoil.settings import Settings, SettingsError

START_CHECKS, START_PAUSE_SEC = 1000, 0.02


def serve(
    settings: Settings,
    on_ready: Callable[[], None] = lambda: None,
    pages: Mapping[str, StaticPage] | None = None,
) -> None:
    """Run the service until a signal asks it to stop. `pages` replaces the pages that the settings select."""
    _require_packages()
    with hold_port(settings.host, settings.port) as held:
        # Port 0 stands for any free port.
        settings = replace(settings, port=held.getsockname()[1])
        require_free_admin_port(settings.admin_host, settings.admin_port)
        bootstrap.store(settings).require_exists()
        older = bootstrap.prepare(settings)
        _require_permission(settings)
        with counters_folder(Path(tempfile.gettempdir())) as counters:
            _serve(settings, counters, on_ready, pages, older)


@contextmanager
def counters_folder(parent: Path) -> Iterator[Path]:
    """Yield a new folder for the workers' counters. Its name contains our PID, which `clear_abandoned` checks."""
    clear_abandoned(parent)
    prefix = f"counterfoil-{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True) as counters:
        yield Path(counters)


def clear_abandoned(parent: Path) -> None:
    """Delete the folders that killed services of the same user have left behind."""
    for folder in parent.glob("counterfoil-*-*"):
        owner = folder.name.split("-")[1]
        # In a container, the previous process may have had our PID.
        is_abandoned = owner.isdecimal() and (int(owner) == os.getpid() or not _is_running(int(owner)))
        with suppress(OSError):
            if is_abandoned and folder.lstat().st_uid == os.getuid():
                shutil.rmtree(folder, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _serve(
    settings: Settings,
    counters: Path,
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
    admin = _admin(settings, counters)
    order = pickle.dumps((settings, counters, pages, stderr))
    workers = Workers(settings.workers, order, [stderr], settings.grace_sec, server_log)
    deadline = StopDeadline(stop_limit_sec(settings.grace_sec), lambda: _report_and_kill(workers, log))
    try:
        chores.start()
        if admin:
            admin.start()
        threading.Thread(target=_wait_until_ready, args=(settings, log, on_ready), name="ready", daemon=True).start()
        workers.run(deadline.begin)
    finally:
        log(ServiceChanged(what="stopped"))
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


def _report_and_kill(workers: Workers, log: Callable[[Event], None]) -> None:
    """Kill the workers and report that the service did not stop in time."""
    workers.kill()
    log(ServiceChanged(what="stop_failed", detail="the service did not stop in time and was killed"))


def _admin(settings: Settings, counters: Path) -> Admin | None:
    if not settings.admin_port:
        return None
    inspection = bootstrap.operator_reads(settings)
    return Admin(
        settings.admin_host,
        settings.admin_port,
        ready=partial(readiness, settings, counters, inspection),
        metrics=partial(metrics, settings, counters, inspection),
        names=settings.admin_names,
        store_id=bootstrap.operator_reads(settings).store_id,
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
    permissions = bootstrap.operator_reads(settings).permissions()
    if permissions and not permissions.serves:
        raise SettingsError(
            f"the login {permissions.login} has no permission to serve. Grant it the role counterfoil_serving."
        )
