"""Tests for CSV files with a mapping: joins, formats, refunds, voids and rejected rows."""

from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from counterfoil.importing import export_totals
from counterfoil.importing.results import ImportFailed
from counterfoil.importing.sheets import MAX_COLUMNS, ROWS_PER_CALL, numbered
from counterfoil.importing.sorted_rows import BILL, SortedRows
from counterfoil.importing.workbooks import MAX_ROW
from importing.exports import BILLS, HEADING, MAPPING, SUMMED, imported, written

TWO_BILLS = (
    "A1,14/11/2026 18:05,Khao soi,2,190.00,240.00\n"
    "A2,14/11/2026 18:10,Som tam,1,80.00,80.00\n"
    "A1,14/11/2026 18:05,Iced tea,1,50.00,240.00\n"
)


def test_rows_of_a_bill_become_its_lines_in_any_order(tmp_path: Path) -> None:
    found = imported("csv", written(tmp_path, HEADING + TWO_BILLS), mapping=MAPPING)
    assert [bill["id"] for bill in found.bills] == ["A1", "A2"]
    assert found.bills[0] == {
        "kind": "bill",
        "id": "A1",
        "shopId": "riverside",
        "closedAt": "2026-11-14T18:05:00",
        "amounts": {"net": "240.00"},
        "lines": [
            {"name": "Khao soi", "qty": "2", "total": "190.00"},
            {"name": "Iced tea", "qty": "1", "total": "50.00"},
        ],
        "payments": [],
    }
    assert found.shops == [{"kind": "shop", "id": "riverside"}]
    assert found.rejected == []


def test_an_hour_beyond_midnight_is_of_the_day_of_business_before_it(tmp_path: Path) -> None:
    export = written(tmp_path, "No,Date,Total\n1,14/11/2026 25:30,5.00\n2,14/11/2026 01:30,5.00\n")
    bills = imported("csv", export, mapping=BILLS + 'closedAt = "Date"\namounts.net = "Total"').bills
    days = [(bill["closedAt"][:10], bill.get("tradingDay")) for bill in bills]
    assert days == [("2026-11-15", "2026-11-14"), ("2026-11-14", None)]


def test_a_row_that_cannot_be_read_rejects_the_bills_of_the_rows_next_to_it(tmp_path: Path) -> None:
    """The row may belong to either bill, and a bill is converted completely or not at all. It is no row of totals."""
    rows = (
        "A1,14/11/2026 18:05,Khao soi,2,190.00,290.00\n"
        "A1,14/11/2026 18:05,Dim, Sum,1,100.00,290.00\n"
        "A2,14/11/2026 18:10,Som tam,1,80.00,80.00\n"
        "A3,14/11/2026 18:15,Iced tea,1,50.00,50.00\n"
    )
    found = imported("csv", written(tmp_path, HEADING + rows), mapping=MAPPING)
    assert [bill["id"] for bill in found.bills] == ["A3"]
    assert sorted(one.bill or "" for one in found.rejected) == ["", "A1", "A2"]


@pytest.mark.parametrize(
    ("encoding", "named"),
    [
        *((encoding, None) for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be")),
        *((encoding, encoding) for encoding in ("cp874", "tis-620")),
    ],
)
def test_thai_text_is_read_in_every_encoding(tmp_path: Path, encoding: str, named: str | None) -> None:
    export = written(tmp_path, HEADING + "ก1,14/11/2569 18:05,ข้าวซอย,2,190,190\n", encoding=encoding)
    mapping = MAPPING + (f'[file]\nencoding = "{named}"\n' if named else "")
    bill = imported("csv", export, mapping=mapping).bill
    assert (bill["id"], bill["lines"][0]["name"], bill["closedAt"]) == ("ก1", "ข้าวซอย", "2026-11-14T18:05:00")


def test_a_file_in_utf_8_is_not_read_in_the_old_encoding_of_a_mapping(tmp_path: Path) -> None:
    export = written(tmp_path, HEADING + "ก1,14/11/2569 18:05,ข้าวซอย,2,190,190\n", encoding="utf-8")
    with pytest.raises(ImportFailed, match="is in UTF-8, but file"):
        imported("csv", export, mapping=MAPPING + '[file]\nencoding = "cp874"\n')


JOINED = """
[dates]
order = "dmy"
[bill]
id = "No"
shopId = "Branch"
closedAt = ["Date", "Time"]
amounts.net = "Total"
[line]
key = "Bill No"
name = "Item"
total = "Amount"
[payment]
key = "Bill No"
name = { column = "Type", values = { "1" = "Cash", "2" = "PromptPay" } }
amount = "Paid"
change = "Change"
[shopIds]
"Main branch" = "main"
"""


def test_lines_and_payments_of_other_files_are_joined_by_their_key(tmp_path: Path) -> None:
    bills = written(tmp_path, "No,Branch,Date,Time,Total\n1,Main branch,14/11/2026,18:05,240\n", "bills.csv")
    lines = written(tmp_path, "Bill No,Item,Amount\n1,Tea,50\n1,Rice,190\n9,Lost,5\n", "lines.csv")
    payments = written(tmp_path, "Bill No,Type,Paid,Change\n1,1,200,60\n1,2,100,\n", "payments.csv")
    found = imported("csv", bills, lines=(lines,), payments=(payments,), mapping=JOINED)
    assert found.bill["shopId"] == "main"
    assert [line["name"] for line in found.bill["lines"]] == ["Tea", "Rice"]
    assert found.bill["payments"] == [
        {"name": "Cash", "amount": "200", "change": "60"},
        {"name": "PromptPay", "amount": "100"},
    ]
    assert found.reasons == [("lines.csv", 4, "no_bill")]


def test_one_column_per_payment_method_gives_the_payments_that_were_made(tmp_path: Path) -> None:
    mapping = BILLS + 'amounts.net = "Total"\n'
    for name in ("Cash", "Card"):
        mapping += f'[[payment]]\nname = {{ constant = "{name}" }}\namount = "{name}"\n'
    export = written(tmp_path, "No,Total,Cash,Card\n1,100,100,0.00\n2,90,40,50\n3,0,,\n")
    found = imported("csv", export, mapping=mapping)
    assert [[one["name"] for one in bill["payments"]] for bill in found.bills] == [["Cash"], ["Cash", "Card"], []]


def test_rows_that_differ_only_in_the_payment_are_a_split_payment(tmp_path: Path) -> None:
    mapping = BILLS + 'amounts.net = "Total"\n[payment]\nname = "Type"\namount = "Paid"\n'
    export = written(tmp_path, "No,Total,Type,Paid\n1,100,Cash,60\n1,100,Card,40\n")
    assert imported("csv", export, mapping=mapping).bill["payments"] == [
        {"name": "Cash", "amount": "60"},
        {"name": "Card", "amount": "40"},
    ]


def test_a_bill_paid_in_parts_is_closed_by_the_latest_if_the_mapping_says_so(tmp_path: Path) -> None:
    mapping = BILLS + 'amounts.net = { sum = "Paid" }\nclosedAt = { columns = ["Day", "Time"], latest = true }\n'
    rows = "1,2026-11-14,2:05 PM,Card,40\n1,2026-11-14,11:59 AM,Cash,60\n"
    export = written(tmp_path, f"No,Day,Time,Type,Paid\n{rows}")
    assert imported("csv", export, mapping=mapping).bill["closedAt"] == "2026-11-14T14:05:00"
    found = imported("csv", export, mapping=mapping.replace(", latest = true", ""))
    assert found.reasons == [("export.csv", 3, "repeated_bill")]


def test_a_refund_has_negative_amounts_and_a_positive_price_whichever_sign_the_export_writes(tmp_path: Path) -> None:
    mapping = MAPPING + 'unitPrice = "Price"\n[refund]\ncolumn = "Kind"\nvalues = ["refund"]\n'
    rows = (
        "A1,14/11/2026 18:05,Tea,2,40,80,80,Refund\n"
        "A2,14/11/2026 18:05,Tea,-2,40,-80,-80,Refund\n"
        "A3,14/11/2026 18:05,Tea,2,-40,-80,-80,Refund\n"
        "A4,14/11/2026 18:05,Tea,2,40,80,80,Sale\n"
    )
    found = imported("csv", written(tmp_path, "Bill,Date,Item,Qty,Price,Amount,Total,Kind\n" + rows), mapping=mapping)
    assert [bill["amounts"]["net"] for bill in found.bills] == ["-80", "-80", "-80", "80"]
    lines = [bill["lines"][0] for bill in found.bills]
    refund, sale = ("-2", "40", "-80"), ("2", "40", "80")
    assert [(line["qty"], line["unitPrice"], line["total"]) for line in lines] == [refund, refund, refund, sale]


def test_a_void_keeps_its_bill_and_its_reason(tmp_path: Path) -> None:
    mapping = BILLS + 'void = { column = "Status", values = { "Void" = true, "Paid" = false } }\n'
    mapping += 'voidReason = "Reason"\n'
    export = written(tmp_path, "No,Status,Reason\n1,Void,Spilled\n2,VOID,\n3,Paid,\n4,Unheard of,\n")
    found = imported("csv", export, mapping=mapping)
    assert [bill.get("void") for bill in found.bills] == [{"reason": "Spilled"}, True, None]
    assert found.reasons == [("export.csv", 5, "unreadable_value")]


@pytest.mark.parametrize(
    ("row", "void", "reason"),
    [
        ("Paid,", None, None),
        ("Paid,-", None, None),
        ("Voided,spilt", {"reason": "spilt"}, None),
        ("Paid,spilt", None, "doubtful_value"),
    ],
)
def test_a_void_reason_must_agree_with_the_status(
    tmp_path: Path, row: str, void: dict[str, str] | None, reason: str | None
) -> None:
    mapping = MAPPING.replace("[line]", 'voidReason = "Why"\n[line]')
    mapping += '[[status]]\ncolumn = "Status"\nvalues = { Paid = "sale", Voided = "void" }\n'
    heading = HEADING.replace("\n", ",Status,Why\n")
    export = written(tmp_path, f"{heading}A1,14/11/2026 18:05,Tea,1,50,50,{row}\n")
    found = imported("csv", export, mapping=mapping)
    assert [one.reason for one in found.rejected] == ([reason] if reason else [])
    assert [bill.get("void") for bill in found.bills] == ([] if reason else [void])


def test_a_void_reason_makes_a_bill_void_if_no_status_says_so(tmp_path: Path) -> None:
    mapping = MAPPING.replace("[line]", 'voidReason = "Why"\n[line]')
    mapping += '[[status]]\ncolumn = "Kind"\nvalues = { Sale = "sale", Return = "refund" }\n'
    export = written(tmp_path, HEADING.replace("\n", ",Kind,Why\n") + "A1,14/11/2026 18:05,Tea,1,50,50,Sale,spilt\n")
    assert imported("csv", export, mapping=mapping).bill["void"] == {"reason": "spilt"}


@pytest.mark.parametrize(
    ("name", "reasons"),
    [("-", ["no_shop"]), ("N/A", ["no_shop"]), ("Unknown", ["no_shop"]), ("ERROR", ["no_shop"]), ("Test", [])],
)
def test_only_a_word_for_nothing_is_not_a_shop(tmp_path: Path, name: str, reasons: list[str]) -> None:
    mapping = MAPPING.replace("[line]", 'shopId = "Branch"\n[line]')
    export = written(tmp_path, HEADING.replace("\n", ",Branch\n") + f"A1,14/11/2026 18:05,Tea,1,50,50,{name}\n")
    assert [one.reason for one in imported("csv", export, mapping=mapping).rejected] == reasons


def test_a_cancelled_payment_is_left_out(tmp_path: Path) -> None:
    bills = written(tmp_path, "Bill,Date,Total\nA1,14/11/2026 18:05,50\n")
    payments = written(tmp_path, "Bill,Paid,Method,State\nA1,50,Card,Voided\nA1,50,Cash,OK\n", "payments.csv")
    mapping = MAPPING.partition("[line]")[0] + '[[payment]]\nkey = "Bill"\nname = "Method"\namount = "Paid"\n'
    mapping += 'cancelled = { column = "State", values = { Voided = true, OK = false } }\n'
    found = imported("csv", bills, payments=(payments,), mapping=mapping)
    assert found.bill["payments"] == [{"name": "Cash", "amount": "50"}]


def test_rows_that_the_mapping_skips_are_counted_and_not_lost(tmp_path: Path) -> None:
    mapping = BILLS + '[skip]\ncolumn = "Status"\nvalues = ["Open"]\n'
    found = imported("csv", written(tmp_path, "No,Status\n1,Open\n2,Paid\n"), mapping=mapping)
    assert [bill["id"] for bill in found.bills] == ["2"]
    assert [one.line for one in found.skipped] == [2]


def test_sums_over_the_lines_are_exact(tmp_path: Path) -> None:
    rows = "".join(f"A1,14/11/2026 18:05,Tea,1,0.1,{number}\n" for number in range(10))
    assert imported("csv", written(tmp_path, HEADING + rows), mapping=SUMMED).bill["amounts"]["net"] == "1.0"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("A1,14/11/2026 18:05,Tea,1,5x,50", "unreadable_value"),
        ("A1,31/02/2026 18:05,Tea,1,50,50", "unreadable_value"),
        ("A1,14/11/2026,Tea,1,50,50", "unreadable_value"),
        (",14/11/2026 18:05,Tea,1,50,50", "no_id"),
        ("Tea,,,,50,50", "no_time"),
        ("A1,14/11/2026 18:05,Tea,1,50", "bad_row"),
        ("A1,14/11/2026 18:05,Tea,1,50,50,9", "bad_row"),
    ],
)
def test_a_row_that_cannot_be_read_is_rejected_with_its_line_and_the_rest_is_imported(
    tmp_path: Path, row: str, reason: str
) -> None:
    others = "A0,14/11/2026 18:05,Tea,1,50,50\nB0,14/11/2026 18:05,Tea,1,50,50\n"
    found = imported("csv", written(tmp_path, HEADING + others + row + "\n"), mapping=MAPPING)
    assert found.bills[0]["id"] == "A0"
    assert ("export.csv", 4, reason) in found.reasons


@pytest.mark.parametrize(("cells", "reason"), [("5O.00,240.00", "unreadable_value"), ("50.00,50.00", "different_rows")])
def test_a_bill_with_one_bad_line_is_rejected_as_a_whole(tmp_path: Path, cells: str, reason: str) -> None:
    found = imported("csv", written(tmp_path, HEADING + TWO_BILLS.replace("50.00,240.00", cells)), mapping=MAPPING)
    assert [bill["id"] for bill in found.bills] == ["A2"]
    assert (found.reasons, found.rejected[0].bill) == ([("export.csv", 4, reason)], "A1")


def test_bytes_in_another_encoding_reject_their_row_and_the_bill_next_to_it(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_bytes(
        HEADING.encode()
        + b"A1,14/11/2026 18:05,\xa2\xe9\xd2\xc7,1,50,50\nA2,14/11/2026 18:05,Tea,1,5,5\n"
        + b"A3,14/11/2026 18:05,Tea,1,5,5\n"
    )
    found = imported("csv", path, mapping=MAPPING)
    assert [bill["id"] for bill in found.bills] == ["A3"]
    assert found.reasons == [("export.csv", 2, "bad_row"), ("export.csv", 3, "bad_row")]


def test_line_numbers_are_correct_after_cells_with_line_breaks(tmp_path: Path) -> None:
    export = written(tmp_path, HEADING + 'A1,14/11/2026 18:05,"Tea\nwith ice",1,50,50\nA2,bad,Tea,1,50,50\n')
    found = imported("csv", export, mapping=MAPPING)
    assert found.bill["lines"][0]["name"] == "Tea\nwith ice"
    assert found.reasons == [("export.csv", 4, "unreadable_value")]


def test_the_same_bill_number_twice_in_a_file_of_bills_is_rejected(tmp_path: Path) -> None:
    export = written(tmp_path, "No,Total\n1,10\n1,20\n2,5\n2,5\n")
    found = imported("csv", export, mapping=BILLS + 'amounts.net = "Total"\n')
    assert found.bills == []
    assert found.reasons == [("export.csv", 3, "repeated_bill"), ("export.csv", 5, "repeated_bill")]


def test_exports_of_overlapping_periods_give_each_bill_once(tmp_path: Path) -> None:
    first = written(tmp_path, HEADING + TWO_BILLS, "october.csv")
    second = written(tmp_path, HEADING + TWO_BILLS + "A3,15/11/2026 10:00,Tea,1,50,50\n", "november.csv")
    found = imported("csv", first, second, mapping=MAPPING)
    assert [bill["id"] for bill in found.bills] == ["A1", "A2", "A3"]
    assert len(found.bills[0]["lines"]) == 2
    assert found.rejected == []


def test_rows_that_are_in_a_file_twice_reject_their_bill(tmp_path: Path) -> None:
    rows = "A1,14/11/2026 18:05,Tea,1,50,50\nA2,14/11/2026 18:10,Tea,1,50,50\n"
    found = imported("csv", written(tmp_path, HEADING + rows + rows), mapping=SUMMED)
    assert (found.bills, {one.reason for one in found.rejected}) == ([], {"repeated_bill"})
    # The same product twice, one after the other, is sold twice.
    first = rows.partition("\n")[0] + "\n"
    assert imported("csv", written(tmp_path, HEADING + first + first), mapping=SUMMED).bill["amounts"]["net"] == "100"


HALVES = [
    ("only both halves add up to the total", "240", "50", False, 1),
    ("the halves do not add up", "240", "40", False, 0),
    ("each half states its own total", "190", "50", True, 0),
    ("the operator says that bills are split", "240", "40", True, 1),
]


@pytest.mark.parametrize(
    ("total", "second", "joins", "bills"), [case[1:] for case in HALVES], ids=[c[0] for c in HALVES]
)
def test_a_bill_that_is_split_over_two_files_is_joined(
    tmp_path: Path, total: str, second: str, joins: bool, bills: int
) -> None:
    row = "A1,14/11/2026 18:05,{},1,{},{}\n"
    old = written(tmp_path, HEADING + row.format("Soup", 190, total), "old.csv")
    new = written(tmp_path, HEADING + row.format("Tea", second, total if total == "240" else second), "new.csv")
    found = imported("csv", old, new, mapping=MAPPING, joins=joins)
    assert [[line["name"] for line in bill["lines"]] for bill in found.bills] == [["Soup", "Tea"]] * bills
    assert len(found.rejected) == 1 - bills


def test_rows_that_are_in_both_files_are_not_joined(tmp_path: Path) -> None:
    row = "A1,14/11/2026 18:05,{},1,50,150\n"
    old = written(tmp_path, HEADING + row.format("Soup") + row.format("Tea"), "old.csv")
    new = written(tmp_path, HEADING + row.format("Tea") + row.format("Rice"), "new.csv")
    found = imported("csv", old, new, mapping=MAPPING, joins=True)
    assert [one.reason for one in found.rejected] == ["different_rows"]


@pytest.mark.parametrize(
    ("first", "second", "days"),
    [
        ("01/10/2026", "10/31/2026", ["2026-01-10", "2026-10-31"]),
        ("01.10.2026", "02.10.2026", ["2026-10-01", "2026-10-02"]),
    ],
    ids=["all rows together", "points"],
)
def test_the_order_of_day_and_month_is_found_in_the_dates(
    tmp_path: Path, first: str, second: str, days: list[str]
) -> None:
    rows = f"A1,{first} 18:05,Tea,1,50,50\nA2,{second} 18:05,Tea,1,50,50\n"
    found = imported("csv", written(tmp_path, HEADING + rows), mapping=MAPPING.replace('order = "dmy"', ""))
    assert [bill["closedAt"][:10] for bill in found.bills] == days


def test_a_bill_without_a_time_is_converted_if_the_mapping_allows_it(tmp_path: Path) -> None:
    mapping = MAPPING.replace('closedAt = "Date"', 'closedAt = { column = "Date", optional = true }')
    assert "closedAt" not in imported("csv", written(tmp_path, HEADING + "A1,,Tea,1,50,50\n"), mapping=mapping).bill


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (b"PK\x03\x04", "cannot be read as a workbook"),
        (b"\xd0\xcf\x11\xe0", "is an old Excel workbook"),
        (b"\x1f\x8b", "is compressed with gzip"),
        (b"%PDF-1.7", "is a PDF document"),
        (b"", "is empty"),
        (b"\xef\xbb\xbf\r\n \n", "is empty"),
        (b'{"orders": []}', "is JSON"),
        (b"<html>", "is a web page"),
    ],
)
def test_a_file_that_is_not_csv_is_refused_with_its_actual_type(tmp_path: Path, start: bytes, message: str) -> None:
    path = tmp_path / "export.csv"
    path.write_bytes(start)
    with pytest.raises(ImportFailed, match=message):
        imported("csv", path, mapping=MAPPING)


def test_a_full_disk_for_temporary_files_is_reported_with_what_to_do(tmp_path: Path) -> None:
    def fill(rows_by_bill: SortedRows) -> None:
        for number in range(20_000):
            rows_by_bill.add(BILL, f"A{number}", 0, number, ["x" * 100])

    with (
        closing(SortedRows(max_pages=8)) as rows_by_bill,
        pytest.raises(ImportFailed, match="set TMPDIR to another folder"),
    ):
        fill(rows_by_bill)


def test_a_column_that_the_file_lacks_is_named_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match=r'has no column "Total".*: "Bill", "Date", "Item", "Qty", "Amount"\.'):
        imported("csv", written(tmp_path, "Bill,Date,Item,Qty,Amount\n"), mapping=MAPPING)


# --- files that are not quite CSV ---------------------------------------------------

ROW = "A1,14/11/2026 18:05,Tea,1,50,50\n"


@pytest.mark.parametrize(
    "text",
    [
        "sep=;\r\n" + (HEADING + ROW).replace(",", ";"),
        "\ufeffsep=;\n" + (HEADING + ROW).replace(",", ";"),
        (HEADING + ROW).replace("\n", "\r"),
        (HEADING + ROW).replace("\n", "\r\n"),
        (HEADING + ROW).replace(",", "\t"),
        (HEADING + ROW).replace(",", ";"),
        (HEADING + ROW).replace(",", "|"),
        HEADING + ROW.strip(),
        (HEADING + ROW).replace("\n", ",\n"),
        "Sales report\nBranch: Riverside, Old Town\n\n" + HEADING + ROW,
        ",,,Amounts,,\n" + HEADING + ROW,
        HEADING + ROW.replace("Tea", '"Pizza 12" large"'),
    ],
    ids=[
        *("sep", "sep after a mark", "CR", "CRLF", "tab", "semicolon", "bar", "no last line end", "last comma"),
        *("titles", "two header rows", "quotes within a quoted cell"),
    ],
)
def test_a_table_is_read_however_the_file_is_written(tmp_path: Path, text: str) -> None:
    found = imported("csv", written(tmp_path, text), mapping=MAPPING)
    assert (found.bill["id"], found.bill["amounts"], found.rejected) == ("A1", {"net": "50"}, [])
    assert (found.bill["lines"][0]["qty"], found.bill["lines"][0]["total"]) == ("1", "50")


ROWS = "".join(f"A{number},14/11/2026 18:05,Tea,1,50,50\n" for number in range(6))


@pytest.mark.parametrize(
    ("second", "third"),
    [('"Tea', "Tea"), ('"Tea', 'Tea"'), ('"Tea', '"Tea"')],
    ids=["to the end", "to a quote before a comma", "to a quote before text"],
)
def test_an_open_quote_that_swallows_rows_is_rejected_with_its_line(tmp_path: Path, second: str, third: str) -> None:
    rows = ROWS.replace("A2,14/11/2026 18:05,Tea", f"A2,14/11/2026 18:05,{second}")
    rows = rows.replace("A3,14/11/2026 18:05,Tea", f"A3,14/11/2026 18:05,{third}")
    found = imported("csv", written(tmp_path, HEADING + rows), mapping=MAPPING)
    assert found.bills[0]["id"] == "A0"
    assert {bill["id"] for bill in found.bills} <= {"A0", "A5"}
    assert found.reasons.count(("export.csv", 4, "bad_row")) == 1
    assert {"A1", "A2", "A3"}.isdisjoint(bill["id"] for bill in found.bills)


@pytest.mark.parametrize("end", ["A5,14/11/2026 18:05,Rice,1", 'A5,14/11/2026 18:05,"Rice'])
def test_a_file_that_is_cut_off_rejects_the_bill_of_its_last_row(tmp_path: Path, end: str) -> None:
    found = imported("csv", written(tmp_path, HEADING + ROWS + end), mapping=MAPPING)
    assert [bill["id"] for bill in found.bills] == ["A0", "A1", "A2", "A3", "A4"]
    assert [reason for _, _, reason in found.reasons] == ["bad_row", "bad_row"]


LAST_ROWS = [
    ("a line break at the end", "No,Day,Total\n1,14/11/2026,65\n2,14/11/2026,120\n", 2),
    ("decimals like in the other rows", "No,Day,Total\n1,14/11/2026,65.00\n2,14/11/2026,120.00", 2),
    ("a quoted value", 'No,Day,Total\n1,14/11/2026,65\n2,14/11/2026,"120"', 2),
    ("decimals that are missing", "No,Day,Total\n1,14/11/2026,65.00\n2,14/11/2026,120", 1),
    ("whole numbers", "No,Day,Total\n1,14/11/2026,65\n2,14/11/2026,120", 1),
    ("the only row", "No,Day,Total\n1,14/11/2026,65.00", 0),
    ("a day", "No,Total,Day\n1,65,2026-11-14\n2,120,2026-11-1", 1),
    ("a time of the evening", "No,Total,Day\n1,65,14/11/2026 8:05 PM\n2,120,14/11/2026 8:05", 1),
    ("the bill adds up", "No,Day,Total,Item,Amount\n1,14/11/2026,65,Tea,65\n2,14/11/2026,120,Tea,120", 2),
    ("the bill does not add up", "No,Day,Total,Item,Amount\n1,14/11/2026,65,Tea,65\n2,14/11/2026,120,Tea,12", 1),
    ("a column that is not mapped", "No,Day,Total,Note\n1,14/11/2026,65,7\n2,14/11/2026,120,12", 2),
    ("more rows may follow", "No,Day,Total,Item,Amount,By\n1,14/11/2026,65,Tea,65,Mali\n2,14/11/2026,9,Tea,5,Ma", 1),
    ("all rows are there", "No,Day,Total,Item,Amount,By\n1,14/11/2026,65,Tea,65,Mali\n2,14/11/2026,5,Tea,5,Ma", 2),
    ("a word like above", "No,Day,Total,Item,Amount,By\n1,14/11/2026,65,Tea,65,Mali\n2,14/11/2026,9,Tea,5,Mali", 2),
]


@pytest.mark.parametrize(("text", "bills"), [case[1:] for case in LAST_ROWS], ids=[case[0] for case in LAST_ROWS])
def test_a_last_value_that_may_be_cut_off_rejects_its_bill(tmp_path: Path, text: str, bills: int) -> None:
    mapping = '[dates]\ndefaultTime = "12:00"\norder = "dmy"\n[shop]\nid = "s"\n[bill]\nid = "No"\nclosedAt = "Day"\n'
    mapping += 'amounts.net = "Total"\n' + ('[line]\nname = "Item"\ntotal = "Amount"\n' if "Item" in text else "")
    found = imported("csv", written(tmp_path, text), mapping=mapping)
    assert len(found.bills) == bills
    assert {one.reason for one in found.rejected} <= {"doubtful_value"}


def test_files_with_the_same_name_in_two_folders_are_two_files(tmp_path: Path) -> None:
    folders = [tmp_path / "monday", tmp_path / "tuesday"]
    for folder in folders:
        folder.mkdir()
    first = written(folders[0], HEADING + ROW)
    second = written(folders[1], HEADING + ROW.replace("50,50", "70,70").replace("14/", "15/"))
    found = imported("csv", first, second, mapping=MAPPING)
    assert (found.bills, found.reasons) == ([], [("export.csv", 2, "different_rows")])
    by_day = imported("csv", first, second, mapping=MAPPING.replace('id = "Bill"', 'id = ["Date", "Bill"]'))
    assert [bill["amounts"]["net"] for bill in by_day.bills] == ["50", "70"]


@pytest.mark.parametrize("part", [",", '"\n",'], ids=["one line", "many lines"])
def test_a_row_without_an_end_is_refused(tmp_path: Path, part: str) -> None:
    rows = HEADING + TWO_BILLS + part * (MAX_ROW // len(part) + 1)
    with pytest.raises(ImportFailed, match="a row of more than 4 MiB"):
        imported("csv", written(tmp_path, rows), mapping=MAPPING)


def test_equal_headings_are_numbered_and_too_many_are_refused() -> None:
    names = ["a", "a (3)", "a", "a", "", "a"]
    assert list(numbered(names, "export.csv")) == ["a", "a (3)", "a (2)", "a (4)", "column 5", "a (5)"]
    with pytest.raises(ImportFailed, match="columns"):
        numbered(["a"] * (MAX_COLUMNS + 1), "export.csv")


@pytest.mark.parametrize("row", ["A1,14/11/2026 18:05,Tea,1,1.00,1000.00\n", ",,,,,\n", "x\n"])
def test_reading_a_csv_file_can_be_stopped_at_any_row(tmp_path: Path, row: str) -> None:
    """Rows of one bill, blank rows and rows that cannot be read."""
    calls: list[None] = []
    imported("csv", written(tmp_path, HEADING + row * 2000), mapping=MAPPING, on_read=lambda: calls.append(None))
    assert len(calls) > 2000 // ROWS_PER_CALL


def test_wrong_totals_are_compared_with_a_limited_number_of_sums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = 0
    candidates = export_totals._candidates

    def counted(*arguments: Any, **options: Any) -> list[Decimal]:
        nonlocal tried
        tried += 1
        return candidates(*arguments, **options)

    monkeypatch.setattr(export_totals, "_candidates", counted)
    monkeypatch.setattr(export_totals, "MAX_TRIED", 100)
    days = [f"A{day},14/11/2026 18:05,Tea,1,5.00,5.00\nTotal,,,,7.00,{5 * day}.00\n" for day in range(1, 101)]
    found = imported("csv", written(tmp_path, HEADING + "".join(days)), mapping=MAPPING)
    by_column = {name: [one for one in found.totals if one.column == name] for name in ("Amount", "Total")}
    assert {one.computed for one in by_column["Amount"]} == {5}
    assert all(one.computed == one.stated for one in by_column["Total"]), "a running total is the sum of all rows"
    assert tried < 1000
