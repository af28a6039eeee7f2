"""In a store that is partitioned by shop and by base, each request reads only the partitions of its scope.

These tests do not need Citus: hash partitions divide the same tables by the same
columns. PostgreSQL prunes partitions by the values of a statement, as Citus
prunes shards. The tests record the statements that the service runs, and check
PostgreSQL's plans for them.
"""

import asyncio
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

import servers
from counterfoil.backends.postgres import books
from counterfoil.backends.postgres.addresses import ConnectionLimits
from counterfoil.backends.postgres.citus import DISTRIBUTED
from counterfoil.backends.postgres.pool import Pool, Statement, open_connection
from records import EVER, NEW_YEAR, Record, base, bills, branch, member
from running_service import RunningService

PARTS = 32
BRANCHES = 3
MESSAGING_USER = "U" + 32 * "7"

Asked = tuple[str, tuple[object, ...]]

_DIVIDE = """
    ALTER TABLE {table} RENAME TO undivided;
    CREATE TABLE {table} (LIKE undivided INCLUDING ALL) PARTITION BY HASH ({column});
    DROP TABLE undivided;
"""
_PART = "CREATE TABLE {table}_{part} PARTITION OF {table} FOR VALUES WITH (MODULUS {parts}, REMAINDER {part});"


def divided(major: int) -> str:
    """Create a database whose distributed tables are partitioned; return its address."""
    server = servers.postgres(major)
    database, url = server.fresh_database()
    script = "SET search_path TO counterfoil;"
    for table, column in DISTRIBUTED.items():
        script += _DIVIDE.format(table=table, column=column)
        script += "".join(_PART.format(table=table, part=part, parts=PARTS) for part in range(PARTS))
    server.command(script, database)
    return url


class Group:
    """Two franchises on a partitioned store. The tests use keys for the first franchise and one of its shops."""

    def __init__(self, folder: Path, store: str) -> None:
        self.service = RunningService(folder, store=store)
        self.mine = [branch(franchiseId="mine") for _ in range(BRANCHES)]
        theirs = [branch(franchiseId="theirs") for _ in range(3 * BRANCHES)]
        self.bills = {of["id"]: bills(of, 3) for of in self.mine}
        self.members = {of["id"]: self.people(of) for of in self.mine}
        for of in (*self.mine, *theirs):
            sold, people = self.bills.get(of["id"]) or bills(of, 1), self.members.get(of["id"]) or self.people(of)
            self.service.load(of, base(of), *people, *sold)
        self.franchise_key = self.service.key(franchise="mine", messaging_lookup=True, per_min=1000)
        self.shop_key = self.service.key(shop=self.mine[0]["id"], per_min=1000)
        self.service.data("shops", self.franchise_key)
        self.connection = psycopg.connect(store, autocommit=True)
        self.connection.execute("SET search_path TO counterfoil; SET plan_cache_mode TO force_custom_plan")
        # By default, Citus shows the plan of only one shard. Servers without Citus accept the setting and ignore it.
        self.connection.execute("SET citus.explain_all_tasks TO on")

    def people(self, of: Record) -> list[Record]:
        return [member(of, messaging=[{"userId": MESSAGING_USER}]), member(of), member(of)]

    def find_one_of_each(self, key: str, of: Record) -> None:
        """Read one bill and one member of a branch."""
        self.service.data(f"transactions/{self.bills[of['id']][0]['id']}", key)
        self.service.data(f"members/{self.service.token(self.members[of['id']][1]['id'])}", key)

    def look_up(self, of: Record) -> None:
        query = {"providerId": of["providerId"], "messagingUserId": MESSAGING_USER}
        self.service.data("members/lookup", self.franchise_key, **query)

    def close(self) -> None:
        self.connection.close()
        self.service.close()

    def parts_planned(self, asked: list[Asked]) -> set[str]:
        """Return the partitions that PostgreSQL plans to read for these statements and their values."""
        cursor = psycopg.RawCursor(self.connection)
        plans = [
            row[0] for statement, values in asked for row in cursor.execute(f"EXPLAIN {statement}".encode(), values)
        ]
        return set(re.findall(r" on ((?:bills|members|accounts)_\d+)", "\n".join(plans)))

    def parts_of(self, table: str, *branches: Record) -> set[str]:
        """Return the partitions that contain the records of these branches."""
        column = DISTRIBUTED[table]
        key = {"shop": "number", "provider_id": "provider_id"}[column]
        found = self.connection.execute(
            f"SELECT DISTINCT {table}.tableoid::regclass::text FROM {table} "  # noqa: S608 - names of our own
            f"JOIN shops ON shops.{key} = {table}.{column} WHERE shops.id = ANY(%s)".encode(),
            ([of["id"] for of in branches],),
        )
        return {name.removeprefix("counterfoil.") for (name,) in found}


@pytest.fixture(scope="module", params=[18, pytest.param(16, marks=pytest.mark.long)])
def group(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    with closing(Group(tmp_path_factory.mktemp("group"), divided(request.param))) as group:
        yield group


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Asked]:
    """A list of every statement that the service runs during the test, with its values."""
    asked: list[Asked] = []
    rows = Pool.rows

    async def noted(self: Pool, statement: Statement, *values: object, within: float | None = None) -> list[Any]:
        # The two parts of a split statement come here one by one.
        if isinstance(statement, str):
            asked.append((statement, values))
        return await rows(self, statement, *values, within=within)

    monkeypatch.setattr(Pool, "rows", noted)
    return asked


def walk(group: Group, key: str, path: str, **query: Any) -> None:
    first = group.service.get(path, key, limit=2, **query).json()
    assert len(first["data"]) == 2
    assert group.service.data(path, key, limit=2, cursor=first["nextCursor"], **query)


@pytest.mark.parametrize("selection", [NEW_YEAR, {"updatedSince": EVER}, {}], ids=["by day", "by change", "members"])
def test_a_list_is_read_from_the_part_of_its_shop_or_base(
    group: Group, asked: list[Asked], selection: dict[str, str]
) -> None:
    of = group.mine[1]
    if selection:
        walk(group, group.franchise_key, "transactions", shopId=of["id"], **selection)
    else:
        walk(group, group.franchise_key, "members", providerId=of["providerId"])
    assert group.parts_planned(asked) == group.parts_of("bills" if selection else "members", of)


def test_an_account_is_looked_up_in_the_part_of_its_base(group: Group, asked: list[Asked]) -> None:
    of = group.mine[1]
    group.look_up(of)
    assert group.parts_planned(asked) == group.parts_of("accounts", of)


def test_a_shops_key_finds_one_bill_and_one_member_in_one_part_each(group: Group, asked: list[Asked]) -> None:
    of = group.mine[0]
    group.find_one_of_each(group.shop_key, of)
    assert group.parts_planned(asked) == group.parts_of("bills", of) | group.parts_of("members", of)


def test_a_franchises_key_looks_for_one_bill_and_one_member_in_the_parts_of_its_scope(
    group: Group, asked: list[Asked]
) -> None:
    of = group.mine[2]
    group.find_one_of_each(group.franchise_key, of)
    scope = group.parts_of("bills", *group.mine) | group.parts_of("members", *group.mine)
    assert group.parts_planned(asked) == scope
    assert len(scope) <= 2 * BRANCHES


@pytest.mark.parametrize("path", ["transactions/nobody's", "members/m1_nobody"])
def test_a_missing_row_is_not_looked_up_on_another_server(group: Group, asked: list[Asked], path: str) -> None:
    table = "bills" if path.startswith("transactions") else "members"
    assert group.service.error(path, group.franchise_key) == "not_found"
    assert group.parts_planned(asked) == group.parts_of(table, *group.mine)


def test_every_read_of_a_distributed_table_is_covered(group: Group, asked: list[Asked]) -> None:
    of = group.mine[0]
    for key in (group.franchise_key, group.shop_key):
        walk(group, key, "transactions", shopId=of["id"], **NEW_YEAR)
        walk(group, key, "transactions", shopId=of["id"], updatedSince=EVER)
    walk(group, group.franchise_key, "members", providerId=of["providerId"])
    group.look_up(of)
    group.find_one_of_each(group.franchise_key, of)
    constants = [
        one for value in vars(books).values() for one in (value.values() if isinstance(value, dict) else [value])
    ]
    shipped = {text for text in constants if isinstance(text, str) and touches_a_divided_table(text)}
    assert len(shipped) >= 8
    assert shipped == {statement for statement, _ in asked if touches_a_divided_table(statement)}


def touches_a_divided_table(statement: str) -> bool:
    return bool(re.search(rf"(FROM|JOIN) ({'|'.join(DISTRIBUTED)})\b", statement))


def test_session_options_in_the_address_are_respected() -> None:
    """Citus needs force_custom_plan: it can plan a statement over several shards only if it knows the values."""
    url = servers.postgres(18).fresh_database()[1]

    async def setting(address: str) -> str:
        connection = await open_connection(address, None, ConnectionLimits())
        try:
            return str(await connection.fetchval("SHOW plan_cache_mode"))
        finally:
            await connection.close()

    assert asyncio.run(setting(url)) == "force_generic_plan"
    assert asyncio.run(setting(f"{url}?options=-c%20plan_cache_mode%3Dforce_custom_plan")) == "force_custom_plan"
