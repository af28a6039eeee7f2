"""Tests for headers that integrators may rely on, with GET and HEAD: request IDs, caching, validators, encodings."""

import gzip
import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
from backports import zstd

import raw_http
from counterfoil import bootstrap
from counterfoil.http.wire import MIN_COMPRESSED_BYTES
from records import EVER, NEW_YEAR, Record, bill, bills, branch, fresh, member, shop
from running_service import RunningService, ServerThread

MADE_ID = re.compile(r"[0-9a-f]{20}")
TEL = "0812345678"
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


@pytest.fixture(scope="module")
def answers(shared_service: RunningService) -> dict[str, Any]:
    """One response of each kind, keyed by the name of the kind."""
    service = shared_service
    of = shop()
    key = service.key_for(of)
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


def test_every_answer_has_a_request_id_and_is_private_json_that_varies_with_key_encoding_and_browser(
    answers: dict[str, Any],
) -> None:
    for kind, answer in answers.items():
        headers = answer.headers
        assert MADE_ID.fullmatch(headers["x-request-id"]), kind
        assert (headers["content-type"], headers["cache-control"]) == ("application/json", "private, no-cache"), kind
        varies = {name.strip().lower() for name in headers["vary"].split(",")}
        assert varies >= {"accept-encoding", "authorization", "origin", "sec-fetch-site"}, kind


def test_no_answer_has_a_cors_header(answers: dict[str, Any]) -> None:
    assert not [name for answer in answers.values() for name in answer.headers if name.startswith("access-control")]


def test_retry_after_is_sent_only_when_the_minute_is_full(answers: dict[str, Any]) -> None:
    assert [kind for kind, answer in answers.items() if "retry-after" in answer.headers] == ["429 minute"]


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
    assert MADE_ID.fullmatch(answer.headers["x-request-id"])


# --- validators -----------------------------------------------------------------------------------


def test_the_tag_stays_the_same_while_only_the_server_time_changes(shared_service: RunningService, small: str) -> None:
    before = shared_service.get("shops", small)
    shared_service.load(shop())
    after = shared_service.get("shops", small)
    assert before.json()["serverTime"] != after.json()["serverTime"]
    assert before.headers["etag"] == after.headers["etag"]
    assert re.fullmatch(r'W/"[0-9a-f]+"', before.headers["etag"])


def test_the_tag_changes_with_the_data(shared_service: RunningService) -> None:
    of = branch()
    sold, person = bill(of), member(of)
    key = shared_service.key_for(of, sold, person)
    paths = [
        "shops",
        f"transactions?shopId={of['id']}&from=20260101&to=20260101",
        f"transactions?shopId={of['id']}&updatedSince={EVER}",
        f"transactions/{sold['id']}",
        f"members?providerId={of['providerId']}",
        f"members/{shared_service.token(person['id'])}",
    ]
    before = {path: shared_service.get(path, key).headers["etag"] for path in paths}
    assert {path: shared_service.get(path, key).headers["etag"] for path in paths} == before
    shared_service.load(of | {"name": "Renamed"}, sold | {"cashier": "Another"}, person | {"points": 7})
    assert [path for path in paths if shared_service.get(path, key).headers["etag"] == before[path]] == []


def test_the_tag_of_a_member_changes_when_points_expire(service: RunningService) -> None:
    of = branch()
    person = member(of, points=[{"amount": 5, "expireAt": service.clock.now_ms() + 60_000}])
    key, path = service.key_for(of, person), f"members/{service.token(person['id'])}"
    before = service.get(path, key).headers["etag"]
    service.clock.advance(60)
    assert service.get(path, key, headers={"if-none-match": before}).status_code == 200


def test_the_tag_of_a_last_page_differs_from_that_of_a_page_with_a_cursor(shared_service: RunningService) -> None:
    of = shop()
    key = shared_service.key_for(of, *bills(of, 2))
    full, last = (shared_service.get("transactions", key, shopId=of["id"], limit=limit, **NEW_YEAR) for limit in (2, 3))
    assert full.json()["data"] == last.json()["data"]
    assert full.headers["etag"] != last.headers["etag"]


MATCHING = ["{weak}", "{strong}", "*", '"other", {weak}', '{strong}, "other"', '"a",{weak},"b"', '"a", ,{weak}']
DIFFERENT = ['"other"', 'W/"other"', "", "{bare}", '"a", "b"', "**", '"*"', '"{bare}']


def condition(pattern: str, tag: str) -> str:
    return pattern.format(weak=tag, strong=tag.removeprefix("W/"), bare=tag.removeprefix("W/").strip('"'))


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_an_answer_that_the_caller_already_has_is_not_sent_again(
    shared_service: RunningService, small: str, method: str
) -> None:
    tag = shared_service.get("shops", small).headers["etag"]
    for pattern in MATCHING:
        answer = shared_service.get("shops", small, method=method, headers={"if-none-match": condition(pattern, tag)})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag), pattern


def test_a_condition_that_does_not_match_is_answered_in_full(shared_service: RunningService, small: str) -> None:
    tag = shared_service.get("shops", small).headers["etag"]
    for pattern in DIFFERENT:
        answer = shared_service.get("shops", small, headers={"if-none-match": condition(pattern, tag)})
        assert (answer.status_code, answer.headers["etag"]) == (200, tag), pattern


def test_a_condition_does_not_hide_a_refusal(shared_service: RunningService, small: str) -> None:
    assert shared_service.get("transactions/x", small, headers={"if-none-match": "*"}).status_code == 404


# --- tags reveal nothing: they cannot be used to test guesses about personal data ------------------


def stand(service: RunningService) -> tuple[Record, Record, list[str]]:
    """Load a member with a phone number; return the records, and the paths that return the member."""
    of = branch()
    person = member(of, tel=TEL)
    service.load(of, person)
    return of, person, [f"members?providerId={of['providerId']}", f"members/{service.token(person['id'])}"]


def plain_tags(data: bytes) -> set[str]:
    """Return the tags that anybody could compute from the data: standard hashes, shortened to any usual length."""
    found = set()
    for name in ("md5", "sha1", "sha256", "sha512", "blake2b", "blake2s"):
        digest = hashlib.new(name, data).hexdigest()
        found |= {f'W/"{digest[:length]}"' for length in range(8, len(digest) + 1)}
    return found | {
        f'W/"{maker(data, digest_size=size).hexdigest()}"'
        for maker, most in ((hashlib.blake2b, 64), (hashlib.blake2s, 32))
        for size in range(4, most + 1)
    }


def test_the_tag_cannot_be_computed_from_the_data_alone(service: RunningService) -> None:
    of, _, paths = stand(service)
    key = service.key(shop=of["id"], personal_data=True)
    for path in paths:
        answer = service.get(path, key)
        data = answer.content.partition(b'"data":')[2].partition(b',"nextCursor"')[0].partition(b',"serverTime"')[0]
        assert TEL.encode() in data
        assert answer.headers["etag"] not in plain_tags(data)


@pytest.mark.parametrize("field", ["tel", "email"])
def test_a_change_of_personal_data_changes_the_tag_for_a_key_that_may_read_it(
    service: RunningService, field: str
) -> None:
    of, person, paths = stand(service)
    keys = [service.key(shop=of["id"], personal_data=shown) for shown in (True, False)]
    before = [service.get(path, key).headers["etag"] for path in paths for key in keys]
    service.load({**person, field: "0899999999"})
    after = [service.get(path, key).headers["etag"] for path in paths for key in keys]
    assert [was != now for was, now in zip(before, after, strict=True)] == [True, False, True, False]


def test_two_nodes_give_the_same_tag(service: RunningService) -> None:
    of, _, paths = stand(service)
    key = service.key_for(of, bill(of))
    other = ServerThread(bootstrap.service(service.settings, service.events.append, service.clock))
    try:
        for path in [*paths, "shops", "openapi.json"]:
            url = f"http://127.0.0.1:{other.port}{service.settings.prefix}/v1/{path}"
            there = other.client.get(url, headers={"authorization": f"Bearer {key}"})
            assert there.headers["etag"] == service.get(path, key).headers["etag"]
    finally:
        other.stop()


def test_another_deployment_secret_gives_another_tag(tmp_path: Path) -> None:
    tags = []
    for number in range(2):
        service = RunningService(tmp_path / str(number), secret=f"deployment secret number {number}, long enough")
        service.load({"kind": "shop", "id": "s", "name": "The same"})
        tags.append(service.get("shops", service.key(shop="s")).headers["etag"])
        service.close()
    assert len(set(tags)) == 2


# --- encodings ---------------------------------------------------------------------------------------

ENCODINGS = [
    ("gzip", "gzip"),
    ("zstd", "zstd"),
    ("gzip, zstd", "zstd"),
    ("zstd, gzip", "zstd"),
    ("gzip, deflate, br", "gzip"),
    ("GZIP", "gzip"),
    ("zstd;q=0.5, gzip;q=0.8", "gzip"),
    ("zstd;q=0.8, gzip;q=0.8", "zstd"),
    ("br, gzip ; q=0.8 , deflate", "gzip"),
    ("gzip;Q=0.8", "gzip"),
    ("*", "zstd"),
    ("gzip;q=0, *", "zstd"),
    ("zstd;q=0, *", "gzip"),
    ("identity;q=0, *", "zstd"),
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
    ("gzip;q=1e9, identity", None),
    ("gzip;q=-1", None),
    ("xgzip", None),
    (",,;;,", None),
    ("identity;q=0", None),
]


def test_the_encoding_is_the_one_the_caller_prefers(shared_service: RunningService, large: str) -> None:
    for accepted, encoding in ENCODINGS:
        answer = shared_service.get("shops", large, headers={"accept-encoding": accepted})
        assert answer.headers.get("content-encoding") == encoding, accepted


def test_without_the_header_nothing_is_encoded(shared_service: RunningService, large: str) -> None:
    answer = raw_http.send(shared_service, raw_http.request(b"/ext/v1/shops", key=large))
    assert (answer.status, "content-encoding" in answer.headers) == (200, False)


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_an_encoded_answer_holds_the_same_bytes_under_the_same_tag(
    shared_service: RunningService, large: str, encoding: str
) -> None:
    plain = shared_service.get("shops", large, headers=NO_ENCODING)
    sent = raw_http.send(
        shared_service, raw_http.request(b"/ext/v1/shops", b"Accept-Encoding: " + encoding.encode(), key=large)
    )
    unpacked = gzip.decompress(sent.body) if encoding == "gzip" else zstd.decompress(sent.body)
    assert unpacked == plain.content
    assert len(sent.body) < len(plain.content)
    assert sent.headers["etag"] == plain.headers["etag"]


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
