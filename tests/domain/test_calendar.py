"""Tests for days and instants."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from counterfoil.domain import calendar
from counterfoil.domain.calendar import (
    NOT_ZONES,
    THAI_TIME,
    WHOLE_MINUTES_FROM,
    from_ms,
    iso,
    to_ms,
    trading_day,
    trading_day_text,
    zone_named,
)
from counterfoil.domain.shops import shop_from

ZONES = [
    ZoneInfo(name)
    for name in (
        "Asia/Bangkok",
        "America/New_York",
        "America/St_Johns",
        "Australia/Lord_Howe",
        "Asia/Kathmandu",
        "Africa/Monrovia",
        "Asia/Gaza",
        "UTC",
    )
]
LAST = to_ms(datetime(9999, 12, 31, 9, tzinfo=UTC))
AN_EVENING = to_ms(datetime(2026, 1, 31, 18, 5, 9, 120_000, tzinfo=THAI_TIME))
TWO_AT_NIGHT = time(2)


def test_an_instant_is_rounded_down_to_its_millisecond() -> None:
    assert to_ms(datetime(1970, 1, 1, 0, 0, 1, 1999, tzinfo=UTC)) == 1001


def test_an_instant_is_written_with_milliseconds_and_the_offset_of_its_clock() -> None:
    assert iso(AN_EVENING, THAI_TIME) == "2026-01-31T18:05:09.120+07:00"


def test_an_instant_in_utc_is_written_with_a_z() -> None:
    assert calendar.iso_utc(AN_EVENING) == "2026-01-31T11:05:09.120Z"


@given(st.integers(0, LAST) | st.integers(0, 2 * 10**12), st.sampled_from(ZONES))
def test_an_instant_is_written_with_the_local_time_of_its_zone(instant: int, zone: ZoneInfo) -> None:
    local = from_ms(instant, zone)
    assume(not (local.utcoffset() or timedelta()).seconds % 60)
    assert iso(instant, zone) == local.isoformat(timespec="milliseconds")


def test_an_offset_that_is_not_a_multiple_of_a_quarter_hour_is_written_unchanged() -> None:
    kiritimati = ZoneInfo("Pacific/Kiritimati")
    instant = to_ms(datetime(1975, 6, 2, 0, 4, 59, tzinfo=kiritimati))
    assert iso(instant, kiritimati) == "1975-06-02T00:04:59.000-10:40"


@given(st.integers(0, to_ms(datetime(1972, 1, 7, tzinfo=UTC))))
def test_an_offset_with_seconds_is_written_to_the_minute_and_names_the_same_instant(instant: int) -> None:
    """Monrovia was 44 minutes and 30 seconds behind UTC until 1972; ISO 8601 does not allow seconds in an offset."""
    written = iso(instant, ZoneInfo("Africa/Monrovia"))
    assert written.endswith("-00:44")
    assert to_ms(datetime.fromisoformat(written)) == instant


@given(st.integers(-20 * 60 * 1000, 20 * 60 * 1000))
def test_the_offset_is_right_on_both_sides_of_a_clock_change_at_an_odd_minute(distance: int) -> None:
    newfoundland = ZoneInfo("America/St_Johns")
    one_past_midnight = to_ms(datetime(2006, 4, 2, 3, 31, tzinfo=UTC))
    instant = one_past_midnight + distance
    assert iso(instant, newfoundland) == from_ms(instant, newfoundland).isoformat(timespec="milliseconds")


@given(st.integers(0, LAST), st.sampled_from(ZONES))
def test_an_instant_survives_conversion_to_a_zone_and_back(instant: int, zone: ZoneInfo) -> None:
    assert to_ms(from_ms(instant, zone)) == instant


@pytest.mark.parametrize(
    "name",
    [
        None,
        "",
        "Nowhere/Atlantis",
        "../etc/passwd",
        "/etc/localtime",
        "localtime",
        "posixrules",
        "Factory",
        "right/Asia/Bangkok",
        "posix/Asia/Bangkok",
        "asia/bangkok",
        "Asia",
        "a\0b",
        "\ud800",
        "x" * 5000,
    ],
)
def test_a_name_that_is_not_an_iana_zone_is_ignored(name: str | None) -> None:
    assert zone_named(name) is None


@pytest.mark.parametrize("name", ["Asia/Tokyo", "UTC", "America/Argentina/Ushuaia"])
def test_an_iana_name_is_read_as_its_zone(name: str) -> None:
    assert zone_named(name) == ZoneInfo(name)


def test_the_thai_day_begins_at_17_utc() -> None:
    midnight = to_ms(datetime(2026, 1, 31, 17, tzinfo=UTC))
    assert (calendar.thai_day(midnight - 1), calendar.thai_day(midnight)) == (date(2026, 1, 31), date(2026, 2, 1))


def test_days_are_listed_oldest_first_with_the_last_at_the_end() -> None:
    assert calendar.days_until(date(2026, 3, 1), 3) == [date(2026, 2, 27), date(2026, 2, 28), date(2026, 3, 1)]


def test_a_day_is_written_without_dashes_as_text_and_as_a_number() -> None:
    assert (calendar.compact(date(2026, 1, 5)), calendar.as_number(date(2026, 1, 5))) == ("20260105", 20260105)


@pytest.mark.parametrize(("clock", "days_back"), [("00:00", 1), ("01:59", 1), ("02:00", 0), ("12:00", 0), ("23:59", 0)])
def test_a_bill_closed_before_a_closing_time_at_night_belongs_to_the_day_before(clock: str, days_back: int) -> None:
    local = datetime.combine(date(2026, 3, 1), time.fromisoformat(clock))
    assert trading_day(local, TWO_AT_NIGHT) == date(2026, 3, 1) - timedelta(days=days_back)


@pytest.mark.parametrize("closing", [time(0), time(12), time(22), time.max])
def test_a_closing_time_from_noon_to_midnight_ends_the_calendar_day(closing: time) -> None:
    assert trading_day(datetime(2026, 3, 1, 0, 30, tzinfo=THAI_TIME), closing) == date(2026, 3, 1)


def test_a_shop_without_a_closing_time_has_no_trading_day() -> None:
    assert trading_day(datetime(2026, 3, 1, 0, 30, tzinfo=THAI_TIME), None) is None


@given(
    st.integers(WHOLE_MINUTES_FROM, LAST) | st.integers(10**12, 2 * 10**12),
    st.sampled_from(ZONES),
    st.times().map("{:%H:%M}".format) | st.sampled_from(["24:00", "12:00", "00:00"]),
)
def test_the_trading_day_of_a_timestamp_is_that_of_its_local_time(instant: int, zone: ZoneInfo, closing: str) -> None:
    facts = shop_from({"id": "s", "closingTime": closing})[1]
    expected = trading_day(from_ms(instant, zone), facts.closing_time())
    assert trading_day_text(iso(instant, zone), facts.closing) == str(expected)


def test_a_timestamp_has_no_trading_day_in_a_shop_without_a_closing_time() -> None:
    assert trading_day_text(iso(AN_EVENING, THAI_TIME), None) is None


def test_every_listed_zone_is_found() -> None:
    names = sorted(available_timezones() - NOT_ZONES)
    assert [zone_named(name) for name in names] == [ZoneInfo(name) for name in names]


def test_every_zone_has_offsets_of_whole_minutes_since_1973() -> None:
    """`bill_dates` reads the local time from timestamps, which show it exactly only if the offset has no seconds."""
    instants = [WHOLE_MINUTES_FROM + 150 * calendar.DAY_MS * number for number in range(150)]
    for name in available_timezones():
        offsets = {from_ms(instant, ZoneInfo(name)).utcoffset() or timedelta() for instant in instants}
        assert not any(offset % timedelta(minutes=1) for offset in offsets), name
