"""What shops took on each day, and what is usual: the figures with which an operator begins the day.

Days are calendar days in the shop's own time zone, like those of `from` and `to` in the API. The net is what the bills
state, without those that are void.

What is usual on a day is the median over the same weekday of the last four weeks, from the shop's first day on. A day
without bills counts as zero, so that a weekly closing day is usual. In a shop's first week, nothing is usual yet.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from statistics import median

from msgspec import Struct, json

from counterfoil.domain.activity import WEEKS
from counterfoil.domain.changes import NO_DAY
from counterfoil.model.calendar import date_of

# To know what was usual on a day, the days of these weeks before it are needed, and the shop's first day.
USUAL_FROM = timedelta(weeks=WEEKS)
NOTHING = Decimal(0)


class DayOfShop(Struct, frozen=True, kw_only=True, rename="camel"):
    """The bills of a shop on one day. `day` is None for bills without a date.

    `voids` and `net` are None while they have not been added up, as just after a large load.
    """

    shop_id: str
    day: date | None
    bills: int
    voids: int | None
    net: Decimal | None


class Usual(Struct, frozen=True, kw_only=True, rename="camel"):
    """The medians of earlier days. `voids` and `net` are None if one of these days has not been added up."""

    bills: float
    voids: float | None
    net: Decimal | None


class ComparedDay(Struct, frozen=True, kw_only=True, rename="camel"):
    """A day of a shop beside what is usual, which is None in the shop's first week. A day that goes on `is_open`."""

    day: date
    bills: int
    voids: int | None
    net: Decimal | None
    usual: Usual | None
    is_open: bool = False

    @property
    def net_difference(self) -> Decimal | None:
        """By how much the net differs from the usual one, or None if one is not known or the day has not ended."""
        if self.is_open or self.net is None or self.usual is None or self.usual.net is None:
            return None
        return self.net - self.usual.net

    @property
    def share(self) -> float | None:
        """The net as a share of the usual one, or None if there is no usual net."""
        difference = self.net_difference
        if difference is None or self.usual is None or not self.usual.net:
            return None
        return float(1 + difference / self.usual.net)


class TradingDays(Struct, frozen=True):
    """The days of one shop that have bills, by day."""

    days: Mapping[date, DayOfShop]

    def compared(self, day: date, today: date) -> ComparedDay:
        found = self.days.get(day)
        return ComparedDay(
            day=day,
            bills=found.bills if found else 0,
            voids=found.voids if found else 0,
            net=found.net if found else NOTHING,
            usual=self.usual(day),
            is_open=day == today,
        )

    def usual(self, day: date) -> Usual | None:
        """Return what is usual on a day, or None if the shop had no bills on or before the same weekday."""
        first = min(self.days, default=None)
        if first is None:
            return None
        bills: list[int] = []
        voids: list[int | None] = []
        nets: list[Decimal | None] = []
        for week in range(1, WEEKS + 1):
            earlier = day - timedelta(weeks=week)
            if earlier < first:
                break
            found = self.days.get(earlier)
            bills.append(found.bills if found else 0)
            voids.append(found.voids if found else 0)
            nets.append(found.net if found else NOTHING)
        if not bills:
            return None
        known_voids = [count for count in voids if count is not None]
        known_nets = [net for net in nets if net is not None]
        return Usual(
            bills=float(median(bills)),
            voids=float(median(known_voids)) if len(known_voids) == len(bills) else None,
            net=median(known_nets) if len(known_nets) == len(bills) else None,
        )


def by_shop(days: Iterable[DayOfShop]) -> dict[str, TradingDays]:
    """Return the days of each shop that have a date."""
    found: dict[str, dict[date, DayOfShop]] = {}
    for of_shop in days:
        if of_shop.day is not None:
            found.setdefault(of_shop.shop_id, {})[of_shop.day] = of_shop
    return {shop_id: TradingDays(of_days) for shop_id, of_days in found.items()}


class SumOfDay(Struct, frozen=True, kw_only=True, rename="camel"):
    """The same day of several shops added up.

    `usual_bills` and `usual_net` are those of the shops in which something is usual, and `compared_bills` and
    `compared_net` what these shops took on the day. `without_usual` is the number of the others that have bills on the
    day. `net` is None if that of a shop has not been added up.
    """

    bills: int
    voids: int | None
    net: Decimal | None
    compared_bills: int
    compared_net: Decimal | None
    usual_bills: float
    usual_net: Decimal | None
    without_usual: int

    @property
    def difference(self) -> float | None:
        """By which share the net differs from the usual one, or None if one of them is not known or zero."""
        if self.compared_net is None or not self.usual_net:
            return None
        return float(self.compared_net / self.usual_net - 1)


def sum_of_day(days: Sequence[ComparedDay]) -> SumOfDay:
    compared: list[ComparedDay] = []
    usual: list[Usual] = []
    without_usual = 0
    for day in days:
        if day.usual is not None:
            compared.append(day)
            usual.append(day.usual)
        elif day.bills > 0:
            without_usual += 1
    return SumOfDay(
        bills=sum(day.bills for day in days),
        voids=_whole([day.voids for day in days]),
        net=_sum([day.net for day in days]),
        compared_bills=sum(day.bills for day in compared),
        compared_net=_sum([day.net for day in compared]),
        usual_bills=sum(of_shop.bills for of_shop in usual),
        usual_net=_sum([of_shop.net for of_shop in usual]),
        without_usual=without_usual,
    )


def _sum(amounts: Sequence[Decimal | None]) -> Decimal | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known, NOTHING) if len(known) == len(amounts) else None


def _whole(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


# --- the bills of a day, and one bill --------------------------------------------------------------------


class _ListedAmounts(Struct):
    net: Decimal | None = None
    tip: Decimal | None = None


class _ListedPayment(Struct):
    name: str | None = None


class _ListedItem(Struct):
    cancelled: bool = False


class _ListedFields(Struct, rename="camel"):
    id: str
    status: str
    amounts: _ListedAmounts
    items: list[_ListedItem]
    payments: list[_ListedPayment]
    receipt_number: str | None = None
    timestamp: str | None = None
    business_date: str | None = None


_decode = json.Decoder(_ListedFields).decode


class ListedBill(Struct, frozen=True, kw_only=True, rename="camel"):
    """A bill as a list shows it, without anything that names a person. `changed_at` is set if it was changed."""

    bill_id: str
    receipt_number: str | None
    closed_at: int | None
    business_date: str | None
    status: str
    lines: int
    net: Decimal | None
    paid_by: list[str]
    changed_at: int | None


def listed_bill(closed_at: int | None, updated_at: int | None, load_before: int | None, body: bytes) -> ListedBill:
    """Return a bill for a list. `load_before` is the load that stored what it was before, or None if it is as added."""
    bill = _decode(body)
    return ListedBill(
        bill_id=bill.id,
        receipt_number=bill.receipt_number,
        closed_at=closed_at,
        business_date=bill.business_date,
        status=bill.status,
        lines=sum(not item.cancelled for item in bill.items),
        net=bill.amounts.net,
        paid_by=[payment.name for payment in bill.payments if payment.name],
        changed_at=None if load_before is None else updated_at,
    )


class BillInStore(Struct, frozen=True, kw_only=True):
    """A bill as it is stored. `load` is the load that added it or last changed it, and `load_before` the one before.

    They are None or 0 if they are not known, and `load_before` is None if the load added the bill. `load` is negative
    after the undo of that load.
    """

    shop_id: str
    load: int | None
    load_before: int | None
    updated_at: int | None
    body: bytes

    @property
    def is_changed(self) -> bool:
        return self.load_before is not None


def day_text(day: date | None) -> str:
    """Return a day as it stands in the address of a page."""
    return "none" if day is None else day.isoformat()


def day_named(text: str) -> date | None:
    """Return the day in the address of a page, or None for the bills without a date; raise ValueError otherwise."""
    return None if text == "none" else date.fromisoformat(text)


def day_of_number(number: int) -> date | None:
    return None if number == NO_DAY else date_of(number)
