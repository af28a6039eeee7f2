"""The parts of the campaign, for the tests and for `python -m hostile`. The caller chooses the number of requests."""

import math
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path

from msgspec import Struct, field

from hostile import attacks, limiter, outages, parallel, revocation, scope, slow_clients, soak
from hostile import timing as timings
from hostile.canaries import Finder, Survey
from hostile.checker import Checker, Document
from hostile.database_timing import STATEMENTS, compare_in_database, connected
from hostile.fuzzing import Fuzzer, feed_tokens_of, tokens_of
from hostile.mutations import Generator, Stock
from hostile.refusals import QUESTIONS, SCOPES, TwoFranchises, two_franchises
from hostile.targets import BACK_ENDS, Attacked, Postgres, Site, Valkey, on_servers, on_sqlite
from hostile.world import World, escaped

# Labels of records and IDs of shops outside franchise fr-0. No response to a key for fr-0 or its shops may contain any.
FOREIGN = re.compile(
    rb'label of (?:sh-[1-9]|mb-[1-9]|mb-alone|sh-alone|sh-without)|"shopId":"sh-(?:[1-9]|alone|without)'
)


class UnderAttack(Struct):
    """A running service, the world loaded into it, a checker for its responses, and the scope matrix of that world."""

    site: Site
    world: World
    checker: Checker
    matrix: scope.Matrix


class Result(Struct):
    """The totals of one part of the campaign, and the faults that were found.

    When slices are combined, integers are summed, and the maximum of other numbers is
    kept. `next_number` is the number of the first request that was not sent.
    """

    part: str
    totals: dict[str, int | float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    next_number: int = 0


@contextmanager
def started(back_end: str, world: World) -> Iterator[Site]:
    """Yield a running service whose store contains the first delivery of a world."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder, BACK_ENDS[back_end](Path(folder)) as site:
        site.load(*world.first)
        site.start()
        yield site


def checker_for(site: Attacked) -> Checker:
    return Checker(Document.served_by(site.ports[0]))


def stock_for(site: Attacked, world: World) -> Stock:
    """Issue unlimited keys, a key for each kind of limit and a revoked key; return them with IDs, marks and cursors."""
    franchise = site.issue("franchise", "fr-0")
    full = site.issue("shop", "sh-0-1", messaging_lookup=True, personal_data=True)
    limited = [site.issue("shop", "sh-0-1", per_min=3), site.issue("franchise", "fr-0", per_day=5)]
    revoked = site.issue("shop", "sh-0-1")
    site.revoke(revoked)
    stranger = site.issue("franchise", "fr-1")
    feed_tokens = feed_tokens_of(site.ports[0], [franchise, full, stranger])
    return Stock(
        keys=[franchise, full] * 4 + limited,
        bad_keys=[revoked, "cf_live_x", "x" * 200, full[:-1], full.swapcase()],
        shop_ids=["sh-0-0", "sh-0-1", "sh-1-1", "sh-0-0%00"],
        bill_ids=[escaped(bill_id) for _, bill_id in world.bills],
        provider_ids=["mb-0", "mb-shared", "mb-1"],
        tokens=list(tokens_of(site.ports[0], full, "mb-shared").values()),
        marks=feed_tokens.marks,
        feed_cursors=feed_tokens.feed_cursors,
        digest_cursors=feed_tokens.digest_cursors,
    )


def requests(
    site: Attacked,
    world: World,
    *,
    total: int,
    seed: int,
    first: int = 0,
    seconds: float = math.inf,
    processes: int = 2,
) -> Result:
    """Send generated requests from several processes to every node in turn, then the known attacks to the first node.

    Requests are numbered. Those from `first` up to, but not including, `total` are sent, or as many of them as can be
    sent in `seconds`.
    """
    document, stock = Document.served_by(site.ports[0]), stock_for(site, world)
    report = parallel.send(
        parallel.Fuzzing(site.ports, seed, stock, document.text, FOREIGN.pattern),
        range(first, total),
        seconds=seconds,
        processes=processes,
    )
    checker = Checker(document, foreign=FOREIGN)
    for outcome in attacks.run_all(site.ports[0], stock.keys[0], checker):
        report.faults += [f"{outcome.attack}: {fault}" for fault in outcome.faults]
        report.count("attacks", 1)
    result = Result("requests", report.totals, report.faults + crashes(site), report.next_number)
    result.totals["answers checked"] += checker.checked
    return result


def one_request(site: Attacked, world: World, *, number: int, seed: int) -> Result:
    """Send the request with this number again, to reproduce a fault."""
    checker = Checker(Document.served_by(site.ports[0]), foreign=FOREIGN)
    generator = Generator(seed, stock_for(site, world), checker.document)
    report = Fuzzer(site.ports[0], generator, checker).run(range(number, number + 1))
    return Result("requests", {"requests": report.requests}, [*map(str, report.faults), *crashes(site)])


def crashes(site: Attacked) -> list[str]:
    """Return the log lines that report a crash in a handler. They give its location, but no values."""
    return [line.decode("utf-8", "replace")[:400] for line in site.logs().splitlines() if b'"type":"crash"' in line]


def triples(
    site: Attacked, world: World, *, total: int | None, seconds: float = math.inf, processes: int = 2
) -> Result:
    """Check at least `total` triples (all if it is None) from several processes. Stop when `seconds` have passed."""
    checker = checker_for(site)
    keys = scope.issued(world, site)
    matrix = scope.Matrix(world, site.ports, keys, checker)
    matrix.learn_tokens()
    site.load(*world.later)
    matrix.learn_cursors(scope.twins(keys, site))
    parts = parallel.Scope(world, matrix.known, checker.document.text)
    report = parallel.check(parts, total, seconds=seconds, processes=processes)
    return Result("triples", report.totals, report.faults + crashes(site))


def world_of(total: int, seed: int = 1) -> World:
    """Return a world whose scope matrix has at least `total` triples, or about three million if `total` is larger."""
    size = next((size for size in range(3, 40) if (330 if size < 6 else 1_600) * size**2 >= total), 40)
    return World(
        seed, franchises=size, shops=3 if size < 6 else 4, bills=6 if size < 6 else 20, members=6 if size < 6 else 60
    )


def canaries(site: Attacked, world: World) -> Result:
    survey = Survey(world, site, checker_for(site))
    survey.read_everything()
    # The second load removes records, so that the change feed also returns removals.
    site.load(*world.later)
    survey.read_everything()
    survey.send_canaries()
    hits = [str(hit) for hit in survey.search()]
    totals: dict[str, int | float] = {"canaries": len(world.canaries.kinds), "places searched": survey.searched}
    return Result("canaries", totals, survey.faults + hits)


def limits(
    site: Attacked, *, seconds: float, clients: int = 32, per_min: int = 200, kills: int = 2, ask_day: bool = True
) -> Result:
    report = limiter.run(
        site, checker_for(site), clients=clients, seconds=seconds, per_min=per_min, kills=kills, ask_day=ask_day
    )
    totals: dict[str, int | float] = {
        "clients": float(clients),
        "admitted": report.admitted,
        "refused": report.refused,
        "unanswered": report.unanswered,
        "workers killed": report.killed,
    }
    return Result("limits", totals, report.faults)


def revocations(site: Attacked, *, total: int, by_command: bool = False, at_once: int = 8) -> Result:
    # On a busy machine, some responses may be 503. Such responses are allowed and counted separately.
    checker = Checker(Document.served_by(site.ports[0]), trouble=True)
    report = revocation.run(site, checker, total=total, by_command=by_command, at_once=at_once)
    totals: dict[str, int | float] = {
        "revocations": report.revocations,
        "calls": report.calls,
        "unavailable": report.unavailable,
        "latest success began after (s)": report.latest_sec,
    }
    return Result("revocations", totals, report.faults)


def sockets(site: Attacked, *, total: int, seconds: float, worst_ms: float = 5_000) -> Result:
    key = site.issue("shop", "sh-0-1")
    report = slow_clients.run(site, checker_for(site), sockets=total, seconds=seconds, key=key, worst_ms=worst_ms)
    totals: dict[str, int | float] = {
        "sockets": report.sockets,
        "open at once": float(report.open_at_once),
        "ordinary calls": report.calls,
        "p50 (ms)": report.p50_ms,
        "p99 (ms)": report.p99_ms,
        "worst (ms)": report.worst_ms,
        "descriptors before": float(report.descriptors_before),
        "descriptors after": float(report.descriptors_after),
    }
    return Result("sockets", totals, report.faults)


def timing(back_end: str, *, samples: int, attempts: int = 3) -> Result:
    """Compare how long refusals of foreign and of unknown IDs take.

    On SQLite, they are measured in this process; on PostgreSQL, inside the database.
    """
    result = Result("timing", {"pairs": 0, "samples": 0, "largest t": 0.0, "largest trimmed t": 0.0})
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder, two_franchises(Path(folder), back_end) as estate:
        for name, compare in _comparisons(back_end, estate, samples):
            # Repeat a comparison only while it exceeds the bound: a real difference exceeds the bound every time.
            found: list[timings.Comparison] = []
            while len(found) < attempts and all(one.differs for one in found):
                found.append(compare())
            last = found[-1]
            result.totals["pairs"] += 1
            result.totals["samples"] += samples * len(found)
            for what, t in (("t", abs(last.t)), ("trimmed t", abs(last.trimmed_t))):
                result.totals[f"{name}: {what}"] = t
                result.totals[f"largest {what}"] = max(result.totals[f"largest {what}"], t)
            if last.differs:
                result.faults.append(f"{name}: {found}")
    return result


def _comparisons(
    back_end: str, estate: TwoFranchises, samples: int
) -> Iterator[tuple[str, Callable[[], timings.Comparison]]]:
    if back_end == "sqlite":
        for scope_kind, (name, (kind, _)) in product(SCOPES, QUESTIONS.items()):
            ask = estate.asking(name, scope_kind)
            yield (
                f"{name}, key of a {scope_kind}",
                partial(timings.compare, ask, estate.nobodys[kind], estate.theirs[kind], samples),
            )
        return
    with connected(estate.store) as connection:
        for name, statement in STATEMENTS.items():
            ids = estate.nobodys[statement.kind], estate.theirs[statement.kind]
            yield name, partial(compare_in_database, connection, statement, *ids, samples)


def file_outages(*, seconds: float, chosen: Callable[[str], bool] = lambda _: True) -> Result:
    world = World()
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder, on_sqlite(Path(folder)) as site:
        site.load(*world.first, *world.later)
        run = outages.OutageRun(site, world)
        return _outages(run, outages.on_files(run), seconds, chosen)


def server_outages(*, seconds: float, chosen: Callable[[str], bool] = lambda _: True) -> Result:
    world, postgres, valkey = World(), Postgres(18), Valkey()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="hostile-") as folder,
            on_servers(Path(folder), postgres=postgres, valkey=valkey) as site,
        ):
            site.load(*world.first, *world.later)
            run = outages.OutageRun(site, world)
            return _outages(run, outages.on_servers(postgres, valkey, site), seconds, chosen)
    finally:
        postgres.remove()
        valkey.remove()


def _outages(run: outages.OutageRun, known: outages.Outages, seconds: float, chosen: Callable[[str], bool]) -> Result:
    result = Result("outages")
    calls = done = 0
    for name, outage in known.items():
        if chosen(name):
            report = run.run(name, outage(), seconds)
            calls, done = calls + report.calls, done + 1
            result.faults += report.faults
    result.totals = {"outages": done, "calls": calls}
    return result


def soaked(site: Attacked, world: World, *, seconds: float, every_sec: float, folder: Path) -> Result:
    samples, faults = soak.run(site, world, seconds=seconds, every_sec=every_sec)
    soak.write(samples, folder)
    last = samples[-1]
    totals: dict[str, int | float] = {
        "seconds": last.seconds,
        "requests": sum(sample.requests for sample in samples),
        "p99 in the last interval (ms)": last.p99_ms,
        "memory of workers (kB)": float(last.workers_kb),
        "descriptors": float(last.descriptors),
        "largest WAL (bytes)": float(max(sample.wal_bytes for sample in samples)),
    }
    return Result("soak", totals, faults + soak.unsteady(samples))


def pulled_copy_hits(folder: Path, world: World) -> list[str]:
    """Return the canaries in the files that a pull wrote to this folder with a key that has no permissions."""
    finder = Finder(world.canaries.kinds)
    found = []
    for file in folder.rglob("*"):
        if file.is_file():
            found += [str(hit) for hit in finder.hits(file.read_bytes(), file.name)]
    return found
