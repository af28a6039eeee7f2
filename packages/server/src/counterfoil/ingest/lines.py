"""Turns a source record into a change to the books, or rejects it with a reason."""

import binascii
import json as stdlib_json
import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct, json
from msgspec.structs import replace

from counterfoil.domain.bills import bill_from
from counterfoil.domain.changes import (
    Change,
    EncodedBill,
    KnownFacts,
    PutBase,
    PutMember,
    PutShop,
    Removal,
    SetShop,
    put_bill,
)
from counterfoil.domain.members import base_from, member_from, template_of
from counterfoil.domain.shops import shop_from
from counterfoil.domain.tokens import Pseudonyms
from counterfoil.model.messages import Message
from counterfoil.model.pos_values import as_list, flag, number, record_id

KINDS = ("shop", "base", "member", "bill")
MAX_LINE_BYTES = 2 * 1024 * 1024
# The limit for a line of a rejects file, where every quote and backslash of the record takes two characters.
MAX_REJECT_BYTES = 2 * MAX_LINE_BYTES + 4096

# Maximum size in bytes of a record as JSON, stored or returned. It limits the size of a page, because a page of a list
# is never shortened: 200 records take at most 100 MiB. An ordinary bill takes 2 KB.
MAX_RECORD = 512 * 1024
# Maximum length in bytes of a name that a bill takes from its shop, or a member from its base. The name may change
# after the record is loaded, so the size check reserves this many bytes.
LONGEST_NAME = 4096
# The size in bytes of a published item whose source is `{}`. No other part of a record grows by a larger factor when
# it is published, so the size of a record from a short line need not be checked.
SMALLEST_ITEM = 150
MAX_ITEMS = MAX_RECORD // SMALLEST_ITEM
SURELY_SMALL = 4096

NOT_JSON = "not_json"
NOT_UTF8 = "not_utf8"
UNKNOWN_KIND = "unknown_kind"
NO_ID = "no_id"
NO_SHOP = "no_shop"
NO_BASE = "no_base"
UNKNOWN_SHOP = "unknown_shop"
TOO_LONG = "too_long"
TOO_LARGE = "too_large"
UNKNOWN_FIELD = "unknown_field"
UNREADABLE_VALUE = "unreadable_value"
OTHER_BILL = "other_bill"
OTHER_BASE = "other_base"

# Why a line is rejected. The texts follow the words "The line".
REASONS = {
    NOT_JSON: Message("reject.not_json", "is not a JSON object"),
    NOT_UTF8: Message("reject.not_utf8", "is not valid UTF-8"),
    UNKNOWN_KIND: Message("reject.unknown_kind", "has no kind, or a kind other than shop, base, member or bill"),
    NO_ID: Message("reject.no_id", "has no usable id"),
    NO_SHOP: Message("reject.no_shop", "is a bill without shopId"),
    NO_BASE: Message("reject.no_base", "is a member without providerId"),
    UNKNOWN_SHOP: Message("reject.unknown_shop", "is a bill of a shop that is not loaded yet"),
    TOO_LONG: Message("reject.too_long", "is longer than 2 MiB"),
    TOO_LARGE: Message(
        "reject.too_large", "needs more than 512 KiB of storage, or has a channel or tier name longer than 4 KiB"
    ),
    UNKNOWN_FIELD: Message("reject.unknown_field", "has an unknown field (--strict)"),
    UNREADABLE_VALUE: Message("reject.unreadable_value", "has a value that cannot be read (--strict)"),
    OTHER_BILL: Message("reject.other_bill", "has the ID of another stored bill, or lacks a part of that bill"),
    OTHER_BASE: Message("reject.other_base", "has the ID of a stored member of another base"),
}


class SourceLine(Struct, frozen=True, gc=False):
    source: str
    number: int
    text: bytes


class Rejected(Exception):
    """A line is rejected for a `reason` of `REASONS`. `fields` lists the paths of the fields that are the reason."""

    def __init__(self, reason: str, fields: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.fields = tuple(fields)


class Reject(Struct, frozen=True, omit_defaults=True):
    """A rejected line, as it is written to a rejects file."""

    kind: str
    source: str = ""
    line: int = 0
    reason: str = ""
    fields: tuple[str, ...] = ()
    record: str | None = None
    record_base64: str | None = msgspec.field(default=None, name="recordBase64")


_decode_reject = json.Decoder(Reject).decode
# Every line of a rejects file begins with these bytes.
_REJECT_PREFIX = b'{"kind":"reject",'
# A number with more digits than this is too large for any field.
MAX_DIGITS = 400


class Reader:
    """Turns records into changes. `facts` returns the facts of a shop, or None if the shop is not loaded."""

    def __init__(self, pseudonyms: Pseudonyms, facts: Callable[[str], KnownFacts | None]) -> None:
        self._token = pseudonyms.member_token
        self._hash = pseudonyms.messaging_hash
        self._facts = facts
        self._builders: dict[str, Callable[[dict[str, Any], float | None], Change]] = {
            "shop": self._shop,
            "base": self._base,
            "member": self._member,
            "bill": self._bill,
        }

    def change(self, record: dict[str, Any], length: int = MAX_LINE_BYTES) -> Change:
        """Return the change that a record describes. `length` is that of its line; a short one is small enough."""
        kind = record.get("kind")
        build = self._builders.get(kind) if isinstance(kind, str) else None
        if build is None:
            raise Rejected(UNKNOWN_KIND)
        if record_id(record.get("id")) is None:
            raise Rejected(NO_ID)
        change = build(record, number(record.get("rev")))
        if is_too_large(change, length):
            raise Rejected(TOO_LARGE)
        return change

    def _shop(self, record: dict[str, Any], rev: float | None) -> Change:
        if flag(record.get("removed")):
            return Removal(("", "shop", _id(record)), rev)
        shop, facts = shop_from(record)
        return PutShop(shop, facts, rev, json.encode(shop), json.encode(facts))

    def _base(self, record: dict[str, Any], rev: float | None) -> Change:
        base = base_from(record)
        return PutBase(base, rev, json.encode(base))

    def _member(self, record: dict[str, Any], rev: float | None) -> Change:
        if flag(record.get("removed")):
            return Removal(("", "member", self._token(_id(record))), rev)
        if record_id(record.get("providerId")) is None:
            raise Rejected(NO_BASE)
        member = member_from(record, self._token, self._hash)
        return PutMember(member, rev, json.encode(member), template_of(member))

    def _bill(self, record: dict[str, Any], rev: float | None) -> Change:
        shop_id = record_id(record.get("shopId"))
        if shop_id is None:
            raise Rejected(NO_SHOP)
        if flag(record.get("removed")):
            return Removal((shop_id, "bill", _id(record)), rev)
        known = self._facts(shop_id)
        if known is None:
            raise Rejected(UNKNOWN_SHOP)
        # Check this number before the items are created: they would take fifty times as much memory as the line.
        if len(as_list(record.get("lines"))) > MAX_ITEMS:
            raise Rejected(TOO_LARGE)
        return put_bill(bill_from(record, known.facts, self._token), known, rev)


def is_too_large(change: Change, length: int) -> bool:
    """Return whether a record is too large, with space for a name that may change later, or has a name that is."""
    if length <= SURELY_SMALL:
        return False
    match change:
        case EncodedBill():
            return len(change.body) + len(change.withheld or b"null") + LONGEST_NAME > MAX_RECORD
        case PutMember():
            return len(change.template) + LONGEST_NAME > MAX_RECORD
        case PutShop():
            is_large = len(change.body) + len(change.facts_body) > MAX_RECORD
            return is_large or any(_is_long(name) for name in change.facts.channels.values())
        case PutBase():
            return len(change.body) > MAX_RECORD or any(_is_long(tier.name) for tier in change.base.tiers)
        case Removal() | SetShop():
            return False


def _is_long(name: str | None) -> bool:
    return name is not None and len(name.encode()) > LONGEST_NAME


def parse_record(line: bytes) -> dict[str, Any]:
    """Return the record on a line. A line of a rejects file is unwrapped first."""
    record = _parse_object(line, MAX_REJECT_BYTES if line.startswith(_REJECT_PREFIX) else MAX_LINE_BYTES)
    if record.get("kind") == "reject":
        return _parse_object(original_line(record.get("record"), record.get("recordBase64")), MAX_LINE_BYTES)
    return record


def _parse_object(line: bytes, max_bytes: int) -> dict[str, Any]:
    if len(line) > max_bytes:
        raise Rejected(TOO_LONG)
    try:
        record = json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        record = _decode_leniently(line)
    if not isinstance(record, dict):
        raise Rejected(NOT_JSON)
    return record


def _decode_leniently(line: bytes) -> object:
    """Parse a line with the standard library, which accepts NaN: tills write it, although JSON does not allow it."""
    # In UTF-16, one of the first two bytes of a line of JSON is NUL, unless it begins with a byte order mark.
    if line[:2].count(b"\0") == 1:
        raise Rejected(NOT_UTF8)
    try:
        return stdlib_json.loads(line.decode("utf-8-sig"), parse_int=_parse_int)
    except UnicodeDecodeError:
        raise Rejected(NOT_UTF8) from None
    except (ValueError, RecursionError):
        raise Rejected(NOT_JSON) from None


def _parse_int(digits: str) -> float:
    """Return the number, or infinity if it has too many digits, so that only the field is lost and not the line."""
    return int(digits) if len(digits) <= MAX_DIGITS else math.inf


def original_line(text: object, encoded: object) -> bytes:
    """Return the line that was rejected, from the fields `record` and `recordBase64` of a rejects file."""
    if isinstance(text, str):
        return text.encode("utf-8", "replace")
    try:
        return binascii.a2b_base64(encoded if isinstance(encoded, str) else "")
    except ValueError:
        raise Rejected(NOT_JSON) from None


def make_reject(source: str, line_number: int, rejected: Rejected, line: bytes) -> Reject:
    """Return the line for the rejects file. A line that was rejected before keeps its source, number and text."""
    reason, fields = rejected.reason, rejected.fields
    before = parse_reject(line)
    if before:
        return replace(before, reason=reason, fields=fields)
    if reason == TOO_LONG:
        line = line[: MAX_LINE_BYTES + 1]
    try:
        text, encoded = line.decode("utf-8"), None
    except UnicodeDecodeError:
        text, encoded = None, binascii.b2a_base64(line, newline=False).decode("ascii")
    return Reject("reject", source, line_number, reason, fields, record=text, record_base64=encoded)


def parse_reject(line: bytes) -> Reject | None:
    try:
        found = _decode_reject(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if found.kind == "reject" and (found.record or found.record_base64) else None


def _id(record: dict[str, Any]) -> str:
    return record_id(record["id"]) or ""
