"""The steps of one call, from the first attempt to the final response, without any I/O.

`conversation` is a generator. It yields the next step (send or sleep) and
receives its outcome. Both clients run it, so they behave in the same way.
"""

from collections.abc import Callable, Generator, Mapping

import msgspec
from msgspec import Struct

from counterfoil.client import retry
from counterfoil.client.errors import CounterfoilError, NotThisService, QuotaSpent, Refusal, Unreachable
from counterfoil.client.pace import Pace

# Reasons to wait. The progress display shows them after the words "waiting for".
RATE_LIMIT, FAILED_REQUEST = "the rate limit", "the service"


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


Step = Send | Sleep
Outcome = HttpResponse | NoResponse | None


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
        tries += 1
        decision, error = _decide(outcome, tries, pace, environment)
        match decision:
            case retry.Retry(pause_sec):
                # Hitting the rate limit is not a failure, so it does not count as a failed attempt.
                is_rate_limit = isinstance(error, Refusal) and error.code == "rate_limited"
                tries -= is_rate_limit
                yield Sleep(pause_sec, RATE_LIMIT if is_rate_limit else FAILED_REQUEST)
            case _:
                raise error


def _decide(
    outcome: Outcome, tries: int, pace: Pace, environment: Environment
) -> tuple[retry.Decision, CounterfoilError]:
    if not isinstance(outcome, HttpResponse):
        reason = outcome.reason if outcome else "no response"
        return retry.after_failure(tries, environment.random_number()), Unreachable(
            f"the service cannot be reached: {reason}"
        )
    request_id = outcome.headers.get("x-request-id")
    try:
        error_body = _decode_error(outcome.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _decide_on_foreign(outcome.status, request_id, tries, environment)
    if isinstance(error_body.limit, int) and error_body.error == "rate_limited":
        pace.set_limit(error_body.limit)
    retry_after = outcome.headers.get("retry-after") or error_body.retry_after_sec
    decision = retry.after_refusal(
        error_body.error, outcome.status, retry_after, tries, environment.now(), environment.random_number()
    )
    if isinstance(decision, retry.Stop):
        return decision, QuotaSpent(str(error_body.message), request_id, decision.resumes_at)
    return decision, Refusal(outcome.status, error_body.error, str(error_body.message), request_id)


def _decide_on_foreign(
    status: int, request_id: str | None, tries: int, environment: Environment
) -> tuple[retry.Decision, CounterfoilError]:
    """Return the decision and the error for a response that comes from a proxy or another service."""
    reason = f"the response had HTTP status {status} but no API error code"
    if status >= 500 or status == 429:
        return retry.after_failure(tries, environment.random_number()), Unreachable(
            f"{reason}, so it did not come from the service. Try again later, or check the base URL.", request_id
        )
    return retry.Raise(), NotThisService(f"{reason}. Check the base URL.", request_id)
