"""Every object that the API returns, with its fields in the contract's order.

Each frozen struct defines the attributes, their camelCase names in JSON, which of them may be absent, and the OpenAPI
schema. A field that may be absent has `UNSET` as its default; every other field is always present, as `null` or `[]`
when empty.

A field is also declared with what it contains and which column of a copy it fills; `resources.toml` describes it in
words. The tables of `pull`, the columns that an assistant may see, the client's models and docs/fields.md come from
`fields_of`.
"""

import tomllib
from collections.abc import Callable
from enum import Enum
from functools import cache
from importlib.resources import files
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import FieldInfo, fields

Number = int | float


class Kind(Enum):
    """What a value is, from which each target of a copy chooses the type of a column."""

    TEXT = "text"
    TEXTS = "texts"
    DECIMAL = "decimal"
    QUANTITY = "quantity"
    INTEGER = "integer"
    FLAG = "flag"
    INSTANT = "instant"
    LOCAL_TIME = "local_time"
    DAY = "day"


class Content(Enum):
    """What a field contains. An assistant sees only facts."""

    FACT = "a figure, time, name or code; about a member, only what does not identify it"
    PERSONAL = "identifies a guest, a member or an employee, or is of use only to one of them"
    FREE_TEXT = "text that staff can type freely, so that it can contain anything"
    TECHNICAL = "an ID that only systems need"


def _declare_as(content: Content) -> Callable[..., Meta]:
    def declare(kind: Kind | None = None, *, column: str | None = None, **schema: Any) -> Meta:
        """Declare a field. `kind` is needed only if its type does not show it; `column` if it has another name."""
        if kind in _FORMATS:
            schema["extra_json_schema"] = {"format": _FORMATS[kind]}
        return Meta(extra={"content": content, "kind": kind, "column": column}, **schema)

    return declare


_FORMATS = {Kind.INSTANT: "date-time", Kind.DAY: "date"}
# Every field is declared with one of these, so that nobody shows a new field to assistants by accident.
fact, personal, free_text, technical = map(_declare_as, Content)


class Resource(Struct, frozen=True, rename="camel", gc=False):
    """Base class of all published objects: immutable, camelCase in JSON, and never part of a reference cycle."""


# --- shops -----------------------------------------------------------------


class Category(Resource, frozen=True):
    """One node of a branch's category tree, which is published as a flat list."""

    id: Annotated[str, fact()]
    name: Annotated[str | None, fact()]
    level: Annotated[int | None, fact()]
    parent_id: Annotated[str | None, fact()]
    hidden: Annotated[bool, fact()]


class Shop(Resource, frozen=True):
    """A branch that the key can read."""

    shop_id: Annotated[str, fact()]
    shop_name: Annotated[str | None, fact()]
    franchise_id: Annotated[str | None, fact()]
    provider_id: Annotated[str | None, fact()]
    timezone: Annotated[str | None, fact()]
    categories: Annotated[list[Category], fact()]


# --- bills -----------------------------------------------------------------


class Channel(Resource, frozen=True):
    """The sales channel of a bill, such as dine-in or take-away."""

    code: Annotated[str | None, fact(column="channel_code")]
    name: Annotated[str | None, fact(column="channel_name")]


class Option(Resource, frozen=True):
    """An option or add-on chosen for a line."""

    choice_id: Annotated[str | None, fact()]
    choice_name: Annotated[str | None, fact()]
    qty: Annotated[Number, fact(Kind.QUANTITY)]


class Item(Resource, frozen=True):
    """A line of a bill."""

    id: Annotated[str | None, fact(column="product_id")]
    root_id: Annotated[str | None, fact()]
    name: Annotated[str | None, fact()]
    qty: Annotated[Number | None, fact(Kind.QUANTITY)]
    unit_price: Annotated[Number | None, fact()]
    line_total: Annotated[Number | None, fact()]
    options: Annotated[list[Option], fact()]
    category: Annotated[list[str] | None, fact()]
    cancelled: Annotated[bool, fact()]
    vat: Annotated[bool, fact()]
    is_tip: Annotated[bool, fact()]


class Promotion(Resource, frozen=True):
    """A promotion or a coupon applied to the bill as a whole."""

    id: Annotated[str | None, technical(column="promotion_id")]
    name: Annotated[str | None, fact()]
    amount: Annotated[Number, fact()]


class Amounts(Resource, frozen=True):
    """The bill's amounts, in THB. Null means that the shop does not use the feature or never recorded the field."""

    subtotal: Annotated[Number | None, fact()]
    discount: Annotated[Number | None, fact()]
    campaign: Annotated[list[Promotion], fact()]
    coupon: Annotated[list[Promotion], fact()]
    discount_total: Annotated[Number | None, fact()]
    service_charge: Annotated[Number | None, fact()]
    delivery_fee: Annotated[Number | None, fact()]
    card_surcharge: Annotated[Number | None, fact()]
    credit: Annotated[Number | None, fact()]
    vat: Annotated[Number | None, fact()]
    vat_type: Annotated[str | None, fact()]
    rounding: Annotated[Number | None, fact()]
    tip: Annotated[Number | None, fact()]
    net: Annotated[Number | None, fact()]


class Payment(Resource, frozen=True):
    """One payment of a bill. The sum of `amount - change` over all payments is `amounts.net`."""

    name: Annotated[str | None, fact()]
    amount: Annotated[Number | None, fact()]
    change: Annotated[Number | None, fact()]


Status = Literal["completed", "void"]


class Bill(Resource, frozen=True):
    """A closed bill. A voided bill is still returned; exclude it from revenue."""

    id: Annotated[str, fact()]
    order_ids: Annotated[list[str], technical()]
    receipt_number: Annotated[str | None, fact()]
    tax_number: Annotated[str | None, technical()]
    timestamp: Annotated[str | None, fact(Kind.INSTANT)]
    business_date: Annotated[str | None, fact(Kind.DAY)]
    bill_date: Annotated[str | None, fact(Kind.DAY)]
    updated_at: Annotated[str | None, fact(Kind.INSTANT)]
    franchise_id: Annotated[str | None, technical()]
    shop_id: Annotated[str, fact()]
    device_id: Annotated[str | None, technical()]
    station_id: Annotated[str | None, technical()]
    channel: Annotated[Channel, fact()]
    service_type: Annotated[str | None, fact()]
    table_name: Annotated[str | None, free_text()]
    member_id: Annotated[str | None, personal()]
    items: Annotated[list[Item], fact()]
    amounts: Annotated[Amounts, fact()]
    payments: Annotated[list[Payment], fact()]
    status: Annotated[Status, fact()]
    void_reason: Annotated[str | None, free_text()]
    cashier: Annotated[str | None, personal()]


# --- members ---------------------------------------------------------------

CouponStatus = Literal["available", "used"]


class Coupon(Resource, frozen=True):
    """A member's coupon. Used coupons are included."""

    code: Annotated[str | None, personal()]
    status: Annotated[CouponStatus | None, personal()]
    template_id: Annotated[str | None, personal()]
    name: Annotated[str | None, personal()]
    expire_at: Annotated[str | None, personal(Kind.INSTANT)]


class Member(Resource, frozen=True):
    """A member of one membership base, as of now."""

    member_id: Annotated[str | None, personal()]
    rank: Annotated[str | None, fact()]
    rank_level: Annotated[int | None, fact()]
    rank_name: Annotated[str | None, fact()]
    points: Annotated[Number, fact()]
    credit: Annotated[Number, fact()]
    credit_enabled: Annotated[bool, fact()]
    coupons: Annotated[list[Coupon], fact()]
    labels: Annotated[list[str], free_text()]
    persona: Annotated[list[str], free_text()]
    created_date: Annotated[str | None, personal(Kind.INSTANT)]
    visit_count: Annotated[int, fact()]
    last_visit: Annotated[str | None, fact(Kind.DAY)]
    has_tel: Annotated[bool, personal()]
    has_email: Annotated[bool, personal()]
    has_messaging: Annotated[bool, personal()]
    tel: Annotated[str | UnsetType | None, personal()] = UNSET
    email: Annotated[str | UnsetType | None, personal()] = UNSET


class MemberReference(Resource, frozen=True):
    """The result of a lookup: only the token."""

    member_id: Annotated[str, personal()]


# --- usage -----------------------------------------------------------------


class Rate(Resource, frozen=True):
    """The key's limits."""

    per_min: Annotated[int, fact()]
    per_day: Annotated[int, fact()]


class Today(Resource, frozen=True):
    """The key's usage today."""

    date: Annotated[str, fact(pattern="^[0-9]{8}$")]
    count: Annotated[int, fact()]
    remaining: Annotated[int, fact()]


class DayCount(Resource, frozen=True):
    """One day of usage."""

    date: Annotated[str, fact(pattern="^[0-9]{8}$")]
    count: Annotated[int, fact()]


class Usage(Resource, frozen=True):
    """How much of its quota the calling key has used."""

    key_id: Annotated[str, fact()]
    label: Annotated[str, fact()]
    scope: Annotated[Literal["shop", "franchise"], fact()]
    rate: Annotated[Rate, fact()]
    today: Annotated[Today, fact()]
    days: Annotated[list[DayCount], fact(min_length=7, max_length=7)]


# --- the change feed -----------------------------------------------------


class ChangedBill(Resource, frozen=True):
    """Element of the change feed: a bill that is new or has changed."""

    type: Annotated[Literal["bill"], fact()]
    shop_id: Annotated[str, fact()]
    bill: Annotated[Bill, fact()]


class RemovedBill(Resource, frozen=True):
    """Element of the change feed: a bill that no longer exists."""

    type: Annotated[Literal["billRemoved"], fact()]
    shop_id: Annotated[str, fact()]
    id: Annotated[str, fact()]


class ChangedShop(Resource, frozen=True):
    """Element of the change feed: a shop that joined the scope, was listed again or has changed."""

    type: Annotated[Literal["shop"], fact()]
    shop_id: Annotated[str, fact()]
    full: Annotated[bool, fact()]
    shop: Annotated[Shop, fact()]


class RemovedShop(Resource, frozen=True):
    """Element of the change feed: a shop that the shop list no longer returns."""

    type: Annotated[Literal["shopRemoved"], fact()]
    shop_id: Annotated[str, fact()]
    full: Annotated[bool, fact()]
    in_scope: Annotated[bool, fact()]


# --- digests -----------------------------------------------------------------


class DayDigest(Resource, frozen=True):
    """The totals of one shop's bills on one calendar day."""

    shop_id: Annotated[str, fact()]
    day: Annotated[str | None, fact()]
    bills: Annotated[int, fact()]
    voids: Annotated[int, fact()]
    net: Annotated[Number, fact()]
    tip: Annotated[Number, fact()]
    latest_updated_at: Annotated[str | None, fact()]
    hash: Annotated[str, fact()]


# --- reading the definitions -------------------------------------------------


class Field(Struct, frozen=True):
    """A field of a resource. `part` is the resource that it contains, once or, with `many`, as a list."""

    name: str
    declared: Any
    kind: Kind
    column: str
    content: Content
    description: str
    required: bool
    part: type[Resource] | None
    many: bool


_KINDS = {float: Kind.DECIMAL, int: Kind.INTEGER, bool: Kind.FLAG, list[str]: Kind.TEXTS}


@cache
def fields_of(resource: type[Resource]) -> tuple[Field, ...]:
    """Return the fields of a resource in their order, with what their definitions say about them."""
    hints = get_type_hints(resource, include_extras=True)
    texts = descriptions()[resource.__name__]
    return tuple(_field(found, texts[found.encode_name], *get_args(hints[found.name])) for found in fields(resource))


@cache
def descriptions() -> dict[str, dict[str, str]]:
    """Return the description of each field, by the names of its resource and of the field in JSON."""
    return tomllib.loads((files("counterfoil.domain") / "resources.toml").read_text("utf-8"))


def _field(found: FieldInfo, description: str, declared: Any, meta: Meta) -> Field:
    extra: dict[str, Any] = meta.extra or {}
    types = alternatives(declared)
    inner = get_args(types[0])[0] if get_origin(types[0]) is list else types[0]
    return Field(
        name=found.encode_name,
        declared=declared,
        kind=extra["kind"] or next((kind for of, kind in _KINDS.items() if of in types), Kind.TEXT),
        column=extra["column"] or found.name,
        content=extra["content"],
        description=description,
        required=found.required,
        part=inner if isinstance(inner, type) and issubclass(inner, Resource) else None,
        many=inner is not types[0],
    )


def alternatives(declared: Any) -> tuple[Any, ...]:
    """Return the types that a value may have, without null."""
    types = get_args(declared) if get_origin(declared) in (UnionType, Union) else (declared,)
    return tuple(each for each in types if each not in (NoneType, UnsetType))
