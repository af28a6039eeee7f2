"""Code that a worker process runs. Each worker starts a new interpreter, so imports are kept to a minimum."""

import asyncio
import os
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
from counterfoil.serving.server import Worker
from counterfoil.settings import Settings, SettingsError

LAYOUT = Layout(
    [route.path for route in ROUTES if route.handler],
    [*(route.path for route in ROUTES if not route.handler), PAGE_ROUTE, NO_ROUTE],
)


def worker(settings: Settings, counters: Path, pages: Mapping[str, StaticPage] | None = None) -> Worker:
    """Build and return the application of a worker process. If that fails, log one line and end the process.

    With `COUNTERFOIL_DEBUG`, the error is raised instead.
    """
    try:
        return _worker(settings, counters, pages)
    except Exception as error:
        if os.environ.get("COUNTERFOIL_DEBUG", "") not in ("", "0"):
            raise
        log = log_to(sys.stderr.fileno(), settings, lambda _, call: call())
        log(ServiceChanged(what="worker_failed", detail=_reason(error)))
        sys.exit(1)


def _reason(error: Exception) -> str:
    foreseen = isinstance(error, StoreUnavailable | StoreMismatch | SettingsError)
    return str(error) if foreseen else f"{type(error).__name__}: {error}"


def _worker(settings: Settings, counters: Path, pages: Mapping[str, StaticPage] | None) -> Worker:
    counter_file = CounterFile(counters, LAYOUT, SystemClock().now_ms)
    log = open_log(settings, _schedule)

    def observe(event: Event) -> None:
        counter_file(event)
        log(event)

    service = bootstrap.service(settings, observe, pages=pages)

    def close() -> None:
        service.close()
        log.flush()

    return Worker(service.app, close, settings.grace_sec)


def _schedule(delay: float, call: Callable[[], None]) -> None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        # No event loop is running here, for example because the worker is stopping, so do not wait.
        call()
    else:
        loop.call_later(delay, call)
