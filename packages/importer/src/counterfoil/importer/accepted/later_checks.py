"""What later files are checked for: what the rows of this one have in common, so that nothing new is read unseen."""

from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import Any

from counterfoil.importer.columns import ExportTable, TableColumn
from counterfoil.importer.ranks import AMOUNT_ROLES, DATE_ROLES, LONGEST_CODE, NUMBER_ROLES, REFUND, SALE, VOID, Ranks
from counterfoil.importer.solver import ExportReading
from counterfoil.importer.states.negative_counts import is_quantity
from counterfoil.importing.sheets import CsvFile
from counterfoil.importing.usual_hours import HOURS, hour_of, usual_hours
from counterfoil.importing.usual_numbers import width_of
from counterfoil.importing.values import has_half_day, letters_of, number_shape

ENOUGH_ROWS = 5
ENOUGH_TIMES = 20
"""Of fewer bills, the hours may be those of a part of a day."""
SOME_TIMES, LONG_DAY = 10, 8
"""Of so many bills over so many hours, they are those of a whole day."""
MOST_NAMES = 6
"""Of so many different names, another one is no new habit."""
_NO_WORDS = NUMBER_ROLES | DATE_ROLES | {"time", "cashier", "memberId", "shopId", "timezone", "currency"}
_NO_CODES = _NO_WORDS | {"item", "productId", "category", "options"}


def tables_of(reading: ExportReading) -> list[ExportTable]:
    """Return the tables of bills, lines and payments, as far as the export has them."""
    return [table for table in (reading.bills.table, reading.lines, reading.payments) if table]


def days_of(reading: ExportReading) -> list[str]:
    """Return the days of the bills whose time can be read, in their order."""
    found = []
    for bill, time in enumerate(reading.times):
        if time and bill not in reading.rejected_bills:
            found.append(time[:10])
    return sorted(found)


class LaterChecks:
    """The checks of a mapping. `used` are the columns that it reads, `allowed` the doubtful values that it explains."""

    def __init__(self, reading: ExportReading, used: Iterable[str], allowed: Iterable[str]) -> None:
        self._reading = reading
        self._bills = reading.bills
        self._table = reading.bills.table
        self._states = reading.states
        self._used = set(used)
        self._allowed = list(allowed)
        self._words: dict[str, None] = {}
        self._codes: list[str] = []
        self._filled: list[str] = []
        self._decimals: dict[str, list[int]] = {}
        self._currencies: dict[str, None] = {}
        self._half_days: list[str] = []
        self._known: dict[str, list[str]] = {}

    def entries(self) -> dict[str, Any]:
        """Return the entries of `[checks]`. Empty ones say nothing."""
        tables = tables_of(self._reading)
        larger: list[list[str]] = []
        for table in tables:
            for column in table.columns.values():
                self._check(table, column)
            larger += self._larger(table)
        self._allow_explained_values()
        equations = self._reading.amounts.search.relations.equations()
        return {
            "words": list(self._words),
            "codes": self._codes,
            "filled": self._filled,
            "decimals": self._decimals,
            "currencies": list(self._currencies),
            "halfDays": self._half_days,
            "known": self._known,
            "letters": self._letters_of_numbers(),
            "allowed": list(dict.fromkeys(self._allowed)),
            "totals": self._bills.ends_in_totals,
            "whole": self._converted(tables),
            "equal": [[left.cell, right.cell] for left, right in equations],
            "larger": larger,
            "usual": self._usual_amounts(tables),
            "hours": self._hours(),
            "width": self._width_of_numbers(),
            "returned": self._quantities(),
            "days": self._first_and_last_day(),
        }

    def _quantities(self) -> list[str]:
        """Return the columns of quantities, unless it was said what a negative one means, or one is not doubtful."""
        ranks, signs = self._bills.ranks, self._states.signs
        columns = [column for column in self._table.columns.values() if is_quantity(ranks, column)]
        return [column.name for column in columns if column.name not in signs and _is_positive(column)]

    def _first_and_last_day(self) -> list[str]:
        days = days_of(self._reading)
        is_read = bool(days) and days[0][4:5] == "-"
        return [days[0], days[-1]] if is_read else []

    def _hours(self) -> list[int]:
        """Return the usual hours of the bills, if there are enough bills with times of the shop's own clock."""
        if self._reading.shops.is_utc or self._reading.shops.zone_column:
            return []
        hours = []
        for time in self._reading.times:
            hour = hour_of(time)
            if hour is not None:
                hours.append(hour)
        usual = usual_hours(hours)
        if not usual or len(hours) >= ENOUGH_TIMES:
            return usual
        first, last = usual
        is_whole_day = len(hours) >= SOME_TIMES and (last - first) % HOURS >= LONG_DAY
        return usual if is_whole_day else []

    def _width_of_numbers(self) -> dict[str, int]:
        """Return how many digits the numbers of bills have, if zeros are before some, or 0 if none has zeros."""
        number = self._bills.number
        if len(number.distinct) < ENOUGH_ROWS or not all(value.isdecimal() for value in number.distinct):
            return {}
        width = width_of(number.distinct)
        return {} if width is None else {number.name: width}

    def _check(self, table: ExportTable, column: TableColumn) -> None:
        is_number_of_bill = column is self._bills.number
        if table is self._table and self._is_state(column.name) and not is_number_of_bill:
            return
        ranks = self._reading.amounts.ranks(table)
        is_mark = ranks.heading_state(column) in (VOID, REFUND)
        is_text = ranks.heading_role(column) not in _NO_WORDS and not is_mark
        if is_text or ranks.names_person(column):
            self._words[column.name] = None
        values = self._only_values(ranks, column)
        if values is not None:
            self._known.setdefault(column.name, []).extend(values)
        if table is self._table and not is_number_of_bill and _are_codes(ranks, column):
            self._codes.append(column.name)
            words = map(ranks.word_among_codes, column.distinct)
            self._allowed += filter(None, words)
        if column.name in self._used:
            self._check_forms(table, ranks, column)

    def _letters_of_numbers(self) -> dict[str, list[str]]:
        """Return what the numbers of bills have beside their digits, if it is the same on many of them."""
        number = self._bills.number
        letters = list(dict.fromkeys(map(letters_of, number.distinct)))
        if self._states.prefixes or len(number.distinct) < ENOUGH_ROWS * len(letters):
            return {}
        return {number.name: letters}

    def _usual_amounts(self, tables: Sequence[ExportTable]) -> dict[str, str]:
        """Return the median of each column of which the net is made, if there are enough amounts, unlike of tips."""
        found = {}
        for table in tables:
            for name in self._reading.net.columns:
                column = table.columns.get(name)
                if column is None or not column.is_number:
                    continue
                amounts = sorted(column.amount(row) for row in range(len(column.values)))
                amounts = [amount for amount in amounts if amount]
                if len(amounts) >= max(ENOUGH_ROWS, len(column.values) / 2):
                    found[name] = f"{amounts[len(amounts) // 2]:f}"
        return found

    def _is_state(self, name: str) -> bool:
        return name in self._states.of_bills or name in self._states.later or name in self._states.marks

    def _check_forms(self, table: ExportTable, ranks: Ranks, column: TableColumn) -> None:
        """Note how the numbers and times of a column are written."""
        if column.filled and all(map(has_half_day, column.distinct)):
            self._half_days.append(column.name)
        if ranks.role(column) not in NUMBER_ROLES and column.name not in self._reading.net.columns:
            return
        if column.is_filled and len(column.values) >= ENOUGH_ROWS:
            self._filled.append(column.name)
        if not isinstance(table.file, CsvFile):
            return
        decimals = set[int]()
        for value in column.distinct:
            places, _, currency = number_shape(value, column.numbers.decimal)
            decimals.add(places)
            if currency:
                self._currencies[currency] = None
        self._decimals[column.name] = sorted(decimals)

    def _only_values(self, ranks: Ranks, column: TableColumn) -> list[str] | None:
        """Return what a column has on all rows, if another value may change a bill, as nobody knows what it means."""
        if column.name in self._used and ranks.role(column) != "type":
            return None
        values = [value for value in column.distinct if not ranks.is_placeholder(value)]
        is_empty_reference = not values and ranks.is_reference(column)
        if not is_empty_reference and _is_known(ranks, column, values):
            return None
        if len({*column.values}) > (MOST_NAMES if ranks.are_names(values) else 1):
            return None
        are_codes = all(len(value) <= LONGEST_CODE for value in values)
        if not are_codes and any(map(str.isdigit, "".join(values))):
            return None
        if not values or not column.is_filled:
            values.append("")
        return values

    def _allow_explained_values(self) -> None:
        """Allow the values with doubtful words that were explained, or that their numbers explain."""
        ranks = self._bills.ranks
        for name, meanings in self._states.of_bills.items():
            doubtful = ranks.doubtful_values(self._table.columns[name], is_item=False)
            if name == self._bills.number.name:
                self._allowed += doubtful
            elif doubtful:
                self._allowed += [value for value, meaning in meanings.items() if meaning == SALE and value]
        for name, counted in self._states.counted_lines.items():
            doubtful = ranks.doubtful_values(self._table.columns[name], is_item=False)
            self._allowed += [value for value in doubtful if value in counted]
        if self._bills.is_flat:
            self._allow_items(self._table)
        if self._reading.lines:
            self._allow_items(self._reading.lines)

    def _allow_items(self, table: ExportTable) -> None:
        ranks = self._reading.amounts.ranks(table)
        items = ranks.first("item")
        if items:
            self._allowed += ranks.doubtful_values(items, is_item=True)

    def _converted(self, tables: Sequence[ExportTable]) -> list[str]:
        """Return the columns with whole numbers that are converted to the currency's unit."""
        amounts = self._reading.amounts
        found: dict[str, None] = {}
        for table in tables:
            ranks = amounts.ranks(table)
            for column in table.columns.values():
                is_amount = ranks.role(column) in AMOUNT_ROLES
                if is_amount and column.is_whole and amounts.is_converted(column, ranks):
                    found[column.name] = None
        return list(found)

    def _larger(self, table: ExportTable) -> list[list[str]]:
        """Return pairs of columns of which the first never has a smaller number, without those that others imply."""
        ranks = self._reading.amounts.ranks(table)
        amounts, others = [], []
        for column in table.columns.values():
            if ranks.role(column) in NUMBER_ROLES:
                amounts.append(column)
            elif column.is_number and not column.is_date and not column.is_like_an_id and not ranks.is_clock(column):
                # Numbers of bills grow, whatever the bills cost.
                others.append(column)
        used = [column for column in amounts if column.name in self._used]
        pairs: set[tuple[str, str]] = set()
        for larger, smaller in permutations([*amounts, *others], 2):
            if (larger in used or smaller in used) and _is_larger(larger, smaller):
                pairs.add((larger.name, smaller.name))
        larger_names = {name for name, _ in pairs}
        implied = set()
        for first, last in pairs:
            if any((first, name) in pairs and (name, last) in pairs for name in larger_names):
                implied.add((first, last))
        return [list(pair) for pair in sorted(pairs - implied)]


def _is_positive(column: TableColumn) -> bool:
    return all((column.units[value] or 0) >= 0 for value in column.distinct)


def _is_known(ranks: Ranks, column: TableColumn, values: Sequence[str]) -> bool:
    """Return whether it is known what a column is about, so that a new value in it changes no bill."""
    has_role = ranks.role(column) not in (None, "type", "status", "currency")
    if has_role or column.is_date or ranks.is_clock(column):
        return True
    if ranks.is_harmless(column):
        return True
    are_flags = bool(values) and all(map(ranks.is_yes_or_no, values))
    return ranks.names_group(column) and not are_flags


def _are_codes(ranks: Ranks, column: TableColumn) -> bool:
    """Return whether nearly all values are short codes, such as T4 and 12. Their other words are allowed."""
    if column.filled < ENOUGH_ROWS or ranks.heading_role(column) in _NO_CODES:
        return False
    codes = 0
    for value in column.values:
        if value and ranks.names_area(value) and any(map(str.isdigit, value)):
            codes += 1
    return codes * 5 >= column.filled * 4


def _is_larger(larger: TableColumn, smaller: TableColumn) -> bool:
    """Return whether a column never has a smaller number than another one, and a larger one on most rows."""
    rows = len(larger.values)
    count = 0
    for row in range(rows):
        size, other = abs(larger.amount(row)), abs(smaller.amount(row))
        if size < other:
            return False
        count += size > other
    # Amounts that differ on few rows may do so the other way round in another file.
    return count >= max(ENOUGH_ROWS, rows / 2)
