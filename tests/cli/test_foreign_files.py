"""Tests with files that somebody else has put beside the databases of a store, so that SQLite changes a database."""

import os
import re
import shutil
import sqlite3
import struct
import threading
from contextlib import closing
from pathlib import Path

import pytest

from cli.command import SHOPS, Command
from counterfoil.backends.sqlite.files import PAGE_BYTES, read_write
from counterfoil.backends.sqlite.schema import NAMES
from counterfoil.ports import StoreUnavailable

# Commands that open the store.
COMMANDS = [
    "doctor",
    "status",
    "shops",
    "init",
    "migrate",
    "keys list",
    "keys issue --shop sh_1",
    "audit",
    "usage",
    "requests",
    "loads",
    "prune",
    "load shops.ndjson",
    "backup elsewhere",
    "restore BACKUP --replace --yes",
    "copy --from sqlite:STORE --to postgresql://127.0.0.1:9/nowhere",
    "serve --port 0 --admin-port 0",
]


@pytest.fixture
def loaded(loaded: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """A store with one key, and a backup of it in `BACKUP`."""
    monkeypatch.chdir(tmp_path)
    Path("shops.ndjson").write_bytes(b"\n".join(SHOPS))
    loaded("backup", "BACKUP")
    return loaded


def is_changed(file: Path) -> bool:
    with closing(sqlite3.connect(file)) as connection:
        return bool(connection.execute("SELECT count(*) = 0 FROM migrations").fetchone()[0])


def page_sum(page: bytes, nonce: int) -> int:
    """Return the checksum of a page in a journal: see https://sqlite.org/fileformat.html#the_rollback_journal."""
    return (nonce + sum(page[place] for place in range(len(page) - 200, 0, -200))) & 0xFFFFFFFF


def crafted_journal(database: Path, folder: Path) -> bytes:
    """Return a rollback journal that changes a database if SQLite plays it back."""
    folder.mkdir(exist_ok=True)
    wanted = Path(shutil.copy(database, folder / database.name))
    with closing(sqlite3.connect(wanted, isolation_level=None)) as connection:
        connection.execute("DELETE FROM migrations")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    content, nonce = wanted.read_bytes(), 7
    pages = [content[start : start + size] for start in range(0, len(content), size)]
    header = bytes.fromhex("d9d505f920a163d7") + struct.pack(">IIIII", len(pages), nonce, len(pages), 512, size)
    records = [
        struct.pack(">I", number) + page + struct.pack(">I", page_sum(page, nonce))
        for number, page in enumerate(pages, 1)
    ]
    return header.ljust(512, b"\0") + b"".join(records)


def test_no_command_plays_back_a_journal_that_somebody_else_has_written(loaded: Command, tmp_path: Path) -> None:
    databases = {name: loaded.store / f"{name}.sqlite3" for name in NAMES}
    journals = {name: crafted_journal(file, tmp_path / "crafted") for name, file in databases.items()}
    for name, file in databases.items():
        victim = Path(shutil.copy(file, tmp_path / f"victim-{name}"))
        victim.with_name(f"{victim.name}-journal").write_bytes(journals[name])
        assert is_changed(victim), "this is what happens if another program opens the database"

    before = {name: file.read_bytes() for name, file in databases.items()}
    left = {name: loaded.store / f"{name}.sqlite3-journal" for name in NAMES}
    for name, journal in journals.items():
        left[name].write_bytes(journal)
    for arguments in COMMANDS:
        run = loaded.bare if arguments.startswith("copy") else loaded
        said = run(*arguments.replace("STORE", str(loaded.store)).split(), status=1).output
        assert re.search(r"(books|keys|usage)\.sqlite3-journal is a rollback journal, which Counterfoil never", said)
        assert f"Move {loaded.store}" in said, arguments
        assert {name: file.read_bytes() for name, file in databases.items()} == before, arguments
        assert {name: file.read_bytes() for name, file in left.items()} == journals, arguments
    for file in left.values():
        file.unlink()
    assert len(loaded.json("keys", "list")) == 1


def test_a_store_that_was_opened_before_the_journal_appeared_does_not_play_it_back(
    loaded: Command, tmp_path: Path
) -> None:
    database = loaded.store / "keys.sqlite3"
    journal = database.with_name("keys.sqlite3-journal")
    with closing(read_write(loaded.store, "keys")) as keys:
        journal.write_bytes(crafted_journal(database, tmp_path / "crafted"))
        assert keys.execute("SELECT count(*) FROM migrations").fetchone() != (0,)
        assert "is a rollback journal" in loaded("keys", "list", status=1).output
    journal.unlink()
    loaded("keys", "list")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
@pytest.mark.parametrize("end", ["wal", "shm"])
def test_a_log_of_another_user_is_not_applied(loaded: Command, tmp_path: Path, end: str) -> None:
    """A log is applied without a word when a database is opened, so a log that somebody else wrote must be refused."""
    database = loaded.store / "keys.sqlite3"
    copy = Path(shutil.copy(database, tmp_path / "copy.sqlite3"))
    beside = database.with_name(f"{database.name}-{end}")
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute("DELETE FROM migrations")
        shutil.copy(f"{copy}-{end}", beside)
    os.chown(beside, 4711, -1)
    before = database.read_bytes()
    said = loaded("keys", "list", status=1).output
    assert f"keys.sqlite3-{end} belongs to another user than keys.sqlite3" in said
    assert database.read_bytes() == before
    beside.unlink()
    assert len(loaded.json("keys", "list")) == 1


def test_a_journal_beside_a_store_that_is_just_being_created_is_awaited(tmp_path: Path) -> None:
    """SQLite writes a journal while it creates the first page of a database. Another process may see it."""
    read_write(tmp_path, "keys").close()
    journal = tmp_path / "keys.sqlite3-journal"
    with (tmp_path / "keys.sqlite3").open("r+b") as file:
        file.truncate(PAGE_BYTES["keys"])
    journal.touch()
    threading.Timer(0.1, journal.unlink).start()
    with pytest.raises(StoreUnavailable, match=r"damaged|malformed"):
        read_write(tmp_path, "keys")
    assert not journal.exists()
