"""How a ledger writes many rows: as columns, and revisions with all their digits."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from counterfoil.domain.changes import Row


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
