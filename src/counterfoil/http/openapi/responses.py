"""The responses of an operation by status, with their headers."""

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

# The refusals that every operation may return, and those that every operation with a key may return.
_ANYWHERE = (CROSS_ORIGIN_REFUSED, METHOD_NOT_ALLOWED)
_WITH_A_KEY = (INVALID_KEY, KEY_REVOKED, RATE_LIMITED, QUOTA_EXCEEDED, INTERNAL, AUTH_UNAVAILABLE)

_MEANING = {
    400: "A parameter is missing, malformed or not available here, or the cursor leads nowhere.",
    401: "The key is missing, wrong or revoked.",
    403: "The key does not reach this far, or a web page sent the request.",
    404: "There is nothing here that the key can read.",
    405: "Given to every method but GET and HEAD.",
    429: "The minute is full (`rate_limited`) or the day's quota is spent (`quota_exceeded`); the bodies differ.",
    500: "Something failed on the service's side. Try again with a growing delay.",
    503: "Keys cannot be checked at the moment; yours is fine. Try again with a growing delay.",
}

_ALWAYS = {
    "X-Request-Id": "RequestId",
    "Cache-Control": "CacheControl",
    "Vary": "Vary",
    "X-Content-Type-Options": "ContentTypeOptions",
}
_ALLOWANCE = {"X-RateLimit-Limit": "DailyQuota", "X-RateLimit-Remaining": "DailyRemaining"}
_ALLOWANCE_ONCE_ADMITTED = {name: f"{component}OnceAdmitted" for name, component in _ALLOWANCE.items()}
_OF_STATUS = {
    401: {"WWW-Authenticate": "Challenge"},
    405: {"Allow": "Allow"},
    429: {"Retry-After": "RetryAfter"},
}


def responses(operation: Operation) -> Json:
    """Return every status that the operation can answer with."""
    common = _ANYWHERE if operation.public else (*_ANYWHERE, *_WITH_A_KEY)
    refusals = sorted((*operation.refusals, *common), key=lambda problem: problem.status)
    described = {"200": _success(operation), "304": _unchanged(operation)}
    for status, problems in groupby(refusals, key=lambda problem: problem.status):
        described[str(status)] = _refusal(status, list(problems))
    return described


def _success(operation: Operation) -> Json:
    return {
        "description": operation.summary,
        "headers": _references(_of_success(operation) | {"Content-Encoding": "ContentEncoding"}),
        "content": _content(reference(operation.answer), examples.answers(operation)),
    }


def _unchanged(operation: Operation) -> Json:
    return {
        "description": "The data is still what `If-None-Match` named. No body.",
        "headers": _references(_of_success(operation)),
    }


def _of_success(operation: Operation) -> dict[str, str]:
    return _ALWAYS | {"ETag": "EntityTag"} | ({} if operation.public else _ALLOWANCE)


def _refusal(status: int, problems: list[Problem]) -> Json:
    bodies = {problem.code: examples.refusal(problem) for problem in problems}
    return {
        "description": _MEANING[status],
        "headers": _references(_ALWAYS | _allowance(problems) | _OF_STATUS.get(status, {})),
        "content": _content(_one_of(problems), bodies),
    }


def _allowance(problems: list[Problem]) -> dict[str, str]:
    stages = {problem.stage for problem in problems}
    if stages == {Stage.AFTER_ADMISSION}:
        return _ALLOWANCE
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
    """Return the headers by component name, with values that the service really sends as examples."""
    sent = dict(wire.headers(examples.REQUEST_ID, caller=None))
    for problem in (INVALID_KEY, METHOD_NOT_ALLOWED, RATE_LIMITED):
        sent |= wire.problem_headers(examples.refused(problem))
    quota = _number("The key's quota for a Thai day.", examples.RATE.per_day)
    remaining = _number("Requests left today after this one.", examples.TODAY.remaining)
    return {
        "RequestId": _text("The id of this request: yours when it was well-formed.", sent["x-request-id"]),
        "CacheControl": _text("Answers are for one key, and kept ones are to be checked.", sent["cache-control"]),
        "Vary": _text("The request headers that the answer depends on.", sent["vary"]),
        "ContentTypeOptions": _text("The media type is meant as it is given.", sent["x-content-type-options"]),
        "EntityTag": _text("Names the data, whatever `serverTime` and the encoding.", examples.ENTITY_TAG),
        "ContentEncoding": _text("Sent when the body is compressed.", "zstd") | {"required": False},
        "DailyQuota": quota,
        "DailyRemaining": remaining,
        "DailyQuotaOnceAdmitted": _once_admitted(quota),
        "DailyRemainingOnceAdmitted": _once_admitted(remaining),
        "Challenge": _text("How to present a key.", sent["www-authenticate"]),
        "Allow": _text("The methods that are answered.", sent["allow"]),
        "RetryAfter": _number("Seconds to wait; with `rate_limited` only.", int(sent["retry-after"]))
        | {"required": False},
    }


def _text(description: str, example: str) -> Json:
    return {"description": description, "required": True, "schema": {"type": "string"}, "example": example}


def _number(description: str, example: int) -> Json:
    schema = {"type": "integer", "minimum": 0}
    return {"description": description, "required": True, "schema": schema, "example": example}


def _once_admitted(header: Json) -> Json:
    told = "Sent when the request came past the key and the minute."
    return header | {"description": f"{header['description']} {told}", "required": False}
