"""Inspects the store's files from outside, for the admin listener and `counterfoil doctor`."""

from contextlib import closing
from pathlib import Path

from counterfoil.backends.sqlite.files import NAMES, Name, moved, read_only, translated
from counterfoil.domain.access import Scope
from counterfoil.ports import LatestLoad, StoreMismatch, StoreUnavailable

_LATEST_LOAD = "SELECT lines, changed, rejected, finished_at, seen_at FROM loads ORDER BY number DESC LIMIT 1"

_KNOWN = {
    "shop": "SELECT 1 FROM shops WHERE id = ? AND NOT removed",
    "franchise": "SELECT 1 FROM shops WHERE franchise_id = ? AND NOT removed LIMIT 1",
}

_FINGERPRINT = "SELECT secret_fingerprint FROM deployment"


class SqliteInspection:
    """Inspects an embedded store."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def problems(self) -> dict[str, str | None]:
        return {name: self._problem(name) for name in NAMES}

    def survives_primary(self) -> bool:
        return False

    def servers(self) -> tuple[()]:
        return ()

    def knows(self, scope: Scope) -> bool:
        return self._row(_KNOWN[scope.kind], scope.id) is not None

    def horizon(self) -> int | None:
        row = self._row("SELECT at FROM horizon")
        return row[0] if row else None

    def latest_load(self, now_ms: int) -> LatestLoad | None:
        row = self._row(_LATEST_LOAD)
        if not row:
            return None
        lines, changed, rejected, finished_at, seen_at = row
        return LatestLoad(lines, changed, rejected, finished_at is not None, max(0, now_ms - seen_at))

    def permissions(self) -> None:
        return None

    def fingerprint(self) -> str | None:
        with closing(read_only(self._folder, "books")) as connection, translated():
            row: tuple[str] | None = connection.execute(_FINGERPRINT).fetchone()
            return row[0] if row else None

    def _problem(self, name: Name) -> str | None:
        try:
            with closing(read_only(self._folder, name)) as connection, translated():
                connection.execute("SELECT count(*) FROM migrations").fetchone()
                return moved(connection)
        except (StoreUnavailable, StoreMismatch) as error:
            return str(error)

    def _row(self, query: str, *values: str) -> tuple[int, ...] | None:
        try:
            with closing(read_only(self._folder, "books")) as connection, translated():
                row: tuple[int, ...] | None = connection.execute(query, values).fetchone()
                return row
        except (StoreUnavailable, StoreMismatch):
            return None
