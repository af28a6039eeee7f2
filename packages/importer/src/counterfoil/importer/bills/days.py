"""How the days and times of bills are written: the calendar, half days, and nights that belong to the day before."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import pairwise
from math import inf
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.importer.bills.bills import Bills
from counterfoil.importer.bills.date_orders import readable_order
from counterfoil.importer.columns import ANY_CENTURY, TableColumn, day_of
from counterfoil.importer.form import sentence
from counterfoil.importer.interview import Interview, NeedsOtherReport
from counterfoil.importing.values import (
    AUTO,
    NIGHT_ENDS,
    DateFormat,
    UnreadableCell,
    has_half_day,
    is_after_day,
    local_time,
    order_of,
    ordered_date,
    read_day,
    read_time,
    time_in,
)

NOON = "12:00"
ONE_DAY = timedelta(days=1)
MILLISECOND_DIGITS = 12
"""A time since 1970 with so many digits is in milliseconds."""
FIRST_SERIAL_DAY, SERIAL_DIGITS = date(1899, 12, 30), 5
"""Spreadsheets count days from this one, in so many digits."""
MAC_EPOCH = timedelta(days=1462)
"""Some workbooks count days from 1904 instead of 1900."""
FALL = 4
"""If the next number has a time that is so many hours earlier, it is one of the afternoon."""
ENOUGH_BILLS = 8
"""Of so many bills, some would be in the afternoon."""
NEARLY_TODAY = timedelta(days=2)
YEARS_AHEAD = 5
"""A day that is so many years ahead was written in another calendar, or is a mistake."""
BUDDHIST_SHIFT = 43
"""By so many years, a two-digit Buddhist year is ahead if it is read as Gregorian."""
NEXT_DAY, SAME_DAY = f"{NIGHT_ENDS:%H:%M}", "00:00"


class Days(Struct, frozen=True):
    """The columns with the day, the time and the day of business, and how they are read."""

    day: TableColumn | None
    clock: TableColumn | None
    trading: TableColumn | None
    order: str
    written: DateFormat

    @property
    def columns(self) -> list[TableColumn]:
        return [column for column in (self.day, self.clock) if column]


def find_days(bills: Bills, interview: Interview, today: date) -> Days:
    """Return the columns with the days and times of bills, or ask how they are meant."""
    times = _Times(bills)
    day = bills.closing.day
    written = _format(bills, day or bills.trading_day, interview, today)
    clock = _clock_with_half_days(bills, times, interview)
    trading, night = _trading_day(bills, times, day, clock, interview)
    has_time = clock is not None or (day is not None and (day.has_times or day.is_serial))
    written = replace(written, default_time=None if has_time else NOON, night_until=night)
    if day and not has_time:
        interview.assume(sentence("The export has no times, so every bill gets {time}", time=NOON))
    return Days(day, clock, trading, bills.order or AUTO, written)


def _clock_with_half_days(bills: Bills, times: "_Times", interview: Interview) -> TableColumn | None:
    """Return the column with the time of day. If it may lack AM and PM, ask whether it is of any use."""
    day, clock = bills.closing.day, bills.closing.clock
    if day is None or clock is None or "time" in interview.answers:
        return clock
    row = times.first_without_half_day()
    if row is None:
        return clock
    text = sentence(
        "All times of {column} are from 1:00 to 12:59, as {example}. Do they lack AM and PM?",
        column=clock.name,
        example=f"{clock.values[row]} on line {bills.table.line(row)}",
    )
    choices = {
        f"{day.name} + {clock.name}": sentence("No, it was at night"),
        day.name: sentence("Yes: only the day is used"),
    }
    answer = interview.choose("time", "day", text, choices)
    return None if answer == day.name else clock


def local_times(bills: Bills, days: Days) -> list[str]:
    """Return the local time of each bill, or an empty text if it cannot be read."""
    order = readable_order(days.order)
    found = []
    for rows in bills.rows:
        times = []
        for row in rows if bills.closing.is_latest else rows[:1]:
            cells = [column.values[row] for column in days.columns]
            times.append(_local_time(" ".join(filter(None, cells)), days.written, order))
        found.append(max(times))
    return found


def named_days(bills: Bills, days: Days) -> list[str]:
    """Return the day of business that the export names for each bill, or an empty text."""
    if days.trading is None:
        return [""] * len(bills.rows)
    order = readable_order(days.order)
    return [_named_day(days.trading.values[rows[0]], days.written, order) for rows in bills.rows]


@lru_cache(maxsize=20_000)
def _named_day(text: str, written: DateFormat, order: str) -> str:
    try:
        return read_day(text, written, order)
    except UnreadableCell:
        return ""


@lru_cache(maxsize=200_000)
def _local_time(text: str, written: DateFormat, order: str) -> str:
    try:
        found = read_time(text, written, order)
    except UnreadableCell:
        # It may have the abbreviation of a zone, which only the shop's zone explains.
        moment = local_time(text, written, order)
        return moment.isoformat() if moment else text
    is_date = found[4:5] == "-"
    if is_date:
        return found
    seconds = float(found)
    whole_digits = found.partition(".")[0]
    if len(whole_digits) >= MILLISECOND_DIGITS:
        seconds /= 1000
    return datetime.fromtimestamp(seconds, UTC).isoformat()


@lru_cache(maxsize=200_000)
def _time_in(text: str, order: str) -> time | None:
    return time_in(text, ANY_CENTURY, order)


class TimedBill(NamedTuple):
    """When a bill was closed. Bills are ordered by their branch and till, then by day and number."""

    group: tuple[str, ...]
    day: date
    number: int
    clock: time
    row: int

    @property
    def is_after_midnight(self) -> bool:
        return self.clock < NIGHT_ENDS


class _Times:
    """The bills whose time is known, in their order."""

    def __init__(self, bills: Bills) -> None:
        column = bills.closing.clock or bills.closing.day
        self._texts: Sequence[str] = []
        self._bills: list[TimedBill] = []
        if column:
            self._texts = column.distinct
            self._bills = _timed_bills(bills, column)

    @property
    def first_night(self) -> int | None:
        """A row with a time after midnight."""
        for bill in self._bills:
            if bill.is_after_midnight:
                return bill.row
        return None

    @property
    def has_hour_24(self) -> bool:
        """Whether a time counts the hours of its day of business beyond midnight, as in `25:10`."""
        clocks = [text.split(" ")[-1] for text in self._texts]
        return any(map(is_after_day, clocks))

    def first_without_half_day(self) -> int | None:
        """Return a row whose time may lack PM: none is after 12:59, and some are in the night or fall back."""
        if any(not 1 <= bill.clock.hour <= 12 for bill in self._bills):
            return None
        if any(map(has_half_day, self._texts)):
            return None
        for bill, following in pairwise(self._bills):
            is_same_day = bill.group == following.group and bill.day == following.day
            if is_same_day and bill.clock.hour - following.clock.hour > FALL:
                return following.row
        if len(self._bills) < ENOUGH_BILLS:
            return None
        return self.first_night

    def goes_on_after_midnight(self) -> bool | None:
        """Return whether the numbers of a night follow those of its own date or, if False, of the day before."""
        first: dict[tuple[tuple[str, ...], date], int] = {}
        last: dict[tuple[tuple[str, ...], date], int] = {}
        for bill in self._bills:
            if bill.is_after_midnight:
                first.setdefault((bill.group, bill.day), bill.number)
            else:
                last[bill.group, bill.day] = bill.number
        follows_own_date = set()
        for (group, day), number in first.items():
            to_own = _distance(last.get((group, day)), number)
            to_day_before = _distance(last.get((group, day - ONE_DAY)), number)
            if to_own != to_day_before:
                follows_own_date.add(to_own < to_day_before)
        return follows_own_date.pop() if len(follows_own_date) == 1 else None


def _distance(earlier: int | None, number: int) -> float:
    """Return how far a number is after an earlier one, or infinity if it is not."""
    if earlier is None or earlier >= number:
        return inf
    return number - earlier


def _timed_bills(bills: Bills, column: TableColumn) -> list[TimedBill]:
    order = readable_order(bills.order)
    found = []
    for rows in bills.rows:
        row = rows[0]
        day, cell = bills.days[row], column.values[row]
        # Beside a time, a workbook may write the day with the time 0:00.
        text = f"{day} {cell}" if bills.closing.clock else cell
        clock = _time_in(text, order)
        if day and clock:
            found.append(TimedBill(bills.group_of(row), day, bills.number_in(row), clock, row))
    found.sort()
    return found


def _format(bills: Bills, column: TableColumn | None, interview: Interview, today: date) -> DateFormat:
    """Return how the days of a column are written. Refuse a column in which they may have been changed."""
    if column is None:
        return DateFormat()
    _refuse_swapped_dates(column)
    is_serial = column.is_serial and not column.is_date
    if is_serial:
        _refuse_other_epoch(column, today)
    return DateFormat(serial=is_serial, calendar=_calendar(bills, column, interview, today))


def _refuse_other_epoch(column: TableColumn, today: date) -> None:
    """Refuse days that a spreadsheet counted, if they may be counted from 1904."""
    latest_serial = max(int(value[:SERIAL_DIGITS]) for value in column.distinct)
    latest = FIRST_SERIAL_DAY + timedelta(days=latest_serial)
    if latest <= today - MAC_EPOCH:
        text = sentence(
            "{column} has {value}, which is {latest} as spreadsheets usually count days. It may be "
            "counted from 1904. Export the dates as text.",
            column=column.name,
            value=column.distinct[0],
            latest=latest,
        )
        raise NeedsOtherReport(text)


def _refuse_swapped_dates(column: TableColumn) -> None:
    """Refuse dates that a spreadsheet read as month/day where that was possible, and left as texts elsewhere."""
    texts, dates = [], []
    for value in column.distinct:
        if ordered_date(value):
            texts.append(value)
        elif day_of(value, "ymd"):
            dates.append(value)
    if not texts or not dates:
        return
    are_texts_ordered = all(map(order_of, texts))
    may_be_months = all(int(value[8:10]) <= 12 for value in dates)
    if are_texts_ordered and may_be_months:
        raise NeedsOtherReport(
            sentence(
                "{column} has dates such as {date}, and texts such as {example}. A spreadsheet seems to have "
                "read the day as the month. Export the bills again, without opening them in a spreadsheet.",
                column=column.name,
                date=dates[0],
                example=texts[0],
            )
        )


def _calendar(bills: Bills, column: TableColumn, interview: Interview, today: date) -> str:
    """Return the calendar of years. Ask if the dates are decades ahead in the Gregorian one."""
    days = [day for day in bills.days if day]
    if not days or max(days) <= today + NEARLY_TODAY:
        return "gregorian"
    name, latest = column.name, max(days)
    if min(days).year < today.year + YEARS_AHEAD:
        interview.assume(sentence("{column} has dates in the future, such as {latest}", column=name, latest=latest))
        return "gregorian"
    example = column.distinct[0]
    year = latest.year - BUDDHIST_SHIFT
    has_whole_year = re.search(r"\d{4}", example)
    if has_whole_year or year > today.year:
        text = sentence(
            "{column} has {example}, which is decades ahead. Export correct dates.", column=name, example=example
        )
        raise NeedsOtherReport(text)
    interview.prove(
        sentence("{column} has Buddhist years: {example} is in {year}", column=name, example=example, year=year)
    )
    return "buddhist"


def _trading_day(
    bills: Bills, times: _Times, day: TableColumn | None, clock: TableColumn | None, interview: Interview
) -> tuple[TableColumn | None, str | None]:
    """Return the column with the day of business, and until when a time is on the calendar day after it."""
    trading = bills.trading_day
    if day is None:
        return trading, None
    if times.has_hour_24:
        return trading or day, None
    row = times.first_night
    if clock is None or row is None:
        return trading, None
    goes_on = times.goes_on_after_midnight()
    is_answered = bool(interview.answers.get("night"))
    if day is not trading and not goes_on and not is_answered:
        return trading, None
    if goes_on is not None and "night" not in interview.answers:
        return day, NEXT_DAY if goes_on else SAME_DAY
    text = sentence(
        "{day} may be the day of business, which ends after midnight. When was the bill with {time} on line {line}?",
        day=day.name,
        time=clock.values[row],
        line=bills.table.line(row),
    )
    choices = {NEXT_DAY: sentence("on the calendar day after it"), SAME_DAY: sentence("on that day")}
    return day, interview.choose("night", "day", text, choices, free=True)


def quiet_hour(times: Sequence[str]) -> str | None:
    """Return the time at which the business day ends, if bills after midnight show it: in the middle of quiet hours."""
    nights, later = [], [NOON]
    for text in times:
        if text[10:11] == "T":
            clock = text[11:16]
            if clock < NEXT_DAY:
                nights.append(clock)
            else:
                later.append(clock)
    if not nights:
        return None
    last_night, first_later = _minute_of(max(nights)), _minute_of(min(later))
    middle = (last_night + first_later) // 2
    hour = max(middle // 60, last_night // 60 + 1)
    return f"{hour:02}:00"


def _minute_of(clock: str) -> int:
    """Return the minute of the day of a time such as `18:05`."""
    hour, _, minute = clock.partition(":")
    return int(hour) * 60 + int(minute)
