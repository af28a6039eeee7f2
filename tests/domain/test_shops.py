"""Tests for converting a raw shop record to the published Shop, its categories, and the facts that its bills need."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.domain.shops import ShopFacts, categories_from, shop_from
from counterfoil.model.pos_values import Unreadable
from counterfoil.model.resources import Shop

RIVERSIDE: dict[str, Any] = {
    "kind": "shop",
    "id": "sh_01",
    "name": "Riverside",
    "franchiseId": "fr_a",
    "providerId": "mb_a",
    "timezone": "Asia/Tokyo",
    "closingTime": "02:00",
    "channels": [{"id": "ch_1", "name": "HungryElephant"}],
    "categories": [{"id": "best", "grouping": True}, {"id": "c1", "name": "Food"}],
}


def shop(**fields: object) -> Shop:
    return shop_from({**RIVERSIDE, **fields})[0]


def facts(**fields: object) -> ShopFacts:
    return shop_from({**RIVERSIDE, **fields})[1]


def test_a_shop_without_a_usable_id_is_refused() -> None:
    with pytest.raises(Unreadable):
        shop_from({"id": ""})


@pytest.mark.parametrize("name", [None, "", "Nowhere/Atlantis", "UTC+7", "../passwd", "Factory", 7])
def test_an_unknown_time_zone_counts_as_absent(name: object) -> None:
    assert shop(timezone=name).timezone is None


NO_CLOSINGS: list[object] = [None, "", "24:30", "25:00", "2am", "02.00", "๐๒:๐๐", 2, 200, {}, True]


@pytest.mark.parametrize(
    ("written", "closing"),
    [
        *[("02:00", "02:00"), ("2:30", "02:30"), (" 23:59 ", "23:59"), ("02:00:00", "02:00"), ("24:00", "24:00")],
        *((written, None) for written in NO_CLOSINGS),
    ],
)
def test_a_closing_time_is_read_in_hours_and_minutes_or_ignored(written: object, closing: str | None) -> None:
    assert facts(closingTime=written).closing == closing


def test_a_channel_without_an_id_or_a_name_has_no_label() -> None:
    assert facts(channels=[{"id": "a"}, {"name": "b"}, {"id": "c", "name": ""}, "d", None]).channels == {}


def test_the_groupings_are_kept_in_a_fixed_order() -> None:
    groupings = [{"id": name, "grouping": True} for name in ("z", "a", "m")]
    assert facts(categories=groupings).groupings == ("a", "m", "z")


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "name", "parentId", "level", "visibleIn", "grouping"]), inner)
    ),
    max_leaves=8,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(RIVERSIDE.keys() - {"id"}, anything)))
@settings(deadline=None)  # The first example with a time zone also loads the list of time zones.
def test_a_shop_with_any_field_values_can_be_published_and_stored(fields: dict[str, Any]) -> None:
    published, kept = shop_from({**fields, "id": "sh_01"})
    assert msgspec.json.decode(msgspec.json.encode(published), type=Shop) == published
    assert msgspec.json.decode(msgspec.json.encode(kept), type=ShopFacts) == kept
    kept.zone()


# --- categories ------------------------------------------------------------


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


ids = st.sampled_from(["a", "b", "c", "d", "", None])
tangles = st.lists(
    st.fixed_dictionaries(
        {"id": ids, "parentId": ids}, optional={"level": st.integers(-1, 4), "grouping": st.booleans()}
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
