"""Reads pages of the change feed, and updates the tables of the feed when the books are written.

A page is read in one transaction and therefore from one snapshot.
"""

import sqlite3
from collections.abc import Iterator
from itertools import starmap

from counterfoil.backends.sqlite.files import translated
from counterfoil.domain.access import Scope
from counterfoil.domain.batch import Batch
from counterfoil.domain.change_feed import (
    REMOVALS_KEPT_MS,
    FeedPage,
    FeedPosition,
    FeedShop,
    FoundRow,
    PageBuilder,
    Part,
    Section,
    Window,
)

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

_RELIST = """
    INSERT INTO shop_changes (shop, franchise_id, joined_at, listed_at, latest_at) VALUES (?1, ?2, ?3, ?3, ?3)
    ON CONFLICT (shop) DO UPDATE SET
        joined_at = CASE WHEN franchise_id IS excluded.franchise_id THEN joined_at ELSE excluded.joined_at END,
        franchise_id = excluded.franchise_id, listed_at = excluded.listed_at, latest_at = excluded.latest_at
"""
_TOUCH = "UPDATE shop_changes SET latest_at = ?2 WHERE shop = ?1"
_DEPART = "INSERT OR REPLACE INTO departures (franchise_id, shop, left_at) VALUES (?, ?, ?)"
_REMOVE = "INSERT OR REPLACE INTO removed_bills (shop, id, removed_at) VALUES (?, ?, ?)"

_PRUNE = "DELETE FROM removed_bills WHERE removed_at <= ?"
_RAISE_OLDEST = """
    INSERT INTO feed (one, oldest) VALUES (1, ?1) ON CONFLICT (one) DO UPDATE SET oldest = max(oldest, ?1)
"""


def page(
    connection: sqlite3.Connection, scope: Scope, window: Window, after: FeedPosition | None, limit: int
) -> FeedPage:
    builder = PageBuilder(window, after, limit)
    with translated():
        connection.execute("BEGIN")
        try:
            (oldest,) = connection.execute(_OLDEST).fetchone()
            for shop in _shops(connection, scope, window, after):
                for section in builder.sections(shop):
                    builder.add(section, _rows(connection, section, window, builder.remaining))
                if not builder.remaining:
                    break
        finally:
            connection.execute("COMMIT")
    return builder.page(oldest)


def _shops(
    connection: sqlite3.Connection, scope: Scope, window: Window, after: FeedPosition | None
) -> Iterator[FeedShop]:
    values = (scope.id, window.since, after.shop_id if after else "")
    yield from starmap(FeedShop, connection.execute(_SHOPS_OF[scope.kind], values))


def _rows(connection: sqlite3.Connection, section: Section, window: Window, limit: int) -> Iterator[FoundRow]:
    """Yield the rows of a section one by one, so that reading stops when the page is full."""
    if limit and section.part is not Part.SHOP:
        values = (section.shop.number, section.stamp, section.id, window.until, limit)
        yield from starmap(FoundRow, connection.execute(_ROWS_OF[section.part], values))


def record(connection: sqlite3.Connection, batch: Batch) -> None:
    """Record the changes of a batch for the feed, in the transaction that writes the batch."""
    stamp = batch.stamp
    connection.executemany(_RELIST, [(row.number, row.franchise_id, stamp) for row in batch.relisted_shops()])
    connection.executemany(_DEPART, [(*departure, stamp) for departure in batch.departures()])
    connection.executemany(_REMOVE, [(*bill, stamp) for bill in batch.removed_bills()])
    for shop in batch.touched_shops():
        touch(connection, shop, stamp)


def touch(connection: sqlite3.Connection, shop: int, stamp: int) -> None:
    """Record that bills of a shop were written with this stamp."""
    connection.execute(_TOUCH, (shop, stamp))


def prune(connection: sqlite3.Connection, horizon: int) -> int:
    """Delete removals older than REMOVALS_KEPT_MS; return the count.

    If any are deleted, raise the oldest valid mark, because a pass from an older mark
    would miss them.
    """
    oldest = horizon - REMOVALS_KEPT_MS
    deleted = connection.execute(_PRUNE, (oldest,)).rowcount
    if deleted:
        refuse_marks_below(connection, oldest)
    return deleted


def refuse_marks_below(connection: sqlite3.Connection, oldest: int) -> None:
    connection.execute(_RAISE_OLDEST, (oldest,))
