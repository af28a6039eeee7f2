"""Generates docs/fields.md from the resources. `make docs` runs it to replace the file."""

import types
import typing
from pathlib import Path

import msgspec

from counterfoil.domain import resources
from counterfoil.domain.resources import Resource

DOCUMENT = Path(__file__).parents[2] / "docs" / "fields.md"
INTRODUCTION = """\
# Fields

Every object that the API returns, with its fields in the order in which they are sent.
`make docs` generates this page from the same definitions as the OpenAPI document; a test checks that it is up to date.

A field is always present, as `null` or `[]` when it is empty. Only fields marked *absent* are left out for some keys.
"""
NAMES = {str: "text", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def published() -> list[type[Resource]]:
    """Return the resources in the order in which they are defined."""
    defined = [value for value in vars(resources).values() if isinstance(value, type) and issubclass(value, Resource)]
    return [resource for resource in defined if resource is not Resource]


def document() -> str:
    return "\n".join([INTRODUCTION, *(_section(resource) for resource in published())])


def _section(resource: type[Resource]) -> str:
    head = (
        f"## {resource.__name__}\n\n{(resource.__doc__ or '').strip()}\n\n| field | type | meaning |\n|---|---|---|\n"
    )
    return head + "".join(_row(resource, field) for field in msgspec.structs.fields(resource))


def _row(resource: type[Resource], field: msgspec.structs.FieldInfo) -> str:
    declared, meta = typing.get_args(typing.get_type_hints(resource, include_extras=True)[field.name])[:2]
    absent = "" if field.required else ", absent"
    return f"| `{field.encode_name}` | {_type_name(declared)}{absent} | {meta.description} |\n"


def _type_name(declared: object) -> str:
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if origin in (types.UnionType, typing.Union):
        names = [_type_name(part) for part in arguments if part is not msgspec.UnsetType]
        return " or ".join(dict.fromkeys(name for name in names if not (name == "integer" and "number" in names)))
    if origin is list:
        return f"list of {_type_name(arguments[0])}"
    if origin is typing.Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if isinstance(declared, type) and issubclass(declared, Resource):
        return f"[{declared.__name__}](#{declared.__name__.lower()})"
    return NAMES[declared]  # type: ignore[index]


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
