"""Writes events to a file descriptor as JSON, one per line.

Lines are collected and written together a moment later, with one system call
for many requests.
"""

import logging
import os
from collections.abc import Callable

from msgspec import json

from counterfoil.domain.calendar import iso_utc
from counterfoil.observe.events import Event

Later = Callable[[float, Callable[[], None]], object]

FLUSH_SEC = 0.1
FULL_BYTES = 32_768


class JsonLog:
    """Writes events to a descriptor; `later` schedules a call, as an event loop does."""

    def __init__(self, descriptor: int, now_ms: Callable[[], int], later: Later) -> None:
        self._descriptor = descriptor
        self._now_ms = now_ms
        self._later = later
        self._lines = bytearray()
        self._due = False
        self._encode = json.Encoder().encode

    def __call__(self, event: Event) -> None:
        # The time is put in front of the other fields: {"at":"...","type":"request",...}
        self._lines += b'{"at":"%b",%b\n' % (iso_utc(self._now_ms()).encode(), self._encode(event)[1:])
        if len(self._lines) >= FULL_BYTES:
            self.flush()
        elif not self._due:
            self._due = True
            self._later(FLUSH_SEC, self.flush)

    def flush(self) -> None:
        self._due = False
        lines, self._lines = self._lines, bytearray()
        view = memoryview(lines)
        while view:
            try:
                view = view[os.write(self._descriptor, view) :]
            except OSError:
                # The service must keep running if its log can no longer be written.
                return


class ServerLine(logging.Formatter):
    """Formats the HTTP server's own messages like events, without tracebacks, because they may contain data."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": iso_utc(int(record.created * 1000)),
            "type": "server",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        return json.encode(line).decode()
