"""Reads CSV files row by row: detects the delimiter, reads the header row, and notes the line where each row begins."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TextIO

from msgspec import Struct

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
}
CANDIDATES = ",;\t|"
SAMPLE_BYTES = 64 * 1024
# The maximum length of a cell. Without a limit, a missing quote could turn the rest of the file into one cell.
MAX_CELL = 1024 * 1024
_LONE = range(0xDC80, 0xDD00)


class Sheet(Struct, frozen=True):
    """A table of the export: its name for messages, and the position of each column."""

    name: str
    columns: dict[str, int]


class TableRow(Struct, frozen=True):
    """A row of a sheet. `line` is the line of the file on which it begins, or its number in the result of a query."""

    sheet: Sheet
    line: int
    cells: list[str]


class CsvFile:
    """A CSV file. The delimiter is detected if the mapping does not set it; `encoding_of` chooses the encoding."""

    def __init__(self, path: Path, encoding: str | None, delimiter: str | None, heading_line: int) -> None:
        self.path = path
        self.name = printable(path.name)
        start = self._start()
        for mark, advice in NOT_CSV.items():
            if start.startswith(mark):
                raise ImportFailed(f"{self.name} {advice}")
        self.encoding = encoding_of(start, encoding)
        self._heading_line = heading_line
        self.delimiter = delimiter or delimiter_of(start.decode(self.encoding, "replace"), heading_line)
        self.sheet = Sheet(self.name, self._columns())

    def rows(self) -> Iterator[TableRow | RowProblem]:
        """Yield the rows below the header row. A row that cannot be read is yielded as a `RowProblem`."""
        csv.field_size_limit(MAX_CELL)
        with self._open() as text:
            for line, cells in self._records(text):
                if line <= self._heading_line or not any(cell.strip() for cell in cells):
                    continue
                yield self._row(line, cells)

    def _row(self, line: int, cells: list[str]) -> TableRow | RowProblem:
        expected = len(self.sheet.columns)
        # Some tills end every row with a delimiter, so empty cells at the end are dropped.
        while len(cells) > expected and not cells[-1].strip():
            cells.pop()
        if len(cells) != expected:
            return RowProblem(BAD_ROW, f"has {len(cells)} cells, but the header row has {expected}", line, self.name)
        if any(is_damaged(cell) for cell in cells):
            return RowProblem(BAD_ROW, f"is not text in the encoding {self.encoding}", line, self.name)
        return TableRow(self.sheet, line, [clean(cell) for cell in cells])

    def _records(self, text: TextIO) -> Iterator[tuple[int, list[str]]]:
        reader = csv.reader(text, delimiter=self.delimiter)
        line = 1
        try:
            for cells in reader:
                yield line, cells
                line = reader.line_num + 1
        except csv.Error as error:
            raise ImportFailed(
                f"{self.name} cannot be read from line {line} on: {error}. A closing quote may be missing."
            ) from error

    def _columns(self) -> dict[str, int]:
        with self._open() as text:
            for line, cells in self._records(text):
                if line >= self._heading_line:
                    names = [clean(cell) for cell in cells]
                    while names and not names[-1]:
                        names.pop()
                    return _numbered(names, self.name)
        raise ImportFailed(f"{self.name} has no header row: it is empty or ends before line {self._heading_line}.")

    def _open(self) -> TextIO:
        errors = "replace" if self.encoding == "utf-16" else "surrogateescape"
        try:
            return self.path.open(encoding=self.encoding, errors=errors, newline="")
        except OSError as error:
            raise ImportFailed(f"cannot read {self.path}: {error.strerror}") from error

    def _start(self) -> bytes:
        try:
            with self.path.open("rb") as raw:
                return _whole_lines(raw)
        except OSError as error:
            raise ImportFailed(f"cannot read {self.path}: {error.strerror}") from error


def _whole_lines(raw: IO[bytes]) -> bytes:
    """Return the start of a file up to the last complete line, so that it does not end in the middle of a character."""
    start = raw.read(SAMPLE_BYTES)
    return start if len(start) < SAMPLE_BYTES else start[: start.rfind(b"\n") + 1] or start


def encoding_of(start: bytes, wanted: str | None) -> str:
    """Return the encoding of a file: from its byte order mark, from the mapping, or UTF-8 by default."""
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if start.startswith(mark):
            return encoding
    return wanted or "utf-8"


def delimiter_of(text: str, heading_line: int) -> str:
    """Return the delimiter that occurs most often in the header row, outside quotes."""
    lines = io.StringIO(text).readlines()
    heading = lines[heading_line - 1] if len(lines) >= heading_line else ""
    outside = "".join(heading.split('"')[::2])
    return max(CANDIDATES, key=outside.count)


def is_damaged(cell: str) -> bool:
    """Return whether a cell contains bytes that are not valid in the file's encoding."""
    if cell.isascii():
        return False
    return any(ord(letter) in _LONE or letter == "\N{REPLACEMENT CHARACTER}" for letter in cell)


def _numbered(names: list[str], file: str) -> dict[str, int]:
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
