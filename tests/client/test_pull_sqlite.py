"""Tests for a copy in an SQLite file."""

import os
import shutil
import sqlite3
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

import records as r
from client.pulled_copy import Copy, assert_equal
from client.targets import Target, sqlite_target
from counterfoil.client import Client
from counterfoil.client.pull import Puller
from counterfoil.client.sinks import SinkError
from counterfoil.client.sinks.sqlite import SQLiteSink, locked

SORT_IN_MEMORY = 2


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return sqlite_target(tmp_path)


def test_plain_sql_reads_sorts_compares_and_adds_values_exactly(copy: Copy, tmp_path: Path) -> None:
    amounts = {"net": 1234.56, "tip": 5, "rounding": -0.03}
    bill = r.bill(
        copy.branch, id="typed", amounts=amounts, orderIds=["o1", "ใบ"], lines=[r.line(qty=1.5, cancelled=True)]
    )
    early = r.bill(copy.branch, id="early", closedAt="2026-01-01T03:00:00+07:00", amounts={"net": 20.1})
    copy.pull_after(bill, early)
    with closing(sqlite3.connect(tmp_path / "copy.sqlite")) as reader:

        def rows(columns: str, condition: str = "bills.id IN ('typed', 'early')") -> list[Any]:
            source = "bills JOIN bill_items ON bill_id = bills.id"
            return reader.execute(f"SELECT {columns} FROM {source} WHERE {condition}").fetchall()  # noqa: S608

        assert rows("net, tip, rounding, bill_date, timestamp, order_ids, qty, cancelled", "bills.id = 'typed'") == [
            (1234.56, 5.0, -0.03, "2026-01-01", "2026-01-01 05:00:00", '["o1","ใบ"]', 1.5, 1)
        ]
        assert rows("bills.id, local_time", "bills.id IN ('typed', 'early') ORDER BY local_time") == [
            ("early", "2026-01-01 03:00:00"),
            ("typed", "2026-01-01 12:00:00"),
        ]
        assert rows("max(net), min(net), max(qty)") == [(1234.56, 20.1, 1.5)]
        assert rows("sum(CAST(round(net * 1000000) AS INTEGER))") == [(1_254_660_000,)]
        assert rows("net / 8", "net > 1000 AND bills.id = 'typed'") == [(154.32,)]


def test_no_temporary_data_is_written_outside_the_folder_of_the_copy(
    copy: Copy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    copy.pull()
    assert_equal(copy)
    assert copy.rows("PRAGMA temp_store") == [(SORT_IN_MEMORY,)]
    assert [path.name for path in tmp_path.glob("copy*")] == ["copy.sqlite"]


def test_temporary_data_is_private_and_that_of_a_killed_pull_is_deleted(copy: Copy, tmp_path: Path) -> None:
    scratch = tmp_path / "copy.sqlite.scratch"
    scratch.mkdir()
    (scratch / "left.ndjson").write_text("{}")
    with Client(copy.url, copy.key) as client, closing(copy.target()) as sink:
        Puller(client, sink).run()
        assert scratch.stat().st_mode & 0o777 == 0o700
        assert not (scratch / "left.ndjson").exists()
    assert not scratch.exists()


def test_readers_see_the_last_commit_while_a_pull_writes(copy: Copy, tmp_path: Path) -> None:
    copy.pull()
    with (
        closing(copy.target()) as sink,
        closing(sqlite3.connect(tmp_path / "copy.sqlite")) as reader,
        sink.transaction(),
    ):
        sink.run("DELETE FROM bills")
        assert reader.execute("SELECT count(*) FROM bills").fetchone() == (19,)


def test_a_second_pull_at_the_same_time_is_refused_and_changes_nothing(copy: Copy, tmp_path: Path) -> None:
    (tmp_path / "link.sqlite").symlink_to("copy.sqlite")
    with closing(copy.target()) as sink, Client(copy.url, copy.key) as client:
        for name in ("copy.sqlite", "copy.sqlite", "link.sqlite"):
            with pytest.raises(SinkError, match="another pull"):
                SQLiteSink(tmp_path / name)
        Puller(client, sink).run()
    assert_equal(copy)


def test_a_pull_that_starts_while_another_one_ends_is_refused_as_during_that_one(tmp_path: Path) -> None:
    def start_and_end(_: int) -> None:
        for _ in range(10_000):
            with suppress(BlockingIOError):
                lock = locked(tmp_path / "copy.sqlite.scratch")
                shutil.rmtree(tmp_path / "copy.sqlite.scratch")
                os.close(lock)

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(start_and_end, range(4))) == [None] * 4
