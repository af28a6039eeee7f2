"""Tests for headers that integrators may rely on, with GET and HEAD: request IDs, caching, validators, encodings."""

import gzip
import re
from typing import Any

import pytest
from backports import zstd

import raw_http
from counterfoil.http.wire import MIN_COMPRESSED_BYTES
from records import NEW_YEAR, Record, bill, bills, branch, fresh, member, shop
from running_service import RunningService

NO_ENCODING = {"accept-encoding": "identity"}


@pytest.fixture(scope="module")
def large(shared_service: RunningService) -> str:
    """A key whose list of shops is large enough to be compressed."""
    franchise = fresh("franchise")
    shared_service.load(*[branch(franchiseId=franchise) for _ in range(20)])
    key = shared_service.key(franchise=franchise, per_min=10_000)
    assert len(shared_service.get("shops", key, headers=NO_ENCODING).content) > MIN_COMPRESSED_BYTES
    return key


@pytest.fixture(scope="module")
def small(shared_service: RunningService) -> str:
    """A key whose list of shops is too small to be compressed."""
    key = shared_service.key(shop="never-loaded", per_min=10_000)
    assert len(shared_service.get("shops", key, headers=NO_ENCODING).content) < MIN_COMPRESSED_BYTES
    return key


def outcomes(service: RunningService) -> dict[str, Any]:
    """Return one response of each kind, keyed by the name of the kind."""
    of = shop()
    service.load(of)
    key = service.key(shop=of["id"])
    full, spent = service.key(shop=of["id"], per_min=1), service.key(shop=of["id"], per_day=1)
    service.get("shops", full)
    service.get("shops", spent)
    tag = service.get("shops", key).headers["etag"]
    return {
        "200": service.get("shops", key),
        "304": service.get("shops", key, headers={"if-none-match": tag}),
        "400": service.get("transactions", key),
        "401": service.get("shops"),
        "403": service.get("members/lookup", key),
        "403 browser": service.get("shops", key, headers={"origin": "https://x.example"}),
        "404": service.get("transactions/x", key),
        "404 path": service.get("nowhere", key),
        "405": service.get("shops", key, method="POST"),
        "429 minute": service.get("shops", full),
        "429 day": service.get("shops", spent),
        "HEAD": service.get("shops", key, method="HEAD"),
        "public": service.get("openapi.json"),
    }


KINDS = ["200", "304", "400", "401", "403", "403 browser", "404", "404 path", "405", "429 minute", "429 day", "HEAD"]
KINDS.append("public")


@pytest.fixture(scope="module")
def answers(shared_service: RunningService) -> dict[str, Any]:
    return outcomes(shared_service)


# --- on every answer ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_answer_has_a_request_id(answers: dict[str, Any], kind: str) -> None:
    assert re.fullmatch(r"[0-9a-f]{20}", answers[kind].headers["x-request-id"])


@pytest.mark.parametrize("kind", KINDS)
def test_every_answer_is_private_json_that_varies_with_key_encoding_and_browser(
    answers: dict[str, Any], kind: str
) -> None:
    headers = answers[kind].headers
    assert (headers["content-type"], headers["cache-control"]) == ("application/json", "private, no-cache")
    varies = {name.strip().lower() for name in headers["vary"].split(",")}
    assert varies >= {"accept-encoding", "authorization", "origin", "sec-fetch-site"}


@pytest.mark.parametrize("kind", KINDS)
def test_no_answer_has_a_cors_header(answers: dict[str, Any], kind: str) -> None:
    assert not [name for name in answers[kind].headers if name.startswith("access-control")]


@pytest.mark.parametrize("kind", KINDS)
def test_retry_after_is_sent_only_when_the_minute_is_full(answers: dict[str, Any], kind: str) -> None:
    assert ("retry-after" in answers[kind].headers) is (kind == "429 minute")


# --- request ids ------------------------------------------------------------------------------


@pytest.mark.parametrize("mine", ["a", "nightly-sync-0042", "A.b_c~d:e-9", "x" * 128])
def test_a_well_formed_request_id_is_kept(shared_service: RunningService, small: str, mine: str) -> None:
    assert shared_service.get("shops", small, headers={"x-request-id": mine}).headers["x-request-id"] == mine


@pytest.mark.parametrize(
    "mine", ["", "x" * 129, "two words", "a,b", "a/b", "<script>", "ü".encode(), '"a"', "a;b", "a=b"]
)
def test_any_other_request_id_is_replaced(shared_service: RunningService, small: str, mine: Any) -> None:
    answer = shared_service.server.client.get(
        f"{shared_service.url}/ext/v1/shops",
        headers=[(b"authorization", f"Bearer {small}".encode()), (b"x-request-id", mine)],
    )
    assert re.fullmatch(r"[0-9a-f]{20}", answer.headers["x-request-id"])


# --- validators -----------------------------------------------------------------------------------


def test_the_tag_stays_the_same_while_only_the_server_time_changes(shared_service: RunningService, small: str) -> None:
    before = shared_service.get("shops", small)
    shared_service.load(shop())
    after = shared_service.get("shops", small)
    assert before.json()["serverTime"] != after.json()["serverTime"]
    assert before.headers["etag"] == after.headers["etag"]
    assert re.fullmatch(r'W/"[0-9a-f]+"', before.headers["etag"])


@pytest.mark.parametrize("what", ["shops", "bills by day", "bills by change", "bill", "members", "member"])
def test_the_tag_changes_with_the_data(shared_service: RunningService, what: str) -> None:
    of = branch()
    sold, person = bill(of), member(of)
    shared_service.load(of, sold, person)
    key = shared_service.key(shop=of["id"])
    path, query = {
        "shops": ("shops", {}),
        "bills by day": ("transactions", {"shopId": of["id"], **NEW_YEAR}),
        "bills by change": ("transactions", {"shopId": of["id"], "updatedSince": "2000-01-01T00:00:00Z"}),
        "bill": (f"transactions/{sold['id']}", {}),
        "members": ("members", {"providerId": of["providerId"]}),
        "member": (f"members/{shared_service.token(person['id'])}", {}),
    }[what]
    before = shared_service.get(path, key, **query).headers["etag"]
    assert shared_service.get(path, key, **query).headers["etag"] == before
    shared_service.load(of | {"name": "Renamed"}, sold | {"cashier": "Another"}, person | {"points": 7})
    assert shared_service.get(path, key, **query).headers["etag"] != before


def test_the_tag_of_a_member_changes_when_points_expire(service: RunningService) -> None:
    of = branch()
    person = member(of, points=[{"amount": 5, "expireAt": service.clock.now_ms() + 60_000}])
    service.load(of, person)
    key, path = service.key(shop=of["id"]), f"members/{service.token(person['id'])}"
    before = service.get(path, key).headers["etag"]
    service.clock.advance(60)
    assert service.get(path, key, headers={"if-none-match": before}).status_code == 200


def test_the_tag_of_a_last_page_differs_from_that_of_a_page_with_a_cursor(shared_service: RunningService) -> None:
    of = shop()
    shared_service.load(of, *bills(of, 2))
    key = shared_service.key(shop=of["id"])
    full, last = (shared_service.get("transactions", key, shopId=of["id"], limit=limit, **NEW_YEAR) for limit in (2, 3))
    assert full.json()["data"] == last.json()["data"]
    assert full.headers["etag"] != last.headers["etag"]


def test_the_tag_of_a_member_depends_on_whether_personal_data_is_shown(shared_service: RunningService) -> None:
    of = branch()
    person = member(of)
    shared_service.load(of, person)
    keys = [shared_service.key(shop=of["id"], personal_data=shown) for shown in (False, True)]
    assert (
        len({shared_service.get(f"members/{shared_service.token(person['id'])}", key).headers["etag"] for key in keys})
        == 2
    )


MATCHING = ["{weak}", "{strong}", "*", '"other", {weak}', '{strong}, "other"', '"a",{weak},"b"', '"a", ,{weak}']
DIFFERENT = ['"other"', 'W/"other"', "", "{bare}", '"a", "b"', "**", '"*"', '"{bare}']


def condition(pattern: str, tag: str) -> str:
    return pattern.format(weak=tag, strong=tag.removeprefix("W/"), bare=tag.removeprefix("W/").strip('"'))


@pytest.mark.parametrize("pattern", MATCHING)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_an_answer_that_the_caller_already_has_is_not_sent_again(
    shared_service: RunningService, small: str, pattern: str, method: str
) -> None:
    tag = shared_service.get("shops", small).headers["etag"]
    answer = shared_service.get("shops", small, method=method, headers={"if-none-match": condition(pattern, tag)})
    assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag)


@pytest.mark.parametrize("pattern", DIFFERENT)
def test_a_condition_that_does_not_match_is_answered_in_full(
    shared_service: RunningService, small: str, pattern: str
) -> None:
    tag = shared_service.get("shops", small).headers["etag"]
    answer = shared_service.get("shops", small, headers={"if-none-match": condition(pattern, tag)})
    assert (answer.status_code, answer.headers["etag"]) == (200, tag)


def test_a_condition_does_not_hide_a_refusal(shared_service: RunningService, small: str) -> None:
    assert shared_service.get("transactions/x", small, headers={"if-none-match": "*"}).status_code == 404


# --- encodings ---------------------------------------------------------------------------------------

ENCODINGS = [
    ("gzip", "gzip"),
    ("zstd", "zstd"),
    ("gzip, zstd", "zstd"),
    ("zstd, gzip", "zstd"),
    ("gzip, deflate, br", "gzip"),
    ("gzip, deflate, br, zstd", "zstd"),
    ("GZIP", "gzip"),
    ("zstd;q=0.5, gzip", "gzip"),
    ("zstd;q=0.5, gzip;q=0.8", "gzip"),
    ("zstd;q=0.8, gzip;q=0.8", "zstd"),
    ("br, gzip ; q=0.8 , deflate", "gzip"),
    ("gzip;Q=0.8", "gzip"),
    ("*", "zstd"),
    ("*;q=0.1", "zstd"),
    ("gzip;q=0, *", "zstd"),
    ("zstd;q=0, *", "gzip"),
    ("identity;q=0, *", "zstd"),
    ("identity;q=0.5, gzip;q=0.8", "gzip"),
    ("identity, gzip", "gzip"),
    ("identity, gzip;q=0.5", None),
    ("identity", None),
    ("", None),
    ("br, deflate", None),
    ("gzip;q=0", None),
    ("gzip;q=0.000", None),
    ("*;q=0", None),
    ("gzip;q=nonsense", None),
    ("gzip;q=nan", None),
    ("zstd;q=nan", None),
    ("gzip;q=1e9, identity", None),
    ("gzip;q=-1", None),
    ("xgzip", None),
    (",,;;,", None),
    ("identity;q=0", None),
]


@pytest.mark.parametrize(("accepted", "encoding"), ENCODINGS)
def test_the_encoding_is_the_one_the_caller_prefers(
    shared_service: RunningService, large: str, accepted: str, encoding: str | None
) -> None:
    answer = shared_service.get("shops", large, headers={"accept-encoding": accepted})
    assert answer.headers.get("content-encoding") == encoding


def test_without_the_header_nothing_is_encoded(shared_service: RunningService, large: str) -> None:
    answer = raw_http.send(shared_service, raw_http.request(b"/ext/v1/shops", key=large))
    assert (answer.status, "content-encoding" in answer.headers) == (200, False)


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_an_encoded_answer_holds_the_same_bytes(shared_service: RunningService, large: str, encoding: str) -> None:
    plain = shared_service.get("shops", large, headers=NO_ENCODING)
    sent = raw_http.send(
        shared_service, raw_http.request(b"/ext/v1/shops", b"Accept-Encoding: " + encoding.encode(), key=large)
    )
    unpacked = gzip.decompress(sent.body) if encoding == "gzip" else zstd.decompress(sent.body)
    assert unpacked == plain.content
    assert len(sent.body) < len(plain.content)


def test_the_tag_is_the_same_in_every_encoding(shared_service: RunningService, large: str) -> None:
    tags = {
        shared_service.get("shops", large, headers={"accept-encoding": name}).headers["etag"]
        for name in ("gzip", "zstd", "")
    }
    assert len(tags) == 1


@pytest.mark.parametrize(("accepted", "encoding"), [("gzip, zstd", None), ("gzip, identity;q=0", "gzip")])
def test_a_small_answer_is_compressed_only_for_a_caller_that_accepts_nothing_else(
    shared_service: RunningService, small: str, accepted: str, encoding: str | None
) -> None:
    answer = shared_service.get("shops", small, headers={"accept-encoding": accepted})
    assert answer.headers.get("content-encoding") == encoding


# --- HEAD --------------------------------------------------------------------------------------------


def comparable(headers: Any) -> Record:
    return {name: headers[name] for name in headers if name not in ("x-request-id", "x-ratelimit-remaining", "date")}


@pytest.mark.parametrize("accepted", ["identity", "gzip", "zstd"])
@pytest.mark.parametrize("path", ["shops", "usage", "openapi.json", "transactions", "members/x", "nowhere"])
def test_head_has_the_headers_of_get_and_no_body(
    shared_service: RunningService, large: str, path: str, accepted: str
) -> None:
    asked = {"accept-encoding": accepted}
    get = shared_service.get(path, large, headers=asked)
    head = shared_service.get(path, large, method="HEAD", headers=asked)
    assert (head.status_code, head.content) == (get.status_code, b"")
    left, right = comparable(head.headers), comparable(get.headers)
    if path == "usage":
        # The usage data contains the request count, which changes with every request.
        for headers in (left, right):
            headers.pop("etag")
            headers.pop("content-length")
    assert left == right
