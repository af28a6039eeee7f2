"""The parts of a run: experiments in addition to the main comparison. Each adds its results to the run."""

import sys
from collections.abc import Callable

from bench import disk, end_to_end, growth, loading, mixed, plots, postgres, starting, workers, workloads
from bench.profiles import Profile
from bench.report import RESULTS, Run
from bench.world import World

TO_A_MILLION, TO_TEN_MILLION = [1, 10, 100], [1, 10, 100, 1000]
GROWN_FROM = 10_000


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _workers(run: Run, world: World, profile: Profile) -> None:
    measured, verdicts = workers.compared(world, workloads.drawn(world), profile.rounds, profile.seconds, say)
    run.measured |= measured
    run.conclude(verdicts)


def _mixed(run: Run, world: World, profile: Profile) -> None:
    facts, verdict = mixed.compared(world, workloads.drawn(world), profile.rounds, profile.seconds * 2, say)
    run.facts |= facts
    run.conclude([verdict])


def _postgres(run: Run, world: World, profile: Profile) -> None:
    found = postgres.compared(world, workloads.drawn(world), profile.rounds, profile.seconds, say)
    run.measured |= found.measured
    run.conclude(found.verdicts)
    run.facts |= found.facts
    run.titles |= found.titles


def _disk(run: Run, world: World, _: Profile) -> None:
    run.facts |= disk.facts(world)


def _start(run: Run, world: World, profile: Profile) -> None:
    run.conclude([starting.measured(world, growth.bills_in(world), profile.rounds, say)])


def _load(run: Run, world: World, profile: Profile) -> None:
    facts, rates, verdicts = loading.compared(world, profile.rounds, say)
    run.facts |= facts
    run.conclude(verdicts)
    plots.bars(RESULTS / f"{run.profile}-load.svg", "loading: bills per second", rates)


def _end_to_end(run: Run, world: World, profile: Profile) -> None:
    facts, verdicts = end_to_end.measured(world, profile.rounds, say)
    run.facts |= facts
    run.conclude(verdicts)


def _grow(run: Run, world: World, profile: Profile, factors: list[int]) -> None:
    sizes, verdicts = growth.measured(world, factors, max(5, profile.rounds), profile.seconds, say)
    run.conclude(verdicts)
    for size in sizes:
        run.facts[f"{size.bills:,} bills"] = f"{size.page_us:,.0f} us per page, {size.megabytes:.0f} MB per worker"
    times = [(float(size.bills), size.page_us) for size in sizes]
    memory = [(float(size.bills), size.megabytes) for size in sizes]
    plots.line(RESULTS / f"{run.profile}-growth.svg", "median time of a page, by bills in the store", times, "us")
    plots.line(RESULTS / f"{run.profile}-memory.svg", "memory of a worker, by bills in the store", memory, "MB")


def _growth(run: Run, world: World, profile: Profile) -> None:
    """Measure a separate world of 10,000 bills as it grows to a million bills."""
    _grow(run, growth.small_world(world, GROWN_FROM, say), profile, TO_A_MILLION)


def _growth_to_the_end(run: Run, world: World, profile: Profile) -> None:
    _grow(run, world, profile, TO_TEN_MILLION)
    _start(run, growth.grown(world, TO_TEN_MILLION[-1]), profile)


PARTS: dict[str, Callable[[Run, World, Profile], None]] = {
    "workers": _workers,
    "mixed": _mixed,
    "postgres": _postgres,
    "start": _start,
    "disk": _disk,
    "load": _load,
    "end-to-end": _end_to_end,
    "growth": _growth,
    "growth-to-the-end": _growth_to_the_end,
}
