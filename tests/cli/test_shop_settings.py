"""Tests for `counterfoil shops set`: what it shows, what it changes, and what later loads leave as it is."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.command import Command
from counterfoil import bootstrap
from counterfoil.model.calendar import quiet_closing
from counterfoil.settings import load
from records import Record, base, bill, branch, member, shop

pytestmark = pytest.mark.usefixtures("empty_store")

AFTER_MIDNIGHT = "2026-01-02T00:30:00+07:00"


def put(where: str | Path, *records: Record) -> dict[str, Any]:
    lines = b"\n".join(json.dumps(record).encode() for record in records)
    return dict(Command(where).json("load", "-", stdin=lines))


def bare_shop(**fields: Any) -> Record:
    """Return a shop as an export names it: without a franchise and a closing time."""
    named = shop(**fields)
    return {name: named[name] for name in ("kind", "id", "name", *fields)}


def stored(where: str | Path, of: Record, *bills: Record) -> list[dict[str, Any]]:
    """Return bills of a shop as the API would serve them."""
    reads = bootstrap.store(load({"store": str(where)})).reads()
    found = reads.stored_bills(of["id"], [each["id"] for each in bills])
    return [json.loads(found[each["id"]].body) for each in bills]


def settings_of(where: str | Path, *shops: Record) -> list[tuple[str | None, str | None, str | None]]:
    listed = {each["shopId"]: each for each in Command(where).json("shops")}
    found = [listed[each["id"]] for each in shops]
    return [(each["franchiseId"], each["closingTime"], each["timezone"]) for each in found]


def test_a_closing_time_that_is_set_later_moves_a_sale_after_midnight_to_the_evening_before(where: str) -> None:
    riverside = bare_shop()
    sale = bill(riverside, closedAt=AFTER_MIDNIGHT)
    put(where, riverside, sale)
    [before] = stored(where, riverside, sale)
    result = Command(where)("shops", "set", riverside["id"], "--closing-time", "4:00", "--yes")
    assert "closing time none -> 04:00" in result.output
    [after] = stored(where, riverside, sale)
    assert (before["businessDate"], after["businessDate"]) == (None, "2026-01-01")
    # A copy learns of it.
    assert after["updatedAt"] > before["updatedAt"]


def test_shops_that_join_a_franchise_are_read_by_its_key_and_the_preview_says_so(where: str) -> None:
    own, others = branch(), [bare_shop(), bare_shop(providerId="base-of-others")]
    joins = [each["id"] for each in others]
    put(where, own, *others)
    franchise = own["franchiseId"]
    key = Command(where).json("keys", "issue", "--franchise", franchise, "--label", "ERP")["keyId"]
    shown = Command(where).json("shops", "set", *joins, "--franchise", franchise, "--check")
    [effect] = shown["keys"]
    assert (effect["keyId"], effect["gains"], effect["gainsBases"]) == (key, sorted(joins), ["base-of-others"])
    assert [each[0] for each in settings_of(where, *others)] == [None, None]
    result = Command(where)("shops", "set", *joins, "--franchise", franchise, "--yes")
    assert f"key {key} (ERP) gains 2 shops ({', '.join(sorted(joins))}), gains the members of 1 base" in result.output
    assert [each[0] for each in settings_of(where, *others)] == [franchise, franchise]
    # A key of the franchise that a shop leaves loses it.
    left = Command(where).json("shops", "set", joins[0], "--franchise", "another", "--yes")
    assert [(effect["keyId"], effect["loses"]) for effect in left["keys"]] == [(key, [joins[0]])]


def test_what_was_set_stays_when_the_record_of_the_shop_is_loaded_again(where: str) -> None:
    riverside = bare_shop(timezone="Asia/Tokyo")
    sale = bill(riverside, closedAt=AFTER_MIDNIGHT)
    put(where, riverside, sale)
    Command(where)("shops", "set", riverside["id"], "--franchise", "f", "--closing-time", "03:00", "--yes")
    assert put(where, riverside)["unchanged"] == 1
    assert put(where, riverside | {"name": "Renamed", "closingTime": "01:00", "franchiseId": "g"})["changed"] == 1
    assert settings_of(where, riverside) == [("f", "03:00", "Asia/Tokyo")]
    # Its bills are loaded under what was set, too.
    later = bill(riverside, closedAt="2026-01-05T00:30:00+09:00")
    put(where, later)
    assert [each["businessDate"] for each in stored(where, riverside, sale, later)] == ["2026-01-01", "2026-01-04"]
    Command(where)("shops", "set", riverside["id"], "--reset", "franchise", "--reset", "closing-time", "--yes")
    assert settings_of(where, riverside) == [("g", "01:00", "Asia/Tokyo")]


def test_a_removed_shop_that_is_loaded_again_has_what_was_set(counterfoil: Command) -> None:
    riverside = bare_shop()
    put(counterfoil.store, riverside)
    counterfoil("shops", "set", riverside["id"], "--closing-time", "03:00", "--yes")
    put(counterfoil.store, {"kind": "shop", "id": riverside["id"], "removed": True})
    refused = counterfoil("shops", "set", riverside["id"], "--closing-time", "05:00", "--yes", status=2)
    assert "not loaded" in refused.output
    put(counterfoil.store, riverside)
    assert settings_of(counterfoil.store, riverside)[0][1] == "03:00"


def test_setting_the_same_again_changes_nothing(where: str) -> None:
    riverside = bare_shop()
    sale = bill(riverside)
    put(where, riverside, sale)
    change = ("shops", "set", riverside["id"], "--closing-time", "04:00", "--franchise", "f", "--yes")
    Command(where)(*change)
    before = stored(where, riverside, sale)
    assert "already have these settings" in Command(where)(*change).output
    assert stored(where, riverside, sale) == before
    entries = [entry for entry in Command(where).json("audit") if entry["act"] == "shop_changed"]
    [entry] = entries
    assert entry["detail"] == f"{riverside['id']}: franchiseId none -> f, closingTime none -> 04:00"
    assert entry["changes"]["closingTime"] == {"before": None, "after": "04:00"}


def test_missing_values_are_set_for_the_shops_that_have_none(counterfoil: Command) -> None:
    early, bare, other = shop(closingTime="22:30"), bare_shop(), bare_shop(franchiseId="f")
    put(counterfoil.store, early, bare, other)
    counterfoil("shops", "set", "--missing", "--closing-time", "04:00", "--franchise", "all", "--yes")
    found = [each[:2] for each in settings_of(counterfoil.store, early, bare, other)]
    assert found == [("all", "22:30"), ("all", "04:00"), ("f", "04:00")]
    counterfoil("shops", "set", "--all", "--closing-time", "05:00", "--yes")
    assert {each[1] for each in settings_of(counterfoil.store, early, bare, other)} == {"05:00"}


def test_a_change_in_vain_writes_no_bill_again(counterfoil: Command) -> None:
    riverside = shop()
    sale = bill(riverside)
    put(counterfoil.store, riverside, sale)
    before = stored(counterfoil.store, riverside, sale)
    # The record says the same, so this only keeps the value.
    counterfoil("shops", "set", riverside["id"], "--closing-time", "02:00", "--yes")
    assert stored(counterfoil.store, riverside, sale) == before
    put(counterfoil.store, riverside | {"closingTime": "05:00"})
    assert settings_of(counterfoil.store, riverside)[0][1] == "02:00"
    assert stored(counterfoil.store, riverside, sale) == before


def test_members_of_a_shop_do_not_change_with_its_settings(counterfoil: Command) -> None:
    riverside = branch()
    of_base = member(riverside)
    put(counterfoil.store, riverside, base(riverside), of_base)
    counterfoil("shops", "set", riverside["id"], "--franchise", "f", "--yes")
    assert put(counterfoil.store, of_base)["unchanged"] == 1


def bases_of(where: str | Path, *shops: Record) -> list[str | None]:
    listed = {found["shopId"]: found["providerId"] for found in Command(where).json("shops")}
    return [listed[asked["id"]] for asked in shops]


def test_shops_that_get_a_base_give_its_members_to_their_keys(where: str) -> None:
    club, riverside, lakeside = branch(), bare_shop(), bare_shop()
    base_id = club["providerId"]
    put(where, base(club), riverside, lakeside, bill(riverside))
    key = Command(where).json("keys", "issue", "--shop", riverside["id"], "--label", "CRM")["keyId"]
    result = Command(where)("shops", "set", "--missing", "--base", base_id, "--yes")
    assert f"base none -> {base_id}" in result.output
    assert f"key {key} (CRM) gains the members of 1 base ({base_id})" in result.output
    # No bill has the base.
    assert "rewritten" not in result.output
    assert bases_of(where, riverside, lakeside) == [base_id, base_id]


def test_a_base_that_was_set_stays_until_it_is_reset(where: str) -> None:
    club, riverside = branch(), bare_shop(providerId="old-club")
    put(where, base(club), riverside)
    Command(where)("shops", "set", riverside["id"], "--base", club["providerId"], "--yes")
    assert put(where, riverside)["unchanged"] == 1
    put(where, riverside | {"name": "Renamed", "providerId": "new-club"})
    assert bases_of(where, riverside) == [club["providerId"]]
    Command(where)("shops", "set", riverside["id"], "--reset", "base", "--yes")
    assert bases_of(where, riverside) == ["new-club"]


def test_a_shop_keeps_the_base_of_its_record_when_something_else_is_set(where: str) -> None:
    riverside = bare_shop(providerId="club")
    put(where, riverside)
    Command(where)("shops", "set", riverside["id"], "--franchise", "f", "--yes")
    assert bases_of(where, riverside) == ["club"]
    put(where, riverside | {"providerId": "other-club"})
    assert bases_of(where, riverside) == ["other-club"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--yes"], "Nothing to set"),
        (["--all", "--closing-time", "25:00", "--yes"], "'25:00' is not a closing time"),
        (["--all", "--closing-time", "", "--yes"], "'' is not a closing time"),
        (["--all", "--timezone", "Bangkok", "--yes"], "'Bangkok' is not a time zone"),
        (["--all", "--franchise", " ", "--yes"], "cannot be the ID of a franchise"),
        (["--all", "--base", "club", "--yes"], "no membership base club is loaded. Loaded bases: none"),
        (["--franchise", "f", "--yes"], "Name the IDs of the shops"),
        (["--all", "--missing", "--franchise", "f", "--yes"], "Name the IDs of the shops"),
        (["nowhere", "--franchise", "f", "--yes"], "not loaded: nowhere"),
        (["--all", "--franchise", "f", "--reset", "franchise", "--yes"], "Use either --franchise or --reset franchise"),
        (["--missing", "--reset", "franchise", "--yes"], "--missing sets values"),
        (["--all", "--franchise", "f"], "needs --yes"),
    ],
)
def test_a_wrong_change_says_what_is_wrong_and_changes_nothing(
    counterfoil: Command, options: list[str], problem: str
) -> None:
    riverside = bare_shop()
    put(counterfoil.store, riverside)
    assert problem in counterfoil("shops", "set", *options, status=2).output
    assert settings_of(counterfoil.store, riverside) == [(None, None, None)]


def test_status_says_how_many_bills_have_no_business_day_and_the_command_that_repairs_it(where: str) -> None:
    riverside, lakeside = bare_shop(), shop()
    sales = [bill(riverside, closedAt=f"2026-01-02T{hour:02}:30:00+07:00") for hour in (0, 1, 12, 20, 23)]
    recorded = bill(riverside, tradingDay="2026-01-01")
    undated = bill(lakeside, closedAt=None)
    loaded = put(where, riverside, lakeside, *sales, recorded, undated)
    assert loaded["totals"]["withoutBusinessDay"] == {riverside["id"]: len(sales)}
    assert loaded["proposedClosingTime"] == "04:00"
    [finding] = business_day_findings(where)
    assert (
        finding["message"]
        == f"{len(sales)} bills without a business day, because the shop has no closing time: Riverside."
    )
    command = "counterfoil shops set --missing --closing-time 04:00"
    assert finding["advice"] == f"Set when the business day ends: `{command}`."
    Command(where)(*command.split()[1:], "--yes")
    assert business_day_findings(where) == []


def business_day_findings(where: str | Path) -> list[dict[str, Any]]:
    found = Command(where).json("status", status=None)["checks"]
    return [each for each in found if "business day" in each["message"]]


@pytest.mark.parametrize(
    ("hours", "closing"),
    [
        ({12: 5, 20: 9}, "04:00"),
        ({18: 9, 23: 9, 0: 9, 2: 4, 3: 2}, "05:00"),
        ({3: 1, 4: 1, 5: 1, 12: 400}, "02:00"),
        # Around the clock, the bills do not show when a day ends.
        (dict.fromkeys(range(24), 5), None),
        # One stray in many is no reason not to propose an hour.
        (dict.fromkeys(range(24), 1) | dict.fromkeys(range(10, 23), 200), "04:00"),
        ({}, None),
    ],
)
def test_a_closing_time_is_proposed_in_hours_in_which_next_to_nothing_is_sold(
    hours: dict[int, int], closing: str | None
) -> None:
    assert quiet_closing(hours) == closing
