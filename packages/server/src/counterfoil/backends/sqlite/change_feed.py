"""Reads pages of the change feed and of digests, each in one transaction and therefore from one snapshot."""

import sqlite3
from collections.abc import Iterator
from itertools import starmap

from counterfoil.backends.sqlite.files import translated
from counterfoil.domain.access import Scope
from counterfoil.domain.change_feed import (
    FeedPage,
    FeedPosition,
    FeedShop,
    FoundRow,
    PageBuilder,
    Part,
    Section,
    Window,
)
from counterfoil.domain.day_totals import DigestPage, ShopDay, day_total, days_to_compute, page_of_digests
from counterfoil.ports import Slice

_OLDEST = "SELECT coalesce((SELECT oldest FROM feed), 0)"

# Returns the shops that a pass has to read. If nothing in a franchise has changed, this reads only one index entry and
# the few rows of shops that have ever left the franchise.
_SHOPS_OF = {
    "shop": """
        SELECT id, number, 1, removed, joined_at, listed_at, CASE WHEN listed_at > ?2 THEN body END
        FROM shops CROSS JOIN shop_changes ON shop = number WHERE id = ?1 AND id >= ?3 AND latest_at > ?2
    """,
    "franchise": """
        SELECT id, number, 1, removed, joined_at, listed_at, CASE WHEN listed_at > ?2 THEN body END
        FROM shop_changes INDEXED BY shop_changes_by_franchise CROSS JOIN shops ON number = shop
        WHERE shop_changes.franchise_id = ?1 AND latest_at > ?2 AND id >= ?3
        UNION ALL
        SELECT id, number, 0, removed, left_at, left_at, NULL
        FROM departures CROSS JOIN shops ON number = shop
        WHERE departures.franchise_id = ?1 AND left_at > ?2 AND id >= ?3 AND shops.franchise_id IS NOT ?1
        ORDER BY id
    """,
}
_ROWS_OF = {
    # The removal of a bill is left out if the bill was loaded again.
    Part.REMOVED: """
        SELECT removed_at, id, NULL, NULL FROM removed_bills INDEXED BY removed_bills_by_change
        WHERE shop = ?1 AND (removed_at, id) > (?2, ?3) AND removed_at <= ?4
            AND NOT EXISTS (SELECT 1 FROM bills WHERE bills.shop = ?1 AND bills.id = removed_bills.id)
        ORDER BY removed_at, id LIMIT ?5
    """,
    Part.UNTRACKED: """
        SELECT loaded_at, id, seal, body FROM bills INDEXED BY bills_untracked
        WHERE shop = ?1 AND updated_at IS NULL AND (loaded_at, id) > (?2, ?3) AND loaded_at <= ?4
        ORDER BY loaded_at, id LIMIT ?5
    """,
    Part.TRACKED: """
        SELECT updated_at, id, seal, body FROM bills INDEXED BY bills_by_change
        WHERE shop = ?1 AND (updated_at, id) > (?2, ?3) AND updated_at <= ?4
        ORDER BY updated_at, id LIMIT ?5
    """,
}


def feed_page(connection: sqlite3.Connection, scope: Scope, window: Window, wanted: Slice[FeedPosition]) -> FeedPage:
    after, builder = wanted.after, PageBuilder(window, wanted.after, wanted.limit)
    with translated():
        connection.execute("BEGIN")
        try:
            (oldest,) = connection.execute(_OLDEST).fetchone()
            values = (scope.id, window.since, after.shop_id if after else "")
            for shop in starmap(FeedShop, connection.execute(_SHOPS_OF[scope.kind], values)):
                for section in builder.sections(shop):
                    builder.add(section, _rows(connection, section, window, builder.remaining))
                if not builder.remaining:
                    break
        finally:
            connection.execute("COMMIT")
    return builder.page(oldest)


def _rows(connection: sqlite3.Connection, section: Section, window: Window, limit: int) -> Iterator[FoundRow]:
    """Yield the rows of a section one by one, so that reading stops when the page is full."""
    if limit and section.part is not Part.SHOP:
        values = (section.shop.number, section.stamp, section.id, window.until, limit)
        yield from starmap(FoundRow, connection.execute(_ROWS_OF[section.part], values))


# --- pages of digests -------------------------------------------------------

_BILLS = "SELECT updated_at, body FROM bills INDEXED BY bills_by_day WHERE shop = ? AND bill_day = ?"
_DAYS_OF_SHOP = """
    SELECT id, bill_day, number, stale, bills, voids, net, tip, latest, hash
    FROM shops CROSS JOIN day_totals ON shop = number
    WHERE id = ?1 AND (?2 IS NULL OR id = ?2) AND id >= ?3 AND (id > ?3 OR bill_day > ?4)
        AND bill_day BETWEEN ?5 AND ?6
    ORDER BY id, number, bill_day LIMIT ?7
"""
_DAYS_OF_FRANCHISE = """
    SELECT id, bill_day, number, stale, bills, voids, net, tip, latest, hash
    FROM shops INDEXED BY shops_by_scope CROSS JOIN day_totals ON shop = number
    WHERE franchise_id = ?1 AND (?2 IS NULL OR id = ?2) AND id >= ?3 AND (id > ?3 OR bill_day > ?4)
        AND bill_day BETWEEN ?5 AND ?6
    ORDER BY id, number, bill_day LIMIT ?7
"""
_DAYS_OF = {"shop": _DAYS_OF_SHOP, "franchise": _DAYS_OF_FRANCHISE}


def digest_page(
    connection: sqlite3.Connection, scope: Scope, shop_id: str | None, days: tuple[int, int], wanted: Slice[ShopDay]
) -> DigestPage:
    start, limit = wanted.after or ShopDay(""), wanted.limit
    with translated():
        connection.execute("BEGIN")
        try:
            values = (scope.id, shop_id, start.shop_id, start.day, *days, limit)
            rows = connection.execute(_DAYS_OF[scope.kind], values).fetchall()
            computed = {key: day_total(connection.execute(_BILLS, key)) for key in days_to_compute(rows)}
        finally:
            connection.execute("COMMIT")
    return page_of_digests(rows, computed, start, limit)
