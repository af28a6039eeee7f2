"""Finds the order of day, month and year in the dates of an export.

It is proven only if a date can be read in no other way, or if the same day stands beside it in a way that depends on no
order. That days are near each other, follow each other or would be in the future only ranks the orders to ask about.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta

from counterfoil.importer.columns import FEW_VALUES, TableColumn, day_of
from counterfoil.importer.ranks import Ranks
from counterfoil.importing import values
from counterfoil.importing.values import (
    AUTO,
    DATE_ORDERS,
    ONE_DAY,
    YEAR_DAY_MONTH,
    date_after_year,
    has_day,
    ordered_date,
)
from counterfoil.importing.written_dates import SPREAD

MOST_COMPARED = 500
"""So many rows show whether another column has the same days."""
LONGEST_HISTORY, LONGEST_AHEAD = timedelta(days=5 * 366), timedelta(days=366)
"""No till exports bills from so many years ago, or from so far ahead."""
NEAR_COLUMN = timedelta(days=31)
"""By so much, two dates of a bill differ at most, such as those of its sale and its payout."""
RECENT, LONG_AGO = timedelta(days=31), timedelta(days=60)
"""Most files have bills of the last weeks."""
_SORTABLE_DAY = re.compile(r"(?<!\d)(20\d\d)([-_.]?)(0[1-9]|1[0-2])\2([0-3]\d)(?!\d)", re.ASCII)
_DATE = re.compile(r"(?<!\d)\d{1,2}([/.-])\d{1,2}\1(?:\d{4}|\d\d)(?!\d)", re.ASCII)
_FULL_YEAR = re.compile(r"\d{4}$", re.ASCII)

Days = dict[str, list[date]]
"""The days of the rows, by the order in which they are read."""


class DateOrder:
    """The order of day, month and year in the dates of some columns.

    `order` is the one that is proven, or None if a person must say it. `possible` are all orders that are left, the
    most probable first. `proof` says what proves the order if the dates alone do not. `zone` is that of the shop, if it
    is known.
    """

    def __init__(self, ranks: Ranks, columns: Sequence[TableColumn], today: date, zone: str | None) -> None:
        self.order: str | None = None
        self.possible: list[str] = []
        self.proof = ""
        self._ranks = ranks
        self._columns = columns
        self._today = today
        self._rows: list[int] = []
        dates = _dates_in(columns)
        if not dates:
            self._doubt_years_first(zone)
            return
        self._rows = [row for row, value in enumerate(columns[0].values) if ordered_date(value)]
        texts = [columns[0].values[row] for row in self._rows] or dates
        self._days = {order: _days_in(texts, order) for order in _orders_of(dates)}
        self._dismiss_far_years()
        self._dismiss_months_between_dots(dates)
        self.possible = list(self._days)
        if len(self.possible) == 1:
            self.order = self.possible[0]
        elif self.possible and self._is_same_in_all():
            self.order = AUTO
        elif self.possible:
            self._prove()
        if self.order is None:
            self.possible.sort(key=self._improbability(zone))

    def _dismiss_far_years(self) -> None:
        """Leave out orders in which the bills would be of other years, unless all of them are like that."""
        first, last = self._today - LONGEST_HISTORY, self._today + LONGEST_AHEAD
        near = [order for order, days in self._days.items() if first <= min(days) and max(days) <= last]
        if not near:
            near = [order for order in self._days if order != "ymd"]
        if near:
            self._days = {order: self._days[order] for order in near}

    def _dismiss_months_between_dots(self, dates: Sequence[str]) -> None:
        """Leave out the month before the day between dots, unless the days are less probable if it comes second."""
        if not any("." in text for text in dates) or not {"dmy", "mdy"} <= {*self._days}:
            return
        points = self._improbability(None)
        if points("mdy") >= points("dmy"):
            del self._days["mdy"]

    def _doubt_years_first(self, zone: str | None) -> None:
        """Take the month after the year, unless the days are less probable then than if the day came second."""
        self.order = "ymd"
        cells = self._columns[0].values if self._columns else []
        self._rows = [row for row, cell in enumerate(cells) if date_after_year(cell)]
        texts = [cells[row] for row in self._rows]
        self._days = {}
        for order in ("ymd", YEAR_DAY_MONTH):
            if texts and _are_readable(texts, order):
                self._days[order] = _days_in(texts, order)
        if len(self._days) < 2 or self._is_same_in_all():
            return
        points = self._improbability(zone)
        if points("ymd") - points(YEAR_DAY_MONTH) >= 1:
            self.order = None
            self.possible = [YEAR_DAY_MONTH, "ymd"]
            self._prove()

    def _is_same_in_all(self) -> bool:
        first, *others = self._days.values()
        return all(days == first for days in others)

    # --- what proves the order -----------------------------------------------------------

    def _prove(self) -> None:
        """Take the order that other cells of the same rows, or dates above the table, prove. None may contradict it."""
        proofs: dict[str, str] = {}
        for column in self._ranks.table.columns.values():
            order = None if column in self._columns else self._order_by(column)
            if order:
                proofs.setdefault(order, f"{column.name} has the same days")
        order = self._order_by_titles()
        if order:
            proofs.setdefault(order, "a title has the same days")
        if len(proofs) == 1:
            [(self.order, self.proof)] = proofs.items()

    def _order_by(self, column: TableColumn) -> str | None:
        """Return the order that the dates of a column prove, or the only one in which it has the day of each row."""
        cells = [column.values[row] for row in self._rows]
        if not all(cells):
            return None
        if column.is_date and all(map(ordered_date, cells)):
            return self._order_of_dates(column, cells)
        if YEAR_DAY_MONTH in self._days and any(map(date_after_year, cells)):
            # Its dates are as doubtful.
            return None
        fitting = [order for order, days in self._days.items() if _have_days(cells, days)]
        return fitting[0] if len(fitting) == 1 else None

    def _order_of_dates(self, column: TableColumn, cells: Sequence[str]) -> str | None:
        """Return the only order of a column of dates, if they are written like those of the bills and near them."""
        orders = _orders_of(_dates_in([column]))
        if len(orders) != 1 or orders[0] not in self._days or _style(cells[0]) != self._style:
            return None
        for day, other in zip(self._days[orders[0]], _days_in(cells, orders[0]), strict=True):
            if abs(day - other) > NEAR_COLUMN:
                return None
        return orders[0]

    def _order_by_titles(self) -> str | None:
        """Return the order of dates above the table, or in the name of a file, or in which they are those of bills."""
        texts: list[str] = []
        for file in self._ranks.table.files:
            texts += [file.sheet.name, *file.above]
        dates: list[str] = []
        for text in texts:
            dates += [match[0] for match in _DATE.finditer(text)]
        are_in_style = all(_style(text) == self._style for text in dates)
        orders = _orders_of(dates) if dates and are_in_style else []
        if len(orders) != 1 or orders[0] not in self._days:
            return self._order_by_sortable_titles(texts)
        order = orders[0]
        titles, days = _days_in(dates, order), self._days[order]
        # A single date is that of the report, or of its last day.
        begins_before = len(set(titles)) == 1 or min(titles) <= min(days)
        ends_after = max(days) <= max(titles)
        return order if begins_before and ends_after else None

    def _order_by_sortable_titles(self, texts: Iterable[str]) -> str | None:
        """Return the only order in which the first and the last day are those that titles have, year first."""
        dates = []
        for text in texts:
            for match in _SORTABLE_DAY.finditer(text):
                year, _, month, day = match.groups()
                dates.append(f"{year}-{month}-{day}")
        titles = set(_days_in(dates, "ymd"))
        fitting = [order for order, days in self._days.items() if titles == {min(days), max(days)}]
        return fitting[0] if len(fitting) == 1 else None

    @property
    def _style(self) -> tuple[str, bool]:
        if not self._rows:
            return "", False
        first_row = self._rows[0]
        return _style(self._columns[0].values[first_row])

    # --- what makes an order probable ----------------------------------------------------------

    def _improbability(self, zone: str | None) -> Callable[[str], float]:
        """Return a function of an order that tells how much speaks against it."""
        usual = self._usual_order(zone)
        spreads = {order: max(days) - min(days) for order, days in self._days.items()}
        wide = max(SPREAD, 4 * min(spreads.values(), default=ONE_DAY))
        points: dict[str, float] = {}
        for order, days in self._days.items():
            points[order] = 0
            if max(days) > self._today + ONE_DAY:
                points[order] += 2
            if max(days) < self._today - LONG_AGO and self._is_any_recent():
                points[order] += 1
            if spreads[order] >= wide:
                points[order] += 2
            if usual is not None and order != usual:
                points[order] += 1.5
            if days != sorted(days) and days != sorted(days, reverse=True):
                points[order] += 1
            if order == "ymd":
                points[order] += 0.5
        return points.__getitem__

    def _is_any_recent(self) -> bool:
        """Return whether the last day is a recent one in some order. Most files arrive soon after their last day."""
        last_days = [max(days) for days in self._days.values()]
        return any(self._today - RECENT <= day <= self._today + ONE_DAY for day in last_days)

    def _usual_order(self, zone: str | None) -> str | None:
        """Return the order that is usual where the export is from, by what shows where that is."""
        # Where hours count to 23, AM and PM show that a computer with settings of another country wrote the dates.
        day_first = values.WITH_HALF_DAYS if self._has_half_days() else values.DAY_FIRST
        usual = set[str]()
        if not day_first.isdisjoint(self._ranks.countries.values()):
            usual.add("dmy")
        for name in [zone] if zone else self._named_zones():
            order = values.order_in_zone(str(values.read_zone(name)))
            if order:
                usual.add(order)
        return usual.pop() if len(usual) == 1 else None

    def _has_half_days(self) -> bool:
        """Return whether a cell of the table has AM or PM."""
        columns = self._ranks.table.columns.values()
        return any(values.has_half_day(cell) for column in columns for cell in column.distinct[:FEW_VALUES])

    def _named_zones(self) -> list[str]:
        return [cell for column in self._ranks.with_role("timezone") for cell in column.distinct]


def readable_order(order: str | None) -> str:
    """Return the order in which dates are read. Without one, or if all give the same days, any order is right."""
    return "dmy" if order in (None, AUTO) else order


def _dates_in(columns: Iterable[TableColumn]) -> list[str]:
    """Return the dates that begin with a day or a month."""
    dates = []
    for column in columns:
        for value in column.distinct:
            date_in_value = ordered_date(value)
            if date_in_value:
                dates.append(date_in_value)
    return dates


def _orders_of(dates: Sequence[str]) -> list[str]:
    """Return the orders in which all dates can be read."""
    return [order for order in DATE_ORDERS if _are_readable(dates, order)]


def _are_readable(dates: Iterable[str], order: str) -> bool:
    return all(day_of(text, order) for text in dates)


def _have_days(cells: Sequence[str], days: Sequence[date]) -> bool:
    """Return whether each of the first cells has the day beside it."""
    pairs = list(zip(cells, days, strict=True))[:MOST_COMPARED]
    return bool(pairs) and all(has_day(cell, day) for cell, day in pairs)


def _days_in(texts: Iterable[str], order: str) -> list[date]:
    days = [day_of(text, order) for text in texts]
    return [day for day in days if day]


def _style(text: str) -> tuple[str, bool]:
    """Return how a date is written: what separates its numbers, and whether its year has four digits."""
    found = _DATE.search(text)
    return (found[1], bool(_FULL_YEAR.search(found[0]))) if found else ("", False)
