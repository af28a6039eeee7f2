"""Times are shown in one zone, a setting, and in UTC with --utc. What programs read does not depend on it."""

from pathlib import Path

import pytest

from cli.command import Command, run_sql
from counterfoil.program.main import program
from counterfoil.program.registry import registered
from counterfoil.program.times import minute, second, show_times_in

LISTS = ("loads", "shops", "keys list", "audit", "requests", "usage --disclosures")


@pytest.fixture
def loaded(loaded: Command, store: Path) -> Command:
    """A store whose load happened at 2026-01-31 17:30 UTC, which is another day in Thailand."""
    run_sql(store, "books", "UPDATE loads SET started_at = 1769880600000, finished_at = 1769880600000")
    return loaded


@pytest.mark.parametrize(
    ("zone", "shown"),
    [
        (None, "2026-02-01 00:30:00 +07"),
        ("Europe/Berlin", "2026-01-31 18:30:00 +01"),
        ("Asia/Kolkata", "2026-01-31 23:00:00 +0530"),
        ("UTC", "2026-01-31 17:30:00 UTC"),
    ],
)
def test_lists_show_times_in_the_zone_of_the_setting(
    loaded: Command, monkeypatch: pytest.MonkeyPatch, zone: str | None, shown: str
) -> None:
    if zone:
        monkeypatch.setenv("COUNTERFOIL_TIMEZONE", zone)
    assert shown in loaded("loads").stdout
    assert "2026-01-31 17:30:00 UTC" in loaded("loads", "--utc").stdout


def test_json_has_the_same_instants_in_every_zone(loaded: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {command: loaded.json(*command.split()) for command in LISTS}
    monkeypatch.setenv("COUNTERFOIL_TIMEZONE", "America/New_York")
    assert {command: loaded.json(*command.split()) for command in LISTS} == expected


def test_findings_name_times_in_the_zone_and_their_json_in_utc(loaded: Command, store: Path) -> None:
    run_sql(store, "books", "UPDATE horizon SET at = 1769880600000")
    assert "2026-02-01 00:30:00 +07" in loaded("doctor").stdout
    assert "2026-01-31 17:30:00 UTC" in loaded("doctor", "--utc").stdout
    checks = loaded.json("doctor")["checks"]
    assert any("2026-01-31T17:30:00.000Z" in check["message"] for check in checks)


def test_the_offset_follows_daylight_saving_time() -> None:
    show_times_in("Europe/Berlin")
    winter, summer = 1_769_880_600_000, 1_782_907_200_000
    assert (minute(winter), minute(summer)) == ("2026-01-31 18:30 +01", "2026-07-01 14:00 +02")
    assert second(None) == "-"


@pytest.mark.parametrize("name", ["loads", "shops", "usage", "requests", "audit", "status", "doctor", "backup", "load"])
def test_a_command_that_prints_times_has_the_option_for_utc(name: str) -> None:
    assert name in registered()
    command = program.get_command(program.make_context("counterfoil", [name]), name)
    assert command
    assert any("--utc" in option.opts for option in command.params)
