"""Measure contestants in short alternating rounds, so that other load affects all of them equally; report medians."""

import os
import statistics
from collections.abc import Callable, Iterable

from msgspec import Struct

from bench.contestants import Running
from bench.workloads import Workload
from bench.wrk import ENOUGH, Round, drive, phrased, settle

LONGEST_SEC = 27


class Pair(Struct, frozen=True, order=True):
    """A contestant and the workload that it is measured with."""

    contestant: str
    workload: str

    def __str__(self) -> str:
        return f"{self.contestant}/{self.workload}"


class Measured(Struct, frozen=True, kw_only=True):
    """Medians over the rounds. `least` and `most` are the lowest and the highest rate."""

    rounds: int
    rate: float
    least: float
    most: float
    p50_us: float
    p99_us: float
    bytes_each: float | None
    cpu_us: float | None


class Cores(Struct, frozen=True):
    """One core for the contestant and all other usable cores for wrk, or None for both if fewer than two are usable."""

    contestant: set[int] | None
    wrk: set[int] | None


def cores() -> Cores:
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return Cores({usable[0]}, set(usable[1:])) if len(usable) > 1 else Cores(None, None)


def alternate(
    matches: Iterable[tuple[Running, Workload]],
    count: int,
    seconds: int,
    wrk_cores: set[int] | None,
    tell: Callable[[str], None],
) -> dict[Pair, Measured]:
    """Measure every pair once per round. If no response arrives in time, retry with more time."""
    played: dict[Pair, list[Round]] = {}
    patience: dict[Pair, int] = {}
    listed = [(running, workload) for running, workload in matches if phrased(running, workload)]
    for number in range(1, count + 1):
        tell(f"round {number} of {count}")
        for running, workload in listed:
            pair = Pair(running.contestant.name, workload.name)
            length = patience.get(pair, seconds)
            result = drive(running, workload, length, wrk_cores)
            while result is None and length < LONGEST_SEC:
                settle(running)
                length = patience[pair] = min(LONGEST_SEC, length * 3)
                result = drive(running, workload, length, wrk_cores)
            if result is None or result.answers < ENOUGH:
                settle(running)
            if result:
                played.setdefault(pair, []).append(result)
    return {pair: summed(rounds) for pair, rounds in played.items()}


def summed(rounds: list[Round]) -> Measured:
    rates = [one.rate for one in rounds]
    spent = [one.cpu_us for one in rounds if one.cpu_us is not None]
    sizes = [one.bytes_each for one in rounds if one.bytes_each is not None]
    return Measured(
        rounds=len(rounds),
        rate=statistics.median(rates),
        least=min(rates),
        most=max(rates),
        p50_us=statistics.median(one.p50_us for one in rounds),
        p99_us=statistics.median(one.p99_us for one in rounds),
        bytes_each=statistics.median(sizes) if sizes else None,
        cpu_us=statistics.median(spent) if spent else None,
    )
