"""A whole service in a temporary folder, with a clock that tests control.

Tests run the real application on the real HTTP server, on a free port. Only the
clock is replaced.
"""

import asyncio
import contextlib
import secrets
import socket
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from granian.constants import HTTPModes, Interfaces
from granian.server.embed import Server

import servers
from actors import OPERATOR
from counterfoil import bootstrap, key_issuing, settings
from counterfoil.domain.access import Scope
from counterfoil.ingest.lines import SourceLine
from counterfoil.ingest.pipeline import LoadRules, Pipeline, RejectsFile, Summary
from counterfoil.ingest.sources import Source
from counterfoil.machine.addresses import is_listening
from counterfoil.observe import Event
from counterfoil.serving.server import BACKLOG, LIMITS
from empty_store import copy_empty_store
from openapi_check import openapi_document
from quick_client import QuickClient
from waiting import until

SECRET = "a deployment secret for tests only, long enough"
START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z, 07:00 in Thailand


# Tests with this parameter run on both back ends. On PostgreSQL they take minutes, so only `make test-long` runs them
# there.
DEPLOYMENTS = ("sqlite", pytest.param("postgres", marks=pytest.mark.long))


@contextlib.contextmanager
def backend_settings(deployment: str) -> Iterator[dict[str, str]]:
    """Yield the settings for this back end: none for SQLite, or the address of an empty PostgreSQL database."""
    if deployment == "sqlite":
        yield {}
        return
    server = servers.postgres(18)
    database, url = server.borrow_database()
    yield {"store": url}
    server.return_database(database)


class ManualClock:
    """A wall clock and a monotonic clock that tests control.

    `step` moves only the wall clock, as an operator or NTP would.
    """

    def __init__(self, now_ms: int = START_MS) -> None:
        self._now_us = now_ms * 1000
        self._steady_us = 1_000_000_000

    def now_ms(self) -> int:
        return self._now_us // 1000

    def steady_us(self) -> int:
        return self._steady_us

    def boot_id(self) -> str:
        return "one boot"

    def advance(self, seconds: float) -> None:
        self._now_us += round(seconds * 1_000_000)
        self._steady_us += round(seconds * 1_000_000)

    def step(self, seconds: float) -> None:
        self._now_us += round(seconds * 1_000_000)


class RecordSource(Source):
    """Records and raw lines from a test. `records` may be a generator that runs code between two records."""

    def __init__(self, records: Iterable[Any]) -> None:
        super().__init__("test", None)
        self._records = records

    def lines(self) -> Iterator[SourceLine]:
        for number, record in enumerate(self._records, 1):
            text = record if isinstance(record, bytes) else msgspec.json.encode(record)
            yield SourceLine("test", number, text)


class RunningService:
    """One deployment, with methods for the actions of operators and integrators."""

    port: int | None = None  # None means any free port.

    def __init__(self, folder: Path, **overrides: Any) -> None:
        self.folder = folder
        self.clock: ManualClock = overrides.pop("clock", None) or ManualClock()
        self.events: list[Event] = []
        flags = {"store": str(folder / "store"), "secret": SECRET, **overrides}
        self.settings = settings.load(flags, environment={})
        # Databases of tests and copies of the empty store are migrated. To prepare them again would take 10 ms.
        if not self.settings.database and self.settings.store.exists():
            bootstrap.store(self.settings, self.clock).prepare()
        elif not self.settings.database:
            copy_empty_store(self.settings.store)
        self.ledger = bootstrap.store(self.settings, self.clock).ledger()
        self.key_store = bootstrap.store(self.settings).key_store()
        self._pseudonyms = bootstrap.pseudonyms(self.settings)
        self._server: ServerThread | None = None

    # --- the operator ------------------------------------------------------------

    def load(self, *records: Any, batch: int = 500, strict: bool = False) -> Summary:
        rejects = RejectsFile(self.folder / "rejects.ndjson")
        pipeline = Pipeline(self.ledger, self._pseudonyms, rejects, LoadRules(batch=batch, strict=strict))
        return pipeline.load(RecordSource(list(records)))

    def key(self, *, shop: str = "", franchise: str = "", **terms: Any) -> str:
        scope = Scope("shop", shop) if shop else Scope("franchise", franchise)
        grant = key_issuing.Grant(scope=scope, **terms)
        return key_issuing.issue(self.key_store, grant, secrets.token_bytes, self.clock.now_ms(), OPERATOR).text

    def key_for(self, of: dict[str, Any], *records: Any, **terms: Any) -> str:
        """Load a shop and these records; return a key for the shop."""
        self.load(of, *records)
        return self.key(shop=of["id"], **terms)

    def rotated(self, key: str) -> str:
        """Rotate this key; return its successor."""
        key_id = key.split("_")[2]
        known = [each.key_id for each in self.key_store.all()]
        successor = key_issuing.rotate(
            self.key_store, key_id, secrets.token_bytes, self.clock.now_ms(), OPERATOR, known_successors=known
        ).text
        # A running service reloads the keys within a second, so later requests see the change.
        self.clock.advance(1)
        return successor

    def tick(self, seconds: float = 1) -> int:
        """Advance the clock and the horizon, as the supervisor does; return the horizon. It covers all loads so far."""
        self.clock.advance(seconds)
        return self.ledger.advance_horizon()

    def prune_cursors(self) -> int:
        """Delete expired cursors, as the service does every hour; return the count."""
        with contextlib.closing(bootstrap.store(self.settings, self.clock).usage()) as usage:
            return usage.prune_cursors()

    def restart(self) -> None:
        """Stop the server. The next request starts it again."""
        if self._server:
            self._server.stop()
            self._server = None

    def token(self, member_id: str) -> str:
        return self._pseudonyms.member_token(member_id)

    # --- the integrator ----------------------------------------------------------

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    @property
    def server(self) -> "ServerThread":
        if self._server is None:
            service = bootstrap.service(self.settings, self.events.append, self.clock)
            self._server = ServerThread(service, self.port)
        return self._server

    def get(self, path: str, key: str | None = None, *, method: str = "GET", **asked: Any) -> httpx.Response:
        answer = self.get_unchecked(path, key, method=method, **asked)
        openapi_document(self.settings.prefix).check(path, method, answer)
        return answer

    def get_unchecked(
        self,
        path: str,
        key: str | None = None,
        *,
        method: str = "GET",
        headers: dict[str, str] | None = None,
        **query: Any,
    ) -> httpx.Response:
        """Return a response without checking it against the OpenAPI document."""
        sent = {"authorization": f"Bearer {key}"} if key else {}
        url = f"{self.url}{self.settings.prefix}/v1/{path}"
        return self.server.client.request(method, url, params=query or None, headers={**sent, **(headers or {})})

    def events_so_far(self) -> list[Event]:
        """Return the events of all requests so far.

        An event is emitted just after the response, so one more request is sent to
        make sure that no event is missing.
        """
        look = "a-look-at-the-events"
        self.get("openapi.json", headers={"x-request-id": look})
        return [event for event in self.events if getattr(event, "request_id", None) != look]

    def data(self, path: str, key: str, **query: Any) -> Any:
        answer = self.get(path, key, **query)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def pages(self, path: str, key: str, **query: Any) -> Iterator[Any]:
        """Yield the bodies of a list that is read to its end."""
        cursor: dict[str, Any] = {}
        while cursor != {"cursor": None}:
            body = self.get(path, key, **query, **cursor).json()
            assert body["ok"], body
            yield body
            cursor = {"cursor": body["nextCursor"]}

    def error(self, path: str, key: str | None = None, **query: Any) -> str:
        body = self.get(path, key, **query).json()
        assert body["ok"] is False
        return str(body["error"])

    def close(self) -> None:
        self.restart()
        self.ledger.close()
        self.key_store.close()


class ServerThread:
    """The real HTTP server, in a thread of the test process."""

    def __init__(self, service: bootstrap.Service, port: int | None = None) -> None:
        self.service = service
        self.port = port or free_port()
        self.client = QuickClient(self.port)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        until(lambda: is_listening("127.0.0.1", self.port), "the server accepts connections")

    def stop(self) -> None:
        self.client.close()
        self._loop.call_soon_threadsafe(self._server.stop)
        self._thread.join(10)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._server = Server(
            self.service.app,
            port=self.port,
            interface=Interfaces.RSGI,
            http=HTTPModes.http1,
            websockets=False,
            backlog=BACKLOG,
            http1_settings=LIMITS,
            log_enabled=False,
        )
        await self._server.serve()
        self.service.close()
        # Closing the service stops background tasks; let them finish before the event loop ends.
        ending = asyncio.all_tasks() - {asyncio.current_task()}
        if ending:
            await asyncio.wait(ending, timeout=5)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """Reserve a port for the duration of the block and yield it. A server with SO_REUSEPORT can still listen on it."""
    with socket.socket() as placeholder:
        placeholder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        placeholder.bind(("127.0.0.1", 0))
        yield int(placeholder.getsockname()[1])
