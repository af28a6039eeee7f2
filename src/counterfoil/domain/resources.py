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
    """Base of all published objects: immutable, camelCase in JSON, and never part of a reference cycle."""


# --- shops -----------------------------------------------------------------


class Category(Resource, frozen=True):
    """One node of a branch's category tree, which is published as a flat list."""

    id: Annotated[str, Doc(description="The same value as in `items[].category`.")]
    name: Annotated[str | None, Doc(description="Name given by the shop; null if empty.")]
    level: Annotated[
        int | None,
        Doc(description="1 for the top level, 2 directly below it, and so on; null if the depth is unknown."),
    ]
    parent_id: Annotated[
        str | None,
        Doc(description="The category directly above; null at the top. It may refer to a deleted category."),
    ]
    hidden: Annotated[bool, Doc(description="True if no sales channel shows the category.")]


class Shop(Resource, frozen=True):
    """A branch that the key can read."""

    shop_id: Annotated[str, Doc(description="Branch identifier, required by the bill list.")]
    shop_name: Annotated[str | None, Doc(description="Display name as typed by the owner.")]
    franchise_id: Annotated[str | None, Doc(description="The franchise; null for an independent shop.")]
    provider_id: Annotated[str | None, Doc(description="The branch's membership base; null if it has none.")]
    timezone: Annotated[
        str | None,
        Doc(
            description="IANA time zone. `from`, `to` and `billDate` are days on this clock; null means Thailand time."
        ),
    ]
    categories: Annotated[list[Category], Doc(description="By level, top level first, then in the shop's own order.")]


# --- bills -----------------------------------------------------------------


class Channel(Resource, frozen=True):
    """How the bill was sold."""

    code: Annotated[
        str | None,
        Doc(
            description="`dine_in`, `take_away`, `pickup`, or the id of one of the shop's own sales channels; "
            "an open set. Null if the bill refers to no table or channel."
        ),
    ]
    name: Annotated[str | None, Doc(description="Readable label of the channel.")]


class Option(Resource, frozen=True):
    """An option or add-on chosen for a line."""

    choice_id: Annotated[str | None, Doc(description="The choice.")]
    choice_name: Annotated[str | None, Doc(description="Its name as printed.")]
    qty: Annotated[Number, Doc(description="Quantity; 1 if the till recorded none.")]


class Item(Resource, frozen=True):
    """A line of a bill."""

    id: Annotated[str | None, Doc(description="Product id.")]
    root_id: Annotated[
        str | None,
        Doc(description="The head office's master product; null in an independent shop. Not a variant or set parent."),
    ]
    name: Annotated[str | None, Doc(description="Product name as printed.")]
    qty: Annotated[Number | None, Doc(description="Quantity; null if the till recorded none, or an unreadable one.")]
    unit_price: Annotated[
        Number | None,
        Doc(description="THB charged per unit; `lineTotal / qty` if none was recorded; null if that is impossible."),
    ]
    line_total: Annotated[Number | None, Doc(description="THB for the line.")]
    options: Annotated[list[Option], Doc(description="Chosen options and add-ons.")]
    category: Annotated[
        list[str] | None,
        Doc(
            description="Category ids at the time of sale, top level first; [] if the product had none, "
            "null if the till recorded nothing about it."
        ),
    ]
    cancelled: Annotated[bool, Doc(description="Cancelled during the order; not part of any total.")]
    vat: Annotated[bool, Doc(description="VAT applies to the line.")]
    is_tip: Annotated[bool, Doc(description="A tip, not a product; leave it out of product analytics.")]


class Promotion(Resource, frozen=True):
    """A promotion or a coupon applied to the bill as a whole."""

    id: Annotated[str | None, Doc(description="The promotion or coupon.")]
    name: Annotated[str | None, Doc(description="Its name.")]
    amount: Annotated[Number, Doc(description="Discount in THB; 0 if it gives none.")]


class Amounts(Resource, frozen=True):
    """The bill's amounts, in THB. Null means that the shop does not use the feature or never wrote the field."""

    subtotal: Annotated[
        Number | None, Doc(description="Sum of the lines before discounts and charges, without tip lines.")
    ]
    discount: Annotated[Number | None, Doc(description="Manual discount keyed by the cashier.")]
    campaign: Annotated[list[Promotion], Doc(description="Promotions applied.")]
    coupon: Annotated[list[Promotion], Doc(description="Coupons applied.")]
    discount_total: Annotated[
        Number | None,
        Doc(description="Manual, campaign and coupon discount as the till computed it; not capped at the amount due."),
    ]
    service_charge: Annotated[Number | None, Doc(description="Service charge.")]
    delivery_fee: Annotated[Number | None, Doc(description="Delivery fee charged.")]
    card_surcharge: Annotated[Number | None, Doc(description="Card surcharge charged.")]
    credit: Annotated[Number | None, Doc(description="Store credit redeemed on the bill.")]
    vat: Annotated[Number | None, Doc(description="VAT amount.")]
    vat_type: Annotated[
        str | None,
        Doc(
            description="An open string. In use: `Include` (prices contain VAT) and `Exclude` (VAT on top); "
            "may be empty when VAT was never configured."
        ),
    ]
    rounding: Annotated[Number | None, Doc(description="Rounding adjustment.")]
    tip: Annotated[Number | None, Doc(description="Tip collected: part of `net`, but not revenue.")]
    net: Annotated[Number | None, Doc(description="What the customer paid, tip included. Revenue is `net - tip`.")]


class Payment(Resource, frozen=True):
    """One payment; `amount - change` over all of them adds up to `amounts.net`."""

    name: Annotated[str | None, Doc(description="Payment method as the shop named it.")]
    amount: Annotated[Number | None, Doc(description="THB tendered; cash may exceed the bill.")]
    change: Annotated[
        Number | None, Doc(description="Change given, in THB; 0 if none, null only if the record cannot be read.")
    ]


Status = Literal["completed", "void"]


class Bill(Resource, frozen=True):
    """A closed bill. A voided bill is still returned; exclude it from revenue."""

    id: Annotated[str, Doc(description="Stable transaction id.")]
    order_ids: Annotated[list[str], Doc(description="Orders settled into this bill.")]
    receipt_number: Annotated[str | None, Doc(description="Receipt number printed for the customer.")]
    tax_number: Annotated[str | None, Doc(description="Full tax-invoice number when one was issued.")]
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
            description="Accounting day: the till's trading day, or else derived from the bill's time and the shop's "
            "closing time.",
            extra_json_schema={"format": "date"},
        ),
    ]
    bill_date: Annotated[
        str | None,
        Doc(
            description="Calendar day on the shop's clock; `from` and `to` filter by it.",
            extra_json_schema={"format": "date"},
        ),
    ]
    updated_at: Annotated[
        str | None,
        Doc(
            description="Time of the last change to any field of the bill, with the shop's UTC offset; null on a bill "
            "from before change tracking, which no `updatedSince` read returns.",
            extra_json_schema={"format": "date-time"},
        ),
    ]
    franchise_id: Annotated[str | None, Doc(description="Franchise of the shop.")]
    shop_id: Annotated[str, Doc(description="The shop that issued the bill.")]
    device_id: Annotated[str | None, Doc(description="Device that closed the bill.")]
    station_id: Annotated[str | None, Doc(description="POS station that closed the bill.")]
    channel: Annotated[Channel, Doc(description="How the bill was sold.")]
    service_type: Annotated[
        str | None,
        Doc(description="`alacarte` on a normal sale, otherwise the id of the buffet package sold; an open set."),
    ]
    table_name: Annotated[str | None, Doc(description="Table name, on dine-in bills.")]
    member_id: Annotated[
        str | None, Doc(description="Token of the member the bill is linked to; exactly the member's `memberId`.")
    ]
    items: Annotated[list[Item], Doc(description="The lines.")]
    amounts: Annotated[Amounts, Doc(description="The bill's amounts.")]
    payments: Annotated[list[Payment], Doc(description="One element per payment; a bill may be split.")]
    status: Annotated[Status, Doc(description="`completed`, or `void` once the whole bill was cancelled.")]
    void_reason: Annotated[str | None, Doc(description="Reason recorded when voided.")]
    cashier: Annotated[str | None, Doc(description="Name of the staff member who closed the bill.")]


# --- members ---------------------------------------------------------------

CouponStatus = Literal["available", "used"]


class Coupon(Resource, frozen=True):
    """A coupon of the member. Used coupons are listed too."""

    code: Annotated[str | None, Doc(description="Short code shown at the counter, unique per issued coupon.")]
    status: Annotated[CouponStatus | None, Doc(description="Whether it was redeemed; independent of expiry.")]
    template_id: Annotated[str | None, Doc(description="The template that the coupon was issued from.")]
    name: Annotated[str | None, Doc(description="Name of the coupon.")]
    expire_at: Annotated[
        str | None,
        Doc(
            description="With a +07:00 offset; compare it with `serverTime`. Null: never expires.",
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
        Doc(description="0-based position in the base's tier list; meaningful if tiers are assigned automatically."),
    ]
    rank_name: Annotated[str | None, Doc(description="Name of the tier in the current tier list.")]
    points: Annotated[Number, Doc(description="Points usable now, after expiry.")]
    credit: Annotated[Number, Doc(description="Store credit usable now; 0 when `creditEnabled` is false.")]
    credit_enabled: Annotated[bool, Doc(description="Whether the base uses store credit.")]
    coupons: Annotated[list[Coupon], Doc(description="The member's coupons in this base, including used ones.")]
    labels: Annotated[list[str], Doc(description="Tags the shop attached.")]
    persona: Annotated[list[str], Doc(description="Persona tags the shop attached.")]
    created_date: Annotated[
        str | None,
        Doc(description="Sign-up time with a +07:00 offset.", extra_json_schema={"format": "date-time"}),
    ]
    visit_count: Annotated[int, Doc(description="Recorded visits.")]
    last_visit: Annotated[
        str | None,
        Doc(description="Day of the latest visit; null if there was none.", extra_json_schema={"format": "date"}),
    ]
    has_tel: Annotated[bool, Doc(description="A phone number is on the record.")]
    has_email: Annotated[bool, Doc(description="An email address is on the record.")]
    has_messaging: Annotated[bool, Doc(description="A messaging account is linked.")]
    tel: Annotated[
        str | UnsetType | None,
        Doc(description="Only for keys with personal-data access; null if the record has none."),
    ] = UNSET
    email: Annotated[
        str | UnsetType | None,
        Doc(description="Only for keys with personal-data access; null if the record has none."),
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

    date: Annotated[str, Doc(description="Today in Thailand, YYYYMMDD.", pattern="^[0-9]{8}$")]
    count: Annotated[int, Doc(description="Requests counted today, including this one.")]
    remaining: Annotated[int, Doc(description="`perDay - count`, never below 0.")]


class DayCount(Resource, frozen=True):
    """One day of usage."""

    date: Annotated[str, Doc(description="A day (Thailand time), YYYYMMDD.", pattern="^[0-9]{8}$")]
    count: Annotated[int, Doc(description="Requests counted that day.")]


class Usage(Resource, frozen=True):
    """How much of its quota the calling key has used."""

    key_id: Annotated[str, Doc(description="ID of the key: the part before the secret.")]
    label: Annotated[str, Doc(description="The key's label; empty if it has none.")]
    scope: Annotated[Literal["shop", "franchise"], Doc(description="What the key is bound to.")]
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


# --- the feed of changes -----------------------------------------------------


class ChangedBill(Resource, frozen=True):
    """Element of the feed of changes: a bill that is new or has changed."""

    type: Annotated[Literal["bill"], Doc(description="The kind of this element.")]
    shop_id: Annotated[str, Doc(description="The bill's shop. Bills are identified by `shopId` and `id` together.")]
    bill: Annotated[Bill, Doc(description="The whole bill, as the bill list returns it.")]


class RemovedBill(Resource, frozen=True):
    """Element of the feed of changes: a bill that no longer exists."""

    type: Annotated[Literal["billRemoved"], Doc(description="The kind of this element.")]
    shop_id: Annotated[str, Doc(description="The bill's shop.")]
    id: Annotated[str, Doc(description="The bill's `id`. You may never have received this bill.")]


class ChangedShop(Resource, frozen=True):
    """Element of the feed of changes: a shop that joined the scope, was listed again or has changed."""

    type: Annotated[Literal["shop"], Doc(description="The kind of this element.")]
    shop_id: Annotated[str, Doc(description="The shop.")]
    full: Annotated[
        bool,
        Doc(description="True if all bills of the shop follow in this pass: delete those that you have of it first."),
    ]
    shop: Annotated[Shop, Doc(description="The shop, as the shop list returns it.")]


class RemovedShop(Resource, frozen=True):
    """Element of the feed of changes: a shop that the shop list no longer returns."""

    type: Annotated[Literal["shopRemoved"], Doc(description="The kind of this element.")]
    shop_id: Annotated[str, Doc(description="The shop. You may never have received it.")]
    full: Annotated[
        bool,
        Doc(description="True if all bills of the shop follow in this pass: delete those that you have of it first."),
    ]
    in_scope: Annotated[
        bool,
        Doc(
            description="True if the shop was closed: the key can still read its bills, and their changes still come. "
            "False if it left the scope: nothing more comes unless it returns, and then it comes in full."
        ),
    ]


# --- digests -----------------------------------------------------------------


class DayDigest(Resource, frozen=True):
    """What the bills of one shop and one calendar day add up to."""

    shop_id: Annotated[str, Doc(description="The shop.")]
    day: Annotated[
        str | None,
        Doc(description="The `billDate` of the bills, YYYY-MM-DD; null for the bills of the shop without a date."),
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
