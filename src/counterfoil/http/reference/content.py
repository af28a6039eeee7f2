"""Extracts the contents of the reference from the OpenAPI document.

Descriptions use the subset of Markdown that `web/html.py` supports. Every row has an anchor, so that links can point
to it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, json

from counterfoil.domain.access import DEFAULT_PER_DAY, DEFAULT_PER_MIN, WINDOW_SEC
from counterfoil.domain.calendar import HOUR_MS
from counterfoil.domain.paging import LIFETIME_MS
from counterfoil.domain.problems import (
    AUTH_UNAVAILABLE,
    BAD_CURSOR,
    BAD_QUERY,
    CROSS_ORIGIN_REFUSED,
    INVALID_KEY,
    KEY_REVOKED,
    LOOKUP_NOT_ENABLED,
    MARK_EXPIRED,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    NOT_SUPPORTED,
    PROVIDER_NOT_IN_SCOPE,
    QUOTA_EXCEEDED,
    RATE_LIMITED,
    SHOP_NOT_IN_SCOPE,
    TABLE,
    Problem,
)
from counterfoil.domain.questions import DEFAULT_LIMIT, MAX_LIMIT, MAX_SPAN_DAYS
from counterfoil.http.openapi import document
from counterfoil.http.reference.calls import MODES, ExampleCall, Values

# --- types in words, with links to objects ----------------------------------

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


def objects_in(node: Any, schemas: Json, enclosing: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the names of the objects that a schema refers to, each before the objects that it contains."""
    if isinstance(node, list):
        for part in node:
            yield from objects_in(part, schemas, enclosing)
    elif isinstance(node, dict):
        if "$ref" in node and (name := name_of(node)) not in enclosing:
            yield name
            yield from objects_in(schemas[name].get("properties", schemas[name]), schemas, enclosing | {name})
        for key, value in node.items():
            if key not in ("examples", "example", "mapping"):
                yield from objects_in(value, schemas, enclosing)


# --- explanations: the first call, the order of checks, paging and limits ---

# The checks in the order in which they run, each with the errors that it can return.
CHECKS: tuple[tuple[str, tuple[Problem, ...]], ...] = (
    ("browser", (CROSS_ORIGIN_REFUSED,)),
    ("path and method", (NOT_FOUND, METHOD_NOT_ALLOWED)),
    ("key", (INVALID_KEY, KEY_REVOKED, AUTH_UNAVAILABLE)),
    ("rate limit", (RATE_LIMITED,)),
    ("quota", (QUOTA_EXCEEDED,)),
    ("permission", (LOOKUP_NOT_ENABLED,)),
    ("parameters", (NOT_SUPPORTED, BAD_QUERY)),
    ("scope", (SHOP_NOT_IN_SCOPE, PROVIDER_NOT_IN_SCOPE)),
    ("cursor", (BAD_CURSOR, MARK_EXPIRED)),
    ("existence", (NOT_FOUND,)),
)


def order_of_checks() -> str:
    """Return the checks as a numbered list in Markdown."""
    return "\n".join(
        f"{number}. {name[0].upper() + name[1:]}: {_codes(problems)}"
        for number, (name, problems) in enumerate(CHECKS, 1)
    )


def _codes(problems: Iterable[Problem]) -> str:
    return ", ".join(f"`{problem.code}`" for problem in problems)


FIRST_CALL = """\
Send your key in the `Authorization` header and nowhere else. The examples read the address and the key from the
environment variables `BASE` and `KEY`. Your operator gives you both.
"""

PAGING = f"""\
Lists take `limit` ({DEFAULT_LIMIT} rows per page by default; at most {MAX_LIMIT}, or 1,000 for changes and digests) and
`cursor`. Leave `cursor` out on the first page. Then send `nextCursor` back as `cursor`, with all other parameters
unchanged, until it is null.

**Only null ends a list.** A full page may be followed by an empty one. A cursor is valid only for the same list and
key. For bills and members, it is valid for {LIFETIME_MS // HOUR_MS // 24} days after it was last handed out or used. On
`bad_cursor`, start the list again without a cursor.
"""

LIMITS = f"""\
Unless your key has other limits, it may send {DEFAULT_PER_MIN} requests in any {WINDOW_SEC} seconds (`rate_limited`)
and {DEFAULT_PER_DAY:,} requests per day, Thailand time (`quota_exceeded`). `GET /v1/usage` shows your limits. A read by
day covers at most {MAX_SPAN_DAYS} days.
"""


_TITLED = re.compile(r"^\*\*([^*]+)\.\*\*\s*", re.MULTILINE)


class Guide(Struct, frozen=True):
    anchor: str
    title: str
    text: str


class DescribedRow(Struct, frozen=True):
    """A parameter, a field or a header. `note` says if it is required and what its default is, or when it is absent."""

    anchor: str
    name: str
    type: str
    text: str
    note: str = ""


class DescribedObject(Struct, frozen=True):
    anchor: str
    text: str
    rows: list[DescribedRow]


class DescribedError(Struct, frozen=True):
    anchor: str
    problem: Problem
    action: str


class NamedExample(Struct, frozen=True):
    """An example body. `shown_at` is the anchor of the operation that already shows the same data, if any."""

    name: str
    body: Any
    shown_at: str = ""


class Endpoint(Struct, frozen=True, kw_only=True):
    """An operation with its specific parameters and errors. Those that all operations share are listed separately."""

    anchor: str
    path: str
    summary: str
    text: str
    public: bool
    parameters: list[DescribedRow]
    returns: str
    rows: list[DescribedRow]
    errors: list[str]
    calls: list[ExampleCall]
    examples: list[NamedExample]


class EndpointGroup(Struct, frozen=True):
    anchor: str
    title: str
    text: str
    endpoints: list[Endpoint]


class Reference(Struct, frozen=True, kw_only=True):
    """Everything that the reference shows, in order."""

    title: str
    summary: str
    version: str
    prefix: str
    base_url: str
    introduction: str
    authentication: str
    guides: list[Guide]
    groups: list[EndpointGroup]
    request_headers: list[DescribedRow]
    response_headers: list[DescribedRow]
    envelope: list[DescribedRow]
    objects: list[DescribedObject]
    errors: list[DescribedError]
    error_body: list[DescribedRow]
    common_errors: list[str]

    @property
    def endpoints(self) -> list[Endpoint]:
        return [endpoint for group in self.groups for endpoint in group.endpoints]


def build(prefix: str, base_url: str, values: Values) -> Reference:
    """Return the contents of the reference. `values` maps parameters to the values that replace their examples."""
    described: Json = json.decode(document(prefix))
    info, components = described["info"], described["components"]
    introduction, titled = _split(info["description"])
    operations = [(path, item["get"]) for path, item in described["paths"].items()]
    shared = _shared_parameters(operations)
    common = _common_errors(operations)
    envelope = _envelope(operations, components["schemas"])
    shown: dict[bytes, str] = {}
    groups = []
    for tag in described["tags"]:
        endpoints = [
            _endpoint(path, operation, components, values, shared, common, envelope, shown)
            for path, operation in operations
            if tag["name"] in operation["tags"]
        ]
        groups.append(EndpointGroup(f"tag-{tag['name']}", tag["name"], tag["description"], endpoints))
    return Reference(
        title=info["title"],
        summary=info["summary"],
        version=info["version"],
        prefix=prefix,
        base_url=base_url,
        introduction=introduction,
        authentication=components["securitySchemes"]["apiKey"]["description"],
        guides=[
            *titled,
            Guide("guide-paging", "Paging", PAGING),
            Guide("guide-limits", "Limits", LIMITS),
        ],
        groups=groups,
        request_headers=[_parameter("request", components["parameters"][name]) for name in shared],
        response_headers=_response_headers(operations, components["headers"]),
        envelope=_envelope_rows(operations, components["schemas"]),
        objects=_objects(operations, components["schemas"]),
        errors=[DescribedError(f"error-{problem.code}", problem, problem.action) for problem in TABLE],
        error_body=_error_body(components["schemas"]),
        common_errors=common,
    )


def _split(description: str) -> tuple[str, list[Guide]]:
    """Split the overview into its introduction and its titled parts."""
    introduction, *parts = _TITLED.split(description)
    titled = zip(parts[::2], parts[1::2], strict=True)
    return introduction, [Guide(f"guide-{title.lower().replace(' ', '-')}", title, text) for title, text in titled]


# --- operations --------------------------------------------------------------------


def _endpoint(
    path: str,
    operation: Json,
    components: Json,
    values: Values,
    shared: list[str],
    common: list[str],
    envelope: Mapping[str, Json],
    shown: dict[bytes, str],
) -> Endpoint:
    identifier = operation["operationId"]
    names = [name for name in _parameter_names(operation) if name not in shared]
    own = {name: components["parameters"][name] for name in names}
    schema = _response_schema(operation, components["schemas"])
    public = _is_public(operation)
    shared_fields = [name for name, field in schema["properties"].items() if envelope.get(name) == field]
    rows = [] if public else _rows(f"{identifier}.response", schema, leave_out=("data", *shared_fields))
    return Endpoint(
        anchor=identifier,
        path=path,
        summary=operation["summary"],
        text=operation["description"],
        public=public,
        parameters=[_parameter(identifier, parameter) for parameter in own.values()],
        returns=type_of(_success(operation)["schema"] if public else schema["properties"]["data"]),
        rows=rows,
        errors=[code for code in _error_codes(operation) if code not in common],
        calls=list(_calls(path, operation, own, values, paged="nextCursor" in schema["properties"])),
        examples=list(_examples(operation, shown)),
    )


def _is_public(operation: Json) -> bool:
    """Return whether the operation is public: it needs no key, and its response has no envelope."""
    return operation.get("security") == []


def _success(operation: Json) -> Json:
    content: Json = operation["responses"]["200"]["content"]["application/json"]
    return content


def _parameter_names(operation: Json) -> list[str]:
    return [parameter["$ref"].rpartition("/")[2] for parameter in operation["parameters"]]


def _shared_parameters(operations: Iterable[tuple[str, Json]]) -> list[str]:
    """Return the parameters that every operation has."""
    all_names = [_parameter_names(operation) for _, operation in operations]
    return [name for name in all_names[0] if all(name in names for names in all_names)]


def _parameter(where: str, parameter: Json) -> DescribedRow:
    place = parameter["in"]
    note = "required" if parameter.get("required") else "optional"
    default = parameter["schema"].get("default")
    return DescribedRow(
        anchor=f"{where}.{parameter['name']}",
        name=parameter["name"],
        type=f"{place}, {type_of(parameter['schema'])}",
        text=parameter["description"],
        note=note if default is None else f"{note}, default {default}",
    )


def _calls(
    path: str, operation: Json, parameters: Mapping[str, Json], values: Values, paged: bool
) -> Iterator[ExampleCall]:
    required = tuple(name for name, parameter in parameters.items() if parameter.get("required"))
    public = _is_public(operation)
    in_path = {name: parameter for name, parameter in parameters.items() if parameter["in"] == "path"}
    for title, names in MODES.get(operation["operationId"], {"": required}).items():
        filled = path.removeprefix("/v1/")
        for name, parameter in in_path.items():
            filled = filled.replace(f"{{{parameter['name']}}}", values.get(name, str(parameter["example"])))
        query = [
            (parameters[name]["name"], values.get(name, str(parameters[name]["example"])))
            for name in names
            if name not in in_path
        ]
        yield ExampleCall(
            operation=operation["operationId"], title=title, path=filled, query=tuple(query), paged=paged, public=public
        )


def _examples(operation: Json, shown: dict[bytes, str]) -> Iterator[NamedExample]:
    for name, example in _success(operation)["examples"].items():
        body = example["value"]
        data = body.get("data", body)
        key = json.encode(data[0] if isinstance(data, list) and data else data)
        yield NamedExample(name, body, shown.get(key, ""))
        shown.setdefault(key, operation["operationId"])


# --- parts that operations share -----------------------------------------------------


def _error_codes(operation: Json) -> list[str]:
    refusals = (response for status, response in operation["responses"].items() if status not in ("200", "304"))
    return [code for response in refusals for code in response["content"]["application/json"]["examples"]]


def _common_errors(operations: Iterable[tuple[str, Json]]) -> list[str]:
    """Return the errors that are common to all operations that need a key."""
    with_key = [_error_codes(operation) for _, operation in operations if not _is_public(operation)]
    return [code for code in with_key[0] if all(code in codes for codes in with_key)]


def _envelope(operations: Iterable[tuple[str, Json]], schemas: Json) -> dict[str, Json]:
    """Return the fields that several responses share. `data` is left out, because it differs in each response."""
    envelopes = [_response_schema(operation, schemas) for _, operation in operations if not _is_public(operation)]
    fields: dict[str, list[Json]] = {}
    for schema in envelopes:
        for name, field in schema["properties"].items():
            fields.setdefault(name, []).append(field)
    shared = {name: max(found, key=found.count) for name, found in fields.items() if name != "data"}
    return {name: field for name, field in shared.items() if fields[name].count(field) > 1}


def _envelope_rows(operations: Iterable[tuple[str, Json]], schemas: Json) -> list[DescribedRow]:
    with_key = [_response_schema(operation, schemas) for _, operation in operations if not _is_public(operation)]
    rows = []
    for name, field in _envelope(operations, schemas).items():
        note = "" if all(name in schema["properties"] for schema in with_key) else "only in paged lists"
        rows.append(DescribedRow(f"response.{name}", name, type_of(field), field["description"], note))
    return rows


def _response_schema(operation: Json, schemas: Json) -> Json:
    schema: Json = schemas[name_of(_success(operation)["schema"])]
    return schema


def _response_headers(operations: Iterable[tuple[str, Json]], headers: Json) -> list[DescribedRow]:
    rows: dict[str, DescribedRow] = {}
    for _, operation in operations:
        for response in operation["responses"].values():
            for name, header in response["headers"].items():
                described = headers[header["$ref"].rpartition("/")[2]]
                row = DescribedRow(f"header-{name}", name, type_of(described["schema"]), described["description"])
                rows.setdefault(name, row)
    return list(rows.values())


# --- objects and errors --------------------------------------------------------------


def _objects(operations: Iterable[tuple[str, Json]], schemas: Json) -> list[DescribedObject]:
    """Return the objects in responses, each before the objects that it contains. Envelopes are described elsewhere."""
    names: list[str] = []
    for _, operation in operations:
        schema = _success(operation)["schema"]
        if not _is_public(operation):
            schema = schemas[name_of(schema)]["properties"]
        for name in objects_in(schema, schemas):
            if name not in names:
                names.append(name)
    return [DescribedObject(name, _object_text(schemas[name]), _rows(name, schemas[name])) for name in names]


def _object_text(schema: Json) -> str:
    """Return the description of an object. For a union, it also lists the alternatives."""
    text = schema.get("description", "")
    return text if "properties" in schema else f"{text} One of: {type_of(schema)}.".strip()


def _rows(where: str, schema: Json, leave_out: Iterable[str] = ()) -> list[DescribedRow]:
    rows = []
    for name, field in schema.get("properties", {}).items():
        if name in leave_out:
            continue
        note = "" if name in schema.get("required", ()) else "absent for some keys"
        rows.append(DescribedRow(f"{where}.{name}", name, type_of(field), field.get("description", ""), note))
        if "properties" in field:
            nested = _rows(f"{where}.{name}", field)
            rows += [DescribedRow(row.anchor, f"{name}.{row.name}", row.type, row.text, row.note) for row in nested]
    return rows


def _error_body(schemas: Json) -> list[DescribedRow]:
    """Return the fields of error bodies. If only some errors have a field, its note lists their codes."""
    fields: dict[str, Json] = {}
    codes: dict[str, list[str]] = {}
    for problem in TABLE:
        schema = schemas[problem.code.title().replace("_", "")]
        for name, field in schema["properties"].items():
            fields.setdefault(name, {key: value for key, value in field.items() if key != "const" or name == "ok"})
            codes.setdefault(name, []).append(problem.code)
    return [
        DescribedRow(
            f"error-body.{name}",
            name,
            type_of(field),
            field["description"],
            "" if len(codes[name]) == len(TABLE) else f"only with {', '.join(codes[name])}",
        )
        for name, field in fields.items()
    ]
