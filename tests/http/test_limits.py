"""The minute window and the day quota over HTTP. tests/ports/test_meter.py shows that they are exact.

Every request that the minute window admits is counted. The count resets at midnight in Thailand.
tests/http/test_error_shape.py checks the headers and fields of refusals.
"""

import httpx
import pytest

from actors import OPERATOR
from counterfoil import key_issuing
from running_service import RunningService

UNTIL_MIDNIGHT = 17 * 3600  # the clock starts at 07:00 in Thailand


def allowance(answer: httpx.Response) -> tuple[str | None, str | None]:
    return answer.headers.get("x-ratelimit-limit"), answer.headers.get("x-ratelimit-remaining")


def ask(service: RunningService, key: str) -> httpx.Response:
    return service.get("shops", key)


def statuses(service: RunningService, key: str, number: int) -> list[int]:
    return [ask(service, key).status_code for _ in range(number)]


# --- the minute window ----------------------------------------------------------


def test_the_default_limit_is_60_per_minute(shared_service: RunningService) -> None:
    assert statuses(shared_service, shared_service.key(shop="s"), 62) == [200] * 60 + [429] * 2


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


def test_the_minute_limit_is_in_no_header(shared_service: RunningService) -> None:
    answer = ask(shared_service, shared_service.key(shop="s", per_min=4321))
    assert not [name for name, value in answer.headers.items() if "4321" in value]


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


def test_every_key_has_its_own_window(shared_service: RunningService) -> None:
    full, other = shared_service.key(shop="s", per_min=1), shared_service.key(shop="s", per_min=1)
    assert statuses(shared_service, full, 2) == [200, 429]
    assert ask(shared_service, other).status_code == 200


# --- the day quota -----------------------------------------------------------------


def test_past_the_quota_requests_are_refused_until_the_next_day(shared_service: RunningService) -> None:
    key = shared_service.key(shop="s", per_day=1)
    shared_service.get("shops", key)
    for _ in range(3):
        answer = shared_service.get("shops", key)
        assert (answer.status_code, answer.json()["error"], *allowance(answer)) == (429, "quota_exceeded", "1", "0")


def test_the_quota_resets_at_midnight_in_thailand(service: RunningService) -> None:
    key = service.key(shop="s", per_day=1)
    service.get("shops", key)
    service.clock.advance(UNTIL_MIDNIGHT - 0.001)
    assert service.error("shops", key) == "quota_exceeded"
    service.clock.advance(0.001)
    assert allowance(service.get("shops", key)) == ("1", "0")


def test_a_changed_quota_applies_at_once(service: RunningService) -> None:
    key = service.key(shop="s", per_day=1)
    service.get("shops", key)
    key_issuing.update(
        service.key_store, key.split("_")[2], key_issuing.KeyChanges(per_day=3), service.clock.now_ms(), OPERATOR
    )
    service.clock.advance(1)
    assert allowance(service.get("shops", key)) == ("3", "1")


def test_an_unchanged_answer_has_the_allowance_headers(shared_service: RunningService) -> None:
    key = shared_service.key(shop="s", per_day=9)
    tag = shared_service.get("shops", key).headers["etag"]
    answer = shared_service.get("shops", key, headers={"if-none-match": tag})
    assert (answer.status_code, *allowance(answer)) == (304, "9", "7")
