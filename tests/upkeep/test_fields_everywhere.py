"""A published field reaches all places that list fields: the documents, the typed client, and the tables of `pull`.

docs/architecture.md ("Where to add") lists the places; these tests fail if a
place was forgotten. tests/client/test_models.py also compares the typed client with
the resources.
"""

import re
import types
import typing
from pathlib import Path

import msgspec
import pytest

from counterfoil.client.tables import PROMOTION_KINDS, PROMOTIONS, TABLES, Kind, Table
from counterfoil.domain.resources import Bill, Member, Resource, Shop
from counterfoil.http.openapi import document, examples
from upkeep import fields

DOCS = Path(__file__).parents[2] / "docs"
ROOTS = {"shops": Shop, "categories": Shop, "members": Member, "coupons": Member}
COLUMN = re.compile(r"`(\w+)(\[\])?`")


def paths(resource: type[Resource], before: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """Return the path of every value in a resource, through objects and lists of objects."""
    found: set[tuple[str, ...]] = set()
    for field in msgspec.structs.fields(resource):
        inner = nested(field.type)
        path = (*before, field.encode_name)
        found |= paths(inner, path) if inner else {path}
    return found


def nested(declared: object) -> type[Resource] | None:
    if typing.get_origin(declared) in (typing.Annotated, list, types.UnionType):
        return next((found for part in typing.get_args(declared) if (found := nested(part))), None)
    return declared if isinstance(declared, type) and issubclass(declared, Resource) else None


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
def test_the_document_on_pull_names_every_column(table: Table) -> None:
    lines = (DOCS / "pull.md").read_text("utf-8").splitlines()
    row = next(line for line in lines if line.startswith(f"| `{table.name}` |"))
    identity, columns = row.split("|")[3:5]
    documented = {(name, bool(many)) for name, many in COLUMN.findall(identity + columns)}
    assert documented == {(column.name, column.kind is Kind.TEXTS) for column in table.columns}


def test_the_document_on_fields_is_up_to_date() -> None:
    assert fields.DOCUMENT.read_text("utf-8") == fields.document(), "run `make docs`"


@pytest.mark.parametrize("resource", fields.published(), ids=lambda resource: resource.__name__)
def test_the_openapi_document_describes_every_field(resource: type[Resource]) -> None:
    schema = msgspec.json.decode(document("/ext"))["components"]["schemas"][resource.__name__]
    assert list(schema["properties"]) == [field.encode_name for field in msgspec.structs.fields(resource)]
    assert all(described.get("description") for described in schema["properties"].values())


@pytest.mark.parametrize("resource", fields.published(), ids=lambda resource: resource.__name__)
def test_every_resource_has_an_example(resource: type[Resource]) -> None:
    assert any(type(example) is resource for example in examples.ALL)
