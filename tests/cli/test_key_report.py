"""`counterfoil keys show` shows the usage of a key and how fresh its copy is, per shop."""

from pathlib import Path
from typing import Any

import pytest

from cli.command import SHOPS, Command, on_meter, record_requests, request_record
from counterfoil.backends.sqlite.usage import SqliteUsage
from counterfoil.domain.calendar import DAY_MS, iso_utc
from counterfoil.domain.request_records import CHANGES_OF_SHOP
from counterfoil.machine.clock import SystemClock
from counterfoil.views.times import minute

HOUR_MS = 3_600_000


@pytest.fixture
def key_id(counterfoil: Command, store: Path) -> str:
    counterfoil("load", "-", stdin=b"\n".join(SHOPS))
    issued: dict[str, Any] = counterfoil.json("keys", "issue", "--franchise", "fr_a", "--label", "ERP")
    return str(issued["keyId"])


def read_changes(store: Path, key_id: str, shop_id: str, *passes: tuple[int, int]) -> None:
    """Record finished passes over the changes of a shop, each with its start and its serverTime."""

    async def note(usage: SqliteUsage) -> None:
        for since, horizon in passes:
            usage.note_page((key_id, CHANGES_OF_SHOP, shop_id), since, horizon, True, horizon)

    on_meter(store, note)


def copy_of(counterfoil: Command, key_id: str, shop_id: str) -> dict[str, Any]:
    (found,) = [row for row in counterfoil.json("keys", "show", key_id)["copies"] if row["shopId"] == shop_id]
    return dict(found)


def test_the_state_of_the_copy_is_shown_for_each_shop(counterfoil: Command, store: Path, key_id: str) -> None:
    now = SystemClock().now_ms()
    read_changes(store, key_id, "sh_1", (0, now - 5 * DAY_MS))
    shown = counterfoil.json("keys", "show", key_id)["copies"]
    assert {row["shopId"]: row["state"] for row in shown} == {"sh_1": "behind", "sh_2": "never"}
    text = counterfoil("keys", "show", key_id).stdout
    assert "Riverside (sh_1)  behind by 5 days" in text
    assert "Hillside (sh_2)   never read" in text


def test_a_gap_is_shown_with_the_request_that_closes_it(counterfoil: Command, store: Path, key_id: str) -> None:
    now = SystemClock().now_ms()
    read_changes(store, key_id, "sh_1", (0, now - 5 * DAY_MS), (now - HOUR_MS, now))
    assert copy_of(counterfoil, key_id, "sh_1")["state"] == "gap"
    text = counterfoil("keys", "show", key_id).stdout
    assert "were not read from the list of changes" in text
    assert f"updatedSince={iso_utc(now - 5 * DAY_MS)}" in text


def test_a_first_pass_from_a_mark_is_shown_with_its_start(counterfoil: Command, store: Path, key_id: str) -> None:
    now = SystemClock().now_ms()
    read_changes(store, key_id, "sh_1", (now - HOUR_MS, now))
    assert copy_of(counterfoil, key_id, "sh_1")["state"] == "fresh"
    text = counterfoil("keys", "show", key_id).stdout
    start = minute(now - HOUR_MS)
    assert f"up to date for changes since {start}" in text
    assert f"Riverside (sh_1): Changes before {start} were not read from the list of changes." in text


def test_requests_and_errors_of_the_last_week_are_shown(counterfoil: Command, store: Path, key_id: str) -> None:
    async def refuse(usage: SqliteUsage) -> None:
        usage.note_refusal(key_id, "rate_limited", SystemClock().now_ms())

    on_meter(store, refuse)
    record_requests(store, request_record(key_id, route="shops", status=400, error="bad_query"))
    shown = counterfoil.json("keys", "show", key_id)
    assert len(shown["days"]) == 7
    assert (shown["days"][-1]["errors"], shown["days"][-1]["rateLimited"]) == (1, 1)
    assert [(one["error"], one["route"], one["count"]) for one in shown["errors"]] == [("bad_query", "shops", 1)]
    text = counterfoil("keys", "show", key_id).stdout
    assert "of which 1 failed. This does not include 1 request that was refused" in text
    assert "bad_query" in text


def test_a_key_is_shown_even_if_its_use_cannot_be_read(counterfoil: Command, store: Path, key_id: str) -> None:
    (store / "usage.sqlite3").write_bytes(b"not a database")
    for left in ("usage.sqlite3-wal", "usage.sqlite3-shm"):
        (store / left).unlink(missing_ok=True)
    result = counterfoil("keys", "show", key_id)
    assert "ERP" in result.stdout
    assert "the usage of this key cannot be shown" in result.stderr
