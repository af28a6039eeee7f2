"""Extracts the contents of the reference from the OpenAPI document, with texts in the Markdown of `web/prose.py`."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, json

from counterfoil.domain import problems
from counterfoil.domain.access import DEFAULT_PER_DAY, DEFAULT_PER_MIN, WINDOW_SEC
from counterfoil.domain.paging import LIFETIME_MS
from counterfoil.domain.problems import TABLE
from counterfoil.domain.questions import DEFAULT_LIMIT, MAX_LIMIT, MAX_SPAN_DAYS
from counterfoil.http.openapi import document
from counterfoil.http.openapi.components import problem_name
from counterfoil.http.openapi.operations import (
    COMMON_PARAMETERS,
    DOCUMENT,
    OPERATIONS,
    PARTS,
    Json,
    Operation,
    common_refusals,
)
from counterfoil.http.reference.calls import ExampleCall, Values
from counterfoil.http.reference.sample_texts import MODES
from counterfoil.model.calendar import DAY_MS

# --- types in words, with links to objects ----------------------------------


def name_of(schema: Json) -> str:
    """Return the name of the component that a schema refers to."""
    return str(schema["$ref"]).rpartition("/")[2]


def type_of(schema: Json) -> str:
    """Return the type in words, such as `list of [Bill](#Bill)`."""
    if "$ref" in schema:
        return f"[{name_of(schema)}](#{name_of(schema)})"
    if "oneOf" in schema:
        return " or ".join(dict.fromkeys(map(type_of, schema["oneOf"])))
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
            yield from objects_in(schemas[name]["properties"], schemas, enclosing | {name})
        for key, value in node.items():
            if key not in ("examples", "example", "mapping"):
                yield from objects_in(value, schemas, enclosing)


# --- explanations: the first call, the order of checks, paging and limits ---

FIRST_CALL = """\
Send your key in the `Authorization` header and nowhere else. The examples read the address and the key from the
environment variables `BASE` and `KEY`. Your operator gives you both.
"""
_PAGING = f"""\
Lists take `limit` ({DEFAULT_LIMIT} rows per page by default; at most {MAX_LIMIT}, or 1,000 for changes and digests) and
`cursor`. Leave `cursor` out on the first page. Then send `nextCursor` back as `cursor`, with all other parameters
unchanged, until it is null.

**Only null ends a list.** A full page may be followed by an empty one. A cursor is valid only for the same list and
key. For bills and members, it is valid for {LIFETIME_MS // DAY_MS} days after it was last handed out or used. On
`bad_cursor`, start the list again without a cursor.
"""
_LIMITS = f"""\
Unless your key has other limits, it may send {DEFAULT_PER_MIN} requests in any {WINDOW_SEC} seconds (`rate_limited`)
and {DEFAULT_PER_DAY:,} requests per day, Thailand time (`quota_exceeded`). `GET /v1/usage` shows your limits. A read by
day covers at most {MAX_SPAN_DAYS} days.
"""
# The checks in the order in which they run, each with the errors that it can return.
CHECKS = {
    "browser": (problems.CROSS_ORIGIN_REFUSED,),
    "path and method": (problems.NOT_FOUND, problems.METHOD_NOT_ALLOWED),
    "key": (problems.INVALID_KEY, problems.KEY_REVOKED, problems.AUTH_UNAVAILABLE),
    "rate limit": (problems.RATE_LIMITED,),
    "quota": (problems.QUOTA_EXCEEDED,),
    "permission": (problems.LOOKUP_NOT_ENABLED,),
    "parameters": (problems.NOT_SUPPORTED, problems.BAD_QUERY),
    "scope": (problems.SHOP_NOT_IN_SCOPE, problems.PROVIDER_NOT_IN_SCOPE),
    "cursor": (problems.BAD_CURSOR, problems.MARK_EXPIRED),
    "existence": (problems.NOT_FOUND,),
}


def order_of_checks() -> str:
    """Return the checks as a numbered list in Markdown."""
    lines = []
    for number, (check, refusals) in enumerate(CHECKS.items(), 1):
        codes = ", ".join(f"`{problem.code}`" for problem in refusals)
        lines.append(f"{number}. {check[0].upper()}{check[1:]}: {codes}")
    return "\n".join(lines)


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

    @property
    def first_sentence(self) -> str:
        return self.text.replace("`", "").split(". ")[0].removesuffix(".") + "."


class DescribedObject(Struct, frozen=True):
    anchor: str
    text: str
    rows: list[DescribedRow]


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
    examples: dict[str, Any]


class EndpointGroup(Guide, frozen=True):
    endpoints: list[Endpoint]


class Reference(Struct, frozen=True, kw_only=True):
    """Everything that the reference shows, in order."""

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
    error_body: list[DescribedRow]
    common_errors: list[str]

    @property
    def endpoints(self) -> list[Endpoint]:
        return [endpoint for group in self.groups for endpoint in group.endpoints]


def build(prefix: str, base_url: str, values: Values) -> Reference:
    """Return the contents of the reference. `values` maps parameters to the values that replace their examples."""
    described: Json = json.decode(document(prefix))
    info, components = described["info"], described["components"]
    schemas, parameters = components["schemas"], components["parameters"]
    guides = [Guide(part.anchor, part.title, part.text) for part in PARTS]
    guides += [Guide("guide-paging", "Paging", _PAGING), Guide("guide-limits", "Limits", _LIMITS)]
    endpoints = {operation: _endpoint(operation, described, values) for operation in OPERATIONS}
    return Reference(
        summary=info["summary"],
        version=info["version"],
        prefix=prefix,
        base_url=base_url,
        introduction=DOCUMENT["info"]["introduction"],
        authentication=components["securitySchemes"]["apiKey"]["description"],
        guides=guides,
        groups=[_group(tag, endpoints) for tag in described["tags"]],
        request_headers=[_parameter("request", parameters[name]) for name in COMMON_PARAMETERS],
        response_headers=_response_headers(described),
        envelope=_envelope_rows(schemas),
        objects=_objects(schemas),
        error_body=_error_body(schemas),
        common_errors=_COMMON_ERRORS,
    )


def _group(tag: Json, endpoints: Mapping[Operation, Endpoint]) -> EndpointGroup:
    of_tag = [endpoint for operation, endpoint in endpoints.items() if operation.tag == tag["name"]]
    return EndpointGroup(f"tag-{tag['name']}", tag["name"], tag["description"], of_tag)


def _envelope_rows(schemas: Json) -> list[DescribedRow]:
    envelopes = [_fields(operation, schemas) for operation in OPERATIONS if not operation.public]
    rows = []
    for name, field in _envelope(schemas).items():
        is_everywhere = all(name in fields for fields in envelopes)
        rows.append(_row("response", name, field, "" if is_everywhere else "only in paged lists"))
    return rows


# --- operations --------------------------------------------------------------------

_COMMON_ERRORS = [problem.code for problem in common_refusals(is_public=False)]


def _endpoint(operation: Operation, described: Json, values: Values) -> Endpoint:
    components = described["components"]
    path = f"/v1/{operation.path}"
    success = described["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]
    own = {name: components["parameters"][name] for name in operation.parameters if name not in COMMON_PARAMETERS}
    schema = components["schemas"][operation.response_schema]
    refusals = sorted(operation.refusals, key=lambda problem: problem.status)
    return Endpoint(
        anchor=operation.id,
        path=path,
        summary=operation.summary,
        text=operation.description,
        public=operation.public,
        parameters=[_parameter(operation.id, parameter) for parameter in own.values()],
        returns=type_of(success["schema"] if operation.public else schema["properties"]["data"]),
        rows=[] if operation.public else _own_rows(operation, components["schemas"]),
        errors=[problem.code for problem in refusals if problem.code not in _COMMON_ERRORS],
        calls=list(_calls(operation, own, values)),
        examples={name: example["value"] for name, example in success["examples"].items()},
    )


def _own_rows(operation: Operation, schemas: Json) -> list[DescribedRow]:
    """Return the fields of a response that the pages of lists do not have."""
    of_pages = _envelope(schemas)
    rows = []
    for name, field in _fields(operation, schemas).items():
        if field != of_pages.get(name):
            rows.append(_row(f"{operation.id}.response", name, field))
    return rows


def _envelope(schemas: Json) -> dict[str, Json]:
    """Return the fields of a page of a list besides `data`. Other responses have some of them."""
    return next(_fields(operation, schemas) for operation in OPERATIONS if operation.cursor)


def _fields(operation: Operation, schemas: Json) -> dict[str, Json]:
    """Return the fields of a response besides `data`."""
    properties: dict[str, Json] = schemas[operation.response_schema]["properties"]
    return {name: field for name, field in properties.items() if name != "data"}


def _parameter(where: str, parameter: Json) -> DescribedRow:
    note = "required" if parameter.get("required") else "optional"
    default = parameter["schema"].get("default")
    return DescribedRow(
        anchor=f"{where}.{parameter['name']}",
        name=parameter["name"],
        type=f"{parameter['in']}, {type_of(parameter['schema'])}",
        text=parameter["description"],
        note=note if default is None else f"{note}, default {default}",
    )


def _calls(operation: Operation, parameters: Mapping[str, Json], values: Values) -> Iterator[ExampleCall]:
    required = tuple(name for name, parameter in parameters.items() if parameter.get("required"))
    used = {name: values.get(name, str(parameter["example"])) for name, parameter in parameters.items()}
    in_path = {name for name, parameter in parameters.items() if parameter["in"] == "path"}
    for title, names in MODES.get(operation.id, {"": required}).items():
        path = operation.path
        for name in in_path:
            path = path.replace(f"{{{parameters[name]['name']}}}", used[name])
        yield ExampleCall(
            operation=operation.id,
            title=title,
            path=path,
            query=tuple((parameters[name]["name"], used[name]) for name in names if name not in in_path),
            paged=operation.cursor is not None,
            public=operation.public,
        )


def _response_headers(described: Json) -> list[DescribedRow]:
    rows: dict[str, DescribedRow] = {}
    for item in described["paths"].values():
        for response in item["get"]["responses"].values():
            for name, header in response["headers"].items():
                field = described["components"]["headers"][name_of(header)]
                row = DescribedRow(f"header-{name}", name, type_of(field["schema"]), field["description"])
                rows.setdefault(name, row)
    return list(rows.values())


# --- objects and errors --------------------------------------------------------------


def _objects(schemas: Json) -> list[DescribedObject]:
    """Return the objects in responses, each before the objects that it contains. Envelopes are described elsewhere."""
    shown = []
    for operation in OPERATIONS:
        if operation.public:
            shown.append({"$ref": f"#/{operation.response_schema}"})
        else:
            shown.append(schemas[operation.response_schema]["properties"])
    names = dict.fromkeys(objects_in(shown, schemas))
    return [DescribedObject(name, schemas[name]["description"], _rows(name, schemas[name])) for name in names]


def _row(where: str, name: str, field: Json, note: str = "") -> DescribedRow:
    return DescribedRow(f"{where}.{name}", name, type_of(field), field.get("description", ""), note)


def _rows(where: str, schema: Json) -> list[DescribedRow]:
    rows = []
    for name, field in schema.get("properties", {}).items():
        rows.append(_row(where, name, field, "" if name in schema.get("required", ()) else "absent for some keys"))
        if "properties" in field:
            nested = _rows(f"{where}.{name}", field)
            rows += [DescribedRow(row.anchor, f"{name}.{row.name}", row.type, row.text, row.note) for row in nested]
    return rows


def _error_body(schemas: Json) -> list[DescribedRow]:
    """Return the fields of error bodies. If only some errors have a field, its note lists their codes."""
    fields: dict[str, Json] = {}
    codes: dict[str, list[str]] = {}
    for problem in TABLE:
        for name, field in schemas[problem_name(problem)]["properties"].items():
            fields.setdefault(name, {key: value for key, value in field.items() if key != "const" or name == "ok"})
            codes.setdefault(name, []).append(problem.code)
    rows = []
    for name, field in fields.items():
        is_everywhere = len(codes[name]) == len(TABLE)
        note = "" if is_everywhere else f"only with {', '.join(codes[name])}"
        rows.append(_row("error-body", name, field, note))
    return rows
