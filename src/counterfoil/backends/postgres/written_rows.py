"""What a ledger writes: arrays of many rows, revisions with all their digits, rows of the feed, day totals."""

from collections.abc import Sequence
from decimal import Decimal
from struct import Struct as Layout
from typing import Any

import psycopg
from psycopg import Connection, pq
from psycopg.adapt import Dumper

from counterfoil.domain.batch import Batch
from counterfoil.domain.change_feed import REMOVALS_KEPT_MS
from counterfoil.domain.changes import Row
from counterfoil.domain.day_totals import day_total

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


# --- the change feed ----------------------------------------------------------------

_RELIST = """
    INSERT INTO shop_changes (shop, franchise_id, joined_at, listed_at, latest_at)
    SELECT number, franchise_id, %(stamp)s, %(stamp)s, %(stamp)s
    FROM unnest(%(numbers)s::integer[], %(franchises)s::text[]) AS relisted (number, franchise_id)
    ON CONFLICT (shop) DO UPDATE SET
        joined_at = CASE
            WHEN shop_changes.franchise_id IS NOT DISTINCT FROM excluded.franchise_id THEN shop_changes.joined_at
            ELSE excluded.joined_at
        END,
        franchise_id = excluded.franchise_id, listed_at = excluded.listed_at, latest_at = excluded.latest_at
"""
_TOUCH = "UPDATE shop_changes SET latest_at = %s WHERE shop = ANY(%s)"
_DEPART = """
    INSERT INTO departures (franchise_id, shop, left_at)
    SELECT franchise_id, shop, %s FROM unnest(%s::text[], %s::integer[]) AS gone (franchise_id, shop)
    ON CONFLICT (franchise_id, shop) DO UPDATE SET left_at = excluded.left_at
"""
_REMOVE = """
    INSERT INTO removed_bills (shop, id, removed_at)
    SELECT shop, id, %s FROM unnest(%s::integer[], %s::text[]) AS gone (shop, id)
    ON CONFLICT (shop, id) DO UPDATE SET removed_at = excluded.removed_at
"""
_PRUNE = """
    WITH deleted AS (DELETE FROM removed_bills WHERE removed_at <= (SELECT at FROM horizon) - %(kept)s RETURNING 1),
    raised AS (
        INSERT INTO feed (one, oldest)
        SELECT 1, horizon.at - %(kept)s FROM horizon WHERE EXISTS (SELECT 1 FROM deleted)
        ON CONFLICT (one) DO UPDATE SET oldest = greatest(feed.oldest, excluded.oldest)
    )
    SELECT count(*) FROM deleted
"""


def record(connection: Connection[Any], batch: Batch) -> None:
    """Record the changes of a batch for the feed, before its bills are written or in the same transaction."""
    stamp = batch.stamp
    relisted, departures, removed = batch.relisted_shops(), batch.departures(), batch.removed_bills()
    if relisted:
        numbers, franchises = [row.number for row in relisted], [row.franchise_id for row in relisted]
        connection.execute(_RELIST, {"stamp": stamp, "numbers": numbers, "franchises": franchises})
    if departures:
        connection.execute(_DEPART, (stamp, *columns(departures)))
    if removed:
        connection.execute(_REMOVE, (stamp, *columns(removed)))
    touch(connection, batch.touched_shops(), stamp)


def touch(connection: Connection[Any], shops: list[int], stamp: int) -> None:
    """Record that bills of these shops were written with this stamp."""
    if shops:
        connection.execute(_TOUCH, (stamp, shops))


def prune(connection: Connection[Any]) -> int:
    """Delete removals older than REMOVALS_KEPT_MS; return the count.

    If any are deleted, raise the oldest valid mark, because a pass from an older mark would miss them.
    """
    row = connection.execute(_PRUNE, {"kept": REMOVALS_KEPT_MS}).fetchone()
    return int(row[0]) if row else 0


def columns(rows: Sequence[Row]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


# --- day totals ---------------------------------------------------------------------

_MARK_STALE = """
    INSERT INTO day_totals (shop, bill_day) SELECT * FROM unnest(%s::integer[], %s::integer[])
    ON CONFLICT (shop, bill_day) DO UPDATE SET stale = 1
"""
_STALE = "SELECT shop, bill_day FROM day_totals WHERE stale = 1 LIMIT %s"
_BILLS = "SELECT updated_at, body FROM bills WHERE shop = %s AND bill_day = %s"
_STORE = """
    UPDATE day_totals SET stale = 0, bills = %s, voids = %s, net = %s, tip = %s, latest = %s, hash = %s
    WHERE shop = %s AND bill_day = %s
"""
_DELETE = "DELETE FROM day_totals WHERE shop = %s AND bill_day = %s"


def mark_stale(connection: Connection[Any], days: list[tuple[int, int]]) -> None:
    if days:
        connection.execute(_MARK_STALE, ([shop for shop, _ in days], [day for _, day in days]))


def has_stale(connection: Connection[Any]) -> bool:
    return connection.execute(_STALE, (1,)).fetchone() is not None


def compute(connection: Connection[Any], most: int) -> int:
    """Compute the totals of up to `most` stale days; return the number of days. The caller holds the write lock."""
    stale = connection.execute(_STALE, (most,)).fetchall()
    for shop, day in stale:
        total = day_total(connection.execute(_BILLS, (shop, day), binary=True))
        if total.bills:
            values = (total.bills, total.voids, total.net, total.tip, total.latest, total.hash)
            connection.execute(_STORE, (*values, shop, day))
        else:
            connection.execute(_DELETE, (shop, day))
    return len(stale)
