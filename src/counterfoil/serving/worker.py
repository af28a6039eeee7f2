"""What a worker process runs. Each starts a new interpreter, so this module imports only what a worker needs."""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

from counterfoil import bootstrap
from counterfoil.http.app import NO_ROUTE, ROUTES
from counterfoil.machine.clock import SystemClock
from counterfoil.observe.counters import CounterFile, Layout
from counterfoil.observe.events import Event
from counterfoil.observe.logs import JsonLog
from counterfoil.serving.server import Worker
from counterfoil.settings import Settings

LAYOUT = Layout([*(route.path for route in ROUTES), NO_ROUTE])


def worker(settings: Settings, counters: Path) -> Worker:
    """Build the application. Called in each worker process."""
    counter_file = CounterFile(counters, LAYOUT, SystemClock().now_ms)
    log = open_log(settings, lambda delay, call: asyncio.get_running_loop().call_later(delay, call))

    def observe(event: Event) -> None:
        counter_file(event)
        log(event)

    service = bootstrap.service(settings, observe)

    def close() -> None:
        service.close()
        log.flush()

    return Worker(service.app, close)


def open_log(settings: Settings, schedule: Callable[[float, Callable[[], None]], object]) -> JsonLog:
    stream = {"stdout": sys.stdout, "stderr": sys.stderr}.get(settings.log)
    descriptor = stream.fileno() if stream else os.open(os.devnull, os.O_WRONLY)
    return JsonLog(descriptor, SystemClock().now_ms, schedule)
