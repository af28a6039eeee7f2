"""Find out which received bills are newer than the stored ones. Pure functions."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from counterfoil.domain.calendar import EPOCH

_MICROSECOND = timedelta(microseconds=1)


class Arrived(Struct, frozen=True):
    """A received bill: its JSON, and when it last changed."""

    row: bytes
    changed_us: int | None


class _BillVersion(Struct):
    id: str
    updated_at: str | None = msgspec.field(name="updatedAt", default=None)


_head = msgspec.json.Decoder(_BillVersion).decode


def latest_bills(rows: Iterable[bytes]) -> dict[str, Arrived]:
    """Return bills by ID. If a bill occurs twice, the newer version is returned."""
    latest: dict[str, Arrived] = {}
    for row in rows:
        head = _head(row)
        bill = Arrived(row, instant_us(head.updated_at))
        if head.id not in latest or is_newer(bill, latest[head.id].changed_us):
            latest[head.id] = bill
    return latest


def is_newer(bill: Arrived, known_us: int | None) -> bool:
    """Whether a bill replaces what is stored: nothing, a version without `updatedAt`, or an older version."""
    return known_us is None or (bill.changed_us is not None and bill.changed_us > known_us)


def instant_us(written: str | None) -> int | None:
    return None if written is None else (datetime.fromisoformat(written) - EPOCH) // _MICROSECOND
