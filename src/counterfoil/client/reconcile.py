"""Compares a copy with the service, and can fix the differences.

Shops and days are compared by the service's digests, and only the bills of days that differ are read. A deep comparison
reads everything and compares every row. Bills that changed or were removed since the last pull do not count as
different, because the next pull reads them.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from counterfoil.client import calls, pull_state
from counterfoil.client.api import Client
from counterfoil.client.calls import MAX_ATTEMPTS, WINDOW_DAYS, RawPage, decode_raw_page
from counterfoil.client.connection import Call, HttpResponse
from counterfoil.client.errors import CopyMismatch, CounterfoilError, NotThisService, Refusal, is_bad_cursor
from counterfoil.client.feed import ELEMENT_TYPES, ChangePage, Element, decode_feed_page
from counterfoil.client.pull import Options, Puller, origin_of
from counterfoil.client.pull_state import State, Tally
from counterfoil.client.row_comparison import LeftOut, RowComparison, RowDifferences
from counterfoil.client.sinks.sql import BillKey, CopiedBill, ShopDayTotals, Sink
from counterfoil.domain.calendar import EPOCH

_MICROSECOND = timedelta(microseconds=1)


class Totals(Struct, frozen=True):
    """Totals of one shop's bills on one day, in the copy or in the service."""

    count: int
    net: Decimal
    voids: int


class Difference(Struct, frozen=True, kw_only=True):
    """A day on which the copy and the service differ. `day` is None for undated bills.

    `missing` counts bills that only the service has, `removed` bills that only
    the copy has, and `different` bills that both have with different values.
    """

    shop_id: str
    day: str | None
    service: Totals
    copy: Totals
    missing: int
    removed: int
    different: int
    is_fixed: bool


class _Amounts(Struct):
    net: Decimal | None = None
    tip: Decimal | None = None

    def __post_init__(self) -> None:
        for amount in (self.net, self.tip):
            if amount is not None:
                calls.checked_amount(amount)


class _ComparedFields(Struct):
    """The fields of a bill that are compared."""

    id: str
    status: str
    amounts: _Amounts
    bill_date: str | None = msgspec.field(name="billDate", default=None)
    updated_at: str | None = msgspec.field(name="updatedAt", default=None)

    def __post_init__(self) -> None:
        if self.bill_date is not None:
            date.fromisoformat(self.bill_date)
        if self.updated_at is not None:
            calls.checked_time(self.updated_at)


class _Digest(Struct, rename="camel"):
    shop_id: str
    day: str | None
    bills: int
    voids: int
    net: Decimal
    tip: Decimal
    hash: str

    def __post_init__(self) -> None:
        calls.checked_amount(self.net)
        calls.checked_amount(self.tip)
        if self.day is not None:
            date.fromisoformat(self.day)


class _Digests(Struct, rename="camel"):
    data: list[_Digest]
    next_cursor: calls.Position | None = None


_decode_fields = msgspec.json.Decoder(_ComparedFields).decode
_decode_digests = msgspec.json.Decoder(_Digests).decode

_Bills = dict[str, CopiedBill]
Page = TypeVar("Page", ChangePage, RawPage, _Digests)
Key = TypeVar("Key")
Picked = TypeVar("Picked")


class Reconciler:
    """Compares all days, or those from `since` on.

    With `fix`, days that differ are overwritten with the service's data.
    """

    def __init__(
        self,
        client: Client,
        sink: Sink,
        *,
        since: date | None = None,
        fix: bool = False,
        limit: int = calls.MAX_LIMIT,
        on_progress: Callable[[Tally], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._sink = sink
        self._since = since
        self._fix = fix
        self._limit = limit
        self._on_progress = on_progress
        self.tally = Tally()
        self.unread: list[str] = []
        self.is_first_pull_finished = True
        self.days = 0
        self.tables: list[RowDifferences] = []
        self.left_out = LeftOut()
        self.lost_tables: list[str] = []
        self.repaired_files: list[str] = []

    def run(self) -> Iterator[Difference]:
        """Yield differences as they are found.

        If a full pass still has to be finished, for example because the first pull was interrupted, yield nothing and
        list all shops of the copy in `unread`.
        """
        state = self._complete_state()
        if state is None:
            return
        differing = self._differing_days(state)
        self.tally.shops = len(differing)
        yield from self._undated(state, sorted(shop_id for shop_id, days in differing.items() if None in days))
        for shop_id, days in sorted(differing.items()):
            yield from self._shop(state, shop_id, days - {None}, len(days))
            self.tally.shops_done += 1
        if self._fix:
            counts = self._sink.row_counts()
            still_lost = state.lost_tables(counts)
            self.lost_tables = state.lost = [name for name in self.lost_tables if name in still_lost]
            with self._sink.transaction():
                pull_state.save(self._sink, state, counts)
            self.repaired_files = self._sink.publish()

    def compare_rows(self) -> None:
        """Read everything, compare every row of every table, and list the tables that differ in `tables`.

        With `fix`, everything is then read a second time, which replaces the rows that differ. As in `run`, nothing is
        compared if a full pass has to be finished.
        """
        state = self._complete_state()
        if state is None:
            return
        comparison = RowComparison(self._client, self._sink, self.tally, self._on_progress)
        comparison.read(state.selection)
        pending = self._pending(state)
        comparison.forget_pending(pending.shops, pending.listed_shops, pending.bills)
        self.tables = comparison.differences()
        differing = {found.table for found in self.tables}
        self.tables += [
            RowDifferences(table=f"{name}.parquet", missing=missing, extra=extra, different=0)
            for name, (missing, extra) in self._sink.file_differences().items()
            if name not in differing
        ]
        bills = [key for key in pending.bills if key[0] not in pending.shops]
        changed = len(bills) + len(pending.listed_shops) + self._sink.count_bills(pending.shops)
        self.left_out = comparison.left_out(changed)
        if self.tables and self._fix:
            try:
                Puller(self._client, self._sink, Options(full=True), self._on_progress).run()
            finally:
                self.tally.requests = self._client.requests
            self.tables = [msgspec.structs.replace(difference, is_fixed=True) for difference in self.tables]
            self.lost_tables = []

    def _complete_state(self) -> State | None:
        """Return the state of the copy, or None if a full pass has to be finished first."""
        state = pull_state.decode(self._sink.state())
        if state.origin is None:
            raise CopyMismatch("there is no copy to compare. Run `counterfoil pull` first.")
        self.lost_tables = state.lost_tables(self._sink.row_counts())
        self._require_origin(state)
        if state.feed.mark is not None:
            return state
        self.is_first_pull_finished = False
        self.unread += sorted(self._sink.shop_ids())
        return None

    def _require_origin(self, state: State) -> None:
        """Raise `CopyMismatch` if the copy is from another address or another key lineage, or if it is too old."""
        known, feed = state.origin, state.feed
        if known is None or known.url != self._client.base_url or (feed.mark is None and feed.cursor is None):
            pull_state.require_origin(known, origin_of(self._client))
            return
        try:
            next(self._pages(calls.changes(since=feed.mark, cursor=feed.cursor, limit=1), decode_feed_page))
        except Refusal as refusal:
            if refusal.code == "mark_expired":
                raise CopyMismatch(
                    "the copy is too old to be compared, or the service was restored from a backup. "
                    "Run `counterfoil pull` first."
                ) from refusal
            if is_bad_cursor(refusal):
                raise pull_state.mismatch(known, origin_of(self._client)) from refusal
            if refusal.code == "not_found":
                origin_of(self._client)
                raise NotThisService(
                    "the service has no change feed. A comparison needs API version 1.4.0 or later."
                ) from refusal
            raise

    def _differing_days(self, state: State) -> dict[str, set[str | None]]:
        """Return, for each shop, the days whose digests differ.

        Shops and days outside the copy's selection are not compared.
        """
        self.tally.reading = "digests"
        selection = state.selection
        service = self._read_list(calls.digests(first=self._since), _decode_digests, _day_totals)
        copy = self._sink.day_totals(self._since)
        left_out = self._sink.shops_that_left()
        compared = {
            (shop_id, day)
            for shop_id, day in service.keys() | copy.keys()
            if selection.has_shop(shop_id)
            and selection.has_day(day)
            # The service does not return the bills of a shop that left the key's scope. The copy keeps them.
            and not (shop_id in left_out and (shop_id, day) not in service)
        }
        self.days = len(compared)
        self._leave_out(left_out - {shop_id for shop_id, _ in service})
        differing: dict[str, set[str | None]] = {}
        for shop_id, day in compared:
            if service.get((shop_id, day)) != copy.get((shop_id, day)):
                differing.setdefault(shop_id, set()).add(day)
        return differing

    def _leave_out(self, shop_ids: Collection[str]) -> None:
        """Note that shops are not compared, because the service no longer returns their bills."""
        earlier, bills = self.left_out, self._sink.count_bills(shop_ids)
        self.left_out = LeftOut(earlier.shops + len(shop_ids), earlier.bills + bills)

    # --- the days that differ ------------------------------------------------------

    def _shop(self, state: State, shop_id: str, differing: set[str | None], days: int) -> Iterator[Difference]:
        """Read only the days that differ, and compare their bills. `days` is how many were to be compared."""
        service_days: dict[str, _Bills] = {}
        copy_days: dict[str, list[CopiedBill]] = {}
        for first, last in consecutive(day for day in differing if day is not None):
            self.tally.reading = f"shop {shop_id}: {first} to {last}"
            try:
                service_days |= self._service_bills(self._window(shop_id, first, last))
            except Refusal as refusal:
                if refusal.code != "shop_not_in_scope":
                    raise
                # The shop has left the key's scope since the last pull. The next pull marks it as removed.
                self.days -= days
                self._leave_out([shop_id])
                return
            copy_days |= self._sink.bills_of_days(shop_id, first, last)
        yield from self._compare(state, shop_id, service_days, copy_days)

    def _undated(self, state: State, shop_ids: list[str]) -> Iterator[Difference]:
        """Compare the undated bills of these shops. Only a full pass through the feed returns all undated bills."""
        if not shop_ids:
            return
        self.tally.reading = "bills without a date"
        found: dict[str, dict[str, bytes]] = {shop_id: {} for shop_id in shop_ids}
        for element in self._feed(None):
            if element.type == "bill" and element.shop_id in found:
                head = _decode_bill(element.bill)
                if head.bill_date is None:
                    found[element.shop_id][head.id] = bytes(element.bill)
        pending = self._pending(state)
        for shop_id, rows in found.items():
            service = {bill_id: _bill(_decode_bill(row)) for bill_id, row in rows.items()}
            copy = {bill.id: bill for bill in self._sink.undated_bills(shop_id)}
            service, copy = pending.without(shop_id, service), pending.without(shop_id, copy)
            if service != copy:
                if self._fix:
                    kept = {bill_id: row for bill_id, row in rows.items() if bill_id in service}
                    self._overwrite_bills(state, shop_id, kept, set(copy) - set(service))
                yield _difference(shop_id, None, service, copy, is_fixed=self._fix)

    # --- comparing -----------------------------------------------------------------

    def _compare(
        self, state: State, shop_id: str, service_days: Mapping[str, _Bills], copy_days: Mapping[str, list[CopiedBill]]
    ) -> Iterator[Difference]:
        held = {day: {bill.id: bill for bill in bills} for day, bills in copy_days.items()}
        listed = {bill_id for bills in service_days.values() for bill_id in bills}
        differing_days = [
            day for day in sorted({*service_days, *held}) if service_days.get(day, {}) != held.get(day, {})
        ]
        if not differing_days:
            return
        pending = self._pending(state)
        for day in differing_days:
            service = pending.without(shop_id, service_days.get(day, {}))
            copy = pending.without(shop_id, held.get(day, {}))
            if service == copy:
                continue
            if self._fix:
                # A bill that the service lists on another of these days is kept, because fixing that day moves it.
                self._fix_day(state, shop_id, day, set(copy) - listed)
            yield _difference(shop_id, day, service, copy, is_fixed=self._fix)

    def _pending(self, state: State) -> "_Pending":
        """Return the changes that the next pull reads. Call this after reading bills, to include the latest changes."""
        pending = _Pending()
        for element in self._feed(state.feed.mark):
            if element.full is True or element.in_scope is False:
                pending.shops.add(element.shop_id)
            if element.type in ("shop", "shopRemoved"):
                pending.listed_shops.add(element.shop_id)
            elif element.type == "bill":
                pending.bills.add((element.shop_id, _decode_bill(element.bill).id))
            else:
                pending.bills.add((element.shop_id, element.id))
        return pending

    # --- fixing --------------------------------------------------------------------

    def _fix_day(self, state: State, shop_id: str, day: str, removed_ids: set[str]) -> None:
        """Read the day again and overwrite it. Whole bills are kept in memory for one day at a time."""
        only_day = date.fromisoformat(day)
        window = self._window(shop_id, only_day, only_day)
        rows = self._read_list(
            window, decode_raw_page, lambda page: ((_decode_bill(row).id, bytes(row)) for row in page.data)
        )
        self._overwrite_bills(state, shop_id, rows, removed_ids)

    def _overwrite_bills(self, state: State, shop_id: str, rows: Mapping[str, bytes], removed_ids: set[str]) -> None:
        pull_state.set_write_time(self._sink, state, state.feed.as_of or "")  # It is set, because a pass has ended.
        with self._sink.transaction():
            self._sink.remove_bills([(shop_id, bill_id) for bill_id in sorted(removed_ids | set(rows))])
            self._sink.put_bills(list(rows.values()))
            # The next `pull --then` runs its command for these changes.
            state.changes += len(removed_ids | set(rows))
            pull_state.save(self._sink, state, state.rows)

    # --- reading -------------------------------------------------------------------

    def _window(self, shop_id: str, first: date, last: date) -> Call:
        return calls.bills(shop_id, first=first, last=last, limit=self._limit)

    def _feed(self, since: str | None) -> Iterator[Element]:
        """Yield the elements of a pass through the feed. The position of the copy does not change."""
        for page in self._pages(calls.changes(since=since), decode_feed_page):
            for element in page.data:
                if element.type in ELEMENT_TYPES:
                    element.require_ids()
                    yield element

    def _service_bills(self, call: Call) -> dict[str, _Bills]:
        """Return the service's bills in a window, keyed by day."""
        days: dict[str, _Bills] = {}
        heads = self._read_list(
            call, decode_raw_page, lambda page: ((head.id, head) for head in map(_decode_bill, page.data))
        )
        for bill_id, head in heads.items():
            if head.bill_date is not None:
                days.setdefault(head.bill_date, {})[bill_id] = _bill(head)
        return days

    def _read_list(
        self, call: Call, decode: Callable[[bytes], Page], pick: Callable[[Page], Iterable[tuple[Key, Picked]]]
    ) -> dict[Key, Picked]:
        """Read a whole list and return what `pick` takes from its pages. Start again on `bad_cursor`."""
        for _ in range(MAX_ATTEMPTS):
            picked: dict[Key, Picked] = {}
            try:
                for page in self._pages(call, decode):
                    picked.update(pick(page))
            except CounterfoilError as error:
                if not is_bad_cursor(error):
                    raise
                continue
            return picked
        raise CounterfoilError(
            f"the service refused a cursor {MAX_ATTEMPTS} times while a list of {call.path} was read. "
            "Run `counterfoil reconcile` again later."
        )

    def _pages(self, call: Call, decode: Callable[[bytes], Page]) -> Iterator[Page]:
        def parse(response: HttpResponse) -> Page:
            page = calls.decode_body(response, decode)
            self.tally.requests += 1
            self.tally.remaining = calls.remaining(response)
            if isinstance(page, RawPage):
                self.tally.bills_read += len(page.data)
            self._on_progress(self.tally)
            return page

        return self._client.pages(call, parse)


class _Pending(Struct):
    """Changes that the copy does not have yet.

    `shops` are those that the feed sends in full or that left the scope, and `listed_shops` all whose own rows changed.
    """

    shops: set[str] = msgspec.field(default_factory=set)
    listed_shops: set[str] = msgspec.field(default_factory=set)
    bills: set[BillKey] = msgspec.field(default_factory=set)

    def without(self, shop_id: str, bills: _Bills) -> _Bills:
        """Return the bills of a shop that are not affected by these changes."""
        if shop_id in self.shops:
            return {}
        return {bill_id: bill for bill_id, bill in bills.items() if (shop_id, bill_id) not in self.bills}


def _day_totals(page: _Digests) -> Iterator[tuple[tuple[str, str | None], ShopDayTotals]]:
    for digest in page.data:
        totals = ShopDayTotals(digest.bills, digest.voids, digest.net, digest.tip, digest.hash)
        yield (digest.shop_id, digest.day), totals


def _decode_bill(row: bytes | Raw) -> _ComparedFields:
    return calls.decode_row(row, _decode_fields)


def _bill(head: _ComparedFields) -> CopiedBill:
    changed = None if head.updated_at is None else (datetime.fromisoformat(head.updated_at) - EPOCH) // _MICROSECOND
    return CopiedBill(head.id, changed, head.amounts.net, head.status == "void", head.amounts.tip)


def _difference(shop_id: str, day: str | None, service: _Bills, copy: _Bills, *, is_fixed: bool) -> Difference:
    both = set(service) & set(copy)
    return Difference(
        shop_id=shop_id,
        day=day,
        service=_totals(service),
        copy=_totals(copy),
        missing=len(service) - len(both),
        removed=len(copy) - len(both),
        different=sum(service[bill_id] != copy[bill_id] for bill_id in both),
        is_fixed=is_fixed,
    )


def _totals(bills: _Bills) -> Totals:
    net = sum((bill.net for bill in bills.values() if bill.net is not None), Decimal(0))
    return Totals(len(bills), net, sum(bill.void for bill in bills.values()))


def consecutive(days: Iterable[str]) -> Iterator[tuple[date, date]]:
    """Group consecutive days into windows that the service accepts; yield the first and last day of each window."""
    first = last = None
    for day in sorted(map(date.fromisoformat, days)):
        if first is None or last is None:
            first = last = day
        elif day == last + timedelta(days=1) and (day - first).days < WINDOW_DAYS:
            last = day
        else:
            yield first, last
            first = last = day
    if first is not None and last is not None:
        yield first, last
