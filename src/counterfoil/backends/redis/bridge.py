"""A bridge over the time without a primary: what must be kept before an answer leaves is kept here.

Cursors' places are written here as well as to the store, all the time. While
nothing can be written there they are kept here alone, with what else has to
wait, and go to the store when it is back. A place is looked for in both.

While the primary is away a replica stands in for it, and may lack the latest
places. Those are here, if all of them have been since before the replica's
horizon: the mark says from which horizon on that is so. It is gone when this
server loses its memory, and then the answer is an error and no wrong place.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

from msgspec import Struct, json

from counterfoil.backends.redis.client import Client, translated
from counterfoil.domain.paging import Bookmark, Place, Trail, Walk
from counterfoil.ports import Clock, RequestLog, RequestRecord, StoreUnavailable, StoreUnreachable

# Longer than a replica may be behind and a client may take from one page to the next.
PLACE_SEC = 3_600
# A place that is here alone lasts as long as it would in the store.
ALONE_SEC = 7 * 86_400
TEND_SEC = 1.0
# Nobody writes here while nobody tends the bridge.
UNTENDED_SEC = 60
# A request that was under way when the mark was made has ended before its horizon is this much higher.
SETTLING_MS = 10_000
AT_ONCE = 100


class Kept(Struct, frozen=True, tag="keep"):
    trail: Trail
    mark: Bookmark


class Worn(Struct, frozen=True, tag="wear"):
    trail: Trail
    mark: Bookmark


class Finished(Struct, frozen=True, tag="finish"):
    walk_id: str


class Disclosed(Struct, frozen=True, tag="disclose"):
    record: RequestRecord


Deed = Kept | Worn | Finished | Disclosed


class Seen(Struct, frozen=True, array_like=True):
    """A place as it is kept here."""

    route: str
    walk: Walk
    place: Place
    kept_at: int
    alone: bool

    def bookmark(self) -> Bookmark:
        return Bookmark(self.route, self.walk, self.place)


class Store(Protocol):
    """The store that the bridge leads to."""

    async def find(self, trail: Trail, cursor: str) -> list[Bookmark]: ...

    async def find_on_replica(self, trail: Trail, cursor: str, reached: int) -> list[Bookmark]:
        """The same from a replica that has reached this horizon."""

    async def keep(self, trail: Trail, bookmark: Bookmark) -> None: ...

    async def wear(self, trail: Trail, bookmark: Bookmark) -> None: ...

    async def finish(self, walk_id: str) -> None: ...

    async def horizon(self) -> int:
        """The primary's."""


_deed = json.Decoder(Deed).decode
_seen = json.Decoder(Seen).decode


class Bridge:
    """Bookmarks and disclosures that outlive the primary."""

    def __init__(self, url: str, prefix: str, store: Store, log: RequestLog, clock: Clock) -> None:
        self._client = Client(url)
        self._store = store
        self._log = log
        self._clock = clock
        self._prefix = prefix
        # Under one hash tag, so that a cluster keeps both in one slot.
        self._mark, self._waiting = f"{prefix}:{{bridge}}:mark", f"{prefix}:{{bridge}}:waiting"
        self._tending: asyncio.Task[None] | None = None

    def close(self) -> None:
        if self._tending is not None and not self._tending.get_loop().is_closed():
            self._tending.cancel()
        self._client.close()

    # --- bookmarks -----------------------------------------------------------------

    async def find(self, trail: Trail, cursor: str) -> list[Bookmark]:
        kept, here = await asyncio.gather(
            self._store.find(trail, cursor), self._places(trail, cursor), return_exceptions=True
        )
        if isinstance(here, BaseException):
            raise here
        if isinstance(kept, StoreUnreachable):
            kept = await self._store.find_on_replica(trail, cursor, await self._unbroken_since())
        elif isinstance(kept, BaseException):
            raise kept
        return _together(kept, here)

    async def keep(self, trail: Trail, bookmark: Bookmark) -> None:
        kept, noted = await asyncio.gather(
            self._store.keep(trail, bookmark), self._note(trail, bookmark, alone=False), return_exceptions=True
        )
        if isinstance(noted, BaseException):
            raise noted
        if isinstance(kept, StoreUnreachable):
            await self._defer(Kept(trail, bookmark))
            await self._note(trail, bookmark, alone=True)
        elif isinstance(kept, BaseException):
            raise kept

    async def wear(self, trail: Trail, bookmark: Bookmark) -> None:
        try:
            await self._store.wear(trail, bookmark)
        except StoreUnreachable:
            await self._defer(Worn(trail, bookmark))

    async def finish(self, walk_id: str) -> None:
        try:
            await self._store.finish(walk_id)
        except StoreUnreachable:
            await self._defer(Finished(walk_id))

    async def _note(self, trail: Trail, mark: Bookmark, *, alone: bool) -> None:
        seen = Seen(mark.route, mark.walk, mark.place, self._clock.now_ms(), alone)
        name = self._name(trail, mark.place.id)
        field = f"{mark.route} {mark.place.major} {mark.place.minor} {mark.walk.id}"
        with translated():
            batch = self._opened().pipeline(transaction=False)
            batch.hset(name, field, json.encode(seen))
            batch.expire(name, ALONE_SEC if alone else PLACE_SEC)
            await batch.execute()

    async def _places(self, trail: Trail, cursor: str) -> list[Seen]:
        with translated():
            found = await self._opened().hvals(self._name(trail, cursor))
        return sorted(map(_seen, found), key=lambda seen: seen.kept_at)

    def _name(self, trail: Trail, cursor: str) -> str:
        return f"{self._prefix}:{{{trail.lineage}}}:place:{trail.listing}:{cursor}"

    # --- the request log -------------------------------------------------------------

    def note(self, record: RequestRecord) -> None:
        self._log.note(record)

    async def disclose(self, record: RequestRecord) -> None:
        try:
            await self._log.disclose(record)
        except StoreUnreachable:
            await self._defer(Disclosed(record))

    # --- the way to the store ----------------------------------------------------------

    async def _defer(self, deed: Deed) -> None:
        with translated():
            await self._opened().rpush(self._waiting, json.encode(deed))

    async def _unbroken_since(self) -> int:
        with translated():
            mark = await self._opened().get(self._mark)
        if mark is None:
            raise StoreUnavailable("bridge: places that were given out may have been lost")
        return int(mark)

    def _opened(self) -> Any:
        if self._tending is None:
            self._tending = asyncio.get_running_loop().create_task(self._tend())
        return self._client.opened()

    async def _tend(self) -> None:
        while True:
            # Either side may be away; the next round sees.
            with suppress(StoreUnavailable):
                await self.tend()
            await asyncio.sleep(TEND_SEC)

    async def tend(self) -> None:
        """Keep the mark, and bring to the store what waits for it."""
        with translated():
            batch = self._opened().pipeline(transaction=False)
            batch.expire(self._mark, UNTENDED_SEC)
            batch.lrange(self._waiting, 0, AT_ONCE - 1)
            marked, waiting = await batch.execute()
        if not marked:
            since = await self._store.horizon() + SETTLING_MS
            with translated():
                await self._opened().set(self._mark, since, nx=True, ex=UNTENDED_SEC)
        for deed in waiting:
            await self._carry(_deed(deed))
            with translated():
                # By its value: another worker may be at it, and doing it twice does no harm.
                await self._opened().lrem(self._waiting, 1, deed)

    async def _carry(self, deed: Deed) -> None:
        match deed:
            case Kept(trail, mark):
                await self._store.keep(trail, mark)
            case Worn(trail, mark):
                await self._store.wear(trail, mark)
            case Finished(walk_id):
                await self._store.finish(walk_id)
            case Disclosed(record):
                await self._log.disclose(record)


def _together(kept: Sequence[Bookmark], here: Sequence[Seen]) -> list[Bookmark]:
    """Places of the store, then those that are here alone. One that was kept again here is open again."""
    reopened = {(seen.route, seen.walk, seen.place) for seen in here if seen.alone}
    marks = [
        Bookmark(mark.route, mark.walk, mark.place, finished=False, returns=mark.returns)
        if mark.finished and (mark.route, mark.walk, mark.place) in reopened
        else mark
        for mark in kept
    ]
    known = {(mark.route, mark.walk, mark.place) for mark in kept}
    return marks + [seen.bookmark() for seen in here if (seen.route, seen.walk, seen.place) not in known]
