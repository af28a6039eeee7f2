"""Tests for `counterfoil shops`, most of them on both back ends."""

import json
import re
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

import servers
from cli.command import Command
from counterfoil import bootstrap
from counterfoil.domain.activity import ShopActivity
from counterfoil.model.calendar import DAY_MS, THAI_TIME, iso
from counterfoil.program.clock import SystemClock
from counterfoil.program.terminal import display_width
from counterfoil.settings import load
from records import Record, bill, branch, shop
from running_service import START_MS

pytestmark = pytest.mark.usefixtures("empty_store")

WEEK_MS = 7 * DAY_MS
HOUR_MS = 3_600_000
# 10 February 2026, 15:00 in Thailand.
NOW = START_MS + 40 * DAY_MS + 8 * HOUR_MS


def ndjson(records: Sequence[Record]) -> bytes:
    return b"\n".join(json.dumps(record).encode() for record in records)


def bills_at(of: Record, *instants: int) -> list[Record]:
    return [bill(of, closedAt=iso(at, THAI_TIME)) for at in instants]


def load_bills(where: str | Path, of: Record, *instants: int) -> None:
    Command(where)("load", "-", stdin=ndjson([of, *bills_at(of, *instants)]))


def seen(where: str | Path, now_ms: int = NOW) -> list[ShopActivity]:
    return bootstrap.store(load({"store": str(where)})).reads().shops(now_ms, count_all=True)


def states(store: Path, *instants: int) -> list[str]:
    """Return the state of the only shop at each of these instants."""
    return [found.state for at in instants for found in seen(store, at)]


def half_hours(opening: int, days: Iterable[int]) -> list[int]:
    """Return the instants of 20 bills on each of these days before a day, every half hour from its opening time."""
    return [opening - day * DAY_MS + half * HOUR_MS // 2 for day in days for half in range(20)]


def test_every_loaded_shop_is_listed_with_what_a_key_needs(where: str) -> None:
    one, other = branch(name="Riverside"), shop(name="Alone")
    load_bills(where, other)
    load_bills(where, one, NOW - 2 * HOUR_MS, NOW - HOUR_MS)
    listed = Command(where).json("shops")
    assert [entry["shopName"] for entry in listed] == ["Riverside", "Alone"]
    names = {"shopId": "id", "franchiseId": "franchiseId", "providerId": "providerId"}
    assert {name: listed[0][name] for name in names} == {name: one[source] for name, source in names.items()}
    assert listed[0]["bills"] == 2
    # All bills are counted only on request.
    uncounted = bootstrap.store(load({"store": where})).reads().shops(NOW, count_all=False)
    assert [found.bills for found in uncounted] == [None, None]
    assert (listed[1]["lastBillAt"], listed[1]["franchiseId"]) == (None, None)


def test_a_removed_shop_is_not_listed(where: str) -> None:
    gone, stays = shop(), shop()
    Command(where)("load", "-", stdin=ndjson([gone, stays, {"kind": "shop", "id": gone["id"], "removed": True}]))
    assert [one.shop_id for one in seen(where)] == [stays["id"]]


def test_today_is_compared_with_the_median_by_this_time_on_the_same_weekday(where: str) -> None:
    earlier = {1: 3, 2: 5, 3: 40, 4: 5}
    instants = [
        NOW - week * WEEK_MS - minute * 60_000 for week, count in earlier.items() for minute in range(1, count + 1)
    ]
    # Bills later in the day, on other weekdays or in the future do not count.
    instants += [NOW - WEEK_MS + HOUR_MS] * 9 + [NOW - 2 * DAY_MS] * 9 + [NOW + 3 * DAY_MS]
    load_bills(where, shop(), *instants, NOW - 60_000, NOW - 120_000)
    (found,) = seen(where)
    assert (found.today, found.usual_by_now, found.last_bill_at) == (2, 5.0, NOW - 60_000)


# The rest of the rule does not depend on the back end, whose statements for it are the same.


def test_a_shop_is_silent_once_it_usually_has_five_bills_in_that_time(store: Path) -> None:
    every_half_hour = [NOW - day * DAY_MS - half * HOUR_MS // 2 for day in range(2, 36) for half in range(10)]
    load_bills(store, shop(), *every_half_hour)
    last = max(every_half_hour)
    # 12 hours later, at night, the shop is closed, so no bills are expected.
    assert "silent" not in states(store, last + HOUR_MS, last + 12 * HOUR_MS)
    assert states(store, last + DAY_MS, last + 20 * DAY_MS) == ["silent", "silent"]
    # After four weeks without bills, the shop counts as closed rather than silent.
    assert states(store, last + 29 * DAY_MS) == ["closed"]


@pytest.mark.parametrize("days", [4, 6, 7, 20])
def test_a_new_shop_that_falls_silent_is_noticed_within_hours_of_its_opening_time(store: Path, days: int) -> None:
    opening = NOW - 5 * HOUR_MS
    load_bills(store, shop(), *half_hours(opening, range(1, days + 1)))
    if days < 7:
        # The first day without bills may be the weekly closing day, because this weekday was never seen.
        assert "silent" not in states(store, *(opening + hour * HOUR_MS for hour in (-1, 4, 14, 23)))
        opening += DAY_MS
    assert "silent" not in states(store, opening - HOUR_MS)
    # It stays silent until it counts as closed, also if it is silent for longer than it had bills.
    later = [opening + 4 * HOUR_MS + day * DAY_MS for day in range(26)]
    assert set(states(store, *later)) == {"silent"}


@pytest.mark.parametrize("days", [5, 14])
@pytest.mark.parametrize("before", ["a test bill", "a wrong year", "trade before a closure"])
def test_bills_long_before_the_present_trade_do_not_hide_that_a_shop_falls_silent(
    store: Path, days: int, before: str
) -> None:
    opening = NOW - 5 * HOUR_MS
    earlier = {
        "a test bill": [opening - 23 * DAY_MS],
        "a wrong year": [opening - 20 * 365 * DAY_MS],
        "trade before a closure": [opening - day * DAY_MS for day in range(50, 80) for _ in range(20)],
    }
    load_bills(store, shop(), *half_hours(opening, range(1, days + 1)), *earlier[before])
    opening += DAY_MS if days < 7 else 0
    assert "silent" not in states(store, opening - HOUR_MS)
    assert states(store, opening + 4 * HOUR_MS) == ["silent"]


@pytest.mark.parametrize("days", [8, 10, 14])
def test_a_new_shop_is_not_silent_on_its_weekly_closing_day(store: Path, days: int) -> None:
    opening = NOW - 5 * HOUR_MS
    load_bills(store, shop(), *half_hours(opening, (day for day in range(1, days + 1) if day % 7)))
    assert set(states(store, *(opening + hour * HOUR_MS for hour in (0, 4, 9, 20)))) == {"open"}
    assert states(store, opening + 30 * HOUR_MS) == ["silent"]


def brought_in(where: str | Path, began_at: int, of: Record, *instants: int) -> None:
    """Load bills as if the load had begun at this time."""
    load_bills(where, of, *instants)
    of_load(where, "UPDATE loads SET started_at = {at} WHERE number = (SELECT max(number) FROM loads)", began_at)


def of_load(where: str | Path, statement: str, at: int) -> None:
    text = statement.format(at=at)
    if str(where).startswith("postgresql:"):
        with psycopg.connect(str(where), options="-c search_path=counterfoil") as books:
            books.execute(text)
        return
    with closing(sqlite3.connect(Path(where) / "books.sqlite3")) as opened:
        opened.execute(text)
        opened.commit()


def test_a_shop_whose_old_bills_were_brought_in_once_is_not_silent(where: str) -> None:
    of, opening = shop(), NOW - 5 * HOUR_MS
    brought_in(where, NOW - DAY_MS, of, *half_hours(opening, range(8, 36)))
    (found,) = seen(where)
    assert (found.state, found.is_silent) == ("imported", False)
    # Another old file on another day changes nothing: no load has brought recent bills.
    brought_in(where, NOW - HOUR_MS, of, *half_hours(opening + HOUR_MS // 4, range(8, 36)))
    assert [one.state for one in seen(where)] == ["imported"]


def test_a_shop_falls_silent_once_loads_have_brought_recent_bills_on_two_days(where: str) -> None:
    of, opening = shop(), NOW - 5 * HOUR_MS
    brought_in(where, opening - 3 * DAY_MS, of, *half_hours(opening, range(4, 36)))
    assert [one.state for one in seen(where)] == ["imported"]
    # Two loads of the same day are one delivery.
    brought_in(where, opening - 3 * DAY_MS + HOUR_MS, of, opening - 4 * DAY_MS + 11 * HOUR_MS)
    assert [one.state for one in seen(where)] == ["imported"]
    brought_in(where, opening - 2 * DAY_MS, of, *half_hours(opening, [3]))
    assert [one.state for one in seen(where)] == ["silent"]


def test_a_shop_whose_loads_are_forgotten_is_silent_if_there_were_two(where: str) -> None:
    of, opening = shop(), NOW - 5 * HOUR_MS
    brought_in(where, NOW - DAY_MS, of, *half_hours(opening, range(8, 36)))
    of_load(where, "DELETE FROM loads WHERE {at} > 0", NOW)
    assert [one.state for one in seen(where)] == ["imported"]
    load_bills(where, of, *half_hours(opening, [7]))
    of_load(where, "UPDATE bills SET load = 900 WHERE closed_at > {at}", opening - 8 * DAY_MS + 12 * HOUR_MS)
    of_load(where, "DELETE FROM loads WHERE {at} > 0", NOW)
    assert [one.state for one in seen(where)] == ["silent"]


def test_a_shop_is_learning_until_three_days_after_its_first_bill(store: Path) -> None:
    load_bills(store, shop(), *[NOW + hour * HOUR_MS // 4 for hour in range(100)])
    shown = [(found.state, found.days_known) for day in (1, 2, 3, 4) for found in seen(store, NOW + day * DAY_MS)]
    assert shown == [("learning", 1), ("learning", 2), ("silent", 3), ("silent", 3)]


@pytest.mark.parametrize(("usual", "state"), [(4, "few"), (2, "open")])
def test_a_shop_with_less_than_half_of_its_usual_bills_is_not_called_usual_if_that_is_not_chance(
    store: Path, usual: int, state: str
) -> None:
    small = shop()
    earlier = [NOW - week * WEEK_MS - minute * 60_000 for week in range(1, 5) for minute in range(1, usual + 1)]
    load_bills(store, small, *earlier, NOW - DAY_MS)
    (found,) = seen(store)
    assert (found.state, found.today, found.usual_by_now, found.usual_since_last) == (state, 0, usual, usual)
    load_bills(store, small, NOW - 60_000, NOW - 120_000)
    assert states(store, NOW) == ["open"]


def test_the_list_shows_the_number_that_makes_a_shop_silent(counterfoil: Command) -> None:
    quiet, now = shop(name="Quiet"), SystemClock().now_ms()
    earlier = [now - week * WEEK_MS - minute * 600_000 for week in range(1, 5) for minute in range(1, 8)]
    brought_in(counterfoil.store, now - WEEK_MS, quiet, *earlier)
    load_bills(counterfoil.store, quiet, now - 2 * HOUR_MS)
    heading, row = counterfoil("shops").stdout.splitlines()
    assert "usual since last bill" in heading
    assert re.search(r"silent +\S+ \S+ \+07 +7 ", row)
    (listed,) = counterfoil.json("shops")
    assert (listed["state"], listed["silent"], listed["usualSinceLastBill"]) == ("silent", True, 7.0)


def test_one_franchise_can_be_listed_and_an_unknown_one_names_those_loaded(counterfoil: Command) -> None:
    first, second = branch(), branch()
    counterfoil("load", "-", stdin=ndjson([first, second]))
    (listed,) = counterfoil.json("shops", "--franchise", first["franchiseId"])
    assert listed["shopId"] == first["id"]
    assert first["franchiseId"] in counterfoil("shops", "--franchise", "nobody", status=1).stderr


def test_columns_stay_aligned_under_thai_names_and_control_characters_are_not_printed(counterfoil: Command) -> None:
    counterfoil("load", "-", stdin=ndjson([shop(name="ที่นี่"), shop(name="a\x1b[2Jb")]))
    lines = counterfoil("shops").stdout.splitlines()
    assert "\x1b" not in "".join(lines)
    assert len({display_width(line[: line.index("no bills")]) for line in lines[1:]}) == 1


def test_a_store_that_cannot_be_read_fails(where: str, store: Path) -> None:
    load_bills(where, shop())
    if where.startswith("postgres"):
        servers.postgres(18).command("ALTER TABLE counterfoil.bills RENAME TO lost", where.rpartition("/")[2])
    else:
        (store / "books.sqlite3").write_bytes(b"not a database" * 100)
    try:
        assert "the store is unavailable" in Command(where)("shops", status=1).stderr
    finally:
        if where.startswith("postgres"):
            servers.postgres(18).command("ALTER TABLE counterfoil.lost RENAME TO bills", where.rpartition("/")[2])
