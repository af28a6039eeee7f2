"""Tests for requests to an address without TLS, which the blocking client sends with the standard library."""

import gzip
import http.client
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

import pytest
from backports import zstd

from client.scripted_service import Answer, scripted_service
from counterfoil.client.conversation import Call, HttpResponse, NoResponse
from counterfoil.client.httpx_connection import HttpxConnection
from counterfoil.client.plain_http import PlainHttp
from counterfoil.client.transports import open_connection
from waiting import until

CALL = Call("changes")
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@contextmanager
def raw_service(*answers: bytes) -> Iterator[tuple[str, list[socket.socket]]]:
    """Accept one connection per response, send the response once bytes arrive, and keep the connection open."""
    accepted: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for answer in answers:
                peer = listener.accept()[0]
                accepted.append(peer)
                peer.recv(65_536)
                peer.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/ext/v1", accepted
        finally:
            thread.join(5)
            for peer in accepted:
                peer.close()


def plain(url: str, timeout_sec: float = 10.0) -> closing[PlainHttp]:
    return closing(PlainHttp(url, {"authorization": "Bearer k", "accept-encoding": "zstd, gzip"}, timeout_sec))


def test_the_query_is_encoded_and_the_headers_are_sent() -> None:
    seen: list[tuple[str, Mapping[str, str]]] = []

    def answer(path: str, headers: Mapping[str, str]) -> Answer:
        seen.append((path, headers))
        return 404, {"X-Request-Id": "r1"}, b"{}"

    with scripted_service(answer) as url, plain(f"{url}/ext/v1") as connection:
        response = connection.get(Call("changes", (("since", "a+b/c=&ก"), ("limit", "5"))))
    assert isinstance(response, HttpResponse)
    assert (response.status, response.headers["x-request-id"], response.body) == (404, "r1", b"{}")
    [(path, headers)] = seen
    assert path == "/ext/v1/changes?since=a%2Bb%2Fc%3D%26%E0%B8%81&limit=5"
    assert {name.lower(): value for name, value in headers.items()}["authorization"] == "Bearer k"


@pytest.mark.parametrize(("encoding", "compress"), [("gzip", gzip.compress), ("zstd", zstd.compress)])
def test_compressed_responses_are_decompressed(encoding: str, compress: object) -> None:
    assert callable(compress)
    with (
        scripted_service(lambda *_: (200, {"content-encoding": encoding}, compress(b"x" * 9_000))) as url,
        plain(url) as connection,
    ):
        response = connection.get(CALL)
    assert isinstance(response, HttpResponse)
    assert response.body == b"x" * 9_000


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_damaged_body_counts_as_no_response(encoding: str) -> None:
    with scripted_service(lambda *_: (200, {"content-encoding": encoding}, b"{}")) as url, plain(url) as connection:
        assert isinstance(connection.get(CALL), NoResponse)


def test_requests_share_a_connection() -> None:
    with raw_service(EMPTY) as (url, accepted), plain(url) as connection:
        assert isinstance(connection.get(CALL), HttpResponse)

        def answer_again() -> None:
            accepted[0].recv(65_536)
            accepted[0].sendall(EMPTY)

        reply = threading.Thread(target=answer_again)
        reply.start()
        assert isinstance(connection.get(CALL), HttpResponse)
        reply.join()
        assert len(accepted) == 1


def test_a_connection_that_the_service_has_closed_is_replaced() -> None:
    with raw_service(EMPTY, EMPTY) as (url, accepted), plain(url) as connection:
        assert isinstance(connection.get(CALL), HttpResponse)
        accepted[0].shutdown(socket.SHUT_RDWR)
        assert isinstance(connection.get(CALL), HttpResponse)
        assert len(accepted) == 2


@pytest.mark.parametrize(
    "answer",
    [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"],
    ids=["none", "bad", "cut"],
)
def test_an_incomplete_response_counts_as_no_response(answer: bytes) -> None:
    with raw_service(answer) as (url, accepted), plain(url) as connection:
        hang_up = threading.Timer(0.05, lambda: accepted[0].shutdown(socket.SHUT_RDWR))
        hang_up.start()
        assert isinstance(connection.get(CALL), NoResponse)
        hang_up.join()


def test_a_service_that_does_not_respond_in_time_counts_as_no_response() -> None:
    with raw_service(b"") as (url, _), plain(url, timeout_sec=0.05) as connection:
        assert connection.get(CALL) == NoResponse("TimeoutError: timed out")


def test_closing_ends_a_request_that_another_thread_waits_for() -> None:
    outcomes: list[object] = []
    with raw_service(b"") as (url, accepted), plain(url, timeout_sec=60) as connection:
        waiting = threading.Thread(target=lambda: outcomes.append(connection.get(CALL)))
        waiting.start()
        while not accepted:
            waiting.join(0.01)
        connection.close()
        waiting.join(10)
        assert isinstance(outcomes[0], NoResponse)
        assert connection.get(CALL) == NoResponse("the client is closed")


def test_closing_while_a_request_connects_ends_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    with raw_service(b"") as (url, _), plain(url, timeout_sec=60) as connection:
        connect = http.client.HTTPConnection.connect

        def connect_and_close(self: http.client.HTTPConnection) -> None:
            connect(self)
            connection.close()

        monkeypatch.setattr(http.client.HTTPConnection, "connect", connect_and_close)
        assert connection.get(CALL) == NoResponse("the client is closed")


def test_closing_ends_a_request_whose_response_is_the_last_of_its_connection() -> None:
    outcomes: list[object] = []
    half = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\nhalf"
    with raw_service(half) as (url, _), plain(url, timeout_sec=60) as connection:
        waiting = threading.Thread(target=lambda: outcomes.append(connection.get(CALL)))
        waiting.start()
        until(lambda: [busy for busy in connection._busy if busy.sock is None], "the response has begun")
        connection.close()
        waiting.join(10)
        assert isinstance(outcomes[0], NoResponse)


@pytest.mark.parametrize(
    ("url", "proxy", "expected"),
    [
        ("http://pos.example.com/ext/v1", "", PlainHttp),
        ("http://pos.example.com/ext/v1", "http://127.0.0.1:9", HttpxConnection),
        ("https://pos.example.com/ext/v1", "", HttpxConnection),
        ("http://ร้าน.example.com/ext/v1", "", HttpxConnection),
    ],
)
def test_httpx_is_used_for_tls_proxies_and_international_names(
    monkeypatch: pytest.MonkeyPatch, url: str, proxy: str, expected: type
) -> None:
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    if proxy:
        monkeypatch.setenv("http_proxy", proxy)
    with closing(open_connection(url, "key", 5.0)) as connection:
        assert type(connection) is expected
