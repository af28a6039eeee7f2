"""How much a key may ask: the exact rolling minute and the Thai day's quota.

A store keeps, for every key, the instants of the requests it admitted, in
microseconds on a clock that never steps. These functions say what follows.
"""

from datetime import date

from msgspec import Struct

from counterfoil.domain.access import Key
from counterfoil.domain.calendar import compact, days_until
from counterfoil.domain.resources import DayCount, Rate, Today, Usage

WINDOW_SEC = 60
WINDOW_US = WINDOW_SEC * 1_000_000
USAGE_DAYS = 7
REQUEST_RECORD_DAYS = 90
DAILY_TOTAL_DAYS = 400


class Admitted(Struct, frozen=True):
    """The request is counted; `count` is the day's number with this one.

    `horizon` is what the answer reports as serverTime: the newest that the
    key's lineage was ever given. A store of one server needs none: its horizon
    never goes back.
    """

    day: date
    count: int
    horizon: int | None = None


class TooFast(Struct, frozen=True):
    """The minute is full; a slot is free after `retry_after_sec`."""

    retry_after_sec: int


def wait_before(oldest_that_blocks: int | None, now: int) -> int:
    """Microseconds until a request fits, given the `per_min`-th latest admission; 0 when it fits now.

    A request at the very end of a slot's minute fits: 60 seconds hold one
    end of the interval and not the other.
    """
    if oldest_that_blocks is None:
        return 0
    return max(0, oldest_that_blocks + WINDOW_US - now)


def retry_after(wait_us: int) -> int:
    return max(1, -(-wait_us // 1_000_000))


def remaining(key: Key, count: int) -> int:
    return max(0, key.per_day - count)


def exceeded(key: Key, count: int) -> bool:
    return count > key.per_day


def usage(key: Key, admitted: Admitted, counts: dict[date, int]) -> Usage:
    """The usage answer; today's number is the one this very request was given."""
    days = days_until(admitted.day, USAGE_DAYS)
    known = counts | {admitted.day: admitted.count}
    return Usage(
        key_id=key.key_id,
        label=key.label,
        scope=key.scope.kind,
        rate=Rate(per_min=key.per_min, per_day=key.per_day),
        today=Today(date=compact(admitted.day), count=admitted.count, remaining=remaining(key, admitted.count)),
        days=[DayCount(date=compact(day), count=known.get(day, 0)) for day in days],
    )
