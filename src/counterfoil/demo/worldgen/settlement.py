"""The amounts and payments of a bill. Money is calculated in whole satang, so that it adds up exactly:

net = max(subtotal - discounts, 0) + service + delivery + surcharge (+ VAT on top) - credit + rounding + tip
"""

from random import Random
from typing import NamedTuple

from counterfoil.demo.worldgen.ids import opaque
from counterfoil.demo.worldgen.records import AmountsEntry, Number, PaymentEntry, PromotionEntry, baht
from counterfoil.demo.worldgen.shop_style import MoneyRules, Occasion, ShopStyle

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


class Check(NamedTuple):
    """The input for calculating a bill's amounts, in satang. A tip of None means that the shop does not take tips."""

    occasion: Occasion
    subtotal: int
    tip: int | None
    by_member: bool


class Discounts(NamedTuple):
    keyed: int | None
    campaigns: list[PromotionEntry] | None
    coupons: list[PromotionEntry] | None
    total: int


def amounts_and_payments(style: ShopStyle, check: Check, draw: Random) -> tuple[AmountsEntry, list[PaymentEntry]]:
    rules = style.rules
    method = check.occasion.delivered_by or METHODS[int(draw.random() * len(METHODS))]
    discounts = _discounts(style, check.subtotal, draw)
    goods = max(check.subtotal - discounts.total, 0)
    service = _service(rules, check.occasion, goods)
    delivery = _delivery(rules, check.occasion, draw)
    surcharge = _surcharge(rules, method, goods)
    vat = _vat(rules, goods + (service or 0))
    on_top = vat or 0 if rules.vat_type == "Exclude" else 0
    due = goods + (service or 0) + (delivery or 0) + (surcharge or 0) + on_top
    credit = _credit(rules, check, due, draw)
    due -= credit or 0
    rounding = _rounding(rules, due)
    net = due + (rounding or 0) + (check.tip or 0)
    amounts = AmountsEntry(
        subtotal=baht(check.subtotal),
        discount=_optional_baht(discounts.keyed),
        campaigns=discounts.campaigns,
        coupons=discounts.coupons,
        discount_total=baht(discounts.total),
        service_charge=_optional_baht(service),
        delivery_fee=_optional_baht(delivery),
        card_surcharge=_optional_baht(surcharge),
        credit=_optional_baht(credit),
        vat=_optional_baht(vat),
        vat_type=rules.vat_type,
        rounding=_optional_baht(rounding),
        tip=_optional_baht(check.tip),
        net=baht(net),
    )
    return amounts, _payments(net, method, draw)


def legacy_amounts_and_payments(subtotal: int, draw: Random) -> tuple[AmountsEntry, list[PaymentEntry]]:
    """Return amounts and payments as the previous POS wrote them. The only amounts are `subtotal` and `net`."""
    method = METHODS[int(draw.random() * len(METHODS))]
    return AmountsEntry(subtotal=baht(subtotal), net=baht(subtotal)), _payments(subtotal, method, draw)


def _optional_baht(satang: int | None) -> Number | None:
    return None if satang is None else baht(satang)


def _discounts(style: ShopStyle, subtotal: int, draw: Random) -> Discounts:
    keyed = 0 if style.rules.keyed_discounts else None
    if keyed is not None and draw.random() < KEYED_CHANCE:
        keyed = min(KEYED[int(draw.random() * len(KEYED))], subtotal)
    campaigns, taken = _campaigns(style, subtotal, draw) if draw.random() < CAMPAIGN_CHANCE else (None, 0)
    coupons, redeemed = _coupons(style, draw) if draw.random() < COUPON_CHANCE else (None, 0)
    return Discounts(keyed, campaigns, coupons, (keyed or 0) + taken + redeemed)


def _campaigns(style: ShopStyle, subtotal: int, draw: Random) -> tuple[list[PromotionEntry], int]:
    name, percent = CAMPAIGNS[int(draw.random() * len(CAMPAIGNS))]
    taken = _percent(subtotal, percent)
    # A campaign without a discount, such as a free dessert, has no amount.
    amount = baht(taken) if percent else None
    return [PromotionEntry(id=opaque(style.shop.id, "promotion", name), name=name, amount=amount)], taken


def _coupons(style: ShopStyle, draw: Random) -> tuple[list[PromotionEntry], int]:
    # A gift card is worth more than most bills. The till records its whole value as a discount, even if it is more than
    # the amount due.
    is_gift_card = draw.random() < GIFT_CARD_CHANCE / COUPON_CHANCE
    name, worth = GIFT_CARD if is_gift_card else COUPONS[int(draw.random() * len(COUPONS))]
    return [PromotionEntry(id=opaque(style.shop.id, "promotion", name), name=name, amount=worth)], worth * 100


def _service(rules: MoneyRules, occasion: Occasion, goods: int) -> int | None:
    if rules.service_percent is None:
        return None
    return _percent(goods, rules.service_percent) if occasion.at_table else 0


def _delivery(rules: MoneyRules, occasion: Occasion, draw: Random) -> int | None:
    if not rules.delivers:
        return None
    return DELIVERY_FEES[int(draw.random() * len(DELIVERY_FEES))] if occasion.delivered_by else 0


def _surcharge(rules: MoneyRules, method: str, goods: int) -> int | None:
    if rules.surcharge_percent is None:
        return None
    return _percent(goods, rules.surcharge_percent) if method is CARD else 0


def _vat(rules: MoneyRules, taxed: int) -> int | None:
    if rules.vat_type == "Include":
        return round(taxed * VAT_PERCENT / (100 + VAT_PERCENT))
    return _percent(taxed, VAT_PERCENT) if rules.vat_type == "Exclude" else None


def _credit(rules: MoneyRules, check: Check, due: int, draw: Random) -> int | None:
    if not rules.store_credit:
        return None
    if not check.by_member or draw.random() >= CREDIT_CHANCE:
        return 0
    return min(CREDITS[int(draw.random() * len(CREDITS))], due)


def _rounding(rules: MoneyRules, due: int) -> int | None:
    step = rules.rounding_step
    if step is None:
        return None
    return (due + step // 2) // step * step - due


def _percent(satang: int, percent: int) -> int:
    return (satang * percent + 50) // 100


def _payments(net: int, method: str, draw: Random) -> list[PaymentEntry]:
    if net == 0:
        return []
    if net < SPLIT_FROM or draw.random() >= SPLIT_CHANCE:
        return [_payment(net, method, draw)]
    first = net // 3 if draw.random() < 0.5 else net // 2 // 100 * 100
    other = METHODS[int(draw.random() * len(METHODS))]
    rest = net - first
    if draw.random() < 0.3:
        return [_payment(first, other, draw), _payment(rest // 2, CASH, draw), _payment(rest - rest // 2, method, draw)]
    return [_payment(first, other, draw), _payment(rest, method, draw)]


def _payment(due: int, method: str, draw: Random) -> PaymentEntry:
    if method is not CASH:
        return PaymentEntry(name=method, amount=baht(due), change=0)
    note = NOTES[int(draw.random() * len(NOTES))]
    tendered = -(-due // note) * note
    return PaymentEntry(name=CASH, amount=baht(tendered), change=baht(tendered - due))
