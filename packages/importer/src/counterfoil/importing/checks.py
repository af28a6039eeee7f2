"""Checks what a mapping says was true of the sample that it was made from, so that a file that differs is noticed.

A void that only a remark shows, an amount with another number of decimals, an empty cell in a column that never had
one, or columns under each other's headings would otherwise come in as wrong money.
"""

import re
from collections.abc import Collection, Sequence
from datetime import date, timedelta
from decimal import Decimal

from counterfoil.importing import headings
from counterfoil.importing import values as cell_values
from counterfoil.importing.mapping import REFUND, CellSource, ImportMapping
from counterfoil.importing.results import ImportFailed, Reason, message
from counterfoil.importing.sheets import Sheet, TableRow
from counterfoil.importing.values import NumberFormat, UnreadableCell, day_in, number_shape, read_decimal, shown

MOST_DECIMALS = 2
"""An amount with more decimals than that may be one with a separator of thousands."""
ROUNDING, LARGEST_COIN = Decimal("0.011"), Decimal(1)
# If day and month are swapped, the days of a file are months away from each other, or from those of the sample.
MOST_ROWS, MOST_KNOWN = 500, 10_000
SPREAD, FAR, NEAR, SOON = timedelta(days=28), timedelta(days=14), timedelta(days=31), timedelta(days=3)


class RowChecks:
    def __init__(self, mapping: ImportMapping) -> None:
        self._mapping = mapping
        self._checks = mapping.checks
        name = mapping.line.fields.get("name") if mapping.line else None
        self._items = frozenset(name.names() if name else ())
        self._columns: dict[int, list[tuple[str, int, set[str]]]] = {}
        """The columns of each sheet that are checked, and the values of each that are known to be right."""

    def check(self, rows: Sequence[TableRow], *, is_refund: bool) -> None:
        """Raise `RowProblem` if a row of a bill that counts differs from the sample."""
        for row in rows:
            columns = self._columns.get(id(row.sheet))
            if columns is None:
                checks = self._checks
                others = (checks.codes, checks.filled, checks.decimals, checks.half_days, checks.whole, checks.known)
                names = dict.fromkeys(name for names in (checks.words, *others) for name in names)
                places = [(name, row.sheet.columns[name]) for name in names if name in row.sheet.columns]
                columns = self._columns[id(row.sheet)] = [(name, place, set()) for name, place in places]
            for name, place, known in columns:
                cell = row.cells[place]
                if cell not in known:
                    if problem := self._problem(name, cell, row.sheet, is_refund=is_refund):
                        raise row.problem(Reason.DOUBTFUL_VALUE, problem)
                    if len(known) < MOST_KNOWN and not is_refund:
                        known.add(cell)

    def _problem(self, name: str, cell: str, sheet: Sheet, *, is_refund: bool) -> str | None:
        checks = self._checks
        if name in checks.known and self._is_new(cell, checks.known[name]):
            known = " or ".join(shown(value) if value else "empty cells" for value in checks.known[name])
            return message("unknown_value", cell=shown(cell) if cell else "nothing", name=shown(name), known=known)
        if not cell:
            text = f"has nothing in the column {shown(name)}, which had a number on all rows of the sample"
            return text if name in checks.filled else None
        if name in checks.half_days and not cell_values.has_half_day(cell) and not sheet.is_typed:
            return f"has {shown(cell)} in the column {shown(name)}, but all times of the sample have AM or PM"
        if name in checks.whole and re.search(r"\d[.,]\d", cell):
            return f"has {shown(cell)} in the column {shown(name)}, whose numbers are converted from another unit"
        # The numbers of a workbook have a type, so that their marks cannot be mistaken.
        if name in checks.decimals and not sheet.is_typed and not self._has_shape(name, cell):
            decimals = " or ".join(map(str, sorted(checks.decimals[name])))
            currencies = " or ".join(sorted(checks.currencies)) or "no currency"
            values = {"decimals": decimals, "currencies": currencies}
            return message("decimals_differ", cell=shown(cell), name=shown(name), **values)
        if cell.casefold() in checks.allowed:
            return None
        word = headings.word_among_codes(cell) if name in checks.codes else ""
        if word and word not in checks.allowed:
            return (
                f"has {shown(cell)} in the column {shown(name)}, which had only "
                "codes such as T4 in the sample, or other words, so that it may be no sale. If it "
                f"is one, add {shown(word)} to checks.allowed in the mapping, otherwise "
                f"{shown(cell)} to [[status]] or [skip]"
            )
        if name not in checks.words:
            return None
        meaning = headings.exception_in(cell, is_item=name in self._items, is_name=headings.names_person(name))
        if not meaning or (meaning == REFUND and is_refund):
            return None
        return (
            f"has {shown(cell)} in the column {shown(name)}, which may mean "
            f"that it is a {meaning}. If it is a sale, add the value to checks.allowed in the "
            "mapping, otherwise to [[status]] or [skip]"
        )

    def _is_new(self, cell: str, known: Collection[str]) -> bool:
        """Return whether a value may change the meaning of a bill. In a column that was empty, a remark does not."""
        is_text = not re.search(r"\d", cell) or re.search(r"[^\W\d_]\s|\s[^\W\d_]", cell)
        is_remark = is_text and len(cell) > headings.LONGEST_CODE and headings.flag_of(cell) is None
        if not any(known) and (headings.is_placeholder(cell) or is_remark):
            return False
        folded = {*self._checks.allowed, *map(str.casefold, known)}
        return cell.casefold() not in folded and not headings.are_names([*known, cell])

    def _has_shape(self, name: str, cell: str) -> bool:
        mark = self._mapping.file.decimals.get(name, self._mapping.numbers.decimal)
        decimals, has_thousands, currency = number_shape(cell, mark)
        known = self._checks.decimals[name]
        if currency and currency not in self._checks.currencies:
            return False
        if not decimals and 0 not in known and cell.strip("0"):
            # The file may have cents instead of units.
            return False
        return decimals in known or (decimals <= MOST_DECIMALS and not (has_thousands and 0 not in known))


class HeadingCheck:
    """Compares the numbers of columns in the first rows of a file, to notice that their headings were swapped."""

    def __init__(self, mapping: ImportMapping, sheet: Sheet) -> None:
        self._sheet = sheet
        # Of a column that must be empty or 0, bills with another number are rejected.
        known = sheet.columns.keys() - {rule.column for rule in mapping.rejects}
        self._pairs = {pair: [0, 0] for pair in mapping.checks.larger if known.issuperset(pair)}
        self._formats = {
            name: NumberFormat(mark)
            for pair in self._pairs
            for name in pair
            if (mark := mapping.file.decimals.get(name, mapping.numbers.decimal))
        }
        self._rows_left = MOST_ROWS

    def add(self, row: TableRow) -> None:
        if not self._pairs or not self._rows_left:
            return
        self._rows_left -= 1
        try:
            numbers = {
                name: abs(read_decimal(row.cells[self._sheet.columns[name]], form) or Decimal())
                for name, form in self._formats.items()
            }
        except UnreadableCell:
            # It has another decimal mark, for example, and its bill is rejected.
            return
        for (larger, smaller), counts in self._pairs.items():
            counts[0] += numbers[larger] > numbers[smaller]
            counts[1] += numbers[larger] < numbers[smaller]

    def finish(self) -> None:
        """Raise `ImportFailed` if one column has smaller numbers than another one, unlike in the sample."""
        for (larger, smaller), (as_before, otherwise) in self._pairs.items():
            if otherwise > max(as_before, 1):
                names = {"sheet": self._sheet.name, "larger": shown(larger), "smaller": shown(smaller)}
                raise ImportFailed(message("headings_swapped", count=otherwise, rows=as_before + otherwise, **names))


def check_equal(cells: Sequence[CellSource], amounts: Sequence[Decimal], row: TableRow, rows: int) -> None:
    """Raise `RowProblem` if amounts of a bill differ that were equal, or the first is not between the two others."""
    left, *others = amounts
    right = min(max(left, min(others)), max(others))
    # Each row may be rounded, and what is paid in cash to a coin that is left.
    if abs(left - right) > max(ROUNDING * max(rows, 2), min(LARGEST_COIN, abs(left) / 100)):
        one, other = text_of(cells[0]), text_of(cells[-1 if right == others[-1] else 1])
        raise row.problem(
            Reason.DOUBTFUL_VALUE,
            (
                f"has {left:,f} for {one}, but {right:,f} for {other}. They must "
                "be equal (checks.equal in the mapping). An amount may be wrong, or a heading over "
                "another column"
            ),
        )


def text_of(source: CellSource) -> str:
    """Return how the value of a field is computed, as an operator would say it."""
    if source.total_of:
        return f"the sum of {text_of(source.total_of)}"
    parts = [part if isinstance(part, str) else text_of(part) for part in source.terms or source.factors]
    if parts:
        return (" × " if source.factors else " + ").join(parts).replace("+ -", "- ")
    return ("-" if source.negate else "") + (" or ".join(source.columns or source.any_of) or source.constant or "")


def probable_order(cells: Collection[str], dates: cell_values.DateFormat, today: date | None) -> str | None:
    """Return the order of day and month if the days of a file are improbable in the other one."""
    days, swapped = ([day for cell in cells if (day := day_in(cell, dates, order))] for order in ("dmy", "mdy"))
    if not cells or len(days) < len(cells) or len(swapped) < len(cells):
        return None
    return "mdy" if _is_excluded(days, swapped, today) else "dmy" if _is_excluded(swapped, days, today) else None


def _is_excluded(days: Sequence[date], swapped: Sequence[date], today: date | None) -> bool:
    """Return whether days are in the future or far from each other, unlike those in the other order."""
    is_future = today is not None and max(days) > today + timedelta(days=1) >= max(swapped)
    return is_future or max(days) - min(days) >= max(SPREAD, 4 * (max(swapped) - min(swapped)))


def improbable_days(
    cells: Collection[str], dates: cell_values.DateFormat, order: str, today: date | None, known: Sequence[str]
) -> dict[str, str]:
    """Return the days of a file if they are improbable, unlike those in the other order of day and month."""
    # Two digits at the start may be the day or the year.
    other = "mdy" if order == "dmy" else "dmy"
    days, swapped = ([day for cell in cells if (day := day_in(cell, dates, one))] for one in (order, other))
    if not days or len(swapped) < len(cells) or days == swapped:
        return {}
    is_far = False
    if known:
        first, last = date.fromisoformat(known[0]), date.fromisoformat(known[-1])
        is_far = max(days) < first - FAR and first - NEAR <= min(swapped) and max(swapped) <= last + NEAR
    # A file arrives soon after its last day.
    is_late = today is not None and max(days) < today - FAR and today - SOON <= max(swapped) <= today
    if not (_is_excluded(days, swapped, today) or is_far or is_late):
        return {}
    texts = [" to ".join(sorted({str(min(found)), str(max(found))})) for found in (days, swapped)]
    return {"days": texts[0], "order": order, "others": texts[1], "other": other}
