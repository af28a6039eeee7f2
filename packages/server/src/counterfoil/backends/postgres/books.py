"""Reads shops, bills and members from any server that is up to date.

Apart from the change feed and the digests, all rows of an answer are read by one statement and therefore from one
snapshot. The last column of every row is the horizon of that snapshot, on replicas too. Large tables are always queried
by shop or base, so that all rows of a shop or a base can be stored on one shard.
"""

from collections.abc import Mapping
from datetime import date
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.backends.postgres import change_feed
from counterfoil.backends.postgres.change_feed import FeedReader
from counterfoil.backends.postgres.pool import Pool, Statement, is_storable
from counterfoil.backends.postgres.servers import Servers
from counterfoil.domain.access import Scope
from counterfoil.domain.change_feed import FeedPage, FeedPosition, Window
from counterfoil.domain.day_totals import DigestPage, ShopDay
from counterfoil.domain.members import NEXT, base_of
from counterfoil.domain.paging import Position
from counterfoil.model.calendar import as_number
from counterfoil.ports import AccountList, BillPage, FoundAccount, FoundBill, FoundMember, MemberPage, ShopList, Slice

_HORIZON = "SELECT at FROM horizon"

# The other tables are left-joined to `horizon`, which has one row, so that even an empty list has the horizon.
_SHOPS_OF = {
    "shop": """
        SELECT shops.body, horizon.at FROM horizon LEFT JOIN shops ON shops.id = $1 AND NOT removed
    """,
    "franchise": """
        SELECT list.*, horizon.at FROM horizon LEFT JOIN LATERAL (
            SELECT body FROM shops WHERE franchise_id = $1 AND NOT removed ORDER BY number
        ) AS list ON true
    """,
}

# Finds the internal number of a shop in scope. `id || ''` prevents PostgreSQL from using the index on IDs. With that
# index, it would read the row of a shop in another franchise and then discard it, which takes longer than finding no
# row, and so reveals that the shop exists.
_NUMBER_OF = {
    "shop": "SELECT number, at FROM horizon LEFT JOIN shops ON id = $2 AND id = $1",
    "franchise": "SELECT number, at FROM horizon LEFT JOIN shops ON id || '' = $2 AND franchise_id = $1",
}
_COVERS = {
    "shop": "SELECT number, at FROM horizon LEFT JOIN shops ON id = $1 AND provider_id = $2 AND NOT removed",
    "franchise": """
        SELECT number, at FROM horizon LEFT JOIN shops ON franchise_id = $1 AND provider_id = $2 AND NOT removed LIMIT 1
    """,
}

# Besides its bills, a page says whether the cached number is still that of the shop and the shop is still in scope, and
# whether this is the first page, or the row before it still exists.
_BILLS_BY_DAY = {
    "shop": """
        SELECT page.*, (SELECT EXISTS (SELECT 1 FROM shops WHERE number = $3 AND id = $2 AND id = $1)),
            ($6 = '' OR EXISTS (SELECT 1 FROM bills WHERE shop = $3 AND id = $6)), horizon.at
        FROM horizon LEFT JOIN LATERAL (
            SELECT bill_day, closed_at, id, seal, body FROM bills
            WHERE shop = $3 AND (bill_day, closed_at, id) > ($4::integer, $5::bigint, $6::text) AND bill_day <= $7
            ORDER BY bill_day, closed_at, id LIMIT $8
        ) AS page ON true
    """,
    "franchise": """
        SELECT page.*, (SELECT EXISTS (SELECT 1 FROM shops WHERE number = $3 AND id = $2 AND franchise_id = $1)),
            ($6 = '' OR EXISTS (SELECT 1 FROM bills WHERE shop = $3 AND id = $6)), horizon.at
        FROM horizon LEFT JOIN LATERAL (
            SELECT bill_day, closed_at, id, seal, body FROM bills
            WHERE shop = $3 AND (bill_day, closed_at, id) > ($4::integer, $5::bigint, $6::text) AND bill_day <= $7
            ORDER BY bill_day, closed_at, id LIMIT $8
        ) AS page ON true
    """,
}

_BILLS_BY_CHANGE = {
    "shop": """
        SELECT page.*, (SELECT EXISTS (SELECT 1 FROM shops WHERE number = $3 AND id = $2 AND id = $1)),
            ($5 = '' OR EXISTS (SELECT 1 FROM bills WHERE shop = $3 AND id = $5)), horizon.at
        FROM horizon LEFT JOIN LATERAL (
            SELECT updated_at, 0, id, seal, body FROM bills
            WHERE shop = $3 AND (updated_at, id) > ($4::bigint, $5::text) AND updated_at <= coalesce($6, horizon.at)
            ORDER BY updated_at, id LIMIT $7
        ) AS page ON true
    """,
    "franchise": """
        SELECT page.*, (SELECT EXISTS (SELECT 1 FROM shops WHERE number = $3 AND id = $2 AND franchise_id = $1)),
            ($5 = '' OR EXISTS (SELECT 1 FROM bills WHERE shop = $3 AND id = $5)), horizon.at
        FROM horizon LEFT JOIN LATERAL (
            SELECT updated_at, 0, id, seal, body FROM bills
            WHERE shop = $3 AND (updated_at, id) > ($4::bigint, $5::text) AND updated_at <= coalesce($6, horizon.at)
            ORDER BY updated_at, id LIMIT $7
        ) AS page ON true
    """,
}

_NUMBERS_OF = {
    "shop": "SELECT number, at FROM horizon LEFT JOIN shops ON id = $1",
    "franchise": "SELECT number, at FROM horizon LEFT JOIN shops ON franchise_id = $1",
}

_BILL = """
    SELECT found.*, horizon.at FROM horizon LEFT JOIN LATERAL (
        SELECT seal, body FROM bills WHERE shop = ANY($1) AND id = $2 ORDER BY shop LIMIT 1
    ) AS found ON true
"""

_MEMBERS = """
    SELECT page.*, (SELECT body FROM bases WHERE id = $1),
        ($3 = '' OR EXISTS (SELECT 1 FROM members WHERE provider_id = $1 AND token = $3)), horizon.at
    FROM horizon LEFT JOIN LATERAL (
        SELECT created_at, 0, token, form FROM members
        WHERE provider_id = $1 AND (created_at, token) > ($2::bigint, $3::text)
        ORDER BY created_at, token LIMIT $4
    ) AS page ON true
"""

_BASES_OF = {
    "shop": "SELECT provider_id, at FROM horizon LEFT JOIN shops ON id = $1 AND NOT removed",
    "franchise": """
        SELECT DISTINCT provider_id, at FROM horizon LEFT JOIN shops ON franchise_id = $1 AND NOT removed
    """,
}

# Comparing base and token as a pair makes PostgreSQL use the primary key, which begins with the base. With `token = $2`
# it would use the index on tokens, read the row of a member of another franchise and then discard it, which takes
# longer than finding no row, and so reveals that the member exists. `provider_id = ANY($1)` lets a distributed store
# read only the shards that hold these bases.
_MEMBER = """
    SELECT found.*, horizon.at FROM horizon LEFT JOIN LATERAL (
        SELECT member.*, bases.body FROM unnest($1::text[]) AS base (id) CROSS JOIN LATERAL (
            SELECT provider_id, form FROM members
            WHERE provider_id = ANY($1) AND (provider_id, token) BETWEEN (base.id, $2) AND (base.id, $2)
            ORDER BY provider_id, token LIMIT 1
        ) AS member LEFT JOIN bases ON bases.id = provider_id
    ) AS found ON true
"""

_ACCOUNTS = """
    SELECT found.*, base.body, horizon.at FROM horizon
    LEFT JOIN bases AS base ON base.id = $1
    LEFT JOIN LATERAL (
        SELECT channel, token FROM accounts WHERE provider_id = $1 AND hash = $2
        ORDER BY created_at DESC, token DESC
    ) AS found ON true
"""

# Maximum number of entries in the cache of internal shop numbers. When it is full, it is cleared.
NUMBERS = 50_000


class TableLayout(Struct, frozen=True):
    """How tables are read that Citus can distribute: the statements, and the reader of the feed."""

    bills_by_day: Mapping[str, Statement]
    bills_by_change: Mapping[str, Statement]
    bill: Statement
    members: Statement
    member: Statement
    accounts: Statement
    feed_reader: type[FeedReader]


SINGLE_SERVER = TableLayout(_BILLS_BY_DAY, _BILLS_BY_CHANGE, _BILL, _MEMBERS, _MEMBER, _ACCOUNTS, FeedReader)


class PostgresBooks:
    """The read side of the books on a single server, or on a primary with replicas."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        # The scope is part of the cache key, so that an API key never reads a shop outside its scope.
        self._numbers: dict[tuple[Scope, str], int] = {}

    def close(self) -> None:
        self._servers.close()

    async def _layout(self) -> TableLayout:
        return SINGLE_SERVER

    async def horizon(self) -> int:
        rows = await self._servers.rows(_HORIZON)
        return int(rows[0][0])

    async def shops(self, scope: Scope, reached: int = 0) -> ShopList:
        rows = await self._servers.rows(_SHOPS_OF[scope.kind], _clean(scope.id), reached=reached)
        horizon = rows[0][1]
        bodies = [body for body, _ in rows if body is not None]
        return ShopList(horizon, bodies)

    async def has_shop(self, scope: Scope, shop_id: str, reached: int = 0) -> bool:
        return await self._number(scope, shop_id, reached) is not None

    async def covers(self, scope: Scope, provider_id: str, reached: int = 0) -> bool:
        asked = (_clean(scope.id), _clean(provider_id))
        rows = await self._servers.found(_COVERS[scope.kind], *asked, reached=reached)
        return rows[0][0] is not None

    async def bills_by_day(
        self, scope: Scope, shop_id: str, first: date, last: date, wanted: Slice[Position]
    ) -> BillPage | None:
        after = wanted.after
        # -1 sorts before every closing time, so this is the position just before the first bill of the first day.
        start = (after.major, after.minor, after.id) if after else (as_number(first), -1, "")
        statements = (await self._layout()).bills_by_day
        return await self._bill_page(statements, scope, shop_id, (*start, as_number(last)), wanted)

    async def bills_by_change(
        self, scope: Scope, shop_id: str, since: int, until: int | None, wanted: Slice[Position]
    ) -> BillPage | None:
        start = (wanted.after.major, wanted.after.id) if wanted.after else (since, "")
        wanted = replace(wanted, reached=max(wanted.reached, until or 0))
        statements = (await self._layout()).bills_by_change
        return await self._bill_page(statements, scope, shop_id, (*start, until), wanted)

    async def _bill_page(
        self,
        statements: Mapping[str, Statement],
        scope: Scope,
        shop_id: str,
        values: tuple[object, ...],
        wanted: Slice[Position],
    ) -> BillPage | None:
        """Return a page of bills. The statement also checks that the shop's cached internal number is still correct."""
        limit, reached = wanted.limit, wanted.reached

        async def ask(number: int) -> list[Any]:
            asked = (_clean(scope.id), _clean(shop_id), number, *values, limit)
            return await self._servers.found(statements[scope.kind], *asked, reached=reached, there=_continues)

        remembered = self._numbers.get((scope, shop_id))
        if remembered is not None:
            rows = await ask(remembered)
            *_, still, _, _ = rows[0]
            if still:
                return _page_of(rows, limit)
        number = await self._number(scope, shop_id, reached)
        # If the page comes from a replica that does not have the shop yet, it is empty and has that replica's horizon.
        return _page_of(await ask(number), limit) if number is not None else None

    async def _number(self, scope: Scope, shop_id: str, reached: int) -> int | None:
        self._numbers.pop((scope, shop_id), None)
        found = await self._servers.found(_NUMBER_OF[scope.kind], _clean(scope.id), _clean(shop_id), reached=reached)
        number: int | None = found[0][0]
        if number is None:
            return None
        if len(self._numbers) >= NUMBERS:
            self._numbers.clear()
        self._numbers[scope, shop_id] = number
        return number

    async def changes(self, scope: Scope, window: Window, wanted: Slice[FeedPosition]) -> FeedPage:
        reached = max(wanted.reached, window.until)
        feed_reader = (await self._layout()).feed_reader

        async def ask(pool: Pool) -> list[Any]:
            return [await feed_reader(pool, scope, window, wanted.after, wanted.limit).read(reached)]

        ((page, _),) = await self._servers.found_by(ask, reached)
        return page  # type: ignore[no-any-return]

    async def digests(
        self, scope: Scope, shop_id: str | None, days: tuple[int, int], wanted: Slice[ShopDay]
    ) -> DigestPage:
        asked = _clean(shop_id) if shop_id is not None else None

        async def ask(pool: Pool) -> list[Any]:
            return [await change_feed.digest_page(pool, scope, asked, days, wanted)]

        ((page, _),) = await self._servers.found_by(ask, wanted.reached)
        return page  # type: ignore[no-any-return]

    async def bill(self, scope: Scope, bill_id: str, reached: int = 0) -> FoundBill | None:
        statement = (await self._layout()).bill
        (seal, body, horizon), *_ = await self._found_in(_NUMBERS_OF[scope.kind], scope, statement, bill_id, reached)
        return FoundBill(horizon, seal, body) if seal is not None else None

    async def members(self, provider_id: str, wanted: Slice[Position]) -> MemberPage:
        start = (wanted.after.major, wanted.after.id) if wanted.after else (-1, "")
        asked = (_clean(provider_id), *start, wanted.limit)
        statement = (await self._layout()).members
        rows = await self._servers.found(statement, *asked, reached=wanted.reached, there=_continues)
        _, _, first_token, _, base_body, continues, horizon = rows[0]
        base = base_of(base_body)
        if first_token is None:
            return MemberPage(horizon, base, 0, b"", None, continues)
        forms = NEXT.join([row[3] for row in rows])
        last = Position(*rows[-1][:3]) if len(rows) == wanted.limit else None
        return MemberPage(horizon, base, len(rows), forms, last, continues)

    async def member(self, scope: Scope, token: str, reached: int = 0) -> FoundMember | None:
        statement = (await self._layout()).member
        (provider_id, template, base, horizon), *_ = await self._found_in(
            _BASES_OF[scope.kind], scope, statement, token, reached
        )
        return FoundMember(horizon, provider_id, base_of(base), template) if provider_id is not None else None

    async def accounts(self, provider_id: str, messaging_hash: str, reached: int = 0) -> AccountList:
        asked = (_clean(provider_id), messaging_hash)
        statement = (await self._layout()).accounts
        rows = await self._servers.found(statement, *asked, reached=reached, there=lambda rows: rows[0][1] is not None)
        _, _, base, horizon = rows[0]
        accounts = [FoundAccount(channel, token) for channel, token, _, _ in rows if token is not None]
        return AccountList(horizon, base_of(base), accounts)

    async def _found_in(self, parts: str, scope: Scope, statement: Statement, asked: str, reached: int) -> list[Any]:
        """Return a record that belongs to one of the scope's shops or bases.

        The shops or bases are read first and passed as values instead of joined, so that a distributed store reads only
        their shards. Both statements go to the same server, because a record could seem to be missing if the list of
        shops or bases were outdated.
        """

        async def ask(pool: Pool) -> list[Any]:
            listed = await pool.rows(parts, _clean(scope.id))
            if listed[0][-1] < reached:
                return listed
            named = [row[0] for row in listed if row[0] is not None]
            return await pool.rows(statement, named, _clean(asked))

        return await self._servers.found_by(ask, reached)


def _continues(rows: list[Any]) -> bool:
    """Return True on the first page, or if the row before this page exists. A replica may not have that row yet."""
    return bool(rows[0][-2])


def _page_of(rows: list[Any], limit: int) -> BillPage:
    """Return a page built from rows whose last column is the horizon. An empty page has one row without a bill."""
    horizon, continues = rows[0][-1], _continues(rows)
    if rows[0][2] is None:
        return BillPage(horizon, 0, b"", b"", None, continues)
    last = Position(*rows[-1][:3]) if len(rows) == limit else None
    seals, bodies = [row[3] for row in rows], [row[4] for row in rows]
    return BillPage(horizon, len(rows), b"".join(seals), b",".join(bodies), last, continues)


def _clean(asked: str) -> str | None:
    """Return the ID, or None if PostgreSQL cannot store it. None becomes NULL, which matches no row."""
    return asked if is_storable(asked) else None
