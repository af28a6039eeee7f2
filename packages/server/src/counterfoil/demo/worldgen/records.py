"""How source records are written as lines; see `docs/source-records.md`."""

from pathlib import Path
from typing import Any

Number = int | float
RawRecord = dict[str, Any]


def without_none(**fields: object) -> RawRecord:
    """Return the fields of a record or of an object in it, named as in the source, except those that are None."""
    return {name: value for name, value in fields.items() if value is not None}


def baht(satang: int) -> Number:
    """Convert satang to baht. Whole amounts become integers, so that 120 is not written as 120.0."""
    whole, rest = divmod(satang, 100)
    return satang / 100 if rest else whole


def dirty_lines() -> list[bytes]:
    """Return lines that every load rejects, at least one for each reason except the size limits and `--strict`."""
    not_utf8 = b'\xff\xfe{"kind":"shop"}'
    return [*Path(__file__).with_name("rejected_lines.txt").read_bytes().splitlines(), not_utf8]
