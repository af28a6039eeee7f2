"""Tests for what the admin listener reports about deliveries: warnings in `/ready`, and metrics."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from counterfoil import bootstrap
from counterfoil.domain.intake import DeliveryCounts, with_load
from counterfoil.machine.clock import SystemClock
from counterfoil.serving.admin import metrics, readiness
from counterfoil.settings import Settings, load
from observe.counting_workers import counter_file
from running_service import ManualClock

MINUTE_SEC = 60
USUAL = DeliveryCounts(lines=300, bills=300, records={"bill": 300})
UNDATED = DeliveryCounts(lines=300, bills=300, undated=100, records={"bill": 300}, unknown={"bill: secret_name": 300})


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = load({"store": str(tmp_path / "store"), "silent_folder_min": 60}, {})
    bootstrap.store(found).prepare()
    return found


def warnings(settings: Settings, tmp_path: Path) -> dict[str, str]:
    checks = readiness(settings, counter_file(tmp_path), bootstrap.store(settings).reads())
    return {check.name: check.warning for check in checks if check.warning}


def samples(settings: Settings, tmp_path: Path) -> Iterator[tuple[str, float]]:
    for family in metrics(settings, counter_file(tmp_path), bootstrap.store(settings).reads()):
        for sample in family.samples:
            if sample.name.startswith(("counterfoil_load_alarms", "counterfoil_watched_folder")):
                yield sample.name.removeprefix("counterfoil_") + "".join(sample.labels.values()), sample.value


def test_a_sudden_change_is_reported_without_the_name_of_a_field(settings: Settings, tmp_path: Path) -> None:
    with closing(bootstrap.store(settings).ledger()) as ledger:
        for counts in (USUAL, USUAL, USUAL, UNDATED):
            ledger.change_intake(lambda intake, now, counts=counts: with_load(intake, counts, now))  # type: ignore[misc]
    assert warnings(settings, tmp_path) == {
        "intake": "2 sudden changes in the loaded records: see `counterfoil doctor`"
    }
    found = dict(samples(settings, tmp_path))
    assert found["load_alarmsundated"] == found["load_alarmsunknown_field"] == 1
    assert found["load_alarmsrejected"] == 0
    assert "secret_name" not in str(found)


@pytest.mark.parametrize(
    ("seen", "delivered", "warning"),
    [(1, 59, None), (1, 61, "Nothing has been delivered to /spool"), (5, 5, "The watcher of /spool was last seen 5 ")],
)
def test_a_silent_or_unwatched_folder_is_reported(
    settings: Settings, tmp_path: Path, seen: int, delivered: int, warning: str | None
) -> None:
    clock = ManualClock(SystemClock().now_ms() - delivered * MINUTE_SEC * 1000)
    with closing(bootstrap.store(settings, clock).ledger()) as ledger:
        ledger.report_watched_folder("/spool", 1, 0)
        clock.advance((delivered - seen) * MINUTE_SEC)
        ledger.report_watched_folder("/spool", 0, 0)
    assert warnings(settings, tmp_path).get("folders", "").startswith(warning or "")
    assert bool(warnings(settings, tmp_path)) is bool(warning)
    found = dict(samples(settings, tmp_path))
    assert found["watched_folder_silent/spool"] == float(delivered > 60)
    assert round(found["watched_folder_heartbeat_age_seconds/spool"] / MINUTE_SEC) == seen
    assert round(found["watched_folder_delivery_age_seconds/spool"] / MINUTE_SEC) == delivered
