"""An export of which few bills would be loaded is asked about or refused, and a counter of rows is no money."""

from pathlib import Path

import pytest

from counterfoil.importer.form import Form
from counterfoil.importer.proposal import form
from importing.answering import TODAY, files_of

DAY = "2026-11-13"


def form_of(folder: Path, text: str, **answers: str) -> Form:
    return form(files_of({"bills": text}, folder), answers, today=TODAY)


def bills_of(heading: str, cells: list[str]) -> str:
    """Return bills of 10.50, 20.50 and so on, with another column."""
    rows = [f"Receipt,Date,Total,{heading}"]
    for place, cell in enumerate(cells):
        rows.append(f"{1001 + place},{DAY} 1{place}:04,{place + 1}0.50,{cell}")
    return "\n".join([*rows, ""])


@pytest.mark.parametrize("heading", ["Financial Status", "Payout Status", "Remark"])
def test_a_doubtful_word_on_all_bills_is_asked_about(heading: str, tmp_path: Path) -> None:
    text = bills_of(heading, ["pending", "pending", "pending"])
    [question] = form_of(tmp_path, text).open
    nets = {option.answer: option.net for option in question.options}
    assert nets == {"skip": "0.00", "sale": "61.50", "void": "0.00", "refund": "-61.50"}
    sold = form_of(tmp_path, text, **{f"state.{heading}": "sale"})
    assert sold.totals is not None
    assert (sold.totals.bills, sold.totals.net) == (3, "61.50")


def test_all_sold_is_offered_if_two_columns_say_pending(tmp_path: Path) -> None:
    text = bills_of("Financial Status,Delivery Status", ["pending,pending"] * 3)
    question = form_of(tmp_path, text).open[0]
    nets = {option.answer: option.net for option in question.options}
    assert nets["sale"] == "61.50"


def test_an_answer_that_leaves_out_all_bills_is_no_complete_form(tmp_path: Path) -> None:
    text = bills_of("Financial Status", ["pending", "pending", "pending"])
    found = form_of(tmp_path, text, **{"state.Financial Status": "skip"})
    assert not found.is_complete
    assert found.advice.startswith("No bill is left to load: Financial Status is pending.")
    assert (found.mapping, found.totals) == ("", None)


def test_a_listed_state_that_leaves_out_most_bills_is_asked_about(tmp_path: Path) -> None:
    found = form_of(tmp_path, bills_of("Status", ["Paid", "Pending", "Pending"]))
    assert [question.id for question in found.open] == ["state.Status"]
    few = form_of(tmp_path, bills_of("Status", ["Paid", "Paid", "Pending"]))
    assert few.is_complete


def test_most_bills_that_cannot_be_read_are_refused_with_the_first_row(tmp_path: Path) -> None:
    found = form_of(tmp_path, f"Receipt,Date,Total\n1,{DAY} 10:00,60.00\n2,,43.05\n3,,20.00\n")
    assert not found.is_complete
    assert found.advice == (
        "2 of 3 bills cannot be read, and what is left would not be the sales. The first one is on line 3 of "
        "bills.csv, which has no bill time (closedAt). Correct the export, or export another report."
    )


# --- counters of rows ---------------------------------------------------------------------


@pytest.mark.parametrize("heading", ["", "Unnamed: 0", "column 1", "index"])
@pytest.mark.parametrize(
    "counters",
    [
        ["0", "1", "2", "3", "4", "5"],
        ["5", "3", "4", "0", "2", "1"],
        ["0", "1", "2", "0", "1", "2"],
        ["12", "80", "95", "230", "231", "400"],
    ],
)
def test_a_counter_of_rows_without_heading_is_not_offered_as_money(
    heading: str, counters: list[str], tmp_path: Path
) -> None:
    rows = [f"{heading},Order,Date,Total Spent,Extra"]
    for place, counter in enumerate(counters):
        rows.append(f"{counter},A{place},{DAY} 1{place}:04,{place + 1}0.50,{place % 2}.25")
    [question] = form_of(tmp_path, "\n".join([*rows, ""])).open
    assert {option.answer for option in question.options} == {
        "Total Spent",
        "Total Spent + Extra",
        "Total Spent - Extra",
    }
