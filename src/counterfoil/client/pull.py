"""Keep a copy of all shops, their bills (first by day, later by change), and all members of each base.

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
from counterfoil.client.pages import MAX_RESTARTS, Pages, RawPage, Tally
from counterfoil.client.pull_state import Origin, ShopPass, ShopState, State
from counterfoil.client.sinks import Sink

# Pages are written in batches, because a transaction takes longer than writing a page.
PAGES_PER_BATCH = 25
BATCH_BYTES = 16 * 1024 * 1024
BATCH_SEC = 5.0


class Options(Struct, frozen=True, kw_only=True):
    since: date | None = None
    members_every_sec: float = 0.0
    limit: int = calls.MAX_LIMIT
    pages_per_batch: int = PAGES_PER_BATCH
    adopt: bool = False


class ListedShop(Struct):
    """The fields of a listed shop that a pull needs."""

    shop_id: str = msgspec.field(name="shopId")
    shop_name: str | None = msgspec.field(name="shopName", default=None)
    provider_id: str | None = msgspec.field(name="providerId", default=None)


class _BillDates(Struct):
    bill_date: str | None = msgspec.field(name="billDate", default=None)
    updated_at: str | None = msgspec.field(name="updatedAt", default=None)


_decode_shop = msgspec.json.Decoder(ListedShop).decode
_decode_bill_dates = msgspec.json.Decoder(_BillDates).decode


class Puller:
    """Updates a copy of everything that one key can read."""

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
        state = pull_state.decode(self._sink.state())
        pull_state.record_origin(state, self._origin(), adopt=self._options.adopt)
        self.tally.reading = "shops"
        shops = self._pages.fetch(calls.SHOPS)
        listed = [_decode_shop(row) for row in shops.data]
        with self._transaction(state):
            self._sink.put_shops([bytes(row) for row in shops.data], shops.server_time)
        bases = list(dict.fromkeys(shop.provider_id for shop in listed if shop.provider_id))
        self.tally.shops, self.tally.bases = len(listed), len(bases)
        for shop in listed:
            with self._skip_if_out_of_scope():
                self._read_shop(state, shop, self._mark(shops))
                self.tally.shops_done += 1
        self._read_members(state, bases, shops.server_time)
        self._sink.publish()
        return self.tally

    def _origin(self) -> Origin:
        origin = origin_of(self._client)
        self.tally.requests += 1
        return origin

    def _mark(self, shops: RawPage) -> str:
        """Return the mark for the next run. It was taken before the first page of bills, so no change is missed."""
        return shops.server_time

    # --- bills ---------------------------------------------------------------------

    def _read_shop(self, state: State, shop: ListedShop, mark: str) -> None:
        """Finish the pass of an earlier run, if there is one, then read the changes up to `mark`."""
        shop_state = state.shops.setdefault(shop.shop_id, ShopState())
        while shop_state.mark != mark:
            shop_pass = self._next_pass(shop_state, mark)
            for rows, after in self._batches(shop, shop_pass, mark):
                shop_state.shop_pass = after
                shop_state.mark = shop_state.mark if after else shop_pass.mark
                with self._transaction(state):
                    self.tally.bills_written += self._sink.put_bills(shop.shop_id, rows)

    def _next_pass(self, shop: ShopState, mark: str) -> ShopPass:
        if shop.shop_pass:
            return pull_state.without_stale_cursor(shop.shop_pass, mark)
        if shop.mark:
            return pull_state.increment(mark, shop.mark)
        return pull_state.first_pass(mark, self._options.since)

    def _batches(
        self, shop: ListedShop, shop_pass: ShopPass, mark: str
    ) -> Iterator[tuple[list[bytes], ShopPass | None]]:
        """Yield batches of rows, each with the resulting pass. The next page is fetched while a batch is written."""
        batch = _BillBatch()
        restarts = 0
        current: ShopPass | None = shop_pass
        pending = self._pages.start(_call(shop.shop_id, shop_pass, self._options.limit))
        while current is not None:
            self._report_reading(shop, current)
            try:
                page = self._pages.wait_for(pending)
            except CounterfoilError as error:
                restarts += 1
                if not is_bad_cursor(error) or restarts > MAX_RESTARTS:
                    # Save the rows read so far, so that the next run does not read them again.
                    yield batch.rows, current
                    raise
                current = pull_state.restarted(current)
            else:
                batch.add(self._rows_to_write(current, page))
                current = pull_state.after_page(current, page.next_cursor, len(page.data), mark, self._options.since)
            if current is not None:
                pending = self._pages.start(_call(shop.shop_id, current, self._options.limit))
            if current is None or batch.is_full(self._options.pages_per_batch):
                yield batch.rows, current
                batch = _BillBatch()

    def _rows_to_write(self, shop_pass: ShopPass, page: RawPage) -> list[bytes]:
        """Return the page's rows, except those whose day is covered by the day windows of this first pass."""
        self.tally.bills_read += len(page.data)
        reached = _decode_bill_dates(page.data[-1]).updated_at if page.data else None
        self.tally.list_share_done = pull_state.share_done(shop_pass, reached, self._options.since)
        if shop_pass.known_from is None:
            return [bytes(row) for row in page.data]
        return [
            bytes(row) for row in page.data if not pull_state.is_covered(shop_pass, _decode_bill_dates(row).bill_date)
        ]

    def _report_reading(self, shop: ListedShop, shop_pass: ShopPass) -> None:
        name = shop.shop_name or shop.shop_id
        if shop_pass.first is not None:
            self.tally.reading = f"{name}: {shop_pass.first} to {shop_pass.last}"
        else:
            what = "changes" if shop_pass.known_from is None else "bills without a date"
            self.tally.reading = f"{name}: {what}"

    # --- members -------------------------------------------------------------------

    def _read_members(self, state: State, bases: list[str], mark: str) -> None:
        member_pass = MemberPass(
            self._pages, self._sink, self.tally, self._options.limit, self._options.pages_per_batch
        )
        for provider_id in bases:
            with self._skip_if_out_of_scope():
                member_pass.read(state, provider_id, mark, self._options.members_every_sec)
                self.tally.bases_done += 1

    @contextmanager
    def _skip_if_out_of_scope(self) -> Iterator[None]:
        """Skip a shop or base that has left the key's scope since the shops were listed."""
        self.tally.list_share_done = 0.0
        try:
            yield
        except Refusal as refusal:
            if refusal.code not in ("shop_not_in_scope", "provider_not_in_scope"):
                raise
            self.tally.out_of_scope += 1

    # --- writing -------------------------------------------------------------------

    @contextmanager
    def _transaction(self, state: State) -> Iterator[None]:
        """Commit rows and progress in one transaction."""
        began = time.monotonic()
        with self._sink.transaction():
            yield
            self._sink.save_state(pull_state.encode(state))
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
        if refusal.code == "not_found":  # The server responded, but it has no such path.
            raise NotThisService(
                f"there is no Counterfoil API at {client.base_url}. The address usually ends in /ext/v1.",
                refusal.request_id,
            ) from refusal
        raise
    return Origin(client.base_url, usage["keyId"], usage["scope"])


def _call(shop_id: str, shop_pass: ShopPass, limit: int) -> Call:
    if shop_pass.since is not None:
        return calls.bills(shop_id, updated_since=shop_pass.since, limit=limit, cursor=shop_pass.cursor)
    return calls.bills(shop_id, first=shop_pass.first, last=shop_pass.last, limit=limit, cursor=shop_pass.cursor)
