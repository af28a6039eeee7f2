"""A worker in this process that counts SQL statements, steps of SQLite's virtual machine, calls and allocated bytes.

The counts do not depend on the speed or the load of the machine.
"""

import asyncio
import re
import sqlite3
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from msgspec import Struct, field

from counterfoil import bootstrap
from raw_http import AppRequest, AppResponse, Headers
from running_service import RunningService

# A function that is called with a new connection and the name of its database.
Watch = Callable[[sqlite3.Connection, str], None]

TRIES = 3


class Cost(Struct):
    """The cost of one request. Steps are counted per database."""

    statements: list[tuple[str, str]] = field(default_factory=list)
    steps: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    peak_bytes: int = 0
    body: bytes = b""


class Worker:
    """The application as it is shipped, with the store of a service."""

    def __init__(self, service: RunningService, runner: asyncio.Runner) -> None:
        self._service = service
        self._runner = runner
        self._cost = Cost()
        self._counters: list[tuple[sqlite3.Connection, Callable[[], int]]] = []
        with _watching(self._watch):
            self._application = bootstrap.service(service.settings, service.events.append, service.clock)

    def close(self) -> None:
        self._runner.run(_called(self._application.close))

    def ask(self, path: str, key: str, *, encoding: str = "", **query: object) -> Cost:
        """Send a request several times; return the lowest counts, because some requests also write buffered records.

        The peak memory is measured only once.
        """
        question = self._question(path, key, encoding, query)
        counted = min((self._counting_statements(question) for _ in range(TRIES)), key=lambda cost: cost.steps.total())
        counted.calls = min(self._counting_calls(question) for _ in range(TRIES))
        counted.peak_bytes = self._counting_bytes(question)
        return counted

    def fewest_steps(self, tries: int, database: str, path: str, key: str, **query: object) -> int:
        """Send a request several times; return the lowest number of steps on this database."""
        question = self._question(path, key, "", query)
        return min(self._counting_statements(question).steps[database] for _ in range(tries))

    def fewest_calls(self, tries: int, path: str, key: str, **query: object) -> int:
        """Send a request several times; return the lowest number of Python calls."""
        question = self._question(path, key, "", query)
        return min(self._counting_calls(question) for _ in range(tries))

    def repeat(self, times: int, path: str, key: str, **query: object) -> None:
        """Send a request many times without counting its steps, because counting takes much longer than the request."""
        question = self._question(path, key, "", query)
        self._count_steps(False)
        for _ in range(times):
            self._answered(question)
        self._count_steps(True)

    def _count_steps(self, is_on: bool) -> None:
        for connection, step in self._counters:
            with suppress(sqlite3.ProgrammingError):  # The connection is closed.
                connection.set_progress_handler(step if is_on else None, 1)

    def _question(self, path: str, key: str, encoding: str, query: dict[str, object]) -> AppRequest:
        headers = Headers(host="counterfoil", authorization=f"Bearer {key}")
        if encoding:
            headers["accept-encoding"] = encoding
        written = "&".join(f"{name}={value}" for name, value in query.items())
        return AppRequest(f"{self._service.settings.prefix}/v1/{path}", written, headers)

    def _answered(self, question: AppRequest) -> AppResponse:
        wire = AppResponse()
        self._runner.run(self._application.app.__rsgi__(question, wire))
        assert wire.status == 200, wire.body
        return wire

    def _counting_statements(self, question: AppRequest) -> Cost:
        self._cost = Cost()
        self._cost.body = self._answered(question).body
        counted, self._cost = self._cost, Cost()
        return counted

    def _counting_calls(self, question: AppRequest) -> int:
        calls = 0

        def count(frame: FrameType, event: str, _: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call") and frame.f_code.co_filename != __file__

        async def counted() -> None:
            sys.setprofile(count)
            try:
                await self._application.app.__rsgi__(question, AppResponse())
            finally:
                sys.setprofile(None)

        self._runner.run(counted())
        return calls

    def _counting_bytes(self, question: AppRequest) -> int:
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            self._answered(question)
            return tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()

    def _watch(self, connection: sqlite3.Connection, database: str) -> None:
        def step() -> int:
            self._cost.steps[database] += 1
            return 0

        connection.set_trace_callback(lambda statement: self._cost.statements.append((database, statement)))
        connection.set_progress_handler(step, 1)
        self._counters.append((connection, step))


@contextmanager
def _watching(watch: Watch) -> Iterator[None]:
    """Call `watch` with every SQLite connection that is opened during the block."""
    connect = sqlite3.connect

    def watched(address: str, **terms: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(address, **terms)
        watch(connection, Path(address.partition("?")[0]).stem)
        return connection

    sqlite3.connect = watched  # type: ignore[assignment]
    try:
        yield
    finally:
        sqlite3.connect = connect


@contextmanager
def statements_run() -> Iterator[list[tuple[str, str]]]:
    """Collect all statements run on connections opened during the block, each with its database."""
    seen: list[tuple[str, str]] = []

    def watch(connection: sqlite3.Connection, database: str) -> None:
        connection.set_trace_callback(lambda statement: seen.append((database, statement)))

    with _watching(watch):
        yield seen


def plan_of(store: Path, database: str, statement: str) -> list[str]:
    """Return SQLite's query plan, one line per step."""
    values = dict.fromkeys(re.findall(r":([a-z]\w*)", statement), 1)
    with closing(sqlite3.connect(store / f"{database}.sqlite3")) as connection:
        return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]


async def _called(call: Callable[[], None]) -> None:
    call()
