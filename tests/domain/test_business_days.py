"""What is usual on a day of a shop, and the same day of several shops added up."""

from datetime import date, timedelta
from decimal import Decimal

import pytest

from counterfoil.domain.business_days import ComparedDay, DayOfShop, TradingDays, Usual, by_shop, sum_of_day

DAY = date(2026, 11, 18)
TODAY = date(2026, 11, 19)


def sold(weeks_ago: int, bills: int, net: int | None = None) -> DayOfShop:
    amount = Decimal(100 * bills if net is None else net)
    return DayOfShop(shop_id="sh_1", day=DAY - timedelta(weeks=weeks_ago), bills=bills, voids=0, net=amount)


def shop(*days: DayOfShop) -> TradingDays:
    return by_shop(days)["sh_1"]


def test_the_usual_day_is_the_median_of_the_same_weekday_of_four_weeks() -> None:
    found = shop(sold(0, 9), *(sold(week, bills) for week, bills in ((1, 4), (2, 6), (3, 100), (4, 5)))).compared(
        DAY, TODAY
    )
    assert found.usual == Usual(bills=5.5, voids=0.0, net=Decimal(550))
    assert (found.bills, found.net_difference) == (9, Decimal(350))
    assert found.share == pytest.approx(900 / 550)


def test_a_closing_day_is_usual_and_a_day_without_bills_counts() -> None:
    found = shop(*(sold(week, 8) for week in (2, 3, 4)), sold(5, 1)).compared(DAY, TODAY)
    assert (found.bills, found.net, found.usual) == (0, Decimal(0), Usual(bills=8.0, voids=0.0, net=Decimal(800)))
    monday = DAY - timedelta(days=2)
    assert shop(sold(4, 1), sold(0, 1)).compared(monday, TODAY).usual == Usual(bills=0.0, voids=0.0, net=Decimal(0))


def test_in_the_first_week_nothing_is_usual() -> None:
    yesterday = DayOfShop(shop_id="sh_1", day=DAY - timedelta(days=1), bills=3, voids=0, net=Decimal(30))
    found = shop(yesterday).compared(DAY, TODAY)
    assert (found.usual, found.net_difference, found.share) == (None, None, None)


def test_only_weeks_since_the_first_day_count() -> None:
    found = shop(sold(1, 4), sold(2, 6)).compared(DAY, TODAY)
    assert found.usual
    assert found.usual.bills == 5


def test_a_day_that_was_not_added_up_makes_the_usual_net_unknown_but_not_the_bills() -> None:
    unknown = DayOfShop(shop_id="sh_1", day=DAY - timedelta(weeks=2), bills=6, voids=None, net=None)
    found = shop(sold(1, 4), unknown).compared(DAY, TODAY)
    assert found.usual == Usual(bills=5.0, voids=None, net=None)
    assert found.net_difference is None


def test_the_sum_compares_only_shops_in_which_something_is_usual() -> None:
    def day(bills: int, net: int | None, usual: int | None) -> ComparedDay:
        amount = None if net is None else Decimal(net)
        expected = None if usual is None else Usual(bills=usual / 10, voids=0.0, net=Decimal(usual))
        return ComparedDay(day=DAY, bills=bills, voids=0, net=amount, usual=expected)

    found = sum_of_day([day(9, 90, 100), day(11, 110, 100), day(50, 500, None), day(0, 0, None)])
    assert (found.bills, found.net, found.without_usual) == (70, Decimal(700), 1)
    assert (found.compared_bills, found.compared_net, found.usual_net) == (20, Decimal(200), Decimal(200))
    assert found.difference == 0
    assert sum_of_day([day(9, None, 100)]).difference is None
    assert sum_of_day([]).difference is None


def test_a_day_that_has_not_ended_is_not_compared() -> None:
    days = shop(sold(0, 1), sold(1, 4))
    assert days.compared(DAY, TODAY).net_difference == Decimal(-300)
    today = days.compared(DAY, DAY)
    assert (today.is_open, today.net_difference, today.share) == (True, None, None)
    assert today.usual


def test_bills_without_a_date_belong_to_no_day() -> None:
    assert by_shop([DayOfShop(shop_id="sh_1", day=None, bills=1, voids=0, net=Decimal(1))]) == {}
