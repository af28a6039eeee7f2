"""The client for asyncio. It has its own module, so that programs that do not use it need not import asyncio."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from counterfoil.client import calls, models
from counterfoil.client.api import SYSTEM_ENVIRONMENT
from counterfoil.client.calls import DigestSelection, FeedPaging, Paging, Selection
from counterfoil.client.connection import TIMEOUT_SEC, checked_url, request_headers, tls_context, to_response
from counterfoil.client.conversation import Call, Environment, HttpResponse, NoResponse, Send, Sleep, conversation
from counterfoil.client.httpx_import import httpx
from counterfoil.client.models import Bill, Change, DayDigest, Member, Page, Shop, Usage
from counterfoil.client.pace import Pace

Row = TypeVar("Row")


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
        self._http = httpx.AsyncClient(
            headers=request_headers(key), timeout=timeout_sec, transport=transport, verify=tls_context(self.base_url)
        )
        self._pace = Pace(per_min)
        self._limit_lock = asyncio.Lock()
        self._sleep = sleep
        self._environment = environment

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
        return calls.parse_page(await self.send(calls.SHOPS), models.shop)

    async def bills(self, shop_id: str, **selection: Unpack[Selection]) -> AsyncIterator[Bill]:
        async for page in self.bill_pages(shop_id, **selection):
            for bill in page.data:
                yield bill

    def bill_pages(self, shop_id: str, **selection: Unpack[Selection]) -> AsyncIterator[Page[Bill]]:
        return self._pages(calls.bills(shop_id, **selection), models.with_decimal_amounts)

    async def bill(self, bill_id: str) -> Bill:
        return calls.parse_object(await self.send(calls.bill(bill_id)), models.with_decimal_amounts)

    def change_pages(self, **paging: Unpack[FeedPaging]) -> AsyncIterator[Page[Change]]:
        return self._pages(calls.changes(**paging), models.change)

    def digest_pages(self, **selection: Unpack[DigestSelection]) -> AsyncIterator[Page[DayDigest]]:
        return self._pages(calls.digests(**selection), models.digest)

    async def members(self, provider_id: str, **paging: Unpack[Paging]) -> AsyncIterator[Member]:
        async for page in self.member_pages(provider_id, **paging):
            for member in page.data:
                yield member

    def member_pages(self, provider_id: str, **paging: Unpack[Paging]) -> AsyncIterator[Page[Member]]:
        return self._pages(calls.members(provider_id, **paging), models.with_decimal_balances)

    async def member(self, token: str) -> Member:
        return calls.parse_object(await self.send(calls.member(token)), models.with_decimal_balances)

    async def lookup(self, provider_id: str, messaging_user_id: str) -> str:
        return calls.parse_object(await self.send(calls.lookup(provider_id, messaging_user_id)), models.token)

    async def usage(self) -> Usage:
        usage = calls.parse_object(await self._run(calls.USAGE), models.usage)
        self._pace.set_limit(usage["rate"]["perMin"])
        return usage

    async def send(self, call: Call) -> HttpResponse:
        if not self._pace.has_limit:
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
        step = next(steps)
        while True:
            outcome = None
            match step:
                case Send(call_to_send):
                    outcome = await self._send(call_to_send)
                case Sleep(seconds, _):
                    await self._sleep(seconds)
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                response: HttpResponse = end.value
                return response

    async def _send(self, call: Call) -> HttpResponse | NoResponse:
        try:
            return to_response(await self._http.get(f"{self.base_url}/{call.path}", params=call.query))
        except httpx.HTTPError as error:
            return NoResponse(f"{type(error).__name__}: {error}")
