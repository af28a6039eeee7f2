"""The fields of source records that a mapping can fill, and the type of each.

The names are those of docs/source-records.md, with a dot between an object
and its field. `voidReason` stands for the reason within `void`, and `timezone`
is the zone of the bill's times.
"""

from typing import Final

TEXT, NUMBER, TIME, DAY, FLAG, LIST, OPTIONS = "text", "number", "time", "day", "flag", "list", "options"

BILL_FIELDS: Final = {
    "id": TEXT,
    "shopId": TEXT,
    "rev": NUMBER,
    "removed": FLAG,
    "closedAt": TIME,
    "timezone": TEXT,
    "tradingDay": DAY,
    "history": FLAG,
    "orderIds": LIST,
    "receiptNumber": TEXT,
    "taxNumber": TEXT,
    "deviceId": TEXT,
    "stationId": TEXT,
    "cashier": TEXT,
    "table.id": TEXT,
    "table.name": TEXT,
    "channel.id": TEXT,
    "channel.name": TEXT,
    "buffetPackageId": TEXT,
    "serviceType": TEXT,
    "memberId": TEXT,
    "void": FLAG,
    "voidReason": TEXT,
    "amounts.subtotal": NUMBER,
    "amounts.discount": NUMBER,
    "amounts.discountTotal": NUMBER,
    "amounts.serviceCharge": NUMBER,
    "amounts.deliveryFee": NUMBER,
    "amounts.cardSurcharge": NUMBER,
    "amounts.credit": NUMBER,
    "amounts.vat": NUMBER,
    "amounts.vatType": TEXT,
    "amounts.rounding": NUMBER,
    "amounts.tip": NUMBER,
    "amounts.net": NUMBER,
}
LINE_FIELDS: Final = {
    "productId": TEXT,
    "rootId": TEXT,
    "name": TEXT,
    "qty": NUMBER,
    "unitPrice": NUMBER,
    "total": NUMBER,
    "options": OPTIONS,
    "categoryIds": LIST,
    "cancelled": FLAG,
    "vat": FLAG,
    "tip": FLAG,
}
# A cancelled payment is left out.
PAYMENT_FIELDS: Final = {"name": TEXT, "amount": NUMBER, "change": NUMBER, "cancelled": FLAG}
GROUPS: Final = frozenset({"amounts", "table", "channel"})
