"""Whatever bytes arrive, the console and the admin listener answer a complete request, never with 500 or a trace."""

import contextlib
import random
import re
import socket
from collections.abc import Iterator

import httpx
import pytest

from console.conftest import InUse
from console.running_console import Operator, RunningConsole
from counterfoil.serving.admin import Admin, Readiness
from raw_http import TRACES, Answer, parse, read_to_end

REQUESTS = 500
STATUSES = {200, 303, 400, 401, 403, 404, 405, 409, 413, 415, 421, 422, 431, 501}
TOKENS = [
    *rb"\ \t : [ ] [] // ? # * % %00 %ff http://[ HTTP/1.0 HTTP/9.9".split(),
    *(b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b"\x85", b"\xff\xfe", b"9" * 5000, b"x" * 40_000),
    *(b"Host: localhost\r\n", b"Host: []\r\n", b"Host:\r\n", b"Origin: null\r\n", b"Cookie: =;;=\r\n"),
    *(b"Content-Length: 9\r\n", b"Content-Length: -1\r\n", b"Transfer-Encoding: chunked\r\n"),
    *(b"Connection: keep-alive\r\n", b"Upgrade: h2c\r\n", b"Expect: 100-continue\r\n"),
]


def mutated(chance: random.Random, seeds: list[bytes]) -> bytes:
    """Return a request with up to four places cut, repeated, replaced or filled with something unexpected."""
    sent = bytearray(chance.choice(seeds))
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(sent))
        end = min(len(sent), start + chance.choice((0, 1, 1, 4, 20)))
        replacement = chance.choice((b"", sent[start:end] * 2, chance.choice(TOKENS), chance.randbytes(2)))
        sent[start:end] = replacement
    return bytes(sent) + b"\r\n\r\n"


def is_complete(sent: bytes) -> bool:
    """Return whether a server must answer: something precedes the empty line, and no body is announced."""
    head = sent.lstrip().partition(b"\r\n\r\n")[0]
    return head != b"" and not re.search(rb"(?i)content-length|transfer-encoding|expect", head)


def exchange(port: int, sent: bytes) -> Answer:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as line:
        # The server may respond and close the connection before it has read everything.
        with contextlib.suppress(OSError):
            line.sendall(sent)
            line.shutdown(socket.SHUT_WR)
        return parse(read_to_end(line).removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n"))


def answers(port: int, seeds: list[bytes]) -> Iterator[Answer]:
    """Send mutations of these requests; yield the answers after checking them."""
    chance = random.Random(26)  # noqa: S311 - the same requests in every run
    for _ in range(REQUESTS):
        sent = mutated(chance, seeds)
        answer, shown = exchange(port, sent), sent[:300]
        if answer.status == 0:
            assert not is_complete(sent), shown
            continue
        assert answer.status in STATUSES, (answer.status, shown)
        assert "server" not in answer.headers, shown
        assert not any(trace in answer.body for trace in TRACES), shown
        yield answer


def seeds_of(host: str, paths: list[str], *headers: str) -> list[bytes]:
    lines = "".join(f"{header}\r\n" for header in headers)
    return [f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: text/html\r\n{lines}".encode() for path in paths]


def test_the_console_survives_any_bytes(
    console: RunningConsole, alice: Operator, capfd: pytest.CaptureFixture[str]
) -> None:
    host = httpx.URL(console.url).netloc.decode()
    cookie = "; ".join(f"{name}={value}" for name, value in alice.client.cookies.items())
    paths = ["/", "/sign-in?lang=th", "/keys.json", "/requests?key=a&error=b", "/audit.csv", "/language?to=th&back=/x"]
    seeds = seeds_of(host, paths, f"Cookie: {cookie}", "Accept-Language: th", "Sec-Fetch-Site: same-origin")
    form = f"POST /keys/new HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nOrigin: {console.url}\r\n"
    seeds += [*seeds_of(host, paths), f"{form}Content-Type: application/x-www-form-urlencoded\r\n".encode()]
    for answer in answers(console.settings.console_port, seeds):
        assert "frame-ancestors" in answer.headers["content-security-policy"]
    assert alice.get("/audit").status_code == 200
    assert capfd.readouterr().err == ""


def test_the_admin_listener_survives_any_bytes(capfd: pytest.CaptureFixture[str]) -> None:
    admin = Admin("127.0.0.1", 0, lambda: [Readiness("books", None)], list, store_id=lambda: "0badcafe")
    admin.start()
    seeds = seeds_of("localhost:8001", ["/live", "/serving", "/ready", "/metrics", "/"], "Sec-Fetch-Site: none")
    for answer in answers(admin.port, seeds):
        assert answer.headers["content-type"].startswith(("application/json", "text/plain"))
    admin.stop()
    assert capfd.readouterr().err == ""


def test_a_malformed_host_gets_400(shared: InUse) -> None:
    admin = Admin("127.0.0.1", 0, list, list)
    admin.start()
    for host in (b"[]", b"[::1", b"[abc]", b"a b", b"a,b", b"localhost:1@evil", b"localhost:x", b"\xe0", b"x/y"):
        for port in (shared.console.settings.console_port, admin.port):
            assert exchange(port, b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n").status == 400, host
    admin.stop()
