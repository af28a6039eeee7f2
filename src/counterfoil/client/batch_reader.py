"""Collects pages of the change feed into batches and parses their bills, ahead of the thread that writes the copy."""

import threading
from collections.abc import Callable
from queue import Empty, Full, Queue

from msgspec import Struct

from counterfoil.client.errors import CounterfoilError
from counterfoil.client.feed import ChangePage, ChangeReader
from counterfoil.client.feed_batch import FeedBatch
from counterfoil.client.sinks import Sink, SinkError

# Pages are written in batches, because writing a batch hardly takes longer than writing a single page. A batch gets the
# pages that arrived while the previous batch was parsed and queued, up to the maximum. If there are fewer than the
# minimum, the reader waits for more.
PAGES_PER_BATCH = 12
MIN_PAGES_PER_BATCH = 4
BATCH_BYTES = 32 * 1024 * 1024
# Finish a smaller batch if the next page takes this long, for example because of the rate limit.
BATCH_SEC = 5.0
# The maximum number of parsed batches in the queue, besides the batch that is being written and the batch that is being
# parsed.
_BATCHES_AHEAD = 1
_POLL_SEC = 0.1


class BatchSource(Struct, frozen=True):
    """Where batches come from. `new_batch` returns an empty batch, and `on_page` is called for each page.

    The sink parses the bills. `pages_per_batch` is the maximum number of pages in a batch.
    """

    pages: ChangeReader
    sink: Sink
    new_batch: Callable[[], FeedBatch]
    on_page: Callable[[ChangePage], None]
    pages_per_batch: int


class BatchReader:
    """Reads the batches of one pass in a thread. The last batch has a mark or an error."""

    def __init__(self, source: BatchSource) -> None:
        self._source = source
        self._batches: Queue[FeedBatch | BaseException] = Queue(_BATCHES_AHEAD)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed-parser", daemon=True)
        self._thread.start()

    def next_batch(self, timeout_sec: float | None = None) -> FeedBatch | None:
        """Wait for the next batch and return it, or None after the timeout. If the thread failed, raise its error."""
        try:
            batch = self._batches.get(timeout=timeout_sec)
        except Empty:
            return None
        if isinstance(batch, BaseException):
            raise batch
        return batch

    def close(self) -> None:
        """Stop the thread and wait for it, because the sink must not be closed while the thread is parsing."""
        self._closed.set()
        self._source.pages.close()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._closed.is_set():
                batch = self._collect()
                self._parse(batch)
                self._put(batch)
                if batch.error is not None or batch.mark is not None:
                    return
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits for the batch
            self._put(error)

    def _collect(self) -> FeedBatch:
        """Read pages into a batch. If a request fails, keep the pages before it, so that they are not read again."""
        batch = self._source.new_batch()
        while batch.pages < self._source.pages_per_batch and batch.bytes < BATCH_BYTES and batch.mark is None:
            try:
                page = self._source.pages.next_page(_wait_sec(batch.pages))
                if page is None:
                    break
                self._source.on_page(page)
            except CounterfoilError as error:
                batch.error = error
                break
            batch.add_page(page)
        return batch

    def _parse(self, batch: FeedBatch) -> None:
        for group in batch.groups:
            if not group.bills or self._closed.is_set():
                continue
            try:
                group.parsed = self._source.sink.parse_bills(group.bills)
            except SinkError:
                # The writing thread then parses the bills itself. If that fails as well, it reports the error.
                return

    def _put(self, item: FeedBatch | BaseException) -> None:
        while not self._closed.is_set():
            try:
                self._batches.put(item, timeout=_POLL_SEC)
                return
            except Full:
                continue


def _wait_sec(pages: int) -> float | None:
    """Return how long to wait for the next page of a batch that has this many pages. None means no limit."""
    if not pages:
        return None
    return BATCH_SEC if pages < MIN_PAGES_PER_BATCH else 0.0
