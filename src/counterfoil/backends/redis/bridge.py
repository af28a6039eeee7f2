"""A bridge over the time without a primary: what must be kept before an answer leaves is kept here.

Cursors' places are written here as well as to the store, all the time. While
nothing can be written there they are kept here alone, with what else has to
wait, and go to the store when it is back. A place is looked for in both.
Of the walks that came to a place and are in the store too, the earliest and
the latest horizon of an hour are all that is kept, however many they were.

While the primary is away a replica stands in for it, and may lack the latest
places. Those are here, if all of them have been since before the replica's
horizon: the mark says from which horizon on that is so. It is gone when this
server loses its memory, and then the answer is an error and no wrong place.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from msgspec import Struct, json
from msgspec.structs import replace

from counterfoil.backends.redis.client import Client, Script, translated
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

_NOTE = Script("note.lua")

T = TypeVar("T")


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

    def known_as(self) -> tuple[str, Place, str]:
        return (self.route, self.place, self.walk.id)


class Store(Protocol):
    """The store that the bridge leads to."""

    async def find(self, trail: Trail, cursor: str) -> list[Bookmark]: ...

    async def find_on_replica(self, trail: Trail, cursor: str, reached: int) -> list[Bookmark]:
        """The same from a replica that has reached this horizon."""

    async def held_elsewhere(self, trail: Trail, place: Place) -> bool: ...

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
        kept, here = await self._both(self._store.find(trail, cursor), trail, cursor)
        if kept is None:
            return await self._without_primary(trail, cursor, here)
        return _together(kept, _wanting(kept, here))

    async def held_elsewhere(self, trail: Trail, place: Place) -> bool:
        held, here = await self._both(self._store.held_elsewhere(trail, place), trail, place.id)
        if held is None:
            marks = await self._without_primary(trail, place.id, here)
        elif held or all(seen.route != trail.route or seen.place == place for seen in here):
            return held
        else:
            marks = await self.find(trail, place.id)
        return any(mark.route == trail.route and not mark.finished and mark.place != place for mark in marks)

    async def _both(self, asked: Awaitable[T], trail: Trail, cursor: str) -> tuple[T | None, list[Seen]]:
        """What the store answers, nothing if it is away; and the places that are here."""
        answered, here = await asyncio.gather(asked, self._places(trail, cursor), return_exceptions=True)
        if isinstance(here, BaseException):
            raise here
        if isinstance(answered, StoreUnreachable):
            return None, here
        if isinstance(answered, BaseException):
            raise answered
        return answered, here

    async def _without_primary(self, trail: Trail, cursor: str, here: Sequence[Seen]) -> list[Bookmark]:
        """A replica may not know yet who came after and who has finished: all that are here may be on their way."""
        kept = await self._store.find_on_replica(trail, cursor, await self._unbroken_since())
        return _together(kept, here)

    async def keep(self, trail: Trail, bookmark: Bookmark) -> None:
        kept, noted = await asyncio.gather(
            self._store.keep(trail, bookmark), self._note(trail, bookmark), return_exceptions=True
        )
        if isinstance(noted, BaseException):
            raise noted
        if isinstance(kept, StoreUnreachable):
            await self._note_alone(trail, bookmark)
            await self._defer(Kept(trail, bookmark))
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

    async def _note(self, trail: Trail, mark: Bookmark) -> None:
        now = self._clock.now_ms()
        seen = json.encode(Seen(mark.route, mark.walk, mark.place, now, alone=False))
        name = self._name(trail, mark.place.id)
        await _NOTE.run(self._opened(), [name], [_spot(mark), now, mark.walk.horizon, seen, PLACE_SEC])

    async def _note_alone(self, trail: Trail, mark: Bookmark) -> None:
        """Until the store has it, this walk has a field of its own."""
        seen = Seen(mark.route, mark.walk, mark.place, self._clock.now_ms(), alone=True)
        name = self._name(trail, mark.place.id)
        with translated():
            batch = self._opened().pipeline(transaction=False)
            batch.hset(name, _alone(mark), json.encode(seen))
            batch.expire(name, ALONE_SEC)
            await batch.execute()

    async def _places(self, trail: Trail, cursor: str) -> list[Seen]:
        with translated():
            found = await self._opened().hvals(self._name(trail, cursor))
        # The others in the hash may have kept it for longer than the store can have lacked this one.
        oldest = self._clock.now_ms() - 2 * PLACE_SEC * 1000
        places = [seen for seen in map(_seen, found) if seen.alone or seen.kept_at >= oldest]
        return sorted(places, key=lambda seen: seen.kept_at)

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
                # By its value: another worker may be at it. Done twice, a return or a disclosure counts twice.
                await self._opened().lrem(self._waiting, 1, deed)

    async def _carry(self, deed: Deed) -> None:
        match deed:
            case Kept(trail, mark):
                await self._store.keep(trail, mark)
                with translated():
                    await self._opened().hdel(self._name(trail, mark.place.id), _alone(mark))
            case Worn(trail, mark):
                await self._store.wear(trail, mark)
            case Finished(walk_id):
                await self._store.finish(walk_id)
            case Disclosed(record):
                await self._log.disclose(record)


def _spot(mark: Bookmark) -> str:
    return f"{mark.route} {mark.place.major} {mark.place.minor}"


def _alone(mark: Bookmark) -> str:
    return f"{_spot(mark)} {mark.walk.id}"


def _wanting(kept: Sequence[Bookmark], here: Sequence[Seen]) -> list[Seen]:
    """What the store has not got: what is here alone, and where it lost the latest walk, all that came there.

    The store forgets walks that finished and joins others to a crowd, but
    never the latest that came to a place. If that one is only here, the store
    went back to before it, and those between may be missing too.
    """
    known = {(mark.route, mark.place, mark.walk.id) for mark in kept}
    latest: dict[tuple[str, Place], int] = {}
    for mark in kept:
        spot = (mark.route, mark.place)
        latest[spot] = max(mark.walk.horizon, latest.get(spot, mark.walk.horizon))
    lost = {
        (seen.route, seen.place)
        for seen in here
        if seen.known_as() not in known and seen.walk.horizon > latest.get((seen.route, seen.place), -1)
    }
    return [seen for seen in here if seen.alone or (seen.route, seen.place) in lost]


def _together(kept: Sequence[Bookmark], here: Sequence[Seen]) -> list[Bookmark]:
    """Places of the store, then those that only this side knows. One that was kept again here is open again."""
    reopened = {seen.known_as() for seen in here}
    marks = [
        replace(mark, finished=False) if mark.finished and (mark.route, mark.place, mark.walk.id) in reopened else mark
        for mark in kept
    ]
    known = {(mark.route, mark.place, mark.walk.id) for mark in kept}
    return [*marks, *{seen.known_as(): seen.bookmark() for seen in here if seen.known_as() not in known}.values()]
