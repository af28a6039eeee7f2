"""The views of a copy return the same totals as a computation from the source records."""

from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import records as r
from client.pulled_copy import PLENTY, Copy
from client.targets import TARGETS
from running_service import RunningService

DAYS = ("2025-12-30", "2025-12-31", "2026-01-01")
VIEWS = ("daily_sales", "product_mix", "member_activity")


def source_records() -> tuple[list[r.Record], list[r.Record]]:
    """Return two shops and their bills. Each bill has a tip line.

    Some bills are void, or have a tip amount, a cancelled line or a member.
    """
    one = r.branch()
    shops = [one, r.branch(franchiseId=one["franchiseId"])]
    bills = [
        r.bill(
            shops[number % 2],
            closedAt=f"{DAYS[number % 3]}T12:00:00+07:00",
            amounts={"net": 100.1 + number, **({"tip": 0.7} if number % 4 == 0 else {})},
            lines=[
                r.line(
                    productId=f"p{number % 3}", name=f"Dish {number % 3}", qty=number % 5 + 0.25, total=10.1 + number
                ),
                r.line(productId="p9", name="Rice", qty=1, total=15.5, cancelled=number % 6 == 0),
                r.line(productId="tip", name="Tip", qty=1, total=0.7, tip=True),
            ],
            memberId=f"m{number % 4}" if number % 4 else None,
            void={"reason": "mistake"} if number % 7 == 0 else None,
        )
        for number in range(40)
    ]
    return shops, bills


@pytest.fixture(params=["duckdb", "sqlite"])
def copy(request: pytest.FixtureRequest, service: RunningService, tmp_path: Path) -> tuple[Copy, list[r.Record]]:
    shops, bills = source_records()
    service.load(*shops, *(r.member(shops[0], id=f"m{number}") for number in range(4)), *bills)
    copy = Copy(service, service.key(franchise=shops[0]["franchiseId"], **PLENTY), TARGETS[request.param](tmp_path))
    copy.pull()
    return copy, bills


def number(value: Any) -> Decimal:
    return Decimal(str(value)).normalize()


def day_of(bill: r.Record) -> str:
    return str(bill["closedAt"][:10])


def test_daily_sales_are_net_without_tips_and_voids(copy: tuple[Copy, list[r.Record]]) -> None:
    pulled, bills = copy
    expected: dict[tuple[str, str], list[Decimal]] = defaultdict(lambda: [Decimal(0)] * 4)
    for bill in bills:
        totals = expected[bill["shopId"], day_of(bill)]
        net, tip = Decimal(str(bill["amounts"]["net"])), Decimal(str(bill["amounts"].get("tip", 0)))
        added = (
            [Decimal(0), Decimal(1), Decimal(0), Decimal(0)]
            if bill["void"]
            else [Decimal(1), Decimal(0), net - tip, tip]
        )
        expected[bill["shopId"], day_of(bill)] = [total + more for total, more in zip(totals, added, strict=True)]
    rows = pulled.rows("SELECT shop_id, CAST(day AS VARCHAR), bills, voids, revenue, tips FROM daily_sales")
    assert len(rows) == 6
    assert {row[:2]: [number(value) for value in row[2:]] for row in rows} == {
        key: [number(value) for value in totals] for key, totals in expected.items()
    }


def test_the_product_mix_leaves_out_voids_cancelled_lines_and_tips(copy: tuple[Copy, list[r.Record]]) -> None:
    pulled, bills = copy
    expected: dict[tuple[str, str, str], list[Decimal]] = defaultdict(lambda: [Decimal(0)] * 3)
    for bill in bills:
        for line in bill["lines"] if not bill["void"] else ():
            if not line.get("cancelled") and not line.get("tip"):
                key = bill["shopId"], day_of(bill), line["productId"]
                added = Decimal(str(line["qty"])), Decimal(str(line["total"])), Decimal(1)
                expected[key] = [total + more for total, more in zip(expected[key], added, strict=True)]
    rows = pulled.rows("SELECT shop_id, CAST(day AS VARCHAR), product_id, qty, line_total, bills FROM product_mix")
    assert {row[:3]: [number(value) for value in row[3:]] for row in rows} == {
        key: [number(value) for value in totals] for key, totals in expected.items()
    }


def test_member_activity_counts_the_bills_and_sales_of_each_member(
    copy: tuple[Copy, list[r.Record]], service: RunningService
) -> None:
    pulled, bills = copy
    expected = {}
    for member in {bill["memberId"] for bill in bills} - {None}:
        own = [bill for bill in bills if bill["memberId"] == member and not bill["void"]]
        sales = sum(Decimal(str(bill["amounts"]["net"])) - Decimal(str(bill["amounts"].get("tip", 0))) for bill in own)
        days = sorted(map(day_of, own))
        expected[service.token(member)] = (len(own), number(sales), days[0], days[-1])
    rows = pulled.rows(
        "SELECT member_id, bills, revenue, CAST(first_day AS VARCHAR), CAST(last_day AS VARCHAR) FROM member_activity"
    )
    assert {row[0]: (row[1], number(row[2]), *row[3:]) for row in rows} == expected


def test_a_view_that_somebody_has_replaced_is_kept(copy: tuple[Copy, list[r.Record]]) -> None:
    pulled, _ = copy
    sink = pulled.target()
    for view in VIEWS:
        sink.run(f"DROP VIEW {view}")
        sink.run(f"CREATE VIEW {view} AS SELECT 1 AS mine")
    sink.close()
    pulled.pull()
    for view in VIEWS:
        assert pulled.rows(f"SELECT mine FROM {view}") == [(1,)]  # noqa: S608 - names of our own views
