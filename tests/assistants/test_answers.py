"""Tests that an answer of `counterfoil mcp` is about what was asked, is right, and says what it leaves out."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import records as r
from assistants.assistant import Assistant, Refused, questions, with_tools
from client.pulled_copy import PLENTY, Copy
from client.targets import duckdb_target
from counterfoil.client.assistant.questions import Questions, SalesGroup
from counterfoil.client.assistant.sources import QueryRefused
from counterfoil.model.text import UNSAFE
from running_service import RunningService, backend_settings

FRANCHISE = "franchise-of-the-answers"
TREE = [
    {"id": "c-food", "name": "Food", "level": 1},
    {"id": "c-hot", "name": "Hot", "level": 2, "parentId": "c-food"},
    {"id": "c-soups", "name": "Soups", "level": 3, "parentId": "c-hot"},
]
# The days of January 2026 on which both shops sold something. The first is a Thursday.
DAYS = range(1, 11)


def pulled(service: RunningService, folder: Path) -> tuple[Copy, list[r.Record]]:
    """Return a pulled copy of two shops, and the shops."""
    shops = [r.branch(franchiseId=FRANCHISE, name=name, categories=TREE) for name in ("Riverside", "Hill")]
    food = {"categoryIds": ["c-food"], "productId": "p-rice", "rootId": None, "name": "Rice", "total": 50}
    soup = {"categoryIds": ["c-food", "c-hot", "c-soups"], "total": 60}
    daily = [
        r.bill(shop, closedAt=f"2026-01-{day:02}T12:00:00+07:00", lines=[r.line(**soup), r.line(**food)])
        for shop in shops
        for day in DAYS
    ]
    without_id = [
        r.line(productId=None, rootId=None, name=name, total=total, categoryIds=[])
        for name, total in (("Corkage", 700), ("Cake", 700), ("Cake", 300))
    ]
    after_midnight = r.bill(shops[0], id="late", closedAt="2026-01-11T01:00:00+07:00", amounts={"net": 5})
    service.load(*shops, *daily, r.bill(shops[0], closedAt=None, lines=without_id), after_midnight)
    service.clock.advance(60)
    service.ledger.advance_horizon()
    copy = Copy(service, service.key(franchise=FRANCHISE, **PLENTY), duckdb_target(folder))
    copy.pull()
    return copy, shops


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("answers")
    with backend_settings("sqlite") as place, closing(RunningService(folder, **place)) as service:
        pulled(service, folder)
    return folder / "copy.duckdb"


@pytest.fixture(scope="module")
def ask(file: Path) -> Iterator[Questions]:
    with questions(file) as ask:
        yield ask


# --- what was asked ------------------------------------------------------------------


def test_an_unknown_argument_is_refused_and_the_error_names_the_right_one(file: Path) -> None:
    mistakes = [
        ("sales", "shop_id", "shop_ids"),
        ("sales", "shopIds", "shop_ids"),
        ("sales", "from", "first_day"),
        ("sales", "to", "last_day"),
        ("sales", "by", "group_by"),
        ("sales", "frist_day", "first_day"),
        ("product_mix", "shop_id", "shop_ids"),
        ("find_bill", "shop_id", "shop_ids"),
        ("query", "statement", "sql"),
        ("member_summary", "shop_ids", "limit"),
        ("copy_state", "shop_ids", "no arguments"),
    ]

    async def talk(assistant: Assistant) -> None:
        for tool, argument, right in mistakes:
            with pytest.raises(Refused, match=f"`{argument}`.*{right}"):
                await assistant.ask(tool, **{argument: "2026-01-01"})
        schemas = [tool.input_schema for tool in (await assistant.client.list_tools()).tools]
        assert all(schema["additionalProperties"] is False for schema in schemas)

    with_tools(file, talk)


def test_group_by_is_a_list_in_every_tool_and_a_single_word_is_accepted(file: Path) -> None:
    async def talk(assistant: Assistant) -> None:
        schemas = {tool.name: tool.input_schema["properties"] for tool in (await assistant.client.list_tools()).tools}
        for tool in ("sales", "product_mix"):
            assert "array" in str(schemas[tool]["group_by"])
        listed = await assistant.ask("product_mix", group_by=["category"])
        assert listed == await assistant.ask("product_mix", group_by="category")
        with pytest.raises(Refused, match=r"`group_by`.*'product' or 'category'"):
            await assistant.ask("product_mix", group_by=["shop"])

    with_tools(file, talk)


def test_characters_that_change_what_a_reader_sees_are_escaped(file: Path) -> None:
    hostile = "\u202eevil\u2066\x1b[2J"

    async def talk(assistant: Assistant) -> None:
        sql = f"SELECT '{hostile}' AS \"{hostile}\", ['{hostile}'], MAP {{'{hostile}': 1}}"
        answer, text = await assistant.ask_with_text("query", sql=sql)
        assert answer["rows"][0][0] == r"\u202eevil\u2066\x1b[2J"
        assert not UNSAFE.search(text)
        assert not UNSAFE.search(json.dumps(answer, ensure_ascii=False))
        with pytest.raises(Refused) as refused:
            await assistant.ask("query", sql=f"SELECT CAST('{hostile}' AS INTEGER)")
        assert not UNSAFE.search(str(refused.value).replace("\n", ""))

    with_tools(file, talk)


def test_the_text_of_an_answer_is_as_compact_as_its_structure(file: Path) -> None:
    async def talk(assistant: Assistant) -> None:
        answer, text = await assistant.ask_with_text("sales", group_by=["day", "shop"])
        assert json.loads(text) == answer
        assert "\n" not in text
        assert '": ' not in text

    with_tools(file, talk)


def test_every_answer_repeats_its_filters(file: Path, ask: Questions) -> None:
    shop_id = ask.list_shops(1)["shops"][0]["shopId"]
    days = {"first_day": "2026-01-02", "last_day": "2026-01-03"}

    async def talk(assistant: Assistant) -> None:
        sales = await assistant.ask("sales", shop_ids=[shop_id], **days)
        assert sales["filters"] == {**days, "shop_ids": [shop_id], "days": "calendar", "limit": 100}
        assert sales["totals"]["bills"] == 2
        everything = {"first_day": None, "last_day": None, "shop_ids": None, "days": "calendar"}
        assert (await assistant.ask("product_mix", limit=3))["filters"] == {**everything, "limit": 3}
        found = await assistant.ask("find_bill", bill_id="late", shop_ids=[shop_id])
        assert found["filters"] == {"bill_id": "late", "receipt_number": None, "shop_ids": [shop_id]}
        for tool in ("list_shops", "member_summary"):
            assert (await assistant.ask(tool))["filters"] == {"limit": 100}
        assert (await assistant.ask("query", sql="SELECT 1", limit=2))["filters"] == {"limit": 2}
        assert (await assistant.ask("copy_state"))["filters"] == {}

    with_tools(file, talk)


def test_all_days_of_an_answer_are_of_one_kind(ask: Questions) -> None:
    # The bill of 11 January, a Sunday, was closed at one o'clock, so it belongs to Saturday, 10 January.
    tenth = date(2026, 1, 10)
    both = ask.sales(["business_day", "weekday", "month"], tenth, tenth, limit=10)
    assert [(row["businessDay"], row["weekday"], row["month"], row["bills"]) for row in both["groups"]] == [
        ("2026-01-10", "Saturday", "2026-01", 3)
    ]
    assert both["days"] == "business days"
    by_weekday = ask.sales(["weekday"], tenth, days="business", limit=10)
    assert [(row["weekday"], row["bills"]) for row in by_weekday["groups"]] == [("Saturday", 3)]
    calendar = ask.sales(["day"], tenth, tenth)
    assert [(row["day"], row["bills"]) for row in calendar["groups"]] == [("2026-01-10", 2)]
    assert calendar["days"] == "calendar days"
    with pytest.raises(QueryRefused):
        ask.sales(["day", "business_day"], limit=10)
    for products, kind, bills in (
        (ask.product_mix(["product"], tenth, tenth), "calendar", 2),
        (ask.product_mix(["product"], tenth, tenth, days="business"), "business", 3),
    ):
        assert products["days"] == f"{kind} days"
        assert max(row["bills"] for row in products["products"]) == bills


def test_arguments_are_read_as_meant_or_refused_in_one_sentence_and_the_server_keeps_running(file: Path) -> None:
    mistakes: list[tuple[str, dict[str, Any], str]] = [
        ("sales", {"first_day": "2026-01-02", "last_day": "2026-01-01"}, "day"),
        ("sales", {"shop_ids": []}, "shop_ids"),
        ("sales", {"shop_ids": ["nowhere"]}, "list_shops"),
        ("sales", {"first_day": "1793491200"}, "first_day"),
        ("sales", {"first_day": 1793491200}, "first_day"),
        ("sales", {"group_by": ["colour"]}, "`group_by` is not valid: 'colour'. Input should be 'day'"),
        ("sales", {"limit": 100_000}, "limit"),
        ("find_bill", {}, "bill_id"),
        ("query", {"sql": "DELETE FROM bills"}, "single SELECT"),
    ]

    async def talk(assistant: Assistant) -> None:
        [shop, _] = (await assistant.ask("list_shops"))["shops"]
        answer = await assistant.ask("sales", group_by="day", shop_ids=shop["shopId"], first_day="20260110")
        assert answer["filters"]["shop_ids"] == [shop["shopId"]]
        assert [row["day"] for row in answer["groups"]][:1] == ["2026-01-10"]
        nothing_given = await assistant.ask("sales", group_by=None, shop_ids=None)
        assert nothing_given == await assistant.ask("sales")
        for tool, arguments, told in mistakes:
            with pytest.raises(Refused, match=told) as refused:
                await assistant.ask(tool, **arguments)
            assert not re.search("pydantic|validation|Value error|\n", str(refused.value))
        assert (await assistant.ask("query", sql="SELECT count(*) FROM bills"))["rows"] == [[22]]

    with_tools(file, talk)


# --- figures -------------------------------------------------------------------------


def test_products_without_an_id_are_told_apart_by_name(ask: Questions) -> None:
    rows = ask.product_mix(["product"], limit=100)["products"]
    found = [(row["name"], row["total"]) for row in rows if row["productId"] is row["rootId"] is None]
    assert found == [("Cake", "1000.00"), ("Corkage", "700.00")]


def test_products_of_the_same_id_are_told_apart_by_shop_unless_they_have_an_id_of_the_head_office(
    ask: Questions,
) -> None:
    rows = ask.product_mix(["product"], limit=100)["products"]
    shop_ids = {shop["shopId"] for shop in ask.list_shops(10)["shops"]}
    rice = [row for row in rows if row["productId"] == "p-rice"]
    assert ({row["shopId"] for row in rice}, [row["total"] for row in rice]) == (shop_ids, ["500.00", "500.00"])
    assert [row["total"] for row in rows if row["rootId"] == "hq-soup"] == ["1320.00"]


def test_a_line_counts_in_one_category_of_its_shop_and_in_the_whole_of_those_above_it(ask: Questions) -> None:
    categories = ask.product_mix(["category"], limit=10)["products"]
    [riverside, hill] = sorted(ask.list_shops(10)["shops"], key=lambda shop: str(shop["shopName"]), reverse=True)
    found = {
        (row["shopId"], row["name"], row["level"]): (row["total"], row["withDescendants"]["total"])
        for row in categories
    }
    tree: dict[tuple[str, int], tuple[str, str]] = {
        ("Food", 1): ("500.00", "1100.00"),
        ("Hot", 2): ("0.00", "600.00"),
        ("Soups", 3): ("600.00", "600.00"),
    }
    assert len(found) == len(categories)
    expected: dict[tuple[Any, ...], tuple[str, str]] = {
        **{(shop["shopId"], *category): totals for shop in (riverside, hill) for category, totals in tree.items()},
        (riverside["shopId"], "Soups", 1): ("120.00", "120.00"),
        (riverside["shopId"], None, None): ("1700.00", "1700.00"),
    }
    assert found == expected


def test_the_newest_days_are_kept_when_an_answer_is_cut_and_it_says_so(ask: Questions) -> None:
    answer = ask.sales(["day"], limit=3)
    assert [row["day"] for row in answer["groups"]] == ["2026-01-09", "2026-01-10", "2026-01-11"]
    assert (answer["total"], answer["truncated"]) == (12, True)
    assert "2026-01-08" in answer["leftOut"]
    orders: list[list[SalesGroup]] = [["day", "shop"], ["shop", "day"]]
    for groups in orders:
        answer = ask.sales(groups, limit=4)
        assert {row["day"] for row in answer["groups"]} == {"2026-01-10", "2026-01-11"}
        assert len(answer["groups"]) == 3, "a day is shown with only some of its shops"
        assert "2026-01-09" in answer["leftOut"]
    assert len(ask.sales(["month", "shop", "service_type"], limit=1)["groups"]) == 1
    complete = ask.sales(["day"], limit=100)
    assert "leftOut" not in complete
    assert [row["day"] for row in complete["groups"]] == [*(f"2026-01-{day:02}" for day in (*DAYS, 11)), None]


def test_weekdays_are_in_the_order_of_the_calendar(ask: Questions) -> None:
    weekdays = [row["weekday"] for row in ask.sales(["weekday"], limit=100)["groups"]]
    assert weekdays == ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday", None]


# --- shops that have left -------------------------------------------------------------


def test_the_time_of_a_shop_that_has_left_stands_still(service: RunningService, tmp_path: Path) -> None:
    copy, [staying, leaving] = pulled(service, tmp_path)
    with questions(tmp_path / "copy.duckdb") as ask:
        last_seen = ask.sales((), shop_ids=[leaving["id"]], limit=1)["asOf"]
        # This bill never reaches the copy, because the shop leaves before the next pull.
        service.clock.advance(60)
        service.load(r.bill(leaving))
        service.load(leaving | {"franchiseId": "another-franchise"})
        for _ in range(2):
            service.clock.advance(3600)
            service.ledger.advance_horizon()
            copy.pull()
            now = ask.sales((), shop_ids=[staying["id"]], limit=1)
            assert now["asOf"] > last_seen
            assert "shopsThatLeft" not in now
            answer = ask.sales((), shop_ids=[leaving["id"]], limit=1)
            assert (answer["asOf"], answer["shopsThatLeft"]) == (last_seen, {leaving["id"]: last_seen})
            everything = ask.sales((), limit=1)
            assert (everything["asOf"], everything["shopsThatLeft"]) == (now["asOf"], {leaving["id"]: last_seen})
            assert list(ask.member_summary()["basesThatLeft"]) == [leaving["providerId"]]
            [listed] = [shop for shop in ask.list_shops(10)["shops"] if not shop["inScope"]]
            assert listed["shopId"] == leaving["id"]
            assert ask.copy_state()["shopsAsOf"] == {staying["id"]: now["asOf"], leaving["id"]: last_seen}


def test_a_closed_shop_is_still_updated(service: RunningService, tmp_path: Path) -> None:
    copy, [_, closing_down] = pulled(service, tmp_path)
    service.clock.advance(60)
    service.load(r.removal(closing_down))
    service.ledger.advance_horizon()
    copy.pull()
    with questions(tmp_path / "copy.duckdb") as ask:
        answer = ask.sales((), shop_ids=[closing_down["id"]], limit=1)
        assert "shopsThatLeft" not in answer
        assert answer["asOf"] == ask.sales((), limit=1)["asOf"]
        [shop] = [shop for shop in ask.list_shops(10)["shops"] if shop["shopId"] == closing_down["id"]]
    assert shop["removedAt"] is not None
    assert shop["completeUntil"] is None
