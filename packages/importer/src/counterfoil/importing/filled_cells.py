"""Fills the cells that an export leaves empty because their value is that of the row above."""

from collections.abc import Sequence

from counterfoil.importing.sheets import Sheet, TableRow


class FilledDown:
    """Fills the empty cells of columns that an export writes only where their value changes.

    The columns are listed from the outer to the inner one: where an outer column changes, inner ones begin again. So a
    bill without a table does not get the table of the bill before it.
    """

    def __init__(self, columns: Sequence[str], sheet: Sheet) -> None:
        self._positions = [sheet.columns[name] for name in columns if name in sheet.columns]
        self._above: dict[int, str] = {}

    def fill(self, row: TableRow) -> None:
        has_changed = False
        for position in self._positions:
            cell, above = row.cells[position], self._above.get(position, "")
            if not cell and not has_changed:
                row.cells[position] = above
                continue
            has_changed = has_changed or cell != above
            self._above[position] = cell

    def forget(self) -> None:
        """Forget the values above, because a row that cannot be read may have changed them."""
        self._above.clear()
