"""Looks up the API key of each request in memory.

All keys are held in one dictionary, so finding an unknown key ID takes as long as finding a known one. If the last
check is older than `REFRESH_SEC`, a request checks whether any key has changed and, if so, reads all keys again. A
revocation therefore takes effect within that time. While the primary is unreachable, the keys in memory may be used
until they are `KEYS_TRUSTED_SEC` old. A replica's keys replace them if the replica's horizon proves that its keys are
newer.
"""

import asyncio
from contextlib import suppress
from typing import Any

from counterfoil.backends.postgres.addresses import NO_ANSWER
from counterfoil.backends.postgres.pool import GATE_SEC, Pool
from counterfoil.backends.postgres.schema import mismatch
from counterfoil.backends.postgres.servers import Servers
from counterfoil.domain.access import KEYS_TRUSTED_SEC, decode_key
from counterfoil.ports import Clock, StoredKey, StoreUnavailable, StoreUnreachable

REFRESH_SEC = 0.5
_REFRESH_US = int(REFRESH_SEC * 1_000_000)

_ALL = "SELECT key_id, secret_digest, body FROM keys"
_HORIZON = "SELECT at FROM horizon"
_GENERATION = """
    SELECT generation.number, generation.at, latest.number, latest.oldest
    FROM generation, (SELECT number, oldest FROM migrations ORDER BY number DESC LIMIT 1) AS latest,
        (SELECT count(*) FROM (SELECT FROM keys LIMIT 1) AS one) AS readable
"""


class PostgresKeyLookup:
    """Holds all keys in memory. While the primary responds, they are used only if checked in the last half second."""

    def __init__(self, servers: Servers, clock: Clock) -> None:
        self._servers = servers
        self._clock = clock
        self._keys: dict[str, StoredKey] = {}
        self._generation: tuple[Any, ...] | None = None
        self._lookup: asyncio.Task[None] | None = None
        self._failure: StoreUnreachable | None = None
        self._due = 0
        # The keys in memory include every change up to this time on the steady clock.
        self._as_of: int | None = None

    async def find(self, key_id: str) -> StoredKey | None:
        arrived = self._clock.steady_us()
        if arrived >= self._due:
            lookup = self._start_lookup()
            # While the keys in memory can still be used, do not wait for a server that may not respond.
            if not self._trusts_memory:
                await asyncio.shield(lookup)
                if self._as_of is not None and self._as_of < arrived - _REFRESH_US and not self._failure:
                    # That lookup began more than REFRESH_SEC ago, so it may have missed a revocation.
                    await asyncio.shield(self._start_lookup())
            if self._failure and not self._trusts_memory:
                raise self._failure
        return self._keys.get(key_id)

    async def find_again(self, key_id: str) -> StoredKey | None:
        if self._lookup:
            # The lookup in progress started before this request, so it may have missed a newly issued key.
            await asyncio.wait({self._lookup})
        await asyncio.shield(self._start_lookup())
        if self._failure:
            # The key may be newer than the keys in memory, so report the failure instead of refusing the key.
            raise self._failure
        return self._keys.get(key_id)

    @property
    def _trusts_memory(self) -> bool:
        """True if the primary is unreachable but the keys in memory are recent enough to use."""
        if self._failure is None or self._as_of is None:
            return False
        return self._clock.steady_us() < self._as_of + KEYS_TRUSTED_SEC * 1_000_000

    def _start_lookup(self) -> asyncio.Task[None]:
        """Return the task of the read in progress, or of a new read if there is none. Requests may share a read."""
        # `_lookup` may still hold a read that has finished, if the callback that clears it has not run yet.
        if self._lookup is None or self._lookup.done():
            self._lookup = asyncio.get_running_loop().create_task(self._refresh_all())
            self._lookup.add_done_callback(self._finished)
        return self._lookup

    def _finished(self, lookup: asyncio.Task[None]) -> None:
        if self._lookup is lookup:
            self._lookup = None
        if not lookup.cancelled():
            # Retrieve the exception even if no request waits, because asyncio logs it otherwise.
            lookup.exception()

    async def _refresh_all(self) -> None:
        now, failure = self._clock.steady_us(), None
        try:
            await self._servers.on_primary(self._refresh)
            self._as_of = now
        except StoreUnreachable as error:
            failure = error
        finally:
            self._failure = failure
        if failure and self._servers.several:
            with suppress(StoreUnreachable):
                await self._servers.on_replica(self._refresh_from_replica)
        if failure is None:
            # Counted from the start of the read, because keys may change as soon as they are read.
            self._due = now + _REFRESH_US
        elif self._trusts_memory:
            self._due = self._clock.steady_us() + _REFRESH_US

    async def _refresh_from_replica(self, pool: Pool) -> None:
        """Read a replica's keys if they are newer than those in memory. Older keys could undo a revocation."""
        ((horizon,),) = await pool.rows(_HORIZON, within=GATE_SEC)
        as_of = min(self._servers.steady_us_of(horizon), self._clock.steady_us())
        if self._as_of is None or as_of > self._as_of:
            await self._refresh(pool)
            self._as_of = as_of

    async def _refresh(self, pool: Pool) -> None:
        try:
            # The time limit includes opening a connection.
            async with asyncio.timeout(GATE_SEC):
                ((number, at, schema, oldest),) = await pool.rows(_GENERATION)
        except TimeoutError as error:
            raise StoreUnreachable(NO_ANSWER(seconds=str(GATE_SEC))) from error
        problem = mismatch(schema, oldest)
        if problem:
            # Another version has migrated the database while this service was running.
            raise StoreUnavailable(problem)
        if (number, at) != self._generation:
            rows = await pool.rows(_ALL)
            self._keys = {key_id: StoredKey(decode_key(body), digest) for key_id, digest, body in rows}
            self._generation = (number, at)
