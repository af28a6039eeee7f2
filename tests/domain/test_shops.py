"""Tests for converting a raw shop record to the published Shop, and for the facts that its bills need."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.domain.pos_values import Unreadable
from counterfoil.domain.resources import Shop
from counterfoil.domain.shops import ShopFacts, shop_from

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


@pytest.mark.parametrize(
    ("written", "closing"),
    [("02:00", "02:00"), ("2:30", "02:30"), (" 23:59 ", "23:59"), ("02:00:00", "02:00"), ("24:00", "24:00")],
)
def test_a_closing_time_is_read_in_hours_and_minutes(written: str, closing: str) -> None:
    assert facts(closingTime=written).closing == closing


@pytest.mark.parametrize("written", [None, "", "24:30", "25:00", "2am", "02.00", "๐๒:๐๐", 2, 200, {}, True])
def test_an_unreadable_closing_time_is_ignored(written: object) -> None:
    assert facts(closingTime=written).closing is None


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
