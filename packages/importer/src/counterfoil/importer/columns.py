"""The columns of a table: the type of their cells, what is filled, and how often each value occurs. No words are read.

A table never changes. Leaving out rows, or filling cells down, gives another table.
"""

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import cached_property, lru_cache, partial
from itertools import pairwise

from counterfoil.importing import values as cell_values
from counterfoil.importing.export_totals import is_total_label
from counterfoil.importing.results import RowProblem
from counterfoil.importing.sheets import TableFile, TableRow
from counterfoil.importing.values import POINT, NumberFormat, UnreadableCell, number_in, read_decimal

SCALE = 10_000
"""Amounts are whole numbers of this part of the currency's unit."""
FEWEST_COUNTED = 5
FEWEST_UNNAMED = 3
FEW_VALUES = 40
ANY_CENTURY = cell_values.ANY_CENTURY
_HAS_MARK = re.compile("[:.]")
# With and without seconds. A spreadsheet takes the first zero away.
_COMPACT_CLOCKS = re.compile(r"\d{3,4}", re.ASCII), re.compile(r"\d{5,6}", re.ASCII)
_EPOCH = re.compile(r"1\d{9}(?:\d{3})?(?:\.\d+)?", re.ASCII)
_SERIAL = re.compile(r"[3-6]\d{4}(?:[.,]\d+)?", re.ASCII)
# A letter and one decimal are a number of a bill and its part, as in R1001.1.
_DECIMALS = re.compile(r"^[\W\d].*[.,]0?[1-9]|[.,](0[1-9]|[1-9]\d)(?!\d)")
_MARKED_DECIMALS = re.compile(r"\d[.,]\d")
_NO_HEADING = re.compile(r"column \d+|unnamed: ?\d+|index", re.IGNORECASE | re.ASCII)
_WHOLE_NUMBER = re.compile(r"\d{1,9}", re.ASCII)
_LOOKS_LIKE_MONEY = re.compile(r"\d[.,]\d\d$|^-\d|^[$€£¥฿₫₩₹]\d")


class TableColumn:
    """A column of a table. `values` has a cell for each row."""

    def __init__(self, name: str, values: Sequence[str], numbers: NumberFormat = POINT) -> None:
        self.name = name
        self.values = values
        self.numbers = numbers

    @cached_property
    def counts(self) -> Counter[str]:
        """How often each value occurs, without empty cells."""
        counts = Counter(self.values)
        counts.pop("", None)
        return counts

    @cached_property
    def distinct(self) -> list[str]:
        """The values, the most frequent first."""
        return [value for value, _ in self.counts.most_common()]

    @cached_property
    def filled(self) -> int:
        return self.counts.total()

    @property
    def is_filled(self) -> bool:
        return self.filled == len(self.values)

    @property
    def is_constant(self) -> bool:
        """Whether all rows have the same cell."""
        return len(self.counts) == (1 if self.is_filled else 0)

    @cached_property
    def _data(self) -> Counter[str]:
        """The values without the labels of rows of totals."""
        return Counter({value: count for value, count in self.counts.items() if not is_total_label(value)})

    @cached_property
    def is_number(self) -> bool:
        return _share(self._data, lambda value: value == "-" or read_decimal(value, self.numbers) is not None)

    @cached_property
    def is_whole(self) -> bool:
        """Whether no number is written with decimals or separators."""
        return not any(_MARKED_DECIMALS.search(value) for value in self.counts)

    @cached_property
    def counts_rows(self) -> bool:
        """Whether its numbers are those of many rows, from 0 or 1 on, as programs write them.

        Without a heading, the rows may also be in another order, or some of them left out.
        """
        if _NO_HEADING.fullmatch(self.name):
            return self._counts_without_heading()
        if len(self.values) < FEWEST_COUNTED:
            return False
        first = self.values[0]
        if first not in ("0", "1"):
            return False
        return all(value == str(int(first) + row) for row, value in enumerate(self.values))

    def _counts_without_heading(self) -> bool:
        """Return whether whole numbers grow or lack few of their range, or begin again as those of lines of bills."""
        if len(self.values) < FEWEST_UNNAMED or not all(map(_WHOLE_NUMBER.fullmatch, self.values)):
            return False
        numbers = [int(value) for value in self.values]
        first = numbers[0]
        if first in (0, 1) and all(number in (first, above + 1) for above, number in pairwise(numbers)):
            return True
        if len(set(numbers)) < len(numbers):
            return False
        is_dense = max(numbers) - min(numbers) < 2 * len(numbers)
        is_growing = all(above < number for above, number in pairwise(numbers))
        return is_dense or (is_growing and len(numbers) >= FEWEST_COUNTED)

    @cached_property
    def has_decimals(self) -> bool:
        return self.is_number and any(map(_DECIMALS.search, self.counts))

    @cached_property
    def looks_like_money(self) -> bool:
        return any(_LOOKS_LIKE_MONEY.search(value) for value in self.distinct[:FEW_VALUES])

    @cached_property
    def is_date(self) -> bool:
        """Whether nearly all values begin with a date, in day/month or month/day order."""
        return any(_share(self._data, partial(day_of, order=order)) for order in ("dmy", "mdy"))

    @cached_property
    def is_serial(self) -> bool:
        """Whether all values are numbers by which a spreadsheet writes days."""
        return bool(self._data) and all(_SERIAL.fullmatch(value) for value in self._data)

    @cached_property
    def is_epoch(self) -> bool:
        """Whether all values are seconds or milliseconds since 1970."""
        return bool(self._data) and all(_EPOCH.fullmatch(value) for value in self._data)

    @cached_property
    def is_clock(self) -> bool:
        def is_time(value: str) -> object:
            has_mark = _HAS_MARK.search(cell_values.plain_time(value)) or cell_values.PART_OF_DAY.fullmatch(value)
            return has_mark and cell_values.clock_in(value)

        return _share(self._data, is_time)

    @cached_property
    def is_compact_clock(self) -> bool:
        """Whether all values are digits such as 905 and 1730, which only a heading shows to be times."""
        is_short = any(all(map(clock.fullmatch, self._data)) for clock in _COMPACT_CLOCKS)
        return len(self._data) > 1 and is_short and _share(self._data, cell_values.clock_in)

    @cached_property
    def has_times(self) -> bool:
        """Whether most values have a time of day after the date."""
        with_clock = sum(count for value, count in self._data.items() if cell_values.has_time(value))
        return self.is_epoch or with_clock * 2 > self._data.total()

    @cached_property
    def is_like_an_id(self) -> bool:
        """Whether most values have digits and occur only a few times, but are not amounts or dates."""
        with_digits = [value for value in self.counts if re.search(r"\d", value) and not re.search(r"[.,:]\d", value)]
        is_varied = len(self.counts) * 10 > self.filled
        return is_varied and len(with_digits) * 10 > len(self.counts) * 9 and not self.is_date

    def number(self, row: int) -> Decimal | None:
        return self._number_of[self.values[row]]

    def amount(self, row: int) -> Decimal:
        return self.number(row) or Decimal()

    @cached_property
    def _number_of(self) -> dict[str, Decimal | None]:
        return {value: number_in(value, self.numbers) for value in {*self.counts, ""}}

    @cached_property
    def units(self) -> dict[str, int | None]:
        """The number of each value, in parts of `SCALE`."""
        return {value: None if number is None else round(number * SCALE) for value, number in self._number_of.items()}

    def is_same_in(self, groups: Sequence[Sequence[int]]) -> bool:
        """Return whether all rows of each group have the same value."""
        for rows in groups:
            first = self.values[rows[0]]
            if any(self.values[row] != first for row in rows):
                return False
        return True

    def rows_with(self, value: str) -> list[int]:
        return [row for row, cell in enumerate(self.values) if cell == value]


class ExportTable:
    """The rows of one or several files of the same kind."""

    def __init__(
        self,
        files: Sequence[TableFile],
        rows: Sequence[TableRow],
        columns: Mapping[str, TableColumn],
        problems: Sequence[RowProblem],
        *,
        is_sample: bool = False,
    ) -> None:
        self.is_sample = is_sample
        """Whether the files have more rows."""
        self.files = files
        self.rows = rows
        self.columns = columns
        self.problems = problems
        self._reduced: dict[frozenset[int], ExportTable] = {}
        self._filled: dict[tuple[tuple[str, ...], frozenset[int]], ExportTable] = {}

    @property
    def file(self) -> TableFile:
        return self.files[0]

    @property
    def name(self) -> str:
        return self.file.sheet.name

    def line(self, row: int) -> int:
        return self.rows[row].line

    def place(self, row: int) -> tuple[str, int]:
        """Return the file and the line of a row."""
        found = self.rows[row]
        return found.sheet.name, found.line

    def without(self, rows: Collection[int]) -> "ExportTable":
        """Return the table without some rows."""
        if not rows:
            return self
        left_out = frozenset(rows)
        if left_out not in self._reduced:
            kept = [row for row in range(len(self.rows)) if row not in left_out]
            columns = {}
            for name, column in self.columns.items():
                values = [column.values[row] for row in kept]
                columns[name] = TableColumn(name, values, column.numbers)
            self._reduced[left_out] = ExportTable(self.files, [self.rows[row] for row in kept], columns, self.problems)
        return self._reduced[left_out]

    def filled_down(self, names: Sequence[str], rows: Collection[int]) -> "ExportTable":
        """Return the table in which cells of some columns and rows have the value of the row above."""
        key = tuple(names), frozenset(rows)
        if key not in self._filled:
            columns = dict(self.columns)
            for name in names:
                values = list(self.columns[name].values)
                for row in sorted(rows):
                    values[row] = values[row - 1]
                columns[name] = TableColumn(name, values, self.columns[name].numbers)
            self._filled[key] = ExportTable(self.files, self.rows, columns, self.problems)
        return self._filled[key]


@lru_cache(maxsize=200_000)
def day_of(value: str, order: str) -> date | None:
    return cell_values.day_in(value, ANY_CENTURY, order)


def rows_by(*columns: Sequence[object]) -> list[list[int]]:
    """Return the rows that have the same values in all columns."""
    found: dict[tuple[object, ...], list[int]] = {}
    for row, values in enumerate(zip(*columns, strict=True)):
        found.setdefault(values, []).append(row)
    return list(found.values())


def _share(values: Counter[str], is_readable: Callable[[str], object]) -> bool:
    """Return whether at least 90% of the values can be read, or all but one, which may be in a row of totals."""
    readable, total = 0, values.total()
    for value, count in values.items():
        with contextlib.suppress(UnreadableCell):
            readable += count * bool(is_readable(value))
    return total > 0 and (readable >= 0.9 * total or readable == total - 1 >= 2)
