"""A load has the same result whether it converts bills itself or in other processes."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

import pytest

from counterfoil.backends.sqlite.ledger import SqliteLedger
from counterfoil.demo.worldgen.dirty_values import dirty_lines
from counterfoil.ingest import converters
from counterfoil.ingest.conversion import BillConverter, ConvertedBill
from counterfoil.ingest.converters import Converters, ConverterStopped
from counterfoil.ingest.pipeline import Pipeline, RejectsFile, Summary
from ingest.loaders import IterableSource, lines_of_a_world
from ports.open_store import PSEUDONYMS
from running_service import ManualClock
from waiting import until

TABLES = ("shops", "bills", "bases", "members", "accounts", "removals", "loads", "horizon")
SHOP: dict[str, Any] = {"kind": "shop", "id": "s", "timezone": "Asia/Bangkok", "channels": [{"id": "c", "name": "One"}]}


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list["subprocess.Popen[bytes]"]:
    """Make loads start processes early and send them only a few lines at a time; return the list of processes."""
    monkeypatch.setattr(converters, "LINES_BEFORE_START", 1)
    monkeypatch.setattr(converters, "MESSAGE_BYTES", 2_000)
    found: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def remember(*words: Any, **options: Any) -> "subprocess.Popen[bytes]":
        found.append(start(*words, **options))
        return found[-1]

    monkeypatch.setattr(subprocess, "Popen", remember)
    start_all = Converters._start

    def start_and_wait(self: Converters) -> None:
        start_all(self)
        until(lambda: all(process.has_answer() for process in self._processes), "every process is ready")

    monkeypatch.setattr(Converters, "_start", start_and_wait)
    return found


def loaded(
    folder: Path, records: Iterable[Any], processes: int, batch: int = 20, *, strict: bool = False
) -> tuple[Summary, dict[str, list[Any]], bytes]:
    """Load with a frozen clock; return the summary, every row of every table, and the rejects file."""
    ledger = SqliteLedger(folder, ManualClock(), PSEUDONYMS.fingerprint())
    rejects = RejectsFile(folder / "rejects")
    try:
        pipeline = Pipeline(ledger, PSEUDONYMS, rejects, batch, strict=strict, processes=processes)
        summary = pipeline.load(IterableSource(records))
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
def test_every_table_the_summary_and_the_rejects_are_the_same(
    tmp_path: Path, started: list["subprocess.Popen[bytes]"], strict: bool
) -> None:
    records = world_with_errors()
    here = loaded(tmp_path / "here", records, 0, strict=strict)
    assert not started
    elsewhere = loaded(tmp_path / "elsewhere", records, 2, strict=strict)
    assert len(started) == 2
    assert elsewhere == here
    assert here[0].rejected
    assert here[0].fields.unreadable


def test_bills_are_converted_in_the_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here: list[bytes] = []
    convert = BillConverter.convert_clean

    def noted(self: BillConverter, line: bytes) -> ConvertedBill | None:
        here.append(line)
        return convert(self, line)

    monkeypatch.setattr(BillConverter, "convert_clean", noted)
    summary = loaded(tmp_path, [SHOP, *map(bill, range(100))], 1)[0]
    assert summary.outcomes["added"] == 101
    assert len(here) == 1


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


def test_no_process_is_left_after_a_load(tmp_path: Path, started: list["subprocess.Popen[bytes]"]) -> None:
    loaded(tmp_path, [SHOP, bill(1)], 2)
    assert [process.returncode for process in started] == [-signal.SIGKILL] * 2


def test_no_process_is_left_after_an_interrupted_load(tmp_path: Path, started: list["subprocess.Popen[bytes]"]) -> None:
    def interrupted() -> Iterator[Any]:
        yield from [SHOP, *map(bill, range(100))]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loaded(tmp_path, interrupted(), 2)
    assert [process.returncode for process in started] == [-signal.SIGKILL] * 2


def test_a_killed_process_ends_the_load_with_a_message(
    tmp_path: Path, started: list["subprocess.Popen[bytes]"]
) -> None:
    def killing() -> Iterator[Any]:
        yield from [SHOP, *map(bill, range(100))]
        os.kill(started[0].pid, signal.SIGKILL)
        started[0].wait()
        yield from map(bill, range(500))

    with pytest.raises(ConverterStopped, match="Run the same command to resume"):
        loaded(tmp_path, killing(), 1)
    again = loaded(tmp_path, [SHOP, *map(bill, range(500))], 1)
    assert again[0].lines == again[0].outcomes.total()


def test_a_process_ends_when_its_loader_is_killed() -> None:
    reading, writing = os.pipe()
    script = (
        "import os, signal, sys; from counterfoil.ingest.converters import ConverterProcess;"
        "one = ConverterProcess(bytes(32)); one.answer(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    # The converter process inherits standard error, so this pipe is not closed until that process has ended.
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
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    summary = loaded(tmp_path / "store", [SHOP, *map(bill, range(100))], 2)[0]
    assert summary.outcomes["added"] == summary.lines


def test_a_load_that_is_known_to_be_large_starts_its_processes_before_the_first_line(
    monkeypatch: pytest.MonkeyPatch, started: list["subprocess.Popen[bytes]"]
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
