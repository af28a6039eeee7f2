"""The benchmark measures nothing until all contestants have given the same answers. That check can fail."""

import gc
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import records
from bench import publish
from bench.contestants import Contestant, Running
from bench.questions import Backfill, OneBill, ShopList
from bench.sameness import Differs, check
from bench.workloads import Workload
from running_service import RunningService

FRANCHISE = "the bench's own"


class Pair:
    """Two services that loaded the same records, or records that differ slightly."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._services = [RunningService(folder / name) for name in ("ours", "theirs")]
        for service in self._services:
            stack.callback(service.close)
        self.shop = records.shop(franchiseId=FRANCHISE)
        self.bills = [records.bill(self.shop) for _ in range(3)]

    def load(self, *theirs: Any) -> None:
        ours, other = self._services
        ours.load(self.shop, *self.bills)
        other.load(self.shop, *theirs)

    def running(self) -> list[Running]:
        return [_running(service) for service in self._services]

    def ports(self) -> set[int]:
        return {service.server.port for service in self._services}

    def workloads(self) -> list[Workload]:
        page = Backfill(0, 1, self.shop["id"], 20260101, 20260101, None)
        return [
            Workload("page", "a page", [page], franchise=FRANCHISE),
            Workload("bill", "one bill", [OneBill(self.bills[0]["id"])], franchise=FRANCHISE),
            Workload("shops", "shops", [ShopList(FRANCHISE)], franchise=FRANCHISE),
        ]


def _running(service: RunningService) -> Running:
    contestant = Contestant(name="service", title="a service", command=lambda _, __: [])
    return Running(contestant, service.url, 0, {FRANCHISE: [service.key(franchise=FRANCHISE)]})


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        yield Pair(tmp_path, stack)


def test_services_on_the_same_records_pass_the_check_before_the_benchmark(pair: Pair) -> None:
    pair.load(*pair.bills)
    ours, theirs = pair.running()
    assert check(ours, [theirs], pair.workloads()) == 3


def test_the_check_before_the_benchmark_leaves_no_connection_open(pair: Pair) -> None:
    pair.load(*pair.bills)
    ours, theirs = pair.running()
    check(ours, [theirs], pair.workloads())
    sockets = [found for found in gc.get_objects() if isinstance(found, socket.socket) and found.fileno() >= 0]
    assert [found for found in sockets if peer_port(found) in pair.ports()] == []


def peer_port(line: socket.socket) -> int | None:
    """Return the remote port of a connection, or None if it is not connected."""
    try:
        return int(line.getpeername()[1])
    except (OSError, IndexError, ValueError):
        return None


def test_a_contestant_with_different_answers_is_not_timed(pair: Pair) -> None:
    changed = pair.bills[1] | {"cashier": "Somebody else"}
    pair.load(pair.bills[0], changed, pair.bills[2])
    ours, theirs = pair.running()
    with pytest.raises(Differs, match="cashier"):
        check(ours, [theirs], pair.workloads())


def test_a_contestant_that_leaves_a_bill_out_is_not_timed(pair: Pair) -> None:
    pair.load(*pair.bills[:2])
    ours, theirs = pair.running()
    with pytest.raises(Differs, match="2 elements, not 3"):
        check(ours, [theirs], pair.workloads())


def test_the_performance_page_matches_the_results() -> None:
    told = publish.PLACE.search(publish.PAGE.read_text("utf-8"))
    assert told is not None
    assert told[0] == publish.targets()


def test_every_plot_on_the_performance_page_exists() -> None:
    plots = re.findall(r"\]\((\.\./bench/results/[\w.-]+)\)", publish.PAGE.read_text("utf-8"))
    assert plots
    assert [plot for plot in plots if not (publish.PAGE.parent / plot).exists()] == []
