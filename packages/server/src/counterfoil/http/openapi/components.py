"""The components of the document: schemas (resources, envelopes, errors), responses, headers and parameters.

msgspec's schemas are correct, but client generators handle them poorly, so they are simplified: `int | float` becomes
one JSON number, and a nullable type becomes a list of types that includes "null".
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from msgspec import json

from counterfoil.domain.problems import INVALID_KEY, METHOD_NOT_ALLOWED, RATE_LIMITED, TABLE, Problem, Stage
from counterfoil.http import wire
from counterfoil.http.openapi import examples
from counterfoil.http.openapi.operations import DOCUMENT, Json, Operation, common_refusals
from counterfoil.model.resources import Resource


def reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def problem_name(problem: Problem) -> str:
    """Return the name of a problem's schema: `BadQuery` for `bad_query`."""
    return problem.code.title().replace("_", "")


def components(operations: Iterable[Operation]) -> dict[str, Json]:
    """Return every schema by name: resources, then envelopes, then problems."""
    returned: list[type[Resource]] = []
    for operation in operations:
        returned += operation.data
    references, resources = json.schema_components(returned, ref_template="#/components/schemas/{name}")
    reference_to = dict(zip(returned, references, strict=True))
    described = {name: _resource(name, schema) for name, schema in resources.items()}
    for operation in operations:
        if not operation.public:
            data = [reference_to[resource] for resource in operation.data]
            described[operation.response_schema] = _envelope(operation, data)
    document = _object("Description", "An OpenAPI 3.1 document.", DOCUMENT["description_fields"], examples.DESCRIPTION)
    for operation in operations:
        if operation.public:
            described[operation.response_schema] = document
    for problem in TABLE:
        described[problem_name(problem)] = _problem(problem)
    return described


def _resource(name: str, schema: Json) -> Json:
    plain: Json = _simplify(schema)
    for field, described in plain["properties"].items():
        if "enum" in described:
            # Generators name an enumeration after its title. A nullable one without it becomes several types.
            described["title"] = field[0].upper() + field[1:]
    return plain | {"examples": examples.examples_of(name)}


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


# --- envelopes and problems ------------------------------------------------------


def _object(title: str, description: str, properties: dict[str, Json], shown: Any) -> Json:
    return {
        "title": title,
        "description": description,
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "examples": [shown],
    }


def _envelope(operation: Operation, data: list[Json]) -> Json:
    described = DOCUMENT["envelope"]
    # The elements of a list with several types are distinguished by their `type`.
    of = data[0] if len(data) == 1 else {"oneOf": data}
    properties = {
        # A `type` beside a boolean `const` would make openapi-generator's clients expect the text "true".
        "ok": {"const": True, "description": "True if the request succeeded."},
        "data": {"description": operation.summary} | ({"type": "array", "items": of} if operation.is_list else of),
        "serverTime": described["serverTime"],
    }
    if operation.cursor:
        properties["nextCursor"] = described["feedCursor" if "feedLimit" in operation.parameters else "nextCursor"]
    if operation.marked:
        properties["mark"] = described["mark"]
    shown = next(iter(examples.example_bodies(operation).values()))
    return _object(operation.response_schema, f"Response of `{operation.id}`.", properties, shown)


def _problem(problem: Problem) -> Json:
    properties: dict[str, Json] = {
        "ok": {"const": False, "description": "False if the request failed."},
        "error": {"type": "string", "const": problem.code, "description": "Stable code to branch on."},
        "message": {"type": "string", "description": "Explanation for people. Its wording may change."},
    }
    if problem is RATE_LIMITED:
        properties |= DOCUMENT["rate_limit"]
    shown = examples.example_error_body(problem)
    return _object(problem_name(problem), f"Status {problem.status}. {problem.message}", properties, shown)


# --- responses, by status, with their headers -------------------------------

# The component of each header.
_COMMON_HEADERS: dict[str, str] = DOCUMENT["common_headers"]
_ALLOWANCE_HEADERS: dict[str, str] = DOCUMENT["allowance_headers"]
_ALLOWANCE_ONCE_ADMITTED = {name: f"{component}OnceAdmitted" for name, component in _ALLOWANCE_HEADERS.items()}


def responses(operation: Operation) -> Json:
    """Return the responses for every status that the operation can return."""
    common = common_refusals(is_public=operation.public)
    refusals = sorted((*operation.refusals, *common), key=lambda problem: problem.status)
    sent = _COMMON_HEADERS | {"ETag": "EntityTag"} | ({} if operation.public else _ALLOWANCE_HEADERS)
    unchanged = "The data has not changed since the response named in `If-None-Match`. There is no body."
    described = {
        "200": {
            "description": operation.summary,
            "headers": _references(sent | {"Content-Encoding": "ContentEncoding"}),
            "content": _content(reference(operation.response_schema), examples.example_bodies(operation)),
        },
        "304": {"description": unchanged, "headers": _references(sent)},
    }
    for status, problems in groupby(refusals, key=lambda problem: problem.status):
        described[str(status)] = _refusal(status, list(problems))
    return described


def _refusal(status: int, problems: list[Problem]) -> Json:
    bodies = {problem.code: examples.example_error_body(problem) for problem in problems}
    return {
        "description": DOCUMENT["statuses"][str(status)],
        "headers": _references(
            _COMMON_HEADERS | _allowance(problems) | DOCUMENT["status_headers"].get(str(status), {})
        ),
        "content": _content(_one_of(problems), bodies),
    }


def _allowance(problems: list[Problem]) -> dict[str, str]:
    stages = {problem.stage for problem in problems}
    if stages == {Stage.AFTER_ADMISSION}:
        return _ALLOWANCE_HEADERS
    return {} if stages == {Stage.BEFORE_ADMISSION} else _ALLOWANCE_ONCE_ADMITTED


def _one_of(problems: list[Problem]) -> Json:
    if len(problems) == 1:
        return reference(problem_name(problems[0]))
    bodies = {problem.code: reference(problem_name(problem)) for problem in problems}
    return {
        "oneOf": list(bodies.values()),
        "discriminator": {"propertyName": "error", "mapping": {code: body["$ref"] for code, body in bodies.items()}},
    }


def _content(schema: Json, bodies: dict[str, Any]) -> Json:
    named = {name: {"value": example} for name, example in bodies.items()}
    return {"application/json": {"schema": schema, "examples": named}}


def _references(headers: dict[str, str]) -> Json:
    return {name: {"$ref": f"#/components/headers/{component}"} for name, component in headers.items()}


# --- headers and parameters ------------------------------------------------------


def headers() -> dict[str, Json]:
    """Return the headers by component name. Most examples come from the code that writes responses."""
    sent = dict(wire.response_headers(examples.REQUEST_ID, caller=None))
    for problem in (INVALID_KEY, METHOD_NOT_ALLOWED, RATE_LIMITED):
        sent |= wire.problem_headers(examples.example_refusal(problem))
    found: dict[str, Json] = {}
    for name, header in DOCUMENT["headers"].items():
        schema = header.get("schema", {"type": "string"})
        example = header["example"] if "example" in header else sent[header["sent"]]
        found[name] = {
            "description": header["description"],
            "required": header.get("required", True),
            "schema": schema,
            "example": int(example) if schema["type"] == "integer" else example,
        }
    return found


def _parameter(name: str, described: Json) -> Json:
    """Return a parameter. Its schema excludes only values that the service refuses."""
    return {
        "name": described.get("name", name),
        "in": described.get("in", "query"),
        **({"required": True} if described.get("required") else {}),
        "description": described["description"],
        "schema": described.get("schema", {"type": "string", "minLength": 1}),
        "example": described["example"],
    }


PARAMETERS: dict[str, Json] = {name: _parameter(name, described) for name, described in DOCUMENT["parameters"].items()}
