"""Reads the files of an embedded store on behalf of the operator, over read-only connections."""

import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from msgspec.structs import replace

from counterfoil.backends.sqlite import files
from counterfoil.backends.sqlite.backup import FINGERPRINT, is_whole
from counterfoil.backends.sqlite.files import read_only, translated
from counterfoil.backends.sqlite.keys import LOCK_SEC, REVOCATIONS
from counterfoil.backends.sqlite.schema import NAMES, Name, version
from counterfoil.backends.sqlite.usage import DAY_OF_ALL, TOTALS_OF_ALL
from counterfoil.business_reads import Ask
from counterfoil.domain.access import KEYS_TRUSTED_SEC, Key
from counterfoil.machine.operator import machine_name
from counterfoil.model.messages import Message
from counterfoil.operator_reads import QUERY_SEC, OperatorReads, QueryTooSlow
from counterfoil.ports import DiskUse, StoreBusy, StoreExtent, StoreMismatch, StoreUnavailable
from counterfoil.program.clock import SystemClock
from counterfoil.request_reads import NO_END, SCANNED_REQUESTS, RecordPosition, RequestFilter, Row

# SQLite checks the time limit each time its virtual machine has run this many steps, which takes less than 1 ms.
STEPS = 10_000

# Each is quick and reads at least the last page of a table or index, so it usually detects a damaged file.
_PROBES: dict[Name, tuple[str, ...]] = {
    "books": ("SELECT max(number) FROM shops", "SELECT max(number) FROM bills", "SELECT max(number) FROM members"),
    "keys": ("SELECT count(*) FROM keys",),
    "usage": (
        "SELECT max(number) FROM requests",
        "SELECT max(rowid) FROM cursors",
        "SELECT max(day) FROM daily_totals",
    ),
}


# --- searches of request records: a statement for each index ---------------------------
#
# SQLite chooses an index when it compiles a statement, so a condition that may or may not apply has no index. The
# comparison with `before_at` alone is redundant, but lets the search begin at the right entry.

_ALL_REQUESTS = """
    SELECT at, key_id, route, status, error, took_us, personal_base, personal_members, request_id, detail, number
    FROM requests
    WHERE at >= :since AND at < :until
        AND at <= :before_at AND (at < :before_at OR number < :before_number)
    ORDER BY at DESC, number DESC LIMIT :most
"""
_REQUESTS_OF_KEY = """
    SELECT at, key_id, route, status, error, took_us, personal_base, personal_members, request_id, detail, number
    FROM requests
    WHERE key_id = :key_id AND at >= :since AND at < :until
        AND at <= :before_at AND (at < :before_at OR number < :before_number)
    ORDER BY at DESC, number DESC LIMIT :most
"""
# SQLite would rather use the index of all requests by time.
_FAILED_REQUESTS = """
    SELECT at, key_id, route, status, error, took_us, personal_base, personal_members, request_id, detail, number
    FROM requests INDEXED BY requests_failed
    WHERE error IS NOT NULL AND at >= :since AND at < :until
        AND at <= :before_at AND (at < :before_at OR number < :before_number)
    ORDER BY at DESC, number DESC LIMIT :most
"""
_REQUESTS_WITH_ID = """
    SELECT at, key_id, route, status, error, took_us, personal_base, personal_members, request_id, detail, number
    FROM requests
    WHERE request_id = :request_id AND at >= :since AND at < :until
        AND at <= :before_at AND (at < :before_at OR number < :before_number)
    ORDER BY at DESC, number DESC LIMIT :most
"""
_DISCLOSURES = """
    SELECT at, key_id, route, status, error, took_us, personal_base, personal_members, request_id, detail, number
    FROM requests
    WHERE personal_base IS NOT NULL AND at >= :since AND at < :until
        AND at <= :before_at AND (at < :before_at OR number < :before_number)
    ORDER BY at DESC, number DESC LIMIT :most
"""
_DISCLOSURES_TO_KEY = """
    SELECT at, key_id, route, status, error, took_us, personal_base, personal_members, request_id, detail, number
    FROM requests
    WHERE personal_base IS NOT NULL AND key_id = :key_id AND at >= :since AND at < :until
        AND at <= :before_at AND (at < :before_at OR number < :before_number)
    ORDER BY at DESC, number DESC LIMIT :most
"""


def _statement_of_search(wanted: RequestFilter) -> str:
    """Return the statement whose index has the fewest records that the filter may not select."""
    if wanted.request_id is not None:
        return _REQUESTS_WITH_ID
    if wanted.personal_data:
        return _DISCLOSURES if wanted.key_id is None else _DISCLOSURES_TO_KEY
    if wanted.is_failed:
        return _FAILED_REQUESTS
    return _ALL_REQUESTS if wanted.key_id is None else _REQUESTS_OF_KEY


class SqliteReads(OperatorReads):
    """Each call opens a new connection, so that after a restore it reads the new files."""

    LATEST_ENTRIES = """
        SELECT at, act, actor, via, host, key_id, changes, detail FROM audit
        WHERE at >= :since AND (:key_id IS NULL OR key_id = :key_id)
        ORDER BY at DESC, number DESC LIMIT :most
    """
    BACKUPS = """
        SELECT at, detail, host FROM audit WHERE act = 'store_backed_up' AND at >= :since ORDER BY at DESC LIMIT 100
    """
    BILLS_WITH = """
        SELECT shop, id, body FROM bills
        WHERE instr(body, :first) > 0 OR instr(body, :second) > 0 OR instr(body, :third) > 0
    """
    MEMBERS_OF_BILLS = """
        SELECT shop, id, substr(body, instr(body, :text) + :after, :length) FROM bills WHERE instr(body, :text) > 0
    """
    # Both may return a count for the same key and day. The second one is newer.
    COUNTS = (TOTALS_OF_ALL, DAY_OF_ALL)
    LAST_DAYS = """
        SELECT key_id, max(day) FROM (
            SELECT key_id, day FROM daily_totals WHERE count > 0 UNION ALL SELECT key_id, day FROM admissions
        ) GROUP BY key_id
    """

    def __init__(self, folder: Path, query_sec: float = QUERY_SEC, scanned: int = SCANNED_REQUESTS) -> None:
        super().__init__(query_sec, scanned)
        self._folder = folder
        self._open_files = files.OpenFiles(folder, ("books", "usage"), logs=False)
        self._clock = SystemClock()
        self._keys_read_at: int | None = None
        self._keys_are_locked = False

    @contextmanager
    def _opened(self, part: Name, query_sec: float | None = None) -> Iterator[Ask]:
        with self._damage_named(part), translated(), closing(read_only(self._folder, part)) as connection:
            if query_sec is not None:
                deadline = time.monotonic() + query_sec
                connection.set_progress_handler(lambda: time.monotonic() > deadline, STEPS)
            try:
                connection.execute("BEGIN")
                yield lambda statement, **values: connection.execute(statement, values).fetchall()
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
                    raise QueryTooSlow(f"SQLite: the query took longer than {query_sec:g} s") from error
                raise

    def _newest_requests(self, ask: Ask, wanted: RequestFilter, before: RecordPosition, most: int) -> list[Row]:
        statement = _statement_of_search(wanted)
        times = {"since": wanted.since or 0, "until": NO_END if wanted.until is None else wanted.until}
        place = {"before_at": before[0], "before_number": before[1], "most": most}
        return ask(statement, **times, **place, request_id=wanted.request_id, key_id=wanted.key_id)

    @contextmanager
    def _damage_named(self, part: Name) -> Iterator[None]:
        """Let the error about a damaged file name the file and say what to do."""
        try:
            yield
        except StoreUnavailable as error:
            if files.is_damage(error.__cause__):
                raise StoreUnavailable(files.cannot_be_read(self._folder, part, error.__cause__)) from error.__cause__
            raise

    def keys(self) -> list[Key]:
        """Return all keys, oldest first. If an older key file was restored, some revocations are only in `usage`."""
        revoked: dict[str, int] = {}
        with suppress(StoreUnavailable, StoreMismatch), self._limited("usage") as ask:
            revoked = dict(ask(REVOCATIONS))
        found = []
        for key in super().keys():  # noqa: SIM118 - not a dictionary
            if key.revoked_at is None and key.key_id in revoked:
                found.append(replace(key, revoked_at=revoked[key.key_id]))
            else:
                found.append(key)
        return found

    def problems(self) -> dict[str, Message | None]:
        self._keys_are_locked = False
        found: dict[str, Message | None] = {name: self._problem(name) for name in NAMES}
        if not self._keys_are_locked and not any(found.values()):
            try:
                files.require_whole(self._folder)
            except (StoreUnavailable, StoreMismatch) as error:
                found["store"] = error.message
        return found

    def _is_whole(self, backup: str, machine: str) -> bool | None:
        return is_whole(Path(backup)) if machine == machine_name() else None

    def store_id(self) -> str | None:
        """Return the ID of the store with that of its file, which differs in a copy, or None if it cannot be read."""
        row = self._row("PRAGMA application_id")
        if not row or not row[0]:
            return None
        try:
            return f"{row[0]:08x}-{files.path_of(self._folder, 'books').stat().st_ino:x}"
        except OSError:
            return None

    def extent(self) -> StoreExtent:
        versions: list[str] = []
        for name in NAMES:
            with closing(read_only(self._folder, name)) as connection, translated():
                versions.append(f"{name} {version(connection)}")
        return StoreExtent(self.disk_use().store_bytes, ", ".join(versions), f"SQLite {sqlite3.sqlite_version}")

    def disk_use(self) -> DiskUse:
        stored = 0
        logs: dict[str, int] = {}
        for name in NAMES:
            stored += sum(map(files.size_of, self._folder.glob(f"{name}.sqlite3*")))
            logs[name] = files.size_of(self._folder / f"{name}.sqlite3-wal")
        free = shutil.disk_usage(self._folder).free
        return DiskUse(stored, logs, free)

    def fingerprint(self) -> str | None:
        with self._opened("books") as ask:
            return next((row[0] for row in ask(FINGERPRINT)), None)

    def is_built(self) -> bool:
        try:
            if not files.has_schema(self._folder, "books"):
                # Either the file was lost, or there is no store yet: another process may be creating it at this moment.
                return "books" in files.lost(self._folder)
            return self.fingerprint() is not None
        except (StoreUnavailable, StoreMismatch):
            # The store exists, but cannot be read at the moment or by this version.
            return True

    def _problem(self, name: Name) -> Message | None:
        try:
            found = self._problem_in(name)
        except StoreBusy as error:
            self._keys_are_locked = name == "keys"
            return None if self._keys_are_locked and self._keys_are_in_memory() else error.message
        except (StoreUnavailable, StoreMismatch) as error:
            return error.message
        if name == "keys":
            self._keys_read_at = self._clock.steady_us()
        return found

    def _keys_are_in_memory(self) -> bool:
        """Return whether workers may still use the keys that they have read, even though the file is locked."""
        read_at = self._keys_read_at
        return read_at is not None and self._clock.steady_us() < read_at + KEYS_TRUSTED_SEC * 1_000_000

    def _problem_in(self, name: Name) -> Message | None:
        wait_sec = LOCK_SEC if name == "keys" else None
        with self._damage_named(name), closing(read_only(self._folder, name, wait_sec)) as connection, translated():
            for probe in _PROBES[name]:
                connection.execute(probe).fetchone()
            address = files.moved(connection)
            is_moved = files.STORE_MOVED(address=address) if address else None
            return self._open_files.problem(name) or self._cut_off(name, connection) or is_moved

    def _cut_off(self, name: Name, connection: sqlite3.Connection) -> Message | None:
        """Return a problem if the file was truncated and the log is too short to contain the missing pages."""
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        path = files.path_of(self._folder, name)
        stored = path.stat().st_size + files.size_of(path.with_name(f"{path.name}-wal"))
        return files.DAMAGED(name=name, reason=files.TRUNCATED) if stored < pages * page_bytes else None
