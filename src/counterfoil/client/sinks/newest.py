"""Pure functions that find the received bills that are newer than the stored ones."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from counterfoil.domain.calendar import EPOCH

_MICROSECOND = timedelta(microseconds=1)


class ReceivedBill(Struct, frozen=True):
    """A received bill: its JSON, and when it last changed."""

    row: bytes
    changed_us: int | None


class _BillVersion(Struct):
    id: str
    updated_at: str | None = msgspec.field(name="updatedAt", default=None)


_decode_version = msgspec.json.Decoder(_BillVersion).decode


def latest_bills(rows: Iterable[bytes]) -> dict[str, ReceivedBill]:
    """Return bills by ID. If a bill occurs twice, the newer version is returned."""
    latest: dict[str, ReceivedBill] = {}
    for row in rows:
        head = _decode_version(row)
        bill = ReceivedBill(row, instant_us(head.updated_at))
        if head.id not in latest or is_newer(bill, latest[head.id].changed_us):
            latest[head.id] = bill
    return latest


def is_newer(bill: ReceivedBill, known_us: int | None) -> bool:
    """Return whether a bill is newer than the stored version, which may be missing or have no `updatedAt`."""
    return known_us is None or (bill.changed_us is not None and bill.changed_us > known_us)


def instant_us(written: str | None) -> int | None:
    return None if written is None else (datetime.fromisoformat(written) - EPOCH) // _MICROSECOND
