"""What holds for the embedded store's files alone."""

import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from counterfoil.backends.sqlite import files
from counterfoil.backends.sqlite.files import NAMES, Name, checkpoint, path_of, read_write, writing

ONE_MORE = """
    INSERT INTO daily_totals (key_id, day, count) SELECT 'key', 1 + coalesce(max(day), 0), 1 FROM daily_totals
"""
OPEN_AND_CLOSE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT count(*) FROM migrations").fetchone()
connection.close()
"""


def test_another_process_that_closes_the_file_leaves_the_log_of_this_one_alone(tmp_path: Path) -> None:
    """Closing a descriptor drops a process's locks, and the last to close a database deletes its write-ahead log."""
    with closing(read_write(tmp_path, "usage")), closing(read_write(tmp_path, "usage")):
        subprocess.run([sys.executable, "-c", OPEN_AND_CLOSE, path_of(tmp_path, "usage")], check=True)
        assert (tmp_path / "usage.sqlite3-wal").exists()


def test_a_long_log_is_restarted_even_if_it_is_never_moved_completely(
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
    """Each onto a page or two of the log."""
    for _ in range(times):
        with writing(connection, 10):
            connection.execute(ONE_MORE)


def test_a_commit_does_not_checkpoint_ten_megabytes_of_usage_log(tmp_path: Path) -> None:
    with closing(read_write(tmp_path, "usage")) as connection:
        before = path_of(tmp_path, "usage").stat().st_size
        commit(connection, 5_000)
        assert (tmp_path / "usage.sqlite3-wal").stat().st_size > 10_000_000
        assert path_of(tmp_path, "usage").stat().st_size == before


@pytest.mark.parametrize("name", NAMES)
def test_files_are_readable_by_their_owner_only(tmp_path: Path, name: Name) -> None:
    with closing(read_write(tmp_path / "store", name)):
        modes = {stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "store").iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700
