"""Reads CSV files and Excel workbooks row by row: finds the header row, and notes the line where each row begins."""

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import TextIO
from zipfile import BadZipFile

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.importing.mapping import FileLayout
from counterfoil.importing.results import ImportFailed, Reason, RowProblem
from counterfoil.importing.sentences import Sentence, sentence
from counterfoil.importing.values import BLANKS, clean, shown
from counterfoil.importing.workbooks import MAX_CELL, MAX_ROW, NoWorkbook, Workbook, WorkbookTooLarge
from counterfoil.model.text import counted, printable

BYTE_ORDER_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
WORKBOOK = b"PK\x03\x04"
# The first bytes of files that are often mistaken for CSV, and what to do with such files.
NOT_CSV = {
    WORKBOOK: sentence("is an Excel workbook or a ZIP archive, not CSV."),
    b"\xd0\xcf\x11\xe0": sentence(
        "is an old Excel workbook (.xls), or has a password. Save it as .xlsx without a password."
    ),
    b"\x1f\x8b": sentence("is compressed with gzip. Unpack it first."),
    b"%PDF": sentence("is a PDF document. Export the bills as CSV."),
    b"<": sentence("is a web page or XML, even if its name ends in .xls. Export the bills as CSV or xlsx."),
    b"{": sentence("is JSON, not a table. Import it without a mapping."),
    b"[": sentence("is JSON, not a table. Import it without a mapping."),
}
CANDIDATES = ",;\t|"
SAMPLE_BYTES = 64 * 1024
HEADING_ROWS = 15
"""The number of rows in which the header row is looked for."""
MAX_COLUMNS = 2000
ROWS_PER_CALL = 200
"""The number of rows between two calls of `on_read`."""
_SEPARATOR_LINE = re.compile(r"\ufeff?\"?sep=(.)\"?\s*", re.IGNORECASE)
MAX_ENDS = 10_000
_LAST_DIGITS = re.compile(r"[^\d\s](\d+)(\D*)$")
_LONE = re.compile("[\udc80-\udcff\N{REPLACEMENT CHARACTER}]")

Fits = Callable[[Collection[str]], bool]
"""Whether a row with these cells is the header row."""
OnRead = Callable[[], None]
"""Called regularly while a file is read. It may raise an exception to stop."""


def ignore_reads() -> None:
    """Let a file be read to its end."""


class Sheet(Struct, frozen=True):
    """A table of the export: its name for messages, and the position of each column."""

    name: str
    columns: dict[str, int]
    is_typed: bool = False
    """Whether numbers and dates have a type, as in a workbook."""
    hidden: tuple[str, ...] = ()
    """The hidden sheets of a workbook that have the same columns, and are not read."""
    written: Mapping[str, str] = {}
    """The headings as the file has them, by the names of the mapping."""

    def shown(self, *columns: str) -> str:
        return " and ".join(shown(self.written.get(name, name)) for name in columns)


class TableRow(Struct, frozen=True):
    """A row of a sheet. `line` is the line of the file on which it begins, or its number in the result of a query."""

    sheet: Sheet
    line: int
    cells: list[str]
    may_be_cut: bool = False
    """Whether the file ends in the last cell of this row, without a line break, so that the cell may be cut off."""

    def problem(self, reason: str, detail: str) -> RowProblem:
        return RowProblem(reason, detail, self.line, self.sheet.name)


class Heading(Struct, frozen=True):
    """The header row of a file, and whether it has the expected columns."""

    line: int
    names: list[str]
    fits: bool
    cells: list[str]
    above: list[str]
    """The texts above it."""

    @property
    def written(self) -> dict[str, str]:
        return dict(zip(self.names, map(clean, self.cells), strict=False))


def open_table(
    path: Path,
    layout: FileLayout = FileLayout(),  # noqa: B008 - frozen
    fits: Fits | None = None,
    on_read: OnRead = ignore_reads,
) -> "TableFile":
    """Open a file. If the layout does not say where the header row is, it is the first of the top rows that fits."""
    is_workbook = start_of(path, len(WORKBOOK)) == WORKBOOK
    return WorkbookFile(path, layout, fits, on_read) if is_workbook else CsvFile(path, layout, fits, on_read)


def open_tables(path: Path, layout: FileLayout, fits: Fits, on_read: OnRead = ignore_reads) -> "list[TableFile]":
    """Open a file, or all sheets of a workbook that have the same columns, such as one for each day."""
    first = open_table(path, layout, fits, on_read)
    if isinstance(first, CsvFile) and not first.encoding.startswith("utf") and _is_in_utf8(start_in_lines(path)):
        raise ImportFailed(
            sentence(
                "{file} is in UTF-8, but file.encoding of the mapping is {encoding}.",
                file=printable(path.name),
                encoding=first.encoding,
            )
        )
    if isinstance(first, CsvFile):
        return [first]
    return [first, *map(first.other_sheet, first.same)]


def start_of(path: Path, size: int) -> bytes:
    try:
        with path.open("rb") as raw:
            return raw.read(size)
    except OSError as error:
        raise ImportFailed(sentence("cannot read {path}: {strerror}", path=path, strerror=error.strerror)) from error


def start_in_lines(path: Path) -> bytes:
    """Return the start of a file up to the last complete line, so that it does not end within a character."""
    start = start_of(path, SAMPLE_BYTES)
    return start if len(start) < SAMPLE_BYTES else start[: max(start.rfind(b"\n"), start.rfind(b"\r")) + 1] or start


class CsvFile:
    """A CSV file. The delimiter is detected if the layout does not set it; `encoding_of` chooses the encoding."""

    same: tuple[str, ...] = ()

    def __init__(self, path: Path, layout: FileLayout, fits: Fits | None, on_read: OnRead) -> None:
        self._path = path
        self._on_read = on_read
        self._name = printable(path.name)
        start = start_in_lines(path)
        for mark, advice in NOT_CSV.items():
            if start.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(mark):
                raise ImportFailed(sentence("{name} {advice}", name=self._name, advice=advice))
        self.encoding = encoding_of(start, layout.encoding)
        lines = start.decode(self.encoding, "replace").splitlines()
        if not any(line.strip("\ufeff \t") for line in lines):
            raise ImportFailed(sentence("{name} is empty.", name=self._name))
        separator = _SEPARATOR_LINE.fullmatch(lines[0])
        self._lines_to_skip = 1 if separator else 0
        self.delimiter = layout.delimiter or (separator[1] if separator else delimiter_of(lines, layout.heading_line))
        heading = self._heading(layout, fits)
        self.heading_line, self.above = heading.line, heading.above
        self.sheet = Sheet(self._name, numbered(heading.names, self._name), written=heading.written)
        self._headings = heading.cells
        """The header row, which some tills repeat on each page."""

    def rows(self) -> Iterator[TableRow | RowProblem]:
        """Yield the rows below the header row. A row that cannot be read is yielded as a `RowProblem`."""
        with self._open() as text:
            rows = self._rows(text)
            yield from self._with_last_row(rows) if self._ends_in_cell() else rows

    def _rows(self, text: TextIO) -> Iterator[TableRow | RowProblem]:
        for record in self._records(text):
            if isinstance(record, RowProblem):
                yield record
            elif record[0] > self.heading_line and any(map(str.strip, record[1])) and record[1] != self._headings:
                yield self._row(*record)

    def _ends_in_cell(self) -> bool:
        with self._path.open("rb") as raw:
            raw.seek(-min(4, self._path.stat().st_size), io.SEEK_END)
            return raw.read().replace(b"\0", b"")[-1:] not in (b"\n", b"\r", b'"')

    def _with_last_row(self, rows: Iterable[TableRow | RowProblem]) -> Iterator[TableRow | RowProblem]:
        """Yield the rows, and mark the last one, unless its last cell ends like all above, as in 65.00 and 120.00."""
        latest: TableRow | RowProblem | None = None
        ends: set[tuple[int, str]] = set()
        for row in rows:
            if latest is not None:
                yield latest
            if isinstance(latest, TableRow) and len(ends) < MAX_ENDS:
                ends.add(_end_of(latest.cells[-1]))
            latest = row
        if isinstance(latest, TableRow):
            end = _end_of(latest.cells[-1])
            lengths = {digits for digits, _ in ends if digits}
            is_alike = end in ends and (end[0] == 0 or (end[0] > 0 and len(lengths) == 1))
            latest = replace(latest, may_be_cut=not is_alike)
        elif latest:
            latest.cells = ()
        if latest is not None:
            yield latest

    def _row(self, line: int, cells: list[str]) -> TableRow | RowProblem:
        expected = len(self.sheet.columns)
        # Some tills end every row with a delimiter, so empty cells at the end are dropped.
        while len(cells) > expected and not cells[-1].strip():
            cells.pop()
        if len(cells) != expected:
            detail = f"has {counted(len(cells), 'cell')}, but the header row has {expected}"
            return RowProblem(Reason.BAD_ROW, detail, line, self._name, [clean(cell) for cell in cells])
        text = "".join(cells)
        if is_damaged(text):
            return RowProblem(Reason.BAD_ROW, f"is not text in the encoding {self.encoding}", line, self._name)
        if ("\n" in text or "\r" in text) and any(self._has_rows(cell, expected) for cell in cells):
            detail = "has a cell that contains whole rows. A closing quote may be missing"
            return RowProblem(Reason.BAD_ROW, detail, line, self._name)
        if '="' in text:
            return TableRow(self.sheet, line, [clean(cell) for cell in cells])
        return TableRow(self.sheet, line, [cell.strip(BLANKS) for cell in cells])

    def _has_rows(self, cell: str, expected: int) -> bool:
        """Return whether a cell has swallowed rows after an open quote: a multiple of the delimiters that a row has."""
        marks = cell.count(self.delimiter)
        return bool(marks) and expected > 1 and marks % (expected - 1) == 0 and len(cell.splitlines()) > 1

    def _records(self, text: TextIO) -> Iterator[tuple[int, list[str]] | RowProblem]:
        """Yield the cells of each record with its first line, or a problem if its quotes are not right."""
        csv.field_size_limit(MAX_CELL)
        lines = _LatestLine(text, self._lines_to_skip, self._name)
        reader = csv.reader(lines, delimiter=self.delimiter, strict=True)
        for number in count():
            if number % ROWS_PER_CALL == 0:
                self._on_read()
            line = self._lines_to_skip + reader.line_num + 1
            lines.row_length = 0
            try:
                yield line, next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                last = self._lines_to_skip + reader.line_num
                if last > line or "end of data" in str(error) or "field larger" in str(error):
                    through = f" through line {last}" if last > line else ""
                    detail = f"cannot be read{through}: a quote is not closed, or the file is cut off"
                    yield RowProblem(Reason.BAD_ROW, detail, line, self._name)
                else:
                    # A till that does not double the quotes within a cell. The row ends where its line ends.
                    yield line, next(csv.reader([lines.latest], delimiter=self.delimiter))

    def _heading(self, layout: FileLayout, fits: Fits | None) -> Heading:
        with self._open() as text:
            records = (record for record in self._records(text) if not isinstance(record, RowProblem))
            found = find_heading(records, layout, fits)
        if found is None:
            raise ImportFailed(
                sentence(
                    "{name} has no header row: it ends before line {line}.",
                    name=self._name,
                    line=layout.heading_line or 1,
                )
            )
        return found

    def _open(self) -> TextIO:
        errors = "replace" if self.encoding.startswith("utf-16") else "surrogateescape"
        return self._path.open(encoding=self.encoding, errors=errors, newline="")


class _LatestLine:
    """Passes lines on, and remembers the latest one. A row may have several lines, but not be longer than `MAX_ROW`."""

    def __init__(self, text: TextIO, lines_to_skip: int, name: str) -> None:
        self._lines = islice(iter(partial(text.readline, MAX_ROW + 1), ""), lines_to_skip, None)
        self._name = name
        self.latest = ""
        self.row_length = 0

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self.latest = line
            self.row_length += len(line)
            if self.row_length > MAX_ROW:
                raise ImportFailed(
                    sentence("{name} has a row of more than 4 MiB, so it is not an export of bills.", name=self._name)
                )
            yield line


class WorkbookFile:
    """A sheet of an Excel workbook (.xlsx): the one that the layout names, or the only visible one that fits.

    Its cells become the texts that a CSV export would contain. A number is read as the spreadsheet shows it, with 15
    significant digits. A longer one has lost digits, so it stays in scientific notation, which neither an ID nor an
    amount may have. Rows are read one by one; only the texts of a workbook are kept in memory.
    """

    def __init__(
        self, path: Path, layout: FileLayout, fits: Fits | None, on_read: OnRead, workbook: Workbook | None = None
    ) -> None:
        self._fits = fits
        self._path = path
        self._on_read = on_read
        self._name = printable(path.name)
        self._layout = layout
        with self._reading():
            self._workbook = workbook or Workbook(path, on_read)
        titles, heading, hidden = self._choose_sheets(fits)
        self._title, self.same = titles[0], tuple(titles[1:])
        """The sheet that is read, and the others that have the same columns."""
        self.heading_line, self.above = heading.line, heading.above
        name = f"{self._name} {self._title}" if self.same or layout.sheet else self._name
        columns = numbered(heading.names, self._name)
        self.sheet = Sheet(name, columns, is_typed=True, hidden=tuple(hidden), written=heading.written)
        self._headings = heading.cells

    def other_sheet(self, title: str) -> "WorkbookFile":
        """Return another sheet of the workbook. The texts that its sheets share are read only once."""
        layout = replace(self._layout, sheet=title)
        return WorkbookFile(self._path, layout, self._fits, self._on_read, self._workbook)

    @property
    def name(self) -> str:
        return self._name

    @property
    def titles(self) -> tuple[str, ...]:
        """The titles of the sheets that are read together."""
        return (self._title, *self.same)

    def rows(self) -> Iterator[TableRow | RowProblem]:
        columns = self.sheet.columns
        width = len(columns)
        marks = [self._layout.decimals.get(name, self._layout.decimal) for name in columns]
        for line, cells in self._cells(self._title, marks):
            if line <= self.heading_line or not any(cells) or cells == self._headings:
                continue
            if len(cells) > width:
                detail = f"has {counted(len(cells), 'cell')}, but the header row has {width}"
                yield RowProblem(Reason.BAD_ROW, detail, line, self._name)
            else:
                yield TableRow(self.sheet, line, cells + [""] * (width - len(cells)))

    def _too_large(self, detail: str) -> ImportFailed:
        return ImportFailed(
            sentence(
                "{name} {detail}, which is too much for a workbook. Save the sheet as CSV (UTF-8).",
                name=self._name,
                detail=detail,
            )
        )

    def _choose_sheets(self, fits: Fits | None) -> tuple[list[str], Heading, list[str]]:
        """Return the sheets with the table, its header row, and the hidden sheets that are like them."""
        sheets = self._workbook.sheets
        titles = list(sheets)
        visible = [title for title, sheet in sheets.items() if sheet.state == "visible"]
        wanted = self._layout.sheet
        if wanted is not None and wanted not in titles:
            raise ImportFailed(
                sentence(
                    "{name} has no sheet {wanted}. Its sheets are: {titles}.",
                    name=self._name,
                    wanted=wanted,
                    titles=", ".join(titles),
                )
            )
        read = visible if wanted is None else [wanted]
        found: dict[str, Heading] = {}
        for title in titles if wanted is None else read:
            with closing(self._cells(title)) as rows:
                heading = find_heading(rows, self._layout, fits)
            if heading:
                found[title] = heading
        fitting = [title for title, heading in found.items() if heading.fits and title in read]
        chosen = fitting or [title for title in found if title in read]
        if not chosen:
            raise ImportFailed(sentence("{name} is empty.", name=self._name))
        if any(found[title].names != found[chosen[0]].names for title in chosen) or (chosen[1:] and not fitting):
            problem = sentence("no sheet with the expected columns")
            if fitting:
                problem = sentence("more than one sheet that fits")
            raise ImportFailed(
                sentence(
                    "{name} has {problem}: {chosen}. Set file.sheet in a mapping, or save the sheet that is meant "
                    "as a file of its own.",
                    name=self._name,
                    problem=problem,
                    chosen=", ".join(chosen),
                )
            )
        hidden = [title for title, one in found.items() if title not in read and one.names == found[chosen[0]].names]
        return chosen, found[chosen[0]], hidden

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except ImportFailed:
            raise
        except NoWorkbook:
            raise ImportFailed(sentence("{name} is a ZIP archive. Unpack it first.", name=self._name)) from None
        except WorkbookTooLarge as error:
            raise self._too_large(error.args[0]) from error
        except BadZipFile as error:
            raise self._damaged(sentence("it does not have the format of a workbook, or its end is missing")) from error
        except MemoryError as error:
            raise self._too_large(sentence("needs more memory than this process may use")) from error
        except Exception as error:
            # A damaged workbook fails with errors of many kinds.
            problem = error.args[0] if error.args and isinstance(error.args[0], Sentence) else str(error)
            raise self._damaged(problem) from error

    def _cells(self, title: str, marks: Sequence[str] = ()) -> Generator[tuple[int, list[str]], None, None]:
        """Yield the number and the texts of each row. `marks` has the decimal mark of each column."""
        with self._reading():
            for number, row in enumerate(self._workbook.rows(title, marks)):
                if number % ROWS_PER_CALL == 0:
                    self._on_read()
                yield row

    def _damaged(self, error: str) -> ImportFailed:
        return ImportFailed(
            sentence(
                "{name} cannot be read as a workbook, so it may be damaged or incomplete: {error}",
                name=self._name,
                error=error,
            )
        )


TableFile = CsvFile | WorkbookFile
"""A file with a table whose header row has been found."""


def _end_of(cell: str) -> tuple[int, str]:
    """Return how many digits follow the last mark of a cell, and what follows them; whole numbers are all different."""
    if cell.isdigit():
        return -1, cell
    found = _LAST_DIGITS.search(cell)
    return (len(found[1]), found[2]) if found else (0, cell)


def find_heading(rows: Iterable[tuple[int, list[str]]], layout: FileLayout, fits: Fits | None) -> Heading | None:
    """Return the header row: that in the layout's line, the first of the top rows that fits, or the first row."""
    first: Heading | None = None
    wanted = layout.heading_line
    above: list[str] = []
    for line, cells in islice(rows, wanted or HEADING_ROWS):
        names = [layout.headings.get(name, name) for name in map(clean, cells)]
        while names and not names[-1]:
            names.pop()
        heading = Heading(line, names, fits is None or fits(names), cells, list(above))
        if line >= wanted if wanted else names and heading.fits:
            return heading
        first = first or (heading if names and not wanted else None)
        above += filter(None, names)
    return first


def is_damaged(text: str) -> bool:
    """Return whether a text of a CSV file has bytes that are not text in the encoding of the file."""
    return not text.isascii() and _LONE.search(text) is not None


def encoding_of(start: bytes, wanted: str | None) -> str:
    """Return the encoding of a file: from its byte order mark, from the mapping, or UTF-8 by default."""
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if start.startswith(mark):
            return encoding
    if wanted in (None, "utf-16") and b"\0" in start[:200]:
        return "utf-16-be" if start[:1] == b"\0" else "utf-16-le"
    return wanted or "utf-8"


def is_in_old_encoding(start: bytes) -> bool:
    """Return whether a file is a text that is not in Unicode."""
    try:
        start.decode(encoding_of(start, None))
    except UnicodeDecodeError:
        return b"\0" not in start and not start.startswith(tuple(NOT_CSV))
    return False


def _is_in_utf8(start: bytes) -> bool:
    """Return whether a text has letters in UTF-8. One or two of another encoding may look the same by chance."""
    return not is_in_old_encoding(start) and len(re.findall(rb"[\xc2-\xf4][\x80-\xbf]+", start)) > 2


def delimiter_of(lines: list[str], heading_line: int | None) -> str:
    """Return the delimiter that occurs equally often in most of the top rows, or in the header row, outside quotes."""
    rows = lines[:HEADING_ROWS] if heading_line is None else lines[heading_line - 1 : heading_line]
    outside = ["".join(row.split('"')[::2]) for row in rows]

    def fit(mark: str) -> tuple[int, int]:
        # Amounts such as 1,450,000 have commas too, but not equally many in each row.
        counts = Counter(count for row in outside if (count := row.count(mark)))
        return max(((number, count) for count, number in counts.items()), default=(0, 0))

    return max(CANDIDATES, key=fit)


def numbered(names: list[str], file: str) -> dict[str, int]:
    """Return the position of each column. A name that occurs again gets a number, as in `Total (2)`."""
    if not names:
        raise ImportFailed(
            sentence("{file} has no header row in the line where one is expected. Set file.headingLine.", file=file)
        )
    if len(names) > MAX_COLUMNS:
        raise ImportFailed(
            sentence(
                "{file} has {count} columns. At most {most} can be read.",
                file=file,
                count=f"{len(names):,}",
                most=f"{MAX_COLUMNS:,}",
            )
        )
    columns: dict[str, int] = {}
    numbers: dict[str, int] = {}
    for position, name in enumerate(names):
        unique, number = name or f"column {position + 1}", numbers.get(name, 1)
        while unique in columns:
            number += 1
            unique = f"{name} ({number})"
        numbers[name] = number
        columns[unique] = position
    return columns
