"""The service as an operator runs it: real processes, real signals, and real files that disappear."""

import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from e2e.serve_process import SHOP, Deployment, ServeProcess, alive
from running_service import SECRET
from waiting import until

pytestmark = pytest.mark.programs


TOGETHER = pytest.mark.xdist_group("one running service")
# The keys of the shared service, by name. They are issued before the service starts.
KEYS: dict[str, dict[str, Any]] = {"any": {"per_min": 100_000}, "full disk": {"per_min": 1000}}
BILLS = [{"kind": "bill", "id": f"b_{n}", "shopId": "sh_1", "closedAt": 1767000000 + n} for n in range(5)]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    """A service with two workers, shared by several tests."""
    deployment = Deployment(tmp_path_factory.mktemp("service"))
    deployment.load(SHOP, *BILLS)
    deployment.issue(KEYS)
    running = deployment.start(workers=2)
    yield running
    assert running.stop() == 0


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    deployment = Deployment(tmp_path)
    deployment.load(SHOP, *BILLS)
    return deployment


def used(running: ServeProcess, key: str) -> int:
    """Return the number of requests with this key today, including this request."""
    return int(running.get("usage", key).json()["data"]["today"]["count"])


# --- a running service -----------------------------------------------------------


@TOGETHER
def test_the_api_and_the_admin_listener_have_separate_ports(service: ServeProcess) -> None:
    assert len(service.get("shops", service.key("any")).json()["data"]) == 1
    assert service.admin("live").json() == {"live": True}
    assert service.admin("ready").json()["checked"] == [
        *("books", "keys", "usage", "horizon", "admissions", "api"),
        *("intake", "items", "folders"),
    ]
    public = f"http://127.0.0.1:{service.deployment.port}"
    for path in ("live", "ready", "metrics"):
        assert httpx.get(f"{public}/{path}").json()["error"] == "not_found"
        assert service.get(path).status_code == 404
    assert service.admin("ext/v1/shops").status_code == 404


@TOGETHER
def test_a_load_during_service_is_visible_at_once(service: ServeProcess) -> None:
    key = service.key("any")
    since = service.get("shops", key).json()["serverTime"]
    service.deployment.load({"kind": "bill", "id": "b_new", "shopId": "sh_1", "closedAt": 1767000000}, b"nonsense")
    page = service.get(f"transactions?shopId=sh_1&updatedSince={since}", key).json()
    assert [bill["id"] for bill in page["data"]] == ["b_new"]
    assert service.metric("load_lines") == 2
    assert service.metric("load_changed") == 1
    assert service.metric("load_rejected") == 1
    assert service.metric("load_running") == 0


# --- parts that fail and come back ------------------------------------------------


@TOGETHER
def test_a_full_disk_admits_nobody_uncounted_and_the_meter_recovers_automatically(service: ServeProcess) -> None:
    """A file size limit of zero stops the workers from writing, as a full disk would."""
    key = service.key("full disk")
    assert used(service, key) == 1
    limits = {pid: resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in service.pids()}
    for pid, (_, hard) in limits.items():
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
    try:
        answers = [service.get("shops", key) for _ in range(10)]
    finally:
        for pid, limit in limits.items():
            resource.prlimit(pid, resource.RLIMIT_FSIZE, limit)
    assert {(answer.status_code, answer.json()["error"]) for answer in answers} == {(503, "auth_unavailable")}
    assert used(service, key) == 2
    assert service.pids() == set(limits), "a worker died because it could not write"


# --- processes that die -------------------------------------------------------------


def test_a_killed_worker_is_replaced_and_no_count_is_lost(deployment: Deployment) -> None:
    deployment.issue({"k": {"per_min": 1000}})
    running = deployment.start(workers=2)
    key = running.key("k")
    answered = 0
    for _ in range(2):
        answered += sum(running.get("shops", key).status_code == 200 for _ in range(10))
        victim = min(running.pids())
        os.kill(victim, signal.SIGKILL)
        until(lambda: len(running.pids() - {victim}) == 2, "the worker was replaced")  # noqa: B023
        until(lambda: running.admin("ready").status_code == 200, "the service was ready again")
    for _ in range(30):
        try:
            answered += running.get("shops", key).status_code == 200
        except httpx.TransportError:
            # This request had been sent to the worker that died, so it got no response.
            continue
    assert used(running, key) == answered + 1
    assert running.metric("requests_total", route="shops", status="200") == answered
    told = [line for line in running.logged() if line["type"] == "server"]
    assert len(told) == 2
    assert all("Unexpected exit from worker" in line["message"] for line in told)
    assert running.stop() == 0


def test_workers_whose_supervisor_is_killed_exit_and_free_the_port(deployment: Deployment) -> None:
    deployment.issue({"k": {"per_min": 3}})
    first = deployment.start(workers=2)
    key = first.key("k")
    assert [first.get("shops", key).status_code for _ in range(2)] == [200, 200]
    workers = first.pids()
    first.process.kill()
    first.process.wait()
    until(lambda: not any(alive(pid) for pid in workers), "the workers had ended")
    second = deployment.start()
    assert [second.get("shops", key).status_code for _ in range(2)] == [200, 429]
    assert second.stop() == 0


def test_workers_whose_supervisor_is_killed_while_they_start_exit_too(deployment: Deployment) -> None:
    running = deployment.start(workers=2, ready=False)
    until(lambda: len(running.pids()) == 2, "the workers were started")
    workers = running.pids()
    running.process.kill()
    running.process.wait()
    until(lambda: not any(alive(pid) for pid in workers), "the workers had ended")


def test_a_stop_stores_every_record_and_leaves_nothing_behind(deployment: Deployment) -> None:
    deployment.issue({"k": {}})
    running = deployment.start()
    workers = running.pids()
    assert running.get("shops", running.key("k")).status_code == 200
    assert running.stop() == 0
    assert not any(alive(pid) for pid in workers)
    assert [line["what"] for line in running.logged() if line["type"] == "service"] == ["ready", "stopped"]
    assert [line["status"] for line in running.logged() if line["type"] == "request" and line["key_id"]] == [200]
    written = deployment.log.read_text("utf-8")
    assert [secret for secret in (running.key("k").rpartition("_")[2], SECRET) if secret in written] == []
    assert list(deployment.counters.iterdir()) == []
    with deployment.database("usage") as usage:
        assert usage.execute("SELECT count(*) FROM requests").fetchone() == (1,)


def test_a_second_stop_and_an_interrupt_also_end_in_an_orderly_way(deployment: Deployment) -> None:
    running = deployment.start()
    running.process.send_signal(signal.SIGINT)
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(20) in (0, 130)
    until(lambda: not running.pids(), "the workers had ended")
    assert b"Traceback" not in deployment.log.read_bytes()


# --- refused starts ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("secret", "told"),
    [("another secret, long enough to be one", "not the one this store was built with"), ("tiny", "at least 32 bytes")],
    ids=["another", "tiny"],
)
def test_a_wrong_secret_is_refused_and_not_repeated(deployment: Deployment, secret: str, told: str) -> None:
    sentence = deployment.refusal(COUNTERFOIL_SECRET=secret)
    assert told in sentence
    assert secret not in sentence


def test_a_store_of_a_newer_version_is_refused_and_not_changed(deployment: Deployment) -> None:
    with deployment.database("books") as database:
        database.execute("PRAGMA user_version = 99")
    sentence = deployment.refusal()
    assert "the books database has schema 99" in sentence
    assert "newer version of Counterfoil" in sentence
    with deployment.database("books") as database:
        assert database.execute("PRAGMA user_version").fetchone() == (99,)


def test_the_service_does_not_log_its_own_probe(deployment: Deployment) -> None:
    running = deployment.start()
    try:
        for _ in range(3):
            assert running.admin("ready").status_code == 200
        assert running.get("openapi.json").status_code == 200
        logged = until(lambda: [line for line in running.logged() if line.get("route")], "a request is logged")
        assert [(line["method"], line["route"]) for line in logged] == [("GET", "openapi.json")]
    finally:
        running.stop()
