"""The HTTP server of a worker process: Granian, its limits, and how it stops. No other module imports Granian."""

import asyncio
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any

import uvloop
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.embed import Server

from counterfoil.http.app import App
from counterfoil.ports import STOP_SAVE_SEC
from counterfoil.program.process import SAVE_SIGNAL, StopDeadline, requests_limit_sec

BACKLOG = 1024
# Maximum number of open connections per worker. By default, Granian stops accepting connections at its backlog, so a
# few hundred idle connections would keep all other clients out.
MAX_CONNECTIONS = 8_192
# Maximum size of a request head, and the time within which it must arrive.
MAX_HEAD_BYTES = 65_536
HEAD_TIMEOUT_MS = 10_000
OTHER_DESCRIPTORS = 256
# glibc keeps freed memory for reuse in blocks of up to the largest size that was freed so far. If that is less than a
# page of bills, every page takes up to 90 page faults, a sixth of its processor time.
REUSED_BYTES = 4_194_304

LIMITS = HTTP1Settings(header_read_timeout=HEAD_TIMEOUT_MS, keep_alive=True, max_buffer_size=MAX_HEAD_BYTES)
# Granian's own messages go to standard error, one line each. By default they would go to standard output.
LOGGING = {
    "handlers": {"stderr": {"class": "logging.StreamHandler"}},
    "loggers": {"_granian": {"handlers": ["stderr"], "propagate": False}},
}


class HttpServer:
    """Serves the application, and calls `close` when it stops. `grace_sec` applies if the supervisor was killed."""

    def __init__(self, app: App, host: str, port: int, grace_sec: int, close: Callable[[], None]) -> None:
        self._close = close
        self._is_closing = False
        self._grace_sec = requests_limit_sec(grace_sec)
        self._server: Any = Server(
            app,
            address=host,
            port=port,
            interface=Interfaces.RSGI,
            http=HTTPModes.http1,
            websockets=False,
            backlog=BACKLOG,
            backpressure=MAX_CONNECTIONS,
            http1_settings=LIMITS,
            # The only warning of this server is that it is experimental; decision 4 says why we use it.
            log_level=LogLevels.error,
            log_dictconfig=LOGGING,
        )

    def run(self) -> None:
        """Serve until SIGTERM arrives or the supervisor ends. Then finish the requests in progress, and close."""
        _allow_descriptors(MAX_CONNECTIONS)
        bytes(REUSED_BYTES)
        uvloop.new_event_loop().run_until_complete(self._serve())
        self._is_closing = True
        self._close()

    async def _serve(self) -> None:
        # The handlers are added while the loop runs, so no signal is lost. Before, SIGTERM ends the process at once.
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._server.stop)
        loop.add_signal_handler(SAVE_SIGNAL, self._save_and_exit)
        # The supervisor never closes its end of standard input, so the end of the input is the end of the supervisor.
        loop.add_reader(sys.stdin.fileno(), self._stop_as_orphan, loop)
        await self._server.serve()

    def _save_and_exit(self) -> None:
        """Save counts and records, then exit without waiting any longer for requests."""
        if not self._is_closing:
            self._is_closing = True
            self._close()
            os._exit(0)

    def _stop_as_orphan(self, loop: asyncio.AbstractEventLoop) -> None:
        """Stop with the limits that the supervisor would have set, so that the next supervisor can use the port."""
        loop.remove_reader(sys.stdin.fileno())
        self._server.stop()
        loop.call_later(self._grace_sec, self._save_and_exit)
        StopDeadline(self._grace_sec + STOP_SAVE_SEC).begin()


def _allow_descriptors(connections: int) -> None:
    """Raise the limit on open files (often 1,024) to what the connections need, but not above the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + OTHER_DESCRIPTORS
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
