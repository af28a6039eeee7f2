"""The form of an import is the JSON that the documents describe."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import partial
from itertools import accumulate
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from jsonschema import validate

from counterfoil.importer.form import MOST_OPTIONS, Form, FormFiles, KnownShop, form_of, json_of, json_schema
from counterfoil.importer.kept import KeptReadings
from counterfoil.importer.proposal import form
from counterfoil.importing.results import ImportFailed, RejectedRow
from importing.answering import TODAY, files_of
from importing.exports import imported, written

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "import-form.md").read_text("utf-8")
DOCUMENTED = (DOCS / "examples" / "form.json").read_text("utf-8")


MOST_ANSWERS = 8
ANSWERS = {"shop": "riverside", "timezone": "Asia/Bangkok", "franchise": "none", "closing": "04:00"}


def documented_export() -> str:
    found = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert found
    return found[1]


def test_the_documented_form_is_that_of_the_documented_export(tmp_path: Path) -> None:
    export = tmp_path / "export.csv"
    export.write_text(documented_export(), "utf-8")
    made = form(FormFiles((export,)), ANSWERS, today=date(2026, 11, 20))
    assert json.loads(json_of(made)) == json.loads(DOCUMENTED)


def test_the_documented_form_fits_the_schema_and_is_read_without_loss() -> None:
    content = json.loads(DOCUMENTED)
    validate(content, json_schema())
    read = form_of(DOCUMENTED)
    assert json.loads(json_of(read)) == content
    assert [question.id for question in read.open] == ["net"]
    assert not read.is_complete


def test_the_documents_name_each_field_of_the_form() -> None:
    fields = json_schema()["$defs"]["Form"]["properties"]
    assert [name for name in fields if f"| `{name}` |" not in PAGE] == []
    assert MOST_OPTIONS == 4


def test_a_heading_with_the_word_local_over_times_is_no_shop(tmp_path: Path) -> None:
    export = tmp_path / "export.csv"
    rows = [f"2026-10-0{number},1{number}:20:00,Wok Central,8a{number}f,{number}0.00" for number in range(1, 5)]
    heading = "TIMESTAMP_LOCAL_DATE,TIMESTAMP_LOCAL_TIME,STORE_NAME,ORDER_ID,TOTAL"
    export.write_text("\n".join([heading, *rows, ""]), "utf-8")
    made = form(FormFiles((export,)), {}, today=date(2026, 11, 20))
    assert [column.heading for column in made.columns if column.role == "shopId"] == ["STORE_NAME"]
    assert made.totals
    assert {day.shop for day in made.totals.days} == {"Wok Central"}


def test_what_is_proven_is_counted_on_all_bills_while_it_is_asked_which_were_sold(tmp_path: Path) -> None:
    export = tmp_path / "export.csv"
    rows = [
        f"100{number},2026-10-0{number} 12:00,1{number}.00,1.00,1{number + 1}.00,S{number % 2}" for number in range(6)
    ]
    export.write_text("\n".join(["Receipt,Date,Subtotal,VAT,Total,Stav", *rows, ""]).replace("10-00", "10-09"), "utf-8")
    made = form(FormFiles((export,)), {}, today=date(2026, 11, 20))
    assert [question.id for question in made.open] == ["state.Stav"]
    assert made.proven == ("Total = Subtotal + VAT on 6 of 6 bills",)


def test_milliseconds_since_1970_under_another_heading_are_the_time_of_a_bill(tmp_path: Path) -> None:
    export = tmp_path / "export.csv"
    export.write_text("id,created_time,total\n1001,1791778680000,3.32\n1002,1791782460000,29.53\n", "utf-8")
    made = form(FormFiles((export,)), {"timezone": "Asia/Bangkok"}, today=date(2026, 11, 20))
    assert made.totals
    assert [(day.day, day.net) for day in made.totals.days] == [("2026-10-12", "32.85")]


NIGHT = {"timezone": "Asia/Bangkok", "closing": "04:00", "franchise": "none"}


def days_of(folder: Path, *rows: str, answers: Mapping[str, str], shops: Sequence[KnownShop] = ()) -> list[str]:
    export = folder / "export.csv"
    export.write_text("\n".join([*rows, ""]), "utf-8")
    made = form(FormFiles((export,)), answers, shops, today=date(2026, 11, 20))
    assert made.totals
    return [day.day for day in made.totals.days]


def test_the_totals_that_are_accepted_have_the_business_days_of_the_load(tmp_path: Path) -> None:
    rows = ["Bill No,Closed,Total", "1001,2026-11-13 22:10,40.00", "1002,2026-11-14 00:30,50.00"]
    assert days_of(tmp_path, *rows, answers=NIGHT) == ["2026-11-13"]
    assert days_of(tmp_path, *rows, answers=NIGHT | {"closing": "00:00"}) == ["2026-11-13", "2026-11-14"]


def test_the_totals_of_times_in_utc_have_the_days_of_the_shop(tmp_path: Path) -> None:
    rows = ["Bill No,Closed,Total", "1001,2026-11-13T16:10:00Z,40.00", "1002,2026-11-13T18:30:00Z,50.00"]
    assert days_of(tmp_path, *rows, answers=NIGHT) == ["2026-11-13"]
    assert days_of(tmp_path, *rows, answers=NIGHT | {"closing": "00:00"}) == ["2026-11-13", "2026-11-14"]


@pytest.mark.parametrize(
    "rows",
    [
        ["Bill No,Business Date,Time,Total", "1001,2026-11-13,22:10,40.00", "1002,2026-11-13,00:30,50.00"],
        ["Bill No,Date,Time,Total", "1001,2026-11-13,22:10,40.00", "1002,2026-11-13,25:30,50.00"],
        ["Bill No,Trading Day,Closed,Total", "1,13/11/2026,13/11/2026 22:10,4", "2,13/11/2026,14/11/2026 02:30,5"],
    ],
)
def test_the_totals_have_the_day_of_business_that_the_export_names(tmp_path: Path, rows: list[str]) -> None:
    assert days_of(tmp_path, *rows, answers=NIGHT | {"closing": "00:00"}) == ["2026-11-13"]


def test_the_first_bill_of_an_option_is_on_the_clock_of_the_shop(tmp_path: Path) -> None:
    export = tmp_path / "export.csv"
    rows = ["1001,2026-11-13 16:10,UTC,40.00,1.00", "1002,2026-11-14 14:30,UTC,50.00,0.00"]
    export.write_text("\n".join(["Bill No,Date,Time Zone,Total,Tip", *rows, ""]), "utf-8")
    made = form(FormFiles((export,)), NIGHT, today=date(2026, 11, 20))
    assert [option.first for option in made.open[0].options] == ["2026-11-13T23:10:00+07:00"] * 2


def test_the_totals_of_a_known_shop_have_its_own_business_days(tmp_path: Path) -> None:
    rows = ["Bill No,Closed,Total", "1001,2026-11-13 22:10,40.00", "1002,2026-11-14 00:30,50.00"]
    known = KnownShop(id="riverside", timezone="Asia/Bangkok", closing_time="02:00")
    assert days_of(tmp_path, *rows, answers={}, shops=[known]) == ["2026-11-13"]


COLUMNS = """Receipt No,Date,Opened,Branch,Payment,Subtotal,VAT,Guests,Total
1001,2026-11-13 12:04,2026-11-13 11:04,Riverside,Cash,100.00,7.00,2,107.00
1002,2026-11-13 13:04,2026-11-13 12:04,Riverside,Card,200.00,14.00,3,214.00
1003,2026-11-13 14:10,2026-11-13 13:10,Old Town,Cash,50.00,3.50,60,53.50
"""


def other_roles(folder: Path, content: str, **answers: str) -> dict[str, dict[str, str]]:
    export = folder / "export.csv"
    export.write_text(content, "utf-8")
    made = form(FormFiles((export,)), answers, today=date(2026, 11, 20))
    return {column.heading: {other.role: other.refuted for other in column.others} for column in made.columns}


def test_the_bill_that_refutes_another_role_of_a_column_is_named(tmp_path: Path) -> None:
    others = other_roles(tmp_path, COLUMNS)
    assert others["Payment"]["datetime"] == "bill 1001: Cash is no date"
    assert others["Payment"]["id"] == "bills 1001 and 1003 have the same value"
    assert others["Guests"]["net"] == "bill 1001: 2.00 here, but 107.00 was paid"
    assert others["Subtotal"]["tax"] == (
        "bill 1001: 100.00 is more than 27% of the 107.00 that was paid, and no known tax is"
    )
    assert others["Guests"]["tip"] == "bill 1003: 60.00 is more than the 53.50 that was paid"
    assert others["Opened"]["state"] == others["Opened"]["shopId"] == "no two of the 3 bills have the same value"


def test_a_role_that_no_bill_refutes_is_not_called_refuted(tmp_path: Path) -> None:
    others = other_roles(tmp_path, COLUMNS.replace(",60,", ",4,"))
    assert others["Opened"]["datetime"] == ""
    assert others["Payment"]["state"] == others["Payment"]["shopId"] == ""
    assert others["Guests"]["tip"] == others["Guests"]["tax"] == ""
    assert "net" not in others["Total"]


def test_amounts_of_lines_refute_a_role_by_their_sum_on_a_bill(tmp_path: Path) -> None:
    rows = [
        "1001,2026-11-13 12:04,Soup,40.00,100.00",
        "1001,2026-11-13 12:04,Rice,60.00,100.00",
        "1002,2026-11-13 13:04,Soup,40.00,40.00",
    ]
    others = other_roles(tmp_path, "\n".join(["Receipt No,Date,Item,Amount,Total", *rows, ""]))
    assert others["Amount"]["net"] == ""
    assert others["Amount"]["tax"].startswith("bill 1001: 100.00 is more than 27% of the 100.00")


def test_amounts_in_cents_refute_a_role_in_the_unit_of_the_currency(tmp_path: Path) -> None:
    rows = [f"100{bill},2026-11-13 1{bill}:04,{bill}0000,{bill}0700" for bill in range(1, 6)]
    content = "\n".join(["Receipt No,Date,Subtotal (cents),Total (cents)", *rows, ""])
    others = other_roles(tmp_path, content, unit="cents", net="Total (cents)")
    assert others["Subtotal (cents)"]["net"] == "bill 1001: 100.00 here, but 107.00 was paid"


def test_two_members_with_the_same_value_refute_that_it_is_their_id(tmp_path: Path) -> None:
    rows = ["M1,+66811111111,ann@example.com,5", "M2,+66811111111,bo@example.com,7"]
    others = other_roles(tmp_path, "\n".join(["Member No,Phone,Email,Points balance", *rows, ""]))
    assert others["Phone"] == {"id": "lines 2 and 3 have the same value"}
    assert others["Email"] == {"id": ""}
    assert others["Member No"] == {}


def test_a_cell_of_a_megabyte_above_the_rows_is_read_in_a_moment(tmp_path: Path) -> None:
    others = other_roles(tmp_path, f"Receipt No,Date,Total,{'taxes' * 200_000}\n" + COLUMNS.partition("\n")[2])
    assert others == {}


def test_a_column_that_the_payments_do_not_have_is_refused_as_an_answer_about_payments(tmp_path: Path) -> None:
    export = {
        "bills": "Bill,Date,Total\n1,2026-11-13 10:00,60.00\n2,2026-11-13 11:00,40.00\n",
        "payments": "Payment,Method,Amount\n1,Cash,60.00\n2,Card,40.00\n",
    }
    found = form(files_of(export, tmp_path), {"payments": "Receipt"}, today=TODAY)
    assert [(one.id, one.answer, one.reason) for one in found.refused] == [
        ("payments", "Receipt", "payments.csv has no column Receipt")
    ]
    assert found.advice == ""


def made_of(folder: Path, content: str, **answers: str) -> Form:
    export = folder / "export.csv"
    export.write_text(content, "utf-8")
    return form(FormFiles((export,)), NIGHT | answers, today=date(2026, 11, 30))


@pytest.mark.parametrize(
    ("cell", "meaning"), [("ERROR", "has a value that is not in the expected format"), ("", "has no total")]
)
def test_a_bill_with_a_cell_that_cannot_be_read_is_not_in_the_totals(tmp_path: Path, cell: str, meaning: str) -> None:
    rows = [f"{1000 + number},2026-11-13 12:{number:02},Cash,{number}.50" for number in range(1, 21)]
    rows[6] = f"1007,2026-11-13 12:07,Cash,{cell}"
    export = "\n".join(["Receipt No,Date,Payment,Total", *rows, ""])
    made = made_of(tmp_path, export)
    assert made.totals
    assert (made.totals.bills, made.totals.net) == (19, "212.50")
    assert [left.reason for left in made.left_out] == [f"the row {meaning}: line 8"]
    outcome = imported("csv", tmp_path / "export.csv", mapping=made.mapping)
    assert len(outcome.bills) == 19
    assert [row.line for row in outcome.rejected] == [8]


def test_a_column_of_times_that_names_its_zone_is_no_zone(tmp_path: Path) -> None:
    export = """Order ID,Date,Order Time (local timezone),Total
1001,2026-11-13,12:04,10.00
1002,2026-11-13,18:30,20.00
"""
    made = made_of(tmp_path, export)
    assert [column.role for column in made.columns] == ["id", "datetime", "time", "net"]


def test_where_a_bill_was_served_is_no_shop(tmp_path: Path) -> None:
    export = """Order ID,Date,Location,Total
1001,2026-11-13 12:04,In-store,10.00
1002,2026-11-13 18:30,Takeaway,20.00
"""
    made = made_of(tmp_path, export)
    assert made.totals
    assert len(made.totals.days) == 1
    assert [column.role for column in made.columns] == ["id", "datetime", "", "net"]


def test_nothing_is_asked_about_ways_of_paying_buyers_and_parts_of_the_day(tmp_path: Path) -> None:
    export = """Order ID,Date,Transaction Type,Received By,Time of Sale,Promo Code,Total
1001,2026-11-13 12:04,Cash,Mr.,Afternoon,SAVE,10.00
1002,2026-11-13 18:30,Online,Mrs.,Evening,,20.00
1003,2026-11-13 19:30,Cash,Mr.,Night,,20.00
1004,2026-11-13 20:30,Cash,Mr.,Night,SAVE,20.00
"""
    assert not made_of(tmp_path, export).open


def test_a_rating_is_neither_the_number_of_a_bill_nor_an_amount(tmp_path: Path) -> None:
    export = """OrderID,OrderDate,ItemName,Total,OrderRating,delivery_time_minutes
A1,2026-11-13 12:04,Tea,10.00,5.0,12
A2,2026-11-13 18:30,Tea,20.00,4.0,14
A3,2026-11-13 19:30,Cake,30.00,5.0,7
A4,2026-11-13 20:30,Cake,45.00,,31
"""
    made = made_of(tmp_path, export)
    assert made.totals
    assert (made.totals.bills, made.totals.net) == (4, "105.00")


def test_words_among_the_amounts_are_no_currency(tmp_path: Path) -> None:
    rows = [f"{1000 + number},2026-11-13 12:{number:02},{number}.50" for number in range(1, 31)]
    rows[3] = "1004,2026-11-13 12:04,ERROR"
    rows[7] = "1008,2026-11-13 12:08,UNKNOWN"
    made = made_of(tmp_path, "\n".join(["Receipt No,Date,Total", *rows, ""]))
    assert made.totals
    assert made.totals.bills == 28


def test_nothing_was_left_out_can_be_said_if_another_column_marks_the_same_bills(tmp_path: Path) -> None:
    export = """Order ID,Date,Parcel,Line parcel,Total
A1,2026-11-13 12:04,pending,pending,10.00
A2,2026-11-13 18:30,fulfilled,fulfilled,20.00
A3,2026-11-13 19:30,pending,pending,30.00
A4,2026-11-13 20:30,fulfilled,fulfilled,45.00
"""
    made = made_of(tmp_path, export)
    [question] = made.open
    nets = {option.answer: option.net for option in question.options}
    assert nets["sale"] == "105.00"
    assert nets["skip"] == "65.00"


def test_what_a_customer_is_says_first_that_bills_were_sold(tmp_path: Path) -> None:
    export = """Order ID,Date,CustomerType,Total
A1,2026-11-13 12:04,Returning,10.00
A2,2026-11-13 18:30,New,20.00
A3,2026-11-13 19:30,Returning,30.00
"""
    [question] = made_of(tmp_path, export).open
    assert question.options[0].answer == "sale"


def test_dates_of_a_csv_that_a_spreadsheet_partly_swapped_are_refused(tmp_path: Path) -> None:
    days = ["2026-02-11", "2026-12-11", "13/11/2026", "14/11/2026"]
    rows = [f"100{number},{day} 12:04,{number + 1}0.50" for number, day in enumerate(days)]
    made = made_of(tmp_path, "\n".join(["Receipt,Date,Total", *rows, ""]))
    assert "read the day as the month" in made.advice


@pytest.mark.parametrize("number", ["R-1003", "1003-REF", "1003R"])
def test_letters_of_refunds_beside_the_number_of_a_bill_are_asked_about(number: str, tmp_path: Path) -> None:
    export = f"""Receipt,Date,Total
1001,2026-11-13 12:04,10.50
1002,2026-11-13 18:30,20.50
{number},2026-11-13 19:30,30.50
1004,2026-11-13 20:30,40.50
"""
    [question] = made_of(tmp_path, export).open
    assert "refund" in [option.answer for option in question.options]


WITHOUT_NUMBER = """Receipt,Date,Payment,Total
1001,2026-11-13 12:04,Cash,10.50
1002,2026-11-13 18:30,Card,20.50
,2026-11-13 19:30,{payment},{total}
1004,2026-11-13 20:30,Cash,40.50
1005,2026-11-13 21:30,Card,50.50
"""


def test_a_row_that_lacks_only_the_number_of_a_bill_is_not_left_out_without_a_question(tmp_path: Path) -> None:
    export = WITHOUT_NUMBER.format(payment="Cash", total="30.50")
    [question] = made_of(tmp_path, export).open
    assert question.id == "unnumbered"
    left_out = made_of(tmp_path, export, unnumbered="leave out")
    assert left_out.totals
    assert left_out.totals.net == "122.00"
    assert "Export the bills with the number of each" in made_of(tmp_path, export, unnumbered="number missing").advice


@pytest.mark.parametrize(("payment", "total"), [("Pay out", "30.50"), ("Cash", "31.00"), ("", "30.50")])
def test_a_row_without_a_number_that_differs_from_bills_asks_nothing(payment: str, total: str, tmp_path: Path) -> None:
    assert not made_of(tmp_path, WITHOUT_NUMBER.format(payment=payment, total=total)).open


def test_a_row_for_each_day_may_be_its_sum(tmp_path: Path) -> None:
    rows = [f"{300 + day},2026-11-{day:02} 23:05,{day}0.50" for day in range(2, 9)]
    export = "\n".join(["Z No,Date,Gross", *rows, ""])
    [question] = made_of(tmp_path, export).open
    assert question.id == "daily"
    assert made_of(tmp_path, export, daily="bills").totals
    assert "sums of days" in made_of(tmp_path, export, daily="days").advice
    assert not made_of(tmp_path, export.replace("2026-11-08", "2026-11-07")).open


def test_an_item_with_a_negative_quantity_and_a_positive_amount_is_refused(tmp_path: Path) -> None:
    export = """Receipt,Date,Item,Qty,Amount
1001,2026-11-13 12:04,Tea,1,10.50
1001,2026-11-13 12:04,Cake,2,21.00
1002,2026-11-13 18:30,Cake,-2,21.00
1002,2026-11-13 18:30,Soup,3,30.30
"""
    assert "Line 4 of export.csv has the quantity -2 and the amount 21.00" in made_of(tmp_path, export).advice
    negative = made_of(tmp_path, export.replace("-2,21.00", "-2,-21.00"))
    assert negative.totals
    assert negative.totals.net == "40.80"


def test_a_discount_in_per_cent_is_not_lost_where_only_prices_make_the_total(tmp_path: Path) -> None:
    export = """Receipt,Date,Item,Qty,Price,Disc %
1001,2026-11-13 12:04,Tea,1,10.50,0%
1001,2026-11-13 12:04,Cake,2,21.00,10%
1002,2026-11-13 18:30,Cake,2,21.00,10%
1002,2026-11-13 18:30,Soup,3,30.30,0%
"""
    assert "Disc % has percentages as text" in made_of(tmp_path, export).advice


def test_a_column_that_counts_the_rows_is_no_amount(tmp_path: Path) -> None:
    rows = [f"{row},{1001 + row},2026-11-13 12:{row:02},{row + 10}.25" for row in range(6)]
    made = made_of(tmp_path, "\n".join([",Receipt,Date,Total", *rows, ""]))
    assert not made.open
    assert made.totals


def asked_exports() -> list[dict[str, Any]]:
    """Return one in three of the exports about which something is asked."""
    text = (Path(__file__).parent / "asked_exports.toml").read_text("utf-8")
    exports: list[dict[str, Any]] = tomllib.loads(text)["export"]
    return exports[::3]


@pytest.mark.parametrize("export", asked_exports(), ids=itemgetter("name"))
def test_what_is_kept_of_the_last_answer_changes_no_form(export: dict[str, Any], tmp_path: Path) -> None:
    files = files_of(export, tmp_path)
    kept, answers = KeptReadings(), dict[str, str]()
    for _ in range(MOST_ANSWERS):
        found = form(files, answers, today=TODAY, kept=kept)
        assert json_of(found) == json_of(form(files, answers, today=TODAY))
        asked = [question for question in found.questions if question.id not in answers]
        if not asked:
            break
        answers[asked[0].id] = asked[0].default or asked[0].options[-1].answer


def test_a_file_that_was_written_again_is_read_again(tmp_path: Path) -> None:
    kept = KeptReadings()
    nets = []
    for total in ("60.50", "61.50"):
        export = written(tmp_path, f"Bill,Date,Total\n1,2026-11-13 10:00,{total}\n2,2026-11-13 11:00,40.50\n")
        found = form(FormFiles((export,)), {}, today=TODAY, kept=kept)
        assert found.totals is not None
        nets.append(found.totals.net)
    assert nets == ["101.00", "102.00"]


def test_another_fact_of_a_shop_does_not_convert_the_file_again(tmp_path: Path) -> None:
    export = written(tmp_path, "Bill,Date,Total\n1,2026-11-13 10:00,60.50\n")
    tables = KeptReadings()
    first = tables.begin(FormFiles((export,)), TODAY)
    assert tables.begin(FormFiles((export,)), TODAY) is first
    assert tables.begin(FormFiles((export,)), TODAY, "Asia/Tokyo") is not first
    converted: list[str] = []

    def rows_rejected_by(column: str) -> list[RejectedRow]:
        converted.append(column)
        return []

    for closing, column in (("00:00", "Total"), ("04:00", "Total"), ("04:00", "Paid")):
        mapping = {"shop": {"id": "s", "closingTime": closing}, "bill": {"amounts.net": column}}
        tables.rejected(mapping, partial(rows_rejected_by, column))
    assert converted == ["Total", "Paid"]


AMOUNTS = ("60.50", "121.00", "75.25", "300.00", "42.75", "88.00", "190.50", "64.25")


def with_column(heading: str, cells: Sequence[str]) -> str:
    rows = [f"Receipt,Date,Total,{heading}"]
    for place, (amount, cell) in enumerate(zip(AMOUNTS, cells, strict=True)):
        rows.append(f"{1001 + place},2026-11-{13 + place // 3} 1{place}:05,{amount},{cell}")
    return "\n".join([*rows, ""])


@pytest.mark.parametrize("heading", ["Running total", "Cumulative", "Balance"])
@pytest.mark.parametrize("step", [1, -1], ids=["oldest first", "newest first"])
def test_a_running_total_is_no_amount_of_a_bill(heading: str, step: int, tmp_path: Path) -> None:
    sums = [str(total) for total in accumulate(map(Decimal, AMOUNTS[::step]))]
    found = made_of(tmp_path, with_column(heading, sums[::step]))
    assert not found.open, found.open
    assert found.totals is not None
    assert found.totals.net == "942.25"


def test_a_column_that_adds_up_no_other_one_is_asked_about(tmp_path: Path) -> None:
    sums = list(accumulate(map(Decimal, AMOUNTS)))
    cells = [str(total) for total in [*sums[:-1], sums[-1] + 1]]
    assert [question.id for question in made_of(tmp_path, with_column("Cumulative", cells)).open] == ["net"]


@pytest.mark.parametrize("heading", ["Customer balance", "Points balance", "Member Balance"])
def test_what_a_customer_has_left_is_no_amount_of_a_bill(heading: str, tmp_path: Path) -> None:
    found = made_of(
        tmp_path, with_column(heading, ["0.00", "15.50", "0.00", "120.00", "3.25", "0.00", "55.00", "0.00"])
    )
    assert not found.open, found.open
    assert found.totals is not None
    assert found.totals.net == "942.25"


def test_a_shop_on_the_first_row_of_its_block_is_that_of_the_rows_below_it(tmp_path: Path) -> None:
    export = written(tmp_path, with_column("Branch", ["Riverside", "", "", "", "Old Town", "", "", ""]))
    found = form(FormFiles((export,)), {}, today=TODAY)
    assert not found.open, found.open
    assert any("Branch stands only on the first row" in text for text in found.assumed)
    assert found.totals is not None
    nets = {"Riverside": Decimal(), "Old Town": Decimal()}
    for day in found.totals.days:
        nets[day.shop] += Decimal(day.net)
    assert nets == {"Riverside": Decimal("556.75"), "Old Town": Decimal("385.50")}
    bills = imported("csv", export, mapping=found.mapping, today=TODAY).bills
    assert [bill["shopId"] for bill in bills] == ["riverside"] * 4 + ["old-town"] * 4


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-8"])
def test_a_french_export_with_semicolons_and_decimal_commas_asks_nothing(encoding: str, tmp_path: Path) -> None:
    rows = ["N° ticket;Date;Heure;Mode de règlement;Montant HT;TVA;Montant TTC"]
    for place, way in enumerate(("Espèces", "Carte", "Chèque", "Carte")):
        rows.append(
            f"{1001 + place};{13 + place}/11/2026;1{place}:05;{way};1 0{place}0,00;10{place},00;1 1{place}{place},00"
        )
    export = written(tmp_path, "\n".join([*rows, ""]), encoding=encoding)
    found = form(FormFiles((export,)), {}, today=TODAY)
    assert not found.open, found.open
    assert found.totals is not None
    assert found.totals.net == "4466.00"
    assert len(imported("csv", export, mapping=found.mapping, today=TODAY).bills) == 4


def test_files_of_different_reports_are_not_read_as_one(tmp_path: Path) -> None:
    bills, lines = tmp_path / "tickets.csv", tmp_path / "dishes.csv"
    bills.write_text(
        "Ticket,Closed,Store,Due\nT1,2026-11-03 13:00,Riverside,100.00\nT2,2026-11-03 14:00,Riverside,50.00\n"
    )
    lines.write_text("Ticket,Dish,Count,Sum\nT1,Khao soi,2,100.00\nT2,Som tam,1,50.00\n")
    with pytest.raises(ImportFailed, match=r"dishes\.csv and tickets\.csv have different columns"):
        form(FormFiles((lines, bills)), {}, today=TODAY)


def test_shops_that_stand_only_above_their_rows_are_refused_by_their_line(tmp_path: Path) -> None:
    rows = "Receipt,Date,Total\n100{},2026-11-13 10:0{},60.00\n"
    found = made_of(tmp_path, f"Branch: North\n{rows.format(1, 1)}Branch: South\n{rows.format(2, 2)}")
    assert found.advice.startswith("Line 4 of export.csv has only a shop, South")
    assert made_of(tmp_path, f"Branch: North\n{rows.format(1, 1)}").is_complete
    assert made_of(tmp_path, f"{rows.format(1, 1)}Branch: North\n").is_complete


def test_another_time_than_that_of_closing_is_named(tmp_path: Path) -> None:
    rows = "1,2026-11-13 10:00,2026-11-13 11:00,60.00,Paid\n2,2026-11-13 12:00,,20.00,Void\n"
    found = made_of(tmp_path, f"Receipt,Opened At,Closed At,Total,Status\n{rows}")
    assert "Opened At is the time of each bill, because Closed At is empty on some" in found.assumed
