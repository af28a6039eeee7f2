"""Runs the service: the worker processes and the supervisor's chores.

The supervisor does not handle API requests. It advances the horizon while
nothing is loaded, computes day totals, deletes expired data, runs checkpoints,
and serves the admin listener.
"""

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from counterfoil import bootstrap
from counterfoil.http.pages import StaticPage
from counterfoil.observe.events import Event, ServiceChanged
from counterfoil.serving.admin import Admin
from counterfoil.serving.chores import Chores
from counterfoil.serving.listeners import require_free_ports
from counterfoil.serving.log_output import open_log, server_logging
from counterfoil.serving.report import metrics, probe, readiness
from counterfoil.serving.server import HttpServer
from counterfoil.serving.stopping import StopDeadline, stop_limit_sec
from counterfoil.serving.worker import worker
from counterfoil.settings import Settings, SettingsError

START_CHECKS, START_PAUSE_SEC = 1000, 0.02


def serve(
    settings: Settings,
    on_ready: Callable[[], None] = lambda: None,
    pages: Mapping[str, StaticPage] | None = None,
) -> None:
    """Run the service until a signal asks it to stop. `pages` replaces the pages that the settings select."""
    require_free_ports(settings.host, settings.port, settings.admin_host, settings.admin_port)
    bootstrap.require_store(settings)
    bootstrap.prepare(settings)
    _require_permission(settings)
    with counters_folder(Path(tempfile.gettempdir())) as counters:
        _serve(settings, counters, on_ready, pages)


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
    settings: Settings, counters: Path, on_ready: Callable[[], None], pages: Mapping[str, StaticPage] | None
) -> None:
    log = open_log(settings, _call_now)
    chores = Chores(settings, log)
    admin = _admin(settings, counters)
    deadline = StopDeadline(stop_limit_sec(settings.grace_sec), lambda: _report_and_kill(server, log))
    server = HttpServer(
        settings.host,
        settings.port,
        settings.workers,
        settings.grace_sec,
        partial(worker, settings, counters, pages),
        server_logging(settings),
        deadline.begin,
    )
    try:
        chores.start()
        if admin:
            admin.start()
        threading.Thread(target=_wait_until_ready, args=(settings, log, on_ready), name="ready", daemon=True).start()
        server.run()
    finally:
        log(ServiceChanged(what="stopped"))
        chores.stop()
        if admin:
            admin.stop()


def _report_and_kill(server: HttpServer, log: Callable[[Event], None]) -> None:
    """Kill the workers and report that the service did not stop in time."""
    server.kill_workers()
    log(ServiceChanged(what="stop_failed", detail="the service did not stop in time and was killed"))


def _admin(settings: Settings, counters: Path) -> Admin | None:
    if not settings.admin_port:
        return None
    inspection = bootstrap.inspection(settings)
    return Admin(
        settings.admin_host,
        settings.admin_port,
        ready=partial(readiness, settings, counters, inspection),
        metrics=partial(metrics, settings, counters, inspection),
        names=settings.admin_names,
        store_id=partial(bootstrap.store_id, settings),
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


def _require_permission(settings: Settings) -> None:
    """Raise SettingsError if the login cannot read keys or count requests: every request would get a 503."""
    permissions = bootstrap.inspection(settings).permissions()
    if permissions and not permissions.serves:
        raise SettingsError(
            f"the login {permissions.login} has no permission to serve. Grant it the role counterfoil_serving."
        )
