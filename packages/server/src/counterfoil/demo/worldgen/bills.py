"""Generates the bills of all shops by closing time, in constant memory: it merges a stream of bills per shop."""

import heapq
from collections.abc import Iterator
from datetime import date
from random import Random
from typing import NamedTuple

from msgspec import Raw

from counterfoil.demo.worldgen.group import DemoShop, Occasion
from counterfoil.demo.worldgen.menu import Package
from counterfoil.demo.worldgen.plan import WorldPlan, apportion, fresh, opaque, pick, stream
from counterfoil.demo.worldgen.records import Number, baht
from counterfoil.domain.source_bills import SourceAmounts, SourceBill, SourcePayment, SourcePromotion, SourceVoid

# --- amounts and payments, in whole satang, so that they add up exactly -----
#
# net = max(subtotal - discounts, 0) + service + delivery + surcharge (+ VAT on top) - credit + rounding + tip

CASH = "เงินสด Cash"
CARD = "บัตรเครดิต Card"
METHODS = (CASH, CASH, CASH, "สแกนจ่าย QR", "สแกนจ่าย QR", CARD, CARD, "กระเป๋าเงิน E-wallet")
NOTES = (2_000, 10_000, 50_000, 100_000)

CAMPAIGNS = (("ลด 10% วันธรรมดา Weekday 10 %", 10), ("เดือนเกิด Birthday month", 15), ("แถมลอดช่อง Free dessert", 0))
COUPONS = (("คูปอง 50 บาท", 50), ("Coupon 100", 100), ("คูปองน้ำเปล่าฟรี Free water", 20))
GIFT_CARD = ("บัตรของขวัญ Gift card", 5_000)
DELIVERY_FEES = (0, 1_500, 2_500, 4_000)
CREDITS = (2_000, 5_000, 10_000)
KEYED = (1_000, 2_000, 5_000)

CAMPAIGN_CHANCE = 0.08
COUPON_CHANCE = 0.05
GIFT_CARD_CHANCE = 0.002
KEYED_CHANCE = 0.04
CREDIT_CHANCE = 0.12
SPLIT_CHANCE = 0.1
SPLIT_FROM = 20_000
VAT_PERCENT = 7


def amounts_and_payments(
    shop: DemoShop, occasion: Occasion, subtotal: int, tip: int | None, draw: Random, *, by_member: bool
) -> tuple[SourceAmounts, list[SourcePayment]]:
    """Return the amounts of a bill and how it was paid. A charge, or a tip, that the shop does not use is None."""
    method = occasion.delivered_by or pick(draw, METHODS)
    keyed = 0 if shop.keyed_discounts else None
    if keyed is not None and draw.random() < KEYED_CHANCE:
        keyed = min(pick(draw, KEYED), subtotal)
    campaigns, taken = _campaigns(shop, subtotal, draw) if draw.random() < CAMPAIGN_CHANCE else (None, 0)
    coupons, redeemed = _coupons(shop, draw) if draw.random() < COUPON_CHANCE else (None, 0)
    discounts = (keyed or 0) + taken + redeemed
    goods = max(subtotal - discounts, 0)
    service = delivery = surcharge = vat = credit = rounding = None
    if shop.service_percent is not None:
        service = _percent(goods, shop.service_percent) if occasion.at_table else 0
    if shop.delivers:
        delivery = pick(draw, DELIVERY_FEES) if occasion.delivered_by else 0
    if shop.surcharge_percent is not None:
        surcharge = _percent(goods, shop.surcharge_percent) if method is CARD else 0
    taxed = goods + (service or 0)
    due = taxed + (delivery or 0) + (surcharge or 0)
    if shop.vat_type == "Include":
        vat = round(taxed * VAT_PERCENT / (100 + VAT_PERCENT))
    elif shop.vat_type == "Exclude":
        vat = _percent(taxed, VAT_PERCENT)
        due += vat
    if shop.base and shop.base.credit_enabled:
        credit = min(pick(draw, CREDITS), due) if by_member and draw.random() < CREDIT_CHANCE else 0
        due -= credit
    if step := shop.rounding_step:
        rounding = (due + step // 2) // step * step - due
    net = due + (rounding or 0) + (tip or 0)
    amounts = SourceAmounts(
        subtotal=baht(subtotal),
        discount=_optional_baht(keyed),
        campaigns=campaigns,
        coupons=coupons,
        discount_total=baht(discounts),
        service_charge=_optional_baht(service),
        delivery_fee=_optional_baht(delivery),
        card_surcharge=_optional_baht(surcharge),
        credit=_optional_baht(credit),
        vat=_optional_baht(vat),
        vat_type=shop.vat_type,
        rounding=_optional_baht(rounding),
        tip=_optional_baht(tip),
        net=baht(net),
    )
    return amounts, _payments(net, method, draw)


def _optional_baht(satang: int | None) -> Number | None:
    return None if satang is None else baht(satang)


def _campaigns(shop: DemoShop, subtotal: int, draw: Random) -> tuple[list[SourcePromotion], int]:
    name, percent = pick(draw, CAMPAIGNS)
    taken = _percent(subtotal, percent)
    # A campaign without a discount, such as a free dessert, has no amount.
    return _promotion(shop, name, baht(taken) if percent else None), taken


def _coupons(shop: DemoShop, draw: Random) -> tuple[list[SourcePromotion], int]:
    # The till records the whole value of a gift card as a discount, even if it is more than the amount due.
    is_gift_card = draw.random() < GIFT_CARD_CHANCE / COUPON_CHANCE
    name, worth = GIFT_CARD if is_gift_card else pick(draw, COUPONS)
    return _promotion(shop, name, worth), worth * 100


def _promotion(shop: DemoShop, name: str, amount: Number | None) -> list[SourcePromotion]:
    return [SourcePromotion(id=opaque(shop.id, "promotion", name), name=name, amount=amount)]


def _percent(satang: int, percent: int) -> int:
    return (satang * percent + 50) // 100


def _payments(net: int, method: str, draw: Random) -> list[SourcePayment]:
    if net == 0:
        return []
    if net < SPLIT_FROM or draw.random() >= SPLIT_CHANCE:
        return [_payment(net, method, draw)]
    first = net // 3 if draw.random() < 0.5 else net // 2 // 100 * 100
    other = pick(draw, METHODS)
    rest = net - first
    if draw.random() < 0.3:
        return [_payment(first, other, draw), _payment(rest // 2, CASH, draw), _payment(rest - rest // 2, method, draw)]
    return [_payment(first, other, draw), _payment(rest, method, draw)]


def _payment(due: int, method: str, draw: Random) -> SourcePayment:
    if method is not CASH:
        return SourcePayment(name=method, amount=baht(due), change=0)
    note = pick(draw, NOTES)
    tendered = -(-due // note) * note
    return SourcePayment(name=CASH, amount=baht(tendered), change=baht(tendered - due))


WEEKDAY_WEIGHTS = (0.8, 0.75, 0.85, 0.95, 1.4, 1.7, 1.5)
CLOSING_CURVE = (0.0, 0.10, 0.17, 0.23, 0.30, 0.42, 0.55, 0.62, 0.68, 0.75, 0.86, 1.0)
"""The fraction of the opening hours after which 0/11, 1/11, ..., 11/11 of the day's bills have been closed."""

VOID_REASONS = ("คีย์ผิดโต๊ะ Wrong table", "ลูกค้ายกเลิก Guest cancelled", "คิดเงินซ้ำ Rung up twice", "ทดสอบระบบ Test")

MEMBER_CHANCE = 0.38
UNKNOWN_MEMBER_CHANCE = 0.03
TIP_CHANCE = 0.06
VOID_CHANCE = 0.008
TAX_INVOICE_CHANCE = 0.04
SECOND_ORDER_CHANCE = 0.15
CANCELLED_CHANCE = 0.06
MOST_LINES = 10


class Sale(NamedTuple):
    """A bill and its true closing time, which may differ from the time that the till wrote."""

    closed_ms: int
    shop_number: int
    bill: SourceBill


def all_sales(plan: WorldPlan, shops: list[DemoShop]) -> Iterator[Sale]:
    """Yield all sales of a world in the order in which they were closed."""
    shares = apportion(plan.bills, [shop.popularity for shop in shops])
    return heapq.merge(*(_BillGenerator(plan, shop).sales(share) for shop, share in zip(shops, shares, strict=True)))


def some_member(shop: DemoShop, draw: Random) -> str | None:
    """Return a member ID for a bill, often a regular's, sometimes an unknown one; None if the shop has no base."""
    base = shop.base
    if base is None:
        return None
    if base.members == 0 or draw.random() < UNKNOWN_MEMBER_CHANCE:
        return opaque(base.id, "unknown member", int(draw.random() * 200))
    return base.member_id(int(base.members * draw.random() * draw.random()))


def void_note(draw: Random) -> SourceVoid:
    return SourceVoid(reason=pick(draw, VOID_REASONS))


class _BillGenerator:
    """Generates the bills of one shop."""

    def __init__(self, plan: WorldPlan, shop: DemoShop) -> None:
        self.plan = plan
        self.shop = shop
        self.draw = stream(plan.seed, "bills", shop.number)
        self.tracked_from_ms = plan.tracked_from_ms

    def sales(self, count: int) -> Iterator[Sale]:
        days = self.plan.trading_days
        weights = [WEEKDAY_WEIGHTS[day.weekday()] * self.draw.uniform(0.85, 1.15) for day in days]
        for day, share in zip(days, apportion(count, weights), strict=True):
            yield from self._trading_day(day, share)

    def _trading_day(self, day: date, count: int) -> Iterator[Sale]:
        opens, closes = self.shop.hours(day)
        span = min(closes, self.plan.end_ms) - opens - 1
        stamp = self.shop.written_day(day)
        receipts = f"{day:%y%m%d}-"
        for number in range(count):
            closed_ms = opens + int(span * _share_of_day((number + self.draw.random()) / count))
            receipt = f"{receipts}{number + 1:04}"
            if closed_ms < self.tracked_from_ms:
                bill = self._legacy_bill(closed_ms, receipt)
            else:
                bill = self._bill(closed_ms, stamp, receipt)
            yield Sale(closed_ms, self.shop.number, bill)

    def _bill(self, closed_ms: int, stamp: str | None, receipt: str) -> SourceBill:
        shop, draw = self.shop, self.draw
        chance = draw.random
        occasion = pick(draw, shop.occasions)
        member = some_member(shop, draw) if chance() < MEMBER_CHANCE else None
        package = occasion.package
        lines, subtotal = self._order(package)
        tip = self._tip(lines) if shop.takes_tips else None
        amounts, payments = amounts_and_payments(shop, occasion, subtotal, tip, draw, by_member=member is not None)
        device, station = pick(draw, shop.tills)
        return SourceBill(
            kind="bill",
            id=fresh(draw),
            shop_id=shop.id,
            rev=1,
            closed_at=shop.written_time(closed_ms),
            trading_day=stamp,
            order_ids=[fresh(draw), fresh(draw)] if chance() < SECOND_ORDER_CHANCE else [fresh(draw)],
            receipt_number="R" + receipt,
            tax_number="TX" + receipt if chance() < TAX_INVOICE_CHANCE else None,
            device_id=device,
            station_id=station,
            table=pick(draw, shop.tables) if occasion.at_table else None,
            channel=occasion.channel,
            buffet_package_id=package.id if package else None,
            service_type=None if package else "alacarte",
            member_id=member,
            lines=lines,
            amounts=amounts,
            payments=payments,
            void=self._void() if chance() < VOID_CHANCE else None,
            cashier=pick(draw, shop.cashiers),
        )

    def _legacy_bill(self, closed_ms: int, receipt: str) -> SourceBill:
        """Return a bill as the previous POS wrote it: without device, trading day or channel, and with few amounts."""
        shop, draw = self.shop, self.draw
        sold = [pick(draw, shop.menu.legacy_servings) for _ in range(1 + int(draw.random() * 4))]
        subtotal, method = sum(satang for satang, _ in sold), pick(draw, METHODS)
        payments = _payments(subtotal, method, draw)
        return SourceBill(
            kind="bill",
            id=fresh(draw),
            shop_id=shop.id,
            closed_at=shop.written_time(closed_ms),
            history=True,
            receipt_number="A" + receipt,
            table=pick(draw, shop.tables) if draw.random() < 0.8 else None,
            member_id=some_member(shop, draw) if draw.random() < MEMBER_CHANCE / 2 else None,
            lines=[line for _, line in sold],
            amounts=SourceAmounts(subtotal=baht(subtotal), net=baht(subtotal)),
            payments=payments,
            void=self._void() if draw.random() < VOID_CHANCE else None,
        )

    def _order(self, package: Package | None) -> tuple[list[Raw], int]:
        menu, draw = self.shop.menu, self.draw
        sold = [pick(draw, menu.servings) for _ in range(1 + int(draw.random() * draw.random() * MOST_LINES))]
        if package is not None:
            sold = [pick(draw, package.for_guests), *menu.included, *sold]
        if draw.random() < CANCELLED_CHANCE:
            sold.append(pick(draw, menu.cancelled))
        return [line for _, line in sold], sum([satang for satang, _ in sold])

    def _tip(self, lines: list[Raw]) -> int:
        """Return the tip in satang. Half of the tips are also added to the bill as a line."""
        if self.draw.random() >= TIP_CHANCE:
            return 0
        satang, line = pick(self.draw, self.shop.menu.tips)
        if self.draw.random() < 0.5:
            lines.append(line)
        return satang

    def _void(self) -> bool | SourceVoid:
        return True if self.draw.random() < 0.1 else void_note(self.draw)


def _share_of_day(part: float) -> float:
    """Return what fraction of the opening hours has passed when the fraction `part` of the day's bills is closed."""
    step, within = divmod(part * (len(CLOSING_CURVE) - 1), 1)
    before = CLOSING_CURVE[int(step)]
    return before + (CLOSING_CURVE[min(int(step) + 1, len(CLOSING_CURVE) - 1)] - before) * within
