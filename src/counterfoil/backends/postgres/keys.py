"""Keys: a ring in memory for checking requests, and the cabinet that the operator works on.

The ring holds every key and looks every key id up in the same dictionary, so
an unknown id costs what a known one costs. It asks the server again at most
`REFRESH_SEC` later: a revocation is in force within that time. While the primary
cannot be reached, a replica is asked if it can prove by its horizon that its
keys are newer than those in memory; whatever is newest bridges the gap, for
less than the five minutes within which a revocation must be in force.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec import json

from counterfoil.backends.postgres.connections import GATE_SEC, Line, Pool, translated, unfit
from counterfoil.backends.postgres.deployment import fingerprint_of
from counterfoil.backends.postgres.servers import Servers
from counterfoil.domain.access import Key
from counterfoil.ports import Clock, KeptKey, StoreUnavailable, StoreUnreachable

REFRESH_SEC = 0.5
# The contract's five minutes, less what a request may take.
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


class PostgresKeyRing:
    """All keys, at most half a second old while the primary can be reached."""

    def __init__(self, servers: Servers, clock: Clock) -> None:
        self._servers = servers
        self._clock = clock
        self._kept: dict[str, KeptKey] = {}
        self._generation: tuple[Any, ...] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._failure: StoreUnreachable | None = None
        self._due = 0
        # The keys are what they were at this instant, or newer.
        self._as_of: int | None = None

    async def find(self, key_id: str) -> KeptKey | None:
        if self._clock.steady_us() >= self._due:
            look = self._look()
            # While memory bridges, nobody waits for a server that may be silent.
            if not self._bridging:
                await asyncio.shield(look)
            if self._failure and not self._bridging:
                raise self._failure
        return self._kept.get(key_id)

    async def find_again(self, key_id: str) -> KeptKey | None:
        if self._looking:
            # It began before this request did, and may have missed a key that was issued since.
            await asyncio.wait({self._looking})
        await asyncio.shield(self._look())
        if self._failure:
            # The key may be new: memory cannot tell that it is wrong.
            raise self._failure
        return self._kept.get(key_id)

    @property
    def _bridging(self) -> bool:
        """Whether the primary is away and a revocation that is not seen here would not be late yet."""
        if self._failure is None or self._as_of is None:
            return False
        return self._clock.steady_us() < self._as_of + BRIDGE_SEC * 1_000_000

    def _look(self) -> asyncio.Task[None]:
        """Ask the server. Whoever comes before it has answered shares the question, so a silence is waited for once."""
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look_again())
            self._looking.add_done_callback(self._looked)
        return self._looking

    def _looked(self, look: asyncio.Task[None]) -> None:
        self._looking = None
        if not look.cancelled():
            # Those who waited have been told; perhaps nobody did.
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
        """Its keys count only if they are newer than ours: an old copy would bring a revoked key back."""
        (horizon,) = await pool.row(_HORIZON, within=GATE_SEC)
        as_of = min(self._servers.steady_us_of(horizon), self._clock.steady_us())
        if self._as_of is None or as_of > self._as_of:
            await self._refresh(pool)
            self._as_of = as_of

    async def _refresh(self, pool: Pool) -> None:
        try:
            # The whole of it: a connection that has to be made first counts too.
            async with asyncio.timeout(GATE_SEC):
                number, at, schema, oldest = await pool.row(_GENERATION)
        except TimeoutError as error:
            raise StoreUnreachable(f"PostgreSQL: no answer in {GATE_SEC} s") from error
        problem = unfit(schema, oldest)
        if problem:
            # Another version has changed the database under a running service.
            raise StoreUnavailable(problem)
        if (number, at) != self._generation:
            rows = await pool.rows(_ALL)
            self._kept = {key_id: KeptKey(_key(body), digest) for key_id, digest, body in rows}
            self._generation = (number, at)


class PostgresKeyCabinet:
    """Where the operator issues, changes and revokes keys. A store that is being filled has the source's keys."""

    def __init__(self, url: str) -> None:
        self._line = Line(url)

    def close(self) -> None:
        self._line.close()

    def add(self, kept: KeptKey) -> None:
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
        """Replace a key by what `change` makes of it, in one transaction."""
        with translated(), self._line().transaction():
            fingerprint_of(self._line())
            row = self._line().execute(_ONE, (key_id,)).fetchone()
            if not row:
                return None
            changed = change(_key(row[0]))
            self._line().execute(_CHANGE, (json.encode(changed), key_id))
            self._line().execute(_NEXT_GENERATION)
            return changed
