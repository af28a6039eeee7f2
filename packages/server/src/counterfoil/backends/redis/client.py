"""Connects to Redis or Valkey, and translates the driver's errors."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha1
from importlib import resources
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from redis.asyncio import BlockingConnectionPool, Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError

from counterfoil.model.messages import Message
from counterfoil.ports import StoreUnavailable

# Time limit for commands, including connecting, so that a request fails quickly if the server is unreachable.
GATE_SEC = 1.5
TIMEOUT_SEC = 1.0
# A stopping worker waits up to this long for its connections to close.
DISCONNECT_SEC = 0.5
CONNECTIONS = 32
PORT, SENTINEL_PORT = 6379, 26379


def key_prefix(fingerprint: str) -> str:
    """Return the prefix of all Redis keys of a deployment, so that several deployments can share a server."""
    return f"counterfoil:{fingerprint[:12]}"


# Errors of a server, by its role.
_OF_ROLE = {"meter": Message("meter", "meter: {reason}"), "bridge": Message("bridge", "bridge: {reason}")}


@contextmanager
def translated(role: str = "meter") -> Iterator[None]:
    """Convert errors of the driver and the system to StoreUnavailable. The message begins with the server's role."""
    try:
        yield
    except (RedisError, OSError, TimeoutError) as error:
        raise StoreUnavailable(_OF_ROLE[role](reason=str(error) or type(error).__name__)) from error


class Script:
    """A Lua script. It is called by its SHA-1 hash, and sent in full only if the server has not cached it."""

    def __init__(self, file: str, role: str = "meter") -> None:
        self._role = role
        self._text = (resources.files(__package__) / file).read_text(encoding="utf-8")
        self._name = sha1(self._text.encode(), usedforsecurity=False).hexdigest()

    async def run(self, client: Any, keys: Sequence[str], values: Sequence[object]) -> Any:
        with translated(self._role):
            async with asyncio.timeout(GATE_SEC):
                try:
                    return await client.evalsha(self._name, len(keys), *keys, *values)
                except NoScriptError:
                    return await client.eval(self._text, len(keys), *keys, *values)


def open_clients(url: str) -> list[Any]:
    """Return the client for commands and one for each sentinel. The address names a server, a cluster or sentinels."""
    options: dict[str, Any] = {
        "socket_timeout": TIMEOUT_SEC,
        "socket_connect_timeout": TIMEOUT_SEC,
        # Never retry: if only the answer was lost, the request has already been counted.
        "retry": Retry(NoBackoff(), 0),
        # With RESP3, redis-py 8.1 hands out pooled connections that the server has closed, so after a restart each of
        # them makes one request fail (redis-py issue 4252). With RESP2, it reconnects them first.
        "protocol": 2,
    }
    parts = urlsplit(url)
    if "+" not in parts.scheme:
        pool = BlockingConnectionPool.from_url(url, max_connections=CONNECTIONS, timeout=TIMEOUT_SEC, **options)
        return [Redis.from_pool(pool)]
    login, _, nodes = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    options["ssl"] = parts.scheme.startswith("rediss")
    if options["ssl"]:
        options |= {name: value for name, value in parse_qsl(parts.query) if name.startswith("ssl_")}
    credentials: dict[str, Any] = {"username": unquote(user) or None, "password": unquote(password) or None}
    if parts.scheme.endswith("+cluster"):
        places = [ClusterNode(*node) for node in _addresses(nodes, PORT)]
        return [RedisCluster(startup_nodes=places, **options, **credentials)]
    service, _, database = parts.path.strip("/").partition("/")
    sentinel: Any = Sentinel(_addresses(nodes, SENTINEL_PORT), **options)  # type: ignore[no-untyped-call]
    return [sentinel.master_for(service, db=int(database or 0), **options, **credentials), *sentinel.sentinels]


def _addresses(nodes: str, default_port: int) -> list[tuple[str, int]]:
    parsed = (urlsplit(f"//{node}") for node in nodes.split(","))
    return [(node.hostname or "", node.port or default_port) for node in parsed]


class RedisClient:
    """A client that is opened when it is first needed, in the event loop that uses it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._clients: list[Any] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._disconnecting: asyncio.Task[None] | None = None

    def opened(self) -> Any:
        if not self._clients:
            self._loop = asyncio.get_running_loop()
            self._clients = open_clients(self._url)
        return self._clients[0]

    def close(self, within: float = DISCONNECT_SEC) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._disconnecting = self._loop.create_task(disconnect(self._clients))
            if not self._loop.is_running():
                # If a connection cannot be closed in time, it is closed when the process ends.
                self._loop.run_until_complete(asyncio.wait({self._disconnecting}, timeout=within))
        self._clients = []


async def disconnect(clients: Sequence[Any]) -> None:
    """Close all connections. Errors are ignored, so that a stopping worker can still save its counts and records."""
    for client in clients:
        with suppress(RedisError, OSError):
            await client.aclose()


# --- inspection ---------------------------------------------------------------------


def problem(url: str) -> Message | None:
    """Return the reason the meter cannot be used, or None."""
    try:
        asyncio.run(_ping(url))
    except StoreUnavailable as error:
        return error.message
    return None


async def _ping(url: str) -> None:
    clients = open_clients(url)
    try:
        with translated():
            async with asyncio.timeout(GATE_SEC):
                await clients[0].ping()
    finally:
        await disconnect(clients)
