"""Turns a raw POS bill into the published Bill.

The published bill is computed when its record is loaded. Until the next record of the bill, only a change of the shop's
facts can change it; `under_facts` applies such a change. Values that the facts hid or supplied are stored with the
bill, so that the result does not depend on the facts under which the bill was first read.
"""

from collections.abc import Callable
from datetime import date, datetime, tzinfo
from typing import Any

from msgspec import Raw, Struct
from msgspec.structs import astuple, replace

from counterfoil.domain.shops import ShopFacts
from counterfoil.domain.source_bills import (
    SourceAmounts,
    SourceBill,
    SourceItem,
    SourceLabel,
    SourceOption,
    SourcePayment,
    SourcePromotion,
    SourceVoid,
    cleaned,
    field_by_field,
)
from counterfoil.model.calendar import iso, trading_day
from counterfoil.model.pos_values import (
    Moment,
    Record,
    day_on_clock,
    flag,
    identifier,
    is_flag_word,
    moment,
    money,
    number,
    objects,
    on_clock,
    recorded_day,
    round_to_millionth,
    text,
)
from counterfoil.model.resources import Amounts, Bill, Channel, Item, Number, Option, Payment, Promotion, Status

DINE_IN = "dine_in"
COUNTER = "counter"
_NO_TABLE = SourceLabel()
_COMPLETED: tuple[Status, None] = ("completed", None)
# The positions of the two lists among the amounts.
_CAMPAIGN, _COUPON = 2, 3


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
    """Return the published bill without `updated_at`, which the store sets. It accepts any values."""
    identifier(record, "id")
    items: list[Item] = []
    roots: dict[int, str] = {}
    categories: dict[int, list[str]] = {}
    for index, line in enumerate(objects(record.get("lines"))):
        item, root_id, all_categories = published_item(cleaned(SourceItem, line), facts)
        items.append(item)
        if root_id:
            roots[index] = root_id
        if all_categories:
            categories[index] = all_categories
    return published_bill(field_by_field(SourceBill, record), items, roots, categories, facts, token_of)


def published_bill(
    record: SourceBill,
    items: list[Item] | list[Raw],
    roots: dict[int, str],
    categories: dict[int, list[str]],
    facts: ShopFacts,
    token_of: Callable[[str], str],
) -> ClosedBill:
    """Return the bill with these items. `roots` and `categories` are what the facts hide of them, by index."""
    zone = facts.zone()
    closed, trading = moment(record.closed_at), recorded_day(record.trading_day)
    closed_at, stamp = on_clock(closed, zone), day_on_clock(trading, zone)
    timestamp, business_date, bill_date = bill_dates(closed_at, stamp, facts, zone)
    table = record.table or _NO_TABLE
    code, label = _channel(record.channel, table)
    shops_label = facts.channels.get(code) if code and not label else None
    member = _text(record.member_id)
    status, void_reason = _COMPLETED if record.void is None else _bill_status(record.void)
    bill = Bill(
        record.id,
        _texts(record.order_ids) if record.order_ids else [],
        _text(record.receipt_number),
        _text(record.tax_number),
        timestamp,
        business_date,
        bill_date,
        None,
        facts.franchise_id,
        facts.shop_id,
        _text(record.device_id),
        _text(record.station_id),
        Channel(code=code, name=label or shops_label),
        _text(record.buffet_package_id) or _text(record.service_type),
        _text(table.name) if code == DINE_IN else None,
        None if member is None else token_of(member),
        items,  # type: ignore[arg-type]  # they may already be encoded
        NO_AMOUNTS if record.amounts is None else _published_amounts(record.amounts),
        [_published_payment(payment) for payment in record.payments] if record.payments else [],
        status,
        void_reason,
        _text(record.cashier),
    )
    withheld = _withheld_parts(roots, categories, closed, trading, shops_label)
    return ClosedBill(
        bill=bill, closed_at=closed_at, trading_day=stamp, history=record.history is True, withheld=withheld
    )


def _withheld_parts(
    roots: dict[int, str],
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
            roots=roots, categories=categories, label=shops_label is not None, closed=wall_clock, trading=time
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
    roots: dict[int, str] = {}
    categories: dict[int, list[str]] = {}
    for index, (was, now) in enumerate(zip(recorded, items, strict=True)):
        if was.root_id and not now.root_id:
            roots[index] = was.root_id
        if was.category and was.category != now.category:
            categories[index] = was.category
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
        withheld=_withheld_parts(roots, categories, withheld.closed, withheld.trading, shops_label),
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
    root_id, category = (withheld.roots.get(index, item.root_id), withheld.categories.get(index, item.category))
    return replace(item, root_id=root_id, category=category)


def _item_under_facts(item: Item, facts: ShopFacts) -> Item:
    root_id = item.root_id if facts.franchise_id else None
    category = item.category and [label for label in item.category if label not in facts.groupings]
    if root_id == item.root_id and category == item.category:
        return item
    return replace(item, root_id=root_id, category=category)


def bill_dates(
    closed_at: int | None, stamp: date | None, facts: ShopFacts, zone: tzinfo
) -> tuple[str | None, str | None, str | None]:
    """Return `timestamp`, `businessDate` and `billDate`."""
    recorded = stamp.isoformat() if stamp else None
    if closed_at is None:
        return None, recorded, None
    timestamp = iso(closed_at, zone)
    return timestamp, recorded or trading_day(timestamp, facts.closing), timestamp[: len("YYYY-MM-DD")]


def _channel(value: str | SourceLabel | None, table: SourceLabel) -> tuple[str | None, str | None]:
    """Return the code, where `counter` or a table alone means dine-in, and the label that the bill itself has."""
    label = None
    if isinstance(value, SourceLabel):
        label, value = _text(value.name), value.id
    code = _text(value)
    if code is None:
        return (DINE_IN if _text(table.id) or _text(table.name) else None), None
    return (DINE_IN if code == COUNTER else code), label


def _bill_status(void: object) -> tuple[Status, str | None]:
    if isinstance(void, SourceVoid):
        return "void", _text(void.reason)
    if isinstance(void, str) and not is_flag_word(void):
        reason = text(void)
        return ("void" if reason else "completed"), reason
    return ("void" if flag(void) else "completed"), None


# --- the parts of a bill. Values are clean, but text may be empty and numbers are not rounded yet --


def published_item(line: SourceItem, facts: ShopFacts) -> tuple[Item, str | None, list[str] | None]:
    """Return the item, its root ID if the facts hide it, and all its categories if the facts hide some of them."""
    total, qty, price = _money(line.total), line.qty, _money(line.unit_price)
    if type(qty) is float:
        qty = number(qty)
    if line.unit_price is None and total is not None and qty:
        price = money(total / qty)
    root_id = _text(line.root_id)
    category = recorded = line.category_ids
    if category:
        recorded = _texts(category)
        category = recorded
        if any(label in facts.groupings for label in recorded):
            category = [label for label in recorded if label not in facts.groupings]
    item = Item(
        _text(line.product_id),
        root_id if facts.franchise_id else None,
        _text(line.name),
        qty,
        price,
        total,
        [_published_option(option) for option in line.options] if line.options else [],
        category,
        line.cancelled is True,
        line.vat is True,
        line.tip is True,
    )
    return item, None if facts.franchise_id else root_id, None if category is recorded else recorded


def _published_option(option: SourceOption) -> Option:
    qty = number(option.qty)
    return Option(choice_id=_text(option.id), choice_name=_text(option.name), qty=1 if qty is None else qty)


def _published_payment(payment: SourcePayment) -> Payment:
    """Return the payment. Its change is 0 if none was recorded."""
    change = 0 if payment.change is None else _money(payment.change)
    return Payment(name=_text(payment.name), amount=_money(payment.amount), change=change)


def _published_amounts(amounts: SourceAmounts) -> Amounts:
    values: list[Any] = [round_to_millionth(value) if type(value) is float else value for value in astuple(amounts)]
    values[_CAMPAIGN] = _promotions(amounts.campaigns)
    values[_COUPON] = _promotions(amounts.coupons)
    return Amounts(*values)


def _promotions(promotions: list[SourcePromotion] | None) -> list[Promotion]:
    if not promotions:
        return []
    return [
        Promotion(id=_text(promotion.id), name=_text(promotion.name), amount=_money(promotion.amount) or 0)
        for promotion in promotions
    ]


def _text(value: str | None) -> str | None:
    return value if value and not value.isspace() else None


def _texts(values: list[str]) -> list[str]:
    return [value for value in values if value and not value.isspace()]


def _money(value: Number | None) -> Number | None:
    return round_to_millionth(value) if type(value) is float else value


NO_AMOUNTS = _published_amounts(SourceAmounts())
