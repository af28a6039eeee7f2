"""Tests for cursors while there is no primary, and after a failover that lost some of them.

The tests use real servers.
"""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

import servers
from counterfoil.backends.postgres.servers import Servers
from counterfoil.backends.postgres.usage import PostgresCursors, PostgresUsage
from counterfoil.backends.redis.bridge import Bridge
from counterfoil.domain.paging import Listing, Position, StoredCursor
from counterfoil.ports import StoreUnavailable, StoreUnreachable
from counterfoil.program.clock import SystemClock
from ports.open_store import Synchronous
from running_service import ManualClock
from servers import Valkey

# These tests start their own servers, which takes time, so they run only in `make test-long`.
pytestmark = pytest.mark.long

BY_CHANGE = Listing("k_1", "bills sh_1", "changes 0")
BY_DAY = Listing("k_1", "bills sh_1", "days 20260101-20260131")
HERE, MOVED = Position(900, 0, "b_1"), Position(1500, 0, "b_1")
UNIQUE = "f_1" + 16 * "7"


class LostPrimary(PostgresCursors):
    """The store's cursors, with a primary that a test can make unavailable."""

    away = False

    async def find(self, listing: Listing, cursor: str) -> StoredCursor | None:
        self._require_primary()
        return await super().find(listing, cursor)

    async def hand_out(self, listing: Listing, held: StoredCursor, fresh: str | None) -> str | None:
        self._require_primary()
        return await super().hand_out(listing, held, fresh)

    async def adopt(self, listing: Listing, cursor: str, held: StoredCursor, handed_out_at: int) -> None:
        self._require_primary()
        await super().adopt(listing, cursor, held, handed_out_at)

    def _require_primary(self) -> None:
        if self.away:
            raise StoreUnreachable("no primary")


class BridgedCursors:
    """A bridge with its own Valkey server and database."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.meter = Valkey()
        self.runner = asyncio.Runner()
        self.database, self.url = servers.postgres(18).fresh_database()
        self.servers = Servers(self.url, SystemClock())
        self.primary = LostPrimary(self.servers, self.clock)
        bridge = Bridge(self.meter.url, "test", self.primary, PostgresUsage(self.servers), self.clock)
        self.store: Any = Synchronous(self.primary, self.runner.run)
        self.bridge: Any = Synchronous(bridge, self.runner.run)

    def close(self) -> None:
        self.bridge.close()
        self.servers.close()
        self.runner.close()
        self.meter.remove()

    def hand_out(self, listing: Listing, position: Position, horizon: int, fresh: str | None = None) -> str | None:
        handed_out: str | None = self.bridge.hand_out(listing, StoredCursor(position, horizon, horizon), fresh)
        return handed_out

    def forget(self, cursor: str) -> None:
        """Delete a cursor from the store, as a failover without synchronous replication would."""
        self.command(f"DELETE FROM counterfoil.cursors WHERE cursor = '{cursor}'")  # noqa: S608 - set by the test

    def command(self, statement: str) -> Any:
        return servers.postgres(18).command(statement, self.database)


@pytest.fixture
def bridged() -> Iterator[BridgedCursors]:
    with closing(BridgedCursors()) as bridged:
        yield bridged


def test_errors_of_valkey_name_the_bridge_and_not_the_meter(bridged: BridgedCursors) -> None:
    bridged.meter.kill()
    with pytest.raises(StoreUnavailable, match=r"^bridge: "):
        bridged.bridge.maintain()
    with pytest.raises(StoreUnavailable, match=r"^bridge: "):
        bridged.hand_out(BY_CHANGE, HERE, 1000)


def test_without_a_primary_a_cursor_is_a_fresh_id(bridged: BridgedCursors) -> None:
    bridged.hand_out(BY_CHANGE, HERE, 1000)
    bridged.primary.away = True
    assert bridged.hand_out(BY_CHANGE, MOVED, 2000) is None
    assert bridged.hand_out(BY_CHANGE, MOVED, 2000, UNIQUE) == UNIQUE
    assert bridged.hand_out(BY_CHANGE, HERE, 2000, UNIQUE) is None
    assert bridged.bridge.find(BY_CHANGE, "b_1") == StoredCursor(HERE, 1000, 1000)
    assert bridged.bridge.find(BY_CHANGE, UNIQUE) == StoredCursor(MOVED, 2000, 2000)


def test_without_a_primary_a_short_id_is_not_handed_out(bridged: BridgedCursors) -> None:
    """Only the primary can tell whether a client still holds an older cursor with this short ID."""
    bridged.primary.away = True
    assert bridged.hand_out(BY_CHANGE, MOVED, 2000, "f_1") is None


def test_the_store_gets_the_deferred_cursors_when_there_is_a_primary_again(bridged: BridgedCursors) -> None:
    bridged.primary.away = True
    bridged.hand_out(BY_CHANGE, MOVED, 2000, UNIQUE)
    bridged.primary.away = False
    bridged.bridge.maintain()
    assert bridged.store.find(BY_CHANGE, UNIQUE) == StoredCursor(MOVED, 2000, 2000)
    bridged.meter.command("FLUSHALL")
    assert bridged.bridge.find(BY_CHANGE, UNIQUE) == StoredCursor(MOVED, 2000, 2000)


def test_an_entry_of_another_version_does_not_block_later_entries(bridged: BridgedCursors) -> None:
    bridged.primary.away = True
    bridged.meter.command('RPUSH test:{bridge}:deferred {"type":"unknown"}')
    bridged.hand_out(BY_CHANGE, MOVED, 2000, UNIQUE)
    bridged.primary.away = False
    bridged.bridge.maintain()
    assert bridged.store.find(BY_CHANGE, UNIQUE) == StoredCursor(MOVED, 2000, 2000)
    assert bridged.meter.command("LLEN test:{bridge}:deferred") == b":0"
    assert bridged.meter.command("LLEN test:{bridge}:deferred:unreadable") != b":0"


def test_without_a_primary_an_older_cursor_is_found_on_a_replica_unless_the_bridge_lost_its_data(
    bridged: BridgedCursors,
) -> None:
    bridged.store.hand_out(BY_CHANGE, StoredCursor(HERE, 1000, 1000), None)
    bridged.bridge.maintain()
    bridged.command("UPDATE counterfoil.horizon SET at = 10000000")
    bridged.primary.away = True
    assert bridged.bridge.find(BY_CHANGE, "b_1") == StoredCursor(HERE, 1000, 1000)
    assert bridged.bridge.find(BY_CHANGE, "b_2") is None


@pytest.mark.parametrize("listing", [BY_CHANGE, BY_DAY])
def test_a_cursor_that_a_failover_has_lost_is_still_valid(bridged: BridgedCursors, listing: Listing) -> None:
    bridged.hand_out(listing, HERE, 1000)
    bridged.forget("b_1")
    assert bridged.bridge.find(listing, "b_1") == StoredCursor(HERE, 1000, 1000)
    # The cursor has been written back to the store.
    assert bridged.store.find(listing, "b_1") == StoredCursor(HERE, 1000, 1000)


def test_an_id_that_a_failover_has_lost_is_not_handed_out_for_another_position(bridged: BridgedCursors) -> None:
    bridged.hand_out(BY_CHANGE, HERE, 1000)
    bridged.forget("b_1")
    assert bridged.hand_out(BY_CHANGE, MOVED, 2000) is None
    assert bridged.hand_out(BY_CHANGE, MOVED, 2000, "f_1") == "f_1"
    assert bridged.bridge.find(BY_CHANGE, "b_1") == StoredCursor(HERE, 1000, 1000)
    assert bridged.bridge.find(BY_CHANGE, "f_1") == StoredCursor(MOVED, 2000, 2000)


def test_floors_that_a_failover_lost_still_apply(bridged: BridgedCursors) -> None:
    for horizon in (1000, 1200, 900):
        bridged.hand_out(BY_CHANGE, HERE, horizon)
    bridged.command("UPDATE counterfoil.cursors SET earliest = 1000, latest = 1000")
    assert bridged.bridge.find(BY_CHANGE, "b_1") == StoredCursor(HERE, 900, 1200)
