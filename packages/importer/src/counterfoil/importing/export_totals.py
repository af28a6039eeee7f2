"""Recognises the rows of totals in an export, and compares what they state with the sums of the imported rows.

A total may cover the rows since the last one, since an earlier one (a branch with subtotals per day) or all rows, with
or without voided bills, and count a bill's own amount once or on each of its rows. Exports differ in this, so a total
is right if one of these sums equals it. A missing or misread row fits none of them.
"""

import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from decimal import Decimal

from msgspec import Struct, field

from counterfoil.importing.mapping import REFUND, SALE, SKIP, VOID, TotalsRule
from counterfoil.importing.results import ExportTotals
from counterfoil.importing.sentences import sentence
from counterfoil.importing.sheets import Sheet, TableRow
from counterfoil.importing.values import EXACT, STATISTICS, TOTAL_WORDS, DateFormat, NumberFormat, day_in, number_in

TOTALS_ROW = sentence("a row of totals")
NOT_COMPARED = sentence("a row of totals that was not compared, because the export has more than 2,000")
NO_ROW = sentence("a line of text, or a row of another table, beside the table of the bills")
MAX_TOTALS = 2000
MAX_TRIED = 50_000
"""The number of sums of earlier rows that are tried for all totals of a sheet. Only wrong totals need that many."""
# A label on its own, or with the day that it is for, such as "Total 14/11/2026". "Total 0%" is a product.
_DAY = r"\d{1,4}([/.-])\d{1,2}\1\d{1,4}\W*"
_TOTAL = re.compile(rf"\W*(?:{'|'.join(TOTAL_WORDS)})\W*(?:(?:for|of|per|on|วันที่|ประจำวันที่)?\W*{_DAY})?", re.IGNORECASE)
# A number with a word after it: "Grand Total (12 bills)", "Sum 14 Nov".
_COUNTED = re.compile(
    rf"\W*(?:[^\W\d]+ )?(?:{'|'.join(TOTAL_WORDS)})(?!\w)[^\d]*[\s(]\d[\d.,]*\s+[^\W\d]{{2}}\D*", re.IGNORECASE
)
_TOTAL_WORD = re.compile(rf"(?<!\w)(?:{'|'.join(TOTAL_WORDS)})(?!\w)", re.IGNORECASE)
_STATISTIC = re.compile(rf"\W*(?:{'|'.join(STATISTICS)})\W*", re.IGNORECASE)
_CAPTION = re.compile(r"[^\W\d]{2,}\.? |[^\W\d] [^\W\d]")

_Sums = dict[tuple[str, bool], list[Decimal | None]]
"""The sum of each amount by status, over all rows (False) and over the first row of each bill (True)."""


class AmountColumn(Struct, frozen=True):
    """A column of numbers that can be summed, and the field that it fills."""

    position: int
    name: str
    field: str
    numbers: NumberFormat
    is_of_bill: bool
    """Whether each row of a bill repeats the number, so that it counts once for a bill."""


class SheetTotals(Struct):
    """The rows of totals of one sheet, and the sums of its other rows."""

    sheet: Sheet
    rule: TotalsRule | None
    amounts: list[AmountColumn]
    ids: list[int]
    numbers: list[int]
    """The columns of the ID without that of the shop and the till, which rows of totals may have too."""
    dates: list[int]
    names: list[int]
    has_unnamed_rows: bool
    rows: int = 0
    lines: list[int] = []
    stated: list[list[Decimal | None]] = []
    stretches: list[_Sums] = field(default_factory=lambda: [{}])
    """The sums of the rows before the first total, between it and the second one, and so on."""
    tried: int = 0

    def is_total(self, cells: Sequence[str]) -> bool:
        if self.rule:
            return self._is_selected(self.rule, cells)
        if any(is_total_word(cells[position]) for position in self.names) or self._is_statistic(cells):
            return True
        if not self._has_no_id(cells):
            return False
        labels = [cells[position] for position in (*self.ids, *self.dates)]
        is_labelled = any(cells[position] for position in self.numbers) or any(map(is_total_label, labels))
        return is_labelled or any(is_total_word(cell) for cell in cells if cell)

    def _is_selected(self, rule: TotalsRule, cells: Sequence[str]) -> bool:
        """Return whether a row has one of the values of the mapping's rule."""
        if rule.column is None:
            return any(cell.casefold() in rule.values for cell in cells if cell)
        position = self.sheet.columns.get(rule.column)
        if position is None or position >= len(cells):
            return False
        return cells[position].casefold() in rule.values

    def may_be_total(self, cells: Sequence[str]) -> bool:
        """Return whether a row has only numbers. It is one of totals, or a line of the bill before it."""
        if self.rule or self.has_unnamed_rows or not self._has_no_id(cells):
            return False
        is_unnamed = not any(cells[position] for position in (*self.dates, *self.names))
        return is_unnamed and all(_is_number(cell) for cell in cells if cell)

    def is_no_row(self, cells: Sequence[str]) -> bool:
        """Return whether a row is a line of text, such as a number of a page, or below the table."""
        filled = [position for position, cell in enumerate(cells) if cell]
        if len(filled) == 1 and filled[0] in (*self.ids, *self.dates) and is_caption(cells[filled[0]]):
            return True
        ids = [cells[position] for position in self.ids if position < len(cells)]
        has_number = any(map(str.isdigit, "".join(ids)))
        return bool(self.dates) and not has_number and is_other_table(cells, len(self.sheet.columns))

    def _has_no_id(self, cells: Sequence[str]) -> bool:
        numbers = [cells[position] for position in self.numbers]
        return bool(numbers) and all(not cell or is_total_label(cell) for cell in numbers)

    def _is_statistic(self, cells: Sequence[str]) -> bool:
        """Return whether a row has a label such as `Average`, and neither a number nor a day."""
        labels = [cells[position] for position in (*self.numbers, *self.dates) if cells[position]]
        return bool(self.dates and labels) and all(map(is_statistic, labels))

    def keep(self, row: TableRow) -> str:
        """Keep a row of totals for the comparison; return why it is not converted."""
        if self._is_statistic(row.cells):
            return NO_ROW
        if len(self.lines) >= MAX_TOTALS:
            return NOT_COMPARED
        at = bisect(self.lines, row.line)
        self.lines.insert(at, row.line)
        self.stated.insert(at, self._numbers(row.cells))
        self.stretches.append({})
        return TOTALS_ROW

    def add(self, row: TableRow, status: str, line_status: str, *, is_first: bool) -> None:
        """Add the numbers of a row to the sums. `is_first` says whether it is the first row of its bill."""
        self.rows += 1
        sums = self.stretches[bisect(self.lines, row.line)]
        found = self._numbers(row.cells)
        _add(sums, (line_status, False), found)
        if is_first:
            _add(sums, (status, True), found)

    def is_sum(self, row: TableRow) -> bool:
        """Return whether all numbers of a row that was kept are sums of the rows before it."""
        if self.rows <= 1 and not self.names:
            # The only row before it may just have the same numbers.
            return False
        found = [total for total in self.compared() if total.line == row.line]
        return bool(found) and all(total.stated == total.computed for total in found)

    def compared(self) -> Iterator[ExportTotals]:
        """Yield each total that the export states, with the sum of the rows that it may be for."""
        all_rows: _Sums = {}
        for number, (line, stated) in enumerate(zip(self.lines, self.stated, strict=True)):
            for key, numbers in self.stretches[number].items():
                _add(all_rows, key, numbers)
            for index, total in enumerate(stated):
                if total is not None:
                    amount = self.amounts[index]
                    computed = self._computed(number, index, total, all_rows)
                    yield ExportTotals(self.sheet.name, line, amount.name, amount.field, total, computed)

    def _computed(self, number: int, index: int, stated: Decimal, all_rows: _Sums) -> Decimal:
        """Return the sum that equals the stated total, or the most likely one if none does or too many were tried."""
        is_once = self.amounts[index].is_of_bill
        sums: dict[tuple[str, bool], Decimal] = {}
        likely: Decimal | None = None
        sums_of_all = {key: numbers[index] or Decimal() for key, numbers in all_rows.items()}
        if _fits(stated, sums_of_all, is_once=is_once):
            return stated
        for stretch in reversed(self.stretches[: number + 1]):
            for key, numbers in stretch.items():
                sums[key] = EXACT.add(sums.get(key, Decimal()), numbers[index] or 0)
            if _fits(stated, sums, is_once=is_once):
                return stated
            if likely is None and sums:
                likely = _candidates(sums, is_once=is_once)[0]
            self.tried += 1
            if self.tried > MAX_TRIED:
                break
        return _candidates(sums_of_all, is_once=is_once)[0] if likely is None else likely

    def _numbers(self, cells: Sequence[str]) -> list[Decimal | None]:
        return [number_in(cells[amount.position], amount.numbers) for amount in self.amounts]


def _add(sums: _Sums, key: tuple[str, bool], numbers: Sequence[Decimal | None]) -> None:
    """Add numbers to the sums of a status. What no row has stays None."""
    added = list(sums.get(key) or [None] * len(numbers))
    for index, number in enumerate(numbers):
        if number is not None:
            added[index] = EXACT.add(added[index] or Decimal(), number)
    sums[key] = added


def _candidates(sums: dict[tuple[str, bool], Decimal], *, is_once: bool) -> list[Decimal]:
    """Return what an export may state as the total of these rows, the most likely sum first."""
    sales = sums.get((SALE, is_once), Decimal())
    # Refunds may be written with either sign, and voided or open bills may be included or not.
    refunds = sums.get((REFUND, is_once))
    found = [sales + refunds, sales - refunds] if refunds else [sales]
    for status in (VOID, SKIP):
        others = sums.get((status, is_once))
        if others:
            found += [total + others for total in found]
    return found


def _fits(stated: Decimal, sums: dict[tuple[str, bool], Decimal], *, is_once: bool) -> bool:
    return stated in _candidates(sums, is_once=False) or (is_once and stated in _candidates(sums, is_once=True))


def is_caption(cell: str) -> bool:
    return bool(_CAPTION.search(cell)) and not has_day(cell)


def is_other_table(cells: Sequence[str], width: int) -> bool:
    """Return whether a row begins with a label, and has too few cells and no day: it is below the bills."""
    is_labelled = bool(cells and cells[0]) and not any(map(str.isdigit, cells[0]))
    return is_labelled and len(cells) < width and not any(map(has_day, cells))


def has_day(cell: str) -> bool:
    return any(day_in(cell, DateFormat(serial=True), order) for order in ("dmy", "mdy"))


def is_total_word(cell: str) -> bool:
    return not cell[:1].isdigit() and bool(_TOTAL.fullmatch(cell))


def is_total_label(cell: str) -> bool:
    """Return whether a cell in the place of a bill's number is a label such as `Daily total`: numbers have digits."""
    is_text = not any(map(str.isdigit, cell)) and bool(_TOTAL_WORD.search(cell))
    return is_text or is_total_word(cell) or bool(_COUNTED.fullmatch(cell))


def is_statistic(cell: str) -> bool:
    return bool(_STATISTIC.fullmatch(cell))


def _is_number(cell: str) -> bool:
    return any(number_in(cell, numbers) is not None for numbers in (NumberFormat(), NumberFormat(",", ".")))
