"""Marks day totals as stale when bills are written, and computes stale totals again."""

from typing import Any

from psycopg import Connection

from counterfoil.domain.day_totals import day_total

_MARK_STALE = """
    INSERT INTO day_totals (shop, bill_day) SELECT * FROM unnest(%s::integer[], %s::integer[])
    ON CONFLICT (shop, bill_day) DO UPDATE SET stale = 1
"""
_STALE = "SELECT shop, bill_day FROM day_totals WHERE stale = 1 LIMIT %s"
_BILLS = "SELECT updated_at, body FROM bills WHERE shop = %s AND bill_day = %s"
_STORE = """
    UPDATE day_totals SET stale = 0, bills = %s, voids = %s, net = %s, tip = %s, latest = %s, hash = %s
    WHERE shop = %s AND bill_day = %s
"""
_DELETE = "DELETE FROM day_totals WHERE shop = %s AND bill_day = %s"


def mark_stale(connection: Connection[Any], days: list[tuple[int, int]]) -> None:
    if days:
        connection.execute(_MARK_STALE, ([shop for shop, _ in days], [day for _, day in days]))


def has_stale(connection: Connection[Any]) -> bool:
    return connection.execute(_STALE, (1,)).fetchone() is not None


def compute(connection: Connection[Any], most: int) -> int:
    """Compute the totals of up to `most` stale days; return the number of days. The caller holds the write lock."""
    stale = connection.execute(_STALE, (most,)).fetchall()
    for shop, day in stale:
        total = day_total(connection.execute(_BILLS, (shop, day), binary=True))
        if total.bills:
            values = (total.bills, total.voids, total.net, total.tip, total.latest, total.hash)
            connection.execute(_STORE, (*values, shop, day))
        else:
            connection.execute(_DELETE, (shop, day))
    return len(stale)
