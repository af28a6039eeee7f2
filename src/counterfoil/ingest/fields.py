"""Finds data that a load would otherwise lose silently: unknown fields, and values that cannot be read.

The published JSON Schemas are the only list of field names and types. Values
are read by the same functions as in a load.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field, json

from counterfoil.domain.calendar import THAI_TIME, zone_named
from counterfoil.domain.changes import Change, PutBill, PutMember, RemoveBill, RemoveMember, RemoveShop
from counterfoil.domain.pos_values import (
    beginning,
    day,
    expiry,
    ident,
    instant,
    is_flag_word,
    number,
    text,
)
from counterfoil.domain.resources import Amounts, Bill
from counterfoil.domain.shops import shop_from
from counterfoil.text import printable

SCHEMAS: Final = Path(__file__).parent / "schemas"
MAX_NAME = 80
# Maximum number of distinct fields that a load counts by name. All further fields are counted together.
MAX_COUNTED = 200
OTHER_FIELDS = "(other fields)"
CLOSE_ENOUGH = 0.7
_NO_AMOUNTS = Amounts(**dict.fromkeys(Amounts.__struct_fields__) | {"campaign": [], "coupon": []})  # type: ignore[arg-type]


# --- types of values -----------------------------------------------------------


def _is_flag(value: object) -> bool:
    return is_flag_word(value) if isinstance(value, str) else isinstance(value, int | float) and value in (0, 1)


def _is_rank_level(value: object) -> bool:
    level = number(value)
    return isinstance(level, int) and level >= 0


def _is_closing_time(value: object) -> bool:
    return shop_from({"id": "-", "closingTime": value})[1].closing is not None


_Reader = Callable[[object], bool]
# A function that says whether a value can be read, and the Python types whose values always can.
_ValueType = tuple[_Reader, frozenset[type]]


def _read_by(read: Callable[..., object], *always_readable: type, **arguments: Any) -> _ValueType:
    """Return the type of the values that a function of the load can read, which returns None for all others."""
    return lambda value: read(value, **arguments) is not None, frozenset(always_readable)


_TEXT, _ID, _NUMBER, _DAY = _read_by(text, str), _read_by(ident, str), _read_by(number), _read_by(day, zone=THAI_TIME)
_NOT_CHECKED: _ValueType = (lambda _: True, frozenset())
# Maps the names in the `$defs` of the schemas to types.
_VALUE_TYPES: Final[Mapping[str, _ValueType]] = {
    "text": _TEXT,
    "userId": _TEXT,
    "id": _ID,
    "optionalId": _ID,
    "number": _NUMBER,
    "requiredNumber": _NUMBER,
    "flag": (_is_flag, frozenset({bool})),
    "time": _read_by(instant, zone=THAI_TIME),
    "day": _DAY,
    "requiredDay": _DAY,
    # Most bills have these two fields. To save time, `check_record` checks their converted values instead.
    "closedAt": _NOT_CHECKED,
    "tradingDay": _NOT_CHECKED,
    "timeOrDay": _read_by(beginning, zone=THAI_TIME),
    "expiry": _read_by(expiry, zone=THAI_TIME),
    "rankLevel": (_is_rank_level, frozenset()),
    "couponStatus": (lambda value: value in ("available", "used"), frozenset()),
    "closingTime": (_is_closing_time, frozenset()),
    "timezone": (lambda value: zone_named(text(value)) is not None, frozenset()),
}


def is_nothing(value: object) -> bool:
    """Return whether a value means that nothing was recorded, which is not an error."""
    return value is None or (isinstance(value, str) and not value.strip(" \t\r\n\0"))


# --- the table of fields -------------------------------------------------------


class FieldType(Struct, frozen=True, kw_only=True):
    """The values that a field may hold: plain values, objects with `fields`, lists of `elements`, or a mixture."""

    path: str
    readers: tuple[Callable[[object], bool], ...] = ()
    always_readable: frozenset[type] = frozenset()
    fields: dict[str, "FieldType"] | None = None
    elements: "FieldType | None" = None
    required: tuple[str, ...] = ()
    """The fields that an object within a record must have. An object that lacks one of them is not used."""


@cache
def known_fields(kind: str) -> FieldType:
    """Return the fields of a kind of record according to its published JSON Schema."""
    schema = json.decode((SCHEMAS / f"{kind}.json").read_bytes())
    definitions = schema["$defs"]
    own = schema["properties"] | definitions.get("record", {}).get("properties", {})
    return _field_type({"properties": own}, definitions, "")


def _field_type(schema: dict[str, Any], definitions: dict[str, Any], path: str) -> FieldType:
    if reference := schema.get("$ref"):
        name = reference.removeprefix("#/$defs/")
        if known := _VALUE_TYPES.get(name):
            return FieldType(path=path, readers=known[:1], always_readable=known[1])
        return _field_type(definitions[name], definitions, path)
    if "anyOf" in schema:
        return _either([_field_type(each, definitions, path) for each in schema["anyOf"]], path)
    if "properties" in schema:
        start = f"{path}." if path else ""
        fields = {name: _field_type(inner, definitions, start + name) for name, inner in schema["properties"].items()}
        required = tuple(schema.get("required", ())) if path else ()
        return FieldType(path=path, fields=fields, required=required)
    if "items" in schema:
        return FieldType(path=path, elements=_field_type(schema["items"], definitions, path))
    # This is the field `kind`. A record of an unknown kind is rejected before its fields are checked.
    return FieldType(path=path, always_readable=frozenset({str}) if "const" in schema else frozenset())


def _either(choices: list[FieldType], path: str) -> FieldType:
    return FieldType(
        path=path,
        readers=tuple(reader for choice in choices for reader in choice.readers),
        always_readable=frozenset[type]().union(*(choice.always_readable for choice in choices)),
        fields=next((choice.fields for choice in choices if choice.fields is not None), None),
        elements=next((choice.elements for choice in choices if choice.elements is not None), None),
        required=next((choice.required for choice in choices if choice.required), ()),
    )


# --- checking a record ---------------------------------------------------------


def check_object(record: dict[str, Any], known: FieldType, unknown: set[str], unreadable: set[str]) -> None:
    """Add the paths of an object's unknown fields and of its unreadable values to the two sets."""
    fields = known.fields or {}
    for name, value in record.items():
        inner = fields.get(name)
        if inner is None:
            start = f"{known.path}." if known.path else ""
            unknown.add(start + printable_field(name))
        elif type(value) not in inner.always_readable:
            _check_value(value, inner, unknown, unreadable)
    for name in known.required:
        if is_nothing(record.get(name)):
            unreadable.add(f"{known.path}.{name}")


def _check_value(value: object, known: FieldType, unknown: set[str], unreadable: set[str]) -> None:
    if known.fields is not None and isinstance(value, dict):
        check_object(value, known, unknown, unreadable)
    elif known.elements is not None and isinstance(value, list):
        for element in value:
            _check_value(element, known.elements, unknown, unreadable)
    elif type(value) not in known.always_readable and not is_nothing(value):
        for is_readable in known.readers:
            if is_readable(value):
                return
        unreadable.add(known.path)


def printable_field(name: str) -> str:
    """Return a name from a delivery as text that can be shown: short, and without control characters."""
    short = name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}…"
    return printable(short)


class Findings(Struct):
    """The paths, such as `lines.qty`, of the unknown and the unreadable fields of a record."""

    unknown: set[str]
    unreadable: set[str]


def check_record(record: dict[str, Any], change: Change) -> Findings | None:
    """Return the unknown and unreadable fields of a record, or None if there are none.

    `change` is the result of converting the record. The fields of a removal are not checked.
    """
    unreadable: set[str] = set()
    if isinstance(change, PutBill):
        closed = change.closed
        if closed.closed_at is None and not is_nothing(record.get("closedAt")):
            unreadable.add("closedAt")
        if closed.trading_day is None and not is_nothing(record.get("tradingDay")):
            unreadable.add("tradingDay")
    elif isinstance(change, RemoveBill | RemoveMember | RemoveShop):
        return None
    elif isinstance(change, PutMember) and _are_all_counted(record.get("visits"), change.record.visit_count):
        record = {**record, "visits": None}
    return _checked(record, unreadable)


def check_bill_without_shop(record: dict[str, Any]) -> Findings | None:
    """Return the unknown and unreadable fields of a bill that cannot be converted, because its shop is not loaded."""
    checked = {"closedAt": _VALUE_TYPES["time"], "tradingDay": _DAY}
    values = ((name, record.get(name), is_readable) for name, (is_readable, _) in checked.items())
    return _checked(
        record, {name for name, value, is_readable in values if not (is_nothing(value) or is_readable(value))}
    )


def _checked(record: dict[str, Any], unreadable: set[str]) -> Findings | None:
    unknown: set[str] = set()
    check_object(record, known_fields(record["kind"]), unknown, unreadable)
    return Findings(unknown, unreadable) if unknown or unreadable else None


def _are_all_counted(visits: object, count: int) -> bool:
    """Return whether the load could read all visits of a member, in which case they need not be checked again."""
    return isinstance(visits, list) and len(visits) == count and dict not in map(type, visits)


# --- counting over a load ------------------------------------------------------


class FieldCounts(Struct):
    """The counts of a load. `unknown` and `unreadable` count the records that have such a field, by kind and path."""

    unknown: Counter[tuple[str, str]] = field(default_factory=Counter)
    unreadable: Counter[tuple[str, str]] = field(default_factory=Counter)
    first: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)
    """The source and the line number of the first record that has an unknown or unreadable field, by kind and path."""
    records: Counter[str] = field(default_factory=Counter)
    bills: int = 0
    without_date: int = 0
    without_items: int = 0
    without_amounts: int = 0

    def add(self, kind: str, findings: Findings, source: str, line: int) -> None:
        for counts, paths in ((self.unknown, findings.unknown), (self.unreadable, findings.unreadable)):
            for path in paths:
                is_counted = (kind, path) in counts or len(counts) < MAX_COUNTED
                counted = kind, path if is_counted else OTHER_FIELDS
                counts[counted] += 1
                self.first.setdefault(counted, (source, line))

    def add_bill(self, *, without_date: bool, without_items: bool, without_amounts: bool) -> None:
        self.bills += 1
        self.without_date += without_date
        self.without_items += without_items
        self.without_amounts += without_amounts


def lacks_amounts(bill: Bill) -> bool:
    return bill.amounts.net is None and bill.amounts == _NO_AMOUNTS


def suggestion(kind: str, path: str) -> str | None:
    """Return the known field whose name is most similar to that of an unknown field, or None if none is similar."""
    from difflib import get_close_matches  # noqa: PLC0415 - most loads make no suggestion

    start, _, name = path.rpartition(".")
    known: FieldType | None = known_fields(kind)
    for step in start.split(".") if start else ():
        known = (known.fields or {}).get(step) if known else None
        known = known.elements or known if known else None
    names = {_plain(each): each for each in (known.fields or {})} if known else {}
    close = get_close_matches(_plain(name), names, n=1, cutoff=CLOSE_ENOUGH)
    return names[close[0]] if close else None


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
