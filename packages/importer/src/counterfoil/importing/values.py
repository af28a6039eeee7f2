"""Reads cells of an export: text, exact decimal numbers, days and times in the formats that tills write.

Numbers never pass through a float. If neither a cell nor the mapping specifies an offset or a time zone, a time has no
offset, and `counterfoil load` reads it as the shop's local time.
"""

import re
import tomllib
from collections.abc import Collection, Iterable, Sequence
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from functools import lru_cache
from importlib import resources
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from counterfoil.importing.sentences import sentence
from counterfoil.model.calendar import zone_named
from counterfoil.model.text import printable

BUDDHIST_OFFSET = 543
FIRST_BUDDHIST_YEAR = 2400
# A bill of another year is a misread date: 14/11/2069 was meant to be Buddhist, or 2126 is a typing error.
FIRST_YEAR, LAST_YEAR = 1970, 2049
MIDDLE_OF_CENTURY = 50
NOON_HOUR, HOURS = 12, 24
# The precision of Python's decimal numbers. A number with more digits before its decimal point would be rounded.
MOST_DIGITS = 28
LOWEST_EXPONENT = -100
# Sums and products are exact. A result that would have to be rounded raises an exception.
EXACT = Context(prec=120, traps=[Inexact, InvalidOperation, Overflow])
NIGHT_ENDS = time(6)
"""A day of business that ends after midnight ends before this."""
# A message names at most this many columns.
MAX_SHOWN = 50
DATE_ORDERS = ("dmy", "mdy", "ymd")
YEAR_DAY_MONTH = "ydm"
"""The order of day and month behind a year that hardly anybody writes, so that it is only asked about."""
AUTO = "auto"
ONE_DAY = timedelta(days=1)
"""By so much, the number of a bill may be before its time, which is after midnight."""

BLANKS = " \t\r\n\u00a0\ufeff"
NO_RESULT = "#RESULT?"
"""The text of a formula whose result a workbook does not contain."""
_TABLES = tomllib.loads((resources.files("counterfoil.importing") / "values.toml").read_text("utf-8"))
ERRORS = frozenset({*_TABLES["errors"], NO_RESULT})
TOTAL_WORDS: list[str] = _TABLES["totals"]
STATISTICS: list[str] = _TABLES["statistics"]
_ZONES: dict[str, str] = _TABLES["zones"]
KNOWN_ZONES = list(dict.fromkeys(_ZONES.values()))
_OFFSETS: dict[str, str] = _TABLES["offsets"]
_MONTHS = {name: number for number, names in enumerate(_TABLES["months"], start=1) for name in names.split()}
_CURRENCIES: dict[str, str] = _TABLES["currencies"]
_DECIMAL_PLACES = dict.fromkeys(_CURRENCIES["no_decimals"].split(), 0)
_DECIMAL_PLACES |= dict.fromkeys(_CURRENCIES["three_decimals"].split(), 3)
_COUNTRIES: dict[str, str] = _TABLES["date_orders"]
DAY_FIRST = frozenset(f"{_COUNTRIES['languages']} {_COUNTRIES['currencies']}".split())
WITH_HALF_DAYS = frozenset(_COUNTRIES["half_days"].split())
COUNTRY_ZONES: dict[str, str] = {
    mark: zone for zone, marks in _TABLES["country_zones"].items() for mark in marks.split()
}
"""The time zone of the only country that uses a language or a currency."""
_MARKS = sorted(mark for mark in DAY_FIRST | COUNTRY_ZONES.keys() if not re.fullmatch("[a-z]{2}", mark))
COUNTRY_CURRENCY = re.compile(rf"(?<![^\W\d_])(?:{'|'.join(map(re.escape, _MARKS))})(?![^\W\d_])")
"""A currency, such as `฿`, that shows of which country a text is."""
_CURRENCY = "|".join([_CURRENCIES["symbols"], *_CURRENCIES["codes"].split()])
_PREFIXED = re.compile(r"\s*([^\W\d_]+)[\W_]*\d")
_SUFFIXED = re.compile(r"\d[ ./-]?([^\W\d_]+)$")
# Digits, and what joins them, as in 2026-11-14/1001.
_BESIDE_LETTERS = re.compile(r"[\d\s.,:/_-]+")
_LEADING_CURRENCY = re.compile(rf"([-+−(]?)\s*(?:{_CURRENCY})\s*(?=[-+−.\d])", re.IGNORECASE)
_TRAILING_CURRENCY = re.compile(rf"\s*(?:{_CURRENCY})\.?\s*([-)]?)$", re.IGNORECASE)
_ONLY_CURRENCY = re.compile(rf"\s*(?:{_CURRENCY})?\s*[-–—]?\s*", re.IGNORECASE)
# A space or an apostrophe separates thousands only if three digits follow.
_THOUSANDS_SPACE = re.compile(r"(?<=\d)[ '’](?=\d{3}(?!\d))", re.ASCII)
_PLAIN_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+", re.ASCII)
_SCIENTIFIC = re.compile(r"[+-]?\d+(?:[.,]\d+)?e[+-]?\d+", re.ASCII | re.IGNORECASE)
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d*)?", re.ASCII)
_NOT_CURRENCY = re.compile(r"[\d\s.,'’()+–—−-]+", re.ASCII)
_DIGITS = re.compile(r"\d[\d.,]*(?<=\d)", re.ASCII)
# Thai, Arabic and Persian digits, and the marks between Arabic ones.
_OTHER_DIGITS = str.maketrans("๐๑๒๓๔๕๖๗๘๙٠١٢٣٤٥٦٧٨٩۰۱۲۳۴۵۶۷۸۹٫٬", "0123456789" * 3 + ".,")
_FORMULA = re.compile(r'="(.*)"', re.DOTALL)

# Also 2026. 10. 20. and 20.10.2026. with a dot at the end.
_DATE = re.compile(r"(\d{1,4})(?:\. ?|[/\- ])(\d{1,2})(?:\. ?|[/\- ])(\d{1,4})(?:\.(?=\s|$))?(?=\D|$)", re.ASCII)
# 20261114, 20261114180512 and 202611141805.
_COMPACT_DATE = re.compile(
    r"(?P<y>(?:19|2[0-6])\d{2})(?P<m>0[1-9]|1[0-2])(?P<d>[0-3]\d)(?=\D|$|[0-2]\d[0-5]\d(?:[0-5]\d)?$)", re.ASCII
)
_MONTH = r"(?P<m>[^\W\d][^\d\s,/-]*)"
_NAMED_MONTHS = [
    re.compile(rf"(?P<d>\d{{1,2}})[\s\-/.]*(?:de\s+)?{_MONTH}[\s\-/.,]*(?:de[l]?\s+)?(?P<y>\d{{4}}|\d{{2}})(?=\D|$)"),
    re.compile(rf"(?P<y>\d{{4}})[\s\-/.]+{_MONTH}[\s\-/.]+(?P<d>\d{{1,2}})(?:\.(?=\s|$))?(?=\D|$)"),
    re.compile(r"(?P<m>[^\W\d][^\d\s,]*)[\s.]*(?P<d>\d{1,2}),?\s+(?P<y>\d{4})(?=\D|$)"),
]
_CLOCK = re.compile(
    r"(?:[T\s,_|]| - |-(?=\d\d\.\d\d\.\d\d$))*"
    # Tills in Japan write 25:30 for 1:30 in the night after a day of business.
    r"([01]?\d|2[0-3]|2[4-9](?=:))[:.]([0-5]\d)(?:[:.]([0-5]\d)(?:[.,](\d{1,9}))?)?\s*"
    r"(?:([AaPp])\.?\s?[Mm]\.?|น\.?|Uhr|hr?s?\.?|ч\.?)?\s*"
    r"(Z|(?:UTC|GMT)?[+-]\d{1,2}(?::?\d{2})?|[A-Z]{2,5})?(?:\s*\([^)]*\)| UTC)?",
    re.ASCII,
)
# Without the first 0, as spreadsheets write numbers: 905.
_COMPACT_CLOCK = re.compile(r"[T\s-]*([01]?\d|2[0-3])([0-5]\d)([0-5]\d)?()()()(?: hrs?)?", re.ASCII)
_AROUND: dict[str, str] = _TABLES["around_times"]
# What a cell has around its digits, and how it is written instead.
_REWRITTEN = [
    (re.compile(pattern, re.IGNORECASE), text)
    for pattern, text in (
        (
            rf"^'|^(?:{_AROUND['weekdays']})[.,]*\s+(?=\S)|\s*[((][月火水木金土日][))]|(?<=\d)(?:st|nd|rd|th)\b|พ\.?ศ\.?\s*",
            "",
        ),
        (r"(\d{4})\s*[年년]\s*(\d{1,2})\s*[月월]\s*(\d{1,2})\s*[日일]", r"\1-\2-\3 "),
        (r"\s*\b(?:thg|tháng)\.?\s*(\d{1,2})\b,?\s*(?:năm\s*)?", r".\1."),
        (
            r"(?<!\d)(\d{1,2})\s?(?:[hH時时]|시)\s?(\d{2})(?:\s?(?:m|min|分|분)(?![^\W\d_]))?(?:\s?(\d{2})\s?[s秒초])?",
            r"\1:\2:\3",
        ),
        (rf"({_AROUND['am']})\s*(\d{{1,2}}:\d{{2}}(?::\d{{2}})?)", r"\2 AM"),
        (rf"({_AROUND['pm']})\s*(\d{{1,2}}:\d{{2}}(?::\d{{2}})?)", r"\2 PM"),
        (rf"(?<=\d)\s*(?:{_AROUND['am']}|a)$", " AM"),
        (rf"(?<=\d)\s*(?:{_AROUND['pm']}|p)$", " PM"),
        (rf"(?<=[\d.])[\s,]+(?:{_AROUND['between']})[\s,]+(?=\d)", " "),
        (r"^(\d{1,2}:\d{2}(?::\d{2})?(?:\s?[ap]m)?)[\s,]+((?:\d{1,4}[\s/.-]|[^\W\d]+\.? \d).*\d)$", r"\2 \1"),
        (r":(?=\s|$)", ""),
        # The days that stand for none in a column of times, and the time that stands for none in one of days.
        (r"(?:^|(?<=\s))(?:1899-12-3[01]|1900-01-0[01]|1970-01-01)[ T](?=\d)|\s0?0:00(?::00)?(?=\s+\d{1,2}[:.]\d)", ""),
    )
]
# Digits in the usual order, perhaps with AM or PM.
_PLAIN_TIME = re.compile(
    r"(?!\d{1,2}:.*\d[/.-]\d|.*(?:1899-|1900-|1970-)|.*\b0?0:00(?::00)?\s)[\d/.:\s+TZAPMapm-]*(?<![APap])", re.ASCII
)
_HAS_CLOCK = re.compile(r"(?!(?<!\d)0?0:00(?::00|$))(?<!\d)\d{1,2}:\d\d|\d{1,2}\.\d{2} ?น|\b\d{14}\b")
_MIDNIGHT = re.compile(r"[T\s]*0?0:00(?::00(?:\.0+)?)?", re.ASCII)
PART_OF_DAY = re.compile(r"\s*(0?[.,]\d{3,})", re.ASCII)
_EPOCH = re.compile(r"\d{9,13}(?:\.\d+)?", re.ASCII)
# A spreadsheet's day number, from 1954 to 2118, and the time as a part of a day, in the same cell or in another one.
_SERIAL = re.compile(r"([2-7]\d{4}(?:[.,]\d+)?)(?:\s+(0?[.,]\d+|0))?", re.ASCII)
_SERIAL_EPOCH = datetime(1899, 12, 30)  # noqa: DTZ001 - a day number has no zone
# Marks of the direction of writing say nothing.
_WIDE_SPACES = str.maketrans(dict.fromkeys("\u00a0\u2009\u202f", " ") | dict.fromkeys("\u200e\u200f\u061c", ""))

_UTC = ("Z", "UTC", "GMT")
_ZONE_OFFSET = re.compile(r"(?:GMT|UTC|Z)?\s*(?:([+-])\s*(\d{1,2}):?(\d{2})?)?", re.ASCII | re.IGNORECASE)


class UnreadableCell(ValueError):
    """A cell is not in the format that the mapping specifies. The message quotes the cell."""


class OtherZone(UnreadableCell):
    """A time has the abbreviation of a zone, such as CST, that is not the one of its shop."""


class NumberFormat(Struct, frozen=True, forbid_unknown_fields=True):
    """How numbers are written: the decimal mark and the thousands separator, which is the other mark by default."""

    decimal: Annotated[str, Meta(pattern="^[.,]$")] = "."
    thousands: Annotated[str, Meta(pattern="^[,. ']?$")] | None = None
    currency: Annotated[str, Meta(pattern="^[A-Z]{3}$")] | None = None
    """The currency of orders whose amounts name it."""

    def __post_init__(self) -> None:
        if self.thousands == self.decimal:
            raise ValueError("thousands must not be the decimal mark")
        other = "," if self.decimal == "." else "."
        # Spaces and apostrophes are always accepted as thousands separators, so the format need not name them.
        force_setattr(self, "thousands", other if self.thousands is None else self.thousands.strip(" '"))


POINT, COMMA = NumberFormat(".", ","), NumberFormat(",", ".")
_DECIMALS = {
    COMMA: re.compile(r"\d,(?:\d{1,2}|\d{4,})(?!\d)(?!.*[.,]\d)|\.\d{3},\d|\d\.\d{3}\.\d{3}|(?<!\d)0,\d", re.ASCII),
    POINT: re.compile(r"\d\.(?:\d{1,2}|\d{4,})(?!\d)(?!.*[.,]\d)|,\d{3}\.\d|\d,\d{3},\d{3}|(?<!\d)0\.\d", re.ASCII),
}
_THREE_AFTER_POINT = re.compile(r"(?<![\d.,])[1-9]\d{0,2}\.\d{3}(?![\d.,])", re.ASCII)


class DateFormat(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How dates are written. With the order `auto`, it is inferred from all rows."""

    order: Annotated[str, Meta(pattern="^(dmy|mdy|ymd|ydm|auto)$")] = AUTO
    timezone: str | None = None
    default_time: str | None = None
    calendar: Annotated[str, Meta(pattern="^(gregorian|buddhist|thai)$")] = "gregorian"
    """The calendar of two-digit years. In Thailand, it is either one, and 69 is Buddhist."""
    serial: bool = False
    """Whether a number is a day as a spreadsheet counts it, such as 45975.75."""
    night_until: Annotated[str, Meta(pattern=r"^[01]\d:[0-5]\d$")] | None = None
    """Times before this are on the calendar day after the one in the column, which has the day of business."""
    is_any_century: bool = False
    """Whether a two-digit year may be decades away, because its calendar is not known yet."""

    def __post_init__(self) -> None:
        check_zone(self.timezone)


def check_zone(name: str | None) -> None:
    if name is not None and zone_named(name) is None:
        raise ValueError(f"timezone is {name!r}, which is not a time zone such as Asia/Bangkok")


ANY_CENTURY = DateFormat(is_any_century=True)
"""For dates of which only the day is compared."""


def clean(cell: str) -> str:
    """Return the text of a cell without surrounding spaces and without a spreadsheet's `="..."`."""
    text = cell.strip(BLANKS)
    if text.startswith('="') and (formula := _FORMULA.fullmatch(text)):
        return formula[1].strip()
    return text


def is_rounded_id(cell: str) -> bool:
    """Return whether a spreadsheet has written an ID in scientific notation, such as 1.3E+18."""
    return "+" in cell and bool(_SCIENTIFIC.fullmatch(cell))


@lru_cache(maxsize=20_000)
def read_decimal(cell: str, written: NumberFormat) -> Decimal | None:
    """Return the exact number in a cell, or None if the cell is empty or contains only a dash."""
    if written.decimal == "." and _PLAIN_NUMBER.fullmatch(cell):
        return _exact(cell, cell)
    text = cell.translate(_OTHER_DIGITS).translate(_WIDE_SPACES)
    if _ONLY_CURRENCY.fullmatch(text):
        return None
    text = _LEADING_CURRENCY.sub(r"\1", text, count=1) if _LEADING_CURRENCY.match(text) else text
    text = _THOUSANDS_SPACE.sub("", _TRAILING_CURRENCY.sub(r"\1", text)).strip()
    negative, text = _without_sign(text)
    # A point that is neither mark makes the number unreadable.
    text = text.translate(str.maketrans(f".{written.thousands or ','}{written.decimal}", "?,."))
    if _GROUPED.fullmatch(text):
        text = text.replace(",", "")
    if _SCIENTIFIC.fullmatch(text):
        raise UnreadableCell(f"{shown(cell)} is in scientific notation, in which a spreadsheet cuts off digits")
    if not _PLAIN_NUMBER.fullmatch(text):
        raise UnreadableCell(sentence("{cell} is not a number in the format of the mapping", cell=shown(cell)))
    number = _exact(text, cell)
    return number.copy_negate() if negative else number


def number_in(cell: str, written: NumberFormat) -> Decimal | None:
    """Return the number in a cell, or None if there is none that can be read."""
    try:
        return read_decimal(cell, written)
    except UnreadableCell:
        return None


def has_digit_above_zero(cell: str) -> bool:
    return any(letter.isdecimal() and int(letter) > 0 for letter in cell)


def number_shape(cell: str, mark: str) -> tuple[int, bool, str]:
    """Return the decimals of a number, whether it has a comma or a point between thousands, and its currency."""
    if mark == "." and not cell.startswith(".") and _PLAIN_NUMBER.fullmatch(cell):
        # Nearly all numbers of a large file are written so.
        return len(cell.partition(mark)[2]), False, ""
    found = _DIGITS.search(cell.translate(_OTHER_DIGITS))
    whole, _, decimals = found[0].partition(mark) if found else ("", "", "")
    currency = _NOT_CURRENCY.sub("", cell.translate(_OTHER_DIGITS)).casefold()
    return len(decimals), ("." if mark == "," else ",") in whole, currency


def formats_shown(cells: Collection[str]) -> list[NumberFormat]:
    """Return the formats in which some numbers can only be written: none, one, or both if they contradict."""
    return [written for written, form in _DECIMALS.items() if any(map(form.search, cells))]


def in_thousands_or_not(cells: Iterable[str], mark: str = ".") -> str | None:
    """Return a number such as 25.000, which is twenty-five or twenty-five thousand, or None."""
    return next((cell for cell in cells if _THREE_AFTER_POINT.search(cell.replace(mark, "."))), None)


def format_with_thousands(cells: Collection[str], texts: Iterable[str] = ()) -> NumberFormat | None:
    """Return the format of numbers such as 25.000 if small ones, or a currency in them or in other texts, show it."""
    # Where points separate thousands, small numbers have none.
    plain = [cell for cell in cells if re.fullmatch(r"\D*\d+\D*", cell)]
    # A currency without the usual two decimals, as in `Total KWD`.
    places = set[int]()
    for text in (*texts, *cells):
        for code in re.findall(r"[A-Z]{3}", text):
            if code in _DECIMAL_PLACES:
                places.add(_DECIMAL_PLACES[code])
    if len(places) == 1:
        are_thousands = places == {0}
    elif plain:
        are_thousands = all(len(re.sub(r"\D", "", cell)) <= 3 for cell in plain)
    else:
        return None
    has_commas = any("," in cell for cell in cells)
    return COMMA if has_commas != are_thousands else POINT


def format_of_amounts(cells: Collection[str]) -> NumberFormat | None:
    """Return how amounts are written, or None if 25.000 among them may be twenty-five or twenty-five thousand."""
    formats = formats_shown(cells)
    are_thousands_possible = in_thousands_or_not(cells)
    if len(formats) > 1:
        return None if are_thousands_possible else POINT
    if formats:
        [found] = formats
    elif are_thousands_possible:
        of_country = format_with_thousands(cells)
        if of_country is None:
            return None
        found = of_country
    else:
        return POINT
    # Some currencies have three decimals, but then all amounts have them.
    has_other_decimals = any(number_shape(cell, ".")[0] not in (0, 3) for cell in cells)
    is_refuted = are_thousands_possible and found == POINT and has_other_decimals
    return None if is_refuted else found


def _exact(text: str, cell: str) -> Decimal:
    number = Decimal(text)
    if not is_plausible(number):
        raise UnreadableCell(f"{shown(cell)} has more than {MOST_DIGITS} digits")
    return number


def is_plausible(number: Decimal) -> bool:
    """Return whether a number is small enough to be computed exactly, and can be written without an exponent."""
    return LOWEST_EXPONENT <= number.adjusted() < MOST_DIGITS


def _without_sign(text: str) -> tuple[bool, str]:
    """Return whether a number is negative, and the number without its sign. A number in parentheses is negative."""
    negative = False
    if text.startswith("(") and text.endswith(")"):
        negative, text = True, text[1:-1]
    if text[:1] in ("-", "−", "+"):
        return negative != (text[0] != "+"), text[1:].lstrip()
    return (not negative, text[:-1].rstrip()) if text.endswith("-") else (negative, text)


def is_negative(cell: str) -> bool:
    """Return whether a cell has a number below 0, however its sign is written."""
    return _without_sign(cell.strip())[0] and has_digit_above_zero(cell)


def decimal_places(currency: str) -> int:
    return _DECIMAL_PLACES.get(currency, 2)


def decimal_text(number: Decimal) -> str:
    return format(number if number else number.copy_abs(), "f")


def read_time(
    cell: str, written: DateFormat, order: str, zone: tzinfo | None = None, shop_zone: tzinfo | None = None
) -> str:
    """Return a time as ISO-8601, with the offset of the cell, its row (`zone`) or the mapping, or epoch seconds.

    `shop_zone` is that of the shop, in which an abbreviation such as CST must be used.
    """
    if _EPOCH.fullmatch(cell) and not _COMPACT_DATE.match(cell):
        return cell
    moment, name = _local_time(cell, written, order)
    zone = zone or zone_named(written.timezone)
    if name and name.isalpha() and name not in _UTC:
        return _abbreviated(moment, name, zone or shop_zone, cell).isoformat()
    if name and (zone := read_zone(name)) is None:
        raise UnreadableCell(f"{shown(cell)} is not a time")
    return moment.replace(tzinfo=zone).isoformat()


def local_time(cell: str, written: DateFormat, order: str) -> datetime | None:
    """Return the time in a cell as it is written, whatever its zone, or None if there is none that can be read."""
    try:
        return _local_time(cell, written, order)[0]
    except UnreadableCell:
        return None


def _local_time(cell: str, written: DateFormat, order: str) -> tuple[datetime, str | None]:
    """Return the time in a cell as it is written, and what is after it: an offset, or the abbreviation of a zone."""
    day, rest = _split_day(cell, written, order)
    if not rest.strip() or (written.default_time and _MIDNIGHT.fullmatch(rest)):
        if written.default_time is None:
            raise UnreadableCell(
                sentence(
                    "{cell} has no time of day. Map the time column too, or set dates.defaultTime", cell=shown(cell)
                )
            )
        rest = written.default_time
    clock = clock_after_day(rest)
    if clock is None or (clock[5] and not 1 <= int(clock[1]) <= NOON_HOUR):
        raise UnreadableCell(f"{shown(cell)} is not a time")
    moment = datetime.combine(day, _clock_time(clock))
    if int(clock[1]) >= HOURS or (written.night_until and f"{moment:%H:%M}" < written.night_until):
        moment += timedelta(days=1)
    return moment, clock[6]


def _abbreviated(moment: datetime, name: str, zone: tzinfo | None, cell: str) -> datetime:
    """Return a time in a zone if the abbreviation is used there then; many are used in several zones."""
    if zone is None:
        raise OtherZone(
            sentence(
                "{cell} has {name}, which several time zones use. Name that of the shop, as with --timezone",
                cell=shown(cell),
                name=name,
            )
        )
    # In an hour that occurs twice, the abbreviation tells which one it was.
    moments = [moment.replace(tzinfo=zone, fold=fold) for fold in (0, 1)]
    for one in moments:
        if name == one.tzname() or f"{one:%z}" in _OFFSETS.get(name, ""):
            return one
    raise OtherZone(f"{shown(cell)} has {name}, but the time in {zone} is {moments[0].tzname()} then")


def time_in(cell: str, written: DateFormat, order: str) -> time | None:
    """Return the time of day after the day in a cell, or None if there is none that can be read."""
    try:
        return _local_time(cell, written, order)[0].time()
    except ValueError:
        return None


@lru_cache(maxsize=20_000)
# The order, the day and the time of a cell are read one after the other.
@lru_cache(maxsize=1_000)
def plain_time(cell: str) -> str:
    """Return a day or a time in digits, without the words of a language around them, except names of months."""
    text = cell.translate(_OTHER_DIGITS).translate(_WIDE_SPACES)
    for pattern, plain in () if _PLAIN_TIME.fullmatch(text) else _REWRITTEN:
        text = pattern.sub(plain, text)
    return text


def clock_in(text: str) -> re.Match[str] | None:
    """Return the parts of a text that is a time of day, such as the one after a date."""
    plain = plain_time(text)
    if part := PART_OF_DAY.fullmatch(plain):
        seconds = round(float(part[1].replace(",", ".")) * 86_400)
        plain = f"{_SERIAL_EPOCH + timedelta(seconds=seconds):%H:%M:%S}"
    return _CLOCK.fullmatch(plain) or _COMPACT_CLOCK.fullmatch(plain)


def clock_after_day(text: str) -> re.Match[str] | None:
    """Return the parts of the time of day after a date. It may be there twice, if a column of times repeats it."""
    if clock := clock_in(text):
        return clock
    words = text.split()
    half = len(words) // 2
    first, second = (clock_in(" ".join(part)) for part in (words[:half], words[half:]))
    if first is None or second is None:
        return None
    is_same_minute = first.group(1, 2, 5, 6) == second.group(1, 2, 5, 6)
    # One of the two may leave out the seconds.
    has_other_seconds = first[3] and second[3] and first.group(3, 4) != second.group(3, 4)
    if not is_same_minute or has_other_seconds:
        return None
    return first if first[3] else second


def is_after_day(text: str) -> bool:
    """Return whether a time such as 25:30 counts the hours of its day of business beyond midnight."""
    clock = clock_in(text)
    return clock is not None and int(clock[1]) >= HOURS


def has_time(cell: str) -> bool:
    """Return whether a cell with a day has a time of day, and not only 0:00."""
    return bool(_HAS_CLOCK.search(plain_time(cell)))


def has_half_day(cell: str) -> bool:
    clock = _CLOCK.search(plain_time(cell))
    return bool(clock and clock[5])


def read_day(cell: str, written: DateFormat, order: str) -> str:
    """Return a cell's day as YYYY-MM-DD. A time of day after it is ignored."""
    day, rest = _split_day(cell, written, order)
    if rest.strip() and not clock_after_day(rest):
        raise UnreadableCell(f"{shown(cell)} is not a day")
    return day.isoformat()


def day_in(cell: str, written: DateFormat, order: str) -> date | None:
    """Return the day in a cell, or None if there is none that can be read."""
    try:
        return date.fromisoformat(read_day(cell, written, order))
    except UnreadableCell:
        return None


def has_day(cell: str, day: date) -> bool:
    """Return whether a cell has a day or the one beside it, written so that no order matters, or the day's name."""
    if cell.casefold() in (f"{day:%a}".casefold(), f"{day:%A}".casefold()):
        return True
    digits = re.sub(r"\D", "", cell)
    for near in (day - ONE_DAY, day, day + ONE_DAY):
        if f"{near:%Y%m%d}" in digits or digits.startswith(f"{near:%y%m%d}"):
            return True
        if not ordered_date(cell) and day_in(cell, ANY_CENTURY, "ymd") == near:
            return True
    return False


@lru_cache(maxsize=256)
def read_zone(cell: str) -> tzinfo | None:
    """Return the time zone that a cell names, or None if it is empty or not known."""
    named = zone_named(_ZONES.get(cell.casefold(), cell))
    if named:
        return named
    found = _ZONE_OFFSET.fullmatch(cell)
    if not cell or found is None:
        return None
    hours, minutes = int(found[2] or 0), int(found[3] or 0)
    if hours > 14 or minutes > 59:
        return None
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if found[1] == "-" else offset)


def ordered_date(cell: str) -> str | None:
    """Return the date at the start of a cell if its first two numbers are the day and the month, in either order."""
    found = _DATE.match(plain_time(cell))
    return found[0] if found and len(found[1]) <= 2 else None


def date_after_year(cell: str) -> str | None:
    """Return the date at the start of a cell if a year is before its other two numbers, with marks between them."""
    text = plain_time(cell)
    found = _DATE.match(text)
    # A program writes a T before the time, and the month before the day.
    is_of_program = found is not None and text[found.end() : found.end() + 1] == "T"
    return found[0] if found and len(found[1]) == 4 and not is_of_program else None


def order_in_zone(name: str) -> str | None:
    """Return the order of day, month and year that is usual in a time zone, or None if it is not known."""
    for order, zones in (("dmy", "day_first_zones"), ("mdy", "month_first_zones")):
        if name.startswith(tuple(_COUNTRIES[zones].split())):
            return order
    return None


def order_of(day: str) -> str | None:
    """Return `dmy` or `mdy` if a date can only be read in that order, an empty text if both are the same, or None."""
    found = order_by_numbers(day)
    # In dates written with dots, the day comes first, unless a number shows that it does not.
    return "dmy" if "." in day and found != "mdy" else found


def order_by_numbers(day: str) -> str | None:
    """Return the order of a date like `order_of`, but by its numbers alone."""
    first, second = (int(number) for number in re.findall(r"\d+", day)[:2])
    if first > 12 >= second:
        return "dmy"
    if second > 12 >= first:
        return "mdy"
    return "" if first == second else None


def _split_day(cell: str, written: DateFormat, order: str) -> tuple[date, str]:
    """Return the day at the start of a cell, and the text after it."""
    text = plain_time(cell)
    if serial := _SERIAL.fullmatch(text):
        return _from_serial(serial, cell, written)
    patterns = (_DATE, _COMPACT_DATE, *_NAMED_MONTHS)
    found = next(filter(None, (pattern.match(text) for pattern in patterns)), None)
    if found is None:
        raise UnreadableCell(f"{shown(cell)} is not a date")
    depends_on_order = ordered_date(cell) is not None
    # A sample is read while the order is not known yet.
    letters = order.replace(AUTO, "mdy") if depends_on_order or order == YEAR_DAY_MONTH else "ymd"
    parts = found.groupdict() or dict(zip(letters, found.groups(), strict=True))
    year, month = _year(parts["y"], cell, written), parts["m"]
    try:
        number = int(month) if month.isdecimal() else _MONTHS.get(month.strip(".").lower(), 0)
        return date(year, number, int(parts["d"])), text[found.end() :]
    except ValueError:
        condition = f" if the order of day, month and year is {order}" if depends_on_order else ""
        raise UnreadableCell(f"{shown(cell)} is not a date{condition}") from None


def _from_serial(serial: re.Match[str], cell: str, written: DateFormat) -> tuple[date, str]:
    """Return the day and the time that a spreadsheet's number stands for."""
    if not written.serial:
        raise UnreadableCell(
            sentence("{cell} is not a date. If it is the number of a spreadsheet, set dates.serial", cell=shown(cell))
        )
    days = sum(float(part.replace(",", ".")) for part in (serial[1], serial[2] or "0"))
    moment = _SERIAL_EPOCH + timedelta(seconds=round(days * 86_400))
    has_time = not serial[1].isdigit() or serial[2] is not None
    return moment.date(), f" {moment:%H:%M:%S}" if has_time else ""


def _year(digits: str, cell: str, written: DateFormat) -> int:
    year = int(digits)
    buddhist = written.calendar == "buddhist" or (written.calendar == "thai" and year >= MIDDLE_OF_CENTURY)
    if len(digits) <= 2:
        # 69 is 2569 (2026) in Thailand, but 2069 elsewhere. Neither reading may be decades away.
        if (year < MIDDLE_OF_CENTURY) == buddhist and not written.is_any_century:
            calendar = "gregorian" if buddhist else "buddhist"
            raise UnreadableCell(
                sentence(
                    "{cell} has a year that is decades away, unless dates.calendar is {calendar}",
                    cell=shown(cell),
                    calendar=calendar,
                )
            )
        year += 2500 - BUDDHIST_OFFSET if buddhist else 2000
    elif year >= FIRST_BUDDHIST_YEAR:
        year -= BUDDHIST_OFFSET
    if not FIRST_YEAR <= year <= LAST_YEAR and not written.is_any_century:
        raise UnreadableCell(f"{shown(cell)} has a year outside {FIRST_YEAR} to {LAST_YEAR}")
    return year


def _clock_time(clock: re.Match[str]) -> time:
    hour, minute, second = int(clock[1]), int(clock[2]), int(clock[3] or 0)
    if clock[5]:
        hour = hour % NOON_HOUR + (NOON_HOUR if clock[5] in "Pp" else 0)
    millisecond = int((clock[4] or "0").ljust(3, "0")[:3])
    return time(hour % HOURS, minute, second, millisecond * 1000)


def shown_all(names: Sequence[str]) -> str:
    """Return the names of columns for a message. The header row of a damaged file may have very many, or long ones."""
    more = f" and {len(names) - MAX_SHOWN:,} more" if len(names) > MAX_SHOWN else ""
    return ", ".join(map(shown, names[:MAX_SHOWN])) + more


def shown(cell: str) -> str:
    """Return a cell in quotes, shortened, for a message."""
    short = cell if len(cell) <= 40 else f"{cell[:40]}…"
    return f'"{printable(short)}"'


def letters_of(number: str) -> str:
    """Return what a bill's number has beside its digits and what joins them, such as `inv` and `R` of INV-1001/R."""
    return " ".join(_BESIDE_LETTERS.split(number.casefold())).strip()


def prefix_of(number: str) -> str:
    """Return the letters before the number of a bill, such as `CN` of `CN-1001`, or an empty text."""
    found = _PREFIXED.match(number)
    return found[1] if found else ""


def suffix_of(number: str) -> str:
    """Return the letters behind the number of a bill, such as `R` of `1001-R`, or an empty text."""
    found = _SUFFIXED.search(number)
    return found[1] if found else ""
