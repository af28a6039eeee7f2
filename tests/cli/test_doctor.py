"""Tests for `counterfoil doctor`, which is `counterfoil status --deep` with an exit status of its own."""

import gzip
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cli.command import SHOPS, Command, run_sql
from counterfoil import bootstrap
from counterfoil.backends.sqlite.move_source import SqliteMoveSource
from counterfoil.checks import local
from counterfoil.machine.clock import SystemClock
from counterfoil.serving.admin import Admin
from counterfoil.settings import load
from running_service import SECRET, backend_settings, free_port


@pytest.fixture
def loaded(loaded: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """A command whose settings name free ports, and whose store has two shops and a key."""
    monkeypatch.setenv("COUNTERFOIL_PORT", str(free_port()))
    monkeypatch.setenv("COUNTERFOIL_ADMIN_PORT", str(free_port()))
    return loaded


def checks(counterfoil: Command, status: int = 0) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    report = counterfoil.json("doctor", status=status)
    assert report["healthy"] is (status == 0)
    for check in report["checks"]:
        found.setdefault(check["check"], []).append(check)
    return found


def test_a_healthy_installation_passes_every_check(loaded: Command) -> None:
    found = checks(loaded)
    # Nothing moves the horizon, because the service is not running. That does not make the installation unhealthy.
    running = ("service", "horizon")
    assert {check["status"] for name, group in found.items() for check in group if name not in running} == {"ok"}
    assert (found["service"][0]["status"], found["service"][0]["code"]) == ("fail", "service_silent")
    assert {"settings", "store", "secret", "books", "keys", "usage", "writing", "clock", "disk"} <= set(found)
    lines = loaded("doctor").stdout.splitlines()
    assert ["fail", "service"] in [line.split()[:2] for line in lines]
    assert lines[-1].startswith(("1 problem", "2 problems"))


def test_status_deep_finds_the_same_and_exits_with_the_worst_severity(loaded: Command) -> None:
    """`doctor` says whether the service can run, and `status` whether it does."""
    deep, healthy = loaded.json("status", "--deep", status=1), loaded.json("doctor")
    assert [one["code"] for one in deep["checks"]] == [one["code"] for one in healthy["checks"]]
    assert (deep["status"], deep["healthy"], healthy["healthy"]) == ("fail", True, True)
    shallow = loaded.json("status", status=1)
    assert {one["code"]: one["status"] for one in shallow["checks"]}.items() <= {
        one["code"]: one["status"] for one in deep["checks"]
    }.items()


def test_a_store_that_does_not_exist_yet_is_not_a_failure_and_is_not_created(counterfoil: Command, store: Path) -> None:
    found = checks(counterfoil)
    assert found["store"][0]["status"] == "warn"
    assert not store.exists()


def test_a_settings_file_with_a_mistake_fails(counterfoil: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL_WORKERS", "0")
    found = checks(counterfoil, status=1)
    assert "workers must be between 1 and 256" in found["settings"][0]["message"]


def test_the_secret_of_another_store_fails_and_is_not_shown(loaded: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL_SECRET", "another-secret-of-more-than-thirty-two-bytes")
    result = loaded("doctor", status=1)
    assert "not the one that this store was built with" in result.stdout
    assert "another-secret" not in result.output


def test_files_that_others_can_read_are_reported_with_the_command_that_fixes_it(loaded: Command, store: Path) -> None:
    for path in (store / "secret", store / "keys.sqlite3"):
        path.chmod(0o644)
    store.chmod(0o755)
    found = checks(loaded)
    assert found["secret"][0]["advice"] == f"Run `chmod 600 {store / 'secret'}`."
    assert found["keys"][1]["advice"].startswith(f"Run `chmod 600 {store / 'keys.sqlite3'}")
    assert found["store"][1]["advice"] == f"Run `chmod 700 {store}`."


def test_a_schema_of_a_newer_version_fails_and_says_what_to_do(loaded: Command, store: Path) -> None:
    run_sql(store, "books", "PRAGMA user_version = 99")
    found = checks(loaded, status=1)
    assert "Use that version" in found["books"][0]["message"]
    assert not {"horizon", "load", "intake"} & found.keys(), "nothing is said about what cannot be read"
    said = loaded("status", status=1).output
    assert "Use that version" in said
    assert "Nothing has been loaded" not in said


def test_with_the_clock_behind_the_horizon_the_doctor_says_so_and_claims_nothing_about_a_service_or_a_load(
    loaded: Command, store: Path, api_port: int
) -> None:
    run_sql(store, "books", "UPDATE horizon SET at = at + 3600000")
    run_sql(store, "books", "UPDATE loads SET finished_at = NULL, seen_at = seen_at + 3600000")
    found = checks(loaded)
    assert found["clock"][0]["status"] == "warn"
    assert "was set back" in found["clock"][0]["message"]
    assert found["horizon"][0]["code"] == "horizon_ahead"
    assert "too far behind to tell" in found["load"][0]["message"]
    assert "by this service or by another program" in found["port"][0]["message"]


def test_a_clock_from_before_2024_fails() -> None:
    assert local.clock(None, 1_000_000_000_000).status == "fail"


def test_a_port_used_by_another_program_is_reported(loaded: Command, store: Path, api_port: int) -> None:
    run_sql(store, "books", "UPDATE horizon SET at = at - 60000")
    found = checks(loaded)
    assert (found["port"][0]["status"], found["port"][0]["code"]) == ("warn", "port_taken")


@pytest.mark.parametrize(
    ("seconds_ago", "status", "says"),
    [
        (0, "ok", "A load is running: 2 lines so far"),
        (60, "ok", "A load is waiting or was stopped: 2 lines so far, nothing written for 60 seconds"),
        (3600, "warn", "A load did not finish: it stopped after 2 lines, 60 minutes ago"),
    ],
)
def test_the_time_since_the_last_write_distinguishes_a_running_load_from_an_interrupted_one(
    loaded: Command, store: Path, seconds_ago: int, status: str, says: str
) -> None:
    seen_at = SystemClock().now_ms() - 1000 * seconds_ago
    run_sql(store, "books", f"UPDATE loads SET finished_at = NULL, seen_at = {seen_at}")  # noqa: S608
    found = checks(loaded)["load"][0]
    assert found["status"] == status
    assert found["message"].startswith(says)


def test_a_load_that_ended_with_an_error_is_reported_at_once(loaded: Command, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.ndjson.gz"
    damaged.write_bytes(gzip.compress(b"\n".join(SHOPS))[:-1])
    loaded("load", damaged, status=1)
    assert loaded.json("loads")[0]["state"] == "stopped"
    assert loaded.json("status", status=1)["latestLoad"]["stopped"] is True
    found = checks(loaded)["load"][0]
    assert found["status"] == "warn"
    assert found["message"].startswith("A load did not finish: it stopped after")


@pytest.mark.parametrize("name", ["books.sqlite3", "keys.sqlite3", "usage.sqlite3", "secret"])
def test_a_file_that_the_store_has_lost_fails_and_is_not_created(loaded: Command, store: Path, name: str) -> None:
    (store / name).unlink()
    found = checks(loaded, status=1)[name.removesuffix(".sqlite3")][0]
    assert found["status"] == "fail"
    assert found["message"].startswith(f"{name} is missing or empty: put the file back") is (name != "secret")
    assert not (store / name).exists()


def test_a_damaged_database_fails(loaded: Command, store: Path) -> None:
    (store / "keys.sqlite3").write_bytes(b"not a database " * 1000)
    assert checks(loaded, status=1)["keys"][0]["status"] == "fail"


def retire(store: Path) -> None:
    source = SqliteMoveSource(store, SystemClock())
    with source.held():
        source.retire("postgresql://db/counterfoil")
    source.close()


@pytest.mark.parametrize("secret", ["store/secret", "store/mine", "secret"])
def test_a_retired_folder_may_be_deleted_unless_it_contains_the_secret(
    loaded: Command, store: Path, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    file = (store / "secret").rename(store.parent / secret.replace("store", store.name))
    monkeypatch.setenv("COUNTERFOIL_SECRET_FILE", str(file))
    retire(store)
    (finding,) = checks(loaded, status=1)["store"]
    assert "was moved to postgresql://db/counterfoil" in finding["message"]
    kept = f"Do not delete this folder yet: it contains the deployment secret ({file})"
    assert (kept if file.parent == store else "Delete this folder once") in finding["advice"]


@pytest.fixture
def api_port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Yield the API's port, on which something listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = int(listener.getsockname()[1])
        monkeypatch.setenv("COUNTERFOIL_PORT", str(port))
        yield port


def port_findings(where: str, admin_port: int, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    monkeypatch.setenv("COUNTERFOIL_ADMIN_PORT", str(admin_port))
    checks = Command(where).json("doctor", status=None)["checks"]
    return [(check["status"], check["message"]) for check in checks if check["check"] in ("port", "admin")]


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a store whose horizon has just moved, on each back end in turn."""
    monkeypatch.setenv("COUNTERFOIL_SECRET", SECRET)
    with backend_settings(request.param) as place:
        address = place.get("store", str(store))
        with closing(bootstrap.store(load({"store": address})).ledger()) as ledger:
            ledger.advance_horizon()
        yield address


def test_ports_that_the_service_on_this_machine_uses_are_not_reported(
    where: str, api_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin_port = free_port()
    admin = Admin("127.0.0.1", admin_port, list, list)
    admin.start()
    try:
        found = port_findings(where, admin_port, monkeypatch)
    finally:
        admin.stop()
    expected = "is in use, as expected while the service is running."
    assert found == [("ok", f"127.0.0.1:{port} {expected}") for port in (api_port, admin_port)]


@pytest.mark.parametrize("where", ["postgres"], indirect=True)
def test_on_a_database_that_other_nodes_use_a_port_of_another_program_is_reported(
    where: str, api_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin_port = free_port()
    assert port_findings(where, admin_port, monkeypatch) == [
        ("warn", f"127.0.0.1:{api_port} is in use by another program."),
        ("ok", f"127.0.0.1:{admin_port} is free."),
    ]
    assert port_findings(where, 0, monkeypatch) == [
        ("ok", f"127.0.0.1:{api_port} is in use, by this service or by another program.")
    ]
