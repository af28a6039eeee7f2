"""What a held delivery would change, so that the operator can decide without opening its file.

The watcher, which alone may read the file, finds this when it holds it, and stores it beside the open item. It has no
names: neither of members nor of staff, and of a bill only its ID, times, number of lines and net.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct, field, json

from counterfoil.domain.changes import NO_DAY, EncodedBill
from counterfoil.domain.doubts import DeliveryDoubt
from counterfoil.domain.replacements import StoredBill
from counterfoil.model.calendar import date_of
from counterfoil.model.control_totals import decimal_text, millionths
from counterfoil.model.resources import Number

# At most this many bills are counted. Of a larger delivery, the preview says that it is partial.
MAX_COUNTED = 250_000
# A preview has at most this many days of shops, shops, and bills of each kind.
MAX_DAYS, MAX_SHOPS, MAX_BILLS = 400, 500, 10

Change = Literal["added", "changed"]
# A shop and a calendar day as a number such as 20261114.
ShopDay = tuple[str, int]


class ChangedDay(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a delivery would do to a shop's calendar day. `net` is by how much it changes, without voided bills."""

    shop_id: str
    day: str | None
    added: int
    changed: int
    net: str


class PreviewedBill(Struct, frozen=True, kw_only=True, rename="camel"):
    """One of the bills that a delivery would add or change. A changed bill has what is stored now as `stored...`."""

    shop_id: str
    bill_id: str
    change: Change
    closed_at: int | None
    status: str
    lines: int
    net: str | None
    stored_day: str | None = None
    stored_status: str | None = None
    stored_lines: int | None = None
    stored_net: str | None = None


class DeliveryPreview(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a delivery would change at the time `made_at`. `shops` are those in which it adds or changes bills."""

    made_at: int
    bills: int
    added: int
    changed: int
    shops: list[str]
    days: list[ChangedDay]
    more_days: int
    examples: list[PreviewedBill]
    is_partial: bool = False
    doubts: list[DeliveryDoubt] = []
    """Why it is held. Previews of older versions do not say it."""


class _PreviewedAmounts(Struct):
    net: Number | None = None


class _PreviewedLine(Struct):
    cancelled: bool = False


class _BillOfDelivery(Struct, rename="camel"):
    status: str
    amounts: _PreviewedAmounts
    items: list[_PreviewedLine]
    bill_date: str | None = None

    @property
    def lines(self) -> int:
        return sum(not line.cancelled for line in self.items)

    @property
    def day(self) -> int:
        return int(self.bill_date.replace("-", "")) if self.bill_date else NO_DAY

    @property
    def counted_net(self) -> int:
        """The net in millionths, or 0 if the bill is void or states none."""
        if self.status == "void" or self.amounts.net is None:
            return 0
        return millionths(self.amounts.net)


_decode = json.Decoder(_BillOfDelivery).decode


class _DayChange(Struct):
    added: int = 0
    changed: int = 0
    net: int = 0


class DeliverySketch(Struct):
    """Adds up what the bills of a delivery would change, batch by batch."""

    _days: dict[ShopDay, _DayChange] = {}
    # For each counted bill, the day and the net that the delivery gives it so far.
    _counted: dict[tuple[str, str], tuple[int, int]] = {}
    _examples: dict[Change, list[PreviewedBill]] = field(default_factory=lambda: {"added": [], "changed": []})
    _is_partial: bool = False

    def add(self, bills: Sequence[EncodedBill], stored: Mapping[tuple[str, str], StoredBill]) -> None:
        for bill in bills:
            key = bill.shop_id, bill.bill_id
            if key in self._counted:
                self._correct(bill)
            elif len(self._counted) >= MAX_COUNTED:
                self._is_partial = True
            else:
                self._count(bill, stored.get(key))

    def _count(self, bill: EncodedBill, known: StoredBill | None) -> None:
        delivered = _decode(bill.body)
        self._counted[bill.shop_id, bill.bill_id] = bill.bill_day, delivered.counted_net
        if known is None:
            self._day(bill.shop_id, bill.bill_day).added += 1
            self._day(bill.shop_id, bill.bill_day).net += delivered.counted_net
            self._show(bill, "added", delivered, None)
            return
        if known.digest == bill.digest or _is_older(bill, known):
            # A later record of this bill in the same delivery is compared with what is stored.
            del self._counted[bill.shop_id, bill.bill_id]
            return
        before = _decode(known.body)
        self._day(bill.shop_id, bill.bill_day).changed += 1
        self._day(bill.shop_id, before.day).net -= before.counted_net
        self._day(bill.shop_id, bill.bill_day).net += delivered.counted_net
        self._show(bill, "changed", delivered, before)

    def _correct(self, bill: EncodedBill) -> None:
        """Count the last record of a bill that a delivery has several times."""
        day, net = self._counted[bill.shop_id, bill.bill_id]
        delivered = _decode(bill.body)
        self._day(bill.shop_id, day).net -= net
        self._day(bill.shop_id, bill.bill_day).net += delivered.counted_net
        self._counted[bill.shop_id, bill.bill_id] = bill.bill_day, delivered.counted_net

    def _day(self, shop_id: str, day: int) -> _DayChange:
        return self._days.setdefault((shop_id, day), _DayChange())

    def _show(
        self, bill: EncodedBill, change: Change, delivered: _BillOfDelivery, before: _BillOfDelivery | None
    ) -> None:
        if len(self._examples[change]) >= MAX_BILLS:
            return
        self._examples[change].append(
            PreviewedBill(
                shop_id=bill.shop_id,
                bill_id=bill.bill_id,
                change=change,
                closed_at=bill.closed_at,
                status=delivered.status,
                lines=delivered.lines,
                net=_net_text(delivered),
                stored_day=before.bill_date if before else None,
                stored_status=before.status if before else None,
                stored_lines=before.lines if before else None,
                stored_net=_net_text(before) if before else None,
            )
        )

    def preview(self, bills: int, now_ms: int) -> DeliveryPreview:
        """Return the preview of a delivery that has so many bills. Of very many days, it has the latest."""
        found = sorted(self._days.items(), key=lambda day: (day[0][1], day[0][0]))
        days = [
            ChangedDay(
                shop_id=shop_id,
                day=None if day == NO_DAY else date_of(day).isoformat(),
                added=change.added,
                changed=change.changed,
                net=decimal_text(change.net),
            )
            for (shop_id, day), change in found[-MAX_DAYS:]
        ]
        return DeliveryPreview(
            made_at=now_ms,
            bills=bills,
            added=sum(change.added for _, change in found),
            changed=sum(change.changed for _, change in found),
            shops=sorted({shop_id for (shop_id, _), _ in found})[:MAX_SHOPS],
            days=days,
            more_days=max(0, len(found) - MAX_DAYS),
            examples=[*self._examples["changed"], *self._examples["added"]],
            is_partial=self._is_partial,
        )


def _is_older(bill: EncodedBill, known: StoredBill) -> bool:
    """Return whether the store has a later revision of the bill, so that the record changes nothing."""
    return bill.rev is not None and known.rev is not None and bill.rev < known.rev


def _net_text(bill: _BillOfDelivery) -> str | None:
    return None if bill.amounts.net is None else decimal_text(millionths(bill.amounts.net))
