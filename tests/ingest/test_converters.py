"""A load has the same result whether it converts bills itself or in other processes."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec import msgpack

from counterfoil.backends.sqlite.ledger import SqliteLedger
from counterfoil.demo.worldgen.dirty_values import dirty_lines
from counterfoil.ingest import converter_process, converters, pipeline
from counterfoil.ingest.conversion import BillConverter, ConvertedBill
from counterfoil.ingest.converter_connection import ConverterProcess, forked, spawned
from counterfoil.ingest.converter_process import LinesToConvert
from counterfoil.ingest.converters import Converters, running_converters
from counterfoil.ingest.pipeline import Pipeline, RejectsFile, Summary
from ingest.loaders import IterableSource, lines_of_a_world
from ports.open_store import PSEUDONYMS
from running_service import ManualClock
from waiting import until

TABLES = ("shops", "bills", "bases", "members", "accounts", "removals", "loads", "horizon")
SHOP: dict[str, Any] = {"kind": "shop", "id": "s", "timezone": "Asia/Bangkok", "channels": [{"id": "c", "name": "One"}]}


Started = list[Any]
count_threads = threading.active_count


@pytest.fixture(autouse=True, params=["spawned", "forked"])
def started(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Started:
    """Make loads start processes early and send them only a few lines at a time.

    Return a list to which each process is added when it is started.
    """
    monkeypatch.setattr(converters, "LINES_BEFORE_START", 1)
    monkeypatch.setattr(converters, "MESSAGE_BYTES", 2_000)
    if request.param == "forked":
        monkeypatch.setattr(converters, "BYTES_TO_START_AT_ONCE", 1)
    # A load does not fork if its process has several threads. The test runner has threads of its own, so hide them.
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    found: Started = []
    for name in ("spawned", "forked"):
        start = getattr(converters, name)

        def start_and_wait(secret: bytes, count: int, start: Any = start) -> list[ConverterProcess]:
            processes: list[ConverterProcess] = start(secret, count)
            found.extend(each.process for each in processes)
            until(lambda: all(each.has_answer() for each in processes), "every process is ready")
            return processes

        monkeypatch.setattr(converters, name, start_and_wait)
    return found


def loaded(
    folder: Path, records: Iterable[Any], processes: int, batch: int = 20, *, strict: bool = False
) -> tuple[Summary, dict[str, list[Any]], bytes]:
    """Load with a frozen clock; return the summary, every row of TABLES, and the contents of the rejects file."""
    rejects = RejectsFile(folder / "rejects")
    with running_converters(PSEUDONYMS, processes, 1) as running:
        ledger = SqliteLedger(folder, ManualClock(), PSEUDONYMS.fingerprint())
        try:
            loading = Pipeline(ledger, PSEUDONYMS, rejects, batch, strict=strict, processes=processes, running=running)
            summary = loading.load(IterableSource(records))
        finally:
            ledger.close()
    summary.rejects_file = None
    return summary, rows(folder), rejects.path.read_bytes() if rejects.used else b""


def rows(folder: Path) -> dict[str, list[Any]]:
    connection = sqlite3.connect(folder / "books.sqlite3")
    try:
        return {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES}  # noqa: S608
    finally:
        connection.close()


def bill(number: int, shop: str = "s", **fields: Any) -> dict[str, Any]:
    closed = {"closedAt": 1_760_000_000 + number, "channel": "c", "amounts": {"net": number}}
    return {"kind": "bill", "id": f"b{number}", "shopId": shop, **closed, **fields}


def world_with_errors() -> list[Any]:
    """Return generated records in random order, with dirty values, invalid lines, duplicates and removals."""
    lines: list[Any] = lines_of_a_world()
    shops = [json.loads(line) for line in lines if line.startswith(b'{"kind":"shop"')]
    bills = [json.loads(line) for line in lines if line.startswith(b'{"kind":"bill"') and b"NaN" not in line]
    lines += dirty_lines()
    lines += [shop | {"timezone": "Europe/London", "closingTime": "04:00"} for shop in shops[:2]]
    lines += [{"kind": "bill", "id": each["id"], "shopId": each["shopId"], "removed": True} for each in bills[:20]]
    lines += [each | {"rev": 5, "surprise": 1} for each in bills[:60:3]]
    Random(7).shuffle(lines)  # noqa: S311 - the order must be reproducible
    return [*shops[2:], *lines, *shops, *lines]


@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
def test_every_table_the_summary_and_the_rejects_are_the_same(tmp_path: Path, started: Started, strict: bool) -> None:
    records = world_with_errors()
    here = loaded(tmp_path / "here", records, 0, strict=strict)
    assert not started
    elsewhere = loaded(tmp_path / "elsewhere", records, 2, strict=strict)
    assert len(started) == 2
    assert elsewhere == here
    assert here[0].rejected
    assert here[0].fields.unreadable


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return a list to which the loader adds each line that it converts itself."""
    found: list[bytes] = []
    convert = BillConverter.convert_clean

    def noted(self: BillConverter, line: bytes) -> ConvertedBill | None:
        found.append(line)
        return convert(self, line)

    monkeypatch.setattr(BillConverter, "convert_clean", noted)
    return found


def test_bills_are_converted_in_the_other_processes(
    tmp_path: Path, here: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Converters, "_convert_last", lambda *_: None)
    loaded(tmp_path, [SHOP], 0)
    here.clear()
    monkeypatch.delattr(pipeline, "parse_record")
    summary = loaded(tmp_path, map(bill, range(100)), 1)[0]
    assert summary.outcomes["added"] == 100
    assert len(here) <= 1


def test_the_last_lines_are_converted_by_the_loader_while_the_process_is_busy(
    tmp_path: Path, here: list[bytes], started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(tmp_path, [SHOP], 0)
    here.clear()
    note, has_answer = BillConverter.convert_clean, ConverterProcess.has_answer
    continued: list[bool] = []

    def continuing(self: BillConverter, line: bytes) -> ConvertedBill | None:
        if started and b"b99" in line:
            os.kill(started[0].pid, signal.SIGCONT)
            continued.append(True)
        return note(self, line)

    def has_answer_now(self: ConverterProcess) -> bool:
        # The process may have to wait for processor time, and the loader would convert all other lines meanwhile.
        if continued:
            until(lambda: has_answer(self), "the process has answered")
        return has_answer(self)

    def lines() -> Iterator[Any]:
        yield bill(0)
        os.kill(started[0].pid, signal.SIGSTOP)
        yield from map(bill, range(1, 100))

    monkeypatch.setattr(BillConverter, "convert_clean", continuing)
    monkeypatch.setattr(ConverterProcess, "has_answer", has_answer_now)
    summary = loaded(tmp_path, lines(), 1)[0]
    assert summary.outcomes["added"] == 100
    assert any(b"b99" in line for line in here)
    assert not any(b'"b5"' in line for line in here)


def test_a_shop_that_changes_between_its_bills_is_applied_to_the_bills_after_it(tmp_path: Path) -> None:
    changes = [SHOP | {"channels": [{"id": "c", "name": f"Name {number}"}]} for number in range(8)]
    records = [each for number, shop in enumerate(changes) for each in (shop, *map(bill, range(number, 400, 8)))]
    here = loaded(tmp_path / "here", [SHOP, *records], 0)
    assert loaded(tmp_path / "elsewhere", [SHOP, *records], 1) == here
    bodies = [max((value for value in row if isinstance(value, bytes)), key=len) for row in here[1]["bills"]]
    assert all(b'"Name 7"' in body for body in bodies)


def test_more_shops_than_the_cache_holds_give_the_same_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converters, "MAX_KNOWN_SHOPS", 2)
    shops = [SHOP | {"id": f"s{number}"} for number in range(7)]
    records = [*shops, *(bill(number, f"s{number % 7}") for number in range(500)), bill(1, "no-such-shop")]
    assert loaded(tmp_path / "elsewhere", [SHOP, *records], 2) == loaded(tmp_path / "here", [SHOP, *records], 0)


def test_no_process_is_left_after_a_load(tmp_path: Path, started: Started) -> None:
    loaded(tmp_path, [SHOP, bill(1)], 2)
    assert [process.returncode for process in started] == [-signal.SIGKILL] * 2


def test_no_process_is_left_after_an_interrupted_load(tmp_path: Path, started: Started) -> None:
    def interrupted() -> Iterator[Any]:
        yield from [SHOP, *map(bill, range(100))]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loaded(tmp_path, interrupted(), 2)
    assert [process.returncode for process in started] == [-signal.SIGKILL] * 2


@pytest.mark.parametrize("processes", [1, 2])
def test_a_load_converts_the_bills_of_a_killed_process_itself(tmp_path: Path, started: Started, processes: int) -> None:
    def killing() -> Iterator[Any]:
        yield from [SHOP, *map(bill, range(100))]
        os.kill(started[0].pid, signal.SIGKILL)
        started[0].wait()
        yield from map(bill, range(100, 500))

    summary = loaded(tmp_path, killing(), processes)[0]
    assert (summary.lines, summary.outcomes.total()) == (501, 501)
    assert not summary.rejected


@pytest.mark.parametrize("start", [spawned, forked])
def test_a_process_ignores_signals_that_the_loader_handles(start: Callable[..., list[ConverterProcess]]) -> None:
    (process,) = start(bytes(32), 1)
    try:
        assert process.answer() is not None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(process.process.pid, number)
        process.queues.send(msgpack.encode(LinesToConvert()))
        assert process.answer() is not None
    finally:
        process.close()


def test_a_process_runs_where_its_priority_cannot_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "nice", refuse)
    (process,) = forked(bytes(32), 1)
    try:
        assert process.answer() is not None
    finally:
        process.close()


def test_a_fork_that_fails_reports_the_place_and_no_data(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> None:
        raise ValueError("a secret")

    monkeypatch.setattr(converter_process, "run", fail)
    (process,) = forked(bytes(32), 1)
    assert process.answer() is None
    process.close()
    error = capfd.readouterr().err
    assert "converter: ValueError in fail:" in error
    assert "a secret" not in error


def test_a_fork_is_ended_even_if_the_loader_ignores_the_end_of_its_children() -> None:
    script = (
        "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN);"
        "from counterfoil.ingest.converter_connection import forked;"
        "(process,) = forked(bytes(32), 1); process.answer(); process.close(); print('ended')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("ended\n", "")


@pytest.mark.parametrize("start", ["spawned", "forked"])
def test_a_process_ends_when_its_loader_is_killed(start: str) -> None:
    reading, writing = os.pipe()
    script = (
        f"import os, signal; from counterfoil.ingest.converter_connection import {start} as start;"
        "start(bytes(32), 1)[0].answer(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    # The converter process inherits standard error, so `pipe.read` returns only after that process has ended.
    words = [sys.executable, "-c", script]
    subprocess.run(words, stderr=writing, check=False)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b""


def test_lines_of_a_slow_source_are_not_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converters, "MESSAGE_SEC", 0)
    converting = Converters(PSEUDONYMS, lambda _: None, 1)
    read = 0

    def lines() -> Iterator[Any]:
        nonlocal read
        for line in IterableSource(map(bill, range(3_000))).lines():
            read += 1
            yield line

    counts = accumulate(len(group.lines) for group in converting.convert(lines()))
    furthest = max(read - taken for taken in counts)
    assert furthest <= 2 * converters.MAX_WAITING + 1


def test_a_load_converts_bills_itself_if_no_process_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> int:
        raise BlockingIOError

    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    monkeypatch.setattr(os, "fork", fail)
    summary = loaded(tmp_path / "store", [SHOP, *map(bill, range(100))], 2)[0]
    assert summary.outcomes["added"] == summary.lines


def test_a_load_that_is_known_to_be_large_starts_its_processes_before_the_first_line(
    monkeypatch: pytest.MonkeyPatch, started: Started
) -> None:
    monkeypatch.setattr(converters, "LINES_BEFORE_START", 1_000)
    monkeypatch.setattr(converters, "BYTES_TO_START_AT_ONCE", 500)
    counts: list[int] = []

    def lines() -> Iterator[Any]:
        counts.append(len(started))
        yield from IterableSource(map(bill, range(10))).lines()

    for size in (499, 500):
        assert sum(len(group.lines) for group in Converters(PSEUDONYMS, lambda _: None, 1).convert(lines(), size)) == 10
    assert counts == [0, 1]


def test_a_fork_keeps_no_file_of_the_loader_open(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w"):
        (process,) = forked(bytes(32), 1)
        try:
            process.answer()
            descriptors = Path(f"/proc/{process.process.pid}/fd")
            opened = {each.name: str(each.readlink()) for each in descriptors.iterdir()}
        finally:
            process.close()
    others = {name: target for name, target in opened.items() if name not in ("0", "1", "2")}
    assert opened["0"] == opened["1"] == os.devnull
    assert [target.partition(":")[0] for target in others.values()] == ["socket"]


def test_a_process_with_several_threads_is_not_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "active_count", count_threads)
    may_end = threading.Event()
    thread = threading.Thread(target=may_end.wait)
    thread.start()
    try:
        assert forked(bytes(32), 1) == []
    finally:
        may_end.set()
        thread.join()


def test_forks_end_if_the_store_cannot_be_opened(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converters, "BYTES_TO_START_AT_ONCE", 1)
    with pytest.raises(OSError, match="no store"), running_converters(PSEUDONYMS, 2, 1):
        raise OSError("no store")
    assert [process.returncode for process in started] == [-signal.SIGKILL] * 2
