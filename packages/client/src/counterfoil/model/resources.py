"""Every object that the API returns, with its fields in the contract's order.

Each frozen struct defines the attributes, their camelCase names in JSON, which of them may be absent, and the OpenAPI
schema. A field that may be absent has `UNSET` as its default; every other field is always present, as `null` or `[]`
when empty.

The description of a field also says what it contains and which column of a copy it fills. The tables of `pull`, the
columns that an assistant may see, the client's models and docs/fields.md come from `fields_of`.
"""

from collections.abc import Callable
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import fields

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


def _describe_as(content: Content) -> Callable[..., Meta]:
    def describe(description: str, kind: Kind | None = None, *, column: str | None = None, **schema: Any) -> Meta:
        """Describe a field. `kind` is needed only if its type does not show it; `column` if it has another name."""
        if kind in _FORMATS:
            schema["extra_json_schema"] = {"format": _FORMATS[kind]}
        return Meta(description=description, extra={"content": content, "kind": kind, "column": column}, **schema)

    return describe


_FORMATS = {Kind.INSTANT: "date-time", Kind.DAY: "date"}
# Every field is declared with one of these, so that nobody shows a new field to assistants by accident.
fact, personal, free_text, technical = map(_describe_as, Content)


class Resource(Struct, frozen=True, rename="camel", gc=False):
    """Base class of all published objects: immutable, camelCase in JSON, and never part of a reference cycle."""


# --- shops -----------------------------------------------------------------


class Category(Resource, frozen=True):
    """One node of a branch's category tree, which is published as a flat list."""

    id: Annotated[str, fact("The same value as in `items[].category`.")]
    name: Annotated[str | None, fact("Name given by the shop, or null if it has none.")]
    level: Annotated[
        int | None, fact("1 for the top level, 2 for the level below it, and so on. Null if the depth is unknown.")
    ]
    parent_id: Annotated[
        str | None, fact("ID of the parent category, or null at the top level. The parent may have been deleted.")
    ]
    hidden: Annotated[bool, fact("True if no sales channel shows the category.")]


class Shop(Resource, frozen=True):
    """A branch that the key can read."""

    shop_id: Annotated[str, fact("Branch identifier. The bill list requires it as a parameter.")]
    shop_name: Annotated[str | None, fact("Display name as the owner typed it.")]
    franchise_id: Annotated[str | None, fact("The shop's franchise, or null for an independent shop.")]
    provider_id: Annotated[str | None, fact("The branch's membership base, or null if it has none.")]
    timezone: Annotated[
        str | None,
        fact(
            "IANA time zone of the shop; null means Thailand time. `from`, `to` and `billDate` are days in "
            "this time zone."
        ),
    ]
    categories: Annotated[list[Category], fact("The categories by level, top level first, then in the shop's order.")]


# --- bills -----------------------------------------------------------------


class Channel(Resource, frozen=True):
    """The sales channel of a bill, such as dine-in or take-away."""

    code: Annotated[
        str | None,
        fact(
            "`dine_in`, `take_away`, `pickup`, or the ID of one of the shop's own sales channels. "
            "This is an open set. Null if the bill has neither a table nor a channel.",
            column="channel_code",
        ),
    ]
    name: Annotated[str | None, fact("Readable label of the channel.", column="channel_name")]


class Option(Resource, frozen=True):
    """An option or add-on chosen for a line."""

    choice_id: Annotated[str | None, fact("ID of the choice.")]
    choice_name: Annotated[str | None, fact("Name of the choice as printed.")]
    qty: Annotated[Number, fact("Quantity, or 1 if none was recorded or it cannot be read.", Kind.QUANTITY)]


class Item(Resource, frozen=True):
    """A line of a bill."""

    id: Annotated[str | None, fact("Product ID.", column="product_id")]
    root_id: Annotated[
        str | None,
        fact(
            "ID of the head office's master product, or null in an independent shop. It is not the parent "
            "of a variant or a set."
        ),
    ]
    name: Annotated[str | None, fact("Product name as printed.")]
    qty: Annotated[Number | None, fact("Quantity, or null if none was recorded or it cannot be read.", Kind.QUANTITY)]
    unit_price: Annotated[
        Number | None,
        fact(
            "THB charged per unit. If no price was recorded, it is `lineTotal / qty`, or null if that "
            "cannot be computed."
        ),
    ]
    line_total: Annotated[Number | None, fact("Total of the line, in THB.")]
    options: Annotated[list[Option], fact("Chosen options and add-ons.")]
    category: Annotated[
        list[str] | None,
        fact(
            "Category IDs at the time of sale, top level first. The list is empty if the product had no "
            "category, and null if the till recorded no categories at all."
        ),
    ]
    cancelled: Annotated[bool, fact("Whether the line was cancelled. Totals exclude cancelled lines.")]
    vat: Annotated[bool, fact("Whether VAT applies to the line.")]
    is_tip: Annotated[bool, fact("Whether the line is a tip. Exclude tips from product analytics.")]


class Promotion(Resource, frozen=True):
    """A promotion or a coupon applied to the bill as a whole."""

    id: Annotated[str | None, technical("ID of the promotion or coupon.", column="promotion_id")]
    name: Annotated[str | None, fact("Name of the promotion or coupon.")]
    amount: Annotated[Number, fact("Discount in THB, or 0 if there is none.")]


class Amounts(Resource, frozen=True):
    """The bill's amounts, in THB. Null means that the shop does not use the feature or never recorded the field."""

    subtotal: Annotated[Number | None, fact("Sum of the lines before discounts and charges, without tip lines.")]
    discount: Annotated[Number | None, fact("Manual discount entered by the cashier.")]
    campaign: Annotated[list[Promotion], fact("Promotions applied.")]
    coupon: Annotated[list[Promotion], fact("Coupons applied.")]
    discount_total: Annotated[
        Number | None,
        fact(
            "Total of the manual, campaign and coupon discounts as the till computed it. It is not capped "
            "at the amount due."
        ),
    ]
    service_charge: Annotated[Number | None, fact("Service charge.")]
    delivery_fee: Annotated[Number | None, fact("Delivery fee.")]
    card_surcharge: Annotated[Number | None, fact("Card surcharge.")]
    credit: Annotated[Number | None, fact("Store credit redeemed on the bill.")]
    vat: Annotated[Number | None, fact("VAT amount.")]
    vat_type: Annotated[
        str | None,
        fact(
            "An open string. The values in use are `Include` (prices contain VAT) and `Exclude` (VAT is "
            "added). It may be empty if VAT was never configured."
        ),
    ]
    rounding: Annotated[Number | None, fact("Rounding adjustment.")]
    tip: Annotated[Number | None, fact("Tip collected. It is part of `net`, but not revenue.")]
    net: Annotated[
        Number | None, fact("Amount paid, including the tip. Revenue is `net` without `tip`, where null counts as 0.")
    ]


class Payment(Resource, frozen=True):
    """One payment of a bill. The sum of `amount - change` over all payments is `amounts.net`."""

    name: Annotated[str | None, fact("Payment method as the shop named it.")]
    amount: Annotated[Number | None, fact("Amount tendered, in THB. Cash may exceed the bill.")]
    change: Annotated[
        Number | None, fact("Change given, in THB. It is 0 if none was given, and null if it cannot be read.")
    ]


Status = Literal["completed", "void"]


class Bill(Resource, frozen=True):
    """A closed bill. A voided bill is still returned; exclude it from revenue."""

    id: Annotated[str, fact("Stable transaction ID.")]
    order_ids: Annotated[list[str], technical("IDs of the orders settled by this bill.")]
    receipt_number: Annotated[str | None, fact("Receipt number printed for the customer.")]
    tax_number: Annotated[str | None, technical("Full tax invoice number, if one was issued.")]
    timestamp: Annotated[str | None, fact("When the bill was closed, with the shop's UTC offset.", Kind.INSTANT)]
    business_date: Annotated[
        str | None,
        fact(
            "Accounting day. It is the till's trading day if there is one, and is otherwise derived from "
            "the bill's time and the shop's closing time.",
            Kind.DAY,
        ),
    ]
    bill_date: Annotated[
        str | None, fact("Calendar day in the shop's time zone. `from` and `to` filter by this day.", Kind.DAY)
    ]
    updated_at: Annotated[
        str | None,
        fact(
            "Time of the last change to any field of the bill, with the shop's UTC offset. It is null if "
            "the bill is from before change tracking; `updatedSince` never returns such a bill.",
            Kind.INSTANT,
        ),
    ]
    franchise_id: Annotated[str | None, technical("Franchise of the shop, or null if it has none.")]
    shop_id: Annotated[str, fact("The shop that issued the bill.")]
    device_id: Annotated[str | None, technical("Device that closed the bill.")]
    station_id: Annotated[str | None, technical("POS station that closed the bill.")]
    channel: Annotated[Channel, fact("The sales channel of the bill, such as dine-in or take-away.")]
    service_type: Annotated[
        str | None, fact("`alacarte` for a normal sale, otherwise the ID of the buffet package. This is an open set.")
    ]
    table_name: Annotated[str | None, free_text("Table name. Only dine-in bills have one.")]
    member_id: Annotated[
        str | None, personal("Token of the member that the bill is linked to. It is the member's `memberId`.")
    ]
    items: Annotated[list[Item], fact("The lines of the bill.")]
    amounts: Annotated[Amounts, fact("The bill's amounts.")]
    payments: Annotated[list[Payment], fact("One element per payment. A bill may be split.")]
    status: Annotated[Status, fact("`completed`, or `void` if the whole bill was cancelled.")]
    void_reason: Annotated[str | None, free_text("Reason recorded when the bill was voided.")]
    cashier: Annotated[str | None, personal("Name of the staff member who closed the bill.")]


# --- members ---------------------------------------------------------------

CouponStatus = Literal["available", "used"]


class Coupon(Resource, frozen=True):
    """A member's coupon. Used coupons are included."""

    code: Annotated[str | None, personal("Short code shown at the counter, unique per issued coupon.")]
    status: Annotated[CouponStatus | None, personal("`available` or `used`. It does not show expiry.")]
    template_id: Annotated[str | None, personal("The template that the coupon was issued from.")]
    name: Annotated[str | None, personal("Name of the coupon.")]
    expire_at: Annotated[
        str | None,
        personal(
            "Time of expiry with a +07:00 offset, to compare with `serverTime`. Null means that the coupon "
            "never expires.",
            Kind.INSTANT,
        ),
    ]


class Member(Resource, frozen=True):
    """A member of one membership base, as of now."""

    member_id: Annotated[str | None, personal("Member token: `m1_` followed by an opaque body of no fixed length.")]
    rank: Annotated[str | None, fact("Tier code stored on the record.")]
    rank_level: Annotated[
        int | None,
        fact("0-based position in the base's tier list. It is meaningful only if tiers are assigned automatically."),
    ]
    rank_name: Annotated[str | None, fact("Name of the tier in the current tier list.")]
    points: Annotated[Number, fact("Points usable now, after expiry.")]
    credit: Annotated[Number, fact("Store credit usable now, or 0 if `creditEnabled` is false.")]
    credit_enabled: Annotated[bool, fact("Whether the base uses store credit.")]
    coupons: Annotated[list[Coupon], fact("The member's coupons in this base, including used ones.")]
    labels: Annotated[list[str], free_text("Tags that the shop attached.")]
    persona: Annotated[list[str], free_text("Persona tags that the shop attached.")]
    created_date: Annotated[str | None, personal("Sign-up time with a +07:00 offset.", Kind.INSTANT)]
    visit_count: Annotated[int, fact("Number of recorded visits.")]
    last_visit: Annotated[str | None, fact("Day of the latest visit, or null if there was none.", Kind.DAY)]
    has_tel: Annotated[bool, personal("Whether the record has a phone number.")]
    has_email: Annotated[bool, personal("Whether the record has an email address.")]
    has_messaging: Annotated[bool, personal("Whether a messaging account is linked.")]
    tel: Annotated[
        str | UnsetType | None,
        personal("Phone number, or null if there is none. Returned only to keys with personal-data access."),
    ] = UNSET
    email: Annotated[
        str | UnsetType | None,
        personal("Email address, or null if there is none. Returned only to keys with personal-data access."),
    ] = UNSET


class MemberReference(Resource, frozen=True):
    """The result of a lookup: only the token."""

    member_id: Annotated[str, personal("Token of the member found.")]


# --- usage -----------------------------------------------------------------


class Rate(Resource, frozen=True):
    """The key's limits."""

    per_min: Annotated[int, fact("Requests per 60 seconds.")]
    per_day: Annotated[int, fact("Requests per day (Thailand time).")]


class Today(Resource, frozen=True):
    """The key's usage today."""

    date: Annotated[str, fact("Today's date in Thailand, as YYYYMMDD.", pattern="^[0-9]{8}$")]
    count: Annotated[int, fact("Requests counted today, including this one.")]
    remaining: Annotated[int, fact("`perDay - count`, never below 0.")]


class DayCount(Resource, frozen=True):
    """One day of usage."""

    date: Annotated[str, fact("The day (Thailand time), as YYYYMMDD.", pattern="^[0-9]{8}$")]
    count: Annotated[int, fact("Requests counted on that day.")]


class Usage(Resource, frozen=True):
    """How much of its quota the calling key has used."""

    key_id: Annotated[str, fact("ID of the key: the part before the secret.")]
    label: Annotated[str, fact("The key's label, or an empty string if it has none.")]
    scope: Annotated[Literal["shop", "franchise"], fact("Whether the key is bound to a shop or a franchise.")]
    rate: Annotated[Rate, fact("The key's limits.")]
    today: Annotated[Today, fact("The current day (Thailand time).")]
    days: Annotated[
        list[DayCount],
        fact("The last seven days (Thailand time), oldest first, today last.", min_length=7, max_length=7),
    ]


# --- the change feed -----------------------------------------------------


class ChangedBill(Resource, frozen=True):
    """Element of the change feed: a bill that is new or has changed."""

    type: Annotated[Literal["bill"], fact("The kind of this element.")]
    shop_id: Annotated[str, fact("The bill's shop. Bills are identified by `shopId` and `id` together.")]
    bill: Annotated[Bill, fact("The whole bill, as the bill list returns it.")]


class RemovedBill(Resource, frozen=True):
    """Element of the change feed: a bill that no longer exists."""

    type: Annotated[Literal["billRemoved"], fact("The kind of this element.")]
    shop_id: Annotated[str, fact("The bill's shop.")]
    id: Annotated[str, fact("The bill's `id`. You may never have received this bill.")]


class ChangedShop(Resource, frozen=True):
    """Element of the change feed: a shop that joined the scope, was listed again or has changed."""

    type: Annotated[Literal["shop"], fact("The kind of this element.")]
    shop_id: Annotated[str, fact("The shop.")]
    full: Annotated[
        bool, fact("True if all bills of the shop follow in this pass. Delete your copies of its bills first.")
    ]
    shop: Annotated[Shop, fact("The shop, as the shop list returns it.")]


class RemovedShop(Resource, frozen=True):
    """Element of the change feed: a shop that the shop list no longer returns."""

    type: Annotated[Literal["shopRemoved"], fact("The kind of this element.")]
    shop_id: Annotated[str, fact("The shop. You may never have received it.")]
    full: Annotated[
        bool, fact("True if all bills of the shop follow in this pass. Delete your copies of its bills first.")
    ]
    in_scope: Annotated[
        bool,
        fact(
            "True if the shop was closed: the key can still read its bills and receives changes to them. "
            "False if it left the scope: nothing more is sent unless it returns, and then it is sent in full."
        ),
    ]


# --- digests -----------------------------------------------------------------


class DayDigest(Resource, frozen=True):
    """The totals of one shop's bills on one calendar day."""

    shop_id: Annotated[str, fact("The shop.")]
    day: Annotated[
        str | None, fact("The `billDate` of the bills, YYYY-MM-DD; null for the shop's bills without a date.")
    ]
    bills: Annotated[int, fact("Number of bills, voids included.")]
    voids: Annotated[int, fact("Number of bills whose `status` is `void`.")]
    net: Annotated[Number, fact("Exact sum of `amounts.net`; null counts as 0.")]
    tip: Annotated[Number, fact("Exact sum of `amounts.tip`; null counts as 0.")]
    latest_updated_at: Annotated[
        str | None, fact("The latest `updatedAt` of these bills, in UTC; null if none has one.")
    ]
    hash: Annotated[
        str,
        fact(
            "A whole number as text: the sum over all bills of the first 15 hexadecimal digits of "
            "`MD5(id|ms)`, where `ms` is `updatedAt` in milliseconds since 1970 UTC, or empty if it is null."
        ),
    ]


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
    return tuple(
        _field(found.name, found.encode_name, found.required, *get_args(hints[found.name]))
        for found in fields(resource)
    )


def _field(attribute: str, name: str, required: bool, declared: Any, described: Meta) -> Field:
    extra: dict[str, Any] = described.extra or {}
    types = alternatives(declared)
    inner = get_args(types[0])[0] if get_origin(types[0]) is list else types[0]
    return Field(
        name=name,
        declared=declared,
        kind=extra["kind"] or next((kind for of, kind in _KINDS.items() if of in types), Kind.TEXT),
        column=extra["column"] or attribute,
        content=extra["content"],
        description=described.description or "",
        required=required,
        part=inner if isinstance(inner, type) and issubclass(inner, Resource) else None,
        many=inner is not types[0],
    )


def alternatives(declared: Any) -> tuple[Any, ...]:
    """Return the types that a value may have, without null."""
    types = get_args(declared) if get_origin(declared) in (UnionType, Union) else (declared,)
    return tuple(declared_type for declared_type in types if declared_type not in (NoneType, UnsetType))
