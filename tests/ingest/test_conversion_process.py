"""Tests for the process that converts exports: what it may use, and what happens if it does not do what it should."""

import json
import os
import signal
from contextlib import closing
from datetime import date
from decimal import Decimal
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from msgspec.structs import replace

from counterfoil.importer.protocol import ConversionRequest, InputFile, PosDatabase
from counterfoil.ingest import conversion_process, converted_exports
from counterfoil.ingest.conversion_process import ConversionFailed, ConversionLimits, DiskFull
from counterfoil.ingest.converted_exports import ConvertedExport, convert
from waiting import until

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
LIMITS = ConversionLimits()
BILL = {"kind": "bill", "id": "1", "shopId": "riverside", "amounts": {"net": "50.00"}}
RECORD = {"v": 1, "type": "record", "file": "day.csv", "line": 2, "record": BILL}
REJECT = {"v": 1, "type": "reject", "file": "day.csv", "line": 3, "reason": "no_id", "detail": "has no bill ID"}
END = {"v": 1, "type": "end", "records": 1, "rejects": 0, "leftOut": 0, "totals": 0, "net": "50.00"}


def request(*files: Path, **fields: Any) -> ConversionRequest:
    inputs = tuple(InputFile(str(file)) for file in files)
    return ConversionRequest(files=inputs, today=date(2026, 11, 18), max_cells=LIMITS.cells, **fields)


class Script:
    """A converter in another language, which is a few lines of a shell, and what was asked of it."""

    def __init__(self, folder: Path) -> None:
        self.request = folder / "request.json"
        self.path = folder / "converter.sh"
        self._folder = folder

    def convert(self, *steps: str, limits: ConversionLimits = LIMITS, **options: Any) -> ConvertedExport:
        lines = ["read -r request", f'printf "%s" "$request" > "{self.request}"', *steps, ""]
        self.path.write_text("\n".join(lines), "utf-8")
        asked = options.pop("asked", request(Path("day.csv")))
        options.setdefault("is_known", lambda _: False)
        return convert(asked, limits, command=("sh", str(self.path)), folder=self._folder, **options)

    def asked(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.request.read_text("utf-8"))
        return found


@pytest.fixture(autouse=True)
def _no_idle_processes() -> None:
    for process in conversion_process._idle:
        process.close()
    conversion_process._idle.clear()


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path)


def says(*messages: dict[str, Any]) -> str:
    """Return the command of a shell that writes these messages."""
    return "cat <<'END'\n" + "\n".join(map(json.dumps, messages)) + "\nEND"


def test_anybody_can_write_a_converter(script: Script) -> None:
    found = {"kind": "shop", "id": "riverside", "name": "Riverside"}
    shop = {**RECORD, "line": 1, "record": found, "isFoundShop": True}
    known = {**shop, "record": {**found, "id": "hillside"}}
    note = {"v": 1, "type": "note", "text": "Tips are not in it.", "file": "day.csv", "recognised": "Our till"}
    left_out = {"v": 1, "type": "left_out", "file": "day.csv", "line": 4, "reason": "the order is open"}
    total = {"file": "day.csv", "line": 9, "column": "Total", "field": "amounts.net", "stated": 60, "computed": 50.0}
    progress = {"v": 1, "type": "progress", "rows": 7}
    end = {**END, "records": 3, "rejects": 1, "leftOut": 1, "totals": 1, "net": 50, "state": {"since": 7}}
    messages = (progress, note, shop, known, RECORD, REJECT, left_out, {"v": 1, "type": "totals", **total}, end)
    rows: list[int] = []
    with closing(
        script.convert(says(*messages), is_known=lambda shop_id: shop_id == "hillside", on_progress=rows.append)
    ) as export:
        for _ in range(2):
            lines = list(export.lines())
            assert [(line.source, line.number, json.loads(line.text)) for line in lines] == [
                ("day.csv", 1, found),
                ("day.csv", 2, BILL),
            ]
        assert (export.tally.bills, export.tally.shops, export.notes) == (1, 1, ["Tips are not in it."])
        assert export.tally.recognised == {"day.csv": "Our till"}
        assert [row.detail for row in export.rejects()] == ["has no bill ID"]
        assert export.tally.skipped == {"the order is open": 1}
        assert [(one.stated, one.computed) for one in export.tally.wrong_totals] == [(Decimal(60), Decimal(50))]
        assert (export.has_shop_without_zone, export.state, rows) == (True, {"since": 7}, [7])
    asked = script.asked()
    assert (asked["v"], asked["files"], asked["today"]) == (1, [{"path": "day.csv", "kind": "bills"}], "2026-11-18")


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ([says(RECORD), "kill -9 $$"], "was ended by SIGKILL before it was done"),
        ([says(RECORD)], "ended with status 0 before it was done"),
        ([says(RECORD), "exit 7"], "ended with status 7"),
        ([says(RECORD, {**END, "records": 2})], "it wrote 2 records"),
        ([says(RECORD, RECORD, END)], "but 2 records with a net of 100.00"),
        ([says(RECORD, {**END, "net": "50.01"})], "a net of 50.01"),
        ([says(RECORD, REJECT, END)], "1 other results, have come"),
        ([says(RECORD), f"printf '%s' '{json.dumps(END)}'"], "ended with status 0"),
        (["echo Converting..."], "is no message"),
        ([says({**RECORD, "type": "bill"})], "is no message"),
        ([says({**REJECT, "reason": "whatever"})], "is no message"),
        ([says({**RECORD, "record": [1]})], "a record that is none"),
        ([says({**END, "v": 2})], "version 2"),
        ([says({"v": 1, "type": "form", "form": {}})], "nobody was asked"),
        ([says({"v": 1, "type": "failed", "text": "day.csv has no bills."})], "day.csv has no bills."),
        ([says({"v": 1, "type": "failed", "text": "7", "cause": "cells"})], "more than 200,000,000 cells"),
        ([says({"v": 1, "type": "failed", "text": "KeyError", "cause": "error"})], "cannot be converted (KeyError)"),
    ],
)
def test_nothing_is_kept_of_an_export_whose_converter_does_not_end_as_it_should(
    script: Script, tmp_path: Path, steps: list[str], text: str
) -> None:
    with pytest.raises(ConversionFailed, match=r"day\.csv") as failed:
        script.convert(*steps)
    assert text in str(failed.value)
    assert not list(tmp_path.glob("counterfoil-*"))


@pytest.mark.parametrize(
    ("limits", "steps", "text"),
    [
        (
            {"seconds": 0.3},
            ["exec tail -f /dev/null"],
            "took longer than 0.3 seconds. Export fewer days at once, or raise",
        ),
        ({"output_mib": 1}, [f"exec yes '{json.dumps(REJECT)}'"], "more than 1 MiB. Export fewer days at once, or"),
        ({}, ["exec tr '\\0' 'x' < /dev/zero"], "a line of more than 16 MiB"),
    ],
)
def test_a_converter_that_takes_too_much_is_ended(
    script: Script, limits: dict[str, Any], steps: list[str], text: str
) -> None:
    with pytest.raises(ConversionFailed, match=text):
        script.convert(*steps, limits=replace(LIMITS, **limits))


def test_the_time_that_the_load_takes_does_not_count(script: Script) -> None:
    """While it waits, a watcher may load the files of other users."""
    ended = monotonic() + 0.5

    def wait() -> None:
        until(lambda: monotonic() > ended, "time passed")

    script.convert(says(RECORD, END), limits=replace(LIMITS, seconds=0.4), on_wait=wait).close()


@pytest.mark.programs
def test_an_export_that_needs_too_much_memory_is_named_with_the_limit_and_what_to_do(tmp_path: Path) -> None:
    # Each of these objects takes three bytes in the file, and more than two hundred when it is read.
    orders = tmp_path / "orders.json"
    orders.write_bytes(
        b'{"data":[{"status":4,"type":1,"business_date":"2026-11-14","x":[' + b"{}," * 2_600_000 + b"{}]}]}"
    )
    with pytest.raises(ConversionFailed) as failed:
        convert(request(orders), replace(LIMITS, memory_mib=256), is_known=lambda _: False, folder=tmp_path)
    assert "orders.json was not loaded: converting it takes more than 256 MiB" in str(failed.value)
    assert "import_memory_mb" in str(failed.value)
    # The process that was full is not used again.
    with closing(converted(EXAMPLES / "toast-payments.csv")) as export:
        assert export.tally.bills == 2


def converted(*files: Path, limits: ConversionLimits = LIMITS, **fields: Any) -> ConvertedExport:
    asked = replace(request(*files, **fields), max_cells=limits.cells)
    return convert(asked, limits, is_known=lambda _: False)


def test_cells_are_counted(tmp_path: Path) -> None:
    wide = tmp_path / "wide.csv"
    wide.write_text("Bill,Date,Total\n" + "1,14/11/2026,5\n" * 40, "utf-8")
    mapping = {"shop": {"id": "s"}, "bill": {"id": "Bill", "closedAt": "Date", "amounts": {"net": "Total"}}}
    with pytest.raises(ConversionFailed, match=r"wide\.csv was not loaded: it has more than 100 cells"):
        converted(wide, limits=replace(LIMITS, cells=100), mapping=mapping)


def test_one_process_converts_a_batch_of_files() -> None:
    numbers = set()
    for name in ("toast-payments.csv", "square-orders.json", "loyverse-receipts.csv"):
        converted(EXAMPLES / name).close()
        (process,) = conversion_process._idle
        numbers.add(process._process.pid)
    assert len(numbers) == 1


def test_while_a_file_is_converted_another_process_converts_others_beside_it(script: Script) -> None:
    beside: list[int] = []

    def take_another() -> None:
        if not beside:
            beside.append(0)
            with closing(converted(EXAMPLES / "toast-payments.csv")) as export:
                beside[0] = export.tally.bills

    script.convert(says(RECORD, END), on_wait=take_another).close()
    assert beside == [2]


def test_a_process_that_died_while_it_waited_is_replaced() -> None:
    for _ in range(2):
        converted(EXAMPLES / "toast-payments.csv").close()
        (process,) = conversion_process._idle
        os.kill(process._process.pid, signal.SIGKILL)
        process._process.wait()


def test_what_follows_the_end_is_not_taken_for_the_next_answer(script: Script) -> None:
    steps = ["while true; do", says(RECORD, END, RECORD), "read -r request", "done"]
    for _ in range(2):
        with closing(script.convert(*steps)) as export:
            assert len(list(export.lines())) == 1


def test_a_stop_while_an_export_is_converted_ends_its_process(script: Script, tmp_path: Path) -> None:
    number = tmp_path / "number"

    def stop() -> None:
        if number.exists() and number.read_text("utf-8"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        script.convert(f"echo $$ > {number}", "exec tail -f /dev/null", on_wait=stop)
    with pytest.raises(ProcessLookupError):
        os.kill(int(number.read_text("utf-8")), 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_all_processes_of_a_unit_does_not_end_a_conversion(number: int) -> None:
    converted(EXAMPLES / "toast-payments.csv").close()
    (process,) = conversion_process._idle
    os.kill(process._process.pid, number)
    converted(EXAMPLES / "toast-payments.csv").close()
    assert conversion_process._idle == [process]


def test_neither_arguments_nor_variables_of_the_process_have_a_secret(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERFOIL_SECRET", "hidden-word")
    monkeypatch.setenv("COUNTERFOIL_IMPORT_URL", "postgresql://someone:hidden-word@127.0.0.1/pos")
    found = tmp_path / "found"
    steps = [f"cat /proc/$$/cmdline /proc/$$/environ > {found}", says(RECORD, END)]
    database = PosDatabase("postgresql://someone:hidden-word@127.0.0.1/pos")
    script.convert(*steps, asked=replace(request(), database=database)).close()
    assert b"hidden-word" not in found.read_bytes()
    assert b"PATH=" in found.read_bytes()
    assert "hidden-word" in script.request.read_text("utf-8")


def test_many_records_are_in_a_file_that_only_its_owner_can_read(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(converted_exports, "MAX_KEPT_BYTES", 100)
    records = [{**RECORD, "line": number} for number in range(20)]
    with closing(script.convert(says(*records, {**END, "records": 20, "net": "1000.00"}))) as export:
        (spool,) = tmp_path.glob("counterfoil-*")
        assert spool.stat().st_mode & 0o777 == 0o600
        assert [line.number for line in export.lines()] == list(range(20))
    assert not spool.exists()


def test_a_full_disk_is_not_the_fault_of_the_export(script: Script) -> None:
    with pytest.raises(DiskFull, match="set TMPDIR"):
        script.convert(says({"v": 1, "type": "failed", "text": "", "cause": "disk"}))


def test_a_converter_that_cannot_be_started_is_named() -> None:
    with pytest.raises(ConversionFailed, match="cannot start the converter no-such-program"):
        convert(request(), LIMITS, is_known=lambda _: False, command=("no-such-program",))
