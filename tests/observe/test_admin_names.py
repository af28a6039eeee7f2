"""The admin listener answers only requests for its own host names, and refuses cross-origin requests."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from counterfoil.serving.admin import Admin

LISTED = "node-1.internal, Metrics.example"
WILDCARD = "0.0.0.0"  # noqa: S104 - reached over loopback only


@contextmanager
def listening(host: str = "127.0.0.1", names: str = "") -> Iterator[httpx.Client]:
    admin = Admin(host, 0, list, list, names)
    admin.start()
    with httpx.Client(base_url=f"http://127.0.0.1:{admin.port}", timeout=10) as client:
        yield client
    admin.stop()


@pytest.mark.parametrize("path", ["/metrics", "/ready", "/live", "/nowhere"])
@pytest.mark.parametrize("host", ["evil.example", "evil.example:8001", "127.0.0.1.evil.example", "192.0.2.1", "", "x"])
def test_another_name_is_refused_with_the_setting_that_would_allow_it(path: str, host: str) -> None:
    with listening() as admin:
        answer = admin.get(path, headers={"host": host})
    assert answer.status_code == 421
    assert "admin_names" in answer.json()["refused"]


@pytest.mark.parametrize(
    "host",
    ["localhost", "LocalHost:8001", "127.0.0.1", "127.0.0.1:9", "127.9.9.9", "[::1]", "[::1]:8001", "localhost."],
)
def test_loopback_names_are_answered(host: str) -> None:
    with listening() as admin:
        assert admin.get("/metrics", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["node-1.internal", "NODE-1.internal:8001", "metrics.example"])
def test_a_listed_name_is_answered(host: str) -> None:
    with listening(names=LISTED) as admin:
        assert admin.get("/metrics", headers={"host": host}).status_code == 200
        assert admin.get("/metrics", headers={"host": f"x{host}"}).status_code == 421


def test_a_listener_on_every_address_is_answered_by_address_and_not_by_name() -> None:
    with listening(host=WILDCARD) as admin:
        assert admin.get("/metrics", headers={"host": "192.0.2.1:8001"}).status_code == 200
        assert admin.get("/metrics", headers={"host": "evil.example"}).status_code == 421


@pytest.mark.parametrize(
    "headers", [{"origin": "http://localhost:3000"}, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}]
)
def test_a_web_page_is_refused(headers: dict[str, str]) -> None:
    with listening() as admin:
        assert admin.get("/metrics", headers=headers).status_code == 403


def test_a_person_who_types_the_address_is_answered() -> None:
    with listening() as admin:
        assert admin.get("/metrics", headers={"sec-fetch-site": "none"}).status_code == 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /live HTTP/1.1\r\n\r\n", 400),
        (b"GET /live HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400),
        (b"GET /live HTTP/1.0\r\n\r\n", 200),
    ],
    ids=["none", "two", "none in HTTP/1.0"],
)
def test_a_host_is_named_once_except_by_health_checks_in_http_1_0(sent: bytes, status: int) -> None:
    with listening() as admin, socket.create_connection(("127.0.0.1", admin.base_url.port or 0), timeout=10) as line:
        line.sendall(sent)
        assert int(line.recv(4096).split()[1]) == status
