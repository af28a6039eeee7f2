"""The log has one JSON object per line. Lines are buffered briefly and written together."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from counterfoil.observe import MAX_BUFFER_BYTES, Event, EventLog, HandlerCrashed, ServiceChanged, StoreFailed
from observe.counting_workers import served
from running_service import START_MS

EVENTS: list[Event] = [
    served(),
    HandlerCrashed(request_id="r", route="shops", exception="KeyError", where=["shops:12"]),
    StoreFailed(request_id=None, route="shops", reason="SQLite: disk I/O error"),
    ServiceChanged(what="ready", detail='two\nlines "quoted" \u2028 ไทย'),
]


class Later:
    """Records functions to be called later, with their delays."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Callable[[], None]]] = []

    def __call__(self, delay: float, call: Callable[[], None]) -> None:
        self.due.append((delay, call))


@pytest.fixture
def file(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    path = tmp_path / "log"
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
    yield path, descriptor
    os.close(descriptor)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_is_one_json_object_on_a_line_with_its_time_first(file: tuple[Path, int], event: Event) -> None:
    path, descriptor = file
    log = EventLog(descriptor, lambda: START_MS, Later())
    log(event)
    log.flush()
    (line,) = lines(path)
    assert list(line)[:2] == ["at", "type"]
    assert line["at"] == "2026-01-01T00:00:00.000Z"


def test_log_lines_are_buffered_and_written_together(file: tuple[Path, int]) -> None:
    path, descriptor = file
    later = Later()
    log = EventLog(descriptor, lambda: START_MS, later)
    for _ in range(10):
        log(served())
    assert path.read_bytes() == b""
    ((delay, flush),) = later.due
    assert delay <= 0.25
    flush()
    assert len(lines(path)) == 10
    log(served())
    assert len(later.due) == 2


def test_many_log_lines_are_written_at_once(file: tuple[Path, int]) -> None:
    path, descriptor = file
    log = EventLog(descriptor, lambda: START_MS, Later())
    while not path.read_bytes():
        log(served())
    assert MAX_BUFFER_BYTES <= path.stat().st_size < MAX_BUFFER_BYTES + 1000


def test_a_broken_log_pipe_does_not_stop_the_service() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    log = EventLog(writing, lambda: START_MS, Later())
    for event in EVENTS * 200:
        log(event)
    log.flush()
    os.close(writing)


def test_lines_pass_through_a_pipe_that_accepts_partial_writes() -> None:
    reading, writing = os.pipe()
    log = EventLog(writing, lambda: START_MS, Later())
    received = bytearray()
    for _ in range(20):
        for _ in range(50):
            log(served())
        log.flush()
        received += os.read(reading, 1 << 20)
    os.close(writing)
    while rest := os.read(reading, 1 << 20):
        received += rest
    os.close(reading)
    assert len([json.loads(line) for line in bytes(received).splitlines()]) == 1_000
