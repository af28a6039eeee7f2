"""Reads Excel workbooks (.xlsx) row by row. Whoever writes a workbook cannot make this fill the memory.

The parts of a workbook are parsed in pieces, and no tree of their elements is built. A document type, with which a few
lines stand for gigabytes, is refused in every part. What is counted is counted when it begins.
"""

import posixpath
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from sys import getsizeof
from typing import Any, TypeVar
from xml.parsers import expat

from msgspec import Struct

from counterfoil.importing.sentences import sentence
from counterfoil.importing.values import NO_RESULT, clean

# A workbook that unpacks to more than this is refused, because a few kilobytes could then fill the memory. What is read
# of a part is never more than the directory of the archive says.
MAX_UNPACKED, MAX_RATIO, ALWAYS_ALLOWED_BYTES = 256 * 1024 * 1024, 250, 16 * 1024 * 1024
MAX_PARTS = 1000
MAX_ELEMENTS, MAX_SHEET_ELEMENTS, MAX_OTHER_ELEMENTS = 8_000_000, 20_000_000, 4_000_000
"""The maximum numbers of elements of a part, of a sheet, and of those in a sheet that are no rows and cells."""
MAX_DEPTH = 100
MAX_NAMES = 1_000
"""The maximum number of names of elements and attributes in a part, all of which the parser keeps in memory."""
MAX_STRINGS_BYTES = 128 * 1024 * 1024
"""The maximum memory for the texts that the cells of a workbook share."""
MAX_FORMATS, MAX_FORMAT_LENGTH = 65_536, 1_000
# The maximum length of a cell, and of all cells of a row.
MAX_CELL, MAX_ROW = 1024 * 1024, 4 * 1024 * 1024
MAX_WITHOUT_ELEMENT = 2 * 1024 * 1024
"""The maximum length in which no element begins. The parser keeps a tag or a comment in memory until it is complete."""
MAX_SHEET_ROWS, MAX_ROW_CELLS = 1_048_576, 16_384
"""The maximum numbers of rows and columns that Excel allows. Rows before that number may be missing."""
MAX_SHEET_CELLS = 64_000_000
"""The maximum number of cells of a sheet, with the empty ones to the left of others."""
ROUNDED_FROM = 10**15
"""A spreadsheet keeps 15 digits of a number."""
PIECE_BYTES = 16 * 1024

_NOT_A_DATE = "#VALUE!"
# What Excel writes in place of characters that XML does not allow or changes.
_ESCAPES = {"_x0009_": "\t", "_x000A_": "\n", "_x000D_": "\r", "_x005F_": "_"}
_ESCAPED = re.compile("|".join(_ESCAPES), re.IGNORECASE)
_BEFORE_1900_03, _FIRST_DAYS = datetime(1899, 12, 30), 60  # noqa: DTZ001 - cells of a workbook have no zone
_EPOCH_1904 = datetime(1904, 1, 1)  # noqa: DTZ001 - as above
DAY_MS = 86_400_000

# The formats of dates that have only a number. Those from 27 on are used in East Asia, those from 71 on in Thailand.
_DATES = "yyyy-mm-dd"
_TIMES = "hh:mm:ss"
_DATES_AND_TIMES = "yyyy-mm-dd hh:mm"
_KNOWN_FORMATS = {
    **dict.fromkeys((*range(14, 18), *range(27, 32), 36, *range(50, 55), 57, 58, *range(71, 75), 81), _DATES),
    **dict.fromkeys((18, 19, 20, 21, *range(32, 36), 45, 47, 55, 56, 75, 76, 78, 80), _TIMES),
    **dict.fromkeys((22, 77), _DATES_AND_TIMES),
    **dict.fromkeys((46, 79), "[h]:mm:ss"),
}
_LITERALS = re.compile(r'"[^"]*"|\[(?!hh?\]|mm?\]|ss?\])[^\]]*\]')
_OF_A_DATE = re.compile(r"(?<![_\\])[dmhys]", re.IGNORECASE)
_OF_A_DURATION = re.compile(r"\[(?:hh?|mm?|ss?)\]", re.IGNORECASE)
# The parts of a format such as "INV-"0000: a text in quotes, a character after a backslash, the width of a character,
# a colour or a locale, a digit, and characters that stand for themselves.
_FORMAT_PARTS = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|(?P<skipped>[_*].|\[[^\]]*\])|(?P<plain>.)', re.DOTALL
)
_CONDITION = re.compile(r"\[[<>=]")
_PLAIN_LITERALS = " -+/():"
DIGIT = ""
_COLUMN = re.compile(r"([A-Z]{1,3})\d*")

OnRead = Callable[[], None]
ParserOfPart = TypeVar("ParserOfPart", bound="_Parser")


class WorkbookTooLarge(Exception):
    """A workbook is larger than any export of bills. The message says what it has too much of."""


class NoWorkbook(Exception):
    """An archive contains no workbook."""


class CellFormat(Struct, frozen=True):
    """How the number of a cell is shown, as far as it matters to what the cell means."""

    is_date: bool = False
    is_duration: bool = False
    shows_time: bool = False
    padded: tuple[str, ...] = ()
    """The texts in a format that writes zeros before a whole number, such as 000-000. An empty one is a digit."""


GENERAL = CellFormat()


class SheetPart(Struct, frozen=True):
    """A sheet of a workbook: the name of its part in the archive, and whether it is `visible`."""

    part: str
    state: str


class Workbook:
    """The sheets, texts and formats of a workbook. The rows of a sheet are read from the file when they are needed."""

    def __init__(self, path: Path, on_read: OnRead) -> None:
        self._path = path
        self._on_read = on_read
        with zipfile.ZipFile(path) as archive:
            self._names = {_normal(name): name for name in archive.namelist()}
            if not any(name.startswith("xl/") for name in self._names):
                raise NoWorkbook
            self._check(archive, path.stat().st_size)
            part = self._workbook_part(archive)
            folder, name = posixpath.split(part)
            relations = self._read(archive, f"{folder}/_rels/{name}.rels", _Relations(folder)).found
            content = self._read(archive, part, _Content())
            self._is_1904 = content.is_1904
            self.sheets = _sheets(content.sheets, relations)
            strings, styles = (
                next((target for kind, target in relations.values() if kind == wanted), f"{folder}/{wanted}.xml")
                for wanted in ("sharedStrings", "styles")
            )
            self._strings = self._read(archive, strings, _Strings(), may_be_missing=True).found
            self._formats = self._read(archive, styles, _Styles(), may_be_missing=True).formats()

    def rows(self, title: str, marks: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
        """Yield the number and the texts of each row of a sheet. `marks` has the decimal mark of each column."""
        latest = cells = length = 0
        with zipfile.ZipFile(self._path) as archive:
            sheet = _Sheet(self._strings)
            for _ in self._pieces(archive, self.sheets[title].part, sheet):
                for line, found in sheet.taken():
                    if line <= latest:
                        raise ValueError(sentence("row {line} comes after row {latest}", line=line, latest=latest))
                    latest = line
                    texts = self._texts(found, marks)
                    cells += len(texts)
                    length += sum(map(len, texts))
                    if cells > MAX_SHEET_CELLS:
                        raise WorkbookTooLarge(sentence("has more than {most} cells", most=f"{MAX_SHEET_CELLS:,}"))
                    if length > MAX_UNPACKED:
                        raise WorkbookTooLarge(sentence("has more than 256 MiB of text"))
                    yield line, texts

    def _texts(self, found: "list[_Cell]", marks: Sequence[str]) -> list[str]:
        texts: list[str] = []
        for cell in found:
            text = self._text(cell, marks[cell.at] if cell.at < len(marks) else ".")
            if text:
                texts += [*[""] * (cell.at - len(texts)), text]
        return texts

    def _text(self, cell: "_Cell", mark: str) -> str:
        """Return the text of a cell. A number has the decimal mark that the mapping expects in its column."""
        text = cell.text
        if not text:
            return NO_RESULT if cell.has_formula else ""
        match cell.kind:
            case "n":
                shown = self._formats[cell.style] if 0 <= cell.style < len(self._formats) else GENERAL
                if shown.is_date:
                    return self._moment(float(text), shown)
                return _number(text, shown.padded, mark)
            case "b":
                return "true" if text.strip() in ("1", "true") else "false"
            case "d":
                shown = self._formats[cell.style] if 0 <= cell.style < len(self._formats) else GENERAL
                return _written_moment(text, shown)
            case _:
                return text

    def _moment(self, number: float, shown: CellFormat) -> str:
        """Return the time, the day or the duration that a number stands for."""
        try:
            if shown.is_duration:
                # As a time, 25:30 is in the night after a day of business.
                minutes, seconds = divmod(round(timedelta(days=number).total_seconds()), 60)
                return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
            days, part = divmod(number, 1)
            after_midnight = timedelta(milliseconds=round(part * DAY_MS))
            if 0 <= number < 1 and not after_midnight.days:
                return (_BEFORE_1900_03 + after_midnight).time().isoformat()
            epoch = _EPOCH_1904 if self._is_1904 else _BEFORE_1900_03
            if epoch is _BEFORE_1900_03 and 0 < number < _FIRST_DAYS:
                days += 1
            return _shown_moment(epoch + timedelta(days=days) + after_midnight, shown)
        except (OverflowError, ValueError):
            return _NOT_A_DATE

    # --- the archive ----------------------------------------------------------------------

    def _workbook_part(self, archive: zipfile.ZipFile) -> str:
        """Return the name of the part that lists the sheets."""
        found = self._read(archive, "_rels/.rels", _Relations(""), may_be_missing=True).found
        parts = [target for kind, target in found.values() if kind == "officeDocument"]
        return parts[0] if parts else "xl/workbook.xml"

    def _check(self, archive: zipfile.ZipFile, size: int) -> None:
        """Refuse an archive that does not fit in memory, and a document type in any part."""
        parts = archive.infolist()
        unpacked = sum(part.file_size for part in parts)
        if unpacked > MAX_UNPACKED or unpacked > max(MAX_RATIO * size, ALWAYS_ALLOWED_BYTES):
            raise WorkbookTooLarge(sentence("unpacks to {size} MiB", size=f"{unpacked / 1024**2:,.0f}"))
        if len(parts) > MAX_PARTS:
            raise WorkbookTooLarge(sentence("has {parts} parts", parts=f"{len(parts):,}"))
        # Python unpacks other compressions without a limit, and Excel does not use them.
        if any(part.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for part in parts):
            raise ValueError(sentence("its compression is not that of a workbook"))
        for part in parts:
            self._on_read()
            with archive.open(part) as content:
                _Start().check(content.read(PIECE_BYTES))

    def _read(
        self, archive: zipfile.ZipFile, part: str, parser: ParserOfPart, *, may_be_missing: bool = False
    ) -> ParserOfPart:
        """Parse a part, and return the parser with what it has found."""
        if not may_be_missing or _normal(part) in self._names:
            for _ in self._pieces(archive, part, parser):
                pass
        return parser

    def _pieces(self, archive: zipfile.ZipFile, part: str, parser: "_Parser") -> Iterator[None]:
        """Parse a part, and yield after each piece."""
        if _normal(part) not in self._names:
            raise ValueError(sentence("it has no part {part}", part=part))
        with archive.open(self._names[_normal(part)]) as content:
            while piece := content.read(PIECE_BYTES):
                self._on_read()
                parser.parse(piece)
                yield
        parser.end()
        yield


def _normal(name: str) -> str:
    """Return the name of a part as it is compared: without regard to case."""
    return name.replace("\\", "/").casefold()


def _sheets(listed: Sequence[tuple[str, str, str]], relations: dict[str, tuple[str, str]]) -> dict[str, SheetPart]:
    """Return the sheets with cells by their titles."""
    found: dict[str, SheetPart] = {}
    for title, state, relation in listed:
        kind, target = relations.get(relation, ("", ""))
        if kind == "worksheet":
            found[title] = SheetPart(target, state)
    if len({sheet.part for sheet in found.values()}) < len(found):
        raise ValueError(sentence("two of its sheets are the same part"))
    return found


# --- the parts ----------------------------------------------------------------------------


class _Parser:
    """Parses a part of the archive in pieces. Subclasses are told which elements begin and end, without namespaces."""

    def __init__(self, max_elements: int | None = None) -> None:
        self._max_elements = max_elements or MAX_ELEMENTS
        self._expat = expat.ParserCreate()
        self._expat.StartDoctypeDeclHandler = self._refuse
        self._expat.EntityDeclHandler = self._refuse
        self._expat.StartElementHandler = self._start
        self._expat.EndElementHandler = self._end
        self._local_names: dict[str, str] = {}
        self._depth = self._elements = self._without_element = 0

    def parse(self, piece: bytes) -> None:
        self._expat.Parse(piece, False)  # noqa: FBT003 - its parameter has no name
        self._without_element += len(piece)
        if self._without_element > MAX_WITHOUT_ELEMENT:
            raise WorkbookTooLarge(sentence("has a text or a tag of more than 2 MiB"))
        if len(self._expat.intern) > MAX_NAMES:
            raise WorkbookTooLarge(
                sentence("has more than {most} names of elements and attributes in one part", most=f"{MAX_NAMES:,}")
            )

    def end(self) -> None:
        self._expat.Parse(b"", True)  # noqa: FBT003 - as above

    def started(self, name: str, attributes: dict[str, str]) -> None:
        """Take the beginning of an element."""

    def ended(self, name: str) -> None:
        """Take the end of an element."""

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._without_element = 0
        self._elements += 1
        self._depth += 1
        if self._elements > self._max_elements:
            raise WorkbookTooLarge(
                sentence("has more than {most} elements in one part", most=f"{self._max_elements:,}")
            )
        if self._depth > MAX_DEPTH:
            raise WorkbookTooLarge(sentence("has more than {most} elements in each other", most=MAX_DEPTH))
        self.started(self._local_name(name), attributes)

    def _end(self, name: str) -> None:
        self._depth -= 1
        self.ended(self._local_name(name))

    def _local_name(self, name: str) -> str:
        local = self._local_names.get(name)
        if local is None:
            local = name.rpartition(":")[2]
            if len(self._local_names) < MAX_DEPTH:
                self._local_names[name] = local
        return local

    def _refuse(self, *_: Any) -> None:
        raise ValueError(sentence("it declares a document type or entities, which no spreadsheet does"))


class _Start(_Parser):
    """The start of a part. Only before its first element can there be a document type."""

    def check(self, start: bytes) -> None:
        """Raise `ValueError` if the start of a part has a document type."""
        try:
            self.parse(start)
        except expat.ExpatError:
            # A picture is no XML at all.
            return
        if len(start) == PIECE_BYTES and not self._elements:
            raise ValueError(sentence("it has a part that begins with a very long comment or tag"))


class _Relations(_Parser):
    """The parts that a part refers to, by their IDs there: the kind and the name of each."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder
        self.found: dict[str, tuple[str, str]] = {}

    def started(self, name: str, attributes: dict[str, str]) -> None:
        if name != "Relationship" or attributes.get("TargetMode") == "External":
            return
        if len(self.found) >= MAX_PARTS:
            raise WorkbookTooLarge(sentence("refers to more than {most} parts", most=f"{MAX_PARTS:,}"))
        kind = attributes.get("Type", "").rpartition("/")[2]
        target = posixpath.normpath(posixpath.join("/", self._folder, attributes.get("Target", "")))
        self.found[attributes.get("Id", "")] = kind, target.removeprefix("/")


class _Content(_Parser):
    """The part that lists the sheets: title, state and the ID of the relation of each."""

    def __init__(self) -> None:
        super().__init__()
        self.is_1904 = False
        self.sheets: list[tuple[str, str, str]] = []

    def started(self, name: str, attributes: dict[str, str]) -> None:
        if name == "workbookPr":
            self.is_1904 = attributes.get("date1904") in ("1", "true")
        if name == "sheet":
            if len(self.sheets) >= MAX_PARTS:
                raise WorkbookTooLarge(sentence("has more than {most} sheets", most=f"{MAX_PARTS:,}"))
            relation = next((value for key, value in attributes.items() if key.endswith(":id")), "")
            self.sheets.append((attributes.get("name", ""), attributes.get("state", "visible"), relation))


class _TextParser(_Parser):
    """A part with texts. `collect` begins one, and `collected` returns it."""

    def __init__(self, max_elements: int | None = None) -> None:
        super().__init__(max_elements)
        self._pieces: list[str] | None = None
        self._text_length = 0

    def collect(self) -> None:
        if self._pieces is None:
            self._pieces, self._text_length = [], 0
        self._expat.CharacterDataHandler = self._add

    def pause(self) -> None:
        self._expat.CharacterDataHandler = None

    def collected(self) -> str:
        pieces, self._pieces = self._pieces, None
        self.pause()
        return "".join(pieces) if pieces else ""

    def _add(self, text: str) -> None:
        self._text_length += len(text)
        if self._text_length > MAX_CELL:
            raise WorkbookTooLarge(sentence("has a text of more than 1 MiB"))
        if self._pieces is not None:
            self._pieces.append(text)


class _Strings(_TextParser):
    """The texts that cells share."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._size = 0
        self._is_reading_aloud = False

    def started(self, name: str, attributes: dict[str, str]) -> None:  # noqa: ARG002 - the same for all parts
        if name == "rPh":
            # How a Japanese text is read aloud is not a part of it.
            self._is_reading_aloud = True
        elif name == "t" and not self._is_reading_aloud:
            self.collect()

    def ended(self, name: str) -> None:
        if name == "t":
            self.pause()
        elif name == "rPh":
            self._is_reading_aloud = False
        elif name == "si":
            text = plain(self.collected())
            self._size += getsizeof(text) + 8
            if self._size > MAX_STRINGS_BYTES:
                raise WorkbookTooLarge(sentence("has more than 128 MiB of texts"))
            self.found.append(text)


class _Styles(_Parser):
    """The formats of numbers: those that the workbook defines, and which one each style of cells has."""

    def __init__(self) -> None:
        super().__init__()
        self._codes: dict[int, str] = {}
        self._styles: list[int] = []
        self._is_of_cells = False

    def started(self, name: str, attributes: dict[str, str]) -> None:
        if name == "cellXfs":
            self._is_of_cells = True
        elif name == "xf" and self._is_of_cells:
            self._styles.append(int(attributes.get("numFmtId", 0)))
        elif name == "numFmt":
            code = attributes.get("formatCode", "")
            self._codes[int(attributes["numFmtId"])] = code if len(code) <= MAX_FORMAT_LENGTH else ""
        if len(self._styles) > MAX_FORMATS or len(self._codes) > MAX_FORMATS:
            raise WorkbookTooLarge(sentence("has more than {most} formats", most=f"{MAX_FORMATS:,}"))

    def ended(self, name: str) -> None:
        if name == "cellXfs":
            self._is_of_cells = False

    def formats(self) -> list[CellFormat]:
        """Return the format of each style."""
        codes = {**_KNOWN_FORMATS, **self._codes}
        return [cell_format(codes.get(number, "")) for number in self._styles]


class _Cell(Struct):
    """A cell that has begun. `at` counts columns from 0."""

    at: int
    kind: str
    style: int
    text: str = ""
    has_formula: bool = False


class _Sheet(_TextParser):
    """The rows of a sheet, as they are completed."""

    def __init__(self, strings: Sequence[str]) -> None:
        super().__init__(MAX_SHEET_ELEMENTS)
        self._others = 0
        self._strings = strings
        self._rows: list[tuple[int, list[_Cell]]] = []
        self._is_data = self._is_inline = self._is_reading_aloud = False
        self._line = self._row_length = 0
        self._at = -1
        self._row: list[_Cell] | None = None
        self._cell: _Cell | None = None

    def taken(self) -> list[tuple[int, list[_Cell]]]:
        """Return the rows that have been completed since the last call."""
        rows, self._rows = self._rows, []
        return rows

    def started(self, name: str, attributes: dict[str, str]) -> None:
        if self._cell is not None:
            self._started_in_cell(name)
        elif name == "c" and self._row is not None:
            self._start_cell(attributes)
        elif name == "row" and self._is_data:
            self._start_row(attributes)
        elif name == "sheetData":
            self._is_data = True
        else:
            self._count_other()

    def _count_other(self) -> None:
        self._others += 1
        if self._others > MAX_OTHER_ELEMENTS:
            raise WorkbookTooLarge(
                sentence("has more than {most} elements that are no rows and cells", most=f"{MAX_OTHER_ELEMENTS:,}")
            )

    def _start_row(self, attributes: dict[str, str]) -> None:
        if self._row is not None:
            raise ValueError(sentence("row {line} contains another row", line=self._line))
        number = attributes.get("r")
        self._line = int(float(number)) if number else self._line + 1
        if self._line > MAX_SHEET_ROWS:
            raise WorkbookTooLarge(sentence("has a row with a number above {most}", most=f"{MAX_SHEET_ROWS:,}"))
        self._row, self._at, self._row_length = [], -1, 0

    def _start_cell(self, attributes: dict[str, str]) -> None:
        name = attributes.get("r")
        at = _column(name) if name else self._at + 1
        if at <= self._at:
            raise ValueError(sentence("the cells of row {line} are not in order", line=self._line))
        if at >= MAX_ROW_CELLS:
            raise WorkbookTooLarge(sentence("has a row of more than {most} cells", most=f"{MAX_ROW_CELLS:,}"))
        self._at = at
        self._cell = _Cell(at, attributes.get("t", "n"), int(attributes.get("s", 0)))

    def _started_in_cell(self, name: str) -> None:
        assert self._cell is not None  # noqa: S101 - the caller has checked it
        if name == "v":
            if self._pieces is not None:
                raise ValueError(sentence("a cell of row {line} has two values", line=self._line))
            self.collect()
        elif name == "f":
            self._cell.has_formula = True
        elif name == "is":
            self._is_inline = True
        elif name == "rPh":
            self._is_reading_aloud = True
        elif name == "t" and self._is_inline and not self._is_reading_aloud:
            self.collect()
        elif name in ("c", "row"):
            raise ValueError(sentence("a cell of row {line} contains another one", line=self._line))
        else:
            self._count_other()

    def ended(self, name: str) -> None:
        if self._cell is not None:
            if name in ("v", "t"):
                self.pause()
            elif name == "rPh":
                self._is_reading_aloud = False
            elif name == "is":
                self._is_inline = False
            elif name == "c":
                self._end_cell(self._cell)
                self._cell = None
        elif name == "row" and self._row is not None:
            self._rows.append((self._line, self._row))
            self._row = None
        elif name == "sheetData":
            self._is_data = False

    def _end_cell(self, cell: _Cell) -> None:
        text = self.collected()
        if cell.kind == "s" and text:
            number = int(text)
            if not 0 <= number < len(self._strings):
                raise ValueError(
                    sentence("a cell of row {line} has a text that the workbook does not contain", line=self._line)
                )
            text = self._strings[number]
        elif cell.kind in ("str", "inlineStr", "e"):
            text = plain(text)
        cell.text = text
        self._row_length += len(text)
        if self._row_length > MAX_ROW:
            raise WorkbookTooLarge(sentence("has a row of more than 4 MiB"))
        # A cell that only has a colour says nothing.
        if (text or cell.has_formula) and self._row is not None:
            self._row.append(cell)


# --- the texts of cells -------------------------------------------------------------------


def plain(text: str) -> str:
    """Return a text of a workbook without surrounding spaces and with the characters that Excel escapes."""
    if "_x" in text or "_X" in text:
        text = _ESCAPED.sub(lambda found: _ESCAPES[f"_x{found[0][2:].upper()}"], text)
    return clean(text)


@lru_cache(maxsize=MAX_ROW_CELLS)
def _column(name: str) -> int:
    """Return the number of the column of a cell such as AB12, counted from 0."""
    found = _COLUMN.fullmatch(name.upper())
    if found is None:
        raise ValueError(sentence("{name} is not the name of a cell", name=repr(name[:40])))
    number = 0
    for letter in found[1]:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1


def _number(text: str, padded: Sequence[str], mark: str) -> str:
    """Return a number as the spreadsheet shows it: with 15 digits, and the zeros that its format writes before it."""
    number = float(text)
    if abs(number) >= ROUNDED_FROM:
        return f"{number:.15g}"
    exact = Decimal(f"{number:.15g}")
    if padded and number.is_integer():
        return _padded(int(number), padded)
    return format(exact, "f").replace(".", mark)


def _padded(number: int, parts: Sequence[str]) -> str:
    """Return a whole number in a format such as 000-000. The first digit of the format takes all that are left."""
    digits = f"{abs(number):0{parts.count(DIGIT)}}"
    first = parts.index(DIGIT)
    shown: list[str] = []
    for position in range(len(parts) - 1, -1, -1):
        if position == first:
            shown.append(digits)
        elif parts[position] == DIGIT:
            shown.append(digits[-1])
            digits = digits[:-1]
        else:
            shown.append(parts[position])
    sign = "-" if number < 0 else ""
    return (sign + "".join(reversed(shown))).strip()


@lru_cache(maxsize=1024)
def cell_format(code: str) -> CellFormat:
    """Return what a format code such as `dd/mm/yyyy` or `0000` says about its cells."""
    first, *others = code.split(";")
    bare = _LITERALS.sub("", first)
    if _OF_A_DATE.search(bare):
        is_duration = _OF_A_DURATION.search(first) is not None
        return CellFormat(is_date=True, is_duration=is_duration, shows_time="h" in bare.lower())
    return CellFormat(padded=() if others or _CONDITION.search(code) else _padding(first))


def _padding(code: str) -> tuple[str, ...]:
    """Return the digits and texts of a format that only writes zeros before whole numbers, or nothing."""
    parts: list[str] = []
    for found in _FORMAT_PARTS.finditer(code):
        if found["plain"] is None:
            literal = found["quoted"] or found["escaped"] or ""
            parts += [literal] if literal else []
        elif found["plain"] == "0":
            parts.append(DIGIT)
        elif found["plain"] in _PLAIN_LITERALS:
            parts.append(found["plain"])
        elif found["plain"] != "#" or DIGIT in parts:
            return ()
    return tuple(parts) if parts.count(DIGIT) > 1 else ()


def _written_moment(text: str, shown: CellFormat) -> str:
    """Return a day or a time that a cell has as text in ISO-8601."""
    written = text.strip().removesuffix("Z")
    try:
        return _shown_moment(datetime.fromisoformat(written).replace(tzinfo=None), shown)
    except ValueError:
        return time.fromisoformat(written.removeprefix("T")).isoformat()


def _shown_moment(moment: datetime, shown: CellFormat) -> str:
    """Return a time as ISO-8601, or only its day if the cell shows no time and it is midnight."""
    is_day = moment.time() == time() and not shown.shows_time
    day: date = moment.date()
    return day.isoformat() if is_day else moment.isoformat()
