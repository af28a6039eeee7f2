"""Describes the columns of a sample: what their headings say, and whether their values are numbers, dates or times."""

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import cached_property, partial
from itertools import islice
from pathlib import Path

from counterfoil.importing import headings, sheets
from counterfoil.importing import values as cell_values
from counterfoil.importing.export_totals import is_other_table, is_total_label
from counterfoil.importing.mapping import FileLayout
from counterfoil.importing.results import ImportFailed, RowProblem, message
from counterfoil.importing.values import COMMA, POINT, DateFormat, NumberFormat, UnreadableCell, number_in, read_decimal

SAMPLE_ROWS = 20_000
MOST_ROWS_OF_BILL = 500
MANY_VALUES = 40
NUMBER_ROLES = headings.AMOUNT_ROLES | {"qty", "unitPrice", "wayOfPaying"}
# A voucher that is taken off is no payment, and what a platform keeps, or the tax on that, no charge of the customer.
_TAKEN_OFF = {"wayOfPaying": "discount"} | dict.fromkeys(set(headings.CHARGES) - {"rounding"}, "fee")
DATE_ROLES = frozenset({"datetime", "tradingDay"})
_NUMBER_LIKE = re.compile(r"[^\d]{0,6}\d[\d.,'’ \u00a0\u202f]*[^\d]{0,6}")
_HAS_MARK = re.compile("[:.]")
_COMPACT_CLOCK = re.compile(r"\d{3,6}", re.ASCII)
_EPOCH = re.compile(r"1\d{9}(?:\d{3})?(?:\.\d+)?", re.ASCII)
# A letter and one decimal are a number of a bill and its part, as in R1001.1.
_DECIMALS = re.compile(r"^[\W\d].*[.,]0?[1-9]|[.,](0[1-9]|[1-9]\d)(?!\d)")
_SERIAL = re.compile(r"[3-6]\d{4}(?:[.,]\d+)?", re.ASCII)
ANY_CENTURY = DateFormat(is_any_century=True)


class SampleColumn:
    """A column of the sample. `values` has a cell for each row."""

    def __init__(self, name: str, values: list[str], numbers: NumberFormat = POINT) -> None:
        self.name = name
        self.values = values
        self.numbers = numbers
        self.matches = headings.roles_of(name)
        self.is_taken_off = False
        """Whether the numbers have the sign opposite to that of the totals."""

    def with_values(self, values: list[str]) -> "SampleColumn":
        column = SampleColumn(self.name, values, self.numbers)
        column.is_taken_off, column.matches = self.is_taken_off, self.matches
        return column

    @cached_property
    def filled(self) -> list[str]:
        return [value for value in self.values if value]

    @cached_property
    def _data(self) -> Counter[str]:
        """How often each value occurs, without the labels of rows of totals."""
        return Counter({value: count for value, count in Counter(self.filled).items() if not is_total_label(value)})

    @cached_property
    def is_number(self) -> bool:
        return _share(self._data, lambda value: read_decimal(value, self.numbers) is not None or value == "-")

    @property
    def continues_heading(self) -> bool:
        """Whether the heading is a number above numbers, or a date above dates, so that it is none."""
        above = SampleColumn("", [self.name], self.numbers)
        return (above.is_date and self.is_date) or (above.is_number and self.is_number)

    @cached_property
    def is_whole(self) -> bool:
        """Whether no number is written with decimals or separators."""
        return not any(re.search(r"\d[.,]\d", value) for value in self.distinct)

    @property
    def has_amounts(self) -> bool:
        """Whether the heading is that of an amount, or all values are numbers, and not only a dash."""
        has_digits = all(any(map(str.isdigit, value)) for value in self.distinct if not headings.is_placeholder(value))
        return (self.is_number and has_digits) or self.is_named_as_amount

    @property
    def is_named_as_amount(self) -> bool:
        return self.may_be(*NUMBER_ROLES) and (self.is_number or not self.filled)

    def may_be(self, *roles: str) -> bool:
        """Return whether the heading may have one of these roles, whatever the values are."""
        return any(match.role in roles for match in self.matches)

    @cached_property
    def is_date(self) -> bool:
        """Whether nearly all values begin with a date, in day/month or month/day order."""
        return any(_share(self._data, partial(day_of, order=order)) for order in ("dmy", "mdy"))

    @cached_property
    def is_serial(self) -> bool:
        """Whether all values are numbers by which Excel writes days."""
        return bool(self._data) and all(_SERIAL.fullmatch(value) for value in self._data)

    @cached_property
    def is_epoch(self) -> bool:
        """Whether all values are seconds or milliseconds since 1970."""
        return bool(self._data) and all(_EPOCH.fullmatch(value) for value in self._data)

    @property
    def is_like_an_id(self) -> bool:
        """Whether most values have digits and occur only a few times, but are not amounts or dates."""
        with_digits = [value for value in self.distinct if re.search(r"\d", value) and not re.search(r"[.,:]\d", value)]
        is_varied = len(self.distinct) * 10 > len(self.filled)
        return is_varied and len(with_digits) * 10 > len(self.distinct) * 9 and not self.is_date

    @cached_property
    def is_clock(self) -> bool:
        is_compact = self.may_be("time") and len(self._data) > 1 and all(map(_COMPACT_CLOCK.fullmatch, self._data))

        def is_time(value: str) -> object:
            has_mark = _HAS_MARK.search(cell_values.plain_time(value)) or cell_values.PART_OF_DAY.fullmatch(value)
            return (is_compact or has_mark) and cell_values.clock_in(value)

        return _share(self._data, is_time)

    @cached_property
    def has_times(self) -> bool:
        with_clock = sum(count for value, count in self._data.items() if cell_values.has_time(value))
        return self.is_epoch or with_clock * 2 > self._data.total()

    @cached_property
    def distinct(self) -> list[str]:
        """The distinct values, most frequent first."""
        return [value for value, _ in Counter(self.filled).most_common()]

    @property
    def role(self) -> str | None:
        """The most probable role that the values fit, and their sign."""
        role = self.role_by_values
        return _TAKEN_OFF.get(role or "", role) if self.is_taken_off else role

    @cached_property
    def role_by_values(self) -> str | None:
        found = next((match.role for match in self.matches if self._fits(match.role)), None)
        return None if found == "unknown" else found

    @property
    def heading_role(self) -> str | None:
        """The role that the values have or, if there are none, the one that the heading says."""
        return self.role if self.filled else next((match.role for match in self.matches), None)

    def rank(self, role: str) -> int:
        return next((match.rank for match in self.matches if match.role == role), 99)

    def _fits(self, role: str) -> bool:
        if role in NUMBER_ROLES:
            return self.is_number
        if role in DATE_ROLES:
            return self.is_date or self.is_serial or self.is_epoch
        if role in ("time", "options"):
            return self.is_clock if role == "time" else not self.is_number
        are_flags = len(self.distinct) > 1 and all(headings.flag_of(one) is not None for one in self.distinct)
        if role in ("id", "cashier") and are_flags:
            # `Demo order` and `Staff meal` with yes and no.
            return False
        if role == "id":
            has_decimals = self.is_number and any(map(_DECIMALS.search, self.distinct))
            is_time = self.is_date or self.is_clock
            has_clocks = all(":" in value for value in self.distinct)
            is_code = any(map(str.isdigit, "".join(self.distinct))) or len(self.distinct) * 2 > len(self.filled)
            return is_code and not has_decimals and not (is_time and (self.may_be(*DATE_ROLES, "time") or has_clocks))
        if role == "shopId" and self.is_date and self.may_be(*DATE_ROLES, "time"):
            # `Local` is a shop in some languages, but not in `Date (local)`.
            return False
        if role == "currency":
            # Some tills call the way of paying a currency.
            return not any(map(headings.names_payment, self.distinct[:MANY_VALUES]))
        if role == "method" and self.is_like_an_id and "id" in headings.words_of(self.name):
            return False
        if role in ("method", "item", "status", "type", "shopId", "channel"):
            # Codes may be numbers, but amounts are not names.
            return not any(re.search(r"\d[.,]\d\d$|^-\d|^[$€£¥฿₫₩₹]\d", value) for value in self.distinct[:MANY_VALUES])
        return True

    def number(self, row: int) -> Decimal | None:
        return self._number_of[self.values[row]]

    def amount(self, row: int) -> Decimal:
        return self.number(row) or Decimal()

    @cached_property
    def _number_of(self) -> dict[str, Decimal | None]:
        return {value: number_in(value, self.numbers) for value in set(self.values)}


class SheetSample:
    """The first rows of one or several files of the same kind, without rows of totals."""

    def __init__(
        self, files: Sequence[sheets.TableFile], encodings: Mapping[str, str], decimal: str | None = None
    ) -> None:
        self.files = files
        self.encodings = encodings
        """The encodings that were guessed, with words of the files."""
        self.rows: list[sheets.TableRow] = []
        self.problems: list[RowProblem] = []
        for file in files:
            rows = file.rows()
            for row in islice(rows, SAMPLE_ROWS):
                if isinstance(row, sheets.TableRow):
                    self.rows.append(row)
                elif not is_other_table(row.cells, len(file.sheet.columns)):
                    self.problems.append(row)
            if next(rows, None):
                self._leave_out_last_bill(file.sheet)
        names = list(dict.fromkeys(name for file in files for name in file.sheet.columns))
        self.columns = {name: SampleColumn(name, [_cell(row, name) for row in self.rows]) for name in names}
        self.question = self._find_number_formats(decimal)
        data = [column.name for column in self.columns.values() if column.continues_heading]
        if len(data) > 1:
            sheet, line = self.file.sheet.name, self.file.heading_line
            raise ImportFailed(message("no_headings", name=sheet, line=line, cells=" and ".join(data[:2])))
        self._find_deductions()

    def _leave_out_last_bill(self, sheet: sheets.Sheet) -> None:
        """Leave out the last rows with the same number, or none: the sample may have only a part of their bill."""
        counts = [1]
        for name in [name for name in sheet.columns if any(match.role == "id" for match in headings.roles_of(name))]:
            cells = [_cell(row, name) for row in reversed(self.rows[-MOST_ROWS_OF_BILL:])]
            number = next((place for place, cell in enumerate(cells) if cell), 0)
            others = (place for place, cell in enumerate(cells) if place > number and cell != cells[number])
            counts.append(next(others, 1))
        del self.rows[-max(counts) :]

    @property
    def file(self) -> sheets.TableFile:
        return self.files[0]

    def with_role(self, *roles: str) -> list[SampleColumn]:
        """Return the columns with one of the roles, ordered by role, then by how common the heading is."""
        found = [column for column in self.columns.values() if column.role in roles]
        return sorted(found, key=lambda column: (roles.index(column.role or ""), column.rank(column.role or "")))

    @cached_property
    def countries(self) -> dict[str, str]:
        """The language of the headings and the currency, which show where the export is from, by what they show."""
        columns = [one for one in self.columns.values() if one.is_named_as_amount or one.role == "currency"]
        texts = [text for column in columns for text in (column.name, *column.distinct[:MANY_VALUES])]
        currency = next((found[0] for text in texts if (found := cell_values.COUNTRY_CURRENCY.search(text))), "")
        return {
            "the headings are not in English": headings.language_of(self.columns),
            f"amounts are in {currency}": currency,
        }

    def leave_out(self, rows: set[int]) -> None:
        self.rows = [row for place, row in enumerate(self.rows) if place not in rows]
        for name, column in self.columns.items():
            values = [value for place, value in enumerate(column.values) if place not in rows]
            self.columns[name] = column.with_values(values)

    def fill_down(self, name: str, rows: Sequence[int]) -> None:
        """Give cells of a column the value of the row above."""
        column = self.columns[name]
        for row in rows:
            column.values[row] = column.values[row - 1]
        self.columns[name] = column.with_values(column.values)

    def give_role(self, entry: str, answer: str, role: str) -> None:
        """Give columns, as in `VAT 7% + VAT 0%`, the role that a person says they have. No other column has it then."""
        names = answer.split(" + ")
        for name in names:
            if name not in self.columns or not self.columns[name].is_number or self.columns[name].is_taken_off:
                raise ImportFailed(message("answer_no_amount", entry=entry, name=name, columns=", ".join(self.columns)))
            if self.columns[name].role in {"paid", "total", "tip", "tax"} - {role}:
                raise ImportFailed(message("answer_other_amount", entry=entry, name=name))
        for name, column in self.columns.items():
            others = tuple(match for match in column.matches if match.role != role)
            self.columns[name] = column.with_values(column.values)
            self.columns[name].matches = (headings.RoleMatch(len(name), 0, role),) if name in names else others

    def _find_deductions(self) -> None:
        """Note which charges and payments nearly always have the sign opposite to that of the row's total."""
        totals = [column for column in self.columns.values() if column.role_by_values in headings.TOTAL_ROLES]
        sizes = [next(filter(None, (one.amount(row) for one in totals)), 0) for row in range(len(self.rows))]
        for column in self.columns.values():
            if column.role_by_values in _TAKEN_OFF:
                products = [column.amount(row) * size for row, size in enumerate(sizes)]
                column.is_taken_off = sum(one < 0 for one in products) > 4 * sum(one > 0 for one in products)

    def _find_number_formats(self, decimal: str | None) -> str | None:
        """Find how each column writes its numbers, or use the decimal mark. Return the column that does not show it."""
        # Where semicolons separate cells, commas are often decimal marks, so 25,000 is as doubtful as 25.000.
        mark = "," if isinstance(self.file, sheets.CsvFile) and self.file.delimiter == ";" else "."
        formats: dict[str, NumberFormat] = {}
        doubtful: dict[str, list[str]] = {}
        for column in self.columns.values():
            values = [value for value in column.distinct if _NUMBER_LIKE.fullmatch(value)]
            # Times such as 11.17 do not show how numbers are written.
            is_clock = column.is_clock and (column.may_be("time") or not column.may_be(*NUMBER_ROLES))
            if column.is_date or is_clock or len(values) * 10 < len(column.distinct) * 8:
                continue
            shown = cell_values.formats_shown(values)
            if len(shown) == 1:
                formats[column.name] = shown[0]
            elif cell_values.in_thousands_or_not(values, mark):
                doubtful[column.name] = values
        # A quantity such as 1.0 does not show how amounts are written.
        is_shown = any(not self.columns[name].may_be("qty") for name in formats)
        if doubtful and not is_shown:
            values = [value for values in doubtful.values() for value in values]
            names = [name for column in self.with_role("currency") for name in column.distinct]
            if found := cell_values.format_with_thousands(values, (*self.columns, *names)):
                formats |= dict.fromkeys(doubtful, found)
                is_shown = True
        commas = sum(written is COMMA for written in formats.values())
        self.numbers = COMMA if commas * 2 > len(formats) or (decimal == "," and not is_shown) else POINT
        self.are_numbers_sure = is_shown
        if decimal and self.numbers.decimal != decimal:
            name = next(name for name, written in formats.items() if written is self.numbers)
            values = [value for value in self.columns[name].distinct if re.search(r"\d[.,]\d", value)]
            raise ImportFailed(message("decimal_contradicted", decimal=decimal, name=name, values=values[0]))
        for column in self.columns.values():
            column.numbers = formats.get(column.name, self.numbers)
        return None if decimal or is_shown else next(iter(doubtful), None)


def _cell(row: sheets.TableRow, name: str) -> str:
    position = row.sheet.columns.get(name)
    return "" if position is None else row.cells[position]


def sample_of(paths: Sequence[Path], answers: Mapping[str, str], sheet: str | None = None) -> SheetSample:
    """Read the first rows of files of the same kind. `sheet` is the sheet of a workbook."""
    stated, files = answers.get("file.encoding"), []
    starts = {path: sheets.start_in_lines(path) for path in paths}
    for path, start in starts.items():
        if 0 < start.count(0) * 4 <= len(start) and not start.startswith((*sheets.NOT_CSV, *sheets.BYTE_ORDER_MARKS)):
            raise ImportFailed(f"{path.name} is not a CSV file, because it contains NUL bytes.")
    old = [] if stated else [path for path, start in starts.items() if sheets.is_in_old_encoding(start)]
    encodings = headings.likely_encodings(b"\n".join(starts[path] for path in old)) if old else {}
    if old and not encodings:
        raise ImportFailed(message("encoding_unknown", name=old[0].name))
    for path in paths:
        encoding = next(iter(encodings)) if path in old else stated
        files += _opened(path, FileLayout(encoding=encoding, sheet=sheet))
    return SheetSample(files, encodings, answers.get("numbers.decimal"))


def _opened(path: Path, layout: FileLayout) -> list[sheets.TableFile]:
    """Open a file whose header row is the top row with the most cells that are recognised as headings."""
    counts = [0]

    def note(cells: Collection[str]) -> bool:
        counts.append(headings.recognised_headings(cells))
        return False

    with contextlib.suppress(ImportFailed):
        # If the file cannot be read, this fails again below.
        sheets.open_table(path, layout, note)
    most = max(counts)
    return sheets.open_tables(path, layout, lambda cells: headings.recognised_headings(cells) == most > 1)


def day_of(value: str, order: str) -> date | None:
    return cell_values.day_in(value, ANY_CENTURY, order)


def _share(values: Counter[str], is_readable: Callable[[str], object]) -> bool:
    """Return whether at least 90% of the values can be read, or all but one, which may be in a row of totals."""
    readable, total = 0, values.total()
    for value, count in values.items():
        with contextlib.suppress(UnreadableCell):
            readable += count * bool(is_readable(value))
    return total > 0 and (readable >= 0.9 * total or readable == total - 1 >= 2)
