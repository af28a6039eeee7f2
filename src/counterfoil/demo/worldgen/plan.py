"""The parameters of a world, and the days it covers."""

from collections.abc import Sequence
from datetime import date, datetime, time
from itertools import accumulate, pairwise

from msgspec import Struct

from counterfoil.domain.calendar import DAY_MS, THAI_TIME, days_until, to_ms

EVENING = time(23, 30)
LEGACY_PART = 6


class WorldPlan(Struct, frozen=True, kw_only=True):
    """The size of a world, its last day (Thailand time), and the seed for all random numbers."""

    until: date
    seed: int = 1
    days: int = 120
    bills: int = 13_500
    shops: int = 18
    members: int = 1_500
    malformed_share: float = 0.015
    """The share of members and bills that have malformed values."""

    def __post_init__(self) -> None:
        if self.days < 1 or self.shops < 1:
            raise ValueError("days and shops must be at least 1")
        if self.bills < 0 or self.members < 0:
            raise ValueError("bills and members must not be negative")
        if not 0 <= self.malformed_share <= 1:
            raise ValueError(
                "malformed_share must be between 0 and 1: it is the fraction of records with malformed values"
            )

    @property
    def trading_days(self) -> list[date]:
        return days_until(self.until, self.days)

    @property
    def end_ms(self) -> int:
        """The end of the last day, exclusive."""
        return midnight_ms(self.until) + DAY_MS

    @property
    def tracked_from_ms(self) -> int:
        """The instant when change tracking began. Bills that were closed earlier are history."""
        legacy_days = self.days // LEGACY_PART
        if legacy_days == 0:
            return midnight_ms(self.trading_days[0])
        return evening_ms(self.trading_days[legacy_days - 1])

    @property
    def evenings_ms(self) -> list[int]:
        """The times at which the tills deliver their bills, one for each day with change tracking."""
        evenings = (evening_ms(day) for day in self.trading_days)
        return [evening for evening in evenings if evening > self.tracked_from_ms]


def midnight_ms(day: date) -> int:
    return to_ms(datetime.combine(day, time(), THAI_TIME))


def evening_ms(day: date) -> int:
    return to_ms(datetime.combine(day, EVENING, THAI_TIME))


def apportion(total: int, weights: Sequence[float]) -> list[int]:
    """Split the total into whole numbers, in proportion to the weights."""
    sums = list(accumulate(weights))
    marks = [0, *(round(total * part / sums[-1]) for part in sums)]
    return [after - before for before, after in pairwise(marks)]
