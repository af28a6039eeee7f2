"""A copy in an SQLite file, which Datasette and ODBC tools can open.

SQLite has no decimal type. The service computes with floating-point numbers, so a REAL keeps every digit that it sends,
and unlike text it is compared as a number.
"""

import fcntl
import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from hashlib import md5
from pathlib import Path
from typing import Any

from counterfoil.client.copy_views import SQLITE_VIEWS
from counterfoil.client.sinks import engine_of
from counterfoil.client.sinks.json_rows import RESTORE, Fill, RowConverter, Rows, SinkError
from counterfoil.client.sinks.sql import Sink, column_names
from counterfoil.client.tables import Dialect, Kind

# How long to wait for another process that has locked the file.
BUSY_SEC = 5.0
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

_TYPES = {
    Kind.TEXT: "TEXT",
    Kind.TEXTS: "TEXT",
    Kind.DECIMAL: "REAL",
    Kind.QUANTITY: "REAL",
    Kind.INTEGER: "INTEGER",
    Kind.FLAG: "INTEGER",
    Kind.INSTANT: "TEXT",
    Kind.LOCAL_TIME: "TEXT",
    Kind.DAY: "TEXT",
}


def kind_of(error: sqlite3.Error) -> int:
    """Return the kind of an error: the low byte of its code. Errors of the module itself have no code."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


class SQLiteSink(Sink):
    """A copy in an SQLite file. SQLite allows several writers, so the lock of a folder prevents a second pull."""

    DIALECT = Dialect(
        _TYPES, SQLITE_VIEWS, instant="replace(strftime('%Y-%m-%d %H:%M:%f', {}), '.000', '')", has_comments=False
    )
    # A deferred transaction could fail at its first write because another process has written in the meantime.
    BEGIN = "BEGIN IMMEDIATE"
    # `hash_number` and `exact_sum` are functions below.
    DAY_TOTALS = """
        WITH hashed AS (
            SELECT *,
                id || '|' || coalesce(CAST(round((julianday(updated_at) - 2440587.5) * 86400000) AS INTEGER), '')
                    AS id_and_change
            FROM bills WHERE ? IS NULL OR bill_date >= ?
        )
        SELECT shop_id, CAST(bill_date AS TEXT), count(*), sum(CASE WHEN status = 'void' THEN 1 ELSE 0 END),
            exact_sum(net), exact_sum(tip), exact_sum(hash_number(id_and_change))
        FROM hashed GROUP BY shop_id, bill_date
    """
    EXISTING = """
        SELECT listed.name, columns.name FROM sqlite_master AS listed JOIN pragma_table_info(listed.name) AS columns
        WHERE listed.type = 'table' UNION ALL SELECT name, '' FROM sqlite_master WHERE type = 'view'
    """

    _db: sqlite3.Connection
    _parser: RowConverter

    def __init__(self, path: Path) -> None:
        real = path.resolve()
        self._parser = RowConverter(real.with_name(f"{real.name}.scratch"))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and path.stat().st_size and engine_of(path) != "sqlite":
                raise SinkError(f"{path} exists but is not an SQLite file. Choose another target.")
            self._db = sqlite3.connect(path, timeout=BUSY_SEC, isolation_level=None, check_same_thread=False)
            self._lock = locked(self._parser.folder)
        except BlockingIOError as error:
            raise SinkError(
                "another pull or reconcile is writing to the SQLite file. Wait until it has finished."
            ) from error
        except (sqlite3.Error, OSError) as error:
            raise SinkError(f"cannot open the SQLite file {path}: {error}") from error
        self.set_up_or_close()

    def set_up(self) -> None:
        self._db.create_aggregate("exact_sum", 1, _ExactSum)  # type: ignore[arg-type]  # `finalize` returns text
        self._db.create_function("hash_number", 1, _hash_number, deterministic=True)
        # In this mode, readers see the last commit while a pull writes, and do not block the pull.
        self.run("PRAGMA journal_mode = WAL")
        self.run("PRAGMA synchronous = FULL")
        self.run("PRAGMA secure_delete = ON")
        # By default, SQLite writes temporary tables and intermediate results to the system's folder for temporary
        # files, which may be small. They fit in memory: a temporary table holds one batch, and the largest intermediate
        # result holds only the IDs of a base's members, or of the bills that a full pass did not return.
        self.run("PRAGMA temp_store = MEMORY")
        self.make_tables()

    def run(self, statement: str, values: Sequence[Any] = ()) -> Rows:
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            kind = kind_of(error)
            if kind in LOCKED:
                raise SinkError(
                    "another process is writing to the SQLite file. Wait until it has finished, then run "
                    "the command again."
                ) from error
            if kind in DAMAGED:
                raise SinkError(f"SQLite: {error}. The file is damaged: {RESTORE}") from error
            raise SinkError(f"SQLite: {error}") from error

    def erase_remains(self) -> None:
        if not self.has_remains():
            return
        # A reader may prevent this. Then the next run does it.
        with suppress(SinkError):
            self.run("VACUUM")
            ((is_busy, _, _),) = self.run("PRAGMA wal_checkpoint(TRUNCATE)")
            if not is_busy:
                self.run("DELETE FROM pull_erased")

    def close(self) -> None:
        super().close()
        os.close(self._lock)

    def fill(self, fills: Sequence[Fill]) -> None:
        try:
            for fill in fills:
                places = ", ".join("?" * len(fill.table.columns))
                statement = f"INSERT INTO {fill.target} ({column_names(fill.table)}) VALUES ({places})"
                for rows in self._parser.tuples(fill, _convert):
                    self._db.executemany(statement, rows)
        except sqlite3.Error as error:
            raise SinkError(f"SQLite: {error}") from error


def locked(folder: Path) -> int:
    """Create a private folder, delete what a killed pull left in it, and lock it until the descriptor is closed."""
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        lock = os.open(folder, os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.fchmod(lock, 0o700)
            if not os.path.samestat(os.fstat(lock), folder.stat()):
                raise FileNotFoundError
            for file in folder.iterdir():
                file.unlink()
        except OSError:
            os.close(lock)
            raise
    except FileNotFoundError as error:
        raise BlockingIOError("another pull has just deleted the folder") from error
    return lock


class _ExactSum:
    """An SQL aggregate function that adds numbers exactly, as decimals."""

    def __init__(self) -> None:
        self._total = Decimal(0)

    def step(self, value: object) -> None:
        if value is not None:
            self._total += Decimal(str(value))

    def finalize(self) -> str:
        return f"{self._total:f}"


def _hash_number(text: str) -> int:
    return int(md5(text.encode(), usedforsecurity=False).hexdigest()[:15], 16)


def _convert(value: str, kind: Kind) -> str:
    """Return SQL for DuckDB that converts a value to one of SQLite's types."""
    match kind:
        case Kind.DECIMAL | Kind.QUANTITY:
            # DuckDB converts text to the nearest number. For decimals, it does not promise that.
            return f"CAST(CAST({value} AS VARCHAR) AS DOUBLE)"
        case Kind.TEXTS:
            return f"CAST(to_json({value}) AS VARCHAR)"
        case Kind.FLAG:
            return f"CAST({value} AS INTEGER)"
        case Kind.INSTANT | Kind.LOCAL_TIME:
            # As text, times must compare like those of SQLite's `datetime()`, which have no fraction and no zone.
            return f"replace(strftime({value}, '%Y-%m-%d %H:%M:%S.%g'), '.000', '')"
        case Kind.DAY:
            return f"CAST({value} AS VARCHAR)"
    return value
