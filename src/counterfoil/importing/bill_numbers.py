"""What the form and the order of bill numbers say, and IDs that are made from names of shops."""

import re
from collections.abc import Sequence
from datetime import date, datetime
from itertools import pairwise, permutations
from unicodedata import combining, normalize

from counterfoil.importing import headings
from counterfoil.importing.column_profiles import ANY_CENTURY, SampleColumn, SheetSample, day_of
from counterfoil.importing.values import BUDDHIST_OFFSET, time_in

_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
_LONG_NUMBER = 10
_LONG_CODE = 12
_MANY_SWITCHES = 3
_ENOUGH_BILLS = 5
# Bills have fewer lines than that on average.
_MANY_LINES = 20
_DAY_LETTERS = len("2026-11-14")
_LAST_NUMBER = re.compile(r"(\d+)\D*$", re.ASCII)


def last_number(value: str) -> int:
    """Return the last digits of a bill's number, or 0 if it has none."""
    found = _LAST_NUMBER.search(value)
    return int(found[1]) if found else 0


def number_by_values(sheet: SheetSample, *, has_items: bool) -> SampleColumn | None:
    """Return the column without a known heading whose values grow with time, like the numbers of bills."""
    found: dict[tuple[bool, ...], SampleColumn] = {}
    moments = _moments(sheet)
    owners = list(zip([row.sheet.name for row in sheet.rows], *_places(sheet), strict=True))
    for column in sheet.columns.values() if moments else ():
        numbers = [last_number(value) for value in column.values] if column.role is None and column.is_whole else [0]
        if not all(numbers) or _count_rows(sheet, numbers):
            continue
        by_day = [(owner, moment.date()) for owner, moment in zip(owners, moments, strict=True)]
        if any(_grow(numbers, moments, groups, has_items=has_items) for groups in (owners, by_day)):
            found.setdefault(tuple(one == other for one, other in pairwise(column.values)), column)
    # Columns that group the rows in different ways are asked about.
    return next(iter(found.values())) if len(found) == 1 else None


def _moments(sheet: SheetSample) -> list[datetime]:
    """Return the time of each row, or nothing if some have none."""
    dated = [column for column in sheet.with_role("datetime", "tradingDay") if column.is_date]
    clocks = [column for column in sheet.with_role("time") if column.is_clock]
    texts = next((column.values for column in dated if column.has_times), [])
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
    if any(len({moments[row] for row in rows}) > 1 for rows in bills) or has_items != any(rows[1:] for rows in bills):
        return False
    ordered = [pairwise(sorted(rows, key=numbers.__getitem__)) for rows in rows_by(groups)]
    pairs = [
        (moments[one], moments[other]) for rows in ordered for one, other in rows if numbers[one] != numbers[other]
    ]
    # A bill may be closed later than the next one. Parts of a bill, such as orders, are often at the same time.
    growing = [later > earlier or (later == earlier and not has_items) for earlier, later in pairs]
    return len(growing) >= _ENOUGH_BILLS and sum(growing) * 10 >= len(growing) * 9


def _count_rows(sheet: SheetSample, numbers: Sequence[int]) -> bool:
    """Return whether numbers count the rows of a file, so that another export has the same ones for other bills."""
    return all(sorted(numbers[row] for row in rows) == list(range(1, len(rows) + 1)) for rows in bills_of(sheet, ()))


def bills_of(sheet: SheetSample, columns: Sequence[str]) -> list[list[int]]:
    """Return the rows of each bill. The same key in two files may be one bill or two, so files are kept apart."""
    return rows_by([row.sheet.name for row in sheet.rows], *(sheet.columns[name].values for name in columns))


def rows_by(*columns: Sequence[object]) -> list[list[int]]:
    """Return the rows that have the same values in all columns."""
    found: dict[tuple[object, ...], list[int]] = {}
    for row, values in enumerate(zip(*columns, strict=True)):
        found.setdefault(values, []).append(row)
    return list(found.values())


def joins_bills(sheet: SheetSample, column: SampleColumn) -> bool:
    """Return whether a column is the same on more rows, or at more times, of a day than one bill has."""
    times = [one.values for one in sheet.with_role("tradingDay", "datetime", "time")]
    days = [[value[:_DAY_LETTERS] for value in values] for values in times[:1]]
    groups = set(zip(column.values, *_places(sheet), *days, strict=True))
    is_always_same = len(column.distinct) == 1 and len(set(zip(*times, strict=True))) > len(groups)
    return is_always_same or len(groups) * _MANY_LINES < len(sheet.rows)


def _places(sheet: SheetSample) -> list[list[str]]:
    return [column.values for column in (*sheet.with_role("shopId")[:1], *sheet.with_role("deviceId")[:1])]


def misfits_of(sheet: SheetSample, number: SampleColumn) -> int:
    """Return how many bills have lines that do not add up to a total, if a column has the bills' numbers."""
    days = [one.name for one in sheet.with_role("tradingDay", "datetime") if not one.has_times]
    bills, amounts = bills_of(sheet, [number.name, *days[:1]]), sheet.with_role(*headings.TOTAL_ROLES)
    misfits = (
        sum({total.amount(row) for row in rows} != {sum(map(amount.amount, rows))} for rows in bills)
        for total, amount in permutations(amounts, 2)
    )
    return min(misfits, default=0)


def is_long_id(value: str) -> bool:
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
    forms = [form for one in years for form in (f"{one}{day:%m%d}", f"{day:%d%m}{one}", f"{day:%m%d}{one}")]
    return any(form in digits for form in forms)


def shop_ids(names: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, name in enumerate(names, start=1):
        plain = "".join(letter for letter in normalize("NFKD", name.casefold()) if not combining(letter))
        slug = re.sub(r"[^A-Za-z0-9]+", "-", plain).strip("-") or f"shop-{number}"
        found[name] = slug if slug not in found.values() else f"{slug}-{number}"
    return found
