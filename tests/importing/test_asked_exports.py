"""Without an answer, an export is right or asked about, never wrong; with the right answers, it is right."""

import tomllib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from counterfoil.importer.form import MOST_OPTIONS, Form, FormFiles
from counterfoil.importer.proposal import form
from counterfoil.importing.mapping import parse_mapping
from importing.answering import TODAY, Ending, answered, files_of, without_answers
from importing.export_corpus import STYLES, Style, expected, figures, write
from importing.exports import Outcome, imported

FOLDER = Path(__file__).parent
LONGEST_OPTION = 100
ASKED = tomllib.loads((FOLDER / "asked_exports.toml").read_text("utf-8"))["export"]
STRANGE = tomllib.loads((FOLDER / "strange_exports.toml").read_text("utf-8"))["export"]
# An answer about a word that only later files have cannot be given: its bills are rejected.
LATER = [one for one in STRANGE if "later" in one and "later files have" not in one["name"]]
PROVEN = {
    # These were asked about, or refused, and are proven now.
    "typed rows": {"2026-11-13": [2, "107.00"]},
    "cancelled qty column": {"2026-11-13": [2, "180"]},
    "typed rows with qty": {"2026-11-13": [2, "140"]},
    "payment rows as items": {"2026-11-13": [3, "220"]},
    "payments rows with total, no time": {"2026-11-13": [2, "170"]},
    "payments among the items that only their amounts show": {"2026-11-13": [3, "320.50"]},
    "one line per bill": {"2026-11-13": [3, "170"]},
    "one line per bill, total": {"2026-11-13": [3, "170"]},
    "cashier shift rows": {"2026-11-13": [3, "150"]},
    "hash totals": {"2026-11-13": [2, "100"]},
    "payments of a bill of which one was declined": {"2026-11-13": [2, "65.00"]},
    "tips that only the payments have": {"2026-11-13": [2, "170.50"], "2026-11-14": [1, "90.60"]},
}
REFUSED_ANSWERS = {
    # The same files with an answer that was refused are right without it.
    "an answer about a value that says nothing about bills": {"2026-11-13": [2, "41.50"]},
    "an answer without the tips that only the payments have": {"2026-11-13": [2, "170.50"], "2026-11-14": [1, "90.60"]},
    "an answer that amounts with decimals are cents": {"2026-11-13": [3, "254.00"]},
    "an answer without a tip that an unknown column has": {"2026-11-02": [6, "206.58"]},
}
OVERRULED = {
    # An answer that says something else than the headings is a mapping that a person writes.
    "an answer that no other amounts contradict": {"2026-10-31": [2, "100"]}
}
Days = Mapping[str, list[Any]]
# `make test` tries one in so many of the strange exports with all their answers, and `make test-long` all of them.
TRIED_FIRST = 4


def in_portions(exports: list[dict[str, Any]]) -> list[Any]:
    """Return the exports as parameters of a test: most of them are only tried by `make test-long`."""
    return [
        pytest.param(export, id=export["name"], marks=[pytest.mark.long] if place % TRIED_FIRST else [])
        for place, export in enumerate(exports)
    ]


def known_days(export: Mapping[str, Any]) -> list[Days]:
    """Return the bills and the net of each day of the same file, as far as one of its tests knows them."""
    for table in (PROVEN, REFUSED_ANSWERS, OVERRULED):
        if export["name"] in table:
            return [table[export["name"]]]
    return [{str(day): found for day, found in one["days"].items()} for one in same_file(export) if "days" in one]


def same_file(export: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the strange exports with the same rows. Some of them have answers."""
    rows = (export["bills"], export.get("payments"))
    return [one for one in STRANGE if (one["bills"], one.get("payments")) == rows]


def free_answers(export: Mapping[str, Any]) -> dict[str, str]:
    """Return what a person typed about the net of the same file, which no option may have."""
    for one in same_file(export):
        if net := one.get("answers", {}).get("bill.amounts.net"):
            return {"net": net}
    return {}


def has_days(found: Outcome, days: Days) -> bool:
    sums: dict[str, list[Any]] = {}
    for bill in found.bills:
        counts = sums.setdefault(bill["closedAt"][:10], [0, Decimal()])
        counts[0] += 1
        counts[1] += 0 if bill.get("void") else Decimal(bill["amounts"]["net"])
    return sums == {day: [count, Decimal(net)] for day, (count, net) in days.items()}


def is_any_of(known: list[Days]) -> Any:
    return lambda found: any(has_days(found, days) for days in known)


@pytest.mark.parametrize("export", in_portions(STRANGE))
def test_a_strange_export_is_right_or_asked_about_and_right_once_answered(
    export: dict[str, Any], tmp_path: Path
) -> None:
    files, known = files_of(export, tmp_path), known_days(export)
    ending = without_answers(files, is_any_of(known))
    if not known:
        assert ending.how in ("asked", "refused", "rejected"), ending
        return
    if ending.how == "asked":
        assert_questions(ending.form)
        ending = answered(files, is_any_of(known), free_answers(export))
    assert ending.how == "right", ending


@pytest.mark.parametrize("export", in_portions(LATER))
def test_what_the_sample_did_not_have_is_right_or_rejected_in_a_later_file(
    export: dict[str, Any], tmp_path: Path
) -> None:
    ending = answered(files_of(export, tmp_path), is_any_of(known_days(export)), free_answers(export))
    assert ending.how == "right", ending
    later = tmp_path / "later.csv"
    later.write_text(export["later"], "utf-8")
    found = imported("csv", later, mapping=ending.form.mapping)
    days = {str(day): counts for day, counts in export.get("laterDays", {}).items()}
    assert has_days(found, days) if days else found.rejected


@pytest.mark.parametrize("export", ASKED, ids=lambda export: export["name"])
def test_a_word_asks_at_most_and_sums_prove(export: dict[str, Any], tmp_path: Path) -> None:
    files, days = files_of(export, tmp_path), {str(day): found for day, found in export["days"].items()}
    ending = without_answers(files, is_any_of([days]))
    asked = ending.form.open[0].id if ending.form.open else None
    assert asked == export.get("asks"), ending
    if asked:
        assert_questions(ending.form)
        ending = answered(files, is_any_of([days]))
    assert ending.how == "right", ending


def test_the_corpus_has_many_styles_with_names_of_their_own() -> None:
    assert len({style.name for style in STYLES}) == len(STYLES) >= 30


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.name)
def test_each_style_of_the_corpus_is_right_or_asked_about(style: Style, tmp_path: Path) -> None:
    bills, lines, payments = write(style, tmp_path)
    files = FormFiles(tuple(bills), tuple(lines), tuple(payments))

    def is_right(found: Outcome) -> bool:
        return figures(style, found) == expected(style)

    ending = without_answers(files, is_right)
    assert ending.how in ("right", "asked", "refused"), ending
    if ending.how == "asked":
        assert_questions(ending.form)
        assert answered(files, is_right).how == "right"


def assert_questions(found: Form) -> None:
    """Check that each question has few short options, with an example each, that differ in what they lead to.

    A single option is only left where another answer can be typed, and the question says which.
    """
    for question in found.open:
        assert " on 0 of " not in question.text
        assert 0 < len(question.options) <= MOST_OPTIONS
        assert len(question.options) > 1 or (question.free and ", type " in question.text), question
        results = set()
        for option in question.options:
            assert option.net
            assert option.example.startswith("bill ")
            assert len(option.text) <= LONGEST_OPTION
            results.add((option.bills, option.net, option.left_out, option.example))
        # What belongs to a bill, such as its payments, is in no record that is compared.
        is_of_other_file = question.id.partition(".")[0] in ("lines", "payments")
        assert is_of_other_file or len(results) == len(question.options), question


def test_the_same_export_and_answers_give_the_same_form(tmp_path: Path) -> None:
    files = files_of(ASKED[0], tmp_path)
    assert form(files, {}, today=TODAY) == form(files, {}, today=TODAY)


def test_an_answer_that_was_not_asked_for_or_that_sums_refute_is_refused(tmp_path: Path) -> None:
    files = files_of(
        {"bills": "Bill,Date,Subtotal,Tax,Total\n1,2026-11-13 10:00,100,7,107\n2,2026-11-13 11:00,50,3.50,53.50\n"},
        tmp_path,
    )
    found = form(files, {"colour": "red", "net": "Subtotal"}, today=TODAY)
    assert [(one.id, one.answer) for one in found.refused] == [("net", "Subtotal"), ("colour", "red")]
    assert not found.is_complete
    assert found.mapping == ""


def test_what_is_left_out_is_named_with_its_money(tmp_path: Path) -> None:
    bills = "Receipt,Date,Total,Status\n1,2026-11-13 10:00,60.00,Paid\n2,2026-11-13 11:00,43.05,Parked\n"
    found = form(files_of({"bills": bills}, tmp_path), {}, today=TODAY)
    answered_form = form(files_of({"bills": bills}, tmp_path), {"state.Status": "skip"}, today=TODAY)
    for one in (found, answered_form):
        if one.is_complete:
            assert [(left.bills, left.net, left.reason) for left in one.left_out] == [(1, "43.05", "Status is Parked")]


def test_a_bill_whose_time_is_missing_is_rejected_and_not_left_out_in_silence(tmp_path: Path) -> None:
    rows = "1,2026-11-13 10:00,60.00\n2,,43.05\n3,2026-11-13 11:00,20.00\n"
    files = files_of({"bills": f"Receipt,Date,Total\n{rows}"}, tmp_path)
    found = form(files, {}, today=TODAY)
    assert [(left.bills, left.net, left.reason) for left in found.left_out] == [
        (1, "43.05", "the row has no bill time: line 3")
    ]
    assert [row.line for row in imported("csv", *files.bills, mapping=found.mapping).rejected] == [3]


@pytest.mark.parametrize("day", ["13/11/2026", "2026-11-13"])
def test_days_in_rows_of_their_own_are_refused_by_their_line(tmp_path: Path, day: str) -> None:
    bills = f"Bill No,Time,Total,Payment\n{day},,,\n1,18:05,107.00,Cash\n2,18:15,53.50,Card\n"
    found = form(files_of({"bills": bills}, tmp_path), {}, today=TODAY)
    assert found.advice.endswith("above the bills, as on line 2. Export a report with the day on each row.")


@pytest.mark.parametrize(("order", "last"), [("mdy", "2026-05-04"), ("dmy", "2026-04-05")])
def test_days_are_those_that_a_person_says_whether_or_not_others_are_nearer(
    tmp_path: Path, order: str, last: str
) -> None:
    rows = "".join(f"{day},0{day}/04/2026 10:00,60.00\n" for day in (3, 4, 5))
    files = files_of({"bills": f"Receipt,Date,Total\n{rows}"}, tmp_path)
    mapping = form(files, {"order": order}, today=TODAY).mapping
    assert imported("csv", *files.bills, mapping=mapping).bills[-1]["closedAt"][:10] == last


def test_a_question_shows_its_values_and_options_with_their_money(tmp_path: Path) -> None:
    found = form(files_of(ASKED[0], tmp_path), {}, today=TODAY)
    question = found.open[0]
    assert question.example.splitlines() == [
        "Paid     3 bills  423.73  1001, 1003, 1005",
        "Pending  3 bills  999.82  1002, 1004, 1006",
    ]
    nets = {option.answer: (option.bills, option.net, option.left_out.net) for option in question.options}
    assert nets["sale"] == (6, "1423.55", "0.00")
    assert nets["skip"] == (3, "423.73", "999.82")
    assert question.options[0].first == "2026-04-03T18:05:00+07:00"


def test_the_rarer_of_two_unknown_values_is_offered_alone(tmp_path: Path) -> None:
    [export] = [one for one in ASKED if one["name"] == "a kind of bill under a heading that no word explains"]
    question = form(files_of(export, tmp_path), {}, today=TODAY).open[0]
    assert {option.answer: (option.text, option.net) for option in question.options if option.answer != "each"} == {
        "skip": ("Training was not sold: leave out", "132.50"),
        "sale": ("Nothing: all were sold", "193.00"),
        "void": ("Training was cancelled: void", "132.50"),
    }


def test_a_question_about_money_shows_one_bill(tmp_path: Path) -> None:
    bills = "Order,Date,Total,Tip\n1,2026-11-13 10:00,60.00,0\n2,2026-11-13 11:00,40.00,5.00\n"
    question = form(files_of({"bills": bills}, tmp_path), {}, today=TODAY).open[0]
    assert {option.answer: option.example for option in question.options} == {
        "Total": "bill 2: 40.00",
        "Total + Tip": "bill 2: 40.00 + 5.00 = 45.00",
    }


def test_a_tip_that_no_total_has_is_asked_about_and_is_no_tip_if_the_customer_did_not_pay_it(tmp_path: Path) -> None:
    [export] = [one for one in ASKED if one["name"] == "a tip that no total has"]
    files = files_of(export, tmp_path)
    question = form(files, {}, today=TODAY).open[0]
    assert question.text == "“Tip” is not in Total (2 bills, 27.00). Did the customer pay it on top?"
    assert question.default is None
    assert [(option.text, option.net, option.example) for option in question.options] == [
        ("Yes", "348.00", "bill 1: 107.00 + 20.00 = 127.00"),
        ("No", "321.00", "bill 1: 107.00"),
    ]
    for answer, tips in (("Total + Tip", ["20.00", "0.00", "7.00"]), ("Total", [None, None, None])):
        found = form(files, {"net": answer}, today=TODAY)
        assert found.refused == ()
        bills = imported("csv", *files.bills, mapping=found.mapping).bills
        assert [bill["amounts"].get("tip") for bill in bills] == tips


def test_bills_with_the_prefix_of_a_credit_note_are_asked_about_and_another_prefix_is_rejected(tmp_path: Path) -> None:
    [export] = [one for one in ASKED if one["name"] == "credit notes that only their numbers show"]
    files = files_of(export, tmp_path)
    question = form(files, {}, today=TODAY).open[0]
    assert question.text == "Are bills such as CN1003 refunds?"
    assert {option.answer: (option.net, option.example) for option in question.options} == {
        "refund": ("140.00", "bill CN1003: -30.00 on 2026-11-13 12:03"),
        "sale": ("200.00", "bill CN1003: 30.00 on 2026-11-13 12:03"),
        "void": ("170.00", "bill CN1003: void on 2026-11-13 12:03"),
    }
    mapping = form(files, {"prefix": "refund"}, today=TODAY).mapping
    later = tmp_path / "later.csv"
    rows = "IN1005,2026-11-14 12:01,93.46,6.54,100.00\nCN1006,2026-11-14 12:02,28.04,1.96,30.00\n"
    later.write_text(f"Receipt,Date,Subtotal,VAT,Total\n{rows}DN1007,2026-11-14 12:03,46.73,3.27,50.00\n", "utf-8")
    found = imported("csv", later, mapping=mapping)
    assert [bill["amounts"]["net"] for bill in found.bills] == ["100.00", "-30.00"]
    assert "DN" in found.rejected[0].detail


def test_an_expression_can_be_typed_that_no_option_has(tmp_path: Path) -> None:
    rows = (
        "1,2026-11-13 10:00,Tea,2,3.00,7.00\n1,2026-11-13 10:00,Pie,1,4.00,5.00\n2,2026-11-13 11:00,Tea,1,3.00,4.00\n"
    )
    files = files_of({"bills": f"Bill,Date,Item,Quantity,Product Price,Amount\n{rows}"}, tmp_path)
    found = form(files, {"net": "sum of Quantity × Product Price"}, today=TODAY)
    assert [one.reason for one in found.refused] == []
    assert found.totals is not None
    assert found.totals.net == "13.00"


def test_facts_of_new_shops_have_defaults_and_are_named_as_assumed(tmp_path: Path) -> None:
    bills = "Receipt,Date,Branch,Total\n1,2026-11-13 10:00,A,60.00\n2,2026-11-14 01:30,B,43.05\n"
    found = form(files_of({"bills": bills}, tmp_path), {}, today=TODAY)
    facts = {question.id: question.default for question in found.questions}
    assert facts == {"timezone": "Asia/Bangkok", "franchise": "my-group", "closing": "05:00"}
    assert len(found.assumed) == 4
    answers = {"timezone": "Asia/Jakarta", "franchise": "noodles", "closing": "03:00"}
    mapping = parse_mapping(
        tomllib.loads(form(files_of({"bills": bills}, tmp_path), answers, today=TODAY).mapping), "mapping.toml"
    )
    facts = {"timezone": "Asia/Jakarta", "franchiseId": "noodles", "closingTime": "03:00"}
    assert [shop.items() >= facts.items() for shop in mapping.shops] == [True, True]


def test_the_mapping_keeps_the_answers_and_what_was_accepted(tmp_path: Path) -> None:
    ending: Ending = answered(
        files_of(ASKED[0], tmp_path), is_any_of([{str(day): found for day, found in ASKED[0]["days"].items()}])
    )
    checked = parse_mapping(tomllib.loads(ending.form.mapping), "mapping.toml")
    assert checked.answers == ending.answers
    assert (checked.accepted.bills, checked.accepted.net) == (6, "1423.55")
