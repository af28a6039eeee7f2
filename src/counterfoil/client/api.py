"""The blocking client and the client for asyncio. Both perform the steps that `conversation` yields.

with Client("http://127.0.0.1:8000", key) as api:
    for shop in api.shops():
        for bill in api.bills(shop["shopId"], updated_since=mark):
            ...
"""

import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import httpx

from counterfoil.client import calls
from counterfoil.client.calls import DigestSelection, FeedPaging, Paging, Selection
from counterfoil.client.connection import (
    FAILURES,
    MAX_BODY_BYTES,
    TIMEOUT_SEC,
    TIMEOUTS_PER_RESPONSE,
    Call,
    Connection,
    Environment,
    HttpResponse,
    Outcome,
    Pace,
    Sleep,
    checked_url,
    client_options,
    complete,
    conversation,
    decompressed,
    no_response,
    too_slow,
)
from counterfoil.client.errors import Unreachable
from counterfoil.client.models import Bill, Change, DayDigest, Member, Page, Shop, Usage

Row = TypeVar("Row")

SYSTEM_ENVIRONMENT = Environment(time.monotonic, time.time, random.random)


class Client:
    """The blocking client. Threads may share it. If `per_min` is None, the client asks the service for the rate limit.

    The client asks only after `unpaced` requests, so that a short run does not need an extra request.
    If `base_url` has no path, `/ext/v1` is added.
    `on_wait` is called before the client waits, with the reason and the seconds, and after the wait with "" and 0.
    """

    def __init__(
        self,
        base_url: str,
        key: str,
        *,
        per_min: int | None = None,
        unpaced: int = 1,
        timeout_sec: float = TIMEOUT_SEC,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], object] | None = None,
        environment: Environment = SYSTEM_ENVIRONMENT,
    ) -> None:
        self.base_url = checked_url(base_url)
        self._connection = Connection(self.base_url, key, timeout_sec, transport)
        self._pace = Pace(per_min)
        self._limit_lock = threading.Lock()
        self._closed = threading.Event()
        self._sleep = sleep or self._closed.wait
        self._environment = environment
        self._unpaced = unpaced
        self.requests = 0
        self.on_wait: Callable[[str, float], None] = lambda _reason, _seconds: None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, and wake other threads that are waiting in this client."""
        self._closed.set()
        self._connection.close()

    def shops(self) -> list[Shop]:
        return list(self.shop_page().data)

    def shop_page(self) -> Page[Shop]:
        """Return the shops. The next run can pass the page's `server_time` as `updated_since`."""
        return calls.parse_page(self.send(calls.SHOPS), calls.to_shop)

    def bills(self, shop_id: str, **selection: Unpack[Selection]) -> Iterator[Bill]:
        for page in self.bill_pages(shop_id, **selection):
            yield from page.data

    def bill_pages(self, shop_id: str, **selection: Unpack[Selection]) -> Iterator[Page[Bill]]:
        """Yield the pages of a list of bills. Pass either `first` and `last` (dates), or `updated_since`.

        A range of more than 31 days is read in windows of at most 31 days, and every window ends with a page without
        a `next_cursor`.
        """
        for call in calls.bill_windows(shop_id, **selection):
            yield from self._pages(call, calls.to_bill)

    def bill(self, bill_id: str) -> Bill:
        return calls.parse_object(self.send(calls.bill(bill_id)), calls.to_bill)

    def change_pages(self, **paging: Unpack[FeedPaging]) -> Iterator[Page[Change]]:
        """Yield the pages of a pass through the change feed. Only the last page has a `mark`."""
        return self._pages(calls.changes(**paging), calls.to_change)

    def digest_pages(self, **selection: Unpack[DigestSelection]) -> Iterator[Page[DayDigest]]:
        return self._pages(calls.digests(**selection), calls.to_digest)

    def members(self, provider_id: str, **paging: Unpack[Paging]) -> Iterator[Member]:
        for page in self.member_pages(provider_id, **paging):
            yield from page.data

    def member_pages(self, provider_id: str, **paging: Unpack[Paging]) -> Iterator[Page[Member]]:
        return self._pages(calls.members(provider_id, **paging), calls.to_member)

    def member(self, token: str) -> Member:
        return calls.parse_object(self.send(calls.member(token)), calls.to_member)

    def lookup(self, provider_id: str, messaging_user_id: str) -> str:
        """Return the token of the member with this messaging user ID."""
        return calls.parse_object(self.send(calls.lookup(provider_id, messaging_user_id)), calls.to_token)

    def usage(self) -> Usage:
        """Return the key's limits and usage, and set the client's own rate limit to that of the key."""
        usage = calls.parse_usage(self._run(calls.USAGE))
        self._pace.set_limit(usage["rate"]["perMin"])
        return usage

    def send(self, call: Call) -> HttpResponse:
        """Send a call and return the raw response."""
        if not self._pace.has_limit and self.requests >= self._unpaced:
            with self._limit_lock:
                if not self._pace.has_limit:
                    self.usage()
        return self._run(call)

    def _pages(self, call: Call, convert: Callable[[dict[str, Any]], Row]) -> Iterator[Page[Row]]:
        while True:
            page = calls.parse_page(self.send(call), convert)
            yield page
            if page.next_cursor is None:
                return
            call = calls.next_page(call, page.next_cursor)

    def _run(self, call: Call) -> HttpResponse:
        steps = conversation(call, self._pace, self._environment)
        outcome: Outcome | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                response: HttpResponse = end.value
                return response
            if isinstance(step, Sleep):
                self.on_wait(step.reason, step.seconds)
                self._sleep(step.seconds)
                self.on_wait("", 0.0)
            else:
                self.requests += 1
                outcome = self._connection.get(step)
            if self._closed.is_set():
                raise Unreachable("the client was closed during the call")


class AsyncClient:
    """The client for asyncio, with the same methods as `Client`. Tasks may share a client."""

    def __init__(
        self,
        base_url: str,
        key: str,
        *,
        per_min: int | None = None,
        timeout_sec: float = TIMEOUT_SEC,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        environment: Environment = SYSTEM_ENVIRONMENT,
    ) -> None:
        self.base_url = checked_url(base_url)
        self._http = httpx.AsyncClient(**client_options(self.base_url, key, timeout_sec), transport=transport)
        self._response_sec = TIMEOUTS_PER_RESPONSE * timeout_sec
        self._pace = Pace(per_min)
        self._limit_lock = asyncio.Lock()
        self._sleep = sleep
        self._environment = environment
        self.requests = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def shops(self) -> list[Shop]:
        return list((await self.shop_page()).data)

    async def shop_page(self) -> Page[Shop]:
        return calls.parse_page(await self.send(calls.SHOPS), calls.to_shop)

    async def bills(self, shop_id: str, **selection: Unpack[Selection]) -> AsyncIterator[Bill]:
        async for page in self.bill_pages(shop_id, **selection):
            for bill in page.data:
                yield bill

    async def bill_pages(self, shop_id: str, **selection: Unpack[Selection]) -> AsyncIterator[Page[Bill]]:
        for call in calls.bill_windows(shop_id, **selection):
            async for page in self._pages(call, calls.to_bill):
                yield page

    async def bill(self, bill_id: str) -> Bill:
        return calls.parse_object(await self.send(calls.bill(bill_id)), calls.to_bill)

    def change_pages(self, **paging: Unpack[FeedPaging]) -> AsyncIterator[Page[Change]]:
        return self._pages(calls.changes(**paging), calls.to_change)

    def digest_pages(self, **selection: Unpack[DigestSelection]) -> AsyncIterator[Page[DayDigest]]:
        return self._pages(calls.digests(**selection), calls.to_digest)

    async def members(self, provider_id: str, **paging: Unpack[Paging]) -> AsyncIterator[Member]:
        async for page in self.member_pages(provider_id, **paging):
            for member in page.data:
                yield member

    def member_pages(self, provider_id: str, **paging: Unpack[Paging]) -> AsyncIterator[Page[Member]]:
        return self._pages(calls.members(provider_id, **paging), calls.to_member)

    async def member(self, token: str) -> Member:
        return calls.parse_object(await self.send(calls.member(token)), calls.to_member)

    async def lookup(self, provider_id: str, messaging_user_id: str) -> str:
        return calls.parse_object(await self.send(calls.lookup(provider_id, messaging_user_id)), calls.to_token)

    async def usage(self) -> Usage:
        usage = calls.parse_usage(await self._run(calls.USAGE))
        self._pace.set_limit(usage["rate"]["perMin"])
        return usage

    async def send(self, call: Call) -> HttpResponse:
        if not self._pace.has_limit and self.requests:
            async with self._limit_lock:
                if not self._pace.has_limit:
                    await self.usage()
        return await self._run(call)

    async def _pages(self, call: Call, convert: Callable[[dict[str, Any]], Row]) -> AsyncIterator[Page[Row]]:
        while True:
            page = calls.parse_page(await self.send(call), convert)
            yield page
            if page.next_cursor is None:
                return
            call = calls.next_page(call, page.next_cursor)

    async def _run(self, call: Call) -> HttpResponse:
        steps = conversation(call, self._pace, self._environment)
        outcome: Outcome | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                response: HttpResponse = end.value
                return response
            if isinstance(step, Sleep):
                await self._sleep(step.seconds)
            else:
                self.requests += 1
                outcome = await self._send(step)

    async def _send(self, call: Call) -> Outcome:
        try:
            async with (
                asyncio.timeout(self._response_sec),
                self._http.stream("GET", f"{self.base_url}/{call.path}", params=call.query) as response,
            ):
                if response.is_stream_consumed:
                    return complete(response)
                body = bytearray()
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > MAX_BODY_BYTES:
                        break
                return decompressed(response, body)
        except TimeoutError:
            return too_slow(self._response_sec)
        except FAILURES as error:
            return no_response(error)
