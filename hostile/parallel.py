"""Sends the requests of the fuzzer and of the scope matrix from several processes.

One process cannot keep all workers of a service busy.
"""

import multiprocessing
import re
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice

from msgspec import Struct, field

from hostile.checker import FEEDS, Checker, Document
from hostile.fuzzing import MOST_FAULTS, Fuzzer
from hostile.mutations import Generator, Stock
from hostile.scope import Known, Matrix
from hostile.scope import Report as ScopeReport
from hostile.world import World

# A process sends this many requests, then reports its totals and gets more requests.
REQUESTS_AT_ONCE = 8_000


class Report(Struct):
    """The totals and faults of one piece of work, or of all pieces."""

    totals: dict[str, int | float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    next_number: int = 0

    def count(self, name: str, number: int) -> None:
        self.totals[name] = self.totals.get(name, 0) + number

    def add(self, other: "Report") -> None:
        for name, number in other.totals.items():
            self.count(name, int(number))
        self.faults += other.faults


class Fuzzing(Struct):
    """The values that every process needs to generate requests and to check the responses."""

    ports: list[int]
    seed: int
    stock: Stock
    document: bytes
    foreign: bytes


class Scope(Struct):
    """The values that every process needs to build the scope matrix."""

    world: World
    known: Known
    document: bytes

    def matrix(self) -> Matrix:
        known = self.known
        checker = Checker(Document(self.document))
        return Matrix(self.world, known.ports, known.keys, checker, known.tokens, known.feed_tokens)


def send(fuzzing: Fuzzing, numbers: range, *, seconds: float, processes: int) -> Report:
    """Send requests until all are sent, the time is up or too many faults are found."""
    begins = range(numbers.start, numbers.stop, REQUESTS_AT_ONCE)
    pieces = [range(begin, min(begin + REQUESTS_AT_ONCE, numbers.stop)) for begin in begins]
    report, done = _run(_begin_fuzzing, fuzzing, _fuzz, pieces, seconds, processes)
    report.next_number = pieces[done - 1].stop if done else numbers.start
    return report


def check(scope: Scope, total: int | None, *, seconds: float, processes: int) -> Report:
    """Check all triples, or those of enough keys to reach a total, until the time is up or too many faults are found.

    All keys have about the same number of triples. The last key has the fewest, because nothing in its scope was ever
    loaded, so it has no cursors.
    """
    keys = list(scope.known.keys)
    each = sum(1 for _ in scope.matrix().triples_of(keys[-1]))
    needed = len(keys) if total is None else min(len(keys), -(-total // each))
    pieces = [range(place, place + 1) for place in range(needed)]
    report, _ = _run(_begin_scope, scope, _triples, pieces, seconds, processes)
    return report


def _run(
    begin: Callable[..., None],
    subject: object,
    work: Callable[[range], Report],
    pieces: list[range],
    seconds: float,
    processes: int,
) -> tuple[Report, int]:
    """Process the pieces in order until the time is up or too many faults are found.

    Return the totals and the number of pieces processed.
    """
    report, running, done = Report(), set[Future[Report]](), 0
    end = time.monotonic() + seconds
    # The processes are spawned, because forked processes would inherit the parent's connections and locks.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, begin, (subject,)) as pool:
        left = iter(pieces)
        while True:
            if time.monotonic() < end and len(report.faults) < MOST_FAULTS:
                for piece in islice(left, processes - len(running)):
                    running.add(pool.submit(work, piece))
                    done += 1
            if not running:
                return report, done
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for one in finished:
                report.add(one.result())


# --- in the other processes ----------------------------------------------------------------

# A process uses the same checker for all its pieces, so that the checker can skip responses that it has seen before.
_fuzzing: list[tuple[Fuzzing, Checker, Generator]] = []
_matrices: list[Matrix] = []


def _begin_fuzzing(fuzzing: Fuzzing) -> None:
    checker = Checker(Document(fuzzing.document), foreign=re.compile(fuzzing.foreign))
    _fuzzing.append((fuzzing, checker, Generator(fuzzing.seed, fuzzing.stock, checker.document)))


def _fuzz(numbers: range) -> Report:
    fuzzing, checker, generator = _fuzzing[0]
    port = fuzzing.ports[numbers.start // REQUESTS_AT_ONCE % len(fuzzing.ports)]
    checker.by_status, checker.by_route, checker.checked = {}, {}, 0
    done = Fuzzer(port, generator, checker).run(numbers)
    totals: dict[str, int | float] = {"requests": done.requests, "answers checked": done.answers}
    totals["broken requests without an answer"] = done.hung_up
    totals["idle connections closed"] = done.reconnected
    for feed in FEEDS:
        totals[f"answers of {feed}"] = sum(number for (path, _), number in checker.by_route.items() if path == feed)
    totals |= {f"status {status}": number for status, number in sorted(done.by_status.items())}
    return Report(totals, list(map(str, done.faults)))


def _begin_scope(scope: Scope) -> None:
    _matrices.append(scope.matrix())


def _triples(places: range) -> Report:
    matrix = _matrices[0]
    matrix.report = ScopeReport()
    keys = list(matrix.known.keys)
    for place in places:
        matrix.run(triples=matrix.triples_of(keys[place]))
        matrix.run_passes([keys[place]])
    totals: dict[str, int | float] = {"triples": matrix.report.triples, **matrix.report.by_endpoint}
    return Report(totals, matrix.report.faults)
