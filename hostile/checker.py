"""Checks every response against the service's OpenAPI document and the contract's header rules.

This module does not use the code of the service. Each fault is described in a
sentence. A response without faults is as documented.
"""

import gzip
import json
import re
import zlib
from collections.abc import Callable
from typing import Any

from backports import zstd
from jsonschema_rs import Draft202012Validator

from hostile.raw_http import Answer, ask

Json = dict[str, Any]

ROOT = "/ext"
NO_ROUTE = "no route"
ANY_ROUTE = "any route"

# Headers that any HTTP server sends, or that OpenAPI describes together with the body.
PLAIN = {"content-type", "content-length", "date", "server", "connection"}
ONCE = {"x-request-id", "cache-control", "vary", "content-type", "x-content-type-options", "content-length"}
# The HTTP server itself refuses some requests with these statuses, before the service sees them: malformed requests,
# and requests that are too large or too slow. See docs/integrate.md#errors.
REFUSALS = {400, 408, 414, 431}
# The service itself also refuses some requests with 400 and an empty body: those without a Host header, and those with
# several. Its responses to them also have these headers.
BARE = {"cache-control", "server", "x-request-id"}
BEFORE_ADMISSION = {"invalid_key", "key_revoked", "auth_unavailable", "rate_limited", "cross_origin_refused"} | {
    "method_not_allowed"
}
TRACES = (b"Traceback", b'File "', b".py", b"sqlite3", b"psycopg", b"asyncpg", b"Exception")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._~:-]{1,128}", re.ASCII)
_SERVER_TIME = re.compile(rb'"serverTime":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"')
_NUMBERS = re.compile(rb"(?<=:)[0-9]+")
_FEED_TOKEN = re.compile(rb'"(nextCursor|mark)":"[A-Za-z0-9_-]+"')
_MOST_KNOWN = 100_000
_LONG_BODY = 50_000


class Document:
    """The OpenAPI document of a running service."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.content: Json = json.loads(text)
        self.paths: Json = self.content["paths"]
        self.root = self.content["servers"][0]["url"]
        self._validators: dict[str, Draft202012Validator] = {}

    @classmethod
    def served_by(cls, port: int) -> "Document":
        answer = ask(port, f"{ROOT}/v1/openapi.json")
        assert answer is not None
        assert answer.status == 200
        return cls(answer.body)

    def template(self, path: str) -> str:
        """Return the path template in the document that matches a request path, or NO_ROUTE."""
        asked = path.removeprefix(self.root)
        if not path.startswith(self.root):
            return NO_ROUTE
        if asked in self.paths:
            return asked
        for template in self.paths:
            start, parameter, _ = str(template).partition("{")
            if parameter and asked.startswith(start) and asked != start:
                return str(template)
        return NO_ROUTE

    def response(self, template: str, status: int) -> Json | None:
        found: Json | None = self.paths[template]["get"]["responses"].get(str(status))
        return found

    def resolved(self, described: Json) -> Json:
        """Return the description that a reference points to, or the description itself if it is not a reference."""
        found: Any = described
        if "$ref" in described:
            found = self.content
            for step in described["$ref"].removeprefix("#/").split("/"):
                found = found[step]
        resolved: Json = found
        return resolved

    def query_parameters(self) -> dict[str, set[str]]:
        """Return the names of all query parameters, keyed by path template."""
        described = {path: map(self.resolved, item["get"].get("parameters", ())) for path, item in self.paths.items()}
        return {path: {one["name"] for one in ones if one["in"] == "query"} for path, ones in described.items()}

    def body_faults(self, template: str, status: int, body: Any) -> list[str]:
        """Return the ways in which a body violates the schema of this response."""
        name = f"{template} {status}"
        if name not in self._validators:
            described = self.paths[template]["get"]["responses"][str(status)]
            schema = {**described["content"]["application/json"]["schema"], "components": self.content["components"]}
            self._validators[name] = Draft202012Validator(schema, validate_formats=True)
        return [f"{fault.instance_path}: {fault.message[:200]}" for fault in self._validators[name].iter_errors(body)]


class Checker:
    """Checks and counts responses.

    `trouble` allows 500 and 503, which are documented for failing stores. `foreign`
    matches data that no successful response may contain.

    Most responses in a campaign repeat earlier ones. A response is not checked again if everything
    that the checks look at is the same as in an earlier response without faults.
    """

    def __init__(self, document: Document, *, trouble: bool = False, foreign: re.Pattern[bytes] | None = None) -> None:
        self.document = document
        self.trouble = trouble
        self.checked = 0
        self.by_status: dict[int, int] = {}
        self.by_route: dict[tuple[str, int], int] = {}
        self._foreign = foreign
        self._known_answers: set[object] = set()
        self._known_bodies: set[tuple[str, int, bytes]] = set()
        self._long_bodies: dict[int, bytes] = {}

    def faults(self, answer: Answer, template: str, method: str = "GET", request_id: str | None = None) -> list[str]:
        """Return the faults in a response to `method` on a path that matches `template`."""
        self.checked += 1
        self.by_status[answer.status] = self.by_status.get(answer.status, 0) + 1
        route = (template, answer.status)
        self.by_route[route] = self.by_route.get(route, 0) + 1
        if answer.header("x-request-id") is None or (answer.status == 400 and not answer.body and method != "HEAD"):
            return self._refusal_faults(answer, template)
        try:
            body = _decoded(answer, method)
        except ValueError as error:
            return [f"the body cannot be decoded: {error}"]
        body = self._same_object(body)
        name = (template, method, answer.status, _checked_headers(answer, request_id), _checked_body(body, template))
        if name in self._known_answers:
            return []
        found = self._service_faults(answer, body, template, method, request_id)
        if not found and len(self._known_answers) < _MOST_KNOWN:
            self._known_answers.add(name)
        return found

    def _same_object(self, body: bytes) -> bytes:
        """If a long body equals an earlier one, return the earlier object, whose hash has already been computed."""
        if len(body) < _LONG_BODY:
            return body
        return body if self._long_bodies.setdefault(len(body), body) != body else self._long_bodies[len(body)]

    def _service_faults(
        self, answer: Answer, body: bytes, template: str, method: str, request_id: str | None
    ) -> list[str]:
        found = [*self._header_faults(answer, request_id), *self._pair_faults(answer, body)]
        found += [f"the body reveals internals: {trace!r}" for trace in TRACES if trace in body and template != DOC]
        if answer.status >= 500 and not self.trouble:
            found.append(f"{answer.status} although the store works")
        if answer.status == 200 and self._foreign and self._foreign.search(body):
            found.append("the answer contains data outside the key's scope")
        if template == ANY_ROUTE:
            return found + self._some_route_faults(answer, body, method)
        return found + self._route_faults(answer, body, template, method)

    # --- the HTTP server's own refusals ------------------------------------------------

    def _refusal_faults(self, answer: Answer, template: str) -> list[str]:
        found = []
        if template != ANY_ROUTE:
            found.append(f"a well-formed request was refused by the HTTP server with {answer.status}")
        if answer.status not in REFUSALS:
            found.append(f"the HTTP server itself answered {answer.status}")
        if answer.body:
            found.append("the HTTP server's own refusal has a body")
        extra = {name for name, _ in answer.headers} - {"content-length", "date", "connection", *BARE}
        return found + [f"the HTTP server's own refusal has the header {name}" for name in sorted(extra)]

    # --- headers -----------------------------------------------------------------------

    def _header_faults(self, answer: Answer, request_id: str | None) -> list[str]:
        names = [name for name, _ in answer.headers]
        found = [f"the header {name} is sent {names.count(name)} times" for name in set(names) if names.count(name) > 1]
        expected = ONCE if answer.status != 304 else ONCE - {"content-length", "content-type"}
        found += [f"the header {name} is missing" for name in sorted(expected - set(names))]
        found += [f"a CORS header: {name}" for name in names if name.startswith("access-control-")]
        if answer.header("cache-control") != "private, no-cache":
            found.append(f"Cache-Control is {answer.header('cache-control')!r}")
        vary = (answer.header("vary") or "").lower()
        found += [f"Vary does not name {name}" for name in ("authorization", "accept-encoding") if name not in vary]
        if (answer.header("server") or "counterfoil") != "counterfoil":
            found.append(f"the Server header is {answer.header('server')!r}")
        if answer.status != 304 and answer.header("content-type") != "application/json":
            found.append(f"Content-Type is {answer.header('content-type')!r}")
        given = answer.header("x-request-id") or ""
        if not _valid_id(given):
            found.append(f"the request id is {given!r}")
        if request_id is not None and given != request_id:
            found.append(f"the request id is {given!r}, not the {request_id!r} that was sent")
        return found

    def _pair_faults(self, answer: Answer, body: bytes) -> list[str]:
        """Check the headers that depend on the outcome: rate limits, Retry-After, Allow and WWW-Authenticate."""
        error = _error(body)
        if error is None and answer.status not in (200, 304):
            return []  # An error response to HEAD has no body to read the code from. Another check covers its headers.
        found = self._limit_faults(answer, error)
        limited = error == "rate_limited"
        if limited != (answer.header("retry-after") is not None):
            found.append("Retry-After must be sent with rate_limited, and only then")
        if limited and json.loads(body)["retryAfterSec"] != int(answer.header("retry-after") or 0):
            found.append("Retry-After differs from retryAfterSec")
        for status, name in ((405, "allow"), (401, "www-authenticate")):
            if (answer.status == status) != (answer.header(name) is not None):
                found.append(f"{name} must be sent with {status}, and only then")
        return found

    @staticmethod
    def _limit_faults(answer: Answer, error: str | None) -> list[str]:
        limit, remaining = (answer.header(f"x-ratelimit-{name}") for name in ("limit", "remaining"))
        if limit is None or remaining is None:
            alone = limit is not None or remaining is not None
            must = error is not None and error not in BEFORE_ADMISSION | {"internal", "not_found"}
            found = ["one X-RateLimit header without the other"] if alone else []
            return found + ([f"{error} without the X-RateLimit headers"] if must else [])
        if not limit.isdigit() or not remaining.isdigit():
            return [f"X-RateLimit headers that are not numbers: {limit!r}, {remaining!r}"]
        found = ["more remaining than the limit"] if int(remaining) > int(limit) else []
        return found + ([f"X-RateLimit headers with {error}"] if error in BEFORE_ADMISSION else [])

    # --- the document ------------------------------------------------------------------

    def _route_faults(self, answer: Answer, body: bytes, template: str, method: str) -> list[str]:
        if template == NO_ROUTE:
            wrong = answer.status not in (400, 403, 404) or _error(body) in ("bad_query", "bad_cursor")
            return [f"{answer.status} for a path that is not documented"] if wrong and method != "HEAD" else []
        described = self.document.response(template, answer.status)
        if described is None:
            return [f"{method} {template} answered {answer.status}, which is not documented"]
        if method not in ("GET", "HEAD") and answer.status not in (400, 403, 405):
            return [f"{method} was answered with {answer.status}"]
        known = {name.lower(): self.document.resolved(header) for name, header in described.get("headers", {}).items()}
        names = {name for name, _ in answer.headers}
        found = [f"the header {name} is not documented" for name in sorted(names - set(known) - PLAIN)]
        found += [
            f"the documented header {name} is missing"
            for name, header in known.items()
            if header.get("required") and name not in names
        ]
        if method == "HEAD" or answer.status == 304:
            return found
        return found + self._body_faults(template, answer.status, body)

    def _body_faults(self, template: str, status: int, body: bytes) -> list[str]:
        """Validate a body, unless it differs from a valid body only in values that change with every response."""
        same = _checked_body(body, template)
        name = (template, status, _NUMBERS.sub(b"0", same) if status == 429 else same)
        if name in self._known_bodies:
            return []
        found = self.document.body_faults(template, status, json.loads(body))
        if not found and len(self._known_bodies) < _MOST_KNOWN:
            self._known_bodies.add(name)
        return found

    def _some_route_faults(self, answer: Answer, body: bytes, method: str) -> list[str]:
        """Check the response to a request that was mutated beyond recognition: it must be documented for some path."""
        first: list[str] = []
        for template in [*self.document.paths, NO_ROUTE]:
            found = self._route_faults(answer, body, template, method)
            if not found:
                return []
            first = first or found
        return [f"not documented for any path: {first}"]


DOC = "/v1/openapi.json"
USAGE = "/v1/usage"
# Marks and cursors of these lists contain the horizon, so they change all the time.
FEEDS = ("/v1/changes", "/v1/digests")
# serverTime begins within this many bytes of the end of a body.
_LONGEST_END = 80
DECODERS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.decompress, "zstd": zstd.decompress}


def _decoded(answer: Answer, method: str) -> bytes:
    if method == "HEAD" or answer.status == 304:
        return b""
    encoding = answer.header("content-encoding")
    if encoding is not None and encoding not in DECODERS:
        raise ValueError(f"encoding {encoding!r}")
    try:
        body = DECODERS[encoding](answer.body) if encoding else answer.body
    except (zstd.ZstdError, zlib.error, OSError, EOFError) as error:
        raise ValueError(f"not {encoding}: {error}") from error
    if not body.startswith(b"{"):
        json.loads(body)
    return body


def _checked_headers(answer: Answer, request_id: str | None) -> tuple[object, ...]:
    """Return the headers for comparison. A value that differs in every response is replaced by the result of its check.

    The values of Date and ETag are left out, because no check looks at them.
    """
    found: list[object] = []
    for name, value in answer.headers:
        match name:
            case "date" | "etag":
                found.append(name)
            case "x-request-id":
                found += [name, _valid_id(value), request_id is None or value == request_id]
            case "x-ratelimit-remaining":
                limit = answer.header("x-ratelimit-limit") or ""
                numbers = value.isdigit() and limit.isdigit()
                found += [name, numbers, numbers and int(value) <= int(limit)]
            case _:
                found += [name, value]
    return tuple(found)


def _checked_body(body: bytes, template: str) -> bytes:
    """Normalise a body for comparison.

    A valid serverTime is removed, the marks and cursors of FEEDS are replaced, and the numbers of usage responses are
    set to 0.
    """
    place = body.rfind(b'"serverTime":"', -_LONGEST_END)
    time = _SERVER_TIME.match(body, place) if place >= 0 else None
    same = body[:place] + body[time.end() :] if time else body
    if template in FEEDS:
        rows = same.rfind(b'],"nextCursor":')
        same = same[:rows] + _FEED_TOKEN.sub(rb'"\1":"token"', same[rows:]) if rows >= 0 else same
    return _NUMBERS.sub(b"0", same) if template == USAGE else same


def _valid_id(given: str) -> bool:
    return _REQUEST_ID.fullmatch(given) is not None


_ERROR = re.compile(rb'\A\{"ok":false,"error":"([a-z_]+)"')


def _error(body: bytes) -> str | None:
    found = _ERROR.match(body)
    return found[1].decode() if found else None
