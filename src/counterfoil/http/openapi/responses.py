"""The responses of an operation, by status, with their headers."""

from itertools import groupby
from typing import Any

from counterfoil.domain.problems import (
    AUTH_UNAVAILABLE,
    CROSS_ORIGIN_REFUSED,
    INTERNAL,
    INVALID_KEY,
    KEY_REVOKED,
    METHOD_NOT_ALLOWED,
    QUOTA_EXCEEDED,
    RATE_LIMITED,
    Problem,
    Stage,
)
from counterfoil.http import wire
from counterfoil.http.openapi import examples
from counterfoil.http.openapi.operations import Operation
from counterfoil.http.openapi.schemas import Json, problem_name, reference

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
    described = {"200": _success(operation), "304": _unchanged(operation)}
    for status, problems in groupby(refusals, key=lambda problem: problem.status):
        described[str(status)] = _refusal(status, list(problems))
    return described


def _success(operation: Operation) -> Json:
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
