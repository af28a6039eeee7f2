"""Tests for the files of a store: how they are opened, who owns them, and files that somebody else puts beside them."""

import os
import re
import shutil
import sqlite3
import stat
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cli.command import SHOPS, Command, run_sql
from counterfoil.backends.sqlite.files import PAGE_BYTES, read_only, read_write
from counterfoil.backends.sqlite.schema import NAMES
from counterfoil.machine.files import is_shared
from counterfoil.ports import StoreUnavailable

OPENED: list[str] = []
READ = ("status", "doctor", "keys list", "usage", "audit", "requests", "loads", "shops")
BILL = b'{"kind":"bill","id":"b_1","shopId":"sh_1","closedAt":1760000000,"amounts":{"net":5}}'


def note_opened(event: str, values: tuple[Any, ...]) -> None:
    if event == "sqlite3.connect":
        OPENED.append(str(values[0]))


# A hook cannot be removed, so it is added once per process.
sys.addaudithook(note_opened)


@pytest.fixture
def key_id(loaded: Command) -> str:
    return str(loaded.json("keys", "list")[0]["keyId"])


def test_reading_commands_open_the_store_read_only(loaded: Command, key_id: str) -> None:
    for command in (*READ, f"keys show {key_id}", f"usage {key_id} --disclosures", "load - --check"):
        OPENED.clear()
        # No service is running, which is an error for `status`.
        loaded(*command.split(), stdin=BILL, status=1 if command == "status" else 0)
        opened = [address for address in OPENED if str(loaded.store) in address]
        assert opened, command
        assert [address for address in opened if not address.endswith("?mode=ro")] == [], command


def test_a_key_whose_revocation_only_the_usage_file_has_is_listed_as_revoked(counterfoil: Command, key_id: str) -> None:
    """This happens if an older key file was restored, until the service or a command that writes is started."""
    older = (counterfoil.store / "keys.sqlite3").read_bytes()
    counterfoil("keys", "revoke", key_id, "--yes")
    (counterfoil.store / "keys.sqlite3").write_bytes(older)
    (listed,) = counterfoil.json("keys", "list")
    assert listed["revokedAt"]
    assert counterfoil.json("keys", "list", "--active") == []
    assert counterfoil.json("keys", "show", key_id)["revokedAt"] == listed["revokedAt"]
    with closing(sqlite3.connect(counterfoil.store / "keys.sqlite3")) as keys:
        assert b'"revoked_at":null' in keys.execute("SELECT body FROM keys").fetchone()[0]


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


WRITE = ("init", "migrate", "prune", "keys issue --shop sh_1", "load shops.ndjson", "backup elsewhere")
OTHERS = ("restore BACKUP --replace --yes", "serve --port 0 --admin-port 0")
COPY = "copy --from sqlite:STORE --to postgresql://127.0.0.1:9/nowhere"


@pytest.fixture
def backed_up(loaded: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """A store with one key, and a backup of it in `BACKUP`."""
    monkeypatch.chdir(tmp_path)
    Path("shops.ndjson").write_bytes(b"\n".join(SHOPS))
    loaded("backup", "BACKUP")
    return loaded


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


def test_no_command_plays_back_a_journal_that_somebody_else_has_written(backed_up: Command, tmp_path: Path) -> None:
    databases = {name: backed_up.store / f"{name}.sqlite3" for name in NAMES}
    journals = {name: crafted_journal(file, tmp_path / "crafted") for name, file in databases.items()}
    for name, file in databases.items():
        victim = Path(shutil.copy(file, tmp_path))
        victim.with_name(f"{victim.name}-journal").write_bytes(journals[name])
        lost = run_sql(tmp_path, name, "SELECT count(*) FROM migrations") == 0
        assert lost, "this is what happens if another program opens the database"

    before = {name: file.read_bytes() for name, file in databases.items()}
    left = {name: backed_up.store / f"{name}.sqlite3-journal" for name in NAMES}
    for name, journal in journals.items():
        left[name].write_bytes(journal)
    for arguments in (*READ, *WRITE, *OTHERS, COPY):
        run = backed_up.bare if arguments == COPY else backed_up
        said = run(*arguments.replace("STORE", str(backed_up.store)).split(), status=1).output
        assert re.search(r"(books|keys|usage)\.sqlite3-journal is a rollback journal, which Counterfoil never", said)
        assert f"Move {backed_up.store}" in said, arguments
        assert {name: file.read_bytes() for name, file in databases.items()} == before, arguments
        assert {name: file.read_bytes() for name, file in left.items()} == journals, arguments
    for file in left.values():
        file.unlink()
    assert len(backed_up.json("keys", "list")) == 1


def test_a_store_that_was_opened_before_the_journal_appeared_does_not_play_it_back(
    backed_up: Command, tmp_path: Path
) -> None:
    database = backed_up.store / "keys.sqlite3"
    journal = database.with_name("keys.sqlite3-journal")
    with closing(read_write(backed_up.store, "keys")) as keys:
        journal.write_bytes(crafted_journal(database, tmp_path / "crafted"))
        assert keys.execute("SELECT count(*) FROM migrations").fetchone() != (0,)
        assert "is a rollback journal" in backed_up("keys", "list", status=1).output
    journal.unlink()
    backed_up("keys", "list")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
@pytest.mark.parametrize("end", ["wal", "shm"])
def test_a_log_of_another_user_is_not_applied(backed_up: Command, tmp_path: Path, end: str) -> None:
    """A log is applied without a word when a database is opened, so a log that somebody else wrote must be refused."""
    database = backed_up.store / "keys.sqlite3"
    copy = Path(shutil.copy(database, tmp_path / "copy.sqlite3"))
    beside = database.with_name(f"{database.name}-{end}")
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute("DELETE FROM migrations")
        shutil.copy(f"{copy}-{end}", beside)
    os.chown(beside, 4711, -1)
    before = database.read_bytes()
    said = backed_up("keys", "list", status=1).output
    assert f"keys.sqlite3-{end} belongs to another user than keys.sqlite3" in said
    assert database.read_bytes() == before
    beside.unlink()
    assert len(backed_up.json("keys", "list")) == 1


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
