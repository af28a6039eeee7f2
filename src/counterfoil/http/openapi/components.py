"""The components of the document: schemas (resources, envelopes, errors), responses, headers and parameters.

msgspec's schemas are correct, but client generators handle them poorly, so they
are simplified: `int | float` becomes one JSON number, and a nullable type
becomes a list of types that includes "null".
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from msgspec import json, to_builtins

from counterfoil.domain.problems import (
    AUTH_UNAVAILABLE,
    CROSS_ORIGIN_REFUSED,
    INTERNAL,
    INVALID_KEY,
    KEY_REVOKED,
    METHOD_NOT_ALLOWED,
    QUOTA_EXCEEDED,
    RATE_LIMITED,
    TABLE,
    Problem,
    Stage,
)
from counterfoil.domain.questions import DEFAULT_LIMIT, MAX_FEED_LIMIT, MAX_LIMIT, MAX_SPAN_DAYS
from counterfoil.http import wire
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
        [resource for types in listed.values() for resource in types], ref_template="#/components/schemas/{name}"
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


# --- responses, by status, with their headers -------------------------------

# Errors that every operation can return, and additional errors of the operations that need a key.
_COMMON_REFUSALS = (CROSS_ORIGIN_REFUSED, METHOD_NOT_ALLOWED)
_KEY_REFUSALS = (INVALID_KEY, KEY_REVOKED, RATE_LIMITED, QUOTA_EXCEEDED, INTERNAL, AUTH_UNAVAILABLE)

_DESCRIPTIONS = {
    400: "A parameter is missing, malformed or not available here, or the cursor or the mark is not valid.",
    401: "The key is missing, wrong or revoked.",
    403: "The shop or base is outside the key's scope, the key lacks a permission, or a web page sent the request.",
    404: "The resource does not exist, or this key cannot read it.",
    405: "Returned for every method except GET and HEAD.",
    429: "The limit per minute (`rate_limited`) or the daily quota (`quota_exceeded`) is used up. The bodies differ.",
    500: "The service failed unexpectedly. Retry with increasing delays.",
    503: "Keys cannot be checked at the moment. This is not a problem with your key; retry with increasing delays.",
}

_COMMON_HEADERS = {
    "X-Request-Id": "RequestId",
    "Cache-Control": "CacheControl",
    "Vary": "Vary",
    "X-Content-Type-Options": "ContentTypeOptions",
}
_ALLOWANCE_HEADERS = {"X-RateLimit-Limit": "DailyQuota", "X-RateLimit-Remaining": "DailyRemaining"}
_ALLOWANCE_ONCE_ADMITTED = {name: f"{component}OnceAdmitted" for name, component in _ALLOWANCE_HEADERS.items()}
_STATUS_HEADERS = {
    401: {"WWW-Authenticate": "Challenge"},
    405: {"Allow": "Allow"},
    429: {"Retry-After": "RetryAfter"},
}


def responses(operation: Operation) -> Json:
    """Return the responses for every status that the operation can return."""
    common = _COMMON_REFUSALS if operation.public else (*_COMMON_REFUSALS, *_KEY_REFUSALS)
    refusals = sorted((*operation.refusals, *common), key=lambda problem: problem.status)
    described = {"200": _success_response(operation), "304": _unchanged(operation)}
    for status, problems in groupby(refusals, key=lambda problem: problem.status):
        described[str(status)] = _refusal(status, list(problems))
    return described


def _success_response(operation: Operation) -> Json:
    return {
        "description": operation.summary,
        "headers": _references(_success_headers(operation) | {"Content-Encoding": "ContentEncoding"}),
        "content": _content(reference(operation.response_schema), examples.example_bodies(operation)),
    }


def _unchanged(operation: Operation) -> Json:
    return {
        "description": "The data has not changed since the response named in `If-None-Match`. There is no body.",
        "headers": _references(_success_headers(operation)),
    }


def _success_headers(operation: Operation) -> dict[str, str]:
    return _COMMON_HEADERS | {"ETag": "EntityTag"} | ({} if operation.public else _ALLOWANCE_HEADERS)


def _refusal(status: int, problems: list[Problem]) -> Json:
    bodies = {problem.code: examples.example_error_body(problem) for problem in problems}
    return {
        "description": _DESCRIPTIONS[status],
        "headers": _references(_COMMON_HEADERS | _allowance(problems) | _STATUS_HEADERS.get(status, {})),
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
        "discriminator": {
            "propertyName": "error",
            "mapping": {code: body["$ref"] for code, body in bodies.items()},
        },
    }


def _content(schema: Json, bodies: dict[str, Any]) -> Json:
    named = {name: {"value": example} for name, example in bodies.items()}
    return {"application/json": {"schema": schema, "examples": named}}


def _references(headers: dict[str, str]) -> Json:
    return {name: {"$ref": f"#/components/headers/{component}"} for name, component in headers.items()}


# --- headers -------------------------------------------------------------------


def headers() -> dict[str, Json]:
    """Return the headers by component name. Most examples come from the code that writes responses."""
    sent = dict(wire.response_headers(examples.REQUEST_ID, caller=None))
    for problem in (INVALID_KEY, METHOD_NOT_ALLOWED, RATE_LIMITED):
        sent |= wire.problem_headers(examples.example_refusal(problem))
    quota = _number_header("The key's quota per day (Thailand time).", examples.RATE.per_day)
    remaining = _number_header("Requests left today after this one.", examples.TODAY.remaining)
    return {
        "RequestId": _text_header(
            "The ID of this request. It is the one you sent, if that was well-formed.", sent["x-request-id"]
        ),
        "CacheControl": _text_header(
            "A response is for one key only, and must be revalidated if it is cached.", sent["cache-control"]
        ),
        "Vary": _text_header("The request headers that the response depends on.", sent["vary"]),
        "ContentTypeOptions": _text_header(
            "Browsers must not guess another media type.", sent["x-content-type-options"]
        ),
        "EntityTag": _text_header(
            "Identifies the data. It does not depend on `serverTime` or the encoding.", examples.ENTITY_TAG
        ),
        "ContentEncoding": _text_header("Present if the body is compressed.", "zstd") | {"required": False},
        "DailyQuota": quota,
        "DailyRemaining": remaining,
        "DailyQuotaOnceAdmitted": _once_admitted(quota),
        "DailyRemainingOnceAdmitted": _once_admitted(remaining),
        "Challenge": _text_header("The authentication scheme for keys.", sent["www-authenticate"]),
        "Allow": _text_header("The allowed methods.", sent["allow"]),
        "RetryAfter": _number_header(
            "Seconds to wait. Only `rate_limited` responses have this header.", int(sent["retry-after"])
        )
        | {"required": False},
    }


def _text_header(description: str, example: str) -> Json:
    return {"description": description, "required": True, "schema": {"type": "string"}, "example": example}


def _number_header(description: str, example: int) -> Json:
    schema = {"type": "integer", "minimum": 0}
    return {"description": description, "required": True, "schema": schema, "example": example}


def _once_admitted(header: Json) -> Json:
    condition = "Present if the request passed the key check and the rate limit per minute."
    return header | {"description": f"{header['description']} {condition}", "required": False}


# --- parameters: their schemas exclude only values that the service refuses --

# A source ID has at most 512 bytes, and a cursor is at most 16 characters longer than the ID of its row.
_CURSOR: Json = {"type": "string", "minLength": 1, "maxLength": 1024}

_TEXT: Json = {"type": "string", "minLength": 1}
_DAY: Json = {"type": "string", "pattern": "^[0-9]{4}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])$"}
# The service accepts any text, so a schema that allows only integers would be wrong.
_LIMIT: Json = {"type": ["integer", "string"], "default": DEFAULT_LIMIT}


def _parameter(
    name: str,
    description: str,
    example: object,
    *,
    place: str = "query",
    required: bool = False,
    schema: Json = _TEXT,
) -> Json:
    described: Json = {"name": name, "in": place} | ({"required": True} if required else {})
    return described | {"description": description, "schema": schema, "example": example}


PARAMETERS: dict[str, Json] = {
    "shopId": _parameter(
        "shopId",
        "The `shopId` of a branch in the key's scope, from `GET /v1/shops`.",
        examples.SHOP.shop_id,
        required=True,
    ),
    "from": _parameter(
        "from",
        "First calendar day in the shop's time zone, as YYYYMMDD. Requires `to`, and cannot "
        "be used with `updatedSince`.",
        "20261001",
        schema=_DAY,
    ),
    "to": _parameter(
        "to",
        "Last calendar day (inclusive), as YYYYMMDD. Requires `from`, and cannot be used with "
        f"`updatedSince`. `from` and `to` may span at most {MAX_SPAN_DAYS} days, counting both dates.",
        "20261031",
        schema=_DAY,
    ),
    "updatedSince": _parameter(
        "updatedSince",
        "Selects bills changed at or after this instant: the shop's mark, which is the `serverTime` of "
        "an earlier `GET /v1/shops`, or any ISO-8601 date and time with `Z` or a UTC offset. It cannot be used with "
        "`from` and `to`.",
        "2026-09-30T17:00:00.000Z",
        schema={"type": "string", "format": "date-time"},
    ),
    "limit": _parameter(
        "limit",
        f"Rows per page, 1 to {MAX_LIMIT}. No value is refused: a fraction is truncated, a number above "
        f"{MAX_LIMIT} counts as {MAX_LIMIT}, and a number below 1 or any other text counts as {DEFAULT_LIMIT}.",
        MAX_LIMIT,
        schema=_LIMIT,
    ),
    "since": _parameter(
        "since",
        "The `mark` of your last pass. Leave it out on the first pass. A mark is valid for this key "
        "(and keys made from it by rotation), for 400 days. A mark of another key is refused with `bad_cursor`. A mark "
        "that is too old, or from before the operator restored a backup, is refused with `mark_expired`: start again "
        "without `since`, and replace your copy.",
        examples.MARK,
    ),
    "feedLimit": _parameter(
        "limit",
        f"Elements per page, 1 to {MAX_FEED_LIMIT:,}. No value is refused: a fraction is truncated, a "
        f"number above {MAX_FEED_LIMIT:,} counts as {MAX_FEED_LIMIT:,}, and a number below 1 or any other text counts "
        f"as {DEFAULT_LIMIT}. A page also ends when its elements reach 8 MiB, so a page has at most 8.6 MiB before "
        "compression.",
        MAX_FEED_LIMIT,
        schema=_LIMIT,
    ),
    "feedCursor": _parameter(
        "cursor",
        "The `nextCursor` of the previous page, with the same `since`. It is valid for this key (and "
        "keys made from it by rotation), for as long as the mark of its pass. Any other cursor is refused with "
        "`bad_cursor`. In that case, start the pass again without a cursor.",
        examples.FEED_CURSOR,
    ),
    "digestShopId": _parameter(
        "shopId",
        "The `shopId` of a branch in the key's scope. Leave it out to get all branches.",
        examples.SHOP.shop_id,
    ),
    "digestFrom": _parameter(
        "from", "First calendar day, as YYYYMMDD. The number of days is not limited.", "20260101", schema=_DAY
    ),
    "digestTo": _parameter("to", "Last calendar day (inclusive), as YYYYMMDD.", "20261231", schema=_DAY),
    "digestCursor": _parameter(
        "cursor",
        "The `nextCursor` of the previous page, with all other parameters unchanged. Any other cursor "
        "is refused with `bad_cursor`. In that case, start the list again without a cursor.",
        examples.FEED_CURSOR,
    ),
    "billCursor": _parameter(
        "cursor",
        "The `nextCursor` of the previous page, with all other parameters unchanged. It is valid for "
        "this list and key (and keys made from it by rotation), for 7 days after it was last handed out or used. Any "
        "other cursor is refused with `bad_cursor`. In that case, start the list again without a cursor.",
        examples.BILL.id,
        schema=_CURSOR,
    ),
    "memberCursor": _parameter(
        "cursor",
        "The `nextCursor` of the previous page. It is valid for this base and key (and keys made from "
        "it by rotation), for 7 days after it was last handed out or used. Any other cursor, or one whose member was "
        "removed, is refused with `bad_cursor`. In that case, start the list again without a cursor.",
        examples.TOKEN,
        schema=_CURSOR,
    ),
    "billId": _parameter("id", "The bill's `id`.", examples.BILL.id, place="path", required=True),
    "providerId": _parameter(
        "providerId",
        "The `providerId` of a membership base that the key covers, from `GET /v1/shops`.",
        examples.SHOP.provider_id,
        required=True,
    ),
    "messagingUserId": _parameter(
        "messagingUserId",
        "The person's user ID on the messaging platform: `U` followed by 32 lowercase hexadecimal digits.",
        "U0123456789abcdef0123456789abcdef",
        required=True,
        schema={"type": "string", "pattern": "^U[0-9a-f]{32}$"},
    ),
    "memberToken": _parameter(
        "memberToken",
        "The member's `memberId`: currently `m1_` followed by an opaque body of no fixed length.",
        examples.TOKEN,
        place="path",
        required=True,
    ),
    "requestId": _parameter(
        "X-Request-Id",
        "Your own ID for the request: 1 to 128 letters, digits or any of `._~:-`. It is returned and "
        "logged. If it is missing or malformed, the service generates one.",
        "nightly-sync-0042",
        place="header",
        schema={"type": "string"},
    ),
    "ifNoneMatch": _parameter(
        "If-None-Match",
        "The `ETag` of an earlier response. If the data has not changed, the response is 304.",
        examples.ENTITY_TAG,
        place="header",
        schema={"type": "string"},
    ),
}
