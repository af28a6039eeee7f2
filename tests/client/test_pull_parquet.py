"""Tests for pulling into a folder of Parquet files. A file is rewritten only when its table has changed."""

from pathlib import Path

import duckdb
import pytest

import records as r
from client.pulled_copy import Copy
from client.targets import Target, parquet_target
from counterfoil.client.sinks import SinkError
from counterfoil.client.sinks.duckdb import ParquetSink
from counterfoil.client.tables import TABLES

FILES = {*(f"{table.name}.parquet" for table in TABLES), "views.sql"}


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return parquet_target(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "parquet"


def seen(folder: Path) -> dict[str, int]:
    """Return the visible files with their inode numbers."""
    return {path.name: path.stat().st_ino for path in folder.iterdir() if not path.name.startswith(".")}


def renewed(before: dict[str, int], after: dict[str, int]) -> set[str]:
    return {name.removesuffix(".parquet") for name in after if before[name] != after[name]}


def test_every_table_is_a_file_with_the_rows_and_types_of_the_copy(copy: Copy, folder: Path) -> None:
    copy.pull()
    assert set(seen(folder)) == FILES
    with duckdb.connect() as db:
        file = db.read_parquet(str(folder / "bills.parquet"))
        described = list(zip(file.columns, map(str, file.types), strict=True))
        rows = file.aggregate("count(*), sum(net)").fetchall()
    types = dict(described)
    assert (types["net"], types["updated_at"]) == ("DECIMAL(38,6)", "TIMESTAMP WITH TIME ZONE")
    assert (types["bill_date"], types["business_date"]) == ("DATE", "DATE")
    assert rows == copy.rows("SELECT count(*), sum(net) FROM bills")


def test_only_the_files_of_tables_that_changed_or_that_are_gone_are_written(copy: Copy, folder: Path) -> None:
    copy.pull()
    for records, tables in (
        ([], set()),
        ([r.member(copy.branch)], {"members"}),
        ([r.bill(copy.branch)], {"bills", "bill_items", "item_options", "payments", "promotions"}),
        ([copy.branch | {"name": "Renamed"}], {"shops"}),
    ):
        before = seen(folder)
        copy.pull_after(*records)
        assert renewed(before, seen(folder)) == tables
    (folder / "shops.parquet").unlink()
    copy.pull()
    assert set(seen(folder)) == FILES


def test_the_next_run_publishes_data_that_a_run_wrote_but_did_not_publish(copy: Copy, folder: Path) -> None:
    class Unpublished(ParquetSink):
        def publish(self) -> list[str]:
            """Publish nothing, as if the run had been killed just before."""
            return []

    copy.pull()
    before = seen(folder)
    copy.load(r.bill(copy.branch))
    Copy(copy.service, copy.key, lambda: Unpublished(folder)).pull()
    assert seen(folder) == before
    copy.pull()
    assert "bills" in renewed(before, seen(folder))


def test_files_that_no_pull_created_are_not_overwritten(tmp_path: Path) -> None:
    theirs = tmp_path / "parquet" / "bills.parquet"
    theirs.parent.mkdir()
    theirs.write_text("precious")
    with pytest.raises(SinkError, match=r"bills\.parquet"):
        parquet_target(tmp_path)()
    assert theirs.read_text() == "precious"
    assert list(theirs.parent.iterdir()) == [theirs]
