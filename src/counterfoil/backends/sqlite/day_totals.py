"""Marks day totals as stale, computes them again, and reads pages of digests."""

import sqlite3
from collections.abc import Iterable

from counterfoil.backends.sqlite.files import translated
from counterfoil.domain.access import Scope
from counterfoil.domain.day_totals import DayTotal, DigestPage, ShopDay, day_total, element, may_compute

_MARK_STALE = """
    INSERT INTO day_totals (shop, bill_day) VALUES (?, ?) ON CONFLICT (shop, bill_day) DO UPDATE SET stale = 1
"""
_STALE = "SELECT shop, bill_day FROM day_totals INDEXED BY stale_days WHERE stale = 1 LIMIT ?"
_BILLS = "SELECT updated_at, body FROM bills INDEXED BY bills_by_day WHERE shop = ? AND bill_day = ?"
_STORE = """
    UPDATE day_totals SET stale = 0, bills = ?3, voids = ?4, net = ?5, tip = ?6, latest = ?7, hash = ?8
    WHERE shop = ?1 AND bill_day = ?2
"""
_DELETE_EMPTY = "DELETE FROM day_totals WHERE shop = ? AND bill_day = ? AND bills = 0"

_DAYS = """
    SELECT id, bill_day, number, stale, bills, voids, net, tip, latest, hash
    FROM {shops} CROSS JOIN day_totals ON shop = number
    WHERE {within} AND (?2 IS NULL OR id = ?2) AND id >= ?3 AND (id > ?3 OR bill_day > ?4)
        AND bill_day BETWEEN ?5 AND ?6
    ORDER BY id, number, bill_day LIMIT ?7
"""
_DAYS_OF = {
    "shop": _DAYS.format(shops="shops", within="id = ?1"),
    "franchise": _DAYS.format(shops="shops INDEXED BY shops_by_scope", within="franchise_id = ?1"),
}


def mark_stale(connection: sqlite3.Connection, days: Iterable[tuple[int, int]]) -> None:
    connection.executemany(_MARK_STALE, days)


def has_stale(connection: sqlite3.Connection) -> bool:
    return connection.execute(_STALE, (1,)).fetchone() is not None


def compute(connection: sqlite3.Connection, most: int) -> int:
    """Compute the totals of up to `most` stale days in the open transaction; return the number of days."""
    stale = connection.execute(_STALE, (most,)).fetchall()
    for shop, day in stale:
        total = _computed(connection, shop, day)
        connection.execute(
            _STORE, (shop, day, total.bills, total.voids, total.net, total.tip, total.latest, total.hash)
        )
        connection.execute(_DELETE_EMPTY, (shop, day))
    return len(stale)


def page(
    connection: sqlite3.Connection,
    scope: Scope,
    shop_id: str | None,
    days: tuple[int, int],
    after: ShopDay | None,
    limit: int,
) -> DigestPage:
    start = after or ShopDay("")
    elements: list[bytes] = []
    computed = 0
    with translated():
        connection.execute("BEGIN")
        try:
            values = (scope.id, shop_id, start.shop_id, start.day, *days, limit)
            rows = connection.execute(_DAYS_OF[scope.kind], values).fetchall()
            for found_id, day, number, stale, *stored in rows:
                if stale and not may_compute(computed):
                    break
                total = _computed(connection, number, day) if stale else DayTotal(*stored)
                computed += stale
                start = ShopDay(found_id, day)
                if total.bills:
                    elements.append(element(start, total))
            else:
                return DigestPage(elements, start if len(rows) == limit else None)
        finally:
            connection.execute("COMMIT")
    return DigestPage(elements, start)


def _computed(connection: sqlite3.Connection, shop: int, day: int) -> DayTotal:
    return day_total(connection.execute(_BILLS, (shop, day)))
