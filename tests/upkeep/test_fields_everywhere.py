"""A published field reaches all places that list fields: the documents, the client's types, and the tables of `pull`.

docs/architecture.md ("Where to add") says which of them are written by hand. Lists of source fields are compared in
tests/ingest/test_fields.py and tests/importing/test_fields.py.
"""

import msgspec
import pytest

from counterfoil.client.tables import PROMOTION_KINDS, PROMOTIONS, TABLES, Table
from counterfoil.http.openapi import document
from counterfoil.model.resources import Bill, Member, Resource, Shop, fields_of
from upkeep import fields

ROOTS = {"shops": Shop, "categories": Shop, "members": Member, "coupons": Member}


def paths(resource: type[Resource], before: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """Return the path of every value in a resource, through objects and lists of objects."""
    found: set[tuple[str, ...]] = set()
    for field in fields_of(resource):
        path = (*before, field.name)
        found |= paths(field.part, path) if field.part else {path}
    return found


def copied(table: Table) -> set[tuple[str, ...]]:
    """Return the paths that a table's columns are filled from."""
    lists = [("amounts", kind) for kind in PROMOTION_KINDS] if table is PROMOTIONS else [sum(table.each, ())]
    return {
        column.path if column.of_parent else (*inside, *column.path)
        for inside in lists
        for column in table.columns
        if column.path
    }


@pytest.mark.parametrize("resource", [Shop, Bill, Member])
def test_pull_has_a_column_for_every_published_value(resource: type[Resource]) -> None:
    tables = [table for table in TABLES if ROOTS.get(table.name, Bill) is resource]
    assert set().union(*(copied(table) for table in tables)) == paths(resource)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_the_columns_of_a_table_have_different_names(table: Table) -> None:
    names = [column.name for column in table.columns]
    assert sorted(set(names)) == sorted(names)
    assert set(table.identity) <= set(names)


@pytest.mark.parametrize("resource", fields.published(), ids=lambda resource: resource.__name__)
def test_the_openapi_document_describes_every_field(resource: type[Resource]) -> None:
    schema = msgspec.json.decode(document("/ext"))["components"]["schemas"][resource.__name__]
    assert list(schema["properties"]) == [field.name for field in fields_of(resource)]
