"""The source record of a bill: its fields, the types of clean values, and how a value of another type is read.

msgspec decodes a clean bill directly into these structs, and fails for any other bill, so the types of values need not
be checked again. `cleaned` reads any other bill.
"""

from collections.abc import Callable
from functools import cache
from math import nan
from typing import Annotated, Any, Literal, TypeVar, get_args, get_type_hints

from msgspec import Meta, Raw, Struct, ValidationError, convert, json
from msgspec.structs import fields

from counterfoil.model.pos_values import (
    WHOLE_MILLIONTHS,
    WHOLE_NUMBER_LIMIT,
    Record,
    flag,
    ident,
    idents,
    money,
    number,
    objects,
    record_id,
    storable,
    text,
)

# Text that contains NUL has to be cleaned. In JSON, NUL can be written only as this escape sequence.
NUL = b"\\u0000"
_encode = json.Encoder().encode
_Reader = Callable[[Any], Any]
_Whole = Annotated[int, Meta(ge=1 - WHOLE_NUMBER_LIMIT, le=WHOLE_NUMBER_LIMIT - 1)]
_Fraction = Annotated[float, Meta(gt=-WHOLE_MILLIONTHS, lt=WHOLE_MILLIONTHS)]


def _read_by(read: _Reader) -> Meta:
    return Meta(extra={"read": read})


_Id = Annotated[str | None, _read_by(ident)]
_Text = Annotated[str | None, _read_by(text)]
_Quantity = Annotated[_Whole | _Fraction | None, _read_by(number)]
_Amount = Annotated[_Whole | _Fraction | None, _read_by(money)]
_Flag = Annotated[bool | None, _read_by(flag)]


class SourcePart(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """Base class of the objects in a source record. Each field has the type of a clean value."""


_Part = TypeVar("_Part", bound=SourcePart)


def cleaned(part: type[_Part], record: Record) -> _Part:
    """Return the values of an object that can be read."""
    try:
        # Most objects of a bill that is not clean are clean themselves.
        found = convert(record, part)
        if NUL not in _encode(found):
            return found
    except (ValidationError, UnicodeEncodeError):
        pass
    return field_by_field(part, record)


def field_by_field(part: type[_Part], record: Record) -> _Part:
    values = []
    for name, read in _readers(part):
        value = record.get(name)
        values.append(None if value is None else read(value))
    return part(*values)


@cache
def _readers(part: type[SourcePart]) -> list[tuple[str, _Reader]]:
    hints = get_type_hints(part, include_extras=True)
    return [(field.encode_name, get_args(hints[field.name])[-1].extra["read"]) for field in fields(part)]


def _list_of(part: type[SourcePart]) -> Meta:
    return _read_by(lambda value: [cleaned(part, record) for record in objects(value)])


def _change_given(value: object) -> object:
    if isinstance(value, str) and not value.strip():
        return None
    found = money(value)
    # None would mean that no change was given.
    return nan if found is None else found


class SourceLabel(SourcePart, frozen=True):
    """The ID and name of a table, a channel, an option or a promotion."""

    id: _Id = None
    name: _Text = None


def _table(value: object) -> SourceLabel | None:
    return SourceLabel(ident(value.get("id")), ident(value.get("name"))) if isinstance(value, dict) else None


class SourceVoid(SourcePart, frozen=True):
    reason: _Text = None


class SourceOption(SourceLabel, frozen=True):
    qty: _Quantity = None


class SourceItem(SourcePart, frozen=True):
    product_id: _Id = None
    root_id: _Id = None
    name: _Text = None
    qty: _Quantity = None
    unit_price: _Amount = None
    total: _Amount = None
    options: Annotated[list[SourceOption] | None, _list_of(SourceOption)] = None
    category_ids: Annotated[list[str] | None, _read_by(idents)] = None
    cancelled: _Flag = None
    vat: _Flag = None
    tip: _Flag = None


class SourcePromotion(SourceLabel, frozen=True):
    amount: _Amount = None


class SourceAmounts(SourcePart, frozen=True):
    """The amounts of a bill, in the same order as in `resources.Amounts`."""

    subtotal: _Amount = None
    discount: _Amount = None
    campaigns: Annotated[list[SourcePromotion] | None, _list_of(SourcePromotion)] = None
    coupons: Annotated[list[SourcePromotion] | None, _list_of(SourcePromotion)] = None
    discount_total: _Amount = None
    service_charge: _Amount = None
    delivery_fee: _Amount = None
    card_surcharge: _Amount = None
    credit: _Amount = None
    vat: _Amount = None
    vat_type: Annotated[str | None, _read_by(lambda value: storable(value) if isinstance(value, str) else None)] = None
    rounding: _Amount = None
    tip: _Amount = None
    net: _Amount = None


class SourcePayment(SourcePart, frozen=True):
    name: _Text = None
    amount: _Amount = None
    change: Annotated[_Whole | _Fraction | None, _read_by(_change_given)] = None


def _object(part: type[SourcePart], otherwise: _Reader) -> Meta:
    return _read_by(lambda value: cleaned(part, value) if isinstance(value, dict) else otherwise(value))


class SourceBill(SourcePart, frozen=True):
    kind: Annotated[Literal["bill"], _read_by(text)]
    id: Annotated[str, _read_by(record_id)]
    shop_id: Annotated[str, _read_by(record_id)]
    rev: _Quantity = None
    closed_at: Annotated[int | float | str | None, _read_by(lambda value: value)] = None
    trading_day: Annotated[int | str | None, _read_by(lambda value: value)] = None
    history: _Flag = None
    order_ids: Annotated[list[str] | None, _read_by(idents)] = None
    receipt_number: _Id = None
    tax_number: _Id = None
    device_id: _Id = None
    station_id: _Id = None
    table: Annotated[SourceLabel | None, _read_by(_table)] = None
    channel: Annotated[str | SourceLabel | None, _object(SourceLabel, ident)] = None
    buffet_package_id: _Id = None
    service_type: _Id = None
    member_id: _Id = None
    # Each element is a `SourceItem`. Most lines of clean bills need not be decoded.
    lines: Annotated[list[Raw] | None, _read_by(lambda _: None)] = None
    amounts: Annotated[SourceAmounts | None, _object(SourceAmounts, lambda _: None)] = None
    payments: Annotated[list[SourcePayment] | None, _list_of(SourcePayment)] = None
    void: Annotated[bool | str | SourceVoid | None, _object(SourceVoid, lambda value: value)] = None
    cashier: _Text = None
