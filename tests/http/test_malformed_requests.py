"""Requests that two components could interpret differently are refused."""

import json

import pytest

from raw_http import Answer, send
from records import branch
from running_service import RunningService

TARGET = b"/ext/v1/shops"


def raw(*headers: bytes, target: bytes = TARGET, version: bytes = b"HTTP/1.1") -> bytes:
    return b"\r\n".join([b"GET " + target + b" " + version, *headers, b"Connection: close"]) + b"\r\n\r\n"


def code(answer: Answer) -> tuple[int, str | None]:
    return answer.status, json.loads(answer.body).get("error")


@pytest.fixture
def keys(service: RunningService) -> list[bytes]:
    of = branch()
    service.load(of)
    return [b"Authorization: Bearer " + service.key(shop=of["id"]).encode() for _ in range(2)]


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (0, 0)], ids=["two keys", "the other way round", "the same twice"])
def test_a_second_authorization_header_is_refused_like_a_malformed_key(
    service: RunningService, keys: list[bytes], order: tuple[int, int]
) -> None:
    both = [keys[place] for place in order]
    assert code(send(service, raw(b"Host: a", *both))) == (401, "invalid_key")


def test_a_key_with_a_second_authorization_scheme_is_refused(service: RunningService, keys: list[bytes]) -> None:
    for pair in ((b"Authorization: Basic eDp5", keys[0]), (keys[0], b"Authorization: Basic eDp5")):
        assert code(send(service, raw(b"Host: a", *pair))) == (401, "invalid_key")


@pytest.mark.parametrize(
    "hosts",
    [[], [b"Host: a", b"Host: b"], [b"Host: a", b"Host: a"], [b"Host: \xff"]],
    ids=["none", "two", "the same twice", "unreadable"],
)
def test_http_1_1_without_exactly_one_host_is_a_bad_request(
    service: RunningService, keys: list[bytes], hosts: list[bytes]
) -> None:
    answer = send(service, raw(*hosts, keys[0]))
    assert (answer.status, answer.body) == (400, b"")
    assert "x-ratelimit-remaining" not in answer.headers


def test_http_1_0_may_leave_out_the_host_but_not_repeat_it(service: RunningService, keys: list[bytes]) -> None:
    assert send(service, raw(keys[0], version=b"HTTP/1.0")).status == 200
    assert send(service, raw(b"Host: a", b"Host: b", keys[0], version=b"HTTP/1.0")).status == 400


def test_one_host_of_any_name_is_served(service: RunningService, keys: list[bytes]) -> None:
    for host in (b"", b"a", b"api.example:8443", b"[::1]:80"):
        assert send(service, raw(b"Host: " + host, keys[0])).status == 200
