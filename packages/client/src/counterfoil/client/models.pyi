# `make docs` writes the types of published objects into this file, as `models.py` makes them for running programs.

from decimal import Decimal
from typing import Generic, Literal, NotRequired, TypedDict, TypeVar

from msgspec import Struct

Row = TypeVar("Row")

class Page(Struct, Generic[Row], frozen=True):
    data: list[Row]
    next_cursor: str | None
    server_time: str
    remaining: int | None = None
    mark: str | None = None

# --- types of published objects ---

class Category(TypedDict):
    id: str
    name: str | None
    level: int | None
    parentId: str | None
    hidden: bool

class Shop(TypedDict):
    shopId: str
    shopName: str | None
    franchiseId: str | None
    providerId: str | None
    timezone: str | None
    categories: list[Category]

class Channel(TypedDict):
    code: str | None
    name: str | None

class Option(TypedDict):
    choiceId: str | None
    choiceName: str | None
    qty: Decimal

class Item(TypedDict):
    id: str | None
    rootId: str | None
    name: str | None
    qty: Decimal | None
    unitPrice: Decimal | None
    lineTotal: Decimal | None
    options: list[Option]
    category: list[str] | None
    cancelled: bool
    vat: bool
    isTip: bool

class Promotion(TypedDict):
    id: str | None
    name: str | None
    amount: Decimal

class Amounts(TypedDict):
    subtotal: Decimal | None
    discount: Decimal | None
    campaign: list[Promotion]
    coupon: list[Promotion]
    discountTotal: Decimal | None
    serviceCharge: Decimal | None
    deliveryFee: Decimal | None
    cardSurcharge: Decimal | None
    credit: Decimal | None
    vat: Decimal | None
    vatType: str | None
    rounding: Decimal | None
    tip: Decimal | None
    net: Decimal | None

class Payment(TypedDict):
    name: str | None
    amount: Decimal | None
    change: Decimal | None

class Bill(TypedDict):
    id: str
    orderIds: list[str]
    receiptNumber: str | None
    taxNumber: str | None
    timestamp: str | None
    businessDate: str | None
    billDate: str | None
    updatedAt: str | None
    franchiseId: str | None
    shopId: str
    deviceId: str | None
    stationId: str | None
    channel: Channel
    serviceType: str | None
    tableName: str | None
    memberId: str | None
    items: list[Item]
    amounts: Amounts
    payments: list[Payment]
    status: str
    voidReason: str | None
    cashier: str | None

class Coupon(TypedDict):
    code: str | None
    status: str | None
    templateId: str | None
    name: str | None
    expireAt: str | None

class Member(TypedDict):
    memberId: str | None
    rank: str | None
    rankLevel: int | None
    rankName: str | None
    points: Decimal
    credit: Decimal
    creditEnabled: bool
    coupons: list[Coupon]
    labels: list[str]
    persona: list[str]
    createdDate: str | None
    visitCount: int
    lastVisit: str | None
    hasTel: bool
    hasEmail: bool
    hasMessaging: bool
    tel: NotRequired[str | None]
    email: NotRequired[str | None]

class Rate(TypedDict):
    perMin: int
    perDay: int

class Today(TypedDict):
    date: str
    count: int
    remaining: int

class DayCount(TypedDict):
    date: str
    count: int

class Usage(TypedDict):
    keyId: str
    label: str
    scope: str
    rate: Rate
    today: Today
    days: list[DayCount]

class ChangedBill(TypedDict):
    type: Literal["bill"]
    shopId: str
    bill: Bill

class RemovedBill(TypedDict):
    type: Literal["billRemoved"]
    shopId: str
    id: str

class ChangedShop(TypedDict):
    type: Literal["shop"]
    shopId: str
    full: bool
    shop: Shop

class RemovedShop(TypedDict):
    type: Literal["shopRemoved"]
    shopId: str
    full: bool
    inScope: bool

class DayDigest(TypedDict):
    shopId: str
    day: str | None
    bills: int
    voids: int
    net: Decimal
    tip: Decimal
    latestUpdatedAt: str | None
    hash: str

# --- end of the types of published objects ---

Change = ChangedBill | RemovedBill | ChangedShop | RemovedShop
