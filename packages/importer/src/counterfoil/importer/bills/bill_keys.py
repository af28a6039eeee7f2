"""Finds what identifies a bill: its number and, unless numbers never start again, the day, the shop and the till."""

import re
from collections.abc import Sequence
from datetime import date
from itertools import pairwise

from msgspec import Struct

from counterfoil.importer.bills.bill_numbers import bills_of, last_number
from counterfoil.importer.columns import FEW_VALUES, ExportTable, TableColumn, rows_by
from counterfoil.importer.interview import Interview
from counterfoil.importer.ranks import NUMBER_ROLES, OTHER_TIME, REFUND, SALE, TOTAL_ROLES, VOID, Ranks
from counterfoil.importing.values import BUDDHIST_OFFSET

LONG_NUMBER, LONG_CODE, MANY_SWITCHES = 10, 12, 3
DAYS_OF_PROOF = 7
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)


class BillKey(Struct, frozen=True):
    """The columns that identify a bill, and why."""

    columns: tuple[str, ...]
    reason: str
    is_proven: bool
    """Whether the numbers are known never to start again without what is joined to them."""


class KeyParts(Struct, frozen=True):
    """What may identify a bill: columns, and the day of each row."""

    number: TableColumn
    days: Sequence[date | None]
    dated: Sequence[TableColumn]
    """The columns with the day of a bill, the best first. There are none if bills are undone on other days."""
    times: Sequence[TableColumn]
    shop: TableColumn | None
    tills: Sequence[TableColumn]
    kinds: Sequence[TableColumn]
    """The column that tells a sale from its refund, if both have the same number."""

    @property
    def groups(self) -> list[TableColumn]:
        """The branch and the till, each of which may have numbers of its own."""
        return [column for column in (self.shop, *self.tills) if column]


def answered_key(answer: str, kinds: Sequence[TableColumn]) -> BillKey:
    """Return the key that an answer such as `Date + Receipt` names."""
    names = _without_repeats([*answer.split(" + "), *(column.name for column in kinds)])
    return BillKey(names, "as answered", is_proven=True)


def find_key(table: ExportTable, ranks: Ranks, parts: KeyParts) -> BillKey:
    """Return the columns that identify a bill: those of a sale, and the one that tells a sale from its refund."""
    key = _key_of_sale(table, ranks, parts)
    names = _without_repeats([*key.columns, *(column.name for column in parts.kinds)])
    return BillKey(names, key.reason, key.is_proven)


def _without_repeats(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _key_of_sale(table: ExportTable, ranks: Ranks, parts: KeyParts) -> BillKey:
    number, days, groups = parts.number, parts.days, parts.groups
    if number.distinct and all(map(is_long_id, number.distinct)):
        return BillKey((number.name,), "the IDs are long", is_proven=True)
    if _increases(number, days, groups):
        numbers = set(zip(number.values, *(column.values for column in groups), strict=True))
        if len(numbers) == len(set(number.values)):
            return BillKey((number.name,), f"the numbers increase over {len(set(days)):,} days", is_proven=True)
        joined = [column.name for column in groups if len(column.distinct) > 1]
        reason = "the numbers increase from day to day, and repeat between " + " and ".join(joined)
        return BillKey((*joined, number.name), reason, is_proven=True)
    has_day = _contain_days(number, days)
    reason = "the IDs contain the day" if has_day else "numbers may start again every day"
    names: list[str] = []
    if parts.dated and not has_day:
        best = min(parts.dated, key=lambda column: (ranks.closing(column) == OTHER_TIME, column.has_times))
        names.append(best.name)
    if parts.shop and len(parts.shop.distinct) > 1:
        names.append(parts.shop.name)
    of_sale = [*names, number.name]
    names += [till.name for till in parts.tills if _has_own_bills(table, till, of_sale, parts.times)]
    return BillKey((*names, number.name), reason, is_proven=has_day)


# --- what the numbers show ---------------------------------------------------------------


def is_long_id(value: str) -> bool:
    """Return whether an ID is random, or has so many digits that it is not a number that starts again at 1."""
    if _UUID.fullmatch(value):
        return True
    if not value.isascii() or " " in value:
        return False
    digits = sum(len(run.lstrip("0")) for run in re.findall(r"\d+", value))
    switches = len(re.findall(r"(?<=\d)[A-Za-z]|(?<=[A-Za-z])\d", value))
    return digits >= LONG_NUMBER or (len(value) >= LONG_CODE and switches >= MANY_SWITCHES)


def _contain_days(number: TableColumn, days: Sequence[date | None]) -> bool:
    for value, day in zip(number.values, days, strict=True):
        if not value:
            continue
        if not _contains_day(value, day):
            return False
    return True


def _contains_day(value: str, day: date | None) -> bool:
    """Return whether a bill number contains its day, such as 20261114-001 or INV691114-01."""
    if day is None:
        return False
    digits = re.sub(r"\D", "", value)
    years = [str(day.year), str(day.year + BUDDHIST_OFFSET)]
    years += [year[2:] for year in years]
    for year in years:
        forms = (f"{year}{day:%m%d}", f"{day:%d%m}{year}", f"{day:%m%d}{year}")
        if any(form in digits for form in forms):
            return True
    return False


def _increases(number: TableColumn, days: Sequence[date | None], groups: Sequence[TableColumn]) -> bool:
    """Return whether the numbers of each branch and till go on increasing over at least a week."""
    known = [day for day in days if day]
    numbers = [last_number(value) for value in number.values]
    if len(set(known)) < DAYS_OF_PROOF or len(known) < len(days) or not all(numbers):
        return False
    rows = []
    for row, day in enumerate(known):
        place = tuple(column.values[row] for column in groups)
        rows.append((place, day, numbers[row]))
    rows.sort()
    for (place, day, count), (next_place, next_day, next_count) in pairwise(rows):
        if place == next_place and day != next_day and count >= next_count:
            return False
    return True


def _has_own_bills(table: ExportTable, till: TableColumn, key: Sequence[str], times: Sequence[TableColumn]) -> bool:
    """Return whether each till has bills of its own. If not, a bill's items were ordered at several devices.

    Bills of two tills that have the same number may also have the same time, but few of them do.
    """
    of_several_tills = at_same_time = 0
    for rows in bills_of(table, key):
        if till.is_same_in([rows]):
            continue
        of_several_tills += 1
        if all(column.is_same_in([rows]) for column in times):
            at_same_time += 1
    return at_same_time * 10 <= of_several_tills


# --- sales that are refunded or undone under the same number --------------------------------


def are_pair(ranks: Ranks, rows: Sequence[int]) -> bool:
    """Return whether two rows have the same amounts, in either sign, so that one may undo the other."""
    if len(rows) != 2:
        return False
    has_amount = False
    for total in ranks.with_role(*TOTAL_ROLES):
        sizes = {abs(total.amount(row)) for row in rows}
        if len(sizes) > 1:
            return False
        has_amount = has_amount or any(sizes)
    return has_amount


def are_undone_later(ranks: Ranks, number: TableColumn, days: Sequence[date | None], interview: Interview) -> bool:
    """Return whether rows undo bills of other days, so that the day cannot be a part of a bill's ID."""
    repeated = [rows for rows in rows_by(number.values) if len(rows) > 1]
    totals = ranks.with_role(*TOTAL_ROLES)
    if not totals or not repeated:
        return False
    for rows in repeated:
        if len(rows) != 2 or any(sum(map(total.amount, rows)) for total in totals):
            return False
    states = [answer for name, answer in interview.answers.items() if name.startswith("state.")]
    return VOID in states and any(days[rows[0]] != days[rows[1]] for rows in repeated)


def find_kinds(table: ExportTable, ranks: Ranks, number: TableColumn, interview: Interview) -> list[TableColumn]:
    """Return the column that says whether a row is a sale or its refund, if both have the same number."""
    if ranks.with_role("item", "qty"):
        return []
    repeated = [rows for rows in rows_by(number.values) if len(rows) > 1]
    if not repeated:
        return []
    columns = ranks.with_role("type", "status")
    columns += [column for column in table.columns.values() if column is not number and column not in columns]
    for column in columns:
        if len(column.distinct) > FEW_VALUES or ranks.role(column) in NUMBER_ROLES:
            continue
        meanings = _answered_states(ranks, column, interview)
        if _are_sales_and_refunds([{meanings[column.values[row]] for row in rows} for rows in repeated]):
            return [column]
    return []


def _are_sales_and_refunds(states: Sequence[set[str | None]]) -> bool:
    """Return whether some numbers are those of a sale and its refund, and all others of one state."""
    several = [states_of_number for states_of_number in states if len(states_of_number) > 1]
    return bool(several) and all(states_of_number == {SALE, REFUND} for states_of_number in several)


def _answered_states(ranks: Ranks, column: TableColumn, interview: Interview) -> dict[str, str | None]:
    """Return what the values of a column say by answers or, under a bare heading, by the short list."""
    states = ranks.states(column) if ranks.is_bare(column) else dict.fromkeys(column.values)
    states.setdefault("", SALE)
    whole = interview.answers.get(f"state.{column.name}")
    is_one_for_all = whole not in (None, "", "each")
    doubtful = ranks.doubtful_values(column, is_item=False) if is_one_for_all else []
    for value, meaning in states.items():
        answer = interview.answers.get(f"state.{column.name}.{value}")
        if answer:
            states[value] = answer
        elif is_one_for_all:
            states[value] = whole if value in doubtful else meaning or SALE
    return states
