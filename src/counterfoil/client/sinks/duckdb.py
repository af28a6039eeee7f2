"""A copy in a DuckDB file. Rows are written to a scratch file, which DuckDB's JSON reader parses."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from counterfoil.client.sinks import SinkError, json_rows
from counterfoil.client.sinks.duckdb_engine import engine
from counterfoil.client.sinks.json_rows import JsonRows
from counterfoil.client.sinks.schema import OWN_TABLES
from counterfoil.client.sinks.sql import Rows, SqlSink, column_names
from counterfoil.client.sinks.views import DUCKDB_VIEWS
from counterfoil.client.tables import TABLES, Table

# The magic bytes of a DuckDB file, which follow the checksum of its first block.
MAGIC_OFFSET, MAGIC = 8, b"DUCK"
# DuckDB merges its log into the file when the log reaches this size. Almost every transaction would reach the default
# of 16 MB.
CHECKPOINT_AT = "1GB"
_EXISTING = """
    SELECT table_name, column_name FROM duckdb_columns() WHERE schema_name = current_schema() AND NOT internal
    UNION ALL SELECT view_name, '' FROM duckdb_views() WHERE NOT internal
"""


class DuckDBSink(SqlSink):
    """A copy in a DuckDB file. DuckDB's file lock prevents a second writer."""

    TYPES = json_rows.TYPES
    VIEWS = DUCKDB_VIEWS

    _parser: JsonRows

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._scratch = path.with_name(f"{path.name}.scratch")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _require_duckdb(path)
            self._db = engine.connect(str(path), config={"autoinstall_known_extensions": False})
        except (engine.Error, OSError) as error:
            raise SinkError(_open_error(path, error)) from error
        try:
            self._set_up()
        except BaseException:
            self._db.close()
            raise

    def _set_up(self) -> None:
        # We hold the file's lock, so anything left in the scratch folder is from a process that was killed.
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._ahead = self._db.cursor()
        self._parser = JsonRows(self.run, self._run_ahead, self._scratch)
        self.run(f"SET checkpoint_threshold = '{CHECKPOINT_AT}'")
        self.make_tables()

    def close(self) -> None:
        self._ahead.close()
        self._db.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def run(self, statement: str, values: Sequence[Any] = ()) -> Rows:
        try:
            return self._db.execute(statement, values or None).fetchall()
        except engine.Error as error:
            raise SinkError(f"DuckDB: {_first_line(error)}") from error

    def _run_ahead(self, statement: str) -> None:
        try:
            self._ahead.execute(statement)
        except engine.Error as error:
            raise SinkError(f"DuckDB: {_first_line(error)}") from error

    def fill(self, table: Table, target: str, supplied: dict[str, str]) -> None:
        self.run(f"INSERT INTO {target} ({column_names(table)}) {self._parser.select(table, supplied)}")

    def existing(self) -> Rows:
        # To list all columns, DuckDB parses the definitions of its own views, which takes as long as opening the file.
        # So first query only the tables and views of a complete copy. If one of them does not exist, the query fails,
        # and all columns are listed.
        names = (*OWN_TABLES, *(table.name for table in TABLES), *self.VIEWS)
        columns = (f"SELECT '{name}', name FROM pragma_table_info('{name}')" for name in names)
        try:
            return self._db.execute(" UNION ALL ".join(columns)).fetchall()
        except engine.CatalogException:
            return self.run(_EXISTING)

    def microseconds(self, column: str) -> str:
        return f"epoch_us({column})"

    def hash_number(self, text: str) -> str:
        return f"CAST('0x' || substr(md5({text}), 1, 15) AS HUGEINT)"


def _require_duckdb(path: Path) -> None:
    """Raise SinkError if the file exists but is not a DuckDB file.

    Without this check, DuckDB might load one of its extensions and open a file
    of another format, such as SQLite.
    """
    if path.exists():
        with path.open("rb") as file:
            head = file.read(MAGIC_OFFSET + len(MAGIC))
        if head[MAGIC_OFFSET:] != MAGIC:
            raise SinkError(f"{path} exists but is not a DuckDB file. Choose another target.")


def _open_error(path: Path, error: Exception) -> str:
    if "Could not set lock" in str(error):
        return (
            f"{path} is open in another process. Close it there first: a pull or reconcile needs exclusive access to "
            "the file."
        )
    return f"cannot open the DuckDB file {path}: {_first_line(error)}"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
