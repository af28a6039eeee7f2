"""Connections to Redis or Valkey, and the one place that translates the driver's errors."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

from redis.asyncio import BlockingConnectionPool, Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from counterfoil.ports import StoreUnavailable

TIMEOUT_SEC = 1.0
CONNECTIONS = 32


@contextmanager
def translated() -> Iterator[None]:
    """Whatever the driver raises becomes the port's own error."""
    try:
        yield
    except (RedisError, OSError, TimeoutError) as error:
        raise StoreUnavailable(f"meter: {str(error) or type(error).__name__}") from error


def connected(url: str) -> list[Any]:
    """A client for one server, for a cluster, or for the primary that sentinels name; and those of the sentinels."""
    terms: dict[str, Any] = {
        "socket_timeout": TIMEOUT_SEC,
        "socket_connect_timeout": TIMEOUT_SEC,
        # A request whose answer was lost may have been counted: it is not sent again.
        "retry": Retry(NoBackoff(), 0),
    }
    parts = urlsplit(url)
    if "+" not in parts.scheme:
        pool = BlockingConnectionPool.from_url(url, max_connections=CONNECTIONS, timeout=TIMEOUT_SEC, **terms)
        return [Redis.from_pool(pool)]
    place, _, nodes = parts.netloc.rpartition("@")
    user, _, password = place.partition(":")
    terms |= {"username": unquote(user) or None, "password": unquote(password) or None}
    terms["ssl"] = parts.scheme.startswith("rediss")
    named = [(host, int(port or 6379)) for host, _, port in (node.partition(":") for node in nodes.split(","))]
    if parts.scheme.endswith("+cluster"):
        return [RedisCluster(startup_nodes=[ClusterNode(*node) for node in named], **terms)]
    service, _, database = parts.path.strip("/").partition("/")
    sentinel: Any = Sentinel(named, **_without_login(terms))  # type: ignore[no-untyped-call]
    return [sentinel.master_for(service, db=int(database or 0), **terms), *sentinel.sentinels]


def _without_login(terms: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in terms.items() if name not in ("username", "password")}


class Client:
    """Opened on first use, on the event loop that uses it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._clients: list[Any] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Task[None] | None = None

    def opened(self) -> Any:
        if not self._clients:
            self._loop = asyncio.get_running_loop()
            self._clients = connected(self._url)
        return self._clients[0]

    def close(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            ending = _hang_up(self._clients)
            if self._loop.is_running():
                self._ending = self._loop.create_task(ending)
            else:
                self._loop.run_until_complete(ending)
        self._clients = []


async def _hang_up(clients: Sequence[Any]) -> None:
    for client in clients:
        await client.aclose()
