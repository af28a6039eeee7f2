"""Leaves out the rows of a bill that an export has twice, because the bill was printed again."""

from collections import Counter
from collections.abc import Iterator, Sequence

from counterfoil.importing.mapping import ImportMapping
from counterfoil.importing.results import ImportFailed, SkippedRow
from counterfoil.importing.sentences import sentence
from counterfoil.importing.sheets import Sheet, TableRow
from counterfoil.importing.sorted_rows import BillRows

ONCE, ALL, LAST = "once", "all", "last"
"""What a mapping says of rows of a bill: printed again, or each of them counts, or the last one replaces the others."""
SAME_ROW = sentence("the same row again")
CHANGED_ROW = sentence("a later row of the same bill replaces it")


FEWEST_DOUBLED = 5
"""Of fewer bills, all may have two equal lines by chance."""


def are_doubled(rows: Sequence[tuple[str, ...]]) -> bool:
    """Return whether rows with the same cells occur twice, four times and so on."""
    return all(count % 2 == 0 for count in Counter(rows).values())


class DoubledRows:
    """Whether the first rows of a sheet are all there twice, unlike those of the sample that a mapping was made of."""

    def __init__(self, mapping: ImportMapping, sheet: Sheet) -> None:
        self._sheet = sheet
        self._is_checked = bool(mapping.checks.usual) and mapping.file.repeated != ALL
        self._counts: Counter[tuple[str, ...]] = Counter()
        self._line = 0

    def add(self, row: TableRow) -> None:
        if not self._is_checked:
            return
        cells = tuple(row.cells)
        if cells in self._counts and not self._line:
            self._line = row.line
        self._counts[cells] += 1

    def finish(self) -> None:
        """Raise `ImportFailed` if all rows are there twice."""
        if not self._line or self._counts.total() < 2 * FEWEST_DOUBLED:
            return
        # The first rows may end between a row and its repetition.
        odd = sum(count % 2 for count in self._counts.values())
        if odd > 1:
            return
        raise ImportFailed(
            sentence(
                "{sheet} has each of its first {rows} rows twice, as line {line} repeats an earlier one. Export it "
                'again with each row once. If each of them counts, set file.repeated = "all" in the mapping.',
                sheet=self._sheet.name,
                rows=f"{len(self._counts):,}",
                line=f"{self._line:,}",
            )
        )


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
