"""The database that `counterfoil copy` writes to. Until the cut-over, a prefix of its fingerprint closes it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from psycopg.errors import LockNotAvailable

from counterfoil.backends.moved_tables import IN_GROUP, REQUESTS, TABLES, MovedTable, MoveRefused, Row
from counterfoil.backends.postgres.admin_connections import (
    FILLING,
    ReconnectingConnection,
    psycopg_form,
    row_of,
    translated,
)
from counterfoil.backends.postgres.administration import NEXT_GENERATION, append
from counterfoil.backends.postgres.schema import IS_DISTRIBUTED
from counterfoil.domain.audit import AuditEntry
from counterfoil.model.calendar import HOUR_MS

# Wait briefly for the lock, because the session of a killed copy ends shortly after its process.
_LOCK_TIMEOUT = "SET lock_timeout = '5s'"
_LOCK = "SELECT pg_advisory_lock(hashtext('counterfoil copy'))"
_CLAIM = "INSERT INTO deployment (one, secret_fingerprint) VALUES (1, %s)"
_OPEN = "UPDATE deployment SET secret_fingerprint = %s"
_RAISE_HORIZON = "UPDATE horizon SET at = greatest(at, %s)"
_MONTH = "SELECT request_month(%s)"
_KINDS = "SELECT attname, atttypid::regtype::text FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"

FETCH_ROWS = 5_000


# Columns whose type differs from the source's type. `_WRITE` converts from the source's type. `_READ` converts back
# to it, except for `rev`, which the connection converts.
_READ = {"removed": "removed::integer", "expired": "expired::integer"}
_WRITE: dict[str, Callable[[Any], Any]] = {
    "removed": bool,
    "expired": bool,
    "rev": lambda rev: None if rev is None else Decimal(repr(rev)),
}
# Only audit entries from the source are read. The target also has entries of its own, for example about migrations.
_FROM = {"audit": "(SELECT * FROM audit WHERE origin = 'sqlite') AS audit"}


class PostgresMoveTarget:
    """A migrated database that is empty, or that an earlier copy of the same store has filled, at least in part."""

    def __init__(self, url: str) -> None:
        self._connection = ReconnectingConnection(url)

    def close(self) -> None:
        self._connection.close()

    def claim(self, fingerprint: str) -> bool:
        """Claim the target for a copy of the store with this fingerprint, or return False if it is open as its copy."""
        with translated():
            self._lock_out_other_moves()
            found = row_of(self._connection())
            # With distributed tables, these statements could write to several nodes at once (docs/decisions/0013).
            if found != fingerprint and self._connection().execute(IS_DISTRIBUTED).fetchone() == (True,):
                raise MoveRefused(
                    "the target's tables are distributed with Citus. Copy into a database that is not distributed, "
                    "and run `counterfoil migrate --distribute` afterwards."
                )
            if found is None:
                for table in TABLES:
                    if self._connection().execute(_has_rows(table)).fetchone() == (True,):
                        raise MoveRefused(
                            f"the target already has rows in the table `{table.name}`. Copy into an empty database."
                        )
                self._connection().execute(_CLAIM, (FILLING + fingerprint,))
                return True
        if found == fingerprint:
            return False
        if found != FILLING + fingerprint:
            raise MoveRefused("the target contains another store or part of one. Copy into an empty database.")
        return True

    def _lock_out_other_moves(self) -> None:
        self._connection().execute(_LOCK_TIMEOUT)
        try:
            self._connection().execute(_LOCK)
        except LockNotAvailable:
            raise MoveRefused("another copy into this database is running. Wait until it has finished.") from None

    def open(self, fingerprint: str, horizon: int, entry: AuditEntry) -> None:
        """Open the target to services and loaders, at this horizon or later."""
        with translated(), self._connection().transaction():
            self._connection().execute(_RAISE_HORIZON, (horizon,))
            self._connection().execute(NEXT_GENERATION)
            self._connection().execute(_OPEN, (fingerprint,))
            append(self._connection(), [entry])
        with translated():
            # Newly filled tables have no statistics yet, and the first requests need good query plans.
            self._connection().execute("ANALYZE bills, members, shops, cursors")

    # --- rows ------------------------------------------------------------------------

    def ask(self, table: MovedTable, query: str, **values: Any) -> list[Row]:  # noqa: ARG002 - one database has all
        with translated():
            return self._connection().execute(psycopg_form(query), values).fetchall()

    def rows(self, table: MovedTable, group: Any) -> Iterator[Row]:
        """Yield the rows of a group, with the types that they have in the source."""
        with translated(), self._connection().transaction(), self._connection().cursor("rows", binary=True) as cursor:
            cursor.execute(_rows_of_group(table), {"group": group})
            while rows := cursor.fetchmany(FETCH_ROWS):
                yield from rows

    def insert(self, table: MovedTable, group: Any, rows: Iterable[Row]) -> None:
        with translated(), self._connection().transaction():
            if table is REQUESTS:
                self._connection().execute(_MONTH, (group * HOUR_MS,))
            kinds = self._kinds(table)
            odd = [(index, _WRITE[name]) for index, name in enumerate(table.columns) if name in _WRITE]
            with self._connection().cursor().copy(_copy_into(table)) as copy:
                copy.set_types([kinds[name] for name in table.columns])
                for row in rows:
                    values = list(row)
                    for index, write in odd:
                        values[index] = write(values[index])
                    copy.write_row(values)

    def delete(self, table: MovedTable, keys: Iterable[Row]) -> None:
        """Delete the rows with these keys."""
        statement = _delete_keys(table, self._kinds(table))
        with translated():
            self._connection().execute(statement, [list(column) for column in zip(*keys, strict=True)])

    def clear(self, table: MovedTable, group: Any) -> None:
        with translated():
            self._connection().execute(_delete_group(table), {"group": group})

    def _kinds(self, table: MovedTable) -> dict[str, str]:
        with translated():
            return dict(self._connection().execute(_KINDS, (table.name,)).fetchall())


# --- the statements of a declared table: see moved_tables.py --------------------------


def _has_rows(table: MovedTable) -> bytes:
    return f"SELECT EXISTS (SELECT FROM {_FROM.get(table.name, table.name)})".encode()  # noqa: S608 - declared names


def _rows_of_group(table: MovedTable) -> bytes:
    columns = ", ".join(_READ.get(name, name) for name in table.columns)
    source, condition = _FROM.get(table.name, table.name), IN_GROUP[table.group]
    return psycopg_form(f"SELECT {columns} FROM {source} WHERE {condition}")  # noqa: S608 - declared names


def _copy_into(table: MovedTable) -> bytes:
    return f"COPY {table.name} ({', '.join(table.columns)}) FROM STDIN (FORMAT binary)".encode()


def _delete_keys(table: MovedTable, kinds: Mapping[str, str]) -> bytes:
    """Return a statement that deletes the rows with these keys. It takes a list for each column of the key."""
    names = ", ".join(table.key)
    lists = ", ".join(f"%s::{kinds[name]}[]" for name in table.key)
    matched = " AND ".join(f"{table.name}.{name} = gone.{name}" for name in table.key)
    return f"DELETE FROM {table.name} USING unnest({lists}) AS gone ({names}) WHERE {matched}".encode()  # noqa: S608 - declared names


def _delete_group(table: MovedTable) -> bytes:
    return psycopg_form(f"DELETE FROM {table.name} WHERE {IN_GROUP[table.group]}")  # noqa: S608 - declared names
