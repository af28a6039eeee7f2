"""The statements that create the tables, indexes and views of a copy."""

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
