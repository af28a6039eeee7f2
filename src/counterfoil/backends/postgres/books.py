"""Shops, bills and members, read from whichever server is fit.

What is returned with a horizon is one statement and so one snapshot: the
horizon vouches for exactly the rows beside it, on a replica too. Whatever
grows is asked for by its shop or its base, so that each can lie on a shard.
"""

from datetime import date
from functools import lru_cache
from typing import Any

from msgspec import json

from counterfoil.backends.postgres.connections import Pool
from counterfoil.backends.postgres.servers import Servers
from counterfoil.domain.access import Scope
from counterfoil.domain.calendar import as_number
from counterfoil.domain.forms import NEXT
from counterfoil.domain.members import Base
from counterfoil.domain.paging import Place
from counterfoil.ports import (
    Account,
    AccountList,
    BillPage,
    BillPlaces,
    FoundBill,
    FoundMember,
    MemberPage,
    ShopList,
)

_HORIZON = "SELECT at FROM horizon"

# The horizon has one row, and all else hangs on it: so a list keeps its order, and an empty one still has its horizon.
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

# The store's own number of a shop in scope; and whether a number is still that shop's, and the shop in scope.
_NUMBER_OF = {
    "shop": "SELECT number FROM shops WHERE id = $2 AND id = $1",
    "franchise": "SELECT number FROM shops WHERE id = $2 AND franchise_id = $1",
}
_STILL = {
    "shop": "SELECT EXISTS (SELECT 1 FROM shops WHERE number = $3 AND id = $2 AND id = $1)",
    "franchise": "SELECT EXISTS (SELECT 1 FROM shops WHERE number = $3 AND id = $2 AND franchise_id = $1)",
}

_COVERS = {
    "shop": "SELECT 1 FROM shops WHERE id = $1 AND provider_id = $2 AND NOT removed",
    "franchise": "SELECT 1 FROM shops WHERE franchise_id = $1 AND provider_id = $2 AND NOT removed LIMIT 1",
}

_BILLS_BY_DAY = {
    kind: f"""
    SELECT page.*, ({still}), horizon.at FROM horizon LEFT JOIN LATERAL (
        SELECT bill_day, closed_at, id, seal, body FROM bills
        WHERE shop = $3 AND (bill_day, closed_at, id) > ($4::integer, $5::bigint, $6::text) AND bill_day <= $7
        ORDER BY bill_day, closed_at, id LIMIT $8
    ) AS page ON true
"""  # noqa: S608 - constants
    for kind, still in _STILL.items()
}

_BILLS_BY_CHANGE = {
    kind: f"""
    SELECT page.*, ({still}), horizon.at FROM horizon LEFT JOIN LATERAL (
        SELECT updated_at, 0, id, seal, body FROM bills
        WHERE shop = $3 AND (updated_at, id) > ($4::bigint, $5::text) AND updated_at <= coalesce($6, horizon.at)
        ORDER BY updated_at, id LIMIT $7
    ) AS page ON true
"""  # noqa: S608 - as above
    for kind, still in _STILL.items()
}

_BILL_PLACES = {
    kind: f"""
    SELECT bill_day, coalesce(closed_at, 0), updated_at FROM bills WHERE shop = $3 AND id = $4 AND ({still})
"""  # noqa: S608 - as above
    for kind, still in _STILL.items()
}

_NUMBERS_OF = {
    "shop": "SELECT number FROM shops WHERE id = $1",
    "franchise": "SELECT number FROM shops WHERE franchise_id = $1",
}

_BILL = """
    SELECT horizon.at, seal, body FROM horizon CROSS JOIN bills
    WHERE shop = ANY($1) AND id = $2 ORDER BY shop LIMIT 1
"""

_MEMBERS = """
    SELECT page.*, (SELECT body FROM bases WHERE id = $1), horizon.at FROM horizon LEFT JOIN LATERAL (
        SELECT created_at, 0, token, coalesce(form, record) FROM members
        WHERE provider_id = $1 AND (created_at, token) > ($2::bigint, $3::text)
        ORDER BY created_at, token LIMIT $4
    ) AS page ON true
"""

_MEMBER_PLACE = "SELECT created_at FROM members WHERE token = $1 AND provider_id = $2"

_BASES_OF = {
    "shop": "SELECT provider_id FROM shops WHERE id = $1 AND NOT removed",
    "franchise": "SELECT DISTINCT provider_id FROM shops WHERE franchise_id = $1 AND NOT removed",
}

_MEMBER = """
    SELECT horizon.at, provider_id, coalesce(form, record), bases.body
    FROM horizon CROSS JOIN members LEFT JOIN bases ON bases.id = provider_id
    WHERE provider_id = ANY($1) AND token = $2
"""

_ACCOUNTS = """
    SELECT found.*, base.body, horizon.at FROM horizon
    LEFT JOIN bases AS base ON base.id = $1
    LEFT JOIN LATERAL (
        SELECT channel, token FROM accounts WHERE provider_id = $1 AND hash = $2
        ORDER BY created_at DESC, token DESC
    ) AS found ON true
"""

# Shops whose numbers are remembered.
NUMBERS = 50_000
# Bases are few, and read with every member.
BASES = 256
_decode_base = lru_cache(maxsize=BASES)(json.Decoder(Base).decode)


class PostgresBooks:
    """The read side of the books."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        # By who asks, too: of a shop that is not in scope nothing is read.
        self._numbers: dict[tuple[Scope, str], int] = {}

    def close(self) -> None:
        self._servers.close()

    async def horizon(self) -> int:
        rows = await self._servers.rows(_HORIZON)
        return int(rows[0][0])

    async def shops(self, scope: Scope) -> ShopList:
        rows = await self._servers.rows(_SHOPS_OF[scope.kind], _clean(scope.id))
        return ShopList(rows[0][1], [row[0] for row in rows if row[0] is not None])

    async def has_shop(self, scope: Scope, shop_id: str) -> bool:
        return await self._number(scope, shop_id) is not None

    async def covers(self, scope: Scope, provider_id: str) -> bool:
        return bool(await self._servers.found(_COVERS[scope.kind], _clean(scope.id), _clean(provider_id)))

    async def bills_by_day(
        self, scope: Scope, shop_id: str, first: date, last: date, after: Place | None, limit: int, reached: int = 0
    ) -> BillPage | None:
        # Nothing sorts before the empty id, so this is the place just before the first day.
        start = (after.major, after.minor, after.id) if after else (as_number(first), -1, "")
        values = (*start, as_number(last), limit)
        return await self._bill_page(_BILLS_BY_DAY, scope, shop_id, values, limit, reached)

    async def bills_by_change(
        self, scope: Scope, shop_id: str, since: int, until: int | None, after: Place | None, limit: int
    ) -> BillPage | None:
        start = (after.major, after.id) if after else (since, "")
        return await self._bill_page(_BILLS_BY_CHANGE, scope, shop_id, (*start, until, limit), limit, until or 0)

    async def _bill_page(
        self,
        statements: dict[str, str],
        scope: Scope,
        shop_id: str,
        values: tuple[object, ...],
        limit: int,
        reached: int,
    ) -> BillPage | None:
        """A shop's number is remembered, and the statement says whether it is still right: no need to ask for it."""

        async def ask(number: int) -> list[Any]:
            asked = (_clean(scope.id), _clean(shop_id), number)
            return await self._servers.rows(statements[scope.kind], *asked, *values, reached=reached)

        remembered = self._numbers.get((scope, shop_id))
        if remembered is not None:
            rows = await ask(remembered)
            *_, still, _ = rows[0]
            if still:
                return _page_of(rows, limit)
        number = await self._number(scope, shop_id)
        # On a replica that does not know the shop yet, this is a page of nothing as of its horizon.
        return _page_of(await ask(number), limit) if number is not None else None

    async def _number(self, scope: Scope, shop_id: str) -> int | None:
        self._numbers.pop((scope, shop_id), None)
        found = await self._servers.found(_NUMBER_OF[scope.kind], _clean(scope.id), _clean(shop_id))
        if not found:
            return None
        if len(self._numbers) >= NUMBERS:
            self._numbers.clear()
        number: int = found[0][0]
        self._numbers[scope, shop_id] = number
        return number

    async def bill_places(self, scope: Scope, shop_id: str, bill_id: str) -> BillPlaces | None:
        remembered = self._numbers.get((scope, shop_id))
        places = await self._places_in(remembered, scope, shop_id, bill_id)
        return places or await self._places_in(await self._number(scope, shop_id), scope, shop_id, bill_id)

    async def _places_in(self, number: int | None, scope: Scope, shop_id: str, bill_id: str) -> BillPlaces | None:
        if number is None:
            return None
        asked = (_clean(scope.id), _clean(shop_id), number, _clean(bill_id))
        rows = await self._servers.found(_BILL_PLACES[scope.kind], *asked)
        if not rows:
            return None
        bill_day, closed_at, updated_at = rows[0]
        by_change = Place(updated_at, 0, bill_id) if updated_at is not None else None
        return BillPlaces(Place(bill_day, closed_at, bill_id), by_change)

    async def bill(self, scope: Scope, bill_id: str) -> FoundBill | None:
        rows = await self._found_in(_NUMBERS_OF[scope.kind], scope, _BILL, bill_id)
        return FoundBill(*rows[0]) if rows else None

    async def members(self, provider_id: str, after: Place | None, limit: int, reached: int = 0) -> MemberPage:
        start = (after.major, after.id) if after else (-1, "")
        rows = await self._servers.rows(_MEMBERS, _clean(provider_id), *start, limit, reached=reached)
        horizon, base = rows[0][5], _base(rows[0][4])
        if rows[0][2] is None:
            return MemberPage(horizon, base, 0, b"", None)
        last = Place(*rows[-1][:3]) if len(rows) == limit else None
        return MemberPage(horizon, base, len(rows), NEXT.join([row[3] for row in rows]), last)

    async def member_place(self, provider_id: str, token: str) -> Place | None:
        rows = await self._servers.found(_MEMBER_PLACE, _clean(token), _clean(provider_id))
        return Place(rows[0][0], 0, token) if rows else None

    async def member(self, scope: Scope, token: str) -> FoundMember | None:
        for horizon, provider_id, form, base in await self._found_in(_BASES_OF[scope.kind], scope, _MEMBER, token):
            return FoundMember(horizon, provider_id, _base(base), form)
        return None

    async def accounts(self, provider_id: str, messaging_hash: str) -> AccountList:
        asked = (_clean(provider_id), messaging_hash)
        rows = await self._servers.found(_ACCOUNTS, *asked, there=lambda rows: rows[0][1] is not None)
        accounts = [Account(row[0], row[1]) for row in rows if row[1] is not None]
        return AccountList(rows[0][3], _base(rows[0][2]), accounts)

    async def _found_in(self, parts: str, scope: Scope, statement: str, asked: str) -> list[Any]:
        """A record of one of the scope's shops or bases.

        They are named as values and not by a join: so a store that is divided
        by shop and by base looks nowhere else. Both are asked of one server,
        for a list that is behind hides a record as well as a missing row does.
        """

        async def ask(pool: Pool) -> list[Any]:
            named = [row[0] for row in await pool.rows(parts, _clean(scope.id)) if row[0] is not None]
            return await pool.rows(statement, named, _clean(asked)) if named else []

        return await self._servers.found_by(ask)


def _page_of(rows: list[Any], limit: int) -> BillPage:
    """Each row ends with the horizon; an empty page is the horizon alone."""
    horizon = rows[0][-1]
    if rows[0][2] is None:
        return BillPage(horizon, 0, b"", b"", None)
    last = Place(*rows[-1][:3]) if len(rows) == limit else None
    return BillPage(horizon, len(rows), b"".join([row[3] for row in rows]), b",".join([row[4] for row in rows]), last)


def _base(body: bytes | None) -> Base | None:
    return _decode_base(body) if body is not None else None


def _clean(asked: str) -> str | None:
    """What PostgreSQL cannot hold (NUL, half a surrogate pair) is nobody's id; null equals nothing."""
    return None if "\0" in asked or (not asked.isascii() and _halved(asked)) else asked


def _halved(asked: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in asked)
