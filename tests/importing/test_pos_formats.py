"""Tests for Loyverse, and for the orders of APIs: sales, refunds, voids, open orders and exact amounts."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from counterfoil.importing.results import ImportFailed
from importing.exports import EXAMPLES, imported, written

RECEIPTS = EXAMPLES / "loyverse-receipts.csv"
ITEMS = EXAMPLES / "loyverse-receipts-by-item.csv"
SQUARE = EXAMPLES / "square-orders.json"
FOODICS = EXAMPLES / "foodics-orders.json"
CLOVER = EXAMPLES / "clover-orders.json"


@pytest.mark.parametrize("files", [(RECEIPTS, ITEMS), (ITEMS, RECEIPTS)])
def test_the_two_exports_of_loyverse_are_joined_in_any_order(files: tuple[Path, Path]) -> None:
    found = imported("loyverse", *files)
    assert found.rejected == []
    sale, cancelled, refund = found.bills
    assert sale == {
        "kind": "bill",
        "id": "1-0003",
        "shopId": "Riverside",
        "closedAt": "2026-11-14T18:05:00",
        "receiptNumber": "1-0003",
        "deviceId": "POS 1",
        "cashier": "Mali",
        "channel": {"id": "counter"},
        "amounts": {
            "subtotal": "240.00",
            "discount": "10.00",
            "discountTotal": "10.00",
            "vat": "0.00",
            "net": "230.00",
        },
        "lines": [
            {
                "productId": "10001",
                "name": "Khao soi",
                "qty": "2",
                "total": "190.00",
                "options": [{"name": "Extra egg"}, {"name": "Spicy"}],
                "categoryIds": ["Noodles"],
            },
            {"productId": "10002", "name": "Iced tea", "qty": "1", "total": "50.00", "categoryIds": ["Drinks"]},
        ],
        "payments": [{"name": "Cash", "amount": "230.00"}],
    }
    assert (cancelled["void"], cancelled["channel"]) == (True, {"id": "take_away"})
    assert (refund["amounts"]["net"], refund["amounts"]["subtotal"]) == ("-95.00", "-95.00")
    assert (refund["lines"][0]["qty"], refund["lines"][0]["total"]) == ("-1", "-95.00")
    assert refund["payments"] == [{"name": "Card", "amount": "-95.00"}]
    assert "void" not in refund


@pytest.mark.parametrize(("export", "lines"), [(RECEIPTS, [0, 0, 0]), (ITEMS, [2, 1, 1])])
def test_receipts_of_loyverse_alone_have_no_lines_and_items_alone_are_summed(export: Path, lines: list[int]) -> None:
    found = imported("loyverse", export)
    assert [bill["amounts"]["net"] for bill in found.bills] == ["230.00", "80.00", "-95.00"]
    assert [len(bill.get("lines", ())) for bill in found.bills] == lines


def test_loyverse_exports_without_a_store_need_the_shop_to_be_named(tmp_path: Path) -> None:
    heading, first, *_ = RECEIPTS.read_text("utf-8").splitlines()
    cells = [line.split(",") for line in (heading, first.replace('"2 x Khao soi, 1 x Iced tea"', ""))]
    store = cells[0].index("Store")
    export = tmp_path / "receipts.csv"
    export.write_text("".join(",".join(row[:store] + row[store + 1 :]) + "\n" for row in cells), "utf-8")
    assert imported("loyverse", export).reasons == [("receipts.csv", 2, "no_shop")]
    assert imported("loyverse", export, shop="sh_1").bill["shopId"] == "sh_1"


def test_an_export_of_loyverse_without_the_status_is_refused_unless_the_operator_says_so(tmp_path: Path) -> None:
    items = written(tmp_path, ITEMS.read_text("utf-8").replace("Status", "State"), "items.csv")
    receipts = written(tmp_path, RECEIPTS.read_text("utf-8").replace("Status", "State"), "receipts.csv")
    for export in (receipts, items):
        with pytest.raises(ImportFailed, match=r'lacks = \["Status"\]'):
            imported("loyverse", export)
    assert "Status" not in imported("loyverse", items, mapping='[headings]\nStatus = ["State"]\n').note
    assert imported("loyverse", items, mapping='[file]\nlacks = ["Status"]\n').bills


@pytest.mark.parametrize(
    ("example", "column"),
    [
        ("square-items.csv", "Tax"),
        ("square-transactions.csv", "Tax"),
        ("square-transactions.csv", "Tip"),
        ("toast-items.csv", "Tax"),
        ("toast-payments.csv", "Total"),
        ("toast-orders.csv", "Tax"),
    ],
)
def test_an_empty_amount_of_a_known_table_rejects_its_bill(tmp_path: Path, example: str, column: str) -> None:
    heading, first, *rest = csv.reader((EXAMPLES / example).read_text("utf-8").splitlines())
    first[heading.index(column)] = ""
    export = tmp_path / example
    with export.open("w", newline="") as file:
        csv.writer(file).writerows([heading, first, *rest])
    assert [column in one.detail for one in imported(None, export, shop="s").rejected] == [True]


def test_a_mapping_without_a_bill_id_overrides_parts_of_a_built_in_one() -> None:
    found = imported(None, RECEIPTS, mapping='[shopIds]\nRiverside = "sh_1"\n[dates]\ntimezone = "Asia/Tokyo"\n')
    assert found.bills[0]["shopId"] == "sh_1"
    assert found.bills[0]["closedAt"] == "2026-11-14T18:05:00+09:00"


def test_a_sale_of_square_keeps_its_lines_payments_and_exact_amounts() -> None:
    found = imported("square", SQUARE)
    assert found.rejected == []
    sale = found.bills[0]
    assert sale == {
        "kind": "bill",
        "id": "sqAm4ericano0001",
        "shopId": "LRIVERSIDE",
        "rev": 4,
        "closedAt": "2026-11-14T11:05:00.123000+00:00",
        "orderIds": ["sqAm4ericano0001"],
        "memberId": "CUST4711",
        "lines": [
            {
                "productId": "VAR1",
                "name": "Americano (Large)",
                "qty": "2",
                "total": "210.00",
                "options": [{"id": "MOD1", "name": "Oat milk", "qty": "1"}],
                "vat": True,
            },
            {"name": "Custom amount", "qty": "1", "unitPrice": "10.50", "total": "10.50", "options": [], "vat": False},
        ],
        "amounts": {
            "subtotal": "220.50",
            "discount": "10.00",
            "discountTotal": "10.00",
            "serviceCharge": "0.00",
            "vat": "13.09",
            "vatType": "Include",
            "tip": "0.00",
            "net": "210.50",
        },
        "payments": [{"name": "Cash", "amount": "500.00", "change": "289.50"}],
    }


def test_a_return_of_square_is_a_bill_of_its_own_with_negative_amounts() -> None:
    bill = imported("square", SQUARE).bills[1]
    assert (bill["lines"][0]["qty"], bill["lines"][0]["total"]) == ("-1", "-95.00")
    assert bill["amounts"] == {"subtotal": "-95.00", "net": "-95.00"}
    assert bill["payments"] == [{"name": "Refund", "amount": "-95.00"}]
    assert "void" not in bill


def test_a_cancelled_order_of_square_is_void_and_an_open_one_is_skipped(tmp_path: Path) -> None:
    found = imported("square", SQUARE)
    assert found.bills[2]["void"] is True
    assert [(one.line, one.reason) for one in found.skipped] == [(83, "the order is still open")]
    found = imported("square", json_file(tmp_path, square_order(state="OPEN", tenders=[CARD])))
    assert "is paid, but still open" in found.skipped[0].reason


@pytest.mark.parametrize(
    ("currency", "amount", "net"), [("THB", 12345, "123.45"), ("JPY", 12345, "12345"), ("KWD", 12345, "12.345")]
)
def test_the_smallest_unit_depends_on_the_currency(tmp_path: Path, currency: str, amount: int, net: str) -> None:
    order = square_order(total_money={"amount": amount, "currency": currency})
    found = imported("square", json_file(tmp_path, {"orders": [order]}), currency=currency)
    assert found.bill["amounts"]["net"] == net
    assert f"--currency {currency}" in imported("square", json_file(tmp_path, order), currency="USD").rejected[0].detail


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ({"id": "x", "location_id": "L", "state": "WHATEVER"}, "unknown_status"),
        ({"id": "", "location_id": "L", "state": "CANCELED", "closed_at": "2026-11-14T11:05:00Z"}, "no_id"),
        ({"id": "x", "state": "COMPLETED"}, "no_shop"),
        (
            {"id": "x", "location_id": "L", "state": "COMPLETED", "total_money": {"amount": 1, "currency": "THB"}},
            "no_time",
        ),
        ({"id": "x", "location_id": "L", "state": "COMPLETED", "closed_at": "2026-11-14T11:05:00Z"}, "no_amount"),
        ({"errors": [{"code": "UNAUTHORIZED"}]}, "not_an_order"),
    ],
)
def test_an_object_that_is_not_a_square_order_is_rejected(tmp_path: Path, order: dict[str, Any], reason: str) -> None:
    found = imported("square", json_file(tmp_path, {"orders": [order]}))
    assert found.bills == []
    assert [one.reason for one in found.rejected] == [reason]


@pytest.mark.parametrize(("version", "reasons"), [(1, ["different_rows"]), (2, [])])
def test_an_order_that_occurs_again_with_other_values_needs_another_version(
    tmp_path: Path, version: int, reasons: list[str]
) -> None:
    first = square_order(version=1, total_money=thb(100))
    orders = [first, first, first | {"version": version, "total_money": thb(200)}]
    assert [one.reason for one in imported("square", json_file(tmp_path, orders)).rejected] == reasons


@pytest.mark.parametrize("list_name", ["order_entries", "orders"])
def test_each_order_entry_of_square_is_rejected_with_advice(tmp_path: Path, list_name: str) -> None:
    entries = [{"order_id": name, "version": 1, "location_id": "L"} for name in ("o1", "o2")]
    found = imported("square", json_file(tmp_path, {list_name: entries, "cursor": "c"}))
    assert found.bills == []
    assert [(one.reason, one.detail) for one in found.rejected] == [
        ("not_an_order", "is an order entry. Request the orders again with return_entries set to false")
    ] * 2


def test_an_order_of_foodics_keeps_what_adds_up_to_its_total() -> None:
    found = imported("foodics", FOODICS)
    assert found.rejected == []
    bill = found.bills[0]
    assert bill["closedAt"] == "2026-11-14T11:05:09+00:00"
    assert (bill["tradingDay"], bill["receiptNumber"], bill["cashier"]) == ("2026-11-14", "9012", "Mali")
    assert bill["table"]["name"] == "Terrace 7"
    assert [(line["name"], line["total"], line["cancelled"]) for line in bill["lines"]] == [
        ("Khao soi", "200", False),
        ("Iced tea", "50", True),
    ]
    assert bill["amounts"] == {
        "subtotal": "200",
        "discount": "0",
        "discountTotal": "0",
        "serviceCharge": "20",
        "vat": "15.4",
        "rounding": "0.1",
        "tip": "10",
        "net": "245.5",
    }
    assert bill["payments"] == [{"name": "Cash", "amount": "300", "change": "54.5"}]
    assert "not imported" not in json.dumps(found.bills)


def test_a_returned_order_of_foodics_is_negative_and_a_void_one_has_its_reason() -> None:
    found = imported("foodics", FOODICS)
    returned, void = found.bills[1:]
    assert returned["orderIds"] == ["f0000000-0000-4000-8000-000000000002", "f0000000-0000-4000-8000-000000000001"]
    assert (returned["amounts"]["net"], returned["lines"][0]["qty"]) == ("-95", "-1")
    assert returned["payments"] == [{"name": "Cash", "amount": "-95"}]
    assert void["void"] == {"reason": "Customer cancelled"}
    assert [one.reason for one in found.skipped] == ["the order is still open"]


@pytest.mark.parametrize(
    "amount", [12345, "12345", "12345n", pytest.param(12345.0, id="a float"), pytest.param(10**6, id="a million")]
)
def test_orders_of_an_sdk_in_camel_case_are_read(tmp_path: Path, amount: object) -> None:
    order = {
        "id": "o1",
        "locationId": "L",
        "state": "COMPLETED",
        "closedAt": "2026-11-14T11:05:00Z",
        "lineItems": [{"name": "Tea", "quantity": "1", "grossSalesMoney": {"amount": amount, "currency": "THB"}}],
        "totalMoney": {"amount": amount, "currency": "THB"},
    }
    for page in ({"orders": [order]}, {"order": order}, order, [order]):
        bill = imported("square", json_file(tmp_path, page)).bill
        assert bill["amounts"]["net"] == bill["lines"][0]["total"]
        assert bill["amounts"]["net"] == ("10000.00" if amount == 10**6 else "123.45")


@pytest.mark.parametrize("amount", ["123.45", "123.00", 1e400, "1e400", "12x", True, 10**20])
def test_an_amount_that_is_not_a_number_of_the_smallest_unit_rejects_the_order(tmp_path: Path, amount: object) -> None:
    order = square_order(total_money={"amount": amount, "currency": "THB"})
    path = tmp_path / "orders.json"
    path.write_text(json.dumps({"orders": [order]}).replace("Infinity", "1e400"), "utf-8")
    assert [one.reason for one in imported("square", path).rejected] == ["unreadable_value"]


@pytest.mark.parametrize("levels", [100, 900])
def test_an_order_with_deeply_nested_data_of_others_is_read(tmp_path: Path, levels: int) -> None:
    order = json.dumps(square_order(total_money={"amount": 100, "currency": "THB"}, metadata="DEEP"))
    export = written(tmp_path, order.replace('"DEEP"', '{"a":' * levels + "1" + "}" * levels), "orders.json")
    assert imported(None, export).bill["amounts"]["net"] == "1.00"


def thb(amount: object) -> dict[str, object]:
    return {"amount": amount, "currency": "THB"}


CARD = {"type": "CARD", "amount_money": thb(11500), "tip_money": thb(1500)}
FAILED_CARD = {**CARD, "card_details": {"status": "FAILED"}}
RETURN = {"returns": [{"return_line_items": []}], "net_amounts": {"total_money": thb(-3000)}}
REJECTED, REFUND = ({"status": status, "amount_money": thb(3000)} for status in ("REJECTED", "COMPLETED"))


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"total_money": thb(0), "returns": RETURN["returns"]}, "no_amount"),
        ({"total_money": thb(10000), "tenders": [CARD]}, "115.00"),
        ({"total_money": thb(11500), "tenders": [CARD]}, "115.00"),
        ({"total_money": thb(11500), "tenders": [FAILED_CARD, CARD]}, "115.00"),
        ({"total_money": thb(11000), "tenders": [CARD]}, "doubtful_value"),
        ({"total_money": thb(12000), "tenders": [{**CARD, "tip_money": thb(0)}]}, "doubtful_value"),
        ({"total_money": thb(12000), "tenders": [CARD], "state": "CANCELED"}, "void"),
        ({"total_money": thb(11500), "tenders": [FAILED_CARD]}, "doubtful_value"),
        ({"total_money": thb(11500), "net_amount_due_money": thb(100)}, "doubtful_value"),
        ({"total_money": thb(11500), "net_amount_due_money": thb("0n")}, "115.00"),
        ({**RETURN, "refunds": [REFUND]}, "-30.00"),
        ({"returns": [{}], "return_amounts": {"total_money": thb(3000)}, "refunds": [REFUND]}, "-30.00"),
        ({**RETURN, "refunds": [REJECTED, REFUND]}, "-30.00"),
        ({**RETURN, "refunds": [REJECTED, {**REFUND, "amount_money": thb(1000)}]}, "doubtful_value"),
        ({**RETURN, "refunds": [REJECTED]}, "void"),
        ({"total_money": thb(100), "closed_at": "yesterday"}, "unreadable_value"),
        ({"total_money": thb(100), "closed_at": "2026-11-14"}, "unreadable_value"),
    ],
)
def test_an_order_of_square_is_what_was_paid_and_not_given_back(
    tmp_path: Path, fields: dict[str, Any], outcome: str
) -> None:
    found = imported("square", json_file(tmp_path, {"order": square_order(**fields)}))
    nets = ["void" if "void" in bill else bill["amounts"]["net"] for bill in found.bills]
    assert [*(one.reason for one in found.rejected), *nets] == [outcome]
    paid = [payment["amount"] for bill in found.bills for payment in bill["payments"]]
    assert outcome == "void" or paid in ([], [outcome])


@pytest.mark.parametrize(
    "wrap", [lambda order: {"data": order}, lambda order: {"event": "order.updated", "order": order}]
)
def test_a_single_order_of_foodics_and_a_webhook_are_read(tmp_path: Path, wrap: Any) -> None:
    order = json.loads(FOODICS.read_text("utf-8"))["data"][0]
    assert imported("foodics", json_file(tmp_path, wrap(order))).bill["amounts"]["net"] == "245.5"


@pytest.mark.parametrize(
    ("missing", "reason", "named"),
    [
        ("branch", "no_shop", "include=branch"),
        ("payments", "no_amount", "payments"),
        ("products", "no_amount", "products"),
        ("products.taxes", "no_amount", "has no products.taxes."),
        ("products.taxes.pivot", "no_amount", "products.taxes.pivot"),
        ("products.options", "no_amount", "has no products.options."),
        ("products.options.taxes", "no_amount", "products.options.taxes"),
        ("charges", "no_amount", "has no charges."),
        ("charges.taxes", "no_amount", "charges.taxes"),
        ("payments.amount", "no_amount", "payments.amount"),
        ("total_price", "no_amount", "total"),
        ("closed_at", "no_time", "time"),
    ],
)
def test_an_order_of_foodics_with_a_missing_part_is_rejected_whole(
    tmp_path: Path, missing: str, reason: str, named: str
) -> None:
    order = json.loads(FOODICS.read_text("utf-8"))["data"][0]
    *path, name = missing.split(".")
    part = order
    for step in path:
        part = part[step][0]
    del part[name]
    found = imported("foodics", json_file(tmp_path, {"data": [order]}))
    assert found.bills == []
    assert [one.reason for one in found.rejected] == [reason]
    assert named in found.rejected[0].detail


def test_the_time_of_an_update_is_the_revision_so_that_an_older_page_undoes_nothing(tmp_path: Path) -> None:
    assert imported("foodics", FOODICS).bills[0]["rev"] == 1794654310000
    receipts = imported("loyverse", EXAMPLES / "loyverse-receipts.json").bills
    assert [bill.get("rev") for bill in receipts[:1]] == [1794654320000]
    order = json.loads(FOODICS.read_text("utf-8"))["data"][0] | {"updated_at": "yesterday"}
    assert imported("foodics", json_file(tmp_path, {"data": [order]})).rejected[0].reason == "unreadable_value"


@pytest.mark.parametrize(
    ("file", "currency", "name"), [(FOODICS, "THB", "Riverside"), (CLOVER, "USD", "MRIVERSIDE001")]
)
def test_new_shops_are_written_once_and_need_a_time_zone_if_times_are_in_utc(
    file: Path, currency: str, name: str
) -> None:
    """Otherwise, bills of the evening would be on the next day, or those of the morning on the day before."""
    with pytest.raises(ImportFailed, match="--timezone"):
        imported(None, file, currency=currency, write_shops=True)
    assert imported(None, file, currency=currency).rejected == []
    found = imported(None, file, currency=currency, write_shops=True, timezone="America/Chicago")
    assert [(shop["name"], shop["timezone"]) for shop in found.shops] == [(name, "America/Chicago")]
    mapping = f'[numbers]\ncurrency = "{currency}"\n[dates]\ntimezone = "America/Chicago"'
    assert imported(None, file, write_shops=True, mapping=mapping).shops == found.shops


def test_a_receipt_of_loyverse_has_its_tip_in_the_net() -> None:
    found = imported("loyverse", EXAMPLES / "loyverse-receipts.json")
    assert found.rejected == []
    sale, cancelled, refund = found.bills
    assert (sale["id"], sale["closedAt"], sale["channel"]) == ("1-0003", "2026-11-14T11:05:00+00:00", "counter")
    assert sale["amounts"] == {
        "subtotal": "250",
        "discountTotal": "10",
        "cardSurcharge": "0",
        "vat": "15.70",
        "vatType": "Include",
        "tip": "20",
        "net": "260",
    }
    assert [line["total"] for line in sale["lines"]] == ["200", "50"]
    assert sale["payments"] == [{"name": "Cash", "amount": "100"}, {"name": "Card", "amount": "160"}]
    assert cancelled["void"] is True
    assert (refund["amounts"]["net"], refund["lines"][0]["qty"]) == ("-95", "-1")
    assert refund["orderIds"] == ["1-0005", "1-0003"]


@pytest.mark.parametrize(
    ("fields", "paid", "net"),
    [
        ({}, 240, "240"),
        ({}, 260, "260"),
        ({"surcharge": 7, "tip": 0}, 247, "247"),
        ({"surcharge": 7}, 260, "260"),
        ({"surcharge": 7}, 267, "267"),
        ({"total_money": -240, "tip": -20}, -260, "-260"),
        ({"total_money": -240, "tip": None}, -240, "-240"),
        ({"receipt_type": "REFUND"}, 260, "-260"),
        ({"receipt_type": "REFUND", "total_money": -240, "tip": 0}, -240, "-240"),
    ],
)
def test_payments_show_whether_the_total_of_a_receipt_includes_tip_and_surcharge(
    tmp_path: Path, fields: dict[str, Any], paid: int, net: str
) -> None:
    receipt = loyverse_receipt(payments=[{"name": "Cash", "money_amount": paid}], **fields)
    bill = imported("loyverse", json_file(tmp_path, receipt)).bill
    # A time without an offset is in UTC.
    assert (bill["amounts"]["net"], bill["closedAt"]) == (net, "2026-11-14T23:05:00+00:00")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"payments": [{"name": "Cash", "money_amount": 250}]}, "doubtful_value"),
        ({"tip": 0}, "doubtful_value"),
        ({"payments": []}, "doubtful_value"),
        ({"receipt_type": "EXCHANGE"}, "unknown_status"),
        ({"receipt_date": None}, "no_time"),
        ({"total_money": None}, "no_amount"),
        ({"store_id": None}, "no_shop"),
    ],
)
def test_a_receipt_that_is_not_clear_is_rejected(tmp_path: Path, fields: dict[str, Any], reason: str) -> None:
    found = imported("loyverse", json_file(tmp_path, {"receipts": [loyverse_receipt(**fields)]}))
    assert [one.reason for one in found.rejected] == [reason]


def test_an_order_of_clover_is_what_its_successful_payments_and_tips_add_up_to() -> None:
    found = imported("clover", CLOVER, currency="USD")
    assert found.rejected == []
    bill = found.bills[0]
    assert (bill["id"], bill["shopId"], bill["rev"]) == ("CLVORDER00001", "MRIVERSIDE001", 1794681000000)
    assert bill["closedAt"] == "2026-11-14T18:29:55.000+00:00"
    assert bill["amounts"] == {
        "subtotal": "57.00",
        "discountTotal": "3.00",
        "vat": "4.86",
        "vatType": "Exclude",
        "tip": "10.00",
        "net": "68.86",
    }
    assert [(line["name"], line["qty"], line["total"], line["cancelled"]) for line in bill["lines"]] == [
        ("Khao soi", "1", "26.00", False),
        ("Khao soi", "1", "25.00", False),
        ("Mango", "0.75", "6.00", False),
        ("Iced tea", "1", "5.00", True),
    ]
    assert bill["payments"] == [
        {"name": "Credit Card", "amount": "48.86"},
        {"name": "Cash", "amount": "50.00", "change": "30.00"},
    ]


@pytest.mark.parametrize(
    ("discounts", "total"),
    [([{"percentage": 10}], "5.70"), ([{"percentage": 10}, {"amount": -300}], "8.40"), ([{"name": "Friends"}], None)],
)
def test_a_discount_of_clover_may_be_a_percentage(
    tmp_path: Path, discounts: list[dict[str, Any]], total: str | None
) -> None:
    order = json.loads(CLOVER.read_text("utf-8"))["elements"][0] | {"discounts": {"elements": discounts}}
    order["lineItems"]["elements"] = [one for one in order["lineItems"]["elements"] if "discounts" not in one]
    bill = imported("clover", json_file(tmp_path, {"elements": [order]}), currency="USD").bill
    assert bill["amounts"]["subtotal"] == "57.00"
    assert bill["amounts"].get("discountTotal") == total


def test_a_refund_of_clover_is_a_bill_of_its_own_and_an_open_order_is_skipped() -> None:
    found = imported("clover", CLOVER, currency="USD")
    _, sale, refund = found.bills
    assert (sale["amounts"]["net"], sale["amounts"]["vatType"], sale["lines"]) == ("13.08", "Include", [])
    assert (refund["id"], refund["orderIds"]) == ("R1", ["CLVORDER00002"])
    assert refund["closedAt"] > sale["closedAt"]
    assert refund["amounts"] == {"vat": "-0.41", "net": "-5.00"}
    assert [one.reason for one in found.skipped] == ["the order is still open"]


CREDIT = {"id": "r1", "amount": 300, "createdTime": 1794700000000}
SURCHARGE = {"additionalCharges": {"elements": [{"type": "CREDIT_SURCHARGE", "amount": 30}]}}
CLOVER_PAYMENT = {"amount": 1000, "tipAmount": 100, "result": "SUCCESS"}


@pytest.mark.parametrize(
    ("fields", "nets"),
    [
        ({"refunds": {"elements": [CREDIT]}}, ["11.00", "-3.00"]),
        ({"refunds": {"elements": [{**CREDIT, "voided": True}]}}, ["11.00", "void"]),
        ({"payments": {"elements": [{**CLOVER_PAYMENT, "result": "VOIDED"}]}, "paymentState": "OPEN"}, ["void"]),
        ({"payments": {}, "voids": {"elements": [CLOVER_PAYMENT]}, "paymentState": "OPEN"}, ["void"]),
        ({"payments": {"elements": [{**CLOVER_PAYMENT, "refunds": {"elements": [CREDIT]}}]}}, ["11.00", "-3.00"]),
        ({"payments": {"elements": [{**CLOVER_PAYMENT, "voided": True}, CLOVER_PAYMENT]}}, ["11.00"]),
        ({"payments": {"elements": [{**CLOVER_PAYMENT, **SURCHARGE}]}}, ["11.30"]),
        ({"total": 970}, []),
        ({"paymentState": "CREDITED", "total": -300, "payments": {}, "credits": {"elements": [CREDIT]}}, ["-3.00"]),
    ],
)
def test_refunds_credits_and_voided_payments_of_clover_count_once(
    tmp_path: Path, fields: dict[str, Any], nets: list[str]
) -> None:
    found = imported("clover", json_file(tmp_path, clover_order(**fields)), currency="USD", shop="sh_1")
    assert ["void" if "void" in bill else bill["amounts"]["net"] for bill in found.bills] == nets


def test_the_smallest_unit_of_clover_depends_on_the_currency(tmp_path: Path) -> None:
    found = imported("clover", json_file(tmp_path, clover_order(currency="JPY")), currency="JPY", shop="sh_1")
    assert found.bill["amounts"]["net"] == "1100"
    assert imported("clover", json_file(tmp_path, clover_order()), shop="sh_1").rejected[0].reason == "other_currency"


@pytest.mark.parametrize(
    ("fields", "reason", "named"),
    [
        ({"payments": None}, "no_amount", "expand"),
        ({"payments": {"elements": []}}, "no_amount", "expand"),
        ({"paymentState": "REFUNDED"}, "no_amount", "refunds"),
        ({"lineItems": {"elements": [{"price": 1000, "refunded": True}]}}, "no_amount", "refunds"),
        ({"paymentState": "UNKNOWN"}, "unknown_status", "UNKNOWN"),
        ({"paymentState": "OPEN"}, "unknown_status", "open, but paid"),
        ({"paymentState": None, "state": "open"}, "unknown_status", "open, but paid"),
        ({"payments": {"elements": [{"amount": 1000, "result": "AUTH"}]}}, "unknown_status", "AUTH"),
        ({"payments": {"elements": [{"tipAmount": 100, "result": "SUCCESS"}]}}, "no_amount", "without an amount"),
        ({"createdTime": None}, "no_time", "time"),
        ({"createdTime": 1794679500}, "unreadable_value", "closedAt"),
        ({"createdTime": 10**18}, "unreadable_value", "closedAt"),
    ],
)
def test_an_order_of_clover_that_is_not_clear_is_rejected(
    tmp_path: Path, fields: dict[str, Any], reason: str, named: str
) -> None:
    order = {
        name: value for name, value in clover_order(**fields).items() if value is not None or name == "createdTime"
    }
    found = imported("clover", json_file(tmp_path, {"elements": [order]}), currency="USD", shop="sh_1")
    assert [one.reason for one in found.rejected] == [reason]
    assert named in found.rejected[0].detail


def clover_order(**fields: Any) -> dict[str, Any]:
    return {
        "id": "c1",
        "currency": "USD",
        "total": 1000,
        "paymentState": "PAID",
        "state": "locked",
        "createdTime": 1794679500000,
        "payments": {"elements": [{"amount": 1000, "tipAmount": 100, "result": "SUCCESS"}]},
        **fields,
    }


def loyverse_receipt(**fields: Any) -> dict[str, Any]:
    return {
        "receipt_number": "1-1",
        "receipt_type": "SALE",
        "receipt_date": "2026-11-14T23:05:00",
        "store_id": "s1",
        "total_money": 240,
        "tip": 20,
        "payments": [{"name": "Cash", "money_amount": 260}],
        **fields,
    }


def square_order(**fields: Any) -> dict[str, Any]:
    return {"id": "o1", "location_id": "L", "state": "COMPLETED", "closed_at": "2026-11-14T11:05:00Z", **fields}


def json_file(folder: Path, content: object) -> Path:
    return written(folder, json.dumps(content), "orders.json")


@pytest.mark.parametrize(
    ("example", "change"),
    [
        ("clover-orders.json", {"payments": {"elements": [7]}}),
        ("square-orders.json", {"line_items": "lost"}),
        ("square-orders.json", {"line_items": [None]}),
        ("square-orders.json", {"tenders": [[]]}),
        ("foodics-orders.json", {"payments": ["cash"]}),
        ("loyverse-receipts.json", {"line_items": 7}),
    ],
)
def test_an_order_with_a_value_of_another_type_rejects_only_itself(
    tmp_path: Path, example: str, change: dict[str, object]
) -> None:
    document = json.loads((EXAMPLES / example).read_text("utf-8"))
    orders = next(value for value in document.values() if isinstance(value, list))
    orders[0] |= change
    currency = "USD" if example.startswith("clover") else "THB"
    found = imported(None, written(tmp_path, json.dumps(document), "orders.json"), currency=currency)
    assert len(found.rejected) == 1
    assert found.bills
