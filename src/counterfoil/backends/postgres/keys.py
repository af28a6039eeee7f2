"""Keys: the ring, which checks requests in memory, and the key_store, in which the operator changes keys.

The ring holds every key and looks up every key id in the same dictionary, so
an unknown id takes as long as a known one. It asks the server again after
`REFRESH_SEC`, so a revocation takes effect within that time. While the primary
is unreachable, the keys of a replica are used if its horizon proves that they
are newer than those in memory. The newest keys stay in use for `BRIDGE_SEC`,
less than the five minutes within which a revocation must take effect.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec import json

from counterfoil.backends.postgres.connections import GATE_SEC, Pool, ReconnectingConnection, mismatch, translated
from counterfoil.backends.postgres.deployment import fingerprint_of
from counterfoil.backends.postgres.servers import Servers
from counterfoil.domain.access import Key
from counterfoil.ports import Clock, StoredKey, StoreUnavailable, StoreUnreachable

REFRESH_SEC = 0.5
# The contract's five minutes, minus the time that a request may take.
BRIDGE_SEC = 270

_ALL = "SELECT key_id, secret_digest, body FROM keys"
_ONE = "SELECT body FROM keys WHERE key_id = %s FOR UPDATE"
_FIND = "SELECT body FROM keys WHERE key_id = %s"
_ADD = "INSERT INTO keys (key_id, secret_digest, body) VALUES (%s, %s, %s)"
_CHANGE = "UPDATE keys SET body = %s WHERE key_id = %s"

_HORIZON = "SELECT at FROM horizon"
_GENERATION = """
    SELECT generation.number, generation.at, latest.number, latest.oldest
    FROM generation, (SELECT number, oldest FROM migrations ORDER BY number DESC LIMIT 1) AS latest,
        (SELECT count(*) FROM (SELECT FROM keys LIMIT 1) AS one) AS readable
"""
_NEXT_GENERATION = "UPDATE generation SET number = number + 1, at = clock_timestamp()"

_key = json.Decoder(Key).decode


class PostgresKeyLookup:
    """All keys, at most half a second old while the primary can be reached."""

    def __init__(self, servers: Servers, clock: Clock) -> None:
        self._servers = servers
        self._clock = clock
        self._kept: dict[str, StoredKey] = {}
        self._generation: tuple[Any, ...] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._failure: StoreUnreachable | None = None
        self._due = 0
        # The keys in memory are at least as new as this instant of the steady clock.
        self._as_of: int | None = None

    async def find(self, key_id: str) -> StoredKey | None:
        if self._clock.steady_us() >= self._due:
            look = self._look()
            # While the keys in memory may still be used, do not wait for a server that may not answer.
            if not self._bridging:
                await asyncio.shield(look)
            if self._failure and not self._bridging:
                raise self._failure
        return self._kept.get(key_id)

    async def find_again(self, key_id: str) -> StoredKey | None:
        if self._looking:
            # The lookup in progress began before this request, and may have missed a key that was issued since.
            await asyncio.wait({self._looking})
        await asyncio.shield(self._look())
        if self._failure:
            # The key may be new, so its absence from memory does not prove that it is invalid.
            raise self._failure
        return self._kept.get(key_id)

    @property
    def _bridging(self) -> bool:
        """Whether the primary is unreachable and the keys in memory are recent enough to be used."""
        if self._failure is None or self._as_of is None:
            return False
        return self._clock.steady_us() < self._as_of + BRIDGE_SEC * 1_000_000

    def _look(self) -> asyncio.Task[None]:
        """Ask the server. Requests that arrive before it answers share the lookup and wait for it only once."""
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look_again())
            self._looking.add_done_callback(self._looked)
        return self._looking

    def _looked(self, look: asyncio.Task[None]) -> None:
        self._looking = None
        if not look.cancelled():
            # Retrieve the exception, because asyncio logs one that nobody has retrieved, and perhaps nobody waited.
            look.exception()

    async def _look_again(self) -> None:
        now, failure = self._clock.steady_us(), None
        try:
            await self._servers.of_primary(self._refresh)
            self._as_of = now
        except StoreUnreachable as error:
            failure = error
        finally:
            self._failure = failure
        if failure and self._servers.several:
            with suppress(StoreUnreachable):
                await self._servers.of_replica(self._refresh_from_replica)
        if failure is None or self._bridging:
            self._due = self._clock.steady_us() + int(REFRESH_SEC * 1_000_000)

    async def _refresh_from_replica(self, pool: Pool) -> None:
        """Read a replica's keys only if they are newer than ours: older ones would reinstate a revoked key."""
        (horizon,) = await pool.row(_HORIZON, within=GATE_SEC)
        as_of = min(self._servers.steady_us_of(horizon), self._clock.steady_us())
        if self._as_of is None or as_of > self._as_of:
            await self._refresh(pool)
            self._as_of = as_of

    async def _refresh(self, pool: Pool) -> None:
        try:
            # The time limit includes opening a connection.
            async with asyncio.timeout(GATE_SEC):
                number, at, schema, oldest = await pool.row(_GENERATION)
        except TimeoutError as error:
            raise StoreUnreachable(f"PostgreSQL: no answer in {GATE_SEC} s") from error
        problem = mismatch(schema, oldest)
        if problem:
            # Another version has migrated the database while this service was running.
            raise StoreUnavailable(problem)
        if (number, at) != self._generation:
            rows = await pool.rows(_ALL)
            self._kept = {key_id: StoredKey(_key(body), digest) for key_id, digest, body in rows}
            self._generation = (number, at)


class PostgresKeyStore:
    """Issues, changes and revokes keys for the operator; refuses changes while a copy fills the store."""

    def __init__(self, url: str) -> None:
        self._line = ReconnectingConnection(url)

    def close(self) -> None:
        self._line.close()

    def add(self, kept: StoredKey) -> None:
        with translated(), self._line().transaction():
            fingerprint_of(self._line())
            self._line().execute(_ADD, (kept.key.key_id, kept.secret_digest, json.encode(kept.key)))
            self._line().execute(_NEXT_GENERATION)

    def all(self) -> list[Key]:
        with translated():
            keys = [_key(row[2]) for row in self._line().execute(_ALL)]
        return sorted(keys, key=lambda key: (key.created_at, key.key_id))

    def find(self, key_id: str) -> Key | None:
        with translated():
            row = self._line().execute(_FIND, (key_id,)).fetchone()
        return _key(row[0]) if row else None

    def change(self, key_id: str, change: Callable[[Key], Key]) -> Key | None:
        """Replace a key with the result of `change`, in one transaction; return None if the key does not exist."""
        with translated(), self._line().transaction():
            fingerprint_of(self._line())
            row = self._line().execute(_ONE, (key_id,)).fetchone()
            if not row:
                return None
            changed = change(_key(row[0]))
            self._line().execute(_CHANGE, (json.encode(changed), key_id))
            self._line().execute(_NEXT_GENERATION)
            return changed
