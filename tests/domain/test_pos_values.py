"""Tests for parsing POS values, following the table in docs/source-records.md row by row."""

import json
import math
from datetime import date

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.domain import pos_values
from counterfoil.domain.calendar import THAI_TIME, iso, zone_named
from counterfoil.domain.pos_values import (
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

NO_NUMBERS = "| |abc|1_0|๕|１２|²|1,25|12,34.5|,5|0x10|5 baht|--1|NaN|Infinity|-inf"
NO_DAYS = "|31/01/2026|2026-02-30|20261399|2026-1-3|2026-W05-6|0001-01-01|๒๐๒๖๐๑๓๑"
NEW_YORK = zone_named("America/New_York") or THAI_TIME

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


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("  ผัดไทย พิเศษ \n", "  ผัดไทย พิเศษ \n"),
        (json.loads(r'"a\ud800b"'), "a\ufffdb"),
        (json.loads(r'"\ud83c\udf5c"'), "🍜"),
        ("a\0b", "ab"),
    ],
    ids=["exactly", "half a surrogate pair", "a surrogate pair", "without NUL characters"],
)
def test_text_is_kept(value: str, read: str) -> None:
    assert text(value) == read


@pytest.mark.parametrize("value", ["", " ", "\t\n", "\u00a0", "\0", " \0 ", None, 5, 5.0, True, [], {}, ["a"]])
def test_a_value_without_visible_characters_is_not_read_as_text(value: object) -> None:
    assert text(value) is None


@pytest.mark.parametrize(
    ("value", "read"),
    [("b_900", "b_900"), (" A ", " A "), (4711, "4711"), (0, "0"), (-3, "-3"), (4711.0, "4711"), (10**30, f"{10**30}")],
)
def test_an_id_is_text_or_the_digits_of_a_whole_number(value: object, read: str) -> None:
    assert ident(value) == read


@pytest.mark.parametrize(
    "value", [True, False, 1.5, 2.0**53, 1e300, float("nan"), float("inf"), 10**400, "", " ", None, {}, []]
)
def test_a_value_that_is_neither_text_nor_a_whole_number_is_not_an_id(value: object) -> None:
    assert ident(value) is None


def test_a_number_with_more_digits_than_python_will_write_is_null() -> None:
    assert (ident(10**5000), number(10**5000), instant(10**5000, THAI_TIME), day(10**5000, THAI_TIME)) == (None,) * 4


def test_a_record_without_its_id_is_rejected() -> None:
    with pytest.raises(Unreadable, match="shopId"):
        identifier({"shopId": " "}, "shopId")


@pytest.mark.parametrize("value", ["a" * 512, "ก" * 170, "\U0001f35c" * 128, 4711, 10**30, " A "])
def test_a_record_id_may_be_512_bytes_long(value: object) -> None:
    assert record_id(value) == ident(value) == str(value)


@pytest.mark.parametrize(
    "value", ["a" * 513, "ก" * 171, "\U0001f35c" * 129, "a\0b", "\0", "a\ud800", "\udc00", "", " ", None, True, 1.5, {}]
)
def test_an_id_that_a_store_could_confuse_with_another_is_not_a_record_id(value: object) -> None:
    assert record_id(value) is None
    with pytest.raises(Unreadable):
        identifier({"id": value}, "id")


# --- numbers ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (3, 3),
        (-2.5, -2.5),
        ("12.50", 12.5),
        (" 3 ", 3),
        ("1,250.00", 1250),
        ("-1,234,567.5", -1234567.5),
        ("+7", 7),
        (".5", 0.5),
        ("1e3", 1000),
        (1e-300, 1e-300),
        ("1762000000123456789", 1762000000123456789),
    ],
)
def test_a_number_is_read_in_quotes_or_without(value: object, read: float) -> None:
    assert number(value) == read


@pytest.mark.parametrize(
    "value",
    [
        *NO_NUMBERS.split("|"),
        *("1e400", "9" * 5000, 10**19, 2**63, -(2**63), 1e300, float("nan"), float("inf"), float("-inf")),
        *(True, False, None, [], [1], {}),
    ],
)
def test_a_value_that_is_not_a_finite_number_is_not_read_as_one(value: object) -> None:
    assert number(value) is None
    assert money(value) is None


@pytest.mark.parametrize(
    ("value", "written"), [(100.0, "100"), ("100.00", "100"), (-0.0, "0"), ("-0.0", "0"), (1e3, "1000")]
)
def test_a_whole_number_is_written_without_a_fraction(value: object, written: str) -> None:
    assert msgspec.json.encode(number(value)).decode() == written
    assert msgspec.json.encode(money(value)).decode() == written


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.1 + 0.2, "0.3"),
        (1.1 * 3, "3.3"),
        ("0.30000000000000004", "0.3"),
        (19.999999999999996, "20"),
        (33.33333333333333, "33.333333"),
        (-1e-9, "0"),
        (123456789012.1, "123456789012.1"),
        (1000000000.3000001, "1000000000.3"),
    ],
)
def test_money_is_the_shortest_decimal_to_a_millionth_of_a_baht(value: object, written: str) -> None:
    assert msgspec.json.encode(money(value)).decode() == written


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


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("2026-01-31T18:05:09.120+07:00", "2026-01-31T18:05:09.120+07:00"),
        ("2026-01-31T11:05:09Z", "2026-01-31T18:05:09.000+07:00"),
        ("2026-01-31t11:05:09.5z", "2026-01-31T18:05:09.500+07:00"),
        (" 2026-01-31 11:05:09+0000 ", "2026-01-31T18:05:09.000+07:00"),
        ("2026-01-31T11:05Z", "2026-01-31T18:05:00.000+07:00"),
        ("20260131T110509Z", "2026-01-31T18:05:09.000+07:00"),
        ("2026-01-31T06:05:09.123456789-05:00", "2026-01-31T18:05:09.123+07:00"),
        ("2026-01-31T16:50:09+05:45", "2026-01-31T18:05:09.000+07:00"),
        (1769857509, "2026-01-31T18:05:09.000+07:00"),
        ("1769857509", "2026-01-31T18:05:09.000+07:00"),
        (1769857509.123, "2026-01-31T18:05:09.123+07:00"),
        (1769857509120, "2026-01-31T18:05:09.120+07:00"),
        (" 1769857509120 ", "2026-01-31T18:05:09.120+07:00"),
        (0, "1970-01-01T07:00:00.000+07:00"),
        ("1769857509.9999", "2026-01-31T18:05:09.999+07:00"),
        (1769857509.9999, "2026-01-31T18:05:09.999+07:00"),
        ("1769857509120.9", "2026-01-31T18:05:09.120+07:00"),
        (1769857509.001, "2026-01-31T18:05:09.001+07:00"),
        ("2026-01-31T18:05:09,9999+07:00", "2026-01-31T18:05:09.999+07:00"),
    ],
)
def test_a_time_is_read_with_any_offset_or_as_seconds_or_milliseconds(value: object, read: str) -> None:
    moment = instant(value, THAI_TIME)
    assert moment is not None
    assert iso(moment, THAI_TIME) == read


def test_an_epoch_counts_seconds_up_to_the_end_of_the_year_9999_and_milliseconds_from_there_on() -> None:
    in_9998 = 253_339_228_800
    assert instant(in_9998, THAI_TIME) == instant(str(in_9998), THAI_TIME) == in_9998 * 1000
    assert instant(253_402_300_800, THAI_TIME) == 253_402_300_800
    assert expiry(253_402_300_799, THAI_TIME) == LAST_INSTANT


@pytest.mark.parametrize("value", [20260131, "20260131", " 20260131 ", 20260131.0, 99999999, "10000000", "00010101"])
def test_eight_digits_are_a_day_and_never_an_epoch(value: object) -> None:
    assert instant(value, THAI_TIME) is None


@pytest.mark.parametrize("value", ["2026-01-31", " 2026-01-31 ", "20260131", 20260131])
def test_a_day_given_as_a_start_begins_at_its_midnight(value: object) -> None:
    assert beginning(value, THAI_TIME) == instant("2026-01-31T00:00:00+07:00", THAI_TIME)


@pytest.mark.parametrize("value", ["2026-01-31", " 2026-01-31 ", "20260131", 20260131])
def test_an_expiry_given_as_a_day_is_its_last_millisecond(value: object) -> None:
    assert expiry(value, THAI_TIME) == instant("2026-01-31T23:59:59.999+07:00", THAI_TIME)


@pytest.mark.parametrize("value", ["2026-01-31T18:05:09.120+07:00", "2026-01-31 18:05", 1769857509, "1769857509120"])
def test_a_time_that_begins_or_expires_something_is_read_as_any_other(value: object) -> None:
    assert beginning(value, THAI_TIME) == expiry(value, THAI_TIME) == instant(value, THAI_TIME) is not None


@pytest.mark.parametrize("value", [None, "", "never", "2026-02-30", 20261399, 99999999, "1969-12-31T00:00:00Z", -1, {}])
def test_a_value_that_is_neither_a_time_nor_a_day_is_neither_a_start_nor_an_expiry(value: object) -> None:
    assert (beginning(value, THAI_TIME), expiry(value, THAI_TIME)) == (None, None)


@pytest.mark.parametrize(
    "value",
    ["9999-12-31", 99991231, "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-12:00", 253_402_300_799, 10**15, 2**63 - 1],
)
def test_an_expiry_beyond_the_calendar_is_its_last_instant(value: object) -> None:
    assert expiry(value, THAI_TIME) == LAST_INSTANT
    assert instant(value, THAI_TIME) is None


def test_a_time_without_an_offset_is_read_on_the_given_clock() -> None:
    assert instant("2026-07-01T12:00:00", NEW_YORK) == instant("2026-07-01T12:00:00-04:00", THAI_TIME)


@pytest.mark.parametrize(
    "value",
    [
        *("", "2026-01-31", "18:05", "yesterday", "2026-02-30T10:00:00Z", "2026-01-31T25:00:00Z"),
        "2026-01-31x10:00:00Z",
        *("๒๐๒๖-01-31T10:00:00Z", "2026-01-31T10:00:00+99:00", "2026-01-31\ud80010:00", "10000-01-01T00:00:00Z"),
        *("2026-01-31T10:00:00+07:60", "2026-01-31T10:00:00+07:99", "2026-01-31T10:00:00+07:00.5"),
        *("2026-01-31T10.5+07:00", "2026-01-31T10:30.5+07:00", "2026-01-31T10:00:00+0760", "2026-01-31T10,5Z"),
        *(True, None, [], {}, [1769857509], float("nan"), 1e300, 10**400),
    ],
)
def test_an_invalid_time_is_not_read_as_one(value: object) -> None:
    assert instant(value, THAI_TIME) is None


@pytest.mark.parametrize(
    "value",
    [
        *(-1, "-5", 10**15),
        *("1969-12-31T23:59:59Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00"),
    ],
)
def test_a_time_outside_1970_to_9999_is_not_read(value: object) -> None:
    assert instant(value, NEW_YORK) is None


def test_every_time_that_is_read_can_be_written_on_every_clock() -> None:
    easternmost = zone_named("Pacific/Kiritimati") or THAI_TIME
    assert iso(pos_values.LAST_INSTANT, easternmost) == "9999-12-31T23:59:59.999+14:00"


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("2026-01-31", date(2026, 1, 31)),
        ("20260131", date(2026, 1, 31)),
        (20260131, date(2026, 1, 31)),
        (" 2026-01-31 ", date(2026, 1, 31)),
        ("2026-01-31T23:30:00+07:00", date(2026, 1, 31)),
        ("2026-01-31T23:30:00Z", date(2026, 2, 1)),
        (1769857509, date(2026, 1, 31)),
    ],
)
def test_a_day_is_read_as_written_or_as_the_day_of_a_time(value: object, read: date) -> None:
    assert day(value, THAI_TIME) == read


@pytest.mark.parametrize("value", [*NO_DAYS.split("|"), 20261399, True, None, {}, []])
def test_an_invalid_day_is_not_read_as_one(value: object) -> None:
    assert day(value, THAI_TIME) is None


# --- flags and lists -------------------------------------------------------


@pytest.mark.parametrize("value", [True, 1, 1.0, "true", "TRUE", " Yes ", "1"])
def test_every_known_spelling_of_a_set_flag_is_true(value: object) -> None:
    assert flag(value) is True


@pytest.mark.parametrize(
    "value", [False, 0, "false", "0", "no", "", "on", "y", 2, -1, float("nan"), None, [], [True], {"a": 1}]
)
def test_any_other_flag_value_is_false(value: object) -> None:
    assert flag(value) is False


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
