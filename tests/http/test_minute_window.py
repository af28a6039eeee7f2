"""The minute window over HTTP. tests/ports/test_meter.py shows that it is exact."""

import httpx
import pytest

from running_service import RunningService


def ask(service: RunningService, key: str) -> httpx.Response:
    return service.get("shops", key)


def statuses(service: RunningService, key: str, number: int) -> list[int]:
    return [ask(service, key).status_code for _ in range(number)]


def test_the_default_limit_is_60_per_minute(shared_service: RunningService) -> None:
    assert statuses(shared_service, shared_service.key(shop="s"), 62) == [200] * 60 + [429] * 2


# --- retrying ---------------------------------------------------------------------------------


@pytest.mark.parametrize("passed", [0, 29.25, 59.999_999])
def test_after_retry_after_seconds_a_request_is_admitted(shared_service: RunningService, passed: float) -> None:
    key = shared_service.key(shop="s", per_min=1)
    ask(shared_service, key)
    shared_service.clock.advance(passed)
    seconds = int(ask(shared_service, key).headers["retry-after"])
    assert seconds >= 1
    shared_service.clock.advance(seconds)
    assert ask(shared_service, key).status_code == 200


def test_the_refusal_says_when_to_retry_and_what_the_limit_is(shared_service: RunningService) -> None:
    key = shared_service.key(shop="s", per_min=2)
    ask(shared_service, key)
    shared_service.clock.advance(10)
    ask(shared_service, key)
    answer = shared_service.get("shops", key)
    assert answer.json() == {
        "ok": False,
        "error": "rate_limited",
        "message": answer.json()["message"],
        "retryAfterSec": 50,
        "limit": 2,
        "windowSec": 60,
    }
    assert answer.headers["retry-after"] == "50"


def test_the_refusal_has_no_allowance_headers(shared_service: RunningService) -> None:
    key = shared_service.key(shop="s", per_min=1)
    ask(shared_service, key)
    assert not [name for name in ask(shared_service, key).headers if name.startswith("x-ratelimit")]


def test_the_minute_limit_is_in_no_header(shared_service: RunningService) -> None:
    answer = ask(shared_service, shared_service.key(shop="s", per_min=4321))
    assert not [name for name, value in answer.headers.items() if "4321" in value]


# --- refused requests count nowhere -------------------------------------------------------------


def test_refused_requests_do_not_count_towards_the_day(service: RunningService) -> None:
    key = service.key(shop="s", per_min=2, per_day=10)
    statuses(service, key, 6)
    service.clock.advance(60)
    assert service.data("usage", key)["today"] == {"date": "20260101", "count": 3, "remaining": 7}


def test_requests_that_fail_take_a_slot(shared_service: RunningService) -> None:
    key = shared_service.key(shop="s", per_min=2)
    for _ in range(2):
        assert shared_service.error("transactions", key) == "bad_query"
    assert ask(shared_service, key).status_code == 429


# --- sharing a window ------------------------------------------------------------------------------


def test_every_key_has_its_own_window(shared_service: RunningService) -> None:
    full, other = shared_service.key(shop="s", per_min=1), shared_service.key(shop="s", per_min=1)
    assert statuses(shared_service, full, 2) == [200, 429]
    assert ask(shared_service, other).status_code == 200
