"""The source records that the generator writes; see `docs/source-records.md`. Fields that are None are left out."""

from typing import Any

from msgspec import Raw, Struct

Number = int | float


class Entry(Struct, rename="camel", omit_defaults=True):
    """An object inside a record."""


class Record(Struct, rename="camel", omit_defaults=True, tag_field="kind"):
    """A source record. Its first fields are `kind` and `id`."""

    id: str


class Label(Entry, kw_only=True):
    """The ID and name of a table or a channel."""

    id: str
    name: str | None = None


class CategoryEntry(Entry, kw_only=True):
    id: str
    name: str | None = None
    parent_id: str | None = None
    level: int | str | None = None
    hidden: bool | None = None
    visible_in: list[str] | None = None
    grouping: bool | None = None


class ShopRecord(Record, kw_only=True, tag="shop"):
    name: str
    franchise_id: str | None = None
    provider_id: str | None = None
    timezone: str | None = None
    closing_time: str | None = None
    channels: list[Label]
    categories: list[CategoryEntry]


class TierEntry(Entry, kw_only=True):
    code: str
    name: str


class BaseRecord(Record, kw_only=True, tag="base"):
    tiers: list[TierEntry]
    auto_tiers: bool
    credit_enabled: bool
    messaging_channel: str
    older_messaging_channels: list[str]


class LotEntry(Entry, kw_only=True):
    amount: Number
    expire_at: str | None = None


class WalletCoupon(Entry, kw_only=True):
    code: str
    status: str
    template_id: str
    name: str
    expire_at: str | None = None
    provider_id: str | None = None


class AccountEntry(Entry, kw_only=True):
    channel: str | None = None
    user_id: str


class MemberRecord(Record, kw_only=True, tag="member"):
    provider_id: str
    created_at: str
    rank: str | None = None
    rank_level: int | None = None
    points: Number | list[LotEntry]
    credit: Number | list[LotEntry] | None = None
    coupons: list[WalletCoupon]
    labels: list[str]
    persona: list[str]
    visits: list[Any]
    tel: str | None = None
    email: str | None = None
    messaging: list[AccountEntry]


class Choice(Entry, kw_only=True):
    id: str
    name: str
    qty: Number | None = None


class ItemEntry(Entry, kw_only=True):
    product_id: str | None = None
    root_id: str | None = None
    name: str
    qty: Number | None = None
    unit_price: Number | None = None
    total: Number
    options: list[Choice] | None = None
    category_ids: list[str] | None = None
    cancelled: bool | None = None
    vat: bool | None = None
    tip: bool | None = None


class PromotionEntry(Entry, kw_only=True):
    id: str
    name: str
    amount: Number | None = None


class AmountsEntry(Entry, kw_only=True):
    subtotal: Number | None = None
    discount: Number | None = None
    campaigns: list[PromotionEntry] | None = None
    coupons: list[PromotionEntry] | None = None
    discount_total: Number | None = None
    service_charge: Number | None = None
    delivery_fee: Number | None = None
    card_surcharge: Number | None = None
    credit: Number | None = None
    vat: Number | None = None
    vat_type: str | None = None
    rounding: Number | None = None
    tip: Number | None = None
    net: Number


class PaymentEntry(Entry, kw_only=True):
    name: str
    amount: Number
    change: Number | None = None


class VoidNote(Entry, kw_only=True):
    reason: str


class BillRecord(Record, kw_only=True, tag="bill"):
    shop_id: str
    rev: int | None = None
    closed_at: str | int
    trading_day: str | None = None
    history: bool | None = None
    order_ids: list[str] | None = None
    receipt_number: str | None = None
    tax_number: str | None = None
    device_id: str | None = None
    station_id: str | None = None
    table: Label | None = None
    channel: str | Label | None = None
    buffet_package_id: str | None = None
    service_type: str | None = None
    member_id: str | None = None
    lines: list[Raw]
    amounts: AmountsEntry
    payments: list[PaymentEntry]
    void: bool | VoidNote | None = None
    cashier: str | None = None


def baht(satang: int) -> Number:
    """Convert satang to baht. Whole amounts become integers, so that 120 is not written as 120.0."""
    whole, rest = divmod(satang, 100)
    return satang / 100 if rest else whole
