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
from counterfoil.ports import KeyLookup
from running_service import RunningService

Scenario = Callable[[KeyLookup], Coroutine[Any, Any, None]]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    server = servers.postgres(18)
    name, url = server.borrow_database()
    service = RunningService(tmp_path, store=url)
    yield service
    service.close()
    server.return_database(name)


def run(service: RunningService, scenario: Scenario) -> None:
    parts = bootstrap.serving_ports(service.settings, service.events.append, service.clock)
    with asyncio.Runner() as runner:
        try:
            runner.run(scenario(parts.key_lookup))
        finally:
            parts.close()


def revoke(service: RunningService, key_id: str) -> None:
    key_issuing.revoke(service.key_store, key_id, service.clock.now_ms(), OPERATOR)


async def begun(lookup: KeyLookup, key_id: str) -> "asyncio.Task[object]":
    """Start looking up a key; return the task once the keys are being read."""
    task = asyncio.ensure_future(lookup.find(key_id))
    for _ in range(5):
        await asyncio.sleep(0)
    return task


async def ended(lookup: PostgresKeyLookup, key_id: str) -> None:
    """Look up a key. Return as soon as the keys have been read, before the callbacks of that read have run."""
    task = asyncio.ensure_future(lookup.find(key_id))
    while lookup._lookup is None or not lookup._lookup.done():  # noqa: ASYNC110 - no event says that a task is done
        await asyncio.sleep(0)
    assert not task.done()


async def is_revoked(lookup: KeyLookup, key_id: str) -> bool:
    found = await lookup.find(key_id)
    assert found is not None
    return found.key.revoked_at is not None


def test_keys_are_read_again_half_a_second_after_the_last_read_began(service: RunningService) -> None:
    key_id = service.key(shop="sh_1").split("_")[2]

    async def scenario(lookup: KeyLookup) -> None:
        reading = await begun(lookup, key_id)
        service.clock.advance(0.4)
        await reading
        revoke(service, key_id)
        service.clock.advance(0.15)
        assert await is_revoked(lookup, key_id)

    run(service, scenario)


def test_a_read_that_has_already_taken_half_a_second_is_not_enough_for_a_new_request(service: RunningService) -> None:
    key_id = service.key(shop="sh_1").split("_")[2]

    async def scenario(lookup: KeyLookup) -> None:
        assert not await is_revoked(lookup, key_id)
        service.clock.advance(1)
        reading = await begun(lookup, key_id)
        revoke(service, key_id)
        service.clock.advance(0.6)
        assert await is_revoked(lookup, key_id)
        await reading

    run(service, scenario)


def test_a_read_that_has_just_ended_is_not_used_for_a_new_request(service: RunningService) -> None:
    key_id = service.key(shop="sh_1").split("_")[2]

    async def scenario(lookup: KeyLookup) -> None:
        assert isinstance(lookup, PostgresKeyLookup)
        assert not await is_revoked(lookup, key_id)
        service.clock.advance(1)
        await ended(lookup, key_id)
        revoke(service, key_id)
        service.clock.advance(0.6)
        assert await is_revoked(lookup, key_id)

    run(service, scenario)
