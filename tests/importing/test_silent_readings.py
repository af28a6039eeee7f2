"""What a few bills, dates or rows may mean beside what most of them say is asked or refused, never read in silence."""

from pathlib import Path

import pytest

from counterfoil.importer.form import Form, Question
from counterfoil.importer.proposal import form
from importing.answering import TODAY, files_of
from importing.exports import imported
from importing.test_asked_exports import assert_questions

DAY = "2026-11-13"


def form_of(folder: Path, text: str, **answers: str) -> Form:
    return form(files_of({"bills": text}, folder), answers, today=TODAY)


def only_question(made: Form) -> Question:
    assert_questions(made)
    [question] = made.open
    return question


def nets_of(question: Question) -> dict[str, str]:
    return {option.answer: option.net for option in question.options}


def bills_of(numbers: list[str], heading: str = "", cells: list[str] | None = None) -> str:
    """Return bills with these numbers, of 10.50, 20.50 and so on, and perhaps another column."""
    rows = [f"Bill No,Date,Total{heading and ','}{heading}"]
    for place, number in enumerate(numbers):
        extra = f",{cells[place]}" if cells else ""
        rows.append(f"{number},{DAY} 1{place}:04,{place + 1}0.50{extra}")
    return "\n".join([*rows, ""])


# --- numbers with other letters -----------------------------------------------------------


@pytest.mark.parametrize(
    ("numbers", "probable"),
    [
        (["I1001", "I1002", "I1003", "I1004", "C1005", "I1006"], "refund"),
        (["1001", "1002", "1003", "1004", "V1005", "1006"], "void"),
        (["1001", "1002", "1003", "1004", "1005V", "1006"], "void"),
        (["A-1001", "A-1002", "A-1003", "A-1004", "1005", "A-1006"], "refund"),
        (["INV1", "INV2", "INV3", "INV4", "STO1", "INV5"], "refund"),
    ],
)
def test_a_number_with_letters_that_hardly_any_other_has_is_asked_about(
    numbers: list[str], probable: str, tmp_path: Path
) -> None:
    question = only_question(form_of(tmp_path, bills_of(numbers)))
    assert question.options[0].answer == probable
    nets = nets_of(question)
    assert nets["sale"] == "213.00"
    assert nets["void"] == "162.50"
    assert nets["refund"] == "112.00"


@pytest.mark.parametrize(
    "numbers",
    [
        ["A1001", "B1001", "A1002", "B1002", "A1003", "B1003"],
        ["A1001", "B1001", "A1002", "B1002", "A1003", "A1004"],
        ["1001", "1002A", "1002B", "1003", "1004", "1005"],
    ],
)
def test_letters_of_tills_and_of_parts_of_bills_ask_nothing(numbers: list[str], tmp_path: Path) -> None:
    assert not form_of(tmp_path, bills_of(numbers)).open


def test_letters_of_the_bills_of_a_platform_ask_nothing(tmp_path: Path) -> None:
    numbers = ["1001", "1002", "1003", "GF-267", "1004", "1005"]
    channels = ["Dine in", "Takeaway", "Dine in", "GrabFood", "Dine in", "Takeaway"]
    assert not form_of(tmp_path, bills_of(numbers, "Channel", channels)).open


# --- tests ------------------------------------------------------------------------------------


@pytest.mark.parametrize("heading", ["Customer", "Guest name", "Cashier", "Table", "Remarks", "Waiter"])
@pytest.mark.parametrize("test", ["TEST", "Test customer", "test 1", "ทดสอบ"])
def test_a_bill_of_a_test_is_asked_about(heading: str, test: str, tmp_path: Path) -> None:
    export = bills_of(["1001", "1002", "1003", "1004", "1005"], heading, ["Mali", "Nok", test, "Lek", "Ann"])
    nets = nets_of(only_question(form_of(tmp_path, export)))
    assert nets["skip"] == "122.00"
    assert nets["sale"] == "152.50"


@pytest.mark.parametrize("name", ["Testa", "Contessa", "Ernest", "Celeste"])
def test_a_name_with_the_letters_of_a_test_asks_nothing(name: str, tmp_path: Path) -> None:
    export = bills_of(["1001", "1002", "1003", "1004", "1005"], "Customer", ["Mali", "Nok", name, "Lek", "Ann"])
    assert not form_of(tmp_path, export).open


# --- days ---------------------------------------------------------------------------------------


def dated(days: list[str], clock: str = "12:0{place}") -> str:
    rows = [f"100{place},{day} {clock.format(place=place)},{place + 1}0.50" for place, day in enumerate(days)]
    return "\n".join(["Receipt,Date,Total", *rows, ""])


@pytest.mark.parametrize(
    ("days", "probable"),
    [
        # Months apart on one day of the month, or on following days.
        (["2026-02-11", "2026-03-11", "2026-04-11"], "ydm"),
        (["2026/02/11", "2026/03/11", "2026/04/11"], "ydm"),
        (["11.02.2026", "11.03.2026", "11.04.2026"], "mdy"),
        # In the future.
        (["2026-12-11", "2026-12-11"], "ydm"),
        (["11.12.2026", "11.12.2026"], "mdy"),
        # Out of the order of the rows.
        (["2026-12-10", "2026-01-11", "2026-02-11"], "ydm"),
        # Long ago, or two weeks ago.
        (["2026-02-11"], "ydm"),
    ],
)
def test_days_that_are_improbable_as_they_are_usually_written_are_asked_about(
    days: list[str], probable: str, tmp_path: Path
) -> None:
    question = only_question(form_of(tmp_path, dated(days)))
    assert question.id == "order"
    assert question.options[0].answer == probable
    for option in question.options:
        mapping = form_of(tmp_path, dated(days), order=option.answer).mapping
        times = [bill["closedAt"] for bill in imported("csv", tmp_path / "bills.csv", mapping=mapping).bills]
        assert option.first
        assert option.last
        assert (min(times)[:16], max(times)[:16]) == (option.first[:16], option.last[:16])
    first_days = {option.first for option in question.options}
    assert len(first_days) == 2


@pytest.mark.parametrize(
    "days",
    [
        ["2026-11-01", "2026-11-02", "2026-11-12"],
        ["2026-09-11", "2026-10-11", "2026-11-13"],
        ["2026-02-11T", "2026-03-11T", "2026-04-11T"],
        ["20260211", "20260311", "20260411"],
        ["2026-02-02", "2026-03-03"],
        ["2026-11-05"],
        ["2026-02-05"],
        ["01.11.2026", "02.11.2026", "12.11.2026"],
        ["11.02.2026", "11.03.2026", "28.03.2026"],
        ["05.11.2026"],
    ],
)
def test_days_that_are_probable_as_they_are_usually_written_ask_nothing(days: list[str], tmp_path: Path) -> None:
    export = dated(days).replace("T 12", "T12")
    made = form_of(tmp_path, export)
    assert not made.open
    assert made.totals


def test_a_day_beside_its_name_or_in_the_number_proves_the_order_behind_a_year(tmp_path: Path) -> None:
    rows = ["20261102-1,2026-02-11 12:00,10.50", "20261103-1,2026-03-11 12:00,20.50"]
    made = form_of(tmp_path, "\n".join(["Receipt,Date,Total", *rows, ""]))
    assert not made.open
    assert made.totals
    assert [day.day for day in made.totals.days] == ["2026-11-02", "2026-11-03"]
    assert "Dates are year, day, month: Receipt has the same days" in made.proven


def test_a_number_above_twelve_between_dots_shows_that_the_month_is_first(tmp_path: Path) -> None:
    made = form_of(tmp_path, dated(["11.12.2026", "11.13.2026", "11.14.2026"]))
    assert not made.open
    assert made.totals
    assert [day.day for day in made.totals.days] == ["2026-11-12", "2026-11-13", "2026-11-14"]


PLANNED = """Order No,{ordered},{planned},Total
1001,2026-11-12 12:04,2026-11-13 12:00,10.50
1002,2026-11-12 12:14,2026-11-14 12:00,20.50
1003,2026-11-13 13:04,2026-11-13 19:00,30.50
"""


@pytest.mark.parametrize("ordered", ["Created", "Created at", "Order date", "Ordered", "Placed at", "Bestelldatum"])
@pytest.mark.parametrize("planned", ["Scheduled for", "Delivery date", "Pickup time", "Promised", "Event date"])
def test_it_is_asked_whether_a_bill_is_of_the_day_of_its_order_or_of_its_delivery(
    ordered: str, planned: str, tmp_path: Path
) -> None:
    question = only_question(form_of(tmp_path, PLANNED.format(ordered=ordered, planned=planned)))
    assert {option.answer: option.last[:10] for option in question.options if option.last} == {
        ordered: "2026-11-13",
        planned: "2026-11-14",
    }


@pytest.mark.parametrize("other", ["Updated", "Payout date", "Printed", "Due date", "Exported"])
def test_days_on_which_nothing_was_sold_ask_nothing(other: str, tmp_path: Path) -> None:
    assert not form_of(tmp_path, PLANNED.format(ordered="Created", planned=other)).open


def test_a_time_of_closing_beside_those_of_order_and_delivery_asks_nothing(tmp_path: Path) -> None:
    export = PLANNED.format(ordered="Created", planned="Scheduled for")
    rows = [f"{row},2026-11-14 20:0{place}" for place, row in enumerate(export.splitlines())]
    made = form_of(tmp_path, "\n".join([f"{export.splitlines()[0]},Closed", *rows[1:], ""]))
    assert not made.open
    assert made.totals
    assert [day.day for day in made.totals.days] == ["2026-11-14"]


# --- bills that were perhaps not paid ---------------------------------------------------------------


def unpaid(heading: str, cells: list[str]) -> str:
    return bills_of([f"100{place}" for place in range(6)], heading, cells)


@pytest.mark.parametrize(
    ("heading", "cells"),
    [
        ("Payment", ["Cash", "Card", "", "Cash", "Card", "Cash"]),
        ("Payment method", ["Cash", "Card", "", "Cash", "Card", "Cash"]),
        ("Paid at", [f"{DAY} 1{place}:14" if place != 2 else "" for place in range(6)]),
        ("Closed", [f"{DAY} 1{place}:14" if place != 2 else "" for place in range(6)]),
    ],
)
def test_a_bill_that_alone_says_nothing_of_its_payment_is_asked_about(
    heading: str, cells: list[str], tmp_path: Path
) -> None:
    question = only_question(form_of(tmp_path, unpaid(heading, cells)))
    assert nets_of(question) == {"sale": "213.00", "skip": "182.50", "void": "182.50"}
    for answer, bills in (("sale", 6), ("skip", 5), ("void", 6)):
        made = form_of(tmp_path, unpaid(heading, cells), **{question.id: answer})
        found = imported("csv", tmp_path / "bills.csv", mapping=made.mapping)
        assert found.rejected == []
        assert len(found.bills) == bills
        assert [(left.bills, left.net) for left in made.left_out] == ([(1, "30.50")] if answer == "skip" else [])


@pytest.mark.parametrize(
    ("heading", "cells"),
    [
        ("Payment", ["Cash", "Card", "", "", "Card", "Cash"]),
        ("Payment", ["Cash", "", "", "", "", ""]),
        ("Status,Payment", ["Paid,Cash", "Paid,Card", "Paid,", "Paid,Cash", "Paid,Card", "Paid,Cash"]),
        ("Status,Payment", ["Paid,Cash", "Paid,Card", "Void,", "Paid,Cash", "Paid,Card", "Paid,Cash"]),
    ],
)
def test_a_column_that_is_often_empty_or_that_a_state_explains_asks_nothing(
    heading: str, cells: list[str], tmp_path: Path
) -> None:
    assert not form_of(tmp_path, unpaid(heading, cells)).open


# --- numbers that count, and that start again -----------------------------------------------------


@pytest.mark.parametrize("heading", ["Checks", "Orders", "Transactions", "Bills"])
def test_a_count_of_bills_is_not_taken_as_their_number(heading: str, tmp_path: Path) -> None:
    rows = ["2026-11-02,Lunch,31,217.50", "2026-11-02,Dinner,28,196.50", "2026-11-03,Lunch,44,308.50"]
    export = "\n".join([f"Date,Shift,{heading},Net Sales", *rows, ""])
    question = form_of(tmp_path, export).open[0]
    assert question.id == "counts"
    assert "Export a report with a row for each bill" in form_of(tmp_path, export, counts="count").advice
    assert "counts" not in [other.id for other in form_of(tmp_path, export, counts="bills").open]


def test_numbers_under_the_heading_of_a_count_are_those_of_bills_if_they_grow(tmp_path: Path) -> None:
    rows = ["1001,2026-11-02 12:00,17.50", "1002,2026-11-02 13:00,16.50", "1003,2026-11-03 12:00,38.50"]
    assert not form_of(tmp_path, "\n".join(["Checks,Date,Net Sales", *rows, ""])).open


@pytest.mark.parametrize("heading", ["Date", "Closed", "Closed at"])
@pytest.mark.parametrize("extra", ["", ",Payment"])
def test_the_only_bill_of_each_day_may_always_have_the_first_number(heading: str, extra: str, tmp_path: Path) -> None:
    cell = ",Cash" if extra else ""
    rows = [f"1001,2026-11-0{day} 12:04,{day}.50{cell}" for day in range(2, 6)]
    made = form_of(tmp_path, "\n".join([f"Bill No,{heading},Total{extra}", *rows, ""]))
    assert not made.open
    assert made.totals
    assert [(day.bills, day.net) for day in made.totals.days] == [(1, f"{day}.50") for day in range(2, 6)]


# --- bills that were returned, changed or given back ------------------------------------------------


@pytest.mark.parametrize("heading", ["Items", "Qty", "Item count", "Quantity"])
def test_a_negative_number_of_items_beside_a_positive_total_is_asked_about(heading: str, tmp_path: Path) -> None:
    numbers = ["1001", "1002", "1003", "1004"]
    question = only_question(form_of(tmp_path, bills_of(numbers, heading, ["2", "3", "-2", "4"])))
    assert nets_of(question) == {"refund": "41.00", "void": "71.50", "sale": "102.00"}
    mapping = form_of(tmp_path, bills_of(numbers, heading, ["2", "3", "-2", "4"]), **{question.id: "refund"}).mapping
    later = tmp_path / "later.csv"
    later.write_text(bills_of(numbers, heading, ["7", "-1", "8", "9"]), "utf-8")
    nets = [bill["amounts"]["net"] for bill in imported("csv", later, mapping=mapping).bills]
    assert nets == ["10.50", "-20.50", "30.50", "40.50"]


def test_a_negative_number_of_items_is_rejected_in_a_later_file_unless_the_total_is_negative_too(
    tmp_path: Path,
) -> None:
    numbers = ["1001", "1002", "1003", "1004"]
    mapping = form_of(tmp_path, bills_of(numbers, "Items", ["2", "3", "2", "4"])).mapping
    later = tmp_path / "later.csv"
    later.write_text(bills_of(numbers, "Items", ["7", "-1", "-8", "9"]).replace(",30.50,", ",-30.50,"), "utf-8")
    found = imported("csv", later, mapping=mapping)
    assert [bill["amounts"]["net"] for bill in found.bills] == ["10.50", "-30.50", "40.50"]
    assert "a negative number in the column" in found.rejected[0].detail


CHANGED = """Bill No,Date,Total,Payment
1001,2026-11-13 12:04,10.50,Cash
1002,2026-11-13 12:14,20.50,Card
{between}1002,2026-11-13 12:{minute},18.50,Card
1003,2026-11-13 13:04,30.50,Cash
"""


@pytest.mark.parametrize("minute", ["14", "44"])
@pytest.mark.parametrize("between", ["", "1005,2026-11-13 12:30,50.50,Card\n"])
def test_a_bill_that_was_printed_again_with_another_total_may_be_changed(
    minute: str, between: str, tmp_path: Path
) -> None:
    export = CHANGED.format(minute=minute, between=between)
    question = only_question(form_of(tmp_path, export))
    assert question.id == "together"
    assert {"one", "last"} <= set(nets_of(question))
    made = form_of(tmp_path, export, together="last")
    found = imported("csv", tmp_path / "bills.csv", mapping=made.mapping)
    nets = {bill["id"][-4:]: bill["amounts"]["net"] for bill in found.bills}
    assert nets["1002"] == "18.50"
    assert len(nets) == (4 if between else 3)
    assert [left.net for left in made.left_out] == ["20.50"]
    assert [row.reason for row in found.skipped] == ["a later row of the same bill replaces it"]


def credit_notes(heading: str, *amounts: str) -> str:
    kinds = ["Invoice", "Invoice", "Credit note", "Invoice"]
    rows = [f"100{place},{DAY} 1{place}:04,{kinds[place]},{cells}" for place, cells in enumerate(amounts)]
    return "\n".join([f"Bill No,Date,Type,{heading}", *rows, ""])


def test_a_discount_that_only_a_credit_note_has_is_proven_by_its_own_amounts(tmp_path: Path) -> None:
    amounts = ["100,0,7.00,107.00", "200,0,14.00,214.00", "100,10,6.30,96.30", "50,0,3.50,53.50"]
    made = form_of(tmp_path, credit_notes("Subtotal,Discount,VAT 7%,Total", *amounts))
    assert not made.open
    assert made.left_out == ()
    assert made.totals
    assert made.totals.net == "278.20"


def test_a_discount_that_only_a_credit_note_has_is_asked_about_if_nothing_shows_it(tmp_path: Path) -> None:
    export = credit_notes("Discount,Total", "0.00,10.00", "0.00,20.00", "5.00,25.00", "0.00,40.00")
    nets = nets_of(only_question(form_of(tmp_path, export)))
    assert nets["Total"] == "45.00"
    assert nets["Total - Discount"] == "50.00"
    made = form_of(tmp_path, export, net="Total")
    assert made.left_out == ()
    assert made.totals
    assert made.totals.net == "45.00"


LINE_TYPES = """Bill No,Date,Line Type,Item,Qty,Amount
1001,2026-11-13 12:04,Sale,Tea,1,10.50
1002,2026-11-13 12:14,Sale,Soup,2,20.50
1003,2026-11-13 13:04,Return,Soup,1,10.25
1004,2026-11-13 14:04,Sale,Tea,1,10.50
1004,2026-11-13 14:04,Return,Cake,1,5.50
"""


def test_lines_that_may_be_returned_with_positive_amounts_can_be_refused(tmp_path: Path) -> None:
    [question] = form_of(tmp_path, LINE_TYPES).open
    assert question.free
    assert "type refund" in question.text
    advice = form_of(tmp_path, LINE_TYPES, **{question.id: "refund"}).advice
    assert "Export what was returned with negative amounts" in advice


def test_an_id_on_all_rows_is_offered_if_that_of_online_orders_is_only_on_some(tmp_path: Path) -> None:
    rows = ["POS ID,Online order ID,Date,Total"]
    for place in range(6):
        online = f"W8{place * 7}13" if place % 2 else ""
        rows.append(f"{1001 + place},{online},{DAY} 1{place}:04,{place + 1}0.50")
    text = "\n".join([*rows, ""])
    question = form_of(tmp_path, text).open[0]
    assert question.text == "Which column has the number of a bill?"
    assert nets_of(question) == {"Online order ID": "121.50", "POS ID": "213.00"}
    made = form_of(tmp_path, text, bill="POS ID")
    assert made.totals is not None
    assert (made.totals.bills, made.totals.net) == (6, "213.00")
