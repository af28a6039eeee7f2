"""A mapping made from a sample reads later files right, or rejects what the sample did not have."""

import contextlib
import itertools
import tomllib
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from counterfoil.importer.form import Form, FormFiles
from counterfoil.importer.proposal import form
from counterfoil.importing.results import ImportFailed, OrderMissing
from importing.exports import Outcome, imported, written

TODAY = date(2026, 12, 20)
HEADING = "Bill No,Date,Time,Table,Item,Qty,Price,Amount,Bill Total,Remark\n"
SAMPLE = (
    HEADING
    + """1001,13/11/2026,10:00,T1,Tea,1,60.00,60.00,140.00,
1001,13/11/2026,10:00,T1,Rice,2,40.00,80.00,140.00,
1002,13/11/2026,11:00,T2,Soup,1,1070.50,1070.50,1070.50,no ice
1003,14/11/2026,10:00,T1,Tea,2,60.00,120.00,120.00,
1004,14/11/2026,12:00,T3,Rice,1,40.00,40.00,100.00,
1004,14/11/2026,12:00,T3,Tea,1,60.00,60.00,100.00,
"""
)
BILLS = "Bill No,Date,Subtotal,Discount,Tax,Total,Tip\n"
ROWS = [(100, 0, 7), (200, 20, 14), (300, 0, 21), (150, 50, 10.5), (80, 0, 5.6), (90, 0, 6.3)]


TOTALS = "Bill,Date,Total\n"
THREE_DAYS = TOTALS + "".join(f"{day}1,{day}/11/2026 10:00,60\n" for day in range(13, 16))


def form_of(export: Path, **answers: str) -> Form:
    return form(FormFiles((export,)), answers, today=TODAY)


def mapping_of(folder: Path, sample: str) -> str:
    """Return the mapping that was accepted for a sample about which nothing is asked, apart from its tip."""
    answers = {"net": "Total + Tip"} if sample.startswith(BILLS) else {}
    found = form_of(written(folder, sample, "sample.csv"), **answers)
    assert found.is_complete, (found.open, found.refused, found.advice)
    return found.mapping


def later(folder: Path, sample: str, text: str) -> Outcome:
    mapping = mapping_of(folder, sample)
    return imported("csv", written(folder, text, "later.csv"), mapping=mapping, today=TODAY)


def bills() -> str:
    text = BILLS
    for number, (gross, off, tax) in enumerate(ROWS):
        amounts = [f"{amount:.2f}" for amount in (gross, off, tax, gross - off + tax, number)]
        text += ",".join([f"{1000 + number}", f"{13 + number}/11/2026 10:00", *amounts]) + "\n"
    return text


@pytest.mark.parametrize("item", ["Fish", "ชุดกลางคืน", "House", "Voivod pasta", "Refresher"])
def test_a_later_file_that_is_like_the_sample_is_right(tmp_path: Path, item: str) -> None:
    rows = f"1005,15/11/2026,10:00,T4,{item},3,420.00,1260.00,1260.00,well done\n"
    found = later(tmp_path, SAMPLE, HEADING + rows)
    assert ([bill["amounts"]["net"] for bill in found.bills], found.rejected) == (["1260.00"], [])


@pytest.mark.parametrize(
    ("row", "column", "value"),
    [
        ("1005,15/11/2026,10:00,T1,VOID,1,60.00,60.00,60.00,", "Item", "VOID"),
        ("1005,15/11/2026,10:00,T1,Void Latte,1,60.00,60.00,60.00,", "Item", "Void Latte"),
        ("1005,15/11/2026,10:00,T1,Refund,1,60.00,60.00,60.00,", "Item", "Refund"),
        ("1005,15/11/2026,10:00,T1,Cash,1,60.00,60.00,60.00,", "Item", "Cash"),
        ("1005,15/11/2026,10:00,T1,Tea,1,60.00,60.00,60.00,VOIDED by Mali", "Remark", "VOIDED by Mali"),
        ("1005,15/11/2026,10:00,*** VOID ***,Tea,1,60.00,60.00,60.00,", "Table", "*** VOID ***"),
        ("VOID-1005,15/11/2026,10:00,T1,Tea,1,60.00,60.00,60.00,", "Bill No", "VOID-1005"),
        ("1005,15/11/2026,10:00,T1,Tea,1,60.00,60.00,60.00,ยกเลิกบิล", "Remark", "ยกเลิกบิล"),
        ("1005,15/11/2026,10:00,T1,Tea,1,60.00,60.00,60.00,guest has not paid", "Remark", "guest has not paid"),
        ("1005,15/11/2026,10:00,T1,Tea,1,60.00,60.00,60.00,they left without paying", "Remark", "without paying"),
        ("1005,15/11/2026,10:00,T1,Tea,1,60.00,60.00,60.00,Abgelehnt", "Remark", "Abgelehnt"),
        ("1005,15/11/2026,10:00,T1,Tea,1,1.250,1.250,1.250,", "Price", "1.250"),
        ("1005,15/11/2026,10:00,T1,Tea,1,60.00,,60.00,", "Amount", ""),
        ("1005,15/11/2026,10:00,T1,Tea,1,60.00,60.00,600.00,", "Bill Total", "600.00"),
    ],
)
def test_what_the_sample_did_not_have_rejects_a_bill_by_its_column(
    tmp_path: Path, row: str, column: str, value: str
) -> None:
    found = later(tmp_path, SAMPLE, HEADING + f"1006,15/11/2026,11:00,T1,Rice,1,40.00,40.00,40.00,\n{row}\n")
    assert [bill["amounts"]["net"] for bill in found.bills] == ["40.00"]
    [rejected] = found.rejected
    assert column in rejected.detail
    assert value in rejected.detail


@pytest.mark.parametrize(
    ("column", "value", "later_value", "is_sale"),
    [
        *((name, "A", "B", False) for name in ("Kind", "X", "Serie", "Doc")),
        ("Typ", "1", "2", False),
        ("Flag", "N", "T", False),
        ("Final", "Y", "", False),
        ("X", "OK", "NOK", False),
        ("Mark", "", "V", False),
        ("Merged Into", "", "1005", False),
        ("Unpaid", "", "22.50", False),
        ("Original Receipt", "", "1001", False),
        ("Credit Note No", "", "CN-12", False),
        ("Type", "Dine in", "Internal", False),
        ("VAT type", "Inclusive", "Exclusive", False),
        ("Price includes tax", "Yes", "No", False),
        ("Type", "Dine in", "Take away", True),
        ("Cashier", "Mali", "Anan", True),
        ("Branch", "Riverside", "Old Town", True),
        ("Shift", "1", "2", True),
        ("Week", "46", "47", True),
        ("Mark", "", "by the window", True),
        ("Promotion", "", "Songkran", True),
    ],
)
def test_a_new_value_in_a_column_that_was_always_the_same_must_be_explained(
    tmp_path: Path, column: str, value: str, later_value: str, is_sale: bool
) -> None:
    heading, rows = f"Bill,Date,Total,{column}\n", [f"{number},1{number}/11/2026 10:00,60," for number in range(6)]
    sample = heading + "".join(f"{row}{value}\n" for row in rows[:-1])
    found = later(tmp_path, sample, f"{heading}{rows[-1]}{later_value}\n")
    assert (len(found.bills), [column in one.detail for one in found.rejected]) == ((1, []) if is_sale else (0, [True]))


def numbered(numbers: list[str]) -> str:
    return TOTALS + "".join(f"{number},{13 + place}/11/2026 10:07,60.50\n" for place, number in enumerate(numbers))


@pytest.mark.parametrize("number", ["CN1009", "INV-1009V", "1009", "Z-Report"])
def test_a_number_with_other_letters_than_in_the_sample_may_be_a_credit_note(tmp_path: Path, number: str) -> None:
    sample = numbered([f"INV-{1001 + place}" for place in range(5)])
    found = later(tmp_path, sample, numbered(["INV-1007", number, "inv 1008/2"]))
    assert [bill["id"] for bill in found.bills] == ["2026-11-13-INV-1007", "2026-11-15-inv 1008/2"]
    [rejected] = found.rejected
    assert f'has "{number}" in the column "Bill", whose numbers had other letters in the sample' in rejected.detail


def test_numbers_whose_letters_differ_in_the_sample_may_have_others_later(tmp_path: Path) -> None:
    sample = numbered(["A-1001", "B-1002", "B-1003", "A-1004", "C-1005"])
    assert later(tmp_path, sample, numbered(["D-1007"])).rejected == []


def test_letters_of_numbers_that_the_operator_lists_are_those_of_sales(tmp_path: Path) -> None:
    mapping = mapping_of(tmp_path, numbered([f"{1001 + place}" for place in range(5)]))
    assert 'letters = { Bill = [""] }' in mapping
    allowed = mapping.replace('{ Bill = [""] }', '{ Bill = ["", "dl"] }')
    export = written(tmp_path, numbered(["1007", "DL-1008"]))
    assert len(imported("csv", export, mapping=allowed).bills) == 2
    assert len(imported("csv", export, mapping=mapping).bills) == 1


def test_a_value_that_the_operator_allows_is_a_sale(tmp_path: Path) -> None:
    mapping = mapping_of(tmp_path, SAMPLE).replace("[checks]", '[checks]\nallowed = ["Void Latte"]')
    row = "1005,15/11/2026,10:00,T1,Void latte,1,60.00,60.00,60.00,\n"
    assert len(imported("csv", written(tmp_path, HEADING + row), mapping=mapping).bills) == 1


@pytest.mark.parametrize("sample_value", ["VOID", "Void Latte", "Refund", "Cash"])
def test_an_item_with_such_a_word_is_asked_about_in_the_sample_and_can_be_answered(
    tmp_path: Path, sample_value: str
) -> None:
    for answer, total in (("all", 100), (f"without {sample_value}", 40)):
        rows = f"1005,15/11/2026,10:00,T1,{sample_value},1,60.00,60.00,{total}.00,\n"
        rows += f"1005,15/11/2026,10:00,T1,Rice,1,40.00,40.00,{total}.00,\n"
        export = written(tmp_path, SAMPLE + rows)
        question = form_of(export).open[0]
        assert sample_value in question.text
        found = imported("csv", export, mapping=form_of(export, **{question.id: answer}).mapping)
        assert found.bills[-1]["amounts"]["net"] == f"{total}.00"
        assert len(found.bills[-1]["lines"]) == (2 if answer == "all" else 1)


@pytest.mark.parametrize(("one", "other"), [*itertools.combinations(BILLS.strip().split(","), 2)])
def test_headings_over_other_columns_are_noticed(tmp_path: Path, one: str, other: str) -> None:
    swapped = BILLS.replace(one, "?").replace(other, one).replace("?", other)
    mapping = mapping_of(tmp_path, bills())
    assert "[undecided]" not in mapping
    with contextlib.suppress(ImportFailed):
        found = imported("csv", written(tmp_path, bills().replace(BILLS, swapped)), mapping=mapping, today=TODAY)
        assert len(found.rejected) * 2 > len(ROWS)


@pytest.mark.parametrize(("total", "is_right"), [("107.25", True), ("107.00", True), ("109.00", False)])
def test_a_total_may_be_rounded_to_a_coin_but_not_differ_otherwise(tmp_path: Path, total: str, is_right: bool) -> None:
    found = later(tmp_path, bills(), f"{BILLS}2001,20/11/2026 10:00,100.12,0.00,7.01,{total},0.00\n")
    assert (len(found.bills), len(found.rejected)) == ((1, 0) if is_right else (0, 1))


@pytest.mark.parametrize(
    "days", [["11/16/2026"], ["11/05/2026"], ["12/05/2026", "12/06/2026"], ["12/10/2026"], ["11/05/2026", "11/20/2026"]]
)
def test_a_file_with_the_month_first_is_refused_if_the_mapping_has_the_day_first(
    tmp_path: Path, days: list[str]
) -> None:
    mapping = mapping_of(tmp_path, THREE_DAYS)
    text = TOTALS + "".join(f"9{place},{day} 10:00,60\n" for place, day in enumerate(days))
    export = written(tmp_path, text, "later.csv")
    with pytest.raises(ImportFailed, match="--date-order"):
        imported("csv", export, mapping=mapping, today=TODAY)
    sure = imported("csv", export, mapping=mapping.replace('"dmy"', '"mdy"'), today=TODAY, is_order_sure=True)
    month, day, year = days[0].split("/")
    assert sure.bills[0]["closedAt"] == f"{year}-{month}-{day}T10:00:00"


@pytest.mark.parametrize("day", ["16/11/2026", "01/12/2026", "05/10/2026", "19/12/2026", "12/11/2026"])
def test_a_file_of_another_day_is_read_as_the_mapping_says(tmp_path: Path, day: str) -> None:
    found = later(tmp_path, THREE_DAYS, TOTALS + f"99,{day} 10:00,60\n")
    assert found.bills[0]["closedAt"].startswith("-".join(reversed(day.split("/"))))


@pytest.mark.parametrize(
    ("headings", "sample", "cells", "net"),
    [
        ("Total;Customer", "60;Mali", "60;Huy", "60"),
        ("Total;Status;Remark", "60;Void;", "60;Void;voided by Mali", "void"),
        ("Total;Status;Remark", "60;Refund;", "60;Refund;refund: cold", "-60"),
        ("Total", "60", "60.50", "60.50"),
        ("Total", "60", "1250", "1250"),
        ("Total", "60", "USD 60", None),
        ("Total", "฿60", "$60", None),
        ("Total;Currency", "60;THB", "60;USD", None),
        *(("Total", "60,50", cell, None) for cell in ("1,250", "12.50")),
        *(("Total", "60.50", cell, None) for cell in ("1.250", "1,25", "6050")),
    ],
)
def test_a_row_of_a_later_file_is_right_or_rejected_if_it_has_another_notation_or_currency(
    tmp_path: Path, headings: str, sample: str, cells: str, net: str | None
) -> None:
    heading = f"Bill;Date;{headings}\n"
    found = later(tmp_path, f"{heading}1;13/11/2026 10:00;{sample}\n", f"{heading}2;14/11/2026 10:00;{cells}\n")
    nets = ["void" if bill.get("void") else bill["amounts"]["net"] for bill in found.bills]
    assert (nets, [one.line for one in found.rejected]) == (([], [2]) if net is None else ([net], []))


@pytest.mark.parametrize("names", [["T1", "T2", "T3"], ["Patio", "Bar", "Terrace"], ["Table 1", "Table 2", "12"]])
def test_tables_and_areas_in_a_column_of_locations_are_asked_about(tmp_path: Path, names: list[str]) -> None:
    rows = "".join(f"{place},13/11/2026 10:00,{name},60\n" for place, name in enumerate(names))
    export = written(tmp_path, "Bill,Date,Location,Total\n" + rows)
    assert [one.id for one in form_of(export).open] == ["shop"]
    assert form_of(export, shop="one shop").is_complete


def test_a_voided_payment_of_a_later_file_rejects_its_bill(tmp_path: Path) -> None:
    sample = written(tmp_path, "Bill No,Date,Total\nA1,2026-11-13 10:00,60\nA2,2026-11-13 11:00,40\n", "bills.csv")
    heading = "Bill No,Method,Amount,Status\n"
    payments = written(tmp_path, heading + "A1,Cash,60,Approved\nA2,Card,40,Approved\n", "payments.csv")
    mapping = form(FormFiles((sample,), payments=(payments,)), {}, today=TODAY).mapping
    changed = written(tmp_path, heading + "A1,Cash,60,Approved\nA2,Card,40,Declined\n", "later.csv")
    found = imported("csv", sample, payments=(changed,), mapping=mapping)
    assert ([bill["id"] for bill in found.bills], len(found.rejected)) == (["2026-11-13-A1"], 1)


@pytest.mark.parametrize("label", ["Page Total", "Net Total", "Total", "Daily total", "รวมประจำวัน"])
def test_a_label_of_totals_in_the_place_of_the_date_is_read_as_totals(tmp_path: Path, label: str) -> None:
    text = f"Date,Bill No,Total\n13/11/2026 10:00,1,60\n13/11/2026 11:00,2,40\n{label},,100\n"
    found = imported("csv", written(tmp_path, text), mapping=mapping_of(tmp_path, text))
    assert (len(found.bills), found.rejected) == (2, [])
    assert [one.stated == one.computed for one in found.totals] == [True]


@pytest.mark.parametrize("row", ["Min.,,40,", "ค่าเฉลี่ย,,50,", ",Average,50,", "Nett,,50,"])
def test_statistics_below_the_totals_are_no_bills(tmp_path: Path, row: str) -> None:
    text = "Bill No,Date,Total,Status\n1,13/11/2026 10:00,60,Paid\n2,13/11/2026 11:00,40,Void\nTotal,,100,\n"
    export = written(tmp_path, f"{text}{row}\n")
    found = imported("csv", export, mapping=form_of(export).mapping)
    assert (len(found.bills), len(found.totals), found.rejected) == (2, 1, [])


@pytest.mark.parametrize(
    "word", ["Manager Comp", "Invitación casa", "Fiado", "Auf Rechnung", "House account", "Open", "Bob's list"]
)
def test_a_way_of_paying_that_may_be_no_payment_is_no_sale(tmp_path: Path, word: str) -> None:
    heading = "Bill,Date,Total,Payment\n"
    sample = heading + "1,13/11/2026 10:00,60,Cash\n2,13/11/2026 11:00,40,Amex\n"
    found = later(tmp_path, sample, heading + f"3,14/11/2026 10:00,60,{word}\n4,14/11/2026 11:00,60,Bizum\n")
    assert ([bill["id"] for bill in found.bills], [row.line for row in found.rejected]) == (["2026-11-14-4"], [2])
    [question] = form_of(written(tmp_path, sample + f"3,14/11/2026 10:00,60,{word}\n")).open
    assert word in question.example


def test_a_single_day_that_is_probable_only_in_the_other_order_is_refused(tmp_path: Path) -> None:
    mapping = mapping_of(tmp_path, TOTALS + "1,13/1/2026 10:00,60\n2,14/1/2026 11:00,40\n")
    export = written(tmp_path, TOTALS + "3,3/1/2026 10:00,60\n")
    assert imported("csv", export, mapping=mapping, today=date(2026, 1, 4)).bills
    with pytest.raises(ImportFailed, match="2026-03-01"):
        imported("csv", export, mapping=mapping, today=date(2026, 3, 2))
    assert imported("csv", export, mapping=mapping, today=date(2026, 3, 2), is_order_sure=True).bills


def test_days_that_are_the_same_in_both_orders_leave_the_order_open_for_later_files(tmp_path: Path) -> None:
    mapping = mapping_of(tmp_path, TOTALS + "1,11/11/2026 10:00,60\n2,11/11/2026 11:00,40\n")
    assert 'order = "auto"' in mapping
    # Read with the day first, the days are near each other: that does not say what they are.
    near = written(tmp_path, TOTALS + "3,10/11/2026 10:00,60\n4,12/11/2026 10:00,60\n")
    with pytest.raises(OrderMissing):
        imported("csv", near, mapping=mapping, today=TODAY)
    proven = written(tmp_path, TOTALS + "3,10/11/2026 10:00,60\n4,13/11/2026 10:00,60\n")
    assert imported("csv", proven, mapping=mapping, today=TODAY).bills[0]["closedAt"].startswith("2026-11-10")


def test_a_file_with_the_day_first_is_refused_if_the_sample_has_the_year_first(tmp_path: Path) -> None:
    mapping = mapping_of(tmp_path, TOTALS + "1,26/11/13 10:00,60\n2,26/11/14 11:00,40\n")
    assert len(imported("csv", written(tmp_path, TOTALS + "3,26/11/15 10:00,60\n"), mapping=mapping).bills) == 1
    with pytest.raises(ImportFailed, match="--date-order"):
        imported("csv", written(tmp_path, TOTALS + "3,15/11/26 10:00,60\n"), mapping=mapping)


@pytest.mark.parametrize("row", ["4,,Cake,20.00", ",,Cake,20.00", "5,Cake", "5"], ids=["line", "no ID", "short", "ID"])
def test_a_row_of_a_bill_with_too_few_cells_is_rejected_also_if_it_has_no_day(row: str, tmp_path: Path) -> None:
    heading = "Receipt,Date,Item,Amount,Status\n"
    lines = "1,2026-11-13 12:00,Tea,10.00,Paid\n1,2026-11-13 12:00,Cake,20.00,Paid\n2,2026-11-13 12:10,Tea,10.00,Paid\n"
    sample = written(tmp_path, heading + lines, "sample.csv")
    mapping = form_of(sample, net="sum of Amount").mapping
    later = f"{heading}4,2026-11-14 12:00,Tea,10.00,Paid\n{row}\n6,2026-11-14 12:10,Tea,10.00,Paid\n"
    assert imported("csv", written(tmp_path, later, "later.csv"), mapping=mapping).rejected


def answered(folder: Path, sample: str, later_rows: str, **answers: str) -> Outcome:
    """Return what a mapping makes of later rows under the headings of its sample."""
    found = form_of(written(folder, sample, "sample.csv"), **answers)
    assert found.is_complete, (found.open, found.refused, found.advice)
    text = f"{sample.splitlines()[0]}\n{later_rows}"
    return imported("csv", written(folder, text, "later.csv"), mapping=found.mapping, today=TODAY)


VOIDED_AMOUNTS = """Receipt,Date,Total,Voided amount
1001,2026-11-13 12:01,21.50,0.00
1002,2026-11-13 12:02,0.00,22.50
1003,2026-11-13 12:03,23.50,0.00
1004,2026-11-13 12:04,24.50,0.00
"""


def test_another_voided_amount_voids_a_later_bill(tmp_path: Path) -> None:
    rows = "1005,2026-11-14 12:01,0.00,71.30\n1006,2026-11-14 12:02,30.20,0.00\n"
    found = answered(tmp_path, VOIDED_AMOUNTS, rows, **{"state.Voided amount": "void"})
    assert [bool(bill.get("void")) for bill in found.bills] == [True, False]


def test_another_word_in_the_number_of_a_later_bill_is_rejected(tmp_path: Path) -> None:
    numbers = ["1001", "1002 (VOID)", "1003", "1004"]
    rows = [f"{number},2026-11-13 12:0{minute},21.50" for minute, number in enumerate(numbers)]
    sample = "\n".join(["Receipt,Date,Total", *rows, ""])
    later_rows = "1005 (REFUND),2026-11-14 12:01,21.70\n1006,2026-11-14 12:02,30.20\n"
    found = answered(tmp_path, sample, later_rows, **{"state.Receipt": "void"})
    assert [bill["id"][-4:] for bill in found.bills] == ["1006"]
    assert "REFUND" in found.rejected[0].detail


def day_bills(days: int = 3, count: int = 6) -> list[list[str]]:
    """Return bills of several days with amounts that no other bills add up to."""
    rows = []
    for place in range(days * count):
        total = 100 + 37 * place + place * place
        day = 13 + place // count
        rows.append([str(1001 + place), f"{day}/11/2026 1{place % count}:05", f"{total}.35", f"{total // 10}.12"])
    return rows


def with_sums(rows: list[list[str]], number: str) -> list[str]:
    """Return a row of totals that has the day of the last row and a number of its own."""
    sums = [str(sum(Decimal(row[place]) for row in rows)) for place in (2, 3)]
    return [number, rows[-1][1], *sums]


def above_bills(rows: list[list[str]]) -> list[list[str]]:
    return [with_sums(rows, "2001"), *rows]


def among_bills(rows: list[list[str]]) -> list[list[str]]:
    return [*rows[:9], with_sums(rows, "2001"), *rows[9:]]


def above_days(rows: list[list[str]]) -> list[list[str]]:
    found = []
    for number, day in enumerate(("13", "14", "15")):
        of_day = [row for row in rows if row[1].startswith(day)]
        found += [with_sums(of_day, f"200{number}"), *of_day]
    return found


DAYS_HEADING = "Bill No,Date,Total,Tax"


def as_text(rows: list[list[str]]) -> str:
    return "\n".join([DAYS_HEADING, *map(",".join, rows), ""])


@pytest.mark.parametrize("place", [above_bills, among_bills, above_days])
def test_totals_with_a_number_and_a_day_above_or_among_the_bills_refuse_a_later_file(
    place: Callable[[list[list[str]]], list[list[str]]], tmp_path: Path
) -> None:
    mapping = answered_mapping(tmp_path, as_text(day_bills()))
    totals = written(tmp_path, as_text(place(day_bills())), "later.csv")
    with pytest.raises(ImportFailed, match="sum of all other bills"):
        imported("csv", totals, mapping=mapping, today=TODAY)
    bills_only = imported("csv", written(tmp_path, as_text(day_bills())), mapping=mapping, today=TODAY)
    assert len(bills_only.bills) == 18
    left_out = imported("csv", totals, mapping=mapping.replace("[file]", '[file]\nsums = "totals"'), today=TODAY)
    assert len(left_out.bills) == 18


@pytest.mark.parametrize("place", [above_bills, among_bills, above_days])
def test_totals_with_a_number_and_a_day_are_asked_about_in_a_first_file(
    place: Callable[[list[list[str]]], list[list[str]]], tmp_path: Path
) -> None:
    export = written(tmp_path, as_text(place(day_bills())))
    answers = {"net": "Total"}
    questions = [question.id for question in form_of(export, **answers).open]
    assert "sums" in questions
    found = form_of(export, **answers, sums="totals")
    assert found.is_complete, (found.open, found.refused, found.advice)
    assert found.totals is not None
    assert found.totals.bills == 18
    assert len(imported("csv", export, mapping=found.mapping, today=TODAY).bills) == 18


def answered_mapping(folder: Path, sample: str) -> str:
    """Return the mapping of a sample whose questions are answered with their first options."""
    export = written(folder, sample, "sample.csv")
    answers: dict[str, str] = {}
    found = form_of(export)
    while found.open:
        question = found.open[0]
        answers[question.id] = question.options[0].answer
        found = form_of(export, **answers)
    assert found.is_complete, (found.refused, found.advice)
    return found.mapping


SLASHES = [f"{day}/11/2026" for day in range(13, 18)]
DASHES = [f"2026-11-{day}" for day in range(13, 18)]


def of_days(days: list[str]) -> str:
    return TOTALS + "".join(f"{1000 + place},{day} 10:0{place},6{place}.50\n" for place, day in enumerate(days))


@pytest.mark.parametrize("mark", ["/", "-"])
@pytest.mark.parametrize("sample", [SLASHES, DASHES])
def test_days_between_year_and_month_refuse_a_later_file(sample: list[str], mark: str, tmp_path: Path) -> None:
    mapping = mapping_of(tmp_path, of_days(sample))
    for days in (("01", "02", "05"), ("11", "12", "13")):
        turned = [mark.join(("2026", day, "12")) for day in days]
        with pytest.raises(ImportFailed, match=f"2026{mark}"):
            imported("csv", written(tmp_path, of_days(turned), "later.csv"), mapping=mapping, today=TODAY)


def test_days_after_the_month_are_read_in_a_later_file_if_one_shows_it(tmp_path: Path) -> None:
    mapping = mapping_of(tmp_path, of_days(SLASHES))
    for days in (["2026/12/05", "2026/12/14"], ["2026-12-05T"]):
        text = TOTALS + "".join(f"99,{day} 10:00,60.50\n".replace("T 10", "T10") for day in days)
        found = imported("csv", written(tmp_path, text, "later.csv"), mapping=mapping, today=TODAY)
        assert [bill["closedAt"][:10] for bill in found.bills] == [day[:10].replace("/", "-") for day in days]


def test_a_bill_of_a_later_file_in_the_future_or_long_ago_is_rejected(tmp_path: Path) -> None:
    mapping = mapping_of(tmp_path, of_days(SLASHES))
    days = ["18/11/2027", "01/01/1970", "22/12/2026", "21/12/2026", "18/11/2025"]
    export = written(tmp_path, of_days(days), "later.csv")
    found = imported("csv", export, mapping=mapping, today=TODAY)
    assert [row.line for row in found.rejected] == [2, 3, 4]
    assert "2027-11-18, which is after today, 2026-12-20" in found.rejected[0].detail
    assert "1970-01-01, long before" in found.rejected[1].detail
    allowed = mapping.replace('"2026-11-13", "2026-11-17"', '"1970-01-01", "2027-11-18"')
    assert len(imported("csv", export, mapping=allowed, today=TODAY).bills) == 5


def later_amounts(folder: Path, factor: str, count: int = 12) -> Outcome:
    """Import a later file whose amounts are those of the sample, multiplied."""
    mapping = mapping_of(folder, of_amounts([Decimal(f"{60 + place}.50") for place in range(12)]))
    assert "[checks]\n" in mapping
    amounts = [Decimal(f"{70 + place}.50") * Decimal(factor) for place in range(count)]
    export = written(folder, of_amounts(amounts), "later.csv")
    return imported("csv", export, mapping=mapping, today=TODAY)


def of_amounts(amounts: list[Decimal]) -> str:
    rows = [
        f"{1001 + place},13/11/2026 1{place % 10}:0{place % 7},{amount:.2f}" for place, amount in enumerate(amounts)
    ]
    return "\n".join(["Bill,Date,Total", *rows, ""])


@pytest.mark.parametrize("factor", ["100", "0.01", "1000", "33.5", "-1"])
def test_amounts_in_another_unit_or_with_another_sign_refuse_a_later_file(factor: str, tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match=r"checks\.usual"):
        later_amounts(tmp_path, factor)


@pytest.mark.parametrize(("factor", "count"), [("1", 12), ("4", 12), ("0.25", 12), ("-1", 2), ("50", 3)])
def test_amounts_that_are_about_as_usual_or_few_are_imported(factor: str, count: int, tmp_path: Path) -> None:
    assert len(later_amounts(tmp_path, factor, count).bills) == count


def test_a_tip_that_few_bills_have_is_no_usual_amount(tmp_path: Path) -> None:
    heading, first, *others = bills().splitlines()
    rare = [row[: row.rindex(",")] + ",0.00" for row in others[:-1]]
    mapping = mapping_of(tmp_path, "\n".join([heading, first, *rare, others[-1], ""]))
    assert tomllib.loads(mapping)["checks"]["usual"].keys() == {"Total"}


def test_a_bill_without_a_number_beside_a_shop_is_rejected_in_a_later_file(tmp_path: Path) -> None:
    heading = "Receipt,Date,Branch,Total\n"
    rows = "".join(f"{1001 + place},{13 + place}/11/2026 10:05,Riverside,6{place}.50\n" for place in range(6))
    mapping = answered_mapping(tmp_path, heading + rows)
    export = written(tmp_path, heading + rows.replace("1003,", ","), "later.csv")
    found = imported("csv", export, mapping=mapping, today=TODAY)
    assert (len(found.bills), [row.line for row in found.rejected]) == (5, [4])


def test_a_shop_in_capitals_is_not_taken_for_another_shop(tmp_path: Path) -> None:
    heading = "Receipt,Date,Branch,Total\n"
    shops = ["Riverside", "Old Town"]
    rows = "".join(f"{1001 + place},{13 + place}/11/2026 10:05,{shops[place % 2]},6{place}.50\n" for place in range(6))
    mapping = answered_mapping(tmp_path, heading + rows)
    export = written(tmp_path, heading + rows.replace("Old Town", "OLD TOWN"), "later.csv")
    found = imported("csv", export, mapping=mapping, today=TODAY)
    assert len(found.bills) == 3
    assert 'has the shop "OLD TOWN", and the mapping "Old Town"' in found.rejected[0].detail
