"""Every checker finds the defect that is planted for it.

Without these tests, a checker that finds nothing would prove nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hostile import attacks, campaign, limiter, planted, revocation, slow_clients, soak
from hostile.callers import Call
from hostile.canaries import Survey
from hostile.checker import Checker, Document
from hostile.fuzzing import Fuzzer
from hostile.mutations import Generator
from hostile.outages import OutageRun, missing
from hostile.planted import PlantedService
from hostile.scope import Matrix, issued, twins
from hostile.soak import Sample
from hostile.world import World

pytestmark = pytest.mark.long

REQUESTS = 300


@contextmanager
def serving(folder: Path, world: World, **defect: Any) -> Iterator[PlantedService]:
    service = PlantedService(folder, **defect)
    try:
        service.load(*world.first)
        yield service
    finally:
        service.stop()


def documented(service: PlantedService) -> Checker:
    return Checker(Document.served_by(service.ports[0]))


# --- answers ------------------------------------------------------------------------------


class Switch:
    """Passes each response through `spoil`, which a test replaces to corrupt responses."""

    def __init__(self) -> None:
        self.spoil: planted.Spoil = lambda _, status, headers, body: (status, headers, body)

    def __call__(self, path: str, status: int, headers: planted.Headers, body: bytes) -> tuple[int, Any, bytes]:
        return self.spoil(path, status, headers, body)


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Switch, Callable[[], list[str]]]]:
    """A switch that can corrupt a service's responses, and a function that returns the faults that the fuzzer finds."""
    switch, world = Switch(), World()
    with serving(tmp_path_factory.mktemp("spoiled"), world, spoil=switch) as service:
        stock = campaign.stock_for(service, world)
        # All tests share one checker. It skips responses that it has seen before, but must still find every defect.
        checker = Checker(Document.served_by(service.ports[0]), foreign=campaign.FOREIGN)

        def found() -> list[str]:
            fuzzer = Fuzzer(service.ports[0], Generator(3, stock, checker.document), checker)
            return [fault.what for fault in fuzzer.run(range(REQUESTS)).faults]

        assert found() == []
        yield switch, found


@pytest.mark.parametrize("defect", planted.SPOILED)
def test_the_fuzzer_finds_answers_that_are_not_as_documented(
    spoiled: tuple[Switch, Callable[[], list[str]]], defect: str
) -> None:
    switch, found = spoiled
    switch.spoil = planted.SPOILED[defect]
    assert found() != []


def test_a_hidden_request_that_is_answered_is_found(tmp_path: Path) -> None:
    with serving(tmp_path / "behind a proxy", World()) as service:
        key = service.issue("shop", "sh-0-1")
        checker = documented(service)
        (attack,) = [one for one in attacks.attacks(key) if one.name == "a body that holds a request"]
        assert attacks.run(service.ports[0], attack, checker).faults == []
        proxy = planted.CarelessProxy(service.ports[0])
        assert "a hidden request was answered" in attacks.run(proxy.port, attack, checker).faults
        proxy.close()


# --- scope and canaries --------------------------------------------------------------------


@contextmanager
def matrix_of(folder: Path, **defect: Any) -> Iterator[Matrix]:
    """Yield the scope matrix of a service with a planted defect. Both deliveries of the world are loaded."""
    world = World()
    with serving(folder, world, **defect) as service:
        keys = issued(world, service)
        matrix = Matrix(world, service.ports, keys, documented(service))
        matrix.learn_tokens()
        service.load(*world.later)
        matrix.learn_cursors(twins(keys, service))
        yield matrix


@pytest.mark.parametrize(
    ("part", "defect", "where"),
    [
        ("SqliteBooks", planted.LeaksOneBill, "transactions/sh-2-0-b2"),
        ("FeedTokens", planted.TokensOfAnyKey, "changes?limit=1000&since="),
    ],
)
def test_the_scope_matrix_finds_what_leaks(tmp_path: Path, part: str, defect: type, where: str) -> None:
    with matrix_of(tmp_path / "leaking", **{part: defect}) as matrix:
        suspects = (triple for triple in matrix.triples() if triple.target.startswith(where))
        report = matrix.run(triples=islice(suspects, 400))
    assert report.faults != []
    assert all(where in fault for fault in report.faults)


@pytest.mark.parametrize(
    ("defect", "where", "reported"),
    [
        (planted.FeedOfAnotherFranchise, "changes?limit=10", "not allowed: bill sh-2-"),
        (planted.DigestsOfTwoShops, "digests?limit=5", "not allowed: 2 bills of sh-0-0 "),
    ],
)
def test_the_passes_of_the_scope_matrix_find_what_leaks(
    tmp_path: Path, defect: type, where: str, reported: str
) -> None:
    with matrix_of(tmp_path / "leaking", SqliteBooks=defect) as matrix:
        specs = [spec for spec in matrix.known.keys if spec.scope_id in ("sh-0-0", "sh-0-1", "fr-0")]
        faults = matrix.run_passes(specs).faults
    assert any(where in fault and reported in fault for fault in faults), faults


def test_the_same_passes_find_nothing_without_a_defect(tmp_path: Path) -> None:
    with matrix_of(tmp_path / "sound") as matrix:
        assert matrix.run_passes(matrix.known.keys).faults == []


def test_a_canary_in_a_log_line_in_an_answer_or_in_a_file_is_found(tmp_path: Path) -> None:
    world = World()
    with serving(tmp_path / "telling", world) as service:
        survey = Survey(world, service, documented(service))
        survey.read_everything()
        assert survey.search() == []
        by_kind = {kind: text for text, kind in world.canaries.kinds.items()}
        service.note(f'{{"type":"request","query":"?phone={by_kind["tel"]}"}}')
        bill = dict(world.bills["sh-0-1", "sh-0-1-b2"])
        service.load(bill | {"cashier": bill["customerName"]})
        survey.read_everything()
        hits = {str(hit) for hit in survey.search()}
    assert "a canary from tel in the log" in hits
    for path in ("transactions", "changes"):
        assert f"a canary from bill customerName in the answer to {path}" in hits
    assert any(hit.startswith("a canary from bill customerName in the stored books") for hit in hits)


# --- limits and revocations ------------------------------------------------------------------


def test_a_limiter_that_is_off_by_one_is_found(tmp_path: Path) -> None:
    with serving(tmp_path / "miscounting", World(), SqliteUsage=planted.OneTooMany) as service:
        report = limiter.run(service, documented(service), clients=6, seconds=0.4, per_min=20, ask_day=False)
    assert any("admitted in a minute" in fault for fault in report.faults)


def test_calls_that_no_minute_can_hold_are_found_and_others_are_not() -> None:
    calls = [Call(number, number + 0.5, 200, None, 100 - number) for number in range(20)]
    refused = Call(30, 30.5, 429, "rate_limited")
    assert limiter.minutes_over_limit(calls, 20) == []
    assert limiter.wrongly_refused([*calls, refused], 20) == []
    assert limiter.minutes_over_limit([*calls, Call(59, 59.9, 200, None, 79)], 20) != []
    assert limiter.minutes_over_limit([*calls, Call(60.6, 61, 200, None, 79)], 20) == []
    assert limiter.wrongly_refused([*calls[1:], refused], 20) != []
    assert limiter.miscounted(calls, 21) == []
    assert limiter.miscounted(calls, 20) != []
    assert limiter.miscounted(calls, 22) != []


def test_a_revoked_key_that_is_kept_for_ten_seconds_is_found(tmp_path: Path) -> None:
    with serving(tmp_path / "keeping", World(), SqliteKeyLookup=planted.KeepsRevokedKeys) as service:
        report = revocation.run(service, documented(service), total=1, callers=2)
    assert any("after the revocation" in fault for fault in report.faults)


# --- outages and slow callers ------------------------------------------------------------------


def test_a_valid_key_that_is_refused_in_an_outage_is_found(tmp_path: Path) -> None:
    world = World()
    with serving(tmp_path / "denying", world, SqliteKeyLookup=planted.UnknownIfUnreadable) as service:
        run = OutageRun(service, world)
        report = run.run("keys missing", missing(service, "keys", run.copies), 0.8)
    assert "keys missing: 401 invalid_key for a valid key" in report.faults


def test_a_service_that_blocks_is_found(tmp_path: Path) -> None:
    with serving(tmp_path / "blocking", World(), SqliteBooks=planted.BlocksTheLoop) as service:
        key = service.issue("shop", "sh-0-1")
        report = slow_clients.run(
            service, documented(service), sockets=20, seconds=1.5, key=key, worst_ms=600, returned_sec=1.0
        )
    assert any("waited" in fault for fault in report.faults)


# --- the soak ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "step", "reported"),
    [
        ("workers_kb", 100, "workers_kb grew"),
        ("supervisors_kb", 60, "supervisors_kb grew"),
        ("descriptors", 1, "descriptors grew"),
        ("wal_bytes", 1_000_000, "WAL files reached"),
    ],
)
def test_a_soak_that_is_not_flat_is_found(name: str, step: int, reported: str) -> None:
    flat = [Sample(float(second), 100, 5.0, 40_000, 90_000, 60, 4_000_000) for second in range(100)]
    assert soak.unsteady(flat) == []
    growing = [replace(sample, **{name: getattr(sample, name) + place * step}) for place, sample in enumerate(flat)]
    assert any(reported in fault for fault in soak.unsteady(growing))
