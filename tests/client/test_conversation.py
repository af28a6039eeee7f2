"""Tests for a single call from the first attempt to the final response, without a network or a clock."""

import logging
import queue
from collections.abc import Mapping
from datetime import datetime
from logging.handlers import QueueHandler
from typing import Any

import msgspec
import pytest

from counterfoil.client import connection
from counterfoil.client.connection import Call, Environment, HttpResponse, Outcome, Pace
from counterfoil.client.errors import CounterfoilError, NotThisService, QuotaSpent, Refusal, Unreachable

CALL = Call("shops")
OK = HttpResponse(200, {}, b"{}")
AROUND = Environment(monotonic=lambda: 0.0, now=lambda: 0.0, random_number=lambda: 1.0)


def refused(status: int, code: str, headers: Mapping[str, str] | None = None, **fields: Any) -> HttpResponse:
    body = {"ok": False, "error": code, "message": "because", **fields}
    return HttpResponse(status, {"x-request-id": "r-1", **(headers or {})}, msgspec.json.encode(body))


# A step of a call: a request, or the seconds and the reason of a wait.
Step = Call | tuple[float, str]


def held(
    *outcomes: Outcome, pace: Pace | None = None, environment: Environment = AROUND, call: Call = CALL
) -> tuple[list[Step], HttpResponse | CounterfoilError]:
    """Send a call whose requests have these outcomes in turn; return its steps and its final result."""
    coming = iter(outcomes)
    steps: list[Step] = []

    def get(call: Call) -> Outcome:
        steps.append(call)
        return next(coming)

    try:
        return steps, connection.response_to(
            call, pace or Pace(1000), environment, get, lambda seconds, reason: steps.append((seconds, reason))
        )
    except CounterfoilError as error:
        return steps, error


def waits(steps: list[Step]) -> list[float]:
    return [step[0] for step in steps if isinstance(step, tuple)]


def test_when_the_minute_is_full_the_client_waits_and_never_gives_up() -> None:
    full = refused(429, "rate_limited", {"retry-after": "7"})
    steps, end = held(*[full] * 50, OK)
    assert end == OK
    assert steps == [CALL, (7.0, connection.RATE_LIMIT)] * 50 + [CALL]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("17", 17), ("0", 1), ("", 1), ("Wed, 21 Oct 2026 07:28:00 GMT", 1), ("-5", 1), ("nan", 60), ("1e9", 60)],
)
def test_when_the_minute_is_full_the_wait_is_what_the_service_says_if_that_is_plausible(
    header: str, seconds: float
) -> None:
    steps, _ = held(refused(429, "rate_limited", {"retry-after": header}), OK)
    assert steps[1] == (seconds, connection.RATE_LIMIT)


def test_the_wait_is_taken_from_the_body_if_a_proxy_removed_the_header() -> None:
    steps, _ = held(refused(429, "rate_limited", retryAfterSec=9), OK)
    assert steps[1] == (9.0, connection.RATE_LIMIT)


def test_the_limit_is_learned_from_a_refusal() -> None:
    pace = Pace(1000)
    held(refused(429, "rate_limited", limit=2, retryAfterSec=1), OK, pace=pace)
    assert pace.reserve(0.0) > 0


def test_a_temporary_failure_only_costs_time() -> None:
    steps, end = held(Unreachable("reset"), refused(500, "internal"), refused(503, "auth_unavailable"), OK)
    assert end == OK
    assert waits(steps) == [0.5, 1.0, 2.0]


def test_pauses_grow_and_the_last_failure_is_raised() -> None:
    steps, end = held(*[Unreachable("ConnectError: refused")] * connection.MAX_TRIES)
    assert isinstance(end, Unreachable)
    assert "ConnectError: refused" in str(end)
    pauses = [(seconds, connection.FAILED_REQUEST) for seconds in (0.5, 1, 2, 4, 8, 16, 32)]
    assert steps == [CALL, *(step for pause in pauses for step in (pause, CALL))]


@pytest.mark.parametrize("luck", [0.0, 0.3, 1.0])
def test_two_clients_that_failed_together_retry_at_different_times(luck: float) -> None:
    lucky = Environment(monotonic=lambda: 0.0, now=lambda: 0.0, random_number=lambda: luck)
    steps, _ = held(*[Unreachable("reset")] * 4, OK, environment=lucky)
    assert waits(steps)[-1] == pytest.approx(4 * (0.5 + luck / 2))


def test_full_minutes_do_not_count_as_failed_attempts() -> None:
    full = refused(429, "rate_limited", {"retry-after": "1"})
    outcomes = [outcome for _ in range(connection.MAX_TRIES - 1) for outcome in (Unreachable("reset"), full)]
    assert held(*outcomes, OK)[1] == OK


@pytest.mark.parametrize("hour", ["2026-01-01T00:00:00+07:00", "2026-01-01T23:59:59.9+07:00", "2025-12-31T17:00:00Z"])
def test_a_spent_quota_ends_at_thai_midnight_wherever_the_client_is(hour: str) -> None:
    moment = datetime.fromisoformat(hour).timestamp()
    _, end = held(refused(429, "quota_exceeded"), environment=Environment(lambda: 0.0, lambda: moment, lambda: 1.0))
    assert isinstance(end, QuotaSpent)
    assert end.resumes_at.isoformat() == "2026-01-02T00:00:00+07:00"
    assert "2026-01-02T00:00:00+07:00" in str(end)
    assert end.request_id == "r-1"


@pytest.mark.parametrize(("code", "status"), [("bad_cursor", 400), ("key_revoked", 401), ("something_new", 409)])
def test_any_other_refusal_is_raised_at_once_with_its_code_and_request_id(code: str, status: int) -> None:
    steps, end = held(refused(status, code))
    assert steps == [CALL]
    assert isinstance(end, Refusal)
    assert (end.status, end.code, end.message, end.request_id) == (status, code, "because", "r-1")
    assert "request r-1" in str(end)


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff\xfe", b"[]", b'{"error":5}', b'"x"'])
def test_the_error_page_of_a_proxy_with_an_unavailable_service_is_retried(body: bytes) -> None:
    assert held(HttpResponse(502, {}, body), OK)[1] == OK


@pytest.mark.parametrize("status", [301, 404, 410])
def test_the_page_of_another_service_is_raised_at_once(status: int) -> None:
    steps, end = held(HttpResponse(status, {}, b"<html>no such page</html>"))
    assert isinstance(end, NotThisService)
    assert str(status) in str(end)
    assert len(steps) == 1


def test_no_request_is_sent_before_the_minute_has_a_free_slot() -> None:
    seconds = iter([0.0, 0.0, 61.0])
    clock = Environment(lambda: next(seconds), lambda: 0.0, lambda: 1.0)
    pace = Pace(1)
    held(OK, pace=pace, environment=clock)
    assert held(OK, pace=pace, environment=clock) == ([(61.0, connection.RATE_LIMIT), CALL], OK)


def test_waits_and_new_tries_are_logged_without_what_identifies_a_member() -> None:
    call = Call("members/m1_secret", (("messagingUserId", "Usecret"),))
    full = refused(429, "rate_limited", {"retry-after": "7"})
    logged: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    handler, log = QueueHandler(logged), logging.getLogger("counterfoil.client")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        held(full, refused(503, "internal", detail="m1_secret"), Unreachable("m1_secret"), OK, call=call)
    finally:
        log.removeHandler(handler)
        log.setLevel(logging.NOTSET)
    assert [logged.get_nowait().getMessage() for _ in range(logged.qsize())] == [
        "waiting 7.0 s, because the service limits the rate",
        "request for members: status 503; try 2 of 8 in 0.5 s",
        "request for members: no usable response; try 3 of 8 in 1.0 s",
    ]
