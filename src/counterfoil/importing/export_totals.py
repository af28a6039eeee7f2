"""Recognises the rows of totals in an export, and compares what they state with the sums of the imported rows.

A total may cover the rows since the last one, since an earlier one (a branch with
subtotals per day) or all rows, with or without voided bills, and count a bill's
own amount once or on each of its rows. Exports differ in this, so a total is
right if one of these sums equals it. A missing or misread row fits none of them.
"""

import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import product

from msgspec import Struct

from counterfoil.importing.mapping import REFUND, SALE, SKIP, VOID, TotalsRule
from counterfoil.importing.results import ExportTotals
from counterfoil.importing.sheets import Sheet, TableRow
from counterfoil.importing.values import EXACT, NumberFormat, UnreadableCell, read_decimal

TOTALS_ROW = "a row of totals"
NOT_COMPARED = "a row of totals that was not compared, because the export has more than 2,000"
NOT_ASSIGNED = "a row of totals that was not compared, because it does not have the columns of the header row"
MAX_TOTALS = 2000
_WORDS = (
    "total|totals|grand total|sub total|subtotal|sub-total|sum|overall|total general|gran total|totales|suma|"
    "suma total|gesamt|gesamtsumme|summe|zwischensumme|total général|sous-total|totale|subtotale|"
    "รวม|รวมทั้งหมด|รวมทั้งสิ้น|ยอดรวม|ยอดรวมทั้งหมด|ยอดรวมทั้งสิ้น|ผลรวม|รวมย่อย|รวมเงิน|"
    "合计|总计|小计|합계|الإجمالي|المجموع"
)
# A label on its own, or with the day that it is for, such as "Total 14/11/2026".
_TOTAL = re.compile(rf"\W*(?:{_WORDS})\W*(?:(?:for|of|per|on|วันที่|ประจำวันที่)?\W*\d[\d\W]*)?", re.IGNORECASE)


class AmountColumn(Struct, frozen=True):
    """A column of numbers that can be summed, and the field that it fills."""

    position: int
    name: str
    field: str
    numbers: NumberFormat
    is_of_bill: bool
    """Whether each row of a bill repeats the number, so that it counts once for a bill."""


class SheetTotals:
    """The rows of totals of one sheet, and the sums of its other rows."""

    def __init__(
        self,
        sheet: Sheet,
        rule: TotalsRule | None,
        amounts: Sequence[AmountColumn],
        *,
        ids: Sequence[int],
        dates: Sequence[int],
        names: Sequence[int],
        has_unnamed_rows: bool,
    ) -> None:
        self._sheet = sheet
        self._rule = rule
        self._amounts = amounts
        self._ids = ids
        self._dates = dates
        self._names = names
        self._has_unnamed_rows = has_unnamed_rows
        self._lines: list[int] = []
        self._stated: list[list[Decimal | None]] = []
        self._stretches: list[_Sums] = [{}]
        """The sums of the rows before the first total, between it and the second one, and so on."""

    def is_total(self, cells: Sequence[str]) -> bool:
        """Return whether a row is one of totals."""
        if self._rule:
            position = None if self._rule.column is None else self._sheet.columns.get(self._rule.column, -1)
            if position is not None:
                return 0 <= position < len(cells) and cells[position].casefold() in self._rule.values
            return any(cell.casefold() in self._rule.values for cell in cells if cell)
        if any(is_total_word(cells[position]) for position in self._names):
            return True
        if not self._ids or any(cells[position] and not is_total_word(cells[position]) for position in self._ids):
            return False
        if any(is_total_word(cell) for cell in cells if cell):
            return True
        filled = [cell for cell in cells if cell]
        return not self._has_unnamed_rows and not any(cells[at] for at in self._dates) and all(map(_is_number, filled))

    @staticmethod
    def is_short_total(cells: Sequence[str]) -> bool:
        """Return whether a row with too few cells is one of totals. Its numbers cannot be assigned to columns."""
        return any(is_total_word(cell) for cell in cells)

    def keep(self, row: TableRow) -> str:
        """Keep a row of totals for the comparison; return why it is not converted."""
        if len(self._lines) >= MAX_TOTALS:
            return NOT_COMPARED
        self._lines.append(row.line)
        self._stated.append(self._numbers(row.cells))
        self._stretches.append({})
        return TOTALS_ROW

    @property
    def is_used(self) -> bool:
        return bool(self._lines)

    def add(self, row: TableRow, status: str, line_status: str, *, is_first: bool) -> None:
        """Add the numbers of a row to the sums. `is_first` says whether it is the first row of its bill."""
        sums = self._stretches[bisect(self._lines, row.line)]
        found = self._numbers(row.cells)
        _add(sums, (line_status, False), found)
        if is_first:
            _add(sums, (status, True), found)

    def compared(self) -> Iterator[ExportTotals]:
        """Yield each total that the export states, with the sum of the rows that it may be for."""
        for number, (line, stated) in enumerate(zip(self._lines, self._stated, strict=True)):
            for index, total in enumerate(stated):
                if total is not None:
                    amount = self._amounts[index]
                    computed = self._computed(number, index, total)
                    yield ExportTotals(self._sheet.name, line, amount.name, amount.field, total, computed)

    def _computed(self, number: int, index: int, stated: Decimal) -> Decimal:
        """Return the sum that equals the stated total, or the most likely one if none does."""
        is_once = self._amounts[index].is_of_bill
        sums: dict[tuple[str, bool], Decimal] = {}
        likely: Decimal | None = None
        for stretch in reversed(self._stretches[: number + 1]):
            for key, numbers in stretch.items():
                sums[key] = EXACT.add(sums.get(key, Decimal()), numbers[index] or 0)
            if stated in _candidates(sums, is_once=False) or (is_once and stated in _candidates(sums, is_once=True)):
                return stated
            if likely is None and sums:
                likely = _candidates(sums, is_once=is_once)[0]
        return likely or Decimal()

    def _numbers(self, cells: Sequence[str]) -> list[Decimal | None]:
        return [_number(cells[amount.position], amount.numbers) for amount in self._amounts]


_Sums = dict[tuple[str, bool], list[Decimal | None]]
"""The sum of each amount by status, over all rows (False) and over the first row of each bill (True)."""


def _add(sums: _Sums, key: tuple[str, bool], numbers: Sequence[Decimal | None]) -> None:
    below = sums.get(key) or [None] * len(numbers)
    sums[key] = [
        one if other is None else EXACT.add(one or Decimal(), other) for one, other in zip(below, numbers, strict=True)
    ]


def _candidates(sums: dict[tuple[str, bool], Decimal], *, is_once: bool) -> list[Decimal]:
    """Return what an export may state as the total of these rows, the most likely sum first."""

    def of(status: str) -> Decimal:
        return sums.get((status, is_once), Decimal())

    # Refunds may be written with either sign, and voided or open bills may be included or not.
    return [
        of(SALE) + sign * of(REFUND) + with_void * of(VOID) + with_skipped * of(SKIP)
        for with_skipped, with_void, sign in product((0, 1), (0, 1), (1, -1))
    ]


def is_total_word(cell: str) -> bool:
    return not cell[:1].isdigit() and bool(_TOTAL.fullmatch(cell))


def _number(cell: str, numbers: NumberFormat) -> Decimal | None:
    try:
        return read_decimal(cell, numbers)
    except UnreadableCell:
        return None


def _is_number(cell: str) -> bool:
    return any(_number(cell, numbers) is not None for numbers in (NumberFormat(), NumberFormat(",", ".")))
