"""Every object that the API returns, with its fields in the contract's order.

Each frozen struct defines the attributes, their camelCase names in JSON, which
of them may be absent, and the OpenAPI schema. A field that may be absent has
`UNSET` as its default; every other field is always present, as `null` or `[]`
when empty.
"""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Number = int | float
Doc = Meta


class Resource(Struct, frozen=True, rename="camel", kw_only=True, gc=False):
    """Base class of all published objects: immutable, camelCase in JSON, and never part of a reference cycle."""


# --- shops -----------------------------------------------------------------


class Category(Resource, frozen=True):
    """One node of a branch's category tree, which is published as a flat list."""

    id: Annotated[str, Doc(description="The same value as in `items[].category`.")]
    name: Annotated[str | None, Doc(description="Name given by the shop, or null if it has none.")]
    level: Annotated[
        int | None,
        Doc(description="1 for the top level, 2 for the level below it, and so on. Null if the depth is unknown."),
    ]
    parent_id: Annotated[
        str | None,
        Doc(description="ID of the parent category, or null at the top level. The parent may have been deleted."),
    ]
    hidden: Annotated[bool, Doc(description="True if no sales channel shows the category.")]


class Shop(Resource, frozen=True):
    """A branch that the key can read."""

    shop_id: Annotated[str, Doc(description="Branch identifier. The bill list requires it as a parameter.")]
    shop_name: Annotated[str | None, Doc(description="Display name as the owner typed it.")]
    franchise_id: Annotated[str | None, Doc(description="The shop's franchise, or null for an independent shop.")]
    provider_id: Annotated[str | None, Doc(description="The branch's membership base, or null if it has none.")]
    timezone: Annotated[
        str | None,
        Doc(
            description="IANA time zone of the shop; null means Thailand time. `from`, `to` and `billDate` are days in "
            "this time zone."
        ),
    ]
    categories: Annotated[
        list[Category], Doc(description="The categories by level, top level first, then in the shop's order.")
    ]


# --- bills -----------------------------------------------------------------


class Channel(Resource, frozen=True):
    """The sales channel of a bill, such as dine-in or take-away."""

    code: Annotated[
        str | None,
        Doc(
            description="`dine_in`, `take_away`, `pickup`, or the ID of one of the shop's own sales channels. "
            "This is an open set. Null if the bill has neither a table nor a channel."
        ),
    ]
    name: Annotated[str | None, Doc(description="Readable label of the channel.")]


class Option(Resource, frozen=True):
    """An option or add-on chosen for a line."""

    choice_id: Annotated[str | None, Doc(description="ID of the choice.")]
    choice_name: Annotated[str | None, Doc(description="Name of the choice as printed.")]
    qty: Annotated[Number, Doc(description="Quantity, or 1 if none was recorded or it cannot be read.")]


class Item(Resource, frozen=True):
    """A line of a bill."""

    id: Annotated[str | None, Doc(description="Product ID.")]
    root_id: Annotated[
        str | None,
        Doc(
            description="ID of the head office's master product, or null in an independent shop. It is not the parent "
            "of a variant or a set."
        ),
    ]
    name: Annotated[str | None, Doc(description="Product name as printed.")]
    qty: Annotated[Number | None, Doc(description="Quantity, or null if none was recorded or it cannot be read.")]
    unit_price: Annotated[
        Number | None,
        Doc(
            description="THB charged per unit. If no price was recorded, it is `lineTotal / qty`, or null if that "
            "cannot be computed."
        ),
    ]
    line_total: Annotated[Number | None, Doc(description="Total of the line, in THB.")]
    options: Annotated[list[Option], Doc(description="Chosen options and add-ons.")]
    category: Annotated[
        list[str] | None,
        Doc(
            description="Category IDs at the time of sale, top level first. The list is empty if the product had no "
            "category, and null if the till recorded no categories at all."
        ),
    ]
    cancelled: Annotated[bool, Doc(description="Whether the line was cancelled. Totals exclude cancelled lines.")]
    vat: Annotated[bool, Doc(description="Whether VAT applies to the line.")]
    is_tip: Annotated[bool, Doc(description="Whether the line is a tip. Exclude tips from product analytics.")]


class Promotion(Resource, frozen=True):
    """A promotion or a coupon applied to the bill as a whole."""

    id: Annotated[str | None, Doc(description="ID of the promotion or coupon.")]
    name: Annotated[str | None, Doc(description="Name of the promotion or coupon.")]
    amount: Annotated[Number, Doc(description="Discount in THB, or 0 if there is none.")]


class Amounts(Resource, frozen=True):
    """The bill's amounts, in THB. Null means that the shop does not use the feature or never recorded the field."""

    subtotal: Annotated[
        Number | None, Doc(description="Sum of the lines before discounts and charges, without tip lines.")
    ]
    discount: Annotated[Number | None, Doc(description="Manual discount entered by the cashier.")]
    campaign: Annotated[list[Promotion], Doc(description="Promotions applied.")]
    coupon: Annotated[list[Promotion], Doc(description="Coupons applied.")]
    discount_total: Annotated[
        Number | None,
        Doc(
            description="Total of the manual, campaign and coupon discounts as the till computed it. It is not capped "
            "at the amount due."
        ),
    ]
    service_charge: Annotated[Number | None, Doc(description="Service charge.")]
    delivery_fee: Annotated[Number | None, Doc(description="Delivery fee.")]
    card_surcharge: Annotated[Number | None, Doc(description="Card surcharge.")]
    credit: Annotated[Number | None, Doc(description="Store credit redeemed on the bill.")]
    vat: Annotated[Number | None, Doc(description="VAT amount.")]
    vat_type: Annotated[
        str | None,
        Doc(
            description="An open string. The values in use are `Include` (prices contain VAT) and `Exclude` (VAT is "
            "added). It may be empty if VAT was never configured."
        ),
    ]
    rounding: Annotated[Number | None, Doc(description="Rounding adjustment.")]
    tip: Annotated[Number | None, Doc(description="Tip collected. It is part of `net`, but not revenue.")]
    net: Annotated[Number | None, Doc(description="Amount paid, including the tip. Revenue is `net - tip`.")]


class Payment(Resource, frozen=True):
    """One payment of a bill. The sum of `amount - change` over all payments is `amounts.net`."""

    name: Annotated[str | None, Doc(description="Payment method as the shop named it.")]
    amount: Annotated[Number | None, Doc(description="Amount tendered, in THB. Cash may exceed the bill.")]
    change: Annotated[
        Number | None,
        Doc(description="Change given, in THB. It is 0 if none was given, and null if it cannot be read."),
    ]


Status = Literal["completed", "void"]


class Bill(Resource, frozen=True):
    """A closed bill. A voided bill is still returned; exclude it from revenue."""

    id: Annotated[str, Doc(description="Stable transaction ID.")]
    order_ids: Annotated[list[str], Doc(description="IDs of the orders settled by this bill.")]
    receipt_number: Annotated[str | None, Doc(description="Receipt number printed for the customer.")]
    tax_number: Annotated[str | None, Doc(description="Full tax invoice number, if one was issued.")]
    timestamp: Annotated[
        str | None,
        Doc(
            description="When the bill was closed, with the shop's UTC offset.",
            extra_json_schema={"format": "date-time"},
        ),
    ]
    business_date: Annotated[
        str | None,
        Doc(
            description="Accounting day. It is the till's trading day if there is one, and is otherwise derived from "
            "the bill's time and the shop's closing time.",
            extra_json_schema={"format": "date"},
        ),
    ]
    bill_date: Annotated[
        str | None,
        Doc(
            description="Calendar day in the shop's time zone. `from` and `to` filter by this day.",
            extra_json_schema={"format": "date"},
        ),
    ]
    updated_at: Annotated[
        str | None,
        Doc(
            description="Time of the last change to any field of the bill, with the shop's UTC offset. It is null if "
            "the bill is from before change tracking; `updatedSince` never returns such a bill.",
            extra_json_schema={"format": "date-time"},
        ),
    ]
    franchise_id: Annotated[str | None, Doc(description="Franchise of the shop, or null if it has none.")]
    shop_id: Annotated[str, Doc(description="The shop that issued the bill.")]
    device_id: Annotated[str | None, Doc(description="Device that closed the bill.")]
    station_id: Annotated[str | None, Doc(description="POS station that closed the bill.")]
    channel: Annotated[Channel, Doc(description="The sales channel of the bill, such as dine-in or take-away.")]
    service_type: Annotated[
        str | None,
        Doc(description="`alacarte` for a normal sale, otherwise the ID of the buffet package. This is an open set."),
    ]
    table_name: Annotated[str | None, Doc(description="Table name. Only dine-in bills have one.")]
    member_id: Annotated[
        str | None, Doc(description="Token of the member that the bill is linked to. It is the member's `memberId`.")
    ]
    items: Annotated[list[Item], Doc(description="The lines of the bill.")]
    amounts: Annotated[Amounts, Doc(description="The bill's amounts.")]
    payments: Annotated[list[Payment], Doc(description="One element per payment. A bill may be split.")]
    status: Annotated[Status, Doc(description="`completed`, or `void` if the whole bill was cancelled.")]
    void_reason: Annotated[str | None, Doc(description="Reason recorded when the bill was voided.")]
    cashier: Annotated[str | None, Doc(description="Name of the staff member who closed the bill.")]


# --- members ---------------------------------------------------------------

CouponStatus = Literal["available", "used"]


class Coupon(Resource, frozen=True):
    """A member's coupon. Used coupons are included."""

    code: Annotated[str | None, Doc(description="Short code shown at the counter, unique per issued coupon.")]
    status: Annotated[CouponStatus | None, Doc(description="`available` or `used`. It does not show expiry.")]
    template_id: Annotated[str | None, Doc(description="The template that the coupon was issued from.")]
    name: Annotated[str | None, Doc(description="Name of the coupon.")]
    expire_at: Annotated[
        str | None,
        Doc(
            description="Time of expiry with a +07:00 offset, to compare with `serverTime`. Null means that the coupon "
            "never expires.",
            extra_json_schema={"format": "date-time"},
        ),
    ]


class Member(Resource, frozen=True):
    """A member of one membership base, as of now."""

    member_id: Annotated[
        str | None, Doc(description="Member token: `m1_` followed by an opaque body of no fixed length.")
    ]
    rank: Annotated[str | None, Doc(description="Tier code stored on the record.")]
    rank_level: Annotated[
        int | None,
        Doc(
            description="0-based position in the base's tier list. It is meaningful only if tiers are assigned "
            "automatically."
        ),
    ]
    rank_name: Annotated[str | None, Doc(description="Name of the tier in the current tier list.")]
    points: Annotated[Number, Doc(description="Points usable now, after expiry.")]
    credit: Annotated[Number, Doc(description="Store credit usable now, or 0 if `creditEnabled` is false.")]
    credit_enabled: Annotated[bool, Doc(description="Whether the base uses store credit.")]
    coupons: Annotated[list[Coupon], Doc(description="The member's coupons in this base, including used ones.")]
    labels: Annotated[list[str], Doc(description="Tags that the shop attached.")]
    persona: Annotated[list[str], Doc(description="Persona tags that the shop attached.")]
    created_date: Annotated[
        str | None,
        Doc(description="Sign-up time with a +07:00 offset.", extra_json_schema={"format": "date-time"}),
    ]
    visit_count: Annotated[int, Doc(description="Number of recorded visits.")]
    last_visit: Annotated[
        str | None,
        Doc(description="Day of the latest visit, or null if there was none.", extra_json_schema={"format": "date"}),
    ]
    has_tel: Annotated[bool, Doc(description="Whether the record has a phone number.")]
    has_email: Annotated[bool, Doc(description="Whether the record has an email address.")]
    has_messaging: Annotated[bool, Doc(description="Whether a messaging account is linked.")]
    tel: Annotated[
        str | UnsetType | None,
        Doc(description="Phone number, or null if there is none. Returned only to keys with personal-data access."),
    ] = UNSET
    email: Annotated[
        str | UnsetType | None,
        Doc(description="Email address, or null if there is none. Returned only to keys with personal-data access."),
    ] = UNSET


class MemberReference(Resource, frozen=True):
    """The result of a lookup: only the token."""

    member_id: Annotated[str, Doc(description="Token of the member found.")]


# --- usage -----------------------------------------------------------------


class Rate(Resource, frozen=True):
    """The key's limits."""

    per_min: Annotated[int, Doc(description="Requests per 60 seconds.")]
    per_day: Annotated[int, Doc(description="Requests per day (Thailand time).")]


class Today(Resource, frozen=True):
    """The key's usage today."""

    date: Annotated[str, Doc(description="Today's date in Thailand, as YYYYMMDD.", pattern="^[0-9]{8}$")]
    count: Annotated[int, Doc(description="Requests counted today, including this one.")]
    remaining: Annotated[int, Doc(description="`perDay - count`, never below 0.")]


class DayCount(Resource, frozen=True):
    """One day of usage."""

    date: Annotated[str, Doc(description="The day (Thailand time), as YYYYMMDD.", pattern="^[0-9]{8}$")]
    count: Annotated[int, Doc(description="Requests counted on that day.")]


class Usage(Resource, frozen=True):
    """How much of its quota the calling key has used."""

    key_id: Annotated[str, Doc(description="ID of the key: the part before the secret.")]
    label: Annotated[str, Doc(description="The key's label, or an empty string if it has none.")]
    scope: Annotated[
        Literal["shop", "franchise"], Doc(description="Whether the key is bound to a shop or a franchise.")
    ]
    rate: Annotated[Rate, Doc(description="The key's limits.")]
    today: Annotated[Today, Doc(description="The current day (Thailand time).")]
    days: Annotated[
        list[DayCount],
        Doc(
            description="The last seven days (Thailand time), oldest first, today last.",
            min_length=7,
            max_length=7,
        ),
    ]


# --- the change feed -----------------------------------------------------


class ChangedBill(Resource, frozen=True):
    """Element of the change feed: a bill that is new or has changed."""

    type: Annotated[Literal["bill"], Doc(description="The kind of this element.")]
    shop_id: Annotated[str, Doc(description="The bill's shop. Bills are identified by `shopId` and `id` together.")]
    bill: Annotated[Bill, Doc(description="The whole bill, as the bill list returns it.")]


class RemovedBill(Resource, frozen=True):
    """Element of the change feed: a bill that no longer exists."""

    type: Annotated[Literal["billRemoved"], Doc(description="The kind of this element.")]
    shop_id: Annotated[str, Doc(description="The bill's shop.")]
    id: Annotated[str, Doc(description="The bill's `id`. You may never have received this bill.")]


class ChangedShop(Resource, frozen=True):
    """Element of the change feed: a shop that joined the scope, was listed again or has changed."""

    type: Annotated[Literal["shop"], Doc(description="The kind of this element.")]
    shop_id: Annotated[str, Doc(description="The shop.")]
    full: Annotated[
        bool,
        Doc(description="True if all bills of the shop follow in this pass. Delete your copies of its bills first."),
    ]
    shop: Annotated[Shop, Doc(description="The shop, as the shop list returns it.")]


class RemovedShop(Resource, frozen=True):
    """Element of the change feed: a shop that the shop list no longer returns."""

    type: Annotated[Literal["shopRemoved"], Doc(description="The kind of this element.")]
    shop_id: Annotated[str, Doc(description="The shop. You may never have received it.")]
    full: Annotated[
        bool,
        Doc(description="True if all bills of the shop follow in this pass. Delete your copies of its bills first."),
    ]
    in_scope: Annotated[
        bool,
        Doc(
            description="True if the shop was closed: the key can still read its bills and receives changes to them. "
            "False if it left the scope: nothing more is sent unless it returns, and then it is sent in full."
        ),
    ]


# --- digests -----------------------------------------------------------------


class DayDigest(Resource, frozen=True):
    """The totals of one shop's bills on one calendar day."""

    shop_id: Annotated[str, Doc(description="The shop.")]
    day: Annotated[
        str | None,
        Doc(description="The `billDate` of the bills, YYYY-MM-DD; null for the shop's bills without a date."),
    ]
    bills: Annotated[int, Doc(description="Number of bills, voids included.")]
    voids: Annotated[int, Doc(description="Number of bills whose `status` is `void`.")]
    net: Annotated[Number, Doc(description="Exact sum of `amounts.net`; null counts as 0.")]
    tip: Annotated[Number, Doc(description="Exact sum of `amounts.tip`; null counts as 0.")]
    latest_updated_at: Annotated[
        str | None, Doc(description="The latest `updatedAt` of these bills, in UTC; null if none has one.")
    ]
    hash: Annotated[
        str,
        Doc(
            description="A whole number as text: the sum over all bills of the first 15 hexadecimal digits of "
            "`MD5(id|ms)`, where `ms` is `updatedAt` in milliseconds since 1970 UTC, or empty if it is null."
        ),
    ]
