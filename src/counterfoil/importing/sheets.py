"""Reads the tables of an export row by row: finds the header row, and notes the line where each row begins."""

import csv
import re
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Protocol, TextIO

from msgspec import Struct

from counterfoil.importing.mapping import FileLayout
from counterfoil.importing.results import BAD_ROW, ImportFailed, RowProblem
from counterfoil.importing.values import clean
from counterfoil.text import printable

BYTE_ORDER_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
# The first bytes of files that are often mistaken for CSV, and what to do with such files.
NOT_CSV = {
    b"PK\x03\x04": "is an Excel workbook or a ZIP archive. Save the sheet as CSV (UTF-8) or unpack the archive first.",
    b"\xd0\xcf\x11\xe0": "is an Excel workbook. Save the sheet as CSV (UTF-8) first.",
    b"\x1f\x8b": "is compressed with gzip. Unpack it first.",
    b"%PDF": "is a PDF document. Export the bills as CSV.",
    b"<": "is a web page or XML, even if its name ends in .xls. Export the bills as CSV or xlsx.",
    b"{": "is JSON. Name its format, such as --format square.",
    b"[": "is JSON. Name its format, such as --format square.",
}
CANDIDATES = ",;\t|"
SAMPLE_BYTES = 64 * 1024
HEADING_ROWS = 15
"""The number of rows in which the header row is looked for."""
# The maximum length of a cell. Without a limit, a missing quote could turn the rest of the file into one cell.
MAX_CELL = 1024 * 1024
_SEPARATOR_LINE = re.compile(r"\ufeff?\"?sep=(.)\"?\s*", re.IGNORECASE)
_LONE = re.compile("[\udc80-\udcff\N{REPLACEMENT CHARACTER}]")

Fits = Callable[[Collection[str]], bool]
"""Whether a row with these cells is the header row."""


class Sheet(Struct, frozen=True):
    """A table of the export: its name for messages, and the position of each column."""

    name: str
    columns: dict[str, int]


class TableRow(Struct, frozen=True):
    """A row of a sheet. `line` is the line of the file on which it begins, or its number in the result of a query."""

    sheet: Sheet
    line: int
    cells: list[str]


class TableFile(Protocol):
    """A file with a table whose header row has been found."""

    sheet: Sheet
    heading_line: int

    def rows(self) -> Iterator[TableRow | RowProblem]:
        """Yield the rows below the header row. A row that cannot be read is yielded as a `RowProblem`."""


def open_table(path: Path, layout: FileLayout = FileLayout(), fits: Fits | None = None) -> TableFile:  # noqa: B008 - frozen
    """Open a file. If the layout does not say where the header row is, it is the first of the top rows that fits."""
    return CsvFile(path, layout, fits)


class CsvFile:
    """A CSV file. The delimiter is detected if the layout does not set it; `encoding_of` chooses the encoding."""

    def __init__(self, path: Path, layout: FileLayout, fits: Fits | None = None) -> None:
        self._path = path
        self._name = printable(path.name)
        start = self._start()
        for mark, advice in NOT_CSV.items():
            if start.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(mark):
                raise ImportFailed(f"{self._name} {advice}")
        self.encoding = encoding_of(start, layout.encoding)
        lines = start.decode(self.encoding, "replace").splitlines()
        if not any(line.strip("\ufeff \t") for line in lines):
            raise ImportFailed(f"{self._name} is empty.")
        separator = _SEPARATOR_LINE.fullmatch(lines[0])
        self._lines_to_skip = 1 if separator else 0
        self.delimiter = layout.delimiter or (separator[1] if separator else delimiter_of(lines, layout.heading_line))
        self._headings = layout.headings
        self.heading_line, names = self._heading(layout.heading_line, fits)
        self.sheet = Sheet(self._name, numbered(names, self._name))

    def rows(self) -> Iterator[TableRow | RowProblem]:
        with self._open() as text:
            for record in self._records(text):
                if isinstance(record, RowProblem):
                    yield record
                elif record[0] > self.heading_line and any(map(str.strip, record[1])):
                    yield self._row(*record)

    def _row(self, line: int, cells: list[str]) -> TableRow | RowProblem:
        expected = len(self.sheet.columns)
        # Some tills end every row with a delimiter, so empty cells at the end are dropped.
        while len(cells) > expected and not cells[-1].strip():
            cells.pop()
        if len(cells) != expected:
            detail = f"has {len(cells)} cells, but the header row has {expected}"
            return RowProblem(BAD_ROW, detail, line, self._name, [clean(cell) for cell in cells])
        text = "".join(cells)
        if not text.isascii() and _LONE.search(text):
            return RowProblem(BAD_ROW, f"is not text in the encoding {self.encoding}", line, self._name)
        if ("\n" in text or "\r" in text) and any(self._has_rows(cell, expected) for cell in cells):
            detail = "has a cell that contains whole rows. A closing quote may be missing"
            return RowProblem(BAD_ROW, detail, line, self._name)
        return TableRow(self.sheet, line, [clean(cell) for cell in cells])

    def _has_rows(self, cell: str, expected: int) -> bool:
        """Return whether a cell with line breaks may have swallowed rows, because a quote was not closed.

        Only if it has swallowed a multiple of the delimiters of a row, its own row still has the right number of cells.
        """
        count = cell.count(self.delimiter)
        return bool(count) and expected > 1 and count % (expected - 1) == 0 and len(cell.splitlines()) > 1

    def _records(self, text: TextIO) -> Iterator[tuple[int, list[str]] | RowProblem]:
        """Yield the cells of each record with its first line, or a problem if its quotes are not right."""
        csv.field_size_limit(MAX_CELL)
        lines = _LatestLine(islice(text, self._lines_to_skip, None))
        reader = csv.reader(lines, delimiter=self.delimiter, strict=True)
        while True:
            line = self._lines_to_skip + reader.line_num + 1
            try:
                yield line, next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                last = self._lines_to_skip + reader.line_num
                if last > line or "end of data" in str(error) or "field larger" in str(error):
                    through = f" through line {last}" if last > line else ""
                    detail = f"cannot be read{through}: a quote is not closed, or the file is cut off"
                    yield RowProblem(BAD_ROW, detail, line, self._name)
                else:
                    # A till that does not double the quotes within a cell. The row ends where its line ends.
                    yield line, next(csv.reader([lines.latest], delimiter=self.delimiter))

    def _heading(self, wanted: int | None, fits: Fits | None) -> tuple[int, list[str]]:
        """Return the line of the header row, and its cells."""
        first: tuple[int, list[str]] | None = None
        with self._open() as text:
            for row_number, record in enumerate(self._records(text)):
                if isinstance(record, RowProblem):
                    continue
                line, names = record[0], [self._headings.get(name, name) for name in map(clean, record[1])]
                while names and not names[-1]:
                    names.pop()
                if wanted is not None and line >= wanted:
                    return line, names
                if wanted is None and names:
                    if fits is None or fits(names):
                        return line, names
                    first = first or (line, names)
                if wanted is None and row_number >= HEADING_ROWS:
                    break
        if first is None:
            raise ImportFailed(f"{self._name} has no header row: it ends before line {wanted or 1}.")
        return first

    def _open(self) -> TextIO:
        errors = "replace" if self.encoding.startswith("utf-16") else "surrogateescape"
        try:
            return self._path.open(encoding=self.encoding, errors=errors, newline="")
        except OSError as error:
            raise ImportFailed(f"cannot read {self._path}: {error.strerror}") from error

    def _start(self) -> bytes:
        """Return the start of the file up to the last complete line, so that it does not end within a character."""
        try:
            with self._path.open("rb") as raw:
                start = raw.read(SAMPLE_BYTES)
        except OSError as error:
            raise ImportFailed(f"cannot read {self._path}: {error.strerror}") from error
        return start if len(start) < SAMPLE_BYTES else start[: max(start.rfind(b"\n"), start.rfind(b"\r")) + 1] or start


class _LatestLine:
    """Passes lines on, and remembers the latest one."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self.latest = ""

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self.latest = line
            yield line


def encoding_of(start: bytes, wanted: str | None) -> str:
    """Return the encoding of a file: from its byte order mark, from the mapping, or UTF-8 by default."""
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if start.startswith(mark):
            return encoding
    if wanted in (None, "utf-16") and b"\0" in start[:200]:
        return "utf-16-be" if start[:1] == b"\0" else "utf-16-le"
    return wanted or "utf-8"


def delimiter_of(lines: list[str], heading_line: int | None) -> str:
    """Return the delimiter that occurs most often in the header row, or in one of the top rows, outside quotes."""
    rows = lines[:HEADING_ROWS] if heading_line is None else lines[heading_line - 1 : heading_line]
    outside = ["".join(row.split('"')[::2]) for row in rows]
    return max(CANDIDATES, key=lambda mark: max((row.count(mark) for row in outside), default=0))


def numbered(names: list[str], file: str) -> dict[str, int]:
    """Return the position of each column. A name that occurs again gets a number, as in `Total (2)`."""
    if not names:
        raise ImportFailed(f"{file} has no header row in the line where one is expected. Set file.headingLine.")
    columns: dict[str, int] = {}
    for position, name in enumerate(names):
        unique, number = name or f"column {position + 1}", 1
        while unique in columns:
            number += 1
            unique = f"{name} ({number})"
        columns[unique] = position
    return columns
