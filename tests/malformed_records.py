"""Records of a generated world with malformed values, as some tills write them, that can still be loaded.

docs/source-records.md defines how the values are read. Each of the HABITS imitates one kind of malformed till output:
it changes a few fields of a record, but not its IDs.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import cycle
from math import inf, nextafter
from pathlib import Path
from random import Random
from typing import Any

import msgspec

Record = dict[str, Any]
Habit = Callable[[Record], None]
NAN_MARK = b'"~NaN~"'


def malformed(lines: Iterable[bytes], share: float) -> Iterator[bytes]:
    """Yield the lines, some members and bills with malformed values. The HABITS are used in turn, so all occur."""
    draw, habits = Random(1), {kind: cycle(of_kind) for kind, of_kind in HABITS.items()}  # noqa: S311 - reproducible
    for line in lines:
        record: Record = msgspec.json.decode(line)
        if record["kind"] in habits and draw.random() < share:
            next(habits[record["kind"]])(record)
            # JSON has no NaN, so the record contains a marker instead, which is replaced by NaN after encoding.
            yield msgspec.json.encode(record).replace(NAN_MARK, b"NaN")
        else:
            yield line


def _each(name: str, change: Callable[[Record], Record]) -> Habit:
    """Return a habit that updates an object or every element of a list."""

    def update(record: Record) -> None:
        for part in record[name] if isinstance(record[name], list) else [record[name]]:
            part.update(change(part))

    return update


def _merge(changes: Record, record: Record) -> None:
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
