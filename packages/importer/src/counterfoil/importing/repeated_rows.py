"""Leaves out the rows of a bill that an export has twice, because the bill was printed again."""

from collections.abc import Iterator, Sequence

from counterfoil.importing.results import SkippedRow
from counterfoil.importing.sentences import sentence
from counterfoil.importing.sheets import TableRow
from counterfoil.importing.sorted_rows import BillRows

ONCE, ALL, LAST = "once", "all", "last"
"""What a mapping says of rows of a bill: printed again, or each of them counts, or the last one replaces the others."""
SAME_ROW = sentence("the same row again")
CHANGED_ROW = sentence("a later row of the same bill replaces it")


def second_print(rows: Sequence[TableRow]) -> Sequence[TableRow]:
    """Return the second half of a bill's lines if it repeats the first one after other rows, or nothing."""
    half = len(rows) // 2
    first, second = rows[:half], rows[half:]
    if not first or second[0].sheet is not first[-1].sheet or second[0].line == first[-1].line + 1:
        return ()
    is_repeated = [row.cells for row in first] == [row.cells for row in second]
    return second if is_repeated else ()


def leave_out_repeated(group: BillRows, meaning: str | None, *, is_flat: bool) -> Iterator[SkippedRow]:
    """Leave out the rows of a bill that a mapping says do not count, because of another row."""
    if meaning == ONCE:
        yield from _leave_out_prints(group, is_flat=is_flat)
    elif meaning == LAST:
        yield from _leave_out_changed(group)


def _leave_out_prints(group: BillRows, *, is_flat: bool) -> Iterator[SkippedRow]:
    """Leave out the rows of a bill that an earlier row repeats. Of lines, of which two may be alike, all must."""
    again = list(second_print(group.bills)) if is_flat else _same_as_above(group.bills)
    if again:
        left_out = set(map(id, again))
        group.bills = [row for row in group.bills if id(row) not in left_out]
    for row in again:
        yield SkippedRow(row.sheet.name, row.line, SAME_ROW)


def _leave_out_changed(group: BillRows) -> Iterator[SkippedRow]:
    """Leave out all rows of a bill but the last one, which replaces them."""
    *changed, last = group.bills
    group.bills = [last]
    for row in changed:
        yield SkippedRow(row.sheet.name, row.line, CHANGED_ROW)


def _same_as_above(rows: Sequence[TableRow]) -> list[TableRow]:
    """Return the rows with the same cells as one above them in their file."""
    known = set[tuple[int, tuple[str, ...]]]()
    found = []
    for row in rows:
        cells = id(row.sheet), tuple(row.cells)
        if cells in known:
            found.append(row)
        known.add(cells)
    return found
