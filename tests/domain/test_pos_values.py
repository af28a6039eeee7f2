"""Tests for parsing POS values, following the table in docs/source-records.md row by row."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.model import pos_values
from counterfoil.model.calendar import THAI_TIME, iso, zone_named
from counterfoil.model.pos_values import (
    LAST_INSTANT,
    Unreadable,
    beginning,
    day,
    expiry,
    flag,
    ident,
    identifier,
    instant,
    money,
    number,
    record_id,
    text,
)

NEW_YORK = zone_named("America/New_York") or THAI_TIME

# Each rule has a name, a reader, the result, and values that are read so.
RULES = json.loads(Path(__file__).with_name("value_rules.json").read_text("utf-8"))


def written(moment: int | None) -> str | None:
    return None if moment is None else iso(moment, THAI_TIME)


READERS: dict[str, Callable[[object], object]] = {
    "text": text,
    "ident": ident,
    "number": number,
    "number as JSON": lambda value: msgspec.json.encode(number(value)).decode(),
    "money": money,
    "money as JSON": lambda value: msgspec.json.encode(money(value)).decode(),
    "time": lambda value: written(instant(value, THAI_TIME)),
    "time in New York": lambda value: written(instant(value, NEW_YORK)),
    "beginning": lambda value: written(beginning(value, THAI_TIME)),
    "expiry": lambda value: written(expiry(value, THAI_TIME)),
    "day": lambda value: found.isoformat() if (found := day(value, THAI_TIME)) else None,
    "flag": flag,
}


@pytest.mark.parametrize(
    ("reader", "expected", "values"), [rule[1:] for rule in RULES], ids=[rule[0] for rule in RULES]
)
def test_a_value_is_read_by_its_rule(reader: str, expected: object, values: list[object]) -> None:
    assert [READERS[reader](value) for value in values] == [expected] * len(values)


anything_in_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None))
    | st.from_regex(r"\s?[+-]?[0-9๐-๙,._:TZ+-]{0,30}(e[0-9]{1,4})?\s?", fullmatch=True)
    | st.sampled_from([10**4000, -(10**400), 1e308, 5e-324, "infinity", "nan", "\ud800", "0001-01-01T00:00:00+14:00"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=6,
)


# --- text ------------------------------------------------------------------


def test_a_number_with_more_digits_than_python_will_write_is_null() -> None:
    assert (ident(10**5000), number(10**5000), instant(10**5000, THAI_TIME), day(10**5000, THAI_TIME)) == (None,) * 4
    assert (number("9" * 5000), money("9" * 5000)) == (None, None)


@pytest.mark.parametrize("value", ["a" * 512, "ก" * 170, "\U0001f35c" * 128, 4711, 10**30, " A "])
def test_a_record_id_may_be_512_bytes_long(value: object) -> None:
    assert record_id(value) == ident(value) == str(value)


@pytest.mark.parametrize(
    "value", ["a" * 513, "ก" * 171, "\U0001f35c" * 129, "a\0b", "\0", "a\ud800", "\udc00", "", " ", None, True, 1.5, {}]
)
def test_an_id_that_a_store_could_confuse_with_another_is_not_a_record_id(value: object) -> None:
    assert record_id(value) is None
    with pytest.raises(Unreadable, match="shopId"):
        identifier({"shopId": value}, "shopId")


# --- numbers ---------------------------------------------------------------


@given(st.decimals(min_value=-(10**9), max_value=10**9, places=2))
def test_an_amount_in_satang_is_kept_exactly_however_it_is_written(amount: object) -> None:
    assert money(str(amount)) == money(float(str(amount))) == float(str(amount))


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15))
def test_money_never_moves_by_more_than_half_a_millionth(value: float) -> None:
    read = money(value)
    assert read is not None
    # From 2^33 baht upwards, adjacent doubles differ by more than a millionth.
    assert abs(read - value) <= 0.5000001e-6 + math.ulp(value) / 2


# --- times -----------------------------------------------------------------


def test_an_epoch_counts_seconds_up_to_the_end_of_the_year_9999_and_milliseconds_from_there_on() -> None:
    in_9998 = 253_339_228_800
    assert instant(in_9998, THAI_TIME) == instant(str(in_9998), THAI_TIME) == in_9998 * 1000
    assert instant(253_402_300_800, THAI_TIME) == 253_402_300_800
    assert expiry(253_402_300_799, THAI_TIME) == LAST_INSTANT


@pytest.mark.parametrize("value", ["2026-01-31T18:05:09.120+07:00", "2026-01-31 18:05", 1769857509, "1769857509120"])
def test_a_time_that_begins_or_expires_something_is_read_as_any_other(value: object) -> None:
    assert beginning(value, THAI_TIME) == expiry(value, THAI_TIME) == instant(value, THAI_TIME) is not None


def test_every_time_that_is_read_can_be_written_on_every_clock() -> None:
    easternmost = zone_named("Pacific/Kiritimati") or THAI_TIME
    assert iso(pos_values.LAST_INSTANT, easternmost) == "9999-12-31T23:59:59.999+14:00"


# --- flags and lists -------------------------------------------------------


def test_elements_that_cannot_be_read_are_left_out_of_a_list() -> None:
    assert pos_values.idents(["a", "", None, 5, {}, "b"]) == ["a", "5", "b"]


@pytest.mark.parametrize("value", [None, "a", {"0": "a"}, 5, True])
def test_a_value_that_is_not_a_list_is_an_empty_one(value: object) -> None:
    assert [*pos_values.texts(value), *pos_values.objects(value), *pos_values.as_list(value)] == []


# --- arbitrary input -------------------------------------------------------


@given(anything_in_json)
def test_no_parser_raises_and_every_result_can_be_published(value: object) -> None:
    read = [
        text(value),
        ident(value),
        number(value),
        money(value),
        instant(value, NEW_YORK),
        day(value, NEW_YORK),
        beginning(value, NEW_YORK),
        expiry(value, NEW_YORK),
        record_id(value),
        flag(value),
        pos_values.texts(value),
        pos_values.idents(value),
    ]
    msgspec.json.encode(read)
    assert all(math.isfinite(found) for found in read if isinstance(found, float))
