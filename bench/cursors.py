"""Cursors for the benchmark's callers: a key can continue a list only from a cursor that was handed out to it."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing

from bench.questions import Backfill, MemberPage
from bench.workloads import drawn
from bench.world import World
from counterfoil import bootstrap
from counterfoil.domain.paging import BY_DAY, BY_SIGN_UP, Listing, Position, StoredCursor

_SIGN_UP = "SELECT created_at FROM members WHERE provider_id = ? AND token = ?"
_HORIZON = "SELECT at FROM horizon"


def hand_out(world: World, keys: list[str]) -> None:
    """Give each key a cursor for every page that the workloads request, except first pages."""
    asked = list(_positions(world))
    lineages = [key.split("_")[2] for key in keys]
    parts = bootstrap.serving_ports(world.settings, lambda _: None)

    async def hand_out_to(lineage: str) -> None:
        for resource, query, held in asked:
            await parts.cursors.hand_out(Listing(lineage, resource, query), held, None)

    async def hand_out_all() -> None:
        await asyncio.gather(*map(hand_out_to, lineages))
        parts.close()

    asyncio.run(hand_out_all())


def _positions(world: World) -> Iterator[tuple[str, str, StoredCursor]]:
    """Yield the list and position of every page that the workloads request, except first pages."""
    with closing(sqlite3.connect(f"file:{world.books}?mode=ro", uri=True)) as books:
        (horizon,) = books.execute(_HORIZON).fetchone()
        questions = {question for workload in drawn(world).values() for question in workload.questions}
        for question in questions:
            match question:
                case Backfill(shop_id=shop, first=first, last=last, after=after) if after:
                    position = Position(after.day, after.closed_ms, after.id)
                    yield f"bills {shop}", f"{BY_DAY} {first}-{last}", StoredCursor(position, horizon, horizon)
                case MemberPage(base, token) if token:
                    (signed_up,) = books.execute(_SIGN_UP, (base, token)).fetchone()
                    yield f"members {base}", BY_SIGN_UP, StoredCursor(Position(signed_up, 0, token), horizon, horizon)
                case _:
                    continue
