"""The steps of one call, from the first attempt to the final response, without any I/O.

`conversation` is a generator. It yields the next step (send or sleep) and
receives its outcome. Both clients run it, so they behave in the same way.
The pace is that of the key, and failed requests are repeated with growing pauses.
"""

from collections import deque
from collections.abc import Callable, Generator, Mapping
from datetime import UTC, datetime, timedelta
from threading import Lock

import msgspec
from msgspec import Struct

from counterfoil.client.errors import (
    CounterfoilError,
    NotThisService,
    QuotaSpent,
    Refusal,
    ResponseTooLarge,
    Unreachable,
)
from counterfoil.domain.calendar import THAI_TIME

# --- the rate limit ------------------------------------------------------------------

# This is one second more than the service's minute window, because some requests take longer to arrive than others.
WINDOW_SEC = 61.0


class Pace:
    """Counts the requests of the last minute. Threads may share it."""

    def __init__(self, per_min: int | None = None) -> None:
        self._per_min = per_min
        self._sent: deque[float] = deque()
        self._lock = Lock()

    @property
    def has_limit(self) -> bool:
        return self._per_min is not None

    def set_limit(self, per_min: int) -> None:
        """Set the limit per minute to the service's value, which may change during a run."""
        with self._lock:
            self._per_min = max(1, per_min)

    def reserve(self, now: float) -> float:
        """Count a request and return 0. If the limit is reached, return the seconds to wait before trying again."""
        with self._lock:
            if self._per_min is not None and len(self._sent) >= self._per_min:
                wait = self._sent[-self._per_min] + WINDOW_SEC - now
                if wait > 0:
                    return wait
            self._sent.append(now)
            while self._sent[0] <= now - WINDOW_SEC:
                self._sent.popleft()
            return 0.0


# --- after a failed request ----------------------------------------------------------

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


# --- one call ------------------------------------------------------------------------

# Reasons to wait. The progress display shows them after the words "waiting for".
RATE_LIMIT, FAILED_REQUEST = "the rate limit", "the service"
# If a page is too large, the client asks for this many rows instead. Records have at most 512 KiB.
SMALLEST_LIMIT = 25
# Texts of an error response are cut off after this many characters.
MAX_TEXT = 1_000


class Call(Struct, frozen=True):
    """A GET request; `path` is relative to the base URL."""

    path: str
    query: tuple[tuple[str, str], ...] = ()


class Send(Struct, frozen=True):
    call: Call


class Sleep(Struct, frozen=True):
    """Wait before the next attempt. `reason` says what the client is waiting for."""

    seconds: float
    reason: str = ""


class HttpResponse(Struct, frozen=True):
    """An HTTP response. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class NoResponse(Struct, frozen=True):
    """The request failed without an HTTP response."""

    reason: str


class TooLarge(Struct, frozen=True):
    """The body is larger than a response of the service may be."""

    max_bytes: int


Step = Send | Sleep
Outcome = HttpResponse | NoResponse | TooLarge | None


class Environment(Struct, frozen=True):
    """Clocks and a source of random numbers, which tests replace."""

    monotonic: Callable[[], float]
    now: Callable[[], float]
    random_number: Callable[[], float]


class _ErrorBody(Struct):
    """The fields of an error response that the client uses. Fields other than `error` may have any type."""

    error: str
    message: object = ""
    retry_after_sec: object = msgspec.field(name="retryAfterSec", default=None)
    limit: object = None


_decode_error = msgspec.json.Decoder(_ErrorBody).decode


def conversation(call: Call, pace: Pace, environment: Environment) -> Generator[Step, Outcome, HttpResponse]:
    """Yield the steps of a call. Return the final response, or raise an error if the call failed."""
    tries = 0
    while True:
        wait = pace.reserve(environment.monotonic())
        if wait > 0:
            yield Sleep(wait, RATE_LIMIT)
            continue
        outcome = yield Send(call)
        if isinstance(outcome, HttpResponse) and outcome.status == 200:
            return outcome
        if isinstance(outcome, TooLarge):
            call = _with_smallest_limit(call, outcome)
            continue
        tries += 1
        decision, error = _decide(outcome, tries, pace, environment)
        match decision:
            case Retry(pause_sec):
                # Hitting the rate limit is not a failure, so it does not count as a failed attempt.
                is_rate_limit = isinstance(error, Refusal) and error.code == "rate_limited"
                tries -= is_rate_limit
                yield Sleep(pause_sec, RATE_LIMIT if is_rate_limit else FAILED_REQUEST)
            case _:
                raise error


def _with_smallest_limit(call: Call, outcome: TooLarge) -> Call:
    """Return the call with a smaller limit, or raise an error if the response cannot be made smaller."""
    if not any(name == "limit" and int(value) > SMALLEST_LIMIT for name, value in call.query):
        raise ResponseTooLarge(
            f"the response is larger than {outcome.max_bytes // 1024**2} MiB, which no response of a Counterfoil API "
            "is. Check the base URL."
        )
    smaller = ((name, str(SMALLEST_LIMIT) if name == "limit" else value) for name, value in call.query)
    return Call(call.path, tuple(smaller))


def _decide(outcome: Outcome, tries: int, pace: Pace, environment: Environment) -> tuple[Decision, CounterfoilError]:
    if not isinstance(outcome, HttpResponse):
        reason = outcome.reason if isinstance(outcome, NoResponse) else "no response"
        return after_failure(tries, environment.random_number()), Unreachable(
            f"the service cannot be reached: {reason}"
        )
    request_id = request_id_of(outcome)
    try:
        error_body = _decode_error(outcome.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decide_on_foreign(outcome.status, request_id, tries, environment)
    if isinstance(error_body.limit, int) and error_body.error == "rate_limited":
        pace.set_limit(error_body.limit)
    retry_after = outcome.headers.get("retry-after") or error_body.retry_after_sec
    decision = after_refusal(
        error_body.error, outcome.status, retry_after, tries, environment.now(), environment.random_number()
    )
    message = error_body.message[:MAX_TEXT] if isinstance(error_body.message, str) else ""
    if isinstance(decision, Stop):
        return decision, QuotaSpent(message, request_id, decision.resumes_at)
    return decision, Refusal(outcome.status, error_body.error[:MAX_TEXT], message, request_id)


def request_id_of(response: HttpResponse) -> str | None:
    request_id = response.headers.get("x-request-id")
    return None if request_id is None else request_id[:MAX_TEXT]


def _decide_on_foreign(
    status: int, request_id: str | None, tries: int, environment: Environment
) -> tuple[Decision, CounterfoilError]:
    """Return the decision and the error for a response that comes from a proxy or another service."""
    reason = f"the response had HTTP status {status} but no API error code"
    if status >= 500 or status == 429:
        return after_failure(tries, environment.random_number()), Unreachable(
            f"{reason}, so it did not come from the service. Try again later, or check the base URL.", request_id
        )
    return Raise(), NotThisService(f"{reason}. Check the base URL.", request_id)
