"""Reads the files of an export into tables, and finds how each column writes its numbers."""

import contextlib
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from pathlib import Path

from counterfoil.importer.columns import ExportTable, TableColumn
from counterfoil.importer.form import sentence
from counterfoil.importer.interview import Interview, NeedsOtherReport
from counterfoil.importer.ranks import DATE_ROLES, NUMBER_ROLES, recognised_headings, role_of_heading
from counterfoil.importing import sheets
from counterfoil.importing import values as cell_values
from counterfoil.importing.checks import require_sheets_of_sales
from counterfoil.importing.export_totals import is_other_table
from counterfoil.importing.mapping import FileLayout
from counterfoil.importing.old_encodings import likely_encodings
from counterfoil.importing.results import ImportFailed, RowProblem
from counterfoil.importing.values import COMMA, POINT, NumberFormat

SAMPLE_ROWS = 20_000
MOST_CELLS_OF_SHOP = 2
WORKBOOK_SUFFIXES = (".xlsx", ".xls")
MOST_ROWS_OF_BILL = 500
_NUMBER_LIKE = re.compile(r"[^\d]{0,6}\d[\d.,'’ \u00a0\u202f]*[^\d]{0,6}")


def read_table(paths: Sequence[Path], interview: Interview) -> ExportTable:
    """Return the first rows of files of the same kind."""
    files: list[sheets.TableFile] = []
    encoding = _encoding(paths, interview)
    for path in paths:
        files += _opened(path, FileLayout(encoding=encoding if _is_old(path) else None))
    _refuse_other_reports(files)
    return _with_number_formats(_sampled(files), interview)


def _refuse_other_reports(files: Sequence[sheets.TableFile]) -> None:
    """Refuse files that have hardly a heading in common, because they are not parts of the same report."""
    first = files[0].sheet
    for file in files[1:]:
        other = file.sheet
        common = len(first.columns.keys() & other.columns.keys())
        if common * 2 < min(len(first.columns), len(other.columns)):
            raise ImportFailed(
                sentence(
                    "{first} and {other} have different columns, so they cannot both have the same kind of rows. Say "
                    "which one has the bills, and which one their items or payments.",
                    first=first.name,
                    other=other.name,
                )
            )


def _is_old(path: Path) -> bool:
    return sheets.is_in_old_encoding(sheets.start_in_lines(path))


def _encoding(paths: Sequence[Path], interview: Interview) -> str | None:
    """Return the encoding of files that are not in Unicode, or ask if several are possible."""
    old: dict[Path, bytes] = {}
    for path in paths:
        start = sheets.start_in_lines(path)
        _refuse_binary(path, start)
        if sheets.is_in_old_encoding(start):
            old[path] = start
    if not old:
        return None
    words_in = likely_encodings(b"\n".join(old.values()))
    if not words_in:
        first = next(iter(old))
        raise ImportFailed(
            sentence("{name} is not in UTF-8 or another encoding that is known. Save it as UTF-8.", name=first.name)
        )
    if len(words_in) > 1:
        text = sentence("In which encoding are these words readable?")
        choices = {encoding: f"{encoding}: {words}" for encoding, words in words_in.items()}
        return interview.choose("encoding", "file", text, choices)
    [(encoding, words)] = words_in.items()
    if words:
        interview.assume(
            sentence(
                "The encoding is {encoding}, in which the file has these words: {words}", encoding=encoding, words=words
            )
        )
    return encoding


def _refuse_binary(path: Path, start: bytes) -> None:
    """Refuse a file that is no text, but does not begin like a workbook."""
    is_binary = 0 < start.count(0) * 4 <= len(start)
    if not is_binary or start.startswith((*sheets.NOT_CSV, *sheets.BYTE_ORDER_MARKS)):
        return
    if path.suffix.lower() in WORKBOOK_SUFFIXES:
        raise ImportFailed(
            sentence(
                "{file} is not an Excel workbook, although its name says so: it contains NUL bytes, but does "
                "not begin like one. It may be damaged. Export it again.",
                file=path.name,
            )
        )
    raise ImportFailed(sentence("{file} is not a CSV file, because it contains NUL bytes.", file=path.name))


def _opened(path: Path, layout: FileLayout) -> list[sheets.TableFile]:
    """Open a file whose header row is the top row with the most cells that are recognised as headings."""
    counts = [0]

    def note(cells: Collection[str]) -> bool:
        counts.append(recognised_headings(cells))
        return False

    with contextlib.suppress(ImportFailed):
        # If the file cannot be read, this fails again below.
        sheets.open_table(path, layout, note)
    most = max(counts)
    opened = sheets.open_tables(path, layout, lambda cells: recognised_headings(cells) == most > 1)
    require_sheets_of_sales(opened[0])
    return opened


def _sampled(files: Sequence[sheets.TableFile]) -> ExportTable:
    rows: list[sheets.TableRow] = []
    problems: list[RowProblem] = []
    is_sample = False
    for file in files:
        in_file = file.rows()
        sample = list(islice(in_file, SAMPLE_ROWS))
        _refuse_shops_above_rows(sample, file)
        for row in sample:
            if isinstance(row, sheets.TableRow):
                rows.append(row)
            elif not is_other_table(row.cells, len(file.sheet.columns)):
                problems.append(row)
        if next(in_file, None):
            is_sample = True
            del rows[-_rows_of_last_bill(rows, file.sheet) :]
    columns: dict[str, TableColumn] = {}
    for file in files:
        for name in file.sheet.columns:
            if name not in columns:
                columns[name] = TableColumn(name, [_cell(row, name) for row in rows])
    return ExportTable(files, rows, columns, problems, is_sample=is_sample)


def _only_names_shop(row: sheets.TableRow | RowProblem, file: sheets.TableFile) -> bool:
    """Return whether a row is one such as `Branch: North`, in a table without a column of shops."""
    label, name = _label_and_name(row)
    if len(list(filter(None, row.cells))) > MOST_CELLS_OF_SHOP or not name or "shopId" not in role_of_heading(label):
        return False
    return not any("shopId" in role_of_heading(heading) for heading in file.sheet.columns)


def _label_and_name(row: sheets.TableRow | RowProblem) -> tuple[str, str]:
    label, _, name = ":".join(filter(None, row.cells)).partition(":")
    return label, name.strip(" :")


def _refuse_shops_above_rows(rows: Sequence[sheets.TableRow | RowProblem], file: sheets.TableFile) -> None:
    """Refuse a row that only names a shop and has others below it. At the end of a file, it is a note."""
    shop_row = None
    for row in rows:
        if _only_names_shop(row, file):
            shop_row = row
        elif shop_row and len(list(filter(None, row.cells))) > MOST_CELLS_OF_SHOP:
            raise _shop_above_rows(shop_row, file)


def _shop_above_rows(row: sheets.TableRow | RowProblem, file: sheets.TableFile) -> NeedsOtherReport:
    _, shop = _label_and_name(row)
    return NeedsOtherReport(
        sentence(
            "Line {line} of {table} has only a shop, {shop}, and the rows below it do not name it. Export the shop on "
            "each row, or each shop in its own file.",
            line=f"{row.line:,}",
            table=file.sheet.name,
            shop=shop,
        )
    )


def _rows_of_last_bill(rows: Sequence[sheets.TableRow], sheet: sheets.Sheet) -> int:
    """Return how many of the last rows have the same number, or none: the sample may have only a part of their bill."""
    last_rows = rows[-MOST_ROWS_OF_BILL:]
    counts = [1]
    for name in sheet.columns:
        if "id" in role_of_heading(name):
            cells = [_cell(row, name) for row in last_rows]
            counts.append(_equal_cells_at_end(cells))
    return max(counts)


def _equal_cells_at_end(cells: Sequence[str]) -> int:
    """Return how many of the last cells are those of the last number, with the empty ones after it, or 1 if all are."""
    last_number = ""
    for count, cell in enumerate(reversed(cells)):
        if last_number and cell != last_number:
            return count
        last_number = last_number or cell
    return 1


def _cell(row: sheets.TableRow, name: str) -> str:
    position = row.sheet.columns.get(name)
    return "" if position is None else row.cells[position]


def _with_number_formats(table: ExportTable, interview: Interview) -> ExportTable:
    """Return the table whose columns know how they write numbers. Ask for the decimal mark if nothing shows it."""
    formats, doubtful = _shown_formats(table)
    # A quantity such as 1.0 does not show how amounts are written.
    are_amounts_shown = any("qty" not in role_of_heading(name) for name in formats)
    usual = None
    if doubtful and not are_amounts_shown:
        of_country = _format_of_country(table, doubtful)
        if of_country:
            formats |= dict.fromkeys(doubtful, of_country)
        else:
            usual = _asked_format(doubtful, interview)
            formats |= dict.fromkeys(doubtful, usual)
    usual = usual or _most_common(formats.values())
    columns = {}
    for name, column in table.columns.items():
        columns[name] = TableColumn(name, column.values, formats.get(name, usual))
    return ExportTable(table.files, table.rows, columns, table.problems, is_sample=table.is_sample)


def _shown_formats(table: ExportTable) -> tuple[dict[str, NumberFormat], dict[str, list[str]]]:
    """Return how columns write numbers, and the values of the columns that may write them in several ways."""
    file = table.file
    # Where semicolons separate cells, commas are often decimal marks, so 25,000 is as doubtful as 25.000.
    mark = "," if isinstance(file, sheets.CsvFile) and file.delimiter == ";" else "."
    formats: dict[str, NumberFormat] = {}
    doubtful: dict[str, list[str]] = {}
    for column in table.columns.values():
        values = [value for value in column.distinct if _NUMBER_LIKE.fullmatch(value)]
        are_few = len(values) * 10 < len(column.distinct) * 8
        if are_few or column.is_date or _is_time(column):
            continue
        possible = cell_values.formats_shown(values)
        if len(possible) == 1:
            formats[column.name] = possible[0]
        elif cell_values.in_thousands_or_not(values, mark):
            doubtful[column.name] = values
    return formats, doubtful


def _format_of_country(table: ExportTable, doubtful: Mapping[str, Sequence[str]]) -> NumberFormat | None:
    """Return how numbers are written where the export is from, if its headings and currencies show where that is."""
    numbers: list[str] = []
    for values in doubtful.values():
        numbers += values
    texts = list(table.columns)
    for name, column in table.columns.items():
        if "currency" in role_of_heading(name):
            texts += column.distinct
    return cell_values.format_with_thousands(numbers, texts)


def _most_common(formats: Collection[NumberFormat]) -> NumberFormat:
    commas = [written for written in formats if written is COMMA]
    return COMMA if len(commas) * 2 > len(formats) else POINT


def _asked_format(doubtful: Mapping[str, Sequence[str]], interview: Interview) -> NumberFormat:
    name, values = next(iter(doubtful.items()))
    example = next(value for value in values if re.search("[.,]", value))
    mark = "." if "." in example else ","
    digits = re.sub("[.,]", "", example)
    text = sentence("{name} has {example}. Which mark separates the decimals?", name=name, example=example)
    choices = {
        mark: sentence("{example} has three decimals", example=example),
        "," if mark == "." else ".": sentence("{example} is {digits} without decimals", example=example, digits=digits),
    }
    return COMMA if interview.choose("decimals", "file", text, choices) == "," else POINT


def _is_time(column: TableColumn) -> bool:
    """Return whether values such as 11.17 are times, which do not show how numbers are written."""
    roles = role_of_heading(column.name)
    is_named = "time" in roles
    return column.is_clock and (is_named or not any(role in NUMBER_ROLES for role in roles))


def headings_of(path: Path) -> list[str]:
    """Return the headings of a table. Raise `ImportFailed` if it is none of which a person could say what they mean."""
    table = read_table([path], Interview({}))
    if len(table.columns) < 2:
        raise ImportFailed(
            sentence("{file} has only one column, so it is no table of bills or members.", file=path.name)
        )
    if not table.rows:
        raise ImportFailed(sentence("{file} has no rows below its header row that can be read.", file=path.name))
    return list(table.columns)


def headings_missing(table: ExportTable) -> list[str]:
    """Return headings that are values like those below them, so that the file has no header row."""
    found = []
    for column in table.columns.values():
        above = TableColumn("", [column.name], column.numbers)
        if (above.is_date and column.is_date) or (above.is_number and column.is_number):
            found.append(column.name)
    return found if len(found) > 1 else []


__all__ = ["DATE_ROLES", "headings_missing", "headings_of", "read_table"]
