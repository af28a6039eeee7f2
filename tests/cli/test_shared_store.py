"""A store whose folder is shared with a group (mode 3770) can be loaded by another user, who cannot touch its keys."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cli.command import SHOPS, Command
from counterfoil.backends.sqlite.files import read_only
from counterfoil.machine.files import is_shared
from counterfoil.ports import StoreUnavailable

OTHER_USER = 61_002
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can give a file to another user, so this was NOT tested"
)


@pytest.fixture
def shared(counterfoil: Command, store: Path) -> Iterator[Command]:
    store.mkdir()
    store.chmod(0o3770)
    before = os.umask(0o077)
    try:
        counterfoil("load", "-", stdin=b"\n".join([*SHOPS, b"***"]), status=3)
        yield counterfoil
    finally:
        os.umask(before)


def modes(store: Path) -> dict[str, str]:
    found = [store / name for name in ("books.sqlite3", "keys.sqlite3", "usage.sqlite3", "secret", "rejects")]
    return {path.name: f"{stat.S_IMODE(path.stat().st_mode):04o}" for path in [*found, *store.glob("rejects/*")]}


def test_only_the_books_the_secret_and_the_rejects_are_shared(shared: Command, store: Path) -> None:
    (rejects,) = store.glob("rejects/*")
    expected = {"books.sqlite3": "0660", "keys.sqlite3": "0600", "usage.sqlite3": "0600", "secret": "0640"}
    assert modes(store) == {**expected, "rejects": "2770", rejects.name: "0640"}
    with closing(sqlite3.connect(store / "books.sqlite3")) as books:
        books.execute("BEGIN IMMEDIATE")
        assert stat.S_IMODE((store / "books.sqlite3-wal").stat().st_mode) == 0o660


def test_a_restored_store_is_shared_again(shared: Command, store: Path, tmp_path: Path) -> None:
    shared("backup", tmp_path / "backup")
    before = modes(store)
    shared("restore", tmp_path / "backup", "--replace", "--yes")
    assert modes(store) == before


def test_doctor_finds_nothing_wrong_with_a_shared_store_unless_it_is_open_to_all(shared: Command, store: Path) -> None:
    def found() -> dict[str, str]:
        return {one["check"]: one["status"] for one in shared.json("doctor")["checks"]}

    assert {found()[name] for name in ("store", "books", "keys", "usage", "secret")} == {"ok"}
    (store / "books.sqlite3").chmod(0o664)
    assert found()["books"] == "warn"
    store.chmod(0o3775)
    assert found()["store"] == "warn"


def test_init_shares_a_store_whether_it_exists_or_not(counterfoil: Command, store: Path, tmp_path: Path) -> None:
    counterfoil("load", "-", stdin=b"\n".join([*SHOPS, b"***"]), status=3)
    counterfoil("init", "--share")
    other = Command(tmp_path / "other")
    other("init", "--share")
    other("load", "-", stdin=b"***", status=3)
    for folder in (store, tmp_path / "other"):
        found = modes(folder)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o3770
        assert (found["books.sqlite3"], found["keys.sqlite3"], found["secret"]) == ("0660", "0600", "0640")
        assert is_shared(folder / "rejects")


@needs_root
@pytest.mark.parametrize(("name", "is_accepted"), [("books", True), ("keys", False)])
def test_only_the_books_may_have_a_log_of_another_user_of_the_group(
    shared: Command, store: Path, name: str, is_accepted: bool
) -> None:
    log = store / f"{name}.sqlite3-wal"
    log.touch(mode=0o660)
    os.chown(log, OTHER_USER, (store / f"{name}.sqlite3").stat().st_gid)
    if is_accepted:
        read_only(store, "books").close()
        os.chown(log, OTHER_USER, OTHER_USER)
    with pytest.raises(StoreUnavailable, match="belongs to another user"):
        read_only(store, "books" if is_accepted else "keys")
