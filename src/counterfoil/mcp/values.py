"""Converts values of the copy to JSON without losing digits: money and quantities become decimal strings."""

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import msgspec

MONEY_PLACES = 2
MAX_TEXT = 1_000
# Results are limited, because a language model reads them and its cost grows with their length.
MAX_ANSWER_BYTES = 60_000

Json = dict[str, Any]


def decimal_text(value: Decimal) -> str:
    """Return all significant digits, with at least two decimal places: `120.00`, `0.333`."""
    if not value.is_finite():
        return str(value)
    exponent = value.normalize().as_tuple().exponent
    places = -exponent if isinstance(exponent, int) else 0
    return f"{value:.{max(MONEY_PLACES, places)}f}"


def json_value(value: Any) -> Any:
    if isinstance(value, Decimal):
        return decimal_text(value)
    if isinstance(value, float):
        return decimal_text(Decimal(repr(value)))
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds") + "Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else value[:MAX_TEXT] + "…"
    if isinstance(value, list | tuple):
        return [json_value(element) for element in value]
    if isinstance(value, dict):
        return {str(name): json_value(element) for name, element in value.items()}
    if value is None or isinstance(value, bool | int):
        return value
    return str(value)[:MAX_TEXT]


def objects(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[Json]:
    return [{name: json_value(value) for name, value in zip(names, row, strict=True)} for row in rows]


def within_budget(rows: list[Any]) -> list[Any]:
    """Return as many of the first rows as fit into a tool result."""
    spent, kept = 0, []
    for row in rows:
        spent += len(msgspec.json.encode(row))
        if spent > MAX_ANSWER_BYTES:
            break
        kept.append(row)
    return kept
