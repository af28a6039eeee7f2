"""Measures the cost of a poll. bench.versions runs this in a process of its own for each source tree.

Each line of standard input is a number of polls. The module runs that many polls, one
after the other, and prints the processor time per poll in microseconds. Between
rounds, it moves request records to their indexed table and checkpoints the
write-ahead log, as the supervisor does.
"""

import asyncio
import gc
import os
import sys
import time
from typing import Any

from msgspec import Struct

from counterfoil import bootstrap, settings


class Headers(dict[str, Any]):
    """Request headers, each with one value."""

    def get_all(self, key: str) -> list[str]:
        return [self[key]] if key in self else []


class Request(Struct):
    path: str
    query_string: str
    headers: Any
    method: str = "GET"
    http_version: str = "1.1"


class Response:
    def response_bytes(self, status: int, _: object, body: bytes) -> None:
        assert status == 200, body


async def main(path: str, query: str, key: str) -> None:
    found = settings.load({}, os.environ)
    service = bootstrap.service(found, lambda _: None)
    usage = bootstrap.store(found).usage()
    request = Request(path, query, Headers(host="bench", authorization=f"Bearer {key}"))
    loop, response = asyncio.get_running_loop(), Response()
    gc.disable()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        polls = int(line)
        began = time.process_time_ns()
        for _ in range(polls):
            await service.app.__rsgi__(request, response)
        spent = time.process_time_ns() - began
        print(spent / polls / 1000, flush=True)
        # Let the timer that writes buffered records run outside the measured time.
        await asyncio.sleep(0)
        if hasattr(usage, "move_recent"):  # Earlier versions move records when they admit a request.
            usage.move_recent()
        usage.checkpoint()
    service.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
