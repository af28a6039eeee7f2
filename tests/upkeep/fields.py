"""Generates docs/fields.md, the tables in docs/in-the-copy.md, and the client's types, from the published fields."""

import re
import types
import typing
from pathlib import Path

from counterfoil.client import models
from counterfoil.client.tables import TABLES, Kind, Table
from counterfoil.model import resources
from counterfoil.model.resources import Field, Resource, alternatives, fields_of

ROOT = Path(__file__).parents[2]
INTRODUCTION = """\
# Fields

Every object that the API returns, with its fields in the order in which they are sent.
`make docs` generates this page from the same definitions as the OpenAPI document; a test checks that it is up to date.

A field is always present, as `null` or `[]` when it is empty. Only fields marked *absent* are left out for some keys.
"""
NAMES = {str: "text", int: "integer", float: "number", bool: "boolean"}
# The client does not return this object: a lookup returns the bare token.
WITHOUT_TYPE = {"MemberReference"}


def published() -> list[type[Resource]]:
    """Return the resources in the order in which they are defined."""
    defined = [value for value in vars(resources).values() if isinstance(value, type) and issubclass(value, Resource)]
    return [resource for resource in defined if resource is not Resource]


def files() -> dict[Path, str]:
    """Return the text of every file that `make docs` writes from the fields."""
    pull, stub = ROOT / "docs/in-the-copy.md", ROOT / "packages/client/src/counterfoil/client/models.pyi"
    written = "\n".join(_type(resource) for resource in published() if resource.__name__ not in WITHOUT_TYPE)
    return {
        ROOT / "docs/fields.md": "\n".join([INTRODUCTION, *(_section(resource) for resource in published())]),
        pull: with_part(pull, "| table | one row per |", "`pull_state`", _tables()),
        stub: with_part(stub, "# --- types of published objects", "# --- end of the types", f"\n{written}\n"),
    }


def with_part(path: Path, start: str, end: str, part: str) -> str:
    """Return a file's text with another part between the line that begins with `start` and that with `end`."""
    marked = re.compile(rf"(?ms)(^{re.escape(start)}[^\n]*\n).*?(^{re.escape(end)})")
    text, count = marked.subn(lambda found: found[1] + part + found[2], path.read_text("utf-8"))
    assert count == 1, path
    return text


# --- docs/fields.md ------------------------------------------------------------


def _section(resource: type[Resource]) -> str:
    head = (
        f"## {resource.__name__}\n\n{(resource.__doc__ or '').strip()}\n\n| field | type | meaning |\n|---|---|---|\n"
    )
    return head + "".join(_row(field) for field in fields_of(resource))


def _row(field: Field) -> str:
    names = [_type_name(part) for part in alternatives(field.declared)]
    names = ["number"] if "number" in names else names
    null = " or null" if _is_nullable(field) else ""
    absent = "" if field.required else ", absent"
    meaning = field.description.replace("|", "\\|")
    return f"| `{field.name}` | {' or '.join(names)}{null}{absent} | {meaning} |\n"


def _type_name(declared: typing.Any) -> str:
    if typing.get_origin(declared) is list:
        return f"list of {_type_name(typing.get_args(declared)[0])}"
    if typing.get_origin(declared) is typing.Literal:
        return " or ".join(f"`{value}`" for value in typing.get_args(declared))
    return NAMES[declared] if declared in NAMES else f"[{declared.__name__}](#{declared.__name__.lower()})"


def _is_nullable(field: Field) -> bool:
    return type(None) in typing.get_args(field.declared)


# --- docs/in-the-copy.md --------------------------------------------------------------


def _tables() -> str:
    return "|---|---|---|---|\n" + "".join(_table(table) for table in TABLES) + "\n"


def _table(table: Table) -> str:
    names = {column.name: f"`{column.name}{'[]' * (column.kind is Kind.TEXTS)}`" for column in table.columns}
    others = (written for name, written in names.items() if name not in table.identity)
    identity = ", ".join(names[name] for name in table.identity)
    return f"| `{table.name}` | {table.one_row_per} | {identity} | {', '.join(others)} |\n"


# --- client/models.pyi --------------------------------------------------------


def _type(resource: type[Resource]) -> str:
    hints = typing.get_type_hints(getattr(models, resource.__name__), include_extras=True)
    fields = "".join(f"    {name}: {_annotation(declared)}\n" for name, declared in hints.items())
    return f"class {resource.__name__}(TypedDict):\n{fields}"


def _annotation(declared: typing.Any) -> str:
    origin, inner = typing.get_origin(declared), typing.get_args(declared)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(map(_annotation, inner))
    if origin is typing.Literal:
        return f'Literal["{inner[0]}"]'
    if origin is not None:
        return f"{origin.__name__ if origin is list else 'NotRequired'}[{_annotation(inner[0])}]"
    return "None" if declared is type(None) else str(declared.__name__)
