"""Stores the audit log in `keys.sqlite3`, so that a key and its audit entry are written in one transaction."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path

from counterfoil.backends.sqlite.files import WAIT_SEC, read_write, translated, writing
from counterfoil.domain.audit import COLUMNS, AuditEntry, from_row, to_row

_COLUMNS = ", ".join(COLUMNS)
_APPEND = f"INSERT INTO audit ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - names of our own columns
_LATEST = f"""
    SELECT {_COLUMNS} FROM audit
    WHERE at >= :since AND (:key_id IS NULL OR key_id = :key_id)
    ORDER BY at DESC, number DESC LIMIT :most
"""  # noqa: S608 - as above


def append(connection: sqlite3.Connection, entries: Iterable[AuditEntry]) -> None:
    """Write entries within the open transaction."""
    connection.executemany(_APPEND, map(to_row, entries))


def latest_entries(connection: sqlite3.Connection, most: int, key_id: str | None, since: int) -> list[AuditEntry]:
    """Return up to `most` entries from `since` onwards, newest first; with `key_id`, only the entries of that key."""
    rows = connection.execute(_LATEST, {"since": since, "key_id": key_id, "most": most}).fetchall()
    return [from_row(row) for row in rows]


class SqliteAudit:
    """The audit log of an embedded store."""

    def __init__(self, folder: Path) -> None:
        self._connection = read_write(folder, "keys")

    def close(self) -> None:
        self._connection.close()

    def record(self, entry: AuditEntry) -> None:
        with translated(), writing(self._connection, WAIT_SEC["keys"]):
            append(self._connection, [entry])

    def entries(self, most: int, key_id: str | None = None, since: int = 0) -> list[AuditEntry]:
        with translated():
            return latest_entries(self._connection, most, key_id, since)
