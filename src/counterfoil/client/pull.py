"""Keep a copy: all shops, their bills first in windows and then by change, each membership base in full.

The order of things is the promise (docs/sync.md): the mark for the next run is
taken before the first page, rows and progress are written together, and the
mark moves only when the last page is in.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date

import msgspec
from msgspec import Struct

from counterfoil.client import calls, progress
from counterfoil.client.api import Client
from counterfoil.client.errors import CounterfoilError, NotThisService, Refusal, is_bad_cursor
from counterfoil.client.members import MemberPass
from counterfoil.client.pages import Pages, RawPage, Tally
from counterfoil.client.progress import Journey, Origin, ShopState, State
from counterfoil.client.sinks import Sink
from counterfoil.client.talk import Call

# Pages gathered before the copy is written: a transaction costs more than a page.
PAGES_A_BATCH = 25
BATCH_BYTES = 16 * 1024 * 1024
BATCH_SEC = 5.0
# A list that is begun anew this often without coming to its end never will.
MOST_RESTARTS = 100


class Options(Struct, frozen=True, kw_only=True):
    since: date | None = None
    members_every_sec: float = 0.0
    limit: int = calls.MAX_LIMIT
    pages_a_batch: int = PAGES_A_BATCH
    adopt: bool = False


class ShopHead(Struct):
    """As much of a shop as its reading needs."""

    shop_id: str = msgspec.field(name="shopId")
    shop_name: str | None = msgspec.field(name="shopName", default=None)
    provider_id: str | None = msgspec.field(name="providerId", default=None)


class _BillHead(Struct):
    bill_date: str | None = msgspec.field(name="billDate", default=None)
    updated_at: str | None = msgspec.field(name="updatedAt", default=None)


_shop_head = msgspec.json.Decoder(ShopHead).decode
_bill_head = msgspec.json.Decoder(_BillHead).decode


class Puller:
    """One copy of what one key can read."""

    def __init__(
        self,
        client: Client,
        sink: Sink,
        options: Options | None = None,
        on_progress: Callable[[Tally], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._sink = sink
        self._options = options or Options()
        self.tally = Tally()
        self._pages = Pages(client, self.tally, on_progress)

    def close(self) -> None:
        self._pages.close()

    def run(self) -> Tally:
        """Bring the copy up to date. Whatever ends it early, the next run goes on from there."""
        state = progress.read(self._sink.state())
        progress.claim(state, self._origin(), adopt=self._options.adopt)
        self.tally.reading = "shops"
        shops = self._pages.fetch(calls.SHOPS)
        heads = [_shop_head(row) for row in shops.data]
        with self._writing(state):
            self._sink.put_shops([bytes(row) for row in shops.data], shops.server_time)
        bases = list(dict.fromkeys(head.provider_id for head in heads if head.provider_id))
        self.tally.shops, self.tally.bases = len(heads), len(bases)
        for head in heads:
            with self._left_out_of_scope():
                self._read_shop(state, head, self._mark(shops))
                self.tally.shops_done += 1
        self._read_members(state, bases, shops.server_time)
        self._sink.publish()
        return self.tally

    def _origin(self) -> Origin:
        origin = origin_of(self._client)
        self.tally.requests += 1
        return origin

    def _mark(self, shops: RawPage) -> str:
        """From when the next run has to read. It was told before the first page of bills."""
        return shops.server_time

    # --- bills ---------------------------------------------------------------------

    def _read_shop(self, state: State, head: ShopHead, mark: str) -> None:
        """The journey that an earlier run left behind, then the way from there to now."""
        shop = state.shops.setdefault(head.shop_id, ShopState())
        while shop.mark != mark:
            journey = self._journey(shop, mark)
            for rows, after in self._batches(head, journey, mark):
                shop.journey = after
                shop.mark = shop.mark if after else journey.mark
                with self._writing(state):
                    self.tally.bills_written += self._sink.put_bills(head.shop_id, rows)

    def _journey(self, shop: ShopState, mark: str) -> Journey:
        if shop.journey:
            return progress.trusted(shop.journey, mark)
        if shop.mark:
            return progress.increment(mark, shop.mark)
        return progress.first_journey(mark, self._options.since)

    def _batches(self, head: ShopHead, journey: Journey, mark: str) -> Iterator[tuple[list[bytes], Journey | None]]:
        """Rows, and where the journey stands after them. While a batch is written the next page is on its way."""
        batch = _Batch()
        restarts = 0
        at: Journey | None = journey
        coming = self._pages.start(_call(head.shop_id, journey, self._options.limit))
        while at is not None:
            self._tell(head, at)
            try:
                page = self._pages.take(coming)
            except CounterfoilError as error:
                restarts += 1
                if not is_bad_cursor(error) or restarts > MOST_RESTARTS:
                    yield batch.rows, at  # what was read need not be asked for again
                    raise
                at = progress.restarted(at)
            else:
                batch.add(self._wanted(at, page))
                at = progress.turned(at, page.next_cursor, len(page.data), mark, self._options.since)
            if at is not None:
                coming = self._pages.start(_call(head.shop_id, at, self._options.limit))
            if at is None or batch.is_full(self._options.pages_a_batch):
                yield batch.rows, at
                batch = _Batch()

    def _wanted(self, journey: Journey, page: RawPage) -> list[bytes]:
        """The page's rows without those that this first reading has seen in a window."""
        self.tally.bills_read += len(page.data)
        reached = _bill_head(page.data[-1]).updated_at if page.data else None
        self.tally.begun = progress.part(journey, reached, self._options.since)
        if journey.known_from is None:
            return [bytes(row) for row in page.data]
        return [bytes(row) for row in page.data if not progress.shown_before(journey, _bill_head(row).bill_date)]

    def _tell(self, head: ShopHead, journey: Journey) -> None:
        name = head.shop_name or head.shop_id
        if journey.first is not None:
            self.tally.reading = f"{name}: {journey.first} to {journey.last}"
        else:
            what = "changes" if journey.known_from is None else "bills without a date"
            self.tally.reading = f"{name}: {what}"

    # --- members -------------------------------------------------------------------

    def _read_members(self, state: State, bases: list[str], mark: str) -> None:
        passing = MemberPass(self._pages, self._sink, self.tally, self._options.limit, self._options.pages_a_batch)
        for provider_id in bases:
            with self._left_out_of_scope():
                passing.read(state, provider_id, mark, self._options.members_every_sec)
                self.tally.bases_done += 1

    @contextmanager
    def _left_out_of_scope(self) -> Iterator[None]:
        """A shop or base that went to another owner since the shops were listed: the next run will not see it."""
        self.tally.begun = 0.0
        try:
            yield
        except Refusal as refusal:
            if refusal.code not in ("shop_not_in_scope", "provider_not_in_scope"):
                raise
            self.tally.out_of_scope += 1

    # --- writing -------------------------------------------------------------------

    @contextmanager
    def _writing(self, state: State) -> Iterator[None]:
        """Rows and progress in one transaction: both or neither survive."""
        began = time.monotonic()
        with self._sink.transaction():
            yield
            self._sink.save_state(progress.written(state))
        self.tally.writing_sec += time.monotonic() - began


class _Batch:
    """Rows gathered until writing them is worth a transaction."""

    def __init__(self) -> None:
        self.rows: list[bytes] = []
        self._pages = 0
        self._bytes = 0
        self._began = time.monotonic()

    def add(self, rows: list[bytes]) -> None:
        self.rows += rows
        self._pages += 1
        self._bytes += sum(map(len, rows))

    def is_full(self, pages: int) -> bool:
        return self._pages >= pages or self._bytes > BATCH_BYTES or time.monotonic() - self._began > BATCH_SEC


def origin_of(client: Client) -> Origin:
    """Where a copy of what this client reads comes from."""
    try:
        usage = client.usage()
    except Refusal as refusal:
        if refusal.code == "not_found":  # a path of the service that is none of the API's
            raise NotThisService(
                f"there is no API at {client.base_url}; its address most often ends in /ext/v1", refusal.request_id
            ) from refusal
        raise
    return Origin(client.base_url, usage["keyId"], usage["scope"])


def _call(shop_id: str, journey: Journey, limit: int) -> Call:
    if journey.since is not None:
        return calls.bills(shop_id, updated_since=journey.since, limit=limit, cursor=journey.cursor)
    return calls.bills(shop_id, first=journey.first, last=journey.last, limit=limit, cursor=journey.cursor)
