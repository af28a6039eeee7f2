"""Proposes when bills were closed: the columns with the day and the time, and how they are written."""

import re
from datetime import date, timedelta
from itertools import pairwise
from math import inf

from counterfoil.importing.answers import CHOICES, NIGHT, Answers
from counterfoil.importing.bill_sample import BillSample, first_other_day
from counterfoil.importing.column_doubts import BUDDHIST_SHIFT
from counterfoil.importing.column_profiles import ANY_CENTURY, DATE_ROLES, MANY_VALUES, SampleColumn, day_of
from counterfoil.importing.export_totals import has_day
from counterfoil.importing.proposals import Proposal
from counterfoil.importing.results import ImportFailed, message
from counterfoil.importing.shop_zones import ShopZones
from counterfoil.importing.values import NIGHT_ENDS, has_half_day, is_after_day, order_of, ordered_date, time_in

NOON = "12:00"
MAC_EPOCH = timedelta(days=1462)
"""Days before which no bill of a recent export is. Some workbooks count from 1904 instead of 1900."""
FALL = 4
"""If the next number has a time that is so many hours earlier, it is one of the afternoon."""
ENOUGH_BILLS = 8
"""Of so many bills, some would be in the afternoon."""


class SampleTimes:
    """The bills of a sample in the order of their branch, day and number, with their time."""

    def __init__(self, sample: BillSample) -> None:
        columns = [column for column in (sample.day, sample.clock) if column]
        self._texts = columns[-1].distinct if columns else []
        self._bills = []
        for row in (bill[0] for bill in sample.bills if columns):
            # Beside a time, a workbook may write the day with the time 0:00.
            day, cell = sample.days[row], columns[-1].values[row]
            clock = time_in(f"{day} {cell}" if sample.clock else cell, ANY_CENTURY, sample.order or "dmy")
            if day and clock:
                self._bills.append((sample.group_of(row), day, sample.number_in(row), clock, row))
        self._bills.sort()
        self.first_night = next((row for *_, clock, row in self._bills if clock < NIGHT_ENDS), None)
        """A row with a time after midnight."""
        self.are_after_days = any(is_after_day(text.split(" ")[-1]) for text in self._texts)

    def first_without_half_day(self) -> int | None:
        """Return a row whose time may lack PM: none is after 12:59, and some are in the night or fall back."""
        if any(map(has_half_day, self._texts)) or any(not 1 <= clock.hour <= 12 for *_, clock, _ in self._bills):
            return None
        pairs = ((one, other) for one, other in pairwise(self._bills) if one[:2] == other[:2])
        fallen = next((row for (*_, before, _), (*_, after, row) in pairs if before.hour - after.hour > FALL), None)
        return fallen if fallen is not None or len(self._bills) < ENOUGH_BILLS else self.first_night

    def goes_on_after_midnight(self) -> bool | None:
        """Return whether the numbers of a night follow those of its own date or, if False, of the day before."""
        first: dict[tuple[tuple[str, ...], date], int] = {}
        last: dict[tuple[tuple[str, ...], date], int] = {}
        for group, day, number, clock, _ in self._bills:
            if clock < NIGHT_ENDS:
                first.setdefault((group, day), number)
            else:
                last[group, day] = number
        found = set()
        for (group, day), number in first.items():
            earlier = [last.get((group, one), inf) for one in (day, day - timedelta(days=1))]
            own, before = (number - one if one < number else inf for one in earlier)
            found |= {own < before} if own != before else set()
        return found.pop() if len(found) == 1 else None


class TimeEntries:
    """Fills the entries of a mapping about days and times."""

    def __init__(self, sample: BillSample, result: Proposal, answers: Answers, today: date, zones: ShopZones) -> None:
        self._sample, self._sheet, self._zones = sample, sample.sheet, zones
        self._answers, self._today = answers, today
        self._result, self._check = result, result.undecided.append

    def propose_format(self) -> None:
        column, order = self._sample.day or self._sample.trading_day, self._sample.order
        if column is None:
            return
        texts = [value for value in column.distinct if ordered_date(value)] if self._sheet.file.sheet.is_typed else []
        dates = [value for value in column.distinct if not ordered_date(value) and day_of(value, "ymd")]
        if texts and dates and all(map(order_of, texts)) and all(int(value[8:10]) <= 12 for value in dates):
            raise ImportFailed(message("dates_swapped", name=column.name, date=dates[0], text=texts[0]))
        if column.is_serial and not column.is_date:
            latest = date(1899, 12, 30) + timedelta(days=max(int(value[:5]) for value in column.filled))
            if latest <= self._today - MAC_EPOCH:
                raise ImportFailed(message("old_serials", name=column.name, value=column.filled[0], day=latest))
            self._result.add("[dates]", "serial", value=True, comment="days are numbers, as Excel writes them")
        elif order:
            found = self._sample.date_order
            reason = "" if "dates.order" in self._answers else found.reason
            self._result.add("[dates]", "order", order, reason)
            if reason and found.is_assumed:
                value, other = column.filled[0], "mdy" if order == "dmy" else "dmy"
                names = {"name": column.name, "value": value, "day": f"{day_of(value, order):%d %b}"}
                self._check(message("date_order_assumed", **names, reason=reason, other=other))
        else:
            text = f"Does the day or the month come first in {column.name}, for example in {column.filled[0]}?"
            days = {order: [day_of(value, order) for value in column.filled] for order in ("dmy", "mdy")}
            examples = [next((f"{day:%d %b %Y}" for day in days[order] if day), "") for order in days]
            self._result.ask("dates.order", text, tuple(days), examples)
        self._calendar(column)
        if self._zones.written in ("UTC", "GMT"):
            self._result.add("[dates]", "timezone", "UTC", "times without an offset")
        else:
            self._result.comment("[dates]", 'timezone = "UTC"  # only if the times are not the shop\'s local time')

    def _calendar(self, column: SampleColumn) -> None:
        """Propose the Buddhist calendar if dates with two-digit years would be decades ahead."""
        days = [day for day in self._sample.days if day]
        if answer := self._answers.get("dates.calendar"):
            self._result.add("[dates]", "calendar", answer)
        elif not days or max(days) <= self._today + timedelta(days=2):
            pass
        elif min(days).year < self._today.year + 5:
            self._check(f"whether {column.name} is read correctly: it has dates in the future, such as {max(days)}.")
        elif re.search(r"\d{4}", column.filled[0]):
            raise ImportFailed(f"{column.name} has {column.filled[0]}, which is decades ahead. Correct the dates.")
        elif (year := max(days).year - BUDDHIST_SHIFT) <= self._today.year:
            self._result.add("[dates]", "calendar", "buddhist", "otherwise the dates would be decades ahead")
            self._check(message("buddhist_years", name=column.name, example=column.filled[0], year=year))
        else:
            text = f"The dates in {column.name}, such as {column.filled[0]}, are decades ahead."
            self._result.ask("dates.calendar", text, CHOICES["dates.calendar"])

    def propose_times(self) -> None:
        day, clock, trading = self._sample.day, self._sample.clock, self._sample.trading_day
        times = SampleTimes(self._sample)
        row = None if "bill.closedAt" in self._answers else times.first_without_half_day()
        if day is None and trading is None:
            self._ask_for_date()
        elif day and (rival := self._sample.rival_day):
            row = first_other_day(day, rival) or 0
            line = self._sheet.rows[row].line
            text = f"{day.name} and {rival.name} have different days on line {line}. On which was the bill closed?"
            self._result.ask("bill.closedAt", text, (day.name, rival.name), (day.values[row], rival.values[row]))
        elif day and clock is None and (clocks := self._sample.possible_clocks):
            text = f"Which column has the time of day beside {day.name}? Without it, every bill gets {NOON}."
            names = [f"{day.name} + {column.name}" for column in clocks]
            examples = [*(f"as in {column.filled[0]}" for column in clocks), "only the day is used"]
            self._result.ask("bill.closedAt", text, (*names, day.name), examples)
        elif day and row is not None:
            column, line = clock or day, self._sheet.rows[row].line
            text = message("half_days", name=column.name, value=column.values[row], line=line)
            choices = (f"{day.name} + {clock.name}", day.name) if clock else (day.name,)
            self._result.ask("bill.closedAt", text, choices, ("it was at night", "only the day is used"))
        elif day:
            trading = self._trading_day(times, day)
            self._result.add("[bill]", "closedAt", [day.name, clock.name] if clock else day.name)
            if not clock and not day.has_times and all(map(str.isdigit, day.filled if day.is_serial else ())):
                self._check("the time of day. The dates have no time, so every bill gets 12:00.")
                self._result.add("[dates]", "defaultTime", NOON, "assumed; the export has no times")
            if self._zones.column:
                self._result.add("[bill]", "timezone", self._zones.column.name)
            elif self._zones.assumed:
                self._check(f"the time zone. It is {self._zones.assumed}, unless you use --timezone.")
        if trading:
            self._result.add("[bill]", "tradingDay", trading.name)

    def _trading_day(self, times: SampleTimes, day: SampleColumn) -> SampleColumn | None:
        """Return the column with the day of business, and propose on which calendar day its night is, or ask."""
        entry, clock, trading, row = NIGHT, self._sample.clock, self._sample.trading_day, times.first_night
        if times.are_after_days:
            return trading or day
        goes_on = times.goes_on_after_midnight()
        answer = self._answers.get(entry) or (None if goes_on is None else CHOICES[entry][not goes_on])
        if clock is None or row is None or not (day is trading or goes_on or entry in self._answers):
            return trading
        if answer:
            self._result.add("[dates]", "nightUntil", answer, "times before this are on the next calendar day")
        else:
            text = message("night", day=day.name, clock=clock.values[row], line=self._sheet.rows[row].line)
            self._result.ask(entry, text, CHOICES[entry], ("on the calendar day after it", "on that day"))
        return day

    def _ask_for_date(self) -> None:
        columns = [one for one in self._sheet.columns.values() if one.filled]
        named = [one for one in columns if one.may_be(*DATE_ROLES)]
        unknown = [one for one in columns if one.role is None]
        dated = [one for one in unknown if one.is_date or any(map(has_day, one.distinct[:MANY_VALUES]))]
        text, choices = "Which column has the date of a bill? None was found.", (dated or unknown)[:4]
        if named and not dated:
            text, choices = message("no_date_format", name=named[0].name, value=named[0].filled[0]), []
        examples = [f"as in {one.filled[0]}" for one in choices]
        self._result.ask("bill.closedAt", text, [one.name for one in choices], examples)
