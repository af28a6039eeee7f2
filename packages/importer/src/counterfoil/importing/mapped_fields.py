"""The fields of source records that a mapping can fill, and how their cells are read.

The names are those of docs/source-records.md, with a dot between an object and its field.
"""

from enum import StrEnum


class Cell(StrEnum):
    """How the cells of a field are read."""

    TEXT = "text"
    NUMBER = "number"
    TIME = "time"
    DAY = "day"
    FLAG = "flag"
    LIST = "list"
    OPTIONS = "options"


# `voidReason` stands for the reason within `void`, and `timezone` is the zone of the bill's times.
BILL_FIELDS = {
    "id": Cell.TEXT,
    "shopId": Cell.TEXT,
    "timezone": Cell.TEXT,
    "receiptNumber": Cell.TEXT,
    "taxNumber": Cell.TEXT,
    "deviceId": Cell.TEXT,
    "stationId": Cell.TEXT,
    "cashier": Cell.TEXT,
    "table.id": Cell.TEXT,
    "table.name": Cell.TEXT,
    "channel.id": Cell.TEXT,
    "channel.name": Cell.TEXT,
    "buffetPackageId": Cell.TEXT,
    "serviceType": Cell.TEXT,
    "memberId": Cell.TEXT,
    "voidReason": Cell.TEXT,
    "amounts.vatType": Cell.TEXT,
    "rev": Cell.NUMBER,
    "amounts.subtotal": Cell.NUMBER,
    "amounts.discount": Cell.NUMBER,
    "amounts.discountTotal": Cell.NUMBER,
    "amounts.serviceCharge": Cell.NUMBER,
    "amounts.deliveryFee": Cell.NUMBER,
    "amounts.cardSurcharge": Cell.NUMBER,
    "amounts.credit": Cell.NUMBER,
    "amounts.vat": Cell.NUMBER,
    "amounts.rounding": Cell.NUMBER,
    "amounts.tip": Cell.NUMBER,
    "amounts.net": Cell.NUMBER,
    "closedAt": Cell.TIME,
    "tradingDay": Cell.DAY,
    "removed": Cell.FLAG,
    "history": Cell.FLAG,
    "void": Cell.FLAG,
    "orderIds": Cell.LIST,
}
LINE_FIELDS = {
    "productId": Cell.TEXT,
    "rootId": Cell.TEXT,
    "name": Cell.TEXT,
    "qty": Cell.NUMBER,
    "unitPrice": Cell.NUMBER,
    "total": Cell.NUMBER,
    "options": Cell.OPTIONS,
    "categoryIds": Cell.LIST,
    "cancelled": Cell.FLAG,
    "vat": Cell.FLAG,
    "tip": Cell.FLAG,
}
# A cancelled payment is left out.
PAYMENT_FIELDS = {"name": Cell.TEXT, "amount": Cell.NUMBER, "change": Cell.NUMBER, "cancelled": Cell.FLAG}
# `telPrefix` is put before phone numbers that begin with neither 0 nor +, and `leftOut` says that a row is no member.
MEMBER_FIELDS = {
    "id": Cell.TEXT,
    "rank": Cell.TEXT,
    "tel": Cell.TEXT,
    "telPrefix": Cell.TEXT,
    "email": Cell.TEXT,
    "couponStatus": Cell.TEXT,
    "rev": Cell.NUMBER,
    "points": Cell.NUMBER,
    "credit": Cell.NUMBER,
    "visits": Cell.NUMBER,
    "createdAt": Cell.TIME,
    "lastVisit": Cell.DAY,
    "pointsExpireAt": Cell.DAY,
    "creditExpireAt": Cell.DAY,
    "leftOut": Cell.FLAG,
    "labels": Cell.LIST,
    "coupons": Cell.LIST,
}
