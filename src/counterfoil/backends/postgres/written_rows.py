"""How a ledger writes many rows: as arrays of columns, and revisions with all their digits."""

from collections.abc import Sequence
from decimal import Decimal
from struct import Struct as Layout
from typing import Any

import psycopg
from psycopg import pq
from psycopg.adapt import Dumper

from counterfoil.domain.changes import Row

# --- arrays -------------------------------------------------------------------------

# Array header: number of dimensions, NULL flag, OID of the element type, number of elements, first index.
_HEAD = Layout("!iiIii")
_LENGTH = Layout("!i")
_INTEGER, _BIGINT = Layout("!ii"), Layout("!iq")
_NULL = _LENGTH.pack(-1)


class _Array(bytes):
    """An array in PostgreSQL's binary format. The server learns its type from the cast in the statement."""


def integers(values: Sequence[int | None]) -> _Array:
    pack = _INTEGER.pack
    return _Array(_joined("int4", [_NULL if value is None else pack(4, value) for value in values]))


def bigints(values: Sequence[int | None]) -> _Array:
    pack = _BIGINT.pack
    return _Array(_joined("int8", [_NULL if value is None else pack(8, value) for value in values]))


def texts(values: Sequence[str | None]) -> _Array:
    encoded = [None if value is None else value.encode() for value in values]
    return _Array(_joined("text", _with_lengths(encoded), len(values)))


def blobs(values: Sequence[bytes | None]) -> _Array:
    return _Array(_joined("bytea", _with_lengths(values), len(values)))


def _with_lengths(values: Sequence[bytes | None]) -> list[bytes]:
    parts: list[bytes] = []
    pack = _LENGTH.pack
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            parts += (pack(len(value)), value)
    return parts


def _joined(type_name: str, parts: list[bytes], count: int | None = None) -> bytes:
    head = _HEAD.pack(1, 1, psycopg.postgres.types[type_name].oid, len(parts) if count is None else count, 1)
    return b"".join([head, *parts])


class _ArrayDumper(Dumper):
    format = pq.Format.BINARY
    oid = 0

    def dump(self, obj: Any) -> bytes:
        return bytes(obj)


psycopg.adapters.register_dumper(_Array, _ArrayDumper)


# --- revisions ----------------------------------------------------------------------


def rev_of(kept: Decimal | None) -> float | None:
    """Return a revision as it was loaded: an integer if it is a whole number, otherwise a float."""
    if kept is None:
        return None
    return int(kept) if kept == kept.to_integral_value() else float(kept)


def loaded(row: Row) -> Row:
    """Return a row with its revision converted by `rev_of`. No other value in a row is a Decimal."""
    return tuple([rev_of(value) if isinstance(value, Decimal) else value for value in row])


def rev_text(rev: float | None) -> str | None:
    return None if rev is None else repr(rev)


def columns(rows: Sequence[Row]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]
