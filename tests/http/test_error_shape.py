"""Every error has the status and the code given in the error table, and the documented structure and headers."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from actors import OPERATOR
from broken_store import keys_unreadable, run_sql, table_missing
from counterfoil import bootstrap, key_issuing
from counterfoil.domain.problems import TABLE, Problem
from counterfoil.domain.tokens import FeedTokens, Mark
from records import NEW_YEAR, bills, branch, days, member
from running_service import RunningService

Source = Callable[[RunningService, str], httpx.Response]

SHOP, BASE = "the-shop", "the-base"
THE_SHOP = branch(id=SHOP, providerId=BASE)
SOLD, PERSON = bills(THE_SHOP, 2), member(THE_SHOP)
USER = "U" + "0" * 32
MINUTE_FIELDS = {"retryAfterSec", "limit", "windowSec"}


def bad_key(service: RunningService, mine: str) -> httpx.Response:
    return service.get("shops", "cf_live_nonsense")


def revoked(service: RunningService, mine: str) -> httpx.Response:
    key_issuing.revoke(service.key_store, mine.split("_")[2], service.clock.now_ms(), OPERATOR)
    service.clock.advance(1)
    return service.get("shops", mine)


def beyond(**limit: Any) -> Source:
    def source(service: RunningService, _: str) -> httpx.Response:
        mine = service.key(shop=SHOP, **limit)
        service.get("shops", mine)
        return service.get("shops", mine)

    return source


def from_an_old_mark(service: RunningService, mine: str) -> httpx.Response:
    key = key_issuing.key_in(service.key_store.all(), mine.split("_")[2])
    mark = FeedTokens(bootstrap.pseudonyms(service.settings).feed_key()).text_of(key, Mark(until=1))
    return service.get("changes", mine, since=mark)


def without_keys(service: RunningService, mine: str) -> httpx.Response:
    with keys_unreadable(service):
        return service.get("shops", mine)


def without_counts(service: RunningService, mine: str) -> httpx.Response:
    with table_missing(service, "usage", "admissions"):
        return service.get("shops", mine)


def without_cursors(service: RunningService, mine: str) -> httpx.Response:
    with table_missing(service, "usage", "cursors"):
        return service.get("transactions", mine, shopId=SHOP, limit=1, **NEW_YEAR)


def broken(table: str, path: str, **query: Any) -> Source:
    def source(service: RunningService, mine: str) -> httpx.Response:
        with table_missing(service, "books", table):
            return service.get(path, mine, **query)

    return source


def crash(service: RunningService, mine: str) -> httpx.Response:
    run_sql(service, "books", "UPDATE members SET form = '{'")
    answer = service.get("members", mine, providerId=BASE)
    service.load(PERSON)
    return answer


def asked(path: str, method: str = "GET", headers: dict[str, str] | None = None, **query: Any) -> Source:
    return lambda service, mine: service.get(path, mine, method=method, headers=headers, **query)


SOURCES: dict[str, dict[str, Source]] = {
    "bad_query": {
        "bills without a shop": asked("transactions"),
        "bills in neither way": asked("transactions", shopId=SHOP),
        "bills by broken days": asked("transactions", shopId=SHOP, **days("x")),
        "bills over too many days": asked("transactions", shopId=SHOP, **days("20260101", "20270101")),
        "bills by a broken instant": asked("transactions", shopId=SHOP, updatedSince="x"),
        "members without a base": asked("members"),
        "lookup without a base": asked("members/lookup"),
        "lookup of no user id": asked("members/lookup", providerId=BASE, messagingUserId="x"),
    },
    "bad_cursor": {
        "bills by day": asked("transactions", shopId=SHOP, cursor="x", **NEW_YEAR),
        "bills by change": asked("transactions", shopId=SHOP, cursor="", updatedSince="2026-01-01T00:00:00Z"),
        "members": asked("members", providerId=BASE, cursor="x"),
        "the feed": asked("changes", cursor="x"),
        "digests": asked("digests", cursor="x"),
    },
    "mark_expired": {"an old mark": from_an_old_mark},
    "not_supported": {"members since": asked("members", providerId=BASE, updatedSince="2026-01-01T00:00:00Z")},
    "invalid_key": {"nonsense": bad_key, "none": lambda service, _: service.get("shops")},
    "key_revoked": {"revoked": revoked},
    "cross_origin_refused": {
        "a page": asked("shops", headers={"origin": "https://x.example"}),
        "a preflight": asked("shops", method="OPTIONS", headers={"access-control-request-method": "GET"}),
        "a page on no route": asked("nowhere", headers={"sec-fetch-site": "cross-site"}),
    },
    "shop_not_in_scope": {"another shop": asked("transactions", shopId="another", **NEW_YEAR)},
    "provider_not_in_scope": {
        "another base": asked("members", providerId="another"),
        "lookup in another base": asked("members/lookup", providerId="another", messagingUserId=USER),
    },
    "lookup_not_enabled": {"lookup": lambda service, _: service.get("members/lookup", service.key(shop=SHOP))},
    "not_found": {
        "no bill": asked("transactions/x"),
        "no member": asked("members/x"),
        "nobody": asked("members/lookup", providerId=BASE, messagingUserId=USER),
        "no route": asked("nowhere"),
        "no route without a key": lambda service, _: service.get("nowhere"),
    },
    "method_not_allowed": {
        "post": asked("shops", method="POST"),
        "delete on the document": asked("openapi.json", method="DELETE"),
    },
    "rate_limited": {"a full minute": beyond(per_min=1)},
    "quota_exceeded": {"a spent day": beyond(per_day=1)},
    "internal": {
        "shops": broken("shops", "shops"),
        "bills": broken("bills", "transactions", shopId=SHOP, **NEW_YEAR),
        "bill": broken("bills", "transactions/x"),
        "members": broken("members", "members", providerId=BASE),
        "member": broken("members", "members/m1_x"),
        "accounts": broken("accounts", "members/lookup", providerId=BASE, messagingUserId=USER),
        "horizon": broken("horizon", "usage"),
        "cursors": without_cursors,
        "a crash": crash,
    },
    "auth_unavailable": {"no keys": without_keys, "no counts": without_counts},
}
CASES = [(code, name) for code, sources in SOURCES.items() for name in sources]
BY_CODE = {problem.code: problem for problem in TABLE}


@pytest.fixture
def full_key(shared_service: RunningService) -> str:
    """A key with every permission, for a shop with two bills and a member."""
    shared_service.load(THE_SHOP, *SOLD, PERSON)
    return shared_service.key(shop=SHOP, messaging_lookup=True, personal_data=True)


def test_every_row_of_the_error_table_can_be_caused() -> None:
    assert set(SOURCES) == set(BY_CODE)


@pytest.mark.parametrize(("code", "name"), CASES, ids=[f"{code}: {name}" for code, name in CASES])
def test_an_error_is_as_the_table_says(shared_service: RunningService, full_key: str, code: str, name: str) -> None:
    answer = SOURCES[code][name](shared_service, full_key)
    problem = BY_CODE[code]
    body = answer.json()
    assert (answer.status_code, body["ok"], body["error"]) == (problem.status, False, problem.code)
    assert isinstance(body["message"], str)
    assert body["message"]
    assert set(body) == {"ok", "error", "message"} | (MINUTE_FIELDS if code == "rate_limited" else set())
    assert {type(body[field]) for field in MINUTE_FIELDS & set(body)} <= {int}
    internals = ("sqlite", "traceback", "python", "counterfoil", "/", "select ")
    # The message for an unknown path names those that everybody may know.
    text = answer.text.lower().replace("/ext/v1/openapi.json", "").replace("/ext/v1/", "")
    assert not [word for word in internals if word in text]
    check_headers(problem, answer)


def check_headers(problem: Problem, answer: httpx.Response) -> None:
    headers = answer.headers
    assert headers["content-type"] == "application/json"
    assert "x-request-id" in headers
    assert "etag" not in headers
    assert ("retry-after" in headers) is (problem.code == "rate_limited")
    assert ("allow" in headers) is (problem.status == 405)
    assert ("www-authenticate" in headers) is (problem.status == 401)
    before_the_day = {"invalid_key", "key_revoked", "cross_origin_refused", "method_not_allowed"}
    before_the_day |= {"rate_limited", "auth_unavailable"}
    no_route = answer.json()["message"].startswith("There is no such path")
    assert ("x-ratelimit-limit" in headers) is (problem.code not in before_the_day and not no_route)
    assert ("x-ratelimit-remaining" in headers) is ("x-ratelimit-limit" in headers)
    if "x-ratelimit-limit" in headers:
        assert int(headers["x-ratelimit-remaining"]) < int(headers["x-ratelimit-limit"])


def test_the_contracts_codes_have_the_contracts_status() -> None:
    assert {problem.code: problem.status for problem in TABLE} == {
        "bad_query": 400,
        "bad_cursor": 400,
        "not_supported": 400,
        "invalid_key": 401,
        "key_revoked": 401,
        "shop_not_in_scope": 403,
        "provider_not_in_scope": 403,
        "lookup_not_enabled": 403,
        "not_found": 404,
        "rate_limited": 429,
        "quota_exceeded": 429,
        "internal": 500,
        "auth_unavailable": 503,
        # Added to the contract.
        "cross_origin_refused": 403,
        "method_not_allowed": 405,
        "mark_expired": 400,
    }
