"""Tests for a single call from the first attempt to the final response, simulated without a network or a clock."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from counterfoil.client.connection import (
    MAX_TRIES,
    RATE_LIMIT,
    Call,
    Environment,
    HttpResponse,
    NoResponse,
    Outcome,
    Pace,
    Send,
    Sleep,
    Step,
    conversation,
)
from counterfoil.client.errors import CounterfoilError, NotThisService, QuotaSpent, Refusal, Unreachable

CALL = Call("shops")
OK = HttpResponse(200, {}, b"{}")
AROUND = Environment(monotonic=lambda: 0.0, now=lambda: 0.0, random_number=lambda: 1.0)


def refused(status: int, code: str, headers: Mapping[str, str] | None = None, **fields: Any) -> HttpResponse:
    body = {"ok": False, "error": code, "message": "because", **fields}
    return HttpResponse(status, {"x-request-id": "r-1", **(headers or {})}, msgspec.json.encode(body))


def held(*outcomes: Outcome, pace: Pace | None = None) -> tuple[list[Step], HttpResponse | CounterfoilError]:
    """Run a conversation whose requests have these outcomes in turn; return its steps and its final result."""
    coming = iter(outcomes)
    talk = conversation(CALL, pace or Pace(1000), AROUND)
    steps: list[Step] = [next(talk)]
    while True:
        outcome = next(coming) if isinstance(steps[-1], Send) else None
        try:
            steps.append(talk.send(outcome))
        except StopIteration as end:
            answer: HttpResponse = end.value
            return steps, answer
        except CounterfoilError as error:
            return steps, error


def test_an_answer_ends_the_conversation() -> None:
    assert held(OK) == ([Send(CALL)], OK)


def test_when_the_minute_is_full_the_client_waits_and_never_gives_up() -> None:
    full = refused(429, "rate_limited", {"retry-after": "7"})
    steps, end = held(*[full] * 50, OK)
    assert end == OK
    assert steps == [Send(CALL), Sleep(7.0, RATE_LIMIT)] * 50 + [Send(CALL)]


def test_the_wait_is_taken_from_the_body_if_a_proxy_removed_the_header() -> None:
    steps, _ = held(refused(429, "rate_limited", retryAfterSec=9), OK)
    assert steps[1] == Sleep(9.0, RATE_LIMIT)


def test_the_limit_is_learned_from_a_refusal() -> None:
    pace = Pace(1000)
    held(refused(429, "rate_limited", limit=2, retryAfterSec=1), OK, pace=pace)
    assert pace.reserve(0.0) > 0


def test_a_temporary_failure_only_costs_time() -> None:
    steps, end = held(NoResponse("reset"), refused(500, "internal"), refused(503, "auth_unavailable"), OK)
    assert end == OK
    assert [step.seconds for step in steps if isinstance(step, Sleep)] == [0.5, 1.0, 2.0]


def test_a_permanent_failure_is_raised_after_eight_attempts() -> None:
    steps, end = held(*[NoResponse("ConnectError: refused")] * MAX_TRIES)
    assert isinstance(end, Unreachable)
    assert "ConnectError: refused" in str(end)
    assert steps.count(Send(CALL)) == MAX_TRIES


def test_full_minutes_do_not_count_as_failed_attempts() -> None:
    full = refused(429, "rate_limited", {"retry-after": "1"})
    outcomes = [outcome for _ in range(MAX_TRIES - 1) for outcome in (NoResponse("reset"), full)]
    assert held(*outcomes, OK)[1] == OK


def test_a_spent_quota_says_when_to_retry() -> None:
    _, end = held(refused(429, "quota_exceeded"))
    assert isinstance(end, QuotaSpent)
    assert end.resumes_at.isoformat() == "1970-01-02T00:00:00+07:00"
    assert "1970-01-02T00:00:00+07:00" in str(end)


def test_any_other_refusal_is_raised_with_its_code_and_request_id() -> None:
    _, end = held(refused(403, "shop_not_in_scope"))
    assert isinstance(end, Refusal)
    assert (end.status, end.code, end.message, end.request_id) == (403, "shop_not_in_scope", "because", "r-1")
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


def test_an_error_body_of_another_form_is_harmless() -> None:
    _, end = held(refused(404, "not_found", message={"th": "ไม่พบ"}))
    assert isinstance(end, Refusal)
    assert end.code == "not_found"


def test_no_request_is_sent_before_the_minute_has_a_free_slot() -> None:
    pace = Pace(1)
    assert pace.reserve(0.0) == 0.0
    talk = conversation(CALL, pace, AROUND)
    assert next(talk) == Sleep(61.0, RATE_LIMIT)
