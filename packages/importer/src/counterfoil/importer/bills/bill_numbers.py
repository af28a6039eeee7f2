"""Finds the column with the number of a bill, or asks which one has it."""

import re
from collections.abc import Sequence
from datetime import date, datetime
from itertools import pairwise, permutations

from msgspec import Struct

from counterfoil.importer.bills.bill_rows import KeptRows, summary_per_day
from counterfoil.importer.columns import ANY_CENTURY, ExportTable, TableColumn, day_of, rows_by
from counterfoil.importer.form import sentence
from counterfoil.importer.interview import Interview, NeedsOtherReport, Refuted
from counterfoil.importer.ranks import NUMBER_ROLES, REFUND, TOTAL_ROLES, VOID, Ranks
from counterfoil.importing.values import time_in

MOST_CHOICES = 4
ENOUGH_BILLS = 5
MANY_LINES = 20
"""Bills have fewer lines than that on average."""
DAY_LETTERS = len("2026-11-14")
_LAST_NUMBER = re.compile(r"(\d+)\D*$", re.ASCII)
_TEXT = re.compile(r"[^\W\d_]{2,}\W+[^\W\d_]{2,}")


def last_number(value: str) -> int:
    """Return the last digits of a bill's number, or 0 if it has none."""
    found = _LAST_NUMBER.search(value)
    return int(found[1]) if found else 0


def find_number(kept: KeptRows, interview: Interview, *, has_line_file: bool) -> bool:
    """Find the column with the number of a bill, and return whether a person says or must say that it is one."""
    answer = interview.answer("bill")
    if answer is not None:
        column = _answered_column(kept, answer)
        kept.take_number(column.name, is_new_role=False)
        return True
    choice = _number_columns(kept.table, kept.ranks, has_line_file=has_line_file)
    if not choice.columns:
        named = _number_by_heading(kept)
        if named is not None:
            interview.assume(sentence("{number} is the number of a bill, as its heading says", number=named.name))
            kept.take_number(named.name, is_new_role=True)
            return False
        kept.take_number(_asked_number(kept, interview), is_new_role=True)
        return True
    name = choice.columns[0].name
    if choice.is_guessed:
        interview.assume(sentence("{number} is the number of a bill. Its values grow like one", number=name))
        kept.take_number(name, is_new_role=True)
    elif len(choice.columns) > 1:
        kept.take_number(_chosen_number(choice.columns, interview), is_new_role=True)
    else:
        kept.take_number(name, is_new_role=False)
    return False


# --- what is asked ----------------------------------------------------------------------


def _answered_column(kept: KeptRows, answer: str) -> TableColumn:
    """Return the last column of an answer such as `Date + Receipt`, or refute it."""
    names = answer.split(" + ")
    columns = kept.table.columns
    for name in names:
        if name not in columns:
            raise Refuted("bill", answer, sentence("there is no column {name}", name=name))
    for name in names:
        column = columns[name]
        role = kept.ranks.role(column)
        is_fraction = role in NUMBER_ROLES and not column.is_whole
        if role in ("item", "qty") or is_fraction:
            reason = sentence("{column}, such as {value}, is in many bills", column=name, value=column.distinct[0])
            raise Refuted("bill", answer, reason)
    return columns[names[-1]]


def _chosen_number(columns: Sequence[TableColumn], interview: Interview) -> str:
    """Ask which of several columns has the number of a bill, and return its name."""
    choices = {}
    for column in columns[:MOST_CHOICES]:
        choices[column.name] = sentence("{one}, as in {value}", one=column.name, value=column.distinct[0])
    text = sentence("Which column has the number of a bill?")
    return interview.choose("bill", "bill", text, choices, free=True)


def _asked_number(kept: KeptRows, interview: Interview) -> str:
    """Ask which column identifies a bill, together with the day, because numbers may start again."""
    counts = [column for column in kept.table.columns.values() if kept.ranks.counts_bills(column)]
    day = kept.ranks.first("tradingDay", "datetime")
    if counts and (day is None or not day.has_times):
        raise NeedsOtherReport(summary_per_day(kept.table, counts[0]))
    columns = [column for column in kept.table.columns.values() if _may_be_asked_about(kept.ranks, column)]
    if not columns:
        raise NeedsOtherReport(
            sentence(
                "{table} has no column with the number of a bill. Export a report with a row for each bill "
                "or each item, and with the number of the bill.",
                table=kept.table.name,
            )
        )
    choices = {}
    for column in columns[:MOST_CHOICES]:
        example = column.distinct[0]
        if day:
            choices[f"{day.name} + {column.name}"] = sentence(
                "{one}, as in {value}, which starts again every day", one=column.name, value=example
            )
        else:
            choices[column.name] = sentence("{one}, as in {value}", one=column.name, value=example)
    text = sentence("No heading says which column has the number of a bill. Which one has it?")
    typed = sentence("If another one has it, type its heading. If none has it, export a report with it.")
    answer = interview.choose("bill", "bill", text, choices, free=True, typed=typed, must_confirm=True)
    return answer.split(" + ")[-1]


def _may_be_asked_about(ranks: Ranks, column: TableColumn) -> bool:
    is_free = ranks.role(column) in (None, "productId") and not ranks.may_be(column, *NUMBER_ROLES)
    return is_free and column.is_like_an_id and not column.has_decimals and not ranks.is_clock(column)


# --- what headings and values show ----------------------------------------------------------


class NumberChoice(Struct, frozen=True):
    """The columns that may have the number of a bill, the best first. `is_guessed` is by their values alone."""

    columns: list[TableColumn]
    is_guessed: bool = False


def _number_columns(table: ExportTable, ranks: Ranks, *, has_line_file: bool) -> NumberChoice:
    """Return the columns that may have the number of a bill: several only if they make different bills."""
    candidates = [column for column in ranks.with_role("id") if _may_be_number(table, ranks, column)]
    has_items = ranks.first("item") is not None and not has_line_file
    several = has_items and len(candidates) > 1

    def badness(column: TableColumn) -> tuple[bool, bool, bool, bool, int]:
        is_row_id = has_items and len(column.distinct) == len(table.rows) > 2
        is_partial = not column.is_filled and not has_items
        misfits = _misfits(table, ranks, column) if several else 0
        return is_row_id, is_partial, ranks.counts_bills(column), len(column.distinct) == 1, misfits

    badness_of = {column.name: badness(column) for column in candidates}
    candidates.sort(key=lambda column: (badness_of[column.name], ranks.rank(column, "id")))
    least = badness_of[candidates[0].name] if candidates else None
    if least is None or least[0] or least[1]:
        guess = _number_by_values(table, ranks, has_items=has_items)
        if guess is not None:
            return NumberChoice([guess], is_guessed=True)
    rivals = [column for column in candidates if badness_of[column.name] == least]
    if least and least[1]:
        rivals += _filled_numbers(table, ranks, rivals)
    return NumberChoice(_with_other_bills(rivals))


def _filled_numbers(table: ExportTable, ranks: Ranks, rivals: Sequence[TableColumn]) -> list[TableColumn]:
    """Return other columns that have a value of its own on each row, such as the ID of the till's own orders."""
    found = []
    for column in table.columns.values():
        is_each_new = column.is_filled and len(column.distinct) == len(table.rows) >= ENOUGH_BILLS
        is_other = column not in rivals and not ranks.may_be(column, *NUMBER_ROLES)
        is_number = column.is_like_an_id and not column.has_decimals and not ranks.is_clock(column)
        if is_each_new and is_other and is_number and not column.counts_rows and not ranks.names_person(column):
            found.append(column)
    return found


def _may_be_number(table: ExportTable, ranks: Ranks, column: TableColumn) -> bool:
    """Return whether a column under a heading of an ID may have the numbers of bills."""
    if column.filled * 10 < len(table.rows):
        return False
    if _joins_bills(table, ranks, column) or _is_text(column):
        return False
    if ranks.heading_state(column) in (VOID, REFUND) or ranks.may_be(column, "payout"):
        return False
    is_amount = column.is_number and ranks.may_be(column, *NUMBER_ROLES - {"qty"})
    return not is_amount


def _with_other_bills(columns: Sequence[TableColumn]) -> list[TableColumn]:
    """Leave out columns that group the rows in the same way as an earlier one."""
    groupings: dict[tuple[tuple[int, ...], ...], TableColumn] = {}
    for column in columns:
        groupings.setdefault(tuple(map(tuple, rows_by(column.values))), column)
    return list(groupings.values())


def _is_text(column: TableColumn) -> bool:
    """Return whether most values are texts, such as the items of a cart."""
    texts = [value for value in column.distinct if _TEXT.search(value)]
    return len(texts) * 2 > len(column.distinct)


def _joins_bills(table: ExportTable, ranks: Ranks, column: TableColumn) -> bool:
    """Return whether a column is the same on more rows, or at more times, of a day than one bill has."""
    times = [dated.values for dated in ranks.with_role("tradingDay", "datetime", "time")]
    days = [[value[:DAY_LETTERS] for value in values] for values in times[:1]]
    groups = set(zip(column.values, *_places(ranks), *days, strict=True))
    moments = set(zip(*times, strict=True))
    is_always_same = len(column.distinct) == 1 and len(moments) > len(groups)
    return is_always_same or len(groups) * MANY_LINES < len(table.rows)


def _places(ranks: Ranks) -> list[Sequence[str]]:
    """Return the cells of the branch and of the till, as far as there are any."""
    places = (ranks.first("shopId"), ranks.first("deviceId"))
    return [place.values for place in places if place]


def _misfits(table: ExportTable, ranks: Ranks, number: TableColumn) -> int:
    """Return how many bills have lines that do not add up to a total, if a column has the bills' numbers."""
    days = [column.name for column in ranks.with_role("tradingDay", "datetime") if not column.has_times]
    bills = bills_of(table, [number.name, *days[:1]])
    fewest = len(bills)
    pairs = list(permutations(ranks.with_role(*TOTAL_ROLES), 2))
    for total, amount in pairs:
        misfits = 0
        for rows in bills:
            totals = {total.amount(row) for row in rows}
            misfits += totals != {sum(map(amount.amount, rows))}
        fewest = min(fewest, misfits)
    return fewest if pairs else 0


def bills_of(table: ExportTable, names: Sequence[str]) -> list[list[int]]:
    """Return the rows of each bill. The same key in two files may be one bill or two, so files are kept apart."""
    files = [row.sheet.name for row in table.rows]
    return rows_by(files, *(table.columns[name].values for name in names))


# --- numbers under a heading such as `No` -----------------------------------------------------


def _number_by_heading(kept: KeptRows) -> TableColumn | None:
    """Return the only column under a heading such as `No` or `Transaction` that may have the number of a bill."""
    table, ranks = kept.table, kept.ranks
    named = []
    for column in table.columns.values():
        is_named = _may_be_asked_about(ranks, column) and ranks.is_bare_number(column)
        if is_named and _may_be_bare_number(table, ranks, column):
            named.append(column)
    # Of columns that make the same bills, the best one counts no rows, and does not start again.
    named.sort(key=lambda column: (_counts_rows_of(table, column), -len(column.distinct)))
    dated = ranks.first("tradingDay", "datetime")
    days = [] if dated is None else [[value[:DAY_LETTERS] for value in dated.values]]
    groupings = set()
    for column in named:
        bills = rows_by(column.values, *days)
        groupings.add(tuple(map(tuple, bills)))
    return named[0] if len(groupings) == 1 else None


def _may_be_bare_number(table: ExportTable, ranks: Ranks, column: TableColumn) -> bool:
    """Return whether the values of a column do not only number the items, or the rows of several days."""
    is_of_rows = len(column.distinct) == len(table.rows)
    if not column.is_filled or (is_of_rows and ranks.with_role("item", "qty")):
        return False
    if not _counts_rows_of(table, column):
        return True
    dated = ranks.first("tradingDay", "datetime")
    return dated is not None and len({value[:DAY_LETTERS] for value in dated.values}) == 1


def _counts_rows_of(table: ExportTable, column: TableColumn) -> bool:
    return _count_rows(table, [last_number(value) for value in column.values])


# --- numbers that only their values show ------------------------------------------------------


def _number_by_values(table: ExportTable, ranks: Ranks, *, has_items: bool) -> TableColumn | None:
    """Return the only column without a known heading whose values grow with time, like the numbers of bills."""
    moments = moments_of(ranks)
    if not moments:
        return None
    files = [row.sheet.name for row in table.rows]
    owners: list[tuple[str, ...]] = list(zip(files, *_places(ranks), strict=True))
    by_day = [(owner, moment.date()) for owner, moment in zip(owners, moments, strict=True)]
    growing: dict[tuple[bool, ...], TableColumn] = {}
    for column in table.columns.values():
        if ranks.role(column) is not None or not column.is_whole or ranks.may_be(column, *NUMBER_ROLES):
            continue
        numbers = [last_number(value) for value in column.values]
        if not all(numbers) or _count_rows(table, numbers):
            continue
        grows = _grow(numbers, moments, owners, has_items=has_items)
        if grows or _grow(numbers, moments, by_day, has_items=has_items):
            # Columns that change on the same rows make the same bills.
            changes = tuple(value == following for value, following in pairwise(column.values))
            growing.setdefault(changes, column)
    return next(iter(growing.values())) if len(growing) == 1 else None


def moments_of(ranks: Ranks) -> list[datetime]:
    """Return the time of each row, or nothing if some have none."""
    texts = _texts_of_moments(ranks)
    for order in ("dmy", "mdy"):
        moments = []
        for text in texts:
            day, time = day_of(text, order), time_in(text, ANY_CENTURY, order)
            if day and time:
                moments.append(datetime.combine(day, time))
        if len(moments) == len(texts):
            return moments
    return []


def _texts_of_moments(ranks: Ranks) -> Sequence[str]:
    """Return the cells with the day and the time of each row, or nothing if there are none."""
    dated = [column for column in ranks.with_role("datetime", "tradingDay") if column.is_date]
    for column in dated:
        if column.has_times:
            return column.values
    clocks = [column for column in ranks.with_role("time") if ranks.is_clock(column)]
    if not dated or not clocks:
        return []
    return [f"{day} {time}" for day, time in zip(dated[0].values, clocks[0].values, strict=True)]


def _grow(
    numbers: Sequence[int],
    moments: Sequence[datetime],
    groups: Sequence[tuple[str, ...]] | Sequence[tuple[tuple[str, ...], date]],
    *,
    has_items: bool,
) -> bool:
    """Return whether the rows with larger numbers are later in each group, and those with the same one are a bill."""
    bills = rows_by(groups, numbers)
    for rows in bills:
        if len({moments[row] for row in rows}) > 1:
            return False
    has_lines = any(len(rows) > 1 for rows in bills)
    if has_items != has_lines:
        return False
    pairs = growing = 0
    for rows in rows_by(groups):
        for row, following in pairwise(sorted(rows, key=numbers.__getitem__)):
            if numbers[row] == numbers[following]:
                continue
            # A bill may be closed later than the next one. Parts of a bill are often at the same time.
            is_same = moments[row] == moments[following] and not has_items
            pairs += 1
            growing += moments[following] > moments[row] or is_same
    return pairs >= ENOUGH_BILLS and growing * 10 >= pairs * 9


def _count_rows(table: ExportTable, numbers: Sequence[int]) -> bool:
    """Return whether numbers count the rows of a file, so that another export has the same ones for other bills."""
    by_file = rows_by([row.sheet.name for row in table.rows])
    for rows in by_file:
        counted = list(range(1, len(rows) + 1))
        if sorted(numbers[row] for row in rows) != counted:
            return False
    return True
