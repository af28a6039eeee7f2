"""A store opened for writing and reading: tests write source records and read the published resources."""

import json
from collections.abc import Callable
from datetime import date, datetime
from inspect import iscoroutinefunction
from typing import Any

from counterfoil.domain.access import Scope
from counterfoil.domain.changes import Change, Outcome
from counterfoil.domain.paging import Position
from counterfoil.domain.tokens import Pseudonyms
from counterfoil.ingest.lines import Reader
from counterfoil.ports import BillPage, Clock, Slice
from ports.backends import OpenLedger, Store

PSEUDONYMS = Pseudonyms(b"a deployment secret for the ports' tests")
SHOP: dict[str, Any] = {
    "kind": "shop",
    "id": "sh_1",
    "name": "Riverside",
    "franchiseId": "fr_a",
    "providerId": "mb_a",
    "timezone": "Asia/Bangkok",
    "closingTime": "02:00",
}
EVENING = "2025-12-31T18:05:00+07:00"
AFTER_MIDNIGHT = "2026-01-01T00:30:00+07:00"
EVER = (date(2000, 1, 1), date(2099, 12, 31))


def shop(shop_id: str = "sh_1", **fields: Any) -> dict[str, Any]:
    return SHOP | {"id": shop_id} | fields


def bill(bill_id: str = "b_1", shop_id: str = "sh_1", **fields: Any) -> dict[str, Any]:
    return {"kind": "bill", "id": bill_id, "shopId": shop_id, "closedAt": EVENING, **fields}


def member(member_id: str = "4711", provider_id: str = "mb_a", **fields: Any) -> dict[str, Any]:
    return {"kind": "member", "id": member_id, "providerId": provider_id, **fields}


def base(base_id: str = "mb_a", **fields: Any) -> dict[str, Any]:
    return {"kind": "base", "id": base_id, **fields}


def gone(record: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return the record that removes this shop, bill or member."""
    return {name: record[name] for name in ("kind", "id", "shopId") if name in record} | {"removed": True} | fields


def open_ledger(store: Store, clock: Clock) -> OpenLedger:
    return store.ledger(clock, PSEUDONYMS.fingerprint())


class Synchronous:
    """A port whose coroutines are run at once."""

    def __init__(self, port: object, run: Callable[[Any], Any]) -> None:
        self._port, self._run = port, run

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        return (lambda *given, **named: self._run(method(*given, **named))) if iscoroutinefunction(method) else method


class OpenStore:
    """A loader and a reader on the same books."""

    def __init__(self, store: Store, clock: Clock, run: Callable[[Any], Any]) -> None:
        self.store, self._run = store, run
        self.clock: Any = clock
        self.ledger = open_ledger(store, clock)
        self.reads = store.operator_reads()
        self.books: Any = Synchronous(store.books(), run)
        self._reader = Reader(PSEUDONYMS, self.ledger.facts)

    def close(self) -> None:
        self.ledger.close()
        self.books.close()

    def opened_again(self) -> "OpenStore":
        return OpenStore(self.store, self.clock, self._run)

    # --- writing -----------------------------------------------------------------

    def change(self, record: dict[str, Any]) -> Change:
        """Convert a record to a change, using the facts that are currently in the books."""
        return self._reader.change(record)

    def put(self, *records: dict[str, Any]) -> list[Outcome]:
        """Write the records in one transaction; return their outcomes.

        A bill's shop must have been written in an earlier transaction.
        """
        return self.ledger.apply([self.change(record) for record in records])

    def rewrite(self, most: int = 100) -> None:
        while self.ledger.rewrite_bills(most):
            pass

    # --- reading -----------------------------------------------------------------

    def horizon(self) -> int:
        return int(self.books.horizon())

    def by_change(self, shop_id: str = "sh_1", *, since: int = 0, until: int | None = None, limit: int = 1000) -> Any:
        page = self.books.bills_by_change(Scope("shop", shop_id), shop_id, since, until, Slice(limit))
        return bills_of(page)

    def by_day(self, shop_id: str = "sh_1", first: date = EVER[0], last: date = EVER[1], limit: int = 1000) -> Any:
        return bills_of(self.day_page(shop_id, first, last, None, limit))

    def day_page(self, shop_id: str, first: date, last: date, after: Position | None, limit: int) -> BillPage:
        page: BillPage = self.books.bills_by_day(Scope("shop", shop_id), shop_id, first, last, Slice(limit, after))
        return page

    def bill(self, bill_id: str = "b_1", shop_id: str = "sh_1") -> Any:
        """Return the published bill, dated or undated, or None if there is no such bill."""
        found = self.books.bill(Scope("shop", shop_id), bill_id)
        return json.loads(found.body) if found else None

    def stamp(self, bill_id: str = "b_1", shop_id: str = "sh_1") -> int | None:
        """Return the bill's `updatedAt` in milliseconds."""
        updated_at = self.bill(bill_id, shop_id)["updatedAt"]
        return None if updated_at is None else in_ms(updated_at)


def in_ms(written: str) -> int:
    return round(datetime.fromisoformat(written).timestamp() * 1000)


def bills_of(page: BillPage) -> Any:
    bills = json.loads(b"[%b]" % page.bodies)
    assert len(bills) == page.count
    return bills
