"""Collects pages of the change feed into batches, whose elements are grouped for the sink."""

from functools import partial

import msgspec
from msgspec import Struct

from counterfoil.client.errors import CounterfoilError
from counterfoil.client.feed import ChangePage, Element
from counterfoil.client.pull_state import CopySelection
from counterfoil.client.sinks import BillKey, ParsedRows


class _Dated(Struct):
    id: str
    bill_date: str | None = msgspec.field(name="billDate", default=None)


_decode_date = msgspec.json.Decoder(_Dated).decode


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
        self.removed_shops: list[str] = []
        self.removed: list[BillKey] = []
        self.bills: list[bytes] = []
        self.parsed: ParsedRows | None = None
        self.left_out = 0
        self.bytes = 0
        self.shop_id = ""
        self._shops_with_bills: set[str] = set()

    def add(self, element: Element) -> bool:
        """Add an element and return True, or return False if the feed's order requires it to be in the next group.

        Elements of unknown types, and elements of shops that are not selected, are ignored.
        """
        kind, shop_id = element.type, element.shop_id
        if kind not in ("bill", "billRemoved", "shop", "shopRemoved") or not self._selection.has_shop(shop_id):
            return True
        if kind == "bill":
            self._add_bill(shop_id, bytes(element.bill))
            return True
        if shop_id in self._shops_with_bills or (kind != "billRemoved" and self._has_shop(shop_id)):
            return False
        self.shop_id = shop_id
        if element.full is True:
            self.full_shops.append(shop_id)
        if kind == "shop":
            self.shops[shop_id] = bytes(element.shop)
        elif kind == "shopRemoved":
            self.removed_shops.append(shop_id)
        else:
            self.removed.append((shop_id, element.id))
        return True

    def _has_shop(self, shop_id: str) -> bool:
        return shop_id in self.shops or shop_id in self.removed_shops or any(key[0] == shop_id for key in self.removed)

    def _add_bill(self, shop_id: str, row: bytes) -> None:
        self._shops_with_bills.add(shop_id)
        self.shop_id = shop_id
        self.bytes += len(row)
        if self._selection.since is not None:
            bill = _decode_date(row)
            if not self._selection.has_day(bill.bill_date):
                self.left_out += 1
                if not self._is_full_pass:
                    # Remove the bill, because the copy may have an earlier version of it, with a date that is selected.
                    self.removed.append((shop_id, bill.id))
                return
        self.bills.append(row)


class FeedBatch:
    """Some pages of the feed, as groups of elements. `mark`, `cursor` and `time` are those of the last page.

    `error` is set if the request for the next page failed.
    """

    def __init__(self, selection: CopySelection, *, is_full_pass: bool) -> None:
        self._new_group = partial(FeedGroup, selection, is_full_pass=is_full_pass)
        self.groups = [self._new_group()]
        self.pages = 0
        self.time = ""
        self.mark: str | None = None
        self.cursor: str | None = None
        self.error: CounterfoilError | None = None

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
