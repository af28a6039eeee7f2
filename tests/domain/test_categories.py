"""Tests for a shop's category list."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.domain.shops import categories_from


def levels(*records: dict[str, Any]) -> dict[str, int | None]:
    return {category.id: category.level for category in categories_from(list(records))[0]}


# Each row has a name, the categories as "id" or "id<parent" with a recorded level after a colon, and the levels listed.
TREES = [
    ("depth is derived from the parents", "c<b b<a a", {"a": 1, "b": 2, "c": 3}),
    ("a recorded depth takes precedence over the parents", "a b<a:5", {"a": 1, "b": 5}),
    ("depth is counted from a recorded one", "b<gone:3 c<b", {"b": 3, "c": 4}),
    ("nothing below a deleted parent has a depth", "b<gone c<b", {"b": None, "c": None}),
    ("categories in a cycle have no depth", "a<b b<a c<a", {"a": None, "b": None, "c": None}),
    ("a category below itself has no depth", "a<a", {"a": None}),
    ("the top level comes first, then the order of the shop", "c<b b d<b a", {"b": 1, "a": 1, "c": 2, "d": 2}),
    ("categories without a depth come last", "x<gone y<gone a", {"a": 1, "x": None, "y": None}),
]


@pytest.mark.parametrize(("tree", "expected"), [row[1:] for row in TREES], ids=[row[0] for row in TREES])
def test_categories_are_listed_by_depth(tree: str, expected: dict[str, int | None]) -> None:
    records = []
    for text in tree.split():
        name, _, level = text.partition(":")
        category_id, _, parent = name.partition("<")
        records.append({"id": category_id, "parentId": parent or None, "level": level or None})
    assert list(levels(*records).items()) == list(expected.items())


def test_no_category_below_a_promotional_grouping_has_a_depth() -> None:
    assert levels({"id": "best", "grouping": True}, {"id": "a", "parentId": "best"}) == {"a": None}


def test_an_id_is_text_or_digits_and_a_category_without_one_is_left_out() -> None:
    assert levels({"id": 7}, {"id": 8, "parentId": 7}, {"name": "Nameless"}, {"id": ""}) == {"7": 1, "8": 2}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"hidden": True}, True),
        ({"visibleIn": []}, True),
        ({"visibleIn": ["dine_in"]}, False),
        ({"visibleIn": None}, False),
        ({"visibleIn": "dine_in"}, False),
        ({"visibleIn": {}}, False),
    ],
)
def test_a_category_is_hidden_if_it_is_marked_so_or_visible_in_no_channel(
    fields: dict[str, object], expected: bool
) -> None:
    assert categories_from([{"id": "a", **fields}])[0][0].hidden is expected


@pytest.mark.parametrize("level", [0, -1, 1.5, "", "deep", None, True, [], float("nan")])
def test_a_recorded_depth_that_cannot_be_one_is_counted_from_the_parents(level: object) -> None:
    assert levels({"id": "a"}, {"id": "b", "parentId": "a", "level": level})["b"] == 2


def test_a_deleted_parent_is_still_named() -> None:
    assert categories_from([{"id": "b", "parentId": "gone"}])[0][0].parent_id == "gone"


@pytest.mark.parametrize("parent", ["a", "gone", 7])
def test_a_category_at_the_top_level_has_no_parent(parent: object) -> None:
    categories, _ = categories_from([{"id": "a"}, {"id": "b", "parentId": parent, "level": 1}])
    assert [(category.id, category.level, category.parent_id) for category in categories] == [
        ("a", 1, None),
        ("b", 1, None),
    ]


def test_a_very_deep_tree_is_read_completely() -> None:
    records = [{"id": str(depth), "parentId": str(depth - 1)} for depth in range(5000, 1, -1)]
    assert levels(*records, {"id": "1"})["5000"] == 5000


def test_of_two_categories_with_one_id_the_later_replaces_the_earlier_at_its_position() -> None:
    categories, _ = categories_from([{"id": "a", "name": "Old"}, {"id": "b"}, {"id": "a", "name": "New"}])
    assert [(category.id, category.name) for category in categories] == [("a", "New"), ("b", None)]


def test_a_name_left_empty_is_null() -> None:
    assert categories_from([{"id": "a", "name": " "}])[0][0].name is None


def test_a_promotional_grouping_is_recognised_and_not_listed() -> None:
    categories, groupings = categories_from([{"id": "best", "grouping": "yes"}, {"id": "a"}])
    assert ([category.id for category in categories], groupings) == (["a"], frozenset({"best"}))


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
