"""Tests for exports that are recognised by their headings: which money comes in, and what is rejected by name."""

from pathlib import Path
from typing import Any

import pytest

from counterfoil.importing.results import ImportFailed
from importing.exports import EXAMPLES, Outcome, imported, written


def example(*names: str, **options: Any) -> Outcome:
    """Import examples as an operator does who names no format."""
    return imported(None, *(EXAMPLES / name for name in names), **options)


def changed(folder: Path, name: str, *changes: tuple[str, str]) -> Path:
    """Write a copy of an example in which texts are replaced."""
    text = (EXAMPLES / name).read_text("utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return written(folder, text, name)


def sums(found: Outcome) -> list[tuple[str, str | None, bool]]:
    """Return the ID, the net and whether it is void, of each bill."""
    return [(bill["id"], bill.get("amounts", {}).get("net"), "void" in bill) for bill in found.bills]


@pytest.mark.parametrize(
    ("names", "net_and_void"),
    [
        (("loyverse-receipts-es.csv",), [("100.00", False), ("50.00", True), ("-50.00", False)]),
        (("loyverse-items-es.csv",), [("100.00", False), ("-50.00", False)]),
        (("loyverse-receipts-th.csv",), [("185.00", False), ("95.00", True), ("-95.00", False)]),
        (("loyverse-items-th.csv",), [("185.00", False), ("95.00", True), ("-95.00", False)]),
        (
            ("loyverse-items-th.csv", "loyverse-receipts-th.csv"),
            [("185.00", False), ("95.00", True), ("-95.00", False)],
        ),
    ],
)
def test_loyverse_is_read_in_spanish_and_thai(names: tuple[str, ...], net_and_void: list[tuple[str, bool]]) -> None:
    found = example(*names, shop="sh_1")
    assert found.rejected == []
    assert [(net, void) for _, net, void in sums(found)] == net_and_void


def test_a_thai_export_of_items_keeps_its_lines_and_its_day() -> None:
    bill = example("loyverse-items-th.csv").bills[0]
    assert (bill["shopId"], bill["closedAt"]) == ("ริมน้ำ", "2026-07-22T18:05:00")
    assert [(line["name"], line["qty"]) for line in bill["lines"]] == [("ชาเย็น", "2"), ("ข้าวซอย", "1")]


def test_dates_of_loyverse_that_may_be_in_either_order_are_a_question(tmp_path: Path) -> None:
    export = changed(tmp_path, "loyverse-receipts.csv", ("11/14/26", "11/12/26"))
    with pytest.raises(ImportFailed, match="--date-order"):
        imported(None, export)
    found = imported(None, export, mapping='[dates]\norder = "dmy"')
    assert found.bills[0]["closedAt"] == "2026-12-11T18:05:00"


@pytest.mark.parametrize(
    ("old", "new"), [(",Sale,240", ",Layaway,240"), (",Mali,,,Closed\n11/14/26 6:20", ",Mali,,,Parked\n11/14/26 6:20")]
)
def test_an_unknown_type_or_status_of_a_receipt_is_rejected_by_name(tmp_path: Path, old: str, new: str) -> None:
    found = imported(None, changed(tmp_path, "loyverse-receipts.csv", (old, new)))
    assert [(one.bill, one.reason) for one in found.rejected] == [("Riverside-1-0003", "unknown_status")]
    assert "Layaway" in found.rejected[0].detail or "Parked" in found.rejected[0].detail
    assert len(found.bills) == 2


def test_items_of_loyverse_with_taxes_need_the_receipts(tmp_path: Path) -> None:
    """Alone, they do not show whether the taxes are included in the sales."""
    items = changed(tmp_path, "loyverse-receipts-by-item.csv", ("110.00,0.00,Dine", "110.00,12.60,Dine"))
    found = imported(None, items)
    assert [(one.bill, one.reason) for one in found.rejected] == [("Riverside-1-0003", "doubtful_value")]
    assert "Taxes" in found.rejected[0].detail
    assert len(imported(None, items, EXAMPLES / "loyverse-receipts.csv").bills) == 3


def test_transactions_of_square_are_what_was_collected_before_fees() -> None:
    found = example("square-transactions.csv")
    assert found.rejected == []
    sale, other, refund = found.bills
    assert sale["amounts"] == {
        "subtotal": "60.00",
        "discountTotal": "6.00",
        "serviceCharge": "0.00",
        "vat": "4.86",
        "tip": "10.00",
        "net": "68.86",
    }
    assert sale["closedAt"] == "2026-11-14T18:05:12-08:00"
    assert sale["payments"] == [{"name": "Card", "amount": "48.86"}, {"name": "Cash", "amount": "20.00"}]
    assert other["payments"] == [{"name": "Gift card", "amount": "5.00"}, {"name": "House Account", "amount": "8.08"}]
    assert (refund["amounts"]["net"], refund["amounts"]["vat"]) == ("-13.08", "-1.08")
    assert refund["payments"] == [{"name": "Cash", "amount": "-13.08"}]


def test_a_new_shop_of_square_has_the_time_zone_of_its_transactions() -> None:
    [shop] = example("square-transactions.csv", write_shops=True).shops
    assert shop == {"kind": "shop", "id": "Riverside", "name": "Riverside", "timezone": "America/Los_Angeles"}


def test_a_transaction_without_a_total_is_rejected(tmp_path: Path) -> None:
    found = imported(None, changed(tmp_path, "square-transactions.csv", ("$0.00,$13.08,Point", "$0.00,,Point")))
    assert [(one.bill, one.reason) for one in found.rejected] == [("sqTx0002-sqPay0002", "no_amount")]


def test_a_refund_of_square_with_the_sale_s_transaction_id_is_a_bill_of_its_own() -> None:
    assert [bill["id"] for bill in example("square-transactions.csv").bills] == [
        "sqTx0001-sqPay0001",
        "sqTx0002-sqPay0002",
        "sqTx0002-sqPay0003",
    ]


def test_item_details_of_square_give_net_sales_and_tax_and_say_that_tips_are_missing() -> None:
    found = example("square-items.csv")
    assert [net for _, net, _ in sums(found)] == ["58.86", "13.08", "-13.08"]
    assert found.bills[2]["lines"][0]["qty"] == "-1.0"
    assert "tips" in found.note


def test_item_details_of_square_are_the_lines_of_its_transactions() -> None:
    found = example("square-items.csv", "square-transactions.csv")
    assert found.note == ""
    assert [(net, len(bill["lines"])) for (_, net, _), bill in zip(sums(found), found.bills, strict=True)] == [
        ("68.86", 2),
        ("13.08", 1),
        ("-13.08", 1),
    ]


def test_an_event_of_square_that_is_neither_a_payment_nor_a_refund_is_rejected(tmp_path: Path) -> None:
    found = imported(None, changed(tmp_path, "square-transactions.csv", ("Pad thai,Payment,", "Pad thai,Dispute,")))
    assert [(one.bill, one.reason) for one in found.rejected] == [("sqTx0002-sqPay0002", "unknown_status")]


def test_a_check_of_toast_is_a_bill_whose_voided_items_do_not_count() -> None:
    found = example("toast-items.csv")
    assert found.rejected == []
    assert sums(found) == [
        ("1300000000000000115", "39.20000000", False),
        ("1300000000000000116", "10.80000000", False),
        ("1300000000000000117", "0", True),
    ]
    first = found.bills[0]
    assert first["orderIds"] == ["1300000000000000122"]
    assert [(line["name"], line["cancelled"]) for line in first["lines"]] == [("Khao soi", False), ("Iced tea", True)]
    assert "tips" in found.note


def test_a_tax_option_of_toast_that_is_not_known_is_rejected_by_name(tmp_path: Path) -> None:
    found = imported(None, changed(tmp_path, "toast-items.csv", ("Tax Included", "Smart Tax")))
    assert [one.bill for one in found.rejected] == ["1300000000000000116"]
    assert "Smart Tax" in found.rejected[0].detail


def test_older_item_selections_of_toast_have_prices_without_tax(tmp_path: Path) -> None:
    export = changed(tmp_path, "toast-items.csv", (",Discount,", ",Discnt,"), ("Tax Inclusion Option", "Other"))
    found = imported(None, export)
    assert found.rejected == []
    assert [net for _, net, _ in sums(found)] == ["39.20000000", "11.60000000", "0"]
    assert found.bills[0]["amounts"]["discountTotal"] == "4.00"


def test_payments_of_toast_are_added_up_by_check_without_the_denied_ones() -> None:
    found = example("toast-payments.csv")
    assert found.rejected == []
    assert len(found.skipped) == 1
    assert sums(found) == [("1300000000000000115", "44.20", False), ("1300000000000000116", "8.00", False)]
    assert [bill["amounts"]["tip"] for bill in found.bills] == ["5.00", "2.00"]
    assert found.bills[0]["payments"] == [{"name": "Cash", "amount": "20.00"}, {"name": "Credit", "amount": "24.20"}]


def test_payments_of_a_toast_check_may_have_different_words_for_a_sale(tmp_path: Path) -> None:
    mixed = changed(tmp_path, "toast-payments.csv", (",CAPTURED,Cash", ",,Cash"))
    assert sums(imported(None, mixed)) == sums(example("toast-payments.csv"))


def test_a_payment_of_toast_with_a_date_of_voiding_but_no_such_status_is_rejected(tmp_path: Path) -> None:
    voided = changed(tmp_path, "toast-payments.csv", (",CAPTURED,Cash", "11/14/26 7:00 PM,CAPTURED,Cash"))
    found = imported(None, voided)
    assert [bill.bill for bill in found.rejected] == ["1300000000000000115"]
    assert [bill["id"] for bill in found.bills] == ["1300000000000000116"]


def test_items_and_payments_of_toast_are_joined_by_check() -> None:
    found = example("toast-items.csv", "toast-payments.csv")
    assert (found.rejected, len(found.skipped)) == ([], 1)
    assert [(bill["amounts"].get("net"), len(bill["lines"])) for bill in found.bills] == [
        ("44.20", 2),
        ("8.00", 1),
        ("0", 1),
    ]
    # A check of which all items were voided has no payment.
    assert [bill.get("void") for bill in found.bills] == [None, None, True]
    assert found.bills[0]["amounts"] == {
        "subtotal": "40.00",
        "discountTotal": "4.00",
        "vat": "3.20000000",
        "tip": "5.00",
        "net": "44.20",
    }


def test_an_item_of_toast_on_a_check_that_was_not_paid_is_rejected(tmp_path: Path) -> None:
    unpaid = changed(tmp_path, "toast-items.csv", (",1300000000000000116,", ",1300000000000000118,"))
    found = imported(None, unpaid, EXAMPLES / "toast-payments.csv")
    assert [(one.bill, one.reason) for one in found.rejected] == [("1300000000000000118", "no_bill")]


def test_an_id_that_a_spreadsheet_has_rounded_is_rejected(tmp_path: Path) -> None:
    found = imported(None, changed(tmp_path, "toast-payments.csv", (",1300000000000000115,", ",1.3E+18,")))
    assert [bill["id"] for bill in found.bills] == ["1300000000000000116"]
    assert {one.reason for one in found.rejected} == {"no_id"}


def test_orders_of_toast_have_their_totals_with_tips() -> None:
    found = example("toast-orders.csv")
    assert found.rejected == []
    assert sums(found) == [("1300000000000000122", "57.00", False), ("1300000000000000123", "0.00", True)]
    assert found.bills[0]["amounts"]["tip"] == "7.00"


def test_an_order_of_toast_that_was_not_paid_is_rejected(tmp_path: Path) -> None:
    found = imported(
        None, changed(tmp_path, "toast-orders.csv", ("false,11/14/26 6:53 PM,11/14/26 6:53 PM", "false,,"))
    )
    assert [(one.bill, one.reason) for one in found.rejected] == [("1300000000000000122", "no_time")]


def test_tables_of_toast_that_show_the_same_sales_are_not_mixed() -> None:
    with pytest.raises(ImportFailed, match="Import only one"):
        example("toast-orders.csv", "toast-payments.csv")


def test_foodstory_numbers_start_again_every_day_and_voids_do_not_count() -> None:
    found = example("foodstory-orders.csv")
    assert found.rejected == []
    assert sums(found) == [
        ("2026-11-14-ริมน้ำ-D1-0001", "190.00", False),
        ("2026-11-14-ริมน้ำ-D1-0002", "1120.00", False),
        ("2026-11-14-ริมน้ำ-D1-0003", "0", True),
        ("2026-11-15-ริมน้ำ-D1-0001", "100.00", False),
    ]
    assert found.bills[0]["closedAt"] == "2026-11-14T18:05:00+07:00"
    assert [line["cancelled"] for line in found.bills[0]["lines"]] == [False, True]


@pytest.mark.parametrize("encoding", ["cp874", "utf-16", "utf-8-sig"])
def test_the_encoding_of_a_known_table_is_found_from_its_headings(tmp_path: Path, encoding: str) -> None:
    text = (EXAMPLES / "foodstory-orders.csv").read_text("utf-8")
    found = imported(None, written(tmp_path, text, "orders.csv", encoding))
    assert (found.rejected, len(found.bills)) == ([], 4)


def test_a_spanish_export_that_excel_has_saved_is_read(tmp_path: Path) -> None:
    text = (EXAMPLES / "loyverse-items-es.csv").read_text("utf-8")
    found = imported(None, written(tmp_path, text, "items.csv", "windows-1252"), shop="sh_1")
    assert [line["name"] for bill in found.bills for line in bill["lines"]] == ["Taco", "Agua", "Taco"]


@pytest.mark.parametrize(
    "day", ["2026-11-14 00:00:00", "14/11/2026 0:00", "14/11/2026 12:00:00 AM", "2026-11-14T00:00:00"]
)
def test_a_day_that_a_spreadsheet_writes_with_midnight_has_the_time_of_the_next_column(
    tmp_path: Path, day: str
) -> None:
    found = imported(None, changed(tmp_path, "foodstory-orders.csv", ("14/11/2026,18:40", f"{day},18:40")))
    assert (found.rejected, found.bills[1]["closedAt"]) == ([], "2026-11-14T18:40:00+07:00")


def test_a_bill_has_the_same_id_however_a_file_writes_its_day(tmp_path: Path) -> None:
    ids = [bill["id"] for bill in example("foodstory-orders.csv").bills]
    for day in ("2026-11-14", "14/11/2569", "14 พ.ย. 2569", "2026-11-14 00:00:00"):
        export = changed(tmp_path, "foodstory-orders.csv", ("14/11/2026", day))
        assert [bill["id"] for bill in imported(None, export).bills] == ids


def test_a_foodstory_report_without_its_row_of_totals_may_be_cut(tmp_path: Path) -> None:
    text = (EXAMPLES / "foodstory-orders.csv").read_text("utf-8")
    rows = text.splitlines(keepends=True)
    [rejected] = imported(None, written(tmp_path, "".join(rows[:-1]))).rejected
    assert "no row of totals" in rejected.detail


def test_the_totals_of_foodstory_are_compared_with_voids_included(tmp_path: Path) -> None:
    def differences(found: Outcome) -> list[str]:
        return [one.column for one in found.totals if one.stated != one.computed]

    assert differences(example("foodstory-orders.csv")) == []
    export = changed(tmp_path, "foodstory-orders.csv", ("ชาเย็น,2,100.00", "ชาเย็น,2,90.00"))
    assert differences(imported(None, export)) == ["ราคารวม"]


@pytest.mark.parametrize(("old", "new"), [(",Order Success,,,กลับ", ",Order Pending,,,กลับ"), (",,,กลับ", ",,รอปิดบิล,กลับ")])
def test_an_unknown_status_of_foodstory_is_rejected_by_name(tmp_path: Path, old: str, new: str) -> None:
    found = imported(None, changed(tmp_path, "foodstory-orders.csv", (old, new)))
    assert [one.bill for one in found.rejected] == ["14/11/2026-ริมน้ำ-D1-0002"]


def test_orders_of_grabfood_are_what_customers_paid_without_commissions() -> None:
    found = example("grabfood-transactions.csv")
    assert found.rejected == []
    assert len(found.skipped) == 2
    assert sums(found) == [
        ("0000000001-GRABORDER1", "213", False),
        ("0000000002-GRABORDER2", "243", False),
        ("0000000003-GRABORDER3", None, True),
    ]
    first = found.bills[0]
    assert (first["shopId"], first["receiptNumber"]) == ("3-RIVERSIDE", "GF-267")
    assert first["closedAt"] == "2026-11-14T17:15:00+07:00"
    assert first["amounts"] == {"subtotal": "255", "discountTotal": "42", "net": "213"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (",ชำระเงิน,,โอนแล้ว,", ",คืนเงิน,,โอนแล้ว,"),
        (",ชำระเงิน,,โอนแล้ว,", ",,,โอนแล้ว,"),
        (",ชำระเงิน,,โอนแล้ว,", ",ชำระเงิน,,ไม่สำเร็จ,"),
    ],
)
def test_an_order_of_grabfood_that_is_not_called_complete_is_rejected(tmp_path: Path, old: str, new: str) -> None:
    found = imported(None, changed(tmp_path, "grabfood-transactions.csv", (old, new)))
    assert [(one.bill, one.reason) for one in found.rejected] == [("0000000002-GRABORDER2", "unknown_status")]
