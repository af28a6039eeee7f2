"""The service as an RSGI application: the route table, and the steps of answering a request."""

import time
import traceback
from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct

from counterfoil.domain.problems import AUTH_UNAVAILABLE, INTERNAL, METHOD_NOT_ALLOWED, NOT_FOUND, Refused
from counterfoil.http import handlers, wire
from counterfoil.http.gate import Gate, RequestHeaders, refuse_browsers, require_quota
from counterfoil.http.handlers import Handler
from counterfoil.observe.events import Event, HandlerCrashed, RequestServed, StoreFailed
from counterfoil.ports import Clock, RequestLog, RequestRecord, StoreBusy, StoreUnavailable
from counterfoil.reads import Answer, Caller, Disclosure, Reads


class Route(Struct, frozen=True):
    """A path below `/v1/`. A route without a handler is public and returns the OpenAPI document."""

    path: str
    handler: Handler | None


ROUTES = (
    Route("shops", handlers.shops),
    Route("transactions", handlers.transactions),
    Route("transactions/{id}", handlers.transaction),
    Route("members", handlers.members),
    Route("members/lookup", handlers.lookup),
    Route("members/{memberToken}", handlers.member),
    Route("usage", handlers.usage),
    Route("openapi.json", None),
)
# Names used in the log and the counters for paths that are not routes, and for non-standard methods.
NO_ROUTE = "unknown"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"})
OTHER_METHOD = "?"


class RequestScope(Protocol):
    """A request as the server describes it (RSGI)."""

    method: str
    path: str
    query_string: str

    @property
    def headers(self) -> RequestHeaders: ...


class RouteTable:
    """Finds the route of a path; a literal segment takes precedence over a parameter."""

    def __init__(self, prefix: str) -> None:
        self._root = f"{prefix}/v1/"
        self._literal = {self._root + route.path: route for route in ROUTES if "{" not in route.path}
        self._under = {route.path.partition("{")[0]: route for route in ROUTES if "{" in route.path}

    def find(self, path: str) -> tuple[Route, str] | None:
        route = self._literal.get(path)
        if route:
            return route, ""
        if not path.startswith(self._root):
            return None
        collection, slash, argument = path.removeprefix(self._root).partition("/")
        route = self._under.get(collection + slash)
        return (route, argument) if route and argument else None


class Exchange(Struct):
    """The state of one request while it is being answered."""

    request_id: str
    method: str
    route: str = NO_ROUTE
    caller: Caller | None = None
    disclosure: Disclosure | None = None
    error: str | None = None
    recorded: bool = False
    refused_key_id: str | None = None


class App:
    """The application, which the server calls for each request."""

    def __init__(
        self,
        *,
        prefix: str,
        gate: Gate,
        reads: Reads,
        request_log: RequestLog,
        openapi: bytes,
        observe: Callable[[Event], None],
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        self._routes = RouteTable(prefix)
        self._gate = gate
        self._reads = reads
        self._request_log = request_log
        self._openapi = openapi
        self._document = Answer(data=openapi, horizon=0, seal=openapi)
        self._observe = observe
        self._clock = clock
        self._new_id = new_id

    async def __rsgi__(self, scope: RequestScope, protocol: Any) -> None:
        began = time.perf_counter_ns()
        headers = scope.headers
        request_id = wire.request_id(headers.get("x-request-id")) or self._new_id()
        exchange = Exchange(request_id, scope.method)
        try:
            reply = await self._reply(scope, headers, exchange)
            if exchange.disclosure and reply.status == 200 and exchange.method == "GET":
                await self._request_log.disclose(self._record(exchange, reply, began))
                exchange.recorded = True
        except Refused as refused:
            reply = self._refusal(refused, exchange)
        except StoreUnavailable as error:
            self._observe(StoreFailed(request_id=request_id, route=exchange.route, reason=str(error)))
            reply = self._refusal(Refused(AUTH_UNAVAILABLE if isinstance(error, StoreBusy) else INTERNAL), exchange)
        except Exception as error:  # noqa: BLE001 - last resort: answer a crash without its details
            self._observe(_crash(error, exchange))
            reply = self._refusal(Refused(INTERNAL), exchange)
        protocol.response_bytes(reply.status, reply.headers, reply.body)
        self._account_for(exchange, reply, began)

    async def _reply(self, scope: RequestScope, headers: RequestHeaders, exchange: Exchange) -> wire.Reply:
        refuse_browsers(headers)
        found = self._routes.find(scope.path)
        if not found:
            raise Refused(NOT_FOUND, "There is no such path.")
        route, argument = found
        exchange.route = route.path
        if exchange.method not in ("GET", "HEAD"):
            raise Refused(METHOD_NOT_ALLOWED)
        if route.handler is None:
            return self._success(self._document, self._openapi, headers, exchange)
        await self._gate.enter()
        try:
            exchange.caller = caller = await self._gate.admit(headers.get("authorization"))
            require_quota(caller)
            answer = await route.handler(self._reads, caller, argument, scope.query_string)
        finally:
            self._gate.leave()
        exchange.disclosure = answer.disclosure
        return self._success(answer, wire.success(answer), headers, exchange)

    def _success(self, answer: Answer, body: bytes, headers: RequestHeaders, exchange: Exchange) -> wire.Reply:
        reply = wire.Reply(200, wire.headers(exchange.request_id, exchange.caller), body)
        tag = wire.entity_tag(answer)
        reply.headers.append(("etag", tag))
        if wire.unchanged(headers.get("if-none-match"), tag):
            reply.status, reply.body = 304, b""
            return reply
        encoding = wire.acceptable(headers.get("accept-encoding"), len(body))
        if encoding:
            reply.body, reply.encoding = wire.encoded(body, encoding), encoding
            reply.headers.append(("content-encoding", encoding))
        return reply

    def _refusal(self, refused: Refused, exchange: Exchange) -> wire.Reply:
        exchange.error = refused.problem.code
        exchange.refused_key_id = refused.key_id
        exchange.disclosure = None
        if isinstance(refused.__cause__, StoreUnavailable):
            reason = str(refused.__cause__)
            self._observe(StoreFailed(request_id=exchange.request_id, route=exchange.route, reason=reason))
        headers = wire.headers(exchange.request_id, exchange.caller, refused) + wire.problem_headers(refused)
        return wire.Reply(refused.problem.status, headers, wire.problem(refused))

    def _account_for(self, exchange: Exchange, reply: wire.Reply, began: int) -> None:
        record = self._record(exchange, reply, began)
        if exchange.caller and not exchange.recorded:
            self._request_log.note(record)
        self._observe(
            RequestServed(
                request_id=exchange.request_id,
                method=exchange.method if exchange.method in METHODS else OTHER_METHOD,
                route=exchange.route,
                status=reply.status,
                error=exchange.error,
                key_id=record.key_id or exchange.refused_key_id,
                took_us=record.took_us,
                sent=len(reply.body) if exchange.method != "HEAD" else 0,
                encoding=reply.encoding,
                personal_base=record.personal_base,
                personal_members=record.personal_members,
            )
        )

    def _record(self, exchange: Exchange, reply: wire.Reply, began: int) -> RequestRecord:
        shown = exchange.disclosure if reply.status == 200 and exchange.method == "GET" else None
        return RequestRecord(
            at=self._clock.now_ms(),
            key_id=exchange.caller.key.key_id if exchange.caller else "",
            route=exchange.route,
            status=reply.status,
            error=exchange.error,
            took_us=(time.perf_counter_ns() - began) // 1000,
            personal_base=shown.provider_id if shown else None,
            personal_members=shown.members if shown else 0,
        )


def _crash(error: Exception, exchange: Exchange) -> HandlerCrashed:
    """Describe where a crash happened, without the message or any values, because they may contain data."""
    frames = traceback.extract_tb(error.__traceback__)
    return HandlerCrashed(
        request_id=exchange.request_id,
        route=exchange.route,
        exception=type(error).__name__,
        where=[f"{frame.name}:{frame.lineno}" for frame in frames],
    )
