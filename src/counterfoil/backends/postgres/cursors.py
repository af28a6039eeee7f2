"""Stores the cursors that were handed out. They are on the primary, so that all nodes see them."""

from collections.abc import Sequence
from typing import Any

from counterfoil.backends.postgres.pool import GATE_SEC, is_storable
from counterfoil.backends.postgres.servers import Servers
from counterfoil.domain.paging import EXTEND_MS, LIFETIME_MS, SHARED_MS, Listing, Position, StoredCursor
from counterfoil.ports import Clock

_FIND = """
    SELECT row_id, major, minor, earliest, latest, ends_at FROM cursors
    WHERE lineage = $1 AND resource = $2 AND query = $3 AND cursor = $4 AND ends_at > $5 AND NOT expired
"""
_FIND_ON_REPLICA = f"""
    SELECT found.*, horizon.at FROM horizon LEFT JOIN LATERAL ({_FIND}) AS found ON true
"""  # noqa: S608 - contains only constants
_EXTEND = """
    UPDATE cursors SET ends_at = greatest(ends_at, $5)
    WHERE lineage = $1 AND resource = $2 AND query = $3 AND cursor = $4 AND NOT expired
"""
_HORIZON = "SELECT at FROM horizon"
# Returns an existing cursor for the position if its horizons are close enough to the new ones, and updates its horizons
# and its lifetime. Otherwise, stores a new cursor under the row's ID, or under `fresh` if the row's ID is taken.
# Returns no row if `fresh` is needed but is NULL or taken. An ID is taken as long as the table has a row for it, even
# if that cursor has expired: see docs/decisions/0014.
_HAND_OUT = """
    INSERT INTO cursors AS held
        (lineage, resource, query, cursor, row_id, major, minor, earliest, latest, ends_at)
    SELECT $1, $2, $3, chosen, $4, $5, $6, $7, $8, $10 FROM (
        SELECT coalesce(
            (
                SELECT cursor FROM cursors
                WHERE lineage = $1 AND resource = $2 AND query = $3 AND row_id = $4 AND major = $5 AND minor = $6
                    AND ends_at > $9 AND NOT expired
                    AND greatest(latest, $8::bigint) - least(earliest, $7::bigint) <= $11::bigint
                ORDER BY earliest DESC LIMIT 1
            ),
            CASE
                WHEN EXISTS (
                    SELECT FROM cursors WHERE lineage = $1 AND resource = $2 AND query = $3 AND cursor = $4
                ) THEN $12::text
                ELSE $4
            END
        ) AS chosen
    ) AS choice WHERE chosen IS NOT NULL
    ON CONFLICT (lineage, resource, query, cursor) DO UPDATE SET
        earliest = least(held.earliest, excluded.earliest),
        latest = greatest(held.latest, excluded.latest),
        ends_at = greatest(held.ends_at, excluded.ends_at)
    WHERE (held.row_id, held.major, held.minor) = (excluded.row_id, excluded.major, excluded.minor)
        AND held.ends_at > $9 AND NOT held.expired
        AND greatest(held.latest, $8::bigint) - least(held.earliest, $7::bigint) <= $11::bigint
    RETURNING cursor
"""
_INSERT = """
    INSERT INTO cursors (lineage, resource, query, cursor, row_id, major, minor, earliest, latest, ends_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (lineage, resource, query, cursor)
"""
# Stores a cursor that was handed out while there was no primary. Its ID is long and random, so an existing row with
# this ID is the same cursor, already stored.
_ADOPT = f"{_INSERT} DO NOTHING"
# Stores a cursor that was lost in a failover or not transferred yet. It overwrites any other cursor with the same ID.
_CORRECT = f"""{_INSERT} DO UPDATE SET
    row_id = excluded.row_id, major = excluded.major, minor = excluded.minor,
    earliest = excluded.earliest, latest = excluded.latest,
    ends_at = excluded.ends_at, expired = false
"""


class PostgresCursors:
    """Stores cursors in the table `cursors`."""

    def __init__(self, servers: Servers, clock: Clock) -> None:
        self._servers = servers
        self._clock = clock
        # With several servers, do not wait long for an unresponsive primary: the bridge, if there is one, can store the
        # cursor instead.
        self._within = GATE_SEC if servers.several else None

    def close(self) -> None:
        self._servers.close()

    async def find(self, listing: Listing, cursor: str) -> StoredCursor | None:
        if not _is_storable(listing, cursor):
            return None
        now = self._clock.now_ms()
        row = await self._servers.primary.row(_FIND, *_key(listing), cursor, now, within=self._within)
        if row is None:
            return None
        if row[5] + EXTEND_MS <= now + LIFETIME_MS:
            await self._servers.primary.do(_EXTEND, *_key(listing), cursor, now + LIFETIME_MS, within=self._within)
        return _held(row)

    async def find_on_replica(self, listing: Listing, cursor: str, reached: int) -> StoredCursor | None:
        """Return a cursor as stored on a replica whose horizon is at least `reached`."""
        if not _is_storable(listing, cursor):
            return None
        asked = (*_key(listing), cursor, self._clock.now_ms())
        (row,) = await self._servers.rows(_FIND_ON_REPLICA, *asked, reached=reached)
        return _held(row) if row[0] is not None else None

    async def horizon(self) -> int:
        """Return the primary's horizon."""
        row = await self._servers.primary.row(_HORIZON, within=self._within)
        return int(row[0])

    async def hand_out(self, listing: Listing, held: StoredCursor, fresh: str | None) -> str | None:
        now = self._clock.now_ms()
        terms = (held.earliest, held.latest, now, now + LIFETIME_MS, SHARED_MS, fresh)
        values = (*_key(listing), *_where(held), *terms)
        row = await self._servers.primary.row(_HAND_OUT, *values, within=self._within)
        return str(row[0]) if row else None

    async def adopt(self, listing: Listing, cursor: str, held: StoredCursor, handed_out_at: int) -> None:
        """Store a cursor that the bridge handed out, unless it is already stored."""
        await self._put(_ADOPT, listing, cursor, held, handed_out_at)

    async def correct(self, listing: Listing, cursor: str, held: StoredCursor) -> None:
        """Store a cursor with the position it was handed out for, overwriting any other position."""
        await self._put(_CORRECT, listing, cursor, held, self._clock.now_ms())

    async def _put(self, statement: str, listing: Listing, cursor: str, held: StoredCursor, handed_out_at: int) -> None:
        terms = (held.earliest, held.latest, handed_out_at + LIFETIME_MS)
        values = (*_key(listing), cursor, *_where(held), *terms)
        await self._servers.primary.do(statement, *values, within=self._within)


def _held(row: Sequence[Any]) -> StoredCursor:
    row_id, major, minor, earliest, latest, *_ = row
    return StoredCursor(Position(major, minor, row_id), earliest, latest)


def _where(held: StoredCursor) -> tuple[str, int, int]:
    return held.position.id, held.position.major, held.position.minor


def _key(listing: Listing) -> tuple[str, str, str]:
    return listing.lineage, listing.resource, listing.query


def _is_storable(listing: Listing, cursor: str) -> bool:
    return is_storable(cursor) and is_storable(listing.resource)
