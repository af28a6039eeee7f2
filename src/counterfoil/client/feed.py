"""Reads the change feed in a thread, ahead of the thread that writes the pages."""

import threading
from contextlib import suppress
from queue import Empty, Full, Queue
from typing import Any

import msgspec
from msgspec import Raw, Struct

from counterfoil.client import calls
from counterfoil.client.api import Client
from counterfoil.client.errors import CounterfoilError

JOIN_SEC = 2.0
# The maximum number of pages that wait in memory to be added to a batch. A full page is about 2 MB.
PAGES_AHEAD = 12
_POLL_SEC = 0.1


class Element(Struct):
    """An element of the feed. Fields other than `type` are not checked, so that unknown types can be decoded."""

    type: str
    shop_id: Any = msgspec.field(name="shopId", default="")
    id: Any = ""
    full: Any = False
    in_scope: Any = msgspec.field(name="inScope", default=True)
    shop: Raw = Raw(b"")
    bill: Raw = Raw(b"")


class ChangePage(Struct):
    """A page of the feed. Shops and bills are raw JSON bytes. Only the last page of a pass has a mark."""

    data: list[Element]
    server_time: str = msgspec.field(name="serverTime")
    next_cursor: str | None = msgspec.field(name="nextCursor", default=None)
    mark: str | None = None
    remaining: int | None = None


decode_feed_page = msgspec.json.Decoder(ChangePage).decode


class ChangeReader:
    """Reads the pages of one pass in a thread, starting from a given position."""

    def __init__(self, client: Client, since: str | None, cursor: str | None, limit: int) -> None:
        self._client = client
        self._since, self._cursor, self._limit = since, cursor, limit
        self._pages: Queue[ChangePage | BaseException] = Queue(PAGES_AHEAD)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed-reader", daemon=True)
        self._thread.start()

    def next_page(self, timeout_sec: float | None = None) -> ChangePage | None:
        """Wait for the next page and return it, or None after the timeout. If the request failed, raise its error."""
        try:
            page = self._pages.get(timeout=timeout_sec) if timeout_sec != 0 else self._pages.get_nowait()
        except Empty:
            return None
        if isinstance(page, BaseException):
            raise page
        return page

    def close(self) -> None:
        """Stop the thread. Wait for it only briefly, in case the service hangs."""
        self._closed.set()
        while True:
            try:
                self._pages.get_nowait()
            except Empty:
                break
        with suppress(Full):  # This wakes a thread that waits for a page.
            self._pages.put_nowait(CounterfoilError("the reader of the change feed was closed"))
        self._thread.join(JOIN_SEC)

    def _run(self) -> None:
        try:
            while not self._closed.is_set():
                page = self._fetch()
                self._put(page)
                if page.next_cursor is None:
                    return
                self._cursor = page.next_cursor
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits for the page
            self._put(error)

    def _fetch(self) -> ChangePage:
        response = self._client.send(calls.changes(since=self._since, cursor=self._cursor, limit=self._limit))
        page = calls.decode_body(response, decode_feed_page)
        if (page.next_cursor is None) == (page.mark is None):
            raise CounterfoilError(
                "the service returned an invalid page of the change feed: it must have either a cursor or a mark."
            )
        page.remaining = calls.remaining(response)
        return page

    def _put(self, item: ChangePage | BaseException) -> None:
        while not self._closed.is_set():
            try:
                self._pages.put(item, timeout=_POLL_SEC)
                return
            except Full:
                continue
