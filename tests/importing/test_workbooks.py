"""Excel workbooks: types, dates and long IDs stay as they are, and the right sheet is read."""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook

from counterfoil.importer.form import FormFiles
from counterfoil.importer.proposal import form
from counterfoil.importing import sheets, workbooks
from counterfoil.importing.mapping import FileLayout
from counterfoil.importing.results import ImportFailed
from counterfoil.importing.sheets import TableRow, open_table
from deploy.programs import PACKAGES, ROOT, SOURCES, output_of, wheels_of
from importing import hostile_workbooks
from importing.exports import HEADING, MAPPING, imported

HEADINGS = HEADING.strip().split(",")
EVENING = datetime(2026, 11, 14, 18, 5)  # noqa: DTZ001 - cells of a workbook have no zone


def workbook(folder: Path, rows: list[list[Any]], name: str = "export.xlsx", **others: list[list[Any]]) -> Path:
    """Write a workbook with these rows, and with the other sheets."""
    book = Workbook()
    for title, content in {"Sheet": rows, **others}.items():
        sheet = book["Sheet"] if title == "Sheet" else book.create_sheet(title)
        for row in content:
            sheet.append(row)
    book.save(folder / name)
    return folder / name


def cells(folder: Path, *values: Any, layout: FileLayout = FileLayout()) -> list[str]:  # noqa: B008 - frozen
    path = workbook(folder, [[f"Column {number}" for number in range(len(values))], list(values)])
    [row] = open_table(path, layout).rows()
    assert isinstance(row, TableRow)
    return row.cells


def test_a_workbook_is_imported_like_a_csv_file(tmp_path: Path) -> None:
    rows: list[list[Any]] = [
        ["Sales report"],
        [],
        HEADINGS,
        ["A1", EVENING, "Khao soi", 2, 190, 240.5],
        ["A1", EVENING, "Iced tea", 1, 50.5, 240.5],
        ["Total", None, None, 3, 240.5, 240.5],
    ]
    found = imported("csv", workbook(tmp_path, rows), mapping=MAPPING)
    assert found.bill["closedAt"] == "2026-11-14T18:05:00"
    assert found.bill["amounts"] == {"net": "240.5"}
    assert [line["total"] for line in found.bill["lines"]] == ["190", "50.5"]
    assert [one.computed for one in found.totals] == [one.stated for one in found.totals]
    assert [one.line for one in found.skipped] == [6]


def test_every_type_of_cell_becomes_the_text_of_a_csv_export(tmp_path: Path) -> None:
    values: list[Any] = [
        123456789012345,
        0.1 + 0.2,
        1e-7,
        True,
        None,
        " text ",
        EVENING,
        date(2026, 11, 14),
        time(18, 5),
    ]
    assert cells(tmp_path, *values, timedelta(hours=30), "00123") == [
        "123456789012345",
        "0.3",
        "0.0000001",
        "true",
        "",
        "text",
        "2026-11-14T18:05:00",
        "2026-11-14",
        "18:05:00",
        "30:00:00",
        "00123",
    ]


@pytest.mark.parametrize(
    ("code", "number", "text"),
    [
        ("0000", 17, "0017"),
        ("0000", 0, "0000"),
        ("0000", 12345, "12345"),
        ("00000", 17.0, "00017"),
        ("#0000", 17, "0017"),
        ("000-000", 12345, "012-345"),
        ("000-000", 1234567, "1234-567"),
        ('"INV-"0000', 17, "INV-0017"),
        (r"\A\-000", 17, "A-017"),
        ("[$-409]0000", 17, "0017"),
        ("0000_)", 17, "0017"),
        ("0000", -17, "-0017"),
        # A number that is measured or counted stays as it is.
        ("0000", 17.5, "17.5"),
        ("0", 17, "17"),
        ("General", 17, "17"),
        ("#,##0", 1234, "1234"),
        ("#,##0.00", 1234.5, "1234.5"),
        ("00.00", 5.5, "5.5"),
        ("000,000", 17, "17"),
        ('0" pcs"', 2, "2"),
        ("0%", 0.07, "0.07"),
        ("00%", 0.07, "0.07"),
        ("0.00E+00", 17, "17"),
        ("0000;-0000;0", 17, "17"),
        ("[<100]0000", 17, "17"),
        ("@", 17, "17"),
        ("0000", "17", "17"),
        ("0000", 1234567890123456, "1.23456789012346e+15"),
        ("yyyy-mm-dd", 46340, "2026-11-14"),
        ("00:00", 1805, "18:05"),
    ],
)
def test_the_zeros_that_a_format_writes_before_a_whole_number_belong_to_it(
    tmp_path: Path, code: str, number: Any, text: str
) -> None:
    book = Workbook()
    book["Sheet"].append(["Number"])
    book["Sheet"].append([number])
    book["Sheet"]["A2"].number_format = code
    book.save(tmp_path / "export.xlsx")
    [row] = open_table(tmp_path / "export.xlsx").rows()
    assert isinstance(row, TableRow)
    assert row.cells == [text]


def test_bills_of_a_workbook_with_zeros_before_their_numbers_are_those_of_the_csv_export(tmp_path: Path) -> None:
    book = Workbook()
    for row in (HEADINGS, [17, EVENING, "Tea", 2, 30, 60], [123, EVENING, "Rice", 1, 40, 40]):
        book["Sheet"].append(row)
    formats = {"A": "00000", "B": "dd/mm/yyyy hh:mm", "D": "00", "E": "0000", "F": "#,##0.00"}
    for number in (2, 3):
        for letter, code in formats.items():
            book["Sheet"][f"{letter}{number}"].number_format = code
    book.save(tmp_path / "export.xlsx")
    shown = "00017,14/11/2026 18:05,Tea,02,0030,60.00\n00123,14/11/2026 18:05,Rice,01,0040,40.00\n"
    (tmp_path / "export.csv").write_text(HEADING + shown, "utf-8")
    workbook, text = (imported("csv", tmp_path / name, mapping=MAPPING).bills for name in ("export.xlsx", "export.csv"))
    assert [(bill["id"], float(bill["amounts"]["net"])) for bill in workbook] == [("00017", 60), ("00123", 40)]
    lines = [
        [(line["name"], float(line["qty"]), float(line["total"])) for bill in bills for line in bill["lines"]]
        for bills in (workbook, text)
    ]
    assert [bill["id"] for bill in text] == ["00017", "00123"]
    assert lines == [[("Tea", 2, 30), ("Rice", 1, 40)]] * 2


def test_midnight_is_a_time_if_the_cell_shows_times(tmp_path: Path) -> None:
    book = Workbook()
    midnight = datetime(2026, 11, 14)  # noqa: DTZ001 - as above
    book["Sheet"].append(["A", "B"])
    book["Sheet"].append([midnight, midnight])
    book["Sheet"]["A2"].number_format = "dd/mm/yyyy"
    book["Sheet"]["B2"].number_format = "dd/mm/yyyy hh:mm"
    book.save(tmp_path / "export.xlsx")
    [row] = open_table(tmp_path / "export.xlsx").rows()
    assert isinstance(row, TableRow)
    assert row.cells == ["2026-11-14", "2026-11-14T00:00:00"]


def test_a_number_has_the_decimal_mark_of_its_column_so_that_it_is_not_read_as_thousands(tmp_path: Path) -> None:
    """The mapping says that texts have decimal commas, but a cell that is a number has no mark at all."""
    mapping = (
        '[shop]\nid = "s"\n[numbers]\ndecimal = ","\n[bill]\nid = "No"\namounts.net = "Net"\n'
        'amounts.tip = { column = "Tip", decimal = "." }\namounts.vat = "Vat"\n'
    )
    export = workbook(tmp_path, [["No", "Net", "Tip", "Vat"], ["1", 1.234, 5.678, "1.234,5"]])
    assert imported("csv", export, mapping=mapping).bill["amounts"] == {"net": "1.234", "tip": "5.678", "vat": "1234.5"}


@pytest.mark.parametrize("number", [1234567890123456, 130000000000000001, 1.3e18])
def test_an_id_of_16_digits_is_rejected_because_digits_are_lost_unless_it_is_text(
    tmp_path: Path, number: float
) -> None:
    rows: list[list[Any]] = [
        HEADINGS,
        [number, EVENING, "Tea", 1, 50, 50],
        [123456789012345, EVENING, "Tea", 1, 50, 50],
        ["1300000000000000123", EVENING, "Tea", 1, 50, 50],
    ]
    found = imported("csv", workbook(tmp_path, rows), mapping=MAPPING)
    assert [bill["id"] for bill in found.bills] == ["123456789012345", "1300000000000000123"]
    assert found.reasons == [("export.xlsx", 2, "no_id")]


@pytest.mark.parametrize("value", ["#N/A", "=B2*2"], ids=["error", "formula without a result"])
@pytest.mark.parametrize("column", [0, 2, 4])
def test_an_error_and_a_formula_without_a_result_reject_their_bill(tmp_path: Path, value: str, column: int) -> None:
    row: list[Any] = ["A1", EVENING, "Tea", 1, 50, 50]
    row[column] = value
    rows: list[list[Any]] = [HEADINGS, row, ["A2", EVENING, "Tea", 1, 50, 50]]
    found = imported("csv", workbook(tmp_path, rows), mapping=MAPPING)
    assert ([bill["id"] for bill in found.bills], found.reasons) == (["A2"], [("export.xlsx", 2, "unreadable_value")])


def test_an_error_in_a_column_that_is_not_mapped_does_not_matter(tmp_path: Path) -> None:
    rows: list[list[Any]] = [[*HEADINGS, "Margin"], ["A1", EVENING, "Tea", 1, 50, 50, "#DIV/0!"]]
    assert imported("csv", workbook(tmp_path, rows), mapping=MAPPING).rejected == []


ROWS: list[list[Any]] = [HEADINGS, ["A1", EVENING, "Tea", 1, 50, 50]]
OTHER: list[list[Any]] = [["Item", "Price"], ["Tea", 50]]


def test_the_only_sheet_with_the_columns_of_the_mapping_is_read(tmp_path: Path) -> None:
    assert imported("csv", workbook(tmp_path, OTHER, Receipts=ROWS), mapping=MAPPING).bill["id"] == "A1"


def test_all_sheets_with_the_same_columns_are_read_unless_the_mapping_names_one(tmp_path: Path) -> None:
    second: list[list[Any]] = [["Tuesday"], HEADINGS, ["B1", EVENING, "Tea", 1, 50, 50]]
    export = workbook(tmp_path, ROWS, Monday=second, Menu=OTHER)
    assert [bill["id"] for bill in imported("csv", export, mapping=MAPPING).bills] == ["A1", "B1"]
    assert imported("csv", export, mapping=MAPPING + '[file]\nsheet = "Monday"\n').bill["id"] == "B1"


@pytest.mark.parametrize("title", ["Voids", "Refunded bills", "ยกเลิก", "Training"])
def test_a_sheet_named_after_voids_or_refunds_is_not_read_with_the_others(tmp_path: Path, title: str) -> None:
    others: dict[str, list[list[Any]]] = {title: [HEADINGS, ["B1", EVENING, "Tea", 1, 50, 50]]}
    export = workbook(tmp_path, ROWS, "export.xlsx", **others)
    with pytest.raises(ImportFailed, match=f'has the sheet "{title}" with the same columns as others'):
        imported("csv", export, mapping=MAPPING)
    with pytest.raises(ImportFailed, match=r"Set file\.sheet in a mapping"):
        form(FormFiles((export,)), {}, today=date(2026, 11, 16))
    assert imported("csv", export, mapping=MAPPING + '[file]\nsheet = "Sheet"\n').bill["id"] == "A1"


def test_two_sheets_that_fit_but_have_other_columns_are_a_question(tmp_path: Path) -> None:
    second: list[list[Any]] = [[*HEADINGS, "Tip"], ["B1", EVENING, "Tea", 1, 50, 50, 5]]
    with pytest.raises(ImportFailed, match=r"more than one sheet that fits: Sheet, Monday. Set file\.sheet"):
        imported("csv", workbook(tmp_path, ROWS, Monday=second), mapping=MAPPING)


def test_days_that_a_spreadsheet_has_read_as_months_are_refused(tmp_path: Path) -> None:
    rows: list[list[Any]] = [["Bill", "Date", "Total"], [1, date(2026, 5, 11), 60], [2, "13/11/2026 11:00", 40]]
    found = form(FormFiles((workbook(tmp_path, rows),)), {}, today=date(2026, 11, 16))
    assert "read the day as the month" in found.advice


def test_a_sheet_that_the_workbook_does_not_have_is_named_with_those_that_it_has(tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match=r"has no sheet Monday. Its sheets are: Sheet, Tuesday\."):
        imported("csv", workbook(tmp_path, ROWS, Tuesday=ROWS), mapping=MAPPING + '[file]\nsheet = "Monday"\n')


def test_no_sheet_with_the_columns_names_the_sheets(tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match="no sheet with the expected columns: Sheet, Other"):
        imported("csv", workbook(tmp_path, OTHER, Other=OTHER), mapping=MAPPING)


def test_a_hidden_sheet_is_read_only_if_the_mapping_names_it(tmp_path: Path) -> None:
    book = Workbook()
    hidden = book.create_sheet("Old")
    hidden.sheet_state = "hidden"
    for sheet, bill in ((book["Sheet"], "A1"), (hidden, "Z9")):
        sheet.append(HEADINGS)
        sheet.append([bill, EVENING, "Tea", 1, 50, 50])
    book.save(tmp_path / "export.xlsx")
    found, named = (
        imported("csv", tmp_path / "export.xlsx", mapping=MAPPING + file) for file in ("", '[file]\nsheet = "Old"\n')
    )
    assert (found.bill["id"], named.bill["id"]) == ("A1", "Z9")
    assert ("not read: Old" in found.note, "Old" in named.note) == (True, False)


def test_a_wrong_size_of_a_sheet_does_not_cut_off_rows(tmp_path: Path) -> None:
    """Some programs write that a sheet has only its first cell."""
    export = workbook(tmp_path, ROWS)
    with zipfile.ZipFile(export) as original, zipfile.ZipFile(tmp_path / "wrong.xlsx", "w") as changed:
        for name in original.namelist():
            changed.writestr(name, original.read(name).replace(b'<dimension ref="A1:F2"', b'<dimension ref="A1"'))
    assert imported("csv", tmp_path / "wrong.xlsx", mapping=MAPPING).bill["amounts"] == {"net": "50"}


def test_a_merged_cell_has_its_value_in_its_first_row_only(tmp_path: Path) -> None:
    book = Workbook()
    sheet = book["Sheet"]
    for row in (HEADINGS, ["A1", EVENING, "Tea", 1, 50, 90], [None, None, "Rice", 1, 40, None]):
        sheet.append(row)
    for letter in "ABF":
        sheet.merge_cells(f"{letter}2:{letter}3")
    book.save(tmp_path / "export.xlsx")
    found = imported("csv", tmp_path / "export.xlsx", mapping=MAPPING)
    assert (found.bills, [one.reason for one in found.rejected]) == ([], ["no_id", "no_id"])
    filled = imported(
        "csv", tmp_path / "export.xlsx", mapping=MAPPING + '[file]\nfillDown = ["Bill", "Date", "Total"]\n'
    )
    assert [line["name"] for line in filled.bill["lines"]] == ["Tea", "Rice"]


def test_a_damaged_workbook_and_another_archive_are_refused(tmp_path: Path) -> None:
    whole = workbook(tmp_path, ROWS).read_bytes()
    (tmp_path / "cut.xlsx").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ImportFailed, match="cannot be read as a workbook"):
        imported("csv", tmp_path / "cut.xlsx", mapping=MAPPING)
    with zipfile.ZipFile(tmp_path / "files.zip", "w") as archive:
        archive.writestr("bills.csv", HEADING)
    with pytest.raises(ImportFailed, match="is a ZIP archive"):
        imported("csv", tmp_path / "files.zip", mapping=MAPPING)


def test_a_workbook_without_cells_is_called_empty(tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match="is empty"):
        imported("csv", workbook(tmp_path, []), mapping=MAPPING)


SHEET = "xl/worksheets/sheet1.xml"
MEBIBYTE = 1024 * 1024
END = b"</sheetData>"


def changed(folder: Path, old: bytes, new: bytes, others: bytes = b"", compression: int = zipfile.ZIP_DEFLATED) -> Path:
    """Write a workbook with another text in its sheet, and with a further part."""
    with (
        zipfile.ZipFile(workbook(folder, ROWS)) as original,
        zipfile.ZipFile(folder / "changed.xlsx", "w", compression) as archive,
    ):
        assert original.read(SHEET).count(old) == 1
        for name in original.namelist():
            content = original.read(name)
            archive.writestr(name, content.replace(old, new) if name == SHEET else content)
        archive.writestr("xl/texts.bin", others)
    return folder / "changed.xlsx"


def test_a_row_with_a_number_that_excel_does_not_allow_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workbooks, "MAX_SHEET_ROWS", 5000)
    export = changed(tmp_path, b'<row r="2"', b'<row r="99999999999"')
    with pytest.raises(ImportFailed, match="a row with a number above"):
        imported("csv", export, mapping=MAPPING)


@pytest.mark.parametrize(
    ("old", "new", "others"),
    [
        (END, b" " * 17 * MEBIBYTE + END, b""),
        (END, b" " * 3 * MEBIBYTE + END, b""),
        (b"Tea", b"a" * 3 * MEBIBYTE, b""),
        (b"Tea", b"a" * (MEBIBYTE + 1), b""),
        (END, END, b"<si><t>abc</t></si>" * MEBIBYTE),
    ],
    ids=["blanks", "fewer blanks", "a long text", "a text that is just too long", "texts in another part"],
)
def test_a_small_file_that_would_fill_the_memory_is_refused(
    tmp_path: Path, old: bytes, new: bytes, others: bytes
) -> None:
    export = changed(tmp_path, old, new, others)
    assert export.stat().st_size < MEBIBYTE
    with pytest.raises(ImportFailed, match="too much for a workbook"):
        imported("csv", export, mapping=MAPPING)


LIMITS = {
    "MAX_ELEMENTS": 10,
    "MAX_SHEET_ELEMENTS": 10,
    "MAX_OTHER_ELEMENTS": 0,
    "MAX_PARTS": 3,
    "MAX_DEPTH": 2,
    "MAX_NAMES": 3,
    "MAX_ROW": 5,
    "MAX_SHEET_CELLS": 6,
    "MAX_FORMATS": 0,
    "MAX_STRINGS_BYTES": 50,
}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_workbook_with_too_much_of_anything_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    (tmp_path / "export.xlsx").write_bytes(hostile_workbooks.workbook_of({}))
    monkeypatch.setattr(workbooks, limit, LIMITS[limit])
    with pytest.raises(ImportFailed, match="too much for a workbook"):
        list(open_table(tmp_path / "export.xlsx").rows())


def test_no_more_is_unpacked_than_the_directory_of_the_archive_says(tmp_path: Path) -> None:
    export = changed(tmp_path, END, b"<row/>" * 3 * MEBIBYTE + END)
    with zipfile.ZipFile(export) as archive:
        size = archive.getinfo(SHEET).file_size
    export.write_bytes(export.read_bytes().replace(size.to_bytes(4, "little"), (1000).to_bytes(4, "little")))
    with pytest.raises(ImportFailed, match="cannot be read as a workbook"):
        imported("csv", export, mapping=MAPPING)


def test_reading_a_workbook_can_be_stopped_at_any_row(tmp_path: Path) -> None:
    export = changed(tmp_path, END, b"<row/>" * 100_000 + END)
    calls: list[None] = []
    table = open_table(export, on_read=lambda: calls.append(None))
    calls.clear()
    assert len(list(table.rows())) == 1
    assert len(calls) >= 100_000 // sheets.ROWS_PER_CALL


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_compression_that_could_unpack_to_any_size_is_refused(tmp_path: Path, compression: int) -> None:
    with pytest.raises(ImportFailed, match="compression"):
        imported("csv", changed(tmp_path, b"Tea", b"Rice", compression=compression), mapping=MAPPING)


@pytest.mark.parametrize(
    "rows",
    [
        b'<row r="4"><c r="A4"><v>1</v></c></row><row r="3"><c r="A3"><v>2</v></c></row>',
        b'<row r="4"><c r="A4"><v>1</v></c></row><row r="4"><c r="A4"><v>2</v></c></row>',
        b'<row r="4"><c r="F4"><v>1</v></c><c r="B4"><v>2</v></c></row>',
        b'<row r="4"><c r="B4"><v>1</v></c><c r="B4"><v>2</v></c></row>',
    ],
    ids=["a row before another", "a row twice", "a cell before another", "a cell twice"],
)
def test_rows_and_cells_that_are_not_in_order_are_refused_instead_of_lost(tmp_path: Path, rows: bytes) -> None:
    with pytest.raises(ImportFailed, match="damaged"):
        imported("csv", changed(tmp_path, END, rows + END), mapping=MAPPING)


READ_ALL = """
import json, re, resource, sys
from pathlib import Path

resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))
from counterfoil.importing.mapping import FileLayout
from counterfoil.importing.results import ImportFailed
from counterfoil.importing.sheets import open_tables

for path in sorted(Path(sys.argv[1]).iterdir()):
    said = "it was read"
    try:
        for table in open_tables(path, FileLayout(), lambda names: True):
            for row in table.rows():
                pass
    except ImportFailed as error:
        said = str(error)
    most = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]
    print(json.dumps([path.stem, said, int(most) // 1024]))
"""
MOST_MEBIBYTES = 200


def refusals(folder: Path, made: Iterable[tuple[str, bytes]], python: Path = Path(sys.executable)) -> dict[str, str]:
    """Read workbooks in a process of its own with little memory; return what it says about each."""
    for number, (_, content) in enumerate(names := list(made)):
        (folder / f"{number:03}.xlsx").write_bytes(content)
    found = {}
    for line in output_of(
        python, "-c", READ_ALL, folder, env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, SOURCES))}
    ).splitlines():
        stem, said, mebibytes = json.loads(line)
        found[names[int(stem)][0]] = said
        assert mebibytes < MOST_MEBIBYTES, names[int(stem)][0]
    assert found.keys() == {name for name, _ in names}
    return found


def test_no_small_workbook_fills_the_memory(tmp_path: Path) -> None:
    found = refusals(tmp_path, hostile_workbooks.small())
    wanted = {name: "declares a document type" if "entities" in name else "too much for a workbook" for name in found}
    wanted["a document type elsewhere"] = "declares a document type"
    wanted["a long comment before a document type"] = "begins with a very long comment"
    assert [(name, said) for name, said in found.items() if wanted[name] not in said] == []


@pytest.mark.long
def test_no_workbook_that_unpacks_to_200_mebibytes_fills_the_memory(tmp_path: Path) -> None:
    found = refusals(tmp_path, hostile_workbooks.large())
    assert [(name, said) for name, said in found.items() if "too much for a workbook" not in said] == []


def test_a_damaged_workbook_is_refused_and_never_read_in_part(tmp_path: Path) -> None:
    found = refusals(tmp_path, hostile_workbooks.damaged())
    assert [(name, said) for name, said in found.items() if "cannot be read as a workbook" not in said] == []


def test_an_ordinary_workbook_of_the_same_making_is_read(tmp_path: Path) -> None:
    assert refusals(tmp_path, [("ordinary", hostile_workbooks.workbook_of({}))]) == {"ordinary": "it was read"}


def test_strict_and_prefixed_names_and_escaped_characters_are_read_as_excel_means_them(tmp_path: Path) -> None:
    texts = (
        b'<x:sst xmlns:x="http://purl.oclc.org/ooxml/spreadsheetml/main"><x:si><x:r><x:t>Tea</x:t></x:r><x:r><x:t'
        b' xml:space="preserve"> to go_x000D_</x:t></x:r><x:rPh><x:t>ti</x:t></x:rPh></x:si>'
        b"<x:si><x:t>a_x005F_x000D_b</x:t></x:si></x:sst>"
    )
    row = b'<row r="2"><c r="A2" t="s"><v>0</v></c><c r="B2" t="s"><v>1</v></c><c r="D2" t="b"><v>1</v></c></row>'
    content = hostile_workbooks.workbook_of(
        {hostile_workbooks.STRINGS: texts, hostile_workbooks.SHEET: hostile_workbooks.sheet(row)}
    )
    (tmp_path / "export.xlsx").write_bytes(content)
    [found] = open_table(tmp_path / "export.xlsx").rows()
    assert isinstance(found, TableRow)
    assert found.cells == ["Tea to go", "a_x000D_b", "", "true", ""]


def test_dates_in_formats_that_have_only_a_number_are_dates(tmp_path: Path) -> None:
    """Excel in Thailand and East Asia writes such formats."""
    numbers = (31, 36, 57, 71, 77, 75, 14, 22, 46)
    styles = b"".join(b'<xf numFmtId="%d"/>' % number for number in numbers)
    values = (b"46340.75",) * 5 + (b"0.75", b"46340", b"46340", b"1.25")
    cells = b"".join(b'<c s="%d"><v>%s</v></c>' % (style, value) for style, value in enumerate(values))
    headings = b"".join(b'<c t="inlineStr"><is><t>%d</t></is></c>' % number for number in numbers)
    content = b"<worksheet><sheetData><row>%s</row><row>%s</row></sheetData></worksheet>" % (headings, cells)
    parts = {
        hostile_workbooks.STYLES: b"<styleSheet><cellXfs>%s</cellXfs></styleSheet>" % styles,
        hostile_workbooks.SHEET: content,
    }
    (tmp_path / "export.xlsx").write_bytes(hostile_workbooks.workbook_of(parts))
    [found] = open_table(tmp_path / "export.xlsx").rows()
    assert isinstance(found, TableRow)
    evening, midnight = "2026-11-14T18:00:00", "2026-11-14T00:00:00"
    assert found.cells == [evening, evening, evening, evening, evening, "18:00:00", "2026-11-14", midnight, "30:00:00"]


@pytest.mark.long
def test_a_server_with_only_the_listed_packages_reads_workbooks_and_refuses_those_that_would_fill_its_memory(
    tmp_path: Path,
) -> None:
    programs, spool = tmp_path / "venv" / "bin", tmp_path / "spool"
    output_of(sys.executable, "-m", "venv", programs.parent)
    pip = (programs / "pip", "install", "--quiet", "--disable-pip-version-check")
    output_of(*pip, "--require-hashes", "--requirement", ROOT / "deploy" / "requirements.txt")
    (tmp_path / "good.xlsx").write_bytes(hostile_workbooks.workbook_of({}))
    (tmp_path / "mapping.toml").write_text(hostile_workbooks.MAPPING, "utf-8")
    output_of(*pip, "--no-deps", "--no-index", *wheels_of(PACKAGES, tmp_path / "wheels"))
    clean = {"PATH": os.environ["PATH"], "COUNTERFOIL_STORE": str(tmp_path / "store")}
    words = ("import", "--mapping", "mapping.toml", "--with-shops", "--load", "good.xlsx")
    command = ("prlimit", f"--as={512 << 20}", str(programs / "python"), "-m", "counterfoil", *words)
    done = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True, check=False)
    assert (done.returncode, "60.00" in done.stdout + done.stderr) == (0, True), done.stderr
    spool.mkdir()
    found = refusals(spool, hostile_workbooks.small(), python=programs / "python")
    assert "it was read" not in found.values()
