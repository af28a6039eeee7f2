"""Tests for exports that a watched folder converts, and for what an import does with its converter."""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, get_args

import click
import msgspec
import pytest

from cli.command import SHOPS, Command
from cli.watched_folder import Watched, names, reasons
from counterfoil.cli import load as load_command
from counterfoil.cli import load_exports, store_loader
from counterfoil.cli.load_exports import ExportRequest, export_files
from counterfoil.importer import protocol
from counterfoil.importing.mapping import KnownBase
from counterfoil.importing.results import Reason
from counterfoil.importing.sorted_rows import SortedRows
from counterfoil.ingest.converted_exports import ConvertedExport, convert
from counterfoil.machine.files import temporary_folder
from counterfoil.remembered_mappings import watched_mappings
from counterfoil.settings import load
from importing.test_workbooks import workbook

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
BILLS_A_DAY = 60
MAPPING = """
[dates]
order = "dmy"
[shop]
id = "riverside"
[bill]
id = {id}
closedAt = ["Date", "Time"]
amounts.net = "Total"
[line]
name = "Item"
qty = "Qty"
total = "Amount"
"""
BY_DAY, BY_NUMBER = MAPPING.format(id='["Date", "Bill No"]'), MAPPING.format(id='"Bill No"')
HEADER = "Bill No,Date,Time,Item,Qty,Amount,Total\n"
ROW = "1,14/11/2026,12:00,Soup,1,50.00,50.00\n"
UNREADABLE_ROW = "2,14/11/2026,12:05,Tea,1,4O.00,40.00\n"

FULL_DISK = {"v": 1, "type": "failed", "text": "the disk is full", "cause": "disk"}

Take = Callable[..., list[str]]


def daily_file(day: int) -> tuple[str, Decimal]:
    """Return the export of a day, whose numbers begin with 1, and the sum of its totals."""
    rows, net = [], Decimal(0)
    for number in range(1, BILLS_A_DAY + 1):
        first, second = Decimal(40 + day), Decimal(number) + Decimal("0.25")
        net += first + second
        bill = f"{number},{day:02}/11/2026,{10 + number // 60}:{number % 60:02}"
        rows += [f"{bill},Soup,1,{first}.00,{first + second}\n", f"{bill},Dish {day},1,{second},{first + second}\n"]
    return HEADER + "".join(rows), net


@pytest.fixture
def take(store: Path, spool: Path) -> Take:
    """Return a function that delivers files, takes them, and returns the reasons of what was not loaded.

    Without a mapping, exports are recognised and their shops are created.
    """

    def deliver_and_take(files: dict[str, str | bytes], mapping: str | None = BY_DAY) -> list[str]:
        for name, content in files.items():
            (spool / name).write_bytes(content.encode() if isinstance(content, str) else content)
        mapping_file = spool.with_name("mapping.toml")
        mapping_file.write_text(mapping or "", "utf-8")
        settings = load({"store": str(store)}, {})
        request = ExportRequest(mapping=mapping_file if mapping else None, with_shops=not mapping)
        if not mapping:
            request.mappings = watched_mappings(settings, None)
        with export_files(settings, request) as kinds:
            watched = Watched(spool, store, kinds=kinds)
            while watched.take():
                pass
        return [*reasons(watched.quarantine), *reasons(spool / "held")]

    return deliver_and_take


def test_daily_files_whose_numbers_start_again_are_all_served(
    counterfoil: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("day.csv").write_text(daily_file(1)[0], "utf-8")
    Path("answers.toml").write_text('shop = "riverside"\norder = "dmy"\n', "utf-8")
    counterfoil.bare("import", "day.csv", "--answers", "answers.toml", "-o", "mapping.toml")
    expected = Decimal(0)
    for day in (1, 2, 3):
        text, net = daily_file(day)
        Path("day.csv").write_text(text, "utf-8")
        loaded = counterfoil.json("import", "--mapping", "mapping.toml", "day.csv", "--load", "--expect-net", net)
        assert loaded["totals"]["net"] == f"{net:.2f}"
        expected += net
    assert counterfoil.stored() == (3 * BILLS_A_DAY, expected)


def test_a_watched_folder_takes_daily_exports(counterfoil: Command, spool: Path, take: Take) -> None:
    assert take({f"day-{day}.csv": daily_file(day)[0] for day in (1, 2, 3)}) == []
    assert counterfoil.stored() == (3 * BILLS_A_DAY, sum((daily_file(day)[1] for day in (1, 2, 3)), Decimal(0)))
    assert not list(spool.glob("*.csv"))


def test_a_watched_folder_holds_the_file_that_would_replace_other_bills(counterfoil: Command, take: Take) -> None:
    (reason,) = take({f"day-{day}.csv": daily_file(day)[0] for day in (1, 2)}, BY_NUMBER)
    assert "day-2.csv" in reason
    assert "bill.id" in reason
    assert counterfoil.stored() == (BILLS_A_DAY, daily_file(1)[1])


def test_a_load_whose_files_were_then_loaded_or_held_alone_is_not_unfinished(counterfoil: Command, take: Take) -> None:
    take({f"day-{day}.csv": daily_file(day)[0] for day in (1, 2)}, BY_NUMBER)
    assert [load["state"] for load in counterfoil.json("loads")] == ["finished", "stopped"]
    assert [item["kind"] for item in counterfoil.json("loads", "open")] == ["held"]


def test_the_same_sales_are_not_loaded_again_with_other_ids(counterfoil: Command, take: Take) -> None:
    first, second = daily_file(1)[0], daily_file(2)[0]
    assert (take({"first.csv": first}), take({"second.csv": second})) == ([], [])
    part = re.sub(r"(,1\d:\d\d),", r"\1:30,", "".join(first.splitlines(keepends=True)[:9]))
    for bills in (first + second.removeprefix(HEADER), part):
        (reason,) = take({"again.csv": bills}, MAPPING.format(id='["Bill No", "Date"]'))[-1:]
        assert "same sales with other IDs" in reason
    assert counterfoil.stored()[0] == 2 * BILLS_A_DAY


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("other.csv", "Name,City\nA,B\n"),
        ("empty.csv", ""),
        ("latin.csv", HEADER.replace("Bill No", "Número").encode("latin-1")),
        ("cut.csv", (HEADER + ROW).encode("utf-16")[:31]),
        ("nul.csv", (HEADER.replace("Date", "D\0te") + ROW).encode()),
        ("random.csv", bytes(range(255, 0, -1)) * 300),
        ("binary.xlsx", "PK\3\4 not a workbook"),
        ("totals.csv", HEADER + ROW + "Total,,,,,,70.00\n"),
        ("doubtful.csv", HEADER + "1,14/11/2026,12:00,Soup,1,50.00,47.00\n"),
    ],
)
def test_a_file_that_does_not_fit_is_quarantined_with_the_reason_and_nothing_is_loaded(
    counterfoil: Command, take: Take, name: str, content: str | bytes
) -> None:
    (reason,) = take({name: content})
    assert name in reason
    assert len(reason) < 2_200
    assert not counterfoil.json("loads") or counterfoil.stored()[0] == 0


def test_bills_with_unreadable_rows_are_missing_and_the_file_is_quarantined(counterfoil: Command, take: Take) -> None:
    (reason,) = take({"day.csv": HEADER + ROW + UNREADABLE_ROW})
    assert "Line 3" in reason
    assert counterfoil.stored() == (1, Decimal(50))
    assert counterfoil.json("loads")[0]["rejected"] == 1


def test_source_records_are_loaded_from_the_same_folder(counterfoil: Command, take: Take) -> None:
    assert take({"records.json": SHOPS[0], "day.csv": HEADER + ROW}) == []
    assert len(counterfoil.json("shops")) == 2


def test_recognised_exports_need_no_mapping(counterfoil: Command, take: Take) -> None:
    pages = {name: (EXAMPLES / name).read_bytes() for name in ("square-orders.json", "loyverse-receipts-by-item.csv")}
    orders = json.loads(pages["square-orders.json"])["orders"]
    order, other = ({**orders[0], "id": name} for name in ("order", "other"))
    lines = {"orders.jsonl": json.dumps(order), "pages.jsonl": f'{{"orders": []}}\n{{"orders": [{json.dumps(other)}]}}'}
    assert take(pages | lines, None) == []
    assert counterfoil.stored()[0] == 8


def test_orders_of_toast_are_no_file_of_a_folder_where_its_checks_may_be_too(counterfoil: Command, take: Take) -> None:
    names = ("toast-orders.csv", "toast-payments.csv")
    (reason,) = take({name: (EXAMPLES / name).read_bytes() for name in names}, None)
    assert "toast-orders.csv has Toast orders" in reason
    assert counterfoil.stored() == (2, Decimal("52.20"))


def test_checks_of_toast_are_not_loaded_beside_their_orders(counterfoil: Command, spool: Path, take: Take) -> None:
    counterfoil("import", EXAMPLES / "toast-orders.csv", "--load", "--with-shops")
    payments = EXAMPLES / "toast-payments.csv"
    (reason,) = take({payments.name: payments.read_bytes()}, None)
    assert "on 2026-11-14: 1, but none of this export" in reason
    assert counterfoil.stored()[0] == 2
    # On the day of other checks, they are new ones.
    for exports in (payments.read_bytes(), payments.read_bytes().replace(b",13000000000000001", b",13000000000000009")):
        (checks := spool.with_name("checks.csv")).write_bytes(exports)
        counterfoil("import", checks, "--load", *(["--accept-change"] if counterfoil.stored()[0] == 2 else []))
    assert counterfoil.stored()[0] == 6


def test_a_workbook_is_loaded(counterfoil: Command, spool: Path, take: Take) -> None:
    workbook(spool, [line.split(",") for line in (HEADER + ROW).splitlines()])
    assert take({}) == []
    assert counterfoil.stored() == (1, Decimal(50))


@pytest.fixture
def mapping(tmp_path: Path) -> Path:
    path = tmp_path / "mapping.toml"
    path.write_text(BY_DAY, "utf-8")
    return path


@pytest.mark.parametrize(
    "options", [["--exports"], ["--mapping", "mapping.toml", "--shop", "s"], ["--converter", "sh"]]
)
def test_exports_outside_a_watched_folder_are_loaded_with_import(
    counterfoil: Command, mapping: Path, spool: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.chdir(mapping.parent)
    (spool / "day.csv").write_text(HEADER + ROW, "utf-8")
    for source in (spool, spool / "day.csv"):
        refused = counterfoil("load", source, *options, status=2).stderr
        file = "--mapping FILE " if "--mapping" in options else ""
        assert f"counterfoil import {file}EXPORT --load" in refused
    assert "only with" in counterfoil("load", spool, "--timezone", "UTC", status=2).stderr
    assert not counterfoil.store.exists()


def test_a_watched_folder_converts_with_the_options_of_an_import(
    counterfoil: Command, spool: Path, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = spool.with_name("mappings")
    folder.mkdir()
    (folder / "till.toml").write_text(f'{BY_DAY}[recognise]\nname = "Our till"\ncolumns = ["Bill No"]\n', "utf-8")
    for day in (1, 2):
        row = ROW.replace("14/11", f"{day}/11").replace("\n", ",5.00\n")
        (spool / f"day-{day}.csv").write_text(HEADER.replace("\n", ",Tip\n") + row, "utf-8")
    request = ExportRequest(mappings=folder, timezone="UTC", shop="riverside")
    with click.Context(load_command.command), export_files(load({"store": str(store)}, {}), request) as kinds:
        watched = Watched(spool, store, kinds=kinds)
        while watched.take():
            pass
    said = capsys.readouterr().err
    assert [said.count(text) for text in ("till.toml has no [checks]", "Tip.")] == [1, 2]
    assert counterfoil.stored() == (2, Decimal(100))
    assert "no_zone" in counterfoil("load", "--watch", spool, "--exports", "--timezone", "no_zone", status=1).stderr


def test_a_file_that_ends_its_converter_is_quarantined_and_the_next_one_is_loaded(
    counterfoil: Command, spool: Path, store: Path, tmp_path: Path
) -> None:
    record = {"kind": "bill", "id": "1", "shopId": "sh_1", "amounts": {"net": 50}}
    told = {"v": 1, "type": "record", "file": "b.csv", "line": 2, "record": record}
    end = {"v": 1, "type": "end", "records": 1, "rejects": 0, "leftOut": 0, "totals": 0, "net": 50}
    converter = tmp_path / "converter.sh"
    converter.write_text(
        f"while read -r request; do echo '{json.dumps(told)}'\n"
        f"case $request in *a.csv*) kill -9 $$;; esac\necho '{json.dumps(end)}'\ndone\n"
    )
    for name in ("a.csv", "b.csv", "c.csv"):
        (spool / name).write_text("export")
    counterfoil("load", "-", stdin=SHOPS[0])
    with export_files(load({"store": str(store)}, {}), ExportRequest(converter=f"sh {converter}")) as kinds:
        watched = Watched(spool, store, kinds=kinds)
        while watched.take():
            pass
    (reason,) = reasons(watched.quarantine)
    assert "a.csv was not loaded: the process that converts it was ended by SIGKILL" in reason
    assert names(watched.done) == ["b.csv", "c.csv"]
    assert counterfoil.stored() == (1, Decimal(50))


HOLDING = """
import sys
from counterfoil.machine.files import temporary_folder
with temporary_folder("counterfoil-load-") as folder:
    (folder / "day.csv").write_text("1,2")
    print(folder, flush=True)
    sys.stdin.read()
"""


def holder() -> subprocess.Popen[str]:
    words = [sys.executable, "-c", HOLDING]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_copies_that_a_killed_process_has_left_are_deleted_and_those_of_a_running_one_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with holder() as killed, holder() as running:
        assert killed.stdout
        assert running.stdout
        left, used = killed.stdout.readline().strip(), running.stdout.readline().strip()
        killed.kill()
        killed.wait()
        assert Path(left, "day.csv").exists()
        with temporary_folder("counterfoil-load-") as own:
            assert set(tmp_path.iterdir()) == {Path(used), own}
    assert list(tmp_path.iterdir()) == []


def test_the_rows_of_an_export_are_in_a_file_without_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rows = SortedRows()
    assert list(tmp_path.iterdir()) == []
    rows.close()


@pytest.mark.parametrize("what", ["the copy", "the rows"])
def test_an_export_stays_in_the_folder_until_a_full_disk_has_space_again(
    counterfoil: Command, spool: Path, take: Take, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    attempts: list[bool] = []

    def copied_to_full_disk(file: load_exports.ExportFile, folder: Path) -> Path:
        attempts.append((spool / "day.csv").exists())
        if len(attempts) == 1:
            (folder / "day.csv").symlink_to("/dev/full")
        return copied(file, folder)

    def converted_on_full_disk(*arguments: Any, **options: Any) -> ConvertedExport:
        attempts.append((spool / "day.csv").exists())
        if len(attempts) == 1:
            options["command"] = ("sh", "-c", f"read -r request; echo '{json.dumps(FULL_DISK)}'")
        return convert(*arguments, **options)

    copied = load_exports.ExportFile._copied
    if what == "the copy":
        monkeypatch.setattr(load_exports.ExportFile, "_copied", copied_to_full_disk)
    else:
        monkeypatch.setattr(load_exports, "convert", converted_on_full_disk)
    monkeypatch.setattr(store_loader, "FIRST_RETRY_SEC", 0.01)
    assert take({"day.csv": daily_file(1)[0]}) == []
    assert attempts == [True, True]
    assert counterfoil.stored() == (BILLS_A_DAY, daily_file(1)[1])


def test_an_import_needs_an_end_before_it_loads_anything(counterfoil: Command, tmp_path: Path) -> None:
    (tmp_path / "day.csv").write_text("export")
    shop = {"v": 1, "type": "record", "file": "day.csv", "line": 1, "record": json.loads(SHOPS[0])}
    (tmp_path / "converter.sh").write_text(f"read -r request; echo '{json.dumps(shop)}'")
    importing = ("import", tmp_path / "day.csv", "--converter", f"sh {tmp_path / 'converter.sh'}")
    for options in (["--load"], ["-o", tmp_path / "out"], ["--check"]):
        assert "before it was done" in counterfoil(*importing, *options, status=1).stderr
    assert not counterfoil.store.exists()
    assert not (tmp_path / "out").exists()


def test_the_converter_in_the_documents_works(counterfoil: Command, tmp_path: Path) -> None:
    (tmp_path / "export.txt").write_text("1;2026-11-14T18:05;240.00\n2;2026-11-14T18:09;80.5\n", "utf-8")
    counterfoil("load", "-", stdin=SHOPS[0])
    converter = f"{sys.executable} {EXAMPLES / 'converter.py'}"
    importing = ("import", tmp_path / "export.txt", "--shop", "sh_1", "--converter", converter, "--load")
    assert counterfoil.json(*importing, "--expect-net", "320.50")["added"] == 2


def test_the_fields_of_the_protocol_are_in_the_documents() -> None:
    """The names of its rows and fields, each as code."""
    text = (EXAMPLES.parent / "converters.md").read_text("utf-8")
    kinds = [
        protocol.ConversionRequest,
        protocol.StoredShop,
        KnownBase,
        protocol.InputFile,
        protocol.PosDatabase,
        *get_args(protocol.Answer),
    ]
    names = {field.encode_name for kind in kinds for field in msgspec.structs.fields(kind)}
    names |= {str(kind.__struct_config__.tag) for kind in get_args(protocol.Answer)}
    names |= {*get_args(protocol.Cause), *get_args(protocol.Kind), *Reason}
    assert [name for name in sorted(names) if f"`{name}`" not in text] == []


UNKNOWN = """\
Receipt No,Date,Time,Branch,Total,Payout Status
1001,13/04/2026,18:05,Riverside,235.40,Paid
1002,13/04/2026,18:40,Riverside,588.50,Pending
1003,14/04/2026,19:10,Riverside,117.70,Paid
"""


def test_a_delivery_that_nobody_has_answered_for_waits_and_is_answered_by_its_item(
    counterfoil: Command, take: Take, tmp_path: Path
) -> None:
    counterfoil("load", "-", stdin=b'{"kind":"shop","id":"riverside","name":"Riverside"}\n')
    (reason,) = take({"sales.csv": UNKNOWN}, None)
    assert "needs answers" in reason
    assert counterfoil.stored() == (0, Decimal(0))
    (item,) = counterfoil.json("loads", "open")
    assert item["kind"] == "needs_answers"
    assert [found["code"] for found in counterfoil.findings("items")] == ["items_needs_answers"]
    answers = tmp_path / "answers.toml"
    answers.write_text('"state.Payout Status" = "sale"\n', "utf-8")
    counterfoil("import", "--item", item["number"], "--answers", answers, "--load")
    assert counterfoil.stored() == (3, Decimal("941.60"))
    assert counterfoil.json("loads", "open") == []
    assert counterfoil.json("loads")[0]["files"] == {"sales.csv": 0}
    take({"more.csv": UNKNOWN.replace("/04/2026", "/05/2026")}, None)
    assert counterfoil.stored() == (6, Decimal("1883.20"))


def test_a_file_that_is_no_table_is_quarantined_with_the_reason_and_asks_nothing(
    counterfoil: Command, take: Take
) -> None:
    noise = Random(1).randbytes(3_000)  # noqa: S311 - reproducible
    files = {"broken.xlsx": noise, "noise.csv": noise, "notes.txt": "Call Mali\nat noon\n"}
    said = take(files | {"none.csv": "Bill;Date;Total\n"}, None)
    assert [item["kind"] for item in counterfoil.json("loads", "open")] == ["quarantined"] * 4
    for reason, words in zip(
        said,
        (
            "broken.xlsx is not an Excel workbook, although its name says so: it contains NUL bytes",
            "noise.csv is not a CSV file, because it contains NUL bytes",
            "none.csv has no rows below its header row",
            "notes.txt has only one column",
        ),
        strict=True,
    ):
        assert words in reason


def test_a_watcher_says_once_what_needs_answers_and_of_no_command_to_repeat(
    counterfoil: Command, spool: Path, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (spool / "sales.csv").write_text(UNKNOWN, "utf-8")
    with export_files(load({"store": str(store)}, {}), ExportRequest()) as kinds:
        watched = Watched(spool, store, kinds=kinds)
        while watched.take():
            pass
    said = capsys.readouterr()
    assert [text.count("needs answers") for text in watched.messages] == [1]
    assert watched.messages[0].startswith("sales.csv needs answers: ")
    assert "needs answers" not in said.err
    assert "repeat the command" not in said.err
    assert [Path(path).name for path in json.loads(said.out)["needsAnswers"]] == names_kept(watched.quarantine)
    assert counterfoil.json("loads", "open")[0]["kind"] == "needs_answers"


def names_kept(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".reason.txt"))


def test_files_that_wait_with_the_same_headings_are_loaded_by_the_same_answers(
    counterfoil: Command, take: Take, store: Path, tmp_path: Path
) -> None:
    counterfoil("load", "-", stdin=b'{"kind":"shop","id":"riverside","name":"Riverside"}\n')
    others = UNKNOWN.replace("Payout Status", "Payout")
    take({"1.csv": UNKNOWN, "2.csv": UNKNOWN.replace("/04/2026", "/05/2026"), "3.csv": others}, None)
    first, third = counterfoil.json("loads", "open")
    assert (first["source"], first["files"]) == ("1.csv, 2.csv", {"1.csv": 0, "2.csv": 0})
    assert first["path"] == first["paths"][0]
    (found,) = counterfoil.findings("items")
    assert "not served: 3 files" in found["message"]
    assert counterfoil.stored() == (0, Decimal(0))
    # No value of a file is stored, only its name, path and digest.
    for file in store.iterdir():
        if file.is_file():
            assert b"588.50" not in file.read_bytes()
            assert b"Pending" not in file.read_bytes()
    answers = tmp_path / "answers.toml"
    answers.write_text('"state.Payout Status" = "sale"\n', "utf-8")
    done = counterfoil("import", "--item", first["number"], "--answers", answers, "--load")
    assert f"item {first['number']}: 2.csv, needs answers: it has the same headings" in done.stderr
    assert counterfoil.stored() == (6, Decimal("1883.20"))
    assert [item["source"] for item in counterfoil.json("loads", "open")] == ["3.csv"]
    take({}, None)
    quarantine, name = Path(third["path"]).parent, Path(third["path"]).name
    assert sorted(file.name for file in quarantine.iterdir()) == [name, f"{name}.reason.txt"]
    loaded = {Path(path).name for path in first["paths"]}
    assert loaded == {file.name for file in (quarantine.parent / "done").iterdir()}
    Path(third["path"]).write_text(others.replace("Paid", "Unpaid"), "utf-8")
    changed = counterfoil("import", "--item", third["number"], "--answers", answers, "--load", status=2)
    assert "the file was changed since it was delivered" in changed.stderr


def test_a_later_file_joins_the_item_that_waits_for_the_same_answers_and_is_resolved_with_it(
    counterfoil: Command, take: Take
) -> None:
    take({"monday.csv": UNKNOWN}, None)
    (first,) = counterfoil.json("loads", "open")
    heading, *rows = UNKNOWN.replace("/04/2026", "/05/2026").splitlines()
    turned = [",".join(reversed(row.split(","))) for row in (heading, *rows)]
    take({"tuesday.csv": "\n".join(turned), "wednesday.csv": UNKNOWN.replace("Receipt No", "Bill")}, None)
    item, other = counterfoil.json("loads", "open")
    assert (item["number"], item["openedAt"]) == (first["number"], first["openedAt"])
    assert (item["source"], other["source"]) == ("monday.csv, tuesday.csv", "wednesday.csv")
    assert len(item["paths"]) == 2
    (found,) = counterfoil.findings("items")
    assert found["ids"] == [str(item["number"]), str(other["number"])]
    assert counterfoil.json("loads", "resolve", Path(item["paths"][1]).name) == {"resolved": [item["number"]]}
    assert counterfoil.json("loads", "open") == [other]


def test_a_file_that_is_gone_does_not_keep_others_of_its_item_from_being_answered(
    counterfoil: Command, take: Take, tmp_path: Path
) -> None:
    counterfoil("load", "-", stdin=b'{"kind":"shop","id":"riverside","name":"Riverside"}\n')
    take({"1.csv": UNKNOWN, "2.csv": UNKNOWN.replace("/04/2026", "/05/2026")}, None)
    (item,) = counterfoil.json("loads", "open")
    Path(item["paths"][0]).unlink()
    answers = tmp_path / "answers.toml"
    answers.write_text('"state.Payout Status" = "sale"\n', "utf-8")
    counterfoil("import", "--item", item["number"], "--answers", answers, "--load")
    assert counterfoil.stored() == (3, Decimal("941.60"))
    (left,) = counterfoil.json("loads", "open")
    assert (left["source"], left["path"]) == ("1.csv", item["paths"][0])


def test_the_other_files_that_wait_are_loaded_with_json_too_and_are_in_it(
    counterfoil: Command, take: Take, tmp_path: Path
) -> None:
    counterfoil("load", "-", stdin=b'{"kind":"shop","id":"riverside","name":"Riverside"}\n')
    torn = UNKNOWN.replace("/04/2026", "/06/2026") + "1004,15/06/2026,19:30,Riverside,lots,Paid\n"
    take({"1.csv": UNKNOWN, "2.csv": UNKNOWN.replace("/04/2026", "/05/2026"), "3.csv": torn}, None)
    (number,) = [item["number"] for item in counterfoil.json("loads", "open")]
    answers = tmp_path / "answers.toml"
    answers.write_text('"state.Payout Status" = "sale"\n', "utf-8")
    options = ("import", "--item", number, "--answers", answers, "--load", "--json")
    printed = json.loads(counterfoil(*options, status=3).stdout)
    assert (printed["added"], printed["totals"]["net"]) == (3, "941.60")
    second, third = printed["others"]
    assert (second["source"], second["item"], second["added"], second["rejected"]) == ("2.csv", number, 3, 0)
    assert (third["source"], third["added"], third["import"]["rejected"]) == ("3.csv", 3, 1)
    assert counterfoil.stored() == (9, Decimal("2824.80"))


def test_a_known_till_whose_dates_may_be_in_either_order_waits_and_the_order_is_remembered(
    counterfoil: Command, spool: Path, take: Take, tmp_path: Path
) -> None:
    text = (EXAMPLES / "loyverse-receipts.csv").read_text("utf-8")
    (reason,) = take({"1.csv": text.replace("11/14/26", "11/12/26")}, None)
    assert "1.csv needs answers: its dates do not show whether the day or the month comes first" in reason
    item = counterfoil.json("loads", "open")[0]
    importing = ("import", "--item", item["number"], "--load")
    assert 'order = "mdy"  12 November 2026' in counterfoil(*importing, status=7).stderr
    assert json.loads(counterfoil(*importing, "--json", status=7).stdout)["questions"][0]["id"] == "order"
    answers = tmp_path / "answers.toml"
    answers.write_text('order = "mdY"\n', "utf-8")
    assert "use dmy or mdy" in counterfoil(*importing, "--answers", answers, status=2).stderr
    answers.write_text('order = "mdy"\n', "utf-8")
    counterfoil(*importing, "--answers", answers)
    assert counterfoil.stored()[0] == 3
    take({"2.csv": text.replace("11/14/26", "11/10/26").replace("1-000", "1-001")}, None)
    days = counterfoil.json("loads", counterfoil.json("loads")[0]["number"])["totals"]["days"]
    assert [day["day"] for day in days] == ["2026-11-10"]
    # An answer that the dates refute is not ignored.
    (other := tmp_path / "3.csv").write_text(text, "utf-8")
    answers.write_text('order = "dmy"\n', "utf-8")
    refused = counterfoil("import", other, "--answers", answers, "--load", status=1)
    assert "11/14/26, but dates.order is dmy" in refused.stderr


def test_an_item_that_is_not_there_is_refused(counterfoil: Command) -> None:
    assert "no open item 7" in counterfoil("import", "--item", 7, "--load", status=2).stderr
