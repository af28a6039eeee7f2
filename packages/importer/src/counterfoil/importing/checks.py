"""Checks what a mapping says was true of the sample that it was made from, so that a file that differs is noticed.

A void that only a remark shows, an amount with another number of decimals, an empty cell in a column that never had
one, or columns under each other's headings would otherwise come in as wrong money.
"""

import re
from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import Any

from msgspec import Struct

from counterfoil.importing import headings
from counterfoil.importing import values as cell_values
from counterfoil.importing.mapping import REFUND, SALE, SKIP, VOID, CellSource, ImportMapping, StatusRule
from counterfoil.importing.results import ImportFailed, Reason
from counterfoil.importing.sentences import joined, sentence
from counterfoil.importing.sheets import CsvFile, Sheet, TableFile, TableRow, is_damaged
from counterfoil.importing.values import (
    NumberFormat,
    UnreadableCell,
    letters_of,
    number_shape,
    read_decimal,
    shown,
    shown_all,
)

MOST_DECIMALS = 2
"""An amount with more decimals than that may be one with a separator of thousands."""
ROUNDING, LARGEST_COIN = Decimal("0.011"), Decimal(1)
MOST_ROWS, MOST_KNOWN = 500, 10_000


class CheckedColumn(Struct, frozen=True):
    """A column of a sheet that is checked, and the values in it that are known to be right."""

    name: str
    position: int
    known: set[str]


class RowChecks:
    def __init__(self, mapping: ImportMapping) -> None:
        self._mapping = mapping
        self._checks = mapping.checks
        item_name = mapping.line.fields.get("name") if mapping.line else None
        self._item_columns = frozenset(item_name.names() if item_name else ())
        self._columns_of_sheets: dict[int, list[CheckedColumn]] = {}

    def check(self, rows: Sequence[TableRow], *, is_refund: bool) -> None:
        """Raise `RowProblem` if a row of a bill that counts differs from the sample."""
        for row in rows:
            for column in self._columns(row.sheet):
                cell = row.cells[column.position]
                if cell in column.known:
                    continue
                problem = self._problem(column.name, cell, row.sheet, is_refund=is_refund)
                if problem:
                    raise row.problem(Reason.DOUBTFUL_VALUE, problem)
                if len(column.known) < MOST_KNOWN and not is_refund:
                    column.known.add(cell)

    def _columns(self, sheet: Sheet) -> list[CheckedColumn]:
        columns = self._columns_of_sheets.get(id(sheet))
        if columns is None:
            checks = self._checks
            names = [*checks.words, *checks.codes, *checks.filled, *checks.decimals, *checks.half_days]
            names += [*checks.whole, *checks.known, *checks.letters]
            columns = []
            for name in dict.fromkeys(names):
                if name in sheet.columns:
                    columns.append(CheckedColumn(name, sheet.columns[name], set()))
            self._columns_of_sheets[id(sheet)] = columns
        return columns

    def _problem(self, name: str, cell: str, sheet: Sheet, *, is_refund: bool) -> str | None:
        checks = self._checks
        if name in checks.known and self._is_new(cell, checks.known[name]):
            known = " or ".join(shown(value) if value else "empty cells" for value in checks.known[name])
            return sentence(
                "has {cell} in the column {column}, which had only {known} in the sample, so the bill may be no sale, "
                "or its amounts may mean something else. If it counts like the others, add the value to checks.known "
                "in the mapping; otherwise list it in a [[status]] or in [skip]",
                cell=shown(cell) if cell else sentence("nothing"),
                column=shown(name),
                known=known,
            )
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
            return (
                f"has {shown(cell)} in the column {shown(name)}, whose numbers had {decimals} decimals and "
                f"{currencies} in the sample"
            )
        return self._doubt_of_word(name, cell, is_refund=is_refund)

    def _doubt_of_word(self, name: str, cell: str, *, is_refund: bool) -> str | None:
        """Return which word or letters of a value may say that its bill is no sale, unlike in the sample."""
        checks = self._checks
        if cell.casefold() in checks.allowed:
            return None
        if name in checks.letters and not is_refund and letters_of(cell) not in checks.letters[name]:
            known = " or ".join(shown(letters) if letters else "none" for letters in checks.letters[name])
            return sentence(
                "has {cell} in the column {column}, whose numbers had other letters in the sample: {known}. So it may "
                "be no sale, such as a credit note. If it counts like the others, add {letters} to checks.letters in "
                "the mapping, otherwise {cell} to [[status]] or [skip]",
                cell=shown(cell),
                column=shown(name),
                known=known,
                letters=shown(letters_of(cell)),
            )
        word = headings.word_among_codes(cell) if name in checks.codes else ""
        if word and word not in checks.allowed:
            return sentence(
                "has {cell} in the column {column}, which had only codes such as T4 in the sample, or other words, so "
                "that it may be no sale. If it is one, add {word} to checks.allowed in the mapping, otherwise {cell} "
                "to [[status]] or [skip]",
                cell=shown(cell),
                column=shown(name),
                word=shown(word),
            )
        if name not in checks.words:
            return None
        meaning = headings.exception_in(cell, is_item=name in self._item_columns, is_name=headings.names_person(name))
        if not meaning or (meaning == REFUND and is_refund):
            return None
        return sentence(
            "has {cell} in the column {column}, which may mean that it is a {meaning}. If it is a sale, add the value "
            "to checks.allowed in the mapping, otherwise to [[status]] or [skip]",
            cell=shown(cell),
            column=shown(name),
            meaning=meaning,
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


def require_sheets_of_sales(file: TableFile) -> None:
    """Raise `ImportFailed` if one of the sheets that are read together is named after voids or refunds, for example."""
    if isinstance(file, CsvFile) or len(file.titles) == 1:
        return
    for title in file.titles:
        meaning = headings.exception_in(title)
        if meaning:
            raise ImportFailed(
                sentence(
                    "{file} has the sheet {title} with the same columns as others, and its rows may be no sales. Set "
                    "file.sheet in a mapping, or save the sheet that is meant as a file of its own.",
                    file=file.name,
                    title=shown(title),
                )
            )


class ColumnPair(Struct):
    """Two columns, of which the first one had the larger numbers in the sample, and on how many rows it has them."""

    larger: str
    smaller: str
    as_before: int = 0
    otherwise: int = 0


class HeadingCheck:
    """Compares the numbers of columns in the first rows of a file, to notice that their headings were swapped."""

    def __init__(self, mapping: ImportMapping, sheet: Sheet) -> None:
        self._sheet = sheet
        self._pairs: list[ColumnPair] = []
        self._formats: dict[str, NumberFormat] = {}
        self._rows_left = MOST_ROWS
        # Of a column that must be empty or 0, bills with another number are rejected.
        compared = sheet.columns.keys() - {rule.column for rule in mapping.rejects}
        for larger, smaller in mapping.checks.larger:
            if larger in compared and smaller in compared:
                self._pairs.append(ColumnPair(larger, smaller))
                for name in (larger, smaller):
                    mark = mapping.file.decimals.get(name, mapping.numbers.decimal)
                    self._formats[name] = NumberFormat(mark)

    def add(self, row: TableRow) -> None:
        if not self._pairs or not self._rows_left:
            return
        self._rows_left -= 1
        numbers: dict[str, Decimal] = {}
        try:
            for name, number_format in self._formats.items():
                number = read_decimal(row.cells[self._sheet.columns[name]], number_format)
                numbers[name] = abs(number or Decimal())
        except UnreadableCell:
            # It has another decimal mark, for example, and its bill is rejected.
            return
        for pair in self._pairs:
            pair.as_before += numbers[pair.larger] > numbers[pair.smaller]
            pair.otherwise += numbers[pair.larger] < numbers[pair.smaller]

    def finish(self) -> None:
        """Raise `ImportFailed` if one column has smaller numbers than another one, unlike in the sample."""
        for pair in self._pairs:
            if pair.otherwise > max(pair.as_before, 1):
                raise ImportFailed(
                    sentence(
                        "{sheet} has smaller numbers in the column {larger} than in {smaller} on {otherwise} of its "
                        "first {rows} rows, unlike the sample of the mapping. If these headings are over the right "
                        "columns, remove the pair from checks.larger in the mapping.",
                        sheet=self._sheet.name,
                        larger=shown(pair.larger),
                        smaller=shown(pair.smaller),
                        otherwise=f"{pair.otherwise:,}",
                        rows=f"{pair.as_before + pair.otherwise:,}",
                    )
                )


def positive_part(record: dict[str, Any]) -> str | None:
    """Return which part of a bill with a negative total is positive, as in a sale, or None."""
    amounts = record.get("amounts", {})
    if not amounts.get("net", 0) < 0:
        return None
    lines = [line.get("total", 0) for line in record.get("lines", ()) if not line.get("cancelled")]
    parts = {"subtotal": amounts.get("subtotal", 0), "vat": amounts.get("vat", 0), "lines": sum(lines)}
    parts["payments"] = sum(payment.get("amount", 0) - payment.get("change", 0) for payment in record["payments"])
    for name, amount in parts.items():
        if amount > 0:
            return name
    return None


def check_quantities(names: Sequence[str], rows: Sequence[TableRow], record: dict[str, Any], *, is_flat: bool) -> None:
    """Raise `RowProblem` if something was returned, as its quantity says, but was sold, as its amount says."""
    for name in names:
        if is_flat:
            found = any(line.get("qty", 0) < 0 < line.get("total", 0) for line in record.get("lines", ()))
        else:
            found = any(cell_values.is_negative(row.cells[row.sheet.columns[name]]) for row in rows)
        if found:
            raise rows[0].problem(
                Reason.DOUBTFUL_VALUE,
                f"has a negative number in the column {shown(name)}, but a positive amount, so that nothing shows "
                "whether it was paid back. Export what was returned with negative amounts",
            )


def check_equal(cells: Sequence[CellSource], amounts: Sequence[Decimal], row: TableRow, rows: int) -> None:
    """Raise `RowProblem` if amounts of a bill differ that were equal, or the first is not between the two others."""
    left, *others = amounts
    right = min(max(left, min(others)), max(others))
    # Each row may be rounded, and what is paid in cash to a coin that is left.
    columns = row.sheet.columns
    if abs(left - right) > max(ROUNDING * max(rows, 2), min(LARGEST_COIN, abs(left) / 100)):
        right_cell = cells[-1] if right == others[-1] else cells[1]
        raise row.problem(
            Reason.DOUBTFUL_VALUE,
            sentence(
                "has {left} for {columns}, but {right} for {other_columns}. They must be equal (checks.equal in the "
                "mapping). An amount may be wrong, or a heading over another column",
                left=f"{left:,f}",
                columns=text_of(cells[0], columns),
                right=f"{right:,f}",
                other_columns=text_of(right_cell, columns),
            ),
        )


def text_of(source: CellSource, columns: Collection[str]) -> str:
    """Return how the value of a field is computed, as an operator would say it, without columns that are missing."""
    if source.total_of:
        # Its columns may be those of another file.
        return f"the sum of {text_of(source.total_of, source.total_of.names())}"
    parts = []
    for part in source.terms or source.factors:
        if isinstance(part, str):
            parts.append(part)
        elif not part.optional or not part.names() or any(name in columns for name in part.names()):
            parts.append(text_of(part, columns))
    if source.factors:
        return " × ".join(parts)
    if parts:
        return " + ".join(parts).replace("+ -", "- ")
    named = [name for name in source.columns or source.any_of if name in columns]
    text = " or ".join(named or source.columns or source.any_of) or source.constant or ""
    return f"-{text}" if source.negate else text


def format_of_numbers(amounts: Collection[str], name: str) -> NumberFormat:
    """Return how the amounts of a file are written, or raise `ImportFailed` if they do not show it."""
    found = cell_values.format_of_amounts(amounts)
    if found is None:
        example = cell_values.in_thousands_or_not(sorted(amounts))
        raise ImportFailed(
            sentence(
                "{name} has the amount {example}, which may have three decimals or be in thousands. Write a "
                'mapping with a section [numbers], in which decimal is "." if they are decimals, otherwise '
                '",", and use it with --mapping.',
                name=name,
                example=example,
            )
        )
    return found


def require_columns(sheet: Sheet, mapping_name: str, missing: Sequence[str]) -> None:
    """Raise `ImportFailed` if a sheet lacks columns that the mapping needs."""
    if not missing:
        return
    encoding = ""
    if any(map(is_damaged, sheet.columns)):
        encoding = sentence(
            "The header row is not text in the encoding of the mapping, or UTF-8 by default. Set file.encoding, or "
            "save the file in UTF-8."
        )
    problem = sentence(
        "{sheet} has no column {missing}, which the mapping {mapping} names. Its columns are: {columns}.",
        sheet=sheet.name,
        missing=shown_all(missing),
        mapping=mapping_name,
        columns=shown_all(list(sheet.columns)),
    )
    raise ImportFailed(joined(problem, encoding))


def unlisted_status(rule: StatusRule, word: str) -> str | None:
    """Return the status of a value that the mapping does not list, or None if it must be explained."""
    if rule.others in (VOID, REFUND, SKIP):
        return SALE if headings.says_nothing(word) else rule.others
    if rule.others:
        is_sale = not headings.may_be_no_sale(word) and (rule.others == SALE or headings.names_payment(word))
        return SALE if is_sale else None
    if rule.source.prefix or rule.source.sign:
        return None
    [heading, *others] = rule.source.columns
    if not word or others:
        return None
    return headings.status_like(heading, frozenset(rule.values.items()), word)
