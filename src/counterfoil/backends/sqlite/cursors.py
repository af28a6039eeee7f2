"""Stores the cursors that were handed out. They are in `usage.sqlite3`, so that all workers see them."""

import sqlite3
from pathlib import Path
from typing import Any

from counterfoil.backends.sqlite.files import (
    BRIEFLY_SEC,
    WAIT_SEC,
    read_write,
    retry_while_locked,
    row,
    translated,
    writing,
)
from counterfoil.backends.sqlite.usage import SqliteUsage
from counterfoil.domain.paging import EXTEND_MS, LIFETIME_MS, RESERVED_MS, SHARED_MS, Listing, Position, StoredCursor
from counterfoil.ports import Clock

PRUNE_ROWS = 5_000

_FIND = """
    SELECT row_id, major, minor, earliest, latest, ends_at FROM cursors
    WHERE lineage = ? AND resource = ? AND query = ? AND cursor = ? AND ends_at > ? AND NOT expired
"""
_EXTEND = """
    UPDATE cursors SET ends_at = max(ends_at, ?5)
    WHERE lineage = ?1 AND resource = ?2 AND query = ?3 AND cursor = ?4 AND NOT expired
"""
# Returns an existing cursor for the position if its horizons are close enough to the new ones, and updates its horizons
# and its lifetime. Otherwise, stores a new cursor under the row's ID, or under `fresh` if the row's ID is taken.
# Returns no row if `fresh` is needed but is NULL or taken. An ID is taken as long as the table has a row for it, even
# if that cursor has expired: see docs/decisions/0014.
_HAND_OUT = """
    INSERT INTO cursors (lineage, resource, query, cursor, row_id, major, minor, earliest, latest, ends_at)
    SELECT ?1, ?2, ?3, chosen, ?4, ?5, ?6, ?7, ?8, ?10 FROM (
        SELECT coalesce(
            (
                SELECT cursor FROM cursors
                WHERE lineage = ?1 AND resource = ?2 AND query = ?3 AND row_id = ?4 AND major = ?5 AND minor = ?6
                    AND ends_at > ?9 AND NOT expired AND max(latest, ?8) - min(earliest, ?7) <= ?11
                ORDER BY earliest DESC LIMIT 1
            ),
            CASE
                WHEN EXISTS (
                    SELECT 1 FROM cursors WHERE lineage = ?1 AND resource = ?2 AND query = ?3 AND cursor = ?4
                ) THEN ?12
                ELSE ?4
            END
        ) AS chosen
    ) WHERE chosen IS NOT NULL
    ON CONFLICT (lineage, resource, query, cursor) DO UPDATE SET
        earliest = min(earliest, excluded.earliest),
        latest = max(latest, excluded.latest),
        ends_at = max(ends_at, excluded.ends_at)
    WHERE row_id = excluded.row_id AND major = excluded.major AND minor = excluded.minor
        AND ends_at > ?9 AND NOT expired AND max(latest, ?8) - min(earliest, ?7) <= ?11
    RETURNING cursor
"""
# The row of an expired cursor is kept for RESERVED_MS, so that its ID stays taken. If the clock is ahead for a while,
# cursors may expire too early, but their rows are not deleted right away.
_DELETE = """
    DELETE FROM cursors WHERE rowid IN (SELECT rowid FROM cursors WHERE ends_at <= ?1 AND expired LIMIT ?2)
"""
_EXPIRE = """
    UPDATE cursors SET expired = 1, ends_at = ?1 + ?3
    WHERE rowid IN (SELECT rowid FROM cursors WHERE ends_at <= ?1 AND NOT expired LIMIT ?2)
"""


class SqliteCursors:
    """Stores cursors in the table `cursors`.

    A worker passes its meter as `beside` to share the meter's connection: with
    two connections, a write on one would invalidate the page cache of the other.
    """

    def __init__(self, folder: Path, clock: Clock, beside: SqliteUsage | None = None) -> None:
        self._clock = clock
        self._connection: sqlite3.Connection = beside.connection if beside else read_write(folder, "usage")

    def close(self) -> None:
        self._connection.close()

    async def find(self, listing: Listing, cursor: str) -> StoredCursor | None:
        now = self._clock.now_ms()
        found = row(self._connection, _FIND, (*_key(listing), cursor, now))
        if not found:
            return None
        row_id, major, minor, earliest, latest, ends_at = found
        if ends_at + EXTEND_MS <= now + LIFETIME_MS:
            await retry_while_locked(lambda: self._write(_EXTEND, (*_key(listing), cursor, now + LIFETIME_MS)))
        return StoredCursor(Position(major, minor, row_id), earliest, latest)

    async def hand_out(self, listing: Listing, held: StoredCursor, fresh: str | None) -> str | None:
        position, now = held.position, self._clock.now_ms()
        where = (position.id, position.major, position.minor)
        terms = (held.earliest, held.latest, now, now + LIFETIME_MS, SHARED_MS, fresh)
        values = (*_key(listing), *where, *terms)
        handed_out = await retry_while_locked(lambda: self._write(_HAND_OUT, values))
        return str(handed_out[0]) if handed_out else None

    def _write(self, statement: str, values: tuple[object, ...]) -> tuple[Any, ...] | None:
        """Run one statement in a transaction and return its first row."""
        with translated(), writing(self._connection, BRIEFLY_SEC):
            found: tuple[Any, ...] | None = self._connection.execute(statement, values).fetchone()
            return found

    def prune(self) -> int:
        """Delete cursors that expired long ago, expire cursors unused for 7 days, and return how many were expired."""
        now = self._clock.now_ms()
        self._in_portions(_DELETE, now)
        return self._in_portions(_EXPIRE, now, RESERVED_MS)

    def _in_portions(self, statement: str, now: int, *values: int) -> int:
        """Run a statement in batches, so that requests can write in between. Return the number of rows changed."""
        total = 0
        while True:
            with translated(), writing(self._connection, WAIT_SEC["usage"]):
                changed = self._connection.execute(statement, (now, PRUNE_ROWS, *values)).rowcount
            total += changed
            if changed < PRUNE_ROWS:
                return total


def _key(listing: Listing) -> tuple[str, str, str]:
    return listing.lineage, listing.resource, listing.query
