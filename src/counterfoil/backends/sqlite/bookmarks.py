"""The places at which cursors were handed out, kept in `usage.sqlite3` for all workers to see."""

import sqlite3
from pathlib import Path

from counterfoil.backends.sqlite.files import WAIT_SEC, read_write, row, rows, translated, writing
from counterfoil.backends.sqlite.usage import SqliteUsage
from counterfoil.domain.paging import COMPANY, Bookmark, Place, Trail, Walk, crowd, is_crowd, latest_serves
from counterfoil.ports import Clock

# A walk that pauses longer than this goes on from its row's present place.
LIFETIME_MS = 7 * 24 * 3_600_000
PRUNE_ROWS = 5_000

_FIND = """
    SELECT route, walk, horizon, major, minor, finished, returns FROM bookmarks
    WHERE lineage = ? AND listing = ? AND cursor = ? ORDER BY kept_at, number
"""
# Two ranges of the index, around the place itself: however many walks hold that, none of them is looked at.
# (With < and > SQLite would step over every one of them.)
_HELD_ELSEWHERE = """
    SELECT EXISTS (
        SELECT 1 FROM bookmarks WHERE lineage = ?1 AND listing = ?2 AND cursor = ?3 AND route = ?4
            AND (major, minor) <= (?5, ?6 - 1) AND NOT finished
    ) OR EXISTS (
        SELECT 1 FROM bookmarks WHERE lineage = ?1 AND listing = ?2 AND cursor = ?3 AND route = ?4
            AND (major, minor) >= (?5, ?6 + 1) AND NOT finished
    )
"""
# A walk takes the bookmark of one that has finished at the same place, and joins the crowd where there is none left.
_KEEP = f"""
    INSERT INTO bookmarks (lineage, listing, cursor, route, major, minor, walk, horizon, kept_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, (
        SELECT CASE
            WHEN max(walk = ?7) THEN ?7
            WHEN max(finished) THEN max(iif(finished, walk, NULL))
            WHEN count(*) >= {COMPANY} THEN ?10
            ELSE ?7
        END
        FROM bookmarks WHERE lineage = ?1 AND listing = ?2 AND cursor = ?3 AND route = ?4 AND major = ?5 AND minor = ?6
    ), ?8, ?9)
    ON CONFLICT DO UPDATE SET
        walk = iif(finished, ?7, walk),
        horizon = iif(finished, ?8, iif(?11, max(horizon, ?8), min(horizon, ?8))),
        returns = iif(finished AND walk <> ?7, 0, returns),
        kept_at = ?9,
        finished = 0
"""  # noqa: S608 - a constant
_WEAR = """
    UPDATE bookmarks SET returns = returns + 1
    WHERE lineage = ? AND listing = ? AND cursor = ? AND route = ? AND major = ? AND minor = ?
"""
_FINISH = "UPDATE bookmarks SET finished = 1 WHERE walk = ? AND NOT finished"
_PRUNE = "DELETE FROM bookmarks WHERE number IN (SELECT number FROM bookmarks WHERE kept_at < ? LIMIT ?)"


class SqliteBookmarks:
    """In a worker `beside` the meter, on its connection: two on one file would make each other read it anew."""

    def __init__(self, folder: Path, clock: Clock, beside: SqliteUsage | None = None) -> None:
        self._clock = clock
        self._connection: sqlite3.Connection = beside.connection if beside else read_write(folder, "usage")

    def close(self) -> None:
        self._connection.close()

    async def find(self, trail: Trail, cursor: str) -> list[Bookmark]:
        found = rows(self._connection, _FIND, (trail.lineage, trail.listing, cursor))
        return [
            Bookmark(route, Walk(walk, horizon), Place(major, minor, cursor), bool(finished), returns)
            for route, walk, horizon, major, minor, finished, returns in found
        ]

    async def held_elsewhere(self, trail: Trail, place: Place) -> bool:
        held = (trail.lineage, trail.listing, place.id, trail.route, place.major, place.minor)
        (elsewhere,) = row(self._connection, _HELD_ELSEWHERE, held)
        return bool(elsewhere)

    async def keep(self, trail: Trail, bookmark: Bookmark) -> None:
        place, walk = bookmark.place, bookmark.walk
        kept_at = self._clock.now_ms()
        self._write(
            _KEEP,
            (
                trail.lineage,
                trail.listing,
                place.id,
                bookmark.route,
                place.major,
                place.minor,
                walk.id,
                walk.horizon,
                kept_at,
                crowd(kept_at),
                latest_serves(bookmark.route),
            ),
        )

    async def wear(self, trail: Trail, bookmark: Bookmark) -> None:
        place = bookmark.place
        self._write(_WEAR, (trail.lineage, trail.listing, place.id, bookmark.route, place.major, place.minor))

    async def finish(self, walk_id: str) -> None:
        if not is_crowd(walk_id):
            self._write(_FINISH, (walk_id,))

    def prune(self) -> int:
        """Forget bookmarks past their lifetime; how many went."""
        pruned = 0
        while True:
            gone = self._write(_PRUNE, (self._clock.now_ms() - LIFETIME_MS, PRUNE_ROWS))
            pruned += gone
            if gone < PRUNE_ROWS:
                return pruned

    def _write(self, statement: str, values: tuple[object, ...]) -> int:
        with translated(), writing(self._connection, WAIT_SEC["usage"]):
            return self._connection.execute(statement, values).rowcount
