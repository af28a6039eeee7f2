"""Tests for the supervisor's background tasks, on a real store."""

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from counterfoil import bootstrap, settings
from counterfoil.backends.sqlite.files import path_of, read_write, writing
from counterfoil.backends.sqlite.usage import SqliteUsage
from counterfoil.observe import Event
from counterfoil.serving.supervisor import Chores
from counterfoil.settings import Settings
from waiting import until

ROWS = 200
RECORD = """
    INSERT INTO recent_requests (at, key_id, route, status, took_us, personal_members, request_id, detail)
    VALUES (1, 'k_1', 'usage', 200, 1, 0, 'r-1', '[]')
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Settings]:
    """A store with the supervisor's background tasks running."""
    found = settings.load({"store": str(tmp_path), "secret": "s" * 64}, environment={})
    bootstrap.store(found).prepare()
    said: list[Event] = []
    chores = Chores(found, said.append)
    chores.start()
    yield found
    chores.stop()
    assert not said


def test_the_supervisor_checkpoints_what_workers_write_to_the_usage_log(store: Settings) -> None:
    with closing(read_write(store.store, "usage")) as worker:
        before = path_of(store.store, "usage").stat().st_size
        with writing(worker, 10):
            rows = [(f"key-{number:060}", 20_990_101) for number in range(ROWS)]
            worker.executemany("INSERT INTO daily_totals (key_id, day, count) VALUES (?, ?, 1)", rows)
        until(lambda: path_of(store.store, "usage").stat().st_size > before + 60 * ROWS, "the log was checkpointed")


def test_the_usage_log_is_checkpointed_while_a_load_writes_the_books(store: Settings) -> None:
    with closing(read_write(store.store, "books")) as loader, writing(loader, 10):
        test_the_supervisor_checkpoints_what_workers_write_to_the_usage_log(store)


def test_recent_requests_are_moved_while_old_ones_are_deleted(store: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    deleting, may_end = threading.Event(), threading.Event()

    def delete_slowly(usage: SqliteUsage) -> tuple[int, int]:
        deleting.set()
        may_end.wait(60)
        return 0, 0

    monkeypatch.setattr(SqliteUsage, "prune", delete_slowly)
    monkeypatch.setattr("counterfoil.serving.supervisor.PRUNE_SEC", 0)
    try:
        until(deleting.is_set, "old requests are being deleted")
        with closing(read_write(store.store, "usage")) as worker:
            with writing(worker, 10):
                worker.execute(RECORD)
            until(lambda: not worker.execute("SELECT 1 FROM recent_requests").fetchone(), "the record was moved")
    finally:
        may_end.set()


def test_the_horizon_moves_while_nothing_is_loaded(store: Settings) -> None:
    inspection = bootstrap.store(store).reads()
    first = inspection.horizon() or 0
    until(lambda: (inspection.horizon() or 0) > first, "the horizon moves")
