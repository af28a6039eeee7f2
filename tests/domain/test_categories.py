"""Tests for a shop's category list."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.domain.shops import categories_from


def levels(*records: dict[str, Any]) -> dict[str, int | None]:
    return {category.id: category.level for category in categories_from(list(records))[0]}


def order(*records: dict[str, Any]) -> list[str]:
    return [category.id for category in categories_from(list(records))[0]]


def hidden(**fields: object) -> bool:
    return categories_from([{"id": "a", **fields}])[0][0].hidden


# --- depth -----------------------------------------------------------------


def test_depth_is_derived_from_the_parents_if_none_was_recorded() -> None:
    assert levels({"id": "c", "parentId": "b"}, {"id": "b", "parentId": "a"}, {"id": "a"}) == {"a": 1, "b": 2, "c": 3}


def test_a_recorded_depth_takes_precedence_over_the_parents() -> None:
    assert levels({"id": "a"}, {"id": "b", "parentId": "a", "level": 5}) == {"a": 1, "b": 5}


def test_depth_is_counted_from_a_recorded_one() -> None:
    assert levels({"id": "b", "parentId": "gone", "level": "3"}, {"id": "c", "parentId": "b"}) == {"b": 3, "c": 4}


@pytest.mark.parametrize("level", [0, -1, 1.5, "", "deep", None, True, [], float("nan")])
def test_a_recorded_depth_that_cannot_be_one_is_counted_from_the_parents(level: object) -> None:
    assert levels({"id": "a"}, {"id": "b", "parentId": "a", "level": level})["b"] == 2


def test_no_category_below_a_deleted_parent_has_a_depth() -> None:
    assert levels({"id": "b", "parentId": "gone"}, {"id": "c", "parentId": "b"}) == {"b": None, "c": None}


def test_a_deleted_parent_is_still_named() -> None:
    assert categories_from([{"id": "b", "parentId": "gone"}])[0][0].parent_id == "gone"


@pytest.mark.parametrize("parent", ["a", "gone", 7])
def test_a_category_at_the_top_level_has_no_parent(parent: object) -> None:
    categories, _ = categories_from([{"id": "a"}, {"id": "b", "parentId": parent, "level": 1}])
    assert [(category.id, category.level, category.parent_id) for category in categories] == [
        ("a", 1, None),
        ("b", 1, None),
    ]


def test_categories_in_a_cycle_have_no_depth() -> None:
    assert levels({"id": "a", "parentId": "b"}, {"id": "b", "parentId": "a"}, {"id": "c", "parentId": "a"}) == {
        "a": None,
        "b": None,
        "c": None,
    }


def test_a_category_below_itself_has_no_depth() -> None:
    assert levels({"id": "a", "parentId": "a"}) == {"a": None}


def test_a_very_deep_tree_is_read_completely() -> None:
    records = [{"id": str(depth), "parentId": str(depth - 1)} for depth in range(5000, 1, -1)]
    assert levels(*records, {"id": "1"})["5000"] == 5000


# --- order -----------------------------------------------------------------


def test_the_top_level_comes_first_and_then_the_order_of_the_shop() -> None:
    assert order({"id": "c", "parentId": "b"}, {"id": "b"}, {"id": "d", "parentId": "b"}, {"id": "a"}) == [
        "b",
        "a",
        "c",
        "d",
    ]


def test_categories_without_a_depth_come_last() -> None:
    assert order({"id": "x", "parentId": "gone"}, {"id": "y", "parentId": "gone"}, {"id": "a"}) == ["a", "x", "y"]


def test_of_two_categories_with_one_id_the_later_replaces_the_earlier_at_its_position() -> None:
    categories, _ = categories_from([{"id": "a", "name": "Old"}, {"id": "b"}, {"id": "a", "name": "New"}])
    assert [(category.id, category.name) for category in categories] == [("a", "New"), ("b", None)]


# --- content ---------------------------------------------------------------


def test_a_category_without_an_id_is_left_out() -> None:
    assert order({"name": "Nameless"}, {"id": ""}, {"id": "a"}) == ["a"]


def test_a_numeric_category_id_is_read_as_its_digits() -> None:
    assert levels({"id": 7}, {"id": 8, "parentId": 7}) == {"7": 1, "8": 2}


def test_a_name_left_empty_is_null() -> None:
    assert categories_from([{"id": "a", "name": " "}])[0][0].name is None


def test_a_hidden_category_is_listed_as_hidden() -> None:
    assert hidden(hidden=True)


def test_a_category_visible_in_no_channel_is_hidden() -> None:
    assert hidden(visibleIn=[])


def test_a_category_visible_in_one_channel_is_not_hidden() -> None:
    assert not hidden(visibleIn=["dine_in"])


@pytest.mark.parametrize("visible_in", [None, "", "dine_in", {}])
def test_an_unreadable_visibility_hides_nothing(visible_in: object) -> None:
    assert not hidden(visibleIn=visible_in)


def test_a_promotional_grouping_is_recognised_and_not_listed() -> None:
    categories, groupings = categories_from([{"id": "best", "grouping": "yes"}, {"id": "a"}])
    assert ([category.id for category in categories], groupings) == (["a"], frozenset({"best"}))


def test_no_category_below_a_promotional_grouping_has_a_depth() -> None:
    assert levels({"id": "best", "grouping": True}, {"id": "a", "parentId": "best"}) == {"a": None}


@pytest.mark.parametrize("value", [None, "a", {}, 5, [None, 5, "a", []]])
def test_a_value_that_is_not_a_list_of_categories_is_an_empty_one(value: object) -> None:
    assert categories_from(value) == ([], frozenset())


names = st.sampled_from(["a", "b", "c", "d", "", None])
tangles = st.lists(
    st.fixed_dictionaries(
        {"id": names, "parentId": names}, optional={"level": st.integers(-1, 4), "grouping": st.booleans()}
    ),
    max_size=8,
)


@given(tangles)
def test_each_category_appears_once_and_in_order_whatever_its_parents(records: list[dict[str, Any]]) -> None:
    categories, groupings = categories_from(records)
    seen = [category.id for category in categories]
    depths = [category.level if category.level is not None else 10**6 for category in categories]
    assert {*seen, *groupings} == {record["id"] for record in records if record["id"]}
    assert len(set(seen)) == len(seen)
    assert depths == sorted(depths)
    msgspec.json.encode(categories)
