"""Definitions of the copy's tables: the name and type of each column, and the field that its value comes from.

The columns of a table are the fields of a published object, as `model/resources.py` describes them, in their order.
Sinks turn these definitions into SQL. docs/keep-a-copy.md describes the tables.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from counterfoil.model import resources
from counterfoil.model.resources import Content, Kind

# `Content` and `Kind` describe columns, so callers import them from here, too.
__all__ = ["TABLES", "Column", "Content", "Dialect", "Kind", "Table", "View"]


class Column(Struct, frozen=True):
    """A column, and the path of its value in the JSON.

    `path` is empty if the sink supplies the value. For tables made from a nested list, the path starts at a list
    element or, with `of_parent`, at the shop, bill or member that contains the list.
    """

    name: str
    kind: Kind
    description: str
    path: tuple[str, ...] = ()
    of_parent: bool = False
    content: Content = Content.FACT
    nullable: bool = True


class Table(Struct, frozen=True):
    """A table, the columns that identify a row, and the paths to the nested lists of its rows, outermost first."""

    name: str
    columns: tuple[Column, ...]
    each: tuple[tuple[str, ...], ...] = ()
    one_row_per: str = ""
    identity: tuple[str, ...] = ()


class View(Struct, frozen=True):
    """A view, and the descriptions of its columns by their names."""

    description: str
    sql: str
    columns: Mapping[str, str]


def _table(
    name: str,
    *,
    one_row_per: str,
    identity: tuple[str, ...],
    required: Sequence[str] = (),
    parent: Mapping[str, tuple[type[resources.Resource], str]] | None = None,
    leading: Sequence[Column] = (),
    resource: type[resources.Resource] | None = None,
    trailing: Sequence[Column] = (),
    each: tuple[tuple[str, ...], ...] = (),
) -> Table:
    """Return a table with its columns in this order.

    First come fields of the object that contains the nested list of its rows (`parent`), the `leading` columns, one
    column per field of the `resource`, those of the identity first, and the `trailing` columns.
    """
    own = sorted(
        _columns(resource) if resource else (),
        key=lambda column: identity.index(column.name) if column.name in identity else len(identity),
    )
    of_parent = [_of_parent(column, *field) for column, field in (parent or {}).items()]
    columns = []
    for column in (*of_parent, *leading, *own, *trailing):
        is_required = column.name in identity or column.name in required
        columns.append(structs.replace(column, nullable=False) if is_required else column)
    return Table(name, tuple(columns), each, one_row_per, identity)


def _columns(resource: type[resources.Resource], inside: tuple[str, ...] = ()) -> Iterator[Column]:
    """Yield a column per field, also for the fields of objects within it. Lists of objects have their own tables."""
    for field in resources.fields_of(resource):
        path = (*inside, field.name)
        if field.part is None:
            # In a copy, an instant has no offset of its own.
            description = field.description.replace(", with the shop's UTC offset", "")
            yield Column(field.column, field.kind, description, path, content=field.content)
        elif not field.many:
            yield from _columns(field.part, path)


def _of_parent(column: str, resource: type[resources.Resource], name: str) -> Column:
    field = next(field for field in resources.fields_of(resource) if field.name == name)
    return Column(column, field.kind, field.description, (name,), of_parent=True, content=field.content)


# Columns that no field of a response fills: the sink supplies their values.
LINE = Column("line", Kind.INTEGER, "Number of the line on the bill, from 1.", nullable=False)
POSITION = Column("position", Kind.INTEGER, "Position in the list, from 1.", nullable=False)
KIND = Column("kind", Kind.TEXT, "`campaign` or `coupon`.", nullable=False)
PROVIDER_ID = Column("provider_id", Kind.TEXT, "The membership base.", nullable=False)
LOCAL_TIME = Column("local_time", Kind.LOCAL_TIME, "When the bill was closed, on the shop's clock.")
REVENUE = Column(
    "revenue",
    Kind.DECIMAL,
    "`net` without the tip, or 0 if the bill is void. Missing amounts count as 0.",
    nullable=False,
)
REMOVED_AT = Column("removed_at", Kind.INSTANT, "When the service stopped returning it; null while it does.")
IN_SCOPE = Column(
    "in_scope", Kind.FLAG, "Whether the key can read its bills. A closed shop can be in scope.", nullable=False
)
COMPLETE_UNTIL = Column(
    "complete_until",
    Kind.INSTANT,
    "Up to when the copy has all changes to a shop that has left the key's scope; null while it is in scope.",
)
COPIED_AT = Column(
    "copied_at",
    Kind.INSTANT,
    "When the row was written, by the service's clock.",
    content=Content.TECHNICAL,
    nullable=False,
)

SHOPS = _table(
    "shops",
    one_row_per="shop",
    identity=("shop_id",),
    resource=resources.Shop,
    trailing=(REMOVED_AT, IN_SCOPE, COMPLETE_UNTIL, COPIED_AT),
)
CATEGORIES = _table(
    "categories",
    one_row_per="category of a shop",
    identity=("shop_id", "position"),
    parent={"shop_id": (resources.Shop, "shopId")},
    leading=(POSITION,),
    resource=resources.Category,
    trailing=(COPIED_AT,),
    each=(("categories",),),
)
BILLS = _table(
    "bills",
    one_row_per="bill",
    identity=("shop_id", "id"),
    required=("status",),
    resource=resources.Bill,
    trailing=(LOCAL_TIME, REVENUE, COPIED_AT),
)
BILL_ITEMS = _table(
    "bill_items",
    one_row_per="line of a bill",
    identity=("shop_id", "bill_id", "line"),
    parent={"shop_id": (resources.Bill, "shopId"), "bill_id": (resources.Bill, "id")},
    leading=(LINE,),
    resource=resources.Item,
    trailing=(COPIED_AT,),
    each=(("items",),),
)
ITEM_OPTIONS = _table(
    "item_options",
    one_row_per="option of a line",
    identity=("shop_id", "bill_id", "line", "position"),
    parent={"shop_id": (resources.Bill, "shopId"), "bill_id": (resources.Bill, "id")},
    leading=(LINE, POSITION),
    resource=resources.Option,
    trailing=(COPIED_AT,),
    each=(("items",), ("options",)),
)
PAYMENTS = _table(
    "payments",
    one_row_per="payment",
    identity=("shop_id", "bill_id", "position"),
    parent={"shop_id": (resources.Bill, "shopId"), "bill_id": (resources.Bill, "id")},
    leading=(POSITION,),
    resource=resources.Payment,
    trailing=(COPIED_AT,),
    each=(("payments",),),
)
# Campaigns and coupons share a table, and `kind` distinguishes them.
PROMOTIONS = _table(
    "promotions",
    one_row_per="campaign or coupon on a bill",
    identity=("shop_id", "bill_id", "kind", "position"),
    parent={"shop_id": (resources.Bill, "shopId"), "bill_id": (resources.Bill, "id")},
    leading=(KIND, POSITION),
    resource=resources.Promotion,
    trailing=(COPIED_AT,),
)
MEMBERS = _table(
    "members",
    one_row_per="member",
    identity=("member_id",),
    leading=(PROVIDER_ID,),
    resource=resources.Member,
    trailing=(REMOVED_AT, COPIED_AT),
)
COUPONS = _table(
    "coupons",
    one_row_per="coupon of a member",
    identity=("member_id", "position"),
    parent={"member_id": (resources.Member, "memberId")},
    leading=(POSITION,),
    resource=resources.Coupon,
    trailing=(COPIED_AT,),
    each=(("coupons",),),
)
# Bills that were deleted from the copy, for programs that read only what has changed.
REMOVED_BILLS = _table(
    "removed_bills",
    one_row_per="bill that the copy no longer contains",
    identity=("shop_id", "id"),
    parent={
        "shop_id": (resources.Bill, "shopId"),
        "id": (resources.Bill, "id"),
        "business_date": (resources.Bill, "businessDate"),
        "bill_date": (resources.Bill, "billDate"),
    },
    trailing=(REMOVED_AT, COPIED_AT),
)
# Members that were deleted from the copy, because the service does not return them any more.
REMOVED_MEMBERS = _table(
    "removed_members",
    one_row_per="member that the copy no longer contains",
    identity=("member_id",),
    parent={"member_id": (resources.Member, "memberId")},
    leading=(PROVIDER_ID,),
    trailing=(REMOVED_AT, COPIED_AT),
)
TABLES = (
    SHOPS,
    CATEGORIES,
    BILLS,
    BILL_ITEMS,
    ITEM_OPTIONS,
    PAYMENTS,
    PROMOTIONS,
    MEMBERS,
    COUPONS,
    REMOVED_BILLS,
    REMOVED_MEMBERS,
)
PARTS_OF_BILL = (BILL_ITEMS, ITEM_OPTIONS, PAYMENTS, PROMOTIONS)
PROMOTION_KINDS = ("campaign", "coupon")
# The tables in which `pull` stores its own state, and their columns.
OWN_TABLES = {
    "pull_state": "one INTEGER, state {text}",
    "pull_seen": "provider_id {text}, member_id {text}",
    "pull_undelivered": "shop_id {text}, id {text}",
    "pull_erased": "provider_id {text}",
}
# The indexes in SQLite and PostgreSQL, by table. Both also have primary keys. DuckDB does not need them: its scans are
# fast, and a primary key makes writing lines four times as slow and their table nine times as large.
INDEXES = {
    "bills": ("CREATE INDEX bills_by_day ON bills (shop_id, bill_date)",),
    "pull_seen": ("CREATE INDEX pull_seen_of_base ON pull_seen (provider_id)",),
    "pull_undelivered": ("CREATE INDEX pull_undelivered_identity ON pull_undelivered (shop_id, id)",),
}


def promotions_of(kind: str) -> Table:
    """Return the promotions table, filled from the campaigns or the coupons of a bill."""
    return structs.replace(PROMOTIONS, each=(("amounts", kind),))


# The types of fields, structs and lists of structs, for engines that read JSON with a schema.
JsonStructure = dict[str, Any]


def json_structure(tables: Sequence[Table]) -> JsonStructure:
    """Return the schema of an object in a response, with only the fields that the tables use."""
    root: JsonStructure = {}
    for table in tables:
        node = root
        for *outer, name in table.each:
            node = _inside(node, outer).setdefault(name, [{}])[0]
        for column in table.columns:
            if column.path and not column.of_parent:
                *outer, name = column.path
                _inside(node, outer)[name] = column.kind
    return root


def _inside(node: JsonStructure, path: Sequence[str]) -> JsonStructure:
    for part in path:
        node = node.setdefault(part, {})
    return node


class Dialect(Struct, frozen=True):
    """How an engine defines a copy: the types of its columns, its views, how it writes an instant, and what it has."""

    types: Mapping[Kind, str]
    views: Mapping[str, View]
    # Text in the service's format, as an instant.
    instant: str = "CAST({} AS timestamptz)"
    has_keys: bool = True
    has_comments: bool = True


def incomplete_tables(found: Mapping[str, set[str]]) -> list[str]:
    """Return the tables that do not exist, or that lack a column. `found` contains the columns of each table."""
    incomplete = []
    for table in TABLES:
        wanted = {column.name for column in table.columns}
        if wanted - found.get(table.name, set()):
            incomplete.append(table.name)
    return incomplete


def tables_without_columns(found: Mapping[str, set[str]], known: Mapping[str, int]) -> list[str]:
    """Return the tables that have fewer columns than `known` says, so that not only a newer release needs more."""
    lacking = []
    for table in TABLES:
        present = [column for column in table.columns if column.name in found.get(table.name, ())]
        if len(present) < known.get(table.name, len(table.columns)):
            lacking.append(table.name)
    return lacking


def missing_statements(found: Mapping[str, set[str]], dialect: Dialect) -> Iterator[str]:
    """Yield the statements that create what a copy lacks. `found` has the columns of each existing table or view."""
    types, indexes = dialect.types, INDEXES if dialect.has_keys else {}
    for name, columns in OWN_TABLES.items():
        if name not in found:
            yield f"CREATE TABLE {name} ({columns.format(text=types[Kind.TEXT])})"
            yield from indexes.get(name, ())
    for table in TABLES:
        if table.name not in found:
            yield from _creation(table, dialect)
            yield from indexes.get(table.name, ())
            continue
        # An older release may have created the table without some columns, or somebody has dropped them.
        for column in table.columns:
            if column.name not in found[table.name]:
                yield f'ALTER TABLE {table.name} ADD COLUMN "{column.name}" {types[column.kind]}'
    # An existing view is kept, because somebody may have replaced it with their own.
    for name, view in dialect.views.items():
        if name not in found:
            yield from _creation_of_view(name, view, dialect)


def comments(dialect: Dialect) -> Iterator[str]:
    """Yield the statements that describe the tables, the views and their columns, if the engine has such."""
    if not dialect.has_comments:
        return
    for table in TABLES:
        yield from _comments_on_table(table)
    for name, view in dialect.views.items():
        yield from _comments_on_view(name, view)


def _creation(table: Table, dialect: Dialect) -> Iterator[str]:
    key = f", PRIMARY KEY ({', '.join(table.identity)})" if dialect.has_keys else ""
    yield f"CREATE TABLE {table.name} ({definitions(table, dialect.types, constraints=True)}{key})"
    if dialect.has_comments:
        yield from _comments_on_table(table)


def _comments_on_table(table: Table) -> Iterator[str]:
    yield _comment("TABLE", table.name, f"One row per {table.one_row_per}.")
    for column in table.columns:
        yield _comment("COLUMN", f'{table.name}."{column.name}"', column.description)


def _creation_of_view(name: str, view: View, dialect: Dialect) -> Iterator[str]:
    yield f"CREATE VIEW {name} AS {view.sql}"
    if dialect.has_comments:
        yield from _comments_on_view(name, view)


def _comments_on_view(name: str, view: View) -> Iterator[str]:
    yield _comment("VIEW", name, view.description)
    for column, description in view.columns.items():
        yield _comment("COLUMN", f'{name}."{column}"', description)


def _comment(kind: str, name: str, text: str) -> str:
    quoted = text.replace("'", "''")
    return f"COMMENT ON {kind} {name} IS '{quoted}'"


def definitions(table: Table, types: Mapping[Kind, str], *, constraints: bool = False) -> str:
    """Return the columns of a table with their types and, if required, without null."""
    columns = []
    for column in table.columns:
        constraint = " NOT NULL" if constraints and not column.nullable else ""
        columns.append(f'"{column.name}" {types[column.kind]}{constraint}')
    return ", ".join(columns)
