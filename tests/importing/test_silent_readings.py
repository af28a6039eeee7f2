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
