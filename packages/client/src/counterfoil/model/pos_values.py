"""Reads values from tills leniently. Only `identifier` raises an exception.

The table "How a value is read" in docs/source-records.md is the specification. Most functions take any JSON value and
return the usable part of it, or `None`.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, tzinfo
from decimal import ROUND_FLOOR, Decimal
from functools import lru_cache
from typing import Any

from counterfoil.model.calendar import from_ms, to_ms
from counterfoil.model.resources import Number

Record = Mapping[str, Any]

WHOLE_NUMBER_LIMIT = 2**63
"""Databases and most clients cannot represent whole numbers of this size or larger."""

MAX_WHOLE_DIGITS = 19

MILLION = 1_000_000
WHOLE_MILLIONTHS = 1e9
"""For an amount below this limit, a double can hold the number of millionths exactly."""

EXACT_FLOAT = 2**53

FIRST_YEAR = 1970
LAST_INSTANT = to_ms(datetime(9999, 12, 31, 10, tzinfo=UTC)) - 1
"""The last instant whose year has four digits in every time zone (up to UTC+14)."""

MILLISECONDS_FROM = 253_402_300_800
"""A time below this number is in seconds, any other time in milliseconds. It is the first second of the year 10000."""

FIRST_OF_EIGHT_DIGITS, FIRST_OF_NINE_DIGITS = 10**7, 10**8
"""A number with eight digits is a day such as 20260131, not a time in the 1970s."""

MAX_DAY_LENGTH = len("YYYY-MM-DD")
COMPACT_DAY = len("YYYYMMDD")
END_OF_DAY = time(23, 59, 59, 999_000)

MAX_ID_BYTES = 512
"""The maximum length of an ID, in bytes of UTF-8, that every store can index."""

SHORT_ID_LENGTH = MAX_ID_BYTES // 4

_SURROGATE = re.compile("[\ud800-\udfff]")
_IN_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?", re.ASCII)
_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)|(\d{4})(\d\d)(\d\d)", re.ASCII)
_BETWEEN_DATE_AND_TIME = frozenset("T ")
# This is stricter than Python's parser, which reads 10.5 as 10:00:00.5 and accepts +00:60 as a UTC offset.
_TIME = re.compile(r"[T ]\d\d(?::?\d\d(?::?\d\d(?:[.,]\d+)?)?)?(?:Z|[+-]\d\d(?::?[0-5]\d(?::?[0-5]\d)?)?)?", re.ASCII)
_YES = frozenset({"true", "1", "yes"})
_FLAG_WORDS = _YES | {"false", "0", "no"}


class Unreadable(ValueError):
    """A required identifier of a record is missing or unusable, so the record cannot be stored."""


# --- text ------------------------------------------------------------------


def text(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    if value.isprintable() and value and not value.isspace():
        return value
    kept = storable(value)
    return kept if kept and not kept.isspace() else None


def storable(value: str) -> str:
    """Return the text without NUL, which PostgreSQL cannot store, and with lone surrogates replaced."""
    return _SURROGATE.sub("\ufffd", value.replace("\0", ""))


def ident(value: object) -> str | None:
    """Return an ID given as text or as a whole number. A float of 2^53 or more may have been rounded to another ID."""
    if value is None:
        return None
    if isinstance(value, str):
        return value if value.isprintable() and value and not value.isspace() else text(value)
    if type(value) is int and value.bit_length() <= 128:
        return str(value)
    if type(value) is float and value.is_integer() and abs(value) < EXACT_FLOAT:
        return str(int(value))
    return None


def record_id(value: object) -> str | None:
    """Return the ID of a record if it can be stored unchanged: an altered ID could equal that of another record."""
    found = ident(value)
    if found is None or (isinstance(value, str) and found != value):
        return None
    return found if len(found) <= SHORT_ID_LENGTH or len(found.encode()) <= MAX_ID_BYTES else None


def identifier(record: Record, field: str) -> str:
    """Return a required identifier; raise `Unreadable` if it is missing or unusable."""
    found = record_id(record.get(field))
    if found is None:
        raise Unreadable(f"no usable {field}")
    return found


# --- numbers ---------------------------------------------------------------


def number(value: object) -> Number | None:
    """Return a finite number, or None. Whole numbers become int, so that 100 is never written as 100.0."""
    if type(value) is int:
        return value if -WHOLE_NUMBER_LIMIT < value < WHOLE_NUMBER_LIMIT else None
    if type(value) is float:
        return _finite(value)
    return _parse_number(value.strip()) if isinstance(value, str) else None


def _parse_number(value: str) -> Number | None:
    if "," in value:
        if not _IN_THOUSANDS.fullmatch(value):
            return None
        value = value.replace(",", "")
    if "_" in value or not value.isascii():  # float() also accepts 1_0 and Thai digits.
        return None
    if value.isdigit() and len(value) <= MAX_WHOLE_DIGITS:  # A float would round a revision given in nanoseconds.
        return number(int(value))
    try:
        return _finite(float(value))
    except ValueError:
        return None


def money(value: object) -> Number | None:
    """Return an amount in baht, rounded to a millionth, or None if it cannot be read."""
    read = number(value)
    return round_to_millionth(read) if type(read) is float else read


def total(amounts: Sequence[Number]) -> Number:
    """Return the sum of amounts, or 0 if it is too large to be stored. It does not depend on their order."""
    if len(amounts) == 1:
        return amounts[0]
    millionths = sum(amount * MILLION if type(amount) is int else round(amount * MILLION) for amount in amounts)
    whole, rest = divmod(millionths, MILLION)
    return money(millionths / MILLION if rest else whole) or 0


def round_to_millionth(value: float) -> Number | None:
    if -WHOLE_MILLIONTHS < value < WHOLE_MILLIONTHS:
        millionths = round(value * MILLION)
        return millionths / MILLION if millionths % MILLION else millionths // MILLION
    return _finite(round(value, 6))


def _finite(value: float) -> Number | None:
    if not -WHOLE_NUMBER_LIMIT < value < WHOLE_NUMBER_LIMIT:  # The condition is also true for NaN.
        return None
    return int(value) if value.is_integer() else value


# --- times -----------------------------------------------------------------


Moment = int | datetime
"""An instant in milliseconds since 1970, or a local time if no offset was recorded."""


def moment(value: object) -> Moment | None:
    """Return a time as it was recorded, even if it is out of range, or None if it cannot be read."""
    if type(value) is int and FIRST_OF_NINE_DIGITS <= value < WHOLE_NUMBER_LIMIT:
        return value if value >= MILLISECONDS_FROM else value * 1000
    if value is None:
        return None
    if isinstance(value, str):
        stripped = value.strip().upper()
        for at in (MAX_DAY_LENGTH, COMPACT_DAY):
            if stripped[at : at + 1] in _BETWEEN_DATE_AND_TIME:
                return _parse_iso(stripped) if _TIME.fullmatch(stripped, at) else None
        if len(stripped) == COMPACT_DAY and stripped.isdigit():
            return None
    since_1970 = number(value)
    if since_1970 is None or FIRST_OF_EIGHT_DIGITS <= since_1970 < FIRST_OF_NINE_DIGITS:
        return None
    # Round down, as `to_ms` does. Use Decimal, because a float times 1000 may fall just below the millisecond.
    ms = Decimal(repr(since_1970)) * (1 if since_1970 >= MILLISECONDS_FROM else 1000)
    return int(ms.to_integral_value(ROUND_FLOOR))


def on_clock(recorded: Moment | None, zone: tzinfo) -> int | None:
    """Return the instant of a time from 1970 to LAST_INSTANT. A time without an offset is local time in `zone`."""
    if isinstance(recorded, datetime):
        recorded = to_ms(recorded.replace(tzinfo=zone))
    return recorded if recorded is not None and 0 <= recorded <= LAST_INSTANT else None


def instant(value: object, zone: tzinfo) -> int | None:
    """Return a time in milliseconds since 1970, or None. A time without an offset is local time in `zone`."""
    return on_clock(moment(value), zone)


def beginning(value: object, zone: tzinfo) -> int | None:
    """Return the instant of a time, or the first instant of a day."""
    known = _parse_day(value)
    return on_clock(datetime.combine(known, time.min) if known else moment(value), zone)


def expiry(value: object, zone: tzinfo) -> int | None:
    """Return the instant of a time, or the last millisecond of a day. LAST_INSTANT replaces any later instant."""
    known = _parse_day(value)
    found = datetime.combine(known, END_OF_DAY) if known else moment(value)
    if isinstance(found, datetime):
        found = to_ms(found.replace(tzinfo=zone))
    return None if found is None or found < 0 else min(found, LAST_INSTANT)


def day(value: object, zone: tzinfo) -> date | None:
    return day_on_clock(recorded_day(value), zone)


def recorded_day(value: object) -> date | Moment | None:
    """Return a day as it was recorded: a date, or a time whose day depends on the time zone."""
    return None if value is None else _parse_day(value) or moment(value)


def day_on_clock(recorded: date | Moment | None, zone: tzinfo) -> date | None:
    if recorded is None or not isinstance(recorded, (int, datetime)):
        return recorded
    found = on_clock(recorded, zone)
    return None if found is None else from_ms(found, zone).date()


def _parse_day(value: object) -> date | None:
    stripped = value.strip() if isinstance(value, str) else ident(value) or ""
    return _calendar_day(stripped) if len(stripped) <= MAX_DAY_LENGTH else None


@lru_cache(maxsize=4096)
def _calendar_day(stripped: str) -> date | None:
    parts = _DAY.fullmatch(stripped)
    if parts is None:
        return None
    year, month, of_month = (int(part) for part in parts.groups() if part)
    try:
        return date(year, month, of_month) if year >= FIRST_YEAR else None
    except ValueError:
        return None


def _parse_iso(stripped: str) -> Moment | None:
    try:
        found = datetime.fromisoformat(stripped)
    except ValueError:
        return None
    return to_ms(found) if found.tzinfo else found


# --- flags and lists -------------------------------------------------------


def flag(value: object) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in _YES
    return isinstance(value, int | float) and value == 1


def is_flag_word(value: str) -> bool:
    return value.strip().lower() in _FLAG_WORDS


def as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def objects(value: object) -> list[Record]:
    if not value or not isinstance(value, list):
        return []
    return [element for element in value if isinstance(element, dict)]


def texts(value: object) -> list[str]:
    found = [text(element) for element in as_list(value)]
    return [written for written in found if written is not None]


def idents(value: object) -> list[str]:
    found = [ident(element) for element in as_list(value)]
    return [written for written in found if written is not None]


MIDNIGHT_AT_THE_END = "24:00"
_CLOSING = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::00)?", re.ASCII)


def closing_time(value: object) -> str | None:
    """Return a time of day such as `02:00`, or None if the value is none."""
    written = (text(value) or "").strip()
    if written == MIDNIGHT_AT_THE_END:
        return written
    clock = _CLOSING.fullmatch(written)
    return f"{clock[1]:0>2}:{clock[2]}" if clock else None
