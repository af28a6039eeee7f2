"""Notices that a load would replace stored bills by other ones, because bill numbers start again or an export is cut.

A stored bill normally keeps its day and most of its lines or its total. If a record changes them, the bill either
moved to another day, or the record is another bill with the same ID. A few such bills may be in a load, and are named.
If there are more, the load writes nothing more.

The numbers of bills in an export are often those of a till, which begin again. So another bill of an export is
rejected, and more shows that it is another one. In source records, IDs are unique, and the latest record counts.

A POS may have two exports of the same bills, of which each lacks what the other one shows, such as the payments, and
an export of a day may begin within a bill. So a bill that would lose such a part is treated like another one.
"""

import re
from collections import Counter
from datetime import date, datetime, timedelta
from typing import Literal

from msgspec import Raw, Struct, json

from counterfoil.domain.changes import BillRow, EncodedBill
from counterfoil.domain.doubts import DeliveryDoubt

# A load may have this many such bills, and source records this share of their bills. An export may not have more than
# either.
MAX_REPLACED, MAX_SHARE = 5, 10
# At most this many bills are named.
MAX_NAMED = 5
# A correction may change the closing time of a bill by this much.
MAX_CORRECTED_TIME = timedelta(minutes=10)
# The offsets of time zones differ by quarters of an hour.
QUARTER = timedelta(minutes=15)
_MIDNIGHT, _FULL_HOUR = "T00:00:00", ":00:00.000"
# An ID of an API. A number of a till is shorter, even with the day, the branch and the till.
_LONG_ID = re.compile(r"[0-9A-Za-z]{16}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-", re.IGNORECASE)

Reason = Literal["moved", "other_bill", "incomplete"]


class _Line(Struct):
    id: str | None = None
    name: str | None = None
    qty: float | None = None


class _ComparedAmounts(Struct):
    net: float | None = None
    tip: float | None = None
    vat: float | None = None


class _StoredBill(Struct, rename="camel"):
    """The fields of a published bill that are compared."""

    amounts: _ComparedAmounts
    items: list[_Line]
    payments: list[Raw]
    status: str
    timestamp: str | None = None
    bill_date: str | None = None
    device_id: str | None = None
    station_id: str | None = None
    table_name: str | None = None
    cashier: str | None = None


_decode = json.Decoder(_StoredBill).decode


class StoredBill(Struct, frozen=True):
    """A bill in the store, as it is compared with a delivered one."""

    rev: float | None
    digest: bytes
    load: int | None
    body: bytes


def may_be_replaced(known: StoredBill | BillRow, change: EncodedBill) -> bool:
    """Return whether the change is neither the same bill, nor another revision of it, nor the bill after an undo."""
    if known.load is not None and known.load < 0:
        return False
    return change.digest != known.digest and (change.rev is None or change.rev == known.rev)


class ReplacedBill(Struct, frozen=True, rename="camel"):
    """A stored bill that would be replaced implausibly, with its day and time, and those that it would get."""

    shop_id: str
    bill_id: str
    reason: Reason
    stored_day: str | None
    day: str | None
    stored_at: str | None = None
    closed_at: str | None = None


def implausible(stored: bytes, change: EncodedBill, *, is_export: bool) -> ReplacedBill | None:
    """Return the bill if the change would replace it implausibly, or None if it is a correction of the stored bill."""
    old, new = _decode(stored), _decode(change.body)
    if is_export:
        is_other = _is_of_other_till(old, new, change.bill_id) or _has_other_content(old, new, change)
    else:
        is_other = old.amounts.net != new.amounts.net and bool(new.items) and _has_other_lines(old, new)
    is_moved = (old.bill_date is not None and old.bill_date != new.bill_date) or _is_shifted(old, new)
    is_incomplete = _is_incomplete(old, new, change, is_export=is_export)
    reason: Reason
    if is_other:
        reason = "other_bill"
    elif is_incomplete:
        reason = "incomplete"
    elif is_moved:
        reason = "moved"
    else:
        return None
    days, times = (old.bill_date, new.bill_date), (old.timestamp, new.timestamp)
    return ReplacedBill(change.shop_id, change.bill_id, reason, *days, *times)


def _is_of_other_till(old: _StoredBill, new: _StoredBill, bill_id: str) -> bool:
    """Return whether the bills come from tills, or days, that count alike, although they may have the same content.

    Bills of one till are one bill. Otherwise, bills that were closed far apart are two, unless they are of one table,
    to which things were added, or the ID is too long to be a number of a till.
    """
    if _is_same_time(old, new):
        return False
    tills = [(old.device_id, new.device_id), (old.station_id, new.station_id)]
    if any(map(_differs, tills)):
        return True
    if not _is_other_time(old, new):
        # If only the day is known, a correction may change how a bill was paid, but hardly who sold it where.
        others = [(old.table_name, new.table_name), (old.cashier, new.cashier)]
        return not _has_times(old, new) and any(map(_differs, others))
    is_same = any(mine and mine == other for mine, other in [*tills, (old.table_name, new.table_name)])
    return not is_same and not _LONG_ID.search(bill_id)


def _is_incomplete(old: _StoredBill, new: _StoredBill, change: EncodedBill, *, is_export: bool) -> bool:
    """Return whether a bill that counts lacks a part that the stored one has. A tip or a tax of 0 is not missing."""
    if new.status == "void" or not new.amounts.net:
        return False
    is_partial = bool(change.figures.from_lines) or abs(new.amounts.net) < abs(old.amounts.net or 0)
    if is_export and is_partial and _lines(new) < _lines(old):
        return True
    lacks_tip = bool(old.amounts.tip) and new.amounts.tip is None
    lacks_tax = bool(old.amounts.vat) and new.amounts.vat is None
    lacks_items = bool(old.items) and not new.items
    lacks_payments = bool(old.payments) and not new.payments
    return lacks_tip or lacks_tax or lacks_items or lacks_payments


def _differs(values: tuple[str | None, str | None]) -> bool:
    """Return whether both bills say something, but not the same."""
    return None not in values and values[0] != values[1]


def _has_other_content(old: _StoredBill, new: _StoredBill, change: EncodedBill) -> bool:
    """Return whether the lines or the total are those of another bill."""
    # The refund of a sale is a bill of its own, although some exports give it the number of the sale.
    if (old.amounts.net or 0) * (new.amounts.net or 0) < 0:
        return True
    is_same_total = old.amounts.net == new.amounts.net
    if not (old.items and new.items):
        return not is_same_total and not _is_same_time(old, new)
    # The second half of a bill may state the total of the whole bill. Then its lines do not add up to it.
    is_split = bool(change.figures.from_lines) and not _lines(old) & _lines(new)
    return is_split or (not is_same_total and _has_other_lines(old, new))


def _has_other_lines(old: _StoredBill, new: _StoredBill) -> bool:
    """Return whether lines were replaced or removed as in another bill, and not as in a correction of this one."""
    old_lines, new_lines = _lines(old), _lines(new)
    gone, added = old_lines - new_lines, new_lines - old_lines
    if not gone:
        return False
    if _is_other_time(old, new):
        return bool(added) or (new.amounts.net or 0) < (old.amounts.net or 0)
    if not added:
        return False
    kept = old_lines & new_lines
    if kept and _is_same_time(old, new):
        # One bill whose quantities were corrected.
        kept = _lines(old, with_quantity=False) & _lines(new, with_quantity=False)
    return kept.total() * 2 <= max(old_lines.total(), new_lines.total())


def correction(stored: bytes, change: EncodedBill) -> tuple[bool, bool]:
    """Return whether a bill that counts is changed as if it were corrected, and whether nothing shows that it is one.

    A correction changes the total, and removes lines or their quantities. Where neither a time nor a till is known, a
    bill with the same number that differs in any of these may be another one.
    """
    old, new = _decode(stored), _decode(change.body)
    if not new.amounts.net:
        return False, False
    is_other_total, has_lost_lines = old.amounts.net != new.amounts.net, bool(new.items and _lines(old) - _lines(new))
    is_known = _has_times(old, new) or old.device_id or old.station_id or _LONG_ID.search(change.bill_id)
    is_unproven = not is_known and (is_other_total or has_lost_lines)
    return is_unproven or (is_other_total and has_lost_lines), is_unproven


# The day, the minute and the total of a bill.
Sale = tuple[date, str, float | None]


def sale_of(body: bytes) -> Sale | None:
    """Return the day, the minute and the total of a bill, or None if its time of day is not known."""
    bill = _decode(body)
    if not bill.bill_date or not bill.timestamp or not _has_times(bill):
        return None
    # Another export of the same bills may have no seconds.
    return date.fromisoformat(bill.bill_date), bill.timestamp[:16], bill.amounts.net


def _lines(bill: _StoredBill, *, with_quantity: bool = True) -> Counter[tuple[str | None, float | None]]:
    return Counter((line.id or line.name, line.qty if with_quantity else None) for line in bill.items)


def _is_other_time(old: _StoredBill, new: _StoredBill) -> bool:
    """Return whether the bills were closed at clearly different times, or on different days if only these are known."""
    if old.timestamp is None or new.timestamp is None:
        return False
    if old.bill_date == new.bill_date and not _has_times(old, new):
        return False
    difference = datetime.fromisoformat(new.timestamp) - datetime.fromisoformat(old.timestamp)
    return abs(difference) > MAX_CORRECTED_TIME


def _is_shifted(old: _StoredBill, new: _StoredBill) -> bool:
    """Return whether only the time differs, by quarters of an hour, as if it were read in another time zone."""
    if old.timestamp is None or new.timestamp is None or old.timestamp == new.timestamp:
        return False
    shift = datetime.fromisoformat(new.timestamp) - datetime.fromisoformat(old.timestamp)
    return shift % QUARTER == timedelta(0) and old.amounts == new.amounts and _lines(old) == _lines(new)


def _has_times(*bills: _StoredBill) -> bool:
    """Return whether the times of day are known. Midnight, or only full hours, may mean that only the day is."""
    times = [bill.timestamp or _MIDNIGHT for bill in bills]
    return not any(_MIDNIGHT in time for time in times) and not all(_FULL_HOUR in time for time in times)


def _is_same_time(old: _StoredBill, new: _StoredBill) -> bool:
    return old.timestamp == new.timestamp and _has_times(old)


class ReplacementGuard(Struct):
    """Counts the bills of a load, and those that would be replaced implausibly."""

    is_export: bool = False
    bills: int = 0
    moved: int = 0
    others: int = 0
    incomplete: int = 0
    """The others that only lack a part of the stored bill."""
    corrected: int = 0
    """The bills that keep their time, but change lines and their total. If there are too many, they are other bills."""
    unproven: int = 0
    """Those of which nothing shows that they are the stored bills. Most bills of an export may not be so."""
    known: int = 0
    """The bills of a checked load that the store has."""
    same_load: int = 0
    """The number of an earlier load of the same sales with other IDs, or 0."""
    has_same_sales: bool = False
    """Whether the store has most bills with the same time and total, but with other IDs."""
    first: list[ReplacedBill] = []
    is_exceeded: bool = False
    written: int = 0
    """The number of such bills that were written, before there were too many."""

    @property
    def doubt(self) -> DeliveryDoubt:
        """The doubt that stops a load with too many such bills."""
        return DeliveryDoubt("replaced", self.moved + self.others, self.bills)

    def rejects(self, stored: bytes, change: EncodedBill) -> bool:
        """Count the bill if the change would replace it implausibly; return whether the change is rejected."""
        bill = implausible(stored, change, is_export=self.is_export)
        if bill is None:
            is_corrected, is_unproven = correction(stored, change)
            self.corrected += is_corrected if self.is_export else is_unproven
            self.unproven += is_unproven
            return False
        if bill.reason == "moved":
            self.moved += 1
        else:
            self.others += 1
            self.incomplete += bill.reason == "incomplete"
        if len(self.first) < MAX_NAMED:
            self.first.append(bill)
        return self.is_export and bill.reason != "moved"

    def may_write(self, bills: int) -> bool:
        """Count the bills of a batch after they were compared; return whether the batch may be written."""
        self.bills += bills
        written = self.moved + self.corrected
        are_many = self.corrected > MAX_REPLACED and self.corrected * MAX_SHARE > self.bills
        if are_many or (self.is_export and self.unproven * 2 > self.bills):
            self.others, self.corrected = self.others + self.corrected, 0
        found = self.moved + self.others
        exceeds = (found > MAX_REPLACED, found * MAX_SHARE > self.bills)
        self.is_exceeded = self.is_exceeded or (any(exceeds) if self.is_export else all(exceeds))
        if not self.is_exceeded:
            self.written = written if self.is_export else found
        return not self.is_exceeded
