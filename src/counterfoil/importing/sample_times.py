"""What the numbers and the times of a sample show together: on which day a night's bills are, and if PM is missing."""

from datetime import date, timedelta
from itertools import pairwise
from math import inf

from counterfoil.importing.bill_sample import BillSample
from counterfoil.importing.column_profiles import ANY_CENTURY
from counterfoil.importing.values import NIGHT_ENDS, has_half_day, time_in

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
