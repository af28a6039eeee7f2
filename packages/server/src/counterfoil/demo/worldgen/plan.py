"""The parameters of a world, and the days it covers."""

from binascii import b2a_base64
from collections.abc import Sequence
from datetime import date
from hashlib import blake2b
from itertools import accumulate, pairwise
from random import Random
from typing import TypeVar

from msgspec import Struct

from counterfoil.model.calendar import DAY_MS, HOUR_MS, days_until, thai_midnight

# --- IDs like those of a POS: 20 letters or digits, derived from the seed ---

T = TypeVar("T")
LETTERS_AND_DIGITS_ONLY = bytes.maketrans(b"+/", b"kV")


def stream(seed: int, *purpose: object) -> Random:
    """Return a random generator for one purpose. Generators for different purposes are independent."""
    return Random("/".join(map(str, (seed, *purpose))))  # noqa: S311 - a world must be reproducible


def opaque(*path: object) -> str:
    """Return the ID for a path, which starts with the seed or the owner's ID. Equal paths give equal IDs."""
    return _spelled(_digest(15, path))


def fresh(draw: Random) -> str:
    """Return a random ID. Unlike an ID from `opaque`, it cannot be computed again from a path."""
    return _spelled(draw.randbytes(15))


def pick(draw: Random, choices: Sequence[T]) -> T:
    return choices[int(draw.random() * len(choices))]


def messaging_user_id(seed: int, channel: str, person: object) -> str:
    """Return a person's user ID in a messaging channel. Each channel has a different ID for the same person."""
    return "U" + _digest(16, (seed, "account", channel, person)).hex()


def _digest(size: int, path: tuple[object, ...]) -> bytes:
    return blake2b("/".join(map(str, path)).encode(), digest_size=size).digest()


def _spelled(raw: bytes) -> str:
    return b2a_base64(raw, newline=False).translate(LETTERS_AND_DIGITS_ONLY).decode()


# The tills deliver their bills at 23:30.
EVENING_MS = 47 * HOUR_MS // 2
LEGACY_PART = 6


class WorldPlan(Struct, frozen=True, kw_only=True):
    """The size of a world, its last day (Thailand time), and the seed for all random numbers."""

    until: date
    seed: int = 1
    days: int = 120
    bills: int = 13_500
    shops: int = 18
    members: int = 1_500

    @property
    def trading_days(self) -> list[date]:
        return days_until(self.until, self.days)

    @property
    def end_ms(self) -> int:
        """The end of the last day, exclusive."""
        return thai_midnight(self.until) + DAY_MS

    @property
    def tracked_from_ms(self) -> int:
        """The instant when change tracking began. Bills that were closed earlier are history."""
        first, legacy_days = thai_midnight(self.trading_days[0]), self.days // LEGACY_PART
        return first + (legacy_days - 1) * DAY_MS + EVENING_MS if legacy_days else first

    @property
    def evenings_ms(self) -> list[int]:
        """The times at which the tills deliver their bills, one for each day with change tracking."""
        evenings = (thai_midnight(day) + EVENING_MS for day in self.trading_days)
        return [evening for evening in evenings if evening > self.tracked_from_ms]


def apportion(total: int, weights: Sequence[float]) -> list[int]:
    """Split the total into whole numbers, in proportion to the weights."""
    sums = list(accumulate(weights))
    marks = [0, *(round(total * part / sums[-1]) for part in sums)]
    return [after - before for before, after in pairwise(marks)]
