"""A copy as a folder of Parquet files, one per table.

Parquet files cannot be changed in place, so the copy itself is a DuckDB file
in the folder. At the end of a run, each table that changed is written to a new
file, which then replaces the old one, so readers never see a partial file.
"""

import os
from pathlib import Path

from counterfoil.client.sinks import SinkError
from counterfoil.client.sinks.duckdb import DuckDBSink
from counterfoil.client.sinks.opening import PARQUET_WORKING_FILE
from counterfoil.client.sinks.sql import escape_quotes
from counterfoil.client.tables import TABLES, Table


class ParquetSink(DuckDBSink):
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        _require_own_folder(folder)
        super().__init__(folder / PARQUET_WORKING_FILE)

    def make_tables(self) -> None:
        super().make_tables()
        # This table lists the tables that changed since their files were written. It is stored because a run may be
        # killed before it writes the files.
        self.run("CREATE TABLE IF NOT EXISTS pull_unpublished (name VARCHAR)")

    def changed(self, *tables: Table) -> None:
        for table in tables:
            self.run("DELETE FROM pull_unpublished WHERE name = ?", [table.name])
            self.run("INSERT INTO pull_unpublished VALUES (?)", [table.name])

    def publish(self) -> None:
        unpublished = {row[0] for row in self.run("SELECT name FROM pull_unpublished")}
        try:
            for table in TABLES:
                target = self._folder / f"{table.name}.parquet"
                if table.name in unpublished or not target.exists():
                    self._write(table, target)
            _flush_to_disk(self._folder)
        except OSError as error:
            raise SinkError(f"cannot write to {self._folder}: {error.strerror}") from error
        self.run("DELETE FROM pull_unpublished")

    def _write(self, table: Table, target: Path) -> None:
        draft = target.with_suffix(".parquet.new")
        self.run(f"COPY {table.name} TO '{escape_quotes(str(draft))}' (FORMAT parquet, COMPRESSION zstd)")
        _flush_to_disk(draft)
        draft.replace(target)


def _require_own_folder(folder: Path) -> None:
    """Raise SinkError if the folder has files with our names but no working file, which every pull creates."""
    foreign = [table.name for table in TABLES if (folder / f"{table.name}.parquet").exists()]
    if foreign and not (folder / PARQUET_WORKING_FILE).exists():
        raise SinkError(
            f"{folder} contains {foreign[0]}.parquet but not {PARQUET_WORKING_FILE}, so it is not a complete copy. "
            "Move the files elsewhere, or choose another folder."
        )


def _flush_to_disk(path: Path) -> None:
    """Flush a file or folder to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
