"""A load has the same result whether it converts bills itself or in other processes."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import accumulate
from multiprocessing import active_children
from pathlib import Path
from random import Random
from typing import Any

import pytest

from counterfoil.backends.sqlite.ledger import SqliteLedger
from counterfoil.demo.worldgen.records import dirty_lines
from counterfoil.domain.changes import EncodedBill, KnownFacts
from counterfoil.domain.shops import shop_from
from counterfoil.ingest import converters, pipeline
from counterfoil.ingest.conversion import LineConverter
from counterfoil.ingest.converters import ConverterProcess, Converters, converter_processes
from counterfoil.ingest.pipeline import LoadRules, Pipeline, RejectsFile, Summary
from ingest.loaders import lines_of_a_world, shops_of_a_world
from ports.open_store import PSEUDONYMS
from running_service import ManualClock, RecordSource
from waiting import until

TABLES = ("shops", "bills", "bases", "members", "accounts", "removals", "loads", "horizon")
SHOP: dict[str, Any] = {"kind": "shop", "id": "s", "timezone": "Asia/Bangkok", "channels": [{"id": "c", "name": "One"}]}


@pytest.fixture(autouse=True)
def _small_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converters, "MESSAGE_BYTES", 2_000)
    # A load does not fork if its process has several threads. The test runner has threads of its own, so hide them.
    monkeypatch.setattr(converters, "active_count", lambda: 1)


def loaded(
    folder: Path, records: Iterable[Any], processes: int, batch: int = 20, *, strict: bool = False
) -> tuple[Summary, dict[str, list[Any]], bytes]:
    """Load with a frozen clock; return the summary, every row of TABLES, and the contents of the rejects file."""
    rejects = RejectsFile(folder / "rejects")
    with converter_processes(PSEUDONYMS, processes, None) as started:
        ledger = SqliteLedger(folder, ManualClock(), PSEUDONYMS.fingerprint())
        try:
            loading = Pipeline(ledger, PSEUDONYMS, rejects, LoadRules(batch=batch, strict=strict), processes=started)
            summary = loading.load(RecordSource(records))
        finally:
            ledger.close()
    return summary, rows(folder), rejects.path.read_bytes() if rejects.used else b""


def rows(folder: Path) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(folder / "books.sqlite3")) as connection:
        return {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES}  # noqa: S608


def bill(number: int, shop: str = "s", **fields: Any) -> dict[str, Any]:
    closed = {"closedAt": 1_760_000_000 + number, "channel": "c", "amounts": {"net": number}}
    return {"kind": "bill", "id": f"b{number}", "shopId": shop, **closed, **fields}


def world_with_errors() -> list[Any]:
    """Return generated records in random order, with dirty values, invalid lines, duplicates and removals."""
    lines: list[Any] = lines_of_a_world()
    shops = shops_of_a_world()
    bills = [json.loads(line) for line in lines if line.startswith(b'{"kind":"bill"') and b"NaN" not in line]
    lines += dirty_lines()
    lines += [shop | {"timezone": "Europe/London", "closingTime": "04:00"} for shop in shops[:2]]
    lines += [{"kind": "bill", "id": each["id"], "shopId": each["shopId"], "removed": True} for each in bills[:20]]
    lines += [each | {"rev": 5, "surprise": 1} for each in bills[:60:3]]
    Random(7).shuffle(lines)  # noqa: S311 - the order must be reproducible
    return [*shops[2:], *lines, *shops, *lines]


def noting_processes(records: Iterable[Any], found: set[int | None]) -> Iterator[Any]:
    """Yield the records, and add the processes that run meanwhile to `found`."""
    for record in records:
        found |= {process.pid for process in active_children()}
        yield record


@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
def test_every_table_the_summary_and_the_rejects_are_the_same(tmp_path: Path, strict: bool) -> None:
    records = world_with_errors()
    here = loaded(tmp_path / "here", records, 0, strict=strict)
    found: set[int | None] = set()
    elsewhere = loaded(tmp_path / "elsewhere", noting_processes(records, found), 2, strict=strict)
    assert len(found) == 2
    assert active_children() == []
    assert elsewhere == here
    assert here[0].rejected
    assert here[0].fields.unreadable


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return a list to which the loader adds each line that it converts itself."""
    found: list[bytes] = []
    convert = LineConverter.convert_clean

    def noted(self: LineConverter, line: bytes) -> EncodedBill | None:
        found.append(line)
        return convert(self, line)

    monkeypatch.setattr(LineConverter, "convert_clean", noted)
    return found


def test_bills_and_members_are_converted_in_the_other_processes(
    tmp_path: Path, here: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(converters, "MAX_WAITING", 1_000)
    loaded(tmp_path, [SHOP, {"kind": "base", "id": "m"}], 0)
    here.clear()
    monkeypatch.delattr(pipeline, "parse_record")
    # A load that has read all lines converts the last ones itself.
    monkeypatch.setattr(Converters, "_rest", lambda self, waiting: map(self._result, waiting))
    members = [{"kind": "member", "id": f"m{number}", "providerId": "m"} for number in range(100)]
    summary = loaded(tmp_path, [*map(bill, range(100)), *members], 1)[0]
    assert summary.outcomes["added"] == 200
    assert here == []


def test_no_process_is_left_after_an_interrupted_load(tmp_path: Path) -> None:
    def interrupted() -> Iterator[Any]:
        yield from [SHOP, *map(bill, range(100))]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loaded(tmp_path, interrupted(), 2)
    assert active_children() == []


@pytest.mark.parametrize("processes", [1, 2])
def test_a_load_converts_the_bills_of_a_killed_process_itself(tmp_path: Path, processes: int) -> None:
    def killing() -> Iterator[Any]:
        yield from [SHOP, *map(bill, range(100))]
        active_children()[0].kill()
        yield from map(bill, range(100, 500))

    summary = loaded(tmp_path, killing(), processes)[0]
    assert (summary.lines, summary.outcomes.total()) == (501, 501)
    assert not summary.rejected


@pytest.fixture
def process() -> Iterator[ConverterProcess]:
    with closing(ConverterProcess(PSEUDONYMS.secret)) as started:
        yield started


def test_a_process_ignores_signals_that_the_loader_handles(process: ConverterProcess) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        process.send([b"{}"], [])
        assert process.answer() == ([None], {})
        os.kill(process.process.pid or 0, number)
    process.send([b"{}"], [])
    assert process.answer() == ([None], {})


def test_a_process_that_fails_reports_the_place_and_no_data(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a secret")

    monkeypatch.setattr(LineConverter, "convert", fail)
    with closing(ConverterProcess(PSEUDONYMS.secret)) as process:
        process.send([b"{}"], [])
        assert process.answer() is None
    error = capfd.readouterr().err
    assert "converter: ValueError in fail:" in error
    assert "a secret" not in error


def test_a_process_runs_where_its_priority_cannot_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "nice", refuse)
    with closing(ConverterProcess(PSEUDONYMS.secret)) as process:
        process.send([b"{}"], [])
        assert process.answer() == ([None], {})


STARTING = """
import os, signal
from counterfoil.ingest.converters import ConverterProcess
processes = [ConverterProcess(bytes(32)) for _ in range(2)]
"""


def test_processes_are_ended_even_if_the_loader_ignores_the_end_of_its_children(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        f"{STARTING}signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "for process in processes: process.close()\nprint('ended')"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("ended\n", "")


def test_processes_end_when_their_loader_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"{STARTING}os.kill(os.getpid(), signal.SIGKILL)")
    reading, writing = os.pipe()
    # The converter processes inherit the pipe, so `pipe.read` returns only after they have ended.
    subprocess.run([sys.executable, program], stdout=writing, stderr=subprocess.DEVNULL, check=False)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b""


def test_a_batch_of_one_record_is_converted_before_the_next_one_is_read() -> None:
    read = 0

    def lines() -> Iterator[Any]:
        nonlocal read
        for line in RecordSource(map(bill, range(20))).lines():
            read += 1
            yield line

    with converter_processes(PSEUDONYMS, 1, None) as started:
        groups = Converters(PSEUDONYMS, lambda _: None, started, 1).convert(lines())
        assert [read for _ in groups] == list(range(1, 21))


def test_lines_of_a_slow_source_are_not_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converters, "MESSAGE_SEC", 0)
    read = 0

    def lines() -> Iterator[Any]:
        nonlocal read
        for line in RecordSource(map(bill, range(3_000))).lines():
            read += 1
            yield line

    with converter_processes(PSEUDONYMS, 1, None) as started:
        groups = Converters(PSEUDONYMS, lambda _: None, started).convert(lines())
        furthest = max(read - taken for taken in accumulate(len(group.lines) for group in groups))
    assert furthest <= converters.MAX_AHEAD + 1


def test_the_loader_converts_most_lines_itself_while_a_process_gets_no_time(
    here: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(converters, "MESSAGE_SEC", 0)
    sent = converters.MAX_AHEAD
    with converter_processes(PSEUDONYMS, 1, None) as (process,):
        os.kill(process.process.pid or 0, signal.SIGSTOP)
        try:
            source = RecordSource(map(bill, range(sent))).lines()
            groups = Converters(PSEUDONYMS, lambda _: None, [process]).convert(waking(source, process))
            assert sum(len(group.lines) for group in groups) == sent
        finally:
            os.kill(process.process.pid or 0, signal.SIGCONT)
    assert len(here) >= sent * 3 // 4


def waking(lines: Iterator[Any], process: converters.ConverterProcess) -> Iterator[Any]:
    """Yield the lines, and let a stopped process go on when all of them have been read."""
    yield from lines
    os.kill(process.process.pid or 0, signal.SIGCONT)


def test_a_load_does_not_wait_for_a_process_that_gets_no_time(tmp_path: Path) -> None:
    first, second = (
        [SHOP, *map(bill, range(200))],
        [SHOP | {"id": "s2"}, *(bill(number, "s2") for number in range(200))],
    )

    def while_it_is_stopped() -> Iterator[Any]:
        (process,) = active_children()
        os.kill(process.pid or 0, signal.SIGSTOP)
        # The first bills of the second shop wait until the shop is written.
        yield from [*first, *second]
        os.kill(process.pid or 0, signal.SIGCONT)
        # Here come the answers for the bills that the loader has converted itself meanwhile.
        yield from second[1:]

    here = loaded(tmp_path / "here", [*first, *second, *second[1:]], 0)
    assert loaded(tmp_path / "elsewhere", while_it_is_stopped(), 1) == here


def test_the_bills_of_a_new_shop_are_sent_when_its_record_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converters, "MESSAGE_SEC", 0)
    written: dict[str, KnownFacts] = {}
    not_converted = 0
    with converter_processes(PSEUDONYMS, 1, None) as (process,):
        os.kill(process.process.pid or 0, signal.SIGSTOP)
        source = RecordSource(map(bill, range(30))).lines()
        for group in Converters(PSEUDONYMS, written.get, [process]).convert(waking(source, process)):
            not_converted += group.changes.count(None)
            # A load writes the records before a bill first.
            written["s"] = KnownFacts(1, shop_from(SHOP)[1])
    assert not_converted == 1


def test_a_process_that_got_no_time_is_used_again_once_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converters, "MESSAGE_SEC", 0)
    known = {"s": KnownFacts(1, shop_from(SHOP)[1])}
    held = [*map(bill, range(converters.MAX_WAITING)), bill(0, "new")]
    with converter_processes(PSEUDONYMS, 1, None) as (process,):

        def lines() -> Iterator[Any]:
            os.kill(process.process.pid or 0, signal.SIGSTOP)
            yield from RecordSource(held).lines()
            # The bill of the new shop made the loader convert all others itself.
            os.kill(process.process.pid or 0, signal.SIGCONT)
            until(process._connection.poll, "it answers")
            yield from RecordSource(map(bill, range(100))).lines()

        groups = Converters(PSEUDONYMS, known.get, [process]).convert(lines())
        assert sum(len(group.lines) for group in groups) == len(held) + 100
        assert process._messages.sent > converters.MAX_WAITING


def test_a_load_converts_bills_itself_if_no_process_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", fail)
    summary = loaded(tmp_path / "store", [SHOP, *map(bill, range(100))], 2)[0]
    assert summary.outcomes["added"] == summary.lines


def test_no_process_is_started_for_a_load_that_is_known_to_be_small_or_in_a_process_with_several_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for size in (None, converters.MIN_BYTES - 1, converters.MIN_BYTES):
        with converter_processes(PSEUDONYMS, 1, size) as started:
            assert bool(started) == (size != converters.MIN_BYTES - 1)
    monkeypatch.setattr(converters, "active_count", lambda: 2)
    with converter_processes(PSEUDONYMS, 1, None) as started:
        assert started == []
