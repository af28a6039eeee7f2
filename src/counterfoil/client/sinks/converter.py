"""Converts objects in responses to rows, for engines that cannot parse JSON quickly.

DuckDB parses the objects, using an in-memory database. It is started only when
the first row arrives, because most pulls receive no rows.
"""

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from counterfoil.client.sinks import ParsedRows, SinkError, missing_package
from counterfoil.client.sinks.json_rows import JsonRows
from counterfoil.client.sinks.scratch import ScratchFolder
from counterfoil.client.sinks.sql import Fill, Rows, escape_quotes
from counterfoil.client.tables import Kind, Table

ROWS_PER_BLOCK = 2_000

Convert = Callable[[str, Kind], str]


class RowConverter:
    """Parses objects with `read` or `read_ahead`, and then returns a table's rows as CSV files or as tuples."""

    def __init__(self, target: Path | None = None) -> None:
        """If the copy is a file, `target` is its path, and temporary data is stored next to it."""
        self._db: Any = None
        self._ahead: Any = None
        self._start_lock = threading.Lock()
        self._target = target
        self._scratch: ScratchFolder | None = None

    def close(self) -> None:
        for connection in (self._ahead, self._db):
            if connection is not None:
                connection.close()
        if self._scratch is not None:
            self._scratch.close()

    def read(self, rows: Sequence[bytes], tables: Sequence[Table]) -> None:
        self._start()
        self._json.read(rows, tables)

    def read_ahead(self, rows: Sequence[bytes], tables: Sequence[Table]) -> ParsedRows:
        self._start()
        return self._json.read_ahead(rows, tables)

    def use(self, parsed: ParsedRows) -> None:
        self._json.use(parsed)

    def release(self) -> None:
        if self._db is not None:
            self._json.release()

    def csv_files(self, fills: Sequence[Fill], convert: Convert, null_text: str) -> Generator[Path, None, None]:
        """For each table, yield a CSV file with its rows. While the caller reads a file, the next file is written."""

        def write(number: int) -> Path:
            # Two names are enough, because one file is written while the other is read.
            file = self._json.folder / f"rows{number % 2}.csv"
            selected = self._json.select(fills[number].table, fills[number].supplied, convert)
            target = escape_quotes(str(file))
            self._run(f"COPY ({selected}) TO '{target}' (FORMAT csv, HEADER false, NULLSTR '{null_text}')")
            return file

        with ThreadPoolExecutor(1, thread_name_prefix="csv") as pool:
            following = pool.submit(write, 0)
            for number in range(len(fills)):
                file = following.result()
                if number + 1 < len(fills):
                    following = pool.submit(write, number + 1)
                yield file

    def tuples(self, table: Table, supplied: dict[str, str], convert: Convert) -> Iterator[Rows]:
        """Yield the table's rows, in blocks."""
        self._run(self._json.select(table, supplied, convert))
        while block := self._db.fetchmany(ROWS_PER_BLOCK):
            yield block

    def _start(self) -> None:
        with self._start_lock:
            if self._db is None:
                self._open()

    def _open(self) -> None:
        try:
            # Imported here because a pull without rows does not need DuckDB.
            from counterfoil.client.sinks.duckdb_engine import engine  # noqa: PLC0415
        except ImportError as error:
            raise missing_package(error) from error

        self._errors = engine.Error
        try:
            self._scratch = ScratchFolder(self._target)
        except OSError as error:
            raise SinkError(f"cannot create a folder for temporary data: {error.strerror}") from error
        database = engine.connect(config={"autoinstall_known_extensions": False})
        self._ahead = database.cursor()
        run, run_ahead = partial(self._run_on, database), partial(self._run_on, self._ahead)
        try:
            self._json = JsonRows(run, run_ahead, self._scratch.path)
        except BaseException:
            database.close()
            self._scratch.close()
            raise
        self._db = database

    def _run(self, statement: str) -> None:
        self._run_on(self._db, statement)

    def _run_on(self, connection: Any, statement: str) -> None:
        try:
            connection.execute(statement)
        except self._errors as error:
            raise SinkError(f"DuckDB: {str(error).partition(chr(10))[0]}") from error
