"""Compare our store on PostgreSQL, with and without Valkey, to frameworks on that database and to our SQLite store."""

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import date
from typing import Any

import msgspec

import servers
from bench import copies, sameness, workloads
from bench.contestants import Contestant, Running, all_running, field, running
from bench.profiles import each
from bench.rounds import Measured, Pair, alternate, cores, summed
from bench.targets import Verdict, at_least
from bench.workloads import Workload
from bench.world import COUNTERFOIL, UNLIMITED, World, load
from bench.wrk import Round, drive
from counterfoil.backends.redis.meter import RedisMeter
from counterfoil.domain.access import Key, Scope

SETTINGS = ("shared_buffers=1GB", "max_connections=200", "fsync=off", "jit=off")
FRAMEWORKS = ("fastapi-pg", "fastify-pg", "postgrest")
EMBEDDED, OURS, METERED, NODES = "counterfoil", "counterfoil-pg", "counterfoil-pg-valkey", "counterfoil-pg-2-nodes"
ASKED = ("poll", "page")
ADMISSIONS = 3_000


class Found(msgspec.Struct, kw_only=True):
    """The results of this comparison."""

    measured: dict[Pair, Measured]
    verdicts: list[Verdict]
    facts: dict[str, object]
    titles: dict[str, str]


def compared(
    world: World, questions: dict[str, Workload], rounds: int, seconds: int, tell: Callable[[str], None]
) -> Found:
    database, valkey = servers.Postgres(18, *SETTINGS), servers.Valkey()
    database.command("CREATE DATABASE bench")
    shared = World(world.folder, database.url("bench"))
    tell("loading into PostgreSQL")
    subprocess.run([*COUNTERFOIL, "migrate"], env=shared.environment, check=True, stdout=subprocess.DEVNULL)
    load(shared)
    copies.fill_postgres(shared)
    questions = questions | {"poll": workloads.asked_from(questions["poll"], time.time_ns() // 1_000_000)}
    ours = _ours(valkey.url)
    peers = [field()[name] for name in FRAMEWORKS]
    present = [*ours, *(one for one in peers if not one.missing)]
    pinned = cores()
    with ExitStack() as stack:
        started = stack.enter_context(all_running(present, shared, pinned.contestant))
        started[EMBEDDED] = stack.enter_context(running(field()[EMBEDDED], world, pinned.contestant))
        second = stack.enter_context(running(ours[1], shared, None))
        _agree(started, questions, tell)
        names = tuple(started)
        matches = [(started[pair.contestant], questions[pair.workload]) for pair in each(names, ASKED)]
        measured = alternate(matches, rounds, seconds, pinned.wrk, tell)
        together = _two_nodes([started[METERED], second], questions["page"], rounds, seconds)
    embedded = {name: measured.pop(Pair(EMBEDDED, name)) for name in ASKED}
    measured[Pair(NODES, "page")] = together
    return Found(
        measured=measured,
        verdicts=_verdicts(measured, embedded),
        facts=_facts(measured, valkey.url),
        titles={one.name: one.title for one in ours} | {NODES: "Counterfoil, PostgreSQL and Valkey, two nodes"},
    )


def _ours(valkey: str) -> list[Contestant]:
    plain = field()[EMBEDDED]
    return [
        msgspec.structs.replace(plain, name=OURS, title="Counterfoil, PostgreSQL"),
        msgspec.structs.replace(
            plain,
            name=METERED,
            title="Counterfoil, PostgreSQL and Valkey",
            environment=lambda world: world.environment | {"COUNTERFOIL_METER": valkey},
        ),
    ]


def _agree(started: Mapping[str, Running], questions: Mapping[str, Workload], tell: Callable[[str], None]) -> None:
    """Compare responses. The embedded store is left out: it was loaded earlier, so its `updatedAt` values differ."""
    others = [one for name, one in started.items() if name not in (OURS, EMBEDDED)]
    asked = [questions[name] for name in ("page", "bill", "member", "lookup", "members", "shops")]
    tell(f"{sameness.check(started[OURS], others, asked)} answers on PostgreSQL compared: all the same")


def _two_nodes(nodes: Sequence[Running], pages: Workload, rounds: int, seconds: int) -> Measured:
    """Measure both nodes at the same time, each with its own wrk; return the combined result."""
    found = []
    with ThreadPoolExecutor(len(nodes)) as pool:
        for _ in range(rounds):
            halves = [one for one in pool.map(lambda node: drive(node, pages, seconds, None), nodes) if one]
            found.append(_sum(halves))
    return summed(found)


def _sum(halves: Sequence[Round]) -> Round:
    spent = [one.cpu_us for one in halves if one.cpu_us is not None]
    return Round(
        rate=sum(one.rate for one in halves),
        p50_us=max(one.p50_us for one in halves),
        p99_us=max(one.p99_us for one in halves),
        bytes_each=halves[0].bytes_each,
        cpu_us=sum(spent) / len(spent) if spent else None,
        answers=sum(one.answers for one in halves),
    )


def _verdicts(measured: Mapping[Pair, Measured], embedded: Mapping[str, Measured]) -> list[Verdict]:
    page, fastapi = measured[Pair(OURS, "page")], measured.get(Pair("fastapi-pg", "page"))
    compared_with = [("of our SQLite page", 0.33, embedded["page"])]
    if fastapi:
        compared_with.insert(0, ("times FastAPI", 15, fastapi))
    return [
        at_least(f"PostgreSQL: page, {what}", wanted, page.rate / other.rate, _cheaper(page, other))
        for what, wanted, other in compared_with
    ]


def _cheaper(ours: Measured, other: Measured) -> float | None:
    """Return the other contestant's processor time per response divided by ours, excluding PostgreSQL's own time."""
    return other.cpu_us / ours.cpu_us if ours.cpu_us and other.cpu_us else None


# --- the meter's share -------------------------------------------------------------


class Nowhere:
    """Discards day totals and horizons instead of storing them."""

    async def counts(self, key: Key, days: Sequence[date]) -> dict[date, int]:  # noqa: ARG002 - as in the port
        return {}

    async def raise_totals(self, counts: Mapping[tuple[str, date], int]) -> dict[tuple[str, date], int]:  # noqa: ARG002 - as in the port
        """Discard the counts; return an empty dictionary."""
        return {}

    def raise_totals_now(self, counts: Mapping[tuple[str, date], int], within: float) -> None:
        """Discard the counts."""

    async def offered(self) -> int | None:
        """Return None: there is only one server."""
        return None

    async def newest(self) -> int:
        return 0

    def was_reported(self, horizon: int) -> None:
        """Discard the horizon."""


def _facts(measured: Mapping[Pair, Measured], valkey: str) -> dict[str, object]:
    wall, processor = asyncio.run(_admission_us(valkey))
    told = f"{wall:.0f} us, of which {processor:.0f} us are the node's processor time"
    facts: dict[str, object] = {"one admission in Valkey, its round trip included": told}
    for name in ASKED:
        spent = measured[Pair(METERED, name)].cpu_us
        if spent:
            facts[f"the meter's share of a {name}, in the node's processor time"] = f"{processor / spent:.0%}"
    return facts


async def _admission_us(valkey: str) -> tuple[float, float]:
    """Admit one request after another; return the mean wall time and processor time per admission in microseconds."""
    key = Key(
        key_id=os.urandom(6).hex(), scope=Scope("shop", "bench"), per_min=UNLIMITED, per_day=UNLIMITED, created_at=0
    )
    nowhere: Any = Nowhere()
    with closing(RedisMeter(valkey, "bench", nowhere, lambda _: None, nowhere)) as meter:
        await meter.admit(key)
        began, before = time.perf_counter(), time.process_time()
        for _ in range(ADMISSIONS):
            await meter.admit(key)
        wall, processor = time.perf_counter() - began, time.process_time() - before
    return wall / ADMISSIONS * 1e6, processor / ADMISSIONS * 1e6
