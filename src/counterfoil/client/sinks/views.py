"""The views of a copy in DuckDB or SQLite, which docs/pull.md describes.

The column `sales` is the revenue: `net - tip`, without voided bills. The
service counts a missing amount as zero, and so do the views.
"""

_DAILY_SALES = """
    CREATE VIEW daily_sales AS
    SELECT shop_id, bill_date AS day, {count_if_sold} AS bills, {count_if_void} AS voids,
        {net} AS sales, {tip} AS tips
    FROM bills GROUP BY shop_id, bill_date
"""
_PRODUCT_MIX = """
    CREATE VIEW product_mix AS
    SELECT bills.shop_id, bills.bill_date AS day, bill_items.product_id, max(bill_items.name) AS name,
        {qty} AS qty, {line_total} AS line_total, count(DISTINCT bills.id) AS bills
    FROM bills JOIN bill_items ON bill_items.shop_id = bills.shop_id AND bill_items.bill_id = bills.id
    WHERE bills.status <> 'void' AND NOT bill_items.cancelled AND NOT bill_items.is_tip
    GROUP BY bills.shop_id, bills.bill_date, bill_items.product_id
"""
_MEMBER_ACTIVITY = """
    CREATE VIEW member_activity AS
    SELECT member_id, count(*) AS bills, {net} AS sales, min(bill_date) AS first_day, max(bill_date) AS last_day
    FROM bills WHERE member_id IS NOT NULL AND status <> 'void' GROUP BY member_id
"""
_VIEWS = {"daily_sales": _DAILY_SALES, "product_mix": _PRODUCT_MIX, "member_activity": _MEMBER_ACTIVITY}

_SOLD = "CASE WHEN status = 'void' THEN 0 ELSE 1 END"
_VOID = "CASE WHEN status = 'void' THEN 1 ELSE 0 END"


def _duckdb_sum(amount: str) -> str:
    return f"coalesce(sum({amount}), 0)"


def _sqlite_sum(amount: str, places: int = 2) -> str:
    return f"round(coalesce(sum({amount}), 0), {places})"


DUCKDB_VIEWS = {
    name: view.format(
        count_if_sold=f"sum({_SOLD})::BIGINT",
        count_if_void=f"sum({_VOID})::BIGINT",
        net=_duckdb_sum("CASE WHEN status = 'void' THEN 0 ELSE coalesce(net, 0) - coalesce(tip, 0) END"),
        tip=_duckdb_sum("CASE WHEN status = 'void' THEN 0 ELSE tip END"),
        qty=_duckdb_sum("bill_items.qty"),
        line_total=_duckdb_sum("bill_items.line_total"),
    )
    for name, view in _VIEWS.items()
}
SQLITE_VIEWS = {
    name: view.format(
        count_if_sold=f"sum({_SOLD})",
        count_if_void=f"sum({_VOID})",
        net=_sqlite_sum(
            "CASE WHEN status = 'void' THEN 0 ELSE coalesce(CAST(net AS REAL), 0) - coalesce(CAST(tip AS REAL), 0) END"
        ),
        tip=_sqlite_sum("CASE WHEN status = 'void' THEN 0 ELSE CAST(tip AS REAL) END"),
        qty=_sqlite_sum("CAST(bill_items.qty AS REAL)", 6),
        line_total=_sqlite_sum("CAST(bill_items.line_total AS REAL)"),
    )
    for name, view in _VIEWS.items()
}
