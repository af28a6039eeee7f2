"""GET /v1/shops: the branches in the key's scope, each with its list of categories."""

import re
from typing import Any

from records import Record, branch, fresh, removal, shop
from running_service import RunningService


def listed(service: RunningService, record: Record) -> Record:
    """Load the shop; return it as read with its own key."""
    row: Record
    (row,) = service.data("shops", service.key_for(record))
    return row


def shop_ids(service: RunningService, key: str, **query: Any) -> list[str]:
    return [row["shopId"] for row in service.data("shops", key, **query)]


# --- the answer ----------------------------------------------------------------


def test_the_answer_is_ok_data_and_server_time_and_nothing_else(shared_service: RunningService) -> None:
    body = shared_service.get("shops", shared_service.key(shop="anywhere")).json()
    assert list(body) == ["ok", "data", "serverTime"]
    assert body["ok"] is True
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", body["serverTime"])


def test_a_shop_is_returned_as_it_was_recorded(shared_service: RunningService) -> None:
    record = branch(name="ร้านริมน้ำ", timezone="Asia/Tokyo", categories=[{"id": "c1", "name": "Soups"}])
    found = listed(shared_service, record)
    assert found == {
        "shopId": record["id"],
        "shopName": "ร้านริมน้ำ",
        "franchiseId": record["franchiseId"],
        "providerId": record["providerId"],
        "timezone": "Asia/Tokyo",
        "categories": [{"id": "c1", "name": "Soups", "level": 1, "parentId": None, "hidden": False}],
    }
    assert list(found) == ["shopId", "shopName", "franchiseId", "providerId", "timezone", "categories"]


def test_a_shop_with_only_an_id_has_nulls_and_an_empty_list(shared_service: RunningService) -> None:
    record = {"kind": "shop", "id": fresh("shop")}
    nulls = dict.fromkeys(("shopName", "franchiseId", "providerId", "timezone"))
    assert listed(shared_service, record) == {"shopId": record["id"], **nulls, "categories": []}


def test_a_renamed_shop_or_category_shows_its_new_name_under_its_old_id(shared_service: RunningService) -> None:
    record = shop(name="Old name", categories=[{"id": "c1", "name": "Old"}])
    shared_service.load(record)
    row = listed(shared_service, record | {"name": "New name", "categories": [{"id": "c1", "name": "New"}]})
    assert (row["shopId"], row["shopName"]) == (record["id"], "New name")
    assert [(category["id"], category["name"]) for category in row["categories"]] == [("c1", "New")]


def test_an_id_keeps_its_case_length_and_characters(shared_service: RunningService) -> None:
    for shop_id in ("UPPER-lower", "with space", "ร้าน", "a/b?c#d&e=f", "x" * 300, "0007"):
        assert listed(shared_service, shop(id=shop_id))["shopId"] == shop_id


# --- scope ---------------------------------------------------------------------


def test_a_shops_key_lists_exactly_its_own_shop_whatever_is_asked_for(shared_service: RunningService) -> None:
    franchise = fresh("franchise")
    mine, neighbour = branch(franchiseId=franchise), branch(franchiseId=franchise)
    key = shared_service.key_for(mine, neighbour)
    assert shop_ids(shared_service, key) == shop_ids(shared_service, key, shopId=neighbour["id"]) == [mine["id"]]


def test_a_franchises_key_lists_every_branch_of_it_and_no_other(shared_service: RunningService) -> None:
    franchise = fresh("franchise")
    branches = [branch(franchiseId=franchise) for _ in range(3)]
    removed = branch(franchiseId=franchise)
    shared_service.load(*branches, branch(), shop(), removed, removal(removed))
    key = shared_service.key(franchise=franchise)
    assert shop_ids(shared_service, key) == [record["id"] for record in branches]


def test_branches_of_one_franchise_may_have_different_bases_and_names_of_categories_and_two_franchises_one_base(
    shared_service: RunningService,
) -> None:
    one, sister, other = (branch(categories=[{"id": "c1", "name": name}]) for name in ("Soups", "Rice", "Tea"))
    sister["franchiseId"], other["providerId"] = one["franchiseId"], one["providerId"]
    shared_service.load(one, sister, other)
    ours = shared_service.data("shops", shared_service.key(franchise=one["franchiseId"]))
    (theirs,) = shared_service.data("shops", shared_service.key(franchise=other["franchiseId"]))
    assert [row["providerId"] for row in (*ours, theirs)] == [of["providerId"] for of in (one, sister, one)]
    assert [row["categories"][0]["name"] for row in ours] == ["Soups", "Rice"]


# --- never paginated -------------------------------------------------------------


def test_all_branches_are_in_one_answer_however_many_there_are(shared_service: RunningService) -> None:
    franchise = fresh("franchise")
    shared_service.load(*[branch(franchiseId=franchise) for _ in range(230)])
    key = shared_service.key(franchise=franchise)
    for query in ({}, {"limit": 1}, {"cursor": "x"}, {"limit": 1, "cursor": ""}, {"updatedSince": "x"}, {"page": 2}):
        assert len(shop_ids(shared_service, key, **query)) == 230, query


# --- categories --------------------------------------------------------------------


def test_categories_are_a_flat_list_by_level_and_then_in_the_order_of_the_shop(shared_service: RunningService) -> None:
    arranged: list[Record] = [
        {"id": "b1", "parentId": "b"},
        {"id": "b", "name": "B", "nameEn": "not published", "image": "https://x.example/i.png"},
        {"id": "b1x", "parentId": "b1"},
        {"id": "orphan", "parentId": "deleted"},
        {"id": "a1", "parentId": "a"},
        {"id": "a", "name": "A"},
    ]
    found = listed(shared_service, shop(categories=arranged))["categories"]
    levels = {"b": 1, "a": 1, "b1": 2, "a1": 2, "b1x": 3, "orphan": None}
    assert [(row["id"], row["level"]) for row in found] == list(levels.items())
    assert found[-1]["parentId"] == "deleted"
    assert [list(row) for row in found] == [["id", "name", "level", "parentId", "hidden"]] * 6
