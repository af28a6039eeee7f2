"""Stores cursors and disclosures in Valkey (or Redis) while there is no primary.

Both must be stored before an answer is sent. Every cursor is written to Valkey as well as to the store. While the store
cannot be written to, cursors are stored in Valkey only, under new random IDs. No client can hold such an ID yet, so the
store need not check whether it is taken. When the store can be written to again, these cursors and the disclosures made
in the meantime are transferred to it.

A cursor is looked up in both places. While the primary is unreachable, a cursor that Valkey lacks is read from a
replica, which may lack the latest cursors and horizons. The bridge's own mark is a horizon: Valkey has every cursor
that was created after it. So a replica is read only if it has reached the mark. If Valkey loses its data, the mark is
lost too, and the lookup raises an error instead of returning a wrong position.
"""

import asyncio
from contextlib import suppress
from typing import Any

from msgspec import DecodeError, Struct, json

from counterfoil.backends.postgres.usage import PostgresCursors
from counterfoil.backends.redis.client import DISCONNECT_SEC, RedisClient, Script, translated
from counterfoil.domain.paging import LIFETIME_MS, Listing, Position, StoredCursor, is_unique
from counterfoil.domain.request_records import RequestRecord
from counterfoil.model.messages import Message
from counterfoil.ports import Clock, RequestLog, StoreUnavailable, StoreUnreachable

# How long Valkey keeps a cursor that the store has too, in case the store loses it in a failover.
KEEP_SEC = 86_400
MAINTAIN_SEC = 1.0
# Lifetime of the mark. If no worker renews it, none writes cursors to the bridge either, so it must expire.
MARK_SEC = 60
# A new mark is this far above the horizon, so that requests in progress finish before the horizon reaches the mark.
SETTLING_MS = 10_000
BATCH_SIZE = 100

# The first word of error messages about Valkey.
_ROLE = "bridge"
_HOLD = Script("hold.lua", _ROLE)


class DeferredCursor(Struct, frozen=True, tag="cursor"):
    """A cursor that the store does not have yet."""

    listing: Listing
    cursor: str
    held: StoredCursor
    at: int


class DeferredDisclosure(Struct, frozen=True, tag="disclose"):
    """A disclosure that the store does not have yet."""

    record: RequestRecord


Deferred = DeferredCursor | DeferredDisclosure


_deferred = json.Decoder(Deferred).decode


class Bridge:
    """Stores cursors and disclosures so that requests can be answered without a primary."""

    def __init__(self, url: str, prefix: str, store: PostgresCursors, log: RequestLog, clock: Clock) -> None:
        self._client = RedisClient(url)
        self._store = store
        self._log = log
        self.note, self.note_refusal, self.note_page = log.note, log.note_refusal, log.note_page
        self._clock = clock
        self._prefix = prefix
        # Both names have the same hash tag, so that a Redis cluster stores them in one slot.
        self._mark, self._deferred = f"{prefix}:{{bridge}}:mark", f"{prefix}:{{bridge}}:deferred"
        self._maintenance: asyncio.Task[None] | None = None

    def close(self, within: float = DISCONNECT_SEC) -> None:
        if self._maintenance is not None and not self._maintenance.get_loop().is_closed():
            self._maintenance.cancel()
        self._client.close(min(within, DISCONNECT_SEC))

    # --- cursors -------------------------------------------------------------------

    async def find(self, listing: Listing, cursor: str) -> StoredCursor | None:
        stored, here = await asyncio.gather(
            self._store.find(listing, cursor), self._here(listing, cursor), return_exceptions=True
        )
        if isinstance(here, BaseException):
            raise here
        if isinstance(stored, StoreUnreachable):
            if here is not None:
                return here
            return await self._store.find_on_replica(listing, cursor, await self._complete_since())
        if isinstance(stored, BaseException):
            raise stored
        if here is not None and (stored is None or stored.position != here.position):
            # The store lost this cursor in a failover, or does not have it yet. Write the position to it.
            await self._store.correct(listing, cursor, here)
            return here
        if stored is None or here is None:
            return stored
        # The store may have lost horizons in a failover.
        return StoredCursor(stored.position, min(stored.earliest, here.earliest), max(stored.latest, here.latest))

    async def hand_out(self, listing: Listing, held: StoredCursor, fresh: str | None) -> str | None:
        try:
            cursor = await self._store.hand_out(listing, held, fresh)
        except StoreUnreachable:
            # Only the primary knows which IDs are taken, so this ID must be long enough to be unique by itself.
            if fresh is None or not is_unique(fresh, held.position.id):
                return None
            if not await self._hold(listing, fresh, held, LIFETIME_MS // 1000):
                return None
            await self._defer(DeferredCursor(listing, fresh, held, self._clock.now_ms()))
            return fresh
        if cursor is None or await self._hold(listing, cursor, held, KEEP_SEC):
            return cursor
        # The ID stands for a position that the store lost. `find` restores it, and the caller tries another.
        await self.find(listing, cursor)
        return None

    async def _hold(self, listing: Listing, cursor: str, held: StoredCursor, seconds: int) -> bool:
        """Store a cursor in Valkey. Return False if its ID already stands for another position, otherwise True."""
        asked = [json.encode(held.position), held.earliest, held.latest, seconds]
        return bool(await _HOLD.run(self._opened(), [self._name(listing, cursor)], asked))

    async def _here(self, listing: Listing, cursor: str) -> StoredCursor | None:
        with translated(_ROLE):
            name, fields = self._name(listing, cursor), ["position", "earliest", "latest"]
            position, earliest, latest = await self._opened().hmget(name, fields)
        return (
            None if position is None else StoredCursor(json.decode(position, type=Position), int(earliest), int(latest))
        )

    def _name(self, listing: Listing, cursor: str) -> str:
        return f"{self._prefix}:{{{listing.lineage}}}:cursor:{listing.query}:{listing.resource}:{cursor}"

    # --- the request log -------------------------------------------------------------

    async def disclose(self, record: RequestRecord) -> None:
        try:
            await self._log.disclose(record)
        except StoreUnreachable:
            await self._defer(DeferredDisclosure(record))

    # --- transfer to the store ---------------------------------------------------------

    async def _defer(self, deferred: Deferred) -> None:
        with translated(_ROLE):
            await self._opened().rpush(self._deferred, json.encode(deferred))

    async def _complete_since(self) -> int:
        with translated(_ROLE):
            mark = await self._opened().get(self._mark)
        if mark is None:
            raise StoreUnavailable(Message("cursors_lost", "bridge: cursors that were handed out may have been lost."))
        return int(mark)

    def _opened(self) -> Any:
        if self._maintenance is None:
            self._maintenance = asyncio.get_running_loop().create_task(self._maintain())
        return self._client.opened()

    async def _maintain(self) -> None:
        while True:
            # If Valkey or the store is unreachable, try again after MAINTAIN_SEC.
            with suppress(StoreUnavailable):
                await self.maintain()
            await asyncio.sleep(MAINTAIN_SEC)

    async def maintain(self) -> None:
        """Set or renew the bridge's mark, and transfer deferred cursors and disclosures to the store."""
        with translated(_ROLE):
            batch = self._opened().pipeline(transaction=False)
            batch.expire(self._mark, MARK_SEC)
            batch.lrange(self._deferred, 0, BATCH_SIZE - 1)
            marked, waiting = await batch.execute()
        if not marked:
            since = await self._store.horizon() + SETTLING_MS
            with translated(_ROLE):
                await self._opened().set(self._mark, since, nx=True, ex=MARK_SEC)
        for entry in waiting:
            await self._transfer(entry)
            with translated(_ROLE):
                # Remove it by value: another worker may be transferring it too, and then records it twice.
                await self._opened().lrem(self._deferred, 1, entry)

    async def _transfer(self, entry: bytes) -> None:
        try:
            deferred = _deferred(entry)
        except DecodeError:
            # Another version wrote this entry. Keep it in a separate list, where it blocks no others.
            with translated(_ROLE):
                await self._opened().rpush(f"{self._deferred}:unreadable", entry)
            return
        match deferred:
            case DeferredCursor(listing, cursor, held, at):
                await self._store.adopt(listing, cursor, held, at)
            case DeferredDisclosure(record):
                await self._log.disclose(record)
