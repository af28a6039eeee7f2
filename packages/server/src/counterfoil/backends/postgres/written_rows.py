"""How a ledger writes many rows: as columns, and revisions with all their digits."""

from collections.abc import Sequence
from typing import Any

from counterfoil.domain.changes import Row


def rev_text(rev: float | None) -> str | None:
    return None if rev is None else repr(rev)


def columns(rows: Sequence[Row]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]
