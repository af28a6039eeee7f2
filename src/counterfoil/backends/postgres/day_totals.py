"""Reads pages of digests: the totals of each shop's bills per day."""

from typing import Any

from counterfoil.backends.postgres.pool import Pool, is_storable
from counterfoil.domain.access import Scope
from counterfoil.domain.day_totals import DayTotal, DigestPage, ShopDay, day_total, element, may_compute

_DAYS = """
    SELECT page.*, horizon.at FROM horizon LEFT JOIN LATERAL (
        SELECT id, bill_day, number, stale, bills, voids, net, tip, latest, hash
        FROM shops JOIN day_totals ON shop = number
        WHERE {within} AND ($2::text IS NULL OR id = $2) AND id >= $3 AND (id > $3 OR bill_day > $4)
            AND bill_day BETWEEN $5 AND $6
        ORDER BY id, bill_day LIMIT $7
    ) AS page ON true ORDER BY page.id, page.bill_day
"""
DAYS_OF = {"shop": _DAYS.format(within="id = $1"), "franchise": _DAYS.format(within="franchise_id = $1")}
BILLS = "SELECT updated_at, body FROM bills WHERE shop = $1 AND bill_day = $2"


async def read_page(
    pool: Pool,
    scope: Scope,
    shop_id: str | None,
    days: tuple[int, int],
    after: ShopDay | None,
    limit: int,
    reached: int,
) -> tuple[DigestPage | None, int]:
    """Return a page and the server's horizon. The page is None if that horizon is below `reached`."""
    start = after or ShopDay("")
    scope_id = scope.id if is_storable(scope.id) else None
    values = (scope_id, shop_id, start.shop_id, start.day, *days, limit)
    rows: list[Any] = await pool.rows(DAYS_OF[scope.kind], *values)
    horizon = rows[0][-1]
    if horizon < reached:
        return None, horizon
    elements: list[bytes] = []
    computed = 0
    found = [row for row in rows if row[0] is not None]
    for found_id, day, number, stale, *stored, _ in found:
        if stale and not may_compute(computed):
            return DigestPage(elements, start), horizon
        total = day_total(await pool.rows(BILLS, number, day)) if stale else DayTotal(*stored)
        computed += stale
        start = ShopDay(found_id, day)
        if total.bills:
            elements.append(element(start, total))
    return DigestPage(elements, start if len(found) == limit else None), horizon
