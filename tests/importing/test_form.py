"""The form of an import is the JSON that the documents describe."""

import json
import re
from datetime import date
from pathlib import Path

from jsonschema import validate

from counterfoil.importer.form import MOST_OPTIONS, FormFiles, form_of, json_of, json_schema
from counterfoil.importer.proposal import form

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "import-form.md").read_text("utf-8")
DOCUMENTED = (DOCS / "examples" / "form.json").read_text("utf-8")


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
