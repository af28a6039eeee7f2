"""A worker handles a limited number of requests at once. Further requests wait until a request has finished."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from counterfoil import bootstrap
from counterfoil.http.gate import MAX_CONCURRENT_REQUESTS, Gate
from running_service import RunningService


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    service = RunningService(tmp_path)
    ports = bootstrap.serving_ports(service.settings, service.events.append, service.clock)
    gate = Gate(ports.key_lookup, ports.meter, service.clock)
    yield gate
    ports.close()
    service.close()


def test_a_slot_is_passed_on_to_the_request_that_has_waited_longest(gate: Gate) -> None:
    async def scenario() -> tuple[bool, bool]:
        for _ in range(MAX_CONCURRENT_REQUESTS):
            await gate.enter()
        cancelled, first, second = (asyncio.create_task(gate.enter()) for _ in range(3))
        asyncio.get_running_loop().call_soon(cancelled.cancel)
        asyncio.get_running_loop().call_soon(gate.leave)
        await first
        was_second_done = second.done()
        gate.leave()
        await second
        return was_second_done, cancelled.cancelled()

    assert asyncio.run(scenario()) == (False, True)
