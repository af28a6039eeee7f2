"""GET /v1/shops: the branches in the key's scope, each with its category list."""

import re
from typing import Any

import pytest

from house import House
from records import base, branch, fresh, removal, shop

FIELDS = ["shopId", "shopName", "franchiseId", "providerId", "timezone", "categories"]
CATEGORY_FIELDS = ["id", "name", "level", "parentId", "hidden"]


def listed(house: House, record: dict[str, Any]) -> dict[str, Any]:
    """The shop as its own key reads it."""
    house.load(record)
    (found,) = house.data("shops", house.key(shop=record["id"]))
    row: dict[str, Any] = found
    return row


def categories(house: House, *records: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = listed(house, shop(categories=list(records)))["categories"]
    return found


# --- the answer ----------------------------------------------------------------


def test_the_answer_is_ok_data_and_server_time_and_nothing_else(town: House) -> None:
    body = town.get("shops", town.key(shop="anywhere")).json()
    assert list(body) == ["ok", "data", "serverTime"]
    assert body["ok"] is True


def test_server_time_is_utc_with_a_z_and_milliseconds(town: House) -> None:
    body = town.get("shops", town.key(shop="anywhere")).json()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", body["serverTime"])


def test_a_shop_has_exactly_the_contracts_fields(town: House) -> None:
    assert list(listed(town, branch())) == FIELDS


def test_a_shop_is_returned_as_it_was_recorded(town: House) -> None:
    record = branch(name="ร้านริมน้ำ", timezone="Asia/Tokyo", categories=[{"id": "c1", "name": "Soups"}])
    assert listed(town, record) == {
        "shopId": record["id"],
        "shopName": "ร้านริมน้ำ",
        "franchiseId": record["franchiseId"],
        "providerId": record["providerId"],
        "timezone": "Asia/Tokyo",
        "categories": [{"id": "c1", "name": "Soups", "level": 1, "parentId": None, "hidden": False}],
    }


def test_a_shop_of_which_only_the_id_is_known_has_nulls_and_an_empty_list(town: House) -> None:
    record = {"kind": "shop", "id": fresh("shop")}
    assert listed(town, record) == {
        "shopId": record["id"],
        "shopName": None,
        "franchiseId": None,
        "providerId": None,
        "timezone": None,
        "categories": [],
    }


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", 7, None])
def test_a_time_zone_that_does_not_exist_is_null(town: House, zone: object) -> None:
    assert listed(town, shop(timezone=zone))["timezone"] is None


def test_a_renamed_shop_shows_its_new_name(town: House) -> None:
    record = shop(name="Old name")
    town.load(record)
    assert listed(town, record | {"name": "New name"})["shopName"] == "New name"


@pytest.mark.parametrize("shop_id", ["UPPER-lower", "with space", "ร้าน", "a/b?c#d&e=f", "x" * 300, "0007"])
def test_an_identifier_keeps_its_case_length_and_letters(town: House, shop_id: str) -> None:
    assert listed(town, shop(id=shop_id))["shopId"] == shop_id


# --- scope ---------------------------------------------------------------------


def test_a_shops_key_lists_exactly_its_own_shop(town: House) -> None:
    mine, neighbour = branch(), branch(franchiseId="same")
    town.load(mine | {"franchiseId": "same"}, neighbour)
    assert [row["shopId"] for row in town.data("shops", town.key(shop=mine["id"]))] == [mine["id"]]


def test_a_franchises_key_lists_every_branch_of_it_and_no_other(town: House) -> None:
    franchise = fresh("franchise")
    branches = [branch(franchiseId=franchise) for _ in range(3)]
    town.load(*branches, branch(), shop())
    rows = town.data("shops", town.key(franchise=franchise))
    assert [row["shopId"] for row in rows] == [record["id"] for record in branches]


def test_branches_come_in_the_same_order_every_time(town: House) -> None:
    franchise = fresh("franchise")
    branches = [branch(franchiseId=franchise) for _ in range(5)]
    town.load(*branches)
    key = town.key(franchise=franchise)
    before = [row["shopId"] for row in town.data("shops", key)]
    town.load(*[record | {"name": "Renamed"} for record in reversed(branches)])
    assert [row["shopId"] for row in town.data("shops", key)] == before


def test_a_franchise_without_branches_has_an_empty_list(town: House) -> None:
    assert town.data("shops", town.key(franchise="nobody's")) == []


def test_a_removed_branch_is_skipped(town: House) -> None:
    franchise = fresh("franchise")
    stays, goes = branch(franchiseId=franchise), branch(franchiseId=franchise)
    town.load(stays, goes, removal(goes))
    rows = town.data("shops", town.key(franchise=franchise))
    assert [row["shopId"] for row in rows] == [stays["id"]]


def test_the_key_of_a_removed_shop_gets_an_empty_list(town: House) -> None:
    gone = shop()
    town.load(gone, removal(gone))
    assert town.data("shops", town.key(shop=gone["id"])) == []


def test_a_shop_that_was_removed_and_comes_back_is_listed_again(town: House) -> None:
    record = shop()
    town.load(record, removal(record))
    assert listed(town, record)["shopId"] == record["id"]


def test_a_branch_that_changes_its_franchise_changes_its_list(town: House) -> None:
    old, new = fresh("franchise"), fresh("franchise")
    record = branch(franchiseId=old)
    town.load(record, record | {"franchiseId": new})
    listings = [town.data("shops", town.key(franchise=franchise)) for franchise in (old, new)]
    assert [len(rows) for rows in listings] == [0, 1]


def test_branches_of_two_franchises_may_share_a_membership_base(town: House) -> None:
    one, other = branch(), branch()
    town.load(one, other | {"providerId": one["providerId"]}, base(one))
    rows = town.data("shops", town.key(shop=other["id"]))
    assert (rows[0]["franchiseId"], rows[0]["providerId"]) == (other["franchiseId"], one["providerId"])


def test_branches_of_one_franchise_may_have_different_bases(town: House) -> None:
    franchise = fresh("franchise")
    branches = [branch(franchiseId=franchise), branch(franchiseId=franchise)]
    town.load(*branches)
    rows = town.data("shops", town.key(franchise=franchise))
    assert [row["providerId"] for row in rows] == [record["providerId"] for record in branches]


# --- never paginated -------------------------------------------------------------


def test_all_branches_come_in_one_answer_however_many(town: House) -> None:
    franchise = fresh("franchise")
    town.load(*[branch(franchiseId=franchise) for _ in range(230)])
    assert len(town.data("shops", town.key(franchise=franchise))) == 230


@pytest.mark.parametrize(
    "query", [{"limit": 1}, {"cursor": "x"}, {"limit": 1, "cursor": ""}, {"updatedSince": "x"}, {"page": 2}]
)
def test_no_parameter_shortens_the_list(town: House, query: dict[str, Any]) -> None:
    franchise = fresh("franchise")
    town.load(branch(franchiseId=franchise), branch(franchiseId=franchise))
    assert len(town.data("shops", town.key(franchise=franchise), **query)) == 2


def test_a_shop_id_in_the_request_neither_widens_nor_narrows_the_list(town: House) -> None:
    mine, other = shop(), shop()
    town.load(mine, other)
    rows = town.data("shops", town.key(shop=mine["id"]), shopId=other["id"])
    assert [row["shopId"] for row in rows] == [mine["id"]]


# --- categories --------------------------------------------------------------------


def test_a_category_has_exactly_the_contracts_fields(town: House) -> None:
    (category,) = categories(town, {"id": "c1", "name": "Soups"})
    assert list(category) == CATEGORY_FIELDS


def test_categories_are_flat_by_level_and_then_as_the_shop_arranged_them(town: House) -> None:
    arranged = [
        {"id": "b1", "parentId": "b"},
        {"id": "b", "name": "B"},
        {"id": "b1x", "parentId": "b1"},
        {"id": "a1", "parentId": "a"},
        {"id": "a", "name": "A"},
    ]
    assert [(row["id"], row["level"]) for row in categories(town, *arranged)] == [
        ("b", 1),
        ("a", 1),
        ("b1", 2),
        ("a1", 2),
        ("b1x", 3),
    ]


def test_a_hidden_category_is_listed_as_hidden(town: House) -> None:
    (category,) = categories(town, {"id": "c1", "hidden": True})
    assert category["hidden"] is True


def test_a_parent_that_was_deleted_is_still_pointed_at(town: House) -> None:
    (category,) = categories(town, {"id": "c1", "parentId": "gone"})
    assert (category["parentId"], category["level"]) == ("gone", None)


def test_a_top_level_category_has_no_parent(town: House) -> None:
    (category,) = categories(town, {"id": "c1"})
    assert (category["parentId"], category["level"]) == (None, 1)


@pytest.mark.parametrize("name", ["", "  ", None, 7])
def test_a_category_name_left_empty_is_null(town: House, name: object) -> None:
    (category,) = categories(town, {"id": "c1", "name": name})
    assert category["name"] is None


def test_promotional_groupings_are_not_listed(town: House) -> None:
    rows = categories(town, {"id": "best", "name": "Best sellers", "grouping": True}, {"id": "c1"})
    assert [row["id"] for row in rows] == ["c1"]


def test_translated_names_and_images_are_left_out(town: House) -> None:
    (category,) = categories(town, {"id": "c1", "name": "Soups", "nameEn": "Soup!", "image": "https://x.example/i.png"})
    assert list(category) == CATEGORY_FIELDS


def test_a_renamed_category_shows_its_new_name_under_its_old_id(town: House) -> None:
    record = shop(categories=[{"id": "c1", "name": "Old"}])
    town.load(record)
    row = listed(town, record | {"categories": [{"id": "c1", "name": "New"}]})
    assert [(category["id"], category["name"]) for category in row["categories"]] == [("c1", "New")]


def test_two_branches_may_name_one_category_id_differently(town: House) -> None:
    franchise = fresh("franchise")
    town.load(*[branch(franchiseId=franchise, categories=[{"id": "c1", "name": name}]) for name in ("Soups", "Rice")])
    rows = town.data("shops", town.key(franchise=franchise))
    assert [row["categories"][0]["name"] for row in rows] == ["Soups", "Rice"]
