"""The copy's tables, said once: which column, of which type, from which field of the answer.

Sinks turn these into the SQL of their engine. Columns are in snake case; money
is decimal, a quantity too but with as many places as a scale may give it;
instants carry their zone, `business_date` and `bill_date` are dates.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any

from msgspec import Struct


class Kind(Enum):
    TEXT = "text"
    TEXTS = "texts"
    DECIMAL = "decimal"
    QUANTITY = "quantity"
    INTEGER = "integer"
    FLAG = "flag"
    INSTANT = "instant"
    DAY = "day"


class Column(Struct, frozen=True):
    """A column, and where in its row of the answer the value stands.

    `path` is empty for what the sink supplies; `of_parent` says that it starts
    at the answer's own row even where the table is made of a list in it.
    """

    name: str
    kind: Kind
    path: tuple[str, ...] = ()
    of_parent: bool = False


class Table(Struct, frozen=True):
    """`each` leads from the answer's row to the list that makes this table's rows, one list a step."""

    name: str
    columns: tuple[Column, ...]
    each: tuple[tuple[str, ...], ...] = ()


def _columns(kind: Kind, *fields: str, inside: tuple[str, ...] = ()) -> tuple[Column, ...]:
    return tuple(Column(_snake(field), kind, (*inside, field)) for field in fields)


def _snake(field: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in field)


TEXT, TEXTS, DECIMAL, QUANTITY, INTEGER, FLAG, INSTANT, DAY = Kind

SHOPS = Table(
    "shops",
    (
        *_columns(TEXT, "shopId", "shopName", "franchiseId", "providerId", "timezone"),
        Column("removed_at", INSTANT),
    ),
)
CATEGORIES = Table(
    "categories",
    (
        Column("shop_id", TEXT, ("shopId",), of_parent=True),
        Column("position", INTEGER),
        *_columns(TEXT, "id", "name"),
        *_columns(INTEGER, "level"),
        *_columns(TEXT, "parentId"),
        *_columns(FLAG, "hidden"),
    ),
    each=(("categories",),),
)
BILLS = Table(
    "bills",
    (
        *_columns(TEXT, "shopId", "id"),
        *_columns(TEXTS, "orderIds"),
        *_columns(TEXT, "receiptNumber", "taxNumber"),
        *_columns(INSTANT, "timestamp"),
        *_columns(DAY, "businessDate", "billDate"),
        *_columns(INSTANT, "updatedAt"),
        *_columns(TEXT, "franchiseId", "deviceId", "stationId"),
        Column("channel_code", TEXT, ("channel", "code")),
        Column("channel_name", TEXT, ("channel", "name")),
        *_columns(TEXT, "serviceType", "tableName", "memberId"),
        *_columns(DECIMAL, "subtotal", "discount", "discountTotal", "serviceCharge", inside=("amounts",)),
        *_columns(DECIMAL, "deliveryFee", "cardSurcharge", "credit", "vat", inside=("amounts",)),
        *_columns(TEXT, "vatType", inside=("amounts",)),
        *_columns(DECIMAL, "rounding", "tip", "net", inside=("amounts",)),
        *_columns(TEXT, "status", "voidReason", "cashier"),
    ),
)
_OF_BILL = (
    Column("shop_id", TEXT, ("shopId",), of_parent=True),
    Column("bill_id", TEXT, ("id",), of_parent=True),
)
BILL_ITEMS = Table(
    "bill_items",
    (
        *_OF_BILL,
        Column("line", INTEGER),
        Column("product_id", TEXT, ("id",)),
        *_columns(TEXT, "rootId", "name"),
        *_columns(QUANTITY, "qty"),
        *_columns(DECIMAL, "unitPrice", "lineTotal"),
        *_columns(TEXTS, "category"),
        *_columns(FLAG, "cancelled", "vat", "isTip"),
    ),
    each=(("items",),),
)
ITEM_OPTIONS = Table(
    "item_options",
    (
        *_OF_BILL,
        Column("line", INTEGER),
        Column("position", INTEGER),
        *_columns(TEXT, "choiceId", "choiceName"),
        *_columns(QUANTITY, "qty"),
    ),
    each=(("items",), ("options",)),
)
PAYMENTS = Table(
    "payments",
    (*_OF_BILL, Column("position", INTEGER), *_columns(TEXT, "name"), *_columns(DECIMAL, "amount", "change")),
    each=(("payments",),),
)
# Campaigns and coupons share a table; `kind` tells which, and is supplied by the sink.
PROMOTION_KINDS = ("campaign", "coupon")
PROMOTIONS = Table(
    "promotions",
    (
        *_OF_BILL,
        Column("kind", TEXT),
        Column("position", INTEGER),
        Column("promotion_id", TEXT, ("id",)),
        *_columns(TEXT, "name"),
        *_columns(DECIMAL, "amount"),
    ),
)
MEMBERS = Table(
    "members",
    (
        Column("provider_id", TEXT),
        *_columns(TEXT, "memberId", "rank"),
        *_columns(INTEGER, "rankLevel"),
        *_columns(TEXT, "rankName"),
        *_columns(DECIMAL, "points", "credit"),
        *_columns(FLAG, "creditEnabled"),
        *_columns(TEXTS, "labels", "persona"),
        *_columns(INSTANT, "createdDate"),
        *_columns(INTEGER, "visitCount"),
        *_columns(DAY, "lastVisit"),
        *_columns(FLAG, "hasTel", "hasEmail", "hasMessaging"),
        *_columns(TEXT, "tel", "email"),
        Column("removed_at", INSTANT),
    ),
)
COUPONS = Table(
    "coupons",
    (
        Column("member_id", TEXT, ("memberId",), of_parent=True),
        Column("position", INTEGER),
        *_columns(TEXT, "code", "status", "templateId", "name"),
        *_columns(INSTANT, "expireAt"),
    ),
    each=(("coupons",),),
)

TABLES = (SHOPS, CATEGORIES, BILLS, BILL_ITEMS, ITEM_OPTIONS, PAYMENTS, PROMOTIONS, MEMBERS, COUPONS)
PARTS_OF_BILL = (BILL_ITEMS, ITEM_OPTIONS, PAYMENTS, PROMOTIONS)

# Fields, structs, and lists of structs: what an engine with typed JSON has to be told.
Shape = dict[str, Any]


def shape(tables: Sequence[Table]) -> Shape:
    """The form of an answer's row, as far as the tables ask for it."""
    root: Shape = {}
    for table in tables:
        if table is PROMOTIONS:
            for kind in PROMOTION_KINDS:
                _grow(_list_at(root, ("amounts", kind)), table)
            continue
        node = root
        for step in table.each:
            node = _list_at(node, step)
        _grow(node, table)
    return root


def _grow(node: Shape, table: Table) -> None:
    for column in table.columns:
        if column.path and not column.of_parent:
            target = node
            for part in column.path[:-1]:
                target = target.setdefault(part, {})
            target[column.path[-1]] = column.kind


def _list_at(node: Shape, path: tuple[str, ...]) -> Shape:
    for part in path[:-1]:
        node = node.setdefault(part, {})
    inner: Shape = node.setdefault(path[-1], [{}])[0]
    return inner
