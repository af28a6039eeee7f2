"""Reads pages of the change feed and of digests, from a server that is up to date.

All statements of a page of the feed go to the same server. The first statement finds the shops that the pass has to
read, or the first of them if there are many. It also returns the server's horizon, and the page is read only if that
horizon has reached the upper bound of the pass. The other statements find further shops, and read bills and removals,
of one or several shops at a time. Changes that become visible between two statements have stamps above that bound, so
they belong to the next pass.
"""

from collections.abc import Sequence
from typing import Any

from counterfoil.backends.postgres.pool import Pool, is_storable
from counterfoil.domain.access import Scope
from counterfoil.domain.change_feed import FeedPage, FeedPosition, FeedShop, FoundRow, PageBuilder, Section, Window
from counterfoil.domain.day_totals import DigestPage, ShopDay, day_total, days_to_compute, page_of_digests
from counterfoil.ports import Slice

# Returns the shops that a pass has to read, the oldest valid mark, and the horizon. If nothing in a franchise has
# changed, this reads only one index entry and the few rows of shops that have ever left the franchise.
SHOPS_OF = {
    "shop": """
        SELECT listed.*, coalesce((SELECT oldest FROM feed), 0), horizon.at FROM horizon LEFT JOIN LATERAL (
            SELECT id, number, true, removed, joined_at, listed_at, CASE WHEN listed_at > $2 THEN body END
            FROM shops JOIN shop_changes ON shop = number
            WHERE id = $1 AND id >= $3 AND latest_at > $2 LIMIT $4
        ) AS listed ON true
    """,
    "franchise": """
        SELECT listed.*, coalesce((SELECT oldest FROM feed), 0), horizon.at FROM horizon LEFT JOIN LATERAL (
            SELECT id, number, true, removed, joined_at, listed_at, CASE WHEN listed_at > $2 THEN body END
            FROM shop_changes JOIN shops ON number = shop
            WHERE shop_changes.franchise_id = $1 AND latest_at > $2 AND id >= $3
            UNION ALL
            SELECT id, number, false, removed, left_at, left_at, NULL
            FROM departures JOIN shops ON number = shop
            WHERE departures.franchise_id = $1 AND left_at > $2 AND id >= $3 AND shops.franchise_id IS DISTINCT FROM $1
            ORDER BY id LIMIT $4
        ) AS listed ON true ORDER BY listed.id
    """,
}

# Reads several sections. A section has a shop and a part, numbered as in `Part`, and starts after a stamp and an ID.
# Returns at most $6 rows per section, up to the stamp $5. Removals of bills that were loaded again are left out.
ROWS_OF = """
    SELECT asked.place, found.* FROM unnest($1::integer[], $2::integer[], $3::bigint[], $4::text[])
        WITH ORDINALITY AS asked (shop, part, stamp, id, place)
    CROSS JOIN LATERAL (
        (
            SELECT removed_at AS stamp, id, NULL::bytea, NULL::bytea FROM removed_bills
            WHERE asked.part = 1 AND shop = asked.shop AND (removed_at, id) > (asked.stamp, asked.id COLLATE "C")
                AND removed_at <= $5
                AND NOT EXISTS (SELECT 1 FROM bills WHERE bills.shop = asked.shop AND bills.id = removed_bills.id)
            ORDER BY removed_at, id LIMIT $6
        ) UNION ALL (
            SELECT loaded_at, id, seal, body FROM bills
            WHERE asked.part = 2 AND shop = asked.shop AND updated_at IS NULL
                AND (loaded_at, id) > (asked.stamp, asked.id COLLATE "C") AND loaded_at <= $5
            ORDER BY loaded_at, id LIMIT $6
        ) UNION ALL (
            SELECT updated_at, id, seal, body FROM bills
            WHERE asked.part = 3 AND shop = asked.shop AND (updated_at, id) > (asked.stamp, asked.id COLLATE "C")
                AND updated_at <= $5
            ORDER BY updated_at, id LIMIT $6
        )
    ) AS found ORDER BY asked.place, found.stamp, found.id
"""

# U+0001 is the lowest character that an ID can contain, because PostgreSQL cannot store U+0000.
LOWEST = "\x01"
OLDEST = "SELECT coalesce((SELECT oldest FROM feed), 0)"

# Maximum number of shops that one statement returns.
SHOPS_AT_ONCE = 64
# Minimum and maximum number of sections that one statement reads. A page starts with the minimum, which is the usual
# number of sections of one shop, because most pages of a long pass contain only one shop. The number grows while every
# section is read to its end.
FEWEST_SECTIONS, MOST_SECTIONS = 3, 192
# To limit memory use, the sections of one statement share this number of rows equally. The limit of a section is never
# below FEWEST_ROWS, even if the total is then higher.
ROWS_AT_ONCE = 600
FEWEST_ROWS = 8


class FeedReader:
    """Reads one page from one server."""

    def __init__(self, pool: Pool, scope: Scope, window: Window, after: FeedPosition | None, limit: int) -> None:
        self._pool = pool
        self._scope = scope
        self._window = window
        self._after = after
        self._builder = PageBuilder(window, after, limit)
        self._at_once = FEWEST_SECTIONS
        self._oldest = 0

    async def read(self, reached: int) -> tuple[FeedPage | None, int]:
        """Return the page and the server's horizon. The page is None if that horizon is below `reached`."""
        found, horizon = await self._shops(self._after.shop_id if self._after else "")
        if horizon < reached:
            return None, horizon
        any_shop = bool(found)
        while found and self._builder.remaining:
            await self._read_sections([section for shop in found for section in self._builder.sections(shop)])
            if len(found) < SHOPS_AT_ONCE:
                break
            # Continue with the smallest ID that sorts after the last shop: its ID followed by the lowest character.
            found, _ = await self._shops(found[-1].shop_id + LOWEST)
        if any_shop:
            # Removals may have been deleted while the page was read, so read the oldest valid mark again.
            ((self._oldest,),) = await self._pool.rows(OLDEST)
        return self._builder.page(self._oldest), horizon

    async def _shops(self, start: str) -> tuple[list[FeedShop], int]:
        scope_id = self._scope.id if is_storable(self._scope.id) else None
        statement = SHOPS_OF[self._scope.kind]
        rows = await self._pool.rows(statement, scope_id, self._window.since, start, SHOPS_AT_ONCE)
        *_, self._oldest, horizon = rows[0]
        return [FeedShop(*row[:-2]) for row in rows if row[0] is not None], horizon

    async def _read_sections(self, sections: list[Section]) -> None:
        """Add sections to the page in order, until the page is full."""
        while sections and self._builder.remaining:
            asked, most = sections[: self._at_once], max(FEWEST_ROWS, ROWS_AT_ONCE // self._at_once)
            unread = self._add(asked, await self._rows(asked, most), most)
            sections = unread + sections[len(asked) :]
            self._at_once = FEWEST_SECTIONS if unread else min(8 * self._at_once, MOST_SECTIONS)

    def _add(self, sections: Sequence[Section], rows: Sequence[Any], most: int) -> list[Section]:
        """Add the rows of these sections to the page; return the sections that have not been read to the end."""
        by_place: dict[int, list[FoundRow]] = {}
        for place, *row in rows:
            by_place.setdefault(place - 1, []).append(FoundRow(*row))
        for place, section in enumerate(sections):
            found = by_place.get(place, [])
            self._builder.add(section, found)
            if len(found) == most:
                return [section.after(found[-1].stamp, found[-1].id), *sections[place + 1 :]]
        return []

    async def _rows(self, sections: Sequence[Section], most: int) -> list[Any]:
        shops = [section.shop.number for section in sections]
        parts = [section.part for section in sections]
        stamps = [section.stamp for section in sections]
        row_ids = [section.id for section in sections]
        return await self._pool.rows(ROWS_OF, shops, parts, stamps, row_ids, self._window.until, most)


# --- digests: the totals of each shop's bills per day -----------------------

_DAYS_OF_SHOP = """
    SELECT page.*, horizon.at FROM horizon LEFT JOIN LATERAL (
        SELECT id, bill_day, number, stale, bills, voids, net, tip, latest, hash
        FROM shops JOIN day_totals ON shop = number
        WHERE id = $1 AND ($2::text IS NULL OR id = $2) AND id >= $3 AND (id > $3 OR bill_day > $4)
            AND bill_day BETWEEN $5 AND $6
        ORDER BY id, bill_day LIMIT $7
    ) AS page ON true ORDER BY page.id, page.bill_day
"""
_DAYS_OF_FRANCHISE = """
    SELECT page.*, horizon.at FROM horizon LEFT JOIN LATERAL (
        SELECT id, bill_day, number, stale, bills, voids, net, tip, latest, hash
        FROM shops JOIN day_totals ON shop = number
        WHERE franchise_id = $1 AND ($2::text IS NULL OR id = $2) AND id >= $3 AND (id > $3 OR bill_day > $4)
            AND bill_day BETWEEN $5 AND $6
        ORDER BY id, bill_day LIMIT $7
    ) AS page ON true ORDER BY page.id, page.bill_day
"""
DAYS_OF = {"shop": _DAYS_OF_SHOP, "franchise": _DAYS_OF_FRANCHISE}
BILLS = "SELECT updated_at, body FROM bills WHERE shop = $1 AND bill_day = $2"


async def digest_page(
    pool: Pool, scope: Scope, shop_id: str | None, days: tuple[int, int], wanted: Slice[ShopDay]
) -> tuple[DigestPage | None, int]:
    """Return a page and the server's horizon. The page is None if that horizon is below `wanted.reached`."""
    start = wanted.after or ShopDay("")
    scope_id = scope.id if is_storable(scope.id) else None
    values = (scope_id, shop_id, start.shop_id, start.day, *days, wanted.limit)
    rows: list[Any] = await pool.rows(DAYS_OF[scope.kind], *values)
    horizon = rows[0][-1]
    if horizon < wanted.reached:
        return None, horizon
    found = [row[:-1] for row in rows if row[0] is not None]
    computed = {key: day_total(await pool.rows(BILLS, *key)) for key in days_to_compute(found)}
    return page_of_digests(found, computed, start, wanted.limit), horizon
