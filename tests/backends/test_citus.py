"""What Citus needs, on a single server. These tests do not need Citus.

The schema follows Citus's rules for distributed tables. On Citus, most reads take two
statements, and the feed is read shop by shop; on a single server, these statements
read the same tables, and must return what one statement returns.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import servers
from backends.test_shards import Asked, asked  # noqa: F401 - a fixture
from counterfoil.backends.postgres.admin_connections import connect
from counterfoil.backends.postgres.books import SINGLE_SERVER, PostgresBooks, TableLayout
from counterfoil.backends.postgres.change_feed import FeedReader
from counterfoil.backends.postgres.citus import _ADD_ACCOUNTS, DISTRIBUTED, distribute, for_rows
from counterfoil.backends.postgres.citus_reads import CITUS, CitusFeedReader, open_books
from counterfoil.backends.postgres.pool import Pool, SplitStatement
from counterfoil.backends.postgres.servers import Servers
from counterfoil.domain.access import Scope
from counterfoil.domain.change_feed import BEGINNING, FeedPosition, Window
from counterfoil.ports import Slice, StoreMismatch, StoreUnreachable
from counterfoil.program.clock import SystemClock
from faults.proxy import Proxy
from ports.backends import OpenBooks, PostgresStore
from ports.conftest import Run, clock, open_store, run, shop_store  # noqa: F401 - fixtures
from ports.open_store import OpenStore, bill, gone, shop
from ports.test_books import *  # noqa: F403 - every test of the file

_UNIQUE = """
    SELECT indexrelid::regclass::text, array_agg(attname::text)
    FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY(indkey)
    WHERE indisunique AND indrelid = 'counterfoil.{table}'::regclass GROUP BY 1
"""
_REFERENCES = "SELECT conname FROM pg_constraint WHERE contype = 'f' AND connamespace = 'counterfoil'::regnamespace"
_OBSTACLES = """
    SELECT tgname::text FROM pg_trigger WHERE NOT tgisinternal AND tgrelid = 'counterfoil.{table}'::regclass
    UNION ALL
    SELECT attname::text FROM pg_attribute
    WHERE attrelid = 'counterfoil.{table}'::regclass AND (attidentity <> '' OR attgenerated <> '')
"""


class SplitBooks(PostgresBooks):
    async def _layout(self) -> TableLayout:
        return CITUS


class SplitStore(PostgresStore):
    """A single server that is read as if its tables were distributed."""

    def books(self) -> OpenBooks:
        return SplitBooks(self._servers())


@pytest.fixture
def store(tmp_path: Path, run: Run) -> Iterator[PostgresStore]:  # noqa: F811
    with closing(SplitStore(tmp_path)) as store:
        yield store


@pytest.mark.parametrize("major", [18, pytest.param(16, marks=pytest.mark.long)])
def test_every_key_of_a_distributed_table_holds_its_distribution_column_and_none_crosses_tables(major: int) -> None:
    server = servers.postgres(major)
    database = server.fresh_database()[0]
    assert server.command(_REFERENCES, database) == []
    for table, column in DISTRIBUTED.items():
        keys = server.command(_UNIQUE.format(table=table), database)
        assert keys, table
        for name, columns in keys:
            assert column in columns, name
        assert server.command(_OBSTACLES.format(table=table), database) == []


def test_a_database_without_citus_is_not_distributed(store: PostgresStore) -> None:
    with pytest.raises(StoreMismatch, match="does not have Citus"):
        distribute(store.url)


def test_an_insert_of_one_row_takes_the_values_of_many() -> None:
    rows = [("base", "token", place, "hash", 1, f"channel {place}") for place in range(3)]
    with closing(connect(servers.postgres(18).fresh_database()[1])) as connection:
        values = [value for row in rows for value in row]
        connection.execute(for_rows(_ADD_ACCOUNTS, len(rows)), values)
        stored = "SELECT provider_id, token, place, hash, created_at, channel FROM accounts ORDER BY place"
        assert connection.execute(stored).fetchall() == rows


@pytest.mark.parametrize("is_distributed", [False, True])
def test_a_worker_that_starts_while_the_server_is_away_later_reads_with_the_statements_for_its_layout(
    run: Run,  # noqa: F811
    asked: list[Asked],  # noqa: F811
    is_distributed: bool,
) -> None:
    server = servers.postgres(18)
    database, url = server.fresh_database()
    expected = [SINGLE_SERVER.members]
    if is_distributed:
        server.command("ALTER TABLE counterfoil.horizon ADD COLUMN taken bigint", database)
        assert isinstance(CITUS.members, SplitStatement)
        expected = [CITUS.members.head, CITUS.members.rows]
    with closing(Proxy(server.port)) as proxy:
        proxy.cut()
        address = url.replace(f":{server.port}/", f":{proxy.port}/")
        with closing(open_books(Servers(address, SystemClock()))) as books:
            with pytest.raises(StoreUnreachable):
                run(books.members("mb_a", Slice(5)))
            proxy.restore()
            asked.clear()
            run(books.members("mb_a", Slice(5)))
    assert [statement for statement, _ in asked[1:]] == expected


@pytest.mark.parametrize("limit", [1, 3, 7, 1000])
def test_a_pass_read_shop_by_shop_returns_the_same_pages(
    store: PostgresStore,
    open_store: OpenStore,  # noqa: F811
    run: Run,  # noqa: F811
    limit: int,
) -> None:
    open_store.put(shop("sh_1"), shop("sh_2"), shop("sh_3"))
    open_store.put(*(bill(f"b_{number}", of) for of in ("sh_1", "sh_3") for number in range(12)))
    mark = open_store.horizon()
    open_store.put(*(gone(bill(f"b_{number}")) for number in range(10)), bill("b_h", "sh_2", history=True))
    # Most of the removed bills are loaded again, so a query for removals returns fewer rows than its limit.
    open_store.put(*(bill(f"b_{number}", history=number % 2 == 0) for number in range(8)))
    with closing(Pool(store.url)) as pool:
        for since in (BEGINNING, mark):
            window = Window(since, open_store.horizon())
            together, apart = (passes(run, one, pool, window, limit) for one in (FeedReader, CitusFeedReader))
            assert together == apart
            assert sum(map(len, together)) > 10


def passes(run: Run, reader: type[FeedReader], pool: Pool, window: Window, limit: int) -> list[list[Any]]:  # noqa: F811
    pages: list[list[Any]] = []
    after: FeedPosition | None = None
    while True:
        page, _ = run(reader(pool, Scope("franchise", "fr_a"), window, after, limit).read(window.until))
        pages.append([json.loads(element) for element in page.elements])
        after = page.last
        if after is None:
            return pages
