"""Tests for `counterfoil shops`, most of them on both back ends."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import servers
from cli.command import Command
from counterfoil import bootstrap
from counterfoil.cli.main import program
from counterfoil.cli.terminal import display_width
from counterfoil.domain.activity import ShopActivity
from counterfoil.domain.calendar import DAY_MS, THAI_TIME, iso
from counterfoil.machine.clock import SystemClock
from counterfoil.settings import load
from records import Record, bill, branch, shop
from running_service import backend_settings

SECRET = "a deployment secret for tests only, long enough"
WEEK_MS = 7 * DAY_MS
HOUR_MS = 3_600_000
# 10 February 2026, 15:00 in Thailand.
NOW = 1_767_225_600_000 + 40 * DAY_MS + 8 * HOUR_MS


def ndjson(records: Sequence[Record]) -> bytes:
    return b"\n".join(json.dumps(record).encode() for record in records)


def bills_at(of: Record, *instants: int) -> list[Record]:
    return [bill(of, closedAt=iso(at, THAI_TIME)) for at in instants]


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of an empty store, on each back end in turn."""
    monkeypatch.setenv("COUNTERFOIL_SECRET", SECRET)
    with backend_settings(request.param) as place:
        yield place.get("store", str(store))


def run(where: str, *words: str, stdin: bytes | None = None, status: int = 0) -> Any:
    result = CliRunner().invoke(program, [*words, "--store", where], input=stdin)
    assert result.exit_code == status, result.output
    return result


def seen(where: str, now_ms: int = NOW) -> list[ShopActivity]:
    return bootstrap.store(load({"store": where})).reads().shops(now_ms, count_all=True)


def test_every_loaded_shop_is_listed_with_what_a_key_needs(where: str) -> None:
    one, other = branch(name="Riverside"), shop(name="Alone")
    run(where, "load", "-", stdin=ndjson([other, one, *bills_at(one, NOW - 2 * HOUR_MS, NOW - HOUR_MS)]), status=0)
    listed = json.loads(run(where, "shops", "--json").stdout)
    assert [entry["shopName"] for entry in listed] == ["Riverside", "Alone"]
    assert {name: listed[0][name] for name in ("shopId", "franchiseId", "providerId", "bills")} == {
        "shopId": one["id"],
        "franchiseId": one["franchiseId"],
        "providerId": one["providerId"],
        "bills": 2,
    }
    assert listed[1]["lastBillAt"] is None
    assert listed[1]["franchiseId"] is None


def test_a_removed_shop_is_not_listed(where: str) -> None:
    gone, stays = shop(), shop()
    run(where, "load", "-", stdin=ndjson([gone, stays, {"kind": "shop", "id": gone["id"], "removed": True}]))
    assert [one.shop_id for one in seen(where)] == [stays["id"]]


def test_today_is_compared_with_the_median_by_this_time_on_the_same_weekday(where: str) -> None:
    busy = shop()
    earlier = {1: 3, 2: 5, 3: 40, 4: 5}
    instants = [
        NOW - week * WEEK_MS - minute * 60_000 for week, count in earlier.items() for minute in range(1, count + 1)
    ]
    # Bills later in the day or on other weekdays do not count.
    instants += [NOW - WEEK_MS + HOUR_MS] * 9 + [NOW - 2 * DAY_MS] * 9
    run(where, "load", "-", stdin=ndjson([busy, *bills_at(busy, *instants, NOW - 60_000, NOW - 120_000)]))
    (found,) = seen(where)
    assert (found.today, found.usual_by_now, found.last_bill_at) == (2, 5.0, NOW - 60_000)


def test_a_shop_is_silent_once_it_usually_has_five_bills_in_that_time(where: str) -> None:
    regular = shop()
    every_half_hour = [NOW - day * DAY_MS - half * HOUR_MS // 2 for day in range(2, 36) for half in range(10)]
    run(where, "load", "-", stdin=ndjson([regular, *bills_at(regular, *every_half_hour)]))
    last = max(every_half_hour)
    assert not seen(where, last + HOUR_MS)[0].is_silent
    # The shop is closed at this time of night, so no bills are expected.
    assert not seen(where, last + 12 * HOUR_MS)[0].is_silent
    assert seen(where, last + DAY_MS)[0].is_silent
    assert seen(where, last + 20 * DAY_MS)[0].is_silent
    # After four weeks without bills, the shop counts as closed rather than silent.
    assert not seen(where, last + 29 * DAY_MS)[0].is_silent


@pytest.mark.parametrize("days", [4, 6, 7, 20])
def test_a_new_shop_that_falls_silent_is_noticed_within_hours_of_its_opening_time(where: str, days: int) -> None:
    new, opening = shop(), NOW - 5 * HOUR_MS
    bills = [opening - day * DAY_MS + half * HOUR_MS // 2 for day in range(1, days + 1) for half in range(20)]
    run(where, "load", "-", stdin=ndjson([new, *bills_at(new, *bills)]))
    if days < 7:
        # The first day without bills may be the weekly closing day, because this weekday was never seen.
        assert {seen(where, opening + hour * HOUR_MS)[0].is_silent for hour in (-1, 4, 14, 23)} == {False}
        opening += DAY_MS
    assert [seen(where, opening - HOUR_MS)[0].is_silent, seen(where, opening + 4 * HOUR_MS)[0].is_silent] == [
        False,
        True,
    ]
    # It stays silent until it counts as closed, also if it is silent for longer than it had bills.
    assert {seen(where, opening + 4 * HOUR_MS + later * DAY_MS)[0].state for later in range(1, 26)} == {"silent"}


@pytest.mark.parametrize("days", [5, 14])
@pytest.mark.parametrize("before", ["a test bill", "a wrong year", "trade before a closure"])
def test_bills_long_before_the_present_trade_do_not_hide_that_a_shop_falls_silent(
    where: str, days: int, before: str
) -> None:
    new, opening = shop(), NOW - 5 * HOUR_MS
    bills = [opening - day * DAY_MS + half * HOUR_MS // 2 for day in range(1, days + 1) for half in range(20)]
    bills += {
        "a test bill": [opening - 23 * DAY_MS],
        "a wrong year": [opening - 20 * 365 * DAY_MS],
        "trade before a closure": [opening - day * DAY_MS for day in range(50, 80) for _ in range(20)],
    }[before]
    run(where, "load", "-", stdin=ndjson([new, *bills_at(new, *bills)]))
    opening += DAY_MS if days < 7 else 0
    assert [seen(where, opening - HOUR_MS)[0].is_silent, seen(where, opening + 4 * HOUR_MS)[0].is_silent] == [
        False,
        True,
    ]


@pytest.mark.parametrize("days", [8, 10, 14])
def test_a_new_shop_is_not_silent_on_its_weekly_closing_day(where: str, days: int) -> None:
    new, opening = shop(), NOW - 5 * HOUR_MS
    bills = [
        opening - day * DAY_MS + half * HOUR_MS // 2 for day in range(1, days + 1) if day % 7 for half in range(20)
    ]
    run(where, "load", "-", stdin=ndjson([new, *bills_at(new, *bills)]))
    assert {seen(where, opening + hour * HOUR_MS)[0].state for hour in (0, 4, 9, 20)} == {"open"}
    assert seen(where, opening + 30 * HOUR_MS)[0].state == "silent"


def test_a_shop_is_learning_until_three_days_after_its_first_bill(where: str) -> None:
    new = shop()
    run(where, "load", "-", stdin=ndjson([new, *bills_at(new, *[NOW + hour * HOUR_MS // 4 for hour in range(100)])]))
    shown = [(found.state, found.days_known) for day in (1, 2, 3, 4) for found in seen(where, NOW + day * DAY_MS)]
    assert shown == [("learning", 1), ("learning", 2), ("silent", 3), ("silent", 3)]


@pytest.mark.parametrize(("usual", "state"), [(4, "few"), (2, "open")])
def test_a_shop_with_less_than_half_of_its_usual_bills_is_not_called_usual_if_that_is_not_chance(
    where: str, usual: int, state: str
) -> None:
    small = shop()
    earlier = [NOW - week * WEEK_MS - minute * 60_000 for week in range(1, 5) for minute in range(1, usual + 1)]
    run(where, "load", "-", stdin=ndjson([small, *bills_at(small, *earlier, NOW - DAY_MS)]))
    (found,) = seen(where)
    assert (found.state, found.today, found.usual_by_now, found.usual_since_last) == (state, 0, usual, usual)
    run(where, "load", "-", stdin=ndjson(bills_at(small, NOW - 60_000, NOW - 120_000)))
    assert seen(where)[0].state == "open"


def test_the_list_shows_the_number_that_makes_a_shop_silent(counterfoil: Command) -> None:
    quiet, now = shop(name="Quiet"), SystemClock().now_ms()
    earlier = [now - week * WEEK_MS - minute * 600_000 for week in range(1, 5) for minute in range(1, 8)]
    counterfoil("load", "-", stdin=ndjson([quiet, *bills_at(quiet, *earlier, now - 2 * HOUR_MS)]))
    heading, row = counterfoil("shops").stdout.splitlines()
    assert "usual since last bill" in heading
    assert re.search(r"silent +\S+ \S+ \+07 +7 ", row)
    (listed,) = counterfoil.json("shops")
    assert (listed["state"], listed["silent"], listed["usualSinceLastBill"]) == ("silent", True, 7.0)


def test_a_bill_from_the_future_does_not_hide_the_last_one(where: str) -> None:
    odd = shop()
    run(where, "load", "-", stdin=ndjson([odd, *bills_at(odd, NOW - HOUR_MS, NOW + 3 * DAY_MS)]))
    assert seen(where)[0].last_bill_at == NOW - HOUR_MS


def test_one_franchise_can_be_listed_and_an_unknown_one_names_those_loaded(counterfoil: Command) -> None:
    first, second = branch(), branch()
    counterfoil("load", "-", stdin=ndjson([first, second]))
    (listed,) = counterfoil.json("shops", "--franchise", first["franchiseId"])
    assert listed["shopId"] == first["id"]
    assert first["franchiseId"] in counterfoil("shops", "--franchise", "nobody", status=1).stderr


def test_an_empty_store_gets_a_note_and_a_missing_one_is_not_created(counterfoil: Command, store: Path) -> None:
    assert "there is no store" in counterfoil("shops", status=1).stderr
    assert not store.exists()
    counterfoil("init")
    result = counterfoil("shops")
    assert (result.stdout, "no shops are loaded yet" in result.stderr) == ("", True)
    assert counterfoil.json("shops") == []


def test_columns_stay_aligned_under_thai_names_and_control_characters_are_not_printed(counterfoil: Command) -> None:
    counterfoil("load", "-", stdin=ndjson([shop(name="ที่นี่"), shop(name="a\x1b[2Jb")]))
    lines = counterfoil("shops").stdout.splitlines()
    assert "\x1b" not in "".join(lines)
    assert len({display_width(line[: line.index("no bills")]) for line in lines[1:]}) == 1


def test_a_store_that_cannot_be_read_fails(where: str, store: Path) -> None:
    run(where, "load", "-", stdin=ndjson([shop()]))
    if where.startswith("postgres"):
        servers.postgres(18).command("ALTER TABLE counterfoil.bills RENAME TO lost", where.rpartition("/")[2])
        try:
            assert "the store is unavailable" in run(where, "shops", status=1).stderr
        finally:
            servers.postgres(18).command("ALTER TABLE counterfoil.lost RENAME TO bills", where.rpartition("/")[2])
    else:
        (store / "books.sqlite3").write_bytes(b"not a database" * 100)
        assert "the store is unavailable" in run(where, "shops", status=1).stderr


def test_all_bills_are_counted_only_on_request(where: str) -> None:
    one = shop()
    run(where, "load", "-", stdin=ndjson([one, *bills_at(one, NOW)]))
    (found,) = bootstrap.store(load({"store": where})).reads().shops(NOW, count_all=False)
    assert found.bills is None
