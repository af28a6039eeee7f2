"""Whoever may write to a watched folder can change the data of the shops, and nothing else.

The watcher follows no link, waits for no pipe, writes nothing outside its own folders, loses no file and goes on.
`hostile/deliverer.py` does all of this at random, as another user.
"""

import gzip
import os
import re
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from backports import zstd

from cli.command import Command
from cli.watched_folder import MOVED, SHOP_LINES, Watched, WatcherProcess, names, reasons
from counterfoil import bootstrap
from counterfoil.ingest import sources
from counterfoil.ingest.sources import SourceError, open_source
from counterfoil.ingest.spool import MAX_FILES, SETTLE_MS, Spool, kept_name
from counterfoil.settings import load
from waiting import until

pytestmark = pytest.mark.programs

SOON_SEC = 15.0
LONG_NAME = "a" * 242 + ".ndjson"

Start = Callable[..., WatcherProcess]


def content(folder: Path) -> dict[str, bytes]:
    """Return what is in a folder of the store: SQLite's own files may come and go."""
    found = {path.name: path for path in folder.iterdir() if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if not name.startswith("books.sqlite3")}


@pytest.fixture
def watched(spool: Path, store: Path) -> Watched:
    return Watched(spool, store)


# --- nothing is written elsewhere ------------------------------------------------------


@pytest.mark.parametrize("name", ["done", "quarantine"])
def test_a_folder_exchanged_for_a_link_to_the_store_receives_nothing(watched: Watched, name: str) -> None:
    watched.deliver("1.ndjson")
    watched.deliver("2.csv", b"x")
    watched.take()
    before = content(watched.store)
    target = watched.folder / name

    def exchange() -> None:
        target.rename(watched.folder / f".old-{name}")
        target.symlink_to(watched.store)

    watched.during_load = exchange
    watched.deliver("keys.sqlite3-journal", b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7")
    watched.deliver("keys.sqlite3.ndjson")
    watched.take()
    assert content(watched.store) == before
    assert not target.is_symlink()
    assert any(f"{name} in {watched.folder} was not a folder" in said for said in watched.messages)
    assert (names(watched.done), len(names(watched.quarantine))) in [
        (["keys.sqlite3.ndjson"], 4),
        (["1.ndjson", "keys.sqlite3.ndjson"], 2),
    ]


@pytest.mark.parametrize(
    "name",
    ["keys.sqlite3-journal", "books.sqlite3-WAL", "books.sqlite3-shm", "keys.sqlite3", "a.reason.txt", "a.ndjson.part"],
)
def test_a_moved_file_never_has_a_name_with_a_meaning(name: str) -> None:
    assert re.fullmatch(f"{MOVED.pattern}{re.escape(name)}.file", kept_name(name))


@pytest.mark.parametrize(
    "name", [LONG_NAME, "ก" * 80 + ".ndjson", "a\nb\u202e\x1b[2J.ndjson", os.fsdecode(b"\xff\xfe.ndjson")]
)
def test_any_name_can_be_moved_and_keeps_its_ending(watched: Watched, name: str) -> None:
    watched.deliver(name)
    watched.take()
    (moved,) = names(watched.done)
    assert moved.endswith(".ndjson")
    assert moved.isprintable()
    watched.deliver(name, b"\x00")
    watched.deliver(name.replace(".ndjson", ".ndjson.gz" if name != LONG_NAME else ".json.gz"), b"no archive")
    watched.take()
    assert len(names(watched.quarantine)) == 2


def test_a_link_in_place_of_the_lock_file_is_not_followed(watched: Watched, tmp_path: Path) -> None:
    (tmp_path / "canary").write_text("unchanged")
    for name in (".counterfoil.lock", "done/.counterfoil.lock"):
        (watched.folder / name).parent.mkdir(exist_ok=True, mode=0o700)
        (watched.folder / name).symlink_to(tmp_path / "canary")
    with pytest.raises(OSError, match="symbolic"), watched.spool.locked():
        pass
    assert (tmp_path / "canary").read_text() == "unchanged"


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_folder_that_others_can_write_to_is_refused_at_the_start(spool: Path, mode: int) -> None:
    kept = spool.with_name("kept")
    (kept / "done").mkdir(parents=True)
    (kept / "done").chmod(mode)
    with pytest.raises(SourceError, match="nobody else may write to it"), Spool(spool, kept).locked():
        pass


@pytest.fixture(params=["beside it", "on another file system"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder for loaded files that is not in the watched folder."""
    if request.param == "beside it":
        yield tmp_path / "kept"
        return
    for parent in ("/var/tmp", "/tmp", "/dev/shm"):  # noqa: S108 - the folder has a random name and mode 0700
        if Path(parent).is_dir() and Path(parent).stat().st_dev != tmp_path.stat().st_dev:
            with tempfile.TemporaryDirectory(dir=parent) as name:
                yield Path(name)
            return
    pytest.skip("there is only one file system, so moving between two was NOT tested")


def test_the_folders_of_the_watcher_are_elsewhere_if_it_is_told_so(spool: Path, store: Path, kept: Path) -> None:
    watched = Watched(spool, store, kept)
    with watched.spool.locked():
        watched.deliver("a.ndjson")
        watched.deliver("b.csv", b"x")
        os.mkfifo(spool / "pipe")
        watched.take()
    assert list(spool.iterdir()) == []
    assert names(watched.done) == ["a.ndjson"]
    assert [path.read_bytes() for path in watched.done.glob("*.ndjson")] == [SHOP_LINES]
    assert names(watched.quarantine) == ["b.csv", "b.csv.reason.txt", "pipe", "pipe.reason.txt"]
    with pytest.raises(SourceError, match="outside the watched folder"):
        Spool(spool, spool / "kept")


# --- the watcher goes on ---------------------------------------------------------------


def test_special_files_are_quarantined_and_named(watched: Watched, tmp_path: Path) -> None:
    os.mkfifo(watched.folder / "pipe.ndjson")
    (watched.folder / "link.ndjson").symlink_to(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(watched.folder / "socket.ndjson"))
    watched.deliver("a.ndjson")
    watched.take()
    assert names(watched.done) == ["a.ndjson"]
    assert [reason.split(".")[1] for reason in reasons(watched.quarantine)] == [
        "ndjson is a symbolic link",
        "ndjson is a named pipe",
        "ndjson is a socket",
    ]
    assert "quarantined: pipe.ndjson is a named pipe. Deliver the file itself." in watched.messages


@pytest.mark.parametrize("what", ["pipe", "link", "folder", "nothing", "another file"])
def test_a_file_exchanged_before_it_is_opened_is_not_opened(watched: Watched, tmp_path: Path, what: str) -> None:
    path = watched.deliver("a.ndjson")
    ((name, entry),) = watched.spool._scan(0)
    path.unlink()
    (tmp_path / "other.ndjson").write_bytes(b"secret")
    match what:
        case "pipe":
            os.mkfifo(path)
        case "link":
            path.symlink_to(tmp_path / "other.ndjson")
        case "folder":
            path.mkdir()
        case "another file":
            path.write_bytes(b"other")
    assert watched.spool._opened(name, entry, SETTLE_MS) is None


@pytest.mark.parametrize("what", ["a file", "a link", "a folder that others can write to"])
@pytest.mark.parametrize("name", ["done", "quarantine"])
def test_something_else_in_the_place_of_a_folder_is_renamed(
    watched: Watched, tmp_path: Path, name: str, what: str
) -> None:
    path = watched.folder / name
    if what == "a file":
        path.write_bytes(b"")
    elif what == "a link":
        path.symlink_to(tmp_path)
    else:
        path.mkdir()
        path.chmod(0o777)
    watched.deliver("a.ndjson")
    watched.deliver("b.csv", b"x")
    watched.take()
    watched.take()
    assert names(watched.done) == ["a.ndjson"]
    assert "b.csv" in names(watched.quarantine)


def test_a_file_that_was_exchanged_in_the_last_moment_is_not_taken_for_a_loaded_one(watched: Watched) -> None:
    path = watched.deliver("a.ndjson")
    (delivery,) = watched.spool.deliveries(SETTLE_MS)
    path.unlink()
    path.write_bytes(b"never loaded")
    moved = watched.spool.finish(delivery, delete=False)
    delivery.close()
    assert moved
    assert Path(moved.path).read_bytes() == b"never loaded"
    assert names(watched.done) == []
    assert "was replaced or changed after it was loaded" in reasons(watched.quarantine)[0]


def test_a_folder_that_is_removed_and_created_again_is_watched_again(watched: Watched) -> None:
    watched.deliver("a.ndjson")
    watched.take()
    watched.folder.rename(watched.folder.with_name("old"))
    watched.take()
    watched.take()
    assert [said for said in watched.messages if "cannot read" in said] == [
        f"cannot read {watched.folder}: No such file or directory. Waiting until the folder can be read."
    ]
    watched.folder.mkdir()
    watched.deliver("b.ndjson")
    watched.take()
    assert names(watched.done) == ["b.ndjson"]


def test_a_folder_with_deliveries_is_named_once_and_left_alone(watched: Watched) -> None:
    (watched.folder / "monday").mkdir()
    (watched.folder / "monday" / "a.ndjson").write_bytes(SHOP_LINES)
    watched.take()
    watched.take()
    assert watched.messages == ["monday is a folder, so it is not loaded. Deliver the files in it."]


needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can deliver as several users, so this was NOT tested"
)


@needs_root
def test_those_who_deliver_take_turns(watched: Watched) -> None:
    for number in range(MAX_FILES + 50):
        watched.deliver(f"a-{number:04}.ndjson", b"[]")
    for number in range(3):
        os.chown(watched.deliver(f"b-{number}.ndjson", b"[]"), 61_004, 61_004)
    watched.take()
    assert len(names(watched.done)) == MAX_FILES
    watched.take()
    assert [name for name in names(watched.done) if name.startswith("b")] == ["b-0.ndjson", "b-1.ndjson", "b-2.ndjson"]
    watched.take()
    assert len(names(watched.done)) == MAX_FILES + 53


@needs_root
def test_files_of_others_are_loaded_beside_a_load_that_takes_long(start: Start, spool: Path, store: Path) -> None:
    large, small = spool / "large.ndjson", spool / ".small"
    bills = b"".join(b'{"kind":"bill","id":"b_%d","shopId":"sh_1"}\n' % number for number in range(400_000))
    large.write_bytes(SHOP_LINES + bills)
    start("--batch", "100")
    inspection = bootstrap.store(load({"store": str(store)}, {})).reads()
    until(lambda: (found := inspection.latest_load()) and found.lines > 1_000, "the load had begun", 60)
    small.write_bytes(SHOP_LINES)
    os.chown(small, 61_004, 61_004)
    small.rename(spool / "small.ndjson")
    until(lambda: "small.ndjson" in names(spool / "done"), "the small file was loaded", 30)
    assert large.exists(), "the large file was loaded too quickly for this test"


# --- bombs -----------------------------------------------------------------------------


# Files of a few kilobytes that would take minutes to load.
BOMBS: dict[str, Callable[[], bytes]] = {
    "blank.ndjson.gz": lambda: gzip.compress(b"\n" * 40_000_000, 9),
    "blank.ndjson.zst": lambda: zstd.compress(b"\n" * 40_000_000),
    "small.ndjson.zst": lambda: zstd.compress(b"{}\n" * 13_000_000),
    "line.ndjson.gz": lambda: gzip.compress(b"x" * 40_000_000, 9),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_archive_with_too_much_in_it_is_quarantined_at_once(watched: Watched, name: str) -> None:
    watched.deliver(name, BOMBS[name]())
    began = time.monotonic()
    watched.take()
    assert time.monotonic() - began < SOON_SEC
    assert "it unpacks to more than 250 times its size" in reasons(watched.quarantine)[0]


@pytest.mark.parametrize("first", [b"", SHOP_LINES, b"["], ids=["blank", "after records", "array"])
def test_a_file_that_goes_on_without_a_record_is_quarantined(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, first: bytes
) -> None:
    monkeypatch.setattr(sources, "MAX_BYTES_WITHOUT_RECORD", 1 << 20)
    with watched.deliver("sparse.ndjson", first).open("r+b") as file:
        file.truncate(1 << 30)
    watched.take()
    assert "it goes on for more than 1 MiB without a record" in reasons(watched.quarantine)[0]


def test_a_file_whose_lines_are_nearly_all_rejected_is_quarantined_and_no_other(watched: Watched) -> None:
    watched.deliver("a.ndjson", SHOP_LINES + b"{}\n" * 300_000)
    watched.deliver("b.ndjson", SHOP_LINES * 50 + b"{}\n" * 5_000)
    watched.take()
    assert names(watched.done) == ["b.ndjson"]
    assert "more than 50,000 of its lines were rejected" in reasons(watched.quarantine)[0]


def test_the_limit_is_counted_from_the_latest_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_BYTES_WITHOUT_RECORD", 1_000_000)
    path = tmp_path / "a.ndjson"
    path.write_bytes((b"\n" * 900_000 + b"{}\n") * 3)
    assert len(list(open_source(str(path)).lines())) == 3


@pytest.mark.parametrize("name", ["many.ndjson", "sparse.ndjson"])
def test_the_watcher_obeys_signals_while_it_reads_a_file_without_end(
    start: Start, spool: Path, store: Path, name: str
) -> None:
    watcher = start()
    if name == "many.ndjson":
        (spool / name).write_bytes(b"{}\n" * 5_000_000)
        until(lambda: list(store.glob("rejects/*")), "the load had begun")
    else:
        with (spool / name).open("wb") as file:
            file.truncate(1 << 40)
    began = time.monotonic()
    assert watcher.stop() == 0
    assert time.monotonic() - began < SOON_SEC


def test_ten_thousand_small_files_do_not_hold_up_a_delivery(start: Start, spool: Path) -> None:
    for number in range(10_000):
        (spool / f".{number}").write_bytes(b"x")
    for number in range(10_000):
        (spool / f".{number}").rename(spool / f"x-{number}.{'csv' if number % 2 else 'ndjson'}")
    (spool / "a.ndjson").write_bytes(SHOP_LINES)
    kept = spool.with_name("kept")
    start("--kept", kept)
    until(lambda: "a.ndjson" in names(kept / "done"), "the delivery was loaded", 10)
    until(lambda: list(spool.iterdir()) == [], "all files were moved", 120)
    assert len(names(kept / "done")) == 5_001
    assert len(names(kept / "quarantine")) == 10_000


# --- loading a folder by hand -----------------------------------------------------------


def test_links_and_pipes_in_a_folder_are_refused_by_name(counterfoil: Command, spool: Path, tmp_path: Path) -> None:
    (spool / "a.ndjson").write_bytes(SHOP_LINES)
    (spool / "environ.ndjson").symlink_to("/proc/self/environ")
    (spool / "good.ndjson").symlink_to(spool / "a.ndjson")
    os.mkfifo(spool / "pipe.ndjson")
    told = counterfoil.json("load", spool, status=3)
    assert (told["lines"], told["added"], told["rejectsFile"]) == (2, 2, None)
    assert told["refusedFiles"] == ["environ.ndjson", "good.ndjson", "pipe.ndjson"]
    text = counterfoil("load", spool, status=3).stdout
    assert "not loaded  environ.ndjson (a symbolic link)" in text
    assert "not loaded  pipe.ndjson (a named pipe)" in text
    counterfoil("load", spool, "--check", status=3)
    moved = counterfoil.json("load", spool, "--quarantine", tmp_path / "q", status=3)["quarantined"]
    assert len(moved) == 3
    assert reasons(tmp_path / "q")[0].startswith("environ.ndjson is a symbolic link.")
    assert counterfoil.json("load", spool)["refusedFiles"] == []


def test_a_path_that_the_operator_types_may_be_a_link(counterfoil: Command, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.ndjson").write_bytes(SHOP_LINES)
    (tmp_path / "file").symlink_to(tmp_path / "real" / "a.ndjson")
    (tmp_path / "folder").symlink_to(tmp_path / "real")
    assert counterfoil.json("load", tmp_path / "file")["added"] == 2
    assert counterfoil.json("load", tmp_path / "folder")["unchanged"] == 2
