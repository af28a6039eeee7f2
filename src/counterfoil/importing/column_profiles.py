"""Describes the columns of a file: whether their values are numbers or dates, and whether they vary within a bill."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from msgspec import Struct

from counterfoil.importing.mapping import FileLayout
from counterfoil.importing.results import ImportFailed, RowProblem
from counterfoil.importing.sheets import BYTE_ORDER_MARKS, NOT_CSV, SAMPLE_BYTES, CsvFile, TableRow
from counterfoil.importing.values import (
    DateFormat,
    NumberFormat,
    UnreadableCell,
    is_order_ambiguous,
    order_evidence,
    read_day,
    read_decimal,
)

SAMPLE_ROWS = 2000
MANY_VALUES = 40
THAI_BYTES = range(0xA1, 0xFC)
_DECIMAL_COMMA = re.compile(r"\d,\d{1,2}\D*$|\.\d{3},\d", re.ASCII)
_DECIMAL_POINT = re.compile(r"\d\.\d{1,2}\D*$|,\d{3}\.\d|\d,\d{3},\d{3}", re.ASCII)


class ColumnProfile(Struct):
    """The values of one column in the first rows of a file."""

    name: str
    values: list[str]

    @property
    def filled(self) -> list[str]:
        return [value for value in self.values if value]

    def is_number(self, written: NumberFormat) -> bool:
        """Return whether nearly all values are numbers."""
        return _share(self.filled, lambda value: read_decimal(value, written) is not None or value == "-")

    def is_date(self) -> bool:
        """Return whether nearly all values begin with a date, in day/month or month/day order."""
        return any(_share(self.filled, partial(_is_day, order)) for order in ("dmy", "mdy"))

    def has_times(self) -> bool:
        return sum(":" in value for value in self.filled) * 2 > len(self.filled)

    def distinct(self) -> list[str]:
        """Return the distinct values, most frequent first, or an empty list if there are too many to be codes."""
        counts = Counter(self.filled)
        return [value for value, _ in counts.most_common()] if len(counts) <= MANY_VALUES else []


class SheetSample(Struct):
    """The first rows of a file."""

    file: CsvFile
    rows: list[TableRow]
    problems: list[RowProblem]
    columns: dict[str, ColumnProfile]
    is_encoding_sure: bool = True
    heading_line: int = 1

    def is_same_within(self, name: str, key: str) -> bool:
        """Return whether the rows of each bill all have the same value in a column."""
        seen: dict[str, str] = {}
        pairs = zip(self.columns[key].values, self.columns[name].values, strict=True)
        return all(seen.setdefault(bill, value) == value for bill, value in pairs)

    def repeats(self, key: str) -> bool:
        values = self.columns[key].filled
        return len(set(values)) < len(values)


def sample_of(path: Path, is_heading: Callable[[Sequence[str]], bool]) -> SheetSample:
    """Read the first rows of a file. `is_heading` recognises the header row."""
    try:
        with path.open("rb") as raw:
            start = raw.read(SAMPLE_BYTES)
    except OSError as error:
        raise ImportFailed(f"cannot read {path}: {error.strerror}") from error
    encoding, is_sure = guess_encoding(start)
    if b"\0" in start and not encoding.startswith("utf-16") and not start.startswith(tuple(NOT_CSV)):
        raise ImportFailed(
            f"{path.name} is not a CSV file, because it contains NUL bytes. Save a spreadsheet as CSV (UTF-8) first."
        )
    file = CsvFile(path, FileLayout(encoding=encoding), lambda headings: is_heading(list(headings)))
    rows: list[TableRow] = []
    problems: list[RowProblem] = []
    for row in islice(file.rows(), SAMPLE_ROWS):
        if isinstance(row, TableRow):
            rows.append(row)
        else:
            problems.append(row)
    columns = {
        name: ColumnProfile(name, [row.cells[position] for row in rows])
        for name, position in file.sheet.columns.items()
    }
    return SheetSample(file, rows, problems, columns, is_sure, file.heading_line)


def guess_encoding(start: bytes) -> tuple[str, bool]:
    """Return the probable encoding of a file that begins with these bytes, and whether the encoding is certain."""
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if start.startswith(mark):
            return encoding, True
    try:
        start.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start >= len(start) - 4 and len(start) == SAMPLE_BYTES:
            # Only the last character cannot be decoded, because the sample ends in the middle of it.
            return "utf-8", True
        high = [byte for byte in start if byte >= 0x80]
        is_thai = sum(byte in THAI_BYTES for byte in high) == len(high)
        return ("cp874" if is_thai else "windows-1252"), False
    return "utf-8", True


def guess_number_format(columns: Sequence[ColumnProfile]) -> tuple[NumberFormat, bool]:
    """Return the number format, and whether the values prove it."""
    commas = sum(bool(_DECIMAL_COMMA.search(value)) for column in columns for value in column.filled)
    points = sum(bool(_DECIMAL_POINT.search(value)) for column in columns for value in column.filled)
    written = NumberFormat(",", ".") if commas > points else NumberFormat()
    return written, bool(commas) != bool(points)


def guess_date_order(values: Sequence[str]) -> str | None:
    """Return the order of day, month and year, or None if the dates are ambiguous or contradict each other."""
    found = {evidence for value in values if (evidence := order_evidence(value))}
    if len(found) == 1:
        return found.pop()
    return None if found or any(is_order_ambiguous(value) for value in values) else "ymd"


def _is_day(order: str, value: str) -> bool:
    return bool(read_day(value, DateFormat(), order))


def _share(values: Sequence[str], is_readable: Callable[[str], bool]) -> bool:
    """Return whether at least 90% of the values can be read, or all but one if there are at least three.

    The one that cannot be read may be in a row of totals.
    """
    if not values:
        return False
    readable = 0
    for value in values:
        try:
            readable += is_readable(value)
        except UnreadableCell:
            continue
    return readable >= 0.9 * len(values) or readable == len(values) - 1 >= 2
