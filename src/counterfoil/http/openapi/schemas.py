"""Schemas of all responses: the resources, their envelopes, and the errors.

msgspec's schemas are correct, but client generators handle them poorly, so they
are simplified: `int | float` becomes one JSON number, and a nullable type
becomes a list of types that includes "null".
"""

from collections.abc import Iterable
from typing import Any

from msgspec import json, to_builtins

from counterfoil.domain.problems import RATE_LIMITED, TABLE, Problem
from counterfoil.http.openapi import examples
from counterfoil.http.openapi.operations import Operation

Json = dict[str, Any]


def reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def problem_name(problem: Problem) -> str:
    """Return the name of a problem's schema: `BadQuery` for `bad_query`."""
    return problem.code.title().replace("_", "")


def components(operations: Iterable[Operation]) -> dict[str, Json]:
    """Return every schema by name: resources, then envelopes, then problems."""
    keyed = [operation for operation in operations if not operation.public]
    listed = {operation.id: _types_of(operation) for operation in keyed}
    data, resources = json.schema_components(
        [one for types in listed.values() for one in types], ref_template="#/components/schemas/{name}"
    )
    described = {name: _resource(name, schema) for name, schema in resources.items()}
    schemas = iter(data)
    for operation in keyed:
        own = [next(schemas) for _ in listed[operation.id]]
        of = _list_of(own) if isinstance(operation.data, tuple) else own[0]
        described[operation.response_schema] = _envelope(operation, of)
    described |= {operation.response_schema: _DESCRIPTION for operation in operations if operation.public}
    return described | {problem_name(problem): _problem(problem) for problem in TABLE}


def _types_of(operation: Operation) -> tuple[Any, ...]:
    return operation.data if isinstance(operation.data, tuple) else (operation.data,)


def _list_of(alternatives: list[Json]) -> Json:
    """Return the schema of a list whose elements are distinguished by their `type`."""
    return {"type": "array", "items": {"oneOf": alternatives}}


def _resource(name: str, schema: Json) -> Json:
    plain: Json = _simplify(schema)
    for field, described in plain["properties"].items():
        if "enum" in described:
            # Generators name an enumeration after its title. Without a title, a nullable enumeration becomes several
            # types.
            described["title"] = field[0].upper() + field[1:]
    shown = [to_builtins(example) for example in examples.ALL if type(example).__name__ == name]
    return plain | {"examples": shown}


# --- simplifying msgspec's schemas ---------------------------------------------


def _simplify(node: Any) -> Any:
    if isinstance(node, list):
        return [_simplify(part) for part in node]
    if not isinstance(node, dict):
        return node
    plain = {key: _simplify(value) for key, value in node.items() if key != "anyOf"}
    if "anyOf" in node:
        return plain | _merge_types(_simplify(node["anyOf"]))
    if "enum" in plain:
        # All enumerations in the published types hold strings.
        plain = {"type": "string"} | plain
    return plain


def _merge_types(alternatives: list[Json]) -> Json:
    """Merge alternatives that differ only in their type into one schema with several types."""
    united: Json = {}
    types = [alternative["type"] for alternative in alternatives]
    if "number" in types:
        types = [name for name in types if name != "integer"]
    for alternative in alternatives:
        united |= alternative
    united["type"] = types if len(types) > 1 else types[0]
    if "enum" in united and "null" in types:
        united["enum"] = [*united["enum"], None]
    return united


# --- envelopes -----------------------------------------------------------------

_SERVER_TIME: Json = {
    "type": "string",
    "format": "date-time",
    "pattern": "Z$",
    "description": "An instant in UTC. A change that becomes visible after this response never has an `updatedAt` at "
    "or before this instant.",
}
_NEXT_CURSOR: Json = {
    "type": ["string", "null"],
    "description": "To get the next page, send this value as `cursor` with all other parameters unchanged. Only null "
    "means that this was the last page; a full page may be followed by an empty one. The value is the ID of the last "
    "row, or a new ID of the same form if that ID already stands for another position in the list. Treat it as opaque.",
}
_MARK: Json = {
    "type": ["string", "null"],
    "description": "Null except on the last page of a pass. Once you have stored the whole pass, store the mark too, "
    "and send it as `since` on the next pass. Treat it as opaque.",
}
_FEED_CURSOR: Json = {
    "type": ["string", "null"],
    "description": "For the next page, send it as `cursor` with all other parameters unchanged. Only null means "
    "that this was the last page: a page may have fewer elements than `limit`, and a full page may be followed by an "
    "empty one. Treat it as opaque.",
}


def _envelope(operation: Operation, data: Json) -> Json:
    properties = {
        "ok": {"type": "boolean", "const": True, "description": "True if the request succeeded."},
        "data": {"description": operation.summary} | data,
        "serverTime": _SERVER_TIME,
    }
    if operation.paged:
        properties["nextCursor"] = _FEED_CURSOR if "feedLimit" in operation.parameters else _NEXT_CURSOR
    if operation.marked:
        properties["mark"] = _MARK
    return {
        "title": operation.response_schema,
        "description": f"Response of `{operation.id}`.",
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "examples": list(examples.example_bodies(operation).values())[:1],
    }


_DESCRIPTION: Json = {
    "title": "Description",
    "description": "An OpenAPI 3.1 document.",
    "type": "object",
    "properties": {
        "openapi": {"type": "string", "description": "Version of the format.", "pattern": "^3\\.1\\."},
        "info": {
            "type": "object",
            "description": "Information about the API.",
            "properties": {
                "title": {"type": "string", "description": "Name of the API."},
                "version": {"type": "string", "description": "Version of the API."},
            },
            "required": ["title", "version"],
        },
        # Without `additionalProperties`, generated TypeScript types would not allow any path.
        "paths": {"type": "object", "description": "Operations by path.", "additionalProperties": True},
    },
    "required": ["openapi", "info", "paths"],
    "examples": [examples.DESCRIPTION],
}


# --- problems ------------------------------------------------------------------

_RATE_LIMIT_FIELDS: dict[str, Json] = {
    "retryAfterSec": {
        "type": "integer",
        "minimum": 1,
        "description": "Whole seconds until a request is admitted again, if no other request comes first.",
    },
    "limit": {"type": "integer", "description": "The limit that was reached, in requests per window."},
    "windowSec": {"type": "integer", "description": "Length of the window in seconds."},
}


def _problem(problem: Problem) -> Json:
    properties: dict[str, Json] = {
        "ok": {"type": "boolean", "const": False, "description": "False if the request failed."},
        "error": {"type": "string", "const": problem.code, "description": "Stable code to branch on."},
        "message": {"type": "string", "description": "Explanation for people. Its wording may change."},
    }
    if problem is RATE_LIMITED:
        properties |= _RATE_LIMIT_FIELDS
    return {
        "title": problem_name(problem),
        "description": f"Status {problem.status}. {problem.message}",
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "examples": [examples.example_error_body(problem)],
    }
