"""Tests for what callers did: `counterfoil usage`, `requests`, `prune`, and the report of `keys show`."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click import unstyle

from cli.command import Command, on_meter, on_terminal, record_requests, request_record
from counterfoil.backends.sqlite.usage import SqliteUsage
from counterfoil.domain.access import Key, Scope
from counterfoil.domain.request_records import CHANGES_OF_SHOP
from counterfoil.model.calendar import DAY_MS, HOUR_MS, compact, days_until, iso_utc, thai_day
from counterfoil.program.clock import SystemClock
from counterfoil.program.times import minute
from running_service import ManualClock

pytestmark = pytest.mark.usefixtures("empty_store")


@pytest.fixture
def key_id(counterfoil: Command) -> str:
    issued = counterfoil.json(
        "keys", "issue", "--not-loaded-yet", "--franchise", "fr_a", "--label", "ERP", "--per-day", "40"
    )
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
    counterfoil("keys", "issue", "--not-loaded-yet", "--shop", "sh_2")
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
    counterfoil("keys", "issue", "--not-loaded-yet", "--shop", "sh_1", "--label", "Idle")
    spend(counterfoil.store, key_id, 4, days_ago=1)
    spend(counterfoil.store, key_id, 2)
    *days, idle = on_terminal("usage", "--store", counterfoil.store).splitlines()
    assert [line.count("█") for line in days[-2:]] == [10, 5]
    assert "No requests: Idle" in idle


def test_disclosures_name_the_key_the_base_and_the_number_of_members(counterfoil: Command, key_id: str) -> None:
    other = str(counterfoil.json("keys", "issue", "--not-loaded-yet", "--shop", "sh_2")["keyId"])
    spend(counterfoil.store, key_id, 2)
    spend(counterfoil.store, other, 4)
    (seen,) = counterfoil.json("usage", key_id, "--disclosures")
    assert (seen["keyId"], seen["providerId"], seen["members"], seen["route"]) == (key_id, "mb_a", 2, "members")
    assert {one["keyId"] for one in counterfoil.json("usage", "--disclosures")} == {key_id, other}
    assert "mb_a" in counterfoil("usage", "--disclosures").stdout


def test_disclosures_of_a_key_are_found_behind_many_of_others_and_never_truncated_silently(
    counterfoil: Command, store: Path, key_id: str
) -> None:
    other = str(counterfoil.json("keys", "issue", "--not-loaded-yet", "--shop", "sh_2")["keyId"])
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


def found(counterfoil: Command, *options: object) -> list[str]:
    return [one["requestId"] for one in counterfoil.json("requests", *options)]


def test_a_request_is_found_by_its_id(counterfoil: Command, store: Path, key_id: str) -> None:
    record_requests(store, request_record(key_id, "r-1"), request_record(key_id, "r-2", status=400, error="bad_cursor"))
    (one,) = counterfoil.json("requests", "r-2")
    assert {name: value for name, value in one.items() if name != "at"} == {
        "requestId": "r-2",
        "keyId": key_id,
        "route": "transactions",
        "status": 400,
        "error": "bad_cursor",
        "tookUs": 1_500,
        "providerId": None,
        "members": 0,
        "message": None,
        "parameters": "",
        "shopId": None,
        "rows": None,
        "lastPage": None,
    }


def test_one_request_is_shown_with_what_is_known_about_it(counterfoil: Command, store: Path, key_id: str) -> None:
    record_requests(
        store,
        request_record(key_id, "r-1", detail='["shopId,1 unknown","sh_1",1,true]'),
        request_record(
            key_id, "r-2", status=400, error="bad_query", detail='["","",null,null,"The limit is too high."]'
        ),
    )
    shown = dict(line.split("  ", 1) for line in counterfoil("requests", "r-1").stdout.splitlines())
    always = {"time", "request id", "key id", "label", "route", "status", "took ms", "personal members"}
    assert shown.keys() == always | {"parameters", "shop id", "rows", "last page"}
    shown = dict(line.split("  ", 1) for line in counterfoil("requests", "r-2").stdout.splitlines())
    assert shown.keys() == always | {"error", "message"}
    assert shown["message"].strip() == "The limit is too high."


def test_errors_that_leave_no_record_cannot_be_asked_for(counterfoil: Command) -> None:
    counterfoil("init")
    assert "rate_limited" in counterfoil("requests", "--error", "rate_limited", status=2).stderr
    assert "`counterfoil usage`" in counterfoil("requests", "unknown").stderr


def test_options_select_requests(counterfoil: Command, store: Path, key_id: str) -> None:
    other = str(counterfoil.json("keys", "issue", "--not-loaded-yet", "--shop", "sh_2")["keyId"])
    record_requests(
        store,
        request_record(key_id, "old", 3 * HOUR_MS),
        request_record(key_id, "slow", 2 * HOUR_MS, took_us=2_000_001),
        request_record(other, "of-other", HOUR_MS, route="members", personal_base="mb_a", personal_members=2),
        request_record(key_id, "failed", status=404, error="not_found"),
    )
    assert found(counterfoil) == ["failed", "of-other", "slow", "old"]
    assert found(counterfoil, "--key", other) == ["of-other"]
    assert found(counterfoil, "--route", "members") == ["of-other"]
    assert found(counterfoil, "--personal-data") == ["of-other"]
    assert found(counterfoil, "--status", 404) == ["failed"]
    assert found(counterfoil, "--error", "not_found") == ["failed"]
    assert found(counterfoil, "--slower-than", 2_000) == ["slow"]
    assert found(counterfoil, "--since", "90m") == ["failed", "of-other"]
    assert found(counterfoil, "--until", "150m") == ["old"]


def test_only_the_latest_requests_are_shown_and_the_rest_is_mentioned(
    counterfoil: Command, store: Path, key_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterfoil.views.requests.PER_QUERY", 2)
    record_requests(store, *(request_record(key_id, f"r-{n}", age_ms=1_000 * n) for n in range(6)))
    shown = counterfoil("requests", "--limit", 5, "--json")
    assert [one["requestId"] for one in json.loads(shown.stdout)] == ["r-0", "r-1", "r-2", "r-3", "r-4"]
    assert "there are more requests" in shown.stderr


def test_requests_are_printed_as_a_table_or_as_csv(counterfoil: Command, store: Path, key_id: str) -> None:
    record_requests(store, request_record(key_id, "r-1", took_us=12_345))
    heading, line = counterfoil("requests").stdout.splitlines()
    assert heading.split() == ["time", "status", "ms", "route", "key", "ID", "label", "request", "ID", "error"]
    assert line.split()[2:] == ["+07", "200", "12.3", "transactions", key_id, "ERP", "r-1", "-"]
    (row,), (one,) = csv.DictReader(counterfoil("requests", "--csv").stdout.splitlines()), counterfoil.json("requests")
    assert row == {name: "" if value is None else str(value) for name, value in one.items()}


@pytest.mark.parametrize(
    "options", [("--csv", "--json"), ("--follow", "--until", "1h"), ("--follow", "--limit", "50"), ("--follow", "r_1")]
)
def test_options_that_contradict_each_other_are_refused(
    counterfoil: Command, key_id: str, options: tuple[str, ...]
) -> None:
    counterfoil("requests", *options, status=2)


@pytest.mark.parametrize("form", ["plain", "--json", "--csv"])
def test_new_requests_are_followed(
    counterfoil: Command, store: Path, key_id: str, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    pauses = iter(range(3))

    def pause(_: float) -> None:
        number = next(pauses)
        if number == 2:
            raise KeyboardInterrupt
        record_requests(store, request_record(key_id, f"r-{number}", -number, status=500, error="internal"))

    monkeypatch.setattr("counterfoil.cli.lists.time.sleep", pause)
    record_requests(store, request_record(key_id, "before", age_ms=60_000))
    result = counterfoil("requests", "--follow", *([] if form == "plain" else [form]), status=130)
    lines = unstyle(result.stdout).splitlines()
    if form == "--json":
        assert [json.loads(line)["requestId"] for line in lines] == ["r-0", "r-1"]
    elif form == "--csv":
        assert [row["requestId"] for row in csv.DictReader(lines)] == ["r-0", "r-1"]
    else:
        assert [line.split()[-2:] for line in lines] == [["r-0", "internal"], ["r-1", "internal"]]


def read_changes(store: Path, key_id: str, shop_id: str, *passes: tuple[int, int]) -> None:
    """Record finished passes over the changes of a shop, each with its start and its serverTime."""

    async def note(usage: SqliteUsage) -> None:
        for since, horizon in passes:
            usage.note_page((key_id, CHANGES_OF_SHOP, shop_id), since, horizon, True, horizon)

    on_meter(store, note)


def copy_of(loaded: Command, key_id: str, shop_id: str) -> dict[str, Any]:
    (found,) = [row for row in loaded.json("keys", "show", key_id)["copies"] if row["shopId"] == shop_id]
    return dict(found)


def test_the_state_of_the_copy_is_shown_for_each_shop(loaded: Command, store: Path, key_id: str) -> None:
    now = SystemClock().now_ms()
    read_changes(store, key_id, "sh_1", (0, now - 5 * DAY_MS))
    shown = loaded.json("keys", "show", key_id)["copies"]
    assert {row["shopId"]: row["state"] for row in shown} == {"sh_1": "behind", "sh_2": "never"}
    text = loaded("keys", "show", key_id).stdout
    assert "Riverside (sh_1)  behind by 5 days" in text
    assert "Hillside (sh_2)   never read" in text


def test_a_gap_is_shown_with_the_request_that_closes_it(loaded: Command, store: Path, key_id: str) -> None:
    now = SystemClock().now_ms()
    read_changes(store, key_id, "sh_1", (0, now - 5 * DAY_MS), (now - HOUR_MS, now))
    assert copy_of(loaded, key_id, "sh_1")["state"] == "gap"
    text = loaded("keys", "show", key_id).stdout
    assert "were not read from the list of changes" in text
    assert f"updatedSince={iso_utc(now - 5 * DAY_MS)}" in text


def test_a_first_pass_from_a_mark_is_shown_with_its_start(loaded: Command, store: Path, key_id: str) -> None:
    now = SystemClock().now_ms()
    read_changes(store, key_id, "sh_1", (now - HOUR_MS, now))
    assert copy_of(loaded, key_id, "sh_1")["state"] == "fresh"
    text = loaded("keys", "show", key_id).stdout
    start = minute(now - HOUR_MS)
    assert f"up to date for changes since {start}" in text
    assert f"Riverside (sh_1): Changes before {start} were not read from the list of changes." in text


def test_requests_and_errors_of_the_last_week_are_shown(loaded: Command, store: Path, key_id: str) -> None:
    async def refuse(usage: SqliteUsage) -> None:
        usage.note_refusal(key_id, "rate_limited", SystemClock().now_ms())

    on_meter(store, refuse)
    record_requests(store, request_record(key_id, route="shops", status=400, error="bad_query"))
    shown = loaded.json("keys", "show", key_id)
    assert len(shown["days"]) == 7
    assert (shown["days"][-1]["errors"], shown["days"][-1]["rateLimited"]) == (1, 1)
    assert [(one["error"], one["route"], one["count"]) for one in shown["errors"]] == [("bad_query", "shops", 1)]
    text = loaded("keys", "show", key_id).stdout
    assert "of which 1 failed. This does not include 1 request that was refused" in text
    assert "bad_query" in text


def test_a_key_is_shown_even_if_its_use_cannot_be_read(loaded: Command, store: Path, key_id: str) -> None:
    (store / "usage.sqlite3").write_bytes(b"not a database")
    for left in ("usage.sqlite3-wal", "usage.sqlite3-shm"):
        (store / left).unlink(missing_ok=True)
    result = loaded("keys", "show", key_id)
    assert "ERP" in result.stdout
    assert "the usage of this key cannot be shown" in result.stderr
