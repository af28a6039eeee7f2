"""Reading on Citus: first the horizon and the small tables from the coordinator, then the rows from their shard.

The statements of books.py are correct on Citus too, but Citus then sends what
it read on the coordinator to the worker, in a separate transaction, which makes
a poll ten times slower. So each statement is run in two parts that together
return the same rows. The horizon is read first, as docs/sync.md requires: the
rows then contain everything up to it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from counterfoil.backends.postgres import books
from counterfoil.backends.postgres.addresses import ConnectionLimits, addresses
from counterfoil.backends.postgres.pool import Pool, open_connection, run_in_new_loop, translated
from counterfoil.backends.postgres.schema import IS_DISTRIBUTED
from counterfoil.backends.postgres.servers import DatabaseServer, Servers
from counterfoil.observe.events import Event
from counterfoil.ports import Clock, StoreUnavailable

Values = Sequence[Any]
Rows = list[Any]

_HEAD_OF_BILLS = {kind: f"SELECT ({still}), horizon.at FROM horizon" for kind, still in books._STILL.items()}  # noqa: S608
_HEAD_OF_BASE = "SELECT (SELECT body FROM bases WHERE id = $1), horizon.at FROM horizon"
_HEAD_OF_BASES = "SELECT horizon.at, bases.id, bases.body FROM horizon LEFT JOIN bases ON bases.id = ANY($1)"

# A page. Each row, or the only row of an empty page, says whether the row that the page continues after still exists.
_PAGE = """
    SELECT page.*, start.there FROM (
        SELECT {row_id} = '' OR EXISTS (SELECT 1 FROM {table} WHERE {within} AND {identity} = {row_id}) AS there
    ) AS start LEFT JOIN LATERAL ({rows}) AS page ON true
"""
_BILLS_BY_DAY = _PAGE.format(
    table="bills",
    within="shop = $1",
    identity="id",
    row_id="$4::text",
    rows="""
        SELECT bill_day, closed_at, id, seal, body FROM bills
        WHERE shop = $1 AND (bill_day, closed_at, id) > ($2::integer, $3::bigint, $4::text) AND bill_day <= $5
        ORDER BY bill_day, closed_at, id LIMIT $6
    """,
)
_BILLS_BY_CHANGE = _PAGE.format(
    table="bills",
    within="shop = $1",
    identity="id",
    row_id="$3::text",
    rows="""
        SELECT updated_at, 0, id, seal, body FROM bills
        WHERE shop = $1 AND (updated_at, id) > ($2::bigint, $3::text) AND updated_at <= $4
        ORDER BY updated_at, id LIMIT $5
    """,
)
_BILL = "SELECT seal, body FROM bills WHERE shop = ANY($1) AND id = $2 ORDER BY shop LIMIT 1"
_MEMBERS = _PAGE.format(
    table="members",
    within="provider_id = $1",
    identity="token",
    row_id="$3::text",
    rows="""
        SELECT created_at, 0, token, coalesce(form, record) FROM members
        WHERE provider_id = $1 AND (created_at, token) > ($2::bigint, $3::text)
        ORDER BY created_at, token LIMIT $4
    """,
)
_MEMBER = "SELECT provider_id, coalesce(form, record) FROM members WHERE provider_id = ANY($1) AND token = $2"
_ACCOUNTS = """
    SELECT channel, token FROM accounts WHERE provider_id = $1 AND hash = $2 ORDER BY created_at DESC, token DESC
"""


class SplitStatement(Struct, frozen=True):
    """A statement in two parts: which of its values each part takes, and how their rows are joined."""

    head: str
    rows: str
    of_head: Callable[[Values], Values]
    of_rows: Callable[[Values, Rows], Values]
    joined: Callable[[Rows, Rows], Rows]


def _head_behind(width: int) -> Callable[[Rows, Rows], Rows]:
    """Return a function that appends the head to each row; without rows, it returns the head after `width` nulls."""
    return lambda head, rows: [(*row, *head[0]) for row in rows] or [((None,) * width + tuple(head[0]))]


def _head_around_there(head: Rows, rows: Rows) -> Rows:
    """Insert the head's first column before the last column of each row, and append the horizon."""
    first, horizon = head[0]
    return [(*row[:-1], first, row[-1], horizon) for row in rows]


def _members_with_bases(head: Rows, rows: Rows) -> Rows:
    horizon, bodies = head[0][0], {base_id: body for _, base_id, body in head}
    found = [(provider_id, form, bodies.get(provider_id), horizon) for provider_id, form in rows]
    return found or [(None, None, None, horizon)]


def _all(values: Values, _: Rows) -> Values:
    return values


def _from_number(values: Values, _: Rows) -> Values:
    """Drop the scope and the ID of the shop, which only the head needs."""
    return values[2:]


def _up_to_horizon(values: Values, head: Rows) -> Values:
    """Return the values of a list by change; a list without an upper bound ends at the horizon."""
    number, updated_at, bill_id, until, limit = values[2:]
    return number, updated_at, bill_id, head[0][1] if until is None else until, limit


def _first(number: int) -> Callable[[Values], Values]:
    return lambda values: values[:number]


def _parts_of_bills(kind: str) -> dict[str, SplitStatement]:
    head, of_head = _HEAD_OF_BILLS[kind], _first(3)
    return {
        books._BILLS_BY_DAY[kind]: SplitStatement(head, _BILLS_BY_DAY, of_head, _from_number, _head_around_there),
        books._BILLS_BY_CHANGE[kind]: SplitStatement(
            head, _BILLS_BY_CHANGE, of_head, _up_to_horizon, _head_around_there
        ),
    }


PARTS: Mapping[str, SplitStatement] = {
    books._BILL: SplitStatement(books._HORIZON, _BILL, _first(0), _all, _head_behind(2)),
    books._MEMBERS: SplitStatement(_HEAD_OF_BASE, _MEMBERS, _first(1), _all, _head_around_there),
    books._MEMBER: SplitStatement(_HEAD_OF_BASES, _MEMBER, _first(1), _all, _members_with_bases),
    books._ACCOUNTS: SplitStatement(_HEAD_OF_BASE, _ACCOUNTS, _first(1), _all, _head_behind(2)),
    **_parts_of_bills("shop"),
    **_parts_of_bills("franchise"),
}


class _InParts:
    """A pool that runs a statement in two parts if `PARTS` has it."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def rows(self, statement: str, *values: object, within: float | None = None) -> Rows:
        parts = PARTS.get(statement)
        if parts is None:
            return await self._pool.rows(statement, *values, within=within)
        head = await self._pool.rows(parts.head, *parts.of_head(values), within=within)
        rows = await self._pool.rows(parts.rows, *parts.of_rows(values, head), within=within)
        return parts.joined(head, rows)


class CitusServers(Servers):
    """The coordinator of a Citus cluster, for reading."""

    async def _first_answer(self, ask: Callable[[Pool], Awaitable[Rows]], reached: int) -> tuple[DatabaseServer, Rows]:
        return await super()._first_answer(lambda pool: ask(cast("Pool", _InParts(pool))), reached)


def open_servers(
    url: str,
    clock: Clock,
    lag_ms: int,
    observe: Callable[[Event], None],
    now_ms: Callable[[], int] | None,
    limits: ConnectionLimits,
) -> Servers:
    """Open the servers that suit the tables. On Citus both kinds read the same rows; CitusServers is faster."""
    distributed = not addresses(url) and run_in_new_loop(lambda: _is_distributed(url, limits))
    kind = CitusServers if distributed else Servers
    return kind(url, clock, lag_ms, observe, now_ms, limits)


async def _is_distributed(url: str, limits: ConnectionLimits) -> bool:
    """Return whether the tables are distributed; False if the server cannot be asked.

    A Citus cluster has one address, that of its coordinator.
    """
    try:
        with translated():
            connection = await open_connection(url, None, limits)
            try:
                return bool(await connection.fetchval(IS_DISTRIBUTED))
            finally:
                connection.terminate()
    except StoreUnavailable:
        return False
