"""The cost of a request, counted rather than timed: statements, steps of SQLite's virtual machine, calls, memory.

An exceeded bound is never due to a slow machine. If a change is worth its cost,
raise the bound and add a note to docs/evidence/performance.md.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import json

from cost.counting_worker import Cost, Worker
from records import Record, base, bill, bills, branch, days, fresh, member, members
from running_service import RunningService

PLENTY: dict[str, Any] = {"per_min": 1_000_000, "per_day": 1_000_000, "messaging_lookup": True}
MESSAGING_USER = "U" + 32 * "7"
PAGE = 200
GROWTH = 8

Questions = dict[str, tuple[str, dict[str, Any]]]


class Measured:
    """A branch, its key, and the costs of its requests before and after the store grew."""

    def __init__(self, service: RunningService, runner: asyncio.Runner) -> None:
        self.service = service
        self.worker = Worker(service, runner)
        self.branch = branch()
        self.bills = bills(self.branch, PAGE + 50)
        self.members = [
            member(self.branch, messaging=[{"userId": MESSAGING_USER}]),
            *(one for _ in range(8) for one in members(self.branch, 28)),
        ]
        self.key = service.key(franchise=self.branch["franchiseId"], **PLENTY)
        service.load(self.branch, base(self.branch), *self.members, *self.bills)
        self.small = self.costs()
        service.load(*self.more())
        self.grown = self.costs()

    def more(self) -> Iterator[Record]:
        """Yield more bills of the shop on other days, more members of its base, and more shops of its franchise."""
        for day in range(2, 2 + GROWTH):
            closed = {"closedAt": f"2026-01-{day:02}T12:00:00+07:00"}
            yield from (bill(self.branch, **closed) for _ in range(PAGE))
            yield from (member(self.branch, createdAt=closed["closedAt"]) for _ in range(PAGE))
            sister = branch(franchiseId=self.branch["franchiseId"], providerId=fresh("base"))
            yield sister
            yield from (bill(sister, **closed) for _ in range(10))

    def questions(self) -> Questions:
        shop, provider = self.branch["id"], self.branch["providerId"]
        return {
            "poll": ("transactions", {"shopId": shop, "updatedSince": "2030-01-01T00:00:00Z", "limit": PAGE}),
            "page": ("transactions", {"shopId": shop, **days("20260101"), "limit": PAGE}),
            "half page": ("transactions", {"shopId": shop, **days("20260101"), "limit": PAGE // 2}),
            "changes": ("transactions", {"shopId": shop, "updatedSince": "2026-01-01T00:00:00Z", "limit": PAGE}),
            "bill": (f"transactions/{self.bills[7]['id']}", {}),
            "members": ("members", {"providerId": provider, "limit": PAGE}),
            "half of the members": ("members", {"providerId": provider, "limit": PAGE // 2}),
            "member": (f"members/{self.service.token(self.members[7]['id'])}", {}),
            "lookup": ("members/lookup", {"providerId": provider, "messagingUserId": MESSAGING_USER}),
        }

    def costs(self) -> dict[str, Cost]:
        return {name: self.worker.ask(path, self.key, **query) for name, (path, query) in self.questions().items()}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    with asyncio.Runner() as runner:
        service = RunningService(tmp_path_factory.mktemp("cost"))
        measured = Measured(service, runner)
        yield measured
        measured.worker.close()
        service.close()


# The statements: begin, read the latest admission, write this one, write the record of the previous request, commit.
ADMISSION = 5
# The statements: begin, store the cursor, commit.
CURSOR = 3


@pytest.mark.parametrize(
    ("request_", "reads"),
    [
        ("poll", 1),
        ("page", 1 + CURSOR),
        # A list of changes is read only if a first, cheaper statement finds that there is something to read.
        ("changes", 2 + CURSOR),
        ("bill", 1),
        ("members", 2 + CURSOR),
        ("member", 1),
        ("lookup", 2),
    ],
)
def test_a_request_runs_no_more_statements_than_it_needs(measured: Measured, request_: str, reads: int) -> None:
    statements = measured.small[request_].statements
    assert len(statements) <= ADMISSION + reads, "\n".join(statement for _, statement in statements)


QUESTIONS = ("poll", "page", "half page", "changes", "bill", "members", "half of the members", "member", "lookup")


@pytest.mark.parametrize("request_", QUESTIONS)
def test_a_request_costs_the_same_however_much_the_store_holds(measured: Measured, request_: str) -> None:
    """Compares steps of SQLite's virtual machine: a scan takes steps for every row, a search only a few in total.

    A poll finds nothing. In the larger store its two searches may end at another
    shop's row instead of the end of the index, which takes a few more steps.
    """
    more = abs(measured.grown[request_].steps["books"] - measured.small[request_].steps["books"])
    assert more < (40 if request_ == "poll" else 10)


def test_a_page_costs_the_same_however_often_it_was_requested(measured: Measured) -> None:
    path, query = measured.questions()["page"]
    costs = []
    for _ in range(2):
        measured.worker.repeat(100, path, measured.key, **query)
        # Take the minimum, because some requests also write buffered records and delete admissions from the previous
        # minute.
        costs.append(measured.worker.fewest_steps(60, "usage", path, measured.key, **query))
    assert abs(costs[1] - costs[0]) < 50


def test_continuing_costs_the_same_however_often_the_first_page_was_requested(measured: Measured) -> None:
    path, query = measured.questions()["changes"]
    cursor = json.decode(measured.worker.ask(path, measured.key, **query).body)["nextCursor"]
    costs = []
    for _ in range(2):
        measured.worker.repeat(100, path, measured.key, **query)
        # Take the minimum, because some requests also write buffered records.
        costs.append(measured.worker.fewest_calls(9, path, measured.key, **query, cursor=cursor))
    assert costs[0] == costs[1]


@pytest.mark.parametrize(
    ("request_", "most"),
    [("poll", 175), ("page", 208), ("bill", 154), ("members", 1_050), ("member", 184), ("lookup", 177)],
)
def test_a_request_makes_no_more_calls_than_it_needs(measured: Measured, request_: str, most: int) -> None:
    assert measured.grown[request_].calls <= most


def test_a_page_of_bills_makes_no_call_for_each_bill(measured: Measured) -> None:
    """The stored JSON of the bills is concatenated into the response unchanged."""
    assert measured.grown["page"].calls - measured.grown["half page"].calls < PAGE // 20


def test_a_page_of_bills_is_held_in_memory_twice_at_most(measured: Measured) -> None:
    """The bills are held once as rows and once as the response."""
    page = measured.grown["page"]
    assert page.peak_bytes < 2 * len(page.body) + 300 * PAGE


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_compressed_page_has_at_most_a_fifth_of_its_size(measured: Measured, encoding: str) -> None:
    path, query = measured.questions()["page"]
    packed = measured.worker.ask(path, measured.key, encoding=encoding, **query)
    assert 5 * len(packed.body) <= len(measured.grown["page"].body)
