"""Refusing somebody else's record takes as long as refusing one that does not exist (in process, on SQLite)."""

import random
from collections.abc import Callable, Coroutine, Iterator
from datetime import date
from typing import Any

import pytest
from msgspec import Struct

from counterfoil import bootstrap
from counterfoil.backends.sqlite.books import SqliteBooks
from counterfoil.backends.sqlite.cursors import SqliteCursors
from counterfoil.backends.sqlite.usage import SqliteUsage
from counterfoil.domain.access import Key, Scope
from counterfoil.domain.allowance import Admitted
from counterfoil.domain.problems import Refused
from counterfoil.domain.requests import bill_list, lookup, member_list
from counterfoil.reads import Answer, Caller, Reads
from hostile.timing import BOUND, Ask, busy, compare
from records import NEW_YEAR, Record, bill, branch, member
from running_service import RunningService

SHORT, LONG = 10_000, 1_000_000
# On a busy machine, a comparison of few samples sometimes exceeds the bound; a real difference exceeds it every time.
ATTEMPTS = 3
PLANTED_US = 5
# The number of IDs per kind and owner. An ID belongs to our franchise, to the other franchise, or to nobody.
NUMBER = 300

Ids = dict[str, list[str]]
Question = Callable[[Reads, Caller, str], Coroutine[Any, Any, Answer]]
# Each entry has the kind of ID that the request contains, and the request.
QUESTIONS: dict[str, tuple[str, Question]] = {
    "member": ("member", lambda reads, caller, asked: reads.member(caller, asked)),
    "bill": ("bill", lambda reads, caller, asked: reads.bill(caller, asked)),
    "bills of a shop": (
        "shop",
        lambda reads, caller, asked: reads.bills(caller, bill_list({"shopId": asked, **NEW_YEAR})),
    ),
    "bills of a shop from a cursor": (
        "shop",
        lambda reads, caller, asked: reads.bills(caller, bill_list({"shopId": asked, "cursor": "x", **NEW_YEAR})),
    ),
    "members of a base": (
        "base",
        lambda reads, caller, asked: reads.members(caller, member_list({"providerId": asked})),
    ),
    "lookup in a base": (
        "base",
        lambda reads, caller, asked: reads.lookup(
            caller, lookup({"providerId": asked, "messagingUserId": "U" + 32 * "0"})
        ),
    ),
}


class TwoFranchises(Struct):
    """A store with two franchises, IDs of the other franchise, and nonexistent IDs of the same form."""

    reads: Reads
    theirs: Ids
    nobodys: Ids
    ours: Ids

    def asking(self, name: str, scope: str) -> Ask:
        _, question = QUESTIONS[name]
        within = Scope("shop", self.ours["shop"][0]) if scope == "shop" else Scope("franchise", "ours")
        caller = Caller(Key(key_id="k", scope=within, messaging_lookup=True), Admitted(date(2026, 1, 1), 1))
        reads = self.reads

        def ask(asked: str) -> None:
            """Run the request to completion. On SQLite nothing is awaited, so no event loop is needed."""
            try:
                question(reads, caller, asked).send(None)
            except Refused:
                return
            raise AssertionError("it must be refused")

        return ask


def _ids(kind: str, draw: random.Random) -> Iterator[list[str]]:
    """Yield three lists of IDs that differ only in their owners."""
    drawn = [f"{kind}-{draw.getrandbits(64):016x}" for _ in range(3 * NUMBER)]
    return (drawn[place::3] for place in range(3))


def _group(franchise: str, ids: Ids) -> list[Record]:
    """Return shops, each with its own base; eight of them have members and bills."""
    shops = [
        branch(id=shop_id, franchiseId=franchise, providerId=base_id)
        for shop_id, base_id in zip(ids["shop"], ids["base"], strict=True)
    ]
    return [
        *shops,
        *(member(shops[place % 8], id=name) for place, name in enumerate(ids["member"])),
        *(bill(shops[place % 8], id=name) for place, name in enumerate(ids["bill"])),
    ]


@pytest.fixture(scope="module")
def estate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoFranchises]:
    service = RunningService(tmp_path_factory.mktemp("estate"))
    draw = random.Random(7)  # noqa: S311 - nothing secret
    ours, theirs, nobodys = {}, {}, {}
    for kind in ("shop", "base", "member", "bill"):
        ours[kind], theirs[kind], nobodys[kind] = _ids(kind, draw)
    ours |= {kind: ours[kind][:8] for kind in ("shop", "base")}
    service.load(*_group("ours", ours), *_group("theirs", theirs))
    keyed = bootstrap.pseudonyms(service.settings)
    for ids in (ours, theirs, nobodys):
        ids["member"] = [keyed.member_token(name) for name in ids["member"]]
    books, usage = SqliteBooks(service.settings.store), SqliteUsage(service.settings.store, service.clock)
    cursors = SqliteCursors(service.settings.store, service.clock)
    reads = Reads(
        books=books,
        cursors=cursors,
        meter=usage,
        pseudonyms=keyed,
        clock=service.clock,
        new_id=lambda: "0123456789abcdef",
    )
    yield TwoFranchises(reads, theirs, nobodys, ours)
    for part in (books, usage, cursors, service):
        part.close()


@pytest.mark.parametrize("samples", [SHORT, pytest.param(LONG, marks=pytest.mark.long)])
@pytest.mark.parametrize("scope", ["franchise", pytest.param("shop", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_record_of_somebody_else_takes_as_long_as_one_that_does_not_exist(
    estate: TwoFranchises, name: str, scope: str, samples: int
) -> None:
    kind, _ = QUESTIONS[name]
    found = []
    for attempt in range(ATTEMPTS):
        ask = estate.asking(name, scope)
        found.append(compare(ask, estate.nobodys[kind], estate.theirs[kind], samples, seed=attempt))
        if not found[-1].differs:
            return
    raise AssertionError(f"{name} for a key of one {scope} differs every time (bound {BOUND}): {found}")


@pytest.mark.parametrize("name", ["member", "bill"])
def test_a_planted_difference_of_five_microseconds_is_found_every_time(estate: TwoFranchises, name: str) -> None:
    ask, theirs = estate.asking(name, "franchise"), set(estate.theirs[name])

    def slower(asked: str) -> None:
        if asked in theirs:
            busy(PLANTED_US)
        ask(asked)

    for attempt in range(ATTEMPTS):
        assert compare(slower, estate.nobodys[name], estate.theirs[name], SHORT, seed=attempt).differs
