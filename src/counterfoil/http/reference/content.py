"""Extracts the contents of the reference from the OpenAPI document.

Descriptions use the subset of Markdown that `web/html.py` supports. Every row has an anchor, so that links can point
to it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, json

from counterfoil.domain.problems import TABLE, Problem
from counterfoil.http.openapi import document
from counterfoil.http.reference import guides
from counterfoil.http.reference.calls import MODES, ExampleCall, Values
from counterfoil.http.reference.types import name_of, objects_in, type_of

Json = dict[str, Any]

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
            Guide("guide-paging", "Paging", guides.PAGING),
            Guide("guide-limits", "Limits", guides.LIMITS),
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
