"""Reads the published columns of a copy, in DuckDB or SQLite, into a snapshot that answers all questions."""

import resource
import shutil
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import msgspec
from msgspec import Struct, structs

from counterfoil.client.copy_views import DUCKDB_VIEWS
from counterfoil.client.errors import CopyMismatch
from counterfoil.client.pull_state import State, decode
from counterfoil.client.sinks import PARQUET_WORKING_FILE, engine_of
from counterfoil.client.sinks.json_rows import TYPES, escape_quotes
from counterfoil.client.sinks.sqlite import LOCKED, kind_of
from counterfoil.client.tables import TABLES, Content, Kind, Table, incomplete_tables
from counterfoil.model.text import decimal_text, first_line, printable_json

Rows = list[tuple[Any, ...]]
Json = dict[str, Any]
# How long SQLite waits for a writer that has locked the whole file.
SQLITE_WAIT_SEC = 5.0


def _published_tables() -> dict[str, Table]:
    """Return the tables that have facts of their own, with only those columns.

    Contact data, names, IDs of members and text that staff can type freely, which may name a guest, are not loaded
    into the snapshot. Neither are coupons: whoever knows the code of a coupon can redeem it.
    """
    published = {}
    for table in TABLES:
        facts = tuple(column for column in table.columns if column.content is Content.FACT)
        if any(column.path and not column.of_parent for column in facts):
            published[table.name] = structs.replace(table, columns=facts)
    return published


# What an assistant may see.
PUBLISHED = _published_tables()
# The views of the copy that need only published columns.
VIEWS = {name: view for name, view in DUCKDB_VIEWS.items() if name != "member_activity"}
# By table: a boolean column that is computed, and the withheld column that is not null where it is true.
PRESENCE = {"bills": ("has_member", "member_id")}

_DUCKDB_COLUMNS = "SELECT table_name, column_name FROM duckdb_columns() WHERE database_name = 'pulled'"
_SQLITE_COLUMNS = """
    SELECT m.name, c.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c WHERE m.type = 'table'
"""

LOST = "The copy has lost rows or columns of {tables}. Run `counterfoil pull`, which reads everything again."


class CopyError(Exception):
    """The copy cannot be read. The message says why and, in most cases, what to do."""


class CopyLocked(CopyError):
    """Another process is writing to the copy at the moment."""


def copy_file(path: Path) -> Path:
    """Return the database file of a copy. In a folder of Parquet files, it is a hidden file."""
    return path / PARQUET_WORKING_FILE if path.is_dir() else path


def is_sqlite(path: Path) -> bool:
    """Return whether the file is an SQLite database. Raise `CopyError` if it is neither SQLite nor DuckDB."""
    try:
        engine = engine_of(path)
    except OSError as error:
        raise CopyError(
            f"cannot read the copy {path}: {error.strerror}. If there is no copy yet, run `counterfoil pull` first."
        ) from error
    if engine is None:
        raise CopyError(f"{path} is not a DuckDB or SQLite file. Use the copy that `counterfoil pull` wrote.")
    return engine == "sqlite"


def fill(snapshot: duckdb.DuckDBPyConnection, path: Path, scratch: Path) -> bytes | None:
    """Create the snapshot's tables from the copy. Return the state of the pull at the same instant."""
    try:
        state = (_fill_from_sqlite if is_sqlite(path) else _fill_from_duckdb)(snapshot, path, scratch)
    except (duckdb.Error, sqlite3.Error, OSError) as error:
        if _is_locked(error):
            raise CopyLocked("A pull is writing to the copy at the moment. Ask again in a minute.") from error
        raise CopyError(f"cannot read the copy {path}: {first_line(error)}") from error
    return str(state[0]).encode() if state and state[0] else None


def _is_locked(error: Exception) -> bool:
    if isinstance(error, sqlite3.Error):
        return kind_of(error) in LOCKED
    # DuckDB's errors have no codes.
    return "Could not set lock" in str(error)


def _require_whole_copy(found: Rows, path: Path) -> None:
    """Check the columns of a copy, given as pairs of a table and a column."""
    columns: dict[str, set[str]] = {"pull_state": set()}
    for table, column in found:
        columns.setdefault(table, set()).add(column)
    if "state" not in columns["pull_state"]:
        raise CopyError(f"{path} was not written by `counterfoil pull`.")
    if incomplete := incomplete_tables(columns):
        raise CopyError(LOST.format(tables=", ".join(incomplete)))


def _selected(table: Table, convert: Callable[[str, Kind], str]) -> str:
    values = {column.name: convert(f'"{column.name}"', column.kind) for column in table.columns}
    if table.name in PRESENCE:
        name, source = PRESENCE[table.name]
        values[name] = f'"{source}" IS NOT NULL'
    return ", ".join(f'{value} AS "{name}"' for name, value in values.items())


def _fill_from_duckdb(snapshot: duckdb.DuckDBPyConnection, path: Path, scratch: Path) -> tuple[Any, ...] | None:
    """Copy the tables from a private copy of the file, so that the file itself is locked only briefly."""
    private = scratch.with_suffix(".duckdb")
    _copy_locked_file(snapshot, path, private)
    try:
        _attach(snapshot, private)
        # DuckDB keeps the file open, so unlink it now: its space is then freed even if this process is killed.
        _remove(private)
        _require_whole_copy(snapshot.execute(_DUCKDB_COLUMNS).fetchall(), path)
        for table in PUBLISHED.values():
            selected = _selected(table, lambda value, _: value)
            snapshot.execute(f"CREATE TABLE {table.name} AS SELECT {selected} FROM pulled.{table.name}")
        state = snapshot.execute("SELECT state FROM pulled.pull_state").fetchone()
        snapshot.execute("DETACH pulled")
    finally:
        _remove(private)
    return state


def _copy_locked_file(snapshot: duckdb.DuckDBPyConnection, path: Path, private: Path) -> None:
    """Copy the database file and its write-ahead log while DuckDB holds the lock that keeps writers out."""
    _attach(snapshot, path)
    try:
        # The log is copied first: copying the database file also closes it, which releases this process's lock on it.
        for source, target in reversed(list(zip(_files(path), _files(private), strict=True))):
            if source.exists():
                shutil.copyfile(source, target)
    finally:
        snapshot.execute("DETACH pulled")


def _attach(snapshot: duckdb.DuckDBPyConnection, path: Path) -> None:
    snapshot.execute(f"ATTACH '{escape_quotes(str(path))}' AS pulled (READ_ONLY)")


def _files(path: Path) -> tuple[Path, Path]:
    """Return the database file and its write-ahead log, which is left behind if a pull is killed."""
    return path, path.with_name(f"{path.name}.wal")


def _remove(path: Path) -> None:
    for file in _files(path):
        file.unlink(missing_ok=True)


def _fill_from_sqlite(snapshot: duckdb.DuckDBPyConnection, path: Path, scratch: Path) -> tuple[Any, ...] | None:
    """Copy the tables in one read transaction. In SQLite's WAL mode, readers do not block a pull."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=SQLITE_WAIT_SEC)) as db:
        db.isolation_level = None
        db.execute("BEGIN")
        _require_whole_copy(db.execute(_SQLITE_COLUMNS).fetchall(), path)
        for table in PUBLISHED.values():
            _copy_sqlite_table(snapshot, db, table, scratch)
        state: tuple[Any, ...] | None = db.execute("SELECT state FROM pull_state").fetchone()
        return state


def _copy_sqlite_table(
    snapshot: duckdb.DuckDBPyConnection, db: sqlite3.Connection, table: Table, scratch: Path
) -> None:
    """Write a table's rows to a JSON file, with every value as a string, and let DuckDB convert them."""
    selected = {column.name: f'"{column.name}"' for column in table.columns}
    if table.name in PRESENCE:
        _, source = PRESENCE[table.name]
        selected[source] = f'CASE WHEN "{source}" IS NOT NULL THEN 1 END'  # The value itself is not read.
    with scratch.open("wb") as out:
        for row in db.execute(f"SELECT {', '.join(selected.values())} FROM {table.name}"):
            texts = (None if value is None else str(value) for value in row)
            out.write(msgspec.json.encode(dict(zip(selected, texts, strict=True))) + b"\n")
    types = ", ".join(f"\"{name}\": 'VARCHAR'" for name in selected)
    snapshot.execute(
        f"CREATE TABLE {table.name} AS SELECT {_selected(table, _from_text)} "
        f"FROM read_json('{escape_quotes(str(scratch))}', format = 'newline_delimited', columns = {{{types}}})"
    )
    scratch.unlink()


def _from_text(value: str, kind: Kind) -> str:
    return f"CAST({f'CAST({value} AS JSON)' if kind is Kind.TEXTS else value} AS {TYPES[kind]})"


# --- the snapshot: a private DuckDB file with the published columns, which answers all questions --
#
# DuckDB allows either one writer or several readers of a file. The copy is therefore opened only while a snapshot is
# made, and only if it has changed since the last snapshot. While a pull has locked it, the last snapshot is used.

SNAPSHOT_FILE = "snapshot.duckdb"
MEMORY_MB = 512
# DuckDB's memory limit does not cover long strings and the rows of a result, so the process has its own limit.
PROCESS_MB = 1536
THREADS = 2
SPILL_GB = 2
MAX_SECONDS = 20.0

PULL_RUNNING = "A pull is writing to the copy. This result is based on data from before the pull began."


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
        """Run one of our own statements and return its rows of JSON values."""
        return self._result(statement, values).rows

    def objects(self, statement: str, values: Sequence[Any] = ()) -> list[Json]:
        """Run one of our own statements and return its rows as JSON objects."""
        result = self._result(statement, values)
        return [dict(zip(result.names, row, strict=True)) for row in result.rows]

    def query(self, statement: str, limit: int) -> Result:
        """Run a caller's statement, which must be a single SELECT, and return at most `limit` rows of JSON values."""
        text = statement.strip().rstrip(";")
        with self._limited():
            parsed = self._db.extract_statements(text)
        if len(parsed) != 1 or parsed[0].type != duckdb.StatementType.SELECT:
            raise QueryRefused("Only a single SELECT statement is allowed.")
        return self._result(text, limit=limit)

    def _result(self, statement: str, values: Sequence[Any] = (), limit: int = sys.maxsize) -> Result:
        rows: Rows = []
        with self._limited():
            cursor = self._db.execute(self._fetchable(statement, values), list(values))
            # Values are shortened before the next row is read, because a single value can be many megabytes long.
            while len(rows) <= limit and (row := cursor.fetchone()) is not None:
                rows.append(tuple(map(json_value, row)))
            return Result([column[0] for column in cursor.description or ()], rows[:limit], len(rows) > limit)

    def _fetchable(self, statement: str, values: Sequence[Any] = ()) -> str:
        """Return a statement whose instants are text in UTC. To fetch instants, DuckDB needs another package."""
        inner = f"FROM (\n{statement}\n) AS result"
        columns = self._db.execute(f"DESCRIBE {inner}", list(values)).fetchall()
        if not any("TIME ZONE" in kind for _, kind, *_ in columns):
            return statement
        fetched = (_fetched(number, name, kind) for number, (name, kind, *_) in enumerate(columns, 1))
        return f"SELECT {', '.join(fetched)} {inner}"

    def close(self) -> None:
        self._db.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    @contextmanager
    def _limited(self) -> Iterator[None]:
        timer = threading.Timer(MAX_SECONDS, self._db.interrupt)
        timer.start()
        try:
            yield
        except duckdb.InterruptException as error:
            raise QueryRefused(f"The question took more than {MAX_SECONDS:.0f} s. Ask about fewer days.") from error
        except (duckdb.OutOfMemoryException, MemoryError) as error:
            raise QueryRefused(
                f"The question needs more than {MEMORY_MB} MB of memory or {SPILL_GB} GB of temporary "
                "space. Ask about fewer days, or for fewer or shorter values."
            ) from error
        except duckdb.Error as error:
            raise QueryRefused(f"DuckDB: {error}") from error
        finally:
            timer.cancel()


def _fetched(number: int, name: str, kind: str) -> str:
    value = f"#{number}"
    if kind == "TIMESTAMP WITH TIME ZONE":
        value = f"strftime(#{number} AT TIME ZONE 'UTC', '%Y-%m-%dT%H:%M:%S.%gZ')"
    elif "TIME ZONE" in kind:
        value = f"CAST(#{number} AS VARCHAR)"
    quoted = name.replace('"', '""')
    return f'{value} AS "{quoted}"'


def limit_process_memory() -> None:
    """Make allocations of this process fail above a limit, so that a question cannot use up the machine's memory."""
    # DuckDB and Python report a failed allocation as an error, and the server can answer the next question.
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = PROCESS_MB * 1024**2
    if soft == resource.RLIM_INFINITY or soft > wanted:
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))


class CopyReader:
    """Provides the newest snapshot of a copy. Its temporary folder is private to this process."""

    def __init__(self, path: Path) -> None:
        self.path = copy_file(path)
        self._folder = Path(tempfile.mkdtemp(prefix="counterfoil-mcp-"))
        self._version: tuple[int, ...] = ()
        self._current: Snapshot | None = None

    def snapshot(self) -> tuple[Snapshot, str | None]:
        """Return the snapshot to query, and a note if it is not up to date."""
        version = _file_version(self.path)
        if self._current and version == self._version:
            return self._current, None
        try:
            made = self._make()
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

    def _make(self) -> Snapshot:
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        try:
            with duckdb.connect(str(folder / SNAPSHOT_FILE), config={"autoinstall_known_extensions": "false"}) as db:
                db.execute(f"SET memory_limit = '{MEMORY_MB}MB'")
                db.execute(f"SET threads = {THREADS}")
                db.execute("SET preserve_insertion_order = false")
                db.execute("SET TimeZone = 'UTC'")
                state = fill(db, self.path, folder / "rows.ndjson")
                for name, view in VIEWS.items():
                    db.execute(f"CREATE VIEW {name} AS {view.sql}")
                progress = decode(state)
                counts = {name: db.execute(f"SELECT count(*) FROM {name}").fetchall()[0][0] for name in PUBLISHED}
                if state is None and any(counts.values()):
                    raise CopyError("The table pull_state is empty, so it is not known how current the copy is.")
                if lost := progress.lost_tables(progress.rows | counts):
                    raise CopyError(LOST.format(tables=", ".join(lost)))
            return Snapshot(folder, progress)
        except BaseException as error:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, CopyMismatch):
                raise CopyError(str(error)) from error
            raise


def _file_version(path: Path) -> tuple[int, ...]:
    """Return values that change whenever the file or its write-ahead log changes. A missing file adds no values."""
    version: list[int] = []
    for file in (path, path.with_name(f"{path.name}.wal"), path.with_name(f"{path.name}-wal")):
        with suppress(OSError):
            found = file.stat()
            version += (found.st_ino, found.st_size, found.st_mtime_ns)
    return tuple(version)


# --- values as JSON without losing digits: money and quantities become decimal strings ---

MAX_TEXT = 1_000
# Results are limited, because a language model reads them and its cost grows with their length.
MAX_ANSWER_BYTES = 60_000


def json_value(value: Any) -> Any:
    if isinstance(value, Decimal | float):
        return decimal_text(Decimal(str(value)))
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else value[:MAX_TEXT] + "…"
    if isinstance(value, list | tuple):
        return [json_value(element) for element in value]
    if isinstance(value, dict):
        return {str(name): json_value(element) for name, element in value.items()}
    if value is None or isinstance(value, bool | int):
        return value
    return str(value)[:MAX_TEXT]


def within_budget(rows: list[Any]) -> list[Any]:
    """Return as many of the first rows as fit into a tool result."""
    spent, kept = 0, []
    for row in rows:
        spent += len(msgspec.json.encode(printable_json(row)))
        if spent > MAX_ANSWER_BYTES:
            break
        kept.append(row)
    return kept
