"""The bridge over the time without a primary: what it holds of a cursor's places. Real servers."""

import asyncio
from collections.abc import Awaitable, Iterator
from typing import Any, TypeVar

import pytest

import servers
from counterfoil.backends.postgres.bookmarks import PostgresBookmarks
from counterfoil.backends.postgres.servers import Servers
from counterfoil.backends.postgres.usage import PostgresUsage
from counterfoil.backends.redis.bridge import PLACE_SEC, Bridge
from counterfoil.bootstrap import SystemClock
from counterfoil.domain.paging import COMPANY, Bookmark, Place, Resumed, Trail, Walk, resume
from house import MovableClock
from servers import Valkey

# Needs real servers: `make test-long`.
pytestmark = pytest.mark.long

BY_CHANGE = Trail("k_1", "bills sh_1", "changes 0")
BY_DAY = Trail("k_1", "bills sh_1", "days 20260101-20260131")
PLACE, ELSEWHERE = Place(900, 0, "b_1"), Place(1500, 0, "b_1")

T = TypeVar("T")


class Bank:
    """A bridge and the database that it leads to."""

    def __init__(self) -> None:
        self.clock = MovableClock()
        self.meter = Valkey()
        self.runner = asyncio.Runner()
        self.database, self.url = servers.postgres(18).fresh_database()
        self.servers = Servers(self.url, SystemClock())
        self.store = PostgresBookmarks(self.servers, self.url, self.clock)
        usage = PostgresUsage(self.servers, self.url, self.clock)
        self.bridge = Bridge(self.meter.url, "test", self.store, usage, self.clock)

    def run(self, awaitable: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await awaitable

        return self.runner.run(awaited())

    def close(self) -> None:
        self.bridge.close()
        self.servers.close()
        self.runner.close()
        self.meter.remove()

    def keep(self, trail: Trail, walk: int, place: Place = PLACE) -> None:
        self.run(self.bridge.keep(trail, Bookmark(trail.route, Walk(f"w_{walk}", 1000 + walk), place)))
        self.clock.advance(1)

    def finish(self, walk: int) -> None:
        self.run(self.bridge.finish(f"w_{walk}"))

    def resumed(self, trail: Trail) -> Resumed | None:
        return resume(trail.route, None, self.run(self.bridge.find(trail, "b_1")))

    def held_elsewhere(self, trail: Trail, place: Place) -> bool:
        return self.run(self.bridge.held_elsewhere(trail, place))

    def command(self, statement: str) -> Any:
        return servers.postgres(18).command(statement, self.database)

    def fields(self) -> int:
        (name,) = [line for line in self.meter.everything("KEYS *place*").split(b"\r\n") if b":place:" in line]
        return int(self.meter.command(f'HLEN "{name.decode()}"')[1:])


@pytest.fixture
def bank() -> Iterator[Bank]:
    bank = Bank()
    yield bank
    bank.close()


@pytest.mark.parametrize(("trail", "serves"), [(BY_CHANGE, 1299), (BY_DAY, 1000)])
def test_hundreds_of_walks_at_a_place_are_a_handful_of_fields(bank: Bank, trail: Trail, serves: int) -> None:
    for walk in range(300):
        bank.keep(trail, walk)
    assert bank.fields() <= 4
    assert len(bank.run(bank.bridge.find(trail, "b_1"))) <= COMPANY + 1 + 4
    resumed = bank.resumed(trail)
    assert resumed
    assert resumed.walk
    assert (resumed.after, resumed.walk.horizon) == (PLACE, serves)


def test_a_walk_that_took_the_place_of_a_finished_one_goes_on_with_its_own_horizon(bank: Bank) -> None:
    for walk in range(20):
        bank.keep(BY_DAY, walk)
        assert bank.resumed(BY_DAY) == Resumed(PLACE, Walk(f"w_{walk}", 1000 + walk))
        bank.finish(walk)
    assert not bank.held_elsewhere(BY_DAY, ELSEWHERE)


def test_a_cursor_is_held_elsewhere_as_long_as_the_store_says(bank: Bank) -> None:
    bank.keep(BY_CHANGE, 1)
    assert bank.held_elsewhere(BY_CHANGE, ELSEWHERE)
    assert not bank.held_elsewhere(BY_CHANGE, PLACE)
    assert not bank.held_elsewhere(BY_DAY, ELSEWHERE)
    bank.finish(1)
    assert not bank.held_elsewhere(BY_CHANGE, ELSEWHERE)


@pytest.mark.parametrize("trail", [BY_CHANGE, BY_DAY])
def test_walks_that_the_store_has_lost_are_all_on_their_way_again(bank: Bank, trail: Trail) -> None:
    bank.keep(trail, 1)
    bank.finish(1)
    for walk in (2, 3, 4):
        bank.keep(trail, walk)
    bank.command("DELETE FROM counterfoil.bookmarks")
    assert bank.held_elsewhere(trail, ELSEWHERE)
    resumed = bank.resumed(trail)
    assert resumed
    assert resumed.walk
    # By day the horizon must be none later than that of the first of them.
    assert resumed.walk.horizon == 1004 if trail is BY_CHANGE else resumed.walk.horizon <= 1002


def test_a_later_walk_that_the_store_has_lost_brings_back_those_before_it(bank: Bank) -> None:
    for walk in (1, 2, 3):
        bank.keep(BY_DAY, walk)
    bank.finish(1)
    bank.command("DELETE FROM counterfoil.bookmarks WHERE walk <> 'w_1'")
    resumed = bank.resumed(BY_DAY)
    assert resumed
    assert resumed.walk
    assert resumed.walk.horizon <= 1002
    assert bank.held_elsewhere(BY_DAY, ELSEWHERE)


def test_the_walks_of_the_last_hour_are_there_when_the_next_hour_begins(bank: Bank) -> None:
    bank.clock.advance(PLACE_SEC - 60)
    bank.keep(BY_DAY, 1)
    bank.clock.advance(120)
    bank.keep(BY_DAY, 2)
    bank.command("DELETE FROM counterfoil.bookmarks")
    resumed = bank.resumed(BY_DAY)
    assert resumed
    assert resumed.walk
    assert resumed.walk.horizon == 1001


def test_what_is_older_than_the_hour_before_is_left_to_the_store(bank: Bank) -> None:
    bank.keep(BY_DAY, 1)
    for _ in range(3):
        bank.clock.advance(PLACE_SEC)
        bank.keep(BY_CHANGE, 2)
    bank.command("DELETE FROM counterfoil.bookmarks")
    assert bank.resumed(BY_DAY) is None
    assert bank.resumed(BY_CHANGE)
