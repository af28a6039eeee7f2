"""How source records are written as lines, some of them malformed; see `docs/source-records.md`."""

from collections.abc import Callable
from functools import partial
from itertools import cycle
from math import inf, nextafter
from pathlib import Path
from typing import Any

import msgspec

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


def _each(name: str, change: Callable[[RawRecord], RawRecord]) -> Habit:
    """Return a habit that updates an object or every element of a list."""

    def update(record: RawRecord) -> None:
        for part in record[name] if isinstance(record[name], list) else [record[name]]:
            part.update(change(part))

    return update


def _merge(changes: RawRecord, record: RawRecord) -> None:
    """Set these fields of a record, or remove those that are None.

    Changes to a list are merged into its first element or, if the name ends in `*`, into all of them.
    """
    for name, value in changes.items():
        present = record.get(name.removesuffix("*"))
        if value is None:
            record.pop(name, None)
        elif isinstance(value, dict) and present is not None:
            parts = present if isinstance(present, list) else [present]
            for part in parts if name.endswith("*") else parts[:1]:
                _merge(value, part)
        else:
            record[name] = value


# The habits that compute their values from those of the record.
COMPUTED: dict[str, Habit] = {
    "quoted amounts": _each(
        "amounts", lambda paid: {"net": f"{paid['net']:,.2f}", "subtotal": f" {paid['subtotal']} "}
    ),
    "empty change": _each("payments", lambda payment: {"change": payment["change"] or ""}),
    "quoted quantities": _each("lines", lambda line: {"qty": f" {line['qty']} "}),
    # Epoch seconds or milliseconds in quotes. Times that are already text stay as they are.
    "quoted times": lambda bill: bill.update(closedAt=str(bill["closedAt"])),
    # Like those of a till that calculates in floating point.
    "rounding errors": _each("amounts", lambda paid: {"net": nextafter(paid["net"], inf), "rounding": 0.1 + 0.2}),
    "flags in words": _each(
        "lines",
        lambda line: {"vat": "Yes" if line.get("vat") else 0, "cancelled": "true" if line.get("cancelled") else "no"},
    ),
    "odd visits": lambda member: member["visits"].extend([None, "", "someday", {"at": ""}]),
}
# The habits by kind of record: changes to merge, or the names of those above. Some add personal data, which must never
# be stored, of fictitious people; others add unknown fields.
HABITS: dict[str, list[Habit]] = {
    kind: [COMPUTED[habit] if isinstance(habit, str) else partial(_merge, habit) for habit in habits]
    for kind, habits in msgspec.json.decode(Path(__file__).with_name("habits.json").read_bytes()).items()
}
