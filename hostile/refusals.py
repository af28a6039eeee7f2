"""A store with two franchises, and requests for IDs that do not exist or belong to the other franchise.

The requests run in this process, without HTTP, so that small timing differences can be measured.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from msgspec import Struct

from counterfoil import bootstrap
from counterfoil.domain.access import Admitted, Key, Scope
from counterfoil.domain.problems import Refused
from counterfoil.domain.questions import bill_list, digest_list, lookup, member_list
from counterfoil.reads import Answer, Caller, Reads
from hostile.timing import Ask
from records import NEW_YEAR, Record, bill, branch, member
from running_service import RunningService, backend_settings

# For each kind of ID, this many IDs are ours, this many belong to the other franchise, and this many do not exist,
# except that our franchise has only eight shops and eight bases.
NUMBER = 300
SCOPES = ("franchise", "shop")

Ids = dict[str, list[str]]
Question = Callable[[Reads, Caller, str], Coroutine[Any, Any, Answer]]
# Runs a request to completion, or raises `Refused`.
Run = Callable[[Coroutine[Any, Any, Answer]], object]
# The requests, keyed by name, each with the kind of ID that it contains.
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
    # The change feed is left out, because none of its parameters is the ID of a record.
    "digests of a shop": ("shop", lambda reads, caller, asked: reads.digests(caller, digest_list({"shopId": asked}))),
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
    """A store with two franchises, their IDs, and nonexistent IDs in the same format."""

    reads: Reads
    run: Run
    theirs: Ids
    nobodys: Ids
    ours: Ids
    # The address of the database, or the folder of an embedded store.
    store: str

    def asking(self, name: str, scope: str) -> Ask:
        """Return a function that makes a request with an ID and fails unless the request is refused."""
        _, question = QUESTIONS[name]
        within = Scope("shop", self.ours["shop"][0]) if scope == "shop" else Scope("franchise", "ours")
        caller = Caller(Key(key_id="k", scope=within, messaging_lookup=True), Admitted(date(2026, 1, 1), 1))
        reads, run = self.reads, self.run

        def ask(asked: str) -> None:
            try:
                run(question(reads, caller, asked))
            except Refused:
                return
            raise AssertionError("the request was not refused")

        return ask


def _ids(kind: str, draw: random.Random) -> Iterator[list[str]]:
    """Return three lists of random IDs in the same format."""
    drawn = [f"{kind}-{draw.getrandbits(64):016x}" for _ in range(3 * NUMBER)]
    return (drawn[place::3] for place in range(3))


def _group(franchise: str, ids: Ids) -> list[Record]:
    """Return the records of a franchise. Each shop has a base; only the first eight shops have members and bills."""
    shops = [
        branch(id=shop_id, franchiseId=franchise, providerId=base_id)
        for shop_id, base_id in zip(ids["shop"], ids["base"], strict=True)
    ]
    return [
        *shops,
        *(member(shops[place % 8], id=name) for place, name in enumerate(ids["member"])),
        *(bill(shops[place % 8], id=name) for place, name in enumerate(ids["bill"])),
    ]


@contextmanager
def two_franchises(folder: Path, deployment: str) -> Iterator[TwoFranchises]:
    """Yield a store on this back end that contains the records of both franchises."""
    draw = random.Random(7)  # noqa: S311 - nothing secret
    ours, theirs, nobodys = {}, {}, {}
    for kind in ("shop", "base", "member", "bill"):
        ours[kind], theirs[kind], nobodys[kind] = _ids(kind, draw)
    ours |= {kind: ours[kind][:8] for kind in ("shop", "base")}
    with backend_settings(deployment) as settings, asyncio.Runner() as runner:
        service = RunningService(folder, **settings)
        service.load(*_group("ours", ours), *_group("theirs", theirs))
        keyed = bootstrap.pseudonyms(service.settings)
        for ids in (ours, theirs, nobodys):
            ids["member"] = [keyed.member_token(name) for name in ids["member"]]
        parts = bootstrap.serving_ports(service.settings, service.events.append, service.clock)
        reads = Reads(
            books=parts.books,
            cursors=parts.cursors,
            meter=parts.meter,
            pseudonyms=keyed,
            clock=service.clock,
            new_id=lambda: "0123456789abcdef",
        )
        # On SQLite nothing is awaited, so no event loop is used: it would make the measurement less precise.
        run: Run = (lambda asked: asked.send(None)) if deployment == "sqlite" else runner.run
        yield TwoFranchises(reads, run, theirs, nobodys, ours, service.settings.database or str(service.settings.store))
        parts.close()
        service.close()
