"""Copies in a DuckDB file, and in a folder of Parquet files that are written from one.

Rows are written to a scratch file, which DuckDB's JSON reader parses. Parquet files cannot be changed in place, so a
copy in Parquet is a DuckDB file in the folder. At the end of a run, each table that changed is written to a new file,
which then replaces the old one, so readers never see a partial file.
"""

import os
import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from counterfoil.client.copy_views import DUCKDB_VIEWS
from counterfoil.client.sinks import PARQUET_WORKING_FILE, engine_of, json_rows
from counterfoil.client.sinks.json_rows import (
    RESTORE,
    Fill,
    JsonRows,
    Rows,
    SinkError,
    duckdb_engine,
    escape_quotes,
    execute,
)
from counterfoil.client.sinks.sql import Sink, column_names
from counterfoil.client.tables import OWN_TABLES, TABLES, Dialect, Table, comments
from counterfoil.model.text import first_line

DUCKDB = duckdb_engine()
# DuckDB merges a log of this size into the file. Almost every transaction would reach the default of 16 MB.
CHECKPOINT_AT = "1GB"
# The format of new files. DuckDB 1.1 and later can open it. In this format, compressing texts with FSST takes about a
# third of a checkpoint, and files of 20,000 bills have about the same size without it.
STORAGE_VERSION = "v1.1.0"
COMPRESSION_NOT_USED = "fsst"


def _opened(path: Path) -> Any:
    config = {"autoinstall_known_extensions": False, "storage_compatibility_version": STORAGE_VERSION}
    return DUCKDB.connect(str(path), config=config)


class DuckDBSink(Sink):
    """A copy in a DuckDB file. DuckDB's file lock prevents a second writer."""

    DIALECT = Dialect(json_rows.TYPES, DUCKDB_VIEWS, has_keys=False)
    DAY_TOTALS = """
        WITH hashed AS (
            SELECT *,
                id || '|' || coalesce(CAST(CAST(round(epoch_us(updated_at) / 1000.0) AS BIGINT) AS VARCHAR), '')
                    AS id_and_change
            FROM bills WHERE CAST(? AS DATE) IS NULL OR bill_date >= CAST(? AS DATE)
        )
        SELECT shop_id, CAST(bill_date AS VARCHAR), count(*), sum(CASE WHEN status = 'void' THEN 1 ELSE 0 END),
            coalesce(sum(net), 0), coalesce(sum(tip), 0),
            coalesce(sum(CAST('0x' || substr(md5(id_and_change), 1, 15) AS HUGEINT)), 0)
        FROM hashed GROUP BY shop_id, bill_date
    """
    EXISTING = """
        SELECT table_name, column_name FROM duckdb_columns() WHERE schema_name = current_schema() AND NOT internal
        UNION ALL SELECT view_name, '' FROM duckdb_views() WHERE NOT internal
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._parser = JsonRows(lambda: self._db, path.with_name(f"{path.name}.scratch"))
        self._is_new = not path.exists()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Without this, DuckDB might load one of its extensions and open a file of another format, such as SQLite.
            if path.exists() and engine_of(path) != "duckdb":
                raise SinkError(f"{path} exists but is not a DuckDB file. Choose another target.")
            self._db = _opened(path)
        except (DUCKDB.Error, OSError) as error:
            # DuckDB's errors have no codes.
            if "Could not set lock" in str(error):
                raise SinkError(
                    f"{path} is open in another process. Close it there first: a pull or reconcile needs "
                    "exclusive access to the file."
                ) from error
            raise SinkError(
                f"cannot open the DuckDB file {path}: {first_line(error)}. If the file is damaged, {RESTORE}"
            ) from error
        self.set_up_or_close()

    def set_up(self) -> None:
        # We hold the file's lock, so anything left in the scratch folder is from a process that was killed.
        shutil.rmtree(self._parser.folder, ignore_errors=True)
        self._parser.start()
        self._configure()
        self.make_tables()

    def _configure(self) -> None:
        self.run(f"SET checkpoint_threshold = '{CHECKPOINT_AT}'")
        self.run(f"SET disabled_compression_methods = '{COMPRESSION_NOT_USED}'")

    def erase_remains(self) -> None:
        """Replace the file by a copy, because DuckDB leaves deleted rows in blocks that it does not use."""
        if not self.has_remains():
            return
        draft = self._parser.folder / "copy.duckdb"
        draft.unlink(missing_ok=True)
        self.run(f"ATTACH '{escape_quotes(str(draft))}' AS copied (STORAGE_VERSION '{STORAGE_VERSION}')")
        try:
            self.run("CHECKPOINT")
            [[name]] = self.run("SELECT current_database()")
            self.run(f'COPY FROM DATABASE "{name}" TO copied')
            self.run("DELETE FROM copied.pull_erased")
        finally:
            self.run("DETACH copied")
        with closing(_opened(draft)) as copied:
            # They are not copied with the tables.
            for statement in comments(self.DIALECT):
                execute(copied, statement)
        self._db.close()
        try:
            draft.chmod(self._path.stat().st_mode & 0o777)
            _flush_to_disk(draft)
            draft.replace(self._path)
            _flush_to_disk(self._path.parent)
        finally:
            self._db = _opened(self._path)
            self._configure()

    def run(self, statement: str, values: Sequence[Any] = ()) -> Rows:
        return execute(self._db, statement, values)

    def fill(self, fills: Sequence[Fill]) -> None:
        for fill in fills:
            rows = self._parser.select(fill.table, fill.supplied)
            self.run(f"INSERT INTO {fill.target} ({column_names(fill.table)}) {rows}")

    def existing(self) -> Rows:
        if self._is_new:
            return []
        # To list all columns, DuckDB parses the definitions of its own views, which takes as long as opening the file.
        # So first query only the tables and views of a complete copy. If one of them, or a column of a view, does not
        # exist, the query fails, and all columns are listed.
        names = (*OWN_TABLES, *(table.name for table in TABLES), *self.DIALECT.views)
        columns = (f"SELECT '{name}', name FROM pragma_table_info('{name}')" for name in names)
        try:
            rows: Rows = self._db.execute(" UNION ALL ".join(columns)).fetchall()
        except DUCKDB.Error:
            return super().existing()
        return rows


# --- Parquet -------------------------------------------------------------------------


SCRIPT_OF_VIEWS = "views.sql"


class ParquetSink(DuckDBSink):
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        _require_own_folder(folder)
        super().__init__(folder / PARQUET_WORKING_FILE)

    def make_tables(self) -> None:
        super().make_tables()
        # Lists tables that changed since their files were written: a run may be killed before it writes them.
        self.run("CREATE TABLE IF NOT EXISTS pull_unpublished (name VARCHAR)")

    def changed(self, *tables: Table) -> None:
        for table in tables:
            self.run("DELETE FROM pull_unpublished WHERE name = ?", [table.name])
            self.run("INSERT INTO pull_unpublished VALUES (?)", [table.name])

    def publish(self) -> list[str]:
        unpublished = {row[0] for row in self.run("SELECT name FROM pull_unpublished")}
        repaired: list[str] = []
        try:
            for table in TABLES:
                target = self._folder / f"{table.name}.parquet"
                if table.name in unpublished or not self._has_all_rows(table, target):
                    self._write(table, target)
                    if table.name not in unpublished:
                        repaired.append(target.name)
            script = self._folder / SCRIPT_OF_VIEWS
            if not script.exists() or script.read_text("utf-8") != _script_of_views():
                script.write_text(_script_of_views(), "utf-8")
            _flush_to_disk(self._folder)
        except OSError as error:
            raise SinkError(f"cannot write to {self._folder}: {error.strerror}") from error
        self.run("DELETE FROM pull_unpublished")
        return repaired

    def _has_all_rows(self, table: Table, target: Path) -> bool:
        """Return whether a file has as many rows as its table. A Parquet file stores their number."""
        try:
            [[same]] = self.run(
                f"SELECT (SELECT count(*) FROM {table.name}) = (SELECT count(*) FROM {_rows_of(target)})"
            )
        except SinkError:
            return False
        return bool(same)

    def file_differences(self) -> dict[str, tuple[int, int]]:
        differences: dict[str, tuple[int, int]] = {}
        for table in TABLES:
            target, names = self._folder / f"{table.name}.parquet", column_names(table)
            held = f"SELECT {names} FROM {table.name}"
            published = f"SELECT {names} FROM {_rows_of(target)}"
            try:
                counts = [self._count_without(held, published), self._count_without(published, held)]
            except SinkError:  # There is no such file, or it has other columns.
                counts = [self.run(f"SELECT count(*) FROM {table.name}")[0][0], 0]
            if any(counts):
                differences[table.name] = counts[0], counts[1]
        return differences

    def _count_without(self, rows: str, others: str) -> int:
        """Return how many rows one query has that another has not. Equal rows count as often as they occur."""
        [[count]] = self.run(f"SELECT count(*) FROM ({rows} EXCEPT ALL {others}) AS missing")
        return int(count)

    def _write(self, table: Table, target: Path) -> None:
        draft = target.with_suffix(".parquet.new")
        self.run(f"COPY {table.name} TO '{escape_quotes(str(draft))}' (FORMAT parquet, COMPRESSION zstd)")
        _flush_to_disk(draft)
        draft.replace(target)


def _rows_of(file: Path) -> str:
    return f"read_parquet('{escape_quotes(str(file))}')"


def _script_of_views() -> str:
    """Return SQL for DuckDB that creates a view of every file, and the views that a copy in DuckDB has."""
    lines = [
        "-- Views of the Parquet files in this folder, for DuckDB. In this folder: duckdb -init views.sql",
        "-- Elsewhere, run this first: SET file_search_path = 'PATH OF THIS FOLDER';",
        *(
            f"CREATE OR REPLACE VIEW {table.name} AS SELECT * FROM read_parquet('{table.name}.parquet');"
            for table in TABLES
        ),
        *(f"CREATE OR REPLACE VIEW {name} AS\n{view.sql};" for name, view in DUCKDB_VIEWS.items()),
    ]
    return "\n".join(lines) + "\n"


def _require_own_folder(folder: Path) -> None:
    """Raise SinkError if the folder has files with our names but no working file, which every pull creates."""
    names = (*(f"{table.name}.parquet" for table in TABLES), SCRIPT_OF_VIEWS)
    foreign = [name for name in names if (folder / name).exists()]
    if foreign and not (folder / PARQUET_WORKING_FILE).exists():
        raise SinkError(
            f"{folder} contains {foreign[0]} but not {PARQUET_WORKING_FILE}, so it is not a complete "
            "copy. Move the files elsewhere, or choose another folder."
        )


def _flush_to_disk(path: Path) -> None:
    """Flush a file or folder to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
