"""Keep a copy: all shops, their bills (first by day, later by change), and all members of each base.

The copy is complete because of the order of the steps (docs/sync.md): the mark
for the next run is taken before the first page is read, rows and progress are
committed together, and the mark advances only with the last page.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date

import msgspec
from msgspec import Struct

from counterfoil.client import calls, pull_state
from counterfoil.client.api import Client
from counterfoil.client.conversation import Call
from counterfoil.client.errors import CounterfoilError, NotThisService, Refusal, is_bad_cursor
from counterfoil.client.members import MemberPass
from counterfoil.client.pages import Pages, RawPage, Tally
from counterfoil.client.pull_state import Origin, ShopPass, ShopState, State
from counterfoil.client.sinks import Sink

# A batch of pages is written in one transaction, because a transaction costs more than a page.
PAGES_A_BATCH = 25
BATCH_BYTES = 16 * 1024 * 1024
BATCH_SEC = 5.0
# Give up on a list after this many restarts, so that a pull cannot go on forever.
MOST_RESTARTS = 100


class Options(Struct, frozen=True, kw_only=True):
    since: date | None = None
    members_every_sec: float = 0.0
    limit: int = calls.MAX_LIMIT
    pages_a_batch: int = PAGES_A_BATCH
    adopt: bool = False


class ShopHead(Struct):
    """The fields of a shop that a pull needs."""

    shop_id: str = msgspec.field(name="shopId")
    shop_name: str | None = msgspec.field(name="shopName", default=None)
    provider_id: str | None = msgspec.field(name="providerId", default=None)


class _BillHead(Struct):
    bill_date: str | None = msgspec.field(name="billDate", default=None)
    updated_at: str | None = msgspec.field(name="updatedAt", default=None)


_shop_head = msgspec.json.Decoder(ShopHead).decode
_bill_head = msgspec.json.Decoder(_BillHead).decode


class Puller:
    """Brings one copy of what one key can read up to date."""

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
        """Bring the copy up to date. If a run is interrupted, the next run continues where it stopped."""
        state = pull_state.read(self._sink.state())
        pull_state.claim(state, self._origin(), adopt=self._options.adopt)
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
        """Return the mark for the next run. It is from before the first page of bills, so no change is missed."""
        return shops.server_time

    # --- bills ---------------------------------------------------------------------

    def _read_shop(self, state: State, head: ShopHead, mark: str) -> None:
        """Finish the journey of an earlier run, if there is one, then read the changes up to `mark`."""
        shop = state.shops.setdefault(head.shop_id, ShopState())
        while shop.mark != mark:
            journey = self._journey(shop, mark)
            for rows, after in self._batches(head, journey, mark):
                shop.journey = after
                shop.mark = shop.mark if after else journey.mark
                with self._writing(state):
                    self.tally.bills_written += self._sink.put_bills(head.shop_id, rows)

    def _journey(self, shop: ShopState, mark: str) -> ShopPass:
        if shop.journey:
            return pull_state.trusted(shop.journey, mark)
        if shop.mark:
            return pull_state.increment(mark, shop.mark)
        return pull_state.first_pass(mark, self._options.since)

    def _batches(self, head: ShopHead, journey: ShopPass, mark: str) -> Iterator[tuple[list[bytes], ShopPass | None]]:
        """Yield batches of rows, each with the journey after it. The next page is fetched while a batch is written."""
        batch = _BillBatch()
        restarts = 0
        at: ShopPass | None = journey
        coming = self._pages.start(_call(head.shop_id, journey, self._options.limit))
        while at is not None:
            self._tell(head, at)
            try:
                page = self._pages.take(coming)
            except CounterfoilError as error:
                restarts += 1
                if not is_bad_cursor(error) or restarts > MOST_RESTARTS:
                    yield batch.rows, at  # Save what was read, so that the next run does not read it again.
                    raise
                at = pull_state.restarted(at)
            else:
                batch.add(self._wanted(at, page))
                at = pull_state.turned(at, page.next_cursor, len(page.data), mark, self._options.since)
            if at is not None:
                coming = self._pages.start(_call(head.shop_id, at, self._options.limit))
            if at is None or batch.is_full(self._options.pages_a_batch):
                yield batch.rows, at
                batch = _BillBatch()

    def _wanted(self, journey: ShopPass, page: RawPage) -> list[bytes]:
        """Return the page's rows, without those whose day the windows of this first reading cover."""
        self.tally.bills_read += len(page.data)
        reached = _bill_head(page.data[-1]).updated_at if page.data else None
        self.tally.begun = pull_state.part(journey, reached, self._options.since)
        if journey.known_from is None:
            return [bytes(row) for row in page.data]
        return [bytes(row) for row in page.data if not pull_state.shown_before(journey, _bill_head(row).bill_date)]

    def _tell(self, head: ShopHead, journey: ShopPass) -> None:
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
        """Skip a shop or base that left the key's scope after the shops were listed; the next run does not see it."""
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
        """Commit rows and progress in one transaction."""
        began = time.monotonic()
        with self._sink.transaction():
            yield
            self._sink.save_state(pull_state.written(state))
        self.tally.writing_sec += time.monotonic() - began


class _BillBatch:
    """Rows to be written in one transaction."""

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
    """Return the origin of a copy made with this client."""
    try:
        usage = client.usage()
    except Refusal as refusal:
        if refusal.code == "not_found":  # This service has no API at this address.
            raise NotThisService(
                f"there is no API at {client.base_url}; its address most often ends in /ext/v1", refusal.request_id
            ) from refusal
        raise
    return Origin(client.base_url, usage["keyId"], usage["scope"])


def _call(shop_id: str, journey: ShopPass, limit: int) -> Call:
    if journey.since is not None:
        return calls.bills(shop_id, updated_since=journey.since, limit=limit, cursor=journey.cursor)
    return calls.bills(shop_id, first=journey.first, last=journey.last, limit=limit, cursor=journey.cursor)
