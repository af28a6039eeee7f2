"""Where the processor time of a page of 200 bills goes, in one process and without HTTP.

    PYTHONPATH=tests .venv/bin/python -m bench.page_parts

Answers pages of different shops, one after the other, and adds up the processor time that is
spent inside each step. The rest is the way between the steps: parsing the request, its record,
its log line and the event loop.
"""

import asyncio
import gc
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench import copies, cursors, questions, report, workloads, world
from bench.poll_worker import Headers, Request, Response
from counterfoil import bootstrap
from counterfoil.backends.sqlite.books import SqliteBooks
from counterfoil.http import wire
from counterfoil.http.gate import Gate
from counterfoil.reads import Reads

BILLS, DAYS = 10_000, 31
ROUNDS = 20
WARM_UP = 200


class Parts:
    """The processor time spent in each step, in nanoseconds."""

    def __init__(self) -> None:
        self.spent: dict[str, int] = {}

    def time_coroutine(self, name: str, owner: Any, method: str) -> None:
        original: Callable[..., Awaitable[Any]] = getattr(owner, method)

        async def timed(*arguments: Any, **named: Any) -> Any:
            began = time.process_time_ns()
            result = await original(*arguments, **named)
            self.spent[name] = self.spent.get(name, 0) + time.process_time_ns() - began
            return result

        setattr(owner, method, timed)

    def time_function(self, name: str, owner: Any, function: str) -> None:
        original: Callable[..., Any] = getattr(owner, function)

        def timed(*arguments: Any) -> Any:
            began = time.process_time_ns()
            result = original(*arguments)
            self.spent[name] = self.spent.get(name, 0) + time.process_time_ns() - began
            return result

        setattr(owner, function, timed)


def timed_parts() -> Parts:
    parts = Parts()
    parts.time_coroutine("key, minute window and day count", Gate, "admit")
    parts.time_coroutine("rows, joined in SQLite", SqliteBooks, "bills_by_day")
    parts.time_coroutine("cursor to the next page, stored", Reads, "_next_cursor")
    parts.time_coroutine("cursor of this page, looked up", Reads, "_resume_bills")
    parts.time_function("copy into the body", wire, "success_body")
    parts.time_function("tag", wire.EntityTags, "of")
    return parts


async def measured(made: world.World) -> dict[str, float]:
    """Return the microseconds of processor time a page for each step, and for the whole."""
    [key] = world.issue_keys(made, world.GROUP, 1)
    await asyncio.to_thread(cursors.hand_out, made, [key])
    requests = [_request(asked, key) for asked in workloads.drawn(made)["page"].questions]
    parts = timed_parts()
    service = bootstrap.service(made.settings, lambda _: None)
    response = Response()
    for request in requests[:WARM_UP]:
        await service.app.__rsgi__(request, response)
    gc.disable()
    rounds = []
    for _ in range(ROUNDS):
        parts.spent.clear()
        began = time.process_time_ns()
        for request in requests:
            await service.app.__rsgi__(request, response)
        parts.spent["everything"] = time.process_time_ns() - began
        rounds.append(dict(parts.spent))
        # Let the timer that writes buffered records run outside the measured time.
        await asyncio.sleep(0.3)
    service.close()
    pages = len(requests) * 1000
    return {name: statistics.median(spent[name] / pages for spent in rounds) for name in rounds[0]}


def _request(asked: questions.Question, key: str) -> Request:
    path, _, query = (questions.api(asked) or "").partition("?")
    return Request(path, query, Headers(host="bench", authorization=f"Bearer {key}"))


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="counterfoil-bench-") as folder:
        made = world.made(Path(folder), BILLS, DAYS)
        copies.fill_sqlite(made)
        found = asyncio.run(measured(made))
    everything = found.pop("everything")
    found["the rest: parameters, record, log, event loop"] = everything - sum(found.values())
    rows = sorted(found.items(), key=lambda row: -row[1])
    lines = report.table(("step", "µs of processor time"), [(name, f"{spent:.0f}") for name, spent in rows])
    print("\n".join([*lines, f"| everything | {everything:.0f} |"]))


if __name__ == "__main__":
    main()
