"""Tests for `counterfoil requests`."""

import csv
import json
from pathlib import Path

import pytest
from click import unstyle

from cli.command import Command, record_requests, request_record

HOUR_MS = 3_600_000


@pytest.fixture
def key_id(counterfoil: Command) -> str:
    return str(counterfoil.json("keys", "issue", "--shop", "sh_1")["keyId"])


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
    always = {"time", "request id", "key id", "route", "status", "took ms", "personal members"}
    assert shown.keys() == always | {"parameters", "shop id", "rows", "last page"}
    shown = dict(line.split("  ", 1) for line in counterfoil("requests", "r-2").stdout.splitlines())
    assert shown.keys() == always | {"error", "message"}
    assert shown["message"].strip() == "The limit is too high."


def test_errors_that_leave_no_record_cannot_be_asked_for(counterfoil: Command) -> None:
    counterfoil("init")
    assert "rate_limited" in counterfoil("requests", "--error", "rate_limited", status=2).stderr
    assert "`counterfoil usage`" in counterfoil("requests", "unknown").stderr


def test_options_select_requests(counterfoil: Command, store: Path, key_id: str) -> None:
    other = str(counterfoil.json("keys", "issue", "--shop", "sh_2")["keyId"])
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
    assert line.split()[2:] == ["+07", "200", "12.3", "transactions", key_id, "-", "r-1", "-"]
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
