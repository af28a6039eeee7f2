"""Rebuilds objects from a copy's tables, and converts the service's responses so that both can be compared.

Instants are compared as milliseconds and numbers as decimals; everything else is
compared unchanged.
"""

from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec

from counterfoil.client import tables
from counterfoil.client.sinks.duckdb import DuckDBSink
from counterfoil.client.sinks.sql import Sink
from counterfoil.client.sinks.sqlite import SQLiteSink
from counterfoil.client.tables import Column, Kind, Table

Json = dict[str, Any]
INSTANTS = {"timestamp", "updatedAt", "createdDate", "expireAt"}
PERSONAL = ("tel", "email")


# --- the service's answers -----------------------------------------------------------


def plain(value: Any, name: str = "") -> Any:
    """Convert the instants in a response to milliseconds and its numbers to decimals."""
    match value:
        case dict():
            return {name: plain(inner, name) for name, inner in value.items()}
        case list():
            return [plain(inner) for inner in value]
        case bool() | None:
            return value
        case int() | float():
            return Decimal(repr(value))
        case str() if name in INSTANTS:
            return round(datetime.fromisoformat(value).timestamp() * 1000)
        case _:
            return value


def assert_same(held: dict[Any, Json], served: dict[Any, Json]) -> None:
    """Check that the copy and the service have the same objects, field for field. The error shows what differs."""
    only_here, only_there = held.keys() - served.keys(), served.keys() - held.keys()
    assert not only_here, f"only in the copy: {only_here}"
    assert not only_there, f"only in the service: {only_there}"
    for identity, there in served.items():
        here = held[identity]
        assert here.keys() == there.keys(), identity
        fields = {name: (here[name], there[name]) for name in there if here[name] != there[name]}
        assert not fields, f"{identity} differs: {fields}"


# --- the copy ------------------------------------------------------------------------


def shops(sink: Sink) -> dict[str, Json]:
    """Return the shops that are not marked as removed in the copy."""
    categories = _lists(sink, tables.CATEGORIES, "shop_id", "position")
    found = {}
    for row in _rows(sink, tables.SHOPS, "WHERE removed_at IS NULL"):
        shop = _record(tables.SHOPS, row)
        found[shop["shopId"]] = shop | {"categories": categories.get((shop["shopId"],), [])}
    return found


def bills(sink: Sink) -> dict[tuple[str, str], Json]:
    """Return every bill in the copy, keyed by shop and ID."""
    items = _lists(sink, tables.BILL_ITEMS, "shop_id, bill_id", "line", options=[])
    for row in _rows(sink, tables.ITEM_OPTIONS, "ORDER BY line, position"):
        items[row["shop_id"], row["bill_id"]][row["line"] - 1]["options"].append(_record(tables.ITEM_OPTIONS, row))
    payments = _lists(sink, tables.PAYMENTS, "shop_id, bill_id", "position")
    promotions: dict[tuple[str, str, str], list[Json]] = {}
    for row in _rows(sink, tables.PROMOTIONS, "ORDER BY position"):
        owner = row["shop_id"], row["bill_id"], row["kind"]
        promotions.setdefault(owner, []).append(_record(tables.PROMOTIONS, row))
    found = {}
    for row in _rows(sink, tables.BILLS):
        bill = _record(tables.BILLS, row)
        identity = bill["shopId"], bill["id"]
        assert identity not in found, f"{identity} is in the copy twice"
        bill["items"], bill["payments"] = items.pop(identity, []), payments.pop(identity, [])
        for kind in ("campaign", "coupon"):
            bill["amounts"][kind] = promotions.pop((*identity, kind), [])
        found[identity] = bill
    assert not items, "lines without a bill"
    assert not payments, "payments without a bill"
    assert not promotions, "promotions without a bill"
    return found


def members(sink: Sink, *, personal: bool = False) -> dict[tuple[str, str], Json]:
    """Return the members that are not marked as removed in the copy, keyed by base and token."""
    coupons = _lists(sink, tables.COUPONS, "member_id", "position")
    found = {}
    for row in _rows(sink, tables.MEMBERS, "WHERE removed_at IS NULL"):
        member = _record(tables.MEMBERS, row)
        if not personal:
            assert [member.pop(name) for name in PERSONAL] == [None, None]
        identity = row["provider_id"], member["memberId"]
        assert identity not in found, f"{identity} is in the copy twice"
        found[identity] = member | {"coupons": coupons.get((member["memberId"],), [])}
    return found


def _rows(sink: Sink, table: Table, condition: str = "") -> list[Json]:
    columns = ", ".join(_selected(sink, column) for column in table.columns)
    names = [column.name for column in table.columns]
    rows = sink.run(f"SELECT {columns} FROM {table.name} {condition}")  # noqa: S608 - names of our own tables
    return [dict(zip(names, row, strict=True)) for row in rows]


def _milliseconds(sink: Sink, instant: str) -> str:
    match sink:
        case DuckDBSink():
            return f"CAST(round(epoch_us({instant}) / 1000.0) AS BIGINT)"
        case SQLiteSink():
            return f"CAST(round((julianday({instant}) - 2440587.5) * 86400000) AS INTEGER)"
        case _:
            return f"CAST(round(extract(epoch FROM {instant}) * 1000) AS bigint)"


def _selected(sink: Sink, column: Column) -> str:
    quoted = f'"{column.name}"'
    if column.kind is Kind.INSTANT:
        return _milliseconds(sink, quoted)
    return f"CAST({quoted} AS {sink.DIALECT.types[Kind.TEXT]})" if column.kind is Kind.DAY else quoted


def _record(table: Table, row: Json) -> Json:
    """Convert a row to the object in the response, without the columns that exist only in the copy."""
    record: Json = {}
    for column in table.columns:
        if column.path and not column.of_parent:
            target = record
            for part in column.path[:-1]:
                target = target.setdefault(part, {})
            value = row[column.name]
            if column.kind is Kind.INSTANT and value is not None:
                value = round(value)
            target[column.path[-1]] = _as_served(value, column.kind)
    return record


def _as_served(value: Any, kind: Kind) -> Any:
    """Convert a value read from any database engine to the type that `plain` uses for responses."""
    if value is None:
        return None
    match kind:
        case Kind.INTEGER | Kind.DECIMAL | Kind.QUANTITY:
            return Decimal(str(value))
        case Kind.FLAG:
            return bool(value)
        case Kind.TEXTS if isinstance(value, str):
            return msgspec.json.decode(value)
    return value


def _lists(sink: Sink, table: Table, owner: str, number: str, **extra: Any) -> dict[Any, list[Json]]:
    """Return the rows of a table as lists, keyed by owner. The rows of each list must be numbered 1, 2, 3 and so on."""
    found: dict[Any, list[Json]] = {}
    names = owner.split(", ")
    for row in _rows(sink, table, f"ORDER BY {owner}, {number}"):
        listed = found.setdefault(tuple(row[name] for name in names), [])
        fresh = {name: list(value) for name, value in extra.items()}
        listed.append(_record(table, row) | fresh)
        assert row[number] == len(listed), f"{table.name} is numbered wrongly"
    return found
