"""Control totals: what the bills of an import or a load add up to, per shop and day.

An operator compares them with the figures of the POS. They are computed from the bill that a load stores, so that an
import to a file, a check and a load show the same figures. Amounts are whole millionths of a baht, which is as exact
as the store is. Voided bills are counted, but their amounts are not. The day of a bill is its business day, or its
calendar day in a shop without a closing time.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import product
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import asdict

from counterfoil.model.pos_values import MILLION, WHOLE_MILLIONTHS
from counterfoil.model.resources import Amounts, Item, Number, Payment, Status

# Totals are kept for at most this many pairs of shop and day. The bills of all others are added up together.
MAX_SHOP_DAYS = 20_000
# The store keeps at most this many pairs of shop and day for each load.
MAX_STORED_DAYS = 1_000
# At most this many bills are remembered in order to notice that a bill occurs twice.
MAX_REMEMBERED_BILLS = 250_000
# At most this many bills are named that differ from their lines, and as many that differ from their payments.
MAX_NAMED = 5
# A till may round each part of a bill to a satang.
TOLERANCE = MILLION // 100
_SATANG = 0.01

Basis = Literal["lines", "payments"]


class Figures(Struct, frozen=True, gc=False):
    """What a bill adds to the totals."""

    day: int
    """A number such as 20261114, or 0."""
    is_void: bool
    net: int | None
    tip: int
    tax: int
    from_lines: int | None
    """By how much the net differs from the lines, or None if there is nothing to compare."""
    from_payments: int | None
    lacks_day: bool
    """Whether the bill has a time, but no business day."""


# A bill that is added to the totals: its shop, its ID and its figures.
CountedBill = tuple[str, str, Figures]


def millionths(amount: Number) -> int:
    """Return an amount as a whole number of millionths, exactly as its decimal notation says."""
    if type(amount) is int:
        return amount * MILLION
    if -WHOLE_MILLIONTHS < amount < WHOLE_MILLIONTHS:
        return round(amount * MILLION)
    return int(Decimal(repr(amount)) * MILLION)


def line_amount(item: Item) -> Number | None:
    """Return what a line adds to the sum of the lines, or None if its total is not known."""
    return 0 if item.cancelled or item.is_tip else item.line_total


def lines_amount(items: Iterable[Item]) -> Number | None:
    """Return the sum of the lines, or None if there are none or a total is not known."""
    total: Number | None = None
    for item in items:
        amount = line_amount(item)
        if amount is None:
            return None
        total = amount if total is None else total + amount
    return total


def figures_of(
    day: int,
    status: Status,
    amounts: Amounts,
    lines: Number | None,
    payments: Sequence[Payment],
    *,
    lacks_day: bool = False,
) -> Figures:
    """Return what a bill adds to the totals. `lines` is the sum of its lines, if it is known.

    `lacks_day` says that it has a time, but no business day.
    """
    net, is_void = amounts.net, status == "void"
    tip = millionths(amounts.tip) if amounts.tip else 0
    tax = millionths(amounts.vat) if amounts.vat else 0
    if net is None or is_void:
        exact_net = None if net is None else millionths(net)
        return Figures(day, is_void, exact_net, tip, tax, None, None, lacks_day)
    exact_net = millionths(net)
    from_lines: int | None = None
    if lines is not None:
        expected = lines - (amounts.discount_total or 0) + (amounts.tip or 0) + (amounts.service_charge or 0)
        expected += (amounts.delivery_fee or 0) + (amounts.rounding or 0) - (amounts.credit or 0)
        if amounts.vat_type == "Exclude":
            expected += amounts.vat or 0
        is_equal = -_SATANG < net - expected < _SATANG
        from_lines = 0 if is_equal else _lines_difference(exact_net, tip, tax, amounts, millionths(lines))
    if len(payments) == 1 and payments[0].amount == net and payments[0].change == 0:
        return Figures(day, is_void, exact_net, tip, tax, from_lines, 0, lacks_day)
    from_payments = _payments_difference(exact_net, payments)
    return Figures(day, is_void, exact_net, tip, tax, from_lines, from_payments, lacks_day)


def _lines_difference(net: int, tip: int, tax: int, amounts: Amounts, lines: int) -> int:
    """Return by how much the net differs from the lines with the charges, tax, discounts and rounding of the bill.

    Tills differ in whether the total of a line contains its discount and its tax. The bill adds up if it does under
    one of these readings.
    """
    charges = (amounts.service_charge, amounts.delivery_fee, amounts.card_surcharge, amounts.rounding)
    rest = lines + tip + sum([millionths(charge) for charge in charges if charge])
    credit = millionths(amounts.credit) if amounts.credit else 0
    discount = _discount(amounts)
    on_top = tax if amounts.vat_type == "Exclude" else 0
    # The discounts are not capped at the amount of the goods.
    expected = rest + on_top - credit - (min(discount, lines) if lines > 0 else discount)
    if abs(net - expected) <= TOLERANCE:
        return 0
    taxes = (tax, 0) if amounts.vat_type not in ("Include", "Exclude") else (on_top,)
    for added, paid, reduced in product(taxes, (credit, 0), (discount, 0, -discount)):
        if abs(net - (rest + added - paid - reduced)) <= TOLERANCE:
            return 0
    return net - expected


def _discount(amounts: Amounts) -> int:
    if amounts.discount_total is not None:
        return millionths(amounts.discount_total)
    parts = sum([millionths(promotion.amount) for promotion in (*amounts.campaign, *amounts.coupon)])
    return parts + millionths(amounts.discount or 0)


def _payments_difference(net: int, payments: Sequence[Payment]) -> int | None:
    if not payments:
        return None
    paid = 0
    for payment in payments:
        if payment.amount is None or payment.change is None:
            return None
        paid += millionths(payment.amount) - (millionths(payment.change) if payment.change else 0)
    return 0 if abs(net - paid) <= TOLERANCE else net - paid


class TotalsOfDay(Struct, frozen=True, rename="camel"):
    """The totals of a shop's business day. Both are None for the bills beyond MAX_SHOP_DAYS; amounts are decimals."""

    shop_id: str | None
    day: str | None
    bills: int
    voids: int
    refunds: int
    net: str
    tip: str
    tax: str


class BillNotAddingUp(Struct, frozen=True, rename="camel"):
    """A bill whose net differs from its lines or its payments."""

    shop_id: str
    bill_id: str
    basis: Basis
    difference: str


class NetComparison(Struct, frozen=True, rename="camel"):
    """How many bills could be compared with their lines or their payments, and how many of them do not add up."""

    compared: int = 0
    different: int = 0


class TotalsReport(Struct, frozen=True, rename="camel", kw_only=True):
    """The totals of an import or a load, as `--json` prints them and the store keeps them.

    `bills` counts all bills, `voids` and `refunds` those among them. Amounts leave out voided bills. If `repeated` is
    not 0, that many bills occurred again and were added again; None means that there were too many bills to tell.
    """

    bills: int = 0
    voids: int = 0
    refunds: int = 0
    net: str = "0.00"
    tip: str = "0.00"
    tax: str = "0.00"
    first_day: str | None = None
    last_day: str | None = None
    without_day: int = 0
    without_business_day: dict[str, int] = {}
    """How many bills have a time but no business day, because their shop has no closing time, by shop."""
    without_net: int = 0
    repeated: int | None = 0
    lines: NetComparison = NetComparison()
    payments: NetComparison = NetComparison()
    not_adding_up: list[BillNotAddingUp] = []
    days: list[TotalsOfDay] = []
    more_days: int = 0
    """The number of pairs of shop and day that are left out of `days`."""

    @property
    def mostly_differs(self) -> bool:
        """Whether the net of most bills is not what was paid or, if no payments are known, what the lines cost."""
        basis = self.payments if self.payments.compared else self.lines
        return basis.different * 2 > basis.compared


class _Sums(Struct):
    bills: int = 0
    voids: int = 0
    refunds: int = 0
    net: int = 0
    tip: int = 0
    tax: int = 0

    def add(self, other: "_Sums") -> None:
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def texts(self) -> dict[str, Any]:
        """Return the numbers of bills, and the amounts as decimals."""
        return asdict(self) | {name: decimal_text(getattr(self, name)) for name in ("net", "tip", "tax")}


class ControlTotals(Struct):
    """Adds up bills."""

    _days: dict[tuple[str, int], _Sums] = field(default_factory=dict)
    _others: _Sums = field(default_factory=_Sums)
    _remembered: dict[int, int] = field(default_factory=dict)
    """The hash of each bill, and that of its figures."""
    _without_business_day: Counter[str] = field(default_factory=Counter)
    _without_net: int = 0
    with_net: int = 0
    size: int = 0
    """The net of all bills, refunds as positive numbers."""
    _without: dict[Basis, int] = field(default_factory=lambda: {"lines": 0, "payments": 0})
    """The number of bills that have no lines or no payments to compare with."""
    _different: dict[Basis, int] = field(default_factory=lambda: {"lines": 0, "payments": 0})
    _not_adding_up: list[BillNotAddingUp] = field(default_factory=list)

    def add(self, bills: Iterable[CountedBill]) -> None:
        days = self._days
        for shop_id, bill_id, figures in bills:
            if self._is_repeated(hash((shop_id, bill_id)), hash(figures)):
                continue
            if figures.lacks_day:
                self._without_business_day[shop_id] += 1
            sums = days.get((shop_id, figures.day)) or self._new_day(shop_id, figures.day)
            sums.bills += 1
            if figures.is_void:
                sums.voids += 1
                continue
            sums.tip += figures.tip
            sums.tax += figures.tax
            net = figures.net
            if net is None:
                self._without_net += 1
                continue
            self.with_net += 1
            self.size += abs(net)
            sums.net += net
            if net < 0:
                sums.refunds += 1
            if figures.from_lines != 0:
                self._note_difference(shop_id, bill_id, "lines", figures.from_lines)
            if figures.from_payments != 0:
                self._note_difference(shop_id, bill_id, "payments", figures.from_payments)

    def _is_repeated(self, bill: int, figures: int) -> bool:
        """Return whether a bill occurred before with the same figures, as in files that overlap."""
        is_repeated = self._remembered.get(bill) == figures
        if len(self._remembered) < MAX_REMEMBERED_BILLS:
            self._remembered[bill] = figures
        return is_repeated

    def _new_day(self, shop_id: str, day: int) -> _Sums:
        if len(self._days) >= MAX_SHOP_DAYS:
            return self._others
        sums = self._days[shop_id, day] = _Sums()
        return sums

    def _note_difference(self, shop_id: str, bill_id: str, basis: Basis, difference: int | None) -> None:
        """Count a bill that does not add up, or that has nothing to compare its net with."""
        if difference is None:
            self._without[basis] += 1
            return
        self._different[basis] += 1
        if self._different[basis] <= MAX_NAMED:
            self._not_adding_up.append(BillNotAddingUp(shop_id, bill_id, basis, decimal_text(difference)))

    def _comparison(self, basis: Basis) -> NetComparison:
        return NetComparison(self.with_net - self._without[basis], self._different[basis])

    def net_of(self, day: int | None) -> int | None:
        """Return the net of a business day over all shops, or of all bills. None if the days were not all kept."""
        if day is not None and self._others.bills:
            return None
        found = sum(sums.net for (_, of_day), sums in self._days.items() if day in (None, of_day))
        return found + self._others.net

    def report(self, most_days: int = MAX_SHOP_DAYS) -> TotalsReport:
        """Return the totals. Of the days, only the latest are listed if there are more than `most_days`."""
        kept = sorted(self._days.items(), key=lambda item: (item[0][1], item[0][0]))
        total = _Sums()
        for _, sums in kept:
            total.add(sums)
        total.add(self._others)
        dated = [day for (_, day), _ in kept if day]
        days = [TotalsOfDay(shop_id, day_text(day), **sums.texts()) for (shop_id, day), sums in kept[-most_days:]]
        if self._others.bills:
            days.append(TotalsOfDay(None, None, **self._others.texts()))
        # The bills beyond MAX_REMEMBERED_BILLS are not remembered.
        is_known = total.bills <= MAX_REMEMBERED_BILLS
        return TotalsReport(
            **total.texts(),
            first_day=day_text(dated[0]) if dated else None,
            last_day=day_text(dated[-1]) if dated else None,
            without_day=sum(sums.bills for (_, day), sums in kept if not day),
            without_business_day=dict(sorted((+self._without_business_day).items())),
            without_net=self._without_net,
            repeated=total.bills - len(self._remembered) if is_known else None,
            lines=self._comparison("lines"),
            payments=self._comparison("payments"),
            not_adding_up=list(self._not_adding_up),
            days=days,
            more_days=max(0, len(kept) - most_days),
        )


def day_text(day: int) -> str | None:
    """Return a day such as 20261114 as text, or None for 0."""
    return f"{day // 10_000:04}-{day // 100 % 100:02}-{day % 100:02}" if day else None


def decimal_text(amount: int) -> str:
    """Return millionths as a decimal number with at least two places."""
    whole, rest = divmod(abs(amount), MILLION)
    places = f"{rest:06}".rstrip("0").ljust(2, "0")
    return f"{'-' if amount < 0 else ''}{whole}.{places}"
