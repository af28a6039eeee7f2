"""One call, from the first try to the final answer, without doing any I/O.

`conversation` is a generator: it yields what to do next (send or sleep) and
receives the outcome. Both clients drive it, so they react in the same way.
"""

from collections.abc import Callable, Generator, Mapping

import msgspec
from msgspec import Struct

from counterfoil.client import retry
from counterfoil.client.errors import CounterfoilError, NotThisService, QuotaSpent, Refusal, Unreachable
from counterfoil.client.pace import Pace


class Call(Struct, frozen=True):
    """A GET request; `path` is relative to the base URL."""

    path: str
    query: tuple[tuple[str, str], ...] = ()


class Send(Struct, frozen=True):
    call: Call


class Sleep(Struct, frozen=True):
    seconds: float


class Received(Struct, frozen=True):
    """An HTTP answer. Look headers up by their lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Failed(Struct, frozen=True):
    """The request failed without an HTTP answer."""

    reason: str


Step = Send | Sleep
Outcome = Received | Failed | None


class Environment(Struct, frozen=True):
    """Clocks and a source of random numbers, which tests replace."""

    steady: Callable[[], float]
    now: Callable[[], float]
    luck: Callable[[], float]


class _Refused(Struct):
    """The fields of an error answer that the client uses. Only `error` must have the right type."""

    error: str
    message: object = ""
    retry_after_sec: object = msgspec.field(name="retryAfterSec", default=None)
    limit: object = None


_decode_refusal = msgspec.json.Decoder(_Refused).decode


def conversation(call: Call, pace: Pace, around: Environment) -> Generator[Step, Outcome, Received]:
    """Return the final answer to a call, or raise the error that it ended with."""
    tries = 0
    while True:
        wait = pace.claim(around.steady())
        if wait > 0:
            yield Sleep(wait)
            continue
        outcome = yield Send(call)
        if isinstance(outcome, Received) and outcome.status == 200:
            return outcome
        tries += 1
        verdict, error = _judge(outcome, tries, pace, around)
        match verdict:
            case retry.Retry(pause_sec):
                # Hitting the rate limit is not a failure, so it does not count as a try.
                tries -= isinstance(error, Refusal) and error.code == "rate_limited"
                yield Sleep(pause_sec)
            case _:
                raise error


def _judge(outcome: Outcome, tries: int, pace: Pace, around: Environment) -> tuple[retry.Verdict, CounterfoilError]:
    if not isinstance(outcome, Received):
        reason = outcome.reason if outcome else "no answer"
        return retry.after_failure(tries, around.luck()), Unreachable(f"the service cannot be reached: {reason}")
    request_id = outcome.headers.get("x-request-id")
    try:
        refused = _decode_refusal(outcome.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _judge_foreign(outcome.status, request_id, tries, around)
    if isinstance(refused.limit, int) and refused.error == "rate_limited":
        pace.learn(refused.limit)
    waiting = outcome.headers.get("retry-after") or refused.retry_after_sec
    verdict = retry.after_refusal(refused.error, outcome.status, waiting, tries, around.now(), around.luck())
    if isinstance(verdict, retry.Stop):
        return verdict, QuotaSpent(str(refused.message), request_id, verdict.resumes_at)
    return verdict, Refusal(outcome.status, refused.error, str(refused.message), request_id)


def _judge_foreign(
    status: int, request_id: str | None, tries: int, around: Environment
) -> tuple[retry.Verdict, CounterfoilError]:
    """Judge an answer that is not from the API: a proxy that cannot reach the service, or another service."""
    said = f"the answer was {status} without one of the API's error codes"
    if status >= 500 or status == 429:
        return retry.after_failure(tries, around.luck()), Unreachable(
            f"the service cannot be reached: {said}", request_id
        )
    return retry.Raise(), NotThisService(f"{said}; is the address right?", request_id)
