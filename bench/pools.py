"""Compare our connection pool with asyncpg's own pool: `PYTHONPATH=tests:. python -m bench.pools`.

Both serve the same requests through the whole application, on one PostgreSQL server
on this machine, in alternating rounds. Then both are exposed to the same faults: the
server ends its sessions, freezes or is killed, or all connections of the pool are in use.
"""

import argparse
import asyncio
import signal
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import asyncpg
import uvloop
from msgspec import Struct

from counterfoil import bootstrap
from counterfoil.backends.postgres import servers as servers_module
from counterfoil.backends.postgres.addresses import Address, ConnectionLimits
from counterfoil.backends.postgres.pool import GATE_SEC, Pool, open_connection, translated
from counterfoil.ports import StoreBusy, StoreUnavailable
from raw_http import AppRequest, AppResponse
from records import NEW_YEAR, bills, shop
from running_service import RunningService
from servers import Postgres

BILLS = 2_000
CALLERS = 16
PLENTY = 1_000_000_000
WARM_UP_SEC = 0.3
LIMITS = ConnectionLimits()

_END_SESSIONS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


class LibraryPool(Pool):
    """asyncpg's own pool behind our interface, configured for maximum speed."""

    def __init__(self, url: str, address: Address | None = None, limits: ConnectionLimits = LIMITS) -> None:
        super().__init__(url, address, limits)
        self._library: Any = None
        self._opening = asyncio.Lock()

    async def _opened(self) -> Any:
        async with self._opening:
            if self._library is None:
                self._library = await asyncpg.create_pool(
                    min_size=0, max_size=self._limits.pool_size, connect=self._connect, reset=_keep_session
                )
        return self._library

    async def _connect(self, *_: object, **__: object) -> Any:
        return await open_connection(self._url, self._address, self._limits)

    @asynccontextmanager
    async def connection(self, within: float | None = None) -> AsyncIterator[Any]:  # noqa: ARG002 - one limit covers both waits
        with translated():
            pool = self._library or await self._opened()
            is_exhausted = pool.get_idle_size() == 0 and pool.get_size() == self._limits.pool_size
            try:
                # The pool's own `timeout` is not used, because it would start a task for each request.
                async with asyncio.timeout(self._limits.pool_wait_sec):
                    connection = await pool.acquire()
            except TimeoutError as error:
                if is_exhausted:
                    raise StoreBusy("PostgreSQL: no connection became free") from error
                raise
            try:
                yield connection
            except BaseException as error:
                if not isinstance(error, asyncpg.PostgresError):
                    connection.terminate()
                raise
            finally:
                await pool.release(connection)

    def drop(self) -> None:
        if self._library is not None:
            self._library.terminate()
            self._library = None

    def close(self) -> None:
        self.drop()


async def _keep_session(_: object) -> None:
    """Do nothing: requests leave no state behind in their session."""


POOLS: Mapping[str, type[Pool]] = {"ours": Pool, "asyncpg": LibraryPool}


class Round(Struct):
    rate: float
    median_ms: float
    p99_ms: float
    cpu_us: float


async def measured(service: bootstrap.Service, ask: AppRequest, callers: int, seconds: float) -> Round:
    """Send the same request repeatedly from `callers` concurrent callers; return the rate, latencies and CPU time."""
    took: list[float] = []
    end = time.perf_counter() + seconds

    async def call() -> None:
        while (began := time.perf_counter()) < end:
            wire = AppResponse()
            await service.app.__rsgi__(ask, wire)
            assert wire.status == 200, wire.body
            took.append((time.perf_counter() - began) * 1000)

    before = time.process_time()
    await asyncio.gather(*(call() for _ in range(callers)))
    spent = time.process_time() - before
    parts = statistics.quantiles(took, n=100)
    return Round(len(took) / seconds, parts[49], parts[98], spent / len(took) * 1e6)


def served(service: RunningService, pool: type[Pool]) -> bootstrap.Service:
    servers_module.Pool = pool  # type: ignore[attr-defined]
    return bootstrap.service(service.settings, lambda _: None)


async def compare(service: RunningService, questions: Mapping[str, AppRequest], rounds: int, seconds: float) -> None:
    print("| request | callers | pool | requests per second | median | p99 | processor time per request |")
    print("|---|---|---|---|---|---|---|")
    for callers in (1, CALLERS):
        for name, ask in questions.items():
            services = {pool: served(service, kind) for pool, kind in POOLS.items()}
            found: dict[str, list[Round]] = {pool: [] for pool in POOLS}
            for part in services.values():
                await measured(part, ask, callers, WARM_UP_SEC)
            for _ in range(rounds):
                for pool, part in services.items():
                    found[pool].append(await measured(part, ask, callers, seconds))
            for part in services.values():
                part.close()
            for pool, these in found.items():
                rate, median, p99, cpu = (
                    statistics.median(getattr(one, field) for one in these) for field in Round.__struct_fields__
                )
                print(f"| {name} | {callers} | {pool} | {rate:,.0f} | {median:.2f} ms | {p99:.1f} ms | {cpu:,.0f} us |")


# --- faults ------------------------------------------------------------------------


async def timed(ask: Awaitable[Any]) -> str:
    began = time.perf_counter()
    try:
        await ask
        outcome = "answered"
    except StoreUnavailable as error:
        outcome = type(error).__name__
    return f"{outcome} after {time.perf_counter() - began:.1f} s"


async def together(pool: Pool, number: int, statement: str = "SELECT 1") -> str:
    outcomes = await asyncio.gather(*(timed(pool.rows(statement, within=GATE_SEC)) for _ in range(number)))
    return ", ".join(f"{outcomes.count(one)} {one}" for one in sorted(set(outcomes)))


async def break_and_ask(name: str, server: Postgres, database: str, pool: Pool) -> None:
    def tell(fault: str, outcome: str) -> None:
        print(f"| {fault} | {name} | {outcome} |")

    size = LIMITS.pool_size
    await together(pool, size, "SELECT pg_sleep(0.05)")
    await asyncio.to_thread(server.command, _END_SESSIONS, database)
    await asyncio.sleep(0.1)
    tell("the server has ended all sessions", await together(pool, size))
    busy = [asyncio.create_task(timed(pool.rows("SELECT pg_sleep(4)"))) for _ in range(size)]
    await asyncio.sleep(0.1)
    tell("all connections are in use for 4 s", await together(pool, 1))
    await asyncio.gather(*busy)
    server.freeze_all(signal.SIGSTOP)
    tell("the server is frozen, connections are open", await together(pool, size))
    tell("the server is frozen, connections must be opened", await together(pool, size))
    server.freeze_all(signal.SIGCONT)
    tell("the server continues", await together(pool, size))
    server.kill()
    tell("the server is killed", await together(pool, size))
    server.start()
    tell("the server has been restarted", await together(pool, size))
    pool.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="number of rounds per pool")
    parser.add_argument("--seconds", type=float, default=1.0, help="duration of a round")
    args = parser.parse_args()
    server = Postgres(18, "fsync=off", "jit=off", "shared_buffers=128MB")
    database, url = server.fresh_database()
    with tempfile.TemporaryDirectory() as folder, closing(RunningService(Path(folder), store=url)) as service:
        of = shop()
        sold = bills(of, BILLS)
        service.load(of, *sold)
        headers = {"authorization": f"Bearer {service.key(shop=of['id'], per_min=PLENTY, per_day=PLENTY)}"}
        lists = f"{service.settings.prefix}/v1/transactions"
        days = f"shopId={of['id']}&limit=200&from={NEW_YEAR['from']}&to={NEW_YEAR['to']}"
        questions = {
            "page of 200 bills": AppRequest(lists, days, headers),
            "poll": AppRequest(lists, f"shopId={of['id']}&updatedSince=2099-01-01T00:00:00Z", headers),
            "one bill": AppRequest(f"{lists}/{sold[0]['id']}", "", headers),
        }
        uvloop.run(compare(service, questions, args.rounds, args.seconds))
    print("\n| fault | pool | results of 8 requests (of 1 request while all connections are in use) |\n|---|---|---|")
    for name, kind in POOLS.items():
        uvloop.run(break_and_ask(name, server, database, kind(url)))
    server.remove()


if __name__ == "__main__":
    main()
