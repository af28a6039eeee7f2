"""Fetches the pages for a pull, while earlier pages are written. Rows are kept as raw JSON bytes."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue

import msgspec
from msgspec import Raw, Struct

from counterfoil.client import calls
from counterfoil.client.api import Client
from counterfoil.client.conversation import Call, HttpResponse

JOIN_SEC = 2.0
# Give up on a list after this many restarts, so that a pull cannot go on forever.
MAX_RESTARTS = 100


class RawPage(Struct, frozen=True):
    """A page whose rows are raw JSON bytes."""

    data: list[Raw]
    server_time: str = msgspec.field(name="serverTime")
    next_cursor: str | None = msgspec.field(name="nextCursor", default=None)


class Tally(Struct):
    """The progress of a pull: counts, times, and the list that is being read."""

    shops: int = 0
    shops_done: int = 0
    bases: int = 0
    bases_done: int = 0
    out_of_scope: int = 0
    requests: int = 0
    bills_read: int = 0
    bills_written: int = 0
    members_read: int = 0
    members_written: int = 0
    members_vanished: int = 0
    remaining: int | None = None
    reading: str = ""
    list_share_done: float = 0.0
    writing_sec: float = 0.0
    waiting_sec: float = 0.0

    @property
    def share_done(self) -> float:
        """The fraction of the work that is done, from 0 to 1. `list_share_done` is the same for the current list."""
        return min(1.0, (self.shops_done + self.bases_done + self.list_share_done) / max(1, self.shops + self.bases))


_decode = msgspec.json.Decoder(RawPage).decode


class Pages:
    """Fetches pages, updates the tally and reports progress."""

    def __init__(self, client: Client, tally: Tally, on_progress: Callable[[Tally], None]) -> None:
        self._client = client
        self._tally = tally
        self._on_progress = on_progress
        self._fetcher = _FetchThread(client.send)

    def close(self) -> None:
        self._fetcher.close()

    def fetch(self, call: Call) -> RawPage:
        return self.wait_for(self.start(call))

    def start(self, call: Call) -> "Future[HttpResponse]":
        return self._fetcher.start(call)

    def wait_for(self, pending: "Future[HttpResponse]") -> RawPage:
        """Wait for a page and return it."""
        began = time.monotonic()
        try:
            response = pending.result()
        finally:
            self._tally.waiting_sec += time.monotonic() - began
            self._tally.requests += 1
        self._tally.remaining = calls.remaining(response)
        self._on_progress(self._tally)
        return calls.decode_body(response, _decode)


class _FetchThread:
    """A thread that sends the calls. `close` waits for it only briefly, in case the service hangs."""

    def __init__(self, send: Callable[[Call], HttpResponse]) -> None:
        self._send = send
        self._queue: SimpleQueue[tuple[Call, Future[HttpResponse]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="page-ahead", daemon=True)
        self._thread.start()

    def start(self, call: Call) -> "Future[HttpResponse]":
        pending: Future[HttpResponse] = Future()
        self._queue.put((call, pending))
        return pending

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join(JOIN_SEC)

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            call, pending = job
            if not pending.set_running_or_notify_cancel():
                continue
            try:
                pending.set_result(self._send(call))
            except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits for the page
                pending.set_exception(error)
