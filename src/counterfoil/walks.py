"""A reader's way through a list: where it goes on, and which cursor its page offers.

The decisions are in `domain/paging.py`; this file keeps and finds the
bookmarks that they are made from.
"""

from collections.abc import Callable, Sequence

from counterfoil.domain.paging import Bookmark, Place, Resumed, Trail, Walk, resume
from counterfoil.domain.problems import BAD_CURSOR, Refused
from counterfoil.ports import Bookmarks

# A row as a list returns it: its place first (major, minor, id), then whatever the list carries.
Row = tuple[int, int, str, *tuple[object, ...]]


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

    async def turn(
        self, trail: Trail, rows: Sequence[Row], limit: int, walk: Walk | None, horizon: int
    ) -> tuple[int, str | None]:
        """How many of the rows to return, and the cursor to offer after them.

        A page is cut short only when its last row is a cursor that another
        unfinished walk of the same key and parameters holds for another
        place: handing it out again would make the two indistinguishable.
        """
        if len(rows) < limit:
            if walk:
                await self._bookmarks.finish(walk.id)
            return len(rows), None
        count = await self._uncontested(trail, rows)
        place = _place(rows[count - 1])
        mark = Bookmark(trail.route, walk or Walk(self._new_id(), horizon), place)
        await self._bookmarks.keep(trail, mark)
        return count, place.id

    async def _uncontested(self, trail: Trail, rows: Sequence[Row]) -> int:
        for count in range(len(rows), 0, -1):
            if not await self._bookmarks.held_elsewhere(trail, _place(rows[count - 1])):
                return count
        return len(rows)


def _place(row: Row) -> Place:
    return Place(row[0], row[1], row[2])
