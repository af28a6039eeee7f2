"""Functions for instants (milliseconds since 1970 UTC), days (`datetime.date`) and trading days. None reads a clock."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
THAI_OFFSET = 7 * HOUR_MS
THAI_TIME = timezone(timedelta(milliseconds=THAI_OFFSET))
NOON = time(12)
NOON_TEXT = "12:00"
MINUTE_MS = 60_000
MS = timedelta(milliseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_ORDINAL = EPOCH.toordinal()
# Entries of the time zone database that stand for this machine's own setting or for no zone, or count leap seconds.
NOT_ZONES = ("localtime", "posixrules", "Factory", "posix/", "right/")

# These parts of a timestamp are formatted once, because formatting numbers would take half the time of `iso`.
_MINUTES = tuple(f"{minute // 60:02}:{minute % 60:02}" for minute in range(24 * 60))
_SECONDS = tuple(f"{second:02}" for second in range(60))
_MILLISECONDS = tuple(f"{ms:03}" for ms in range(1000))


def to_ms(moment: datetime) -> int:
    """Return the instant of an aware datetime, rounded down to a millisecond."""
    return (moment - EPOCH) // MS


def from_ms(instant: int, zone: tzinfo) -> datetime:
    return (EPOCH + timedelta(milliseconds=instant)).astimezone(zone)


@lru_cache(maxsize=1024)
def zone_named(name: str | None) -> tzinfo | None:
    """Return the zone with this IANA name, or None if there is no such zone."""
    if not name or name.startswith(NOT_ZONES):
        return None
    with suppress(ZoneInfoNotFoundError, OSError, ValueError):
        return ZoneInfo(name)
    return None


def iso(instant: int, zone: tzinfo) -> str:
    """Format an instant like `2026-01-31T18:05:09.120+07:00`."""
    shift, suffix = _offset_in_hour(instant // HOUR_MS, zone) or _offset(instant, zone)
    day, rest = divmod(instant + shift, DAY_MS)
    minute, ms = divmod(rest, MINUTE_MS)
    return f"{_day_text(day)}T{_MINUTES[minute]}:{_SECONDS[ms // 1000]}.{_MILLISECONDS[ms % 1000]}{suffix}"


@lru_cache(maxsize=8192)
def _offset_in_hour(hour: int, zone: tzinfo) -> tuple[int, str] | None:
    """Return a zone's UTC offset in an hour since 1970, or None if it changes. Cached: most of a timestamp's cost."""
    first, last = _offset(hour * HOUR_MS, zone), _offset((hour + 1) * HOUR_MS - 1, zone)
    return first if first == last else None


def _offset(instant: int, zone: tzinfo) -> tuple[int, str]:
    """Return a UTC offset in milliseconds and as `+07:00`, rounded to a minute, because ISO 8601 has no seconds."""
    offset = from_ms(instant, zone).utcoffset() or timedelta()
    minutes = round(offset / timedelta(minutes=1))
    return minutes * MINUTE_MS, f"{'-' if minutes < 0 else '+'}{_MINUTES[abs(minutes)]}"


@lru_cache(maxsize=8192)
def _day_text(count: int) -> str:
    """Format a day, given as the number of days since 1970, like `2026-01-31`."""
    return date.fromordinal(EPOCH_ORDINAL + count).isoformat()


def iso_utc(instant: int) -> str:
    """Format an instant like `2026-01-31T11:05:09.120Z`."""
    second, ms = divmod(instant, 1000)
    return f"{_second_utc(second)}.{ms:03}Z"


@lru_cache(maxsize=64)
def _second_utc(count: int) -> str:
    """Format a second in UTC. The result is cached, because thousands of requests may arrive within one second."""
    return (EPOCH + timedelta(seconds=count)).isoformat(timespec="seconds")[:-6]


def compact(day: date) -> str:
    return f"{day.year:04}{day.month:02}{day.day:02}"


def as_number(day: date) -> int:
    """Return a day as a sortable number, such as 20260131."""
    return day.year * 10_000 + day.month * 100 + day.day


def date_of(number: int) -> date:
    """Return the day for a number made by `as_number`."""
    return date(number // 10_000, number // 100 % 100, number % 100)


def thai_day(instant: int) -> date:
    return date.fromordinal(EPOCH_ORDINAL + (instant + THAI_OFFSET) // DAY_MS)


def thai_midnight(day: date) -> int:
    """Return the instant at which a day begins in Thailand."""
    return (day.toordinal() - EPOCH_ORDINAL) * DAY_MS - THAI_OFFSET


def days_until(last: date, count: int) -> list[date]:
    """Return `count` consecutive days, oldest first, ending with `last`."""
    return [last - timedelta(days=back) for back in range(count - 1, -1, -1)]


def trading_day(timestamp: str, closing: str | None) -> str | None:
    """Return the accounting day of a bill, for a timestamp formatted by `iso` and a closing time such as `22:00`.

    A closing time before noon is on the calendar day after the trading day. A closing time at noon or later is on the
    trading day itself. A shop without a closing time has no trading day.
    """
    if closing is None:
        return None
    day = timestamp[: len("2026-01-31")]
    time_of_day = timestamp[len("2026-01-31T") : len("2026-01-31T18:05")]
    return _day_before(day) if time_of_day < closing < NOON_TEXT else day


# The end of a business day that is proposed if the bills allow it: few restaurants sell at this hour.
USUAL_CLOSING_HOUR = 4
# A proposed closing time is among hours with at most one of so many bills.
BILLS_PER_STRAY = 200


def quiet_closing(hours: Mapping[int, int]) -> str | None:
    """Return a closing time in hours with next to no bills, given how many bills each hour of the day has.

    Return None if there are no bills, or no such hours before noon.
    """
    if not any(hours.values()):
        return None

    def nearby(hour: int) -> int:
        return hours.get(hour, 0) + hours.get((hour - 1) % 24, 0)

    quietest = min(range(NOON.hour), key=lambda hour: (nearby(hour), abs(hour - USUAL_CLOSING_HOUR)))
    is_quiet = nearby(quietest) * BILLS_PER_STRAY <= sum(hours.values())
    return f"{quietest:02}:00" if is_quiet else None


@lru_cache(maxsize=1024)
def _day_before(day: str) -> str:
    return (date.fromisoformat(day) - timedelta(days=1)).isoformat()
