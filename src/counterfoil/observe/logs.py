"""Writes events to a file descriptor, one per line: as JSON for programs, or as text for a person at a terminal.

Lines are buffered briefly and written together, so that one system call serves
many requests.
"""

import os
from collections.abc import Callable

from msgspec import json

from counterfoil.domain.calendar import iso_utc
from counterfoil.observe.events import Event
from counterfoil.observe.log_text import coloured, plain, text_line

Schedule = Callable[[float, Callable[[], None]], object]

FLUSH_SEC = 0.1
MAX_BUFFER_BYTES = 32_768


class EventLog:
    """Writes events to a file descriptor. `schedule` calls a function after a delay, as an event loop does."""

    def __init__(self, descriptor: int, now_ms: Callable[[], int], schedule: Schedule) -> None:
        self._descriptor = descriptor
        self._now_ms = now_ms
        self._schedule = schedule
        self._buffer = bytearray()
        self._flush_scheduled = False

    def line(self, at_ms: int, event: Event) -> bytes:
        """Return the line for an event, including the line break."""
        raise NotImplementedError

    def __call__(self, event: Event) -> None:
        self._buffer += self.line(self._now_ms(), event)
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


class JsonLog(EventLog):
    """Writes each event as a JSON object."""

    _encode = json.Encoder().encode

    def line(self, at_ms: int, event: Event) -> bytes:
        # The time comes before the other fields: {"at":"...","type":"request",...}
        return b'{"at":"%b",%b\n' % (iso_utc(at_ms).encode(), self._encode(event)[1:])


class TextLog(EventLog):
    """Writes each event as a line of text for people."""

    def __init__(
        self, descriptor: int, now_ms: Callable[[], int], schedule: Schedule, *, in_colour: bool = False
    ) -> None:
        super().__init__(descriptor, now_ms, schedule)
        self._paint = coloured if in_colour else plain

    def line(self, at_ms: int, event: Event) -> bytes:
        return f"{text_line(at_ms, event, self._paint)}\n".encode(errors="backslashreplace")
