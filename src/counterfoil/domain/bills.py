"""Turns a raw POS bill into the published Bill.

The published bill is computed when its record is loaded. Until the next record
of the bill, only a change of the shop's facts can change it; `under_facts` applies
such a change. Values that the facts hid or supplied are stored with the bill, so
that the result does not depend on the facts under which the bill was first read.
"""

from collections.abc import Callable
from datetime import date, datetime, tzinfo
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.domain.calendar import WHOLE_MINUTES_FROM, from_ms, iso, trading_day, trading_day_text
from counterfoil.domain.pos_values import (
    Moment,
    Record,
    as_list,
    day_on_clock,
    flag,
    ident,
    identifier,
    idents,
    is_flag_word,
    moment,
    money,
    number,
    objects,
    on_clock,
    recorded_day,
    storable,
    text,
)
from counterfoil.domain.resources import (
    Amounts,
    Bill,
    Channel,
    Item,
    Number,
    Option,
    Payment,
    Promotion,
    Status,
)
from counterfoil.domain.shops import ShopFacts

DINE_IN = "dine_in"
COUNTER = "counter"
_NOTHING: Record = {}


class Withheld(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The parts of a bill that the published bill does not show, because its shop's facts hid or replaced them."""

    roots: dict[int, str] = {}
    """The hidden `rootId` of each line that has one, by the line's index."""
    categories: dict[int, list[str]] = {}
    """All categories, including groupings, of each line that has groupings, by the line's index."""
    label: bool = False
    """True if the channel's name comes from the shop and not from the bill."""
    closed: datetime | None = None
    """The value of `closedAt` if it is a local time without an offset."""
    trading: Moment | None = None
    """The value of `tradingDay` if it is a time and not a day."""


_LABEL_WITHHELD = Withheld(label=True)
_NOTHING_WITHHELD = Withheld()


class ClosedBill(Struct, frozen=True, kw_only=True):
    """A bill, and the data that is needed to publish it again when its shop's facts change."""

    bill: Bill
    closed_at: int | None
    trading_day: date | None
    history: bool
    withheld: Withheld | None = None


def bill_from(record: Record, facts: ShopFacts, token_of: Callable[[str], str]) -> ClosedBill:
    """Return the published bill without `updated_at`, which the store sets."""
    get = record.get
    zone = facts.zone()
    closed, trading = moment(get("closedAt")), recorded_day(get("tradingDay"))
    closed_at, stamp = on_clock(closed, zone), day_on_clock(trading, zone)
    timestamp, business_date, bill_date = bill_dates(closed_at, stamp, facts, zone)
    table = _object(get("table"))
    code, label = _channel(get("channel"), table)
    shops_label = facts.channels.get(code) if code and not label else None
    items, grouped = _items(get("lines"), facts)
    member = ident(get("memberId"))
    status, void_reason = bill_status(get("void"))
    bill = Bill(
        id=identifier(record, "id"),
        order_ids=idents(get("orderIds")),
        receipt_number=ident(get("receiptNumber")),
        tax_number=ident(get("taxNumber")),
        timestamp=timestamp,
        business_date=business_date,
        bill_date=bill_date,
        updated_at=None,
        franchise_id=facts.franchise_id,
        shop_id=facts.shop_id,
        device_id=ident(get("deviceId")),
        station_id=ident(get("stationId")),
        channel=Channel(code=code, name=label or shops_label),
        service_type=ident(get("buffetPackageId")) or ident(get("serviceType")),
        table_name=ident(table.get("name")) if code == DINE_IN else None,
        member_id=None if member is None else token_of(member),
        items=items,
        amounts=_amounts(_object(get("amounts"))),
        payments=[_payment(payment) for payment in as_list(get("payments")) if isinstance(payment, dict)],
        status=status,
        void_reason=void_reason,
        cashier=text(get("cashier")),
    )
    return ClosedBill(
        bill=bill,
        closed_at=closed_at,
        trading_day=stamp,
        history=flag(get("history")),
        withheld=withheld_parts(
            None if facts.franchise_id else _roots(get("lines")),
            grouped,
            closed,
            trading,
            shops_label,
        ),
    )


def _roots(lines: object) -> dict[int, str]:
    return {index: root for index, line in enumerate(objects(lines)) if (root := ident(line.get("rootId"))) is not None}


def withheld_parts(
    roots: dict[int, str] | None,
    categories: dict[int, list[str]],
    closed: Moment | None,
    trading: date | Moment | None,
    shops_label: str | None,
) -> Withheld | None:
    """Return the parts that the published bill does not show, or None if it shows everything."""
    wall_clock = closed if type(closed) is datetime else None
    time = trading if isinstance(trading, (int, datetime)) else None
    if roots or categories or wall_clock or time is not None:
        return Withheld(
            roots=roots or {},
            categories=categories,
            label=shops_label is not None,
            closed=wall_clock,
            trading=time,
        )
    return _LABEL_WITHHELD if shops_label else None


def under_facts(found: ClosedBill, facts: ShopFacts) -> ClosedBill:
    """Return the bill as `bill_from` would produce it under these facts, with `updated_at` unchanged."""
    bill, withheld, zone = found.bill, found.withheld or _NOTHING_WITHHELD, facts.zone()
    closed_at = found.closed_at if withheld.closed is None else on_clock(withheld.closed, zone)
    stamp = found.trading_day if withheld.trading is None else day_on_clock(withheld.trading, zone)
    timestamp, business_date, bill_date = bill_dates(closed_at, stamp, facts, zone)
    channel, shops_label = _channel_under_facts(bill.channel, facts, is_shops_label=withheld.label)
    recorded = [_restore_withheld(item, index, withheld) for index, item in enumerate(bill.items)]
    items = [_item_under_facts(item, facts) for item in recorded]
    hidden = [(index, was) for index, (was, now) in enumerate(zip(recorded, items, strict=True)) if was is not now]
    return replace(
        found,
        bill=replace(
            bill,
            timestamp=timestamp,
            business_date=business_date,
            bill_date=bill_date,
            franchise_id=facts.franchise_id,
            channel=channel,
            items=items,
        ),
        closed_at=closed_at,
        trading_day=stamp,
        withheld=withheld_parts(
            {index: was.root_id for index, was in hidden if was.root_id and not items[index].root_id},
            {index: was.category for index, was in hidden if was.category and was.category != items[index].category},
            withheld.closed,
            withheld.trading,
            shops_label,
        ),
    )


def _channel_under_facts(channel: Channel, facts: ShopFacts, *, is_shops_label: bool) -> tuple[Channel, str | None]:
    """Return the channel, and its label if the shop supplies the label."""
    if channel.code is None or (channel.name and not is_shops_label):
        return channel, None
    label = facts.channels.get(channel.code)
    return Channel(code=channel.code, name=label), label


def _restore_withheld(item: Item, index: int, withheld: Withheld) -> Item:
    if index not in withheld.roots and index not in withheld.categories:
        return item
    root_id, category = (
        withheld.roots.get(index, item.root_id),
        withheld.categories.get(index, item.category),
    )
    return replace(item, root_id=root_id, category=category)


def _item_under_facts(item: Item, facts: ShopFacts) -> Item:
    root_id = item.root_id if facts.franchise_id else None
    category = visible_categories(item.category, facts.groupings, [])
    if root_id == item.root_id and category == item.category:
        return item
    return replace(item, root_id=root_id, category=category)


def bill_dates(
    closed_at: int | None, stamp: date | None, facts: ShopFacts, zone: tzinfo
) -> tuple[str | None, str | None, str | None]:
    """Return `timestamp`, `businessDate` and `billDate`."""
    if closed_at is None:
        return None, _iso_day(stamp), None
    timestamp = iso(closed_at, zone)
    if stamp is None and closed_at >= WHOLE_MINUTES_FROM:
        accounting_day = trading_day_text(timestamp, facts.closing)
    else:
        accounting_day = _iso_day(stamp or trading_day(from_ms(closed_at, zone), facts.closing_time()))
    return timestamp, accounting_day, timestamp[: len("YYYY-MM-DD")]


def _iso_day(of: date | None) -> str | None:
    return None if of is None else of.isoformat()


def _channel(value: object, table: Record) -> tuple[str | None, str | None]:
    """Return the channel's code, and the label that the bill itself contains."""
    label = None
    if isinstance(value, dict):
        label = text(value.get("name"))
        value = value.get("id")
    return channel_and_label(ident(value), label, ident(table.get("id")) or ident(table.get("name")))


def channel_and_label(code: str | None, label: str | None, table: str | None) -> tuple[str | None, str | None]:
    """Return the channel's code and its label. `counter` means dine-in, and so does a table without a channel."""
    if code is None:
        return (DINE_IN if table else None), None
    return (DINE_IN if code == COUNTER else code), label


def bill_status(void: object) -> tuple[Status, str | None]:
    if isinstance(void, dict):
        return "void", text(void.get("reason"))
    if isinstance(void, str) and not is_flag_word(void):
        reason = text(void)
        return ("void" if reason else "completed"), reason
    return ("void" if flag(void) else "completed"), None


def _items(lines: object, facts: ShopFacts) -> tuple[list[Item], dict[int, list[str]]]:
    """Return the items and, by item index, all categories of each item that shows only some of its categories."""
    items: list[Item] = []
    grouped: dict[int, list[str]] = {}
    left_out: list[str] = []
    for line in lines if isinstance(lines, list) else ():
        if isinstance(line, dict):
            items.append(_item(line, facts, left_out))
            if left_out:
                grouped[len(items) - 1] = idents(line["categoryIds"])
                left_out.clear()
    return items, grouped


def _item(line: Record, facts: ShopFacts, left_out: list[str]) -> Item:
    get = line.get
    qty = number(get("qty"))
    total = money(get("total"))
    price = money(get("unitPrice"))
    options = get("options")
    return Item(
        id=ident(get("productId")),
        root_id=ident(get("rootId")) if facts.franchise_id else None,
        name=text(get("name")),
        qty=qty,
        unit_price=computed_unit_price(total, qty) if price is None else price,
        line_total=total,
        options=[_option(option) for option in objects(options)] if options else [],
        category=visible_categories(get("categoryIds"), facts.groupings, left_out),
        cancelled=flag(get("cancelled")),
        vat=flag(get("vat")),
        is_tip=flag(get("tip")),
    )


def computed_unit_price(total: Number | None, qty: Number | None) -> Number | None:
    """Return the unit price computed from the line's total, for a line without a recorded price."""
    return None if total is None or not qty else money(total / qty)


def visible_categories(value: object, groupings: tuple[str, ...], left_out: list[str]) -> list[str] | None:
    if value is None:
        return None
    kept: list[str] = []
    for each in value if isinstance(value, list) else ():
        category = ident(each)
        if category is not None:
            (left_out if category in groupings else kept).append(category)
    return kept


def _option(option: Record) -> Option:
    qty = number(option.get("qty"))
    return Option(
        choice_id=ident(option.get("id")), choice_name=text(option.get("name")), qty=1 if qty is None else qty
    )


def _amounts(amounts: Record) -> Amounts:
    get = amounts.get
    vat_type = get("vatType")
    return Amounts(
        subtotal=money(get("subtotal")),
        discount=money(get("discount")),
        campaign=_promotions(get("campaigns")),
        coupon=_promotions(get("coupons")),
        discount_total=money(get("discountTotal")),
        service_charge=money(get("serviceCharge")),
        delivery_fee=money(get("deliveryFee")),
        card_surcharge=money(get("cardSurcharge")),
        credit=money(get("credit")),
        vat=money(get("vat")),
        vat_type=storable(vat_type) if isinstance(vat_type, str) else None,
        rounding=money(get("rounding")),
        tip=money(get("tip")),
        net=money(get("net")),
    )


def _promotions(value: object) -> list[Promotion]:
    return [
        Promotion(
            id=ident(promotion.get("id")), name=text(promotion.get("name")), amount=money(promotion.get("amount")) or 0
        )
        for promotion in objects(value)
    ]


def _payment(payment: Record) -> Payment:
    return Payment(
        name=text(payment.get("name")), amount=money(payment.get("amount")), change=_change(payment.get("change"))
    )


def _change(value: object) -> Number | None:
    """Return the change given, or 0 if none was recorded, or None if the value cannot be read."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return 0
    return money(value)


def _object(value: Any) -> Record:
    return value if isinstance(value, dict) else _NOTHING
