"""The admin listener: liveness, readiness and metrics, only for its own host names and never for web pages."""

import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import httpx
import pytest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from counterfoil.serving.admin import Admin, Readiness
from counterfoil.serving.metric_kinds import HORIZON_AGE_SECONDS

READY = [Readiness("books", None), Readiness("api", None)]


@contextmanager
def listening(
    ready: Callable[[], list[Readiness]] = lambda: READY,
    metrics: Callable[[], Iterable[Metric]] = list,
    host: str = "127.0.0.1",
    names: str = "",
) -> Iterator[httpx.Client]:
    admin = Admin(host, 0, ready, metrics, names)
    admin.start()
    with httpx.Client(base_url=f"http://127.0.0.1:{admin.port}", timeout=10) as client:
        yield client
    admin.stop()


def test_the_service_is_live_even_when_it_is_not_ready() -> None:
    with listening(ready=lambda: [Readiness("books", "gone")]) as admin:
        answer = admin.get("/live")
    assert (answer.status_code, answer.json()) == (200, {"live": True})


@pytest.mark.parametrize(
    ("check", "status", "not_ready", "warnings"),
    [
        (Readiness("api", None), 200, {}, {}),
        (Readiness("api", "silent"), 503, {"api": "silent"}, {}),
        (Readiness("api", None, "1 sudden change"), 200, {}, {"api": "1 sudden change"}),
    ],
    ids=["ready", "not ready", "warning"],
)
def test_ready_names_the_checks_what_is_missing_and_what_is_only_a_warning(
    check: Readiness, status: int, not_ready: dict[str, str], warnings: dict[str, str]
) -> None:
    with listening(ready=lambda: [Readiness("books", None), check]) as admin:
        answer = admin.get("/ready")
    expected = {
        "ready": status == 200,
        "notReady": not_ready,
        "warnings": warnings,
        "checked": ["books", "api"],
        "address": "",
    }
    assert (answer.status_code, answer.json()) == (status, expected)


def test_metrics_are_what_prometheus_reads() -> None:
    with listening(metrics=lambda: [HORIZON_AGE_SECONDS(0.5)]) as admin:
        answer = admin.get("/metrics?anything")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    (family,) = text_string_to_metric_families(answer.text)
    assert (family.name, family.samples[0].value) == ("counterfoil_horizon_age_seconds", 0.5)


@pytest.mark.parametrize("path", ["/", "/ext/v1/shops", "/live/", "/metricss", "//live"])
def test_no_other_path_is_served(path: str) -> None:
    with listening() as admin:
        answer = admin.get(path)
    assert answer.status_code == 404
    assert answer.json() == {"paths": ["/live", "/serving", "/ready", "/metrics"]}


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "BREW"])
def test_the_admin_listener_is_read_only(method: str) -> None:
    with listening() as admin:
        answer = admin.request(method, "/ready")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {"allowed": ["GET", "HEAD"]}


def test_a_request_with_too_long_headers_is_refused_in_json_too() -> None:
    with listening() as admin:
        answer = admin.get("/ready", headers={f"x-{number}": "x" * 1000 for number in range(50)})
    assert answer.status_code == 431
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {"failed": "Request Header Fields Too Large"}


def test_a_crashing_readiness_check_is_reported_without_its_details(capfd: pytest.CaptureFixture[str]) -> None:
    def broken() -> list[Readiness]:
        raise RuntimeError("a secret detail")

    with listening(ready=broken) as admin:
        answer = admin.get("/ready")
        assert admin.get("/live").status_code == 200
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "Traceback" not in capfd.readouterr().err


def test_only_a_client_on_this_machine_learns_the_id_of_the_store() -> None:
    admin = Admin("127.0.0.1", 0, lambda: READY, list, store_id=lambda: "0badcafe")
    try:
        assert admin.store_header("/ready", "127.0.0.1") == [("counterfoil-store", "0badcafe")]
        assert admin.store_header("/ready", "192.0.2.1") == []
        assert admin.store_header("/metrics", "127.0.0.1") == []
    finally:
        admin.stop()


# --- host names and web pages ---------------------------------------------------------

LISTED = "node-1.internal, Metrics.example"
WILDCARD = "0.0.0.0"  # noqa: S104 - reached over loopback only


@pytest.mark.parametrize("path", ["/metrics", "/ready", "/serving", "/live", "/nowhere"])
@pytest.mark.parametrize("host", ["evil.example", "evil.example:8001", "127.0.0.1.evil.example", "192.0.2.1", "", "x"])
def test_another_name_is_refused_with_the_setting_that_would_allow_it(path: str, host: str) -> None:
    with listening() as admin:
        answer = admin.get(path, headers={"host": host})
    assert answer.status_code == 421
    assert "admin_names" in answer.json()["refused"]


@pytest.mark.parametrize(
    ("listener", "hosts", "status"),
    [
        ({}, ["localhost", "LocalHost:8001", "127.0.0.1:9", "127.9.9.9", "[::1]", "[::1]:8001", "localhost."], 200),
        ({"names": LISTED}, ["node-1.internal", "NODE-1.internal:8001", "metrics.example"], 200),
        ({"names": LISTED}, ["xnode-1.internal", "xmetrics.example"], 421),
        ({"host": WILDCARD}, ["192.0.2.1:8001"], 200),
        ({"host": WILDCARD}, ["evil.example"], 421),
    ],
    ids=["loopback", "listed", "not listed", "address of any interface", "name of any interface"],
)
def test_a_listener_answers_to_its_own_names(listener: dict[str, str], hosts: list[str], status: int) -> None:
    with listening(**listener) as admin:  # type: ignore[arg-type]
        assert {admin.get("/metrics", headers={"host": host}).status_code for host in hosts} == {status}


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("origin", "http://localhost:3000", 403),
        ("sec-fetch-site", "cross-site", 403),
        ("sec-fetch-site", "same-site", 403),
        ("sec-fetch-site", "none", 200),
    ],
)
def test_a_web_page_is_refused_but_not_a_person_who_types_the_address(name: str, value: str, status: int) -> None:
    with listening() as admin:
        assert admin.get("/metrics", headers={name: value}).status_code == status


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
