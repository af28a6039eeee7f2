"""The one right reaction to each answer, decided purely: values in, a verdict out."""

from datetime import UTC, datetime, timedelta

from msgspec import Struct

from counterfoil.domain.calendar import THAI_TIME

TRIES = 8
FIRST_PAUSE_SEC = 0.5
LONGEST_PAUSE_SEC = 60.0
# What passes by itself: a failure on the service's side or on the way to it.
PASSING = frozenset({"internal", "auth_unavailable"})


class Retry(Struct, frozen=True):
    """Send it again after a pause."""

    pause_sec: float


class Stop(Struct, frozen=True):
    """Nothing more today."""

    resumes_at: datetime


class Raise(Struct, frozen=True):
    """Sending it again would change nothing."""


Verdict = Retry | Stop | Raise


def after_refusal(code: str, status: int, retry_after: object, tries: int, now: float, luck: float) -> Verdict:
    """What to do after the `tries`-th refusal in a row. `luck` is a random number in 0..1."""
    if code == "rate_limited":
        return Retry(_seconds(retry_after))
    if code == "quota_exceeded":
        return Stop(next_thai_midnight(now))
    if code in PASSING or status >= 500:
        return after_failure(tries, luck)
    return Raise()


def after_failure(tries: int, luck: float) -> Verdict:
    """What to do when no answer came: back off, longer each time and never two clients in step."""
    if tries >= TRIES:
        return Raise()
    ceiling = min(LONGEST_PAUSE_SEC, FIRST_PAUSE_SEC * 2 ** (tries - 1))
    return Retry(ceiling * (0.5 + luck / 2))


def next_thai_midnight(now: float) -> datetime:
    today = datetime.fromtimestamp(now, UTC).astimezone(THAI_TIME).date()
    return datetime.combine(today + timedelta(days=1), datetime.min.time(), THAI_TIME)


def _seconds(retry_after: object) -> float:
    """At least one; a date, which HTTP allows too, or nonsense is a minute's part."""
    try:
        seconds = float(str(retry_after))
    except ValueError:
        return 1.0
    return max(1.0, seconds) if seconds < 3600 else 60.0
