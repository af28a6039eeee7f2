"""Counters that the worker processes share with the supervisor, which serves `/metrics`.

Every worker has its own memory-mapped file. Counting needs no system call, and
the counts of a killed worker can still be read.
"""

import mmap
import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from counterfoil.domain.problems import TABLE
from counterfoil.observe.events import CountsReseeded, Event, HandlerCrashed, RequestServed, ServerChanged, StoreFailed

BUCKETS_US = (100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000)
# Pairs of status and error code. The last pair stands for every other outcome.
OUTCOMES = (("200", ""), ("304", ""), *((str(problem.status), problem.code) for problem in TABLE), ("other", ""))


# Each route has a row of counters: requests by outcome, requests by latency bucket, sum of latencies, and bytes sent.
_OUTCOME_INDEX = {(int(status), code): index for index, (status, code) in enumerate(OUTCOMES) if status != "other"}
_OTHER_INDEX = len(OUTCOMES) - 1
_BUCKETS_OFFSET = len(OUTCOMES)
_LATENCY_OFFSET = _BUCKETS_OFFSET + len(BUCKETS_US) + 1
_SENT_OFFSET = _LATENCY_OFFSET + 1
_ROW_LENGTH = _SENT_OFFSET + 1


class Layout:
    """The index of each value in a counter file.

    `public_routes` are the routes that need no API key.
    """

    def __init__(self, routes: Iterable[str], public_routes: Iterable[str]) -> None:
        self.public_routes = tuple(public_routes)
        self.routes = (*routes, *self.public_routes)
        self.rows = {route: index * _ROW_LENGTH for index, route in enumerate(self.routes)}
        self.crashes = _ROW_LENGTH * len(self.routes)
        self.store_failures = self.crashes + 1
        self.reseeded = self.store_failures + 1
        self.server_changes = self.reseeded + 1
        # Time of the last store failure in milliseconds. It is 0 if there was none, or if a request with a known key
        # has since been answered without a server error.
        self.failed_at = self.server_changes + 1
        self.slots = self.failed_at + 1

    def outcome(self, route: str, status: int, error: str) -> int:
        return self.rows[route] + _OUTCOME_INDEX.get((status, error), _OTHER_INDEX)

    def bucket(self, route: str, took_us: int) -> int:
        return self.rows[route] + _BUCKETS_OFFSET + bisect_left(BUCKETS_US, took_us)

    def took(self, route: str) -> int:
        return self.rows[route] + _LATENCY_OFFSET

    def sent(self, route: str) -> int:
        return self.rows[route] + _SENT_OFFSET


class CounterFile:
    """The counters of one process."""

    def __init__(self, folder: Path, layout: Layout, now_ms: Callable[[], int]) -> None:
        self._layout = layout
        self._now_ms = now_ms
        path = folder / f"{os.getpid()}.counters"
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        os.ftruncate(descriptor, layout.slots * 8)
        self._map = mmap.mmap(descriptor, layout.slots * 8)
        os.close(descriptor)
        self._numbers = memoryview(self._map).cast("Q")

    def __call__(self, event: Event) -> None:
        numbers, layout = self._numbers, self._layout
        match event:
            case RequestServed():
                # The layout's methods are inlined here, because calling them would cost more than the counting itself.
                row = layout.rows[event.route]
                numbers[row + _OUTCOME_INDEX.get((event.status, event.error or ""), _OTHER_INDEX)] += 1
                numbers[row + _BUCKETS_OFFSET + bisect_left(BUCKETS_US, event.took_us)] += 1
                numbers[row + _LATENCY_OFFSET] += event.took_us
                numbers[row + _SENT_OFFSET] += event.sent
                if event.key_id is not None and event.status < 500:
                    numbers[layout.failed_at] = 0
            case HandlerCrashed():
                numbers[layout.crashes] += 1
            case StoreFailed():
                numbers[layout.store_failures] += 1
                numbers[layout.failed_at] = self._now_ms()
            case CountsReseeded():
                numbers[layout.reseeded] += 1
            case ServerChanged():
                numbers[layout.server_changes] += 1


def totals(folder: Path, layout: Layout) -> list[int]:
    """Return the sum of each counter over all worker processes."""
    sums = [0] * layout.slots
    for numbers in _counter_files(folder, layout):
        sums = [left + right for left, right in zip(sums, numbers, strict=True)]
    return sums


def last_store_failure_ms(folder: Path, layout: Layout) -> int:
    """Return the time of the latest store failure, or 0. A failure counts until its worker can use the store again."""
    return max((numbers[layout.failed_at] for numbers in _counter_files(folder, layout)), default=0)


def _counter_files(folder: Path, layout: Layout) -> Iterator[memoryview]:
    for path in folder.glob("*.counters"):
        numbers = memoryview(path.read_bytes()).cast("Q")
        if len(numbers) == layout.slots:
            yield numbers
