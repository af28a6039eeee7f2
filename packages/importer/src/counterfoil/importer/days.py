"""How the days and times of bills are written: the calendar, half days, and nights that belong to the day before."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import pairwise
from math import inf

from msgspec import Struct

from counterfoil.importer.bills import Bills
from counterfoil.importer.columns import ANY_CENTURY, TableColumn, day_of
from counterfoil.importer.date_orders import readable_order
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
    read_time,
    time_in,
)

NOON = "12:00"
MAC_EPOCH = timedelta(days=1462)
"""Some workbooks count days from 1904 instead of 1900."""
FALL = 4
"""If the next number has a time that is so many hours earlier, it is one of the afternoon."""
ENOUGH_BILLS = 8
"""Of so many bills, some would be in the afternoon."""
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
    times = _Times(bills)
    column = bills.closing.day or bills.trading_day
    written = _format(bills, column, interview, today)
    day, clock = bills.closing.day, bills.closing.clock
    row = None if "time" in interview.answers else times.first_without_half_day()
    if day and row is not None:
        column = clock or day
        example = f"{column.values[row]} on line {bills.table.line(row)}"
        text = sentence(
            "All times of {column} are from 1:00 to 12:59, as {example}. Do they lack AM and PM?",
            column=column.name,
            example=example,
        )
        choices = {f"{day.name} + {clock.name}": sentence("No, it was at night")} if clock else {}
        choices[day.name] = sentence("Yes: only the day is used")
        if clock and interview.choose("time", "day", text, choices) == day.name:
            clock = None
    trading, night = _trading_day(bills, times, day, clock, interview)
    has_time = clock is not None or (day is not None and (day.has_times or day.is_serial))
    written = DateFormat(
        written.order,
        default_time=None if has_time else NOON,
        calendar=written.calendar,
        serial=written.serial,
        night_until=night,
    )
    if day and not has_time:
        interview.assume(sentence("The export has no times, so every bill gets {time}", time=NOON))
    return Days(day, clock, trading, bills.order or AUTO, written)


def local_times(bills: Bills, days: Days) -> list[str]:
    """Return the local time of each bill, or an empty text if it cannot be read."""
    columns = days.columns
    order = readable_order(days.order)
    found = []
    for rows in bills.rows:
        text = " ".join(filter(None, (column.values[rows[0]] for column in columns)))
        found.append(_local_time(text, days.written, order))
    return found


@lru_cache(maxsize=200_000)
def _local_time(text: str, written: DateFormat, order: str) -> str:
    try:
        found = read_time(text, written, order)
    except UnreadableCell:
        # It may have the abbreviation of a zone, which only the shop's zone explains.
        moment = local_time(text, written, order)
        return moment.isoformat() if moment else text
    if found[4:5] == "-":
        return found
    return datetime.fromtimestamp(float(found) / (1 if len(found.split(".")[0]) < 12 else 1000), UTC).isoformat()


@lru_cache(maxsize=200_000)
def _time_in(text: str, order: str) -> time | None:
    return time_in(text, ANY_CENTURY, order)


class _Times:
    """The bills in the order of their branch, day and number, with their time."""

    def __init__(self, bills: Bills) -> None:
        columns = [column for column in (bills.closing.day, bills.closing.clock) if column]
        self._texts = columns[-1].distinct if columns else []
        self._bills = []
        order = readable_order(bills.order)
        for rows in bills.rows if columns else ():
            # Beside a time, a workbook may write the day with the time 0:00.
            day, cell = bills.days[rows[0]], columns[-1].values[rows[0]]
            text = f"{day} {cell}" if bills.closing.clock else cell
            clock = _time_in(text, order)
            if day and clock:
                self._bills.append((bills.group_of(rows[0]), day, bills.number_in(rows[0]), clock, rows[0]))
        self._bills.sort()
        nights = (row for *_, clock, row in self._bills if clock < NIGHT_ENDS)
        self.first_night = next(nights, None)
        """A row with a time after midnight."""
        self.are_after_days = any(is_after_day(text.split(" ")[-1]) for text in self._texts)

    def first_without_half_day(self) -> int | None:
        """Return a row whose time may lack PM: none is after 12:59, and some are in the night or fall back."""
        if any(map(has_half_day, self._texts)) or any(not 1 <= clock.hour <= 12 for *_, clock, _ in self._bills):
            return None
        for one, other in pairwise(self._bills):
            if one[:2] == other[:2] and one[3].hour - other[3].hour > FALL:
                return other[4]
        return self.first_night if len(self._bills) >= ENOUGH_BILLS else None

    def goes_on_after_midnight(self) -> bool | None:
        """Return whether the numbers of a night follow those of its own date or, if False, of the day before."""
        first: dict[tuple[tuple[str, ...], date], int] = {}
        last: dict[tuple[tuple[str, ...], date], int] = {}
        for group, day, number, clock, _ in self._bills:
            if clock < NIGHT_ENDS:
                first.setdefault((group, day), number)
            else:
                last[group, day] = number
        found = set()
        for (group, day), number in first.items():
            earlier = [last.get((group, one), inf) for one in (day, day - timedelta(days=1))]
            own, before = (number - one if one < number else inf for one in earlier)
            if own != before:
                found.add(own < before)
        return found.pop() if len(found) == 1 else None


def _format(bills: Bills, column: TableColumn | None, interview: Interview, today: date) -> DateFormat:
    if column is None:
        return DateFormat()
    _refuse_swapped_dates(bills, column)
    is_serial = column.is_serial and not column.is_date
    if is_serial:
        latest = date(1899, 12, 30) + timedelta(days=max(int(value[:5]) for value in column.distinct))
        if latest <= today - MAC_EPOCH:
            text = sentence(
                "{column} has {value}, which is {latest} as spreadsheets usually count days. It may be "
                "counted from 1904. Export the dates as text.",
                column=column.name,
                value=column.distinct[0],
                latest=latest,
            )
            raise NeedsOtherReport(text)
    return DateFormat(serial=is_serial, calendar=_calendar(bills, column, interview, today))


def _refuse_swapped_dates(bills: Bills, column: TableColumn) -> None:
    """Refuse a workbook whose dates were read as month/day where that was possible, and are texts elsewhere."""
    if not bills.table.file.sheet.is_typed:
        return
    texts = [value for value in column.distinct if ordered_date(value)]
    dates = [value for value in column.distinct if not ordered_date(value) and day_of(value, "ymd")]
    if texts and dates and all(map(order_of, texts)) and all(int(value[8:10]) <= 12 for value in dates):
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
    if not days or max(days) <= today + timedelta(days=2):
        return "gregorian"
    if min(days).year < today.year + 5:
        interview.assume(
            sentence("{column} has dates in the future, such as {latest}", column=column.name, latest=max(days))
        )
        return "gregorian"
    example = column.distinct[0]
    if re.search(r"\d{4}", example):
        raise NeedsOtherReport(
            sentence(
                "{column} has {example}, which is decades ahead. Export correct dates.",
                column=column.name,
                example=example,
            )
        )
    year = max(days).year - BUDDHIST_SHIFT
    if year <= today.year:
        interview.prove(
            sentence(
                "{column} has Buddhist years: {example} is in {year}", column=column.name, example=example, year=year
            )
        )
        return "buddhist"
    raise NeedsOtherReport(
        sentence(
            "{column} has {example}, which is decades ahead. Export correct dates.", column=column.name, example=example
        )
    )


def _trading_day(
    bills: Bills, times: _Times, day: TableColumn | None, clock: TableColumn | None, interview: Interview
) -> tuple[TableColumn | None, str | None]:
    """Return the column with the day of business, and until when a time is on the calendar day after it."""
    trading = bills.trading_day
    if day is None:
        return trading, None
    if times.are_after_days:
        return trading or day, None
    goes_on = times.goes_on_after_midnight()
    row = times.first_night
    answer = interview.answers.get("night")
    if clock is None or row is None or not (day is trading or goes_on or answer):
        return trading, None
    if goes_on is not None and answer is None:
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
    minutes = sorted({int(text[11:13]) * 60 + int(text[14:16]) for text in times if text[10:11] == "T"})
    nights = [minute for minute in minutes if minute < NIGHT_ENDS.hour * 60]
    if not nights:
        return None
    later = [minute for minute in minutes if minute >= NIGHT_ENDS.hour * 60]
    end = (nights[-1] + min([*later, 12 * 60])) // 2 // 60
    return f"{max(end, nights[-1] // 60 + 1):02}:00"
