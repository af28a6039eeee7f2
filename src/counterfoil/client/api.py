"""The clients: a blocking one and one for asyncio. Both drive the same `conversation`.

with Client("http://127.0.0.1:8000/ext/v1", key) as api:
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

from counterfoil.client import calls, models
from counterfoil.client.calls import Paging, Selection
from counterfoil.client.connection import TIMEOUT_SEC, address, headers, received
from counterfoil.client.conversation import Call, Environment, Failed, Received, Send, Sleep, conversation
from counterfoil.client.errors import Unreachable
from counterfoil.client.models import Bill, Member, Page, Shop, Usage
from counterfoil.client.pace import Pace

Row = TypeVar("Row")

_AROUND = Environment(time.monotonic, time.time, random.random)


class Client:
    """The blocking client. Unless `per_min` is given, the service is asked for it. Threads may share a client."""

    def __init__(
        self,
        base_url: str,
        key: str,
        *,
        per_min: int | None = None,
        timeout_sec: float = TIMEOUT_SEC,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], object] | None = None,
        around: Environment = _AROUND,
    ) -> None:
        self.base_url = address(base_url)
        self._http = httpx.Client(headers=headers(key), timeout=timeout_sec, transport=transport)
        self._pace = Pace(per_min)
        self._learning = threading.Lock()
        self._closed = threading.Event()
        self._sleep = sleep or self._closed.wait
        self._around = around

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, and wake other threads that are waiting in this client."""
        self._closed.set()
        self._http.close()

    def shops(self) -> list[Shop]:
        return list(self.shop_page().data)

    def shop_page(self) -> Page[Shop]:
        """Return the shops, with the `server_time` of the answer, which is the mark for the next run."""
        return calls.page(self.ask(calls.SHOPS), models.shop)

    def bills(self, shop_id: str, **selection: Unpack[Selection]) -> Iterator[Bill]:
        for page in self.bill_pages(shop_id, **selection):
            yield from page.data

    def bill_pages(self, shop_id: str, **selection: Unpack[Selection]) -> Iterator[Page[Bill]]:
        """Yield the pages of a list of bills. Give `first` and `last` (dates), or `updated_since`."""
        return self._pages(calls.bills(shop_id, **selection), models.exact_bill)

    def bill(self, bill_id: str) -> Bill:
        return calls.one(self.ask(calls.bill(bill_id)), models.exact_bill)

    def members(self, provider_id: str, **paging: Unpack[Paging]) -> Iterator[Member]:
        for page in self.member_pages(provider_id, **paging):
            yield from page.data

    def member_pages(self, provider_id: str, **paging: Unpack[Paging]) -> Iterator[Page[Member]]:
        return self._pages(calls.members(provider_id, **paging), models.exact_member)

    def member(self, token: str) -> Member:
        return calls.one(self.ask(calls.member(token)), models.exact_member)

    def lookup(self, provider_id: str, messaging_user_id: str) -> str:
        """Return the member's token."""
        return calls.one(self.ask(calls.lookup(provider_id, messaging_user_id)), models.token)

    def usage(self) -> Usage:
        """Return the key's limits and usage, and adjust the client's own rate limit to them."""
        usage = calls.one(self._hold(calls.USAGE), models.usage)
        self._pace.learn(usage["rate"]["perMin"])
        return usage

    def ask(self, call: Call) -> Received:
        """Make any call and return the raw answer."""
        if not self._pace.known:
            with self._learning:
                if not self._pace.known:
                    self.usage()
        return self._hold(call)

    def _pages(self, call: Call, exact: Callable[[dict[str, Any]], Row]) -> Iterator[Page[Row]]:
        while True:
            page = calls.page(self.ask(call), exact)
            yield page
            if page.next_cursor is None:
                return
            call = calls.following(call, page.next_cursor)

    def _hold(self, call: Call) -> Received:
        talk = conversation(call, self._pace, self._around)
        step = next(talk)
        while True:
            outcome = None
            match step:
                case Send(asked):
                    outcome = self._send(asked)
                case Sleep(seconds):
                    self._sleep(seconds)
            if self._closed.is_set():
                raise Unreachable("this client has been closed")
            try:
                step = talk.send(outcome)
            except StopIteration as end:
                answer: Received = end.value
                return answer

    def _send(self, call: Call) -> Received | Failed:
        try:
            return received(self._http.get(f"{self.base_url}/{call.path}", params=call.query))
        except httpx.HTTPError as error:
            return Failed(f"{type(error).__name__}: {error}")


class AsyncClient:
    """The same client for asyncio. Tasks may share it."""

    def __init__(
        self,
        base_url: str,
        key: str,
        *,
        per_min: int | None = None,
        timeout_sec: float = TIMEOUT_SEC,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        around: Environment = _AROUND,
    ) -> None:
        self.base_url = address(base_url)
        self._http = httpx.AsyncClient(headers=headers(key), timeout=timeout_sec, transport=transport)
        self._pace = Pace(per_min)
        self._learning = asyncio.Lock()
        self._sleep = sleep
        self._around = around

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
        return calls.page(await self.ask(calls.SHOPS), models.shop)

    async def bills(self, shop_id: str, **selection: Unpack[Selection]) -> AsyncIterator[Bill]:
        async for page in self.bill_pages(shop_id, **selection):
            for bill in page.data:
                yield bill

    def bill_pages(self, shop_id: str, **selection: Unpack[Selection]) -> AsyncIterator[Page[Bill]]:
        return self._pages(calls.bills(shop_id, **selection), models.exact_bill)

    async def bill(self, bill_id: str) -> Bill:
        return calls.one(await self.ask(calls.bill(bill_id)), models.exact_bill)

    async def members(self, provider_id: str, **paging: Unpack[Paging]) -> AsyncIterator[Member]:
        async for page in self.member_pages(provider_id, **paging):
            for member in page.data:
                yield member

    def member_pages(self, provider_id: str, **paging: Unpack[Paging]) -> AsyncIterator[Page[Member]]:
        return self._pages(calls.members(provider_id, **paging), models.exact_member)

    async def member(self, token: str) -> Member:
        return calls.one(await self.ask(calls.member(token)), models.exact_member)

    async def lookup(self, provider_id: str, messaging_user_id: str) -> str:
        return calls.one(await self.ask(calls.lookup(provider_id, messaging_user_id)), models.token)

    async def usage(self) -> Usage:
        usage = calls.one(await self._hold(calls.USAGE), models.usage)
        self._pace.learn(usage["rate"]["perMin"])
        return usage

    async def ask(self, call: Call) -> Received:
        if not self._pace.known:
            async with self._learning:
                if not self._pace.known:
                    await self.usage()
        return await self._hold(call)

    async def _pages(self, call: Call, exact: Callable[[dict[str, Any]], Row]) -> AsyncIterator[Page[Row]]:
        while True:
            page = calls.page(await self.ask(call), exact)
            yield page
            if page.next_cursor is None:
                return
            call = calls.following(call, page.next_cursor)

    async def _hold(self, call: Call) -> Received:
        talk = conversation(call, self._pace, self._around)
        step = next(talk)
        while True:
            outcome = None
            match step:
                case Send(asked):
                    outcome = await self._send(asked)
                case Sleep(seconds):
                    await self._sleep(seconds)
            try:
                step = talk.send(outcome)
            except StopIteration as end:
                answer: Received = end.value
                return answer

    async def _send(self, call: Call) -> Received | Failed:
        try:
            return received(await self._http.get(f"{self.base_url}/{call.path}", params=call.query))
        except httpx.HTTPError as error:
            return Failed(f"{type(error).__name__}: {error}")
