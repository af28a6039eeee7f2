"""The age of the latest backup is a finding: a warning if it is too old, or if an old store has no backup at all."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.command import SHOPS, Command
from counterfoil.checks.overview import overview
from counterfoil.model.calendar import DAY_MS, HOUR_MS
from counterfoil.program.clock import SystemClock
from counterfoil.settings import load
from records import bill

SHOP = json.loads(SHOPS[0])


@pytest.fixture
def store(tmp_path: Path) -> Command:
    command = Command(tmp_path / "store")
    command("load", "-", stdin=SHOPS[0])
    return command


def load_bill(store: Command) -> None:
    store("load", "-", stdin=json.dumps(bill(SHOP)).encode())


def found(store: Command, after_ms: int, **flags: object) -> list[tuple[str, str]]:
    """Return the codes and statuses of the findings about backups when this time has passed."""
    settings = load({"store": str(store.store), **flags}, {})
    findings = overview(settings, SystemClock().now_ms() + after_ms).findings
    return [(finding.code, finding.status) for finding in findings if finding.check == "backup"]


def test_a_store_with_bills_needs_a_backup_after_a_day(store: Command) -> None:
    assert found(store, 2 * DAY_MS) == [("backup_none", "ok")]
    load_bill(store)
    assert found(store, 23 * HOUR_MS) == [("backup_none", "ok")]
    assert found(store, 25 * HOUR_MS) == [("backup_missing", "warn")]


@pytest.mark.parametrize(
    ("flags", "hours", "code"),
    [({}, 1, "backup_made"), ({}, 27, "backup_old"), ({"backup_max_hours": 170}, 27, "backup_made")],
)
def test_a_backup_is_old_after_the_limit(
    store: Command, tmp_path: Path, flags: dict[str, object], hours: int, code: str
) -> None:
    store("backup", tmp_path / "backup")
    assert found(store, hours * HOUR_MS, **flags) == [(code, "warn" if code == "backup_old" else "ok")]


@pytest.mark.parametrize(
    "harm",
    [
        shutil.rmtree,
        lambda backups: next(backups.rglob("books.sqlite3")).unlink(),
        lambda backups: os.truncate(next(backups.rglob("keys.sqlite3")), 100),
    ],
    ids=["gone", "a file is gone", "a file is cut"],
)
def test_a_backup_that_is_gone_or_incomplete_is_a_warning(
    store: Command, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    store("backup", tmp_path / "earlier")
    store("backup", tmp_path / "backups" / "today")
    assert found(store, HOUR_MS) == [("backup_made", "ok")]
    harm(tmp_path / "backups")
    assert found(store, HOUR_MS) == [("backup_lost", "warn")]
    store("backup", tmp_path / "backups" / "again")
    assert found(store, HOUR_MS) == [("backup_made", "ok")]


def test_a_backup_that_was_made_on_another_machine_is_not_checked(
    store: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("socket.gethostname", lambda: "backup-pod")
        store("backup", tmp_path / "backup")
    shutil.rmtree(tmp_path / "backup")
    assert found(store, HOUR_MS) == [("backup_unchecked", "ok")]


def test_a_limit_of_0_turns_the_warnings_off(store: Command, tmp_path: Path) -> None:
    load_bill(store)
    assert [status for _, status in found(store, 9 * DAY_MS, backup_max_hours=0)] == ["ok"]
    store("backup", tmp_path / "backup")
    assert [status for _, status in found(store, 9 * DAY_MS, backup_max_hours=0)] == ["ok"]
