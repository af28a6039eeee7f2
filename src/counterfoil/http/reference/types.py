"""Describes the types in JSON schemas in words, with links to objects."""

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

_UNIONS = ("anyOf", "oneOf")


def name_of(schema: Json) -> str:
    """Return the name of the component that a schema refers to."""
    return str(schema["$ref"]).rpartition("/")[2]


def type_of(schema: Json) -> str:
    """Return the type in words, such as `list of [Bill](#Bill)`."""
    if "$ref" in schema:
        return f"[{name_of(schema)}](#{name_of(schema)})"
    for union in _UNIONS:
        if union in schema:
            return " or ".join(dict.fromkeys(type_of(part) for part in schema[union]))
    if "const" in schema:
        return f"`{_literal(schema['const'])}`"
    if "enum" in schema:
        return " or ".join(f"`{_literal(value)}`" if value is not None else "null" for value in schema["enum"])
    types = schema.get("type", "any")
    names = [types] if isinstance(types, str) else types
    return " or ".join(_plain_type(name, schema) for name in names)


def _plain_type(name: str, schema: Json) -> str:
    if name == "array":
        return f"list of {_plural(schema['items'])}" if "items" in schema else "list"
    if name == "string" and "format" in schema:
        return str(schema["format"])
    return name


def _plural(items: Json) -> str:
    return f"{items['type']}s" if set(items) == {"type"} and isinstance(items["type"], str) else type_of(items)


def _literal(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def objects_in(node: Any, schemas: Json, seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the names of the objects that a schema refers to, each before the objects that it contains."""
    if isinstance(node, list):
        for part in node:
            yield from objects_in(part, schemas, seen)
    elif isinstance(node, dict):
        if "$ref" in node and (name := name_of(node)) not in seen:
            yield name
            yield from objects_in(schemas[name].get("properties", schemas[name]), schemas, seen | {name})
        for key, value in node.items():
            if key not in ("examples", "example", "mapping"):
                yield from objects_in(value, schemas, seen)
