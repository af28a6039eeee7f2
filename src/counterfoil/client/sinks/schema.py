"""The statements that create the tables, indexes and views of a copy.

docs/pull.md describes the views, which copies in DuckDB and SQLite have. The
column `sales` is the revenue: `net - tip`, without voided bills. The service
counts a missing amount as zero, and so do the views.
"""

from collections.abc import Iterator, Mapping

from counterfoil.client.tables import TABLES, Kind, Table

# The tables in which `pull` stores its own state, and their columns.
OWN_TABLES = {
    "pull_state": "one INTEGER, state {text}",
    "pull_seen": "provider_id {text}, member_id {text}",
    "pull_undelivered": "shop_id {text}, id {text}",
}
# The indexes in SQLite and PostgreSQL, by table. DuckDB does not need them.
INDEXES = {
    "bills": (
        "CREATE UNIQUE INDEX bills_identity ON bills (shop_id, id)",
        "CREATE INDEX bills_by_day ON bills (shop_id, bill_date)",
    ),
    "bill_items": ("CREATE INDEX bill_items_of_bill ON bill_items (shop_id, bill_id)",),
    "item_options": ("CREATE INDEX item_options_of_bill ON item_options (shop_id, bill_id)",),
    "payments": ("CREATE INDEX payments_of_bill ON payments (shop_id, bill_id)",),
    "promotions": ("CREATE INDEX promotions_of_bill ON promotions (shop_id, bill_id)",),
    "members": ("CREATE UNIQUE INDEX members_identity ON members (member_id)",),
    "coupons": ("CREATE INDEX coupons_of_member ON coupons (member_id)",),
    "pull_seen": ("CREATE INDEX pull_seen_of_base ON pull_seen (provider_id)",),
    "pull_undelivered": ("CREATE INDEX pull_undelivered_identity ON pull_undelivered (shop_id, id)",),
}


def missing_statements(
    found: Mapping[str, set[str]],
    types: Mapping[Kind, str],
    indexes: Mapping[str, tuple[str, ...]],
    views: Mapping[str, str],
) -> Iterator[str]:
    """Yield the statements that create the missing tables, columns, indexes and views of a copy.

    `found` contains the columns of each existing table or view, by its name.
    """
    for name, columns in OWN_TABLES.items():
        if name not in found:
            yield f"CREATE TABLE {name} ({columns.format(text=types[Kind.TEXT])})"
            yield from indexes.get(name, ())
    for table in TABLES:
        if table.name not in found:
            yield f"CREATE TABLE {table.name} ({definitions(table, types)})"
            yield from indexes.get(table.name, ())
            continue
        # An older release may have created the table without some columns.
        for column in table.columns:
            if column.name not in found[table.name]:
                yield f'ALTER TABLE {table.name} ADD COLUMN "{column.name}" {types[column.kind]}'
    # An existing view is kept, because somebody may have replaced it with their own.
    yield from (statement for name, statement in views.items() if name not in found)


def definitions(table: Table, types: Mapping[Kind, str]) -> str:
    """Return the columns of a table with their types."""
    return ", ".join(f'"{column.name}" {types[column.kind]}' for column in table.columns)


# --- views ---------------------------------------------------------------------------

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
