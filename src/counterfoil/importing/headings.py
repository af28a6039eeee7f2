"""The words that tills use as headings and values, in English and Thai, and what they mean."""

import re
from typing import Final

_NOT_A_LETTER = re.compile(r"[\W_]+")
_THAI = re.compile(r"[\u0e00-\u0e7f]+")


def plain(text: str) -> str:
    """Return a heading in lower case, without spaces or punctuation."""
    if _THAI.search(text):
        return re.sub(r"[^\w\u0e00-\u0e7f]+|_", "", text.casefold())
    return _NOT_A_LETTER.sub("", text.casefold())


def _table(words: dict[str, str]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(plain(word) for word in text.split(", ")) for name, text in words.items()}


# The first matching word is used, so the more specific words come first.
BILL_HEADINGS: Final = _table(
    {
        "id": "transaction id, bill id, receipt id, order id, invoice id, bill no, bill number, bill, receipt number, "
        "receipt no, receipt, check number, check no, order number, order no, order, invoice number, invoice no, "
        "transaction number, transaction no, ticket no, doc no, document no, เลขที่บิล, หมายเลขบิล, รหัสบิล, "
        "เลขที่ใบเสร็จ, หมายเลขใบเสร็จ, เลขที่เอกสาร, เลขที่ออเดอร์, หมายเลขคำสั่งซื้อ, เลขที่",
        "closedAt": "closed at, closing time, close time, paid at, payment time, datetime, date time, date and time, "
        "timestamp, bill date, receipt date, order date, transaction date, sale date, date, created at, วันเวลา, "
        "วันที่และเวลา, วันที่เวลา, เวลาปิดบิล, วันที่ปิดบิล, วันที่ชำระ, วันที่ขาย, วันที่",
        "time": "time, bill time, receipt time, order time, time of day, เวลา, เวลาขาย",
        "tradingDay": "business date, business day, trading day, trading date, วันทำการ, วันที่ทำการ",
        "shopId": "branch, branch name, store, store name, shop, shop name, outlet, location, สาขา, ชื่อสาขา, ร้าน, ร้านค้า",
        "receiptNumber": "receipt number, receipt no, receipt, เลขที่ใบเสร็จ, หมายเลขใบเสร็จ",
        "taxNumber": "tax invoice no, tax invoice number, tax invoice, เลขที่ใบกำกับภาษี, ใบกำกับภาษี",
        "table.name": "table name, table no, table number, table, โต๊ะ, ชื่อโต๊ะ, หมายเลขโต๊ะ",
        "channel.id": "channel, sales channel, dining option, order type, service type, ช่องทาง, ช่องทางการขาย, "
        "ประเภทการขาย, ประเภทออเดอร์",
        "cashier": "cashier, cashier name, employee, staff, server, user, แคชเชียร์, พนักงาน, พนักงานขาย, ผู้รับเงิน",
        "deviceId": "device, device id, pos, terminal, register, เครื่อง, เครื่องขาย",
        "memberId": "member id, member no, member code, customer id, รหัสสมาชิก, หมายเลขสมาชิก",
        "amounts.net": "grand total, bill total, net total, total collected, total paid, amount paid, net amount, "
        "total amount, total, net sales, net, amount due, ยอดสุทธิ, รวมสุทธิ, ยอดรวมสุทธิ, ยอดชำระ, ยอดรวมทั้งสิ้น, "
        "รวมทั้งสิ้น, ยอดรวม, สุทธิ, จำนวนเงินรวม, มูลค่ารวม, มูลค่า, ยอด",
        "amounts.subtotal": "subtotal, sub total, gross sales, gross total, gross, total before discount, ยอดก่อนลด, "
        "ยอดก่อนส่วนลด, รวมก่อนส่วนลด, ยอดขาย",
        "amounts.discountTotal": "total discount, discount total, discounts, discount, discount amount, ส่วนลด, "
        "ส่วนลดรวม, ส่วนลดทั้งหมด",
        "amounts.serviceCharge": "service charge, service, svc, ค่าบริการ, เซอร์วิสชาร์จ",
        "amounts.deliveryFee": "delivery fee, delivery charge, ค่าจัดส่ง, ค่าส่ง",
        "amounts.vat": "vat, vat amount, tax, taxes, tax amount, total tax, ภาษี, ภาษีมูลค่าเพิ่ม",
        "amounts.rounding": "rounding, round, ปัดเศษ",
        "amounts.tip": "tip, tips, gratuity, ทิป",
        "void": "status, bill status, receipt status, order status, void, voided, cancelled, สถานะ, สถานะบิล, ยกเลิก",
        "voidReason": "void reason, cancel reason, cancellation reason, เหตุผลที่ยกเลิก, เหตุผล",
        "type": "receipt type, transaction type, bill type, type, ประเภท, ประเภทบิล",
    }
)
LINE_HEADINGS: Final = _table(
    {
        "name": "item name, product name, menu name, item, product, menu, description, ชื่อสินค้า, ชื่อเมนู, ชื่อรายการ, "
        "รายการ, สินค้า, เมนู",
        "productId": "product id, item id, product code, item code, sku, barcode, รหัสสินค้า, รหัสเมนู",
        "qty": "quantity, qty, item qty, จำนวน, จำนวนชิ้น",
        "unitPrice": "unit price, price, item price, price per unit, ราคาต่อหน่วย, ราคา/หน่วย, ราคา",
        "total": "line total, item total, amount, line amount, item amount, gross sales, net sales, total, "
        "total price, จำนวนเงิน, ราคารวม, รวมเงิน, มูลค่า, รวม, ยอด",
        "options": "modifiers, modifiers applied, options, add ons, ตัวเลือก, เพิ่มเติม",
        "categoryIds": "category, category name, group, menu group, หมวดหมู่, หมวด, กลุ่มสินค้า",
    }
)
PAYMENT_HEADINGS: Final = _table(
    {
        "name": "payment type, payment method, payment name, payment, tender, tender type, paid by, pay by, "
        "ประเภทการชำระเงิน, ประเภทการชำระ, วิธีชำระเงิน, วิธีการชำระเงิน, วิธีชำระ, วิธีการชำระ, ช่องทางชำระเงิน, "
        "ชำระโดย, การชำระเงิน",
        "amount": "amount, payment amount, tendered, amount tendered, paid, received, จำนวนเงิน, ยอดชำระ, รับเงิน, ยอด",
        "change": "change, change given, เงินทอน, ทอน",
    }
)
WAYS_OF_PAYING: Final = frozenset(
    plain(word)
    for word in [
        "cash",
        "card",
        "credit card",
        "debit card",
        "qr",
        "promptpay",
        "transfer",
        "bank transfer",
        "voucher",
        "wallet",
        "เงินสด",
        "บัตรเครดิต",
        "บัตร",
        "โอน",
        "เงินโอน",
        "พร้อมเพย์",
        "คิวอาร์",
        "คูปอง",
    ]
)
VOID_WORDS: Final = ("void", "cancel", "deleted", "ยกเลิก", "โมฆะ")
REFUND_WORDS: Final = ("refund", "return", "credit note", "คืนเงิน", "คืนสินค้า", "ลดหนี้")
OPEN_WORDS: Final = ("open", "pending", "hold", "unpaid", "draft", "ค้าง", "รอชำระ", "ยังไม่ชำระ", "พัก")
DONE_WORDS: Final = (
    "paid", "closed", "complete", "success", "settled", "sale", "normal", "ok", "done", "ชำระแล้ว", "ปิดบิล", "สำเร็จ",
    "ปกติ", "ขาย", "เสร็จ",
)  # fmt: skip
CHANNEL_WORDS: Final = {
    "counter": ("dine in", "dinein", "eat in", "here", "ทานที่ร้าน", "นั่งทาน", "กินที่ร้าน"),
    "take_away": ("take away", "takeaway", "take out", "takeout", "to go", "กลับบ้าน", "ห่อกลับ"),
    "pickup": ("pickup", "pick up", "รับเอง"),
    "delivery": ("delivery", "จัดส่ง", "เดลิเวอรี่", "ส่ง"),
}


def meaning(value: str) -> str | None:
    """Return what a value in a status column means: `open`, `void`, `refund`, `done`, or None if it is not known."""
    text = value.casefold()
    for word, names in (("open", OPEN_WORDS), ("refund", REFUND_WORDS), ("void", VOID_WORDS), ("done", DONE_WORDS)):
        if any(name in text for name in names):
            return word
    return None


def channel_of(value: str) -> str | None:
    text = value.casefold().replace("-", " ")
    for code, names in CHANNEL_WORDS.items():
        if any(name in text for name in names):
            return code
    return None
