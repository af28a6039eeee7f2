"""Tests for `counterfoil status`, most of them with a real admin listener, and for `counterfoil doctor`."""

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

from cli.command import PYTHON, SHOPS, Command, on_meter, run_sql
from cli.test_shops import brought_in
from counterfoil import bootstrap
from counterfoil.backends.sqlite.move_source import SqliteMoveSource
from counterfoil.backends.sqlite.usage import SqliteUsage
from counterfoil.checks import local, running
from counterfoil.domain.access import Key, Scope
from counterfoil.model.calendar import DAY_MS
from counterfoil.ports import Clock
from counterfoil.program.clock import SystemClock
from counterfoil.serving.admin import Admin, Readiness
from counterfoil.settings import load
from records import shop
from running_service import ManualClock, free_port
from waiting import until


@pytest.fixture
def admin_port(monkeypatch: pytest.MonkeyPatch) -> int:
    port = free_port()
    monkeypatch.setenv("COUNTERFOIL_ADMIN_PORT", str(port))
    return port


@contextmanager
def admin_listener(port: int, *checks: Readiness, serves: Path | None = None) -> Iterator[None]:
    store_id = bootstrap.store(load({"store": str(serves)})).reads().store_id if serves else lambda: None
    admin = Admin("127.0.0.1", port, lambda: list(checks), list, store_id=store_id)
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


def test_a_ready_service_on_a_healthy_store_passes(where: str, admin_port: int) -> None:
    Command(where)("load", "-", stdin=b"\n".join(SHOPS))
    move_horizon(where)
    with admin_listener(admin_port):
        result = Command(where)("status", "--json")
    report = json.loads(result.stdout)
    assert (report["status"], report["shops"], report["latestLoad"]["lines"]) == ("ok", 2, 2), report
    assert report["storeBytes"] > 10_000
    assert ("PostgreSQL" if where.startswith("postgres") else "SQLite") in result.stdout


def test_a_service_that_is_not_ready_fails_and_says_why(loaded: Command, admin_port: int) -> None:
    with admin_listener(admin_port, Readiness("usage", "the disk is full")):
        assert "usage: the disk is full" in loaded("status", status=1).stdout


@pytest.mark.programs
def test_a_service_that_serves_another_store_is_not_mistaken_for_the_service_of_this_store(
    loaded: Command, admin_port: int, tmp_path: Path
) -> None:
    other = Command(tmp_path / "other")
    other("load", "-", stdin=SHOPS[0])
    port = free_port()
    environment = {**os.environ, "COUNTERFOIL_LOG": "off"}
    service = subprocess.Popen([*PYTHON, "serve", "--store", str(other.store), "--port", str(port)], env=environment)
    try:
        until(lambda: status_of(other.json("status", status=None), "service") == "ok", "the service is ready")
        assert f"The service is ready at 127.0.0.1:{port}." in other("status").stdout
        message = f"The service at 127.0.0.1:{admin_port} serves another store."
        assert message in loaded("status", status=1).stdout
        assert message in loaded("doctor").stdout
        assert message not in other("doctor").stdout
    finally:
        service.terminate()
        service.wait(20)


def service_code(command: Command) -> str:
    found = [check for check in command.json("status", status=None)["checks"] if check["check"] == "service"]
    assert len(found) == 1
    return str(found[0]["code"])


def test_a_service_is_not_mistaken_for_that_of_a_copy_or_of_a_store_that_cannot_be_read(
    loaded: Command, admin_port: int, tmp_path: Path
) -> None:
    served = tmp_path / "served"
    loaded("backup", tmp_path / "backup")
    Command(served)("restore", tmp_path / "backup")
    with admin_listener(admin_port, serves=served):
        # Both are a moment old, and have the same ID.
        move_horizon(str(served))
        move_horizon(str(loaded.store))
        assert (service_code(Command(served)), service_code(loaded)) == ("service_ready", "other_store")
        (loaded.store / "books.sqlite3").write_bytes(b"damaged" * 1000)
        assert service_code(loaded) == "service_unverified"


def test_a_service_that_does_not_say_what_it_serves_is_told_from_that_of_an_older_copy_by_the_horizon(
    where: str, admin_port: int
) -> None:
    for age, code in ((7_200_000, "service_elsewhere"), (0, "service_ready"), (-7_200_000, "service_unverified")):
        move_horizon(where, ManualClock(SystemClock().now_ms() - age))
        with admin_listener(admin_port):
            assert service_code(Command(where)) == code


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


def test_a_key_near_its_quota_is_a_warning_and_a_revoked_one_is_not(loaded: Command, admin_port: int) -> None:
    near, gone, far = (
        str(loaded.json("keys", "issue", "--not-loaded-yet", "--shop", "sh_1", "--per-day", "10")["keyId"])
        for _ in range(3)
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
    for first_day, last_day in ((4, 36), (2, 4)):
        days = range(first_day, last_day)
        instants = [now - day * DAY_MS - hour * 3_600_000 for day in days for hour in range(10)]
        brought_in(loaded.store, now - (first_day - 1) * DAY_MS, quiet, *instants)
    with admin_listener(admin_port):
        text = loaded("status", status=2).stdout
    assert "1 silent: Hilltop (no bill for 2 days; usually at least 20 bills in that time)" in text


@pytest.mark.usefixtures("free_ports")
def test_a_new_store_is_not_reported_as_a_service_that_stopped(counterfoil: Command) -> None:
    counterfoil("init")
    found = counterfoil.json("status", status=2)
    assert (status_of(found, "service"), found["checks"][0]["code"]) == ("warn", "nothing_served")


@pytest.fixture
def idle(loaded: Command, free_ports: None) -> Command:
    """A command whose settings name free ports, and whose store has two shops and a key."""
    return loaded


def checks(counterfoil: Command, status: int = 0) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    report = counterfoil.json("doctor", status=status)
    assert report["healthy"] is (status == 0)
    for check in report["checks"]:
        found.setdefault(check["check"], []).append(check)
    return found


def test_a_healthy_installation_passes_every_check(idle: Command) -> None:
    found = checks(idle)
    # Nothing moves the horizon, because the service is not running. That does not make the installation unhealthy.
    running = ("service", "horizon")
    assert {check["status"] for name, group in found.items() for check in group if name not in running} == {"ok"}
    assert (found["service"][0]["status"], found["service"][0]["code"]) == ("fail", "service_silent")
    assert {"settings", "store", "secret", "books", "keys", "usage", "writing", "clock", "disk"} <= set(found)
    lines = idle("doctor").stdout.splitlines()
    assert ["fail", "service"] in [line.split()[:2] for line in lines]
    assert lines[-1].startswith(("1 problem", "2 problems"))


def test_status_deep_finds_the_same_and_exits_with_the_worst_severity(idle: Command) -> None:
    """`doctor` says whether the service can run, and `status` whether it does."""
    deep, healthy = idle.json("status", "--deep", status=1), idle.json("doctor")
    assert [one["code"] for one in deep["checks"]] == [one["code"] for one in healthy["checks"]]
    assert (deep["status"], deep["healthy"], healthy["healthy"]) == ("fail", True, True)
    shallow = idle.json("status", status=1)
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


def test_a_variable_that_nothing_reads_is_a_warning_without_its_value(
    idle: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERFOIL_NOTIFY_ULR", "https://example.com/of-nobody")
    monkeypatch.setenv("COUNTERFOIL_COLOUR", "of-nobody")
    codes = [found["code"] for found in idle.json("status", status=1)["checks"] if found["check"] == "settings"]
    assert codes == ["variable_misspelled"]
    printed = idle("doctor").stdout
    assert "Did you mean COUNTERFOIL_NOTIFY_URL?" in printed
    assert "The variable COUNTERFOIL_COLOUR has no effect" in printed
    assert "of-nobody" not in printed


def test_if_there_is_no_store_a_misspelled_variable_is_named(
    counterfoil: Command, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERFOIL_STOER", "elsewhere")
    message = "COUNTERFOIL_STOER has no effect, because no setting has this name. Did you mean COUNTERFOIL_STORE?"
    assert message in counterfoil("status", status=1).stderr
    words = [*PYTHON, "serve", "--store", str(store), "--port", "0", "--admin-port", "0"]
    served = subprocess.run(words, capture_output=True, check=False, timeout=60)
    assert served.returncode == 1
    event = json.loads(served.stderr.splitlines()[0])
    assert (event["what"], event["detail"]) == ("unknown_variable", message)


def test_the_secret_of_another_store_fails_and_is_not_shown(idle: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL_SECRET", "another-secret-of-more-than-thirty-two-bytes")
    result = idle("doctor", status=1)
    assert "not the one that this store was built with" in result.stdout
    assert "another-secret" not in result.output


def test_files_that_others_can_read_are_reported_with_the_command_that_fixes_it(idle: Command, store: Path) -> None:
    for path in (store / "secret", store / "keys.sqlite3"):
        path.chmod(0o644)
    store.chmod(0o755)
    found = checks(idle)
    assert found["secret"][0]["advice"] == f"Run `chmod 600 {store / 'secret'}`."
    assert found["keys"][1]["advice"].startswith(f"Run `chmod 600 {store / 'keys.sqlite3'}")
    assert found["store"][1]["advice"] == f"Run `chmod 700 {store}`."


def test_a_schema_of_a_newer_version_fails_and_says_what_to_do(idle: Command, store: Path) -> None:
    run_sql(store, "books", "PRAGMA user_version = 99")
    found = checks(idle, status=1)
    assert "Use that version" in found["books"][0]["message"]
    assert not {"horizon", "load", "intake"} & found.keys(), "nothing is said about what cannot be read"
    said = idle("status", status=1).output
    assert "Use that version" in said
    assert "Nothing has been loaded" not in said


def test_with_the_clock_behind_the_horizon_the_doctor_says_so_and_claims_nothing_about_a_service_or_a_load(
    idle: Command, store: Path, api_port: int
) -> None:
    run_sql(store, "books", "UPDATE horizon SET at = at + 3600000")
    run_sql(store, "books", "UPDATE loads SET finished_at = NULL, seen_at = seen_at + 3600000")
    found = checks(idle)
    assert found["clock"][0]["status"] == "warn"
    assert "was set back" in found["clock"][0]["message"]
    assert found["horizon"][0]["code"] == "horizon_ahead"
    assert "too far behind to tell" in found["load"][0]["message"]
    assert "by this service or by another program" in found["port"][0]["message"]


@pytest.mark.parametrize(
    ("horizon", "elapsed_ms", "counts_as"),
    [(4_000, 3_500, 1_000), (9_000, 3_500, 5_500), (500, 3_500, 500), (4_000, 0, 4_000)],
)
def test_a_horizon_that_moved_on_while_the_store_was_read_is_not_ahead_of_the_clock(
    horizon: int, elapsed_ms: int, counts_as: int
) -> None:
    assert running.horizon_as_of(1_000, horizon, elapsed_ms) == counts_as


def test_a_clock_from_before_2024_fails() -> None:
    assert local.clock(None, 1_000_000_000_000).status == "fail"


def test_a_port_used_by_another_program_is_reported(idle: Command, store: Path, api_port: int) -> None:
    run_sql(store, "books", "UPDATE horizon SET at = at - 60000")
    found = checks(idle)
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
    idle: Command, store: Path, seconds_ago: int, status: str, says: str
) -> None:
    seen_at = SystemClock().now_ms() - 1000 * seconds_ago
    run_sql(store, "books", f"UPDATE loads SET finished_at = NULL, seen_at = {seen_at}")  # noqa: S608
    found = checks(idle)["load"][0]
    assert found["status"] == status
    assert found["message"].startswith(says)


@pytest.mark.parametrize("name", ["books.sqlite3", "keys.sqlite3", "usage.sqlite3", "secret"])
def test_a_file_that_the_store_has_lost_fails_and_is_not_created(idle: Command, store: Path, name: str) -> None:
    (store / name).unlink()
    found = checks(idle, status=1)[name.removesuffix(".sqlite3")][0]
    assert found["status"] == "fail"
    assert found["message"].startswith(f"{name} is missing or empty: put the file back") is (name != "secret")
    assert not (store / name).exists()


@pytest.mark.parametrize("secret", ["store/secret", "store/mine", "secret"])
def test_a_retired_folder_may_be_deleted_unless_it_contains_the_secret(
    idle: Command, store: Path, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    file = (store / "secret").rename(store.parent / secret.replace("store", store.name))
    monkeypatch.setenv("COUNTERFOIL_SECRET_FILE", str(file))
    with closing(SqliteMoveSource(store, SystemClock())) as source, source.held():
        source.retire("postgresql://db/counterfoil")
    (finding,) = checks(idle, status=1)["store"]
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


def test_ports_that_the_service_on_this_machine_uses_are_not_reported(
    where: str, api_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    move_horizon(where)
    admin_port = free_port()
    with admin_listener(admin_port):
        found = port_findings(where, admin_port, monkeypatch)
    expected = "is in use, as expected while the service is running."
    assert found == [("ok", f"127.0.0.1:{port} {expected}") for port in (api_port, admin_port)]


@pytest.mark.parametrize("where", ["postgres"], indirect=True)
def test_on_a_database_that_other_nodes_use_a_port_of_another_program_is_reported(
    where: str, api_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    move_horizon(where)
    admin_port = free_port()
    assert port_findings(where, admin_port, monkeypatch) == [
        ("warn", f"127.0.0.1:{api_port} is in use by another program."),
        ("ok", f"127.0.0.1:{admin_port} is free."),
    ]
    assert port_findings(where, 0, monkeypatch) == [
        ("ok", f"127.0.0.1:{api_port} is in use, by this service or by another program.")
    ]
