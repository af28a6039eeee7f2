"""Finds what a load would lose silently: fields that the published JSON Schemas lack, and values it cannot read."""

from collections import Counter
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field, json

from counterfoil.domain.changes import BillPart, Change, EncodedBill, PutMember, Removal
from counterfoil.domain.members import read_rank_level
from counterfoil.domain.shops import shop_from
from counterfoil.model.calendar import THAI_TIME, zone_named
from counterfoil.model.pos_values import beginning, day, expiry, ident, instant, is_flag_word, number, text
from counterfoil.model.text import printable

SCHEMAS: Final = Path(__file__).parent / "schemas"
MAX_NAME = 80
# Maximum number of distinct fields that a load counts by name. All further fields are counted together.
MAX_COUNTED = 200
OTHER_FIELDS = "(other fields)"
CLOSE_ENOUGH = 0.7


# Reads a value of the type, like a function of the load, and returns None if it cannot be read.
_Reader = Callable[[Any], object]


def _flag(value: object) -> object:
    is_flag = is_flag_word(value) if isinstance(value, str) else isinstance(value, int | float) and value in (0, 1)
    return is_flag or None


_READ_DAY: _Reader = partial(day, zone=THAI_TIME)
# Maps the names in the `$defs` of the schemas to functions.
_READERS: Final[Mapping[str, _Reader]] = {
    "text": text,
    "userId": text,
    "id": ident,
    "optionalId": ident,
    "number": number,
    "requiredNumber": number,
    "flag": _flag,
    "time": partial(instant, zone=THAI_TIME),
    "day": _READ_DAY,
    "requiredDay": _READ_DAY,
    # Most bills have these two fields. To save time, `check_record` checks their converted values instead.
    "closedAt": str,
    "tradingDay": str,
    "timeOrDay": partial(beginning, zone=THAI_TIME),
    "expiry": partial(expiry, zone=THAI_TIME),
    "rankLevel": read_rank_level,
    "couponStatus": lambda value: value in ("available", "used") or None,
    "closingTime": lambda value: shop_from({"id": "-", "closingTime": value})[1].closing,
    "timezone": lambda value: zone_named(text(value)),
}
# The types whose values these functions can always read.
_ALWAYS_READABLE: Final[Mapping[_Reader, type]] = {text: str, ident: str, _flag: bool}


def is_nothing(value: object) -> bool:
    """Return whether a value means that nothing was recorded, which is not an error."""
    return value is None or (isinstance(value, str) and not value.strip(" \t\r\n\0"))


class FieldType(Struct, frozen=True, kw_only=True):
    """The values that a field may hold: plain values, objects with `fields`, lists of `elements`, or a mixture."""

    path: str
    readers: tuple[_Reader, ...] = ()
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
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        read = _READERS.get(name)
        if read is None:
            return _field_type(definitions[name], definitions, path)
        if read in _ALWAYS_READABLE:
            return FieldType(path=path, readers=(read,), always_readable=frozenset({_ALWAYS_READABLE[read]}))
        return FieldType(path=path, readers=(read,))
    if "anyOf" in schema:
        return _either([_field_type(choice, definitions, path) for choice in schema["anyOf"]], path)
    if "properties" in schema:
        start = f"{path}." if path else ""
        fields = {name: _field_type(inner, definitions, start + name) for name, inner in schema["properties"].items()}
        required = tuple(schema.get("required", ())) if path else ()
        return FieldType(path=path, fields=fields, required=required)
    if "items" in schema:
        return FieldType(path=path, elements=_field_type(schema["items"], definitions, path))
    if "const" in schema:
        # This is the field `kind`. A record of an unknown kind is rejected before its fields are checked.
        return FieldType(path=path, always_readable=frozenset({str}))
    return FieldType(path=path)


def _either(choices: list[FieldType], path: str) -> FieldType:
    readers: list[_Reader] = []
    always_readable: set[type] = set()
    for choice in choices:
        readers += choice.readers
        always_readable |= choice.always_readable
    return FieldType(
        path=path,
        readers=tuple(readers),
        always_readable=frozenset(always_readable),
        fields=next((choice.fields for choice in choices if choice.fields is not None), None),
        elements=next((choice.elements for choice in choices if choice.elements is not None), None),
        required=next((choice.required for choice in choices if choice.required), ()),
    )


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
    elif type(value) not in known.always_readable:
        for read in known.readers:
            if read(value) is not None:
                return
        if not is_nothing(value):
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
    """Return the unknown and unreadable fields of a record, if there are any. `change` is what it was converted to."""
    unreadable: set[str] = set()
    if isinstance(change, EncodedBill):
        if change.closed_at is None and not is_nothing(record.get("closedAt")):
            unreadable.add("closedAt")
        if change.trading_day is None and not is_nothing(record.get("tradingDay")):
            unreadable.add("tradingDay")
    elif isinstance(change, Removal):
        return None
    elif isinstance(change, PutMember) and _are_all_counted(record.get("visits"), change.record.visit_count):
        record = {**record, "visits": None}
    return _checked(record, unreadable)


def check_bill_without_shop(record: dict[str, Any]) -> Findings | None:
    """Return the unknown and unreadable fields of a bill that cannot be converted, because its shop is not loaded."""
    unreadable = set()
    for name, read in (("closedAt", _READERS["time"]), ("tradingDay", _READ_DAY)):
        value = record.get(name)
        if not is_nothing(value) and read(value) is None:
            unreadable.add(name)
    return _checked(record, unreadable)


def _checked(record: dict[str, Any], unreadable: set[str]) -> Findings | None:
    unknown: set[str] = set()
    check_object(record, known_fields(record["kind"]), unknown, unreadable)
    return Findings(unknown, unreadable) if unknown or unreadable else None


def _are_all_counted(visits: object, count: int) -> bool:
    """Return whether the load could read all visits of a member, in which case they need not be checked again."""
    return isinstance(visits, list) and len(visits) == count and dict not in map(type, visits)


class FieldCounts(Struct):
    """The counts of a load. `unknown` and `unreadable` count the records that have such a field, by kind and path."""

    unknown: Counter[tuple[str, str]] = field(default_factory=Counter)
    unreadable: Counter[tuple[str, str]] = field(default_factory=Counter)
    first: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)
    """The source and the line number of the first record that has an unknown or unreadable field, by kind and path."""
    records: Counter[str] = field(default_factory=Counter)
    bills: int = 0
    lacking: Counter[BillPart] = field(default_factory=Counter)
    """The number of bills that lack a part."""

    def add(self, kind: str, findings: Findings, source: str, line: int) -> None:
        for counts, paths in ((self.unknown, findings.unknown), (self.unreadable, findings.unreadable)):
            for path in paths:
                is_counted = (kind, path) in counts or len(counts) < MAX_COUNTED
                counted = kind, path if is_counted else OTHER_FIELDS
                counts[counted] += 1
                self.first.setdefault(counted, (source, line))


def suggestion(kind: str, path: str) -> str | None:
    """Return the known field whose name is most similar to that of an unknown field, or None if none is similar."""
    *parents, name = path.split(".")
    known = known_fields(kind)
    for parent in parents:
        inner = (known.fields or {}).get(parent)
        if inner is None:
            return None
        known = inner.elements or inner
    names = {_plain(field): field for field in known.fields or ()}
    close = get_close_matches(_plain(name), names, n=1, cutoff=CLOSE_ENOUGH)
    return names[close[0]] if close else None


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
