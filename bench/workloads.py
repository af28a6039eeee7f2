"""The workloads. Most contain many different questions, because real callers do not repeat the same question."""

import random
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from typing import Literal

import msgspec
from msgspec import Struct

from bench.questions import (
    LIMIT,
    Backfill,
    Hello,
    LookUp,
    MemberPage,
    OneBill,
    OneMember,
    Poll,
    Position,
    Question,
    ShopList,
)
from bench.world import GROUP, LARGE, World

# A shop's number in the store, its ID, and its last day with a bill.
Shop = tuple[int, str, int]

MAX_QUESTIONS = 200
STAMPS = 12
DAYS = 31


class Workload(Struct, frozen=True):
    """Questions of one kind. `franchise` is the franchise whose keys are used."""

    name: str
    title: str
    questions: list[Question]
    size: Literal["small", "large", "huge"] = "small"
    encoding: str = "identity"
    franchise: str = GROUP


_SHOPS = """
    SELECT number, id, (SELECT max(bill_day) FROM bills WHERE shop = shops.number) AS last FROM shops
    WHERE franchise_id = ? AND last > 0 ORDER BY number
"""
_BILLS_IN_ORDER = """
    SELECT bill_day, closed_at, id FROM bills WHERE shop = ? AND bill_day BETWEEN ? AND ?
    ORDER BY bill_day, closed_at, id
"""
_SOME_BILLS = "SELECT id FROM bills GROUP BY id HAVING count(*) = 1 ORDER BY id LIMIT 20000"
_LARGEST_BASE = "SELECT provider_id FROM members GROUP BY provider_id ORDER BY count(*) DESC LIMIT 1"
_TOKENS = "SELECT token FROM members WHERE provider_id = ? ORDER BY created_at, token"
_USERS = "SELECT messaging_user_id FROM accounts WHERE provider_id = ? ORDER BY 1 LIMIT 20000"
_HORIZON = "SELECT at FROM horizon"


def drawn(world: World, seed: int = 1) -> dict[str, Workload]:
    """Return all workloads, in the order in which the report lists them."""
    chance = random.Random(seed)  # noqa: S311 - questions must be reproducible, not secret
    with closing(sqlite3.connect(f"file:{world.books}?mode=ro", uri=True)) as books:
        (base,) = books.execute(_LARGEST_BASE).fetchone()
        tokens = [token for (token,) in books.execute(_TOKENS, (base,))]
        bills = [bill for (bill,) in books.execute(_SOME_BILLS)]
        shops = books.execute(_SHOPS, (GROUP,)).fetchall()
        chance.shuffle(shops)
        pages, polls = _pages(books, shops), _polls(books, shops)
    with closing(sqlite3.connect(f"file:{world.peers}?mode=ro", uri=True)) as peers:
        users = [user for (user,) in peers.execute(_USERS, (base,))]
    cursors = [None, *tokens[LIMIT - 1 : -LIMIT : LIMIT]]
    small: list[tuple[str, str, list[Question]]] = [
        ("hello", "hello-world", [Hello()]),
        ("poll", "poll, nothing new", [*polls]),
        ("bill", "one bill", [OneBill(bill) for bill in chance.sample(bills, min(MAX_QUESTIONS, len(bills)))]),
        (
            "member",
            "one member",
            [OneMember(token) for token in chance.sample(tokens, min(MAX_QUESTIONS, len(tokens)))],
        ),
        ("lookup", "lookup", [LookUp(base, user) for user in chance.sample(users, min(MAX_QUESTIONS, len(users)))]),
    ]
    member_pages: list[Question] = [MemberPage(base, cursor) for cursor in cursors]
    large = "shops of 300 branches, 200 categories each"
    found = [
        *(Workload(name, title, questions) for name, title, questions in small),
        Workload("page", "backfill page of 200 bills", pages, "large"),
        *(Workload(f"page-{name}", f"the same page, {name}", pages, "large", name) for name in ("gzip", "zstd")),
        Workload("members", "members page of 200", member_pages, "large"),
        Workload("shops", large, [ShopList(LARGE)], "huge", franchise=LARGE),
    ]
    return {workload.name: workload for workload in found}


def _polls(books: sqlite3.Connection, shops: list[Shop]) -> list[Question]:
    """Return several polls for each of some shops, with different instants after the horizon.

    Real pollers do not send the same instant twice.
    """
    (horizon,) = books.execute(_HORIZON).fetchone()
    polls: list[Question] = []
    for number, shop_id, _ in shops[: MAX_QUESTIONS // STAMPS + 1]:
        instants = range(horizon + 1, horizon + STAMPS + 1)
        polls += [Poll(number, shop_id, _written(instant), instant) for instant in instants]
    return polls


def asked_from(polls: Workload, instant_ms: int) -> Workload:
    """Return the same polls with later instants, for a store that was loaded later."""
    later: list[Question] = []
    for step, poll in enumerate(polls.questions):
        assert isinstance(poll, Poll)
        later.append(Poll(poll.shop, poll.shop_id, _written(instant_ms + step), instant_ms + step))
    return msgspec.structs.replace(polls, questions=later)


def _written(instant_ms: int) -> str:
    instant = datetime.fromtimestamp(instant_ms / 1000, UTC)
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _pages(books: sqlite3.Connection, shops: list[Shop]) -> list[Question]:
    """Return requests for the full pages of each shop's last month, up to MAX_QUESTIONS."""
    pages: list[Question] = []
    for number, shop_id, last in shops:
        if len(pages) >= MAX_QUESTIONS:
            break
        first = _days_before(last, DAYS - 1)
        rows = books.execute(_BILLS_IN_ORDER, (number, first, last)).fetchall()
        for start in range(0, len(rows) - LIMIT + 1, LIMIT):
            after = Position(*rows[start - 1]) if start else None
            pages.append(Backfill(len(pages), number, shop_id, first, last, after))
    return pages[:MAX_QUESTIONS]


def _days_before(day: int, count: int) -> int:
    """Subtract days from a date that is written as a number, such as 20260115."""
    moment = datetime.strptime(str(day), "%Y%m%d").replace(tzinfo=UTC)
    return int(datetime.fromtimestamp(moment.timestamp() - count * 86_400, UTC).strftime("%Y%m%d"))
