"""Tests for behaviour specific to the files of the embedded store."""

import os
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from counterfoil.backends.sqlite import files
from counterfoil.backends.sqlite.files import cannot_be_read, checkpoint, path_of, read_write, writing
from counterfoil.backends.sqlite.schema import NAMES, Name
from counterfoil.ports import StoreMismatch

ONE_MORE = """
    INSERT INTO daily_totals (key_id, day, count) SELECT 'key', 1 + coalesce(max(day), 0), 1 FROM daily_totals
"""
OPEN_AND_CLOSE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT count(*) FROM migrations").fetchone()
connection.close()
"""


def test_another_process_that_closes_the_file_does_not_delete_the_log_of_this_one(tmp_path: Path) -> None:
    """Closing a file drops all of a process's locks on it, and the last process to close a database deletes its log."""
    with closing(read_write(tmp_path, "usage")), closing(read_write(tmp_path, "usage")):
        subprocess.run([sys.executable, "-c", OPEN_AND_CLOSE, path_of(tmp_path, "usage")], check=True)
        assert (tmp_path / "usage.sqlite3-wal").exists()


def test_a_long_log_is_restarted_even_if_it_is_never_checkpointed_completely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LONG_LOG_BYTES", 100_000)
    log = tmp_path / "usage.sqlite3-wal"
    with closing(read_write(tmp_path, "usage")) as keeper, closing(read_write(tmp_path, "usage")) as writer:
        commit(writer, 200)
        late: list[str] = []

        def come_between(statement: str) -> None:
            if "RESTART" in statement:
                late.append(statement)
                commit(writer, 1)

        keeper.set_trace_callback(come_between)
        checkpoint(keeper)
        length = log.stat().st_size
        commit(writer, 100)
        assert late
        assert log.stat().st_size == length


def test_a_short_log_is_left_to_the_writing_processes(tmp_path: Path) -> None:
    statements: list[str] = []
    with closing(read_write(tmp_path, "usage")) as keeper, closing(read_write(tmp_path, "usage")) as writer:
        commit(writer, 200)
        keeper.set_trace_callback(statements.append)
        checkpoint(keeper)
    assert not any("RESTART" in statement for statement in statements)


def commit(connection: sqlite3.Connection, times: int) -> None:
    """Commit repeatedly. Each commit adds a page or two to the log."""
    for _ in range(times):
        with writing(connection, 10):
            connection.execute(ONE_MORE)


def test_a_commit_does_not_checkpoint_ten_megabytes_of_usage_log(tmp_path: Path) -> None:
    with closing(read_write(tmp_path, "usage")) as connection:
        before = path_of(tmp_path, "usage").stat().st_size
        commit(connection, 5_000)
        assert (tmp_path / "usage.sqlite3-wal").stat().st_size > 10_000_000
        assert path_of(tmp_path, "usage").stat().st_size == before


# --- the files of one store ----------------------------------------------------------


def ids(folder: Path) -> set[int]:
    found = set()
    for name in NAMES:
        with closing(sqlite3.connect(path_of(folder, name))) as connection:
            found.add(connection.execute("PRAGMA application_id").fetchone()[0])
    return found


@pytest.mark.parametrize("name", NAMES)
def test_all_files_of_a_store_are_created_together_and_contain_its_id(tmp_path: Path, name: Name) -> None:
    read_write(tmp_path, name).close()
    assert {path.name for path in tmp_path.iterdir()} == {f"{one}.sqlite3" for one in NAMES}
    (store_id,) = ids(tmp_path)
    assert store_id > 0
    for one in NAMES:
        read_write(tmp_path, one).close()
    assert ids(tmp_path) == {store_id}


def test_a_store_whose_creation_was_interrupted_gets_its_missing_files(tmp_path: Path) -> None:
    read_write(tmp_path, "books").close()
    with closing(sqlite3.connect(path_of(tmp_path, "books"))) as connection:
        connection.execute("PRAGMA application_id = 0")
    path_of(tmp_path, "usage").unlink()
    path_of(tmp_path, "keys").unlink()
    read_write(tmp_path, "keys").close()
    (store_id,) = ids(tmp_path)
    assert store_id > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_lost_file_is_not_recreated(tmp_path: Path, name: Name) -> None:
    read_write(tmp_path, name).close()
    path_of(tmp_path, name).unlink()
    with pytest.raises(StoreMismatch, match=f"{name}.sqlite3 is missing or empty"):
        read_write(tmp_path, name)
    assert not path_of(tmp_path, name).exists()


def test_a_backup_of_a_file_belongs_to_the_same_store(tmp_path: Path) -> None:
    read_write(tmp_path, "keys").close()
    copy = tmp_path / "copy"
    with closing(sqlite3.connect(path_of(tmp_path, "keys"))) as connection:
        connection.execute("VACUUM INTO ?", (str(copy),))
    copy.replace(path_of(tmp_path, "keys"))
    files.require_whole(tmp_path)


def test_files_of_two_stores_are_not_served_together(tmp_path: Path) -> None:
    for name in ("one", "other"):
        read_write(tmp_path / name, "keys").close()
    path_of(tmp_path / "other", "keys").replace(path_of(tmp_path / "one", "keys"))
    with pytest.raises(StoreMismatch, match=r"belong to different stores: restore files that belong to the same store"):
        files.require_whole(tmp_path / "one")


def test_processes_that_create_a_store_at_the_same_time_agree_on_its_id(tmp_path: Path) -> None:
    with ThreadPoolExecutor(6) as pool:
        for connection in pool.map(lambda n: read_write(tmp_path, NAMES[n % 3]), range(6)):
            connection.close()
    (store_id,) = ids(tmp_path)
    assert store_id > 0


def test_a_store_that_is_created_during_the_check_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_id = files._store_id

    def create_after_the_first_look(folder: Path, name: Name) -> int | None:
        monkeypatch.setattr(files, "_store_id", read_id)
        store_id = read_id(folder, name)
        read_write(folder, name).close()
        return store_id

    monkeypatch.setattr(files, "_store_id", create_after_the_first_look)
    files.require_whole(tmp_path)
    assert len(ids(tmp_path)) == 1


def test_two_lost_files_can_be_recreated_one_after_the_other(tmp_path: Path) -> None:
    read_write(tmp_path, "books").close()
    for name in ("keys", "usage"):
        path_of(tmp_path, name).unlink()
    for name in ("usage", "keys"):
        files.recreate(tmp_path, name)
    assert files.lost(tmp_path) == []
    files.require_whole(tmp_path)


def test_an_error_on_a_full_disk_is_not_called_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
    assert "keys.sqlite3 is damaged (disk I/O error)" in str(cannot_be_read(tmp_path, "keys", error))
    real = os.statvfs(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((*real[:4], 0, *real[5:])))
    assert str(cannot_be_read(tmp_path, "keys", error)) == (
        "keys.sqlite3 cannot be opened, because the disk is full (disk I/O error): free up disk space."
    )
