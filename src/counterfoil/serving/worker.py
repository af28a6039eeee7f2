"""Code that a worker process runs. Each worker starts a new interpreter, so imports are kept to a minimum."""

import asyncio
import os
import pickle
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from counterfoil import bootstrap
from counterfoil.http.app import NO_ROUTE, ROUTES
from counterfoil.http.pages import PAGE_ROUTE, StaticPage
from counterfoil.machine.clock import SystemClock
from counterfoil.observe.counters import CounterFile, Layout
from counterfoil.observe.events import Event, ServiceChanged
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.serving.log_output import log_to, open_log
from counterfoil.settings import Settings, SettingsError

LAYOUT = Layout(
    [route.path for route in ROUTES if route.handler],
    [*(route.path for route in ROUTES if not route.handler), PAGE_ROUTE, NO_ROUTE],
)


def main() -> None:
    """Read the arguments of `_serve`, which the supervisor sends on standard input, and serve until asked to stop.

    If that fails, log one line and end the process. With `COUNTERFOIL_DEBUG`, the error is raised instead.
    """
    settings, counters, pages, stderr = pickle.load(sys.stdin.buffer)  # noqa: S301 - the supervisor wrote it
    try:
        _serve(settings, counters, pages, stderr)
    except Exception as error:
        if os.environ.get("COUNTERFOIL_DEBUG", "") not in ("", "0"):
            raise
        log = log_to(stderr, settings, lambda _, call: call())
        log(ServiceChanged(what="worker_failed", detail=_reason(error)))
        sys.exit(1)


def _reason(error: Exception) -> str:
    foreseen = isinstance(error, StoreUnavailable | StoreMismatch | SettingsError)
    return str(error) if foreseen else f"{type(error).__name__}: {error}"


def _serve(settings: Settings, counters: Path, pages: Mapping[str, StaticPage] | None, stderr: int) -> None:
    """Serve. `stderr` is a descriptor of the service's standard error; the worker's own leads to the supervisor."""
    from counterfoil.serving.server import HttpServer  # noqa: PLC0415 - the supervisor does not need Granian

    counter_file = CounterFile(counters, LAYOUT, SystemClock().now_ms)
    log = open_log(settings, _schedule, stderr)

    def observe(event: Event) -> None:
        counter_file(event)
        log(event)

    service = bootstrap.service(settings, observe, pages=pages)

    def close() -> None:
        service.close()
        log.flush()

    HttpServer(service.app, settings.host, settings.port, settings.grace_sec, close).run()


def _schedule(delay: float, call: Callable[[], None]) -> None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        # No event loop is running here, for example because the worker is stopping, so do not wait.
        call()
    else:
        loop.call_later(delay, call)
