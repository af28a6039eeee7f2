"""Definitions of the copy's tables: the name and type of each column, and the field that its value comes from.

The columns of a table are the fields of a published object, as
`domain/resources.py` describes them, in their order. A column that no field
fills is written here, in the table's `leading` or `trailing` columns. Sinks turn
these definitions into SQL.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from counterfoil.domain.resources import (
    Bill,
    Category,
    Content,
    Coupon,
    Item,
    Kind,
    Member,
    Option,
    Payment,
    Promotion,
    Resource,
    Shop,
    fields_of,
)

# `Content` and `Kind` describe columns, so callers import them from here, too.
__all__ = ["TABLES", "Column", "Content", "Kind", "Table"]


class Column(Struct, frozen=True):
    """A column, and the path of its value in the JSON.

    `path` is empty if the sink supplies the value. For tables made from a
    nested list, the path starts at a list element or, with `of_parent`, at the
    shop, bill or member that contains the list.
    """

    name: str
    kind: Kind
    description: str
    path: tuple[str, ...] = ()
    of_parent: bool = False
    content: Content = Content.FACT


class Table(Struct, frozen=True):
    """A table, and the names of the columns that identify a row.

    `each` has the paths to the nested lists that its rows come from, outermost first.
    """

    name: str
    columns: tuple[Column, ...]
    each: tuple[tuple[str, ...], ...] = ()
    one_row_per: str = ""
    identity: tuple[str, ...] = ()


def _table(
    name: str,
    one_row_per: str,
    identity: str,
    resource: type[Resource],
    *,
    leading: tuple[Column, ...] = (),
    trailing: tuple[Column, ...] = (),
    each: tuple[tuple[str, ...], ...] = (),
) -> Table:
    """Return a table of the leading columns, one column per field, and the trailing columns."""
    names = tuple(identity.split())
    own = sorted(
        _columns(resource), key=lambda column: names.index(column.name) if column.name in names else len(names)
    )
    return Table(name, (*leading, *own, *trailing), each, one_row_per, names)


def _columns(resource: type[Resource], inside: tuple[str, ...] = ()) -> Iterator[Column]:
    """Yield a column per field, also for the fields of objects within it. Lists of objects have their own tables."""
    for field in fields_of(resource):
        path = (*inside, field.name)
        if field.part is None:
            yield Column(field.column, field.kind, field.description, path, content=field.content)
        elif not field.many:
            yield from _columns(field.part, path)


def _of_parent(column: str, resource: type[Resource], name: str) -> Column:
    field = next(field for field in fields_of(resource) if field.name == name)
    return Column(column, field.kind, field.description, (name,), of_parent=True, content=field.content)


_SHOP_ID = _of_parent("shop_id", Shop, "shopId")
_OF_BILL = (_of_parent("shop_id", Bill, "shopId"), _of_parent("bill_id", Bill, "id"))
_LINE = Column("line", Kind.INTEGER, "Number of the line on the bill, from 1.")
_POSITION = Column("position", Kind.INTEGER, "Position in the list, from 1.")
_REMOVED_AT = Column("removed_at", Kind.INSTANT, "When the service stopped returning it; null while it does.")

_IN_SCOPE = Column("in_scope", Kind.FLAG, "Whether the key can read its bills. A closed shop can be in scope.")
_COMPLETE_UNTIL = Column(
    "complete_until",
    Kind.INSTANT,
    "Up to when the copy has all changes to a shop that has left the key's scope; null while it is in scope.",
)
SHOPS = _table("shops", "shop", "shop_id", Shop, trailing=(_REMOVED_AT, _IN_SCOPE, _COMPLETE_UNTIL))
CATEGORIES = _table(
    "categories",
    "category of a shop",
    "shop_id position",
    Category,
    leading=(_SHOP_ID, _POSITION),
    each=(("categories",),),
)
_REVENUE = Column(
    "revenue", Kind.DECIMAL, "`net` without the tip, or 0 if the bill is void. Missing amounts count as 0."
)
BILLS = _table("bills", "bill", "shop_id id", Bill, trailing=(_REVENUE,))
BILL_ITEMS = _table(
    "bill_items",
    "line of a bill",
    "shop_id bill_id line",
    Item,
    leading=(*_OF_BILL, _LINE),
    each=(("items",),),
)
ITEM_OPTIONS = _table(
    "item_options",
    "option of a line",
    "shop_id bill_id line position",
    Option,
    leading=(*_OF_BILL, _LINE, _POSITION),
    each=(("items",), ("options",)),
)
PAYMENTS = _table(
    "payments",
    "payment",
    "shop_id bill_id position",
    Payment,
    leading=(*_OF_BILL, _POSITION),
    each=(("payments",),),
)
# Campaigns and coupons share a table; the sink supplies `kind`, which distinguishes them.
PROMOTION_KINDS = ("campaign", "coupon")
PROMOTIONS = _table(
    "promotions",
    "campaign or coupon on a bill",
    "shop_id bill_id kind position",
    Promotion,
    leading=(*_OF_BILL, Column("kind", Kind.TEXT, "`campaign` or `coupon`."), _POSITION),
)


def promotions_of(kind: str) -> Table:
    """Return the promotions table, filled from the campaigns or the coupons of a bill."""
    return structs.replace(PROMOTIONS, each=(("amounts", kind),))


MEMBERS = _table(
    "members",
    "member",
    "member_id",
    Member,
    leading=(Column("provider_id", Kind.TEXT, "The membership base."),),
    trailing=(_REMOVED_AT,),
)
COUPONS = _table(
    "coupons",
    "coupon of a member",
    "member_id position",
    Coupon,
    leading=(_of_parent("member_id", Member, "memberId"), _POSITION),
    each=(("coupons",),),
)

TABLES = (SHOPS, CATEGORIES, BILLS, BILL_ITEMS, ITEM_OPTIONS, PAYMENTS, PROMOTIONS, MEMBERS, COUPONS)
PARTS_OF_BILL = (BILL_ITEMS, ITEM_OPTIONS, PAYMENTS, PROMOTIONS)

# The types of fields, structs and lists of structs, for engines that read JSON with a schema.
JsonStructure = dict[str, Any]


def json_structure(tables: Sequence[Table]) -> JsonStructure:
    """Return the schema of an object in a response, with only the fields that the tables use."""
    root: JsonStructure = {}
    for table in tables:
        if table is PROMOTIONS:
            for kind in PROMOTION_KINDS:
                _add_columns(_list_at(root, promotions_of(kind).each[0]), table)
            continue
        node = root
        for step in table.each:
            node = _list_at(node, step)
        _add_columns(node, table)
    return root


def _add_columns(node: JsonStructure, table: Table) -> None:
    for column in table.columns:
        if column.path and not column.of_parent:
            target = node
            for part in column.path[:-1]:
                target = target.setdefault(part, {})
            target[column.path[-1]] = column.kind


def _list_at(node: JsonStructure, path: tuple[str, ...]) -> JsonStructure:
    for part in path[:-1]:
        node = node.setdefault(part, {})
    inner: JsonStructure = node.setdefault(path[-1], [{}])[0]
    return inner


# --- the statements that create the tables, indexes and views of a copy -----
#
# docs/pull.md describes the views, which copies in DuckDB and SQLite have.

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
        {revenue} AS revenue, {tip} AS tips
    FROM bills GROUP BY shop_id, bill_date
"""
_PRODUCT_MIX = """
    CREATE VIEW product_mix AS
    SELECT bills.shop_id, bills.bill_date AS day, bill_items.product_id, max(bill_items.name) AS name,
        {qty} AS qty, {line_total} AS line_total, count(DISTINCT bills.id) AS bills
    FROM bills JOIN bill_items ON bill_items.shop_id = bills.shop_id AND bill_items.bill_id = bills.id
    WHERE bills.status <> 'void' AND NOT bill_items.cancelled AND NOT bill_items.is_tip
    GROUP BY bills.shop_id, bills.bill_date, bill_items.product_id,
        CASE WHEN bill_items.product_id IS NULL THEN bill_items.name END
"""
_MEMBER_ACTIVITY = """
    CREATE VIEW member_activity AS
    SELECT member_id, count(*) AS bills, {revenue} AS revenue, min(bill_date) AS first_day, max(bill_date) AS last_day
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
        revenue=_duckdb_sum("revenue"),
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
        revenue=_sqlite_sum("revenue"),
        tip=_sqlite_sum("CASE WHEN status = 'void' THEN 0 ELSE tip END"),
        qty=_sqlite_sum("bill_items.qty", 6),
        line_total=_sqlite_sum("bill_items.line_total"),
    )
    for name, view in _VIEWS.items()
}
