"""How source records are written as lines, some of them malformed; see `docs/source-records.md`."""

from collections.abc import Callable, Iterator
from itertools import cycle
from math import inf, nextafter
from random import Random
from typing import Any

import msgspec

from counterfoil.domain.source_bills import SourceBill

Number = int | float


RawRecord = dict[str, Any]
Habit = Callable[[RawRecord], None]


def without_none(**fields: object) -> RawRecord:
    """Return the fields of a record or of an object in it, named as in the source, except those that are None."""
    return {name: value for name, value in fields.items() if value is not None}


def baht(satang: int) -> Number:
    """Convert satang to baht. Whole amounts become integers, so that 120 is not written as 120.0."""
    whole, rest = divmod(satang, 100)
    return satang / 100 if rest else whole


# Malformed values, as some tills write them, in records that can still be loaded; and lines that are always rejected.
#
# docs/source-records.md defines how the values are read. Each function in HABITS imitates one kind of malformed till
# output: it changes a few fields of a record, but not its IDs.

NAN_MARK = "~NaN~"


class DirtyWriter:
    """Encodes records as lines, some with malformed values. It uses the HABITS in turn, so that all of them occur."""

    def __init__(self, malformed_share: float, draw: Random) -> None:
        self._malformed_share = malformed_share
        self._draw = draw
        self._habits = {kind: cycle(habits) for kind, habits in HABITS.items()}
        self._encode = msgspec.json.Encoder().encode

    def write(self, record: RawRecord | SourceBill) -> bytes:
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


def _with(**changes: Any) -> Habit:
    """Return a habit that sets these fields. Changes to an object are merged, those to a list to its first element."""

    def merge(record: RawRecord, changes: RawRecord) -> None:
        for name, value in changes.items():
            if isinstance(value, dict) and name in record:
                merge(record[name][0] if isinstance(record[name], list) else record[name], value)
            else:
                record[name] = value

    return lambda record: merge(record, changes)


def quoted_money(bill: RawRecord) -> None:
    amounts = bill["amounts"]
    amounts["net"] = f"{amounts['net']:,.2f}"
    amounts["subtotal"] = f" {amounts['subtotal']} "


def empty_change(bill: RawRecord) -> None:
    for payment in bill["payments"]:
        payment["change"] = payment["change"] or ""


def unreadable_change(bill: RawRecord) -> None:
    for payment in bill["payments"]:
        payment["change"] = "ไม่มี"


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


def visits_of_all_kinds(member: RawRecord) -> None:
    member["visits"] = [*member["visits"], None, "", "someday", {"at": ""}]


HABITS: dict[str, tuple[Habit, ...]] = {
    "bill": (
        quoted_money,
        _with(taxNumber="", cashier="", amounts={"deliveryFee": ""}),
        empty_change,
        unreadable_change,
        _with(lines={"qty": NAN_MARK}),
        missing_quantity,
        quoted_quantity,
        unreadable_time,
        missing_time,
        quoted_time,
        binary_noise,
        flags_in_words,
        # Personal data, which must never be stored. The person is fictitious.
        _with(
            customer={"name": "Invented Customer ลูกค้าสมมุติ", "tel": "000-000-0000"},
            deliveryAddress="0 Nowhere Road ถนนสมมุติ",
            note="for Invented Customer",
        ),
        # Unknown fields.
        _with(
            accounting={"status": "synced", "batch": 17},
            shift={"manager": "Invented Manager", "opened": None},
            lines={"cost": 12.5},
        ),
        _with(lines={"options": [{"id": 77, "name": "ไม่ผัก No greens", "qty": "some"}, None, "extra"]}),
    ),
    "member": (
        _with(rank=2),
        _with(rankLevel="1"),
        _with(rankLevel=""),
        _with(rankLevel=-1),
        _with(createdAt="2569-13-45"),
        _with(points="1,250.00"),
        _with(points=[{"amount": 0.1 + 0.2}, {"amount": NAN_MARK}, {"amount": "12.50", "expireAt": ""}]),
        _with(tel="", email="   "),
        _with(name="Invented Member สมาชิกสมมุติ", birthday="1900-01-01", staffNotes="invented"),
        visits_of_all_kinds,
    ),
}
