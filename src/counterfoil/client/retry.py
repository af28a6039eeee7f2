"""Decide what to do after a failed request: retry, stop or raise. Pure functions."""

from datetime import UTC, datetime, timedelta

from msgspec import Struct

from counterfoil.domain.calendar import THAI_TIME

TRIES = 8
FIRST_PAUSE_SEC = 0.5
LONGEST_PAUSE_SEC = 60.0
# Errors that usually pass, so a retry helps.
PASSING = frozenset({"internal", "auth_unavailable"})


class Retry(Struct, frozen=True):
    """Send the request again after a pause."""

    pause_sec: float


class Stop(Struct, frozen=True):
    """The day's quota is used up."""

    resumes_at: datetime


class Raise(Struct, frozen=True):
    """Another try would not help."""


Verdict = Retry | Stop | Raise


def after_refusal(code: str, status: int, retry_after: object, tries: int, now: float, luck: float) -> Verdict:
    """Return what to do after `tries` failures in a row. `luck` is a random number from 0 to 1."""
    if code == "rate_limited":
        return Retry(_seconds(retry_after))
    if code == "quota_exceeded":
        return Stop(next_thai_midnight(now))
    if code in PASSING or status >= 500:
        return after_failure(tries, luck)
    return Raise()


def after_failure(tries: int, luck: float) -> Verdict:
    """Return what to do when no answer came: back off exponentially, with jitter so that clients spread out."""
    if tries >= TRIES:
        return Raise()
    ceiling = min(LONGEST_PAUSE_SEC, FIRST_PAUSE_SEC * 2 ** (tries - 1))
    return Retry(ceiling * (0.5 + luck / 2))


def next_thai_midnight(now: float) -> datetime:
    today = datetime.fromtimestamp(now, UTC).astimezone(THAI_TIME).date()
    return datetime.combine(today + timedelta(days=1), datetime.min.time(), THAI_TIME)


def _seconds(retry_after: object) -> float:
    """Return `Retry-After` in seconds, at least 1. A date or nonsense counts as 1, an hour or more as 60."""
    try:
        seconds = float(str(retry_after))
    except ValueError:
        return 1.0
    return max(1.0, seconds) if seconds < 3600 else 60.0
