"""Finds what identifies a bill: its number and, unless numbers never start again, the day, the shop and the till."""

import re
from collections.abc import Sequence
from datetime import date, datetime
from itertools import pairwise, permutations

from msgspec import Struct

from counterfoil.importer.columns import ANY_CENTURY, ExportTable, TableColumn, day_of, rows_by
from counterfoil.importer.ranks import NUMBER_ROLES, OTHER_TIME, REFUND, TOTAL_ROLES, VOID, Ranks
from counterfoil.importing.values import BUDDHIST_OFFSET, time_in

_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
_LAST_NUMBER = re.compile(r"(\d+)\D*$", re.ASCII)
_TEXT = re.compile(r"[^\W\d_]{2,}\W+[^\W\d_]{2,}")
LONG_NUMBER, LONG_CODE, MANY_SWITCHES = 10, 12, 3
ENOUGH_BILLS = 5
MANY_LINES = 20
"""Bills have fewer lines than that on average."""
DAYS_OF_PROOF = 7
DAY_LETTERS = len("2026-11-14")


class BillKey(Struct, frozen=True):
    columns: tuple[str, ...]
    reason: str
    is_proven: bool
    """Whether the numbers are known never to start again without what is joined to them."""


class NumberChoice(Struct, frozen=True):
    """The columns that may have the number of a bill, the best first. `is_guessed` is by their values alone."""

    columns: list[TableColumn]
    is_guessed: bool = False


def number_columns(table: ExportTable, ranks: Ranks, *, has_line_file: bool) -> NumberChoice:
    """Return the columns that may have the number of a bill: several only if they make different bills."""
    found = [column for column in ranks.with_role("id") if column.filled * 10 >= len(table.rows)]
    found = [column for column in found if not (_joins_bills(table, ranks, column) or _is_text(column))]
    found = [column for column in found if ranks.heading_state(column) not in (VOID, REFUND)]
    found = [column for column in found if not ranks.may_be(column, *NUMBER_ROLES - {"qty"}) or not column.is_number]
    has_items = ranks.first("item") is not None and not has_line_file
    several = has_items and len(found) > 1

    def badness(column: TableColumn) -> tuple[bool, bool, bool, int]:
        is_row_id = has_items and len(column.distinct) == len(table.rows) > 2
        is_partial = not column.is_filled and not has_items
        misfits = _misfits(table, ranks, column) if several else 0
        return is_row_id, is_partial, len(column.distinct) == 1, misfits

    ordered = sorted(found, key=lambda column: (badness(column), ranks.rank(column, "id")))
    best = ordered[0] if ordered else None
    if best is None or any(badness(best)[:2]):
        guess = _number_by_values(table, ranks, has_items=has_items)
        if guess is not None:
            return NumberChoice([guess], is_guessed=True)
    if best is None:
        return NumberChoice([])
    rivals = [column for column in ordered if badness(column) == badness(best)]
    return NumberChoice(_with_other_bills(rivals))


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


def last_number(value: str) -> int:
    """Return the last digits of a bill's number, or 0 if it has none."""
    found = _LAST_NUMBER.search(value)
    return int(found[1]) if found else 0


def _number_by_values(table: ExportTable, ranks: Ranks, *, has_items: bool) -> TableColumn | None:
    """Return the only column without a known heading whose values grow with time, like the numbers of bills."""
    found: dict[tuple[bool, ...], TableColumn] = {}
    moments = _moments(ranks)
    owners = list(zip([row.sheet.name for row in table.rows], *_places(ranks), strict=True))
    for column in table.columns.values() if moments else ():
        if ranks.role(column) is not None or not column.is_whole or ranks.may_be(column, *NUMBER_ROLES):
            continue
        numbers = [last_number(value) for value in column.values]
        if not all(numbers) or _count_rows(table, numbers):
            continue
        by_day = [(owner, moment.date()) for owner, moment in zip(owners, moments, strict=True)]
        if any(_grow(numbers, moments, groups, has_items=has_items) for groups in (owners, by_day)):
            found.setdefault(tuple(one == other for one, other in pairwise(column.values)), column)
    return next(iter(found.values())) if len(found) == 1 else None


def _moments(ranks: Ranks) -> list[datetime]:
    """Return the time of each row, or nothing if some have none."""
    dated = [column for column in ranks.with_role("datetime", "tradingDay") if column.is_date]
    clocks = [column for column in ranks.with_role("time") if ranks.is_clock(column)]
    texts: Sequence[str] = next((column.values for column in dated if column.has_times), [])
    if not texts and dated and clocks:
        texts = [f"{day} {time}" for day, time in zip(dated[0].values, clocks[0].values, strict=True)]
    for order in ("dmy", "mdy"):
        found = [(day_of(text, order), time_in(text, ANY_CENTURY, order)) for text in texts]
        moments = [datetime.combine(day, time) for day, time in found if day and time]
        if len(moments) == len(texts):
            return moments
    return []


def _grow(numbers: Sequence[int], moments: Sequence[datetime], groups: Sequence[object], *, has_items: bool) -> bool:
    """Return whether the rows with larger numbers are later in each group, and those with the same one are a bill."""
    bills = rows_by(groups, numbers)
    if any(len({moments[row] for row in rows}) > 1 for rows in bills):
        return False
    if has_items != any(len(rows) > 1 for rows in bills):
        return False
    growing = []
    for rows in rows_by(groups):
        for one, other in pairwise(sorted(rows, key=numbers.__getitem__)):
            if numbers[one] != numbers[other]:
                # A bill may be closed later than the next one. Parts of a bill are often at the same time.
                is_same = moments[one] == moments[other] and not has_items
                growing.append(moments[other] > moments[one] or is_same)
    return len(growing) >= ENOUGH_BILLS and sum(growing) * 10 >= len(growing) * 9


def _count_rows(table: ExportTable, numbers: Sequence[int]) -> bool:
    """Return whether numbers count the rows of a file, so that another export has the same ones for other bills."""
    by_file = rows_by([row.sheet.name for row in table.rows])
    return all(sorted(numbers[row] for row in rows) == list(range(1, len(rows) + 1)) for rows in by_file)


def bills_of(table: ExportTable, columns: Sequence[str]) -> list[list[int]]:
    """Return the rows of each bill. The same key in two files may be one bill or two, so files are kept apart."""
    return rows_by([row.sheet.name for row in table.rows], *(table.columns[name].values for name in columns))


def _joins_bills(table: ExportTable, ranks: Ranks, column: TableColumn) -> bool:
    """Return whether a column is the same on more rows, or at more times, of a day than one bill has."""
    times = [one.values for one in ranks.with_role("tradingDay", "datetime", "time")]
    days = [[value[:DAY_LETTERS] for value in values] for values in times[:1]]
    groups = set(zip(column.values, *_places(ranks), *days, strict=True))
    is_always_same = len(column.distinct) == 1 and len(set(zip(*times, strict=True))) > len(groups)
    return is_always_same or len(groups) * MANY_LINES < len(table.rows)


def _places(ranks: Ranks) -> list[Sequence[str]]:
    return [column.values for column in (*ranks.with_role("shopId")[:1], *ranks.with_role("deviceId")[:1])]


def _misfits(table: ExportTable, ranks: Ranks, number: TableColumn) -> int:
    """Return how many bills have lines that do not add up to a total, if a column has the bills' numbers."""
    days = [one.name for one in ranks.with_role("tradingDay", "datetime") if not one.has_times]
    bills = bills_of(table, [number.name, *days[:1]])
    fewest = len(bills)
    pairs = list(permutations(ranks.with_role(*TOTAL_ROLES), 2))
    for total, amount in pairs:
        misfits = 0
        for rows in bills:
            misfits += {total.amount(row) for row in rows} != {sum(map(amount.amount, rows))}
        fewest = min(fewest, misfits)
    return fewest if pairs else 0


def is_long_id(value: str) -> bool:
    """Return whether an ID is random, or has so many digits that it is not a number that starts again at 1."""
    if _UUID.fullmatch(value):
        return True
    if not value.isascii() or " " in value:
        return False
    digits = sum(len(run.lstrip("0")) for run in re.findall(r"\d+", value))
    switches = len(re.findall(r"(?<=\d)[A-Za-z]|(?<=[A-Za-z])\d", value))
    return digits >= LONG_NUMBER or (len(value) >= LONG_CODE and switches >= MANY_SWITCHES)


def contains_day(value: str, day: date | None) -> bool:
    """Return whether a bill number contains its day, such as 20261114-001 or INV691114-01."""
    if day is None:
        return False
    digits = re.sub(r"\D", "", value)
    years = [str(day.year), str(day.year + BUDDHIST_OFFSET)]
    years += [year[2:] for year in years]
    for year in years:
        if any(form in digits for form in (f"{year}{day:%m%d}", f"{day:%d%m}{year}", f"{day:%m%d}{year}")):
            return True
    return False


def find_key(
    table: ExportTable,
    ranks: Ranks,
    number: TableColumn,
    days: Sequence[date | None],
    groups: Sequence[TableColumn],
    dated: Sequence[TableColumn],
    shop: TableColumn | None,
    tills: Sequence[TableColumn],
    clocks: Sequence[TableColumn],
) -> BillKey:
    """Return the columns that identify a bill. `dated` have its day, the best first, and may be empty."""
    if number.distinct and all(map(is_long_id, number.distinct)):
        return BillKey((number.name,), "the IDs are long", is_proven=True)
    if _increases(number, days, groups):
        numbers = [column.values for column in (number, *groups)]
        if len(set(zip(*numbers, strict=True))) == len(set(number.values)):
            return BillKey((number.name,), f"the numbers increase over {len(set(days)):,} days", is_proven=True)
        joined = [column.name for column in groups if len(column.distinct) > 1]
        reason = "the numbers increase from day to day, and repeat between " + " and ".join(joined)
        return BillKey((*joined, number.name), reason, is_proven=True)
    has_day = all(contains_day(value, day) for value, day in zip(number.values, days, strict=True) if value)
    ordered = sorted(dated, key=lambda one: (ranks.closing(one) == OTHER_TIME, one.has_times))
    names = [] if has_day else [column.name for column in ordered[:1]]
    if shop and len(shop.distinct) > 1:
        names.append(shop.name)
    names += [till.name for till in tills if _has_own_bills(table, till, [*names, number.name], clocks)]
    reason = "the IDs contain the day" if has_day else "numbers may start again every day"
    return BillKey((*names, number.name), reason, is_proven=has_day)


def _increases(number: TableColumn, days: Sequence[date | None], groups: Sequence[TableColumn]) -> bool:
    """Return whether the numbers of each branch and till go on increasing over at least a week."""
    known = [day for day in days if day]
    numbers = [last_number(value) for value in number.values]
    if len(set(known)) < DAYS_OF_PROOF or len(known) < len(days) or not all(numbers):
        return False
    places = [tuple(column.values[row] for column in groups) for row in range(len(days))]
    ordered = sorted(zip(places, known, numbers, strict=True))
    for one, other in pairwise(ordered):
        if one[0] == other[0] and one[1] != other[1] and one[2] >= other[2]:
            return False
    return True


def _has_own_bills(table: ExportTable, till: TableColumn, key: Sequence[str], times: Sequence[TableColumn]) -> bool:
    """Return whether each till has bills of its own. If not, a bill's items were ordered at several devices.

    Bills of two tills that have the same number may also have the same time, but few of them do.
    """
    several = [rows for rows in bills_of(table, key) if len({till.values[row] for row in rows}) > 1]
    moments = [{tuple(column.values[row] for column in times) for row in rows} for rows in several]
    return sum(len(found) == 1 for found in moments) * 10 <= len(moments)
