"""Measures the 99th-percentile latency of a mixed load, with and without a loader fed 1,000 bills per second."""

import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, cycle, islice

from bench.contestants import field, running
from bench.questions import Question
from bench.rounds import cores
from bench.targets import Verdict, at_most
from bench.workloads import Workload
from bench.world import COUNTERFOIL, World, copied
from bench.wrk import drive

A_SECOND, STEPS = 1_000, 20
ID_AT = len(b'{"kind":"bill","id":"')


def compared(
    world: World, questions: dict[str, Workload], rounds: int, seconds: int, tell: Callable[[str], None]
) -> tuple[dict[str, object], Verdict]:
    """Alternate rounds with and without a loader, so that other load affects both equally.

    The service and the loader use a copy of the store.
    """
    mix = Workload("mixed", "polls, single bills and pages", _mixed(questions))
    pinned = cores()
    quiet, busy = [], []
    apart = copied(world, "mixed")
    with running(field()["counterfoil"], apart, pinned.contestant) as ours:
        for number in range(1, rounds + 1):
            tell(f"mixed load, round {number} of {rounds}")
            alone = drive(ours, mix, seconds, pinned.wrk)
            with loading(apart, number) as written:
                beside = drive(ours, mix, seconds, pinned.wrk)
            if alone and beside:
                quiet.append(alone)
                busy.append((beside, written() / seconds))
    without = statistics.median(one.p99_us for one in quiet)
    with_loader = statistics.median(one.p99_us for one, _ in busy)
    facts: dict[str, object] = {
        "mixed load, p99 without a loader": f"{without / 1000:.2f} ms",
        "mixed load, p99 with a loader": f"{with_loader / 1000:.2f} ms",
        "bills sent to the loader per second": round(statistics.median(rate for _, rate in busy)),
    }
    return facts, at_most("mixed load, p99 with a loader divided by p99 without", 2, with_loader / without)


def _mixed(questions: dict[str, Workload]) -> list[Question]:
    polls, bills, pages = (cycle(questions[name].questions) for name in ("poll", "bill", "page"))
    return [one for _ in range(40) for one in (*islice(polls, 6), *islice(bills, 3), next(pages))]


@contextmanager
def loading(world: World, number: int) -> Iterator[Callable[[], int]]:
    """Run a loader and send it new bills at a constant rate; yield a function that returns how many have been sent."""
    words = [*COUNTERFOIL, "load", "-"]
    loader = subprocess.Popen(words, env=world.environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    stop, handed = threading.Event(), count()
    total = [0]

    def feed() -> None:
        assert loader.stdin
        lines = cycle((world.source / "bills.ndjson").read_bytes().splitlines(keepends=True)[:20_000])
        began = time.monotonic()
        while not stop.is_set():
            due = int((time.monotonic() - began) * A_SECOND) - total[0]
            loader.stdin.write(b"".join(_renamed(next(lines), number, next(handed)) for _ in range(due)))
            total[0] += due
            stop.wait(1 / STEPS)
        loader.stdin.close()

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield lambda: total[0]
    finally:
        stop.set()
        feeder.join()
        loader.wait()


def _renamed(line: bytes, number: int, place: int) -> bytes:
    """Return the same bill with a unique ID."""
    return b"%bmixed-%d-%d-%b" % (line[:ID_AT], number, place, line[ID_AT:])
