"""The duties of our service in Python: key check, exact minute window, day count and request records in SQLite.

As in our service, requests that arrive together are admitted in one transaction, which also writes the records of
finished requests.
"""

import asyncio
import hashlib
import hmac
import sqlite3
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

WINDOW_US = 60_000_000
FORGET_EVERY = 16
RECORDS_SEC = 0.25
THAILAND = timedelta(hours=7)

LATEST = """
    SELECT n, at, day, count, (SELECT at FROM admissions WHERE key_id = ?1 AND n = latest.n + 1 - ?2) AS blocking
    FROM admissions AS latest WHERE key_id = ?1 ORDER BY n DESC LIMIT 1
"""
INSERT = "INSERT INTO admissions (key_id, n, at, day, count) VALUES (?, ?, ?, ?, ?)"
FORGET = """
    DELETE FROM admissions WHERE key_id = ?1 AND n IN
    (SELECT n FROM (SELECT n, at FROM admissions WHERE key_id = ?1 ORDER BY n LIMIT ?3) WHERE at <= ?2)
"""
CLOSE_DAY = "INSERT OR REPLACE INTO daily_totals (key_id, day, count) VALUES (?, ?, ?)"
DAY_TOTAL = "SELECT count FROM daily_totals WHERE key_id = ? AND day = ?"
RECORD = "INSERT INTO requests (at, key_id, route, status, took_us) VALUES (?, ?, ?, ?, ?)"


@dataclass(frozen=True, slots=True)
class Key:
    key_id: str
    sha256: bytes
    per_min: int
    per_day: int


@dataclass(frozen=True, slots=True)
class Admission:
    """The key's number of requests on this day, or how long the caller has to wait."""

    count: int = 0
    retry_after_sec: int = 0


class Duties:
    def __init__(self, path: str) -> None:
        self._file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "busy_timeout = 5000"):
            self._file.execute(f"PRAGMA {pragma}")
        self._keys = {}
        for key_id, sha256, per_min, per_day in self._file.execute("SELECT key_id, sha256, per_min, per_day FROM keys"):
            self._keys[key_id] = Key(key_id, bytes.fromhex(sha256), per_min, per_day)
        self._waiting: list[tuple[Key, asyncio.Future[Admission]]] = []
        self._records: list[tuple[int, str, str, int, int]] = []
        self._flush_due = False

    def key_of(self, header: str) -> Key | None:
        """Return the key of an Authorization header, or None."""
        text = header.removeprefix("Bearer ")
        parts = text.split("_")
        key = self._keys.get(parts[2]) if len(parts) > 2 else None
        if key and hmac.compare_digest(key.sha256, hashlib.sha256(text.encode()).digest()):
            return key
        return None

    async def admit(self, key: Key) -> Admission:
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._admit_waiting)
        admission: asyncio.Future[Admission] = loop.create_future()
        self._waiting.append((key, admission))
        return await admission

    def note(self, key_id: str, route: str, status: int, took_us: int) -> None:
        self._records.append((time.time_ns() // 1_000_000, key_id, route, status, took_us))
        if not self._flush_due:
            self._flush_due = True
            asyncio.get_running_loop().call_later(RECORDS_SEC, self._flush)

    def _admit_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        now = time.time_ns() // 1000
        day = int((datetime.now(UTC) + THAILAND).strftime("%Y%m%d"))
        self._file.execute("BEGIN IMMEDIATE")
        admissions = [self._admit_one(key, now, day) for key, _ in waiting]
        self._write_records()
        self._file.execute("COMMIT")
        for (_, future), admission in zip(waiting, admissions, strict=True):
            if not future.cancelled():
                future.set_result(admission)

    def _admit_one(self, key: Key, now: int, day: int) -> Admission:
        found = self._file.execute(LATEST, (key.key_id, key.per_min)).fetchone()
        n, latest_at, latest_day, count, blocking = found or (0, now, day, 0, None)
        at = max(now, latest_at)
        if blocking is not None and blocking + WINDOW_US > at:
            return Admission(retry_after_sec=-(-(blocking + WINDOW_US - at) // 1_000_000))
        if day != latest_day:
            self._file.execute(CLOSE_DAY, (key.key_id, latest_day, count))
            total = self._file.execute(DAY_TOTAL, (key.key_id, day)).fetchone()
            count = total[0] if total else 0
        self._file.execute(INSERT, (key.key_id, n + 1, at, day, count + 1))
        if n % FORGET_EVERY == 0:
            self._file.execute(FORGET, (key.key_id, at - WINDOW_US, 3 * FORGET_EVERY))
        return Admission(count=count + 1)

    def _write_records(self) -> None:
        records, self._records = self._records, []
        self._file.executemany(RECORD, records)

    def _flush(self) -> None:
        self._flush_due = False
        if self._records:
            self._file.execute("BEGIN IMMEDIATE")
            self._write_records()
            self._file.execute("COMMIT")
