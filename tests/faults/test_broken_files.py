"""Tests with files of the embedded store that are locked, lost, replaced or damaged, and with workers that die."""

import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from broken_store import locked
from counterfoil.domain import credentials
from counterfoil.serving.workers import PAUSE_SEC
from e2e.serve_process import SHOP, Deployment, ServeProcess
from faults.http_clients import Call, call_concurrently
from waiting import throughout, until

pytestmark = pytest.mark.programs

CALLERS = 20
BILLS = [{"kind": "bill", "id": f"b_{n}", "shopId": "sh_1", "closedAt": 1767000000 + n} for n in range(2_000)]
PAGE = "transactions?shopId=sh_1&from=20251201&to=20251231&limit=200"
# A request that needs a locked file is refused after one second. The rest is an allowance for busy machines.
REFUSED_SEC = 2.5
AT_ONCE_SEC = 0.8


def longer(case: Any) -> Any:
    """Mark a case so that only `make test-long` runs it."""
    return pytest.param(case, marks=pytest.mark.long)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """A deployment with bills and a key. Tests use only copies of it."""
    deployment = Deployment(tmp_path_factory.mktemp("loaded"))
    deployment.load(SHOP, *BILLS)
    deployment.issue({"k": {"per_min": 100_000, "per_day": 100_000}})
    return deployment


def copied(loaded: Deployment, folder: Path) -> Deployment:
    shutil.copytree(loaded.store, folder / "store")
    deployment = Deployment(folder)
    deployment.keys |= loaded.keys
    return deployment


@pytest.fixture
def deployment(loaded: Deployment, tmp_path: Path) -> Deployment:
    return copied(loaded, tmp_path)


@pytest.fixture(scope="module")
def recovering(loaded: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    """A running service for tests that leave it working. They share it, because starting it takes most of the time."""
    running = copied(loaded, tmp_path_factory.mktemp("recovering")).start()
    yield running
    assert running.stop() == 0


@pytest.fixture
def shared(recovering: ServeProcess) -> ServeProcess:
    assert recovering.get("shops", recovering.key("k")).status_code == 200
    return recovering


@pytest.fixture
def running(deployment: Deployment) -> Iterator[ServeProcess]:
    running = deployment.start()
    assert running.get("shops", running.key("k")).status_code == 200
    yield running
    assert running.stop() == 0


def call_at_once(running: ServeProcess, key: str) -> list[Call]:
    return call_concurrently(running.deployment.port, key, "shops", CALLERS)


def unknown_key() -> str:
    return credentials.format_key(credentials.generate(os.urandom))


def started_at_sec(pid: int) -> float:
    """Return when a process was started, in seconds since the machine was."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


# --- locks ---------------------------------------------------------------------------


def test_a_locked_key_file_stops_neither_known_keys_nor_the_public_document_nor_readiness(shared: ServeProcess) -> None:
    with locked(shared.deployment.store / "keys.sqlite3"):
        # This is long enough for the service to try to reload its keys.
        throughout(0.6, lambda: shared.get("shops", shared.key("k")).status_code == 200, "a known key works")
        known = call_at_once(shared, shared.key("k"))
        public = [shared.get("openapi.json"), shared.admin("ready")]
        strangers = call_at_once(shared, unknown_key())
    assert {call.status for call in known} == {200}
    assert max(call.took for call in known) < AT_ONCE_SEC
    assert [answer.status_code for answer in public] == [200, 200]
    assert max(answer.elapsed.total_seconds() for answer in public) < AT_ONCE_SEC
    # The key file has not changed, so the service may also refuse the unknown key as invalid.
    assert {call.status for call in strangers} <= {401, 503}
    assert max(call.took for call in strangers) < REFUSED_SEC


def test_a_locked_usage_file_refuses_each_request_in_a_second_and_blocks_no_other(shared: ServeProcess) -> None:
    with shared.deployment.database("usage") as usage:
        usage.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor(1) as pool:
            refused = pool.submit(call_at_once, shared, shared.key("k"))
            public = []
            while not refused.done():
                public.append(shared.get("openapi.json").elapsed.total_seconds())
        usage.execute("ROLLBACK")
    assert {call.status for call in refused.result()} == {503}
    assert max(call.took for call in refused.result()) < REFUSED_SEC
    assert len(public) > 5
    assert max(public) < AT_ONCE_SEC
    assert shared.get("shops", shared.key("k")).status_code == 200


# --- files that are missing ---------------------------------------------------------------


def test_an_empty_file_is_not_mistaken_for_a_new_one(deployment: Deployment) -> None:
    (deployment.store / "keys.sqlite3").write_bytes(b"")
    assert "keys.sqlite3 is missing or empty" in deployment.refusal()


@pytest.mark.parametrize("name", ["books", "keys", longer("usage")])
def test_a_missing_file_is_reported_by_name_and_nobody_gets_an_empty_answer(shared: ServeProcess, name: str) -> None:
    files = list(shared.deployment.store.glob(f"{name}.sqlite3*"))
    for file in files:
        file.rename(file.with_suffix(".away" + file.suffix))
    try:
        until(lambda: shared.get("shops", shared.key("k")).status_code == 503, "the loss was noticed", 5)
        assert shared.get("shops", shared.key("k")).json()["error"] == "auth_unavailable"
        ready = shared.admin("ready")
        assert ready.status_code == 503
        assert ready.json()["notReady"][name].startswith(f"{name}.sqlite3 is missing or empty")
    finally:
        for file in files:
            file.with_suffix(".away" + file.suffix).rename(file)
    until(lambda: shared.get("shops", shared.key("k")).status_code == 200, "the file was found again", 5)


@pytest.mark.long
def test_a_replaced_file_is_reported_by_name_and_not_partly_used(running: ServeProcess) -> None:
    books = running.deployment.store / "books.sqlite3"
    with running.deployment.database("books") as connection, closing(sqlite3.connect(f"{books}.new")) as copy:
        connection.backup(copy)
    Path(f"{books}.new").replace(books)
    until(lambda: running.get("shops", running.key("k")).status_code == 503, "the new file was noticed", 5)
    assert "was replaced" in running.admin("ready").json()["notReady"]["books"]


def test_the_key_file_of_another_store_makes_nobody_known(shared: ServeProcess, tmp_path: Path) -> None:
    other = Deployment(tmp_path / "other")
    other.issue({"stranger": {}})
    with other.database("keys") as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    keys = shared.deployment.store / "keys.sqlite3"
    shutil.copy(keys, tmp_path / "kept")
    shutil.copy(other.store / "keys.sqlite3", keys)
    until(lambda: shared.get("shops", shared.key("k")).status_code == 503, "the foreign file was noticed", 5)
    assert shared.get("shops", other.keys["stranger"]).json()["error"] == "auth_unavailable"
    shutil.copy(tmp_path / "kept", keys)
    until(lambda: shared.get("shops", shared.key("k")).status_code == 200, "the file was restored", 5)


# --- files that are damaged ----------------------------------------------------------------


def cut_off(path: Path) -> None:
    os.truncate(path, 8192)


def overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"this is not a database " * (path.stat().st_size // 23))


@pytest.mark.parametrize("damage", [cut_off, longer(overwritten)])
@pytest.mark.parametrize("name", ["books", longer("keys"), longer("usage")])
def test_a_damaged_file_is_reported_by_name_and_no_worker_dies(
    deployment: Deployment, name: str, damage: Callable[[Path], None]
) -> None:
    if name == "usage":
        # Insert enough request records to fill several database pages.
        with deployment.database("usage") as usage:
            usage.execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) INSERT INTO requests "
                "(at, key_id, route, status, took_us, personal_members, request_id, detail) "
                "SELECT i, 'k', 'shops', 200, 1, 0, '' || i, '{}' FROM n"
            )
    if name == "keys":
        deployment.issue({f"k{n}": {} for n in range(200)})
    running = deployment.start()
    workers = running.pids()
    assert running.get(PAGE, running.key("k")).status_code == 200
    damage(deployment.store / f"{name}.sqlite3")
    throughout(
        1.0,
        lambda: running.get(PAGE, running.key("k")).status_code in (200, 500, 503),
        "every request got a documented response",
    )
    until(lambda: name in running.admin("ready").json()["notReady"], "the damaged file was reported", 10)
    assert running.get("openapi.json").status_code == 200
    assert running.pids() == workers
    running.stop()


# --- workers that die ------------------------------------------------------------------------


@pytest.mark.long
def test_a_worker_is_replaced_while_another_that_keeps_dying_is_not(deployment: Deployment) -> None:
    running = deployment.start(workers=2)
    faulty, sound = sorted(running.pids())
    for _ in range(3):
        os.kill(faulty, signal.SIGKILL)
        before = running.pids()
        until(lambda: running.pids() - before - {faulty}, "the worker was replaced")  # noqa: B023
        (faulty,) = running.pids() - before - {faulty}
    # The supervisor replaces the sound worker at once, and waits before it replaces the faulty one again.
    os.kill(faulty, signal.SIGKILL)
    os.kill(sound, signal.SIGKILL)
    until(lambda: len(running.pids() - {faulty, sound}) == 2, "both workers were replaced")
    first, second = sorted(started_at_sec(pid) for pid in running.pids())
    assert second - first > PAUSE_SEC / 2
    assert running.stop() == 0
