"""A copy in a DuckDB file. Rows are written to a scratch file, which DuckDB's JSON reader parses."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

from counterfoil.client.sinks import SinkError
from counterfoil.client.sinks.sql import Rows, SqlSink, escape_quotes
from counterfoil.client.tables import Kind, Table, json_schema

# This is enough for batches of ordinary bills. Each thread of the JSON reader takes 32 MB, even for a small file.
MEMORY_MB = 112
THREADS = 2
# Default maximum row size of the reader. Longer rows raise both this limit and the memory limit.
ROW_BYTES = 4 * 1024 * 1024

# The magic bytes of a DuckDB file, which follow the checksum of its first block.
MAGIC_OFFSET, MAGIC = 8, b"DUCK"


class DuckDBSink(SqlSink):
    """A copy in a DuckDB file. DuckDB's file lock prevents a second writer."""

    TYPES = {  # noqa: RUF012 - never modified
        Kind.TEXT: "VARCHAR",
        Kind.TEXTS: "VARCHAR[]",
        Kind.DECIMAL: "DECIMAL(38,6)",
        Kind.QUANTITY: "DECIMAL(38,18)",
        Kind.INTEGER: "BIGINT",
        Kind.FLAG: "BOOLEAN",
        Kind.INSTANT: "TIMESTAMPTZ",
        Kind.DAY: "DATE",
    }
    # DuckDB reads the JSON number 8935002455.22 as 8935002455.219999. Reading it as text keeps the digits exact.
    _READ_AS = {**TYPES, Kind.DECIMAL: "VARCHAR", Kind.QUANTITY: "VARCHAR"}  # noqa: RUF012

    def __init__(self, path: Path) -> None:
        self._scratch = path.with_name(f"{path.name}.scratch")
        self._longest = ROW_BYTES
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _require_duckdb(path)
            self._db = duckdb.connect(str(path), config={"autoinstall_known_extensions": False})
        except (duckdb.Error, OSError) as error:
            raise SinkError(_open_error(path, error)) from error
        try:
            self._set_up()
        except BaseException:
            self._db.close()
            raise

    def _set_up(self) -> None:
        # We hold the file's lock, so anything left in the scratch folder is from a pull that was killed.
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir(mode=0o700)
        self.run(f"SET threads = {THREADS}")
        self.run(f"SET memory_limit = '{MEMORY_MB}MB'")
        self.run(f"SET temp_directory = '{escape_quotes(str(self._scratch))}'")
        self.run("SET preserve_insertion_order = false")
        self.run("SET TimeZone = 'UTC'")
        self.make_tables()

    def close(self) -> None:
        self._db.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def run(self, statement: str, values: Sequence[Any] = ()) -> Rows:
        try:
            return self._db.execute(statement, values or None).fetchall()
        except duckdb.Error as error:
            raise SinkError(f"DuckDB: {_first_line(error)}") from error

    def read(self, rows: Sequence[bytes], tables: Sequence[Table]) -> None:
        scratch = self._scratch / "rows.ndjson"
        try:
            with scratch.open("wb") as out:
                out.writelines(line for row in rows for line in (row, b"\n"))
        except OSError as error:
            raise SinkError(f"cannot write {scratch}: {error.strerror}") from error
        longest = max(map(len, rows), default=0) + 2
        if longest > self._longest:
            self._longest = longest
            self.run(f"SET memory_limit = '{MEMORY_MB + 16 * longest // 1024**2}MB'")
        fields = ", ".join(f"{name}: '{self._type(node)}'" for name, node in json_schema(tables).items())
        self.run(
            f"CREATE OR REPLACE TEMPORARY TABLE incoming AS SELECT * FROM read_json('{escape_quotes(str(scratch))}', "
            f"format = 'newline_delimited', maximum_object_size = {self._longest}, columns = {{{fields}}})"
        )

    def field(self, row: str, path: tuple[str, ...], kind: Kind) -> str:
        at = ".".join(f'"{part}"' for part in (row, *path))
        return f"CAST({at} AS {self.TYPES[kind]})" if self._READ_AS[kind] != self.TYPES[kind] else at

    def each(self, source: str, lists: Sequence[tuple[str, ...]]) -> tuple[str, str]:
        """Unnest the lists. The outer row is passed through as one struct, so that its fields keep their names."""
        source = f"(SELECT {source} AS outer_row FROM {source})"
        for depth, path in enumerate(lists, 1):
            owner = "outer_row" if depth == 1 else f"e{depth - 1}"
            at = self.field(owner, path, Kind.TEXTS)
            source = f"(SELECT *, unnest({at}) AS e{depth}, generate_subscripts({at}, 1) AS n{depth} FROM {source})"
        return source, f"e{len(lists)}"

    def microseconds(self, column: str) -> str:
        return f"epoch_us({column})"

    def hash_number(self, text: str) -> str:
        return f"CAST('0x' || substr(md5({text}), 1, 15) AS HUGEINT)"

    def _type(self, node: Any) -> str:
        if isinstance(node, Kind):
            return self._READ_AS[node]
        if isinstance(node, list):
            return f"{self._type(node[0])}[]"
        return "STRUCT(" + ", ".join(f'"{name}" {self._type(inner)}' for name, inner in node.items()) + ")"


def _require_duckdb(path: Path) -> None:
    """Raise SinkError for other kinds of files, because DuckDB would download extensions to open them."""
    if path.exists():
        with path.open("rb") as file:
            head = file.read(MAGIC_OFFSET + len(MAGIC))
        if head[MAGIC_OFFSET:] != MAGIC:
            raise SinkError(f"{path} exists but is not a DuckDB file. Choose another target.")


def _open_error(path: Path, error: Exception) -> str:
    if "Could not set lock" in str(error):
        return (
            f"{path} is open in another process. Close it there first: during a pull, only the pull can have it open."
        )
    return f"cannot open the DuckDB file {path}: {_first_line(error)}"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
