"""Builds the indexes on the existing monthly partitions of request records, without blocking requests.

CREATE INDEX blocks writes to its table, so no request could be recorded while
an index is built. The migration therefore creates these indexes only for later
partitions, and `counterfoil migrate` then builds them on each existing partition
with CREATE INDEX CONCURRENTLY.
"""

from collections.abc import Mapping
from typing import LiteralString

from psycopg import sql

from counterfoil.backends.postgres.admin_connections import Connection

# The definitions are the same as in the migration 0009_operator_reads.sql.
_INDEXES: Mapping[str, LiteralString] = {
    "requests_newest": "(at)",
    "requests_by_key": "(key_id, at)",
    "requests_by_id": "(request_id, at) WHERE request_id IS NOT NULL",
    "requests_failed": "(at, key_id, error, route) WHERE error IS NOT NULL",
    "disclosures_by_key": "(key_id, at) WHERE personal_base IS NOT NULL",
}

# Another `counterfoil migrate` may be building these indexes. Do not wait for it: a concurrent build waits for all
# older transactions, so the two processes would wait for each other.
_LOCK = "SELECT pg_try_advisory_lock(hashtext('counterfoil request indexes'))"
_UNLOCK = "SELECT pg_advisory_unlock(hashtext('counterfoil request indexes'))"
_MISSING = """
    SELECT indexes.name, months.inhrelid::regclass::text
    FROM unnest(%s::text[]) AS indexes (name)
    CROSS JOIN pg_inherits AS months
    WHERE months.inhparent = 'requests'::regclass AND NOT EXISTS (
        SELECT FROM pg_inherits AS parts JOIN pg_index AS part ON part.indexrelid = parts.inhrelid
        WHERE parts.inhparent = indexes.name::regclass AND part.indrelid = months.inhrelid
    )
    ORDER BY months.inhrelid::regclass::text DESC, indexes.name
"""


def build_missing_indexes(connection: Connection) -> list[str]:
    """Build the missing indexes on existing partitions, newest month first; return their names.

    If this is interrupted, the next call builds the rest. If another process is
    building the indexes, do nothing and return an empty list.
    """
    locked = connection.execute(_LOCK).fetchone()
    if locked is None or not locked[0]:
        return []
    try:
        missing = connection.execute(_MISSING, (list(_INDEXES),)).fetchall()
        return [_build(connection, parent, month) for parent, month in missing]
    finally:
        connection.execute(_UNLOCK)


def _build(connection: Connection, parent: str, month: str) -> str:
    name = f"{month}_{parent.removeprefix('requests_')}"
    names = {"name": sql.Identifier(name), "month": sql.Identifier(month), "parent": sql.Identifier(parent)}
    # An interrupted build leaves an invalid index behind, which must be dropped first.
    connection.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {name}").format(**names))
    created = sql.SQL("CREATE INDEX CONCURRENTLY {name} ON {month} ").format(**names) + sql.SQL(_INDEXES[parent])
    connection.execute(created)
    connection.execute(sql.SQL("ALTER INDEX {parent} ATTACH PARTITION {name}").format(**names))
    return name
