"""Uses DuckDB to parse the objects in responses and convert them to rows of the copy's tables.

All sinks use this module, because DuckDB parses JSON several times faster than Python does. For other engines,
`RowConverter` opens an in-memory database when the first rows arrive, because most pulls receive none.
"""

import itertools
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NewType

from msgspec import Struct, field

from counterfoil.client.tables import Column, Kind, Table, json_structure
from counterfoil.model.text import first_line

# DuckDB's memory limit. It is enough for batches of ordinary bills.
MEMORY_MB = 224
# The next batch is parsed while the previous one is written, so two cores are busy although each statement has only one
# thread. With two threads per statement, the processor time of a first pull is a tenth to two thirds higher.
THREADS = 1
# DuckDB's JSON reader accepts rows up to this size. For a longer row, this limit and the memory limit are raised.
ROW_BYTES = 4 * 1024 * 1024
# What to do about a damaged file.
RESTORE = "restore it from a backup of your own, or delete it and run `counterfoil pull` again, which reads everything."

TYPES = {
    Kind.TEXT: "VARCHAR",
    Kind.TEXTS: "VARCHAR[]",
    Kind.DECIMAL: "DECIMAL(38,6)",
    Kind.QUANTITY: "DECIMAL(38,18)",
    Kind.INTEGER: "BIGINT",
    Kind.FLAG: "BOOLEAN",
    Kind.INSTANT: "TIMESTAMPTZ",
    Kind.LOCAL_TIME: "TIMESTAMP",
    Kind.DAY: "DATE",
}
# DuckDB reads 8935002455.22 as 8935002455.219999, so numbers are read as text. Instants keep the local time.
_READ_AS = {**TYPES, **dict.fromkeys((Kind.DECIMAL, Kind.QUANTITY, Kind.INSTANT), "VARCHAR")}

# Each batch that is parsed ahead has its own name in this process.
_batch_numbers = itertools.count(1)

Rows = list[tuple[Any, ...]]
Convert = Callable[[str, Kind], str]
# Rows that were parsed ahead are in the in-memory DuckDB database with this name.
ParsedRows = NewType("ParsedRows", str)


class Fill(Struct, frozen=True):
    """A table to insert rows into, or with `is_staged` its `staged_...`. `supplied` has SQL for columns of our own."""

    table: Table
    supplied: dict[str, str] = field(default_factory=dict)
    is_staged: bool = False

    @property
    def target(self) -> str:
        return f"staged_{self.table.name}" if self.is_staged else self.table.name


class SinkError(Exception):
    """The target cannot be used. The message says why."""


def escape_quotes(text: str) -> str:
    return text.replace("'", "''")


def duckdb_engine() -> Any:
    """Import DuckDB without the Python part of its package, which takes longer to import than the compiled module."""
    import _duckdb  # noqa: PLC0415 - a pull without rows into another engine does not need DuckDB

    return _duckdb


def execute(connection: Any, statement: str, values: Sequence[Any] = ()) -> Rows:
    try:
        rows: Rows = connection.execute(statement, values or None).fetchall()
    except duckdb_engine().Error as error:
        raise SinkError(f"DuckDB: {first_line(error)}") from error
    return rows


class JsonRows:
    """Parses rows with DuckDB. `connect` returns a connection when it is needed; `folder` is for temporary data.

    Rows are parsed either by the thread that writes the copy, with `read`, or ahead of it by another thread, with
    `read_ahead`. Each thread has its own connection and its own file.
    """

    def __init__(self, connect: Callable[[], Any], folder: Path) -> None:
        self._connect = connect
        self.folder = folder
        self._db: Any = None
        self._longest = ROW_BYTES
        self._lock = threading.Lock()
        self._source = "parsed"
        self._used: list[ParsedRows] = []

    def start(self) -> None:
        with self._lock:
            if self._db is not None:
                return
            db = self._connect()
            self.folder.mkdir(mode=0o700, exist_ok=True)
            execute(db, f"SET threads = {THREADS}")
            execute(db, f"SET memory_limit = '{MEMORY_MB}MB'")
            execute(db, f"SET temp_directory = '{escape_quotes(str(self.folder))}'")
            execute(db, "SET preserve_insertion_order = false")
            self._ahead = db.cursor()
            for connection in (db, self._ahead):  # Each connection has its own time zone.
                execute(connection, "SET TimeZone = 'UTC'")
            self._db = db

    def close(self) -> None:
        if self._db is not None:
            self._ahead.close()

    def read(self, rows: Sequence[bytes], tables: Sequence[Table]) -> None:
        """Parse objects from a response into the temporary table `parsed`, with the fields that the tables use."""
        self.start()
        parsed = self._parse(self._db, self.folder / "rows.ndjson", rows, tables)
        execute(self._db, f"CREATE OR REPLACE TEMPORARY TABLE parsed AS {parsed}")
        self._source = "parsed"

    def read_ahead(self, rows: Sequence[bytes], tables: Sequence[Table]) -> ParsedRows:
        """Parse objects for a later call of `use`. Only one thread at a time may call this.

        The transaction of the writing thread does not see tables that are created after its first query in a
        database, so each batch is stored in its own in-memory database.
        """
        self.start()
        parsed = self._parse(self._ahead, self.folder / "ahead.ndjson", rows, tables)
        database = f"ahead{next(_batch_numbers)}"
        execute(self._ahead, f"ATTACH ':memory:' AS {database}")
        try:
            execute(self._ahead, f"CREATE TABLE {database}.parsed AS {parsed}")
        except SinkError:
            execute(self._ahead, f"DETACH {database}")
            raise
        return ParsedRows(database)

    def use(self, parsed: ParsedRows) -> None:
        """Make `select` read from a batch that was parsed ahead."""
        self._used.append(parsed)
        self._source = f"{parsed}.parsed"

    def release(self) -> None:
        """Free the memory of the batches that were used. The transaction that used them must have ended."""
        while self._used:
            execute(self._db, f"DETACH {self._used[-1]}")
            self._used.pop()

    def _parse(self, connection: Any, file: Path, rows: Sequence[bytes], tables: Sequence[Table]) -> str:
        """Write objects to a file, and return a SELECT that parses them."""
        try:
            file.write_bytes(b"\n".join(rows))
        except OSError as error:
            raise SinkError(f"cannot write {file}: {error.strerror}") from error
        longest = max(map(len, rows), default=0) + 2
        with self._lock:
            if longest > self._longest:
                self._longest = longest
                execute(connection, f"SET memory_limit = '{MEMORY_MB + 16 * longest // 1024**2}MB'")
        fields = ", ".join(f"{name}: '{_type(node)}'" for name, node in json_structure(tables).items())
        return (
            f"SELECT * FROM read_json('{escape_quotes(str(file))}', "
            f"format = 'newline_delimited', maximum_object_size = {self._longest}, columns = {{{fields}}})"
        )

    def select(self, table: Table, supplied: dict[str, str], convert: Convert = lambda value, _: value) -> str:
        """Return a SELECT for the table's rows. `convert` may change the SQL of each value."""
        source = _unnested(table, self._source)
        element = f"e{len(table.each)}" if table.each else ""
        numbers = [column.name for column in table.columns if column.kind is Kind.INTEGER and not column.path]
        given = {**{name: f"n{depth}" for depth, name in enumerate(numbers, 1)}, **supplied}
        values = (convert(_value(column, given, element), column.kind) for column in table.columns)
        return f"SELECT {', '.join(values)} FROM {source}"


def _unnested(table: Table, source: str) -> str:
    """Return SQL for one row per element of nested lists. e1 and e2 are the elements, n1 and n2 their positions."""
    kept = [f'"{column.path[0]}" AS "of_parent_{column.path[0]}"' for column in table.columns if column.of_parent]
    for depth, path in enumerate(table.each, 1):
        at = ".".join(f'"{part}"' for part in (path if depth == 1 else (f"e{depth - 1}", *path)))
        columns = ", ".join([*kept, f"unnest({at}) AS e{depth}", f"generate_subscripts({at}, 1) AS n{depth}"])
        source = f"(SELECT {columns} FROM {source})"
        kept = [*(f'"of_parent_{column.path[0]}"' for column in table.columns if column.of_parent), f"n{depth}"]
    return source


def _value(column: Column, given: dict[str, str], element: str) -> str:
    if not column.path:
        return f"CAST({given[column.name]} AS {TYPES[column.kind]})"
    if column.of_parent:
        return f'"of_parent_{column.path[0]}"'
    at = ".".join(f'"{part}"' for part in ((element, *column.path) if element else column.path))
    return f"CAST({at} AS {TYPES[column.kind]})" if _READ_AS[column.kind] != TYPES[column.kind] else at


def _type(node: Any) -> str:
    if isinstance(node, Kind):
        return _READ_AS[node]
    if isinstance(node, list):
        return f"{_type(node[0])}[]"
    return "STRUCT(" + ", ".join(f'"{name}" {_type(inner)}' for name, inner in node.items()) + ")"


# --- rows for other engines ----------------------------------------------------------

ROWS_PER_BLOCK = 2_000


def in_memory_database() -> Any:
    return duckdb_engine().connect(config={"autoinstall_known_extensions": False})


class RowConverter(JsonRows):
    """Parses objects in an in-memory database, and then returns a table's rows as CSV files or as tuples."""

    def __init__(self, folder: Path) -> None:
        super().__init__(in_memory_database, folder)

    def close(self) -> None:
        super().close()
        if self._db is not None:
            self._db.close()

    def csv_files(self, fills: Sequence[Fill], convert: Convert, null_text: str) -> Generator[Path, None, None]:
        """For each table, yield a CSV file with its rows. While the caller reads a file, the next file is written."""

        def write(number: int) -> Path:
            # Two names are enough, because one file is written while the other is read.
            file = self.folder / f"rows{number % 2}.csv"
            selected = self.select(fills[number].table, fills[number].supplied, convert)
            target = escape_quotes(str(file))
            execute(self._db, f"COPY ({selected}) TO '{target}' (FORMAT csv, HEADER false, NULLSTR '{null_text}')")
            return file

        with ThreadPoolExecutor(1, thread_name_prefix="csv") as pool:
            following = pool.submit(write, 0)
            for number in range(len(fills)):
                file = following.result()
                if number + 1 < len(fills):
                    following = pool.submit(write, number + 1)
                yield file

    def tuples(self, fill: Fill, convert: Convert) -> Iterator[Rows]:
        """Yield the table's rows, in blocks."""
        try:
            self._db.execute(self.select(fill.table, fill.supplied, convert))
            while block := self._db.fetchmany(ROWS_PER_BLOCK):
                yield block
        except duckdb_engine().Error as error:
            raise SinkError(f"DuckDB: {first_line(error)}") from error
