"""Columns and rows with traps: a few codes, names, rows that are no items, and what a platform keeps."""

import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from counterfoil.importer.form import Form
from counterfoil.importer.proposal import form
from importing.answering import TODAY, answered, files_of, without_answers
from importing.exports import Outcome, imported
from importing.test_asked_exports import STRANGE, free_answers, has_days, is_any_of, known_days


def outcome_of(export: dict[str, Any], folder: Path) -> Outcome:
    """Return what a strange export becomes once it is answered."""
    files = files_of(export, folder)
    ending = answered(files, is_any_of(known_days(export)), free_answers(export))
    assert ending.how == "right", ending
    return imported("csv", *files.bills, payments=files.payments, mapping=ending.form.mapping)


@pytest.mark.parametrize("export", [one for one in STRANGE if {"tip", "tax"} & {*one}], ids=lambda one: one["name"])
def test_a_tip_or_a_tax_is_that_of_the_bills(export: dict[str, Any], tmp_path: Path) -> None:
    amount = "tip" if "tip" in export else "vat"
    bills = outcome_of(export, tmp_path).bills
    expected = Decimal(export["tip"] if amount == "tip" else export["tax"])
    assert sum(Decimal(bill["amounts"][amount]) for bill in bills) == expected
    assert any(line.get("tip") for bill in bills for line in bill.get("lines", ())) == ("tip" in export)


@pytest.mark.parametrize("export", [one for one in STRANGE if "times" in one], ids=lambda export: export["name"])
def test_the_time_of_a_bill_is_the_one_that_its_values_show(export: dict[str, Any], tmp_path: Path) -> None:
    times = [bill["closedAt"][11:] for bill in outcome_of(export, tmp_path).bills]
    assert [time[:5] + time[8:] for time in times] == export["times"]


def form_of(text: str, folder: Path, **answers: str) -> Form:
    return form(files_of({"bills": text}, folder), answers, today=TODAY)


@pytest.mark.parametrize(
    ("heading", "usual", "mark"),
    [
        ("Training", "N", "Y"),
        ("Mode", "N", "T"),
        ("Is test", "FALSE", "TRUE"),
        ("Demo order", "0", "1"),
        ("Comp", "No", "Yes"),
        ("Staff meal", "N", "Y"),
        ("Event", "Sale", "Paid out"),
        ("Document", "INV", "CN"),
        ("Source", "POS", "Cash drop"),
        ("Open item", "N", "Y"),
        ("Is returning", "FALSE", "TRUE"),
        ("Refundable", "N", "Y"),
        ("Stornierbar", "N", "J"),
        ("Voids", "0", "1"),
        ("Removed", "", "Onion"),
        ("Returned items", "0", "1"),
        ("Item void", "N", "Y"),
        ("Payment void", "N", "Y"),
        ("取消数", "0", "1"),
        ("ยกเลิกสมาชิก", "N", "Y"),
    ],
)
def test_a_column_of_a_few_codes_may_say_that_a_bill_does_not_count(
    heading: str, usual: str, mark: str, tmp_path: Path
) -> None:
    rows = [f"100{number},13/11/2026 1{number}:00,10,Cash,Paid,{usual}\n" for number in range(5)]
    rows[3] = rows[3].replace(f"{usual}\n", f"{mark}\n")
    files = files_of({"bills": "".join([f"Receipt,Date,Total,Payment,Status,{heading}\n", *rows])}, tmp_path)
    assert heading in form(files, {}, today=TODAY).open[0].text
    for meaning, days in (("sale", [5, "50"]), ("skip", [4, "40"]), ("refund", [5, "30"])):
        found = form(files, {f"state.{heading}.{usual}": "sale", f"state.{heading}.{mark}": meaning}, today=TODAY)
        assert found.refused == ()
        assert has_days(imported("csv", *files.bills, mapping=found.mapping), {"2026-11-13": days})


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
    files = files_of({"bills": "".join([f"Receipt,Date,Total,Status,{heading}\n", *rows])}, tmp_path)
    ending = without_answers(files, is_any_of([{"2026-11-13": [6, "60"]}]))
    assert ending.how == "right", ending


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
    assert name in form_of(heading + items + extra, tmp_path).open[0].text
    mapping = form_of(heading + items, tmp_path).mapping
    later = files_of({"bills": heading + extra}, tmp_path)
    assert imported("csv", *later.bills, mapping=mapping).rejected != []


@pytest.mark.parametrize("left", ["Payout", "Net Payable", "Amount Due", "Bank deposit"])
@pytest.mark.parametrize(
    "kept",
    ["Uber Service Fee", "Service Charge", "Delivery Fee", "Servicegebühr", "サービス料", "VAT", "Withholding Tax"],
)
def test_what_a_platform_keeps_is_not_taken_off_what_the_customer_paid(kept: str, left: str, tmp_path: Path) -> None:
    rows = [f"100{number},13/11/2026 1{number}:00,{number + 10}.00,-3.15,{number + 6}.85\n" for number in range(5)]
    files = files_of({"bills": "".join([f"Order ID,Date,Total,{kept},{left}\n", *rows])}, tmp_path)
    ending = without_answers(files, is_any_of([{"2026-11-13": [5, "60.00"]}]))
    assert ending.how == "right", ending
    assert tomllib.loads(ending.form.mapping)["bill"]["amounts"] == {"net": "Total"}


@pytest.mark.parametrize(
    ("heading", "entry"),
    [(name, "tip") for name in ("CHARGETIPS", "TIPAMOUNT", "Trinkgeldbetrag", "Server Tip", "Tip (Card)")]
    + [(name, "vat") for name in ("TAXAMT", "SALESTAX", "Total Taxes", "total_taxes", "Mehrwertsteuerbetrag")],
)
def test_a_tip_or_tax_in_the_total_is_named_whatever_words_are_glued_to_it(
    heading: str, entry: str, tmp_path: Path
) -> None:
    rows = [f"100{number},13/11/2026 1{number}:00,{number + 10}.00,{number % 3}.35\n" for number in range(5)]
    text = "".join([f"Order ID,Date,TOTAL,{heading}\n", *rows])
    mapping = tomllib.loads(form_of(text, tmp_path, net=f"TOTAL + {heading}").mapping)
    assert mapping["bill"]["amounts"] == {"net": {"add": ["TOTAL", heading]}, entry: heading}
