"""Checks have a fixed order.

The order is: cross-origin, route, method, key, minute window, day quota, permission,
unsupported parameters, other parameters, scope, cursor, existence.
"""

from contextlib import closing
from typing import Any

import pytest

from actors import OPERATOR
from counterfoil import key_issuing
from records import NEW_YEAR, Record, bill, branch, member
from running_service import RunningService

PAGE = {"origin": "https://shop.example"}
USER = "U" + "0" * 32


def code(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]


# --- 1. browser before all else -----------------------------------------------------


@pytest.mark.parametrize(("method", "path"), [("GET", "nowhere"), ("POST", "shops"), ("GET", "shops"), ("PUT", "x")])
def test_a_web_page_is_refused_before_its_path_method_and_key_are_checked(
    shared_service: RunningService, method: str, path: str
) -> None:
    assert code(shared_service.get(path, method=method, headers=PAGE)) == (403, "cross_origin_refused")


# --- 2. route, then method, before the key -------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unknown_path_is_not_found_whatever_the_key_and_the_method(
    shared_service: RunningService, method: str
) -> None:
    slashes = ("", "shops/", "shops/x", "transactions/", "members/", "openapi.json/", "../v2/shops")
    for path in (*slashes, "nowhere", "Shops", "usage/today", "openapi"):
        assert code(shared_service.get(path, "no key at all", method=method)) == (404, "not_found"), path


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "BREW"])
def test_a_method_other_than_get_or_head_is_refused_before_the_key(shared_service: RunningService, method: str) -> None:
    for path in ("shops", "transactions", "transactions/x", "members/lookup", "usage", "openapi.json"):
        answer = shared_service.get(path, method=method)
        assert (*code(answer), answer.headers["allow"]) == (405, "method_not_allowed", "GET, HEAD"), path


def test_only_paths_below_the_prefix_and_the_version_exist(shared_service: RunningService) -> None:
    for path in ("/v1/shops", "/ext/v2/shops", "/ext/shops", "/", "/ext/v1", "/ext//v1/shops"):
        assert code(shared_service.server.client.get(shared_service.url + path)) == (404, "not_found"), path


def test_the_prefix_is_a_setting(tmp_path: Any) -> None:
    with closing(RunningService(tmp_path, prefix="")) as service:
        assert service.get("shops", service.key(shop="s")).status_code == 200
        assert service.server.client.get(service.url + "/v1/shops").status_code == 401
        assert service.server.client.get(service.url + "/ext/v1/shops").status_code == 404


# --- 3. key before minute --------------------------------------------------------------


def test_a_revoked_key_gets_key_revoked_even_in_a_full_minute(service: RunningService) -> None:
    key = service.key(shop="s", per_min=1, per_day=1)
    for _ in range(3):
        service.get("shops", key)
    key_issuing.revoke(service.key_store, key.split("_")[2], service.clock.now_ms(), OPERATOR)
    service.clock.advance(1)
    assert code(service.get("shops", key)) == (401, "key_revoked")


def test_an_invalid_key_is_refused_before_its_parameters_are_checked(shared_service: RunningService) -> None:
    assert code(shared_service.get("transactions", "nonsense", shopId="")) == (401, "invalid_key")


# --- 4. minute before day ------------------------------------------------------------------


def test_a_full_minute_is_reported_before_a_spent_quota(shared_service: RunningService) -> None:
    key = shared_service.key(shop="s", per_min=2, per_day=1)
    shared_service.get("shops", key)
    answers = [code(shared_service.get("shops", key)) for _ in range(2)]
    assert answers == [(429, "quota_exceeded"), (429, "rate_limited")]


# --- 5. day before the handler --------------------------------------------------------------


def test_a_spent_quota_is_reported_before_any_error_in_the_request(shared_service: RunningService) -> None:
    key = shared_service.key(shop="s", per_day=1)
    shared_service.get("shops", key)
    for path in ("members/lookup", "members?updatedSince=x", "transactions", "transactions/none"):
        assert code(shared_service.get(path, key)) == (429, "quota_exceeded"), path


# --- 6. permission, not_supported, parameters, scope, cursor, existence ------------------------


@pytest.fixture(scope="module")
def branches(shared_service: RunningService) -> tuple[Record, Record, str, str]:
    """Two branches of different franchises, and two keys for the first: without and with the lookup permission."""
    mine, theirs = branch(), branch()
    shared_service.load(mine, theirs, bill(mine), member(mine))
    keys = [shared_service.key(shop=mine["id"], per_min=10_000, messaging_lookup=lookup) for lookup in (False, True)]
    return mine, theirs, keys[0], keys[1]


def test_a_missing_permission_is_reported_before_parameters_and_scope(
    shared_service: RunningService, branches: tuple[Record, Record, str, str]
) -> None:
    for query in ({}, {"providerId": ""}, {"providerId": "theirs", "messagingUserId": USER}, {"messagingUserId": "x"}):
        assert code(shared_service.get("members/lookup", branches[2], **query)) == (403, "lookup_not_enabled"), query


def test_not_supported_is_reported_before_parameters_scope_and_cursor(
    shared_service: RunningService, branches: tuple[Record, Record, str, str]
) -> None:
    for query in ({}, {"providerId": ""}, {"providerId": "elsewhere"}, {"providerId": "elsewhere", "cursor": ""}):
        answer = shared_service.get("members", branches[2], updatedSince="", **query)
        assert code(answer) == (400, "not_supported"), query


def test_bad_parameters_are_reported_before_the_scope(
    shared_service: RunningService, branches: tuple[Record, Record, str, str]
) -> None:
    for query in ("", "&from=x&to=x&cursor=", "&updatedSince=x"):
        answer = shared_service.get(f"transactions?shopId=elsewhere{query}", branches[3])
        assert code(answer) == (400, "bad_query"), query
    answer = shared_service.get("members/lookup?providerId=elsewhere&messagingUserId=x", branches[3])
    assert code(answer) == (400, "bad_query")


def test_the_scope_is_checked_before_the_cursor(
    shared_service: RunningService, branches: tuple[Record, Record, str, str]
) -> None:
    _, theirs, key, _ = branches
    for cursor in ("", "nonsense"):
        bills = shared_service.get("transactions", key, shopId=theirs["id"], cursor=cursor, **NEW_YEAR)
        members = shared_service.get("members", key, providerId=theirs["providerId"], cursor=cursor)
        assert [code(bills), code(members)] == [(403, "shop_not_in_scope"), (403, "provider_not_in_scope")]


def test_the_scope_is_checked_before_the_cursor_for_a_franchise_too_whatever_bills_the_shop_has(
    shared_service: RunningService,
) -> None:
    mine, theirs = branch(), branch()
    inside, outside = bill(theirs), bill(theirs, closedAt="2024-05-05T12:00:00+07:00")
    shared_service.load(mine, theirs, inside, outside)
    key, their_key = (shared_service.key(franchise=one["franchiseId"], per_min=10_000) for one in (mine, theirs))

    def asked(key: str, *cursors: str) -> set[tuple[int, str]]:
        query = {"shopId": theirs["id"], **NEW_YEAR}
        return {code(shared_service.get("transactions", key, cursor=cursor, **query)) for cursor in cursors}

    # The response is the same before and after an authorised key has requested this shop's bills.
    for _ in range(2):
        assert asked(key, inside["id"], outside["id"], "nonsense", "") == {(403, "shop_not_in_scope")}
        assert asked(their_key, outside["id"], "nonsense", "") == {(400, "bad_cursor")}


def test_the_scope_is_checked_before_existence(
    shared_service: RunningService, branches: tuple[Record, Record, str, str]
) -> None:
    _, theirs, _, key = branches
    answer = shared_service.get("members/lookup", key, providerId=theirs["providerId"], messagingUserId=USER)
    assert code(answer) == (403, "provider_not_in_scope")


# --- which requests are counted ------------------------------------------------------------------


@pytest.mark.parametrize(
    "refused",
    [
        {"path": "shops", "headers": PAGE},
        {"path": "nowhere"},
        {"path": "shops", "method": "POST"},
        {"path": "openapi.json"},
    ],
    ids=["browser", "unknown path", "method", "openapi.json"],
)
def test_requests_refused_before_the_key_check_are_not_counted_and_have_no_allowance(
    shared_service: RunningService, refused: dict[str, Any]
) -> None:
    key = shared_service.key(shop="s")
    answer = shared_service.get(**refused, key=key)
    assert not [name for name in answer.headers if name.startswith("x-ratelimit")]
    shared_service.get("shops", key, method="HEAD")  # HEAD is counted like GET.
    assert shared_service.data("usage", key)["today"]["count"] == 2
