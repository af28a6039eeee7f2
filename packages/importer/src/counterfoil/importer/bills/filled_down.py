"""Fills down the number of a bill that stands only on its first row, and the other cells that are only there."""

from collections.abc import Sequence
from itertools import pairwise, permutations

from msgspec import Struct

from counterfoil.importer.bills.bill_rows import LEAVE_OUT, LINES, UNNUMBERED, KeptRows
from counterfoil.importer.columns import ExportTable, TableColumn
from counterfoil.importer.form import sentence
from counterfoil.importer.interview import Interview, Refuted
from counterfoil.importer.ranks import REFUND, TOTAL_ROLES, VOID, Ranks

DAY_ABOVE, NO_DAY = "above", "none"
FEW_OF_ALL = 5
"""Where one row in so many, or fewer, has no number, most bills have one line, so that it may be no line at all."""
FEWEST_ROWS_OF_SHOP = 3
"""If shops have fewer rows than that, the others may be bills of which nothing names the shop."""


class FilledColumns(Struct, frozen=True):
    """The columns that are filled down, in the order in which the import does so."""

    columns: Sequence[str] = ()
    line_marks: Sequence[str] = ()
    """Columns with a void on the first row of bills that is that of the line."""


def fill_down(kept: KeptRows, interview: Interview, *, is_number_asked: bool) -> FilledColumns:
    """Fill down what only the first row of each bill has. Change nothing if rows without a number are no lines."""
    firsts, others = _first_rows(kept.number)
    if not others or not _are_lines(kept, others, is_number_asked=is_number_asked):
        return FilledColumns()
    bills = [list(range(first, end)) for first, end in pairwise([*firsts, len(kept.table.rows)])]
    names = _only_on_first_rows(kept.table, firsts, others)
    if names == [kept.number.name] and not _is_said_of_lines(kept, interview, firsts, others):
        return FilledColumns()
    marks = _marks_of_lines(kept, interview, names, bills)
    names = [name for name in names if name not in marks]
    if not names:
        return FilledColumns((), marks)
    # Where a column changes, those after it begin again, so the outer ones come first.
    dated = kept.ranks.with_role("shopId", "tradingDay", "datetime")
    outer = [column.name for column in dated if column.name in names]
    ordered = list(dict.fromkeys([*outer, kept.number.name, *names]))
    kept.use(kept.table.filled_down(ordered, others))
    return FilledColumns(ordered, marks)


def fill_days(kept: KeptRows, interview: Interview, filled: FilledColumns) -> FilledColumns:
    """Fill down a day that stands only on the first bill of each day, or above the bills, if an answer says so."""
    days = [column for column in kept.ranks.with_role("datetime", "tradingDay") if column.filled]
    if len(days) != 1 or days[0].has_times:
        return filled
    [day] = days
    bills = kept.bills_without(day)
    if not bills or not day.values[0]:
        return filled
    text = sentence(
        "Line {line} has the bill {number}, but no {day}. On which day was it?",
        line=kept.table.line(bills[0]),
        number=kept.number.values[bills[0]],
        day=day.name,
    )
    choices = {
        DAY_ABOVE: sentence("on the last day above it, like all such rows"),
        NO_DAY: sentence("nothing says it: leave such rows out"),
    }
    if interview.choose("days", "day", text, choices) == DAY_ABOVE:
        kept.use(kept.table.filled_down([day.name], day.rows_with("")))
        return FilledColumns(list(dict.fromkeys([day.name, *filled.columns])), filled.line_marks)
    if day.name in filled.columns:
        # The import fills it down on all rows.
        raise Refuted("days", NO_DAY, sentence("the other rows of a bill have the day of its first row"))
    kept.leave_out_without(day)
    return filled


def fill_shops(kept: KeptRows, interview: Interview, filled: FilledColumns) -> FilledColumns:
    """Fill down a shop that stands only on the first row of its block: each is named once, the first row has one."""
    shops = [column for column in kept.ranks.with_role("shopId") if column.filled and not column.is_filled]
    if len(shops) != 1 or shops[0].name in filled.columns:
        return filled
    [shop] = shops
    is_named_once = shop.filled == len(shop.distinct)
    if not shop.values[0] or not is_named_once or len(shop.values) < FEWEST_ROWS_OF_SHOP * shop.filled:
        return filled
    kept.use(kept.table.filled_down([shop.name], shop.rows_with("")))
    interview.assumed.append(
        sentence("{shop} stands only on the first row of each shop, and is that of the rows below it", shop=shop.name)
    )
    return FilledColumns([shop.name, *filled.columns], filled.line_marks)


def _first_rows(number: TableColumn) -> tuple[list[int], list[int]]:
    """Return the first rows of bills, and the rows below them, of which there may be none."""
    values = number.values
    firsts: list[int] = []
    below: list[int] = []
    repeats: list[int] = []
    for row, value in enumerate(values):
        is_repeated = row > 0 and value == values[row - 1]
        if is_repeated and value:
            repeats.append(row)
        if value and not (is_repeated and number.is_filled):
            firsts.append(row)
        else:
            below.append(row)
    if not number.is_filled and (repeats or not values[0]):
        # Other bills have their number on all rows, so a row without it is no bill.
        return firsts, []
    return firsts, below


def _is_said_of_lines(kept: KeptRows, interview: Interview, firsts: Sequence[int], others: Sequence[int]) -> bool:
    """Return whether rows that lack only the number are lines of the row above. If they are few, an answer says so."""
    if len(others) * FEW_OF_ALL > len(firsts):
        return True
    text = sentence(
        "Line {line} has no {number}, unlike nearly all rows. Is it a line of the bill above?",
        line=kept.table.line(others[0]),
        number=kept.number.name,
    )
    choices = {LEAVE_OUT: sentence("No: leave such rows out"), LINES: sentence("Yes")}
    return interview.choose(UNNUMBERED, "bill", text, choices, free=True) == LINES


def _only_on_first_rows(table: ExportTable, firsts: Sequence[int], others: Sequence[int]) -> list[str]:
    """Return the columns that only first rows have a value in."""
    names = []
    for name, column in table.columns.items():
        is_on_first = any(column.values[row] for row in firsts)
        is_on_other = any(column.values[row] for row in others)
        if is_on_first and not is_on_other:
            names.append(name)
    return names


def _are_lines(kept: KeptRows, others: Sequence[int], *, is_number_asked: bool) -> bool:
    """Return whether the rows without a number are items of the row above, and not rows of their own day."""
    items = kept.ranks.with_role("item")
    if not items and is_number_asked:
        items = list(kept.table.columns.values())
    if not any(all(item.values[row] for row in others) for item in items):
        return False
    timed = kept.ranks.with_role("datetime", "tradingDay", "time")
    timed += [column for column in kept.table.columns.values() if column.is_date and column not in timed]
    if any(_changes_within(column, others) for column in timed):
        return all(kept.number.values[row] for row in others)
    return True


def _changes_within(column: TableColumn, rows: Sequence[int]) -> bool:
    """Return whether one of these rows has another value than the row above it."""
    return any(column.values[row] not in ("", column.values[row - 1]) for row in rows)


# --- marks of a void ------------------------------------------------------------------------


def _marks_of_lines(
    kept: KeptRows, interview: Interview, names: Sequence[str], bills: Sequence[Sequence[int]]
) -> list[str]:
    """Return the columns whose void on the first row of a bill is that of this line, as the totals show, or ask."""
    columns = [kept.table.columns[name] for name in names]
    marks = [column for column in columns if _may_mark_lines(kept.ranks, column, bills)]
    if not marks:
        return []
    [column, *_] = marks
    is_of_line = _marks_lines(kept.ranks, column, bills)
    if is_of_line is None:
        text = sentence(
            "{column} has {value} only on the first line of some bills. What was cancelled?",
            column=column.name,
            value=column.distinct[0],
        )
        choices = {"bill": sentence("the whole bill"), "line": sentence("only that line")}
        is_of_line = interview.choose(f"void.{column.name}", "state", text, choices) == "line"
    return [mark.name for mark in marks] if is_of_line else []


def _may_mark_lines(ranks: Ranks, column: TableColumn, bills: Sequence[Sequence[int]]) -> bool:
    """Return whether a void that only some bills have, on their first row, may be that of the line."""
    is_doubtful = any(ranks.probable_state(column, value) in (VOID, REFUND) for value in column.distinct)
    is_on_all = all(column.values[rows[0]] for rows in bills)
    return (ranks.is_void_mark(column) or is_doubtful) and not is_on_all


def _marks_lines(ranks: Ranks, mark: TableColumn, bills: Sequence[Sequence[int]]) -> bool | None:
    """Return whether a mark on the first row of a bill is about that line, if the totals of the bills show it."""
    several = [rows for rows in bills if len(rows) > 1]
    marked = [rows for rows in several if mark.values[rows[0]]]
    others = [rows for rows in several if not mark.values[rows[0]]]
    if not marked or not others:
        return None
    for total, amount in permutations(ranks.with_role(*TOTAL_ROLES), 2):
        sums = {rows[0]: sum(map(amount.amount, rows)) for rows in several}
        if any(total.amount(rows[0]) != sums[rows[0]] for rows in others):
            continue
        if all(total.amount(rows[0]) == sums[rows[0]] - amount.amount(rows[0]) for rows in marked):
            return True
        if all(total.amount(rows[0]) in (0, sums[rows[0]]) for rows in marked):
            return False
    return None
