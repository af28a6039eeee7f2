"""Definitions of the copy's tables: the name and type of each column, and the field that its value comes from.

The columns of a table are the fields of a published object, as `model/resources.py` describes them, in their order.
`tables.toml` has the tables, the columns that no field fills, the indexes and the views. Sinks turn these definitions
into SQL.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, structs, toml

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


class _ViewDefinition(Struct, frozen=True, forbid_unknown_fields=True):
    description: str
    like_tables: tuple[str, ...]
    like_columns: tuple[str, ...]
    own_columns: dict[str, str]
    sql: str


class _OwnColumn(Struct, frozen=True, forbid_unknown_fields=True):
    kind: Kind
    description: str
    content: Literal["fact", "technical"] = "fact"
    nullable: bool = False


class _Definition(Struct, frozen=True, forbid_unknown_fields=True):
    one_row_per: str
    identity: tuple[str, ...]
    required: tuple[str, ...] = ()
    resource: str | None = None
    parent: dict[str, tuple[str, str]] = {}
    leading: tuple[str, ...] = ()
    trailing: tuple[str, ...] = ()
    each: tuple[tuple[str, ...], ...] = ()


class _Definitions(Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of `tables.toml`."""

    columns: dict[str, _OwnColumn]
    tables: dict[str, _Definition]
    own_tables: dict[str, str]
    indexes: dict[str, tuple[str, ...]]
    views: dict[str, _ViewDefinition]
    elements: dict[str, dict[str, str]]


_DEFINED = toml.decode(Path(__file__).with_name("tables.toml").read_bytes(), type=_Definitions)


def _table(name: str, defined: _Definition) -> Table:
    names = defined.identity
    own = sorted(
        _columns(getattr(resources, defined.resource)) if defined.resource else (),
        key=lambda column: names.index(column.name) if column.name in names else len(names),
    )
    parent = (_of_parent(column, *field) for column, field in defined.parent.items())
    leading, trailing = map(_supplied, defined.leading), map(_supplied, defined.trailing)
    columns = tuple(
        structs.replace(column, nullable=False) if column.name in (*names, *defined.required) else column
        for column in (*parent, *leading, *own, *trailing)
    )
    return Table(name, columns, defined.each, defined.one_row_per, names)


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


def _of_parent(column: str, resource: str, name: str) -> Column:
    field = next(field for field in resources.fields_of(getattr(resources, resource)) if field.name == name)
    return Column(column, field.kind, field.description, (name,), of_parent=True, content=field.content)


def _supplied(name: str) -> Column:
    own = _DEFINED.columns[name]
    return Column(name, own.kind, own.description, content=Content[own.content.upper()], nullable=own.nullable)


TABLES = tuple(_table(name, defined) for name, defined in _DEFINED.tables.items())
(
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
) = TABLES
PARTS_OF_BILL = (BILL_ITEMS, ITEM_OPTIONS, PAYMENTS, PROMOTIONS)
PROMOTION_KINDS = ("campaign", "coupon")
OWN_TABLES = _DEFINED.own_tables
INDEXES = _DEFINED.indexes


def _view(defined: _ViewDefinition, engine: str) -> View:
    sql = defined.sql.strip().format(**_DEFINED.elements[engine])
    described: dict[str, str] = {}
    for table in TABLES:
        if table.name in defined.like_tables:
            described |= {column.name: column.description for column in table.columns}
    columns = {name: described[name] for name in defined.like_columns}
    return View(defined.description, sql, columns | defined.own_columns)


def _views(engine: str) -> dict[str, View]:
    return {name: _view(defined, engine) for name, defined in _DEFINED.views.items()}


DUCKDB_VIEWS, POSTGRES_VIEWS, SQLITE_VIEWS = _views("duckdb"), _views("postgres"), _views("sqlite")


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
    """How an engine defines a copy: the types of its columns, its views, SQL with {} for a value, and what it has."""

    types: Mapping[Kind, str]
    views: Mapping[str, View]
    # An instant as milliseconds since 1970, the precision of the service's instants.
    milliseconds: str
    # The first 15 hexadecimal digits of a string's MD5 digest, as a number.
    hash_number: str
    # An exact sum. Depending on the engine, it is a number or text.
    exact_sum: str = "coalesce(sum({}), 0)"
    # Text in the service's format, as an instant.
    instant: str = "CAST({} AS timestamptz)"
    has_keys: bool = True
    has_comments: bool = True


def incomplete_tables(found: Mapping[str, set[str]]) -> list[str]:
    """Return the tables that do not exist, or that lack a column. `found` contains the columns of each table."""
    return [table.name for table in TABLES if {column.name for column in table.columns} - found.get(table.name, set())]


def tables_without_columns(found: Mapping[str, set[str]], known: Mapping[str, int]) -> list[str]:
    """Return the tables that have fewer columns than `known` says, so that not only a newer release needs more."""
    return [
        table.name
        for table in TABLES
        if len({column.name for column in table.columns} & found.get(table.name, set()))
        < known.get(table.name, len(table.columns))
    ]


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
    """Yield the statements that describe the tables, the views and their columns."""
    for table in TABLES:
        yield from (statement for statement in _creation(table, dialect) if statement.startswith("COMMENT"))
    for name, view in dialect.views.items():
        yield from (
            statement for statement in _creation_of_view(name, view, dialect) if statement.startswith("COMMENT")
        )


def _creation(table: Table, dialect: Dialect) -> Iterator[str]:
    key = f", PRIMARY KEY ({', '.join(table.identity)})" if dialect.has_keys else ""
    yield f"CREATE TABLE {table.name} ({definitions(table, dialect.types, constraints=True)}{key})"
    if dialect.has_comments:
        yield _comment("TABLE", table.name, f"One row per {table.one_row_per}.")
        for column in table.columns:
            yield _comment("COLUMN", f'{table.name}."{column.name}"', column.description)


def _creation_of_view(name: str, view: View, dialect: Dialect) -> Iterator[str]:
    yield f"CREATE VIEW {name} AS {view.sql}"
    if dialect.has_comments:
        yield _comment("VIEW", name, view.description)
        for column, description in view.columns.items():
            yield _comment("COLUMN", f'{name}."{column}"', description)


def _comment(kind: str, name: str, text: str) -> str:
    quoted = text.replace("'", "''")
    return f"COMMENT ON {kind} {name} IS '{quoted}'"


def definitions(table: Table, types: Mapping[Kind, str], *, constraints: bool = False) -> str:
    """Return the columns of a table with their types and, if required, without null."""
    return ", ".join(
        f'"{column.name}" {types[column.kind]}{" NOT NULL" if constraints and not column.nullable else ""}'
        for column in table.columns
    )
