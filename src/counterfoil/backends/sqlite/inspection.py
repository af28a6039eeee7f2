"""Inspects the files of an embedded store, for commands, the console and the admin listener."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec import json
from msgspec.structs import astuple

from counterfoil.backends.sqlite.file_problems import cannot_be_read, is_damage, is_damaged
from counterfoil.backends.sqlite.files import has_schema, lost, moved, path_of, read_only, require_whole, translated
from counterfoil.backends.sqlite.keys import LOCK_SEC
from counterfoil.backends.sqlite.open_files import OpenFiles
from counterfoil.backends.sqlite.schema import NAMES, Name, version
from counterfoil.backends.sqlite.usage import DAY_OF_ALL, TOTALS_OF_ALL
from counterfoil.domain.access import KEYS_TRUSTED_SEC, Key, Scope
from counterfoil.domain.activity import ClosedBetween, ShopActivity, activity, in_order
from counterfoil.domain.calendar import as_number, thai_day
from counterfoil.domain.intake import FORGET_FOLDER_MS, Intake, WatchedFolder
from counterfoil.domain.load_progress import LatestLoad, latest_load
from counterfoil.machine.clock import SystemClock
from counterfoil.ports import DiskUse, StoreBusy, StoreExtent, StoreMismatch, StoreUnavailable

_LATEST_LOAD = "SELECT lines, changed, rejected, finished_at, seen_at FROM loads ORDER BY number DESC LIMIT 1"

_INTAKE = "SELECT state FROM intake"
_WATCHED_FOLDERS = """
    SELECT name, seen_at, delivered_at, files, quarantined, stopped FROM watched_folders
    WHERE seen_at > ? ORDER BY name
"""

_KNOWN = {
    "shop": "SELECT 1 FROM shops WHERE id = ? AND NOT removed",
    "franchise": "SELECT 1 FROM shops WHERE franchise_id = ? AND NOT removed LIMIT 1",
}

_SHOPS = "SELECT number, facts, body FROM shops WHERE NOT removed"
_LAST_BILL = """
    SELECT closed_at FROM bills WHERE shop = ? AND closed_at <= ? ORDER BY bill_day DESC, closed_at DESC LIMIT 1
"""
_ALL_BILLS = "SELECT count(*) FROM bills INDEXED BY bills_by_day WHERE shop = ?"
_BILLS_BETWEEN = """
    SELECT count(*) FROM bills WHERE shop = ? AND bill_day BETWEEN ? AND ? AND closed_at > ? AND closed_at <= ?
"""

# Each statement is quick and reads at least the last page of a table or an index, so it usually detects a truncated or
# overwritten file.
_PROBES: dict[Name, tuple[str, ...]] = {
    "books": ("SELECT max(number) FROM shops", "SELECT max(number) FROM bills", "SELECT max(number) FROM members"),
    "keys": ("SELECT count(*) FROM keys",),
    "usage": (
        "SELECT max(number) FROM requests",
        "SELECT max(rowid) FROM cursors",
        "SELECT max(day) FROM daily_totals",
    ),
}

_FINGERPRINT = "SELECT secret_fingerprint FROM deployment"
_KEYS = "SELECT body FROM keys"

_key = json.Decoder(Key).decode


class SqliteInspection:
    """Inspects an embedded store."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open_files = OpenFiles(folder, ("books", "usage"), logs=False)
        self._clock = SystemClock()
        self._keys_read_at: int | None = None
        self._keys_are_locked = False

    def problems(self) -> dict[str, str | None]:
        self._keys_are_locked = False
        found: dict[str, str | None] = {name: self._problem(name) for name in NAMES}
        if not self._keys_are_locked and not any(found.values()) and (mixed := self._mixed()):
            found["store"] = mixed
        return found

    def survives_primary(self) -> bool:
        return False

    def servers(self) -> tuple[()]:
        return ()

    def knows(self, scope: Scope) -> bool:
        return self._row(_KNOWN[scope.kind], scope.id) is not None

    def store_id(self) -> str | None:
        """Return the ID of the store, or None if it has no ID yet or cannot be read."""
        row = self._row("PRAGMA application_id")
        return f"{row[0]:08x}" if row and row[0] else None

    def horizon(self) -> int | None:
        row = self._row("SELECT at FROM horizon")
        return row[0] if row else None

    def latest_load(self, now_ms: int) -> LatestLoad | None:
        row = self._row(_LATEST_LOAD)
        return latest_load(row, now_ms) if row else None

    def intake(self) -> Intake:
        row = self._row(_INTAKE)
        return json.decode(row[0], type=Intake) if row else Intake()

    def watched_folders(self, now_ms: int) -> list[WatchedFolder]:
        try:
            with closing(read_only(self._folder, "books")) as connection, translated():
                found = connection.execute(_WATCHED_FOLDERS, (now_ms - FORGET_FOLDER_MS,)).fetchall()
        except (StoreUnavailable, StoreMismatch):
            return []
        return [
            WatchedFolder(name, seen_at, delivered_at, files, quarantined, bool(stopped))
            for name, seen_at, delivered_at, files, quarantined, stopped in found
        ]

    def shops(self, now_ms: int, *, count_all: bool) -> list[ShopActivity]:
        with closing(read_only(self._folder, "books")) as connection, translated():
            connection.execute("BEGIN")
            return in_order(
                activity(facts, body, SqliteShopBills(connection, number), now_ms, count_all=count_all)
                for number, facts, body in connection.execute(_SHOPS).fetchall()
            )

    def extent(self) -> StoreExtent:
        versions: list[str] = []
        for name in NAMES:
            with closing(read_only(self._folder, name)) as connection, translated():
                versions.append(f"{name} {version(connection)}")
        return StoreExtent(self.disk_use().store_bytes, ", ".join(versions), f"SQLite {sqlite3.sqlite_version}")

    def disk_use(self) -> DiskUse:
        files = [file for name in NAMES for file in self._folder.glob(f"{name}.sqlite3*")]
        logs: dict[str, int] = {name: _size(self._folder / f"{name}.sqlite3-wal") for name in NAMES}
        return DiskUse(sum(map(_size, files)), logs, shutil.disk_usage(self._folder).free)

    def quota_use(self, now_ms: int) -> list[float]:
        today = as_number(thai_day(now_ms))
        with closing(read_only(self._folder, "keys")) as connection, translated():
            keys = [_key(body) for (body,) in connection.execute(_KEYS).fetchall()]
        with closing(read_only(self._folder, "usage")) as connection, translated():
            counts = {
                key_id: count
                for query in (TOTALS_OF_ALL, DAY_OF_ALL)
                for key_id, _, count in connection.execute(query, (today, today)).fetchall()
            }
        return [counts.get(key.key_id, 0) / key.per_day for key in keys if not key.is_revoked(now_ms)]

    def permissions(self) -> None:
        return None

    def fingerprint(self) -> str | None:
        with closing(read_only(self._folder, "books")) as connection, translated():
            row: tuple[str] | None = connection.execute(_FINGERPRINT).fetchone()
            return row[0] if row else None

    def is_built(self) -> bool:
        try:
            if not has_schema(self._folder, "books"):
                # Either the file was lost, or there is no store yet: another process may be creating it at this moment.
                return "books" in lost(self._folder)
            return self.fingerprint() is not None
        except (StoreUnavailable, StoreMismatch):
            # The store exists, but cannot be read at the moment or by this version.
            return True

    def _problem(self, name: Name) -> str | None:
        try:
            found = self._problem_in(name)
        except StoreBusy as error:
            self._keys_are_locked = name == "keys"
            return None if self._keys_are_locked and self._keys_are_in_memory() else str(error)
        except StoreUnavailable as error:
            return cannot_be_read(self._folder, name, error.__cause__) if is_damage(error.__cause__) else str(error)
        except StoreMismatch as error:
            return str(error)
        if name == "keys":
            self._keys_read_at = self._clock.steady_us()
        return found

    def _keys_are_in_memory(self) -> bool:
        """Return whether workers may still use the keys that they have read, even though the file is locked."""
        read_at = self._keys_read_at
        return read_at is not None and self._clock.steady_us() < read_at + KEYS_TRUSTED_SEC * 1_000_000

    def _problem_in(self, name: Name) -> str | None:
        wait_sec = LOCK_SEC if name == "keys" else None
        with closing(read_only(self._folder, name, wait_sec)) as connection, translated():
            for probe in _PROBES[name]:
                connection.execute(probe).fetchone()
            return self._open_files.problem(name) or self._cut_off(name, connection) or moved(connection)

    def _cut_off(self, name: Name, connection: sqlite3.Connection) -> str | None:
        """Return a problem if the file was truncated and the log is too short to contain the missing pages."""
        (pages,), (page_bytes,) = (connection.execute(f"PRAGMA page_{what}").fetchone() for what in ("count", "size"))
        path = path_of(self._folder, name)
        log = path.with_name(f"{path.name}-wal")
        stored = path.stat().st_size + (log.stat().st_size if log.exists() else 0)
        return is_damaged(name, "it was truncated") if stored < pages * page_bytes else None

    def _mixed(self) -> str | None:
        try:
            require_whole(self._folder)
        except (StoreUnavailable, StoreMismatch) as error:
            return str(error)
        return None

    def _row(self, query: str, *values: str) -> tuple[Any, ...] | None:
        try:
            with closing(read_only(self._folder, "books")) as connection, translated():
                row: tuple[Any, ...] | None = connection.execute(query, values).fetchone()
                return row
        except (StoreUnavailable, StoreMismatch):
            return None


def _size(file: Path) -> int:
    """Return a file's size, or 0 if it does not exist, for example because SQLite has just deleted it."""
    try:
        return file.stat().st_size
    except OSError:
        return 0


class SqliteShopBills:
    """Counts a shop's bills and finds when the last one was closed, within the connection's current transaction."""

    def __init__(self, connection: sqlite3.Connection, number: int) -> None:
        self._connection = connection
        self._number = number

    def total(self) -> int:
        return self._value(_ALL_BILLS) or 0

    def last_bill_at(self, now_ms: int) -> int | None:
        return self._value(_LAST_BILL, now_ms)

    def between(self, span: ClosedBetween) -> int:
        return self._value(_BILLS_BETWEEN, *astuple(span)) or 0

    def _value(self, query: str, *values: int) -> int | None:
        row: tuple[int | None] | None = self._connection.execute(query, (self._number, *values)).fetchone()
        return row[0] if row else None
