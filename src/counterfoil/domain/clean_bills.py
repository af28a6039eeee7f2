"""Reads clean bills faster than `bills.bill_from`, with the same result.

Most bills have only known fields with values of the expected types. msgspec
decodes such a bill directly into the `Source` structs and fails for
any other bill, so the types of values need not be checked again.
`CleanBillReader.read` returns None for a bill that it cannot read, and the caller
then uses `bill_from`, which accepts any value.

Many bills have the same lines: a dish has a few prices and options, and is sold
thousands of times. So the published JSON of a line is cached, with the text of the
line as the key.
"""

from collections.abc import Callable
from datetime import tzinfo
from functools import lru_cache
from typing import Annotated, Any, Literal

from msgspec import DecodeError, Meta, Raw, Struct, json
from msgspec.structs import astuple

from counterfoil.domain.bills import (
    DINE_IN,
    bill_dates,
    bill_status,
    channel_and_label,
    computed_unit_price,
    withheld_parts,
)
from counterfoil.domain.changes import NO_DAY, EncodedBill, KnownFacts, digest_of
from counterfoil.domain.control_totals import figures_of, line_amount
from counterfoil.domain.pos_values import (
    SHORT_ID_LENGTH,
    WHOLE_MILLIONTHS,
    WHOLE_NUMBER_LIMIT,
    day_on_clock,
    moment,
    number,
    on_clock,
    recorded_day,
    round_to_millionth,
)
from counterfoil.domain.resources import Amounts, Bill, Channel, Item, Number, Option, Payment, Promotion, Status

# --- the source record of a clean bill: only known fields, with values of the expected types --


_Whole = Annotated[int, Meta(ge=1 - WHOLE_NUMBER_LIMIT, le=WHOLE_NUMBER_LIMIT - 1)]
_Fraction = Annotated[float, Meta(gt=-WHOLE_MILLIONTHS, lt=WHOLE_MILLIONTHS)]
_Amount = _Whole | _Fraction | None


class SourcePart(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """Base class of the objects in a source record. Each field has the type of a clean value."""


class SourceLabel(SourcePart, frozen=True):
    """The ID and name of a table or a channel."""

    id: str | None = None
    name: str | None = None


class SourceVoid(SourcePart, frozen=True):
    reason: str | None = None


class SourceOption(SourcePart, frozen=True):
    id: str | None = None
    name: str | None = None
    qty: _Amount = None


class SourceItem(SourcePart, frozen=True):
    product_id: str | None = None
    root_id: str | None = None
    name: str | None = None
    qty: _Amount = None
    unit_price: _Amount = None
    total: _Amount = None
    options: list[SourceOption] | None = None
    category_ids: list[str] | None = None
    cancelled: bool | None = None
    vat: bool | None = None
    tip: bool | None = None


class SourcePromotion(SourcePart, frozen=True):
    id: str | None = None
    name: str | None = None
    amount: _Amount = None


class SourceAmounts(SourcePart, frozen=True):
    """The amounts of a bill, in the same order as in `resources.Amounts`."""

    subtotal: _Amount = None
    discount: _Amount = None
    campaigns: list[SourcePromotion] | None = None
    coupons: list[SourcePromotion] | None = None
    discount_total: _Amount = None
    service_charge: _Amount = None
    delivery_fee: _Amount = None
    card_surcharge: _Amount = None
    credit: _Amount = None
    vat: _Amount = None
    vat_type: str | None = None
    rounding: _Amount = None
    tip: _Amount = None
    net: _Amount = None


class SourcePayment(SourcePart, frozen=True):
    name: str | None = None
    amount: _Amount = None
    change: _Amount = None


class SourceBill(SourcePart, frozen=True):
    kind: Literal["bill"]
    id: str
    shop_id: str
    rev: _Amount = None
    closed_at: int | float | str | None = None
    trading_day: int | str | None = None
    history: bool | None = None
    order_ids: list[str] | None = None
    receipt_number: str | None = None
    tax_number: str | None = None
    device_id: str | None = None
    station_id: str | None = None
    table: SourceLabel | None = None
    channel: str | SourceLabel | None = None
    buffet_package_id: str | None = None
    service_type: str | None = None
    member_id: str | None = None
    lines: list[Raw] | None = None  # Each element is a `SourceItem`.
    amounts: SourceAmounts | None = None
    payments: list[SourcePayment] | None = None
    void: bool | str | SourceVoid | None = None
    cashier: str | None = None


# A published line is kept in memory if its source has at most MAX_KEPT_BYTES. When MAX_KEPT_LINES are kept, all of them
# are dropped.
MAX_KEPT_LINES = 8_192
MAX_KEPT_BYTES = 512
MAX_KEPT_SHOPS = 10_000

# Text that contains NUL has to be cleaned. In JSON, NUL can be written only as this escape sequence.
_NUL = b"\\u0000"


class _PublishedLine(Struct, frozen=True, gc=False):
    """A published line, and what it adds to the sum of the lines if its total is known.

    The shop's facts may hide its `rootId` or some of its categories. `root_id` is the hidden ID. `categories` are all
    categories of the line, if some are hidden.
    """

    item: Raw
    amount: Number | None
    is_plain: bool
    """True if the amount is known and nothing is hidden."""
    root_id: str | None
    categories: list[str] | None


class _Shop(Struct, gc=False):
    """A shop, and a cache that maps the JSON text of a line to its published form."""

    known: KnownFacts
    zone: tzinfo
    published: dict[bytes, _PublishedLine]


CleanBill = tuple[EncodedBill, bool, bool]
"""A bill, whether it has no items, and whether it has no amounts."""

_decode = json.Decoder(SourceBill).decode
_decode_line = json.Decoder(SourceItem).decode
_encode = json.Encoder().encode
_NO_TABLE = SourceLabel()
_CAMPAIGN, _COUPON = 2, 3


class CleanBillReader:
    """Reads clean bills of known shops. `max_lines` is the largest number of lines that a bill may have."""

    def __init__(
        self, max_lines: int, facts_of: Callable[[str], KnownFacts | None], token_of: Callable[[str], str]
    ) -> None:
        self._max_lines = max_lines
        self._facts_of = facts_of
        self._token_of = token_of
        self._shops: dict[str, _Shop] = {}
        self._published: dict[tuple[bool, tuple[str, ...]], dict[bytes, _PublishedLine]] = {}
        self._kept = 0

    def read(self, line: bytes) -> CleanBill | None:
        """Return the bill on a line, or None if the line is not a clean bill of a known shop."""
        # Search for a single byte first. This is much faster, and few lines contain a backslash.
        if b"\\" in line and _NUL in line:
            return None
        try:
            record = _decode(line)
            shop = self._shop(record.shop_id)
            lines = record.lines
            if shop is None or not _is_clean_id(record.id) or (lines and len(lines) > self._max_lines):
                return None
            roots: dict[int, str] = {}
            categories: dict[int, list[str]] = {}
            items, total = self._items(lines, shop, roots, categories) if lines else ([], None)
        except (DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return self._clean_bill(record, shop, items, total, roots, categories)

    def _shop(self, shop_id: str) -> _Shop | None:
        known, shop = self._facts_of(shop_id), self._shops.get(shop_id)
        if shop is not None and shop.known is known:
            return shop
        if known is None or not _is_clean_id(shop_id):
            return None
        if len(self._published) >= MAX_KEPT_SHOPS or len(self._shops) >= MAX_KEPT_SHOPS:
            self._shops.clear()
            self._published.clear()
            self._kept = 0
        facts = known.facts
        published = self._published.setdefault((bool(facts.franchise_id), facts.groupings), {})
        shop = self._shops[shop_id] = _Shop(known, facts.zone(), published)
        return shop

    def _items(
        self, lines: list[Raw], shop: _Shop, roots: dict[int, str], categories: dict[int, list[str]]
    ) -> tuple[list[Raw], Number | None]:
        """Return the items as JSON, and the sum of the lines if it is known.

        Add to `roots` the root IDs that the shop's facts hide, and to `categories`
        all categories of each item that has hidden ones, both by the item's index.
        """
        items: list[Raw] = []
        total: Number = 0
        is_known = True
        get = shop.published.get
        for line in lines:
            text = bytes(line)
            item = get(text)
            if item is None:
                item = self._publish(text, shop)
            if not item.is_plain:
                is_known = is_known and item.amount is not None
                if item.root_id:
                    roots[len(items)] = item.root_id
                if item.categories:
                    categories[len(items)] = item.categories
            total += item.amount or 0
            items.append(item.item)
        return items, total if is_known else None

    def _publish(self, text: bytes, shop: _Shop) -> _PublishedLine:
        published = _published_line(_decode_line(text), shop.known)
        if len(text) <= MAX_KEPT_BYTES:
            if self._kept >= MAX_KEPT_LINES:
                for kept in self._published.values():
                    kept.clear()
                self._kept = 0
            shop.published[text] = published
            self._kept += 1
        return published

    def _clean_bill(
        self,
        record: SourceBill,
        shop: _Shop,
        items: list[Raw],
        total: Number | None,
        roots: dict[int, str],
        categories: dict[int, list[str]],
    ) -> CleanBill | None:
        """Return the same bill as `bill_from`, or None if a time or a day cannot be read.

        `total` is the sum of its lines, if it is known.
        """
        known, zone = shop.known, shop.zone
        facts = known.facts
        closed = moment(record.closed_at)
        closed_at = on_clock(closed, zone)
        if closed_at is None and record.closed_at is not None:
            return None
        trading = stamp = None
        if record.trading_day is not None:
            trading = recorded_day(record.trading_day)
            stamp = day_on_clock(trading, zone)
            if stamp is None:
                return None
        timestamp, business_date, bill_date = bill_dates(closed_at, stamp, facts, zone)
        table = record.table or _NO_TABLE
        code, label = _channel(record.channel, table)
        shops_label = facts.channels.get(code) if code and not label else None
        void = record.void
        status: Status = "completed"
        void_reason = None
        if void is not None:
            status, void_reason = bill_status({"reason": void.reason} if isinstance(void, SourceVoid) else void)
        member = _text(record.member_id)
        amounts = _NOTHING_PUBLISHED if record.amounts is None else _published_amounts(record.amounts)
        payments = [_published_payment(each) for each in record.payments] if record.payments else []
        body = _encode(
            Bill(
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
                None if member is None else self._token_of(member),
                items,  # type: ignore[arg-type]  # they are already encoded
                amounts,
                payments,
                status,
                void_reason,
                _text(record.cashier),
            )
        )
        withheld = withheld_parts(roots, categories, closed, trading, shops_label)
        accounting_day = business_date or bill_date
        return (
            EncodedBill(
                facts.shop_id,
                record.id,
                record.history is True,
                closed_at,
                stamp.isoformat() if stamp else None,
                _day_number(bill_date) if bill_date else NO_DAY,
                None if withheld is None else _encode(withheld),
                body,
                digest_of(body),
                known,
                None if record.rev is None else number(record.rev),
                figures_of(_day_number(accounting_day) if accounting_day else NO_DAY, status, amounts, total, payments),
            ),
            not items,
            amounts.net is None and amounts == _NOTHING_PUBLISHED,
        )


def _is_clean_id(value: str) -> bool:
    return len(value) <= SHORT_ID_LENGTH and value.isprintable() and bool(value) and not value.isspace()


@lru_cache(maxsize=1024)
def _day_number(day: str) -> int:
    return int(day.replace("-", ""))


def _text(value: str | None) -> str | None:
    return value if value and not value.isspace() else None


def _texts(values: list[str]) -> list[str]:
    return [value for value in values if value and not value.isspace()]


def _money(value: Number | None) -> Number | None:
    return round_to_millionth(value) if type(value) is float else value


def _channel(value: str | SourceLabel | None, table: SourceLabel) -> tuple[str | None, str | None]:
    if isinstance(value, SourceLabel):
        return channel_and_label(_text(value.id), _text(value.name), _text(table.id) or _text(table.name))
    return channel_and_label(_text(value), None, _text(table.id) or _text(table.name))


def _published_line(line: SourceItem, known: KnownFacts) -> _PublishedLine:
    facts = known.facts
    qty, total, price = line.qty, line.total, line.unit_price
    product_id, root_id, name = line.product_id, line.root_id, line.name
    category, recorded = line.category_ids, None
    if category:
        recorded = _texts(category)
        category = [each for each in recorded if each not in facts.groupings] if facts.groupings else recorded
    if type(qty) is float:
        qty = number(qty)
    if type(total) is float:
        total = round_to_millionth(total)
    if price is None:
        price = computed_unit_price(total, qty)
    elif type(price) is float:
        price = round_to_millionth(price)
    if root_id and root_id.isspace():
        root_id = None
    item = Item(
        product_id if product_id and not product_id.isspace() else None,
        (root_id or None) if facts.franchise_id else None,
        name if name and not name.isspace() else None,
        qty,
        price,
        total,
        [_published_option(option) for option in line.options] if line.options else [],
        category,
        line.cancelled is True,
        line.vat is True,
        line.tip is True,
    )
    encoded = Raw(_encode(item))
    hides_root = bool(root_id) and not facts.franchise_id
    hides_categories = recorded is not None and category != recorded
    amount = line_amount(item)
    return _PublishedLine(
        encoded,
        amount,
        amount is not None and not hides_root and not hides_categories,
        root_id if hides_root else None,
        recorded if hides_categories else None,
    )


def _published_option(option: SourceOption) -> Option:
    qty = number(option.qty)
    return Option(choice_id=_text(option.id), choice_name=_text(option.name), qty=1 if qty is None else qty)


def _published_payment(payment: SourcePayment) -> Payment:
    name, amount, change = payment.name, payment.amount, payment.change
    return Payment(
        name=name if name and not name.isspace() else None,
        amount=round_to_millionth(amount) if type(amount) is float else amount,
        change=0 if change is None else _money(change),
    )


def _published_amounts(amounts: SourceAmounts) -> Amounts:
    values: list[Any] = [round_to_millionth(value) if type(value) is float else value for value in astuple(amounts)]
    values[_CAMPAIGN] = _promotions(amounts.campaigns)
    values[_COUPON] = _promotions(amounts.coupons)
    return Amounts(*values)


def _promotions(promotions: list[SourcePromotion] | None) -> list[Promotion]:
    if not promotions:
        return []
    return [Promotion(id=_text(each.id), name=_text(each.name), amount=_money(each.amount) or 0) for each in promotions]


_NOTHING_PUBLISHED = _published_amounts(SourceAmounts())
