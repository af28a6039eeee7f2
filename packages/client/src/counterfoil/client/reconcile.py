"""Compares a copy with the service, and can fix the differences.

Shops and days are compared by the service's digests, and only the bills of days that differ are read. A deep comparison
reads everything and compares every row. Bills that changed or were removed since the last pull do not count as
different, because the next pull reads them.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import date, timedelta
from decimal import Decimal
from functools import partial
from typing import TypeVar

import msgspec
from msgspec import Struct

from counterfoil.client import calls, pull_state
from counterfoil.client.api import Client
from counterfoil.client.calls import MAX_ATTEMPTS, WINDOW_DAYS, decode_raw_page
from counterfoil.client.connection import Call
from counterfoil.client.errors import CopyMismatch, CounterfoilError, Refusal, is_bad_cursor
from counterfoil.client.feed import ELEMENT_TYPES, Element, decode_feed_page
from counterfoil.client.lost_rows import note_lost_rows
from counterfoil.client.models import Page
from counterfoil.client.pull import Options, Puller, missing_feed, origin_of
from counterfoil.client.pull_state import State, Tally
from counterfoil.client.row_comparison import LeftOut, RowComparison, RowDifferences
from counterfoil.client.sinks.sql import BillKey, ShopDayTotals, Sink, bill_head

NO_BILLS = ShopDayTotals(0, 0, Decimal(0), Decimal(0), "0")
# The totals of a day in the service and in the copy.
Sides = tuple[ShopDayTotals, ShopDayTotals]


class Difference(Struct, frozen=True, kw_only=True):
    """A day (None: undated bills) with bills that only the service has, that only the copy has, or that differ."""

    shop_id: str
    day: str | None
    service: ShopDayTotals
    copy: ShopDayTotals
    missing: int
    removed: int
    different: int
    is_fixed: bool


class _Digest(ShopDayTotals, frozen=True, rename="camel"):
    shop_id: str
    day: str | None

    def __post_init__(self) -> None:
        calls.checked_amount(self.net)
        calls.checked_amount(self.tip)
        if self.day is not None:
            date.fromisoformat(self.day)


_decode_digests = msgspec.json.Decoder(Page[_Digest]).decode

Row = TypeVar("Row")
Key = TypeVar("Key")
Picked = TypeVar("Picked")


class Comparison(Struct):
    """The result of a comparison: days compared, shops that were not, and tables that differ in a deep one."""

    tally: Tally = msgspec.field(default_factory=Tally)
    tables: list[RowDifferences] = msgspec.field(default_factory=list)
    left_out: LeftOut = LeftOut()
    unread: list[str] = msgspec.field(default_factory=list)
    is_first_pull_finished: bool = True
    days: int = 0
    lost_tables: list[str] = msgspec.field(default_factory=list)
    # Shops that have left the key's scope and have lost rows, with the names of the tables.
    incomplete_shops: dict[str, list[str]] = msgspec.field(default_factory=dict)
    repaired_files: list[str] = msgspec.field(default_factory=list)


class Reconciler(Struct):
    """Compares all days, or those from `since` on. With `fix`, the service's data replaces the days that differ."""

    client: Client
    sink: Sink
    since: date | None = None
    fix: bool = False
    limit: int = calls.MAX_LIMIT
    result: Comparison = msgspec.field(default_factory=Comparison)

    def run(self) -> Iterator[Difference]:
        """Yield the differences. If a full pass is not finished, yield none and list all shops in `unread`."""
        state = self._complete_state()
        if state is None:
            return
        differing = self._differing_days(state)
        self.result.tally.shops = len(differing)
        yield from self._undated(state, {shop_id: days[None] for shop_id, days in differing.items() if None in days})
        for shop_id, days in sorted(differing.items()):
            yield from self._shop(state, shop_id, days)
            self.result.tally.shops_done += 1
        if self.fix:
            counts = self.sink.row_counts()
            still_lost = state.lost_tables(counts)
            self.result.lost_tables = state.lost = [name for name in self.result.lost_tables if name in still_lost]
            with self.sink.transaction():
                pull_state.save(self.sink, state, counts)
            self.result.repaired_files = self.sink.publish()

    def compare_rows(self) -> None:
        """Read everything, compare every row of every table, and list the tables that differ in `tables`.

        With `fix`, everything is then read a second time, which replaces the rows that differ. As in `run`, nothing is
        compared if a full pass has to be finished.
        """
        state = self._complete_state()
        if state is None:
            return
        comparison = RowComparison(self.client, self.sink, self.result.tally)
        comparison.read(state.selection)
        pending = self._pending(state)
        comparison.forget_pending(pending.shops, pending.listed_shops, pending.bills)
        self.result.tables = comparison.differences()
        differing = {found.table for found in self.result.tables}
        for name, (missing, extra) in self.sink.file_differences().items():
            if name not in differing:
                file = RowDifferences(table=f"{name}.parquet", missing=missing, extra=extra, different=0)
                self.result.tables.append(file)
        bills = [key for key in pending.bills if key[0] not in pending.shops]
        changed = len(bills) + len(pending.listed_shops) + self.sink.count_bills(pending.shops)
        self.result.left_out = comparison.left_out(changed)
        if self.result.tables and self.fix:
            try:
                tally = Tally(on_progress=self.result.tally.on_progress)
                repaired = Puller(self.client, self.sink, Options(full=True), tally).run()
                self.result.incomplete_shops = repaired.incomplete_shops
            finally:
                self.result.tally.requests = self.client.requests
            self.result.tables = [msgspec.structs.replace(found, is_fixed=True) for found in self.result.tables]
            self.result.lost_tables = []

    def _complete_state(self) -> State | None:
        """Return the state of the copy, or None if a full pass has to be finished first."""
        state = pull_state.decode(self.sink.state())
        if state.origin is None:
            raise CopyMismatch("there is no copy to compare. Run `counterfoil pull` first.")
        self.result.lost_tables = state.lost_tables(self.sink.row_counts())
        note_lost_rows(self.sink, state, self.result.lost_tables)
        self.result.incomplete_shops = state.incomplete
        self._require_origin(state)
        if state.feed.mark is not None:
            return state
        self.result.is_first_pull_finished = False
        self.result.unread += sorted(self.sink.shop_ids())
        return None

    def _require_origin(self, state: State) -> None:
        """Raise `CopyMismatch` if the copy is from another address or another key lineage, or if it is too old."""
        known, feed = state.origin, state.feed
        if known is None or known.url != self.client.base_url or (feed.mark is None and feed.cursor is None):
            pull_state.require_origin(known, origin_of(self.client))
            return
        try:
            next(self._pages(calls.changes(since=feed.mark, cursor=feed.cursor, limit=1), decode_feed_page))
        except Refusal as refusal:
            if is_bad_cursor(refusal):
                pull_state.require_origin(known, origin_of(self.client))
            if refusal.code in ("mark_expired", "bad_cursor"):
                raise CopyMismatch(
                    "the copy is too old to be compared, or the service was restored from a backup. "
                    "Run `counterfoil pull` first."
                ) from refusal
            if refusal.code == "not_found":
                raise missing_feed(self.client, refusal) from refusal
            raise

    def _differing_days(self, state: State) -> dict[str, dict[str | None, Sides]]:
        """Return, for each selected shop, the selected days whose digests differ, with both totals."""
        self.result.tally.reading = "digests"
        selection = state.selection
        service = self._read_list(calls.digests(first=self.since), _decode_digests, _day_totals)
        copy = self.sink.day_totals(self.since)
        left_out = self.sink.shops_that_left()
        compared = set()
        for shop_id, day in service.keys() | copy.keys():
            # The service does not return the bills of a shop that left the key's scope. The copy keeps them.
            is_kept = shop_id in left_out and (shop_id, day) not in service
            if selection.has_shop(shop_id) and selection.has_day(day) and not is_kept:
                compared.add((shop_id, day))
        self.result.days = len(compared)
        self._leave_out(left_out - {shop_id for shop_id, _ in service})
        differing: dict[str, dict[str | None, Sides]] = {}
        for shop_id, day in compared:
            served, held = service.get((shop_id, day), NO_BILLS), copy.get((shop_id, day), NO_BILLS)
            if served != held:
                differing.setdefault(shop_id, {})[day] = served, held
        return differing

    def _leave_out(self, shop_ids: Collection[str]) -> None:
        """Note that shops are not compared, because the service no longer returns their bills."""
        earlier, bills = self.result.left_out, self.sink.count_bills(shop_ids)
        self.result.left_out = LeftOut(earlier.shops + len(shop_ids), earlier.bills + bills)

    # --- the days that differ ------------------------------------------------------

    def _shop(self, state: State, shop_id: str, days: Mapping[str | None, Sides]) -> Iterator[Difference]:
        """Read only the days that differ, and compare their bills."""
        for first, last in consecutive(day for day in days if day is not None):
            self.result.tally.reading = f"shop {shop_id}: {first} to {last}"
            window = calls.bills(shop_id, first=first, last=last, limit=self.limit)
            try:
                rows = self._read_list(window, decode_raw_page, lambda row: (bill_head(row).id, bytes(row)))
            except Refusal as refusal:
                if refusal.code != "shop_not_in_scope":
                    raise
                # The shop has left the key's scope since the last pull. The next pull marks it as removed.
                self.result.days -= len(days)
                self._leave_out([shop_id])
                return
            yield from self._compare(state, shop_id, rows, self.sink.days_of_bills(shop_id, first, last), days)

    def _undated(self, state: State, shops: Mapping[str, Sides]) -> Iterator[Difference]:
        """Compare the undated bills of these shops. Only a full pass through the feed returns all undated bills."""
        if not shops:
            return
        self.result.tally.reading = "bills without a date"
        found: dict[str, dict[str, bytes]] = {shop_id: {} for shop_id in shops}
        for element in self._feed(None):
            if element.type == "bill" and element.shop_id in found:
                bill = bill_head(element.bill)
                if bill.bill_date is None:
                    found[element.shop_id][bill.id] = bytes(element.bill)
        for shop_id, rows in sorted(found.items()):
            held = self.sink.days_of_bills(shop_id)
            yield from self._compare(state, shop_id, rows, held, {None: shops[shop_id]})

    # --- comparing -----------------------------------------------------------------

    def _compare(
        self,
        state: State,
        shop_id: str,
        rows: Mapping[str, bytes],
        held: Mapping[str, str | None],
        totals: Mapping[str | None, Sides],
    ) -> Iterator[Difference]:
        """Compare the bills that the service returned with those that the copy has on the same days."""
        served = {bill_id: bill_head(row).bill_date for bill_id, row in rows.items()}
        wrong = self.sink.different_bills(shop_id, list(rows.values())) | (served.keys() ^ held.keys())
        if not wrong:
            return
        pending = self._pending(state)
        if shop_id in pending.shops:
            return
        wrong = {bill_id for bill_id in wrong if (shop_id, bill_id) not in pending.bills}
        if self.fix and wrong:
            self._overwrite_bills(state, shop_id, rows, wrong)
        for day, (service, copy) in sorted(totals.items(), key=lambda item: item[0] or ""):
            of_service = {bill_id for bill_id in wrong & served.keys() if served[bill_id] == day}
            of_copy = {bill_id for bill_id in wrong & held.keys() if held[bill_id] == day}
            if of_service or of_copy:
                yield Difference(
                    shop_id=shop_id,
                    day=day,
                    service=service,
                    copy=copy,
                    missing=len(of_service - of_copy),
                    removed=len(of_copy - of_service),
                    different=len(of_service & of_copy),
                    is_fixed=self.fix,
                )

    def _pending(self, state: State) -> "_Pending":
        """Return the changes that the next pull reads. Call this after reading bills, to include the latest changes."""
        pending = _Pending()
        for element in self._feed(state.feed.mark):
            if element.full is True or element.in_scope is False:
                pending.shops.add(element.shop_id)
            if element.type in ("shop", "shopRemoved"):
                pending.listed_shops.add(element.shop_id)
            elif element.type == "bill":
                pending.bills.add((element.shop_id, bill_head(element.bill).id))
            else:
                pending.bills.add((element.shop_id, element.id))
        return pending

    def _overwrite_bills(self, state: State, shop_id: str, rows: Mapping[str, bytes], wrong: set[str]) -> None:
        pull_state.set_write_time(self.sink, state, state.feed.as_of or "")  # It is set, because a pass has ended.
        with self.sink.transaction():
            self.sink.remove_bills([(shop_id, bill_id) for bill_id in sorted(wrong)])
            self.sink.put_bills([rows[bill_id] for bill_id in sorted(wrong & rows.keys())], None, [shop_id])
            # The next `pull --then` runs its command for these changes.
            state.changes += len(wrong)
            pull_state.save(self.sink, state, state.rows)

    # --- reading -------------------------------------------------------------------

    def _feed(self, since: str | None) -> Iterator[Element]:
        """Yield the elements of a pass through the feed. The position of the copy does not change."""
        for page in self._pages(calls.changes(since=since), decode_feed_page):
            for element in page.data:
                if element.type in ELEMENT_TYPES:
                    element.require_ids()
                    yield element

    def _read_list(
        self, call: Call, decode: Callable[[bytes], Page[Row]], pick: Callable[[Row], tuple[Key, Picked]]
    ) -> dict[Key, Picked]:
        """Read a whole list and return what `pick` takes from its rows. Start again on `bad_cursor`."""
        for _ in range(MAX_ATTEMPTS):
            picked: dict[Key, Picked] = {}
            try:
                for page in self._pages(call, decode):
                    picked.update(map(pick, page.data))
            except CounterfoilError as error:
                if not is_bad_cursor(error):
                    raise
                continue
            return picked
        raise CounterfoilError(
            f"the service refused a cursor {MAX_ATTEMPTS} times while a list of {call.path} was "
            "read. Run `counterfoil reconcile` again later."
        )

    def _pages(self, call: Call, decode: Callable[[bytes], Page[Row]]) -> Iterator[Page[Row]]:
        for page in self.client.pages(call, partial(calls.parse_page, decode=decode)):
            if call.path == "transactions":
                self.result.tally.bills_read += len(page.data)
            self.result.tally.count_response(page.remaining)
            yield page


class _Pending(Struct):
    """Changes that the copy does not have: `shops` sent in full or gone, and `listed_shops` whose own rows changed."""

    shops: set[str] = msgspec.field(default_factory=set)
    listed_shops: set[str] = msgspec.field(default_factory=set)
    bills: set[BillKey] = msgspec.field(default_factory=set)


def _day_totals(digest: _Digest) -> tuple[tuple[str, str | None], ShopDayTotals]:
    totals = ShopDayTotals(digest.bills, digest.voids, digest.net, digest.tip, digest.hash)
    return (digest.shop_id, digest.day), totals


def consecutive(days: Iterable[str]) -> list[tuple[date, date]]:
    """Group consecutive days into windows that the service accepts; return the first and last day of each window."""
    windows: list[tuple[date, date]] = []
    for day in sorted(map(date.fromisoformat, days)):
        first, last = windows[-1] if windows else (day, day)
        if day == last + timedelta(days=1) and (day - first).days < WINDOW_DAYS:
            windows[-1] = first, day
        else:
            windows.append((day, day))
    return windows
