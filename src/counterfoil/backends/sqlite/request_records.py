"""Writes, moves, reads and deletes the request records in `usage.sqlite3`.

Adding a record to `requests` changes a page in each of three to five indexes. So an
admission writes the records of finished requests to `recent_requests`, which has
no index, and they are moved to `requests` later, several at a time: by the worker
if it has few, and otherwise by the supervisor.
"""

import sqlite3
import time
from collections.abc import Iterable

from counterfoil.backends.sqlite.files import PAUSE_SEC, WAIT_SEC, translated, writing
from counterfoil.domain.request_records import RequestRecord

# A transaction moves at most this many records, which takes about half a millisecond. One call of `move_in_parts` runs
# such transactions for at most MOVING_SEC.
MOVED_AT_ONCE = 128
MOVING_SEC = 0.25
EVERYTHING = 1 << 62
# Old records are deleted this many at a time, in transactions that take a few milliseconds each.
PRUNE_ROWS = 500

# Two of the parameters are "" instead of None: see `_values`.
_RECORD = """
    INSERT INTO {table} (at, key_id, route, status, error, took_us, personal_base, personal_members, request_id)
    VALUES (?, ?, ?, ?, nullif(?, ''), ?, nullif(?, ''), ?, ?)
"""
_RECORD_NOW, _RECORD_RECENT = _RECORD.format(table="requests"), _RECORD.format(table="recent_requests")
_OLDEST_RECENT = "SELECT min(rowid) FROM recent_requests"
# The parameter is the row number of the first record that is not moved.
_MOVE_RECENT = """
    INSERT INTO requests (at, key_id, route, status, error, took_us, personal_base, personal_members, request_id)
    SELECT at, key_id, route, status, error, took_us, personal_base, personal_members, request_id
    FROM recent_requests WHERE rowid < ? ORDER BY rowid
"""
_DELETE_MOVED = "DELETE FROM recent_requests WHERE rowid < ?"
_PRUNE_REQUESTS = "DELETE FROM requests WHERE number IN (SELECT number FROM requests WHERE at < ? LIMIT ?)"


# --- functions that need the write lock --------------------------------------


def write_recent(connection: sqlite3.Connection, records: Iterable[RequestRecord]) -> None:
    connection.executemany(_RECORD_RECENT, map(_values, records))


def write_indexed(connection: sqlite3.Connection, records: Iterable[RequestRecord]) -> None:
    connection.executemany(_RECORD_NOW, map(_values, records))


def move(connection: sqlite3.Connection, most: int) -> int:
    """Move up to `most` recent records to `requests`, the oldest first; return the number of records moved."""
    oldest = _oldest_recent(connection)
    if oldest is None:
        return 0
    moved = connection.execute(_MOVE_RECENT, (oldest + most,)).rowcount
    connection.execute(_DELETE_MOVED, (oldest + most,))
    return moved


# --- functions that take the write lock themselves ---------------------------


def has_recent(connection: sqlite3.Connection) -> bool:
    with translated():
        return _oldest_recent(connection) is not None


def move_in_parts(connection: sqlite3.Connection) -> None:
    """Move recent records to `requests`, in short transactions, so that requests do not wait long for the lock."""
    stop = time.monotonic() + MOVING_SEC
    while has_recent(connection) and time.monotonic() < stop:
        with translated(), writing(connection, WAIT_SEC["usage"]):
            moved = move(connection, MOVED_AT_ONCE)
        if moved < MOVED_AT_ONCE:
            return
        # Pause while the lock is free, so that waiting requests can take it.
        time.sleep(PAUSE_SEC)


def delete_before(connection: sqlite3.Connection, at: int) -> int:
    """Delete the records of requests before this instant; return the number of records deleted."""
    records = 0
    while True:
        with translated(), writing(connection, WAIT_SEC["usage"]):
            deleted = connection.execute(_PRUNE_REQUESTS, (at, PRUNE_ROWS)).rowcount
        records += deleted
        if deleted < PRUNE_ROWS:
            return records
        # Pause while the lock is free, so that waiting requests can take it.
        time.sleep(PAUSE_SEC)


def _oldest_recent(connection: sqlite3.Connection) -> int | None:
    row: tuple[int | None] = connection.execute(_OLDEST_RECENT).fetchone()
    return row[0]


def _values(record: RequestRecord) -> tuple[object, ...]:
    """Return the parameters of `_RECORD`.

    For None, Python's `sqlite3` would look for an adapter, which takes a
    microsecond, so "" stands for None.
    """
    return (
        record.at,
        record.key_id,
        record.route,
        record.status,
        record.error or "",
        record.took_us,
        record.personal_base or "",
        record.personal_members,
        record.request_id,
    )
