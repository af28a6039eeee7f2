"""Tests for the connection of the blocking client: how it sends requests, reuses connections and is closed."""

import base64
import gzip
import logging
import queue
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from logging.handlers import QueueHandler
from pathlib import Path
from typing import Any

import pytest
import urllib3.util.connection
from backports import zstd

from certificates import make_certificate
from client.scripted_service import Answer, scripted_service
from counterfoil.client.connection import Call, Connection, HttpResponse, checked_url
from counterfoil.client.errors import Unreachable
from counterfoil.model.version import __version__
from counterfoil.program import http_connections
from counterfoil.program.http_connections import proxy_for
from waiting import until

CALL = Call("changes")
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


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


def connected(url: str, timeout_sec: float = 10.0) -> closing[Connection]:
    return closing(Connection(url, "k", timeout_sec))


def test_the_query_is_encoded_and_the_headers_are_sent() -> None:
    seen: list[tuple[str, Mapping[str, str]]] = []

    def answer(path: str, headers: Mapping[str, str]) -> Answer:
        seen.append((path, headers))
        return 404, {"X-Request-Id": "r1"}, b"{}"

    with scripted_service(answer) as url, connected(f"{url}/ext/v1") as connection:
        response = connection.get(Call("changes", (("since", "a+b/c=&ก"), ("limit", "5"))))
    assert isinstance(response, HttpResponse)
    assert (response.status, response.headers["x-request-id"], response.body) == (404, "r1", b"{}")
    [(path, headers)] = seen
    assert path == "/ext/v1/changes?since=a%2Bb%2Fc%3D%26%E0%B8%81&limit=5"
    sent = {name.lower(): value for name, value in headers.items()}
    assert (sent["authorization"], sent["user-agent"]) == ("Bearer k", f"counterfoil-client/{__version__}")


@pytest.mark.parametrize(("encoding", "compress"), [("gzip", gzip.compress), ("zstd", zstd.compress)])
def test_compressed_responses_are_decompressed(encoding: str, compress: Callable[[bytes], bytes]) -> None:
    with (
        scripted_service(lambda *_: (200, {"content-encoding": encoding}, compress(b"x" * 9_000))) as url,
        connected(url) as connection,
    ):
        response = connection.get(CALL)
    assert isinstance(response, HttpResponse)
    assert response.body == b"x" * 9_000


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_damaged_body_counts_as_no_response(encoding: str) -> None:
    with scripted_service(lambda *_: (200, {"content-encoding": encoding}, b"{}")) as url, connected(url) as connection:
        assert isinstance(connection.get(CALL), Unreachable)


def test_requests_share_a_connection() -> None:
    with raw_service(EMPTY) as (url, accepted), connected(url) as connection:
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
    with raw_service(EMPTY, EMPTY) as (url, accepted), connected(url) as connection:
        assert isinstance(connection.get(CALL), HttpResponse)
        accepted[0].shutdown(socket.SHUT_RDWR)
        assert isinstance(connection.get(CALL), HttpResponse)
        assert len(accepted) == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nServer: ",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n{}\r\n0\r\n\r\n",
    ],
    ids=["none", "bad", "cut", "cut within the headers", "a chunk of negative size"],
)
def test_an_incomplete_response_counts_as_no_response(answer: bytes) -> None:
    with raw_service(answer) as (url, accepted), connected(url) as connection:
        hang_up = threading.Timer(0.05, lambda: until(lambda: accepted, "it connects")[0].shutdown(socket.SHUT_RDWR))
        hang_up.start()
        assert isinstance(connection.get(CALL), Unreachable)
        hang_up.join()


@pytest.mark.parametrize("early", [b"100 Continue", b"102 Processing", b"103 Early Hints\r\nLink: </style.css>"])
def test_a_response_that_comes_before_the_response_is_passed_over(early: bytes) -> None:
    final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    with raw_service(b"HTTP/1.1 %b\r\n\r\n%b" % (early, final)) as (url, _), connected(url) as connection:
        response = connection.get(CALL)
    assert isinstance(response, HttpResponse)
    assert (response.status, response.body) == (200, b"{}")


def test_an_error_without_a_body_keeps_its_status_and_headers() -> None:
    answer = b"HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nConnection: close\r\n\r\n"
    with raw_service(answer) as (url, accepted), connected(url) as connection:
        hang_up = threading.Timer(0.05, lambda: until(lambda: accepted, "it connects")[0].shutdown(socket.SHUT_RDWR))
        hang_up.start()
        response = connection.get(CALL)
        hang_up.join()
    assert isinstance(response, HttpResponse)
    assert (response.status, response.headers["retry-after"]) == (429, "7")


def test_an_error_quotes_what_the_service_sent_in_one_line_of_safe_characters() -> None:
    with raw_service(b"\x1b[2J" + b"long" * 9_000 + b"\r\n") as (url, _), connected(url) as connection:
        text = str(connection.get(CALL))
    assert text.isprintable()
    assert len(text) < 400


def test_a_connection_that_was_idle_for_long_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with raw_service(EMPTY, EMPTY) as (url, accepted), connected(url) as connection:
        connection.get(CALL)
        monkeypatch.setattr(http_connections, "MAX_IDLE_SEC", 0.0)
        assert isinstance(connection.get(CALL), HttpResponse)
        assert len(accepted) == 2


def test_malformed_headers_are_not_logged_with_the_address() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nno header\r\n\r\n{}"
    logged: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    handler = QueueHandler(logged)
    logging.getLogger().addHandler(handler)
    try:
        with raw_service(answer) as (url, _), connected(url) as connection:
            connection.get(CALL)
    finally:
        logging.getLogger().removeHandler(handler)
    assert logged.empty()


def test_a_service_that_does_not_respond_in_time_counts_as_no_response() -> None:
    with raw_service(b"") as (url, _), connected(url, timeout_sec=0.05) as connection:
        assert "TimeoutError: timed out" in str(connection.get(CALL))


HALF = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\nhalf"


@pytest.mark.parametrize("answer", [b"", HALF], ids=["no response", "half of the last response of its connection"])
def test_closing_ends_a_request_that_another_thread_waits_for(answer: bytes) -> None:
    outcomes: list[object] = []
    with raw_service(answer) as (url, accepted), connected(url, timeout_sec=60) as connection:
        waiting = threading.Thread(target=lambda: outcomes.append(connection.get(CALL)))
        waiting.start()
        until(lambda: bool(accepted), "the service has the request")
        connection.close()
        waiting.join(10)
        assert isinstance(outcomes[0], Unreachable)
        assert "the client is closed" in str(connection.get(CALL))


def test_closing_while_a_request_connects_ends_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    with raw_service(b"") as (url, _), connected(url, timeout_sec=60) as connection:
        connect = urllib3.util.connection.create_connection

        def connect_and_close(*arguments: Any, **options: Any) -> socket.socket:
            opened = connect(*arguments, **options)
            monkeypatch.undo()
            threading.Thread(target=connection.close).start()
            return opened

        monkeypatch.setattr(urllib3.util.connection, "create_connection", connect_and_close)
        assert isinstance(connection.get(CALL), Unreachable)


@pytest.fixture
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.usefixtures("_no_proxies")
def test_a_request_goes_through_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, Mapping[str, str]]] = []

    def answer(path: str, headers: Mapping[str, str]) -> Answer:
        seen.append((path, headers))
        return 200, {}, b"{}"

    with scripted_service(answer) as proxy:
        monkeypatch.setenv("http_proxy", proxy.replace("//", "//user:p%E0%B8%81ss@"))
        with connected("http://pos.example.com/ext/v1") as connection:
            assert isinstance(connection.get(CALL), HttpResponse)
    [(path, headers)] = seen
    assert path == "http://pos.example.com/ext/v1/changes"
    password = base64.b64encode("user:pกss".encode()).decode()
    assert (headers["proxy-authorization"], headers["authorization"]) == (f"Basic {password}", "Bearer k")


@pytest.mark.usefixtures("_no_proxies")
def test_closing_ends_a_request_that_waits_for_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes: list[object] = []
    with raw_service(b"HTTP/1.1 200 OK\r\nX: ") as (proxy, accepted):
        monkeypatch.setenv("https_proxy", proxy.removesuffix("/ext/v1"))
        with connected("https://pos.example.com/ext/v1", timeout_sec=60) as connection:
            waiting = threading.Thread(target=lambda: outcomes.append(connection.get(CALL)), daemon=True)
            waiting.start()
            until(lambda: bool(accepted), "the proxy has the request")
            connection.close()
            waiting.join(10)
            assert isinstance(outcomes[0], Unreachable)


@pytest.mark.usefixtures("_no_proxies")
def test_a_host_that_needs_no_proxy_is_called_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "example.com,127.0.0.1,::1")
    assert proxy_for("http://[::1]:9/ext/v1") is None
    with scripted_service(lambda *_: (200, {}, b"{}")) as url, connected(url) as connection:
        assert isinstance(connection.get(CALL), HttpResponse)


@pytest.mark.usefixtures("_no_proxies")
@pytest.mark.parametrize(
    "proxy",
    ["socks5://127.0.0.1:1", "http://", "ftp://x", "http://u:secret@h:99999", "http://u:secret@[::1", "http://u:a℀@h"],
)
def test_a_proxy_that_cannot_be_used_is_refused_without_quoting_it(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("all_proxy", proxy)
    with pytest.raises(ValueError, match="the proxy of the environment is not an address"):
        Connection("http://pos.example.com/ext/v1", "k", 1.0)


@pytest.mark.usefixtures("_no_proxies")
def test_only_a_service_with_a_trusted_certificate_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, private = tmp_path / "certificate.pem", tmp_path / "private.pem"
    make_certificate(certificate, private)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, private)
    with scripted_service(lambda *_: (200, {}, b"{}"), tls) as url:
        with connected(url) as doubting:
            assert "CERTIFICATE_VERIFY_FAILED" in str(doubting.get(CALL))
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with connected(url) as trusting:
            assert isinstance(trusting.get(CALL), HttpResponse)


def test_a_host_name_with_letters_of_any_script_is_encoded() -> None:
    assert checked_url("https://ร้าน.example/ext/v1") == "https://xn--q3ct9b5e.example/ext/v1"
