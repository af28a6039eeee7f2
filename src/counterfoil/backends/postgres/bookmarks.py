"""The places at which cursors were handed out, kept on the primary for all nodes to see."""

from collections.abc import Sequence
from typing import Any

from counterfoil.backends.postgres.connections import GATE_SEC, Line, translated
from counterfoil.backends.postgres.servers import Servers
from counterfoil.domain.paging import COMPANY, Bookmark, Place, Trail, Walk, crowd, is_crowd, latest_serves
from counterfoil.ports import Clock

# A walk that pauses longer than this goes on from its row's present place.
LIFETIME_MS = 7 * 24 * 3_600_000
PRUNE_ROWS = 5_000

_FIND = """
    SELECT route, walk, horizon, major, minor, finished, returns FROM bookmarks
    WHERE lineage = $1 AND listing = $2 AND cursor = $3 ORDER BY kept_at, first_kept
"""
_FIND_ON_REPLICA = f"""
    SELECT found.*, horizon.at FROM horizon LEFT JOIN LATERAL ({_FIND}) AS found ON true
"""  # noqa: S608 - a constant
_HORIZON = "SELECT at FROM horizon"
# Two ranges of the index, around the place itself: however many walks hold that, none of them is looked at.
_HELD_ELSEWHERE = """
    SELECT EXISTS (
        SELECT FROM bookmarks WHERE lineage = $1 AND listing = $2 AND cursor = $3 AND route = $4
            AND (major, minor) < ($5, $6) AND NOT finished
    ) OR EXISTS (
        SELECT FROM bookmarks WHERE lineage = $1 AND listing = $2 AND cursor = $3 AND route = $4
            AND (major, minor) > ($5, $6) AND NOT finished
    )
"""
_AT_THE_PLACE = """
    SELECT walk FROM bookmarks
    WHERE lineage = $1 AND listing = $2 AND cursor = $3 AND route = $4 AND major = $5 AND minor = $6
"""
# The bookmarks of walks that have finished at the same place go; a walk joins the crowd where there are enough others.
_KEEP = f"""
    WITH gone AS (
        DELETE FROM bookmarks
        WHERE lineage = $1 AND listing = $2 AND cursor = $3 AND route = $4 AND major = $5 AND minor = $6
            AND walk = ANY (ARRAY({_AT_THE_PLACE} AND walk <> $7 AND finished FOR UPDATE SKIP LOCKED))
    )
    INSERT INTO bookmarks AS kept (lineage, listing, cursor, route, major, minor, walk, horizon, kept_at)
    VALUES ($1, $2, $3, $4, $5, $6, CASE
        WHEN EXISTS ({_AT_THE_PLACE} AND walk = $7) THEN $7
        WHEN EXISTS ({_AT_THE_PLACE} AND NOT finished OFFSET {COMPANY - 1}) THEN $10
        ELSE $7
    END, $8, $9)
    ON CONFLICT (lineage, listing, cursor, route, major, minor, walk) DO UPDATE SET
        horizon = CASE
            WHEN kept.finished THEN excluded.horizon
            WHEN $11 THEN greatest(kept.horizon, excluded.horizon)
            ELSE least(kept.horizon, excluded.horizon)
        END,
        kept_at = excluded.kept_at,
        finished = false
"""  # noqa: S608 - a constant
_WEAR = """
    UPDATE bookmarks SET returns = returns + 1
    WHERE lineage = $1 AND listing = $2 AND cursor = $3 AND route = $4 AND major = $5 AND minor = $6
"""
_FINISH = "UPDATE bookmarks SET finished = true WHERE walk = $1 AND NOT finished"
_PRUNE = "DELETE FROM bookmarks WHERE ctid = ANY (ARRAY(SELECT ctid FROM bookmarks WHERE kept_at < %s LIMIT %s))"


class PostgresBookmarks:
    def __init__(self, servers: Servers, url: str, clock: Clock) -> None:
        self._servers = servers
        self._url = url
        self._clock = clock
        # Where a page can be kept elsewhere, nobody waits long for a primary that does not answer.
        self._within = GATE_SEC if servers.several else None

    def close(self) -> None:
        self._servers.close()

    async def find(self, trail: Trail, cursor: str) -> list[Bookmark]:
        asked = (trail.lineage, trail.listing, cursor)
        return _bookmarks(await self._servers.primary.rows(_FIND, *asked, within=self._within), cursor)

    async def find_on_replica(self, trail: Trail, cursor: str, reached: int) -> list[Bookmark]:
        """What a replica knows that has come this far."""
        rows = await self._servers.rows(_FIND_ON_REPLICA, trail.lineage, trail.listing, cursor, reached=reached)
        return _bookmarks([row for row in rows if row[0] is not None], cursor)

    async def horizon(self) -> int:
        row = await self._servers.primary.row(_HORIZON, within=self._within)
        return int(row[0])

    async def held_elsewhere(self, trail: Trail, place: Place) -> bool:
        held = (trail.lineage, trail.listing, place.id, trail.route, place.major, place.minor)
        ((held_elsewhere,),) = await self._servers.primary.rows(_HELD_ELSEWHERE, *held, within=self._within)
        return bool(held_elsewhere)

    async def keep(self, trail: Trail, bookmark: Bookmark) -> None:
        place, walk = bookmark.place, bookmark.walk
        kept_at = self._clock.now_ms()
        await self._servers.primary.do(
            _KEEP,
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
            within=self._within,
        )

    async def wear(self, trail: Trail, bookmark: Bookmark) -> None:
        place = bookmark.place
        await self._servers.primary.do(
            _WEAR, trail.lineage, trail.listing, place.id, bookmark.route, place.major, place.minor
        )

    async def finish(self, walk_id: str) -> None:
        if not is_crowd(walk_id):
            await self._servers.primary.do(_FINISH, walk_id, within=self._within)

    def prune(self) -> int:
        """Forget bookmarks past their lifetime; how many went."""
        pruned = 0
        with translated():
            line = Line(self._url)
            try:
                while True:
                    gone = line().execute(_PRUNE, (self._clock.now_ms() - LIFETIME_MS, PRUNE_ROWS)).rowcount
                    pruned += gone
                    if gone < PRUNE_ROWS:
                        return pruned
            finally:
                line.close()


def _bookmarks(rows: Sequence[Any], cursor: str) -> list[Bookmark]:
    return [
        Bookmark(route, Walk(walk, horizon), Place(major, minor, cursor), finished, returns)
        for route, walk, horizon, major, minor, finished, returns, *_ in rows
    ]
