"""Runs loaders, in this process and in others, and collects everything that a reader can see in the books."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from counterfoil.demo.worldgen.plan import WorldPlan
from counterfoil.demo.worldgen.world import world
from counterfoil.domain.access import Scope
from counterfoil.domain.changes import KnownFacts
from counterfoil.domain.members import NEXT
from counterfoil.domain.shops import shop_from
from counterfoil.ingest.lines import Reader
from counterfoil.ingest.pipeline import LoadRules, Pipeline, RejectsFile, Summary
from counterfoil.ingest.sources import Source, open_source
from counterfoil.ports import Clock, Slice
from counterfoil.program.clock import SystemClock
from malformed_records import malformed
from ports.backends import Store
from ports.open_store import EVER, PSEUDONYMS, bills_of, open_ledger
from running_service import RecordSource

# Converts records for which every shop is known.
READER = Reader(PSEUDONYMS, lambda _: KnownFacts(1, shop_from({"id": "sh_1", "franchiseId": "fr_a"})[1]))
PLAN = WorldPlan(until=date(2025, 12, 31), days=10, bills=400, shops=4, members=60)


def load(
    store: Store,
    clock: Clock,
    records: Source | Iterable[Any],
    *,
    batch: int = 500,
    rejects: Path = Path("/dev/null"),
    on_progress: Callable[[Summary], None] = lambda _: None,
) -> Summary:
    """Run one complete load with its own ledger; return the summary."""
    ledger = open_ledger(store, clock)
    try:
        pipeline = Pipeline(ledger, PSEUDONYMS, RejectsFile(rejects), LoadRules(batch=batch), on_progress)
        return pipeline.load(records if isinstance(records, Source) else RecordSource(records))
    finally:
        ledger.close()


@cache
def _world() -> tuple[bytes, ...]:
    return tuple(malformed(world(PLAN), 0.2))


def lines_of_a_world() -> list[bytes]:
    return list(_world())


def shops_of_a_world() -> list[dict[str, Any]]:
    return [json.loads(line) for line in _world() if line.startswith(b'{"kind":"shop"')]


# --- values of a record ---------------------------------------------------------


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value in a record."""
    if path:
        yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from paths(inner, (*path, key))


def at(record: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        record = record[key]
    return record


# --- in other processes ----------------------------------------------------------


def load_file(store: Store, path: str, batch: int) -> None:
    load(store, SystemClock(), open_source(path), batch=batch)


def load_and_kill_itself(store: Store, path: str, batch: int, batches: int) -> None:
    """Load, and kill this process right after this many batches."""
    left = batches

    def count(_: Summary) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    load(store, SystemClock(), open_source(path), batch=batch, on_progress=count)


# --- visible data ------------------------------------------------------------------


def visible_world(store: Store) -> dict[str, Any]:
    """Return everything that can be read about the generated world.

    Each `updatedAt` is replaced by True if it is set, and by False if not.
    """
    return asyncio.run(_visible_world(store))


async def _visible_world(store: Store) -> dict[str, Any]:
    shops = shops_of_a_world()
    bases = [json.loads(line)["id"] for line in _world() if line.startswith(b'{"kind":"base"')]
    books = store.books()
    seen: dict[str, Any] = {}
    for franchise in {shop["franchiseId"] for shop in shops if shop.get("franchiseId")}:
        seen[f"franchise {franchise}"] = (await books.shops(Scope("franchise", franchise))).bodies
    for shop_id in {shop["id"] for shop in shops}:
        scope = Scope("shop", shop_id)
        by_day = await books.bills_by_day(scope, shop_id, *EVER, Slice(10_000))
        changed = await books.bills_by_change(scope, shop_id, 0, None, Slice(10_000))
        assert by_day
        assert changed
        seen[f"shop {shop_id}"] = (await books.shops(scope)).bodies
        seen[f"days of {shop_id}"] = [bill | {"updatedAt": bill["updatedAt"] is not None} for bill in bills_of(by_day)]
        seen[f"changes of {shop_id}"] = sorted(bill["id"] for bill in bills_of(changed))
    for provider_id in bases:
        page = await books.members(provider_id, Slice(10_000))
        seen[f"base {provider_id}"] = page.base
        seen[f"members of {provider_id}"] = page.templates.split(NEXT) if page.count else []
    books.close()
    return seen
