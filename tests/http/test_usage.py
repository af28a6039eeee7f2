"""GET /v1/usage: the request counts and the limits of the caller's key."""

from pathlib import Path
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


def test_the_key_id_is_the_part_before_the_secret(shared_service: RunningService) -> None:
    key = shared_service.key(shop="s")
    assert usage(shared_service, key)["keyId"] == key.split("_")[2]


@pytest.mark.parametrize(("terms", "label"), [({}, ""), ({"label": "ERP ระบบบัญชี"}, "ERP ระบบบัญชี")])
def test_the_label_is_the_one_given_at_issue(shared_service: RunningService, terms: dict[str, Any], label: str) -> None:
    assert usage(shared_service, shared_service.key(shop="s", **terms))["label"] == label


@pytest.mark.parametrize("scope", ["shop", "franchise"])
def test_the_scope_is_what_the_key_is_bound_to(shared_service: RunningService, scope: str) -> None:
    assert usage(shared_service, shared_service.key(**{scope: "x"}))["scope"] == scope


def test_a_key_has_60_requests_per_minute_and_10000_per_day_by_default(shared_service: RunningService) -> None:
    assert usage(shared_service, shared_service.key(shop="s"))["rate"] == {"perMin": 60, "perDay": 10_000}
    assert usage(shared_service, shared_service.key(shop="s", per_min=5, per_day=7))["rate"] == {
        "perMin": 5,
        "perDay": 7,
    }


def test_the_usage_request_itself_is_counted(shared_service: RunningService) -> None:
    key = shared_service.key(shop="s", per_day=100)
    counted = [usage(shared_service, key)["today"] for _ in range(3)]
    assert [(today["count"], today["remaining"]) for today in counted] == [(1, 99), (2, 98), (3, 97)]


def test_remaining_equals_the_header_of_the_same_answer(shared_service: RunningService) -> None:
    key = shared_service.key(shop="s", per_day=100)
    for _ in range(3):
        answer = shared_service.get("usage", key)
        assert str(answer.json()["data"]["today"]["remaining"]) == answer.headers["x-ratelimit-remaining"]


def test_requests_to_every_endpoint_are_counted(shared_service: RunningService) -> None:
    of = shop()
    shared_service.load(of)
    key = shared_service.key(shop=of["id"])
    for path in ("shops", "transactions", "transactions/x", "members", "members/lookup", "members/m1_x"):
        shared_service.get(path, key)
    assert usage(shared_service, key)["today"]["count"] == 7


def test_only_the_calling_keys_requests_are_counted(shared_service: RunningService) -> None:
    key, other = shared_service.key(shop="s"), shared_service.key(shop="s")
    usage(shared_service, other)
    usage(shared_service, other)
    assert usage(shared_service, key)["today"]["count"] == 1


@pytest.mark.parametrize("query", [{"keyId": "x"}, {"days": 30}, {"limit": 1}])
def test_parameters_have_no_effect(shared_service: RunningService, query: dict[str, Any]) -> None:
    key = shared_service.key(shop="s")
    found = shared_service.data("usage", key, **query)
    assert (found["keyId"], len(found["days"])) == (key.split("_")[2], 7)


def test_the_last_seven_days_are_listed_oldest_first_and_today_last(shared_service: RunningService) -> None:
    days = usage(shared_service, shared_service.key(shop="s"))["days"]
    assert [day["date"] for day in days] == [*(f"202512{day}" for day in range(26, 32)), "20260101"]
    assert [day["count"] for day in days] == [0, 0, 0, 0, 0, 0, 1]


def test_days_without_requests_count_0_and_older_days_are_dropped(service: RunningService) -> None:
    key = service.key(shop="s")
    for requests, days_later in ((1, 1), (2, 3), (3, 4)):
        for _ in range(requests):
            usage(service, key)
        service.clock.advance(days_later * DAY)
    found = usage(service, key)
    assert [(day["date"], day["count"]) for day in found["days"]] == [
        ("20260103", 0),
        ("20260104", 0),
        ("20260105", 3),
        ("20260106", 0),
        ("20260107", 0),
        ("20260108", 0),
        ("20260109", 1),
    ]


def test_today_is_the_day_in_thailand(service: RunningService) -> None:
    key = service.key(shop="s")
    service.clock.advance(17 * 3600 - 0.001)
    before = usage(service, key)["today"]
    service.clock.advance(0.001)
    after = usage(service, key)["today"]
    assert [(today["date"], today["count"]) for today in (before, after)] == [("20260101", 1), ("20260102", 1)]


def test_requests_past_the_quota_are_counted_too(service: RunningService) -> None:
    key = service.key(shop="s", per_day=2)
    for _ in range(5):
        service.get("usage", key)
    service.clock.advance(DAY)
    assert [day["count"] for day in usage(service, key)["days"]][-2:] == [5, 1]


def test_counts_survive_a_restart(tmp_path: Path) -> None:
    before = RunningService(tmp_path)
    key = before.key(shop="s")
    usage(before, key)
    usage(before, key)
    before.close()
    after = RunningService(tmp_path)
    count = usage(after, key)["today"]["count"]
    after.close()
    assert count == 3
