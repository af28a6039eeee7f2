"""Finds out whether the day or the month comes first in the dates of a sample, from all that the export shows."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, timedelta

from counterfoil.importer.columns import FEW_VALUES, TableColumn, day_of
from counterfoil.importer.ranks import Ranks
from counterfoil.importing import values
from counterfoil.importing.checks import FAR, SOON, SPREAD
from counterfoil.importing.values import AUTO, DATE_ORDERS, ordered_date

ENOUGH_DAYS = 4
"""So many rows are not all on the same day of different months."""
MOST_COMPARED = 500
"""So many rows show whether another column has the same days."""
LONGEST_HISTORY, NEAR_TITLE = timedelta(days=5 * 366), timedelta(days=7)
_SORTABLE_DAY = re.compile(r"(?<!\d)(20\d\d)[-_.]?(0[1-9]|1[0-2])[-_.]?([0-3]\d)(?!\d)", re.ASCII)
_DATE = re.compile(r"(?<!\d)\d{1,2}([/.-])\d{1,2}\1(?:\d{4}|\d\d)(?!\d)", re.ASCII)

_Days = Mapping[str, Sequence[date]]
"""The days of the rows, by the order in which they are read."""


class DateOrder:
    """The order of day, month and year in the dates of some columns, or None if it is open.

    `reason` says why it is probable if the dates alone do not show it. `is_assumed` is whether only the country of the
    export does. `zone` is the time zone of the shop, if it is known.
    """

    def __init__(self, ranks: Ranks, columns: Sequence[TableColumn], today: date, zone: str | None) -> None:
        self.order: str | None = None
        self.reason, self.is_assumed = "", False
        self._ranks, self._columns, self._today = ranks, columns, today
        self._rows = [row for row, value in enumerate(columns[0].values) if ordered_date(value)] if columns else []
        self._titles = [text for file in ranks.table.files for text in (file.sheet.name, *file.above)]
        self._title_dates = [match[0] for text in self._titles for match in _DATE.finditer(text)]
        dates = [text for column in columns for value in column.distinct if (text := ordered_date(value))]
        possible = _orders_of(dates)
        if not dates or len(possible) < 2:
            self.order = next(iter(possible), None) if dates else "ymd"
            return
        texts = [columns[0].values[row] for row in self._rows] or dates
        self._decide({order: _days_in(texts, order) for order in possible}, zone)

    def _decide(self, days: _Days, zone: str | None) -> None:
        """Exclude the orders that the evidence contradicts. If it contradicts all of them, the order is open."""
        evidence = {
            "other days would be in the future or years ago": self._recent(days),
            "the days are near each other then": self._near_each_other(days),
            "the rows are in the order of their days then": [
                order for order, found in days.items() if list(found) in (sorted(found), sorted(found, reverse=True))
            ],
            "another column has the same days": self._in_other_columns(days),
            "the title or the name of the file has the same days": self._in_titles(days),
        }
        found = {reason: orders for reason, orders in evidence.items() if 0 < len(orders) < len(days)}
        left = set(days).intersection(*found.values())
        # The last two digits of the year come first only if the days show it.
        left -= {"ymd"} if len(left) > 1 else set()
        by_country = self._of_country(days, zone)
        # A clock that is wrong, or invented days, must not turn the order of a country around.
        is_turned = list(found.values()) == [self._recent(days)] and left == {"dmy", "mdy"} - {*by_country.values()}
        if len(left) == 1 and not is_turned:
            self.order, self.reason = left.pop(), next(iter(found), "")
        elif len(left) > 1 and days.get("dmy") == days.get("mdy"):
            self.order = AUTO
        elif by_country and len(left) > 1:
            [(self.reason, self.order)] = by_country.items()
            self.is_assumed = True

    def _recent(self, days: _Days) -> list[str]:
        first, last = self._today - LONGEST_HISTORY, self._today + timedelta(days=1)
        return [order for order, found in days.items() if first <= min(found) and max(found) <= last]

    def _near_each_other(self, days: _Days) -> list[str]:
        all_days = {order: [*found, *_days_in(self._title_dates, order)] for order, found in days.items()}
        spreads = {order: max(found) - min(found) for order, found in all_days.items()}
        if any(len(found) < ENOUGH_DAYS or len(set(found)) < 2 for found in all_days.values()):
            return []
        return [order for order, spread in spreads.items() if spread < max(SPREAD, 4 * min(spreads.values()))]

    def _in_other_columns(self, days: _Days) -> set[str]:
        """Return the orders whose days another column has, such as the bill's number, or that its dates prove."""
        found = set[str]()
        for column in self._ranks.table.columns.values():
            if column in self._columns:
                continue
            cells = [column.values[row] for row in self._rows[:MOST_COMPARED]]
            for order, ours in days.items():
                pairs = Counter(zip(cells, ours, strict=False))
                equal = sum(count for (cell, day), count in pairs.items() if _has_day(cell, day))
                found |= {order} if cells and equal * 10 >= len(cells) * 8 else set()
            orders = _orders_of(list(filter(None, map(ordered_date, column.distinct)))) if column.is_date else []
            found |= set(orders) if len(orders) == 1 else set()
        return found

    def _in_titles(self, days: _Days) -> list[str]:
        proved = _orders_of(self._title_dates)
        if len(proved) == 1:
            return proved
        known = _days_in(["-".join(parts) for text in self._titles for parts in _SORTABLE_DAY.findall(text)], "ymd")
        near = [(day - NEAR_TITLE, day + NEAR_TITLE) for day in known]
        return [
            order for order, found in days.items() if any(first <= day <= last for first, last in near for day in found)
        ]

    def _of_country(self, days: _Days, zone: str | None) -> dict[str, str]:
        """Return the order that is usual where the export is from, by what shows where that is."""
        cells = [cell for column in self._ranks.table.columns.values() for cell in column.distinct[:FEW_VALUES]]
        # Where hours count to 23, AM and PM show that a computer with settings of another country wrote the dates.
        known = values.WITH_HALF_DAYS if any(map(values.has_half_day, cells)) else values.DAY_FIRST
        found = {why: "dmy" for why, mark in self._ranks.countries.items() if mark in known}
        zones = [zone] if zone else [cell for column in self._ranks.with_role("timezone") for cell in column.distinct]
        for name in zones:
            if order := values.order_in_zone(str(values.read_zone(name))):
                found[f"the time zone is {name}"] = order
        orders = set(found.values())
        return dict(list(found.items())[:1]) if len(orders) == 1 and self._is_probable(orders, days) else {}

    def _is_probable(self, orders: set[str], days: _Days) -> bool:
        """Return whether the days are not so old that those in the other order, of the last days, are more probable."""
        latest = {order in orders: max(found) for order, found in days.items() if order != "ymd"}
        if len(latest) < 2:
            return True
        return latest[True] >= self._today - FAR or not self._today - SOON <= latest[False] <= self._today


def _orders_of(dates: Sequence[str]) -> list[str]:
    """Return the orders in which all dates can be read. Between dots, the month never comes first."""
    is_dotted = any("." in text for text in dates)
    return [
        order
        for order in DATE_ORDERS
        if all(day_of(text, order) for text in dates) and not (is_dotted and order == "mdy")
    ]


def _days_in(texts: Sequence[str], order: str) -> list[date]:
    return [day for text in texts if (day := day_of(text, order))]


def _has_day(cell: str, day: date) -> bool:
    """Return whether a cell has a day in a way that does not depend on the order, or its name."""
    digits = re.sub(r"\D", "", cell)
    is_named = cell.casefold() in (f"{day:%a}".casefold(), f"{day:%A}".casefold())
    is_within = f"{day:%Y%m%d}" in digits or digits.startswith(f"{day:%y%m%d}")
    return is_named or is_within or (not ordered_date(cell) and day_of(cell, "ymd") == day)
