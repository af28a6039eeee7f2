"""Pure functions that decide what to do after a failed request: retry, stop or raise."""

from datetime import UTC, datetime, timedelta

from msgspec import Struct

from counterfoil.domain.calendar import THAI_TIME

MAX_TRIES = 8
FIRST_PAUSE_SEC = 0.5
MAX_PAUSE_SEC = 60.0
# Errors that are usually temporary, so a retry helps.
TRANSIENT_ERRORS = frozenset({"internal", "auth_unavailable"})


class Retry(Struct, frozen=True):
    """Send the request again after a pause."""

    pause_sec: float


class Stop(Struct, frozen=True):
    """Stop until the day's quota resets."""

    resumes_at: datetime


class Raise(Struct, frozen=True):
    """Raise the error, because a retry would not help or the last retry has failed."""


Decision = Retry | Stop | Raise


def after_refusal(
    code: str, status: int, retry_after: object, tries: int, now: float, random_number: float
) -> Decision:
    """Return the decision after `tries` failures in a row. `random_number` is between 0 and 1."""
    if code == "rate_limited":
        return Retry(_retry_after_seconds(retry_after))
    if code == "quota_exceeded":
        return Stop(next_thai_midnight(now))
    if code in TRANSIENT_ERRORS or status >= 500:
        return after_failure(tries, random_number)
    return Raise()


def after_failure(tries: int, random_number: float) -> Decision:
    """Return the decision after a temporary failure: retry with exponential back-off and jitter, or give up."""
    if tries >= MAX_TRIES:
        return Raise()
    ceiling = min(MAX_PAUSE_SEC, FIRST_PAUSE_SEC * 2 ** (tries - 1))
    return Retry(ceiling * (0.5 + random_number / 2))


def next_thai_midnight(now: float) -> datetime:
    today = datetime.fromtimestamp(now, UTC).astimezone(THAI_TIME).date()
    return datetime.combine(today + timedelta(days=1), datetime.min.time(), THAI_TIME)


def _retry_after_seconds(retry_after: object) -> float:
    """Return `Retry-After` in seconds, at least 1. A date or an invalid value counts as 1, an hour or more as 60."""
    try:
        seconds = float(str(retry_after))
    except ValueError:
        return 1.0
    return max(1.0, seconds) if seconds < 3600 else 60.0
