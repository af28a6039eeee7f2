"""Compare a copy with the service, shop by shop and day by day, and fix differences.

A pull by lists does not notice bills that the POS has removed: the service
just stops returning them. Bills that changed since the last pull do not count
as different, because the next pull reads them. The service's digests show which
days differ; if the service has no digests, every day is read.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from counterfoil.client import calls, pull_state
from counterfoil.client.api import Client
from counterfoil.client.conversation import Call, HttpResponse
from counterfoil.client.day_digests import ServiceDigests, consecutive
from counterfoil.client.errors import CopyMismatch, CounterfoilError, is_bad_cursor
from counterfoil.client.models import Shop
from counterfoil.client.pages import MAX_RESTARTS, RawPage, Tally
from counterfoil.client.pull import origin_of
from counterfoil.client.pull_state import EMPTY_WINDOWS
from counterfoil.client.sinks import CopiedBill, Sink
from counterfoil.client.sinks.newest import instant_us


class Totals(Struct, frozen=True):
    """Totals of one shop's bills on one day, in the copy or in the service."""

    count: int
    net: Decimal
    voids: int


class Difference(Struct, frozen=True, kw_only=True):
    """A day on which the copy and the service differ. `day` is None for undated bills.

    `missing` counts bills that the copy lacks, `removed` those that the service
    no longer has, `different` those that both have but that are not equal.
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


class _ComparedFields(Struct):
    """The fields of a bill that are compared."""

    id: str
    status: str
    amounts: _Amounts
    bill_date: str | None = msgspec.field(name="billDate", default=None)
    updated_at: str | None = msgspec.field(name="updatedAt", default=None)


_decode_bill = msgspec.json.Decoder(_ComparedFields).decode
_decode_page = msgspec.json.Decoder(RawPage).decode
_Bills = dict[str, CopiedBill]
Picked = TypeVar("Picked")


class Reconciler:
    """Compares every day. With `fix`, days that differ are overwritten from the service."""

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
        self.days = 0

    def run(self) -> Iterator[Difference]:
        """Yield differences as they are found. Shops that no pull has finished reading are listed in `unread`."""
        state = pull_state.decode(self._sink.state())
        if state.origin is None:
            raise CopyMismatch("there is no copy to compare. Run `counterfoil pull` first.")
        pull_state.record_origin(state, origin_of(self._client), adopt=False)
        shops = self._client.shop_page()
        self.tally.shops, self.tally.requests = len(shops.data), 2
        newest = pull_state.latest_day(shops.server_time)
        differing = self._differing_days(newest)
        for shop in shops.data:
            known = state.shops.get(shop["shopId"])
            if known is None or known.mark is None:
                self.unread.append(shop["shopId"])
            elif differing is None:
                yield from self._shop(shop, known.mark, newest)
            else:
                yield from self._shop_by_digests(shop, known.mark, differing.get(shop["shopId"], set()))
            self.tally.shops_done += 1
        if self._fix:
            self._sink.publish()

    # --- by digests ------------------------------------------------------------------

    def _differing_days(self, newest: date) -> dict[str, set[str | None]] | None:
        """Return the days of each shop whose digests differ, or None if the service has no digests.

        A pull that starts at a given day reads no bills dated after `newest`,
        because only a till with a wrong clock creates such bills. Later days
        are therefore compared only if the pull has no start day.
        """
        self.tally.reading = "digests"
        service = ServiceDigests(self._client, self._count).read(self._since)
        if service is None:
            return None
        copy = self._sink.day_totals(self._since)
        self.days = len(service.keys() | copy.keys())
        differing: dict[str, set[str | None]] = {}
        for shop_id, day in service.keys() | copy.keys():
            is_read = self._since is None or day is None or day <= newest.isoformat()
            if is_read and service.get((shop_id, day)) != copy.get((shop_id, day)):
                differing.setdefault(shop_id, set()).add(day)
        return differing

    def _shop_by_digests(self, shop: Shop, mark: str, differing: set[str | None]) -> Iterator[Difference]:
        """Read only the days that differ, and compare their bills."""
        shop_id, name = shop["shopId"], shop["shopName"] or shop["shopId"]
        service_days: dict[str, _Bills] = {}
        copy_days: dict[str, list[CopiedBill]] = {}
        for first, last in consecutive(day for day in differing if day is not None):
            self.tally.reading = f"{name}: {first} to {last}"
            service_days |= self._service_bills(self._window(shop_id, first, last))
            copy_days |= self._sink.bills_of_days(shop_id, first, last)
        yield from self._compare(shop_id, mark, service_days, copy_days)
        if None in differing or self._since is not None:
            # Digests that start at a given day do not include undated bills.
            self.tally.reading = f"{name}: bills without a date"
            yield from self._undated(shop_id, mark)

    # --- by windows, if the service has no digests ---------------------------------------

    def _shop(self, shop: Shop, mark: str, newest: date) -> Iterator[Difference]:
        shop_id, empty = shop["shopId"], 0
        name = shop["shopName"] or shop_id
        last: date | None = newest
        while last is not None:
            first = pull_state.window_start(last, self._since)
            self.tally.reading = f"{name}: {first} to {last}"
            service_days = self._service_bills(self._window(shop_id, first, last))
            yield from self._compare(shop_id, mark, service_days, self._sink.bills_of_days(shop_id, first, last))
            self.days += (last - first).days + 1
            empty = 0 if service_days else empty + 1
            last = self._next_window_end(shop_id, first, empty)
        self.tally.reading = f"{name}: bills without a date"
        yield from self._undated(shop_id, mark)

    def _next_window_end(self, shop_id: str, first: date, empty: int) -> date | None:
        """Return the last day of the next window, or None at the end.

        After 12 empty windows, skip to the latest earlier day with a bill in the copy.
        """
        if first <= (self._since or date.min):
            return None
        if self._since is None and empty >= EMPTY_WINDOWS:
            return self._sink.latest_day_before(shop_id, first)
        return first - timedelta(days=1)

    # --- comparing -----------------------------------------------------------------

    def _compare(
        self, shop_id: str, mark: str, service_days: Mapping[str, _Bills], copy_days: Mapping[str, list[CopiedBill]]
    ) -> Iterator[Difference]:
        held = {day: {bill.id: bill for bill in bills} for day, bills in copy_days.items()}
        listed = {bill_id for bills in service_days.values() for bill_id in bills}
        differing_days = [
            day for day in sorted({*service_days, *held}) if service_days.get(day, {}) != held.get(day, {})
        ]
        pending = self._changed_since(shop_id, mark) if differing_days else set()
        for day in differing_days:
            service, copy = _without(service_days.get(day, {}), pending), _without(held.get(day, {}), pending)
            if service == copy:
                continue
            if self._fix:
                # A bill that moved to another day of this window was not removed; fixing that day moves it.
                self._fix_day(shop_id, day, set(copy) - listed)
            yield _difference(shop_id, day, service, copy, is_fixed=self._fix)

    def _undated(self, shop_id: str, mark: str) -> Iterator[Difference]:
        """Compare undated bills, which are in no window. Those without an `updatedAt` are in no list at all."""
        since = pull_state.start_of_day(self._since)
        rows = self._read_list(self._changes(shop_id, since), lambda head, row: None if head.bill_date else bytes(row))
        service = {bill_id: _bill(_decode_bill(row)) for bill_id, row in rows.items()}
        copy = {bill.id: bill for bill in self._sink.undated_bills(shop_id, since)}
        if service == copy:
            return
        pending = self._changed_since(shop_id, mark)
        service, copy = _without(service, pending), _without(copy, pending)
        if service == copy:
            return
        if self._fix:
            self._overwrite_bills(shop_id, rows, set(copy) - set(service))
        yield _difference(shop_id, None, service, copy, is_fixed=self._fix)

    def _changed_since(self, shop_id: str, mark: str) -> set[str]:
        """Return the IDs of the bills that the next pull will read. Call this last, to include the latest changes."""
        return set(self._read_list(self._changes(shop_id, mark), lambda head, _: head.id))

    # --- fixing --------------------------------------------------------------------

    def _fix_day(self, shop_id: str, day: str, removed_ids: set[str]) -> None:
        """Read the day again and overwrite it. Whole bills are held in memory only for a day that differs."""
        only_day = date.fromisoformat(day)
        rows = self._read_list(self._window(shop_id, only_day, only_day), lambda _, row: bytes(row))
        self._overwrite_bills(shop_id, rows, removed_ids)

    def _overwrite_bills(self, shop_id: str, rows: Mapping[str, bytes], removed_ids: set[str]) -> None:
        with self._sink.transaction():
            self._sink.drop_bills(shop_id, sorted(removed_ids - set(rows)))
            self._sink.put_bills(shop_id, list(rows.values()), replace=True)

    # --- reading -------------------------------------------------------------------

    def _window(self, shop_id: str, first: date, last: date) -> Call:
        return calls.bills(shop_id, first=first, last=last, limit=self._limit)

    def _changes(self, shop_id: str, since: str) -> Call:
        return calls.bills(shop_id, updated_since=since, limit=self._limit)

    def _service_bills(self, call: Call) -> dict[str, _Bills]:
        """Return the service's bills of a window, by day."""
        days: dict[str, _Bills] = {}
        for bill_id, head in self._read_list(call, lambda head, _: head).items():
            if head.bill_date is not None:
                days.setdefault(head.bill_date, {})[bill_id] = _bill(head)
        return days

    def _read_list(self, call: Call, pick: Callable[[_ComparedFields, Raw], Picked | None]) -> dict[str, Picked]:
        """Read a whole list and return the result of `pick` for each bill, by ID. Start again on `bad_cursor`."""
        for _ in range(MAX_RESTARTS):
            picked: dict[str, Picked] = {}
            try:
                for page in self._pages(call):
                    for row in page.data:
                        head = _decode_bill(row)
                        part = pick(head, row)
                        if part is not None:
                            picked[head.id] = part
            except CounterfoilError as error:
                if not is_bad_cursor(error):
                    raise
                continue
            return picked
        raise CounterfoilError(
            f"a list had to be restarted {MAX_RESTARTS} times because its cursor was rejected. "
            "Run `counterfoil reconcile` again later."
        )

    def _count(self, response: HttpResponse) -> None:
        self.tally.requests += 1
        self.tally.remaining = calls.remaining(response)
        self._on_progress(self.tally)

    def _pages(self, call: Call) -> Iterator[RawPage]:
        while True:
            response = self._client.send(call)
            page = calls.decode_body(response, _decode_page)
            self.tally.bills_read += len(page.data)
            self._count(response)
            yield page
            if page.next_cursor is None:
                return
            call = calls.next_page(call, page.next_cursor)


def _bill(head: _ComparedFields) -> CopiedBill:
    return CopiedBill(head.id, instant_us(head.updated_at), head.amounts.net, head.status == "void", head.amounts.tip)


def _without(bills: _Bills, ids: set[str]) -> _Bills:
    return {bill_id: bill for bill_id, bill in bills.items() if bill_id not in ids}


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
