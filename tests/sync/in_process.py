"""A complete service that runs in this process. A test may replace parts of the store with faulty parts.

The application itself is the shipped application. Only the network is left out:
`InProcess` is an HTTP transport, so tests use the real clients.
"""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import msgspec

from counterfoil import bootstrap
from counterfoil.backends.sqlite.books import SqliteBooks
from counterfoil.backends.sqlite.keys import SqliteKeyLookup
from counterfoil.backends.sqlite.ledger import SqliteLedger
from counterfoil.backends.sqlite.usage import SqliteCursors, SqliteUsage
from counterfoil.client.connection import Call, Connection, HttpResponse
from counterfoil.http.app import App, RouteTable
from counterfoil.http.gate import Gate
from counterfoil.http.wire import EntityTags
from counterfoil.ports import ServingPorts
from counterfoil.reads import Reads
from raw_http import AppRequest, AppResponse, Headers
from running_service import RunningService

Json = dict[str, Any]


class StoreParts(msgspec.Struct, frozen=True):
    """The parts of the store that a test may replace."""

    ledger: type[SqliteLedger] = SqliteLedger
    books: type[SqliteBooks] = SqliteBooks
    cursors: type[SqliteCursors] = SqliteCursors


class InProcessService(RunningService):
    """A service whose application uses the given parts of the store."""

    def __init__(self, folder: Path, parts: StoreParts, **settings: Any) -> None:
        super().__init__(folder, **settings)
        served = self._open(parts)
        self._numbers = iter(range(10**9))
        self.app = self.application(served)
        self._close_parts = served.close
        self._loop = asyncio.new_event_loop()
        self._turn = threading.Lock()

    def application(self, served: ServingPorts) -> App:
        """Return the shipped application, built on these ports."""
        reads = Reads(
            books=served.books,
            cursors=served.cursors,
            meter=served.meter,
            pseudonyms=bootstrap.pseudonyms(self.settings),
            clock=self.clock,
            new_id=self._new_id,
        )
        return App(
            routes=RouteTable(self.settings.prefix),
            gate=Gate(served.key_lookup, served.meter, self.clock),
            reads=reads,
            request_log=served.request_log,
            openapi=b"{}",
            tags=EntityTags(bootstrap.pseudonyms(self.settings).tag_key()),
            observe=lambda _: None,
            clock=self.clock,
            new_id=self._new_id,
        )

    def _new_id(self) -> str:
        return f"{next(self._numbers):08}"

    def _open(self, parts: StoreParts) -> ServingPorts:
        store, fingerprint = self.settings.store, bootstrap.pseudonyms(self.settings).fingerprint()
        self.ledger.close()
        self.ledger = parts.ledger(store, self.clock, fingerprint)
        self.books = parts.books(store)
        self.books.clock = self.clock  # type: ignore[attr-defined]  # for faulty books that read the clock
        usage = SqliteUsage(store, self.clock)
        cursors = parts.cursors(usage.connection, self.clock)

        def close() -> None:
            for part in (usage, self.books):
                part.close()

        return ServingPorts(self.books, SqliteKeyLookup(store, self.clock), usage, usage, cursors, close)

    def close(self) -> None:
        self._close_parts()
        # The event loop must run once more, because that is when it closes connections to a server.
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()
        super().close()

    def pause(self, seconds: float) -> None:
        """Let time pass while a client pauses."""
        self.clock.advance(seconds)

    def answer(self, path: str, query: str, headers: dict[str, str]) -> AppResponse:
        """Return the application's response. Calls from several threads are serialised."""
        request = AppRequest(path, query, Headers(host="counterfoil", **headers))
        reply = AppResponse()
        with self._turn:
            self._loop.run_until_complete(self.app.__rsgi__(request, reply))
        return reply

    def ask(self, key: str, path: str, **query: Any) -> Json:
        """Return the body of a response, whether or not the request succeeded."""
        written = str(httpx.QueryParams(query))
        headers = {"authorization": f"Bearer {key}"}
        body: Json = msgspec.json.decode(self.answer(f"{self.settings.prefix}/v1/{path}", written, headers).body)
        return body


class InProcessServiceOnPostgres(InProcessService):
    """The same service on PostgreSQL. Its parts cannot be replaced by faulty ones."""

    def _open(self, parts: StoreParts) -> ServingPorts:
        assert parts == StoreParts(), "only SQLite supports faulty parts"
        return bootstrap.serving_ports(self.settings, lambda _: None, self.clock)


def in_process(service: InProcessService, before: Callable[[], None]) -> Callable[[str, str, float], Connection]:
    """Return connections without a network. `before` is called before each request; it may load data or raise."""

    class InProcess(Connection):
        def get(self, call: Call) -> HttpResponse:
            before()
            path = f"{service.settings.prefix}/v1/{call.path}"
            reply = service.answer(path, urlencode(call.query), {"authorization": self._headers["authorization"]})
            return HttpResponse(reply.status, dict(reply.headers), reply.body)

    return InProcess


class InProcessServiceOverHttp(InProcessService):
    """The same service over HTTP, with the shipped server."""

    def answer(self, path: str, query: str, headers: dict[str, str]) -> AppResponse:
        received = self.server.client.get(f"{self.url}{path}", params=query, headers=headers)
        return AppResponse(received.status_code, _unpacked(received.headers), received.content)


def _unpacked(headers: httpx.Headers) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers.items() if name not in ("content-encoding", "content-length")]
