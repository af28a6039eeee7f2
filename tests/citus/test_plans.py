"""Every read uses only the shards of its scope. The tests check the plans that Citus makes for the statements."""

import asyncio
import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from backends.test_shards import *  # noqa: F403 - every test of the file
from backends.test_shards import Group
from citus.cluster import SHARDS, cluster
from counterfoil.backends.postgres.addresses import ConnectionLimits
from counterfoil.backends.postgres.books import SINGLE_SERVER, TableLayout
from counterfoil.backends.postgres.citus import DISTRIBUTED
from counterfoil.backends.postgres.citus_reads import CITUS
from counterfoil.backends.postgres.pool import SplitStatement, open_connection

SMALL = ("horizon", "shops", "bases")
# With this many members in a base, the planner prefers an index to reading the whole shard.
MEMBERS = 2_000

_SHARD = "SELECT get_shard_id_for_distribution_column('members', %s::text)"
_MANY_MEMBERS = """
    INSERT INTO members (provider_id, token, created_at, record, form)
    SELECT %(base)s, %(base)s || '-' || number, number, '', '' FROM generate_series(1, %(count)s) AS number
"""

# These tests do not apply to Citus: one tests only the address, and one tests the statements for a single server.
del test_session_options_in_the_address_are_respected  # noqa: F821
del test_every_read_of_a_distributed_table_is_covered  # noqa: F821


@pytest.fixture(scope="module")  # type: ignore[no-redef]  # replaces the imported fixture
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    with closing(Group(tmp_path_factory.mktemp("group"), cluster().fresh_database()[1])) as group:
        yield group


def test_every_join_of_a_small_and_a_distributed_table_is_split_into_two_statements() -> None:
    single = [text for text in _statements(SINGLE_SERVER) if _reads(text, SMALL) and _reads(text, DISTRIBUTED)]
    split = [statement for statement in _statements(CITUS) if isinstance(statement, SplitStatement)]
    assert len(single) == len(split) > 0
    assert not any(_reads(statement.head, DISTRIBUTED) or _reads(statement.rows, SMALL) for statement in split)


def test_a_member_of_another_base_is_looked_up_like_a_member_that_does_not_exist(group: Group) -> None:
    ours, theirs = _two_bases_of_one_shard(group)
    for provider_id in (ours, theirs):
        group.connection.execute(_MANY_MEMBERS, {"base": provider_id, "count": MEMBERS})
    group.connection.execute("ANALYZE members")
    assert isinstance(CITUS.member, SplitStatement)
    statement, token = CITUS.member.rows, f"{theirs}-7"
    assert _rows_read(group, statement, ours, token) == _rows_read(group, statement, ours, "nobody")
    assert _rows_read(group, statement, theirs, token) != _rows_read(group, statement, theirs, "nobody")


def test_a_new_connection_looks_up_types_without_the_filter_that_hides_shards(group: Group) -> None:
    """With the filter, PostgreSQL reads pg_class twice for each row type, which takes about a second."""
    explain, hides_shards = "EXPLAIN SELECT FROM pg_class", "relation_is_a_known_shard"
    url = cluster().coordinator.url(group.connection.info.dbname)

    async def plan() -> str:
        connection = await open_connection(url, None, ConnectionLimits())
        try:
            return str(await connection.fetch(explain))
        finally:
            connection.terminate()

    assert hides_shards in str(group.connection.execute(explain).fetchall())
    assert hides_shards not in asyncio.run(plan())


def _two_bases_of_one_shard(group: Group) -> tuple[str, str]:
    names = [f"base-{number}" for number in range(SHARDS + 1)]
    bases: dict[int, str] = {}
    for name in names:
        ((shard,),) = group.connection.execute(_SHARD, (name,))
        if shard in bases:
            return bases[shard], name
        bases[shard] = name
    raise AssertionError(names)


def _rows_read(group: Group, statement: str, *values: str) -> list[str]:
    """Return the scans of the plan and the number of rows that each of them read or discarded."""
    explain = f"EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF, COSTS OFF) {statement}".encode()
    plan = psycopg.RawCursor(group.connection).execute(explain, values)
    return [line.strip() for (line,) in plan if "Scan" in line or "Rows Removed" in line]


def _statements(layout: TableLayout) -> Iterator[Any]:
    yield from layout.bills_by_day.values()
    yield from layout.bills_by_change.values()
    yield from (layout.bill, layout.members, layout.member, layout.accounts)


def _reads(statement: str, tables: Iterable[str]) -> bool:
    return bool(re.search(rf"(FROM|JOIN) ({'|'.join(tables)})\b", statement))
