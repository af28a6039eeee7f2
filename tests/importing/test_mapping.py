"""The language of mappings: arithmetic, statuses, cells that are filled down, time zones, and mistakes."""

from decimal import Decimal
from pathlib import Path

import pytest

from counterfoil.importing.mapping import parse_mapping
from counterfoil.importing.results import ImportFailed
from importing.exports import BILLS, HEADING, MAPPING, SUMMED, Outcome, imported, written


def amounts(folder: Path, rows: str, cell: str) -> list[str | None]:
    """Return the subtotal of each bill of a table with the columns No, A, B and C, with this cell as the subtotal."""
    export = written(folder, "No,A,B,C\n" + rows)
    found = imported("csv", export, mapping=f"{BILLS}amounts.subtotal = {cell}\n")
    assert found.rejected == []
    return [bill.get("amounts", {}).get("subtotal") for bill in found.bills]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ('{ add = ["A", "B"] }', ["13.50", "10.00", None]),
        ('{ add = ["A", "-B"] }', ["6.50", "10.00", None]),
        ('{ add = ["A", "B"], negate = true }', ["-13.50", "-10.00", None]),
        ('{ multiply = ["A", "B"] }', ["35.0000", None, None]),
        ('{ column = "A", negate = true }', ["-10.00", "-10.00", None]),
        ('{ column = "A", default = "0" }', ["10.00", "10.00", "0"]),
        ('{ add = ["A", "Z"], optional = true }', ["10.00", "10.00", None]),
        ('{ add = ["A", { multiply = ["A", "B"] }] }', ["45.0000", "10.00", None]),
        ('{ multiply = ["A", { column = "C", default = "2" }] }', ["20.00", "20.00", None]),
        ('{ any = ["B", "A"] }', ["3.50", "10.00", None]),
    ],
)
def test_amounts_are_computed_from_the_columns_of_a_row(tmp_path: Path, cell: str, expected: list[str | None]) -> None:
    assert amounts(tmp_path, "1,10.00,3.50,\n2,10.00,,\n3,,,\n", cell) == expected


def test_a_sum_over_rows_adds_up_payments_although_the_lines_are_in_another_file(tmp_path: Path) -> None:
    payments = written(tmp_path, "No,Paid\n1,60\n1,40\n2,5\n", "payments.csv")
    lines = written(tmp_path, "No,Item,A\n1,Tea,90\n2,Tea,5\n", "lines.csv")
    mapping = BILLS + 'amounts.net = { sum = "Paid", over = "rows" }\namounts.subtotal = { sum = "A" }\n'
    mapping += '[line]\nkey = "No"\nname = "Item"\n[[payment]]\namount = "Paid"\n'
    found = imported("csv", payments, lines=(lines,), mapping=mapping)
    assert [bill["amounts"] for bill in found.bills] == [
        {"net": "100", "subtotal": "90"},
        {"net": "5", "subtotal": "5"},
    ]
    assert [one["amount"] for one in found.bills[0]["payments"]] == ["60", "40"]


def test_a_number_whose_meaning_is_not_known_rejects_its_bill(tmp_path: Path) -> None:
    export = written(tmp_path, "No,Tax\n1,0.00\n2,\n3,0.70\n")
    found = imported("csv", export, mapping=BILLS + '[[reject]]\ncolumn = "Tax"\nreason = "Ask the till."\n')
    assert [bill["id"] for bill in found.bills] == ["1", "2"]
    assert [(one.bill, one.reason) for one in found.rejected] == [("3", "doubtful_value")]
    assert "Ask the till." in found.rejected[0].detail


def test_an_amount_that_is_written_with_either_sign_is_read_without_it(tmp_path: Path) -> None:
    assert amounts(tmp_path, "1,-5,,\n2,5,,\n3,(5),,\n", '{ column = "A", absolute = true }') == ["5", "5", "5"]


def test_a_column_whose_name_begins_with_a_hyphen_is_added(tmp_path: Path) -> None:
    export = written(tmp_path, "No,A,-B\n1,10,3\n")
    found = imported("csv", export, mapping=BILLS + 'amounts.net = { add = ["A", "-B"] }\n')
    assert found.bill["amounts"]["net"] == "13"


def test_a_cell_has_its_own_decimal_mark(tmp_path: Path) -> None:
    export = written(tmp_path, "No;A;B\n1;1.234,50;2.5\n")
    mapping = BILLS + 'amounts.net = { column = "A", decimal = "," }\namounts.tip = "B"\n'
    assert imported("csv", export, mapping=mapping).bill["amounts"] == {"net": "1234.50", "tip": "2.5"}


def test_arithmetic_is_exact_beyond_the_usual_precision(tmp_path: Path) -> None:
    cell = '{ add = ["A", "B"] }'
    assert amounts(tmp_path, f"1,123456789012345.1,0.{'0' * 20}1,\n", cell) == [f"123456789012345.1{'0' * 19}1"]


@pytest.mark.parametrize("amount", ["1000000000000000", "1e400", "1.3E+18"])
def test_an_amount_that_cannot_be_stored_rejects_its_bill(tmp_path: Path, amount: str) -> None:
    found = imported("csv", written(tmp_path, f"No,A\n1,{amount}\n"), mapping=BILLS + 'amounts.net = "A"\n')
    assert found.reasons == [("export.csv", 2, "unreadable_value")]


def test_a_sum_over_products_leaves_out_the_cancelled_lines_but_keeps_them_in_the_bill(tmp_path: Path) -> None:
    rows = (
        "A1,14/11/2026 18:05,Khao soi,2,95,Order Success,Cash\n"
        "A1,14/11/2026 18:05,Iced tea,1,50,Void Item,Cash\n"
        "A1,14/11/2026 18:05,Som tam,1,80,Order Success,Cash\n"
        "A2,14/11/2026 18:09,Iced tea,1,50,Void Item,Cash\n"
    )
    mapping = MAPPING.replace('"Total"', '{ sum = { multiply = ["Qty", "Amount"] } }').replace('total = "Amount"\n', "")
    mapping += 'cancelled = { column = "State", values = { "Void Item" = true, "Order Success" = false } }\n'
    mapping += '[payment]\nname = "Paid with"\namount = { sum = { multiply = ["Qty", "Amount"] } }\n'
    found = imported("csv", written(tmp_path, "Bill,Date,Item,Qty,Amount,State,Paid with\n" + rows), mapping=mapping)
    assert [bill["amounts"]["net"] for bill in found.bills] == ["270", "0"]
    assert [line["cancelled"] for line in found.bills[0]["lines"]] == [False, True, False]
    assert found.bills[0]["payments"] == [{"name": "Cash", "amount": "270"}]


def test_without_lines_a_sum_is_over_the_rows_of_the_bill(tmp_path: Path) -> None:
    mapping = BILLS + 'amounts.net = { sum = "Paid" }\n[payment]\nname = "Type"\namount = "Paid"\n'
    found = imported("csv", written(tmp_path, "No,Type,Paid\n1,Cash,60\n1,Card,40.50\n"), mapping=mapping)
    assert found.bill["amounts"]["net"] == "100.50"
    assert [one["amount"] for one in found.bill["payments"]] == ["60", "40.50"]


STATUS = f"""{BILLS}
amounts.net = "Total"
[[status]]
column = "Status"
values = {{ "Paid" = "sale", "Voided" = "void", "Refund" = "refund", "Open" = "skip" }}
[[status]]
column = "Void?"
values = {{ "Yes" = "void", "" = "sale" }}
"""


def test_the_strongest_status_of_a_bill_counts(tmp_path: Path) -> None:
    rows = "1,10,Paid,\n2,10,paid,yes\n3,10,Refund,\n4,10,Open,Yes\n5,10,Voided,\n"
    found = imported("csv", written(tmp_path, "No,Total,Status,Void?\n" + rows), mapping=STATUS)
    assert [(bill["id"], bill["amounts"]["net"], bill.get("void")) for bill in found.bills] == [
        ("1", "10", None),
        ("2", "10", True),
        ("3", "-10", None),
        ("5", "10", True),
    ]
    assert [one.line for one in found.skipped] == [5]


@pytest.mark.parametrize("row", ["1,10,Unsuccessful,", "1,10,,", "1,10,Paid,maybe"])
def test_a_status_that_the_mapping_does_not_list_rejects_the_bill(tmp_path: Path, row: str) -> None:
    found = imported("csv", written(tmp_path, f"No,Total,Status,Void?\n{row}\n2,10,Paid,\n"), mapping=STATUS)
    assert found.reasons == [("export.csv", 2, "unknown_status")]
    assert [bill["id"] for bill in found.bills] == ["2"]


def test_rows_of_a_bill_that_differ_in_their_status_reject_it(tmp_path: Path) -> None:
    mapping = MAPPING + '[[status]]\ncolumn = "Status"\nvalues = { "Paid" = "sale", "Open" = "skip" }\n'
    rows = "A1,14/11/2026 18:05,Tea,1,50,90,Open\nA1,14/11/2026 18:05,Rice,1,40,90,Paid\n"
    found = imported("csv", written(tmp_path, HEADING.replace("\n", ",Status\n") + rows), mapping=mapping)
    assert (found.reasons, found.bills) == ([("export.csv", 3, "different_rows")], [])


def test_a_row_without_an_id_is_left_out_with_its_money_if_its_status_says_so(tmp_path: Path) -> None:
    export = written(tmp_path, "No,Total,Status,Void?\n,-3.50,Open,\n1,10,Paid,\n")
    found = imported("csv", export, mapping=STATUS)
    assert [(row.line, row.bills, row.net, row.reason) for row in found.skipped] == [
        (2, 1, Decimal("-3.50"), "Status is Open")
    ]
    assert (found.rejected, found.bill["id"]) == ([], "1")


def test_rows_that_are_no_bills_are_left_out_with_their_money_and_lines_of_a_bill_without_it(tmp_path: Path) -> None:
    skip = '[[skip]]\ncolumn = "Kind"\nvalues = ["Fee"]\n'
    bills = written(tmp_path, "No,Total,Kind\n1,10,Sale\n,-5.00,Fee\n,,Fee\n,x,Fee\n")
    found = imported("csv", bills, mapping=BILLS + '[bill.amounts]\nnet = "Total"\n' + skip)
    assert [(row.reason, row.bills, row.net) for row in found.skipped] == [
        ("Kind is Fee", 1, Decimal("-5.00")),
        ("Kind is Fee", 1, None),
        ("Kind is Fee", 1, None),
    ]
    lines = "A1,14/11/2026 18:05,Tea,1,50,50,Sale\nA1,14/11/2026 18:05,Note,0,0,50,Fee\n"
    flat = written(tmp_path, HEADING.replace("\n", ",Kind\n") + lines)
    found = imported("csv", flat, mapping=MAPPING + skip)
    assert [(row.bills, row.net) for row in found.skipped] == [(0, None)]


DATED = MAPPING.replace('id = "Bill"', 'id = ["Date", "Bill"]')
FILLED = MAPPING + '[file]\nfillDown = ["Date", "Bill", "Total"]\n'


def test_cells_are_filled_down_to_all_rows_of_a_bill(tmp_path: Path) -> None:
    rows = "A1,14/11/2026 18:05,Khao soi,2,190,240\n,,Iced tea,1,50,\nA2,14/11/2026 18:10,Som tam,1,80,80\n"
    found = imported("csv", written(tmp_path, HEADING + rows), mapping=FILLED)
    assert [len(bill["lines"]) for bill in found.bills] == [2, 1]
    assert [bill["amounts"]["net"] for bill in found.bills] == ["240", "80"]
    assert found.rejected == []
    not_filled = imported("csv", tmp_path / "export.csv", mapping=MAPPING)
    assert [bill["id"] for bill in not_filled.bills] == ["A2"]
    assert not_filled.reasons == [("export.csv", 3, "no_id"), ("export.csv", 2, "no_id")]


def test_a_cell_is_not_filled_down_into_the_next_bill(tmp_path: Path) -> None:
    """The bills are of one day, which is printed once, but the total of the first bill is not that of the second."""
    rows = "A1,14/11/2026 18:05,Khao soi,2,190,190\nA2,,Som tam,1,80,\n"
    found = imported("csv", written(tmp_path, HEADING + rows), mapping=FILLED)
    assert [bill["closedAt"] for bill in found.bills] == ["2026-11-14T18:05:00"]
    assert [(one.bill, one.reason) for one in found.rejected] == [("A2", "no_amount")]


def test_nothing_is_filled_down_over_a_row_that_cannot_be_read(tmp_path: Path) -> None:
    rows = (
        "A1,14/11/2026 18:05,Khao soi,2,190,190\n"
        "A2,15/11/2026 18:05,Pad thai, large,1,100,100\n"
        "A3,,Iced tea,1,50,50\n"
        "A4,,Iced tea,1,50,50\n"
    )
    found = imported("csv", written(tmp_path, HEADING + rows), mapping=FILLED)
    assert found.bills == []


@pytest.mark.parametrize("time", ["14/11/2026 18:05", "2026-11-14 18:05:00", "14 พ.ย. 2569 18:05"])
def test_of_a_time_in_an_id_only_the_day_counts_however_a_file_writes_it(tmp_path: Path, time: str) -> None:
    found = imported("csv", written(tmp_path, f"{HEADING}A1,{time},Khao soi,2,190,190\n"), mapping=DATED)
    assert [bill["id"] for bill in found.bills] == ["2026-11-14-A1"]


@pytest.mark.parametrize("day", ["14/11/2026 ", "2026-11-14T", "20261114", "14 Nov 2026, "])
def test_a_number_with_two_times_on_one_day_rejects_the_bill(tmp_path: Path, day: str) -> None:
    clocks = ("180500", "191000") if day.isdigit() else ("18:05", "19:10")
    rows = "".join(f'A1,"{day}{clock}",Khao soi,2,190,190\n' for clock in clocks)
    found = imported("csv", written(tmp_path, HEADING + rows), mapping=DATED)
    assert (found.bills, found.reasons) == ([], [("export.csv", 3, "different_rows")])


def test_a_day_alone_is_not_the_id_of_a_bill(tmp_path: Path) -> None:
    rows = "A1,14/11/2026 18:05,Khao soi,2,190,190\n,14/11/2026 18:05,Iced tea,1,50,\n"
    found = imported("csv", written(tmp_path, HEADING + rows), mapping=DATED)
    assert (found.bills, [reason for _, _, reason in found.reasons]) == ([], ["no_id", "no_id"])


@pytest.mark.parametrize("number", ["1.3E+18", "1,3e+18", "9E+15"])
def test_an_id_that_a_spreadsheet_has_rounded_is_rejected(tmp_path: Path, number: str) -> None:
    found = imported("csv", written(tmp_path, f'No,Total\n"{number}",10\n2,10\n'), mapping=BILLS)
    assert (found.reasons, found.bill["id"]) == ([("export.csv", 2, "no_id")], "2")


@pytest.mark.parametrize(
    ("zone", "time"),
    [
        ("Asia/Bangkok", "2026-11-14T18:05:00+07:00"),
        ("Eastern Time (US & Canada)", "2026-11-14T18:05:00-05:00"),
        ("GMT+0700", "2026-11-14T18:05:00+07:00"),
        ("UTC-3", "2026-11-14T18:05:00-03:00"),
        ("+07:00", "2026-11-14T18:05:00+07:00"),
        ("UTC", "2026-11-14T18:05:00+00:00"),
        ("", "2026-11-14T18:05:00+09:00"),
    ],
)
def test_the_time_zone_of_a_bill_is_read_from_its_column(tmp_path: Path, zone: str, time: str) -> None:
    mapping = BILLS + 'closedAt = "Date"\ntimezone = "Zone"\n[dates]\norder = "dmy"\ntimezone = "Asia/Tokyo"\n'
    found = imported("csv", written(tmp_path, f"No,Date,Zone\n1,14/11/2026 18:05,{zone}\n"), mapping=mapping)
    assert found.bill["closedAt"] == time


def test_a_time_zone_that_is_not_known_rejects_the_bill(tmp_path: Path) -> None:
    mapping = BILLS + 'closedAt = "Date"\ntimezone = "Zone"\n'
    found = imported("csv", written(tmp_path, "No,Date,Zone\n1,2026-11-14 18:05,Middle Earth\n"), mapping=mapping)
    assert found.reasons == [("export.csv", 2, "unreadable_value")]


def test_a_file_is_recognised_by_its_headings() -> None:
    content = {"recognise": {"name": "Receipts", "columns": ["A", "B"], "without": ["Item"], "role": "lines"}}
    recognition = parse_mapping(content, "m").recognition
    assert recognition is not None
    assert (recognition.name, recognition.role) == ("Receipts", "lines")
    assert recognition.fits(["A", "B", "C"])
    assert not recognition.fits(["A"])
    assert not recognition.fits(["A", "B", "Item"])


@pytest.mark.parametrize(
    ("mapping", "place"),
    [
        ('[bill]\nclosed_at = "Date"', r"closed_at in \[bill\].*closedAt"),
        ("[bils]\n", "bils in the mapping.*bill"),
        ('[bill]\nid = { add = ["A", "B"] }', "bill.id: This is not a number"),
        ('[bill]\nid = { column = "a", constant = "b" }', "bill.id: Expected exactly one of column"),
        ('[bill]\namounts.net = ["A", "B"]', "bill.amounts.net: .*use add"),
        ('[bill]\namounts.net = { ad = ["A"] }', r"bill.amounts.net: .*`ad` \(did you mean add"),
        ('[bill]\namounts.net = { add = ["A"], values = { x = "1" } }', "bill.amounts.net: "),
        ('[bill]\namounts.net = { add = "A" }', "bill.amounts.net.add: "),
        ('[bill]\namounts.net = { add = ["A", 1] }', r"bill.amounts.net.add\[1\]: "),
        ('[bill]\namounts.net = { multiply = ["A", { sum = "B" }] }', "bill.amounts.net: "),
        ('[bill]\namounts.net = { sum = "A", over = "days" }', "bill.amounts.net.over: "),
        ('[bill]\namounts.net = { column = "A", decimal = ";" }', "bill.amounts.net.decimal: Use . or ,"),
        ('[bill]\namounts.net = { sum = { sum = "A" } }', "bill.amounts.net: "),
        ('[bill]\namounts.net = { sum = { add = [{ sum = "A" }] } }', "bill.amounts.net: "),
        ('[line]\ntotal = { sum = "A" }', "line.total: "),
        ('[[status]]\ncolumn = "A"\nvalues = { x = "sold" }', "status: x is 'sold'"),
        ('[[status]]\ncolumn = "A"', "status: .*`values`"),
        ("[totals]\nvalues = ['Total']", "totals: .*a column or cells"),
        ('[totals]\ncolumn = "A"\nvalues = []', "totals.values: "),
        ('[file]\nfillDown = "A"', "file.fillDown: "),
        ('[file]\nencoding = "latin-9"', "file.encoding: .*cp874"),
        ("[file]\nheadingLine = 0", "file.headingLine: "),
        ('[dates]\nserial = "yes"', "dates.serial: "),
        ('[dates]\norder = "dym"', "dates.order: Use dmy or mdy or ymd"),
        ('[dates]\ntimezone = "Bangkok"', "dates: timezone is 'Bangkok'"),
        ('[numbers]\ndecimal = ","\nthousands = ","', "numbers: thousands"),
        ('[recognise]\nname = "A"', "recognise: .*`columns`"),
        ('[database]\nbills = "SELECT 1"\nwatermark = "at"\noverlap = "2 moons"', "database: overlap is '2 moons'"),
        ("[bill]\nid = 5", 'has no column "5"'),
        ('[line]\nname = "Item"', r"Set bill\.id"),
        ('[bill]\nid = "Bill"\n[file]\nfillDown = ["Tabel"]', 'no file has the column "Tabel"'),
    ],
)
def test_a_mistake_in_the_mapping_is_named_with_its_place(tmp_path: Path, mapping: str, place: str) -> None:
    with pytest.raises(ImportFailed, match=place):
        imported("csv", written(tmp_path, HEADING), mapping=mapping)


# --- rows of totals -------------------------------------------------------------

TWO_DAYS = (
    "A1,14/11/2026 18:05,Khao soi,2,190.00,240.00\n"
    "A1,14/11/2026 18:05,Iced tea,1,50.00,240.00\n"
    "A2,14/11/2026 19:00,Som tam,1,80.00,80.00\n"
    "{first}"
    "A3,15/11/2026 18:05,Som tam,1,80.00,80.00\n"
    "{second}"
)


def compared(found: Outcome) -> list[tuple[int, str, str, str]]:
    return [(one.line, one.column, str(one.stated), str(one.computed)) for one in found.totals]


@pytest.mark.parametrize(
    "last",
    [
        "Total,,,5,400.00,400.00",
        "รวมทั้งหมด,,,5,400.00,400.00",
        ",Total:,,5,400.00,400.00",
        ",,Grand Total,5,400.00,400.00",
        ",,,5,400.00,400.00",
        ",,,5,400.00,640.00",
        "Total 14/11/2026,,,5,400.00,400.00",
    ],
)
def test_a_row_of_totals_is_not_a_bill_and_is_compared_with_the_rows(tmp_path: Path, last: str) -> None:
    rows = TWO_DAYS.format(first="", second=last + "\n")
    found = imported("csv", written(tmp_path, HEADING + rows), mapping=MAPPING)
    assert [bill["id"] for bill in found.bills] == ["A1", "A2", "A3"]
    assert ([one.line for one in found.skipped], found.rejected) == ([6], [])
    assert len(found.totals) == 3
    assert all(one.stated == one.computed for one in found.totals)


def test_subtotals_between_the_rows_are_compared_with_the_rows_since_the_last_one(tmp_path: Path) -> None:
    rows = TWO_DAYS.format(first=",14/11/2026,Subtotal,,320.00,320.00\n", second=",,Subtotal,,80.00,80.00\n")
    found = imported("csv", written(tmp_path, HEADING + rows + "Total,,,,400.00,400.00\n"), mapping=MAPPING)
    assert [one.line for one in found.skipped] == [5, 7, 8]
    assert [line for line, _, stated, computed in compared(found) if stated != computed] == []
    assert len(found.totals) == 6


def test_a_total_that_no_sum_of_the_rows_equals_is_reported_with_the_likely_sum(tmp_path: Path) -> None:
    rows = TWO_DAYS.format(first="", second="Total,,,,400.00,410.00\n")
    found = imported("csv", written(tmp_path, HEADING + rows), mapping=MAPPING)
    assert compared(found) == [(6, "Total", "410.00", "400.00"), (6, "Amount", "400.00", "400.00")]


def test_a_total_of_each_bill_between_its_lines_is_not_one_of_them(tmp_path: Path) -> None:
    rows = "A1,14/11/2026 18:05,Tea,1,50,\nA1,14/11/2026 18:05,Rice,1,40,\nA1,14/11/2026 18:05,Total,,90,\n"
    found = imported("csv", written(tmp_path, HEADING + rows), mapping=SUMMED)
    assert found.bill["amounts"]["net"] == "90"
    assert compared(found) == [(4, "Amount", "90", "90")]


@pytest.mark.parametrize("total", ["170", "120"])
def test_a_total_may_include_cancelled_lines_or_not(tmp_path: Path, total: str) -> None:
    mapping = SUMMED + 'cancelled = "Void"\n'
    rows = "A1,14/11/2026 18:05,Tea,1,50,true\nA1,14/11/2026 18:05,Rice,1,120,false\n"
    export = written(tmp_path, "Bill,Date,Item,Qty,Amount,Void\n" + rows + f"Total,,,,{total},\n")
    found = imported("csv", export, mapping=mapping)
    assert found.bill["amounts"]["net"] == "120"
    assert compared(found) == [(4, "Amount", total, total)]


def test_the_mapping_says_which_rows_are_totals(tmp_path: Path) -> None:
    rows = TWO_DAYS.format(first="", second="Day's end,15/11/2026 23:00,,,400.00,400.00\n")
    for rule in ('column = "Bill"', 'cells = "any"'):
        mapping = f'{MAPPING}[totals]\n{rule}\nvalues = ["day\'s END"]\n'
        found = imported("csv", written(tmp_path, HEADING + rows), mapping=mapping)
        assert [one.line for one in found.skipped] == [6]
        assert [one.computed for one in found.totals] == [400, 400]


def test_a_short_row_of_totals_is_skipped_and_does_not_reject_the_bill_before_it(tmp_path: Path) -> None:
    found = imported(
        "csv", written(tmp_path, HEADING + TWO_DAYS.format(first="", second="Total,400\n")), mapping=MAPPING
    )
    assert (len(found.bills), [one.line for one in found.skipped], found.rejected) == (3, [6], [])


@pytest.mark.parametrize(
    ("second", "third"),
    [
        (",,102,1,50,", "A2,14/11/2026 18:10,103,1,50,"),
        (",,,1,50,", "A2,14/11/2026 18:10,103,1,50,"),
        (",,102,1,50,", ""),
        (",,,2,70,", ""),
    ],
    ids=["with a product", "without one", "last, with a product", "last, but not the sum"],
)
def test_a_row_of_numbers_without_an_id_may_be_a_line_so_the_bill_before_it_is_rejected(
    tmp_path: Path, second: str, third: str
) -> None:
    rows = f"A1,14/11/2026 18:05,101,1,50,\n{second}\n{third}\n"
    found = imported("csv", written(tmp_path, HEADING + rows), mapping=SUMMED)
    assert [bill["id"] for bill in found.bills] == (["A2"] if third else [])
    assert sorted((one.line, one.reason, one.bill) for one in found.rejected) == [
        (2, "no_id", "A1"),
        (3, "no_id", None),
    ]


def test_a_row_of_numbers_is_a_line_if_its_bill_is_filled_down(tmp_path: Path) -> None:
    mapping = SUMMED + '[file]\nfillDown = ["Bill", "Date"]\n'
    rows = "A1,14/11/2026 18:05,101,1,50,\n,,102,1,50,\n"
    found = imported("csv", written(tmp_path, HEADING + rows), mapping=mapping)
    assert found.bill["amounts"]["net"] == "100"


def test_a_row_of_numbers_after_the_only_row_of_a_file_without_products_is_not_assumed_to_be_its_total(
    tmp_path: Path,
) -> None:
    mapping = SUMMED.replace('name = "Item"\n', "")
    found = imported("csv", written(tmp_path, HEADING + "A1,14/11/2026 18:05,,1,50,\n,,,1,50,\n"), mapping=mapping)
    assert (found.bills, len(found.rejected)) == ([], 2)


def test_a_product_whose_name_begins_with_such_a_word_is_a_line(tmp_path: Path) -> None:
    rows = "A1,14/11/2026 18:05,Tea,1,50,\nA1,14/11/2026 18:05,Total 0%,1,40,\n"
    assert imported("csv", written(tmp_path, HEADING + rows), mapping=SUMMED).bill["amounts"]["net"] == "90"


def test_a_total_that_is_also_a_payment_counts_once_for_a_bill(tmp_path: Path) -> None:
    mapping = MAPPING + '[payment]\nname = { constant = "Cash" }\namount = "Total"\n'
    rows = TWO_DAYS.format(first="", second="Total,,,,400.00,400.00\n")
    found = imported("csv", written(tmp_path, HEADING + rows), mapping=mapping)
    assert [(one.field, str(one.computed)) for one in found.totals] == [("amounts.net", "400.00"), ("total", "400.00")]


def test_a_label_of_totals_in_place_of_a_number_is_no_bill(tmp_path: Path) -> None:
    mapping = MAPPING.partition("[line]")[0]
    rows = "A1,14/11/2026 18:05,,,,190\nA2,14/11/2026 18:10,,,,50\nDaily total,14/11/2026 23:59,,,,240\n"
    found = imported("csv", written(tmp_path, HEADING + rows), mapping=mapping)
    assert ([bill["id"] for bill in found.bills], [one.line for one in found.skipped]) == (["A1", "A2"], [4])


def test_a_mapping_without_the_number_of_a_bill_says_what_is_missing(tmp_path: Path) -> None:
    export = written(tmp_path, HEADING + "A1,14/11/2026 18:05,Khao soi,2,190,190\n")
    with pytest.raises(ImportFailed, match=r"mapping\.toml has no bill\.id"):
        imported(None, export, mapping=MAPPING.replace('id = "Bill"\n', ""))


def test_a_flag_is_yes_or_no_and_nothing_else(tmp_path: Path) -> None:
    words = ["Yes", "1", "TRUE", "ใช่", "", "no", "0", "Open"]
    rows = "".join(f"{number},10,{word}\n" for number, word in enumerate(words))
    mapping = BILLS + 'amounts.net = "Total"\nvoid = "Void"\n'
    found = imported("csv", written(tmp_path, "No,Total,Void\n" + rows), mapping=mapping)
    assert [bool(bill.get("void")) for bill in found.bills] == [True] * 4 + [False] * 3
    assert found.reasons == [("export.csv", 9, "unreadable_value")]
