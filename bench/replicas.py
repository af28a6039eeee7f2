"""Measure which servers answer reads, and how old serverTime is, while replicas lag: `python -m bench.replicas`.

Starts, on this machine, a primary and two replicas that apply each commit with a
fixed delay, one node that runs a worker's application, a shared meter, a loader
that changes bills continuously, and one caller that sends one request at a time.
"""

import argparse
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx

from backends.fleet import Fleet, instant
from counterfoil.backends.postgres.pool import Pool
from counterfoil.backends.postgres.servers import DatabaseServer, Servers
from counterfoil.ports import ServerRole

LAGS = (0, 50, 300, 1_000)
CALLS = ("shops", "transactions?shopId=s&limit=5&updatedSince=2026-01-01T00:00:00Z", "transactions/b01")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="duration of the measurement at each lag")
    seconds = parser.parse_args().seconds
    answered: Counter[ServerRole] = Counter()
    _count_answers(answered)
    print("| lag of both replicas | reads | answered by the primary | serverTime behind the clock: median | p99 |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, closing(Fleet(Path(folder))) as fleet:
        for lag in LAGS:
            for replica in range(2):
                fleet.delay(replica, lag)
            with fleet.changing():
                # A new key first gets the primary's horizon, so replicas answer its reads only once they have reached
                # that horizon.
                key = fleet.key()
                _ages(fleet, key, 2 * lag / 1000 + 1)
                answered.clear()
                ages = _ages(fleet, key, seconds)
            reads = sum(answered.values())
            p99 = statistics.quantiles(ages, n=100)[98]
            share = answered[ServerRole.PRIMARY] / reads
            print(f"| {lag:,} ms | {reads:,} | {share:.1%} | {statistics.median(ages):,.0f} ms | {p99:,.0f} ms |")


def _count_answers(answered: Counter[ServerRole]) -> None:
    """Count this process's reads by the role of the server that answers them."""
    first = Servers._first_answer

    async def counted(
        self: Servers, ask: Callable[[Pool], Awaitable[list[Any]]], reached: int
    ) -> tuple[DatabaseServer, list[Any]]:
        server, rows = await first(self, ask, reached)
        answered[server.role] += 1
        return server, rows

    Servers._first_answer = counted  # type: ignore[method-assign]


def _ages(fleet: Fleet, key: str, seconds: float) -> list[float]:
    """Send requests for `seconds` seconds; return how many milliseconds each serverTime was behind the clock."""
    url = f"http://127.0.0.1:{fleet.nodes[0].port}{fleet.settings.prefix}/v1"
    ages: list[float] = []
    with httpx.Client(headers={"authorization": f"Bearer {key}"}, timeout=10) as client:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for path in CALLS:
                answer = client.get(f"{url}/{path}")
                answer.raise_for_status()
                ages.append(time.time() * 1000 - instant(answer.json()["serverTime"]))
    return ages


if __name__ == "__main__":
    main()
