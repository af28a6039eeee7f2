"""Arbitrary input gets a documented response or a refusal by the server, never a 500, and affects no other caller."""

import contextlib
import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import raw_http
from counterfoil.domain.problems import TABLE
from counterfoil.serving.server import HEAD_TIMEOUT_MS, MAX_HEAD_BYTES
from raw_http import Answer, connect, parse, read_to_end, request, send
from records import Record, bills, branch, shop
from running_service import RunningService

SHOPS = b"/ext/v1/shops"
BILLS = b"/ext/v1/transactions"
CODES = {(problem.status, problem.code) for problem in TABLE}


@pytest.fixture(scope="module")
def key(shared_service: RunningService) -> str:
    of = branch()
    shared_service.load(of, *bills(of, 3))
    return shared_service.key(shop=of["id"], per_min=100_000, per_day=1_000_000)


@pytest.fixture(scope="module")
def full_key(shared_service: RunningService) -> str:
    """A key with every permission for a shop with the ID `any`, whose base has the same ID."""
    shared_service.load(shop(id="any", providerId="any"))
    return shared_service.key(shop="any", messaging_lookup=True, personal_data=True, per_min=100_000, per_day=1_000_000)


@pytest.fixture(autouse=True)
def _others_are_served(shared_service: RunningService) -> Iterator[None]:
    """After every test here, another caller's request must be answered normally, and nothing may have crashed."""
    yield
    assert shared_service.get("openapi.json").status_code == 200
    crashes = [event for event in shared_service.events if type(event).__name__ == "HandlerCrashed"]
    assert crashes == []


def acceptable(answer: Answer) -> bool:
    """Return whether the response is a success, a documented error other than 500, or a refusal by the HTTP server.

    A response that reveals internals is not acceptable.
    """
    if any(trace in answer.body for trace in raw_http.TRACES):
        return False
    if answer.status in (200, 304):
        return True
    if not answer.body:
        # The service answers HEAD without a body. Only refusals by the HTTP server lack a request ID.
        by_the_service = "x-request-id" in answer.headers
        return answer.status in ({status for status, _ in CODES} - {500} if by_the_service else (0, 400, 431))
    body = json.loads(answer.body)
    return body["ok"] is False and (answer.status, body["error"]) in CODES and answer.status != 500


def code(answer: Answer) -> tuple[int, str | None]:
    return answer.status, json.loads(answer.body)["error"] if answer.body else None


def with_hosts(hosts: list[bytes], key: str, version: bytes = b"HTTP/1.1") -> bytes:
    """Return a request with these Host headers."""
    whole = request(SHOPS, key=key).replace(b"HTTP/1.1", version)
    return whole.replace(b"Host: counterfoil\r\n", b"".join(host + b"\r\n" for host in hosts))


# --- methods ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method",
    [b"POST", b"PUT", b"DELETE", b"OPTIONS", b"TRACE", b"CONNECT", b"get", b"Get", b"BREW", b"M-SEARCH", b"!#$"],
)
def test_an_odd_method_is_not_allowed(shared_service: RunningService, key: str, method: bytes) -> None:
    assert code(send(shared_service, request(SHOPS, method=method, key=key))) == (405, "method_not_allowed")


def test_a_long_method_does_not_make_a_long_log_line(shared_service: RunningService, key: str) -> None:
    assert code(send(shared_service, request(SHOPS, method=b"X" * 5000, key=key))) == (405, "method_not_allowed")
    assert len(str(shared_service.events_so_far()[-1])) < 1000


# --- paths --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        b"%",
        b"%FF",
        b"%ED%A0%80",
        b"%00",
        b"%0d%0aX-Injected:%20yes",
        b"..",
        b"%2e%2e%2fshops",
        b"x" * 20_000,
        b"'%20OR%201=1--",
        b"%252F",
    ],
)
def test_a_broken_or_odd_id_in_the_path_is_not_found(shared_service: RunningService, key: str, path: bytes) -> None:
    answer = send(shared_service, request(BILLS + b"/" + path, key=key))
    assert code(answer) == (404, "not_found")
    assert "x-injected" not in answer.headers


@pytest.mark.parametrize("target", [b"http://elsewhere.example/ext/v1/shops", b"/ext/v1/%73hops", b"/ext/v1/shops#top"])
def test_an_equivalent_spelling_of_a_route_is_the_route(
    shared_service: RunningService, key: str, target: bytes
) -> None:
    assert send(shared_service, request(target, key=key)).status == 200


# --- query strings --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        b"shopId=%FF",
        b"%zz=%zz",
        b"a&" * 20_000,
        b"shopId=" + b"x" * 60_000,
        b"shopId=x&" * 5_000,
        b"shopId[]=x&shopId[$ne]=x",
        b"shopId=%ED%A0%80",
        b"shopId=x;from=20260101;to=20260101",
    ],
)
def test_an_odd_query_string_is_a_bad_query_at_worst(shared_service: RunningService, key: str, query: bytes) -> None:
    assert code(send(shared_service, request(BILLS + b"?" + query, key=key))) == (400, "bad_query")


@pytest.mark.parametrize("shop_id", [b"%FF", b"%00", b"%ED%A0%80", b"%F4%90%80%80", b"%25", b"x" * 50_000])
def test_a_shop_id_of_any_bytes_is_out_of_scope(shared_service: RunningService, key: str, shop_id: bytes) -> None:
    target = BILLS + b"?shopId=" + shop_id + b"&from=20260101&to=20260101"
    assert code(send(shared_service, request(target, key=key))) == (403, "shop_not_in_scope")


# --- headers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [
        b"X-Request-Id: \xff\xfe",
        b"If-None-Match: \xff\xfe",
        b"Accept-Encoding: " + b"gzip;q=0.5," * 2000,
        b"If-None-Match: " + b'"a",' * 10_000,
        b"Range: bytes=0-10",
        b"Expect: 100-continue",
        b"Upgrade: websocket",
        b"X-HTTP-Method-Override: DELETE",
    ],
)
def test_a_good_request_with_an_odd_header_is_answered(shared_service: RunningService, key: str, header: bytes) -> None:
    assert send(shared_service, request(SHOPS, header, key=key)).status == 200


@pytest.mark.parametrize("value", [b"\xff\xfe", b"Bearer \xff", b"Bearer " + b"x" * 30_000, b"Bearer cf_live_\xc3\xa9"])
def test_a_key_of_any_bytes_is_an_invalid_key(shared_service: RunningService, value: bytes) -> None:
    assert code(send(shared_service, request(SHOPS, b"Authorization: " + value))) == (401, "invalid_key")


@pytest.mark.parametrize(
    "header", [b"no colon", b"X-\xff: a", b": no name", b"X Y: a", b"X-A: \x00", b" folded: a", b"X-A: a\rb"]
)
def test_a_malformed_header_is_refused_by_the_server(shared_service: RunningService, key: str, header: bytes) -> None:
    assert send(shared_service, request(SHOPS, header, key=key)).status == 400


@pytest.mark.parametrize("number", [150, 10_000])
def test_a_flood_of_headers_is_refused_by_the_server(shared_service: RunningService, key: str, number: int) -> None:
    flood = [b"X-%d: y" % place for place in range(number)]
    assert send(shared_service, request(SHOPS, *flood, key=key)).status in (0, 431)


@pytest.mark.parametrize(
    "hosts",
    [[], [b"Host: a", b"Host: b"], [b"Host: a", b"Host: a"], [b"Host: \xff"]],
    ids=["none", "two", "the same twice", "unreadable"],
)
def test_http_1_1_without_exactly_one_host_is_a_bad_request(
    shared_service: RunningService, key: str, hosts: list[bytes]
) -> None:
    answer = send(shared_service, with_hosts(hosts, key))
    assert (answer.status, answer.body) == (400, b"")
    assert "x-ratelimit-remaining" not in answer.headers


def test_http_1_0_may_leave_out_the_host_but_not_repeat_it(shared_service: RunningService, key: str) -> None:
    assert send(shared_service, with_hosts([], key, b"HTTP/1.0")).status == 200
    assert send(shared_service, with_hosts([b"Host: a", b"Host: b"], key, b"HTTP/1.0")).status == 400


def test_one_host_of_any_name_is_served(shared_service: RunningService, key: str) -> None:
    for host in (b"", b"a", b"api.example:8443", b"[::1]:80"):
        assert send(shared_service, with_hosts([b"Host: " + host], key)).status == 200


def test_a_second_authorization_header_is_refused_like_a_malformed_key(
    shared_service: RunningService, key: str, full_key: str
) -> None:
    values = (b"Bearer " + key.encode(), b"Bearer " + full_key.encode(), b"Basic eDp5")
    mine, other, basic = (b"Authorization: " + value for value in values)
    for pair in ((mine, other), (other, mine), (mine, mine), (basic, mine), (mine, basic)):
        assert code(send(shared_service, request(SHOPS, *pair))) == (401, "invalid_key")


# --- bodies and framing ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ([b"Content-Length: 5"], b"hello"),
        ([b"Content-Length: 0"], b""),
        ([b"Content-Length: 200000"], b"x" * 200_000),
        ([b"Transfer-Encoding: chunked"], b"5\r\nhello\r\n0\r\n\r\n"),
        ([b"Content-Type: application/json", b"Content-Length: 2"], b"{}"),
    ],
    ids=["five bytes", "none", "many", "chunks", "json"],
)
def test_a_body_on_get_is_ignored(shared_service: RunningService, key: str, headers: list[bytes], body: bytes) -> None:
    assert send(shared_service, request(SHOPS, *headers, body=body, key=key)).status == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /ext/v1/shops\r\n\r\n",
        b"GET /ext/v1/shops HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x00" * 1000,
        b"A" * 100_000,
        "ขอดูบิลหน่อย\r\n\r\n".encode(),
    ],
    ids=["nothing", "blank lines", "a word", "HTTP/0.9", "HTTP/9.9", "TLS", "HTTP/2", "NULs", "As", "Thai"],
)
def test_malformed_http_is_refused_or_disconnected(shared_service: RunningService, sent: bytes) -> None:
    with connect(shared_service) as line:
        with contextlib.suppress(OSError):
            line.sendall(sent)
            line.shutdown(1)
        assert acceptable(parse(read_to_end(line)))


# --- connections -----------------------------------------------------------------------------------


def test_half_open_connections_delay_nobody(shared_service: RunningService, key: str) -> None:
    with contextlib.ExitStack() as lines:
        for number in range(150):
            line = lines.enter_context(connect(shared_service))
            if number % 3:
                line.sendall(b"GET /ext/v1/shops HTTP/1.1\r\nHost: x\r\nX-Slow: " if number % 3 == 1 else b"G")
        assert send(shared_service, request(SHOPS, key=key)).status == 200


def test_a_caller_who_does_not_read_its_answer_delays_nobody(shared_service: RunningService, key: str) -> None:
    with connect(shared_service) as line:
        line.sendall(request(b"/ext/v1/openapi.json").replace(b"Connection: close\r\n", b"") * 100)
        assert send(shared_service, request(SHOPS, key=key)).status == 200


@pytest.mark.long
def test_a_request_that_never_ends_is_disconnected(shared_service: RunningService) -> None:
    with connect(shared_service) as line:
        line.settimeout(2 * HEAD_TIMEOUT_MS / 1000)
        line.sendall(b"GET /ext/v1/shops HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        assert parse(read_to_end(line)).status in (0, 408)


def test_the_documented_limit_for_the_request_head_is_the_servers(shared_service: RunningService, key: str) -> None:
    room = MAX_HEAD_BYTES - len(request(SHOPS, b"X-Pad: ", key=key))
    assert send(shared_service, request(SHOPS, b"X-Pad: " + b"x" * (room - 1000), key=key)).status == 200
    assert send(shared_service, request(SHOPS, b"X-Pad: " + b"x" * MAX_HEAD_BYTES * 2, key=key)).status in (0, 431)


# --- arbitrary input ------------------------------------------------------------------------------------

TARGETS = st.one_of(
    st.binary(max_size=60),
    st.sampled_from([SHOPS, BILLS, b"/ext/v1/members", b"/ext/v1/members/lookup", b"/ext/v1/usage"]).flatmap(
        lambda path: st.text(alphabet="shopId=from&to%20+/?#;:@limtcurprov0123456789é\x00ก", max_size=60).map(
            lambda rest: path + b"?" + rest.encode()
        )
    ),
)


@settings(max_examples=150, deadline=None)
@given(
    method=st.one_of(st.sampled_from([b"GET", b"HEAD", b"POST"]), st.binary(max_size=8)),
    target=TARGETS,
    header=st.binary(max_size=40),
)
def test_any_bytes_at_all_get_an_answer_or_a_refusal(
    shared_service: RunningService, key: str, method: bytes, target: bytes, header: bytes
) -> None:
    with connect(shared_service) as line:
        with contextlib.suppress(OSError):
            line.sendall(request(target, b"X-Odd: " + header, method=method, key=key))
            line.shutdown(1)
        assert acceptable(parse(read_to_end(line)))


PARAMETERS = st.dictionaries(
    st.sampled_from(["shopId", "from", "to", "updatedSince", "limit", "cursor", "providerId", "messagingUserId"]),
    st.one_of(
        st.text(max_size=30),
        st.sampled_from(
            ["any", "20260101", "2026-01-01T00:00:00Z", "", "-1", "1e400", "9" * 400, "m1_x", "U" + "0" * 32]
        ),
    ),
)


@settings(max_examples=150, deadline=None)
@given(path=st.sampled_from(["transactions", "members", "members/lookup"]), query=PARAMETERS)
def test_any_parameters_at_all_get_a_documented_answer(
    shared_service: RunningService, full_key: str, path: str, query: Record
) -> None:
    assert shared_service.get(path, full_key, **query).status_code < 500
