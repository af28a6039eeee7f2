"""The benchmark measures nothing until all contestants have passed its checks.

These tests show that the checks can fail. The last tests check the performance page.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import records
from bench import duties, publish
from bench.contestants import Contestant, Running
from bench.questions import Backfill, OneBill, ShopList
from bench.rounds import Measured
from bench.rounds import Pair as MeasuredPair
from bench.sameness import Differs, check
from bench.targets import judged
from bench.workloads import Workload
from running_service import RunningService

FRANCHISE = "the bench's own"
SHOP = records.shop(franchiseId=FRANCHISE)
BILLS = [records.bill(SHOP) for _ in range(3)]
WORKLOADS = [
    Workload("page", "a page", [Backfill(0, 1, SHOP["id"], 20260101, 20260101, None)], franchise=FRANCHISE),
    Workload("bill", "one bill", [OneBill(BILLS[0]["id"])], franchise=FRANCHISE),
    Workload("shops", "shops", [ShopList(FRANCHISE)], franchise=FRANCHISE),
]


@contextmanager
def pair(folder: Path, theirs: list[Any]) -> Iterator[list[Running]]:
    """Yield two services: one with the bills, and one with these bills of the same shop."""
    with ExitStack() as stack:
        found = []
        for name, loaded in (("ours", BILLS), ("theirs", theirs)):
            service = stack.enter_context(closing(RunningService(folder / name)))
            service.load(SHOP, *loaded)
            keys = {FRANCHISE: [service.key(franchise=FRANCHISE)]}
            found.append(Running(contestant(), service.url, 0, keys))
        yield found


def contestant(**terms: Any) -> Contestant:
    return Contestant(name="service", title="a service", command=lambda _, __: [], **terms)


def test_services_on_the_same_records_pass_the_check_before_the_benchmark(tmp_path: Path) -> None:
    with pair(tmp_path, BILLS) as (ours, theirs):
        assert check(ours, [theirs], WORKLOADS) == 3


def test_a_contestant_with_different_answers_is_not_timed(tmp_path: Path) -> None:
    changed = BILLS[1] | {"cashier": "Somebody else"}
    with pair(tmp_path, [BILLS[0], changed, BILLS[2]]) as (ours, theirs), pytest.raises(Differs, match="cashier"):
        check(ours, [theirs], WORKLOADS)


# --- contestants with the same duties ------------------------------------------------


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    with closing(RunningService(tmp_path)) as service:
        yield service


def dutiful(service: RunningService, per_min: int) -> tuple[Path, Running, list[str]]:
    """Return a service's usage file, the service as a contestant with duties, and a list with one path."""
    service.load(SHOP)
    keys = {duties.LIMITED: [service.key(franchise=FRANCHISE, per_min=per_min) for _ in range(2)]}
    running = Running(contestant(has_duties=True), service.url, 0, keys)
    return service.folder / "store" / "usage.sqlite3", running, ["/ext/v1/shops"]


def test_a_service_that_checks_keys_and_counts_and_records_requests_passes_the_check(service: RunningService) -> None:
    duties.check(*dutiful(service, per_min=duties.PER_MIN))


def test_a_contestant_that_does_not_limit_requests_is_not_timed(service: RunningService) -> None:
    with pytest.raises(duties.DutyNotPerformed, match="does not limit requests per minute"):
        duties.check(*dutiful(service, per_min=100))


def test_a_contestant_that_limits_only_requests_that_arrive_one_by_one_is_not_timed(service: RunningService) -> None:
    file, running, paths = dutiful(service, per_min=duties.PER_MIN)
    unlimited = service.key(franchise=FRANCHISE, per_min=100)
    keys = {duties.LIMITED: [running.keys[duties.LIMITED][0], unlimited]}
    with pytest.raises(duties.DutyNotPerformed, match="arrive at the same time"):
        duties.check(file, Running(running.contestant, running.url, 0, keys), paths)


def test_a_contestant_that_does_not_record_requests_is_not_timed(service: RunningService) -> None:
    file, running, paths = dutiful(service, per_min=duties.PER_MIN)
    with closing(sqlite3.connect(file)) as usage:
        usage.executescript("""
            CREATE TRIGGER no_requests AFTER INSERT ON requests BEGIN DELETE FROM requests; END;
            CREATE TRIGGER no_recent_requests AFTER INSERT ON recent_requests BEGIN DELETE FROM recent_requests; END;
        """)
    with pytest.raises(duties.DutyNotPerformed, match="stored"):
        duties.check(file, running, paths, wait_sec=0.5)


def test_a_contestant_that_answers_before_the_count_is_stored_is_not_timed(
    service: RunningService, tmp_path: Path
) -> None:
    _, running, paths = dutiful(service, per_min=duties.PER_MIN)
    duties.prepare(tmp_path / "empty.sqlite3", [FRANCHISE], callers=1)
    with pytest.raises(duties.DutyNotPerformed, match="had stored a count of None when it answered request 1"):
        duties.check(tmp_path / "empty.sqlite3", running, paths, wait_sec=0.0)


def test_a_poll_is_judged_against_the_server_of_stored_answers_that_has_the_same_duties() -> None:
    def rate(value: float) -> Measured:
        return Measured(
            rounds=1, rate=value, least=value, most=value, p50_us=1, p99_us=1, bytes_each=None, cpu_us=1e6 / value
        )

    named = {"counterfoil": 100.0, "stored-duties": 80.0, "stored": 9000.0, "bun-duties": 9000.0, "go": 9000.0}
    verdicts = judged({MeasuredPair(name, "poll"): rate(value) for name, value in named.items()})
    found = {one.what: (one.ratio, one.reached) for one in verdicts if one.ratio is not None}
    assert found == {"poll, times FastAPI on our stored JSON with the same duties": (1.25, False)}


# --- the page ------------------------------------------------------------------------


def test_the_performance_page_matches_the_results() -> None:
    told = publish.PLACE.search(publish.PAGE.read_text("utf-8"))
    assert told is not None
    assert told[0] == publish.targets()


def test_every_plot_on_the_performance_page_exists() -> None:
    plots = re.findall(r"\]\(((?:\.\./)+bench/results/[\w.-]+)\)", publish.PAGE.read_text("utf-8"))
    assert plots
    assert [plot for plot in plots if not (publish.PAGE.parent / plot).exists()] == []
