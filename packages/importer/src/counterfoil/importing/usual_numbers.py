"""Notices numbers of bills that are written otherwise than in the sample, so that the same bills would be new ones."""

from collections.abc import Collection

from counterfoil.importing.mapping import ImportMapping
from counterfoil.importing.results import ImportFailed
from counterfoil.importing.sentences import sentence
from counterfoil.importing.sheets import Sheet, TableRow
from counterfoil.importing.values import shown

DECIMALS = (".0", ".00", ",0", ",00")


def width_of(numbers: Collection[str]) -> int | None:
    """Return how many digits all numbers have, if some begin with 0; 0 if none does; None if there is no such rule."""
    if not any(number.startswith("0") and number.strip("0") for number in numbers):
        return 0
    widths = {len(number) for number in numbers}
    return widths.pop() if len(widths) == 1 else None


class NumberCheck:
    """The first number of a bill in a sheet that is written otherwise than in the sample."""

    def __init__(self, mapping: ImportMapping, sheet: Sheet) -> None:
        self._sheet = sheet
        self._widths = {name: width for name, width in mapping.checks.width.items() if name in sheet.columns}
        self._found: tuple[str, str, int] | None = None

    def add(self, row: TableRow) -> None:
        if self._found:
            return
        for name, width in self._widths.items():
            cell = row.cells[self._sheet.columns[name]]
            if _is_written_otherwise(cell, width):
                self._found = name, cell, row.line

    def finish(self) -> None:
        """Raise `ImportFailed` if a number is written otherwise."""
        if self._found is None:
            return
        name, cell, line = self._found
        raise ImportFailed(
            sentence(
                "{sheet} has {cell} in the column {column} on line {line}, but the numbers of the sample had other "
                "zeros or no decimals. The same bills would be stored again under new numbers. Export the file again "
                "as before, such as without opening it in a spreadsheet. If these are other bills, remove the column "
                "from checks.width in the mapping.",
                sheet=self._sheet.name,
                cell=shown(cell),
                column=shown(name),
                line=f"{line:,}",
            )
        )


def _is_written_otherwise(cell: str, width: int) -> bool:
    whole = cell
    for decimals in DECIMALS:
        whole = whole.removesuffix(decimals)
    if not whole.isdecimal():
        return False
    if whole != cell:
        return True
    if width:
        return len(cell) < width
    return cell.startswith("0") and bool(cell.strip("0"))
