"""Tests for the admin listener: liveness, readiness and metrics."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import httpx
import pytest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from counterfoil.serving.admin import Admin, Readiness, metric

READY = [Readiness("books", None), Readiness("api", None)]


@contextmanager
def listening(
    ready: Callable[[], list[Readiness]] = lambda: READY, metrics: Callable[[], Iterable[Metric]] = list
) -> Iterator[httpx.Client]:
    admin = Admin("127.0.0.1", 0, ready, metrics)
    admin.start()
    with httpx.Client(base_url=f"http://127.0.0.1:{admin.port}", timeout=10) as client:
        yield client
    admin.stop()


def test_the_service_is_live_even_when_it_is_not_ready() -> None:
    with listening(ready=lambda: [Readiness("books", "gone")]) as admin:
        answer = admin.get("/live")
    assert (answer.status_code, answer.json()) == (200, {"live": True})


def test_ready_names_the_checks() -> None:
    with listening() as admin:
        answer = admin.get("/ready")
    assert answer.status_code == 200
    assert answer.json() == {"ready": True, "notReady": {}, "warnings": {}, "checked": ["books", "api"]}


def test_not_ready_says_what_is_missing_and_why() -> None:
    checks = [Readiness("books", None), Readiness("keys", "cannot open keys.sqlite3"), Readiness("api", "silent")]
    with listening(ready=lambda: checks) as admin:
        answer = admin.get("/ready")
    assert answer.status_code == 503
    assert answer.json()["ready"] is False
    assert answer.json()["notReady"] == {"keys": "cannot open keys.sqlite3", "api": "silent"}


def test_a_warning_is_shown_and_the_service_stays_ready() -> None:
    checks = [Readiness("books", None), Readiness("intake", None, "1 sudden change")]
    with listening(ready=lambda: checks) as admin:
        answer = admin.get("/ready")
    assert answer.status_code == 200
    assert answer.json()["ready"] is True
    assert answer.json()["warnings"] == {"intake": "1 sudden change"}


def test_readiness_is_checked_on_each_request() -> None:
    checks = [Readiness("books", "gone")]
    with listening(ready=lambda: checks) as admin:
        assert admin.get("/ready").status_code == 503
        checks[:] = READY
        assert admin.get("/ready").status_code == 200


def test_metrics_are_what_prometheus_reads() -> None:
    with listening(metrics=lambda: [metric("horizon_age_seconds", 0.5)]) as admin:
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
    assert answer.json() == {"paths": ["/live", "/ready", "/metrics"]}


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
