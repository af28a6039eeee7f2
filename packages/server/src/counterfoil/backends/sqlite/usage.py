"""Counts and records requests: the minute window, daily counts, request records, errors and the progress of passes.

Requests that arrive together are admitted in one transaction, which also writes the records of finished requests.
Committed data is kept even if a process is killed. SQLite's lock keeps the window exact across all processes.
"""

import sqlite3
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from msgspec.structs import astuple

from counterfoil.backends.pending_usage import PendingUsage, answer
from counterfoil.backends.sqlite import files
from counterfoil.backends.sqlite.files import BRIEFLY_SEC, WAIT_SEC, row, translated, writing
from counterfoil.backends.stored_cursors import FIND, StoredCursors, numbered
from counterfoil.domain.access import WINDOW_US, Admitted, Key, TooFast, kept_since, retry_after, wait_before
from counterfoil.domain.paging import RESERVED_MS
from counterfoil.domain.request_records import RequestRecord, RequestTally, merge_texts
from counterfoil.model.calendar import as_number, date_of, thai_day
from counterfoil.ports import Clock, StoreUnavailable

# --- request records --------------------------------------------------------
#
# Adding a record to `requests` changes a page in each of three to five indexes. So an admission writes the records of
# finished requests to `recent_requests`, which has no index, and they are moved to `requests` later, several at a
# time: by the worker if it has few, and otherwise by the supervisor.

# A transaction moves at most this many records, which takes about half a millisecond. One call of `move_recent` runs
# such transactions for at most MOVING_SEC.
MOVED_AT_ONCE = 128
MOVING_SEC = 0.25
EVERYTHING = 1 << 62
# Old records are deleted this many at a time, in transactions that take a few milliseconds each.
PRUNE_ROWS = 500

# The columns are in the order of the attributes of `RequestRecord`.
_RECORD_NOW = """
    INSERT INTO requests
        (at, key_id, route, status, error, took_us, personal_base, personal_members, request_id, detail)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_RECORD_RECENT = """
    INSERT INTO recent_requests
        (at, key_id, route, status, error, took_us, personal_base, personal_members, request_id, detail)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_OLDEST_RECENT = "SELECT min(rowid) FROM recent_requests"
# The parameter is the row number of the first record that is not moved.
_MOVE_RECENT = """
    INSERT INTO requests
        (at, key_id, route, status, error, took_us, personal_base, personal_members, request_id, detail)
    SELECT at, key_id, route, status, error, took_us, personal_base, personal_members, request_id, detail
    FROM recent_requests WHERE rowid < ? ORDER BY rowid
"""
_DELETE_MOVED = "DELETE FROM recent_requests WHERE rowid < ?"
_PRUNE_REQUESTS = "DELETE FROM requests WHERE number IN (SELECT number FROM requests WHERE at < ?2 LIMIT ?1)"


def move(connection: sqlite3.Connection, most: int) -> int:
    """Move up to `most` recent records to `requests` in the open transaction, the oldest first; return their number."""
    (oldest,) = connection.execute(_OLDEST_RECENT).fetchone()
    if oldest is None:
        return 0
    moved = connection.execute(_MOVE_RECENT, (oldest + most,)).rowcount
    connection.execute(_DELETE_MOVED, (oldest + most,))
    return moved


def in_portions(connection: sqlite3.Connection, statement: str, most: int, *values: int) -> int:
    """Repeat a statement that changes up to `most` rows until none are left; return the number of rows changed."""
    total = 0
    while True:
        with translated(), writing(connection, WAIT_SEC["usage"]):
            changed = connection.execute(statement, (most, *values)).rowcount
        total += changed
        if changed < most:
            return total
        # Pause while the lock is free, so that waiting requests can take it.
        time.sleep(files.PAUSE_SEC)


# After every FORGET_EVERY admissions of a key, up to 3 * FORGET_EVERY of its admissions outside the window are deleted.
FORGET_EVERY = 16

# Returns a key's latest admission, and the time of the admission that must be a minute old before another is allowed.
_LATEST = """
    SELECT n, at, day, count, (SELECT at FROM admissions WHERE key_id = ?1 AND n = latest.n + 1 - ?2)
    FROM admissions AS latest WHERE key_id = ?1 ORDER BY n DESC LIMIT 1
"""
_ADMIT = "INSERT INTO admissions (key_id, n, at, day, count) VALUES (?, ?, ?, ?, ?)"
# Reads only the oldest rows, so that the cost does not depend on the size of the window.
_FORGET = """
    DELETE FROM admissions WHERE key_id = ?1 AND n IN
        (SELECT n FROM (SELECT n, at FROM admissions WHERE key_id = ?1 ORDER BY n LIMIT ?3) WHERE at <= ?2)
"""
_TOTAL = "SELECT count FROM daily_totals WHERE key_id = ? AND day = ?"
_CLOSE_DAY = "INSERT OR REPLACE INTO daily_totals (key_id, day, count) VALUES (?, ?, ?)"
_TOTALS_OF_KEY = "SELECT key_id, day, count FROM daily_totals WHERE key_id = ?3 AND day BETWEEN ?1 AND ?2"
_DAY_OF_KEY = """
    SELECT key_id, day, count FROM (SELECT * FROM admissions WHERE key_id = ?3 ORDER BY n DESC LIMIT 1)
    WHERE day BETWEEN ?1 AND ?2
"""
TOTALS_OF_ALL = "SELECT key_id, day, count FROM daily_totals WHERE day BETWEEN :first AND :last"
DAY_OF_ALL = """
    SELECT key_id, day, count FROM admissions AS latest
    WHERE n = (SELECT max(n) FROM admissions WHERE key_id = latest.key_id) AND day BETWEEN :first AND :last
"""
_COUNT_ERRORS = """
    INSERT INTO daily_errors (key_id, day, error, count) VALUES (?, ?, ?, ?)
    ON CONFLICT (key_id, day, error) DO UPDATE SET count = count + excluded.count
"""
_RECORD_PASSES = """
    INSERT INTO passes (lineage, list_name, shop_id, server_time, ended_at, continued_at, covered)
    VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (lineage, list_name, shop_id) DO UPDATE SET
        covered = merge_ranges(covered, excluded.covered),
        server_time = max(server_time, excluded.server_time),
        ended_at = max(ended_at, excluded.ended_at),
        continued_at = max(continued_at, excluded.continued_at)
"""
_STEADY = "SELECT boot_id, shift FROM steady"
_NEWEST_ADMISSION = "SELECT max(at) FROM admissions"
_SET_STEADY = "INSERT OR REPLACE INTO steady (one, boot_id, shift) VALUES (1, ?, ?)"
_PRUNE_TOTALS = "DELETE FROM daily_totals WHERE day < ?"
_PRUNE_ERRORS = "DELETE FROM daily_errors WHERE day < ?"
_PRUNE_PASSES = "DELETE FROM passes WHERE max(ended_at, continued_at) < ?"
# Deletes the last admissions of keys that have not been used for 400 days.
_PRUNE_LAST_DAYS = "DELETE FROM admissions WHERE day < ? AND at <= ?"


class SqliteUsage(PendingUsage):
    """The meter and the request log, in `usage.sqlite3`."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._connection: sqlite3.Connection = files.read_write(folder, "usage")
        self._connection.create_function("merge_ranges", 2, merge_texts, deterministic=True)
        # The number of records that this process has written to `recent_requests` since `_flush_in_time` last ran.
        self._recent = 0
        with translated(), writing(self._connection, WAIT_SEC["usage"]):
            self._shift = self._settle_steady_clock()

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection to `usage.sqlite3`, for other components that store data in this file."""
        return self._connection

    def close(self) -> None:
        try:
            self.flush()
        finally:
            self._connection.close()

    # --- the meter -----------------------------------------------------------

    def _admit_waiting(self) -> None:
        """Admit requests without a task of their own, unless they have to wait for the lock."""
        waiting, self._waiting = self._waiting, []
        try:
            answer(waiting, self._admit_now([key for key, _ in waiting]))
        except StoreUnavailable:
            self._start(self._admit_later(waiting))

    async def _admit_together(self, keys: Sequence[Key]) -> list[Admitted | TooFast]:
        return await files.retry_while_locked(lambda: self._admit_now(keys))

    def _admit_now(self, keys: Sequence[Key]) -> list[Admitted | TooFast]:
        with translated(), writing(self._connection, BRIEFLY_SEC):
            # Read the clocks under the lock, so that admissions are stored in chronological order.
            now, today = self._clock.steady_us() + self._shift, thai_day(self._clock.now_ms())
            day = as_number(today)
            verdicts = [self._admit_one(key, now, today, day) for key in keys]
            written = len(self._records)
            if written:
                self._connection.executemany(_RECORD_RECENT, map(astuple, self._records))
        del self._records[:written]
        self._recent += written
        return verdicts

    def _admit_one(self, key: Key, now: int, today: date, day: int) -> Admitted | TooFast:
        latest = self._connection.execute(_LATEST, (key.key_id, key.per_min)).fetchone()
        n, last, last_day, count, blocking = latest or (0, now, day, 0, None)
        now = max(now, last)
        if blocking is not None and (wait := wait_before(blocking, now)) > 0:
            return TooFast(retry_after(wait))
        if day != last_day:
            count = self._change_day(key.key_id, last_day, count, day)
        self._connection.execute(_ADMIT, (key.key_id, n + 1, now, day, count + 1))
        if n % FORGET_EVERY == 0:
            self._connection.execute(_FORGET, (key.key_id, now - WINDOW_US, 3 * FORGET_EVERY))
        return Admitted(today, count + 1)

    def _change_day(self, key_id: str, last_day: int, count: int, day: int) -> int:
        """Store the count of `last_day`; return that of `day`, which is 0 unless the clock went back to it."""
        self._connection.execute(_CLOSE_DAY, (key_id, last_day, count))
        row = self._connection.execute(_TOTAL, (key_id, day)).fetchone()
        return row[0] if row else 0

    def _settle_steady_clock(self) -> int:
        """Return the offset from the steady clock, which restarts at boot, to the clock used for admissions."""
        row = self._connection.execute(_STEADY).fetchone()
        if row and row[0] == self._clock.boot_id():
            return int(row[1])
        (newest,) = self._connection.execute(_NEWEST_ADMISSION).fetchone()
        shift = max(self._clock.now_ms() * 1000, newest or 0) - self._clock.steady_us()
        self._connection.execute(_SET_STEADY, (self._clock.boot_id(), shift))
        return shift

    async def counts(self, key: Key, days: Sequence[date]) -> dict[date, int]:
        span = (as_number(days[0]), as_number(days[-1]), key.key_id)
        with translated():
            # Both may return a count for the same day. The second one is newer.
            totals = self._connection.execute(_TOTALS_OF_KEY, span).fetchall()
            latest = self._connection.execute(_DAY_OF_KEY, span).fetchall()
        return {date_of(day): count for _, day, count in (*totals, *latest)}

    # --- request records -------------------------------------------------------

    async def disclose(self, record: RequestRecord) -> None:
        self._records.append(record)

        def write() -> None:
            # An admission may have written the record while this call waited for the lock.
            if record in self._records:
                self._save(BRIEFLY_SEC, moved=0)

        try:
            await files.retry_while_locked(write)
        except StoreUnavailable:
            # The response will not be sent, so there is no disclosure to record.
            self._records.remove(record)
            raise

    def flush(self) -> None:
        """Write pending records and counts, and move all recent records to `requests`. On failure, nothing changes."""
        self._save(WAIT_SEC["usage"], moved=EVERYTHING)

    def move_recent(self) -> None:
        """Move recent records to `requests`, in short transactions, so that requests do not wait long for the lock."""
        stop = time.monotonic() + MOVING_SEC
        while self._has_recent() and time.monotonic() < stop:
            with translated(), writing(self._connection, WAIT_SEC["usage"]):
                moved = move(self._connection, MOVED_AT_ONCE)
            if moved < MOVED_AT_ONCE:
                return
            # Pause while the lock is free, so that waiting requests can take it.
            time.sleep(files.PAUSE_SEC)

    def _has_recent(self) -> bool:
        return row(self._connection, _OLDEST_RECENT)[0] is not None

    def _save(self, wait_sec: float, *, moved: int) -> None:
        """Move up to `moved` recent records to `requests`, and write pending records and counts."""
        if not self._records and not self._tally and not (moved and self._has_recent()):
            return
        with translated(), writing(self._connection, wait_sec):
            if moved:
                move(self._connection, moved)
            written = len(self._records)
            self._connection.executemany(_RECORD_NOW, map(astuple, self._records))
            errors = ((*counted, count) for counted, count in self._tally.errors.items())
            self._connection.executemany(_COUNT_ERRORS, errors)
            passes = ((*read, *astuple(progress)) for read, progress in self._tally.progress().items())
            self._connection.executemany(_RECORD_PASSES, passes)
        del self._records[:written]
        self._tally = RequestTally()

    def _flush_in_time(self) -> None:
        self._flush_due = False
        # If there are many records, leave them to the supervisor, because requests would have to wait.
        moved = MOVED_AT_ONCE if self._recent <= MOVED_AT_ONCE else 0
        self._recent = 0
        try:
            # No request depends on these records, so do not block the event loop waiting for the lock.
            self._save(0, moved=moved)
        except StoreUnavailable:
            # The next admission writes the records, or says that it cannot. The counts stay until the next flush.
            return

    # --- for the operator --------------------------------------------------------

    def checkpoint(self) -> None:
        files.checkpoint(self._connection)

    def prune(self) -> tuple[int, int]:
        """Delete records older than 90 days, and counts older than 400; return the number of records and of totals."""
        records_since, totals_since = kept_since(self._clock.now_ms())
        records = in_portions(self._connection, _PRUNE_REQUESTS, PRUNE_ROWS, records_since)
        oldest = as_number(thai_day(totals_since))
        with translated(), writing(self._connection, WAIT_SEC["usage"]):
            totals = self._connection.execute(_PRUNE_TOTALS, (oldest,)).rowcount
            self._connection.execute(_PRUNE_ERRORS, (oldest,))
            self._connection.execute(_PRUNE_PASSES, (totals_since,))
            minute_ago = self._clock.steady_us() + self._shift - WINDOW_US
            self._connection.execute(_PRUNE_LAST_DAYS, (oldest, minute_ago))
        return records, totals

    def prune_cursors(self) -> int:
        """Delete cursors that expired long ago, expire cursors unused for 7 days, and return how many were expired."""
        now = self._clock.now_ms()
        in_portions(self._connection, _DELETE, PRUNE_CURSORS, now)
        return in_portions(self._connection, _EXPIRE, PRUNE_CURSORS, now, RESERVED_MS)


# --- cursors that were handed out -------------------------------------------

PRUNE_CURSORS = 5_000

# The row of an expired cursor is kept for RESERVED_MS, so that its ID stays taken. If the clock is ahead for a while,
# cursors may expire too early, but their rows are not deleted right away.
_DELETE = """
    DELETE FROM cursors WHERE rowid IN (SELECT rowid FROM cursors WHERE ends_at <= ?2 AND expired LIMIT ?1)
"""
_EXPIRE = """
    UPDATE cursors SET expired = 1, ends_at = ?2 + ?3
    WHERE rowid IN (SELECT rowid FROM cursors WHERE ends_at <= ?2 AND NOT expired LIMIT ?1)
"""


class SqliteCursors(StoredCursors):
    """Stores cursors over the meter's connection: a write on another one would invalidate its page cache."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        super().__init__(clock)
        self._connection = connection

    async def _found(self, values: tuple[object, ...]) -> Any:
        return row(self._connection, FIND, numbered(values))

    async def _write(self, statement: str, values: tuple[object, ...]) -> Any:
        def write() -> Any:
            with translated(), writing(self._connection, BRIEFLY_SEC):
                return self._connection.execute(statement, numbered(values)).fetchone()

        return await files.retry_while_locked(write)
