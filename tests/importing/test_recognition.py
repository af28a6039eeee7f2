"""Tests for how the format of a file is recognised: by its headings, by the fields of its orders, or not at all."""

import json
from pathlib import Path
from typing import Any

import pytest

from counterfoil.importing.apis import APIS
from counterfoil.importing.formats import built_in_tables, recognised
from counterfoil.importing.results import ImportFailed
from importing.exports import EXAMPLES, imported, written

TITLES = {
    "bills.csv": None,
    "clover-orders.json": "Clover orders",
    "foodics-orders.json": "Foodics orders",
    "foodstory-orders.csv": "FoodStory ordered items",
    "form.json": None,
    "grabfood-transactions.csv": "GrabFood transactions",
    "members.csv": None,
    "odoo-orders.csv": "Odoo orders",
    "shopify-orders.csv": "Shopify orders",
    "loyverse-customers.csv": "Loyverse customers",
    "loyverse-items-es.csv": "Loyverse receipts by item",
    "loyverse-items-th.csv": "Loyverse receipts by item",
    "loyverse-receipts-by-item.csv": "Loyverse receipts by item",
    "loyverse-receipts-es.csv": "Loyverse receipts",
    "loyverse-receipts-th.csv": "Loyverse receipts",
    "loyverse-receipts.csv": "Loyverse receipts",
    "loyverse-receipts.json": "Loyverse receipts (API)",
    "square-items.csv": "Square item details",
    "square-orders.json": "Square orders",
    "square-transactions.csv": "Square transactions",
    "toast-items.csv": "Toast item selections",
    "toast-orders.csv": "Toast orders",
    "toast-payments.csv": "Toast payments",
}


def test_every_example_has_a_title_here() -> None:
    exports = (path.name for path in EXAMPLES.iterdir() if path.suffix in (".csv", ".json"))
    assert sorted(exports) == sorted(TITLES)


@pytest.mark.parametrize(("name", "title"), [one for one in TITLES.items() if one[1]])
def test_each_example_is_recognised_as_what_it_is(name: str, title: str) -> None:
    assert recognised(EXAMPLES / name).title == title


def test_each_known_table_and_api_has_an_example() -> None:
    known = {one.recognition.name for one in built_in_tables()} | {api.title for api in APIS.values()}
    assert known == {title for title in TITLES.values() if title}


def test_a_table_that_is_not_recognised_is_named() -> None:
    with pytest.raises(ImportFailed, match=r"bills\.csv is not recognised by its headings\."):
        imported(None, EXAMPLES / "bills.csv")


SHOPIFY_ORDER = {"id": 1, "location_id": 5, "financial_status": "paid", "total_price": "10.00"}


@pytest.mark.parametrize("content", [{"orders": [SHOPIFY_ORDER]}, {"weather": "fine"}, [1, 2], {"errors": []}])
def test_json_that_is_not_recognised_names_the_formats(tmp_path: Path, content: Any) -> None:
    with pytest.raises(ImportFailed, match=r"Clover orders.*Foodics orders.*Square orders"):
        imported(None, written(tmp_path, json.dumps(content), "orders.json"))
    deep = '[{"orders":' + '{"a":' * 9000 + "1" + "}" * 9001 + "]"
    with pytest.raises(ImportFailed, match="known format: line 1 is nested too deeply"):
        imported(None, written(tmp_path, deep, "orders.json"))


@pytest.mark.parametrize(
    ("wrong", "name", "said"),
    [
        ("toast", "square-orders.json", "Square orders"),
        ("toast", "loyverse-receipts.csv", "loyverse"),
        ("foodics", "loyverse-receipts.csv", "loyverse"),
        ("square", "foodics-orders.json", r"has Foodics orders, not Square orders\. Use --format foodics"),
        ("loyverse", "bills.csv", "is not recognised by its headings as an export of loyverse"),
    ],
)
def test_a_file_of_another_format_is_named(wrong: str, name: str, said: str) -> None:
    with pytest.raises(ImportFailed, match=said):
        imported(wrong, EXAMPLES / name)


@pytest.mark.parametrize(
    "page", [{"orders": []}, {"data": [], "links": {}, "meta": {"page": 1}}, {"receipts": []}, {}, []]
)
def test_an_empty_page_is_no_failure_alone_or_beside_others(tmp_path: Path, page: object) -> None:
    empty = written(tmp_path, json.dumps(page), "page.json")
    assert (imported(None, empty).bills, imported(None, empty).rejected) == ([], [])
    assert len(imported(None, empty, EXAMPLES / "foodics-orders.json").bills) == 3


def test_files_of_different_formats_are_not_mixed() -> None:
    with pytest.raises(ImportFailed, match="Import them separately"):
        imported(None, EXAMPLES / "square-orders.json", EXAMPLES / "foodics-orders.json")
    with pytest.raises(ImportFailed, match="Import them separately"):
        imported(None, EXAMPLES / "loyverse-receipts.json", EXAMPLES / "loyverse-receipts.csv")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_orders_of_an_sdk_in_camel_case_are_recognised(tmp_path: Path, encoding: str) -> None:
    export = written(tmp_path, '{"order": {"id": "o1", "locationId": "L", "state": "OPEN"}}', "order.json", encoding)
    assert recognised(export).title == "Square orders"
    assert len(imported(None, export).skipped) == 1


def test_a_status_in_such_a_mapping_adds_a_word_and_keeps_all_others(tmp_path: Path) -> None:
    text = (EXAMPLES / "loyverse-receipts.csv").read_text("utf-8")
    receipts = written(tmp_path, text.replace(",Sale,", ",Exchange,", 1))
    known = imported(None, EXAMPLES / "loyverse-receipts.csv").bills
    assert len(imported(None, receipts).rejected) == 1
    for status in ('[[status]]\ncolumn = "Receipt type"', '[status]\ncolumns = ["Receipt type"]'):
        found = imported(None, receipts, mapping=f'{status}\nvalues = {{ Exchange = "sale" }}')
        assert (found.bills, found.rejected) == (known, [])
        assert [bill.get("void") for bill in found.bills].count(True) == 1


@pytest.mark.parametrize("section", ["bill", "status", "skip", "checks"])
def test_a_section_of_a_mapping_that_orders_do_not_use_is_refused_by_name(section: str) -> None:
    with pytest.raises(ImportFailed, match=rf"mapping\.toml has \[{section}\], which Square orders do not use"):
        imported(None, EXAMPLES / "square-orders.json", mapping=f'[shopIds]\nL = "s"\n[{section}]\nx = "1"\n')


def test_a_complete_mapping_is_used_instead_of_the_recognised_format() -> None:
    mapping = '[bill]\nid = "Receipt number"\nshopId = "Store"\nclosedAt = "Date"\namounts.net = "Net sales"'
    found = imported(None, EXAMPLES / "loyverse-receipts.csv", mapping=mapping)
    assert (found.titles, len(found.bills)) == ([], 3)


def test_the_operator_s_mapping_takes_precedence_over_a_built_in_one(tmp_path: Path) -> None:
    own = '[recognise]\nname = "Our till"\ncolumns = ["Receipt number"]\n[bill]\nid = "Receipt number"\n'
    written(tmp_path, own, "till.toml")
    assert recognised(EXAMPLES / "loyverse-receipts.csv", own_mappings=tmp_path).title == "Our till"


def test_a_mapping_in_the_operator_s_folder_must_say_what_it_recognises(tmp_path: Path) -> None:
    written(tmp_path, '[bill]\nid = "Bill No"', "till.toml")
    with pytest.raises(ImportFailed, match=r"till\.toml.*\[recognise\]"):
        recognised(EXAMPLES / "bills.csv", own_mappings=tmp_path)
