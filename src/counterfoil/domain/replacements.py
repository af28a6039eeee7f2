"""Notices that a load would replace stored bills by other ones, because bill numbers start again or an export is cut.

A stored bill normally keeps its day and most of its lines or its total. If a record changes them, the bill either
moved to another day, or the record is another bill with the same ID. A few bills may move in a load, and are named;
another bill is rejected. If there are more than a few, the load writes nothing more.
"""

from collections import Counter
from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct, json

from counterfoil.domain.changes import EncodedBill

# A load may have this many such bills, but not more than this share of its bills.
MAX_REPLACED, MAX_SHARE = 5, 10
# At most this many bills are named.
MAX_NAMED = 5
# A correction may change the closing time of a bill by this much.
MAX_CORRECTED_TIME = timedelta(minutes=10)
_MIDNIGHT = "T00:00:00"

Reason = Literal["moved", "other_bill"]


class _Line(Struct):
    id: str | None = None
    name: str | None = None
    qty: float | None = None


class _Net(Struct):
    net: float | None = None


class _StoredBill(Struct, rename="camel"):
    """The fields of a published bill that are compared."""

    amounts: _Net
    items: list[_Line]
    timestamp: str | None = None
    bill_date: str | None = None


_decode = json.Decoder(_StoredBill).decode


class ReplacedBill(Struct, frozen=True, rename="camel"):
    """A stored bill that would be replaced implausibly, with its day and the day that it would get."""

    shop_id: str
    bill_id: str
    reason: Reason
    stored_day: str | None
    day: str | None


def implausible(stored: bytes, change: EncodedBill) -> ReplacedBill | None:
    """Return the bill if the change would replace it implausibly, or None if it is a correction of the stored bill."""
    old, new = _decode(stored), _decode(change.body)
    is_same_total = old.amounts.net == new.amounts.net
    if old.items and new.items:
        # The second half of a bill may state the total of the whole bill. Then its lines do not add up to it.
        *_, from_lines, _ = change.figures
        is_split = bool(from_lines) and not _lines(old) & _lines(new)
        is_other = is_split or (not is_same_total and _has_other_lines(old, new))
    else:
        is_other = not is_same_total and not _is_same_time(old, new)
    # The refund of a sale is a bill of its own, although some exports give it the number of the sale.
    is_other = is_other or (old.amounts.net or 0) * (new.amounts.net or 0) < 0
    is_moved = old.bill_date is not None and old.bill_date != new.bill_date
    if not (is_other or is_moved):
        return None
    reason: Reason = "other_bill" if is_other else "moved"
    return ReplacedBill(change.shop_id, change.bill_id, reason, old.bill_date, new.bill_date)


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
        kept = _products(old) & _products(new)
    return kept.total() * 2 <= max(old_lines.total(), new_lines.total())


def _lines(bill: _StoredBill) -> Counter[tuple[str | None, float | None]]:
    return Counter((line.id or line.name, line.qty) for line in bill.items)


def _products(bill: _StoredBill) -> Counter[tuple[str | None, float | None]]:
    return Counter((line.id or line.name, None) for line in bill.items)


def _is_other_time(old: _StoredBill, new: _StoredBill) -> bool:
    """Return whether the bills were closed at clearly different times, or on different days if only these are known."""
    if old.timestamp is None or new.timestamp is None:
        return False
    if old.bill_date == new.bill_date and (_MIDNIGHT in old.timestamp or _MIDNIGHT in new.timestamp):
        return False
    difference = datetime.fromisoformat(new.timestamp) - datetime.fromisoformat(old.timestamp)
    return abs(difference) > MAX_CORRECTED_TIME


def _is_same_time(old: _StoredBill, new: _StoredBill) -> bool:
    """Return whether both bills were closed at the same time. Midnight means that only the day is known."""
    return old.timestamp is not None and old.timestamp == new.timestamp and _MIDNIGHT not in old.timestamp


class ReplacementGuard(Struct):
    """Counts the bills of a load, and those that would be replaced implausibly."""

    bills: int = 0
    moved: int = 0
    others: int = 0
    first: list[ReplacedBill] = []
    is_exceeded: bool = False
    written: int = 0
    """The number of bills that moved and were written, before there were too many."""

    def add(self, bill: ReplacedBill) -> None:
        if bill.reason == "moved":
            self.moved += 1
        else:
            self.others += 1
        if len(self.first) < MAX_NAMED:
            self.first.append(bill)

    def may_write(self, bills: int) -> bool:
        """Count the bills of a batch after they were compared; return whether the batch may be written."""
        self.bills += bills
        found = self.moved + self.others
        self.is_exceeded = self.is_exceeded or found > MAX_REPLACED or found * MAX_SHARE > self.bills
        if not self.is_exceeded:
            self.written = self.moved
        return not self.is_exceeded
