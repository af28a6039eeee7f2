"""The cursors that were handed out, as both back ends store them. The statements run on both.

Their parameters are written as asyncpg reads them. SQLite takes the same ones by name: see `numbered`.
"""

from abc import ABC, abstractmethod
from typing import Any

from msgspec.structs import astuple

from counterfoil.domain.paging import EXTEND_MS, LIFETIME_MS, SHARED_MS, Listing, Position, StoredCursor
from counterfoil.ports import Clock

FIND = """
    SELECT row_id, major, minor, earliest, latest, ends_at FROM cursors
    WHERE lineage = $1 AND resource = $2 AND query = $3 AND cursor = $4 AND ends_at > $5 AND NOT expired
"""
EXTEND = """
    UPDATE cursors SET ends_at = CASE WHEN ends_at > $5 THEN ends_at ELSE $5 END
    WHERE lineage = $1 AND resource = $2 AND query = $3 AND cursor = $4 AND NOT expired
"""
# Returns an existing cursor for the position if its horizons are close enough to the new ones, and updates its horizons
# and its lifetime. Otherwise, stores a new cursor under the row's ID, or under `fresh` if the row's ID is taken.
# Returns no row if `fresh` is needed but is NULL or taken. An ID is taken as long as the table has a row for it, even
# if that cursor has expired: see docs/decisions/0014.
HAND_OUT = """
    INSERT INTO cursors AS held
        (lineage, resource, query, cursor, row_id, major, minor, earliest, latest, ends_at)
    SELECT $1, $2, $3, chosen, $4, $5, $6, $7, $8, $10 FROM (
        SELECT coalesce(
            (
                SELECT cursor FROM cursors
                WHERE lineage = $1 AND resource = $2 AND query = $3 AND row_id = $4 AND major = $5 AND minor = $6
                    AND ends_at > $9 AND NOT expired
                    AND latest - earliest <= $11 AND latest - $7 <= $11
                    AND $8 - earliest <= $11 AND $8 - $7 <= $11
                ORDER BY earliest DESC LIMIT 1
            ),
            CASE
                WHEN EXISTS (
                    SELECT 1 FROM cursors WHERE lineage = $1 AND resource = $2 AND query = $3 AND cursor = $4
                ) THEN CAST($12 AS text)
                ELSE $4
            END
        ) AS chosen
    ) AS choice WHERE chosen IS NOT NULL
    ON CONFLICT (lineage, resource, query, cursor) DO UPDATE SET
        earliest = CASE WHEN held.earliest < excluded.earliest THEN held.earliest ELSE excluded.earliest END,
        latest = CASE WHEN held.latest > excluded.latest THEN held.latest ELSE excluded.latest END,
        ends_at = CASE WHEN held.ends_at > excluded.ends_at THEN held.ends_at ELSE excluded.ends_at END
    WHERE held.row_id = excluded.row_id AND held.major = excluded.major AND held.minor = excluded.minor
        AND held.ends_at > $9 AND NOT held.expired
        AND held.latest - held.earliest <= $11 AND held.latest - $7 <= $11
        AND $8 - held.earliest <= $11 AND $8 - $7 <= $11
    RETURNING cursor
"""


class StoredCursors(ABC):
    """Finds cursors in the table `cursors` and hands them out."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    @abstractmethod
    async def _found(self, values: tuple[object, ...]) -> Any:
        """Return the row that FIND finds, or None."""

    @abstractmethod
    async def _write(self, statement: str, values: tuple[object, ...]) -> Any:
        """Run EXTEND or HAND_OUT in a transaction, and return its first row."""

    async def find(self, listing: Listing, cursor: str) -> StoredCursor | None:
        now = self._clock.now_ms()
        row = await self._found((*astuple(listing), cursor, now))
        if row is None:
            return None
        if row[5] + EXTEND_MS <= now + LIFETIME_MS:
            await self._write(EXTEND, (*astuple(listing), cursor, now + LIFETIME_MS))
        return held_in(row)

    async def hand_out(self, listing: Listing, held: StoredCursor, fresh: str | None) -> str | None:
        now = self._clock.now_ms()
        terms = (held.earliest, held.latest, now, now + LIFETIME_MS, SHARED_MS, fresh)
        row = await self._write(HAND_OUT, (*astuple(listing), *place_of(held), *terms))
        return str(row[0]) if row else None


def numbered(values: tuple[object, ...]) -> dict[str, object]:
    """Return the parameters `$1`, `$2` and so on as SQLite takes them."""
    return {str(number): value for number, value in enumerate(values, 1)}


def held_in(row: Any) -> StoredCursor:
    row_id, major, minor, earliest, latest, *_ = row
    return StoredCursor(Position(major, minor, row_id), earliest, latest)


def place_of(held: StoredCursor) -> tuple[str, int, int]:
    return held.position.id, held.position.major, held.position.minor
