"""Finds columns that add up another column from bill to bill, as a running total or the cash in a drawer does."""

from collections.abc import Sequence
from decimal import Decimal

from counterfoil.importer.bills.bills import Bills
from counterfoil.importer.columns import TableColumn

FEWEST_BILLS = 4


def running_totals(bills: Bills) -> frozenset[str]:
    """Return the columns that grow from each bill to the next one by what another column has, in either order."""
    if len(bills.rows) < FEWEST_BILLS:
        return frozenset()
    numbers = [column for column in bills.table.columns.values() if column.is_number and column.filled]
    first_rows = [rows[0] for rows in bills.rows]
    found = set()
    for column in numbers:
        values = [column.amount(row) for row in first_rows]
        if len(set(values)) != len(values):
            # Each bill adds something.
            continue
        others = [other for other in numbers if other is not column]
        if any(_adds_up(values, _amounts(other, first_rows)) for other in others):
            found.add(column.name)
    return frozenset(found)


def _amounts(column: TableColumn, rows: Sequence[int]) -> list[Decimal]:
    return [column.amount(row) for row in rows]


def _adds_up(values: Sequence[Decimal], amounts: Sequence[Decimal]) -> bool:
    """Return whether values are the sums of the amounts up to each place, from the first or from the last one on."""
    if len(set(amounts)) == 1:
        # A column that counts is no sum of amounts.
        return False
    return _grows_by(values, amounts) or _grows_by(values[::-1], amounts[::-1])


def _grows_by(values: Sequence[Decimal], amounts: Sequence[Decimal]) -> bool:
    return all(values[place] - values[place - 1] == amounts[place] for place in range(1, len(values)))
