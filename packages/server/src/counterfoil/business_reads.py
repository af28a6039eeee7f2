"""What the operator reads about the business: what shops took on each day, and their bills.

The statements are written like those of `operator_reads.py`, and run in the same way. None reads more than a bounded
number of bills, so that a page is as fast with ten million bills as with a thousand.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import date
from decimal import Decimal
from typing import Any, Literal

from msgspec import Struct, json

from counterfoil.domain.business_days import BillInStore, DayOfShop, ListedBill, day_of_number, listed_bill
from counterfoil.domain.changes import NO_DAY
from counterfoil.domain.day_totals import day_total
from counterfoil.domain.deliveries import DeliveryPreview
from counterfoil.domain.loads import LoadRow, load_row
from counterfoil.model.calendar import as_number
from counterfoil.model.control_totals import TotalsReport

# Runs a statement with named parameters and returns all rows.
Ask = Callable[..., list[Any]]
# The files of an embedded store.
Part = Literal["books", "keys", "usage"]

# The net of days that were not added up since their bills changed is computed from at most this many bills of a call,
# the latest days first.
BILLS_ADDED_UP = 20_000
# A list has at most this many bills of a day.
MOST_BILLS = 5_000
# A bill ID belongs to one shop. So many shops with the same ID are named.
MOST_SAME_IDS = 20
# No bill has a later day.
LAST_DAY = 99991231

_DAYS_OF_ALL = """
    SELECT * FROM (
        SELECT id, bill_day, number, stale, CASE WHEN stale = 0 THEN day_totals.bills ELSE
            (SELECT count(*) FROM bills WHERE bills.shop = day_totals.shop AND bills.bill_day = day_totals.bill_day)
        END AS counted, day_totals.voids, day_totals.net, day_totals.void_net
        FROM shops JOIN day_totals ON day_totals.shop = shops.number
        WHERE NOT removed AND bill_day BETWEEN :first AND :last
    ) AS days
    WHERE counted > 0 ORDER BY bill_day DESC, id
"""
_DAYS_OF_ONE = """
    SELECT * FROM (
        SELECT id, bill_day, number, stale, CASE WHEN stale = 0 THEN day_totals.bills ELSE
            (SELECT count(*) FROM bills WHERE bills.shop = day_totals.shop AND bills.bill_day = day_totals.bill_day)
        END AS counted, day_totals.voids, day_totals.net, day_totals.void_net
        FROM shops JOIN day_totals ON day_totals.shop = shops.number
        WHERE id = :shop_id AND NOT removed AND bill_day BETWEEN :first AND :last
    ) AS days
    WHERE counted > 0 ORDER BY bill_day DESC
"""
_BILLS_TO_ADD_UP = "SELECT updated_at, body FROM bills WHERE shop = :shop AND bill_day = :day"
_BILLS_OF_DAY = """
    SELECT closed_at, updated_at, load_before, body FROM bills
    WHERE shop = (SELECT number FROM shops WHERE id = :shop_id) AND bill_day = :day
    ORDER BY closed_at, bills.id LIMIT :most
"""
_BILL = """
    SELECT shops.id, bills.load, bills.load_before, bills.updated_at, bills.body
    FROM shops JOIN bills ON bills.shop = shops.number AND bills.id = :bill_id
    WHERE shops.id = :shop_id
"""
# Every shop is asked for the bill, because the index of bills begins with the shop.
_BILL_OF_ANY_SHOP = """
    SELECT shops.id, bills.load, bills.load_before, bills.updated_at, bills.body
    FROM shops JOIN bills ON bills.shop = shops.number AND bills.id = :bill_id
    ORDER BY shops.id LIMIT :most
"""
_HAS_BILLS = "SELECT 1 FROM bills WHERE shop = (SELECT number FROM shops WHERE id = :shop_id) LIMIT 1"
_LOADS_WITH_TOTALS = """
    SELECT number, source, started_at, seen_at, finished_at, lines, changed, rejected, reasons, rejects_file,
        files, alarms,
        EXISTS (SELECT 1 FROM open_items WHERE load = loads.number AND closed_by = 'accepted') AS is_accepted,
        horizon, undone_at, totals
    FROM loads WHERE totals IS NOT NULL ORDER BY number DESC
"""
_PREVIEW = "SELECT preview FROM delivery_previews WHERE identity = :identity"
_TO_REWRITE = "SELECT applied_version < latest_version FROM shops WHERE id = :shop_id"


class LoadOfShop(Struct, frozen=True, kw_only=True, rename="camel"):
    """A load that had bills of a shop. `bills` are those of the shop; `is_alone` if it had none of other shops.

    A load with very many shops and days does not remember all of them, so `bills` may be too low.
    """

    load: LoadRow
    bills: int
    is_alone: bool


class _TotalsOfDay(Struct, frozen=True, rename="camel"):
    shop_id: str | None
    bills: int
    day: str | None = None
    net: str = ""


class _StoredTotals(Struct, rename="camel"):
    days: list[_TotalsOfDay] = []


_decode_totals = json.Decoder(_StoredTotals).decode


class BusinessReads(ABC):
    """The part of the operator's reads that is about the business. The other part opens the transactions."""

    @abstractmethod
    def _limited(self, part: Part) -> AbstractContextManager[Ask]:
        """Open a read-only transaction, whose queries are stopped at the time limit."""

    def days_of_shops(self, first: date, last: date, shop_id: str | None = None) -> list[DayOfShop]:
        """Return the days with bills of a shop or of all shops, latest first."""
        span = {"first": as_number(first), "last": as_number(last)}
        with self._limited("books") as ask:
            rows = ask(_DAYS_OF_ALL, **span) if shop_id is None else ask(_DAYS_OF_ONE, **span, shop_id=shop_id)
            return _added_up(ask, rows)

    def undated_bills(self, shop_id: str) -> DayOfShop | None:
        """Return how many bills of a shop have no date, and what they come to, or None if there are none."""
        with self._limited("books") as ask:
            rows = ask(_DAYS_OF_ONE, first=NO_DAY, last=NO_DAY, shop_id=shop_id)
            return next(iter(_added_up(ask, rows)), None)

    def bills_of_day(self, shop_id: str, day: date | None) -> list[ListedBill]:
        """Return up to MOST_BILLS bills of a shop and a day, or those without a date, oldest first."""
        number = NO_DAY if day is None else as_number(day)
        with self._limited("books") as ask:
            rows = ask(_BILLS_OF_DAY, shop_id=shop_id, day=number, most=MOST_BILLS)
        return [listed_bill(*row) for row in rows]

    def bill(self, bill_id: str, shop_id: str | None = None) -> list[BillInStore]:
        """Return the bill with this ID of a shop or, without a shop, that of each shop that has one."""
        with self._limited("books") as ask:
            if shop_id is None:
                rows = ask(_BILL_OF_ANY_SHOP, bill_id=bill_id, most=MOST_SAME_IDS)
            else:
                rows = ask(_BILL, bill_id=bill_id, shop_id=shop_id)
        return [
            BillInStore(shop_id=found, load=load, load_before=load_before, updated_at=updated_at, body=body)
            for found, load, load_before, updated_at, body in rows
        ]

    def has_bills(self, shop_id: str) -> bool:
        """Return whether a shop has bills of any day, void ones included."""
        with self._limited("books") as ask:
            return bool(ask(_HAS_BILLS, shop_id=shop_id))

    def has_sales(self, shop_id: str) -> bool:
        """Return whether a shop has bills that are not void. If there are too many to add up, it counts as having."""
        with self._limited("books") as ask:
            days = _added_up(ask, ask(_DAYS_OF_ONE, first=NO_DAY, last=LAST_DAY, shop_id=shop_id))
        return any(day.voids is None or day.bills > day.voids for day in days)

    def loads_of_shop(self, shop_id: str) -> list[LoadOfShop]:
        """Return the loads that had bills of a shop, newest first. The store remembers the last 100 loads."""
        with self._limited("books") as ask:
            rows = ask(_LOADS_WITH_TOTALS)
        found = []
        for *row, totals in rows:
            days = _decode_totals(totals).days
            bills = sum(day.bills for day in days if day.shop_id == shop_id)
            if bills:
                is_alone = all(day.shop_id == shop_id for day in days)
                found.append(LoadOfShop(load=load_row(row), bills=bills, is_alone=is_alone))
        return found

    def load_with_totals(self, totals: TotalsReport) -> int | None:
        """Return the latest load with the same bills and net on each day of each shop that was not undone."""
        wanted = {_TotalsOfDay(day.shop_id, day.bills, day.day, day.net) for day in totals.days}
        with self._limited("books") as ask:
            rows = ask(_LOADS_WITH_TOTALS)
        for *row, stored in rows:
            load = load_row(row)
            if wanted and not load.undone_at and wanted == set(_decode_totals(stored).days):
                return load.number
        return None

    def delivery_preview(self, identity: str) -> DeliveryPreview | None:
        """Return what a held delivery would change, or None if its watcher has not stored it."""
        with self._limited("books") as ask:
            rows = ask(_PREVIEW, identity=identity)
        return json.decode(rows[0][0], type=DeliveryPreview) if rows else None

    def is_being_rewritten(self, shop_id: str) -> bool:
        """Return whether bills of a shop have yet to be rewritten under its facts."""
        with self._limited("books") as ask:
            return any(row[0] for row in ask(_TO_REWRITE, shop_id=shop_id))


def _added_up(ask: Ask, rows: Sequence[Sequence[Any]]) -> list[DayOfShop]:
    """Return the days, and add up those whose stored totals are out of date, as far as BILLS_ADDED_UP allows."""
    found = []
    remaining = BILLS_ADDED_UP
    for shop_id, day, number, is_stale, bills, voids, *nets in rows:
        is_current = not is_stale and (voids == 0 or None not in nets)
        if is_current:
            found.append(_day(shop_id, day, bills, voids, *nets))
        elif bills <= remaining:
            remaining -= bills
            total = day_total(ask(_BILLS_TO_ADD_UP, shop=number, day=day))
            found.append(_day(shop_id, day, total.bills, total.voids, total.net, total.void_net))
        else:
            found.append(DayOfShop(shop_id=shop_id, day=day_of_number(day), bills=bills, voids=None, net=None))
    return found


def _day(shop_id: str, day: int, bills: int, voids: int, net: str, void_net: str | None) -> DayOfShop:
    sold = Decimal(net) - Decimal(void_net or 0)
    return DayOfShop(shop_id=shop_id, day=day_of_number(day), bills=bills, voids=voids, net=sold)
