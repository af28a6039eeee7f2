"""Converts source lines into bills and members that are ready to be stored.

Most bills have only known fields with values of the expected types. msgspec decodes such a bill directly into the
`Source` structs and fails for any other bill, so the types of values need not be checked again. `Reader`
accepts any value, and reads all other bills with the same result.

Many bills have the same lines: a dish has a few prices and options, and is sold thousands of times. So the published
JSON of a line is cached, with the text of the line as the key.
"""

from collections.abc import Callable
from functools import lru_cache

from msgspec import DecodeError, Raw, Struct, json

from counterfoil.domain.bills import published_bill, published_item
from counterfoil.domain.changes import EncodedBill, KnownFacts, PutMember, encode_bill
from counterfoil.domain.source_bills import NUL, SourceBill, SourceItem
from counterfoil.domain.tokens import Pseudonyms
from counterfoil.ingest.fields import Findings, check_record
from counterfoil.ingest.lines import MAX_ITEMS, MAX_LINE_BYTES, Reader, Rejected, is_too_large, parse_record
from counterfoil.model.control_totals import line_amount
from counterfoil.model.pos_values import number, record_id
from counterfoil.model.resources import Number

# What a line is converted to.
Converted = EncodedBill | PutMember

# Tokens are cached: one takes as long as the rest of a small bill, and the same members have many bills.
MAX_TOKENS = 16_384
# Published lines are kept if their source has at most MAX_KEPT_BYTES. At MAX_KEPT_LINES, all are dropped.
MAX_KEPT_LINES = 8_192
MAX_KEPT_BYTES = 512
MAX_KEPT_SHOPS = 10_000


class _PublishedLine(Struct, frozen=True, gc=False):
    """A published line, and what it adds to the sum of the lines if its total is known.

    The shop's facts may hide its `rootId` or some of its categories. `root_id` is the hidden ID. `categories` are all
    categories of the line, if some are hidden.
    """

    item: Raw
    amount: Number | None
    root_id: str | None
    categories: list[str] | None


class _Shop(Struct, gc=False):
    """A shop, and a cache that maps the JSON text of a line to its published form."""

    known: KnownFacts
    published: dict[bytes, _PublishedLine]


_decode = json.Decoder(SourceBill).decode
_decode_line = json.Decoder(SourceItem).decode
_encode = json.Encoder().encode


class LineConverter:
    """Converts lines with bills and members. `facts` returns the facts of a shop, or None if they are not known."""

    def __init__(self, pseudonyms: Pseudonyms, facts: Callable[[str], KnownFacts | None]) -> None:
        self._facts_of = facts
        self._token_of = lru_cache(maxsize=MAX_TOKENS)(pseudonyms.member_token)
        self._reader = Reader(pseudonyms, facts)
        self._shops: dict[str, _Shop] = {}
        self._published: dict[tuple[bool, tuple[str, ...]], dict[bytes, _PublishedLine]] = {}
        self._kept = 0

    def convert_clean(self, line: bytes) -> EncodedBill | None:
        """Return the bill on a line, or None if the line is not a clean bill of a known shop, or is too large."""
        bill = self._read_clean(line) if len(line) <= MAX_LINE_BYTES else None
        return None if bill is None or is_too_large(bill, len(line)) else bill

    def convert(self, line: bytes) -> tuple[Converted | None, Findings | None]:
        """Return the bill or the member on a line, and its findings. Other lines and rejected ones have neither."""
        if bill := self.convert_clean(line):
            return bill, None
        try:
            record = parse_record(line)
            if record.get("kind") not in ("bill", "member"):
                return None, None
            change = self._reader.change(record, len(line))
        except Rejected:
            return None, None
        if isinstance(change, Converted):
            return change, check_record(record, change)
        return None, None

    def _read_clean(self, line: bytes) -> EncodedBill | None:
        # Search for a single byte first. This is much faster, and few lines contain a backslash.
        if b"\\" in line and NUL in line:
            return None
        try:
            record = _decode(line)
            shop = self._shop(record.shop_id)
            lines = record.lines
            if shop is None or record_id(record.id) is None or (lines and len(lines) > MAX_ITEMS):
                return None
            roots: dict[int, str] = {}
            categories: dict[int, list[str]] = {}
            items, total = self._items(lines, shop, roots, categories) if lines else ([], None)
        except (DecodeError, UnicodeDecodeError, RecursionError):
            return None
        closed = published_bill(record, items, roots, categories, shop.known.facts, self._token_of)
        if closed.closed_at is None and record.closed_at is not None:
            return None
        if closed.trading_day is None and record.trading_day is not None:
            return None
        return encode_bill(closed, shop.known, number(record.rev), total)

    def _shop(self, shop_id: str) -> _Shop | None:
        known, shop = self._facts_of(shop_id), self._shops.get(shop_id)
        if shop is not None and shop.known is known:
            return shop
        if known is None or record_id(shop_id) is None:
            return None
        if len(self._published) >= MAX_KEPT_SHOPS or len(self._shops) >= MAX_KEPT_SHOPS:
            self._shops.clear()
            self._published.clear()
            self._kept = 0
        facts = known.facts
        published = self._published.setdefault((bool(facts.franchise_id), facts.groupings), {})
        shop = self._shops[shop_id] = _Shop(known, published)
        return shop

    def _items(
        self, lines: list[Raw], shop: _Shop, roots: dict[int, str], categories: dict[int, list[str]]
    ) -> tuple[list[Raw], Number | None]:
        """Return the items, and their sum if it is known. Add what is hidden to `roots` and `categories`, by index."""
        items: list[Raw] = []
        total: Number = 0
        is_known = True
        get = shop.published.get
        for line in lines:
            text = bytes(line)
            item = get(text)
            if item is None:
                item = self._publish(text, shop)
            if item.root_id:
                roots[len(items)] = item.root_id
            if item.categories:
                categories[len(items)] = item.categories
            if item.amount is None:
                is_known = False
            else:
                total += item.amount
            items.append(item.item)
        return items, total if is_known else None

    def _publish(self, text: bytes, shop: _Shop) -> _PublishedLine:
        item, root_id, categories = published_item(_decode_line(text), shop.known.facts)
        published = _PublishedLine(Raw(_encode(item)), line_amount(item), root_id, categories)
        if len(text) <= MAX_KEPT_BYTES:
            if self._kept >= MAX_KEPT_LINES:
                for kept in self._published.values():
                    kept.clear()
                self._kept = 0
            shop.published[text] = published
            self._kept += 1
        return published
