"""A worker handles a limited number of requests at once. Further requests wait until a request has finished."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from counterfoil import bootstrap
from counterfoil.http.gate import MAX_CONCURRENT_REQUESTS, Gate
from running_service import RunningService


@pytest.fixture
def full_gate(tmp_path: Path) -> Iterator[Gate]:
    """A gate without a free slot."""
    service = RunningService(tmp_path)
    ports = bootstrap.serving_ports(service.settings, service.events.append, service.clock)
    gate = Gate(ports.key_lookup, ports.meter, service.clock)
    for _ in range(MAX_CONCURRENT_REQUESTS):
        assert gate.try_enter()
    yield gate
    ports.close()
    service.close()


def test_a_slot_is_passed_on_to_the_request_that_has_waited_longest(full_gate: Gate) -> None:
    async def scenario() -> tuple[bool, bool]:
        first, second = (asyncio.create_task(full_gate.wait_for_slot()) for _ in range(2))
        asyncio.get_running_loop().call_soon(full_gate.leave)
        await first
        was_second_done = second.done()
        full_gate.leave()
        await second
        return was_second_done, full_gate.try_enter()

    assert asyncio.run(scenario()) == (False, False)


def test_a_request_that_is_cancelled_with_its_slot_passes_the_slot_on(full_gate: Gate) -> None:
    async def scenario() -> list[object]:
        loop = asyncio.get_running_loop()
        first, second = (asyncio.create_task(full_gate.wait_for_slot()) for _ in range(2))
        loop.call_soon(full_gate.leave)
        loop.call_soon(first.cancel)
        return [type(result) for result in await asyncio.gather(first, second, return_exceptions=True)]

    assert asyncio.run(scenario()) == [asyncio.CancelledError, type(None)]


def test_a_request_that_is_cancelled_while_it_waits_gets_no_slot(full_gate: Gate) -> None:
    async def scenario() -> bool:
        waiting = asyncio.create_task(full_gate.wait_for_slot())
        asyncio.get_running_loop().call_soon(waiting.cancel)
        await asyncio.gather(waiting, return_exceptions=True)
        full_gate.leave()
        return full_gate.try_enter()

    assert asyncio.run(scenario())
