"""Tests for control totals: exact sums, and bills that do not add up."""

from typing import Any

import pytest

from counterfoil.domain.bills import bill_from
from counterfoil.domain.shops import shop_from
from counterfoil.model import control_totals
from counterfoil.model.control_totals import ControlTotals, CountedBill, decimal_text, figures_of, lines_amount

FACTS = shop_from({"id": "sh"})[1]


def counted(number: int = 1, **record: Any) -> CountedBill:
    """Return a bill as it is added to the totals."""
    complete = {"id": f"b{number}", "shopId": "sh", "closedAt": "2026-11-14T18:05", **record}
    bill = bill_from(complete, FACTS, str).bill
    day = int((bill.bill_date or "0").replace("-", ""))
    return "sh", bill.id, figures_of(day, bill.status, bill.amounts, lines_amount(bill.items), bill.payments)


def line(total: object, **fields: object) -> dict[str, object]:
    return {"name": "Latte", "qty": 1, "total": total, **fields}


def totals_of(*bills: CountedBill) -> ControlTotals:
    totals = ControlTotals()
    totals.add(bills)
    return totals


def test_amounts_are_added_up_exactly() -> None:
    report = totals_of(
        *[counted(n, amounts={"net": 0.1, "tip": "0.01", "vat": 0.000001}) for n in range(1000)]
    ).report()
    assert (report.net, report.tip, report.tax) == ("100.00", "10.00", "0.001")


def test_a_voided_bill_is_counted_but_its_amounts_are_not() -> None:
    report = totals_of(counted(1, amounts={"net": 100, "tip": 5, "vat": 7}, void=True), counted(2)).report()
    assert (report.bills, report.voids, report.net, report.tip, report.tax) == (2, 1, "0.00", "0.00", "0.00")


def test_a_refund_is_a_bill_with_a_negative_net() -> None:
    report = totals_of(counted(1, amounts={"net": 100}), counted(2, amounts={"net": -30.5})).report()
    assert (report.bills, report.refunds, report.net) == (2, 1, "69.50")


def test_a_bill_without_a_net_is_reported() -> None:
    assert totals_of(counted(1)).report().without_net == 1


def test_a_bill_that_occurs_twice_is_reported() -> None:
    assert totals_of(counted(1, amounts={"net": 1}), counted(1, amounts={"net": 2})).report().repeated == 1


def test_a_bill_that_occurs_again_unchanged_is_added_once() -> None:
    report = totals_of(*[counted(1, amounts={"net": 1})] * 2, counted(2, amounts={"net": 1})).report()
    assert (report.bills, report.net, report.repeated) == (2, "2.00", 0)


def test_it_is_said_if_there_are_too_many_bills_to_notice_repeated_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_totals, "MAX_REMEMBERED_BILLS", 2)
    assert totals_of(*map(counted, range(3))).report().repeated is None


ADDS_UP = [
    ("lines", {"net": 130}, [line(65), line(65)]),
    ("a cancelled line", {"net": 65}, [line(65), line(99, cancelled=True)]),
    ("a tip line beside the tip", {"net": 70, "tip": 5}, [line(65), line(5, tip=True)]),
    (
        "charges, discount and rounding",
        {"net": 68, "serviceCharge": 6.5, "discountTotal": 4, "rounding": 0.5},
        [line(65)],
    ),
    ("delivery, surcharge and credit", {"net": 70, "deliveryFee": 10, "cardSurcharge": 5, "credit": 10}, [line(65)]),
    ("discounts without their total", {"net": 50, "discount": 5, "coupons": [{"amount": 10}]}, [line(65)]),
    ("a discount above the price", {"net": 10, "discountTotal": 100, "deliveryFee": 10}, [line(65)]),
    ("tax on top", {"net": 107, "vat": 7, "vatType": "Exclude"}, [line(100)]),
    ("tax in the lines", {"net": 107, "vat": 7, "vatType": "Include"}, [line(107)]),
    ("tax of an unknown type", {"net": 107, "vat": 7}, [line(100)]),
    ("lines after the discount", {"net": 60, "discountTotal": 5}, [line(60)]),
    ("a refund", {"net": -65}, [line(-65)]),
    ("satang", {"net": 0.3}, [line(0.1), line(0.1), line(0.1)]),
]


@pytest.mark.parametrize(("amounts", "lines"), [case[1:] for case in ADDS_UP], ids=[case[0] for case in ADDS_UP])
def test_a_bill_adds_up_with(amounts: dict[str, Any], lines: list[Any]) -> None:
    report = totals_of(counted(amounts=amounts, lines=lines)).report()
    assert (report.lines.compared, report.lines.different) == (1, 0)


DIFFERS = [
    ("a net without the tip", {"net": 65, "tip": 5}, [line(65)], "-5.00"),
    ("a net after fees", {"net": 63.1}, [line(65)], "-1.90"),
    ("tax that is not added", {"net": 100, "vat": 7, "vatType": "Exclude"}, [line(100)], "-7.00"),
    ("half of its lines", {"net": 130}, [line(65)], "65.00"),
]


@pytest.mark.parametrize(("amounts", "lines", "by"), [case[1:] for case in DIFFERS], ids=[case[0] for case in DIFFERS])
def test_a_bill_does_not_add_up_with(amounts: dict[str, Any], lines: list[Any], by: str) -> None:
    report = totals_of(counted(amounts=amounts, lines=lines)).report()
    assert [(one.bill_id, one.basis, one.difference) for one in report.not_adding_up] == [("b1", "lines", by)]


@pytest.mark.parametrize(
    ("payments", "compared", "different"),
    [
        ([{"amount": 65}], 1, 0),
        ([{"amount": 100, "change": 35}], 1, 0),
        ([{"amount": 30}, {"amount": 35}], 1, 0),
        ([{"amount": 60}], 1, 1),
        ([{"amount": "?"}], 0, 0),
        ([], 0, 0),
    ],
)
def test_the_net_is_compared_with_the_payments_minus_change(payments: list[Any], compared: int, different: int) -> None:
    found = totals_of(counted(amounts={"net": 65}, payments=payments)).report().payments
    assert (found.compared, found.different) == (compared, different)


def test_payments_that_add_up_outweigh_lines_that_do_not() -> None:
    good = counted(1, amounts={"net": 65}, lines=[line(60)], payments=[{"amount": 65}])
    bad = counted(1, amounts={"net": 65}, lines=[line(60)])
    assert (totals_of(good).report().mostly_differs, totals_of(bad).report().mostly_differs) == (False, True)


def test_days_are_listed_in_order_and_the_latest_are_kept() -> None:
    bills = [counted(n, closedAt=f"2026-11-{n:02}T12:00", amounts={"net": n}) for n in range(1, 5)]
    report = totals_of(*bills).report(most_days=2)
    assert [one.day for one in report.days] == ["2026-11-03", "2026-11-04"]
    assert (report.net, report.first_day, report.last_day, report.more_days) == ("10.00", "2026-11-01", "2026-11-04", 2)


def test_beyond_the_limit_days_are_added_up_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_totals, "MAX_SHOP_DAYS", 1)
    totals = totals_of(*[counted(n, closedAt=f"2026-11-{n:02}T12:00", amounts={"net": n}) for n in range(1, 4)])
    assert [(one.shop_id, one.day, one.net) for one in totals.report().days] == [
        ("sh", "2026-11-01", "1.00"),
        (None, None, "5.00"),
    ]
    assert (totals.net_of(None), totals.net_of(20261101)) == (6_000_000, None)


@pytest.mark.parametrize(
    ("amount", "text"), [(0, "0.00"), (1, "0.000001"), (-500_000, "-0.50"), (144_638_000_000, "144638.00")]
)
def test_an_amount_has_at_least_two_places(amount: int, text: str) -> None:
    assert decimal_text(amount) == text
