"""Reads the change feed ahead of the writer: one thread fetches pages, another makes batches and parses bills."""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from queue import Empty, Full, Queue
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from counterfoil.client import calls
from counterfoil.client.api import Client
from counterfoil.client.calls import decode_row
from counterfoil.client.connection import HttpResponse
from counterfoil.client.errors import CounterfoilError, NotThisService
from counterfoil.client.models import Page
from counterfoil.client.pull_state import CopySelection
from counterfoil.client.sinks.json_rows import ParsedRows, SinkError
from counterfoil.client.sinks.sql import BillKey, Sink, bill_head, decode_shop_head

# --- reading ahead -------------------------------------------------------------------

_POLL_SEC = 0.1
Item = TypeVar("Item")


class ReadAhead(Generic[Item]):
    """Takes items from an iterator in a thread. At most `most` of them wait in memory for the thread that uses them."""

    def __init__(self, items: Iterator[Item], most: int, name: str) -> None:
        self._items = items
        self._queue: Queue[Item | BaseException] = Queue(most)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def next(self, timeout_sec: float | None = None) -> Item | None:
        """Wait for the next item and return it, or None after the timeout. If the iterator failed, raise its error."""
        try:
            item = self._queue.get(block=timeout_sec != 0, timeout=timeout_sec)
        except Empty:
            return None
        if isinstance(item, BaseException):
            raise item
        return item

    def close(self, wait_sec: float | None = None) -> None:
        """Stop the thread and wait for it, but at most this long."""
        self._closed.set()
        with suppress(Empty):
            while True:
                self._queue.get_nowait()
        with suppress(Full):  # This wakes a thread that waits for an item.
            self._queue.put_nowait(CounterfoilError("the reader of the change feed was closed"))
        self._thread.join(wait_sec)

    def _run(self) -> None:
        try:
            for item in self._items:
                self._put(item)
                if self._closed.is_set():
                    return
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits for the item
            self._put(error)

    def _put(self, item: Item | BaseException) -> None:
        while not self._closed.is_set():
            with suppress(Full):
                self._queue.put(item, timeout=_POLL_SEC)
                return


# --- pages ---------------------------------------------------------------------------

# How long to wait for a request to end, in case the service hangs.
JOIN_SEC = 2.0
# The maximum number of pages that wait in memory to be added to a batch. A full page is about 2 MB.
PAGES_AHEAD = 12
ELEMENT_TYPES = frozenset({"bill", "billRemoved", "shop", "shopRemoved"})


class Element(Struct):
    """An element of the feed. Only elements of known types are checked, because others may have any fields."""

    type: str
    shop_id: Any = msgspec.field(name="shopId", default="")
    id: Any = ""
    full: Any = False
    in_scope: Any = msgspec.field(name="inScope", default=True)
    shop: Raw = Raw(b"")
    bill: Raw = Raw(b"")

    def require_ids(self) -> None:
        """Raise `NotThisService` if an ID is not a string."""
        if type(self.shop_id) is not str or type(self.id) is not str:
            raise NotThisService("the service returned an element without the IDs of a feed. Check the base URL.")


ChangePage = Page[Element]
decode_feed_page = msgspec.json.Decoder(ChangePage).decode


def _parse_feed_page(response: HttpResponse) -> ChangePage:
    page = calls.parse_page(response, decode_feed_page)
    if (page.next_cursor is None) == (page.mark is None):
        raise CounterfoilError(
            "the service returned an invalid page of the change feed: it must have either a cursor or a mark."
        )
    return page


def change_pages(client: Client, since: str | None, cursor: str | None, limit: int) -> Iterator[ChangePage]:
    """Return the pages of one pass, starting from a given position."""
    return client.pages(calls.changes(since=since, cursor=cursor, limit=limit), _parse_feed_page)


# --- batches of pages ----------------------------------------------------------------


class FeedGroup:
    """A group of feed elements.

    Writing its shops, then its removals and then its bills has the same result as writing them in the feed's order.

    `left_out` counts the bills of selected shops whose date is not selected. `parsed` is what `Sink.parse_bills`
    returned for `bills`, or None if they are not parsed yet.
    """

    def __init__(self, selection: CopySelection, *, is_full_pass: bool) -> None:
        self._selection = selection
        self._is_full_pass = is_full_pass
        self.full_shops: list[str] = []
        self.shops: dict[str, bytes] = {}
        # Shops that are no longer listed, and whether the key can still read their bills.
        self.removed_shops: dict[str, bool] = {}
        self.removed: list[BillKey] = []
        self.bills: list[bytes] = []
        self.parsed: ParsedRows | None = None
        self.left_out = 0
        self.bytes = 0
        self.shop_id = ""
        self.shops_with_bills: set[str] = set()

    def add(self, element: Element) -> bool:
        """Add an element of a selected shop; return False if the feed's order requires it to be in the next group."""
        kind, shop_id = element.type, element.shop_id
        if kind not in ELEMENT_TYPES or not self._selection.has_shop(shop_id):
            return True
        element.require_ids()
        if kind == "bill":
            self._add_bill(shop_id, bytes(element.bill))
            return True
        if shop_id in self.shops_with_bills or (kind != "billRemoved" and self._has_shop(shop_id)):
            return False
        self.shop_id = shop_id
        if element.full is True:
            self.full_shops.append(shop_id)
        if kind == "shop":
            if decode_row(element.shop, decode_shop_head).shop_id != shop_id:
                raise NotThisService("the service returned a shop with the ID of another one. Check the base URL.")
            self.shops[shop_id] = bytes(element.shop)
        elif kind == "shopRemoved":
            self.removed_shops[shop_id] = element.in_scope is True
        else:
            self.removed.append((shop_id, element.id))
        return True

    def _has_shop(self, shop_id: str) -> bool:
        return shop_id in self.shops or shop_id in self.removed_shops or any(key[0] == shop_id for key in self.removed)

    def _add_bill(self, shop_id: str, row: bytes) -> None:
        self.shops_with_bills.add(shop_id)
        self.shop_id = shop_id
        self.bytes += len(row)
        if self._selection.since is not None:
            bill = bill_head(row)
            if not self._selection.has_day(bill.bill_date):
                self.left_out += 1
                if not self._is_full_pass:
                    # Remove the bill, because the copy may have an earlier version of it, with a date that is selected.
                    self.removed.append((shop_id, bill.id))
                return
        self.bills.append(row)


class FeedBatch:
    """Some pages of the feed, as groups of elements. `mark`, `cursor` and `time` are those of the last page."""

    def __init__(self, selection: CopySelection, *, is_full_pass: bool) -> None:
        self._new_group = partial(FeedGroup, selection, is_full_pass=is_full_pass)
        self.groups = [self._new_group()]
        self.pages = 0
        self.time = ""
        self.mark: str | None = None
        self.cursor: str | None = None
        self.error: CounterfoilError | None = None  # Set if the request for the next page failed.

    @property
    def bytes(self) -> int:
        return sum(group.bytes for group in self.groups)

    def add_page(self, page: ChangePage) -> None:
        self.pages += 1
        self.time, self.mark, self.cursor = page.server_time, page.mark, page.next_cursor
        for element in page.data:
            if not self.groups[-1].add(element):
                self.groups.append(self._new_group())
                self.groups[-1].add(element)


# --- reading batches ahead -----------------------------------------------------------

# Pages are written in batches, because writing a batch hardly takes longer than writing a single page.
PAGES_PER_BATCH = 12
BATCH_BYTES = 32 * 1024 * 1024
# Finish a smaller batch if the next page takes this long, for example because of the rate limit.
BATCH_SEC = 5.0
# The maximum number of parsed batches in the queue, besides those that are being parsed and written.
_BATCHES_AHEAD = 1


class BatchReader:
    """Reads the batches of a pass in a thread, and pages in another. The last batch has a mark or an error."""

    def __init__(
        self,
        pages: Iterator[ChangePage],
        sink: Sink,
        new_batch: Callable[[], FeedBatch],
        on_page: Callable[[ChangePage], None],
        pages_per_batch: int = PAGES_PER_BATCH,
    ) -> None:
        self._pages = ReadAhead(pages, PAGES_AHEAD, "feed-reader")
        self._sink = sink
        self._new_batch = new_batch
        self._on_page = on_page
        self._pages_per_batch = pages_per_batch
        self._is_closed = False
        self._batches = ReadAhead(self._read(), _BATCHES_AHEAD, "feed-parser")
        self.next_batch = self._batches.next

    def close(self) -> None:
        """Stop both threads. Wait for the one that parses, because the sink must not be closed while it does."""
        self._is_closed = True
        self._pages.close(JOIN_SEC)
        self._batches.close()

    def _read(self) -> Iterator[FeedBatch]:
        while True:
            batch = self._collect()
            self._parse(batch)
            yield batch
            if batch.error is not None or batch.mark is not None:
                return

    def _collect(self) -> FeedBatch:
        """Read pages into a batch. If a request fails, keep the pages before it, so that they are not read again."""
        batch = self._new_batch()
        while batch.pages < self._pages_per_batch and batch.bytes < BATCH_BYTES and batch.mark is None:
            try:
                page = self._pages.next(BATCH_SEC if batch.pages else None)
                if page is None:
                    break
                self._on_page(page)
            except CounterfoilError as error:
                batch.error = error
                break
            batch.add_page(page)
        return batch

    def _parse(self, batch: FeedBatch) -> None:
        for group in batch.groups:
            if not group.bills or self._is_closed:
                continue
            try:
                group.parsed = self._sink.parse_bills(group.bills)
            except SinkError:
                # The writing thread then parses the bills itself. If that fails as well, it reports the error.
                return
