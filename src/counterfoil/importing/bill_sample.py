"""What the rows of a sample say about its bills: which rows belong together, when a bill was closed, if it counts.

Bill numbers often start again every day, in every branch or at every till. A sample of a few days cannot show that they
do not, so the safe key contains the day, unless the numbers are unique by their form or increase over many days.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cached_property
from itertools import pairwise, permutations

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.importing import column_profiles, headings
from counterfoil.importing.answers import Answers
from counterfoil.importing.bill_numbers import (
    bills_of,
    contains_day,
    is_long_id,
    joins_bills,
    last_number,
    misfits_of,
    number_by_values,
    rows_by,
)
from counterfoil.importing.column_profiles import MANY_VALUES, SampleColumn, SheetSample, day_of
from counterfoil.importing.date_orders import SampleDateOrder
from counterfoil.importing.export_totals import is_caption, is_statistic, is_total_label, is_total_word
from counterfoil.importing.mapping import REFUND, SALE, SKIP, VOID
from counterfoil.importing.results import ImportFailed, message
from counterfoil.importing.values import NIGHT_ENDS, time_in

DAYS_OF_PROOF = 7


class SampleKey(Struct, frozen=True):
    columns: tuple[str, ...]
    reason: str
    is_proved: bool


def first_other_day(one: SampleColumn, other: SampleColumn) -> int | None:
    """Return the first row on which two columns have different days."""
    pairs = enumerate(zip(one.values, other.values, strict=True))
    days = ((row, day_of(first, "dmy"), day_of(second, "dmy")) for row, (first, second) in pairs)
    return next((row for row, first, second in days if first and second and first != second), None)


MOST_STATUSES = 6


class SampleCancelled(Struct, frozen=True):
    """The column that says whether a line was cancelled. `unknown` are values that say neither."""

    column: SampleColumn
    values: dict[str, bool]
    unknown: tuple[str, ...]

    def has(self, row: int) -> bool:
        return self.values.get(self.column.values[row], False)


class BillSample:
    """The bills of a sample. `answers` are what the operator said about entries of the mapping.

    `unreduced` is the sample with the sales that other rows void, which are left out.
    """

    def __init__(
        self,
        sheet: SheetSample,
        *,
        has_line_file: bool,
        names_shop: bool,
        answers: Answers,
        today: date,
        timezone: str | None = None,
        unreduced: "BillSample | None" = None,
    ) -> None:
        self.sheet = sheet
        self._unreduced = unreduced
        self._answers = answers
        self.ends_in_totals = False
        self.values_left_out: set[str] = set()
        self.skipped = self._skipped_rows(has_line_file=has_line_file)
        self._leave_out_totals()
        self.is_number_guessed = False
        self.number = self._find_number(has_line_file=has_line_file)
        self.marks_in_doubt: list[str] = []
        """Columns with a void on the first row of bills that may be that of the row or of the bill."""
        self.marks_of_lines: list[str] = []
        self.filled_down = [] if has_line_file else self._fill_down()
        self.trading_day = next(iter(sheet.with_role("tradingDay")), None)
        self.rival_day: SampleColumn | None = None
        """Another column that may have the day of a bill, and has another one on some rows."""
        self.possible_clocks: list[SampleColumn] = []
        """The columns that may have the time of day, if the one that has it was not found."""
        self.day, self.clock = self._find_times()
        days = [column for column in (self.day, self.trading_day) if column]
        self.date_order = SampleDateOrder(sheet, days, today, timezone)
        self.order = answers.get("dates.order") or (self.date_order.order if days else None)
        """The order of day, month and year, if it is known."""
        self.days = self._read_days()
        self._refuse_summary()
        named = self._answered("bill.shopId") or [one for one in sheet.with_role("shopId") if one.filled]
        self.shop = None if names_shop else next(iter(named), None)
        self.is_flat = not has_line_file and self._has_lines()
        self._tills = [one for one in sheet.with_role("deviceId") if len(one.filled) == len(sheet.rows)][:1]
        self._groups = [column for column in (self.shop, *self._tills) if column]
        """The branch and the till, each of which may have numbers of its own."""
        key, kinds = self._find_key(), [one.name for one in self._kinds]
        self.key = replace(key, columns=tuple(dict.fromkeys((*key.columns, *kinds)))) if key else None
        self.bills = bills_of(sheet, self.key.columns) if self.key else [[row] for row in range(len(sheet.rows))]
        self.cancelled: SampleCancelled | None = None
        self.statuses: dict[str, dict[str, str | None]] = {}
        """What each value of a status column says. None is a value that must be explained."""
        self.states_of_rows: dict[str, list[str]] = {}
        """The values of a status that is not the same on all rows of a bill, and not that of a line."""
        self._find_statuses()

    def is_of_bill(self, column: SampleColumn) -> bool:
        """Return whether a column has the same value on all rows of each bill."""
        return all(column.values[row] == column.values[bill[0]] for bill in self.bills for row in bill)

    def status_of(self, bill: list[int], unknown: str = SKIP) -> str:
        """Return what the status columns say about a bill. The strongest counts; one that is not known is no sale."""
        statuses = [(self.sheet.columns[name].values[bill[0]], one) for name, one in self.statuses.items()]
        found = {meanings.get(value) or unknown for value, meanings in statuses}
        return next((status for status in (SKIP, VOID, REFUND) if status in found), SALE)

    def rows_with_status(self, status: str) -> set[int]:
        """Return the rows of bills that have this status or are not finished, and the lines that were cancelled."""
        rows = {row for bill in self.bills if self.status_of(bill) in (status, SKIP) for row in bill}
        cancelled = self.cancelled
        return rows | ({row for row in range(len(self.sheet.rows)) if cancelled.has(row)} if cancelled else set())

    def negative_rows(self) -> set[int]:
        """Return the rows with a negative amount, which is paid back."""
        totals = self.sheet.with_role(*headings.TOTAL_ROLES)
        return {row for row in range(len(self.sheet.rows)) if any((one.number(row) or 0) < 0 for one in totals)}

    def first_repeated_line(self, method: SampleColumn) -> int | None:
        """Return a row that another one repeats with another way of paying, if a bill has all its lines with each."""
        paid = {method.name, *(one.name for one in self.sheet.with_role("tendered", "paid", "wayOfPaying", "change"))}
        others = [column.values for name, column in self.sheet.columns.items() if name not in paid]
        for bill in self.bills:
            lines = defaultdict[str, list[tuple[str, ...]]](list)
            for row in bill:
                lines[method.values[row]].append(tuple(values[row] for values in others))
            first, *rest = lines.values()
            if rest and all(one == first for one in rest):
                return bill[0]
        return None

    def voided_sales(self) -> set[int]:
        """Return the rows of sales that another row with the same number and amount voids."""
        found = set[int]()
        for column in self.sheet.columns.values() if self.pairs else ():
            if column.role in ("status", "type") or self._is_answered(column):
                meanings = {"": SALE} | self._explained(column)
                for pair in self.pairs:
                    by_meaning = {meanings.get(column.values[row]): row for row in pair}
                    found |= {by_meaning[SALE]} if by_meaning.keys() == {SALE, VOID} else set()
        return found

    @cached_property
    def pairs(self) -> list[list[int]]:
        """Two rows with the same number and amount. One may void what the other one sold, also at a later time."""
        by_day = [] if self.is_flat or not self.number else rows_by(self.days, *self._numbers)
        return self._reversed or [rows for rows in by_day if self._is_of_one_amount(rows)]

    @cached_property
    def _reversed(self) -> list[list[int]]:
        """The rows with the same number on any day, if all of them undo each other: numbers do not start again then."""
        repeated = [rows for rows in rows_by(*self._numbers) if len(rows) > 1]
        totals = self.sheet.with_role(*headings.TOTAL_ROLES)
        are_undone = all(self._is_of_one_amount(rows) for rows in repeated) and not any(
            sum(map(one.amount, rows)) for rows in repeated for one in totals
        )
        return repeated if are_undone and not self.is_flat else []

    @property
    def _is_undone_later(self) -> bool:
        """Whether rows undo bills of other days, so that the day cannot be a part of a bill's ID."""
        days = (self._unreduced or self).days
        return any(days[sale] != days[other] for sale, other in (self._unreduced or self)._reversed)

    @property
    def _numbers(self) -> list[list[str]]:
        return [column.values for column in (self.number, *self._groups)] if self.number else []

    def _is_of_one_amount(self, rows: list[int]) -> bool:
        amounts = [{abs(one.amount(row)) for row in rows} for one in self.sheet.with_role(*headings.TOTAL_ROLES)]
        return len(rows) == 2 and any(map(any, amounts)) and all(len(one) == 1 for one in amounts)

    @property
    def has_status(self) -> bool:
        """Whether a column says if a bill counts. One with the currency of all bills does not."""
        return any(self.sheet.columns[name].role != "currency" for name in self.statuses)

    @property
    def has_no_times(self) -> bool:
        """Whether rows of the same number may be two bills of the same day, because nothing shows when they were."""
        has_times = self.clock or (self.day and (self.day.has_times or self.day.is_serial))
        return self.is_flat and not has_times and "bill.id" not in self._answers

    def first_bill_in_parts(self) -> list[int] | None:
        """Return where two parts of a bill begin, if other bills are between them and no time shows that it is one."""
        bills = self.bills if self.has_no_times else ()
        gaps = ([bill[0], later] for bill in bills for row, later in pairwise(bill) if later != row + 1)
        return next(gaps, None)

    # --- which rows belong to which bill ----------------------------------------------

    def _skipped_rows(self, *, has_line_file: bool) -> dict[str, list[str]]:
        """Leave out the rows that are no items, as far as the operator said so; return their values by column."""
        name, _, texts = self._answers.get("skip", "").partition("=")
        if name and name not in self.sheet.columns:
            raise ImportFailed(f"--set skip: there is no column {name}. Write it as in --set 'skip=Item=Cash, Visa'.")
        items = [self.sheet.columns[name]] if name else [] if has_line_file else self.sheet.with_role("item")[:1]
        found = {}
        for column in items:
            wanted = [text.strip() for text in texts.split(",")]
            answered = [text for text in column.distinct if self._answers.about(column.name, text) == SKIP]
            if values := list(dict.fromkeys([*answered, *filter(None, wanted)])):
                found[column.name] = values
                rows = {row for row, text in enumerate(column.values) if text in values}
                self.values_left_out = {one.values[row] for one in self.sheet.columns.values() for row in rows}
                self.sheet.leave_out(rows)
        return found

    def _leave_out_totals(self) -> None:
        """Leave rows of totals out of the sample. The import recognises them by the same words."""
        sheet = self.sheet
        dated = [column for column in sheet.with_role("datetime", "tradingDay") if column.is_date or column.is_serial]
        numbers, items = sheet.with_role("id"), sheet.with_role("item")
        left_out = set[int]()
        for row in range(len(sheet.rows)):
            cells = {name: column.values[row] for name, column in sheet.columns.items()}
            words = [name for name, cell in cells.items() if cell and is_total_word(cell)]
            labels = {column.name: cells[column.name] for column in (*numbers, *dated)}
            words += [name for name, label in labels.items() if is_total_label(label)]
            is_text = [is_caption(cell) for cell in cells.values() if cell] == [True]
            has_day = any(day_of(cells[column.name], order) for column in dated for order in ("dmy", "mdy"))
            has_day = has_day or any(column.is_serial and cells[column.name] for column in dated)
            is_labelled = words and (any(column.name in words for column in numbers) or (dated and not has_day))
            is_bare = dated and numbers and not has_day and not any(cells[one.name] for one in (*numbers, *items))
            has_statistics = bool(dated) and not has_day and any(map(is_statistic, labels.values()))
            if is_labelled or is_bare or is_text or has_statistics:
                left_out.add(row)
            if not has_statistics:
                self.ends_in_totals = row in left_out and not is_text
        if left_out and len(left_out) < len(sheet.rows):
            sheet.leave_out(left_out)

    def _find_number(self, *, has_line_file: bool) -> SampleColumn | None:
        """Return the column with the number or the ID of a bill."""
        sheet = self.sheet
        if named := self._answered("bill.id"):
            return named[-1]
        found = [column for column in sheet.with_role("id") if len(column.filled) * 10 >= len(sheet.rows)]
        found = [column for column in found if not joins_bills(sheet, column)]
        has_items = bool(sheet.with_role("item")) and not has_line_file

        def badness(column: SampleColumn) -> tuple[bool, bool, bool, int, int]:
            is_row_id = has_items and len(column.distinct) == len(sheet.rows) > 2
            is_partial, is_same = len(column.filled) < len(sheet.rows) and not has_items, len(column.distinct) == 1
            misfits = misfits_of(sheet, column) if has_items and len(found) > 1 else 0
            return is_row_id, is_partial, is_same, misfits, column.rank("id")

        best = min(found, key=badness, default=None)
        guess = number_by_values(sheet, has_items=has_items) if best is None or any(badness(best)[:2]) else None
        if guess:
            self.is_number_guessed = True
            guess = sheet.columns[guess.name] = guess.with_values(guess.values)
            guess.matches = (headings.RoleMatch(0, 0, "id"),)
        return guess or best

    def _answered(self, entry: str) -> list[SampleColumn]:
        """Return the columns that the operator named for an entry, if any."""
        names = self._answers[entry].split(" + ") if entry in self._answers else []
        if unknown := [name for name in names if name not in self.sheet.columns]:
            known = ", ".join(self.sheet.columns)
            raise ImportFailed(f"--set {entry}: there is no column {unknown[0]}. The columns are: {known}.")
        return [self.sheet.columns[name] for name in names]

    def _fill_down(self) -> list[str]:
        """If a bill's number is only on its first row, fill it down; return the columns that are only there."""
        sheet, number = self.sheet, self.number
        if number is None or not sheet.rows:
            return []
        starts = [bool(value) for value in number.values]
        repeats = [row > 0 and value == number.values[row - 1] for row, value in enumerate(number.values)]
        if all(starts):
            starts = [not is_same for is_same in repeats]
        elif not starts[0] or any(is_same and starts[row] for row, is_same in enumerate(repeats)):
            # Other bills have their number on all rows, so a row without it is damaged.
            return []
        firsts = [row for row, is_start in enumerate(starts) if is_start]
        rest = [row for row, is_start in enumerate(starts) if not is_start]
        items = sheet.with_role("item") or (list(sheet.columns.values()) if "bill.id" in self._answers else [])
        if not rest or not any(all(item.values[row] for row in rest) for item in items):
            return []
        names = [
            name
            for name, column in sheet.columns.items()
            if any(column.values[row] for row in firsts) and not any(column.values[row] for row in rest)
        ]
        marks = [name for name in names if self._may_mark_lines(sheet.columns[name], firsts)]
        if marks:
            bills = [list(range(first, end)) for first, end in pairwise([*firsts, len(sheet.rows)])]
            is_of_line = self._marks_lines(sheet.columns[marks[0]], bills)
            if is_of_line is None:
                self.marks_in_doubt = marks
            elif is_of_line:
                self.marks_of_lines = marks
            names = [name for name in names if is_of_line is False or name not in marks]
        if not names:
            return []
        # Where a column changes, those after it begin again, so the outer ones come first.
        outer = [column.name for column in sheet.with_role("shopId", "tradingDay", "datetime") if column.name in names]
        names = list(dict.fromkeys([*outer, number.name, *names]))
        for name in names:
            sheet.fill_down(name, rest)
        self.number = sheet.columns[number.name]
        return names

    def _may_mark_lines(self, column: SampleColumn, firsts: Sequence[int]) -> bool:
        """Return whether a void that only some bills have, on their first row, may be that of the line."""
        is_mark = headings.heading_status(column.name) in (VOID, REFUND) or any(
            headings.exception_in(value) or self._answers.about(column.name, value) == VOID for value in column.distinct
        )
        return is_mark and not all(column.values[row] for row in firsts)

    def _marks_lines(self, column: SampleColumn, bills: Sequence[list[int]]) -> bool | None:
        """Return whether a mark on the first row of a bill is about that line, if the totals of the bills show it."""
        if column in self._answered("line.cancelled") or "void" in self._answers:
            return self._answers.get("void") != "bill"
        several = [bill for bill in bills if len(bill) > 1]
        marked = [bill for bill in several if column.values[bill[0]]]
        others = [bill for bill in several if bill not in marked]
        for total, amount in permutations(self.sheet.with_role(*headings.TOTAL_ROLES), 2):
            lines = {bill[0]: sum(map(amount.amount, bill)) for bill in several}
            if not (marked and others) or any(total.amount(bill[0]) != lines[bill[0]] for bill in others):
                continue
            if all(total.amount(bill[0]) == lines[bill[0]] - amount.amount(bill[0]) for bill in marked):
                return True
            if all(total.amount(bill[0]) in (0, lines[bill[0]]) for bill in marked):
                return False
        return None

    @cached_property
    def _runs(self) -> list[list[int]]:
        """The rows that follow each other and seem to belong to one bill: same number, branch and till."""
        sheet = self.sheet
        is_row_per_bill = not sheet.with_role("item", "qty", "method")
        same = [self.number, *sheet.with_role("shopId")[:1], *sheet.with_role("deviceId")[:1], *self._kinds]
        cells = [column.values for column in same if column]
        runs: list[list[int]] = []
        for row in range(len(sheet.rows)):
            goes_on = row and not is_row_per_bill and self.number
            if goes_on and all(values[row] == values[row - 1] for values in cells):
                runs[-1].append(row)
            else:
                runs.append([row])
        return runs

    def _is_of_run(self, column: SampleColumn) -> bool:
        return all(column.values[row] == column.values[run[0]] for run in self._runs for row in run)

    def _find_times(self) -> tuple[SampleColumn | None, SampleColumn | None]:
        """Return the column with the day (or day and time) of a bill, and the one with the time of day."""
        sheet = self.sheet
        if named := self._answered("bill.closedAt"):
            return named[0], named[1] if len(named) > 1 else None
        columns = sheet.columns.values()
        closing = [column for column in columns if column.role is None and headings.closing_rank(column.name) == 0]
        dated = [
            *sheet.with_role("datetime"),
            *(column for column in closing if column.is_date or column.is_serial),
        ] or [column for column in columns if column.is_date and column.role in (None, "time")]
        # Beside a time in UTC, the one of the shop has the day on which people were there.
        # `Time` may have the day too.
        dated += [one for one in columns if one not in dated and one.is_date and one.has_times and one.may_be("time")]
        in_utc = [column for column in dated if "utc" in headings.words_of(column.name)]
        dated.sort(key=lambda column: (headings.closing_rank(column.name), column in in_utc))
        of_bill = [column for column in dated if self._is_of_run(column)] or dated
        clocks = [*sheet.with_role("time"), *(column for column in closing if column.is_clock)]
        clocks = [column for column in clocks if not headings.names(column.name, "times", "duration")]
        clocks = [column for column in clocks if headings.closing_rank(column.name) != headings.OTHER_TIME]
        clocks.sort(key=lambda column: headings.closing_rank(column.name))
        clocks = [column for column in clocks if self._is_of_run(column)] or clocks
        with_time = [column for column in of_bill if column.has_times]
        day = next(iter(of_bill if clocks and of_bill and not of_bill[0].has_times else with_time or of_bill), None)
        if not clocks and not (day and (day.has_times or day.is_serial)):
            clocks = self._clocks_by_values()
        day = day or (self.trading_day if clocks else None)
        rank = headings.closing_rank(day.name) if day else None
        rivals = [column for column in of_bill if column is not day and column not in in_utc]
        rivals = [column for column in rivals if headings.closing_rank(column.name) == rank]
        self.rival_day = next((column for column in rivals if day and first_other_day(day, column) is not None), None)
        return day, next(iter(clocks), None) if day and not day.has_times else None

    def _clocks_by_values(self) -> list[SampleColumn]:
        """Return the only column whose values are times of day. If several differ, or few are common, it is asked."""
        columns = [column for column in self.sheet.columns.values() if column.role in (None, "time")]
        found = [column for column in columns if column.is_clock and not column.is_number]
        found = [column for column in found if not headings.names(column.name, "times", "duration")]
        likely = [column for column in found if headings.closing_rank(column.name) != headings.OTHER_TIME]
        texts = [f"2026-01-01 {value}" for column in likely[:1] for value in column.distinct]
        times = [moment for text in texts if (moment := time_in(text, column_profiles.ANY_CENTURY, "ymd"))]
        # The bills of a shop are at many times, also by day. Shifts begin at a few round ones.
        usual = [moment for moment in times if moment >= NIGHT_ENDS and moment.minute % 5]
        is_varied = len(usual) * 4 >= min(len(self._runs), MANY_VALUES)
        if likely and is_varied and all(column.values == likely[0].values for column in likely):
            return likely[:1]
        self.possible_clocks = found
        return []

    def _read_days(self) -> list[date | None]:
        """Return the day of each row."""
        column = self.day or self.trading_day
        if column is None:
            return [None] * len(self.sheet.rows)
        by_value = {value: day_of(value, self.order or "dmy") for value in column.distinct}
        return [by_value.get(value) for value in column.values]

    def _refuse_summary(self) -> None:
        """Refuse a file with one row per day, or per day and shop, and a number of bills, because it has no bills."""
        day, number = self.day or self.trading_day, self.number
        columns = self.sheet.columns.values()
        counts = [column for column in columns if column.is_number and headings.is_count(column.name)]
        cells = [column.values for column in (day, *self.sheet.with_role("shopId")[:1]) if column]
        is_per_day = day and not day.has_times and len(set(zip(*cells, strict=True))) == len(self.sheet.rows) > 1
        if counts and is_per_day and number in (None, *counts) and "bill.id" not in self._answers:
            name = self.sheet.file.sheet.name
            raise ImportFailed(message("summary", name=name, count=counts[0].name))

    def _has_lines(self) -> bool:
        sheet = self.sheet
        repeats = any(len(run) > 1 for run in self._runs)
        if sheet.with_role("item"):
            return self.number is not None and (repeats or bool(sheet.with_role("qty", "unitPrice")))
        return repeats and bool(sheet.with_role("qty"))

    @cached_property
    def _kinds(self) -> list[SampleColumn]:
        """The column that says whether a row is a sale or its refund, if both have the same number."""
        if self.number is None or self.sheet.with_role("item", "qty"):
            return []
        kinds = self.sheet.with_role("type", "status")
        others = [one for one in self.sheet.columns.values() if one not in (self.number, *kinds)]
        kinds += [one for one in others if len(one.distinct) <= MANY_VALUES and self._is_status(one)]
        for column in kinds:
            meanings = {"": SALE} | headings.statuses_of(column.name, column.distinct)
            known = [self._answers.about(column.name, value) or meanings[value] for value in column.values]
            found = {frozenset(known[row] for row in rows) for rows in rows_by(self.number.values)}
            if {one for one in found if len(one) > 1} == {frozenset({SALE, REFUND})}:
                return [column]
        return []

    def _find_key(self) -> SampleKey | None:
        """Return the columns that identify a bill: its number, and what makes it unique."""
        number, sheet, days = self.number, self.sheet, self.days
        if number is None:
            return None
        if named := self._answered("bill.id"):
            return SampleKey(tuple(column.name for column in named), "as answered", is_proved=True)
        if number.distinct and all(map(is_long_id, number.distinct)):
            return SampleKey((number.name,), "the IDs are long", is_proved=True)
        if self._increases():
            if len(set(zip(*self._numbers, strict=True))) == len(set(number.values)):
                return SampleKey((number.name,), f"the numbers increase over {len(set(days)):,} days", is_proved=True)
            joined = [column.name for column in self._groups if len(column.distinct) > 1]
            reason = "the numbers increase from day to day, and repeat between " + " and ".join(joined)
            return SampleKey((*joined, number.name), reason, is_proved=True)
        dated = [column for column in (self.trading_day, self.day, *sheet.with_role("datetime")) if column]
        dated = [column for column in dated if self._is_of_run(column) and not self._is_undone_later]
        dated.sort(key=lambda one: (headings.closing_rank(one.name) == headings.OTHER_TIME, one.has_times))
        has_day = all(contains_day(value, day) for value, day in zip(number.values, days, strict=True) if value)
        columns = [] if has_day else [column.name for column in dated[:1]]
        if self.shop and len(self.shop.distinct) > 1:
            columns.append(self.shop.name)
        columns += [till.name for till in self._tills if self._is_till_of_bill(till, [*columns, number.name])]
        reason = "the IDs contain the day" if has_day else "numbers may start again every day"
        return SampleKey((*columns, number.name), reason, is_proved=has_day)

    def group_of(self, row: int) -> tuple[str, ...]:
        return tuple(column.values[row] for column in self._groups)

    def number_in(self, row: int) -> int:
        return last_number(self.number.values[row]) if self.number else 0

    def _increases(self) -> bool:
        """Return whether the numbers of each branch and till go on increasing over at least a week."""
        rows, days = range(len(self.days)), [day for day in self.days if day]
        numbers = [self.number_in(row) for row in rows]
        if len(set(days)) < DAYS_OF_PROOF or len(days) < len(rows) or not all(numbers):
            return False
        ordered = pairwise(sorted(zip(map(self.group_of, rows), days, numbers, strict=True)))
        next_days = [(one, other) for one, other in ordered if one[0] == other[0] and one[1] != other[1]]
        return all(one[2] < other[2] for one, other in next_days)

    def _is_till_of_bill(self, till: SampleColumn, key: Sequence[str]) -> bool:
        """Return whether each till has bills of its own. If not, a bill's items were ordered at several devices.

        Bills of two tills that have the same number may also have the same time, but few of them do.
        """
        times = [column for column in (self.day, self.clock) if column]
        several = [rows for rows in bills_of(self.sheet, key) if len({till.values[row] for row in rows}) > 1]
        moments = [{tuple(column.values[row] for column in times) for row in rows} for rows in several]
        return sum(len(found) == 1 for found in moments) * 10 <= len(moments)

    # --- status -------------------------------------------------------------------------

    def _find_statuses(self) -> None:
        """Find the columns that say whether a bill counts, and the one that says whether a line does."""
        key = self.key.columns if self.key else ()
        for name, column in self.sheet.columns.items():
            values = column.distinct
            if not values and (
                column.heading_role in ("status", "type") or headings.heading_status(name) in (VOID, REFUND)
            ):
                # A value in a later file must be explained.
                self.statuses[name] = {"": SALE}
            is_named = self._is_answered(column) or column in self._answered("line.cancelled")
            is_free = name not in key or column.role in ("status", "type") or column in self._kinds
            is_status = len(values) <= MANY_VALUES and is_free and self._is_status(column)
            if not values or name in self.marks_in_doubt or not (is_named or is_status):
                continue
            meanings = self._explained(column)
            for value in self._reversals(column, meanings):
                # The sale that it reverses is a bill of its own, if this one names it.
                meanings[value] = REFUND if self.refers_to_bill(value) else None
            is_of_line = column in self._answered("line.cancelled") or name in self.marks_of_lines
            if is_of_line or not self.is_of_bill(column):
                others = [value for value, meaning in meanings.items() if meaning != SALE]
                if others and not self.is_flat:
                    self.states_of_rows[name] = others
                elif others and self.cancelled is None:
                    self.cancelled = self._cancelled_lines(column, meanings)
                continue
            if len(column.filled) < len(column.values):
                is_flag = all(map(_is_flag, values))
                are_exceptions = all(meaning in (VOID, REFUND) for meaning in meanings.values())
                meanings[""] = SALE if is_flag or are_exceptions or self._is_answered(column) else None
            self.statuses[name] = meanings

    def _explained(self, column: SampleColumn) -> dict[str, str | None]:
        """Return what the values of a status column mean, by their words and by what the operator said."""
        meanings = headings.statuses_of(column.name, column.distinct)
        if whole := self._answers.get(f"status.{column.name}"):
            meanings = {value: SALE if headings.says_nothing(value) else whole for value in meanings}
        elif self._is_answered(column):
            meanings = dict.fromkeys(meanings, SALE)
        elif column.role == "currency":
            return dict.fromkeys(meanings, SALE)
        elif set(meanings.values()) == {SKIP}:
            # It is improbable that no bill of an export counts.
            meanings = dict.fromkeys(meanings)
        elif len({*column.values}) == 1 and not any(meanings.values()) and all(map(_is_flag, meanings)):
            meanings = dict.fromkeys(meanings, SALE)
        for value in meanings:
            if meanings[value] == REFUND and self._is_state_of_sale(column, value):
                meanings[value] = None
            meanings[value] = self._answers.about(column.name, value) or meanings[value]
        return meanings

    def _is_state_of_sale(self, column: SampleColumn, value: str) -> bool:
        """Return whether a value says that the sale of its row was refunded. A refund of its own may be negative."""
        is_refunded = headings.is_one_of(column.name if headings.flag_of(value) else value, "refunded")
        return is_refunded and not self.rows_with(column, value) <= self.negative_rows()

    def _reversals(self, column: SampleColumn, meanings: Mapping[str, str | None]) -> list[str]:
        """Return the values of bills that are void and negative, unless a row with the same number has the sale."""
        voids = [
            one for one, meaning in meanings.items() if meaning == VOID and not self._answers.about(column.name, one)
        ]
        is_known = self._unreduced or f"status.{column.name}" in self._answers
        return [] if is_known else [value for value in voids if self.rows_with(column, value) <= self.negative_rows()]

    def rows_with(self, column: SampleColumn, value: str) -> set[int]:
        return {row for row, text in enumerate(column.values) if text == value}

    def answer_name(self, column: str, value: str) -> str:
        """Return what `--set` names for a value: also its column, if others have the value too, or it is yes or no."""
        others = [name for name, one in self.sheet.columns.items() if name != column and value in one.distinct]
        is_common = others or not value or headings.flag_of(value) is not None
        return f"status.{column}.{value}" if is_common else f"status.{value}"

    def refers_to_bill(self, value: str) -> bool:
        """Return whether a text names the number of a bill, which is longer than that of a table or a guest."""
        numbers = self.number.distinct if self.number else []
        return any(len(word) > 2 and word in numbers for word in (value, *re.findall(r"[\w-]+", value)))

    def _is_status(self, column: SampleColumn) -> bool:
        values = column.distinct
        known = [meaning for meaning in headings.statuses_of(column.name, values).values() if meaning]
        if column.role == "type":
            # A type may also be a channel, or something that is the same for all bills, or of customers or rooms.
            is_group = headings.names(column.name, "groups") or headings.names(column.name, "people")
            return bool(known) or (len(values) > 1 and not (is_group or all(map(headings.channel_of, values))))
        if column.role == "status" or self._is_answered(column):
            return True
        if column.role == "currency":
            # All amounts are in this currency. Several ones are asked about.
            return len(values) == 1
        of_heading = headings.heading_status(column.name)
        if (of_heading in (VOID, REFUND) or column.heading_role in headings.CHARGES) and column.is_named_as_amount:
            # Void Qty, Void Amount and Charges are not flags.
            return False
        if (of_heading or headings.names(column.name, "no_sale")) and all(map(_is_flag, values)):
            return True
        has_exceptions = VOID in known or REFUND in known or of_heading in (VOID, REFUND)
        is_understood = len(known) == len(values) and has_exceptions and column.heading_role != "voidReason"
        # `Order deleted` may also be the number of an order.
        is_free = column.role is None or (column.role == "id" and of_heading)
        return bool(is_free and is_understood) or (column.role is None and self._may_be_status(column))

    def has_other_values(self, column: SampleColumn) -> bool:
        """Return whether a later file may have more values in a column of words, such as new ways of paying."""
        if column in self._kinds:
            # A remark that is added to a bill would make it another one.
            return False
        names_way = column.role in ("method", "channel") and column.name not in self.statuses
        is_open = self._is_answered(column) and not any(map(self.refers_to_bill, column.distinct))
        return is_open or (names_way and len(column.distinct) <= MANY_VALUES)

    def _is_answered(self, column: SampleColumn) -> bool:
        """Return whether a person has said that bills with some way of paying, or another value, do not count."""
        if f"status.{column.name}" in self._answers:
            return True
        # A number may stand in any column, such as that of the guests.
        is_open = column.role in (None, "method", "channel") and (
            not column.is_number or all(map(_is_flag, column.distinct))
        )
        answers = [
            self._answers.get(f"status.{column.name}.{value}")
            or (self._answers.about(column.name, value) if is_open or not value.isdigit() else None)
            for value in column.distinct
        ]
        return column.role not in ("item", "status", "type") and any(answer not in (SALE, None) for answer in answers)

    def _may_be_status(self, column: SampleColumn) -> bool:
        """Return whether a column of a few codes or words may be a status, so that it is asked about."""
        values, rows = column.distinct, len(column.values)
        filled = [other for other in self.sheet.columns.values() if other.filled]
        is_foreign = sum(other.role is None for other in filled) * 3 >= len(filled) > 2
        are_flags = all(map(_is_flag, values))
        are_codes = all(value.isalnum() and len(value) <= headings.LONGEST_CODE and value != "0" for value in values)
        texts = [value for value in values if not headings.is_placeholder(value)]
        has_numbers = all(any(map(str.isdigit, value)) for value in texts) and not are_codes
        is_everywhere = len(column.filled) * 10 >= rows * 9 and len(values) * 2 <= rows
        groups = ["tax_modes", *(["harmless_flags"] if are_flags else ["groups", "people"])]
        is_group = any(headings.names(column.name, table) for table in groups) and not any(
            map(headings.exception_in, values)
        )
        are_names = is_group or headings.are_names(values)
        if are_names or not (is_foreign or are_flags or is_everywhere) or (has_numbers and not are_flags):
            return False
        return len(values) <= MOST_STATUSES and len({*column.values}) > 1

    def _cancelled_lines(self, column: SampleColumn, meanings: Mapping[str, str | None]) -> SampleCancelled:
        values = {value: meaning == VOID for value, meaning in meanings.items() if meaning in (SALE, VOID)}
        if len(column.filled) < len(column.values):
            values[""] = False
        # Among the lines of a bill, a payment is not a sale.
        unclear = [one for one in meanings if headings.is_payment(one) and not self._answers.about(column.name, one)]
        unknown = [one for one, meaning in meanings.items() if meaning not in (SALE, VOID) or one in unclear]
        return SampleCancelled(column, values, tuple(unknown))


def _is_flag(value: str) -> bool:
    is_amount = any(map(str.isdigit, value)) and not value.isdigit()
    return not is_amount and (headings.flag_of(value) is not None or headings.is_placeholder(value))
