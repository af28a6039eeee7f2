"""Code that a worker process runs. Each worker starts a new interpreter, so imports are kept to a minimum."""

import asyncio
import os
import pickle
import sys
from collections.abc import Callable, Mapping

from counterfoil import bootstrap
from counterfoil.http.app import NO_ROUTE, ROUTES
from counterfoil.http.wire import PAGE_ROUTE, StaticPage
from counterfoil.model.messages import MessageError
from counterfoil.observe import Counters, Event, EventLog, Layout, Schedule, ServiceChanged, json_line, text_lines
from counterfoil.program.clock import SystemClock
from counterfoil.program.process import is_colourful
from counterfoil.settings import Settings

# --- the log: text on a terminal and JSON elsewhere, unless a setting overrides this --


def open_log(settings: Settings, schedule: Schedule, stderr: int) -> EventLog:
    """Open the log that the settings select. `stderr` is the standard error of the service."""
    if settings.log == "off":
        return log_to(os.open(os.devnull, os.O_WRONLY), settings, schedule)
    return log_to(sys.stdout.fileno() if settings.log == "stdout" else stderr, settings, schedule)


def log_to(descriptor: int, settings: Settings, schedule: Schedule) -> EventLog:
    is_text = settings.log_format == "text"
    if settings.log_format == "auto":
        is_text = os.isatty(descriptor)
    line = text_lines(in_colour=is_colourful(descriptor)) if is_text else json_line
    return EventLog(descriptor, SystemClock().now_ms, schedule, line)


LAYOUT = Layout(
    [route for route, handler in ROUTES.items() if handler],
    [*(route for route, handler in ROUTES.items() if not handler), PAGE_ROUTE, NO_ROUTE],
)


def main() -> None:
    """Serve what the supervisor orders on standard input. Log a failure, or raise it with COUNTERFOIL_DEBUG."""
    settings, counters, pages, stderr = pickle.load(sys.stdin.buffer)  # noqa: S301 - the supervisor wrote it
    try:
        _serve(settings, counters, pages, stderr)
    except Exception as error:
        if os.environ.get("COUNTERFOIL_DEBUG", "") not in ("", "0"):
            raise
        log = log_to(stderr, settings, lambda _, call: call())
        reason = str(error) if isinstance(error, MessageError) else f"{type(error).__name__}: {error}"
        log(ServiceChanged(what="worker_failed", detail=reason))
        sys.exit(1)


def _serve(settings: Settings, counters: int, pages: Mapping[str, StaticPage] | None, stderr: int) -> None:
    """Serve. `stderr` is a descriptor of the service's standard error; the worker's own leads to the supervisor."""
    from counterfoil.serving.server import HttpServer  # noqa: PLC0415 - it would take 5 MB of the supervisor's memory

    count = Counters(counters, LAYOUT, SystemClock().now_ms)
    log = open_log(settings, _schedule, stderr)

    def observe(event: Event) -> None:
        count(event)
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
