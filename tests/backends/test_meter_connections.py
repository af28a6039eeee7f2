"""If a connection to the meter cannot be closed in time, the others are still closed, and no error is raised."""

import asyncio
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import TimeoutError as RedisTimeoutError

import servers
from counterfoil.backends.redis.client import disconnect


class NeverClosed(Redis):
    """A client that times out when it closes its connections."""

    async def aclose(self, *_: Any, **__: Any) -> None:
        raise RedisTimeoutError("Timed out closing connection after 1.0")


def test_a_connection_that_cannot_be_closed_does_not_keep_the_others_open() -> None:
    async def scenario() -> None:
        valkey = servers.valkey()
        stuck, other = NeverClosed.from_url(valkey.url), Redis.from_url(valkey.url)
        await other.ping()
        (connection,) = other.connection_pool._available_connections
        assert connection.is_connected
        await disconnect([stuck, other])
        assert not connection.is_connected

    asyncio.run(scenario())
