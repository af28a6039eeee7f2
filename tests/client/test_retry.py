"""Tests how the client reacts to each kind of response."""

from datetime import datetime

import pytest

from counterfoil.client.connection import (
    MAX_PAUSE_SEC,
    MAX_TRIES,
    Raise,
    Retry,
    after_failure,
    after_refusal,
    next_thai_midnight,
)

NOON_IN_THAILAND = datetime.fromisoformat("2026-01-01T12:00:00+07:00").timestamp()


def reaction(code: str, status: int, retry_after: object = None, tries: int = 1) -> object:
    return after_refusal(code, status, retry_after, tries, NOON_IN_THAILAND, 1.0)


@pytest.mark.parametrize(("header", "seconds"), [("17", 17), ("1", 1), (3, 3), ("0", 1), ("", 1), (None, 1)])
def test_when_the_minute_is_full_the_wait_is_what_the_service_says(header: object, seconds: float) -> None:
    assert reaction("rate_limited", 429, header) == Retry(seconds)


@pytest.mark.parametrize("nonsense", ["soon", "Wed, 21 Oct 2026 07:28:00 GMT", "nan", "inf", "1e9", "-5"])
def test_an_implausible_retry_after_is_replaced_by_a_short_wait(nonsense: str) -> None:
    verdict = reaction("rate_limited", 429, nonsense)
    assert isinstance(verdict, Retry)
    assert 1 <= verdict.pause_sec <= 60


@pytest.mark.parametrize("hour", ["2026-01-01T00:00:00+07:00", "2026-01-01T23:59:59.9+07:00", "2025-12-31T17:00:00Z"])
def test_the_thai_day_ends_at_thai_midnight_wherever_the_client_is(hour: str) -> None:
    moment = datetime.fromisoformat(hour).timestamp()
    assert next_thai_midnight(moment) == datetime.fromisoformat("2026-01-02T00:00:00+07:00")


@pytest.mark.parametrize(("code", "status"), [("bad_cursor", 400), ("key_revoked", 401), ("something_new", 409)])
def test_permanent_failures_are_raised_at_once(code: str, status: int) -> None:
    assert reaction(code, status) == Raise()


def test_pauses_grow_and_the_last_failure_is_raised() -> None:
    pauses = [after_failure(tries, 1.0) for tries in range(1, MAX_TRIES)]
    assert pauses == [Retry(seconds) for seconds in (0.5, 1, 2, 4, 8, 16, 32)]
    assert after_failure(MAX_TRIES, 1.0) == Raise()


@pytest.mark.parametrize("luck", [0.0, 0.3, 1.0])
def test_two_clients_that_failed_together_retry_at_different_times(luck: float) -> None:
    verdict = after_failure(4, luck)
    assert isinstance(verdict, Retry)
    assert verdict.pause_sec == pytest.approx(4 * (0.5 + luck / 2))
    assert verdict.pause_sec <= MAX_PAUSE_SEC
