"""Structs for the source record of a clean bill, which has only known fields, with values of the expected types.

msgspec decodes a line directly into these structs and fails for any other bill,
which is then read by `bills.bill_from`.
"""

from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct

from counterfoil.domain.pos_values import WHOLE_MILLIONTHS, WHOLE_NUMBER_LIMIT

_Whole = Annotated[int, Meta(ge=1 - WHOLE_NUMBER_LIMIT, le=WHOLE_NUMBER_LIMIT - 1)]
_Fraction = Annotated[float, Meta(gt=-WHOLE_MILLIONTHS, lt=WHOLE_MILLIONTHS)]
_Amount = _Whole | _Fraction | None


class SourcePart(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, gc=False):
    """Base class of the objects in a source record. Each field has the type of a clean value."""


class SourceTable(SourcePart, frozen=True):
    id: str | None = None
    name: str | None = None


class SourceChannel(SourcePart, frozen=True):
    id: str | None = None
    name: str | None = None


class SourceVoid(SourcePart, frozen=True):
    reason: str | None = None


class SourceOption(SourcePart, frozen=True):
    id: str | None = None
    name: str | None = None
    qty: _Amount = None


class SourceItem(SourcePart, frozen=True):
    product_id: str | None = None
    root_id: str | None = None
    name: str | None = None
    qty: _Amount = None
    unit_price: _Amount = None
    total: _Amount = None
    options: list[SourceOption] | None = None
    category_ids: list[str] | None = None
    cancelled: bool | None = None
    vat: bool | None = None
    tip: bool | None = None


class SourcePromotion(SourcePart, frozen=True):
    id: str | None = None
    name: str | None = None
    amount: _Amount = None


class SourceAmounts(SourcePart, frozen=True):
    """The amounts of a bill, in the same order as in `resources.Amounts`."""

    subtotal: _Amount = None
    discount: _Amount = None
    campaigns: list[SourcePromotion] | None = None
    coupons: list[SourcePromotion] | None = None
    discount_total: _Amount = None
    service_charge: _Amount = None
    delivery_fee: _Amount = None
    card_surcharge: _Amount = None
    credit: _Amount = None
    vat: _Amount = None
    vat_type: str | None = None
    rounding: _Amount = None
    tip: _Amount = None
    net: _Amount = None


class SourcePayment(SourcePart, frozen=True):
    name: str | None = None
    amount: _Amount = None
    change: _Amount = None


class SourceBill(SourcePart, frozen=True):
    kind: Literal["bill"]
    id: str
    shop_id: str
    rev: _Amount = None
    closed_at: int | float | str | None = None
    trading_day: int | str | None = None
    history: bool | None = None
    order_ids: list[str] | None = None
    receipt_number: str | None = None
    tax_number: str | None = None
    device_id: str | None = None
    station_id: str | None = None
    cashier: str | None = None
    table: SourceTable | None = None
    channel: str | SourceChannel | None = None
    buffet_package_id: str | None = None
    service_type: str | None = None
    member_id: str | None = None
    lines: list[Raw] | None = None  # Each element is a `SourceItem`.
    amounts: SourceAmounts | None = None
    payments: list[SourcePayment] | None = None
    void: bool | str | SourceVoid | None = None
