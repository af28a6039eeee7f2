"""GET /v1/usage: the request counts and the limits of the caller's key."""

from typing import Any

import pytest

from records import shop
from running_service import RunningService

DAY = 86_400


def usage(service: RunningService, key: str) -> dict[str, Any]:
    found: dict[str, Any] = service.data("usage", key)
    return found


def test_the_answer_has_exactly_the_contracts_fields(shared_service: RunningService) -> None:
    body = shared_service.get("usage", shared_service.key(shop="s")).json()
    assert list(body) == ["ok", "data", "serverTime"]
    assert list(body["data"]) == ["keyId", "label", "scope", "rate", "today", "days"]
    assert list(body["data"]["rate"]) == ["perMin", "perDay"]
    assert list(body["data"]["today"]) == ["date", "count", "remaining"]
    assert {tuple(day) for day in body["data"]["days"]} == {("date", "count")}


@pytest.mark.parametrize(
    ("terms", "label", "scope", "rate"),
    [
        ({"shop": "x"}, "", "shop", {"perMin": 60, "perDay": 10_000}),
        (
            {"franchise": "x", "label": "ERP ระบบบัญชี", "per_min": 5, "per_day": 7},
            "ERP ระบบบัญชี",
            "franchise",
            {"perMin": 5, "perDay": 7},
        ),
    ],
    ids=["defaults", "all terms"],
)
def test_a_key_learns_its_id_label_scope_and_limits(
    shared_service: RunningService, terms: dict[str, Any], label: str, scope: str, rate: dict[str, int]
) -> None:
    key = shared_service.key(**terms)
    found = usage(shared_service, key)
    assert (found["keyId"], found["label"], found["scope"], found["rate"]) == (key.split("_")[2], label, scope, rate)


def test_the_usage_request_itself_is_counted_and_remaining_equals_the_header(shared_service: RunningService) -> None:
    key = shared_service.key(shop="s", per_day=100)
    for count in (1, 2, 3):
        answer = shared_service.get("usage", key)
        today = answer.json()["data"]["today"]
        assert (today["count"], today["remaining"]) == (count, 100 - count)
        assert answer.headers["x-ratelimit-remaining"] == str(100 - count)


def test_requests_of_the_calling_key_to_every_endpoint_are_counted(shared_service: RunningService) -> None:
    of = shop()
    key, other = shared_service.key_for(of), shared_service.key(shop=of["id"])
    for path in ("shops", "transactions", "transactions/x", "members", "members/lookup", "members/m1_x"):
        shared_service.get(path, key)
    assert [usage(shared_service, each)["today"]["count"] for each in (other, key)] == [1, 7]


def test_parameters_have_no_effect(shared_service: RunningService) -> None:
    key = shared_service.key(shop="s")
    found = shared_service.data("usage", key, keyId="x", days=30, limit=1)
    assert (found["keyId"], len(found["days"])) == (key.split("_")[2], 7)


def test_the_last_seven_days_are_listed_oldest_first_and_days_without_requests_count_0(service: RunningService) -> None:
    key = service.key(shop="s")
    for requests, days_later in ((1, 1), (2, 3), (3, 4)):
        for _ in range(requests):
            usage(service, key)
        service.clock.advance(days_later * DAY)
    found = usage(service, key)
    assert [day["date"] for day in found["days"]] == [f"202601{day:02}" for day in range(3, 10)]
    assert [day["count"] for day in found["days"]] == [0, 0, 3, 0, 0, 0, 1]


def test_today_is_the_day_in_thailand(service: RunningService) -> None:
    key = service.key(shop="s")
    service.clock.advance(17 * 3600 - 0.001)
    before = usage(service, key)["today"]
    service.clock.advance(0.001)
    after = usage(service, key)["today"]
    assert [(today["date"], today["count"]) for today in (before, after)] == [("20260101", 1), ("20260102", 1)]
