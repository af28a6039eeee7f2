"""Finds in which order day, month and year are written, and refuses days that are improbable in that order."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import date, timedelta
from functools import lru_cache

from msgspec import Struct

from counterfoil.importing import values as cell_values
from counterfoil.importing.mapping import ImportMapping
from counterfoil.importing.results import ImportFailed, OrderMissing, Reason
from counterfoil.importing.sentences import sentence
from counterfoil.importing.sheets import Sheet, TableRow
from counterfoil.importing.values import (
    AUTO,
    YEAR_DAY_MONTH,
    date_after_year,
    day_in,
    has_day,
    order_by_numbers,
    order_of,
    ordered_date,
)

MOST_ROWS = 500
# If day and month are swapped, the days of a file are months away from each other, or from those of the sample.
SPREAD, FAR, NEAR, SOON = timedelta(days=28), timedelta(days=14), timedelta(days=31), timedelta(days=3)
ORDERS = ("dmy", "mdy")
YEAR_FIRST = "ymd"
MONTHS = 12
# So many dates are shown where their order is asked for.
MOST_DATES = 3
LONG_AGO = 10
"""Bills so many years before those of the sample have a misread day, such as 1970-01-01."""


def _days_in(cells: Collection[str], dates: cell_values.DateFormat, order: str) -> list[date]:
    """Return the days of those cells that have one in this order."""
    days = []
    for cell in cells:
        day = day_in(cell, dates, order)
        if day:
            days.append(day)
    return days


def _is_excluded(days: Sequence[date], swapped: Sequence[date], today: date | None) -> bool:
    """Return whether days are in the future or far from each other, unlike those in the other order."""
    is_future = today is not None and max(days) > today + timedelta(days=1) >= max(swapped)
    return is_future or max(days) - min(days) >= max(SPREAD, 4 * (max(swapped) - min(swapped)))


class ImprobableDays(Struct, frozen=True):
    """The days of a file in an order of day and month, and the more probable ones in the other order."""

    order: str
    days: str
    other_order: str
    other_days: str


def improbable_days(
    cells: Collection[str], dates: cell_values.DateFormat, order: str, today: date | None, known: Sequence[str]
) -> ImprobableDays | None:
    """Return the days of a file if they are improbable, unlike those in the other order of day and month."""
    # Two digits at the start may be the day or the year.
    other = "mdy" if order == "dmy" else "dmy"
    days, swapped = _days_in(cells, dates, order), _days_in(cells, dates, other)
    if not days or len(swapped) < len(cells) or days == swapped:
        return None
    is_far = False
    if known:
        first, last = date.fromisoformat(known[0]), date.fromisoformat(known[-1])
        if (min(days), max(days)) == (first, last):
            # It is the sample, of which somebody has said or proved the order.
            return None
        is_far = max(days) < first - FAR and first - NEAR <= min(swapped) and max(swapped) <= last + NEAR
    # A file arrives soon after its last day.
    is_late = today is not None and max(days) < today - FAR and today - SOON <= max(swapped) <= today
    if not (_is_excluded(days, swapped, today) or is_far or is_late):
        return None
    return ImprobableDays(order, _first_and_last(days), other, _first_and_last(swapped))


def _first_and_last(days: Sequence[date]) -> str:
    first, last = min(days), max(days)
    return str(first) if first == last else f"{first} to {last}"


class OrderByColumns:
    """Finds the order of day and month by the other columns of a sheet, on the first rows whose dates do not show it.

    A column proves an order if it has the day of each of these rows in a way that depends on no order, such as
    `2026-04-03` or `20260403-17`, or as a date that can be read in this order only, and is near the day.
    """

    def __init__(self) -> None:
        self._rows_left = MOST_ROWS
        self._possible: dict[int, set[str]] = {}

    def add(self, day: str, written: cell_values.DateFormat, cells: Sequence[str]) -> None:
        """Compare a row whose day is written so that it has another day in the other order."""
        if not self._rows_left:
            return
        self._rows_left -= 1
        days = {order: day_in(day, written, order) for order in ORDERS}
        for position, cell in enumerate(cells):
            possible = self._possible.setdefault(position, set(ORDERS))
            if possible:
                possible &= _orders_with_day(cell, days, written)

    def proven(self) -> set[str]:
        """Return the orders that columns prove."""
        found = set[str]()
        for possible in self._possible.values():
            if len(possible) == 1:
                found |= possible
        return found


def _orders_with_day(cell: str, days: Mapping[str, date | None], written: cell_values.DateFormat) -> set[str]:
    """Return the orders in which a cell has the day, or all if it is a date that may be read in either order."""
    if not ordered_date(cell):
        return {order for order, day in days.items() if day and has_day(cell, day)}
    read = {order: day_in(cell, written, order) for order in ORDERS}
    readable = {order for order, day in read.items() if day}
    if len(readable) != 1:
        return readable
    [order] = readable
    day, other = days[order], read[order]
    return readable if day and other and abs(day - other) <= NEAR else set()


class WrittenDates:
    """The dates of the bills of all sheets, which show in which order day, month and year are written."""

    def __init__(self, written: cell_values.DateFormat) -> None:
        self._written = written
        self._latest = ""
        self._with_year_first: dict[str, set[str]] = {}
        """The distinct dates of a sheet that begin with the year."""
        self._by_sheet: dict[str, set[str]] = {}
        """The distinct dates that depend on the order of day and month."""
        self._columns: dict[str, OrderByColumns] = {}

    def add(self, sheet: Sheet, cell: str, row: Sequence[str]) -> None:
        day = ordered_date(cell)
        if not day:
            if cell != self._latest and not sheet.is_typed and (written := date_after_year(cell)):
                self._with_year_first.setdefault(sheet.name, set()).add(written)
            self._latest = cell
            return
        self._by_sheet.setdefault(sheet.name, set()).add(day)
        if self._written.order == AUTO and order_of(day) is None:
            self._columns.setdefault(sheet.name, OrderByColumns()).add(day, self._written, row)

    def order(self, mapping: ImportMapping, *, today: date | None, is_sure: bool) -> str:
        """Return the order of day, month and year.

        Raise `ImportFailed` if the dates of a file contradict it, and `OrderMissing` if nothing proves it.
        """
        if mapping.dates.order != YEAR_DAY_MONTH and not is_sure:
            for sheet, days in self._with_year_first.items():
                _require_month_second(sheet, days, mapping, today)
        if mapping.dates.order == AUTO:
            return self._proven_order()
        self._require_order(mapping, today, is_sure=is_sure)
        return mapping.dates.order

    def _proven_order(self) -> str:
        """Return the order that a date shows, or another column. That days are near each other proves nothing."""
        unclear: dict[str, list[str]] = {}
        proved: set[str] = set()
        for sheet, days in self._by_sheet.items():
            orders = {day: order_of(day) for day in sorted(days)}
            proved.update(order for order in orders.values() if order)
            without_order = [day for day, order in orders.items() if order is None]
            if without_order:
                unclear[sheet] = without_order
        require_one_order(proved)
        if not proved:
            for columns in self._columns.values():
                proved |= columns.proven()
        if len(proved) == 1:
            return proved.pop()
        for sheet, dates in unclear.items():
            raise unknown_order(sheet, dates)
        return "dmy"

    def _require_order(self, mapping: ImportMapping, today: date | None, *, is_sure: bool) -> None:
        """Raise `ImportFailed` if the dates of a file are not in the mapping's order, or improbable in it."""
        order = mapping.dates.order
        other = "mdy" if order == "dmy" else "dmy"
        for sheet, dates in self._by_sheet.items():
            counts = Counter(map(order_by_numbers, dates))
            if order in ORDERS and counts[other] > counts[order]:
                example = min(day for day in dates if order_by_numbers(day) == other)
                raise ImportFailed(
                    sentence(
                        "{sheet} has {example}, but dates.order is {order}. Use --date-order {other}.",
                        sheet=sheet,
                        example=example,
                        order=order,
                        other=other,
                    )
                )
            is_shown = any(order_of(day) == order for day in dates)
            if is_shown or is_sure:
                continue
            found = improbable_days(dates, mapping.dates, order, today, mapping.checks.days)
            if found:
                raise ImportFailed(
                    sentence(
                        "{sheet} has days from {days} if they are read as {order}, as the mapping says, but "
                        "{other_days} if they are read as {other_order}, which is more probable. Say which it "
                        "is with --date-order {order} or {other_order}, or remove checks.days from the mapping.",
                        sheet=sheet,
                        days=found.days,
                        order=order,
                        other_days=found.other_days,
                        other_order=found.other_order,
                    )
                )


def require_one_order(proved: Collection[str]) -> None:
    if len(proved) > 1:
        raise ImportFailed(
            sentence(
                "some dates can only be day/month and others only month/day. Set dates.order in the mapping, or "
                "use --date-order."
            )
        )


def unknown_order(name: str, dates: Sequence[str]) -> OrderMissing:
    return OrderMissing(
        sentence(
            "the dates do not show whether the day or the month comes first: {name} has {dates}. Use "
            "--date-order dmy or --date-order mdy, or set dates.order in the mapping.",
            name=name,
            dates=dates[0],
        ),
        dates[:MOST_DATES],
    )


def _require_month_second(sheet: str, days: Collection[str], mapping: ImportMapping, today: date | None) -> None:
    """Raise `ImportFailed` if dates that begin with the year may have the day before the month."""
    swapped = {day: _with_day_second(day) for day in days}
    wrong = [day for day in days if int(_numbers(day)[1]) > MONTHS]
    if wrong:
        raise ImportFailed(
            sentence(
                "{sheet} has {example}, where the day is before the month. Such dates cannot be read. Export the "
                "file with dates such as 2026-11-14.",
                sheet=sheet,
                example=min(wrong),
            )
        )
    is_proven = any(int(_numbers(day)[2]) > MONTHS for day in days)
    if is_proven:
        return
    read = _days_in(days, cell_values.ANY_CENTURY, YEAR_FIRST)
    others = _days_in(swapped.values(), cell_values.ANY_CENTURY, YEAR_FIRST)
    if not read or not others or read == others:
        return
    if [str(min(read)), str(max(read))] == list(mapping.checks.days):
        # It is the sample, of which somebody has said or proved the order.
        return
    if mapping.dates.order in ORDERS or _is_excluded(read, others, today):
        raise ImportFailed(
            sentence(
                "{sheet} has dates such as {example}, which begin with the year, and nothing shows whether the day "
                "or the month follows: days from {days}, or from {other_days}. Export the file with other days, "
                "too, or with dates as they were in the sample of the mapping.",
                sheet=sheet,
                example=min(days),
                days=_first_and_last(read),
                other_days=_first_and_last(others),
            )
        )


def _numbers(day: str) -> list[str]:
    return re.findall(r"\d+", day)


def _with_day_second(day: str) -> str:
    year, second, third = _numbers(day)[:3]
    return f"{year}-{third}-{second}"


@lru_cache(maxsize=16)
def _last_plausible(today: date, known: tuple[str, ...]) -> str:
    latest = max([str(today), *known])
    return f"{date.fromisoformat(latest) + timedelta(days=1)}"


def require_plausible_day(closed_at: str, mapping: ImportMapping, today: date | None, row: TableRow) -> None:
    """Raise `RowProblem` if a bill is in the future, or long before those of the sample."""
    if closed_at[4:5] != "-":
        return
    day, known = closed_at[:10], mapping.checks.days
    if today and day > _last_plausible(today, tuple(known)):
        raise row.problem(
            Reason.DOUBTFUL_VALUE,
            f"is of {day}, which is after today, {today}. If days are misread, or the clock of the till is wrong, "
            "export the file again with right days. If the day is right, put it last in checks.days of the mapping",
        )
    if known and int(day[:4]) < int(known[0][:4]) - LONG_AGO:
        raise row.problem(
            Reason.DOUBTFUL_VALUE,
            f"is of {day}, long before the bills of the sample, which begin on {known[0]}. Tills write such a day if "
            "they know none. If the day is right, put it first in checks.days of the mapping",
        )
