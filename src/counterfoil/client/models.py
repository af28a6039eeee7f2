"""Types of the objects that the service returns: dictionaries with the field names of the API.

Money, quantities and points are `Decimal`. Fields that are unknown to
this release are kept. `make docs` writes the types from `domain/resources.py`.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Generic, Literal, NotRequired, TypedDict, TypeVar

from msgspec import Struct

from counterfoil.domain import resources

# --- types written by `make docs` ---


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


# --- end of the types written by `make docs` ---

Change = ChangedBill | RemovedBill | ChangedShop | RemovedShop

Row = TypeVar("Row")


class Page(Struct, Generic[Row], frozen=True):
    """One page of a list. `remaining` is the number of requests left in the day's quota.

    `mark` is set only on the last page of a pass through the change feed.
    """

    data: list[Row]
    next_cursor: str | None
    server_time: str
    remaining: int | None = None
    mark: str | None = None


# --- conversions ------------------------------------------------------------


class _Numbers(Struct, frozen=True):
    """The fields of an object that are numbers, and its parts that contain numbers: their names and whether lists."""

    names: tuple[str, ...]
    parts: tuple[tuple[str, bool, "_Numbers"], ...]


def _numbers(resource: type[resources.Resource]) -> _Numbers:
    fields = resources.fields_of(resource)
    kinds = (resources.Kind.DECIMAL, resources.Kind.QUANTITY)
    parts = ((field.name, field.many, _numbers(field.part)) for field in fields if field.part)
    return _Numbers(
        tuple(field.name for field in fields if field.kind in kinds),
        tuple(part for part in parts if part[2].names or part[2].parts),
    )


def _convert_to_decimal(record: dict[str, Any], numbers: _Numbers) -> None:
    for name in numbers.names:
        value = record.get(name)
        if type(value) is int:
            record[name] = Decimal(value)
    for name, many, inner in numbers.parts:
        for part in record[name] if many else (record[name],):
            _convert_to_decimal(part, inner)


def _converter(resource: type[resources.Resource]) -> Callable[[dict[str, Any]], Any]:
    """Return a function that converts the numbers of an object that are `int` to Decimal, in place, and returns it."""
    numbers = _numbers(resource)

    def convert(record: dict[str, Any]) -> Any:
        _convert_to_decimal(record, numbers)
        return record

    return convert


shop: Callable[[dict[str, Any]], Shop] = _converter(resources.Shop)
bill: Callable[[dict[str, Any]], Bill] = _converter(resources.Bill)
member: Callable[[dict[str, Any]], Member] = _converter(resources.Member)
digest: Callable[[dict[str, Any]], DayDigest] = _converter(resources.DayDigest)


def change(element: dict[str, Any]) -> Change:
    if element["type"] == "bill":
        bill(element["bill"])
    return element  # type: ignore[return-value]  # a plain dictionary with the right keys


def token(record: dict[str, Any]) -> str:
    return str(record["memberId"])
