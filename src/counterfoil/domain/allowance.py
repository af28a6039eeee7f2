"""Computes how many requests a key may make: the rolling minute window and the daily quota (Thailand time).

For every key, the meter records the instants of the requests that it admitted,
in microseconds. These instants never decrease, even if the clock is set back. The
minute window is computed from them and is exact.
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
# The operator is warned about a key that has used this fraction of its daily quota.
NEARLY_USED_UP = 0.8


class Admitted(Struct, frozen=True):
    """The request was admitted. `count` is the number of requests today, including this one.

    `horizon` is the serverTime of the response: the newest horizon that was
    ever reported to the key's lineage. It is None on a store with one server,
    whose horizon never moves back.
    """

    day: date
    count: int
    horizon: int | None = None


class TooFast(Struct, frozen=True):
    """The request was refused, because the minute window is full for another `retry_after_sec` seconds."""

    retry_after_sec: int


def wait_before(oldest_that_blocks: int | None, now: int) -> int:
    """Return the microseconds until the minute window has room for another request, or 0 if it has room now.

    `oldest_that_blocks` is the instant of the `per_min`-th latest admission, or
    None if no such admission is stored. The window is half-open: an admission
    that is exactly 60 seconds old no longer counts.
    """
    if oldest_that_blocks is None:
        return 0
    return max(0, oldest_that_blocks + WINDOW_US - now)


def retry_after(wait_us: int) -> int:
    return max(1, -(-wait_us // 1_000_000))


def remaining(key: Key, count: int) -> int:
    return max(0, key.per_day - count)


def is_quota_exceeded(key: Key, count: int) -> bool:
    return count > key.per_day


def usage(key: Key, admitted: Admitted, counts: dict[date, int]) -> Usage:
    """Return the usage report. Today's count includes this request."""
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
