"""Tests for `counterfoil status`, most of them with a real admin listener."""

import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli.command import PYTHON, SHOPS, Command, on_meter
from counterfoil import bootstrap
from counterfoil.backends.sqlite.usage import SqliteUsage
from counterfoil.domain.access import Key, Scope
from counterfoil.domain.calendar import DAY_MS, THAI_TIME, iso
from counterfoil.machine.clock import SystemClock
from counterfoil.ports import Clock
from counterfoil.serving.admin import Admin, Readiness
from counterfoil.settings import load
from records import bill, shop
from running_service import SECRET, ManualClock, backend_settings, free_port
from waiting import until


@pytest.fixture
def admin_port(monkeypatch: pytest.MonkeyPatch) -> int:
    port = free_port()
    monkeypatch.setenv("COUNTERFOIL_ADMIN_PORT", str(port))
    return port


@contextmanager
def admin_listener(port: int, *checks: Readiness) -> Iterator[None]:
    admin = Admin("127.0.0.1", port, lambda: list(checks), list)
    admin.start()
    try:
        yield
    finally:
        admin.stop()


def move_horizon(where: str, clock: Clock | None = None) -> None:
    store = bootstrap.store(load({"store": where}), clock)
    store.prepare()
    with closing(store.ledger()) as ledger:
        ledger.advance_horizon()


def status_of(report: dict[str, Any], check: str) -> str:
    (found,) = {entry["status"] for entry in report["checks"] if entry["check"] == check}
    return str(found)


@pytest.mark.parametrize("deployment", ["sqlite", "postgres"])
def test_a_ready_service_on_a_healthy_store_passes(
    deployment: str, store: Path, admin_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERFOIL_SECRET", SECRET)
    with backend_settings(deployment) as place, admin_listener(admin_port):
        where = place.get("store", str(store))
        Command(where)("load", "-", stdin=b"\n".join(SHOPS))
        move_horizon(where)
        result = Command(where)("status", "--json")
    report = json.loads(result.stdout)
    assert (report["status"], report["shops"], report["latestLoad"]["lines"]) == ("ok", 2, 2), report
    assert report["storeBytes"] > 10_000
    assert ("PostgreSQL" if place else "SQLite") in result.stdout


def test_a_service_that_is_not_ready_fails_and_says_why(loaded: Command, admin_port: int) -> None:
    with admin_listener(admin_port, Readiness("usage", "the disk is full")):
        assert "usage: the disk is full" in loaded("status", status=1).stdout


@pytest.mark.programs
def test_a_service_that_serves_another_store_is_not_mistaken_for_the_service_of_this_store(
    loaded: Command, admin_port: int, tmp_path: Path
) -> None:
    other = Command(tmp_path / "other")
    other("load", "-", stdin=SHOPS[0])
    environment = {**os.environ, "COUNTERFOIL_PORT": str(free_port()), "COUNTERFOIL_LOG": "off"}
    service = subprocess.Popen([*PYTHON, "serve", "--store", str(other.store)], env=environment)
    try:
        until(lambda: status_of(other.json("status", status=None), "service") == "ok", "the service is ready")
        message = f"The service at 127.0.0.1:{admin_port} serves another store."
        assert message in loaded("status", status=1).stdout
        assert message in loaded("doctor").stdout
        assert message not in other("doctor").stdout
    finally:
        service.terminate()
        service.wait(20)


def test_another_program_on_the_port_is_not_mistaken_for_the_service(loaded: Command, admin_port: int) -> None:
    with socket.create_server(("127.0.0.1", admin_port)) as stranger:

        def answer() -> None:
            connection, _ = stranger.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"SSH-2.0-nothing\r\n")

        threading.Thread(target=answer, daemon=True).start()
        assert "another program is using this port" in loaded("status", status=1).stdout


def test_a_horizon_that_does_not_advance_fails(counterfoil: Command, admin_port: int, store: Path) -> None:
    move_horizon(str(store), ManualClock(SystemClock().now_ms() - 7_200_000))
    with admin_listener(admin_port):
        found = counterfoil.json("status", status=1)
    assert status_of(found, "horizon") == "fail"
    assert found["horizonAgeMs"] >= 7_200_000


def test_a_clock_behind_the_horizon_leaves_it_open_whether_a_service_is_running(
    counterfoil: Command, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the admin listener is off, only a moving horizon could show that a service is running."""
    monkeypatch.setenv("COUNTERFOIL_ADMIN_PORT", "0")
    move_horizon(str(store), ManualClock(SystemClock().now_ms() + 7_200_000))
    found = counterfoil.json("status", status=2)
    assert status_of(found, "service") == "warn"


def test_rejected_lines_are_a_warning(loaded: Command, admin_port: int) -> None:
    loaded("load", "-", stdin=b"not json", status=3)
    with admin_listener(admin_port):
        found = loaded.json("status", status=2)
    assert (found["status"], status_of(found, "items"), found["latestLoad"]["rejected"]) == ("warn", "warn", 1)
    assert (found["openItems"]["rejects"], found["openItems"]["lines"]) == (1, 1)
    loaded("load", "-", stdin=SHOPS[0])
    with admin_listener(admin_port):
        assert status_of(loaded.json("status", status=2), "items") == "warn"


def test_a_key_near_its_quota_is_a_warning_and_a_revoked_one_is_not(loaded: Command, admin_port: int) -> None:
    near, gone, far = (
        str(loaded.json("keys", "issue", "--shop", "sh_1", "--per-day", "10")["keyId"]) for _ in range(3)
    )

    async def spend(usage: SqliteUsage) -> None:
        for key_id, count in {near: 8, gone: 10, far: 7}.items():
            for _ in range(count):
                await usage.admit(Key(key_id=key_id, scope=Scope("shop", "sh_1"), per_day=10))

    on_meter(loaded.store, spend)
    loaded("keys", "revoke", gone, "--yes")
    move_horizon(str(loaded.store))
    with admin_listener(admin_port):
        found = loaded.json("status", status=2)
    assert found["keysNearQuota"] == [{"keyId": near, "label": "", "count": 8, "perDay": 10}]


def test_a_silent_shop_is_a_warning_that_names_it(loaded: Command, admin_port: int) -> None:
    quiet, now = shop(name="Hilltop"), SystemClock().now_ms()
    instants = [now - day * DAY_MS - hour * 3_600_000 for day in range(2, 36) for hour in range(10)]
    records = [quiet, *(bill(quiet, closedAt=iso(at, THAI_TIME)) for at in instants)]
    loaded("load", "-", stdin="\n".join(map(json.dumps, records)).encode())
    with admin_listener(admin_port):
        text = loaded("status", status=2).stdout
    assert "1 silent: Hilltop (no bill for 2 days; usually at least 20 bills in that time)" in text


def test_a_new_store_is_not_reported_as_a_service_that_stopped(counterfoil: Command) -> None:
    counterfoil("init")
    found = counterfoil.json("status", status=2)
    assert (status_of(found, "service"), found["checks"][0]["code"]) == ("warn", "nothing_served")
