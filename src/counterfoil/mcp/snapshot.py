"""A snapshot of the copy: a private DuckDB file with the published columns, from which all questions are answered.

DuckDB allows either one writer or several readers of a file. The copy is
therefore opened only while a snapshot is made, and only if it has changed since
the last snapshot. While a pull has locked the copy, the last snapshot is used.
"""

import resource
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import duckdb
from msgspec import Struct

from counterfoil.client.errors import CopyMismatch
from counterfoil.client.pull_state import State, decode
from counterfoil.mcp.sources import CopyError, CopyLocked, copy_file, fill
from counterfoil.mcp.values import json_value

SNAPSHOT_FILE = "snapshot.duckdb"
MEMORY_MB = 512
# DuckDB's memory limit does not cover long strings and the rows of a result, so the process has its own limit.
PROCESS_MB = 1536
THREADS = 2
SPILL_GB = 2
MAX_SECONDS = 20.0
# How long the first question waits for a pull to end, and how often it checks.
WAIT_SEC = 10.0
LOOK_EVERY_SEC = 0.2

PULL_RUNNING = "A pull is writing to the copy. This result is based on data from before the pull began."

Rows = list[tuple[Any, ...]]
T = TypeVar("T")


class QueryRefused(Exception):
    """A question or a statement was refused. The message says why."""


class Result(Struct, frozen=True):
    """The column names and the first rows of a result. `has_more` says whether there were more rows."""

    names: list[str]
    rows: Rows
    has_more: bool = False


class Snapshot:
    """A file with a copy's published columns at one instant, opened read-only and without access to other files."""

    def __init__(self, folder: Path, progress: State) -> None:
        self.progress = progress
        self._folder = folder
        file = folder / SNAPSHOT_FILE
        self._db = duckdb.connect(
            str(file),
            read_only=True,
            config={
                "enable_external_access": "false",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "memory_limit": f"{MEMORY_MB}MB",
                "threads": str(THREADS),
                "temp_directory": str(folder / "spill"),
                "max_temp_directory_size": f"{SPILL_GB}GB",
                "python_enable_replacements": "false",
            },
        )
        # DuckDB keeps the file open. Unlinking it now ensures that the file is gone when this process ends.
        file.unlink()
        self._db.execute("SET TimeZone = 'UTC'")
        self._db.execute("SET lock_configuration = true")

    def rows(self, statement: str, values: Sequence[Any] = ()) -> Rows:
        """Run one of our own statements and return its rows."""
        return self.result(statement, values).rows

    def result(self, statement: str, values: Sequence[Any] = ()) -> Result:
        """Run one of our own statements and return its rows and the names of its columns."""

        def run() -> Result:
            cursor = self._db.execute(statement, list(values))
            return Result([column[0] for column in cursor.description or ()], cursor.fetchall())

        return self._limited(run)

    def query(self, statement: str, limit: int) -> Result:
        """Run a caller's statement, which must be a single SELECT, and return at most `limit` rows of JSON values."""

        def run() -> Result:
            parsed = self._db.extract_statements(statement)
            if len(parsed) != 1 or parsed[0].type != duckdb.StatementType.SELECT:
                raise QueryRefused("Only a single SELECT statement is allowed.")
            cursor = self._db.execute(parsed[0])
            names = [column[0] for column in cursor.description or ()]
            rows: Rows = []
            # Values are shortened before the next row is read, because a single value can be many megabytes long.
            while len(rows) <= limit and (row := cursor.fetchone()) is not None:
                rows.append(tuple(json_value(value) for value in row))
            return Result(names, rows[:limit], len(rows) > limit)

        return self._limited(run)

    def close(self) -> None:
        self._db.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _limited(self, run: Callable[[], T]) -> T:
        timer = threading.Timer(MAX_SECONDS, self._db.interrupt)
        timer.start()
        try:
            return run()
        except duckdb.InterruptException as error:
            raise QueryRefused(f"The question took more than {MAX_SECONDS:.0f} s. Ask about fewer days.") from error
        except (duckdb.OutOfMemoryException, MemoryError) as error:
            raise QueryRefused(
                f"The question needs more than {MEMORY_MB} MB of memory or {SPILL_GB} GB of temporary space. "
                "Ask about fewer days, or for fewer or shorter values."
            ) from error
        except duckdb.Error as error:
            raise QueryRefused(f"DuckDB: {error}") from error
        finally:
            timer.cancel()


def limit_process_memory() -> None:
    """Make allocations of this process fail above a limit, so that a question cannot use up the machine's memory.

    DuckDB and Python report a failed allocation as an error, and the server can answer the next question.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = PROCESS_MB * 1024**2
    if soft == resource.RLIM_INFINITY or soft > wanted:
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))


class CopyReader:
    """Provides the newest snapshot of a copy. Its temporary folder is private to this process."""

    def __init__(self, path: Path, wait_sec: float = WAIT_SEC) -> None:
        self.path = copy_file(path)
        self._wait_sec = wait_sec
        self._folder = Path(tempfile.mkdtemp(prefix="counterfoil-mcp-"))
        self._made = 0
        self._version: tuple[int, ...] = ()
        self._current: Snapshot | None = None

    def snapshot(self) -> tuple[Snapshot, str | None]:
        """Return the snapshot to query, and a note if it is not up to date."""
        version = _file_version(self.path)
        if self._current and version == self._version:
            return self._current, None
        try:
            made = self._make(0.0 if self._current else self._wait_sec)
        except CopyLocked:
            if self._current is None:
                raise
            return self._current, PULL_RUNNING
        if self._current:
            self._current.close()
        self._current, self._version = made, version
        return made, None

    def close(self) -> None:
        if self._current:
            self._current.close()
        self.remove_files()

    def remove_files(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _make(self, wait_sec: float) -> Snapshot:
        deadline = time.monotonic() + wait_sec
        while True:
            try:
                return self._make_once()
            except CopyLocked:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(LOOK_EVERY_SEC)

    def _make_once(self) -> Snapshot:
        self._made += 1
        folder = self._folder / str(self._made)
        folder.mkdir(mode=0o700)
        try:
            with duckdb.connect(str(folder / SNAPSHOT_FILE), config={"autoinstall_known_extensions": "false"}) as db:
                db.execute(f"SET memory_limit = '{MEMORY_MB}MB'")
                db.execute(f"SET threads = {THREADS}")
                db.execute("SET preserve_insertion_order = false")
                db.execute("SET TimeZone = 'UTC'")
                state = fill(db, self.path, folder / "rows.ndjson")
            return Snapshot(folder, decode(state))
        except BaseException as error:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, CopyMismatch):
                raise CopyError(str(error)) from error
            raise


def _file_version(path: Path) -> tuple[int, ...]:
    """Return values that change whenever the file or its write-ahead log changes. A missing file adds no values."""
    version: list[int] = []
    for file in (path, path.with_name(f"{path.name}.wal"), path.with_name(f"{path.name}-wal")):
        try:
            found = file.stat()
        except OSError:
            continue
        version += (found.st_ino, found.st_size, found.st_mtime_ns)
    return tuple(version)
