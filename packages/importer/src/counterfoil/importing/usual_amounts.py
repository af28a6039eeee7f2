"""Compares the first rows of a file with the sample: which of two columns is larger, and how large amounts are."""

from decimal import Decimal

from msgspec import Struct

from counterfoil.importing.checks import MOST_ROWS, HeadingCheck
from counterfoil.importing.mapping import ImportMapping
from counterfoil.importing.repeated_rows import DoubledRows
from counterfoil.importing.results import ImportFailed
from counterfoil.importing.sentences import sentence
from counterfoil.importing.sheets import Sheet, TableRow
from counterfoil.importing.usual_hours import HourCheck
from counterfoil.importing.usual_numbers import NumberCheck
from counterfoil.importing.values import NumberFormat, number_in, shown

FEWEST_NEGATIVE, FEWEST_AMOUNTS = 3, 10
MOST_TIMES = 8
"""The amounts of a till are about as large in each file. So many times that is another unit or currency."""


class UsualAmount(Struct):
    """A column of amounts, the median that it had in the sample, and its numbers in this file without 0."""

    name: str
    position: int
    usual: Decimal
    numbers: NumberFormat
    amounts: list[Decimal]


class FirstRows:
    """Checks the first rows of a sheet, before any bill of it is converted."""

    def __init__(self, mapping: ImportMapping, sheet: Sheet) -> None:
        self._sheet = sheet
        self._headings = HeadingCheck(mapping, sheet)
        self._hours = HourCheck(mapping, sheet)
        self._doubled = DoubledRows(mapping, sheet)
        self._numbers = NumberCheck(mapping, sheet)
        self._rows_left = MOST_ROWS
        self._columns: list[UsualAmount] = []
        for name, usual in mapping.checks.usual.items():
            if name in sheet.columns and usual:
                numbers = NumberFormat(mapping.file.decimals.get(name, mapping.numbers.decimal))
                self._columns.append(UsualAmount(name, sheet.columns[name], usual, numbers, []))

    def add(self, row: TableRow) -> None:
        self._headings.add(row)
        if not self._rows_left:
            return
        self._rows_left -= 1
        self._hours.add(row)
        self._doubled.add(row)
        self._numbers.add(row)
        for column in self._columns:
            amount = number_in(row.cells[column.position], column.numbers)
            if amount:
                column.amounts.append(amount)

    def finish(self) -> None:
        """Raise `ImportFailed` if the rows are unlike those of the sample."""
        self._headings.finish()
        self._hours.finish()
        self._doubled.finish()
        self._numbers.finish()
        for column in self._columns:
            self._require_sign(column)
            self._require_size(column)

    def _require_sign(self, column: UsualAmount) -> None:
        others = [amount for amount in column.amounts if (amount < 0) != (column.usual < 0)]
        if len(others) >= FEWEST_NEGATIVE and len(others) * 2 >= len(column.amounts):
            raise ImportFailed(
                sentence(
                    "{sheet} has amounts such as {amount} in the column {column} on {count} of its first {rows} rows, "
                    "but most of the sample have the other sign. If the file has only what was paid back, remove "
                    "the column from checks.usual in the mapping; otherwise export the file again.",
                    sheet=self._sheet.name,
                    amount=f"{others[0]:,f}",
                    column=shown(column.name),
                    count=f"{len(others):,}",
                    rows=f"{len(column.amounts):,}",
                )
            )

    def _require_size(self, column: UsualAmount) -> None:
        sizes = sorted(abs(amount) for amount in column.amounts)
        if len(sizes) < FEWEST_AMOUNTS:
            return
        median, usual = sizes[len(sizes) // 2], abs(column.usual)
        if usual / MOST_TIMES <= median <= usual * MOST_TIMES:
            return
        raise ImportFailed(
            sentence(
                "{sheet} has amounts of about {median} in the column {column}, but the sample had about {usual}. They "
                "may be in another unit or currency. If they are right, set the amount in checks.usual of the "
                "mapping to {median}; otherwise export the file again.",
                sheet=self._sheet.name,
                median=f"{median:,f}",
                column=shown(column.name),
                usual=f"{usual:,f}",
            )
        )
