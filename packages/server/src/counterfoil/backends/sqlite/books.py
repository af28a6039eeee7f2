"""Reads shops, bills and members over a read-only connection.

The rows of an answer and its horizon are read by one statement and therefore from one snapshot, so the horizon is exact
for these rows. The list of shops, the change feed and the digests are exceptions: they are read after their horizon,
from a snapshot that is at least as new.
"""

import sqlite3
from datetime import date
from pathlib import Path

from counterfoil.backends.sqlite import change_feed
from counterfoil.backends.sqlite.files import read_only, row, rows
from counterfoil.domain.access import Scope
from counterfoil.domain.change_feed import FeedPage, FeedPosition, Window
from counterfoil.domain.day_totals import DigestPage, ShopDay
from counterfoil.domain.members import base_of
from counterfoil.domain.paging import Position
from counterfoil.model.calendar import as_number
from counterfoil.ports import AccountList, BillPage, FoundAccount, FoundBill, FoundMember, MemberPage, ShopList, Slice

_HORIZON = "SELECT at FROM horizon"

_SHOPS_OF = {
    "shop": "SELECT body FROM shops WHERE id = ? AND NOT removed",
    "franchise": "SELECT body FROM shops WHERE franchise_id = ? AND NOT removed ORDER BY number",
}

# Statements that take a scope start from it and use an index that begins with it. Rows outside the scope are never
# read, not even to reject them: the extra time would reveal that they exist.

# Finds the internal number of a shop in scope.
_NUMBER_OF = {
    "shop": "SELECT number FROM shops WHERE id = ?2 AND id = ?1",
    "franchise": "SELECT number FROM shops INDEXED BY shops_by_scope WHERE id = ?2 AND franchise_id = ?1",
}

_COVERS = {
    "shop": "SELECT 1 FROM shops WHERE id = ? AND provider_id = ? AND removed = 0",
    "franchise": """
        SELECT 1 FROM shops INDEXED BY shops_by_base WHERE franchise_id = ? AND provider_id = ? AND removed = 0 LIMIT 1
    """,
}

# SQLite concatenates the rows of a page, in the order of the inner query, because fetching 200 rows one by one would
# take twice as long. One statement reads one snapshot, so these rows match the other columns: the shop, the horizon,
# the last position (as one string), and whether the cursor's row still exists. A page names the shop's number in four
# places, and a join would take longer, so the subquery that finds it is written once, above.
_BILLS_BY_DAY = {
    kind: f"""
    SELECT ({number}), (SELECT at FROM horizon), count(*),
        CAST(group_concat(seal, '') AS BLOB), CAST(group_concat(body, ',') AS BLOB), (
            SELECT bill_day || ' ' || closed_at || ' ' || id FROM bills
            WHERE shop = ({number}) AND (bill_day, closed_at, id) > (?3, ?4, ?5) AND bill_day <= ?6
            ORDER BY bill_day, closed_at, id LIMIT 1 OFFSET ?7 - 1
        ), ?5 = '' OR EXISTS (SELECT 1 FROM bills WHERE id = ?5 AND shop = ({number}))
    FROM (
        SELECT seal, body FROM bills
        WHERE shop = ({number}) AND (bill_day, closed_at, id) > (?3, ?4, ?5) AND bill_day <= ?6
        ORDER BY bill_day, closed_at, id LIMIT ?7
    )
"""  # noqa: S608 - contains only constants
    for kind, number in _NUMBER_OF.items()
}

_BILLS_BY_CHANGE = {
    kind: f"""
    SELECT ({number}), (SELECT at FROM horizon), count(*),
        CAST(group_concat(seal, '') AS BLOB), CAST(group_concat(body, ',') AS BLOB), (
            SELECT updated_at || ' 0 ' || id FROM bills
            WHERE shop = ({number}) AND (updated_at, id) > (?3, ?4)
                AND updated_at <= coalesce(?5, (SELECT at FROM horizon))
            ORDER BY updated_at, id LIMIT 1 OFFSET ?6 - 1
        ), ?4 = '' OR EXISTS (SELECT 1 FROM bills WHERE id = ?4 AND shop = ({number}))
    FROM (
        SELECT seal, body FROM bills
        WHERE shop = ({number}) AND (updated_at, id) > (?3, ?4)
            AND updated_at <= coalesce(?5, (SELECT at FROM horizon))
        ORDER BY updated_at, id LIMIT ?6
    )
"""  # noqa: S608 - contains only constants
    for kind, number in _NUMBER_OF.items()
}

# Most polls find nothing new. This statement returns whether there is a bill to read, in half the time that reading a
# page takes. It returns no row if the shop is not in scope.
_POLL = {
    kind: f"""
    SELECT (SELECT at FROM horizon), EXISTS (SELECT 1 FROM bills WHERE shop = in_scope.number AND updated_at >= ?3)
    FROM ({number}) AS in_scope
"""  # noqa: S608 - contains only constants
    for kind, number in _NUMBER_OF.items()
}

_BILL_OF = {
    "shop": """
        SELECT (SELECT at FROM horizon), bills.seal, bills.body
        FROM shops CROSS JOIN bills INDEXED BY bills_by_shop ON bills.shop = shops.number AND bills.id = ?1
        WHERE shops.id = ?2
    """,
    "franchise": """
        SELECT (SELECT at FROM horizon), bills.seal, bills.body
        FROM shops INDEXED BY shops_by_franchise
        CROSS JOIN bills INDEXED BY bills_by_shop ON bills.shop = shops.number AND bills.id = ?1
        WHERE shops.franchise_id = ?2 ORDER BY shops.number LIMIT 1
    """,
}

# char(30) separates two templates; it is `NEXT` in domain/members.py.
_MEMBERS = """
    SELECT (SELECT at FROM horizon), (SELECT body FROM bases WHERE id = ?1), count(*),
        CAST(group_concat(form, char(30)) AS BLOB), (
            SELECT created_at || ' 0 ' || token FROM members
            WHERE provider_id = ?1 AND (created_at, token) > (?2, ?3)
            ORDER BY created_at, token LIMIT 1 OFFSET ?4 - 1
        ), ?3 = '' OR EXISTS (SELECT 1 FROM members WHERE token = ?3 AND provider_id = ?1)
    FROM (
        SELECT form FROM members
        WHERE provider_id = ?1 AND (created_at, token) > (?2, ?3)
        ORDER BY created_at, token LIMIT ?4
    )
"""

_BASES_OF = {
    "shop": "SELECT provider_id AS id FROM shops WHERE id = ?2 AND removed = 0",
    "franchise": """
        SELECT DISTINCT provider_id AS id FROM shops INDEXED BY shops_by_base WHERE franchise_id = ?2 AND removed = 0
    """,
}
_MEMBER_OF = {
    kind: f"""
    SELECT (SELECT at FROM horizon), base.id, (SELECT body FROM bases WHERE id = base.id), form
    FROM ({bases}) AS base
    CROSS JOIN members INDEXED BY members_by_base ON members.provider_id = base.id AND members.token = ?1 LIMIT 1
"""  # noqa: S608 - contains only constants
    for kind, bases in _BASES_OF.items()
}

# The other tables are left-joined to `horizon`, which has one row, so that it is returned without accounts too.
_ACCOUNTS = """
    SELECT horizon.at, bases.body, accounts.channel, accounts.token FROM horizon
    LEFT JOIN bases ON bases.id = ?1
    LEFT JOIN accounts ON accounts.provider_id = ?1 AND accounts.hash = ?2
    ORDER BY accounts.created_at DESC, accounts.token DESC
"""


class SqliteBooks:
    """The read side of `books.sqlite3`."""

    def __init__(self, folder: Path) -> None:
        self._connection: sqlite3.Connection = read_only(folder, "books")

    def close(self) -> None:
        self._connection.close()

    async def horizon(self) -> int:
        return self._horizon()

    # `reached` is ignored: there is only one file, and it has reached every horizon that was reported.

    async def shops(self, scope: Scope, reached: int = 0) -> ShopList:  # noqa: ARG002
        horizon = self._horizon()
        return ShopList(horizon, [body for (body,) in rows(self._connection, _SHOPS_OF[scope.kind], (scope.id,))])

    async def has_shop(self, scope: Scope, shop_id: str, reached: int = 0) -> bool:  # noqa: ARG002
        return row(self._connection, _NUMBER_OF[scope.kind], (scope.id, shop_id)) is not None

    async def covers(self, scope: Scope, provider_id: str, reached: int = 0) -> bool:  # noqa: ARG002
        return row(self._connection, _COVERS[scope.kind], (scope.id, provider_id)) is not None

    async def bills_by_day(
        self, scope: Scope, shop_id: str, first: date, last: date, wanted: Slice[Position]
    ) -> BillPage | None:
        after = wanted.after
        # -1 sorts before every closing time, so this is the position just before the first bill of the first day.
        start = (after.major, after.minor, after.id) if after else (as_number(first), -1, "")
        return self._bill_page(_BILLS_BY_DAY[scope.kind], (scope.id, shop_id, *start, as_number(last), wanted.limit))

    async def bills_by_change(
        self, scope: Scope, shop_id: str, since: int, until: int | None, wanted: Slice[Position]
    ) -> BillPage | None:
        after = wanted.after
        if after is None:
            found = row(self._connection, _POLL[scope.kind], (scope.id, shop_id, since))
            if found is None:
                return None
            if not found[1]:
                return BillPage(found[0], 0, b"", b"", None)
        start = (after.major, after.id) if after else (since, "")
        return self._bill_page(_BILLS_BY_CHANGE[scope.kind], (scope.id, shop_id, *start, until, wanted.limit))

    def _bill_page(self, statement: str, values: tuple[object, ...]) -> BillPage | None:
        shop, horizon, count, seal, bodies, last, continues = row(self._connection, statement, values)
        if shop is None:
            return None
        return BillPage(horizon, count, seal or b"", bodies or b"", _position(last), bool(continues))

    async def changes(self, scope: Scope, window: Window, wanted: Slice[FeedPosition]) -> FeedPage:
        return change_feed.feed_page(self._connection, scope, window, wanted)

    async def digests(
        self, scope: Scope, shop_id: str | None, days: tuple[int, int], wanted: Slice[ShopDay]
    ) -> DigestPage:
        return change_feed.digest_page(self._connection, scope, shop_id, days, wanted)

    async def bill(self, scope: Scope, bill_id: str, reached: int = 0) -> FoundBill | None:  # noqa: ARG002
        found = row(self._connection, _BILL_OF[scope.kind], (bill_id, scope.id))
        return FoundBill(*found) if found else None

    async def members(self, provider_id: str, wanted: Slice[Position]) -> MemberPage:
        start = (wanted.after.major, wanted.after.id) if wanted.after else (-1, "")
        values = (provider_id, *start, wanted.limit)
        horizon, base, count, templates, last, continues = row(self._connection, _MEMBERS, values)
        return MemberPage(horizon, base_of(base), count, templates or b"", _position(last), bool(continues))

    async def member(self, scope: Scope, token: str, reached: int = 0) -> FoundMember | None:  # noqa: ARG002
        found = row(self._connection, _MEMBER_OF[scope.kind], (token, scope.id))
        if not found:
            return None
        horizon, provider_id, base, template = found
        return FoundMember(horizon, provider_id, base_of(base), template)

    async def accounts(self, provider_id: str, messaging_hash: str, reached: int = 0) -> AccountList:  # noqa: ARG002
        found = rows(self._connection, _ACCOUNTS, (provider_id, messaging_hash))
        accounts = [FoundAccount(channel, token) for _, _, channel, token in found if token is not None]
        return AccountList(found[0][0], base_of(found[0][1]), accounts)

    def _horizon(self) -> int:
        (horizon,) = row(self._connection, _HORIZON)
        return int(horizon)


def _position(written: str | None) -> Position | None:
    if written is None:
        return None
    major, minor, row_id = written.split(" ", 2)
    return Position(int(major), int(minor), row_id)
