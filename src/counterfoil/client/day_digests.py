"""Reads day digests from the service: the totals of each shop's bills for each day."""

from collections.abc import Callable, Iterable, Iterator
from datetime import date, timedelta
from decimal import Decimal

import msgspec
from msgspec import Struct

from counterfoil.client import calls
from counterfoil.client.api import Client
from counterfoil.client.conversation import HttpResponse
from counterfoil.client.errors import CounterfoilError, is_bad_cursor
from counterfoil.client.pages import MAX_ATTEMPTS
from counterfoil.client.sinks import ShopDayTotals

# The longest window that the list of bills accepts, in days.
WINDOW_DAYS = 31

ByShopAndDay = dict[tuple[str, str | None], ShopDayTotals]


class _Digest(Struct, rename="camel"):
    shop_id: str
    day: str | None
    bills: int
    voids: int
    net: Decimal
    tip: Decimal
    hash: str


class _Digests(Struct, rename="camel"):
    data: list[_Digest]
    next_cursor: str | None = None


_decode = msgspec.json.Decoder(_Digests).decode


class ServiceDigests:
    """Reads all pages of the list of digests. `count` is called with every response."""

    def __init__(self, client: Client, count: Callable[[HttpResponse], None]) -> None:
        self._client = client
        self._count = count

    def read(self, since: date | None) -> ByShopAndDay:
        """Return all digests, or only those of the day `since` and later."""
        for _ in range(MAX_ATTEMPTS):
            try:
                return self._read(since)
            except CounterfoilError as error:
                if not is_bad_cursor(error):
                    raise
        raise CounterfoilError(
            f"the digests could not be read, because the service refused a cursor {MAX_ATTEMPTS} times. "
            "Run `counterfoil reconcile` again later."
        )

    def _read(self, since: date | None) -> ByShopAndDay:
        found: ByShopAndDay = {}
        call = calls.digests(first=since)
        while True:
            response = self._client.send(call)
            page = calls.decode_body(response, _decode)
            self._count(response)
            for digest in page.data:
                totals = ShopDayTotals(digest.bills, digest.voids, digest.net, digest.tip, digest.hash)
                found[digest.shop_id, digest.day] = totals
            if page.next_cursor is None:
                return found
            call = calls.next_page(call, page.next_cursor)


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
