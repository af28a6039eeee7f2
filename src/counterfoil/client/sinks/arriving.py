"""Bills as they arrive: which of them are later than what is known. Pure."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from counterfoil.domain.calendar import EPOCH

_MICROSECOND = timedelta(microseconds=1)


class Arrived(Struct, frozen=True):
    """A bill's bytes, and when it last changed."""

    row: bytes
    changed_us: int | None


class _Head(Struct):
    id: str
    updated_at: str | None = msgspec.field(name="updatedAt", default=None)


_head = msgspec.json.Decoder(_Head).decode


def latest_bills(rows: Iterable[bytes]) -> dict[str, Arrived]:
    """By id; of a bill that came twice the later."""
    latest: dict[str, Arrived] = {}
    for row in rows:
        head = _head(row)
        bill = Arrived(row, instant_us(head.updated_at))
        if head.id not in latest or is_newer(bill, latest[head.id].changed_us):
            latest[head.id] = bill
    return latest


def is_newer(bill: Arrived, known_us: int | None) -> bool:
    """Whether a bill goes over what is known: nothing, something without a time of change, or something older."""
    return known_us is None or (bill.changed_us is not None and bill.changed_us > known_us)


def instant_us(written: str | None) -> int | None:
    return None if written is None else (datetime.fromisoformat(written) - EPOCH) // _MICROSECOND
