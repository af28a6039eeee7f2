"""The bills of a table: their rows, what identifies each, and when and where it was closed."""

from collections.abc import Sequence
from datetime import date
from functools import cached_property
from itertools import pairwise

from msgspec import Struct

from counterfoil.importer.bills import bill_keys
from counterfoil.importer.bills.bill_keys import BillKey
from counterfoil.importer.bills.bill_numbers import last_number
from counterfoil.importer.bills.bill_rows import LeftOutRows
from counterfoil.importer.bills.closing_times import ClosingTime
from counterfoil.importer.bills.date_orders import readable_order
from counterfoil.importer.bills.repeated_rows import RepeatedRows
from counterfoil.importer.columns import ExportTable, TableColumn, day_of, rows_by
from counterfoil.importer.ranks import TOTAL_ROLES, Ranks

_WAYS_OF_PAYING = ("tendered", "paid", "wayOfPaying", "change")


class Bills(Struct, eq=False, dict=True, kw_only=True):
    """The bills of a table, with what identifies each, and when it was closed."""

    table: ExportTable
    ranks: Ranks
    number: TableColumn
    is_flat: bool
    """Whether each row is a line of a bill."""
    shop: TableColumn | None
    tills: Sequence[TableColumn]
    kinds: Sequence[TableColumn]
    """The column that tells a sale from its refund, if both have the same number."""
    key: BillKey
    closing: ClosingTime
    trading_day: TableColumn | None
    order: str | None
    """The order of day, month and year in the dates."""
    days: Sequence[date | None]
    """The day of each row."""
    left_out: Sequence[LeftOutRows]
    skipped: dict[str, list[str]]
    """The values by which rows are left out, by their column."""
    filled_down: Sequence[str]
    line_marks: Sequence[str]
    """Columns with a void on the first row of bills that is that of the line."""
    repeated: RepeatedRows
    ends_in_totals: bool

    @property
    def groups(self) -> list[TableColumn]:
        """The branch and the till, each of which may have numbers of its own."""
        return [column for column in (self.shop, *self.tills) if column]

    @cached_property
    def rows(self) -> list[list[int]]:
        """The rows of each bill."""
        return self.rows_by(self.key.columns)

    def rows_by(self, names: Sequence[str]) -> list[list[int]]:
        """Return the rows with the same cells in some columns. Of a time that is joined to a number, the day counts."""
        dated = [column.name for column in (self.closing.day, self.trading_day) if column]
        cells: list[Sequence[object]] = [[row.sheet.name for row in self.table.rows]]
        for name in names:
            column = self.table.columns[name]
            is_joined_time = name in dated and len(names) > 1
            cells.append(self._days_in(column) if is_joined_time else column.values)
        return rows_by(*cells)

    def _days_in(self, column: TableColumn) -> list[object]:
        """Return the day in each cell, or the cell if it has none."""
        order = readable_order(self.order)
        day_or_cell = {value: day_of(value, order) or value for value in column.distinct}
        return [day_or_cell.get(value, value) for value in column.values]

    def is_of_bill(self, column: TableColumn) -> bool:
        """Return whether a column has the same value on all rows of each bill."""
        return column.is_same_in(self.rows)

    def group_of(self, row: int) -> tuple[str, ...]:
        return tuple(column.values[row] for column in self.groups)

    def number_in(self, row: int) -> int:
        return last_number(self.number.values[row])

    def name_of(self, bill: int) -> str:
        """Return the number of a bill, to be shown."""
        return self.number.values[self.rows[bill][0]]

    @cached_property
    def _numbers(self) -> frozenset[str]:
        return frozenset(value for value in self.number.distinct if len(value) > 2)

    def refers_to_bill(self, value: str) -> bool:
        """Return whether a text names the number of a bill, which is longer than that of a table or a guest."""
        words = "".join(letter if letter.isalnum() or letter in "-_" else " " for letter in value).split()
        return not self._numbers.isdisjoint([value, *words])

    @cached_property
    def negative_rows(self) -> set[int]:
        """The rows with a negative amount, which is paid back."""
        found = set[int]()
        for column in self.ranks.with_role(*TOTAL_ROLES):
            for row in range(len(self.table.rows)):
                if column.amount(row) < 0:
                    found.add(row)
        return found

    def are_pair(self, rows: Sequence[int]) -> bool:
        """Return whether two rows have the same amounts, in either sign, so that one may undo the other."""
        return bill_keys.are_pair(self.ranks, rows)

    @property
    def has_times(self) -> bool:
        """Whether the export shows at which time of the day bills were closed."""
        day = self.closing.day
        is_in_day = day is not None and (day.has_times or day.is_serial)
        return is_in_day or self.closing.clock is not None

    @property
    def has_no_times(self) -> bool:
        """Whether rows of the same number may be two bills of the same day, because nothing shows when they were."""
        return self.is_flat and not self.has_times

    def first_in_parts(self) -> list[int] | None:
        """Return where two parts of a bill begin, if other bills are between them and no time shows that it is one."""
        if not self.has_no_times:
            return None
        for rows in self.rows:
            for row, later in pairwise(rows):
                if later != row + 1:
                    return [rows[0], later]
        return None

    def first_repeated_line(self, method: TableColumn) -> int | None:
        """Return a row that another one repeats with another way of paying, if a bill has all its lines with each."""
        paid = {method.name, *(column.name for column in self.ranks.with_role(*_WAYS_OF_PAYING))}
        others = [column.values for name, column in self.table.columns.items() if name not in paid]
        for rows in self.rows:
            lines: dict[str, list[tuple[str, ...]]] = {}
            for row in rows:
                cells = tuple(values[row] for values in others)
                lines.setdefault(method.values[row], []).append(cells)
            first, *rest = lines.values()
            if rest and all(repeated == first for repeated in rest):
                return rows[0]
        return None
