"""The day quota: every request that the minute window admits is counted. The count resets at midnight in Thailand."""

from typing import Any

import pytest

from actors import OPERATOR
from broken_store import run_sql, table_missing
from counterfoil import key_issuing
from records import NEW_YEAR, Record, branch, member
from running_service import RunningService

UNTIL_MIDNIGHT = 17 * 3600  # the clock starts at 07:00 in Thailand


def allowance(answer: Any) -> tuple[str | None, str | None]:
    return answer.headers.get("x-ratelimit-limit"), answer.headers.get("x-ratelimit-remaining")


def test_remaining_goes_down_to_0_with_the_last_request_of_the_quota(shared_service: RunningService) -> None:
    key = shared_service.key(shop="s", per_day=3)
    answers = [shared_service.get("shops", key) for _ in range(3)]
    assert [allowance(answer) for answer in answers] == [("3", "2"), ("3", "1"), ("3", "0")]
    assert {answer.status_code for answer in answers} == {200}


def test_past_the_quota_requests_are_refused_until_the_next_day(shared_service: RunningService) -> None:
    key = shared_service.key(shop="s", per_day=1)
    shared_service.get("shops", key)
    for _ in range(3):
        answer = shared_service.get("shops", key)
        assert (answer.status_code, answer.json()["error"], *allowance(answer)) == (429, "quota_exceeded", "1", "0")


def test_the_refusal_has_neither_retry_after_nor_minute_fields(shared_service: RunningService) -> None:
    key = shared_service.key(shop="s", per_day=1)
    shared_service.get("shops", key)
    answer = shared_service.get("shops", key)
    assert list(answer.json()) == ["ok", "error", "message"]
    assert "retry-after" not in answer.headers


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


# --- which answers carry the allowance ----------------------------------------------------

ADMITTED: list[tuple[str, str, Record, int]] = [
    ("success", "shops", {}, 200),
    ("usage", "usage", {}, 200),
    ("bad_query", "transactions", {}, 400),
    ("bad_cursor", "transactions", {"shopId": "s", "cursor": "x", **NEW_YEAR}, 400),
    ("not_supported", "members", {"updatedSince": "x"}, 400),
    ("shop_not_in_scope", "transactions", {"shopId": "x", **NEW_YEAR}, 403),
    ("provider_not_in_scope", "members", {"providerId": "x"}, 403),
    ("lookup_not_enabled", "members/lookup", {}, 403),
    ("not_found bill", "transactions/x", {}, 404),
    ("not_found member", "members/x", {}, 404),
]


@pytest.mark.parametrize(("path", "query", "status"), [row[1:] for row in ADMITTED], ids=[row[0] for row in ADMITTED])
def test_every_answer_past_the_minute_window_has_the_allowance_headers(
    shared_service: RunningService, path: str, query: Record, status: int
) -> None:
    answer = shared_service.get(path, shared_service.key(shop="s", per_day=9), **query)
    assert (answer.status_code, *allowance(answer)) == (status, "9", "8")


def test_an_unchanged_answer_has_the_allowance_headers(shared_service: RunningService) -> None:
    key = shared_service.key(shop="s", per_day=9)
    tag = shared_service.get("shops", key).headers["etag"]
    answer = shared_service.get("shops", key, headers={"if-none-match": tag})
    assert (answer.status_code, *allowance(answer)) == (304, "9", "7")


def test_a_store_that_fails_in_the_handler_is_answered_500_with_the_allowance(service: RunningService) -> None:
    key = service.key(shop="s", per_day=9)
    service.get("shops", key)
    with table_missing(service, "books", "shops"):
        answer = service.get("shops", key)
    assert (answer.status_code, answer.json()["error"], *allowance(answer)) == (500, "internal", "9", "7")
    assert service.get("shops", key).status_code == 200


def test_a_crash_is_answered_500_with_the_allowance(service: RunningService) -> None:
    of = branch()
    service.load(of, member(of))
    key = service.key(shop=of["id"], per_day=9)
    run_sql(service, "books", "UPDATE members SET form = 'no JSON at all'")
    answer = service.get("members", key, providerId=of["providerId"])
    assert (answer.status_code, answer.json()["error"], *allowance(answer)) == (500, "internal", "9", "8")
