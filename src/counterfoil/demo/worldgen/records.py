"""How source records are written as lines, some of them malformed; see `docs/source-records.md`."""

from collections.abc import Callable
from itertools import cycle
from math import inf, nextafter
from pathlib import Path
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


def dirty_lines() -> list[bytes]:
    """Return lines that every load rejects, at least one for each reason except the size limits and `--strict`."""
    not_utf8 = b'\xff\xfe{"kind":"shop"}'
    return [*Path(__file__).with_name("rejected_lines.txt").read_bytes().splitlines(), not_utf8]


def _with(**changes: Any) -> Habit:
    """Return a habit that merges these changes into a record."""
    return lambda record: _merge(record, changes)


def _each(name: str, change: Callable[[RawRecord], RawRecord]) -> Habit:
    """Return a habit that updates an object or every element of a list."""

    def update(record: RawRecord) -> None:
        for part in record[name] if isinstance(record[name], list) else [record[name]]:
            _merge(part, change(part))

    return update


def _merge(record: RawRecord, changes: RawRecord) -> None:
    """Set these fields, or remove those that are UNSET. Changes to a list are merged into its first element."""
    for name, value in changes.items():
        if value is UNSET:
            record.pop(name, None)
        elif isinstance(value, dict) and name in record:
            _merge(record[name][0] if isinstance(record[name], list) else record[name], value)
        else:
            record[name] = value


HABITS: dict[str, tuple[Habit, ...]] = {
    "bill": (
        _each("amounts", lambda paid: {"net": f"{paid['net']:,.2f}", "subtotal": f" {paid['subtotal']} "}),
        _with(taxNumber="", cashier="", amounts={"deliveryFee": ""}),
        _each("payments", lambda payment: {"change": payment["change"] or ""}),
        _each("payments", lambda _: {"change": "ไม่มี"}),
        _with(lines={"qty": NAN_MARK}),
        _each("lines", lambda _: {"qty": UNSET, "unitPrice": UNSET}),
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
