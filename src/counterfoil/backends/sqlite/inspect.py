"""Inspects the store's files from outside, for the admin listener and `counterfoil doctor`."""

from contextlib import closing
from pathlib import Path

from msgspec import Struct

from counterfoil.backends.sqlite.files import Name, moved, read_only, translated
from counterfoil.domain.access import Scope
from counterfoil.ports import StoreMismatch, StoreUnavailable

_LATEST_LOAD = "SELECT lines, changed, rejected, finished_at, seen_at FROM loads ORDER BY number DESC LIMIT 1"

_KNOWN = {
    "shop": "SELECT 1 FROM shops WHERE id = ? AND NOT removed",
    "franchise": "SELECT 1 FROM shops WHERE franchise_id = ? AND NOT removed LIMIT 1",
}


class LatestLoad(Struct, frozen=True):
    lines: int
    changed: int
    rejected: int
    finished: bool
    idle_ms: int


def problem(folder: Path, name: Name) -> str | None:
    """Return why this database cannot be used, or None."""
    try:
        with closing(read_only(folder, name)) as connection, translated():
            connection.execute("SELECT count(*) FROM migrations").fetchone()
            return moved(connection)
    except (StoreUnavailable, StoreMismatch) as error:
        return str(error)


def horizon(folder: Path) -> int | None:
    row = _row(folder, "SELECT at FROM horizon")
    return row[0] if row else None


def knows(folder: Path, scope: Scope) -> bool:
    """Return whether the books have a shop of this scope."""
    return _row(folder, _KNOWN[scope.kind], scope.id) is not None


def latest_load(folder: Path, now_ms: int) -> LatestLoad | None:
    row = _row(folder, _LATEST_LOAD)
    if not row:
        return None
    lines, changed, rejected, finished_at, seen_at = row
    return LatestLoad(lines, changed, rejected, finished_at is not None, max(0, now_ms - seen_at))


def _row(folder: Path, query: str, *values: str) -> tuple[int, ...] | None:
    try:
        with closing(read_only(folder, "books")) as connection, translated():
            row: tuple[int, ...] | None = connection.execute(query, values).fetchone()
            return row
    except (StoreUnavailable, StoreMismatch):
        return None
