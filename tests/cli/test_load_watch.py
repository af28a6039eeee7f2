"""`counterfoil load --watch` loads the files in a folder as they arrive, despite crashes and outages."""

import gzip
import json
import re
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from cli.command import Command
from cli.watched_folder import MOVED, SHOP_LINES, Watched, WatcherProcess, bills, names, reasons
from counterfoil import bootstrap
from counterfoil.domain.loads import WatchedFolder
from counterfoil.model.calendar import iso_utc
from counterfoil.operator_reads import OperatorReads
from counterfoil.program.clock import SystemClock
from counterfoil.settings import load
from waiting import throughout, until

pytestmark = pytest.mark.programs

Start = Callable[..., WatcherProcess]


def reads(store: Path) -> OperatorReads:
    return bootstrap.store(load({"store": str(store)}, {})).reads()


def folder(store: Path) -> WatchedFolder | None:
    folders = reads(store).watched_folders(SystemClock().now_ms())
    return folders[0] if folders else None


def wait_for_lines(store: Path, number: int) -> None:
    inspection = reads(store)
    until(lambda: (found := inspection.latest_load()) and found.lines > number, "more lines were loaded", 60)


def test_files_are_loaded_as_they_arrive_and_moved_to_done(start: Start, spool: Path, counterfoil: Command) -> None:
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


def test_a_watcher_prints_the_time_and_the_names_of_the_files_of_each_load(start: Start, spool: Path) -> None:
    (spool / "1-shops.ndjson").write_bytes(SHOP_LINES)
    (spool / "2-bills.ndjson").write_bytes(bills(0, 5))
    watch = start("--utc", form=())
    until(lambda: "lines read" in watch.out.read_text("utf-8"), "the files were loaded")
    assert watch.stop() == 0
    time = "[0-9-]{10} [0-9:]{8} UTC"
    assert re.match(rf"{time}  1-shops.ndjson, 2-bills.ndjson\nlines read ", watch.out.read_text("utf-8"))
    first, *_, last = watch.said().splitlines()
    assert re.match(f"{time}  Watching ", first)
    assert re.match(f"{time}  Stopped.", last)


def test_a_file_that_changes_while_it_is_loaded_is_loaded_again(spool: Path, store: Path) -> None:
    watched = Watched(spool, store)
    file = watched.deliver("growing.ndjson")
    watched.during_load = lambda: file.write_bytes(SHOP_LINES + bills(0, 3))
    assert watched.take()
    assert names(spool) == ["growing.ndjson"]
    watched.during_load = lambda: None
    assert watched.take()
    assert names(spool) == ["done"]
    assert Command(store).json("status", status=1)["watchedFolders"][0]["files"] == 1


def test_an_unreadable_file_is_quarantined_with_its_reason_and_the_others_are_loaded(
    start: Start, spool: Path, store: Path
) -> None:
    (spool / "a.ndjson.gz").write_bytes(gzip.compress(SHOP_LINES)[:-1])
    (spool / "b.ndjson").write_bytes(SHOP_LINES)
    (spool / "c.csv").write_bytes(b"a,b")
    watch = start()
    until(lambda: names(spool / "done") == ["b.ndjson"], "the good file was loaded")
    until(lambda: len(names(spool / "quarantine")) == 4, "the others were quarantined")
    notes = list((spool / "quarantine").glob("*.reason.txt"))
    reasons = {MOVED.sub("", note.name): note.read_text("utf-8") for note in notes}
    assert "a.ndjson.gz cannot be read, so it is not loaded" in reasons["a.ndjson.gz.reason.txt"]
    assert reasons["c.csv.reason.txt"].startswith(
        "c.csv is not a source record file: its name does not end in .ndjson, .jsonl or .json, "
    )
    assert not any("SHA-256" in reason for reason in reasons.values())
    assert {oct(note.stat().st_mode)[-3:] for note in notes} == {"600"}
    until(lambda: (found := folder(store)) and (found.files, found.quarantined) == (1, 2), "the folder was reported")
    until(lambda: len(watch.summaries()) == 1, "the summary was printed")
    assert [load["state"] for load in Command(store).json("loads")] == ["finished"]
    assert watch.stop() == 0


def test_loaded_files_can_be_deleted_instead_of_moved(start: Start, spool: Path) -> None:
    watch = start("--delete-loaded")
    watch.deliver("a.ndjson", SHOP_LINES)
    until(lambda: len(watch.summaries()) == 1, "the file was loaded")
    until(lambda: names(spool) == ["done", "quarantine"], "the file was deleted")
    assert names(spool / "done") == []


def test_a_second_watcher_refuses_and_names_the_first(start: Start, spool: Path, counterfoil: Command) -> None:
    watch = start()
    told = counterfoil("load", "--watch", spool, status=1).stderr
    assert f"another process is watching {spool} (process {watch.process.pid})" in told
    watch.stop(signal.SIGKILL)
    start()


def test_nothing_is_lost_when_the_watcher_is_killed_at_any_time(
    start: Start, spool: Path, store: Path, counterfoil: Command
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
    start: Start, spool: Path, store: Path, counterfoil: Command
) -> None:
    (spool / "a.ndjson").write_bytes(SHOP_LINES + bills(0, 8_000))
    watch = start("--batch", "10")
    wait_for_lines(store, 100)
    assert watch.stop() == 0
    assert names(spool) == ["a.ndjson", "done", "quarantine"]
    assert [load["state"] for load in counterfoil.json("loads")] == ["stopped"]
    assert counterfoil.json("status", status=1)["watchedFolders"][0]["stopped"] is True
    start()
    until(lambda: names(spool / "done") == ["a.ndjson"], "the file was loaded by the next watcher", 60)
    assert counterfoil.json("load", spool / "done")["unchanged"] == 8_002


@pytest.mark.parametrize("lost", ["books.sqlite3", ""], ids=["a file", "the whole folder"])
def test_the_watcher_waits_for_an_unavailable_store_and_reports_it_once(
    start: Start, spool: Path, store: Path, counterfoil: Command, lost: str
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


def test_the_watcher_reports_its_heartbeat_and_its_end(start: Start, spool: Path, counterfoil: Command) -> None:
    watch = start()
    first = until(lambda: folder(counterfoil.store), "the watcher had reported its folder")
    assert (first.name, first.files, first.is_stopped) == (str(spool.resolve()), 0, False)
    until(
        lambda: (found := folder(counterfoil.store)) and found.seen_at > first.seen_at, "the watcher had reported again"
    )
    assert [found["status"] for found in counterfoil.findings("folders")] == ["ok"]
    assert watch.stop(signal.SIGINT) == 0
    (stopped,) = counterfoil.findings("folders")
    assert (stopped["status"], "was stopped" in stopped["message"]) == ("warn", True)
    assert counterfoil.json("status", status=2)["watchedFolders"][0]["stopped"] is True


@pytest.mark.parametrize("wrong", [["x.ndjson"], ["--check"], ["--accept-change"], ["--rejects", "r.ndjson"]])
def test_options_that_conflict_with_watch_are_refused(counterfoil: Command, spool: Path, wrong: list[str]) -> None:
    assert "--watch cannot be used with SOURCE" in counterfoil("load", "--watch", spool, *wrong, status=2).stderr


def test_folders_that_cannot_be_watched_are_refused(counterfoil: Command, spool: Path, tmp_path: Path) -> None:
    assert (
        "for the files of a folder that --watch names" in counterfoil("load", spool, "--delete-loaded", status=2).stderr
    )
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


ORDERS = Path(__file__).parents[2] / "docs" / "examples" / "foodstory-orders.csv"


def is_reading(spool: Path, name: str, deaths: int = 0) -> bool:
    """Return whether the watcher has noted in its lock file that it reads this file, at which so many have died."""
    noted = (spool / "done" / ".counterfoil.lock").read_bytes().splitlines()[1:]
    found = json.loads(noted[0]) if noted else {}
    return (found.get("name"), found.get("deaths")) == (name, deaths)


def test_an_export_at_which_the_watcher_died_is_quarantined_at_the_next_start(start: Start, spool: Path) -> None:
    heading, *rows, _ = ORDERS.read_text("utf-8").splitlines(keepends=True)
    deadly = heading + "".join(rows[2].replace("0002", f"{number:06}") for number in range(100_000))
    (spool / "a.csv").write_text(deadly, "utf-8")
    shutil.copy(ORDERS, spool / "b.csv")
    watch = start("--exports", "--with-shops")
    until(lambda: is_reading(spool, "a.csv"), "the watcher had begun to read the file")
    watch.stop(signal.SIGKILL)
    again = start("--exports", "--with-shops")
    until(lambda: names(spool / "done") == ["b.csv"], "the file behind it was loaded", 30)
    assert names(spool / "quarantine") == ["a.csv", "a.csv.reason.txt"]
    assert "the watcher died while it read a.csv" in reasons(spool / "quarantine")[0]
    # Whoever delivers it again wants it to be tried again.
    again.deliver("a.csv", ORDERS.read_bytes())
    until(lambda: names(spool / "done") == ["a.csv", "b.csv"], "the same name was loaded", 30)
    assert again.stop() == 0


def test_source_records_are_tried_again_until_three_watchers_have_died_at_them(start: Start, spool: Path) -> None:
    (spool / "a.ndjson").write_bytes(SHOP_LINES + bills(0, 20_000))
    for deaths in range(3):
        watch = start("--batch", "20")
        until(partial(is_reading, spool, "a.ndjson", deaths), "the watcher had begun to read the file")
        watch.stop(signal.SIGKILL)
        assert names(spool / "quarantine") == []
    watch = start()
    until(lambda: names(spool / "quarantine") == ["a.ndjson", "a.ndjson.reason.txt"], "the file was quarantined")
    assert watch.stop() == 0
