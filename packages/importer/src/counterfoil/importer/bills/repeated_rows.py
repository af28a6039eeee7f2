"""Finds rows that a table has twice, and asks whether a bill was printed again or each of them counts."""

from collections.abc import Sequence
from itertools import permutations

from msgspec import Struct

from counterfoil.importer.bills.bill_rows import KeptRows
from counterfoil.importer.columns import day_of, rows_by
from counterfoil.importer.form import sentence
from counterfoil.importer.interview import Interview, NeedsOtherReport, Refuted
from counterfoil.importer.ranks import DATE_ROLES, TOTAL_ROLES, Ranks
from counterfoil.importing.repeated_rows import ALL, FEWEST_DOUBLED, LAST, ONCE, are_doubled, second_print


class RepeatedRows(Struct, frozen=True):
    """What rows with the same cells are, if there are any. `is_proven` by the sums, or an answer says it."""

    meaning: str | None = None
    is_proven: bool = False

    @property
    def are_parts(self) -> bool:
        """Whether somebody said that they are parts of a bill, so that their amounts are added up."""
        return self.meaning == ALL and not self.is_proven


def leave_out_repeated(kept: KeptRows, interview: Interview, *, has_line_file: bool) -> RepeatedRows:
    """Leave out the rows of bills that were printed again, if an answer says so, and return what they are."""
    if interview.answers.get("together") == LAST:
        return _leave_out_changed(kept, interview)
    is_flat = bool(kept.ranks.with_role("item", "qty")) and not has_line_file
    pairs = _second_prints(kept) if is_flat else _same_rows(kept)
    if not pairs:
        return _ask_about_doubled(kept, interview) if is_flat else RepeatedRows()
    if not is_flat and add_up_to_totals(kept.ranks, rows_by(kept.number.values, *_days(kept))):
        return RepeatedRows(ALL, is_proven=True)
    second = min(pairs)
    first = pairs[second]
    text = sentence(
        "{number} {number_2} is on lines {line} and {other}, with the same cells. Was it printed again?",
        number=kept.number.name,
        number_2=kept.number.values[first],
        line=kept.table.line(first),
        other=kept.table.line(second),
    )
    choices = {
        ONCE: sentence("Yes: leave it out"),
        ALL: sentence("No, it is another part of the bill, such as an equal payment"),
    }
    meaning = interview.choose("repeated", "bill", text, choices, must_confirm=True)
    if meaning == ONCE:
        kept.leave_out(set(pairs), sentence("the same row again"))
    return RepeatedRows(meaning)


def _ask_about_doubled(kept: KeptRows, interview: Interview) -> RepeatedRows:
    """Ask whether the lines of bills count that all are there twice, as where a program joined two tables."""
    files = [row.sheet.name for row in kept.table.rows]
    bills = rows_by(files, kept.number.values, *_days(kept))
    if len(bills) < FEWEST_DOUBLED or not _are_all_doubled(kept, bills):
        return RepeatedRows()
    if add_up_to_totals(kept.ranks, bills):
        return RepeatedRows()
    text = sentence("All lines of all {bills} bills are there twice. Does each of them count?", bills=f"{len(bills):,}")
    typed = sentence("If the export only has them twice, type {answer}.", answer=ONCE)
    choices = {ALL: sentence("Yes: each line counts")}
    meaning = interview.choose("repeated", "bill", text, choices, free=True, typed=typed, must_confirm=True)
    if meaning == ALL:
        return RepeatedRows(ALL)
    raise NeedsOtherReport(
        sentence("{table} has all its lines twice. Export it again with each line once.", table=kept.table.name)
    )


def _are_all_doubled(kept: KeptRows, bills: Sequence[Sequence[int]]) -> bool:
    columns = kept.table.columns.values()
    for rows in bills:
        cells = [tuple(column.values[row] for column in columns) for row in rows]
        if not are_doubled(cells):
            return False
    return True


def _leave_out_changed(kept: KeptRows, interview: Interview) -> RepeatedRows:
    """Leave out the rows of bills that were changed, as an answer says: all but the last row of each number and day."""
    interview.answer("together")
    places = [column.values for column in kept.ranks.with_role("shopId", "deviceId") if column.is_filled]
    days = [[_day(value) for value in column.values] for column in kept.ranks.with_role(*DATE_ROLES)]
    files = [row.sheet.name for row in kept.table.rows]
    changed = set[int]()
    for rows in rows_by(files, kept.number.values, *places, *days):
        changed.update(rows[:-1])
    if not changed:
        raise Refuted("together", LAST, sentence("no bill has several rows"))
    kept.leave_out(changed, sentence("a later row of the same bill replaces it"))
    return RepeatedRows(LAST)


def _day(cell: str) -> object:
    """Return the day in a cell, or the cell if it has none. Equal days are equal in any order."""
    return day_of(cell, "dmy") or day_of(cell, "mdy") or cell


def _same_rows(kept: KeptRows) -> dict[int, int]:
    """Return the rows with the same cells as one above them in their file, with that row."""
    files = [row.sheet.name for row in kept.table.rows]
    found = {}
    for rows in rows_by(files, *(column.values for column in kept.table.columns.values())):
        for row in rows[1:]:
            found[row] = rows[0]
    return found


def _second_prints(kept: KeptRows) -> dict[int, int]:
    """Return the lines of bills that repeat all lines of the bill after other rows, with the lines above."""
    found: dict[int, int] = {}
    files = [row.sheet.name for row in kept.table.rows]
    for rows in rows_by(files, kept.number.values, *_days(kept)):
        again = second_print([kept.table.rows[row] for row in rows])
        half = len(rows) - len(again)
        found.update(zip(rows[half:], rows[: len(again)], strict=True))
    return found


def _days(kept: KeptRows) -> list[Sequence[str]]:
    """Return the cells with the days and times of rows, because numbers may start again."""
    return [column.values for column in kept.ranks.with_role(*DATE_ROLES, "time")]


def add_up_to_totals(ranks: Ranks, bills: Sequence[Sequence[int]]) -> bool:
    """Return whether amounts on the rows of each bill add up to a total that all its rows repeat: its payments."""
    for total, amount in permutations(ranks.with_role(*TOTAL_ROLES, "tendered"), 2):
        if not total.is_same_in(bills):
            continue
        if all(sum(map(amount.amount, rows)) == total.amount(rows[0]) for rows in bills):
            return True
    return False
