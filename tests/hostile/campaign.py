"""The parts of the campaign, for the tests and for `python -m hostile`. The caller chooses the totals."""

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct, field

from hostile import attacks, limiter, outages, revocation, scope, slow_clients, soak
from hostile.canaries import Finder, Survey
from hostile.checker import Checker, Document
from hostile.fuzzing import Fuzzer, tokens_of
from hostile.mutations import Generator, Stock
from hostile.targets import BACK_ENDS, Attacked, Postgres, Site, Valkey, on_servers, on_sqlite
from hostile.world import World, escaped

# Labels of records in other franchises. No response to a key for fr-0 may contain any of them.
FOREIGN = re.compile(rb"label of (?:sh-[1-9]|mb-[1-9]|mb-alone|sh-alone|sh-without)")


class UnderAttack(Struct):
    """A running service, the world loaded into it, a checker for its responses, and the scope matrix of that world."""

    site: Site
    world: World
    checker: Checker
    matrix: scope.Matrix


class Result(Struct):
    """One line of the totals, with the faults that were found."""

    part: str
    totals: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


@contextmanager
def started(back_end: str, world: World) -> Iterator[Site]:
    """Yield a running service that has loaded a world."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder, BACK_ENDS[back_end](Path(folder)) as site:
        site.load(*world.first)
        site.start()
        yield site


def checker_for(site: Attacked) -> Checker:
    return Checker(Document.served_by(site.ports[0]))


def stock_for(site: Attacked, world: World) -> Stock:
    """Issue the keys for the requests: some without limits, one with each limit, and one that is revoked."""
    franchise = site.issue("franchise", "fr-0")
    full = site.issue("shop", "sh-0-1", messaging_lookup=True, personal_data=True)
    limited = [site.issue("shop", "sh-0-1", per_min=3), site.issue("franchise", "fr-0", per_day=5)]
    revoked = site.issue("shop", "sh-0-1")
    site.revoke(revoked)
    return Stock(
        keys=[franchise, full] * 4 + limited,
        bad_keys=[revoked, "cf_live_x", "x" * 200, full[:-1], full.swapcase()],
        shop_ids=["sh-0-0", "sh-0-1", "sh-1-1", "sh-0-0%00"],
        bill_ids=[escaped(bill_id) for _, bill_id in world.bills],
        provider_ids=["mb-0", "mb-shared", "mb-1"],
        tokens=list(tokens_of(site.ports[0], full, "mb-shared").values()),
    )


def requests(site: Attacked, world: World, *, total: int, seed: int, only: int | None = None) -> Result:
    """Send mutated requests, then the known attacks, to every node in turn."""
    checker = checker_for(site)
    generator = Generator(seed, stock_for(site, world), checker.document)
    result = Result("requests")
    numbers = range(total) if only is None else range(only, only + 1)
    share = -(-len(numbers) // len(site.ports))
    sent = 0
    for place, port in enumerate(site.ports):
        part = numbers[place * share : (place + 1) * share]
        report = Fuzzer(port, generator, checker, FOREIGN).run(part)
        sent += report.requests
        result.faults += map(str, report.faults)
    if only is None:
        for outcome in attacks.run_all(site.ports[0], generator.a_key, checker):
            result.faults += [f"{outcome.attack}: {fault}" for fault in outcome.faults]
            sent += 1
    counts = ", ".join(f"{status}: {number:,}" for status, number in sorted(checker.by_status.items()))
    result.totals = {"requests": f"{sent:,}", "answers checked": f"{checker.checked:,}", "by status": counts}
    result.faults += crashes(site)
    return result


def crashes(site: Attacked) -> list[str]:
    """Return the log lines that report a crash in a handler. These lines contain no values."""
    return [line.decode("utf-8", "replace")[:400] for line in site.logs().splitlines() if b'"type":"crash"' in line]


def triples(site: Attacked, world: World, *, total: int | None) -> Result:
    checker = checker_for(site)
    matrix = scope.Matrix(world, site, checker)
    matrix.learn_tokens()
    site.load(*world.later)
    report = matrix.run(total)
    counts = ", ".join(f"{name}: {number:,}" for name, number in report.by_endpoint.items())
    return Result("triples", {"triples": f"{report.triples:,}", "by endpoint": counts}, report.faults + crashes(site))


def world_of(total: int, seed: int = 1) -> World:
    """Return a world whose scope matrix has roughly this many triples or more."""
    size = next((size for size in range(3, 40) if 160 * size**3 >= total), 40)
    return World(
        seed, franchises=size, shops=3 if size < 6 else 4, bills=6 if size < 6 else 20, members=6 if size < 6 else 60
    )


def canaries(site: Attacked, world: World) -> Result:
    survey = Survey(world, site, checker_for(site))
    survey.read_everything()
    survey.send_canaries()
    hits = [str(hit) for hit in survey.search()]
    totals = {"canaries": f"{len(world.canaries.kinds):,}", "places searched": f"{survey.searched:,}"}
    return Result("canaries", totals, survey.faults + hits)


def limits(
    site: Attacked, *, seconds: float, clients: int = 32, per_min: int = 200, kills: int = 2, ask_day: bool = True
) -> Result:
    report = limiter.run(
        site, checker_for(site), clients=clients, seconds=seconds, per_min=per_min, kills=kills, ask_day=ask_day
    )
    totals = {
        "clients": str(clients),
        "admitted": f"{report.admitted:,}",
        "refused": f"{report.refused:,}",
        "unanswered": f"{report.unanswered:,}",
        "workers killed": str(report.killed),
    }
    return Result("limits", totals, report.faults)


def revocations(site: Attacked, *, total: int, by_command: bool = False, at_once: int = 8) -> Result:
    report = revocation.run(site, checker_for(site), total=total, by_command=by_command, at_once=at_once)
    totals = {
        "revocations": str(report.revocations),
        "calls": f"{report.calls:,}",
        "latest success began after": f"{report.latest_sec:.3f} s",
    }
    return Result("revocations", totals, report.faults)


def sockets(site: Attacked, *, total: int, seconds: float, worst_ms: float = 5_000) -> Result:
    key = site.issue("shop", "sh-0-1")
    report = slow_clients.run(site, checker_for(site), sockets=total, seconds=seconds, key=key, worst_ms=worst_ms)
    totals = {
        "sockets": f"{report.sockets:,}",
        "open at once": f"{report.open_at_once:,}",
        "ordinary calls": f"{report.calls:,}",
        "p50, p99, worst": f"{report.p50_ms:.0f}, {report.p99_ms:.0f}, {report.worst_ms:.0f} ms",
        "descriptors before, after": f"{report.descriptors_before}, {report.descriptors_after}",
    }
    return Result("sockets", totals, report.faults)


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
    result.totals = {"outages": str(done), "calls": f"{calls:,}"}
    return result


def soaked(site: Attacked, world: World, *, seconds: float, every_sec: float, folder: Path) -> Result:
    samples, faults = soak.run(site, world, seconds=seconds, every_sec=every_sec)
    soak.write(samples, folder)
    last = samples[-1]
    totals = {
        "seconds": f"{last.seconds:,.0f}",
        "requests": f"{sum(sample.requests for sample in samples):,}",
        "p99 in the last interval": f"{last.p99_ms:.1f} ms",
        "memory of workers": f"{last.workers_kb:,} kB",
        "descriptors": str(last.descriptors),
        "largest WAL": f"{max(sample.wal_bytes for sample in samples):,} bytes",
    }
    return Result("soak", totals, faults + soak.unsteady(samples))


def pulled_copy_hits(folder: Path, world: World) -> list[str]:
    """Return the canaries found in a folder that was pulled with a key without permissions."""
    finder = Finder(world.canaries.kinds)
    found = []
    for file in folder.rglob("*"):
        if file.is_file():
            found += [str(hit) for hit in finder.hits(file.read_bytes(), file.name)]
    return found
