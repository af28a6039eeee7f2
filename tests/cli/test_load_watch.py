"""`counterfoil load --watch` loads the files in a folder as they arrive, despite crashes and outages."""

import gzip
import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.command import PYTHON, SHOPS, Command
from counterfoil import bootstrap
from counterfoil.cli.load import StoreLoader
from counterfoil.domain.calendar import iso_utc
from counterfoil.domain.intake import WatchedFolder
from counterfoil.ingest.sources import FileSet
from counterfoil.ingest.spool import Spool
from counterfoil.ingest.watching import FolderWatch
from counterfoil.machine.clock import SystemClock
from counterfoil.machine.process import SignalSafeEvent
from counterfoil.settings import load
from waiting import throughout, until

pytestmark = pytest.mark.programs


def bills(first: int, number: int) -> bytes:
    """Return bills for the first of `SHOPS`, one per line."""
    records = ({"kind": "bill", "id": f"b_{n}", "shopId": "sh_1"} for n in range(first, first + number))
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


SHOP_LINES = b"".join(shop + b"\n" for shop in SHOPS)


class Watch:
    """A watcher that runs in a separate process."""

    def __init__(self, spool: Path, store: Path | str, *options: str) -> None:
        self.spool = spool
        words = [*PYTHON, "load", "--watch", str(spool), "--store", str(store), "--json", *options]
        self._out = (spool.parent / "watch.out").open("ab")
        self._errors = (spool.parent / "watch.err").open("ab")
        self.process = subprocess.Popen(words, stdout=self._out, stderr=self._errors)

    def deliver(self, name: str, content: bytes) -> None:
        """Write a file under a temporary name, then rename it, as documented."""
        unfinished = self.spool / f".{name}"
        unfinished.write_bytes(content)
        unfinished.rename(self.spool / name)

    def summaries(self) -> list[dict[str, Any]]:
        lines = (self.spool.parent / "watch.out").read_text("utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def said(self) -> str:
        return (self.spool.parent / "watch.err").read_text("utf-8")

    def stop(self, how: int = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        status = self.process.wait(30)
        self._out.close()
        self._errors.close()
        return status


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    folder = tmp_path / "spool"
    folder.mkdir()
    return folder


@pytest.fixture
def start(spool: Path, store: Path) -> Iterator[Callable[..., Watch]]:
    started: list[Watch] = []

    def new(*options: str) -> Watch:
        started.append(Watch(spool, store, *options))
        until(lambda: started[-1].said().endswith("SIGTERM.\n") or None, "the folder was watched")
        return started[-1]

    yield new
    for watch in started:
        if watch.process.poll() is None:
            watch.stop(signal.SIGKILL)


MOVED = re.compile("[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}-")


def names(folder: Path) -> list[str]:
    """Return the names of the entries, without what the watcher puts in front of the names of files that it moves."""
    found = [path.name for path in folder.iterdir()] if folder.exists() else []
    return sorted(MOVED.sub("", name) for name in found if name != ".counterfoil.lock")


def folder(store: Path) -> WatchedFolder | None:
    folders = bootstrap.store(load({"store": str(store)}, {})).reads().watched_folders(SystemClock().now_ms())
    return folders[0] if folders else None


def wait_for_loads(watch: Watch, number: int) -> None:
    until(lambda: len(watch.summaries()) == number, f"{number} loads had ended")


def wait_for_lines(store: Path, number: int) -> None:
    inspection = bootstrap.store(load({"store": str(store)}, {})).reads()
    until(lambda: (found := inspection.latest_load()) and found.lines > number, "more lines were loaded", 60)


def test_files_are_loaded_as_they_arrive_and_moved_to_done(
    start: Callable[..., Watch], spool: Path, counterfoil: Command
) -> None:
    watch = start()
    watch.deliver("1-shops.ndjson", SHOP_LINES)
    until(lambda: names(spool / "done") == ["1-shops.ndjson"], "the shops were loaded")
    watch.deliver("2-bills.ndjson.gz", gzip.compress(bills(0, 5)))
    until(lambda: len(names(spool / "done")) == 2, "the bills were loaded")
    until(lambda: len(watch.summaries()) == 2, "both summaries were printed")
    assert [summary["added"] for summary in watch.summaries()] == [2, 5]
    assert [summary["files"] for summary in watch.summaries()] == [["1-shops.ndjson"], ["2-bills.ndjson.gz"]]
    assert watch.summaries()[0]["at"] <= watch.summaries()[1]["at"] <= iso_utc(SystemClock().now_ms())
    assert watch.stop() == 0
    assert "Stopped." in watch.said()
    assert names(spool) == ["done", "quarantine"]
    assert counterfoil.json("load", spool / "done")["unchanged"] == 7


def test_a_watcher_prints_the_time_and_the_names_of_the_files_of_each_load(
    store: Path, spool: Path, tmp_path: Path
) -> None:
    (spool / "1-shops.ndjson").write_bytes(SHOP_LINES)
    (spool / "2-bills.ndjson").write_bytes(bills(0, 5))
    words = [*PYTHON, "load", "--watch", str(spool), "--store", str(store), "--utc"]
    out, errors = tmp_path / "out", tmp_path / "errors"
    with out.open("wb") as printed, errors.open("wb") as said:
        process = subprocess.Popen(words, stdout=printed, stderr=said)
        until(lambda: "lines read" in out.read_text("utf-8"), "the files were loaded")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    time = "[0-9-]{10} [0-9:]{8} UTC"
    assert re.match(rf"{time}  1-shops.ndjson, 2-bills.ndjson\nlines read ", out.read_text("utf-8"))
    said_lines = errors.read_text("utf-8").splitlines()
    assert re.match(f"{time}  Watching ", said_lines[0])
    assert re.match(f"{time}  Stopped.", said_lines[-1])


def test_files_that_are_still_being_written_are_left_alone(start: Callable[..., Watch], spool: Path) -> None:
    for name in (".a.ndjson", "b.ndjson.part", "c.tmp"):
        (spool / name).write_bytes(SHOP_LINES[:20])
    watch = start()
    watch.deliver("d.ndjson", SHOP_LINES)
    until(lambda: names(spool / "done") == ["d.ndjson"], "the complete file was loaded")
    assert names(spool) == [".a.ndjson", "b.ndjson.part", "c.tmp", "done", "quarantine"]


def test_a_file_is_loaded_whole_if_it_is_written_slowly_under_its_final_name(
    start: Callable[..., Watch], spool: Path
) -> None:
    watch = start()
    content = SHOP_LINES + bills(0, 300)
    with (spool / "slow.ndjson").open("wb", buffering=0) as file:
        file.write(content[:3000])
        # A file system that does not say who writes a file would let the watcher load it after two seconds.
        throughout(1.5, lambda: not watch.summaries(), "nothing is loaded yet")
        file.write(content[3000:])
    wait_for_loads(watch, 1)
    assert [(one["lines"], one["added"]) for one in watch.summaries()] == [(302, 302)]


def test_a_file_that_changes_while_it_is_loaded_is_loaded_again(
    spool: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = spool / "growing.ndjson"
    file.write_bytes(SHOP_LINES)
    load_once = StoreLoader.load

    def load_while_it_grows(self: StoreLoader, files: FileSet, *, is_beside: bool) -> bool:
        has_ended = load_once(self, files, is_beside=is_beside)
        if file.stat().st_size == len(SHOP_LINES):
            file.write_bytes(SHOP_LINES + bills(0, 3))
        return has_ended

    monkeypatch.setattr(StoreLoader, "load", load_while_it_grows)
    loader = StoreLoader(load({"store": str(store)}, {}), spool, SignalSafeEvent(), as_json=True)
    loader.heartbeat()
    watcher = FolderWatch(Spool(spool), loader, lambda _: None, loader.steady_ms)
    assert watcher.take_files()
    assert names(spool) == ["growing.ndjson"]
    assert watcher.take_files()
    assert names(spool) == ["done"]
    found = folder(store)
    assert found is not None
    assert found.files == 1


def test_an_unreadable_file_is_quarantined_with_its_reason_and_the_others_are_loaded(
    start: Callable[..., Watch], spool: Path, store: Path
) -> None:
    (spool / "a.ndjson.gz").write_bytes(gzip.compress(SHOP_LINES)[:-1])
    (spool / "b.ndjson").write_bytes(SHOP_LINES)
    (spool / "c.csv").write_bytes(b"a,b")
    watch = start()
    until(lambda: names(spool / "done") == ["b.ndjson"], "the good file was loaded")
    until(lambda: len(names(spool / "quarantine")) == 4, "the others were quarantined")
    notes = list((spool / "quarantine").glob("*.reason.txt"))
    reasons = {MOVED.sub("", note.name): note.read_text("utf-8") for note in notes}
    assert "a.ndjson.gz cannot be read after line 0" in reasons["a.ndjson.gz.reason.txt"]
    assert reasons["c.csv.reason.txt"].startswith(
        "c.csv is not a source record file: its name does not end in .ndjson, .jsonl or .json, "
    )
    assert {oct(note.stat().st_mode)[-3:] for note in notes} == {"600"}
    until(lambda: (found := folder(store)) and (found.files, found.quarantined) == (1, 2), "the folder was reported")
    until(lambda: len(watch.summaries()) == 1, "the summary was printed")
    latest = bootstrap.store(load({"store": str(store)}, {})).reads().latest_load()
    assert latest
    assert latest.finished, "the load must not be reported as unfinished"
    assert watch.stop() == 0


def test_loaded_files_can_be_deleted_instead_of_moved(start: Callable[..., Watch], spool: Path) -> None:
    watch = start("--delete-loaded")
    watch.deliver("a.ndjson", SHOP_LINES)
    until(lambda: len(watch.summaries()) == 1, "the file was loaded")
    until(lambda: names(spool) == ["done", "quarantine"], "the file was deleted")
    assert names(spool / "done") == []


def test_a_second_watcher_refuses_and_names_the_first(
    start: Callable[..., Watch], spool: Path, counterfoil: Command
) -> None:
    watch = start()
    told = counterfoil("load", "--watch", spool, status=1).stderr
    assert f"another process is watching {spool} (process {watch.process.pid})" in told
    watch.stop(signal.SIGKILL)
    start()


def test_nothing_is_lost_when_the_watcher_is_killed_at_any_time(
    start: Callable[..., Watch], spool: Path, store: Path, counterfoil: Command
) -> None:
    (spool / "0.ndjson").write_bytes(SHOP_LINES)
    for number in range(4):
        (spool / f"{number + 1}.ndjson").write_bytes(bills(1_000 * number, 1_000))
    for read in (0, 700, 1_800, 3_900):
        watch = start("--batch", "20")
        wait_for_lines(store, read)
        watch.stop(signal.SIGKILL)
    start()
    until(lambda: len(names(spool / "done")) == 5, "all files were loaded")
    told = counterfoil.json("load", spool / "done")
    assert (told["added"], told["changed"], told["unchanged"]) == (0, 0, 4_002)


def test_sigterm_ends_after_the_current_batch_and_the_next_watcher_continues(
    start: Callable[..., Watch], spool: Path, store: Path, counterfoil: Command
) -> None:
    (spool / "a.ndjson").write_bytes(SHOP_LINES + bills(0, 8_000))
    watch = start("--batch", "10")
    inspection = bootstrap.store(load({"store": str(store)}, {})).reads()
    until(lambda: (found := inspection.latest_load()) and found.lines > 100, "some batches were written")
    assert watch.stop() == 0
    assert names(spool) == ["a.ndjson", "done", "quarantine"]
    latest = inspection.latest_load()
    assert latest
    assert not latest.finished
    found = folder(store)
    assert found
    assert found.is_stopped
    start()
    until(lambda: names(spool / "done") == ["a.ndjson"], "the file was loaded by the next watcher", 60)
    assert counterfoil.json("load", spool / "done")["unchanged"] == 8_002


@pytest.mark.parametrize("lost", ["books.sqlite3", ""], ids=["a file", "the whole folder"])
def test_the_watcher_waits_for_an_unavailable_store_and_reports_it_once(
    start: Callable[..., Watch], spool: Path, store: Path, counterfoil: Command, lost: str
) -> None:
    counterfoil("init")
    watch = start()
    until(lambda: folder(store), "the watcher had reported its folder")
    books, away = store / lost, store.parent / "away"
    books.rename(away)
    watch.deliver("a.ndjson", SHOP_LINES)
    until(lambda: "the store is unavailable" in watch.said(), "the watcher had reported the outage")
    throughout(2.5, lambda: watch.said().count("the store is unavailable") == 1, "the outage was reported once")
    assert names(spool / "done") == []
    assert not books.exists(), "an empty store must not be created in its place"
    away.rename(books)
    until(lambda: names(spool / "done") == ["a.ndjson"], "the file was loaded", 60)
    assert "the store is available again" in watch.said()


def test_the_watcher_reports_its_heartbeat_and_its_end(
    start: Callable[..., Watch], spool: Path, store: Path, counterfoil: Command
) -> None:
    watch = start()
    first = until(lambda: folder(store), "the watcher had reported its folder")
    assert (first.name, first.files, first.is_stopped) == (str(spool.resolve()), 0, False)
    until(lambda: (found := folder(store)) and found.seen_at > first.seen_at, "the watcher had reported again")
    checks = {found["check"]: found for found in counterfoil.json("doctor")["checks"]}
    assert checks["folders"]["status"] == "ok"
    assert watch.stop(signal.SIGINT) == 0
    checks = {found["check"]: found for found in counterfoil.json("doctor")["checks"]}
    assert checks["folders"]["status"] == "warn"
    assert "was stopped" in checks["folders"]["message"]
    assert counterfoil.json("status", status=2)["watchedFolders"][0]["stopped"] is True


@pytest.mark.parametrize("wrong", [["x.ndjson"], ["--check"], ["--accept-change"], ["--rejects", "r.ndjson"]])
def test_options_that_conflict_with_watch_are_refused(counterfoil: Command, spool: Path, wrong: list[str]) -> None:
    assert "--watch cannot be used with SOURCE" in counterfoil("load", "--watch", spool, *wrong, status=2).stderr


def test_folders_that_cannot_be_watched_are_refused(counterfoil: Command, spool: Path, tmp_path: Path) -> None:
    assert "only with --watch" in counterfoil("load", spool, "--delete-loaded", status=2).stderr
    assert "there is no folder" in counterfoil("load", "--watch", tmp_path / "nowhere", status=1).stderr
    refused = counterfoil("load", "--watch", spool, "--quarantine", spool, status=1)
    assert "must not be the watched folder" in refused.stderr


def test_a_folder_is_loaded_without_its_hidden_and_unfinished_files(counterfoil: Command, spool: Path) -> None:
    (spool / "a.ndjson").write_bytes(SHOP_LINES)
    (spool / ".b.ndjson").write_bytes(SHOP_LINES)
    (spool / "c.ndjson.part").write_bytes(SHOP_LINES)
    told = counterfoil.json("load", spool, "--quarantine", spool.parent / "quarantine")
    assert (told["lines"], told["unfinishedFiles"], told["quarantined"]) == (2, [".b.ndjson", "c.ndjson.part"], [])
    assert ".b.ndjson (still being written)" in counterfoil("load", spool).stdout


def test_a_quarantined_file_is_an_open_item(start: Callable[..., Watch], spool: Path, counterfoil: Command) -> None:
    counterfoil("init")
    watch = start()
    watch.deliver("bills.ndjson.gz", gzip.compress(SHOP_LINES)[:-9])
    (item,) = until(lambda: counterfoil.json("loads", "open"), "the item was opened")
    assert (item["kind"], item["source"], MOVED.sub("", Path(item["path"]).name)) == (
        "quarantined",
        "bills.ndjson.gz",
        "bills.ndjson.gz",
    )
    assert "bills.ndjson.gz" in item["reason"]
