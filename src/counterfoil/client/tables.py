"""Definitions of the copy's tables: the name and type of each column, and the field that its value comes from.

Sinks turn these definitions into SQL. Column names are in snake case.
Money and quantities are decimals; quantities have more decimal places, because
some goods are sold by weight. Instants have a time zone; `business_date`,
`bill_date` and `last_visit` are dates.
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
    """A column, and the path of its value in the JSON.

    `path` is empty if the sink supplies the value. For tables made from a
    nested list, the path starts at a list element or, with `of_parent`, at the
    shop, bill or member that contains the list.
    """

    name: str
    kind: Kind
    path: tuple[str, ...] = ()
    of_parent: bool = False


class Table(Struct, frozen=True):
    """A table. `each` has the paths to the nested lists that its rows come from, outermost first."""

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
# Campaigns and coupons share a table; the sink supplies `kind`, which distinguishes them.
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


def promotions_of(kind: str) -> Table:
    """Return the promotions table, filled from the campaigns or the coupons of a bill."""
    return Table(PROMOTIONS.name, PROMOTIONS.columns, each=(("amounts", kind),))


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

# The types of fields, structs and lists of structs, for engines that read JSON with a schema.
JsonSchema = dict[str, Any]


def json_schema(tables: Sequence[Table]) -> JsonSchema:
    """Return the schema of an object in a response, with only the fields that the tables use."""
    root: JsonSchema = {}
    for table in tables:
        if table is PROMOTIONS:
            for kind in PROMOTION_KINDS:
                _add_columns(_list_at(root, promotions_of(kind).each[0]), table)
            continue
        node = root
        for step in table.each:
            node = _list_at(node, step)
        _add_columns(node, table)
    return root


def _add_columns(node: JsonSchema, table: Table) -> None:
    for column in table.columns:
        if column.path and not column.of_parent:
            target = node
            for part in column.path[:-1]:
                target = target.setdefault(part, {})
            target[column.path[-1]] = column.kind


def _list_at(node: JsonSchema, path: tuple[str, ...]) -> JsonSchema:
    for part in path[:-1]:
        node = node.setdefault(part, {})
    inner: JsonSchema = node.setdefault(path[-1], [{}])[0]
    return inner
