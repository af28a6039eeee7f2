"""Reads the published columns of a copy, in DuckDB or SQLite, into the tables of a snapshot."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import msgspec

from counterfoil.client.tables import TABLES, Content, Kind, Table
from counterfoil.text import first_line

SQLITE_MAGIC = b"SQLite format 3\0"
DUCKDB_MAGIC_OFFSET, DUCKDB_MAGIC = 8, b"DUCK"
# In a folder of Parquet files, the copy itself is this hidden file.
FILE_IN_FOLDER = ".counterfoil.duckdb"
# How long SQLite waits for a writer that has locked the whole file.
SQLITE_WAIT_SEC = 5.0

# Instants are stored in UTC without a time zone, because DuckDB's Python package needs another package for time zones.
TYPES = {
    Kind.TEXT: "VARCHAR",
    Kind.TEXTS: "VARCHAR[]",
    Kind.DECIMAL: "DECIMAL(38,6)",
    Kind.QUANTITY: "DECIMAL(38,18)",
    Kind.INTEGER: "BIGINT",
    Kind.FLAG: "BOOLEAN",
    Kind.INSTANT: "TIMESTAMP",
    Kind.DAY: "DATE",
}

# The columns that an assistant may see: the facts of all tables that have facts of their own. Contact data, names of
# people, IDs of members and text that staff can type freely are not loaded into the snapshot: a table may be named
# after a guest, and a reason or a label can contain anything. Neither are coupons: whoever knows the code of a coupon
# can redeem it.
PUBLISHED = {
    table.name: {column.name for column in table.columns if column.content is Content.FACT}
    for table in TABLES
    if any(column.content is Content.FACT and column.path and not column.of_parent for column in table.columns)
}
# Boolean columns that are computed when the copy is read, keyed by table. An entry names the column and a withheld
# column; the computed column is true in the rows in which the withheld column is not null.
PRESENCE = {"bills": ("has_member", "member_id")}

_DUCKDB_COLUMNS = "SELECT table_name, column_name FROM duckdb_columns() WHERE database_name = 'pulled'"
_SQLITE_COLUMNS = """
    SELECT m.name, c.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c WHERE m.type = 'table'
"""

# Pairs of a table and a column that exist in a copy.
Found = set[tuple[str, str]]


class CopyError(Exception):
    """The copy cannot be read. The message says why and, in most cases, what to do."""


class CopyLocked(CopyError):
    """Another process is writing to the copy at the moment."""


def copy_file(path: Path) -> Path:
    """Return the database file of a copy. In a folder of Parquet files, it is a hidden file."""
    return path / FILE_IN_FOLDER if path.is_dir() else path


def is_sqlite(path: Path) -> bool:
    """Return whether the file is an SQLite database. Raise `CopyError` if it is neither SQLite nor DuckDB."""
    try:
        with path.open("rb") as file:
            head = file.read(len(SQLITE_MAGIC))
    except OSError as error:
        raise CopyError(
            f"cannot read the copy {path}: {error.strerror}. If there is no copy yet, run `counterfoil pull` first."
        ) from error
    if head == SQLITE_MAGIC:
        return True
    if head[DUCKDB_MAGIC_OFFSET : DUCKDB_MAGIC_OFFSET + len(DUCKDB_MAGIC)] == DUCKDB_MAGIC:
        return False
    raise CopyError(f"{path} is not a DuckDB or SQLite file. Use the copy that `counterfoil pull` wrote.")


def fill(snapshot: duckdb.DuckDBPyConnection, path: Path, scratch: Path) -> bytes | None:
    """Create the snapshot's tables from the copy. Return the state of the pull at the same instant."""
    if is_sqlite(path):
        return _fill_from_sqlite(snapshot, path, scratch)
    return _fill_from_duckdb(snapshot, path, scratch)


def _published_tables() -> list[Table]:
    return [table for table in TABLES if table.name in PUBLISHED]


def _require_pull_state(found: Found, path: Path) -> None:
    if ("pull_state", "state") not in found:
        raise CopyError(f"{path} was not written by `counterfoil pull`.")


def _columns(table: Table, found: Found) -> Iterator[tuple[str, Kind]]:
    """Yield the published columns that this copy has. A copy made by an older release may lack some of them."""
    for column in table.columns:
        if column.name in PUBLISHED[table.name] and (table.name, column.name) in found:
            yield column.name, column.kind


def _missing(table: Table, found: Found) -> Iterator[str]:
    for column in table.columns:
        if column.name in PUBLISHED[table.name] and (table.name, column.name) not in found:
            yield f'CAST(NULL AS {TYPES[column.kind]}) AS "{column.name}"'


# --- DuckDB --------------------------------------------------------------------------


def _fill_from_duckdb(snapshot: duckdb.DuckDBPyConnection, path: Path, scratch: Path) -> bytes | None:
    """Copy the tables from a private copy of the file, so that the file itself is locked only briefly."""
    private = scratch.with_suffix(".duckdb")
    _copy_locked_file(snapshot, path, private)
    try:
        _attach(snapshot, private)
        # DuckDB keeps the file open, so unlink it now: its space is then freed even if this process is killed.
        _remove(private)
        found = {(table, column) for table, column in snapshot.execute(_DUCKDB_COLUMNS).fetchall()}
        _require_pull_state(found, path)
        for table in _published_tables():
            columns = [_from_duckdb(name, kind) for name, kind in _columns(table, found)]
            if table.name in PRESENCE:
                name, source = PRESENCE[table.name]
                columns.append(f'"{source}" IS NOT NULL AS {name}')
            selected = ", ".join([*columns, *_missing(table, found)])
            snapshot.execute(f"CREATE TABLE {table.name} AS SELECT {selected} FROM pulled.{table.name}")
        state = snapshot.execute("SELECT state FROM pulled.pull_state").fetchone()
        snapshot.execute("DETACH pulled")
    except duckdb.Error as error:
        raise CopyError(f"cannot read the copy {path}: {first_line(error)}") from error
    finally:
        _remove(private)
    return str(state[0]).encode() if state and state[0] else None


def _copy_locked_file(snapshot: duckdb.DuckDBPyConnection, path: Path, private: Path) -> None:
    """Copy the database file and its write-ahead log while DuckDB holds the lock that keeps writers out."""
    try:
        _attach(snapshot, path)
    except duckdb.Error as error:
        if "Could not set lock" in str(error):
            raise CopyLocked("A pull is writing to the copy at the moment. Ask again in a minute.") from error
        raise CopyError(f"cannot open the copy {path}: {first_line(error)}") from error
    try:
        # The log is copied first: copying the database file also closes it, which releases this process's lock on it.
        for source, target in reversed(list(zip(_files(path), _files(private), strict=True))):
            if source.exists():
                shutil.copyfile(source, target)
    except OSError as error:
        raise CopyError(f"cannot read the copy {path}: {error.strerror}.") from error
    finally:
        snapshot.execute("DETACH pulled")


def _attach(snapshot: duckdb.DuckDBPyConnection, path: Path) -> None:
    quoted = str(path).replace("'", "''")
    snapshot.execute(f"ATTACH '{quoted}' AS pulled (READ_ONLY)")


def _files(path: Path) -> tuple[Path, Path]:
    """Return the database file and its write-ahead log, which is left behind if a pull is killed."""
    return path, path.with_name(f"{path.name}.wal")


def _remove(path: Path) -> None:
    for file in _files(path):
        file.unlink(missing_ok=True)


def _from_duckdb(name: str, kind: Kind) -> str:
    return f'"{name}" AT TIME ZONE \'UTC\' AS "{name}"' if kind is Kind.INSTANT else f'"{name}"'


# --- SQLite --------------------------------------------------------------------------


def _fill_from_sqlite(snapshot: duckdb.DuckDBPyConnection, path: Path, scratch: Path) -> bytes | None:
    """Copy the tables in one read transaction. In SQLite's WAL mode, readers do not block a pull."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=SQLITE_WAIT_SEC)) as db:
            db.isolation_level = None
            db.execute("BEGIN")
            found = set(db.execute(_SQLITE_COLUMNS).fetchall())
            _require_pull_state(found, path)
            for table in _published_tables():
                _copy_sqlite_table(snapshot, db, table, found, scratch)
            state = db.execute("SELECT state FROM pull_state").fetchone()
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise CopyLocked("A pull is writing to the copy at the moment. Ask again in a minute.") from error
        raise CopyError(f"cannot read the copy {path}: {error}") from error
    except sqlite3.Error as error:
        raise CopyError(f"cannot read the copy {path}: {error}") from error
    if not state or not state[0]:
        return None
    return state[0] if isinstance(state[0], bytes) else str(state[0]).encode()


def _copy_sqlite_table(
    snapshot: duckdb.DuckDBPyConnection, db: sqlite3.Connection, table: Table, found: Found, scratch: Path
) -> None:
    """Write a table's rows to a JSON file, with every value as a string, and let DuckDB convert them."""
    columns = list(_columns(table, found))
    names = [name for name, _ in columns]
    selected = [f'"{name}"' for name in names]
    converted = [_from_text(name, kind) for name, kind in columns]
    if table.name in PRESENCE:
        name, source = PRESENCE[table.name]
        names.append(name)
        selected.append(f'"{source}" IS NOT NULL')
        converted.append(_from_text(name, Kind.FLAG))
    with scratch.open("wb") as out:
        for row in db.execute(f"SELECT {', '.join(selected)} FROM {table.name}"):
            texts = (None if value is None else str(value) for value in row)
            out.write(msgspec.json.encode(dict(zip(names, texts, strict=True))) + b"\n")
    quoted = str(scratch).replace("'", "''")
    types = ", ".join(f"\"{name}\": 'VARCHAR'" for name in names)
    selection = ", ".join([*converted, *_missing(table, found)])
    snapshot.execute(
        f"CREATE TABLE {table.name} AS SELECT {selection} "
        f"FROM read_json('{quoted}', format = 'newline_delimited', columns = {{{types}}})"
    )
    scratch.unlink()


def _from_text(name: str, kind: Kind) -> str:
    text = f'"{name}"'
    if kind is Kind.TEXTS:
        text = f"CAST({text} AS JSON)"
    elif kind is Kind.INSTANT:
        return f"CAST({text} AS TIMESTAMPTZ) AT TIME ZONE 'UTC' AS \"{name}\""
    return f'CAST({text} AS {TYPES[kind]}) AS "{name}"'
