"""A watched folder hands over only files that nobody is writing any more."""

import fcntl
import os
from pathlib import Path

import pytest

from counterfoil.ingest.spool import SETTLE_MS, STUCK_MS, Spool

NOW = 1_800_000_000_000


def delivered(folder: Path, name: str, age_ms: int = 0) -> Path:
    path = folder / name
    path.write_bytes(b"{}\n")
    os.utime(path, ns=(0, (NOW - age_ms) * 1_000_000))
    return path


def test_a_file_that_is_open_for_writing_is_left_alone_until_it_is_closed(tmp_path: Path) -> None:
    spool, path = Spool(tmp_path), delivered(tmp_path, "bills.ndjson")
    with path.open("ab"):
        assert spool.waiting(NOW) == []
    assert spool.waiting(NOW) == [path]


def test_a_file_that_others_read_is_loaded(tmp_path: Path) -> None:
    path = delivered(tmp_path, "bills.ndjson")
    with path.open("rb"):
        assert Spool(tmp_path).waiting(NOW) == [path]


def test_if_the_system_cannot_tell_who_writes_a_file_is_left_alone_until_it_settles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("the file belongs to another user")

    new = delivered(tmp_path, "new.ndjson", age_ms=SETTLE_MS - 1)
    settled = delivered(tmp_path, "settled.ndjson", age_ms=SETTLE_MS)
    from_the_future = delivered(tmp_path, "from-the-future.ndjson", age_ms=-60_000)
    monkeypatch.setattr(fcntl, "fcntl", refuse)
    assert Spool(tmp_path).waiting(NOW) == [from_the_future, settled]
    assert new in Spool(tmp_path).waiting(NOW + 1)


def test_a_file_that_stays_open_without_changes_is_stuck(tmp_path: Path) -> None:
    spool, path = Spool(tmp_path), delivered(tmp_path, "bills.ndjson")
    with path.open("ab"):
        assert spool.stuck(NOW + STUCK_MS) == []
        assert spool.stuck(NOW + STUCK_MS + 1) == [path]
    assert spool.stuck(NOW + STUCK_MS + 1) == []
