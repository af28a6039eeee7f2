"""The service as an RSGI application: the route table, and the steps of handling a request."""

import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, Protocol

from msgspec import Struct, json

from counterfoil.domain import questions
from counterfoil.domain.problems import AUTH_UNAVAILABLE, INTERNAL, METHOD_NOT_ALLOWED, NOT_FOUND, Refused
from counterfoil.domain.questions import parameters
from counterfoil.domain.request_records import UNKNOWN, RequestDetail, RequestRecord
from counterfoil.http import wire
from counterfoil.http.gate import Gate, RequestHeaders, names_one_host, refuse_browsers, require_quota, sole
from counterfoil.http.wire import PAGE_ROUTE, StaticPage, page_headers
from counterfoil.observe import Event, HandlerCrashed, RequestServed, StoreFailed
from counterfoil.ports import Clock, RequestLog, StoreBusy, StoreUnavailable
from counterfoil.reads import Answer, Caller, Reads, require_lookup

# Turns a request into a question and passes it to `reads`. The arguments are the `Reads` object, the caller, the last
# path segment if it is a parameter, and the query string.
Handler = Callable[[Reads, Caller, str, str], Awaitable[Answer]]


def _lookup(reads: Reads, caller: Caller, _: str, query: str) -> Awaitable[Answer]:
    require_lookup(caller.key)
    return reads.lookup(caller, questions.lookup(parameters(query)))


# The paths below `/v1/`. A route without a handler is public and returns the OpenAPI document.
ROUTES: dict[str, Handler | None] = {
    "shops": lambda reads, caller, _, __: reads.shops(caller),
    "transactions": lambda reads, caller, _, query: reads.bills(caller, questions.bill_list(parameters(query))),
    "transactions/{id}": lambda reads, caller, bill_id, _: reads.bill(caller, bill_id),
    "changes": lambda reads, caller, _, query: reads.changes(caller, questions.change_feed(parameters(query))),
    "digests": lambda reads, caller, _, query: reads.digests(caller, questions.digest_list(parameters(query))),
    "members": lambda reads, caller, _, query: reads.members(caller, questions.member_list(parameters(query))),
    "members/lookup": _lookup,
    "members/{memberToken}": lambda reads, caller, token, _: reads.member(caller, token),
    "usage": lambda reads, caller, _, __: reads.usage(caller),
    "openapi.json": None,
}
# In logs and counters, NO_ROUTE stands for a path that is not a route, and OTHER_METHOD for a method not in METHODS.
NO_ROUTE = "unknown"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"})
OTHER_METHOD = "?"


@lru_cache(maxsize=1_000)
def _detail(*values: Any) -> str:
    """Return a `RequestDetail` as JSON. Most requests of a key repeat what it asked and got before."""
    return json.encode(RequestDetail(*values)).decode()


class RequestScope(Protocol):
    """A request as the HTTP server passes it (RSGI)."""

    method: str
    path: str
    query_string: str
    http_version: str

    @property
    def headers(self) -> RequestHeaders: ...


class RouteTable:
    """Finds the route for a path. A literal segment takes precedence over a parameter."""

    def __init__(self, prefix: str) -> None:
        self.root = f"{prefix}/v1/"
        self._literal: dict[str, str] = {}
        self._with_parameter: dict[str, str] = {}
        for route in ROUTES:
            collection, has_parameter, _ = route.partition("{")
            if has_parameter:
                self._with_parameter[collection] = route
            else:
                self._literal[self.root + route] = route

    def find(self, path: str) -> tuple[str, str] | None:
        """Return the route and its argument."""
        route = self._literal.get(path)
        if route:
            return route, ""
        if not path.startswith(self.root):
            return None
        collection, slash, argument = path.removeprefix(self.root).partition("/")
        route = self._with_parameter.get(collection + slash)
        return (route, argument) if route and argument else None


class Exchange(Struct):
    """The state of one request while it is being handled."""

    request_id: str
    method: str
    route: str = NO_ROUTE
    caller: Caller | None = None
    answer: Answer | None = None
    error: str | None = None
    query_string: str = ""
    asked_shop: str = ""
    message: str = ""
    is_probe: bool = False
    is_recorded: bool = False
    refused_key_id: str | None = None


class App(Struct, kw_only=True, eq=False):
    """The application, which the server calls for each request."""

    routes: RouteTable
    gate: Gate
    reads: Reads
    request_log: RequestLog
    openapi: bytes
    tags: wire.EntityTags
    observe: Callable[[Event], None]
    clock: Clock
    new_id: Callable[[], str]
    pages: Mapping[str, StaticPage] = {}

    async def __rsgi__(self, scope: RequestScope, protocol: Any) -> None:
        began = time.perf_counter_ns()
        headers = scope.headers
        request_id = wire.request_id(headers.get("x-request-id")) or self.new_id()
        exchange = Exchange(request_id, scope.method)
        try:
            response = await self._respond(scope, headers, exchange)
            if exchange.answer and exchange.answer.disclosure:
                # HEAD and 304 are recorded too, because their ETag and length depend on the personal data.
                took_us = (time.perf_counter_ns() - began) // 1000
                await self.request_log.disclose(self._record(exchange, response, took_us))
                exchange.is_recorded = True
        except Refused as refused:
            response = self._error_response(refused, exchange)
        except StoreUnavailable as error:
            self.observe(StoreFailed(request_id=request_id, route=exchange.route, reason=str(error)))
            problem = AUTH_UNAVAILABLE if isinstance(error, StoreBusy) else INTERNAL
            response = self._error_response(Refused(problem), exchange)
        except Exception as error:  # noqa: BLE001 - any crash becomes a response without details
            self.observe(_crash(error, exchange))
            response = self._error_response(Refused(INTERNAL), exchange)
        protocol.response_bytes(response.status, response.headers, response.body)
        took_us = (time.perf_counter_ns() - began) // 1000
        if exchange.caller and response.status in (400, 403):
            exchange.asked_shop = await self._asked_shop(exchange)
        self._record_and_log(exchange, response, took_us)

    async def _respond(self, scope: RequestScope, headers: RequestHeaders, exchange: Exchange) -> wire.Response:
        if not names_one_host(headers, scope.http_version):
            # The HTTP server refuses malformed requests in the same way, without a body.
            return wire.Response(400, wire.bare_headers(exchange.request_id), b"")
        refuse_browsers(headers)
        found = self.routes.find(scope.path)
        if not found:
            return self._page_response(scope.path, headers, exchange)
        exchange.route, argument = found
        handler = ROUTES[exchange.route]
        exchange.query_string = scope.query_string
        if exchange.method not in ("GET", "HEAD"):
            raise Refused(METHOD_NOT_ALLOWED)
        if handler is None:
            exchange.is_probe = exchange.method == "HEAD" and headers.get("user-agent") == wire.PROBE_AGENT
            sent = wire.response_headers(exchange.request_id, None)
            document = Answer(data=self.openapi, horizon=0, seal=self.openapi)
            return self._success_response(document, self.openapi, headers, sent)
        if not self.gate.try_enter():
            await self.gate.wait_for_slot()
        try:
            exchange.caller = caller = await self.gate.admit(sole(headers.get_all("authorization")))
            require_quota(caller)
            answer = await handler(self.reads, caller, argument, scope.query_string)
        finally:
            self.gate.leave()
        exchange.answer = answer
        sent = wire.response_headers(exchange.request_id, caller)
        return self._success_response(answer, wire.success_body(answer), headers, sent)

    def _page_response(self, path: str, headers: RequestHeaders, exchange: Exchange) -> wire.Response:
        page = self.pages.get(path)
        if page is None:
            raise Refused(NOT_FOUND, self._way_on())
        exchange.route = PAGE_ROUTE
        if exchange.method not in ("GET", "HEAD"):
            raise Refused(METHOD_NOT_ALLOWED)
        answer = Answer(data=page.body, horizon=0, seal=page.body)
        return self._success_response(answer, page.body, headers, page_headers(page, exchange.request_id))

    def _way_on(self) -> str:
        """Return the message for an unknown path. A person in a browser reads it, too."""
        root = self.routes.root
        described = f"the API is below {root}, and it is described by {root}openapi.json"
        pages = [path for path, page in self.pages.items() if page.content_type.startswith("text/html")]
        return f"There is no such path: {' and '.join([described, *pages])}."

    def _success_response(
        self, answer: Answer, body: bytes, headers: RequestHeaders, sent: wire.Headers
    ) -> wire.Response:
        tag = self.tags.of(answer)
        sent.append(("etag", tag))
        known_tags = headers.get("if-none-match")
        if known_tags and wire.matches_etag(known_tags, tag):
            return wire.Response(304, sent, b"")
        accepted = headers.get("accept-encoding")
        if accepted and (encoding := wire.choose_encoding(accepted, len(body) < wire.MIN_COMPRESSED_BYTES)):
            sent.append(("content-encoding", encoding))
            return wire.Response(200, sent, wire.compress(body, encoding), encoding)
        return wire.Response(200, sent, body)

    def _error_response(self, refused: Refused, exchange: Exchange) -> wire.Response:
        exchange.error = refused.problem.code
        exchange.message = refused.message
        exchange.refused_key_id = refused.key_id
        exchange.answer = None
        if isinstance(refused.__cause__, StoreUnavailable):
            reason = str(refused.__cause__)
            self.observe(StoreFailed(request_id=exchange.request_id, route=exchange.route, reason=reason))
        headers = wire.response_headers(exchange.request_id, exchange.caller, refused) + wire.problem_headers(refused)
        return wire.Response(refused.problem.status, headers, wire.problem_body(refused))

    async def _asked_shop(self, exchange: Exchange) -> str:
        """Return the shop that a refused request has asked for. It runs after the response, whose time says nothing."""
        asked = parameters(exchange.query_string).get("shopId")
        if not asked:
            return ""
        try:
            return asked if await self.reads.is_shop(asked) else UNKNOWN
        except StoreUnavailable:
            return UNKNOWN

    def _record_and_log(self, exchange: Exchange, response: wire.Response, took_us: int) -> None:
        record = self._record(exchange, response, took_us)
        if exchange.caller and not exchange.is_recorded:
            self.request_log.note(record)
        answer = exchange.answer
        if answer and answer.change_list and exchange.method == "GET":
            # A 304 response also counts as a page that was sent: it confirms that the caller already has the page.
            self.request_log.note_page(
                answer.change_list, answer.changes_since, answer.horizon, not answer.next_cursor, record.at
            )
        if exchange.refused_key_id and exchange.error:
            self.request_log.note_refusal(exchange.refused_key_id, exchange.error, record.at)
        if exchange.is_probe and response.status == 200:
            return
        self.observe(
            RequestServed(
                request_id=exchange.request_id,
                method=exchange.method if exchange.method in METHODS else OTHER_METHOD,
                route=exchange.route,
                status=response.status,
                error=exchange.error,
                key_id=record.key_id or exchange.refused_key_id,
                took_us=record.took_us,
                sent=len(response.body) if exchange.method != "HEAD" else 0,
                encoding=response.encoding,
                personal_base=record.personal_base,
                personal_members=record.personal_members,
            )
        )

    def _record(self, exchange: Exchange, response: wire.Response, took_us: int) -> RequestRecord:
        answer = exchange.answer
        disclosed = answer.disclosure if answer else None
        names = ",".join(questions.parameter_names(exchange.query_string)) if exchange.query_string else ""
        if answer is None:
            detail = _detail(names, exchange.asked_shop, None, None, exchange.message)
        elif response.status == 304:
            detail = _detail(names, answer.shop_id)
        else:
            detail = _detail(names, answer.shop_id, answer.rows, not answer.next_cursor)
        return RequestRecord(
            at=self.clock.now_ms(),
            key_id=exchange.caller.key.key_id if exchange.caller else "",
            route=exchange.route,
            status=response.status,
            error=exchange.error,
            took_us=took_us,
            personal_base=disclosed.provider_id if disclosed else None,
            personal_members=disclosed.members if disclosed else 0,
            request_id=exchange.request_id,
            detail=detail,
        )


def _crash(error: Exception, exchange: Exchange) -> HandlerCrashed:
    """Return an event that says where a crash happened, without its message and values, which may be private."""
    frames = traceback.extract_tb(error.__traceback__)
    return HandlerCrashed(
        request_id=exchange.request_id,
        route=exchange.route,
        exception=type(error).__name__,
        where=[f"{frame.name}:{frame.lineno}" for frame in frames],
    )
