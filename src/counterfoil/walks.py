"""A reader's way through a list: where it goes on, and which cursor its page offers.

The decisions are in `domain/paging.py`; this file keeps and finds the
bookmarks that they are made from.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from counterfoil.domain.paging import Bookmark, Place, Resumed, Trail, Walk, resume
from counterfoil.domain.problems import BAD_CURSOR, Refused
from counterfoil.ports import Bookmarks


class Page(Protocol):
    """A page as a list returns it. A full one says where it ends."""

    @property
    def horizon(self) -> int: ...

    @property
    def count(self) -> int: ...

    @property
    def last(self) -> Place | None: ...


P = TypeVar("P", bound=Page)


class Walks:
    """The walks of all keys through one kind of list."""

    def __init__(self, bookmarks: Bookmarks, new_id: Callable[[], str]) -> None:
        self._bookmarks = bookmarks
        self._new_id = new_id

    async def go_on(self, trail: Trail, cursor: str, present: Place | None) -> Resumed:
        """Where the holder of this cursor reads on, or `bad_cursor`."""
        marks = await self._bookmarks.find(trail, cursor)
        resumed = resume(trail.route, present, marks)
        if resumed is None:
            raise Refused(BAD_CURSOR)
        if resumed.worn:
            await self._bookmarks.wear(trail, resumed.worn)
        return resumed

    async def page(
        self, trail: Trail, walk: Walk | None, limit: int, ask: Callable[[int], Awaitable[P]]
    ) -> tuple[P, str | None]:
        """The next page of a walk, and the cursor to offer after it.

        A page is cut short only when its last row is a cursor that another
        unfinished walk of the same key and parameters holds for another
        place: handing it out again would make the two indistinguishable.
        Pages of a single row cannot be, and so are handed out all the same.
        """
        page = await ask(limit)
        if page.count < limit:
            return await self._finished(page, walk)
        offered = page
        while await self._bookmarks.held_elsewhere(trail, _end_of(offered)):
            if offered.count == 1:
                offered = page
                break
            shorter = offered.count - 1
            offered = await ask(shorter)
            if offered.count < shorter:
                return await self._finished(offered, walk)
        place = _end_of(offered)
        await self._bookmarks.keep(trail, Bookmark(trail.route, walk or Walk(self._new_id(), offered.horizon), place))
        return offered, place.id

    async def _finished(self, page: P, walk: Walk | None) -> tuple[P, None]:
        """Fewer rows than were asked for are the last, and end the walk if it was one."""
        if walk:
            await self._bookmarks.finish(walk.id)
        return page, None


def _end_of(page: Page) -> Place:
    if page.last is None:
        raise AssertionError("a full page ends somewhere")
    return page.last
