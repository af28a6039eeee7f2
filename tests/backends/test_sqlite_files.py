"""What holds for the embedded store's files alone."""

import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from counterfoil.backends.sqlite.files import NAMES, Name, path_of, read_write

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


@pytest.mark.parametrize("name", NAMES)
def test_files_are_made_for_their_owner_alone(tmp_path: Path, name: Name) -> None:
    with closing(read_write(tmp_path / "store", name)):
        modes = {stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "store").iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700
