"""How source records are written as lines, some of them malformed; see `docs/source-records.md`."""

from collections.abc import Callable, Iterator
from itertools import cycle
from math import inf, nextafter
from typing import Any

import msgspec
from msgspec import UNSET

from counterfoil.demo.worldgen.plan import WorldPlan, stream
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
# docs/source-records.md defines how the values are read. Each of the HABITS imitates one kind of malformed till
# output: it changes a few fields of a record, but not its IDs.

NAN_MARK = "~NaN~"


class DirtyWriter:
    """Encodes records as lines, some with malformed values. It uses the HABITS in turn, so that all of them occur."""

    def __init__(self, plan: WorldPlan, what: str) -> None:
        self._malformed_share = plan.malformed_share
        self._draw = stream(plan.seed, "mess", what)
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
    """Return a habit that sets these fields, or removes those that are UNSET.

    Changes to an object are merged, those to a list into its first element.
    """

    def merge(record: RawRecord, changes: RawRecord) -> None:
        for name, value in changes.items():
            if value is UNSET:
                record.pop(name, None)
            elif isinstance(value, dict) and name in record:
                merge(record[name][0] if isinstance(record[name], list) else record[name], value)
            else:
                record[name] = value

    return lambda record: merge(record, changes)


def _each(name: str, change: Callable[[RawRecord], RawRecord]) -> Habit:
    """Return a habit that updates an object or every element of a list."""

    def update(record: RawRecord) -> None:
        for part in record[name] if isinstance(record[name], list) else [record[name]]:
            part.update(change(part))

    return update


def _missing_quantity(bill: RawRecord) -> None:
    for line in bill["lines"]:
        line.pop("qty", None)
        line.pop("unitPrice", None)


HABITS: dict[str, tuple[Habit, ...]] = {
    "bill": (
        _each("amounts", lambda paid: {"net": f"{paid['net']:,.2f}", "subtotal": f" {paid['subtotal']} "}),
        _with(taxNumber="", cashier="", amounts={"deliveryFee": ""}),
        _each("payments", lambda payment: {"change": payment["change"] or ""}),
        _each("payments", lambda _: {"change": "ไม่มี"}),
        _with(lines={"qty": NAN_MARK}),
        _missing_quantity,
        _each("lines", lambda line: {"qty": f" {line['qty']} "}),
        _with(closedAt="31/12/2568 19:30", tradingDay=UNSET),
        _with(closedAt=UNSET),
        # Epoch seconds or milliseconds in quotes. Times that are already text stay as they are.
        lambda bill: bill.update(closedAt=str(bill["closedAt"])),
        # Rounding errors like those of a till that calculates in floating point.
        _each("amounts", lambda paid: {"net": nextafter(paid["net"], inf), "rounding": 0.1 + 0.2}),
        _each(
            "lines",
            lambda line: {
                "vat": "Yes" if line.get("vat") else 0,
                "cancelled": "true" if line.get("cancelled") else "no",
            },
        ),
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
        lambda member: member["visits"].extend([None, "", "someday", {"at": ""}]),
    ),
}
