"""On Citus, the feed is read shop by shop. Its pages must be the same as those that a single statement returns.

These tests do not need Citus: on a single server, the statements for the
coordinator and for the shards read the same tables.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from counterfoil.backends.postgres.change_feed import FeedReader
from counterfoil.backends.postgres.citus_reads import CitusFeedReader
from counterfoil.backends.postgres.pool import Pool
from counterfoil.domain.access import Scope
from counterfoil.domain.change_feed import BEGINNING, FeedPosition, Window
from ports.backends import PostgresStore
from ports.conftest import Run, clock, run  # noqa: F401 - fixtures
from ports.open_store import OpenStore, bill, gone, shop
from running_service import ManualClock

FRANCHISE = Scope("franchise", "fr_a")


@pytest.fixture
def store(tmp_path: Any, run: Run) -> Iterator[PostgresStore]:  # noqa: F811
    with closing(PostgresStore(tmp_path)) as store:
        yield store


@pytest.mark.parametrize("limit", [1, 3, 7, 1000])
def test_a_pass_read_shop_by_shop_returns_the_same_pages(
    store: PostgresStore,
    clock: ManualClock,  # noqa: F811
    run: Run,  # noqa: F811
    limit: int,
) -> None:
    with closing(OpenStore(store, clock, run)) as open_store, closing(Pool(store.url)) as pool:
        open_store.put(shop("sh_1"), shop("sh_2"), shop("sh_3"))
        open_store.put(*(bill(f"b_{number}", of) for of in ("sh_1", "sh_3") for number in range(12)))
        mark = open_store.horizon()
        open_store.put(*(gone(bill(f"b_{number}")) for number in range(10)), bill("b_h", "sh_2", history=True))
        # Most of the removed bills are loaded again, so a query for removals returns fewer rows than its limit.
        open_store.put(*(bill(f"b_{number}", history=number % 2 == 0) for number in range(8)))
        for since in (BEGINNING, mark):
            window = Window(since, open_store.horizon())
            together, apart = (passes(run, one, pool, window, limit) for one in (FeedReader, CitusFeedReader))
            assert together == apart
            assert sum(map(len, together)) > 10


def passes(run: Run, reader: type[FeedReader], pool: Pool, window: Window, limit: int) -> list[list[Any]]:  # noqa: F811
    pages: list[list[Any]] = []
    after: FeedPosition | None = None
    while True:
        page, _ = run(reader(pool, FRANCHISE, window, after, limit).read(window.until))
        pages.append([json.loads(element) for element in page.elements])
        after = page.last
        if after is None:
            return pages
