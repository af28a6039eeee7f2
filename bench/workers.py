"""Compare a service with two workers to a service with one worker."""

from collections.abc import Callable

from bench.contestants import all_running, field
from bench.profiles import each
from bench.rounds import Measured, Pair, alternate
from bench.targets import Verdict, at_least
from bench.workloads import Workload
from bench.world import World

ONE, TWO = "counterfoil", "counterfoil-2"
ASKED = ("page-gzip", "page", "poll")


def compared(
    world: World, questions: dict[str, Workload], rounds: int, seconds: int, tell: Callable[[str], None]
) -> tuple[dict[Pair, Measured], list[Verdict]]:
    """Measure both services; return the results of the service with two workers, and the verdicts.

    No process is pinned to a core, so wrk competes with the workers, especially if
    responses are cheap. The verdict is therefore about processor time. Each worker has
    as many connections as the single one: requests that arrive together are admitted
    in one transaction, so half as many would make each of them dearer.
    """
    contestants = [field()[name] for name in (ONE, TWO)]
    with all_running(contestants, world, None) as started:
        matches = [(started[pair.contestant], questions[pair.workload]) for pair in each((ONE, TWO), ASKED)]
        measured = alternate(matches, rounds, seconds, None, tell)
    verdicts = [_verdict(questions[name].title, measured[Pair(ONE, name)], measured[Pair(TWO, name)]) for name in ASKED]
    return {pair: one for pair, one in measured.items() if pair.contestant == TWO}, verdicts


def _verdict(title: str, one: Measured, two: Measured) -> Verdict:
    """Return the verdict on the speed-up that two idle cores would allow, which follows from the processor time."""
    bound = 2 * one.cpu_us / two.cpu_us if one.cpu_us and two.cpu_us else None
    return at_least(f"two workers, times one, in processor time: {title}", 1.7, bound)
