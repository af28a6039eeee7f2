"""Tests for days and instants."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from counterfoil.model import calendar
from counterfoil.model.calendar import NOT_ZONES, THAI_TIME, from_ms, iso, to_ms, trading_day, zone_named

NAMES = (
    "Asia/Bangkok America/New_York America/St_Johns Australia/Lord_Howe Asia/Kathmandu Africa/Monrovia Asia/Gaza UTC"
)
ZONES = list(map(ZoneInfo, NAMES.split()))
NO_NAMES = (
    "Nowhere/Atlantis ../etc/passwd /etc/localtime localtime posixrules Factory right/Asia/Bangkok posix/Asia/Bangkok "
    "asia/bangkok Asia"
)
LAST = to_ms(datetime(9999, 12, 31, 9, tzinfo=UTC))
AN_EVENING = to_ms(datetime(2026, 1, 31, 18, 5, 9, 120_000, tzinfo=THAI_TIME))


def test_an_instant_is_rounded_down_to_its_millisecond() -> None:
    assert to_ms(datetime(1970, 1, 1, 0, 0, 1, 1999, tzinfo=UTC)) == 1001


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


@pytest.mark.parametrize("name", [None, "", "a\0b", "\ud800", "x" * 5000, *NO_NAMES.split()])
def test_a_name_that_is_not_an_iana_zone_is_ignored(name: str | None) -> None:
    assert zone_named(name) is None


def test_the_thai_day_begins_at_17_utc() -> None:
    midnight = to_ms(datetime(2026, 1, 31, 17, tzinfo=UTC))
    assert (calendar.thai_day(midnight - 1), calendar.thai_day(midnight)) == (date(2026, 1, 31), date(2026, 2, 1))


@pytest.mark.parametrize(
    ("clock", "closing", "day"),
    [
        ("00:00", "02:00", "2026-02-28"),
        ("01:59", "02:00", "2026-02-28"),
        ("02:00", "02:00", "2026-03-01"),
        ("12:00", "02:00", "2026-03-01"),
        ("23:59", "02:00", "2026-03-01"),
        *(("00:30", closing, "2026-03-01") for closing in ("00:00", "12:00", "22:00", "24:00")),
        ("00:30", None, None),
    ],
)
def test_a_bill_closed_before_a_closing_time_at_night_belongs_to_the_day_before(
    clock: str, closing: str | None, day: str | None
) -> None:
    assert trading_day(f"2026-03-01T{clock}:00.000+07:00", closing) == day


def test_every_listed_zone_is_found() -> None:
    names = sorted(name for name in available_timezones() if not name.startswith(NOT_ZONES))
    assert [zone_named(name) for name in names] == [ZoneInfo(name) for name in names]
