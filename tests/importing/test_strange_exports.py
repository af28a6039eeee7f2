"""Exports with traps come in right, or end with a question, a refusal or a rejected row that names what is in doubt."""

import tomllib
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from counterfoil.importing.infer import propose
from counterfoil.importing.results import ImportFailed
from importing.exports import Outcome, imported, written
from importing.test_corpus import TODAY

EXPORTS = tomllib.loads((Path(__file__).parent / "strange_exports.toml").read_text("utf-8"))["export"]


@pytest.mark.parametrize("export", EXPORTS, ids=lambda export: export["name"])
def test_an_export_with_a_trap_is_right_or_asked_about(export: dict[str, Any], tmp_path: Path) -> None:
    assert ending(export, tmp_path) == export.get("days", export.get("asks"))


@pytest.mark.parametrize("export", [one for one in EXPORTS if "later" in one], ids=lambda export: export["name"])
def test_what_the_sample_did_not_have_is_right_or_rejected_in_a_later_file(
    export: dict[str, Any], tmp_path: Path
) -> None:
    sample = written(tmp_path, export["bills"], "bills.csv")
    mapping = propose([sample], [], [], None, today=TODAY, answers=export.get("answers")).text()
    found = imported("csv", written(tmp_path, export["later"], "later.csv"), mapping=mapping)
    assert ("rejected" if found.rejected else days_of(found)) == export.get("laterDays", "rejected")
    assert export.get("laterSays", "") in " ".join(one.detail for one in found.rejected)


@pytest.mark.parametrize("export", [one for one in EXPORTS if {"tip", "tax"} & {*one}], ids=lambda one: one["name"])
def test_a_tip_or_a_tax_is_that_of_the_bills(export: dict[str, Any], tmp_path: Path) -> None:
    sample, amount = written(tmp_path, export["bills"], "bills.csv"), "tip" if "tip" in export else "vat"
    mapping = propose([sample], [], [], None, today=TODAY, answers=export.get("answers")).text()
    found = imported("csv", sample, mapping=mapping)
    expected = Decimal(export["tip"] if amount == "tip" else export["tax"])
    assert sum(Decimal(bill["amounts"][amount]) for bill in found.bills) == expected
    assert any(line.get("tip") for bill in found.bills for line in bill.get("lines", ())) == ("tip" in export)


@pytest.mark.parametrize("export", [one for one in EXPORTS if "times" in one], ids=lambda export: export["name"])
def test_the_time_of_a_bill_is_the_one_that_its_values_show(export: dict[str, Any], tmp_path: Path) -> None:
    sample = written(tmp_path, export["bills"], "bills.csv")
    mapping = propose([sample], [], [], None, today=TODAY, answers=export.get("answers")).text()
    times = [bill["closedAt"][11:] for bill in imported("csv", sample, mapping=mapping).bills]
    assert [time[:5] + time[8:] for time in times] == export["times"]


def ending(export: dict[str, Any], folder: Path) -> object:
    """Return the bills and the net of each day or, if the export is asked about, what the test expects to be named."""
    bills = written(folder, export["bills"], "bills.csv")
    payments = [written(folder, export["payments"], "payments.csv")] if "payments" in export else []
    try:
        proposal = propose([bills], [], payments, None, today=TODAY, answers=export.get("answers"))
        if proposal.questions:
            with pytest.raises(ImportFailed, match="is not decided"):
                imported("csv", bills, payments=tuple(payments), mapping=proposal.text())
            return named(export, " ".join(f"{one.text} {one.choices}" for one in proposal.questions))
        found = imported("csv", bills, payments=tuple(payments), mapping=proposal.text())
    except ImportFailed as error:
        return named(export, str(error))
    return named(export, " ".join(one.detail for one in found.rejected)) if found.rejected else days_of(found)


def days_of(found: Outcome) -> dict[str, list[Any]]:
    days: dict[str, list[Any]] = defaultdict(lambda: [0, Decimal()])
    for bill in found.bills:
        days[bill["closedAt"][:10]][0] += 1
        days[bill["closedAt"][:10]][1] += 0 if bill.get("void") else Decimal(bill["amounts"]["net"])
    return {day: [count, str(net)] for day, (count, net) in days.items()}


def named(export: dict[str, Any], text: str) -> str:
    asks = str(export.get("asks", "nothing"))
    return asks if asks in text else text


MARKS = [
    ("Training", "N", "Y"),
    ("Mode", "N", "T"),
    ("Is test", "FALSE", "TRUE"),
    ("Demo order", "0", "1"),
    ("Comp", "No", "Yes"),
    ("Staff meal", "N", "Y"),
    ("Event", "Sale", "Paid out"),
    ("Document", "INV", "CN"),
    ("Source", "POS", "Cash drop"),
]


@pytest.mark.parametrize(("heading", "usual", "mark"), MARKS, ids=lambda text: text)
def test_a_column_of_a_few_codes_may_say_that_a_bill_does_not_count(
    heading: str, usual: str, mark: str, tmp_path: Path
) -> None:
    rows = [f"100{number},13/11/2026 1{number}:00,10,Cash,Paid,{usual}\n" for number in range(5)]
    rows[3] = rows[3].replace(f"{usual}\n", f"{mark}\n")
    export = {"bills": "".join([f"Receipt,Date,Total,Payment,Status,{heading}\n", *rows]), "asks": heading}
    assert ending(export, tmp_path) == heading
    for meaning, net in (("sale", "50"), ("skip", "40"), ("refund", "30")):
        words = (
            {f"status.{usual}": "sale", f"status.{mark}": meaning}
            if mark in ("T", "CN", "Paid out", "Cash drop")
            else {f"status.{heading}": meaning}
        )
        days = {"2026-11-13": [4 if meaning == "skip" else 5, net]}
        assert ending({**export, "answers": words}, tmp_path) == days


@pytest.mark.parametrize(
    ("heading", "values"),
    [
        ("Shift", "Lunch Dinner"),
        ("Zone", "A B"),
        ("Server", "Mali Nok"),
        ("Ordered", "Takeaway Delivery"),
        ("Seats", "1 2"),
        ("Area", "Patio Bar"),
        ("Kind", "SALE SALE"),
        ("Имя кассира", "Mali Nok"),
        ("その他の支払い方法", "¥0 ¥0"),
        ("ギフトカード売上", "¥0 ¥0"),
        ("Payment", "RLP Рубли"),
        ("State", "Geschlossen Billed"),
        ("Trạng thái", "Đã_đóng Confirmed"),
    ],
)
def test_names_of_people_places_and_channels_need_no_answer(heading: str, values: str, tmp_path: Path) -> None:
    rows = [
        f"100{number},13/11/2026 1{number}:00,10,Paid,{values.split()[number % 2].replace('_', ' ')}\n"
        for number in range(6)
    ]
    export = {"bills": "".join([f"Receipt,Date,Total,Status,{heading}\n", *rows])}
    assert ending(export, tmp_path) == {"2026-11-13": [6, "60"]}


@pytest.mark.parametrize(
    "name",
    ["Discount", "Rabatt", "Amount due", "Wechselgeld", "Tiền thối", "Petty cash", "Training", "Cash out", "お釣り"],
)
def test_a_row_of_a_bill_that_is_no_item_is_asked_about_and_rejected_later(name: str, tmp_path: Path) -> None:
    heading, items = "Check,Date,Item,Qty,Price,Amount\n", ""
    for number in range(4):
        items += f"100{number},13/11/2026 1{number}:00,Burger,1,12.50,12.50\n"
        items += f"100{number},13/11/2026 1{number}:00,Fries,{number + 1},4.00,{4 * number + 4}.00\n"
    extra = f"1003,13/11/2026 13:00,{name},1,5.00,5.00\n"
    assert ending({"bills": heading + items + extra, "asks": f"Item has {name}"}, tmp_path) == f"Item has {name}"
    mapping = propose([written(tmp_path, heading + items)], [], [], None, today=TODAY).text()
    assert imported("csv", written(tmp_path, heading + extra), mapping=mapping).rejected != []


@pytest.mark.parametrize("left", ["Payout", "Net Payable", "Amount Due", "Bank deposit"])
@pytest.mark.parametrize(
    "kept",
    ["Uber Service Fee", "Service Charge", "Delivery Fee", "Servicegebühr", "サービス料", "VAT", "Withholding Tax"],
)
def test_what_a_platform_keeps_is_not_taken_off_what_the_customer_paid(kept: str, left: str, tmp_path: Path) -> None:
    rows = [f"100{number},13/11/2026 1{number}:00,{number + 10}.00,-3.15,{number + 6}.85\n" for number in range(5)]
    export = {"bills": "".join([f"Order ID,Date,Total,{kept},{left}\n", *rows])}
    assert ending(export, tmp_path) == {"2026-11-13": [5, "60.00"]}
    mapping = tomllib.loads(propose([tmp_path / "bills.csv"], [], [], None, today=TODAY).text())
    assert mapping["bill"]["amounts"] == {"net": "Total"}


@pytest.mark.parametrize(
    ("heading", "entry"),
    [(name, "tip") for name in ("CHARGETIPS", "TIPAMOUNT", "Trinkgeldbetrag", "Server Tip", "Tip (Card)")]
    + [(name, "vat") for name in ("TAXAMT", "SALESTAX", "Total Taxes", "total_taxes", "Mehrwertsteuerbetrag")],
)
def test_a_tip_or_tax_in_the_total_is_named_whatever_words_are_glued_to_it(
    heading: str, entry: str, tmp_path: Path
) -> None:
    answers = {"bill.amounts.net": f"TOTAL + {heading}"}
    assert amounts_with(heading, answers, tmp_path) == {"net": {"add": ["TOTAL", heading]}, entry: heading}


def amounts_with(heading: str, answers: dict[str, str], folder: Path) -> Any:
    """Return how the amounts of bills with a total and another column of numbers are read."""
    rows = [f"100{number},13/11/2026 1{number}:00,{number + 10}.00,{number % 3}.35\n" for number in range(5)]
    bills = written(folder, "".join([f"Order ID,Date,TOTAL,{heading}\n", *rows]), "bills.csv")
    return tomllib.loads(propose([bills], [], [], None, today=TODAY, answers=answers).text())["bill"]["amounts"]


def test_a_column_can_be_named_as_the_tip_or_the_tax(tmp_path: Path) -> None:
    answers = {"bill.amounts.net": "TOTAL + Extra", "bill.amounts.tip": "Extra"}
    assert amounts_with("Extra", answers, tmp_path)["tip"] == "Extra"
    answers = {"bill.amounts.net": "TOTAL", "bill.amounts.vat": "Extra"}
    assert amounts_with("Extra", answers, tmp_path) == {"net": "TOTAL", "vat": "Extra"}
    for column in ("Nothing", "Date"):
        with pytest.raises(ImportFailed, match=f"bill.amounts.tip: {column}"):
            amounts_with("Extra", {"bill.amounts.tip": column}, tmp_path)


def test_the_zone_and_the_columns_that_join_files_can_be_named(tmp_path: Path) -> None:
    bills = written(tmp_path, "Order ID,Date,Time zone,Total\n1001,2026-11-13 12:00,Heure de l'Est,5.00\n", "bills.csv")
    lines = written(tmp_path, "Belongs to,Item,Qty,Price\n1001,Tea,1,5.00\n1002,Tea,1,5.00\n", "lines.csv")
    answers = {"shop.timezone": "America/Toronto", "line.key": "Belongs to"}
    proposal = propose([bills], [lines], [], None, today=TODAY, answers=answers)
    mapping = tomllib.loads(proposal.text())
    assert (mapping["shop"]["timezone"], mapping["line"]["key"]) == ("America/Toronto", "Belongs to")
    assert "timezone" not in mapping["bill"]
    asked = propose([bills], [lines], [], None, today=TODAY).questions
    assert {one.entry: one.choices for one in asked} == {"shop.timezone": (), "line.key": ("Belongs to",)}
    for entry, wrong in (("shop.timezone", "Nowhere"), ("line.key", "Nothing")):
        with pytest.raises(ImportFailed, match=wrong):
            propose([bills], [lines], [], None, today=TODAY, answers={**answers, entry: wrong})


@pytest.mark.parametrize("export", [one for one in EXPORTS if "asks" in one], ids=lambda export: export["name"])
def test_no_answer_that_is_offered_is_refused_when_it_is_given(export: dict[str, Any], tmp_path: Path) -> None:
    bills = written(tmp_path, export["bills"], "bills.csv")
    payments = [written(tmp_path, export["payments"], "payments.csv")] if "payments" in export else []
    answers = export.get("answers", {})
    try:
        questions = propose([bills], [], payments, None, today=TODAY, answers=answers).questions
    except ImportFailed:
        return
    for question in questions:
        for choice in question.choices:
            given = {**answers, question.name or question.entry: choice}
            propose([bills], [], payments, None, today=TODAY, answers=given)
