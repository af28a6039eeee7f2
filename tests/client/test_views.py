"""The views of a copy return the same figures in every target as a computation from the source records."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import records as r
from client import plain_sql
from client.pulled_copy import PLENTY, Copy
from client.targets import TARGETS
from counterfoil.client.tables import DUCKDB_VIEWS
from running_service import RunningService

# The last of these times is after midnight, but before the shops close at 02:00.
TIMES = ("2025-12-30T12:00", "2025-12-31T18:30", "2026-01-01T00:30")
BUSINESS_DAYS = ("2025-12-30", "2025-12-31", "2025-12-31")
CATEGORIES = [{"id": "c1", "name": "Food"}, {"id": "c2", "name": "Hot", "parentId": "c1"}]


def source_records() -> tuple[list[r.Record], list[r.Record]]:
    """Return two shops and their bills. Each bill has a tip line.

    Some bills are void, or have a tip amount, a cancelled line or a member.
    """
    one = r.branch(categories=CATEGORIES, name="Riverside")
    shops = [one, r.branch(franchiseId=one["franchiseId"], name="Station")]
    bills = [
        r.bill(
            shops[number % 2],
            closedAt=f"{TIMES[number % 3]}:00+07:00",
            amounts={"net": 100.1 + number, **({"tip": 0.7} if number % 4 == 0 else {})},
            lines=[
                r.line(
                    productId=f"p{number % 3}" if number % 3 else None,
                    name=f"Dish {number % 3}",
                    qty=number % 5 + 0.25,
                    total=10.1 + number,
                    categoryIds=["c1", "c2"],
                ),
                r.line(productId="p9", name="Rice", qty=1, total=15.5, cancelled=number % 6 == 0, categoryIds=["gone"]),
                r.line(productId="tip", name="Tip", qty=1, total=0.7, tip=True, categoryIds=[]),
            ],
            payments=[{"name": "Cash", "amount": 200, "change": 150.5}, {"name": "QR", "amount": 50.6 + number}],
            memberId=f"m{number % 4}" if number % 4 else None,
            void={"reason": "mistake"} if number % 7 == 0 else None,
        )
        for number in range(40)
    ]
    return shops, bills


@dataclass(frozen=True)
class Pulled:
    kind: str
    copy: Copy
    folder: Path
    shops: list[r.Record]
    bills: list[r.Record]

    def rows(self, statement: str) -> plain_sql.Rows:
        return plain_sql.rows(self.kind, self.copy.target, self.folder, statement)

    @property
    def sold(self) -> list[r.Record]:
        return [bill for bill in self.bills if not bill["void"]]


@pytest.fixture(scope="module", params=TARGETS)
def pulled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pulled]:
    """A copy in each kind of target in turn. No test changes it."""
    folder = tmp_path_factory.mktemp("pulled")
    shops, bills = source_records()
    with closing(RunningService(folder)) as service:
        service.load(*shops, *(r.member(shops[0], id=f"m{number}") for number in range(4)), *bills)
        key = service.key(franchise=shops[0]["franchiseId"], **PLENTY)
        copy = Copy(service, key, TARGETS[request.param](folder))
        copy.pull()
        yield Pulled(request.param, copy, folder, shops, bills)


def sums(pairs: Any) -> dict[Any, tuple[Decimal, ...]]:
    """Add up the values of equal keys."""
    found: dict[Any, tuple[Decimal, ...]] = defaultdict(tuple)
    for key, *values in pairs:
        added = [number(value) for value in values]
        earlier = found[key] or (Decimal(0),) * len(added)
        found[key] = tuple(number(total + more) for total, more in zip(earlier, added, strict=True))
    return dict(found)


def number(value: Any) -> Decimal:
    return Decimal(str(value)).normalize() + 0


def calendar_day(bill: r.Record) -> str:
    return str(bill["closedAt"][:10])


def business_day(bill: r.Record) -> str:
    return BUSINESS_DAYS[[time[:10] for time in TIMES].index(calendar_day(bill))]


def revenue(bill: r.Record) -> Decimal:
    return Decimal(0) if bill["void"] else number(bill["amounts"]["net"]) - tip(bill)


def tip(bill: r.Record) -> Decimal:
    return number(bill["amounts"].get("tip", 0))


def test_daily_sales_are_net_without_tips_and_voids_by_business_day_and_by_calendar_day(pulled: Pulled) -> None:
    for view, day in {"daily_sales": business_day, "daily_sales_by_calendar_day": calendar_day}.items():
        expected = sums(
            ((bill["shopId"], day(bill)), 0, 1, 0, 0)
            if bill["void"]
            else ((bill["shopId"], day(bill)), 1, 0, revenue(bill), tip(bill))
            for bill in pulled.bills
        )
        named = "business_date" if view == "daily_sales" else "bill_date"
        columns = f"shop_id, CAST({named} AS VARCHAR), bills, voids, revenue, tips"
        rows = pulled.rows(f"SELECT {columns} FROM {view}")  # noqa: S608 - names of our own views
        assert {row[:2]: row[2:] for row in rows} == expected


def test_plain_filters_of_times_select_the_same_bills_in_every_target(pulled: Pulled) -> None:
    def literal(instant: str) -> str:
        return f"datetime('{instant}')" if pulled.kind == "sqlite" else f"'{instant}Z'"

    def count(condition: str) -> Decimal:
        [(found,)] = pulled.rows(f"SELECT count(*) FROM bills WHERE {condition}")  # noqa: S608 - conditions of this test
        return Decimal(found)

    sold = Counter(bill["closedAt"][:16] for bill in pulled.bills)
    [(copied,)] = pulled.rows("SELECT CAST(max(copied_at) AS VARCHAR) FROM bills")
    second = datetime.fromisoformat(copied).replace(microsecond=0, tzinfo=None)
    before, after = (str(second + timedelta(seconds=seconds)) for seconds in (-1, 1))
    assert count("local_time BETWEEN '2025-12-31 18:00:00' AND '2025-12-31 18:30:00'") == sold[TIMES[1]]
    assert count("timestamp >= '2025-12-31 00:00:00Z'") == sold[TIMES[1]] + sold[TIMES[2]]
    assert count(f"timestamp <= {literal('2025-12-31 11:30:00')}") == sold[TIMES[0]] + sold[TIMES[1]]
    assert count(f"timestamp > {literal('2025-12-31 11:30:00')}") == sold[TIMES[2]]
    assert count(f"copied_at > {literal(before)}") == len(pulled.bills)
    assert count(f"copied_at > {literal(after)}") == 0


def test_the_product_mix_leaves_out_voids_cancelled_lines_and_tips(pulled: Pulled) -> None:
    expected = sums(
        ((bill["shopId"], business_day(bill), line["productId"], line["name"]), line["qty"], line["total"], 1)
        for bill in pulled.sold
        for line in bill["lines"]
        if not line.get("cancelled") and not line.get("tip")
    )
    rows = pulled.rows(
        "SELECT shop_id, CAST(business_date AS VARCHAR), product_id, name, qty, line_total, bills FROM product_mix"
    )
    assert {row[:4]: row[4:] for row in rows} == expected


def test_payments_by_method_are_without_change_and_voids(pulled: Pulled) -> None:
    expected = sums(
        ((bill["shopId"], business_day(bill), paid["name"]), 1, number(paid["amount"]) - number(paid.get("change", 0)))
        for bill in pulled.sold
        for paid in bill["payments"]
    )
    rows = pulled.rows(
        "SELECT shop_id, CAST(business_date AS VARCHAR), method, payments, amount FROM payments_by_method"
    )
    assert {row[:3]: row[3:] for row in rows} == expected


def test_a_line_has_its_shop_its_times_and_the_names_of_its_categories(pulled: Pulled) -> None:
    names = {shop["id"]: shop["name"] for shop in pulled.shops}
    levels = {"c1": ("Food", "Hot", "Hot"), "gone": ("gone", None, "gone")}
    expected = {
        (bill["id"], position): (
            names[bill["shopId"]],
            bill["closedAt"][:19].replace("T", " "),
            business_day(bill),
            line["name"],
            number(line["total"]),
            # The second shop has no categories, so their IDs are shown.
            *(
                levels.get(line["categoryIds"][0], (None,) * 3)
                if names[bill["shopId"]] == "Riverside" and line["categoryIds"]
                else (line["categoryIds"][0], [*line["categoryIds"], None][1], line["categoryIds"][-1])
                if line["categoryIds"]
                else (None, None, None)
            ),
            not (bill["void"] or line.get("cancelled") or line.get("tip")),
        )
        for bill in pulled.bills
        for position, line in enumerate(bill["lines"], 1)
    }
    rows = pulled.rows(
        "SELECT bill_id, line, shop_name, local_time, CAST(business_date AS VARCHAR), product_name, line_total, "
        "category_level_1, category_level_2, category_name, is_sold FROM bill_lines"
    )
    assert {row[:2]: (*row[2:-1], bool(row[-1])) for row in rows} == expected


def test_member_activity_counts_the_bills_and_sales_of_each_member(pulled: Pulled) -> None:
    expected = {}
    for member in {bill["memberId"] for bill in pulled.bills} - {None}:
        own = [bill for bill in pulled.sold if bill["memberId"] == member]
        days = sorted(map(calendar_day, own))
        total = number(sum(map(revenue, own)))
        expected[pulled.copy.service.token(member)] = (len(own), total, days[0], days[-1])
    rows = pulled.rows(
        "SELECT member_id, bills, revenue, CAST(first_day AS VARCHAR), CAST(last_day AS VARCHAR) FROM member_activity"
    )
    assert {row[0]: row[1:] for row in rows} == expected


def test_a_view_that_somebody_has_replaced_is_kept(pulled: Pulled) -> None:
    sink = pulled.copy.target()
    for view in DUCKDB_VIEWS:
        sink.run(f"DROP VIEW {view}")
        sink.run(f"CREATE VIEW {view} AS SELECT 1 AS mine")
    sink.close()
    pulled.copy.pull()
    for view in DUCKDB_VIEWS:
        assert pulled.copy.rows(f"SELECT mine FROM {view}") == [(1,)]  # noqa: S608 - names of our own views
    # The next pull creates the views that do not exist.
    with closing(pulled.copy.target()) as sink:
        for view in DUCKDB_VIEWS:
            sink.run(f"DROP VIEW {view}")
