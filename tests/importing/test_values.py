"""Tests for numbers, dates, text and flags in the cells of an export, in the formats that tills write."""

import re
from decimal import Decimal

import pytest

from counterfoil.importing import values
from counterfoil.importing.values import DateFormat, NumberFormat, UnreadableCell

COMMA = NumberFormat(",", ".")


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("1,250.50", "1250.50"),
        ("฿1,250.50", "1250.50"),
        ("￥7,430", "7430"),
        ("\\7,430", "7430"),
        ("-7,430円", "-7430"),
        ("1,250.50 THB", "1250.50"),
        ("1250.5 บาท", "1250.5"),
        ("1250.50 TL", "1250.50"),
        ("\u200f1250.50 ر.س", "1250.50"),
        ("$ 12", "12"),
        ("(95.00)", "-95.00"),
        ("(฿95.00)", "-95.00"),
        ("-95", "-95"),
        ("−95", "-95"),
        ("95.00-", "-95.00"),
        ("+3", "3"),
        (".5", "0.5"),
        ("12.", "12"),
        ("๑๒.๕๐", "12.50"),
        ("1 250.50", "1250.50"),
        ("1'250.50", "1250.50"),
        ("-$5.00", "-5.00"),
        ("$-5.00", "-5.00"),
        ("US$ 12.50", "12.50"),
        ("- 5.00", "-5.00"),
        ("1\u202f250.50", "1250.50"),
        ("0.1000000000000000055511151231257827", "0.1000000000000000055511151231257827"),
        ("123456789012345678901.23", "123456789012345678901.23"),
    ],
)
def test_a_number_is_read_exactly(cell: str, number: str) -> None:
    found = values.read_decimal(cell, NumberFormat())
    assert found == Decimal(number)
    assert found is not None
    assert "E" not in values.decimal_text(found)


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("1.250,50", "1250.50"),
        ("12,5", "12.5"),
        ("(1.000,00) €", "-1000.00"),
        ("R 35,00", "35.00"),
        ("0,90 €", "0.90"),
        ("R$ 1.234,50", "1234.50"),
    ],
)
def test_a_decimal_comma_is_read_where_the_mapping_says_so(cell: str, number: str) -> None:
    assert values.read_decimal(cell, COMMA) == Decimal(number)


NO_NUMBERS = "12,5|1,25.00|1.2.3|abc|12 pcs|1e3|NaN|--5|0x10|1,2345|1e400|1.3E+18|12 34|1฿50|12 THB 50|5%|1 2345"


@pytest.mark.parametrize(
    ("cell", "written"),
    [*((cell, NumberFormat()) for cell in NO_NUMBERS.split("|")), ("1.25", COMMA), ("1,250.00", COMMA)],
)
def test_a_number_in_another_format_is_refused_and_not_guessed(cell: str, written: NumberFormat) -> None:
    with pytest.raises(UnreadableCell):
        values.read_decimal(cell, written)


@pytest.mark.parametrize("cell", ["", "-", "–", "฿"])
def test_an_empty_cell_has_no_number(cell: str) -> None:
    assert values.read_decimal(cell, NumberFormat()) is None


@pytest.mark.parametrize(
    ("cell", "order", "iso"),
    [
        ("11/14/2026 6:05 PM", "mdy", "2026-11-14T18:05:00"),
        ("8/17/26 12:16 AM", "mdy", "2026-08-17T00:16:00"),
        ("8/17/26 12:16 PM", "mdy", "2026-08-17T12:16:00"),
        ("2026-11-14 18:05:09", "dmy", "2026-11-14T18:05:09"),
        ("2026-11-14T18:05:09.1234Z", "dmy", "2026-11-14T18:05:09.123000+00:00"),
        ("2026-11-14T18:05:09+0700", "dmy", "2026-11-14T18:05:09+07:00"),
        ("14 Nov 2026 18:05", "mdy", "2026-11-14T18:05:00"),
        ("2026/11/30 25:30", "ymd", "2026-12-01T01:30:00"),
        ("26-11-14 18:05", "ymd", "2026-11-14T18:05:00"),
        ("1762000000", "dmy", "1762000000"),
        ("20261114180512", "mdy", "2026-11-14T18:05:12"),
        ("202611141805", "mdy", "2026-11-14T18:05:00"),
        ("3 août 2026 18:05", "dmy", "2026-08-03T18:05:00"),
        ("14/11/2026 18:05 GMT+0700", "dmy", "2026-11-14T18:05:00+07:00"),
        ("Sat Nov 14 2026 18:05:00 GMT+0700 (Indochina Time)", "dmy", "2026-11-14T18:05:00+07:00"),
        ("Sat, 14 Nov 2026 18:05:00 +0700", "mdy", "2026-11-14T18:05:00+07:00"),
    ],
)
def test_a_time_is_read_in_the_order_of_the_mapping(cell: str, order: str, iso: str) -> None:
    assert values.read_time(cell, DateFormat(), order) == iso


TIMES = """
14/11/2026 20h15|14/11/2026 20 h 15|14/11/2026 20h15min|14/11/2026 à 20:15|14/11/2026 a las 20:15
14.11.2026 20:15 Uhr|14.11.2026 um 20:15|14.11.2026 kl. 20.15|14/11/2026 - 20:15|14/11/2026 20:15h
14/11/2026 20:15 hs.|14/11/2026 2015 hrs|2026-11-14_20:15|2026-11-14-20.15.00|20261114-201500
20:15 14/11/2026|08:15 PM 14 Nov 2026|08:15 PM, November 14 2026|14/11/2026 08:15p|2026年11月14日20时15分
2026年11月14日 20時15分|2026/11/14(土) 20:15|2026/11/14 下午 08:15|2026/11/14 午後08:15
2026년 11월 14일 20:15|2026-11-14 오후 08:15|14/11/2026 08:15 CH|14 thg 11, 2026 20:15
14 tháng 11, 2026 20:15|14/11/2026 08:15 μ.μ.|14.11.2026 ÖS 08:15|14 พฤศจิกายน พ.ศ. 2569 20:15
วันเสาร์ที่ 14 พฤศจิกายน 2569 20:15|Sat 14/11/2026 20:15|'14/11/2026 20:15
viernes, 14 de noviembre de 2026 20:15|sam. 14 nov. 2026 20:15|Sa., 14.11.2026 20:15
14th November 2026 20:15|2026-Nov-14 20:15|2026. november 14. 20:15|14 ноября 2026 г., 20:15
14.11.2026 г. 20:15 ч.|14-Kas-2026 20:15|14 Kasım 2026 20:15|14 listopada 2026 20:15
14 listopadu 2026 20:15|14 marraskuuta 2026 20:15|14 noiembrie 2026 20:15|14 Noi 2026 20:15
14 Νοεμβρίου 2026 20:15|14 листопада 2026 20:15|14 ноември 2026 20:15|14 nobyembre 2026 20:15
14 نوفمبر 2026 20:15|14 נובמבר 2026 20:15|14/11/2026 0.84375|2026-11-14 00:00:00 20:15
14/11/2026 1899-12-30 20:15:00|14.11.2026 20.15|14-11-2569 20:15|Nov 14, 2026 8:15 pm|14 พ.ย. 2569 20:15 น.
20261114 20:15|14/11/2026 8:15 p. m.|14/11/2026 8:15\u202fPM|20261114T201500|25691114201500|14/11/2569 20:15 น.
14/11/2026 20.15|14 พ.ย. 2569 8:15 PM
"""


@pytest.mark.parametrize("cell", re.split(r"[|\n]", TIMES.strip()))
def test_a_time_is_read_with_the_words_of_its_language_around_it(cell: str) -> None:
    assert values.read_time(cell, DateFormat(), "dmy") == "2026-11-14T20:15:00"


@pytest.mark.parametrize(
    ("cell", "zone", "offset"),
    [
        ("14/7/2026 18:05", "UTC", "+00:00"),
        ("14/7/2026 18:05", "Europe/Berlin", "+02:00"),
        ("14/7/2026 18:05Z", "Asia/Bangkok", "+00:00"),
    ],
)
def test_a_time_zone_of_the_mapping_becomes_an_offset(cell: str, zone: str, offset: str) -> None:
    assert values.read_time(cell, DateFormat(timezone=zone), "dmy") == f"2026-07-14T18:05:00{offset}"


def test_a_two_digit_buddhist_year_is_read_if_the_mapping_says_so() -> None:
    assert values.read_day("14/11/69", DateFormat(calendar="buddhist"), "dmy") == "2026-11-14"


@pytest.mark.parametrize(
    ("cell", "calendar"), [("14/11/69", "gregorian"), ("14/11/26", "buddhist"), ("17 ก.ค. 69", "gregorian")]
)
def test_a_two_digit_year_that_is_decades_away_is_refused(cell: str, calendar: str) -> None:
    with pytest.raises(UnreadableCell, match=r"decades away, unless dates\.calendar is"):
        values.read_day(cell, DateFormat(calendar=calendar), "dmy")


@pytest.mark.parametrize(
    ("cell", "iso"),
    [("45975.75", "2025-11-14T18:00:00"), ("45975 0.75", "2025-11-14T18:00:00"), ("45975.0", "2025-11-14T00:00:00")],
)
def test_the_number_of_a_spreadsheet_is_a_time_only_if_the_mapping_says_so(cell: str, iso: str) -> None:
    assert values.read_time(cell, DateFormat(serial=True), "dmy") == iso
    with pytest.raises(UnreadableCell, match=r"set dates\.serial"):
        values.read_time(cell, DateFormat(), "dmy")


def test_the_number_of_a_spreadsheet_without_a_fraction_has_no_time() -> None:
    assert values.read_day("45975", DateFormat(serial=True), "dmy") == "2025-11-14"
    with pytest.raises(UnreadableCell, match="no time of day"):
        values.read_time("45975", DateFormat(serial=True), "dmy")


def test_a_day_without_a_time_gets_the_default_time_or_is_refused() -> None:
    assert values.read_time("14/11/2026", DateFormat(default_time="12:00"), "dmy") == "2026-11-14T12:00:00"
    with pytest.raises(UnreadableCell, match="no time of day"):
        values.read_time("14/11/2026", DateFormat(), "dmy")


NO_TIMES = """
31/02/2026 10:00|14/11/2026 30:00|14/11/2026 13:00 PM|14/11/1026 10:00|14/13/2026 10:00|yesterday|14 Foo 2026 10:00
14/11/2026 10:00 nonsense|Total 14/11/2026 20:15|14/11/2026 -05:00|14/11/2026 20:15 x|14/11/2026 25.30|14/11/2026 2075
"""


@pytest.mark.parametrize("cell", re.split(r"[|\n]", NO_TIMES.strip()))
def test_a_time_that_does_not_exist_or_has_other_words_beside_it_is_refused(cell: str) -> None:
    with pytest.raises(UnreadableCell):
        values.read_time(cell, DateFormat(), "dmy")


@pytest.mark.parametrize("cell", ["31/12/1969", "19691231", "1969-12-31", "31 Dec 1969", "Dec 31, 1969", "1/1/0001"])
def test_a_year_out_of_range_is_the_reason_in_the_message(cell: str) -> None:
    with pytest.raises(UnreadableCell, match=f'^"{cell}" has a year outside 1970 to 2049$'):
        values.read_day(cell, DateFormat(), "dmy")


@pytest.mark.parametrize("order", ["mdy", "ymd"])
@pytest.mark.parametrize("cell", ["20261332", "2026-13-01", "31 Feb 2026", "Feb 31, 2026", "14/11/2026"])
def test_the_message_names_the_order_only_if_the_date_depends_on_it(cell: str, order: str) -> None:
    condition = f" if the order of day, month and year is {order}" if "/" in cell else ""
    with pytest.raises(UnreadableCell, match=f'^"{cell}" is not a date{condition}$'):
        values.read_day(cell, DateFormat(), order)


@pytest.mark.parametrize("offset", ["+24:00", "-99", "+0760"])
def test_a_time_with_an_impossible_offset_is_refused(offset: str) -> None:
    with pytest.raises(UnreadableCell, match=r"is not a time$"):
        values.read_time(f"2026-11-14 18:05{offset}", DateFormat(), "dmy")


def test_spreadsheet_quoting_and_spaces_are_removed_from_text() -> None:
    assert values.clean(' ="00123" ') == "00123"
    assert values.clean("\u00a0A1\t") == "A1"


@pytest.mark.parametrize("mark", [".", ","])
@pytest.mark.parametrize("cell", ["12", "12.", "12.50", "1200.125", ".5", "0.125", "12,50", "1,200.50"])
def test_a_number_has_the_same_decimals_with_and_without_a_currency(cell: str, mark: str) -> None:
    decimals, has_thousands, currency = values.number_shape(cell, mark)
    assert (decimals, has_thousands, currency) == (*values.number_shape(f"{cell} THB", mark)[:2], "")
