"""Tests for what the admin listener reports about the store, its disk and keys, the version, and deliveries."""

import os
import socket
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from actors import OPERATOR
from counterfoil import bootstrap, key_issuing, settings
from counterfoil.backends.sqlite.reads import SqliteReads
from counterfoil.checks.local import NOTIFY_FAILING
from counterfoil.checks.overview import Overview
from counterfoil.domain.access import Scope
from counterfoil.domain.activity import ShopActivity
from counterfoil.domain.audit import Backups
from counterfoil.domain.intake import DeliveryCounts, with_load
from counterfoil.model.calendar import as_number, thai_day
from counterfoil.model.version import API_VERSION, __version__
from counterfoil.ports import StoreExtent
from counterfoil.program.clock import SystemClock
from counterfoil.serving.admin import metrics, overview_metrics, probe, readiness
from counterfoil.settings import Settings
from counterfoil.views.store import StoreValues
from observe.counting_workers import Samples, counter_file, samples_of
from running_service import ManualClock, free_port

OPEN = ShopActivity(
    shop_id="sh_1",
    name=None,
    franchise_id=None,
    provider_id=None,
    bills=None,
    last_bill_at=1,
    today=9,
    usual_by_now=9,
    usual_since_last=0,
    days_known=3,
    is_closed=False,
)
QUIET = replace(OPEN, usual_since_last=9)
MINUTE_SEC = 60
USUAL = DeliveryCounts(lines=300, bills=300, records={"bill": 300})
UNDATED = replace(USUAL, undated=100, unknown={"bill: secret_name": 300})


@pytest.fixture
def service_settings(tmp_path: Path) -> Settings:
    flags = {"store": str(tmp_path / "store"), "port": free_port(), "silent_folder_min": 60}
    loaded = settings.load(flags, {})
    bootstrap.store(loaded).prepare()
    with closing(bootstrap.store(loaded).ledger()) as ledger:
        ledger.advance_horizon()
    return loaded


def samples(of: Settings, folder: Path) -> Samples:
    return samples_of(metrics(of, counter_file(folder), SqliteReads(of.store)))


def named(found: Samples, name: str, label: str) -> dict[str, float]:
    return {dict(labels)[label]: value for (sample, labels), value in found.items() if sample == name}


def test_the_versions_are_labels_of_the_build(service_settings: Settings, tmp_path: Path) -> None:
    found = samples(service_settings, tmp_path)
    labels = (("api_version", API_VERSION), ("version", __version__))
    assert found["counterfoil_build_info", labels] == 1


def test_each_check_of_readiness_is_a_sample(service_settings: Settings, tmp_path: Path) -> None:
    checks = named(samples(service_settings, tmp_path), "counterfoil_ready", "check")
    # No worker is running in this test, so nothing is listening.
    assert checks == {"books": 1, "keys": 1, "usage": 1, "horizon": 1, "admissions": 1, "listening": 0}
    (service_settings.store / "keys.sqlite3").rename(service_settings.store / "elsewhere")
    checks = named(samples(service_settings, tmp_path), "counterfoil_ready", "check")
    assert (checks["keys"], checks["books"]) == (0, 1)


def test_a_program_on_the_port_that_does_not_speak_http_is_reported_as_a_problem(service_settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", service_settings.port)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(b"SSH-2.0-Other\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        problem = probe(service_settings)
        thread.join()
    assert problem == "the response is not valid HTTP. Another program may be using the port."


def test_the_disk_and_the_logs_are_reported_even_if_the_books_cannot_be_read(
    service_settings: Settings, tmp_path: Path
) -> None:
    store = service_settings.store
    found = samples(service_settings, tmp_path)
    assert found["counterfoil_disk_free_bytes", ()] > 0
    assert found["counterfoil_store_bytes", ()] == sum(file.stat().st_size for file in store.glob("*.sqlite3*"))
    (store / "books.sqlite3").write_bytes(b"nonsense" * 1000)
    (store / "books.sqlite3-wal").write_bytes(b"x" * 1234)
    found = samples(service_settings, tmp_path)
    assert named(found, "counterfoil_wal_bytes", "database")["books"] == 1234
    assert found["counterfoil_disk_free_bytes", ()] > 0
    assert ("counterfoil_store_bytes", ()) not in found


def test_keys_are_counted_by_their_use_of_the_quota_and_not_named(service_settings: Settings, tmp_path: Path) -> None:
    now = SystemClock().now_ms()
    with closing(bootstrap.store(service_settings).key_store()) as key_store:
        for per_day in (10, 5, 4):
            grant = key_issuing.Grant(scope=Scope("shop", "sh_1"), per_day=per_day)
            key = key_issuing.issue(key_store, grant, os.urandom, now, OPERATOR).key
            _use(service_settings, key.key_id, 4, now)
    found = samples(service_settings, tmp_path)
    assert found["counterfoil_active_keys", ()] == 3
    assert named(found, "counterfoil_keys_at_quota", "percent") == {"80": 2, "100": 1}
    assert key.key_id not in str(found)


def test_silent_shops_copies_that_are_behind_and_the_age_of_the_backup_come_from_the_latest_check() -> None:
    extent = StoreExtent(size_bytes=1, schema="", software="")
    store = StoreValues(extent=extent, shops=[QUIET, OPEN, QUIET], copies_behind=3, backups=Backups(latest_at=5_000))
    failing = NOTIFY_FAILING(span="")
    found = {one.name: one.samples[0].value for one in overview_metrics(Overview(6_000, [failing], store), 65_000)}
    assert found == {
        "counterfoil_notices_failing": 1,
        "counterfoil_shops_silent": 2,
        "counterfoil_copies_behind": 3,
        "counterfoil_backup_age_seconds": 60,
    }


def test_what_no_check_has_found_yet_is_not_reported() -> None:
    extent = StoreExtent(size_bytes=1, schema="", software="")
    assert list(overview_metrics(None, 1)) == []
    # The store could not be read.
    unread = overview_metrics(Overview(1, [], StoreValues()), 1)
    assert [one.name for one in unread] == ["counterfoil_notices_failing"]
    without_backup = [one.name for one in overview_metrics(Overview(1, [], StoreValues(extent=extent)), 1)]
    assert "counterfoil_backup_age_seconds" not in without_backup


def _use(of: Settings, key_id: str, count: int, now: int) -> None:
    with closing(sqlite3.connect(of.store / "usage.sqlite3", isolation_level=None)) as usage:
        usage.execute("INSERT INTO daily_totals VALUES (?, ?, ?)", (key_id, as_number(thai_day(now)), count))


# --- deliveries ---------------------------------------------------------------------


def warnings(service_settings: Settings, tmp_path: Path) -> dict[str, str]:
    checks = readiness(service_settings, counter_file(tmp_path), bootstrap.store(service_settings).reads())
    return {check.name: check.warning for check in checks if check.warning}


def test_a_sudden_change_is_reported_without_the_name_of_a_field(service_settings: Settings, tmp_path: Path) -> None:
    with closing(bootstrap.store(service_settings).ledger()) as ledger:
        for counts in (USUAL, USUAL, USUAL, UNDATED):
            ledger.change_intake(lambda intake, now, counts=counts: with_load(intake, counts, now))  # type: ignore[misc]
    assert warnings(service_settings, tmp_path) == {
        "intake": "2 sudden changes in the loaded records: see `counterfoil doctor`"
    }
    found = samples(service_settings, tmp_path)
    alarms = named(found, "counterfoil_load_alarms", "measure")
    assert (alarms["undated"], alarms["unknown_field"], alarms["rejected"]) == (1, 1, 0)
    assert "secret_name" not in str(found)


@pytest.mark.parametrize(
    ("seen", "delivered", "warning"),
    [(1, 59, None), (1, 61, "Nothing has been delivered to /spool"), (5, 5, "The watcher of /spool was last seen 5 ")],
)
def test_a_silent_or_unwatched_folder_is_reported(
    service_settings: Settings, tmp_path: Path, seen: int, delivered: int, warning: str | None
) -> None:
    clock = ManualClock(SystemClock().now_ms() - delivered * MINUTE_SEC * 1000)
    with closing(bootstrap.store(service_settings, clock).ledger()) as ledger:
        ledger.report_watched_folder("/spool", 1, 0)
        clock.advance((delivered - seen) * MINUTE_SEC)
        ledger.report_watched_folder("/spool", 0, 0)
    assert warnings(service_settings, tmp_path).get("folders", "").startswith(warning or "")
    assert bool(warnings(service_settings, tmp_path)) is bool(warning)
    found = {
        name.removeprefix("counterfoil_watched_folder_"): value
        for (name, _), value in samples(service_settings, tmp_path).items()
    }
    assert found["silent"] == float(delivered > 60)
    assert round(found["heartbeat_age_seconds"] / MINUTE_SEC) == seen
    assert round(found["delivery_age_seconds"] / MINUTE_SEC) == delivered
