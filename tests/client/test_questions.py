"""The views of a copy, the statements in docs/in-the-copy.md and an assistant return what the API's bills add up to."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import records as r
from client import plain_sql
from client.pulled_copy import PLENTY, Copy
from client.targets import EVERY_KIND, TARGETS
from counterfoil.client.assistant.questions import MAX_ROWS, Questions
from counterfoil.client.assistant.sources import CopyReader
from counterfoil.client.copy_views import DUCKDB_VIEWS
from running_service import RunningService

PAGE = Path(__file__).parents[2] / "docs" / "in-the-copy.md"
STATEMENTS = dict(re.findall(r"^### ([^\n]+)\n\n```sql\n(.+?)\n```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL))
YESTERDAY, LAST_WEEK = "2026-01-08", "2026-01-01"
FRANCHISE = "franchise-with-questions"
CATEGORIES = [{"id": "food", "name": "Food"}, {"id": "hot", "name": "Hot", "parentId": "food"}]
Json = dict[str, Any]


def sold_in(shop: r.Record, numbers: range) -> list[r.Record]:
    """Return bills of two weeks, some of them after midnight, void, with a tip, of members, or with odd lines."""
    return [
        r.bill(
            shop,
            closedAt=f"2026-01-{number % 9 + 1:02}T{(number * 7) % 24:02}:30:00+07:00",
            amounts={"net": 80.35 + number * 3, **({"tip": 5.5} if number % 4 == 0 else {})},
            lines=[
                r.line(
                    productId=f"curry of {shop['name']}",
                    rootId="hq-curry",
                    name="Curry",
                    qty=number % 3 + 0.5,
                    total=70.1 + number,
                    categoryIds=["food", "hot"],
                ),
                r.line(
                    productId=None, rootId=None, name=f"Special {number % 2}", qty=1, total=9.25, categoryIds=["food"]
                ),
                # Every shop has a product with this ID. Together, their totals would be the highest.
                r.line(
                    productId="p-1",
                    rootId=None,
                    name=f"Drink of {shop['name']}",
                    qty=2,
                    total=190,
                    cancelled=number % 5 == 0,
                    categoryIds=None,
                ),
                r.line(productId="p-tip", name="Tip", qty=1, total=5.5, tip=True, categoryIds=[]),
            ],
            payments=[{"name": "Cash", "amount": 500, "change": 420.4}, {"name": "QR", "amount": 0.75 + number * 3}],
            memberId=f"m-{number % 2}" if number % 3 == 0 else None,
            void={"reason": "mistake"} if number % 11 == 0 else None,
        )
        for number in numbers
    ]


class World:
    """A service with three shops, one of which leaves, a copy, and the bills that the API returned while it could."""

    def __init__(self, service: RunningService, kind: str, folder: Path) -> None:
        self.kind, self.folder = kind, folder
        self.bangkok = r.branch(franchiseId=FRANCHISE, categories=CATEGORIES, providerId="base-1", name="Bangkok")
        tokyo = r.branch(franchiseId=FRANCHISE, timezone="Asia/Tokyo", providerId="base-1", name="Tokyo")
        self.leaving = r.branch(franchiseId=FRANCHISE, providerId="base-1", name="Leaving")
        sold = [
            *sold_in(self.bangkok, range(40)),
            *sold_in(tokyo, range(40, 70)),
            *sold_in(self.leaving, range(70, 90)),
        ]
        members = [r.member("base-1", id=f"m-{number}") for number in range(2)]
        service.load(self.bangkok, tokyo, self.leaving, r.base("base-1"), *members, *sold)
        self.copy = Copy(service, service.key(franchise=FRANCHISE, **PLENTY), TARGETS[kind](folder))
        self.copy.pull()
        served = self.copy.served()
        self.bills: list[Json] = list(served["bills"].values())
        self.names = {shop_id: shop["shopName"] for shop_id, shop in served["shops"].items()}
        service.clock.advance(60)
        service.load(self.leaving | {"franchiseId": "another-franchise"}, r.bill(self.leaving))
        service.ledger.advance_horizon()
        self.copy.pull()

    def rows(self, statement: str) -> plain_sql.Rows:
        return plain_sql.rows(self.kind, self.copy.target, self.folder, statement)

    @property
    def sold(self) -> list[Json]:
        return [bill for bill in self.bills if bill["status"] != "void"]

    def lines(self) -> Iterator[tuple[Json, Json]]:
        for bill in self.sold:
            yield from ((bill, line) for line in bill["items"] if not line["cancelled"] and not line["isTip"])


@pytest.fixture(scope="module", params=EVERY_KIND)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    with closing(RunningService(folder)) as service:
        yield World(service, request.param, folder)


def revenue(bill: Json) -> Decimal:
    amounts = bill["amounts"]
    return Decimal(0) if bill["status"] == "void" else Decimal(amounts["net"] or 0) - (amounts["tip"] or 0)


def total(bills: Iterable[Json]) -> Decimal:
    return sum(map(revenue, bills), Decimal(0))


def sums(pairs: Any) -> dict[Any, tuple[Decimal, ...]]:
    found: dict[Any, list[Decimal]] = {}
    for key, *values in pairs:
        totals = found.setdefault(key, [Decimal(0)] * len(values))
        totals[:] = [total + value for total, value in zip(totals, values, strict=True)]
    return {key: tuple(plain(total) for total in totals) for key, totals in found.items()}


def plain(value: Decimal) -> Decimal:
    return Decimal(value).normalize() + 0


def percent(part: Decimal, whole: Decimal) -> Decimal:
    return plain(round(100 * part / whole, 2))


def rows(totals: dict[Any, tuple[Decimal, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter((*(key if isinstance(key, tuple) else (key,)), *values) for key, values in totals.items())


# --- the figures, computed from the bills of the API -----------------------------------


def hour_of(world: World, bill: Json) -> str:
    """Return the hour in the shop's zone. In the test data, Tokyo is two hours ahead of Bangkok."""
    milliseconds: int = bill["timestamp"]
    offset = 9 if world.names[bill["shopId"]] == "Tokyo" else 7
    return f"{(milliseconds // 3_600_000 + offset) % 24:02}"


def best_seller(world: World) -> Counter[tuple[Any, ...]]:
    """Return the product with the highest total. In the test data, a product has the same name in all shops."""
    by_product_id = sums((line["id"], line["lineTotal"]) for _, line in world.lines())
    assert max(by_product_id, key=lambda product_id: by_product_id[product_id]) == "p-1"
    totals = sums(
        (
            (line["rootId"], None, None, line["name"])
            if line["rootId"]
            else (None, bill["shopId"], line["id"], line["name"]),
            line["qty"],
            line["lineTotal"],
        )
        for bill, line in world.lines()
    )
    product, figures = max(totals.items(), key=lambda item: item[1][1])
    return Counter([(*product, *figures)])


def of_level_1(world: World, bill: Json, line: Json) -> str | None:
    if not line["category"]:
        return None
    return "Food" if world.names[bill["shopId"]] == "Bangkok" else str(line["category"][0])


FIGURES: dict[str, Callable[[World], Counter[tuple[Any, ...]]]] = {
    "Revenue by shop and business day": lambda world: rows(
        sums(((bill["shopId"], bill["businessDate"]), revenue(bill)) for bill in world.bills)
    ),
    "Best seller": best_seller,
    "Share of voids": lambda world: Counter(
        [(percent(Decimal(len(world.bills) - len(world.sold)), Decimal(len(world.bills))),)]
    ),
    "Average bill": lambda world: Counter([(plain(round(total(world.bills) / len(world.sold), 2)),)]),
    "Hour of day": lambda world: rows(sums((hour_of(world, bill), 1, revenue(bill)) for bill in world.sold)),
    "Category": lambda world: rows(
        sums(((bill["shopId"], of_level_1(world, bill, line)), line["lineTotal"]) for bill, line in world.lines())
    ),
    "Payment method": lambda world: rows(
        sums(
            (paid["name"], 1, paid["amount"] - (paid["change"] or 0))
            for bill in world.sold
            for paid in bill["payments"]
        )
    ),
    "Share of members": lambda world: Counter(
        [(percent(total(bill for bill in world.bills if bill["memberId"]), total(world.bills)),)]
    ),
    "A shop that left": lambda world: rows(
        sums(
            ((bill["shopId"], "Leaving"), revenue(bill))
            for bill in world.bills
            if bill["shopId"] == world.leaving["id"]
        )
    ),
    "Yesterday against last week": lambda world: rows(
        sums(
            (bill["businessDate"], 1, revenue(bill))
            for bill in world.sold
            if bill["businessDate"] in (YESTERDAY, LAST_WEEK)
        )
    ),
}


def test_every_question_of_the_page_is_tested() -> None:
    assert list(STATEMENTS) == list(FIGURES)
    assert len(FIGURES) == 10


# --- the same questions, asked by an assistant ------------------------------------------


def numbers(row: Json, *names: str) -> tuple[Decimal, ...]:
    return tuple(plain(Decimal(row[name])) for name in names)


def asked(ask: Questions, world: World, question: str) -> Counter[tuple[Any, ...]]:
    """Return the answer of an assistant, in the form of the statement's rows."""
    totals = ask.sales([], limit=MAX_ROWS)["totals"]
    match question:
        case "Revenue by shop and business day":
            groups = ask.sales(["shop", "business_day"], limit=MAX_ROWS)["groups"]
            return Counter((row["shopId"], row["businessDay"], *numbers(row, "revenue")) for row in groups)
        case "Best seller":
            [best] = ask.product_mix(["product"], limit=1)["products"]
            product = (best[name] for name in ("rootId", "shopId", "productId", "name"))
            return Counter([(*product, *numbers(best, "quantity", "total"))])
        case "Category":
            categories = ask.product_mix(["category"], limit=MAX_ROWS)["products"]
            return Counter(
                (row["shopId"], row["name"] or row["categoryId"], *numbers(row["withDescendants"], "total"))
                for row in categories
                if row["level"] in (1, None)
            )
        case "Share of voids":
            bills, voids = numbers(totals, "bills", "voids")
            return Counter([(percent(voids, bills + voids),)])
        case "Average bill":
            revenues, bills = numbers(totals, "revenue", "bills")
            return Counter([(plain(round(revenues / bills, 2)),)])
        case "Hour of day":
            hours = ask.sales(["hour"], limit=MAX_ROWS)["groups"]
            return Counter((f"{row['hour']:02}", *numbers(row, "bills", "revenue")) for row in hours if row["bills"])
        case "A shop that left":
            [shop_id] = ask.sales([], limit=1)["shopsThatLeft"]
            of_shop = ask.sales(["shop"], shop_ids=[shop_id], limit=MAX_ROWS)["groups"]
            return Counter((row["shopId"], row["shopName"], *numbers(row, "revenue")) for row in of_shop)
        case "Yesterday against last week":
            found = Counter[tuple[Any, ...]]()
            for day in map(date.fromisoformat, (YESTERDAY, LAST_WEEK)):
                [row] = ask.sales(["business_day"], day, day, limit=MAX_ROWS)["groups"]
                found[row["businessDay"], *numbers(row, "bills", "revenue")] += 1
            return found
    statement = STATEMENTS[question].replace("member_id IS NOT NULL", "has_member")
    answered = ask.query(statement, MAX_ROWS)["rows"]
    return Counter(
        (*row[:-1], plain(Decimal(row[-1]))) if len(row) < 3 else (row[0], row[1], plain(Decimal(row[2])))
        for row in answered
    )


def test_plain_sql_and_an_assistant_return_the_figures_of_the_api(world: World) -> None:
    expected = {question: figures(world) for question, figures in FIGURES.items()}
    for question, statement in STATEMENTS.items():
        assert Counter(world.rows(statement)) == expected[question], question
    # An assistant reads a file.
    if path := {"duckdb": "copy.duckdb", "sqlite": "copy.sqlite", "parquet": "parquet"}.get(world.kind):
        with closing(CopyReader(world.folder / path)) as reader:
            ask = Questions(reader)
            for question, figures in expected.items():
                assert asked(ask, world, question) == figures, question
            [found] = ask.find_bill(world.bills[0]["id"], None)["bills"]
            assert (Decimal(found["net"]), len(found["items"])) == (world.bills[0]["amounts"]["net"], 4)
            assert (ask.copy_state()["rows"]["bills"], ask.member_summary(1)["ranks"][0]["members"]) == (90, 2)


# --- what the statements of the page do not show ----------------------------------------


@pytest.mark.parametrize(
    ("view", "day", "column"),
    [("daily_sales", "businessDate", "business_date"), ("daily_sales_by_calendar_day", "billDate", "bill_date")],
)
def test_daily_sales_are_net_without_tips_and_voids(world: World, view: str, day: str, column: str) -> None:
    expected = sums(
        ((bill["shopId"], bill[day]), 0, 1, 0, 0)
        if bill["status"] == "void"
        else ((bill["shopId"], bill[day]), 1, 0, revenue(bill), bill["amounts"]["tip"] or 0)
        for bill in world.bills
    )
    columns = f"shop_id, CAST({column} AS VARCHAR), bills, voids, revenue, tips"
    assert Counter(world.rows(f"SELECT {columns} FROM {view}")) == rows(expected)  # noqa: S608 - our own views


def test_the_product_mix_leaves_out_voids_cancelled_lines_and_tips(world: World) -> None:
    expected = sums(
        ((bill["shopId"], bill["businessDate"], line["id"], line["name"]), line["qty"], line["lineTotal"], 1)
        for bill, line in world.lines()
    )
    columns = "shop_id, CAST(business_date AS VARCHAR), product_id, name, qty, line_total, bills"
    assert Counter(world.rows(f"SELECT {columns} FROM product_mix")) == rows(expected)  # noqa: S608 - our own columns


def test_payments_by_method_are_without_change_and_voids(world: World) -> None:
    expected = sums(
        ((bill["shopId"], bill["businessDate"], paid["name"]), 1, paid["amount"] - (paid["change"] or 0))
        for bill in world.sold
        for paid in bill["payments"]
    )
    columns = "shop_id, CAST(business_date AS VARCHAR), method, payments, amount"
    found = world.rows(f"SELECT {columns} FROM payments_by_method")  # noqa: S608 - our own columns
    assert Counter(found) == rows(expected)


def test_a_line_has_its_shop_its_times_and_the_names_of_its_categories(world: World) -> None:
    expected = {}
    for bill in world.bills:
        shop = world.names[bill["shopId"]]
        # Only one shop has categories. For the others, the IDs of categories are shown.
        names = {"food": "Food", "hot": "Hot"} if shop == "Bangkok" else {}
        for position, line in enumerate(bill["items"], 1):
            levels = [names.get(category, category) for category in line["category"] or []]
            expected[bill["id"], position] = (
                shop,
                bill["businessDate"],
                line["name"],
                plain(line["lineTotal"]),
                *(*levels, None, None)[:2],
                levels[-1] if levels else None,
                not (bill["status"] == "void" or line["cancelled"] or line["isTip"]),
            )
    found = world.rows(
        "SELECT bill_id, line, shop_name, CAST(business_date AS VARCHAR), product_name, line_total, "
        "category_level_1, category_level_2, category_name, is_sold FROM bill_lines"
    )
    assert {row[:2]: (*row[2:-1], bool(row[-1])) for row in found} == expected


def test_member_activity_counts_the_bills_and_sales_of_each_member(world: World) -> None:
    expected = {}
    for member in {bill["memberId"] for bill in world.bills} - {None}:
        own = [bill for bill in world.sold if bill["memberId"] == member]
        days = sorted(bill["billDate"] for bill in own)
        expected[member] = (len(own), plain(total(own)), days[0], days[-1])
    assert len(expected) == 2
    columns = "member_id, bills, revenue, CAST(first_day AS VARCHAR), CAST(last_day AS VARCHAR)"
    found = world.rows(f"SELECT {columns} FROM member_activity")  # noqa: S608 - our own columns
    assert {row[0]: row[1:] for row in found} == expected


def test_plain_filters_of_times_select_the_same_bills_in_every_target(world: World) -> None:
    def literal(instant: datetime) -> str:
        text = f"{instant:%Y-%m-%d %H:%M:%S}"
        return f"datetime('{text}')" if world.kind == "sqlite" else f"'{text}Z'"

    def count(condition: str) -> Decimal:
        [(found,)] = world.rows(f"SELECT count(*) FROM bills WHERE {condition}")  # noqa: S608 - conditions of this test
        return Decimal(found)

    in_bangkok = [bill["timestamp"] for bill in world.bills if bill["shopId"] == world.bangkok["id"]]
    closed = sorted(datetime.fromtimestamp(instant / 1000, UTC) for instant in in_bangkok)
    shop = f"shop_id = '{world.bangkok['id']}'"
    local = [f"'{instant + timedelta(hours=7):%Y-%m-%d %H:%M:%S}'" for instant in closed]
    assert count(f"{shop} AND local_time BETWEEN {local[10]} AND {local[20]}") == 11
    assert count(f"{shop} AND timestamp <= {literal(closed[10])}") == 11
    assert count(f"{shop} AND timestamp > {literal(closed[10])}") == len(closed) - 11
    later = sum(f"{instant:%Y-%m-%d}" >= "2026-01-05" for instant in closed)
    assert count(f"{shop} AND timestamp >= '2026-01-05 00:00:00Z'") == later
    [(copied,)] = world.rows("SELECT CAST(max(copied_at) AS VARCHAR) FROM bills")
    second = datetime.fromisoformat(copied).replace(microsecond=0)
    assert count(f"copied_at > {literal(second - timedelta(seconds=1))}") == len(world.bills)
    assert count(f"copied_at > {literal(second + timedelta(seconds=1))}") == 0


def test_a_view_that_somebody_has_replaced_is_kept(world: World) -> None:
    with closing(world.copy.target()) as sink:
        for view in DUCKDB_VIEWS:
            sink.run(f"DROP VIEW {view}")
            sink.run(f"CREATE VIEW {view} AS SELECT 1 AS mine")
    world.copy.pull()
    # The next pull creates the views that do not exist.
    with closing(world.copy.target()) as sink:
        for view in DUCKDB_VIEWS:
            assert sink.run(f"SELECT mine FROM {view}") == [(1,)]  # noqa: S608 - names of our own views
            sink.run(f"DROP VIEW {view}")
