"""Writes events to a file descriptor as JSON, one per line.

Lines are buffered briefly and written together, so that one system call serves
many requests.
"""

import logging
import os
from collections.abc import Callable

from msgspec import json

from counterfoil.domain.calendar import iso_utc
from counterfoil.observe.events import Event

Schedule = Callable[[float, Callable[[], None]], object]

FLUSH_SEC = 0.1
MAX_BUFFER_BYTES = 32_768


class JsonLog:
    """Writes events to a file descriptor. `schedule` calls a function after a delay, as an event loop does."""

    def __init__(self, descriptor: int, now_ms: Callable[[], int], schedule: Schedule) -> None:
        self._descriptor = descriptor
        self._now_ms = now_ms
        self._schedule = schedule
        self._buffer = bytearray()
        self._flush_scheduled = False
        self._encode = json.Encoder().encode

    def __call__(self, event: Event) -> None:
        # The time comes before the other fields: {"at":"...","type":"request",...}
        self._buffer += b'{"at":"%b",%b\n' % (iso_utc(self._now_ms()).encode(), self._encode(event)[1:])
        if len(self._buffer) >= MAX_BUFFER_BYTES:
            self.flush()
        elif not self._flush_scheduled:
            self._flush_scheduled = True
            self._schedule(FLUSH_SEC, self.flush)

    def flush(self) -> None:
        self._flush_scheduled = False
        lines, self._buffer = self._buffer, bytearray()
        view = memoryview(lines)
        while view:
            try:
                view = view[os.write(self._descriptor, view) :]
            except OSError:
                # The service must keep running even if its log can no longer be written.
                return


class ServerLogFormatter(logging.Formatter):
    """Formats the HTTP server's own messages like events, without tracebacks, which may contain data."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": iso_utc(int(record.created * 1000)),
            "type": "server",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        return json.encode(line).decode()
