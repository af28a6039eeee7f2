"""Finds the rows of a table that are no bills: totals, captions, averages. The import recognises them alike."""

from counterfoil.importer.columns import ExportTable, TableColumn, day_of
from counterfoil.importer.ranks import Ranks
from counterfoil.importing.export_totals import is_caption, is_statistic, is_total_label, is_total_word


def total_rows(table: ExportTable, ranks: Ranks) -> tuple[set[int], bool]:
    """Return the rows that are no bills, and whether the table ends in a row of totals."""
    dated = [column for column in ranks.with_role("datetime", "tradingDay") if column.is_date or column.is_serial]
    numbers = ranks.with_role("id")
    found = set[int]()
    ends_in_totals = False
    for row in range(len(table.rows)):
        if _is_plain(numbers, dated, row):
            ends_in_totals = False
            continue
        cells = {name: column.values[row] for name, column in table.columns.items()}
        if _is_statistic(cells, numbers, dated, row):
            found.add(row)
            continue
        is_text = [is_caption(cell) for cell in cells.values() if cell] == [True]
        if is_text or _is_total(cells, numbers, dated, row):
            found.add(row)
        ends_in_totals = row in found and not is_text
    return (found, ends_in_totals) if len(found) < len(table.rows) else (set(), False)


def _is_plain(numbers: list[TableColumn], dated: list[TableColumn], row: int) -> bool:
    """Return whether a row has the number of a bill and a day, as nearly all bills do."""
    cells = [column.values[row] for column in numbers]
    has_digits = any(cell[:1].isdigit() for cell in cells)
    has_number = has_digits or (any(cells) and not any(map(is_total_label, cells)))
    return has_number and _has_day(dated, row)


def _is_total(cells: dict[str, str], numbers: list[TableColumn], dated: list[TableColumn], row: int) -> bool:
    words = [name for name, cell in cells.items() if cell and is_total_word(cell)]
    labels = {column.name: column.values[row] for column in (*numbers, *dated)}
    words += [name for name, label in labels.items() if is_total_label(label)]
    has_day = _has_day(dated, row)
    if words and (any(column.name in words for column in numbers) or (dated and not has_day)):
        return True
    has_number = any(column.values[row] for column in numbers)
    has_text = any(any(map(str.isalpha, cell)) for cell in cells.values())
    return bool(dated and numbers) and not (has_day or has_number or has_text)


def _is_statistic(cells: dict[str, str], numbers: list[TableColumn], dated: list[TableColumn], row: int) -> bool:
    labels = {column.name: cells[column.name] for column in (*numbers, *dated)}
    return bool(dated) and not _has_day(dated, row) and any(map(is_statistic, labels.values()))


def _has_day(dated: list[TableColumn], row: int) -> bool:
    for column in dated:
        cell = column.values[row]
        if column.is_serial and cell:
            return True
        if any(day_of(cell, order) for order in ("dmy", "mdy")):
            return True
    return False
