"""Tests for `counterfoil usage` and `counterfoil prune`."""

import json
from pathlib import Path

import pytest

from cli.command import Command, on_meter, on_terminal, request_record
from counterfoil.backends.sqlite.usage import SqliteUsage
from counterfoil.domain.access import Key, Scope
from counterfoil.domain.calendar import DAY_MS, compact, days_until, thai_day
from counterfoil.machine.clock import SystemClock
from running_service import ManualClock


@pytest.fixture
def key_id(counterfoil: Command) -> str:
    issued = counterfoil.json("keys", "issue", "--shop", "sh_1", "--label", "ERP", "--per-day", "40")
    return str(issued["keyId"])


def spend(store: Path, key_id: str, count: int, days_ago: int = 0) -> None:
    """Admit `count` requests of a key, and record one disclosure of `count` members."""
    at = SystemClock().now_ms() - days_ago * DAY_MS
    key = Key(key_id=key_id, scope=Scope("shop", "sh_1"), per_min=1_000)
    disclosure = request_record(key_id, at=at, route="members", personal_base="mb_a", personal_members=count)

    async def admit(usage: SqliteUsage) -> None:
        for _ in range(count):
            await usage.admit(key)
        await usage.disclose(disclosure)

    on_meter(store, admit, ManualClock(at))


def test_a_keys_recent_days_are_listed_oldest_first(counterfoil: Command, store: Path, key_id: str) -> None:
    spend(store, key_id, 5, days_ago=1)
    spend(store, key_id, 3)
    counterfoil("keys", "issue", "--shop", "sh_2")
    assert sorted(spent["total"] for spent in counterfoil.json("usage")) == [0, 8]
    (spent,) = counterfoil.json("usage", key_id)
    days = days_until(thai_day(SystemClock().now_ms()), 7)
    assert [day["date"] for day in spent["days"]] == [compact(day) for day in days]
    assert [day["count"] for day in spent["days"]] == [0, 0, 0, 0, 0, 5, 3]
    assert (spent["keyId"], spent["total"], spent["perDay"]) == (key_id, 8, 40)


def test_a_key_has_a_line_for_each_day(counterfoil: Command, store: Path, key_id: str) -> None:
    spend(store, key_id, 2)
    lines = counterfoil("usage", key_id).stdout.splitlines()
    assert lines[0].split() == ["key", "ID", "day", "count", "quota", "used", "label"]
    assert lines[-1].split()[2:] == ["2", "40", "5.0%", "ERP"]
    assert len(lines) == 8


@pytest.mark.programs
def test_on_a_terminal_a_full_bar_is_the_largest_day_and_idle_keys_are_named(counterfoil: Command, key_id: str) -> None:
    counterfoil("keys", "issue", "--shop", "sh_1", "--label", "Idle")
    spend(counterfoil.store, key_id, 4, days_ago=1)
    spend(counterfoil.store, key_id, 2)
    *days, idle = on_terminal("usage", "--store", counterfoil.store).splitlines()
    assert [line.count("█") for line in days[-2:]] == [10, 5]
    assert "No requests: Idle" in idle


def test_disclosures_name_the_key_the_base_and_the_number_of_members(counterfoil: Command, key_id: str) -> None:
    other = str(counterfoil.json("keys", "issue", "--shop", "sh_2")["keyId"])
    spend(counterfoil.store, key_id, 2)
    spend(counterfoil.store, other, 4)
    (seen,) = counterfoil.json("usage", key_id, "--disclosures")
    assert (seen["keyId"], seen["providerId"], seen["members"], seen["route"]) == (key_id, "mb_a", 2, "members")
    assert {one["keyId"] for one in counterfoil.json("usage", "--disclosures")} == {key_id, other}
    assert "mb_a" in counterfoil("usage", "--disclosures").stdout


def test_disclosures_of_a_key_are_found_behind_many_of_others_and_never_truncated_silently(
    counterfoil: Command, store: Path, key_id: str
) -> None:
    other = str(counterfoil.json("keys", "issue", "--shop", "sh_2")["keyId"])
    spend(store, key_id, 1)
    for _ in range(3):
        spend(store, other, 1)
    of_one = counterfoil("usage", key_id, "--disclosures", "--latest", 1)
    assert (key_id in of_one.stdout, of_one.stderr) == (True, "")
    of_all = counterfoil("usage", "--disclosures", "--latest", 3, "--json")
    assert len(json.loads(of_all.stdout)) == 3
    assert "there are more disclosures" in of_all.stderr
    assert counterfoil("usage", "--disclosures", "--latest", 4).stderr == ""


def test_prune_deletes_records_after_90_days_and_totals_after_400_and_reports_it(
    counterfoil: Command, store: Path, key_id: str
) -> None:
    for days_ago in (410, 100, 10, 0):
        spend(store, key_id, 1, days_ago)
    assert counterfoil.json("prune") == {"requestRecords": 2, "dailyTotals": 1, "cursors": 0, "removals": 0}
    assert counterfoil("prune").stdout.startswith("Deleted 0 request records")
    assert len(counterfoil.json("usage", "--disclosures")) == 2
