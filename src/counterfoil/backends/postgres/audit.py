"""Stores the audit log on PostgreSQL.

Triggers keep even the owner of the tables from changing or deleting entries.
Entries can be deleted only while `counterfoil copy` is filling the store, and
only if they came from the source of that copy.
"""

from collections.abc import Iterable

from counterfoil.backends.postgres.admin_connections import Connection, ReconnectingConnection, translated
from counterfoil.domain.audit import AuditEntry, from_row, to_row

# Entries are numbered under this lock, so that no number is used twice.
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('counterfoil audit'))"
_APPEND = """
    INSERT INTO audit (origin, number, at, act, actor, via, host, key_id, changes, detail)
    SELECT 'postgresql', coalesce(max(number), 0) + 1, %s, %s, %s, %s, %s, %s, %s, %s
    FROM audit WHERE origin = 'postgresql'
"""
_LATEST = """
    SELECT at, act, actor, via, host, key_id, changes, detail FROM audit
    WHERE at >= %(since)s AND (%(key_id)s::text IS NULL OR key_id = %(key_id)s)
    ORDER BY at DESC, origin, number DESC LIMIT %(most)s
"""


def append(connection: Connection, entries: Iterable[AuditEntry]) -> None:
    """Write entries within the open transaction."""
    connection.execute(_LOCK)
    for entry in entries:
        connection.execute(_APPEND, to_row(entry))


def latest_entries(connection: Connection, most: int, key_id: str | None, since: int) -> list[AuditEntry]:
    """Return up to `most` entries from `since` onwards, newest first; with `key_id`, only the entries of that key."""
    rows = connection.execute(_LATEST, {"since": since, "key_id": key_id, "most": most}).fetchall()
    return [from_row(row) for row in rows]


class PostgresAudit:
    """The audit log of a store on PostgreSQL."""

    def __init__(self, url: str) -> None:
        self._connection = ReconnectingConnection(url)

    def close(self) -> None:
        self._connection.close()

    def record(self, entry: AuditEntry) -> None:
        with translated(), self._connection().transaction():
            append(self._connection(), [entry])

    def entries(self, most: int, key_id: str | None = None, since: int = 0) -> list[AuditEntry]:
        with translated():
            return latest_entries(self._connection(), most, key_id, since)
