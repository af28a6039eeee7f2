"""The requests of a key, day by day, as `counterfoil keys show --json` and the console's page about a key show them."""

from collections.abc import Iterable, Sequence
from datetime import date

from msgspec import Struct

from counterfoil.operator_reads import DayOfKey


class KeyDay(Struct, frozen=True, rename="camel"):
    """The requests of a key on one day in Thailand time. `DayOfKey` explains the counts."""

    day: date
    requests: int = 0
    errors: int = 0
    rate_limited: int = 0
    over_quota: int = 0
    refused: int = 0


def key_days(found: Iterable[DayOfKey], days: Sequence[date]) -> list[KeyDay]:
    """Return one element for each of `days`, including days on which the key made no requests."""
    by_day = {
        one.day: KeyDay(one.day, one.requests, one.errors, one.rate_limited, one.over_quota, one.refused)
        for one in found
    }
    return [by_day.get(day) or KeyDay(day) for day in days]
