"""On PostgreSQL, a worker's copy of the keys is at most half a second old, even if reading the keys is slow."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

import servers
from actors import OPERATOR
from counterfoil import bootstrap, key_issuing
from counterfoil.backends.postgres.key_lookup import PostgresKeyLookup
from running_service import RunningService

Scenario = Callable[[PostgresKeyLookup, str], Coroutine[Any, Any, None]]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    server = servers.postgres(18)
    name, url = server.borrow_database()
    service = RunningService(tmp_path, store=url)
    yield service
    service.close()
    server.return_database(name)


def run(service: RunningService, scenario: Scenario) -> None:
    """Run the scenario with a worker's lookup and the ID of a key."""
    key_id = service.key(shop="sh_1").split("_")[2]
    parts = bootstrap.serving_ports(service.settings, service.events.append, service.clock)
    assert isinstance(parts.key_lookup, PostgresKeyLookup)
    with asyncio.Runner() as runner:
        try:
            runner.run(scenario(parts.key_lookup, key_id))
        finally:
            parts.close()


def revoke(service: RunningService, key_id: str) -> None:
    key_issuing.revoke(service.key_store, key_id, service.clock.now_ms(), OPERATOR)


async def begun(lookup: PostgresKeyLookup) -> None:
    """Return once the keys are being read."""
    for _ in range(5):
        await asyncio.sleep(0)
    assert lookup._lookup


async def ended(lookup: PostgresKeyLookup) -> None:
    """Return as soon as the keys have been read, before the callbacks of that read have run."""
    while lookup._lookup is None or not lookup._lookup.done():  # noqa: ASYNC110 - no event says that a task is done
        await asyncio.sleep(0)


async def is_revoked(lookup: PostgresKeyLookup, key_id: str) -> bool:
    found = await lookup.find(key_id)
    assert found is not None
    return found.key.revoked_at is not None


def test_keys_are_read_again_half_a_second_after_the_last_read_began(service: RunningService) -> None:
    async def scenario(lookup: PostgresKeyLookup, key_id: str) -> None:
        reading = asyncio.ensure_future(lookup.find(key_id))
        await begun(lookup)
        service.clock.advance(0.4)
        await reading
        revoke(service, key_id)
        service.clock.advance(0.15)
        assert await is_revoked(lookup, key_id)

    run(service, scenario)


@pytest.mark.parametrize("point", [begun, ended], ids=["still running", "just ended"])
def test_a_read_that_began_half_a_second_ago_is_not_used_for_a_new_request(service: RunningService, point: Any) -> None:
    async def scenario(lookup: PostgresKeyLookup, key_id: str) -> None:
        assert not await is_revoked(lookup, key_id)
        service.clock.advance(1)
        reading = asyncio.ensure_future(lookup.find(key_id))
        await point(lookup)
        assert not reading.done()
        revoke(service, key_id)
        service.clock.advance(0.6)
        assert await is_revoked(lookup, key_id)
        await reading

    run(service, scenario)
