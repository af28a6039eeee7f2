"""The source records that the generator writes, besides bills; see `docs/source-records.md`. None is left out."""

from collections.abc import Callable, Iterator
from itertools import cycle
from math import inf, nextafter
from random import Random
from typing import Any

import msgspec
from msgspec import Struct

from counterfoil.domain.clean_bills import SourceBill, SourceLabel

Number = int | float


class Entry(Struct, rename="camel", omit_defaults=True):
    """An object inside a record."""


class Record(Struct, rename="camel", omit_defaults=True, tag_field="kind"):
    """A source record. Its first fields are `kind` and `id`."""

    id: str


class CategoryEntry(Entry, kw_only=True):
    id: str
    name: str | None = None
    parent_id: str | None = None
    level: int | str | None = None
    hidden: bool | None = None
    visible_in: list[str] | None = None
    grouping: bool | None = None


class ShopRecord(Record, kw_only=True, tag="shop"):
    name: str
    franchise_id: str | None = None
    provider_id: str | None = None
    timezone: str | None = None
    closing_time: str | None = None
    channels: list[SourceLabel]
    categories: list[CategoryEntry]


class TierEntry(Entry, kw_only=True):
    code: str
    name: str


class BaseRecord(Record, kw_only=True, tag="base"):
    tiers: list[TierEntry]
    auto_tiers: bool
    credit_enabled: bool
    messaging_channel: str
    older_messaging_channels: list[str]


class LotEntry(Entry, kw_only=True):
    amount: Number
    expire_at: str | None = None


class WalletCoupon(Entry, kw_only=True):
    code: str
    status: str
    template_id: str
    name: str
    expire_at: str | None = None
    provider_id: str | None = None


class AccountEntry(Entry, kw_only=True):
    channel: str | None = None
    user_id: str


class MemberRecord(Record, kw_only=True, tag="member"):
    provider_id: str
    created_at: str
    rank: str | None = None
    rank_level: int | None = None
    points: Number | list[LotEntry]
    credit: Number | list[LotEntry] | None = None
    coupons: list[WalletCoupon]
    labels: list[str]
    persona: list[str]
    visits: list[Any]
    tel: str | None = None
    email: str | None = None
    messaging: list[AccountEntry]


def baht(satang: int) -> Number:
    """Convert satang to baht. Whole amounts become integers, so that 120 is not written as 120.0."""
    whole, rest = divmod(satang, 100)
    return satang / 100 if rest else whole


# Malformed values, as some tills write them, in records that can still be loaded; and lines that are always rejected.
#
# docs/source-records.md defines how the values are read. Each function in HABITS imitates one kind of malformed till
# output: it changes a few fields of a record, but not its IDs.


RawRecord = dict[str, Any]
Habit = Callable[[RawRecord], None]

NAN_MARK = "~NaN~"


class DirtyWriter:
    """Encodes records as lines, some with malformed values. It uses the HABITS in turn, so that all of them occur."""

    def __init__(self, malformed_share: float, draw: Random) -> None:
        self._malformed_share = malformed_share
        self._draw = draw
        self._habits = {kind: cycle(habits) for kind, habits in HABITS.items()}
        self._encode = msgspec.json.Encoder().encode

    def write(self, record: MemberRecord | SourceBill) -> bytes:
        line = self._encode(record)
        return self._spoil(line) if self._draw.random() < self._malformed_share else line

    def _spoil(self, line: bytes) -> bytes:
        record: RawRecord = msgspec.json.decode(line)
        next(self._habits[record["kind"]])(record)
        # JSON has no NaN, so the record contains a marker instead, which is replaced by NaN after encoding.
        return self._encode(record).replace(b'"%s"' % NAN_MARK.encode(), b"NaN")


def dirty_lines() -> Iterator[bytes]:
    """Yield lines that every load rejects, at least one for each reason except the size limits and `--strict`."""
    yield b"*** till 3 restarted ***"
    yield b'{"kind":"bill","id":"cut-off","shopId":'
    yield b"[1,2,3]"
    yield b'\xff\xfe{"kind":"shop"}'
    yield b'{"id":"nobody-knows-what-this-is"}'
    yield b'{"kind":"refund","id":"r-1"}'
    yield b'{"kind":"bill","shopId":"a-shop","amounts":{"net":90}}'
    yield b'{"kind":"member","id":"","providerId":"a-base"}'
    yield b'{"kind":"bill","id":"bill-without-shop","amounts":{"net":90}}'
    yield b'{"kind":"member","id":"member-without-base"}'
    yield b'{"kind":"bill","id":"bill-of-a-shop-unheard-of","shopId":"no-such-shop","amounts":{"net":90}}'


# --- bills -----------------------------------------------------------------


def quoted_money(bill: RawRecord) -> None:
    amounts = bill["amounts"]
    amounts["net"] = f"{amounts['net']:,.2f}"
    amounts["subtotal"] = f" {amounts['subtotal']} "


def empty_strings(bill: RawRecord) -> None:
    bill["taxNumber"] = bill["cashier"] = ""
    bill["amounts"]["deliveryFee"] = ""


def empty_change(bill: RawRecord) -> None:
    for payment in bill["payments"]:
        payment["change"] = payment["change"] or ""


def unreadable_change(bill: RawRecord) -> None:
    for payment in bill["payments"]:
        payment["change"] = "ไม่มี"


def quantity_not_a_number(bill: RawRecord) -> None:
    bill["lines"][0]["qty"] = NAN_MARK


def missing_quantity(bill: RawRecord) -> None:
    for line in bill["lines"]:
        line.pop("qty", None)
        line.pop("unitPrice", None)


def quoted_quantity(bill: RawRecord) -> None:
    for line in bill["lines"]:
        line["qty"] = f" {line['qty']} "


def unreadable_time(bill: RawRecord) -> None:
    bill["closedAt"] = "31/12/2568 19:30"
    bill.pop("tradingDay", None)


def missing_time(bill: RawRecord) -> None:
    del bill["closedAt"]


def quoted_time(bill: RawRecord) -> None:
    """Put epoch seconds or milliseconds in quotes. Times that are already text stay as they are."""
    bill["closedAt"] = str(bill["closedAt"])


def binary_noise(bill: RawRecord) -> None:
    """Add rounding errors like those of a till that calculates in floating point."""
    amounts = bill["amounts"]
    amounts["net"] = nextafter(amounts["net"], inf)
    amounts["rounding"] = 0.1 + 0.2


def flags_in_words(bill: RawRecord) -> None:
    for line in bill["lines"]:
        line["vat"] = "Yes" if line.get("vat") else 0
        line["cancelled"] = "true" if line.get("cancelled") else "no"


def customer_on_the_bill(bill: RawRecord) -> None:
    """Add personal data, which must never be stored. The person is fictitious."""
    bill["customer"] = {"name": "Invented Customer ลูกค้าสมมุติ", "tel": "000-000-0000"}
    bill["deliveryAddress"] = "0 Nowhere Road ถนนสมมุติ"
    bill["note"] = "for Invented Customer"


def unknown_fields(bill: RawRecord) -> None:
    bill["accounting"] = {"status": "synced", "batch": 17}
    bill["shift"] = {"manager": "Invented Manager", "opened": None}
    bill["lines"][0]["cost"] = 12.5


def options_without_sense(bill: RawRecord) -> None:
    bill["lines"][0]["options"] = [{"id": 77, "name": "ไม่ผัก No greens", "qty": "some"}, None, "extra"]


# --- members ---------------------------------------------------------------


def numeric_rank(member: RawRecord) -> None:
    member["rank"] = 2


def quoted_rank_level(member: RawRecord) -> None:
    member["rankLevel"] = "1"


def unreadable_rank_level(member: RawRecord) -> None:
    member["rankLevel"] = ""


def impossible_rank_level(member: RawRecord) -> None:
    member["rankLevel"] = -1


def unreadable_sign_up(member: RawRecord) -> None:
    member["createdAt"] = "2569-13-45"


def quoted_points(member: RawRecord) -> None:
    member["points"] = "1,250.00"


def points_with_noise(member: RawRecord) -> None:
    member["points"] = [{"amount": 0.1 + 0.2}, {"amount": NAN_MARK}, {"amount": "12.50", "expireAt": ""}]


def empty_contact(member: RawRecord) -> None:
    member["tel"] = ""
    member["email"] = "   "


def personal_fields(member: RawRecord) -> None:
    member["name"] = "Invented Member สมาชิกสมมุติ"
    member["birthday"] = "1900-01-01"
    member["staffNotes"] = "invented"


def visits_of_all_kinds(member: RawRecord) -> None:
    member["visits"] = [*member["visits"], None, "", "someday", {"at": ""}]


HABITS: dict[str, tuple[Habit, ...]] = {
    "bill": (
        quoted_money,
        empty_strings,
        empty_change,
        unreadable_change,
        quantity_not_a_number,
        missing_quantity,
        quoted_quantity,
        unreadable_time,
        missing_time,
        quoted_time,
        binary_noise,
        flags_in_words,
        customer_on_the_bill,
        unknown_fields,
        options_without_sense,
    ),
    "member": (
        numeric_rank,
        quoted_rank_level,
        unreadable_rank_level,
        impossible_rank_level,
        unreadable_sign_up,
        quoted_points,
        points_with_noise,
        empty_contact,
        personal_fields,
        visits_of_all_kinds,
    ),
}
