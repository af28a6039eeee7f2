"""Reads on Citus: first the horizon and the small tables from the coordinator, then rows from their shard.

The statements of books.py work on Citus too, but Citus then sends the coordinator's rows to the worker in a separate
transaction, which makes a poll ten times slower. So each statement that reads tables in both places is split into two
parts that together return the same rows. The horizon is read first, as docs/own-client.md requires, so that the rows
contain everything up to it.
"""

from collections.abc import Sequence
from typing import Any

from counterfoil.backends.postgres import books
from counterfoil.backends.postgres.change_feed import FeedReader
from counterfoil.backends.postgres.pool import Pool, SplitStatement
from counterfoil.backends.postgres.schema import IS_DISTRIBUTED
from counterfoil.backends.postgres.servers import Servers
from counterfoil.domain.change_feed import Part, Section

Values = tuple[Any, ...]
Rows = list[Any]

_HEAD_OF_BILLS = {
    "shop": """
        SELECT (SELECT EXISTS (SELECT 1 FROM shops WHERE number = $3 AND id = $2 AND id = $1)),
            horizon.at
        FROM horizon
    """,
    "franchise": """
        SELECT (SELECT EXISTS (SELECT 1 FROM shops WHERE number = $3 AND id = $2 AND franchise_id = $1)),
            horizon.at
        FROM horizon
    """,
}
_HEAD_OF_BASE = "SELECT (SELECT body FROM bases WHERE id = $1), horizon.at FROM horizon"
_HEAD_OF_BASES = "SELECT horizon.at, bases.id, bases.body FROM horizon LEFT JOIN bases ON bases.id = ANY($1)"

# One page of a list. Every row has a flag that is true on the first page, or if the cursor's row still exists. An empty
# page has one row with only this flag.
_BILLS_BY_DAY = """
    SELECT page.*, start.there FROM (
        SELECT $4::text = '' OR EXISTS (SELECT 1 FROM bills WHERE shop = $1 AND id = $4::text) AS there
    ) AS start LEFT JOIN LATERAL (
        SELECT bill_day, closed_at, id, seal, body FROM bills
        WHERE shop = $1 AND (bill_day, closed_at, id) > ($2::integer, $3::bigint, $4::text) AND bill_day <= $5
        ORDER BY bill_day, closed_at, id LIMIT $6
    ) AS page ON true
"""
_BILLS_BY_CHANGE = """
    SELECT page.*, start.there FROM (
        SELECT $3::text = '' OR EXISTS (SELECT 1 FROM bills WHERE shop = $1 AND id = $3::text) AS there
    ) AS start LEFT JOIN LATERAL (
        SELECT updated_at, 0, id, seal, body FROM bills
        WHERE shop = $1 AND (updated_at, id) > ($2::bigint, $3::text) AND updated_at <= $4
        ORDER BY updated_at, id LIMIT $5
    ) AS page ON true
"""
_BILL = "SELECT seal, body FROM bills WHERE shop = ANY($1) AND id = $2 ORDER BY shop LIMIT 1"
_MEMBERS = """
    SELECT page.*, start.there FROM (
        SELECT $3::text = '' OR EXISTS (
            SELECT 1 FROM members WHERE provider_id = $1 AND token = $3::text
        ) AS there
    ) AS start LEFT JOIN LATERAL (
        SELECT created_at, 0, token, form FROM members
        WHERE provider_id = $1 AND (created_at, token) > ($2::bigint, $3::text)
        ORDER BY created_at, token LIMIT $4
    ) AS page ON true
"""
# Citus cannot join an array of bases with the members of several shards, so this statement runs once for each base. The
# comment on `_MEMBER` in books.py explains why base and token are compared as a pair.
_MEMBER = """
    SELECT provider_id, form FROM members
    WHERE provider_id = $1 AND (provider_id, token) BETWEEN ($1, $2) AND ($1, $2)
    ORDER BY provider_id, token LIMIT 1
"""
_ACCOUNTS = """
    SELECT channel, token FROM accounts WHERE provider_id = $1 AND hash = $2 ORDER BY created_at DESC, token DESC
"""

# Sections of the change feed. The bills of a shop are read from its shard, and removals from the coordinator.
_SECTIONS = {
    Part.REMOVED: """
        SELECT removed_at, id, NULL::bytea, NULL::bytea FROM removed_bills
        WHERE shop = $1 AND (removed_at, id) > ($2::bigint, $3::text) AND removed_at <= $4
        ORDER BY removed_at, id LIMIT $5
    """,
    Part.UNTRACKED: """
        SELECT loaded_at, id, seal, body FROM bills
        WHERE shop = $1 AND updated_at IS NULL AND (loaded_at, id) > ($2::bigint, $3::text) AND loaded_at <= $4
        ORDER BY loaded_at, id LIMIT $5
    """,
    Part.TRACKED: """
        SELECT updated_at, id, seal, body FROM bills
        WHERE shop = $1 AND (updated_at, id) > ($2::bigint, $3::text) AND updated_at <= $4
        ORDER BY updated_at, id LIMIT $5
    """,
}
_EXISTING = "SELECT id FROM bills WHERE shop = $1 AND id = ANY($2)"


async def _read_bills(pool: Pool, statement: SplitStatement, values: Values) -> Rows:
    ((still, horizon),) = await pool.rows(statement.head, *values[:3])
    # Only the head needs the scope and the shop's ID. A list by change without an upper bound ends at the horizon.
    asked = [horizon if value is None else value for value in values[2:]]
    found = await pool.rows(statement.rows, *asked)
    return [(*bill, still, there, horizon) for *bill, there in found]


async def _read_bill(pool: Pool, statement: SplitStatement, values: Values) -> Rows:
    ((horizon,),) = await pool.rows(statement.head)
    found = await pool.rows(statement.rows, *values)
    return [(*bill, horizon) for bill in found] or [(None, None, horizon)]


async def _read_members(pool: Pool, statement: SplitStatement, values: Values) -> Rows:
    ((base, horizon),) = await pool.rows(statement.head, values[0])
    found = await pool.rows(statement.rows, *values)
    return [(*member, base, there, horizon) for *member, there in found]


async def _read_member(pool: Pool, statement: SplitStatement, values: Values) -> Rows:
    bases, token = values
    head = await pool.rows(statement.head, bases)
    horizon = head[0][0]
    bodies = {base_id: body for _, base_id, body in head}
    found = []
    for base_id in bases:
        for provider_id, template in await pool.rows(statement.rows, base_id, token):
            found.append((provider_id, template, bodies.get(provider_id), horizon))
    return found or [(None, None, None, horizon)]


async def _read_accounts(pool: Pool, statement: SplitStatement, values: Values) -> Rows:
    ((base, horizon),) = await pool.rows(statement.head, values[0])
    rows = await pool.rows(statement.rows, *values)
    return [(*row, base, horizon) for row in rows] or [(None, None, base, horizon)]


class CitusFeedReader(FeedReader):
    """Reads a page of the change feed section by section."""

    async def _rows(self, sections: Sequence[Section], most: int) -> Rows:
        found = []
        for place, section in enumerate(sections, 1):
            if section.part in _SECTIONS:
                rows = await self._rows_of(section, most)
                found += [(place, *row) for row in rows]
        return found

    async def _rows_of(self, section: Section, most: int) -> Rows:
        shop, stamp, row_id, found = section.shop.number, section.stamp, section.id, list[Any]()
        while len(found) < most:
            rows = await self._pool.rows(_SECTIONS[section.part], shop, stamp, row_id, self._window.until, most)
            found += await self._still_removed(shop, rows) if section.part == Part.REMOVED else rows
            if len(rows) < most:
                break
            # If removals of existing bills were left out, read more rows to fill the section.
            stamp, row_id = rows[-1][:2]
        return found[:most]

    async def _still_removed(self, shop: int, rows: Rows) -> Rows:
        """Leave out the removal of a bill that exists: it was loaded again, or a writer died before deleting it."""
        if not rows:
            return rows
        removed = [bill_id for _, bill_id, _, _ in rows]
        found = await self._pool.rows(_EXISTING, shop, removed)
        existing = {bill_id for (bill_id,) in found}
        return [row for row in rows if row[1] not in existing]


CITUS = books.TableLayout(
    bills_by_day={kind: SplitStatement(head, _BILLS_BY_DAY, _read_bills) for kind, head in _HEAD_OF_BILLS.items()},
    bills_by_change={
        kind: SplitStatement(head, _BILLS_BY_CHANGE, _read_bills) for kind, head in _HEAD_OF_BILLS.items()
    },
    bill=SplitStatement(books._HORIZON, _BILL, _read_bill),
    members=SplitStatement(_HEAD_OF_BASE, _MEMBERS, _read_members),
    member=SplitStatement(_HEAD_OF_BASES, _MEMBER, _read_member),
    accounts=SplitStatement(_HEAD_OF_BASE, _ACCOUNTS, _read_accounts),
    feed_reader=CitusFeedReader,
)


class SingleAddressBooks(books.PostgresBooks):
    """The read side of the books behind one address, which is that of a single server or of a Citus coordinator."""

    def __init__(self, servers: Servers) -> None:
        super().__init__(servers)
        self._known_layout: books.TableLayout | None = None

    async def _layout(self) -> books.TableLayout:
        """Return the layout. The first read that reaches the server finds it out, so it may be down at the start."""
        if self._known_layout is None:
            ((is_distributed,),) = await self._servers.primary(IS_DISTRIBUTED)
            self._known_layout = CITUS if is_distributed else books.SINGLE_SERVER
        return self._known_layout


def open_books(servers: Servers) -> books.PostgresBooks:
    # A Citus cluster has one address, that of its coordinator, so a list of servers is never a Citus cluster.
    return books.PostgresBooks(servers) if servers.several else SingleAddressBooks(servers)
