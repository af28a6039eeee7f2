"""Finds what identifies a bill in a sample: its number alone, or together with the day, the branch and the till.

Bill numbers often start again every day, in every branch or at every till. A sample of a few days cannot show that they
do not, so the safe key contains the day, unless the numbers are unique by their form or increase over many days.
"""

import re
from collections.abc import Sequence
from datetime import date
from itertools import pairwise

from msgspec import Struct

from counterfoil.importing.column_profiles import SampleColumn, SheetSample

DAYS_OF_PROOF = 7
BUDDHIST_OFFSET = 543
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
_LONG_NUMBER = 10
_LONG_CODE = 12
_MANY_SWITCHES = 3
_LAST_NUMBER = re.compile(r"(\d+)\D*$")


class BillKey(Struct, frozen=True):
    """The columns that identify a bill, and the reason for them."""

    columns: tuple[str, ...]
    reason: str
    is_proved: bool


def bills_of(sheet: SheetSample, columns: Sequence[str]) -> list[list[int]]:
    """Return the rows of each bill. The same key in two files may be one bill or two, so files are kept apart."""
    found: dict[tuple[str, ...], list[int]] = {}
    cells = [sheet.columns[name].values for name in columns]
    for place, row in enumerate(sheet.rows):
        found.setdefault((row.sheet.name, *(values[place] for values in cells)), []).append(place)
    return list(found.values())


def _is_long_id(value: str) -> bool:
    """Return whether an ID is random, or has so many digits that it is not a number that starts again at 1."""
    if _UUID.fullmatch(value):
        return True
    if not value.isascii() or " " in value:
        return False
    digits = sum(len(run.lstrip("0")) for run in re.findall(r"\d+", value))
    switches = len(re.findall(r"(?<=\d)[A-Za-z]|(?<=[A-Za-z])\d", value))
    return digits >= _LONG_NUMBER or (len(value) >= _LONG_CODE and switches >= _MANY_SWITCHES)


def contains_day(value: str, day: date | None) -> bool:
    """Return whether a bill number contains its day, such as 20261114-001 or INV691114-01."""
    if day is None:
        return False
    digits = re.sub(r"\D", "", value)
    years = [str(day.year), str(day.year + BUDDHIST_OFFSET)]
    years += [year[2:] for year in years]
    month_day, day_month = f"{day:%m%d}", f"{day:%d%m}"
    return any(
        f"{year}{month_day}" in digits or f"{day_month}{year}" in digits or f"{month_day}{year}" in digits
        for year in years
    )


def find_key(
    sheet: SheetSample,
    number: SampleColumn,
    day_column: SampleColumn | None,
    days: Sequence[date | None],
    shop: SampleColumn | None,
    till: SampleColumn | None,
    times: Sequence[SampleColumn],
) -> BillKey:
    """Return the columns that identify a bill: its number, and what makes it unique."""
    if number.distinct and all(map(_is_long_id, number.distinct)):
        return BillKey((number.name,), "the IDs are long", is_proved=True)
    groups = [column for column in (shop, till) if column]
    if _increases(sheet, number, days, groups):
        if not _repeats_across(number, groups):
            return BillKey((number.name,), f"the numbers increase over {len(set(days)):,} days", is_proved=True)
        joined = [column.name for column in groups if len(column.distinct) > 1]
        reason = "the numbers increase from day to day, and repeat between " + " and ".join(joined)
        return BillKey((*joined, number.name), reason, is_proved=True)
    has_day = all(contains_day(number.values[row], days[row]) for row in range(len(days)) if number.values[row])
    columns: list[str] = []
    if day_column and not has_day:
        columns.append(day_column.name)
    if shop and len(shop.distinct) > 1:
        columns.append(shop.name)
    if till and _is_till_of_bill(bills_of(sheet, [*columns, number.name]), till, times):
        columns.append(till.name)
    if has_day:
        return BillKey((*columns, number.name), "the IDs contain the day", is_proved=True)
    return BillKey((*columns, number.name), "numbers may start again every day", is_proved=False)


def _is_till_of_bill(bills: Sequence[list[int]], till: SampleColumn, times: Sequence[SampleColumn]) -> bool:
    """Return whether each till has bills of its own. If not, a bill's items were ordered at several devices."""
    for rows in bills:
        moments = {tuple(column.values[row] for column in times) for row in rows}
        if len(moments) == 1 and len({till.values[row] for row in rows}) > 1:
            return False
    return True


def _increases(
    sheet: SheetSample, number: SampleColumn, days: Sequence[date | None], groups: Sequence[SampleColumn]
) -> bool:
    """Return whether the numbers of each branch and till go on increasing over at least a week."""
    if len({day for day in days if day}) < DAYS_OF_PROOF:
        return False
    ranges: dict[tuple[str, ...], dict[date, list[int]]] = {}
    for row in range(len(sheet.rows)):
        day, found = days[row], _LAST_NUMBER.search(number.values[row])
        if day is None or found is None:
            return False
        group = tuple(column.values[row] for column in groups)
        ranges.setdefault(group, {}).setdefault(day, []).append(int(found[1]))
    return all(
        max(by_day[earlier]) < min(by_day[later])
        for by_day in ranges.values()
        for earlier, later in pairwise(sorted(by_day))
    )


def _repeats_across(number: SampleColumn, groups: Sequence[SampleColumn]) -> bool:
    """Return whether two branches or tills have the same number."""
    owners = set(zip(number.values, *(column.values for column in groups), strict=True))
    return len(owners) > len(set(number.values))
