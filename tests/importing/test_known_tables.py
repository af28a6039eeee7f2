"""Tests for exports that are recognised by their headings: which money comes in, and what is rejected by name."""

import csv
import re
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook

from counterfoil.importing.formats import built_in_tables
from counterfoil.importing.results import ImportFailed, OrderMissing
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


THAI = [("185.00", False), ("95.00", True), ("-95.00", False)]


@pytest.mark.parametrize(
    ("names", "net_and_void"),
    [
        (("loyverse-receipts-es.csv",), [("100.00", False), ("50.00", True), ("-50.00", False)]),
        (("loyverse-items-es.csv",), [("100.00", False), ("-50.00", False)]),
        (("loyverse-receipts-th.csv",), THAI),
        (("loyverse-items-th.csv",), THAI),
        (("loyverse-items-th.csv", "loyverse-receipts-th.csv"), THAI),
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
    ("zero", "end", "net"), [("0", ".000", "230000"), ("0.000", ".000", "230.000"), ("0,00", ",00", "230.00")]
)
def test_amounts_of_a_known_table_show_how_its_numbers_are_written(
    tmp_path: Path, zero: str, end: str, net: str
) -> None:
    text = (EXAMPLES / "loyverse-receipts.csv").read_text("utf-8")
    text = re.sub(r",(-?[1-9]\d*)\.00(?=,)", rf',"\1{end}"', text).replace(",0.00", f',"{zero}"')
    found = imported(None, written(tmp_path, text))
    assert (sums(found)[0], found.rejected) == (("1-0003", net, False), [])


def test_an_amount_in_thousands_or_with_three_decimals_among_others_is_a_question(tmp_path: Path) -> None:
    export = changed(tmp_path, "loyverse-receipts.csv", ("80.00", "80.000"))
    with pytest.raises(ImportFailed, match=r"80\.000"):
        imported(None, export)
    assert len(imported(None, export, mapping='[numbers]\ndecimal = "."').bills) == 3
    assert len(imported(None, changed(tmp_path, "toast-items.csv", ("3.20000000", "3.205"))).bills) == 3


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
    assert refund["id"] == "sqTx0002-sqPay0003", "a refund with the transaction of its sale is a bill of its own"
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


def test_older_transactions_of_square_have_no_status(tmp_path: Path) -> None:
    export = changed(tmp_path, "square-transactions.csv", (",Transaction Status,", ",Other,"))
    assert sums(imported(None, export)) == sums(example("square-transactions.csv"))


@pytest.mark.parametrize("zone", ["Eastern Time (US & Canada)", "Europe/London"])
def test_neither_a_time_zone_nor_days_near_each_other_show_whether_the_month_comes_first(
    tmp_path: Path, zone: str
) -> None:
    # Read with the month first, all bills are of one week, and with the day first of many months, or in the future.
    changes = ("2026-11-14", "11/05/2026"), ("Pacific Time (US & Canada)", zone)
    export = changed(tmp_path, "square-transactions.csv", *changes)
    with pytest.raises(OrderMissing, match="--date-order") as missing:
        imported(None, export, today=date(2026, 11, 6))
    assert missing.value.dates == ("11/05/2026",)


@pytest.mark.parametrize(
    ("cells", "day"),
    [
        # A cell of another row, another column with the same day, or one that is a date in one order only.
        (("11/05/2026", "", "11/13/2026"), "2026-11-05"),
        (("11/05/2026", "2026-11-05 18:07", "11/05/2026"), "2026-11-05"),
        (("11/05/2026", "20260511-0001", "11/05/2026"), "2026-05-11"),
        (("11/05/2026", "Tue", "11/05/2026"), None),
        (("11/05/2026", "Mon", "11/05/2026"), "2026-05-11"),
        (("11/05/2026", "11/14/2026", "11/05/2026"), "2026-11-05"),
        # Neither a date that is far away nor one of which only some rows have the day.
        (("11/05/2026", "01/30/2026", "11/05/2026"), None),
        (("11/05/2026", "2026-11-05", "10/05/2026"), None),
    ],
)
def test_another_cell_or_column_shows_whether_the_month_comes_first(
    tmp_path: Path, cells: tuple[str, str, str], day: str | None
) -> None:
    first, beside, second = cells
    text = (EXAMPLES / "square-transactions.csv").read_text("utf-8")
    header, row, *_ = text.splitlines()
    row = row.replace("Pacific Time (US & Canada)", "Europe/London").replace("2026-11-14", first)
    other = row.replace("sqTx0001", "sqTx0009").replace(f"{first},", f"{second},", 1)
    export = written(tmp_path, f"{header},Deposit\n{row},{beside}\n{other},{beside}\n")
    if day is None:
        with pytest.raises(OrderMissing):
            imported(None, export)
        return
    assert imported(None, export).bills[0]["closedAt"].startswith(day)


def test_the_order_of_dates_that_was_answered_for_a_known_till_is_kept_beside_its_mapping(tmp_path: Path) -> None:
    folder = tmp_path / "mappings"
    folder.mkdir()
    table = next(table for table in built_in_tables() if table.recognition.name == "Loyverse receipts")
    recognise = f'[recognise]\nname = "Loyverse receipts"\ncolumns = {list(table.recognition.columns)}\n'
    (folder / "dates.toml").write_text(recognise + '[dates]\norder = "mdy"\n', "utf-8")
    export = changed(tmp_path, "loyverse-receipts.csv", ("11/14/26", "11/12/26"))
    found = imported(None, export, own_mappings=folder)
    assert {bill["closedAt"][:10] for bill in found.bills} == {"2026-11-12"}
    # With items, and a day that contradicts it.
    items = changed(tmp_path, "loyverse-receipts-by-item.csv", ("11/14/26", "11/12/26"))
    assert imported(None, export, items, own_mappings=folder).bills[0]["lines"]
    other = changed(tmp_path, "loyverse-receipts.csv", ("11/14/26", "14/11/26"))
    with pytest.raises(ImportFailed, match="14/11/26, but"):
        imported(None, other, own_mappings=folder)


def test_a_new_shop_of_square_has_the_time_zone_of_its_transactions() -> None:
    [shop] = example("square-transactions.csv", write_shops=True).shops
    assert shop == {"kind": "shop", "id": "Riverside", "name": "Riverside", "timezone": "America/Los_Angeles"}


def test_item_details_of_square_give_net_sales_and_tax_and_say_that_tips_are_missing() -> None:
    found = example("square-items.csv")
    assert [net for _, net, _ in sums(found)] == ["58.86", "13.08", "-13.08"]
    assert found.bills[2]["lines"][0]["qty"] == "-1.0"
    assert "tips" in found.note


def test_item_details_of_square_are_the_lines_of_its_transactions() -> None:
    found = example("square-items.csv", "square-transactions.csv")
    assert found.note == ""
    assert [net for _, net, _ in sums(found)] == ["68.86", "13.08", "-13.08"]
    assert [len(bill["lines"]) for bill in found.bills] == [2, 1, 1]


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


def test_a_refund_of_toast_lowers_the_net_whatever_its_sign(tmp_path: Path) -> None:
    export = changed(tmp_path, "toast-payments.csv", (",4.80,0.00,", ",-4.80,0.00,"))
    assert sums(imported(None, export)) == sums(example("toast-payments.csv"))


def test_what_the_lines_of_a_known_table_must_add_up_to_is_checked_beside_its_bills(tmp_path: Path) -> None:
    items = changed(tmp_path, "toast-items.csv", ("10.80,0.00,10.80", "10.80,0.00,18.80"))
    [rejected] = imported(None, items, EXAMPLES / "toast-payments.csv").rejected
    assert "Gross Price - Discount" in rejected.detail


def test_items_and_payments_of_toast_are_joined_by_check() -> None:
    found = example("toast-items.csv", "toast-payments.csv")
    assert (found.rejected, len(found.skipped)) == ([], 1)
    # A check of which all items were voided has no payment.
    assert [(net, is_void) for _, net, is_void in sums(found)] == [("44.20", False), ("8.00", False), ("0", True)]
    assert [len(bill["lines"]) for bill in found.bills] == [2, 1, 1]
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


def test_orders_of_toast_have_their_totals_with_tips() -> None:
    found = example("toast-orders.csv")
    assert found.rejected == []
    assert sums(found) == [("1300000000000000122", "57.00", False), ("1300000000000000123", "0.00", True)]
    assert found.bills[0]["amounts"]["tip"] == "7.00"


@pytest.mark.parametrize("other", ["toast-payments.csv", "toast-items.csv"])
def test_tables_of_toast_that_show_the_same_sales_are_not_mixed(other: str) -> None:
    with pytest.raises(ImportFailed, match=r"Import only one|Import either"):
        example("toast-orders.csv", other)


def test_foodstory_numbers_start_again_every_day_and_voids_do_not_count() -> None:
    found = example("foodstory-orders.csv")
    assert found.rejected == []
    assert sums(found) == [
        ("2026-11-14-ริมน้ำ-D1-0001", "190.00", False),
        ("2026-11-14-ริมน้ำ-D1-0002", "1120.00", False),
        ("2026-11-14-ริมน้ำ-D1-0003", "0", True),
        ("2026-11-15-ริมน้ำ-D1-0001", "100.00", False),
    ]
    assert found.bills[0]["closedAt"] == "2026-11-14T18:05:14+07:00"
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
    found = imported(None, changed(tmp_path, "foodstory-orders.csv", ("2026-11-14 18:40:14", day)))
    assert (found.rejected, found.bills[1]["closedAt"]) == ([], "2026-11-14T18:40:14+07:00")


@pytest.mark.parametrize("repeated", ["18:40:14", "18:40", "6:40 PM", ""])
def test_the_time_in_the_column_of_the_day_may_be_repeated_in_the_column_of_times(
    tmp_path: Path, repeated: str
) -> None:
    found = imported(None, changed(tmp_path, "foodstory-orders.csv", (" 18:40:14,18:40:14", f" 18:40:14,{repeated}")))
    is_read = repeated != "6:40 PM"
    assert [bill["closedAt"][11:19] for bill in found.bills[1:2]] == ["18:40:14" if is_read else "19:10:14"]
    assert [one.reason for one in found.rejected] == ([] if is_read else ["unreadable_value"])


@pytest.mark.parametrize("other", ["18:41:14", "18:40:15", "19:40"])
def test_two_times_of_a_bill_that_differ_reject_it(tmp_path: Path, other: str) -> None:
    found = imported(None, changed(tmp_path, "foodstory-orders.csv", (" 18:40:14,18:40:14", f" 18:40:14,{other}")))
    assert ([one.reason for one in found.rejected], len(found.bills)) == (["unreadable_value"], 3)


def test_a_bill_has_the_same_id_however_a_file_writes_its_day(tmp_path: Path) -> None:
    ids = [bill["id"] for bill in example("foodstory-orders.csv").bills]
    for day in ("2026-11-14", "14/11/2569", "14/11/69", "14/11/26", "14 พ.ย. 2569", "2026-11-14 00:00:00"):
        text = re.sub(r"2026-11-14 \d\d:\d\d:\d\d", day, (EXAMPLES / "foodstory-orders.csv").read_text("utf-8"))
        export = written(tmp_path, text)
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


def test_orders_of_grabfood_are_what_customers_paid_without_commissions(tmp_path: Path) -> None:
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
    for category, is_known in (("Cancelled", True), ("Gone", False)):
        changes = (PAID, f",{category},,Cancelled,"), (",หมวดหมู่,", ",Category,")
        later = imported(None, changed(tmp_path, "grabfood-transactions.csv", *changes))
        assert [bool(bill.get("void")) for bill in later.bills] == [False, *[True] * is_known, True]
        assert ["Category" in row.detail for row in later.rejected] == [True] * (not is_known)


def test_orders_of_shopify_are_what_was_paid_and_not_refunded() -> None:
    found = example("shopify-orders.csv")
    assert (found.rejected, len(found.skipped)) == ([], 1)
    assert sums(found) == [("#1001", "58.32", False), ("#1002", "10.96", False), ("#1003", "12.96", True)]
    assert [len(bill["lines"]) for bill in found.bills] == [2, 1, 1]
    assert found.bills[0]["closedAt"] == "2026-11-14T18:05:12-05:00"


def test_orders_of_odoo_are_its_totals_in_csv_and_in_a_workbook(tmp_path: Path) -> None:
    found = example("odoo-orders.csv")
    assert (found.rejected, [row.reason for row in found.skipped]) == ([], ["Status is New"])
    refund, second, first, cancelled = found.bills
    nets = [Decimal(bill["amounts"]["net"]) for bill in found.bills]
    assert nets == [Decimal("-80.25"), Decimal(321), Decimal("588.5"), Decimal(50)]
    assert [bill.get("void") for bill in found.bills] == [None, None, None, True]
    assert (first["id"], first["shopId"], first["closedAt"]) == (
        "Riverside/0001-2601-007-0001",
        "Riverside",
        "2026-11-14T18:05:12",
    )
    assert (refund["cashier"], cancelled["receiptNumber"]) == ("Mali", "2601-007-0005")
    # The customer is a name, which is never stored.
    assert "Example Guest" not in str(second)
    assert "no items, taxes, tips or payments" in found.note
    header, *rows = csv.reader((EXAMPLES / "odoo-orders.csv").read_text("utf-8").splitlines())
    book = Workbook()
    book.active.append(header)
    for row in rows:
        cells = dict(zip(header, row, strict=True))
        day, total = datetime.fromisoformat(cells["Date"]), float(cells["Total"])
        book.active.append([{"Date": day, "Total": total}.get(name, cell) for name, cell in cells.items()])
    book.save(tmp_path / "orders.xlsx")
    bills = imported(None, tmp_path / "orders.xlsx").bills
    assert [Decimal(bill["amounts"]["net"]) for bill in bills] == nets
    assert [{**bill, "amounts": None} for bill in bills] == [{**bill, "amounts": None} for bill in found.bills]


# The bill of each example that the changes below are about.
CHANGED_BILLS = {
    "loyverse-receipts.csv": "Riverside-1-0003",
    "square-transactions.csv": "sqTx0002-sqPay0002",
    "toast-items.csv": "1300000000000000116",
    "toast-orders.csv": "1300000000000000122",
    "toast-payments.csv": "1300000000000000115",
    "foodstory-orders.csv": "2026-11-14-ริมน้ำ-D1-0002",
    "grabfood-transactions.csv": "0000000002-GRABORDER2",
    "shopify-orders.csv": "#1001",
    "odoo-orders.csv": "Riverside/0002-2601-007-0002",
}
PAID = ",ชำระเงิน,,โอนแล้ว,"


@pytest.mark.parametrize(
    ("name", "old", "new", "reason", "named"),
    [
        ("loyverse-receipts.csv", ",Sale,240", ",Layaway,240", "unknown_status", "Layaway"),
        ("loyverse-receipts.csv", ",Closed\n11/14/26 6:20", ",Parked\n11/14/26 6:20", "unknown_status", "Parked"),
        ("square-transactions.csv", "$0.00,$13.08,Point", "$0.00,,Point", "no_amount", "total"),
        ("square-transactions.csv", "Pad thai,Payment,", "Pad thai,Dispute,", "unknown_status", "Dispute"),
        (
            "loyverse-receipts.csv",
            ",230.00,80.00",
            ",930.00,80.00",
            "doubtful_value",
            "but 230.00 for Net sales + Taxes.",
        ),
        ("loyverse-receipts.csv", "10.00,230.00,", "90.00,230.00,", "doubtful_value", "Gross sales - Discounts"),
        ("square-transactions.csv", "$0.00,$13.08,Point", "$0.00,$31.08,Point", "doubtful_value", "Net Sales + Tax"),
        ("toast-items.csv", "10.80,0.00,10.80", "10.80,0.00,18.80", "doubtful_value", "Gross Price - Discount"),
        ("toast-orders.csv", ",57.00,", ",75.00,", "doubtful_value", "Amount + Tax + Tip + Gratuity"),
        ("toast-payments.csv", "0.00,24.20", "0.00,42.20", "doubtful_value", "Amount + Tip + Gratuity"),
        ("toast-payments.csv", "20.00,NONE,", "20.00,FULL,", "doubtful_value", "Refund Amount"),
        ("toast-payments.csv", "20.00,NONE,", "20.00,PARTIAL,", "doubtful_value", "Refund Tip Amount × Refunded"),
        ("toast-payments.csv", "20.00,NONE,,,", "20.00,PARTIAL,,30,", "doubtful_value", "Refund Tip Amount × Refunded"),
        ("toast-payments.csv", "20.00,NONE", "20.00,YES", "unknown_status", "Refunded"),
        ("toast-items.csv", "Tax Included", "Smart Tax", "unreadable_value", "Tax Inclusion Option"),
        ("toast-orders.csv", "false,11/14/26 6:53 PM,11/14/26 6:53 PM", "false,,", "no_time", "time"),
        ("toast-payments.csv", ",CAPTURED,Cash", "11/14/26 7:00 PM,CAPTURED,Cash", "unknown_status", "Void Date"),
        ("foodstory-orders.csv", ",Order Success,,,กลับ", ",Order Pending,,,กลับ", "unreadable_value", "Order Pending"),
        ("foodstory-orders.csv", ",,,กลับ", ",,รอปิดบิล,กลับ", "unknown_status", "รอปิดบิล"),
        ("shopify-orders.csv", ",58.32,", ",158.32,", "doubtful_value", "Subtotal + Shipping"),
        ("shopify-orders.csv", "#1001,,paid,", "#1001,,partially_paid,", "unknown_status", "partially_paid"),
        ("shopify-orders.csv", "#1001,,paid,", "#1001,,refunded,", "doubtful_value", "Refunded Amount × Financial"),
        ("shopify-orders.csv", "#1001,,paid,", "#1001,,partially_refunded,", "doubtful_value", "Refunded Amount × "),
        ("odoo-orders.csv", '321.0,"Paid"', '321.0,"To Pay"', "unknown_status", "To Pay"),
        ("odoo-orders.csv", '321.0,"Paid"', ',"Paid"', "no_amount", "total"),
        ("grabfood-transactions.csv", PAID, ",คืนเงิน,,โอนแล้ว,", "unknown_status", "คืนเงิน"),
        ("grabfood-transactions.csv", PAID, ",,,โอนแล้ว,", "unknown_status", "หมวดหมู่"),
        ("grabfood-transactions.csv", PAID, ",ชำระเงิน,,ไม่สำเร็จ,", "unknown_status", "ไม่สำเร็จ"),
    ],
)
def test_a_bill_of_a_known_table_that_is_not_clear_is_rejected_by_name(
    tmp_path: Path, name: str, old: str, new: str, reason: str, named: str
) -> None:
    found = imported(None, changed(tmp_path, name, (old, new)))
    [rejected] = found.rejected
    assert (rejected.bill, rejected.reason) == (CHANGED_BILLS[name], reason)
    assert named in rejected.detail
    assert len(found.bills) == len(example(name).bills) - 1
