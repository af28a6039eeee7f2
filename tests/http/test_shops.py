"""GET /v1/shops: the branches in the key's scope, each with its list of categories."""

import re
from typing import Any

import pytest

from records import base, branch, fresh, removal, shop
from running_service import RunningService

FIELDS = ["shopId", "shopName", "franchiseId", "providerId", "timezone", "categories"]
CATEGORY_FIELDS = ["id", "name", "level", "parentId", "hidden"]


def listed(service: RunningService, record: dict[str, Any]) -> dict[str, Any]:
    """Load the shop; return it as read with its own key."""
    service.load(record)
    (found,) = service.data("shops", service.key(shop=record["id"]))
    row: dict[str, Any] = found
    return row


def categories(service: RunningService, *records: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = listed(service, shop(categories=list(records)))["categories"]
    return found


# --- the answer ----------------------------------------------------------------


def test_the_answer_is_ok_data_and_server_time_and_nothing_else(shared_service: RunningService) -> None:
    body = shared_service.get("shops", shared_service.key(shop="anywhere")).json()
    assert list(body) == ["ok", "data", "serverTime"]
    assert body["ok"] is True


def test_server_time_is_utc_with_a_z_and_milliseconds(shared_service: RunningService) -> None:
    body = shared_service.get("shops", shared_service.key(shop="anywhere")).json()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", body["serverTime"])


def test_a_shop_has_exactly_the_contracts_fields(shared_service: RunningService) -> None:
    assert list(listed(shared_service, branch())) == FIELDS


def test_a_shop_is_returned_as_it_was_recorded(shared_service: RunningService) -> None:
    record = branch(name="ร้านริมน้ำ", timezone="Asia/Tokyo", categories=[{"id": "c1", "name": "Soups"}])
    assert listed(shared_service, record) == {
        "shopId": record["id"],
        "shopName": "ร้านริมน้ำ",
        "franchiseId": record["franchiseId"],
        "providerId": record["providerId"],
        "timezone": "Asia/Tokyo",
        "categories": [{"id": "c1", "name": "Soups", "level": 1, "parentId": None, "hidden": False}],
    }


def test_a_shop_with_only_an_id_has_nulls_and_an_empty_list(shared_service: RunningService) -> None:
    record = {"kind": "shop", "id": fresh("shop")}
    assert listed(shared_service, record) == {
        "shopId": record["id"],
        "shopName": None,
        "franchiseId": None,
        "providerId": None,
        "timezone": None,
        "categories": [],
    }


def test_a_renamed_shop_shows_its_new_name(shared_service: RunningService) -> None:
    record = shop(name="Old name")
    shared_service.load(record)
    assert listed(shared_service, record | {"name": "New name"})["shopName"] == "New name"


@pytest.mark.parametrize("shop_id", ["UPPER-lower", "with space", "ร้าน", "a/b?c#d&e=f", "x" * 300, "0007"])
def test_an_id_keeps_its_case_length_and_characters(shared_service: RunningService, shop_id: str) -> None:
    assert listed(shared_service, shop(id=shop_id))["shopId"] == shop_id


# --- scope ---------------------------------------------------------------------


def test_a_shops_key_lists_exactly_its_own_shop(shared_service: RunningService) -> None:
    mine, neighbour = branch(), branch(franchiseId="same")
    shared_service.load(mine | {"franchiseId": "same"}, neighbour)
    assert [row["shopId"] for row in shared_service.data("shops", shared_service.key(shop=mine["id"]))] == [mine["id"]]


def test_a_franchises_key_lists_every_branch_of_it_and_no_other(shared_service: RunningService) -> None:
    franchise = fresh("franchise")
    branches = [branch(franchiseId=franchise) for _ in range(3)]
    shared_service.load(*branches, branch(), shop())
    rows = shared_service.data("shops", shared_service.key(franchise=franchise))
    assert [row["shopId"] for row in rows] == [record["id"] for record in branches]


def test_a_removed_branch_is_skipped(shared_service: RunningService) -> None:
    franchise = fresh("franchise")
    stays, goes = branch(franchiseId=franchise), branch(franchiseId=franchise)
    shared_service.load(stays, goes, removal(goes))
    rows = shared_service.data("shops", shared_service.key(franchise=franchise))
    assert [row["shopId"] for row in rows] == [stays["id"]]


def test_branches_of_two_franchises_may_share_a_membership_base(shared_service: RunningService) -> None:
    one, other = branch(), branch()
    shared_service.load(one, other | {"providerId": one["providerId"]}, base(one))
    rows = shared_service.data("shops", shared_service.key(shop=other["id"]))
    assert (rows[0]["franchiseId"], rows[0]["providerId"]) == (other["franchiseId"], one["providerId"])


def test_branches_of_one_franchise_may_have_different_bases(shared_service: RunningService) -> None:
    franchise = fresh("franchise")
    branches = [branch(franchiseId=franchise), branch(franchiseId=franchise)]
    shared_service.load(*branches)
    rows = shared_service.data("shops", shared_service.key(franchise=franchise))
    assert [row["providerId"] for row in rows] == [record["providerId"] for record in branches]


# --- never paginated -------------------------------------------------------------


def test_all_branches_are_in_one_answer_however_many_there_are(shared_service: RunningService) -> None:
    franchise = fresh("franchise")
    shared_service.load(*[branch(franchiseId=franchise) for _ in range(230)])
    assert len(shared_service.data("shops", shared_service.key(franchise=franchise))) == 230


@pytest.mark.parametrize(
    "query", [{"limit": 1}, {"cursor": "x"}, {"limit": 1, "cursor": ""}, {"updatedSince": "x"}, {"page": 2}]
)
def test_no_parameter_shortens_the_list(shared_service: RunningService, query: dict[str, Any]) -> None:
    franchise = fresh("franchise")
    shared_service.load(branch(franchiseId=franchise), branch(franchiseId=franchise))
    assert len(shared_service.data("shops", shared_service.key(franchise=franchise), **query)) == 2


def test_a_shop_id_in_the_request_neither_widens_nor_narrows_the_list(shared_service: RunningService) -> None:
    mine, other = shop(), shop()
    shared_service.load(mine, other)
    rows = shared_service.data("shops", shared_service.key(shop=mine["id"]), shopId=other["id"])
    assert [row["shopId"] for row in rows] == [mine["id"]]


# --- categories --------------------------------------------------------------------


def test_categories_are_a_flat_list_by_level_and_then_in_the_order_of_the_shop(shared_service: RunningService) -> None:
    arranged = [
        {"id": "b1", "parentId": "b"},
        {"id": "b", "name": "B"},
        {"id": "b1x", "parentId": "b1"},
        {"id": "a1", "parentId": "a"},
        {"id": "a", "name": "A"},
    ]
    assert [(row["id"], row["level"]) for row in categories(shared_service, *arranged)] == [
        ("b", 1),
        ("a", 1),
        ("b1", 2),
        ("a1", 2),
        ("b1x", 3),
    ]


def test_a_deleted_parent_is_still_referenced(shared_service: RunningService) -> None:
    (category,) = categories(shared_service, {"id": "c1", "parentId": "gone"})
    assert (category["parentId"], category["level"]) == ("gone", None)


def test_translated_names_and_images_are_not_published(shared_service: RunningService) -> None:
    (category,) = categories(
        shared_service, {"id": "c1", "name": "Soups", "nameEn": "Soup!", "image": "https://x.example/i.png"}
    )
    assert list(category) == CATEGORY_FIELDS


def test_a_renamed_category_shows_its_new_name_under_its_old_id(shared_service: RunningService) -> None:
    record = shop(categories=[{"id": "c1", "name": "Old"}])
    shared_service.load(record)
    row = listed(shared_service, record | {"categories": [{"id": "c1", "name": "New"}]})
    assert [(category["id"], category["name"]) for category in row["categories"]] == [("c1", "New")]


def test_two_branches_may_use_different_names_for_one_category_id(shared_service: RunningService) -> None:
    franchise = fresh("franchise")
    shared_service.load(
        *[branch(franchiseId=franchise, categories=[{"id": "c1", "name": name}]) for name in ("Soups", "Rice")]
    )
    rows = shared_service.data("shops", shared_service.key(franchise=franchise))
    assert [row["categories"][0]["name"] for row in rows] == ["Soups", "Rice"]
