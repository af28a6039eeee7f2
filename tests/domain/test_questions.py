import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.domain.problems import Refused
from counterfoil.domain.questions import bill_list, instant, limit, lookup, parameters

NO_LIMITS = "|0|0.9|-3|-0.5|1e3| 5 |5 |1_0|๕|５|0x10|ten|NaN|Infinity|.|5.|--5"
LIMITS = {
    1: ["1", "00000000000000000000001"],
    5: ["+5", "5.9"],
    7: ["007"],
    100: NO_LIMITS.split("|"),
    200: ["200", "201", "200.9", "99999999999999999999999", "9" * 5000],
}


@pytest.mark.parametrize(("text", "size"), [(None, 100), *((text, size) for size in LIMITS for text in LIMITS[size])])
def test_a_limit_is_never_an_error(text: str | None, size: int) -> None:
    assert limit(text) == size


@given(st.text())
def test_any_limit_gives_a_page_size_in_range(text: str) -> None:
    assert 1 <= limit(text) <= 200


def test_if_a_parameter_is_given_twice_the_first_one_counts() -> None:
    assert parameters("a=1&a=2&b=3") == {"a": "1", "b": "3"}


def test_parameters_are_percent_decoded() -> None:
    assert parameters("shopId=%E0%B8%81%20x+y") == {"shopId": "ก x y"}


@given(st.text())
def test_any_query_string_is_read_without_an_error(query: str) -> None:
    parameters(query)


EPOCH_2026 = 1_767_225_600_000


MIDNIGHTS = (
    "2026-01-01T00:00:00Z|2026-01-01T00:00:00z|2026-01-01t00:00:00Z|2026-01-01 00:00:00Z|2026-01-01T00:00:00-00:00|"
    "2026-01-01T00:00Z|2026-01-01T00Z|20260101T000000Z|2026-01-01T07:00:00+07:00|2026-01-01T07:00:00 07:00|"
    "2026-01-01T07:00:00+0700|2026-01-01T07:00:00+07|2025-12-31T19:00:00-05:00"
)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        *((text, EPOCH_2026) for text in MIDNIGHTS.split("|")),
        ("2026-01-01T00:00:00.1Z", EPOCH_2026 + 100),
        ("2026-01-01T00:00:00,123Z", EPOCH_2026 + 123),
        ("2026-01-01T00:00:00.123999999Z", EPOCH_2026 + 123),
        ("1970-01-01T00:00:00.000Z", 0),
        ("0001-01-01T00:00:00+14:00", -62_135_647_200_000),
        ("9999-12-31T23:59:59-12:00", 253_402_343_999_000),
    ],
)
def test_an_instant_is_read_at_any_precision_and_offset(text: str, ms: int) -> None:
    assert instant(text) == ms


NO_INSTANTS = (
    "|2026-01-01|2026-01-01Z|yesterday|2026-W01-1T00:00:00Z|2026-01-01T00:00:00ZZ|2026-01-01T00:00:00 Asia/Bangkok|"
    "1767225600|2026-02-30T00:00:00Z|0000-01-01T00:00:00Z|2026-01-01T24:00:00Z|2026-01-01T24:00:00.000Z|"
    "2026-02-30T00:00:00.000Z|2026-01-01T23:60:00Z|2026-01-01T23:59:60Z|2026-01-01T00:00:00+24:00|"
    "2026-01-01T00:00:00+07:60|2026-0101T00:00:00Z|๒๐๒๖-01-01T00:00:00Z| 2026-01-01T00:00:00Z|2026-01-01T00:00:00Z\n|"
    "2026-01-01T00:00:00.Z"
)


@pytest.mark.parametrize("text", NO_INSTANTS.split("|"))
def test_an_invalid_instant_is_a_bad_query(text: str) -> None:
    with pytest.raises(Refused, match="bad_query"):
        instant(text)


@given(st.from_regex(r"\A[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9]\.[0-9]{3}\Z"))
def test_an_instant_with_z_equals_one_with_a_zero_offset(text: str) -> None:
    """The two forms are parsed by different code."""
    assert read(f"{text}Z") == read(f"{text}+00:00")


def read(text: str) -> int | str:
    try:
        return instant(text)
    except Refused as refused:
        return refused.message


def test_an_instant_without_an_offset_is_refused_with_the_reason() -> None:
    with pytest.raises(Refused) as refused:
        instant("2026-01-01T00:00:00")
    assert "ambiguous" in refused.value.message


@given(st.text())
def test_any_text_is_an_instant_or_a_bad_query(text: str) -> None:
    try:
        code = "" if isinstance(instant(text), int) else "no number"
    except Refused as refused:
        code = refused.problem.code
    assert code in ("", "bad_query")


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"shopId": ""},
        {"shopId": "s"},
        {"shopid": "s", "from": "20260101", "to": "20260131"},
        {"shopId": "s", "From": "20260101", "To": "20260131"},
        {"from": "20260101", "to": "20260131"},
        {"shopId": "s", "from": "20260101"},
        {"shopId": "s", "to": "20260101"},
        {"shopId": "s", "from": "20260101", "to": "20260131", "updatedSince": "2026-01-01T00:00:00Z"},
        {"shopId": "s", "from": "20260101", "updatedSince": "2026-01-01T00:00:00Z"},
        {"shopId": "s", "from": "20260101", "to": "20260131", "updatedSince": ""},
        {"shopId": "s", "updatedSince": ""},
        {"shopId": "s", "from": "20260131", "to": "20260101"},
        {"shopId": "s", "from": "20260101", "to": "20260201"},
    ],
)
def test_a_bill_list_without_exactly_one_mode_is_a_bad_query(query: dict[str, str]) -> None:
    with pytest.raises(Refused, match="bad_query"):
        bill_list(query)


DAYS = ["260101", "20261301", "20260100", " 20260101", "20260101\n", "+2026010", "2026010１", "20260101T000000Z"]


@pytest.mark.parametrize("day", ["2026-01-01", "20260230", "00000101", "2026011", "๒๐๒๖๐๑๐๑", "", *DAYS])
def test_a_day_of_another_form_is_a_bad_query(day: str) -> None:
    for query in ({"from": day, "to": "20260101"}, {"from": "20260101", "to": day}):
        with pytest.raises(Refused, match="bad_query"):
            bill_list({"shopId": "s", **query})


@pytest.mark.parametrize("start", ["", "u", "C", " U"])
@pytest.mark.parametrize("rest", ["", "A" * 32, "g" * 32, "0" * 31, "0" * 33, "๐" * 32, "0" * 32 + "\n"])
def test_a_messaging_user_id_of_another_form_is_a_bad_query(start: str, rest: str) -> None:
    for user_id in (start + rest, start + "0" * 32, "U" + rest):
        with pytest.raises(Refused, match="bad_query"):
            lookup({"providerId": "p", "messagingUserId": user_id})


def test_a_messaging_user_id_is_u_and_32_lowercase_hex_digits() -> None:
    assert lookup({"providerId": "p", "messagingUserId": "U" + "0a" * 16}).provider_id == "p"
