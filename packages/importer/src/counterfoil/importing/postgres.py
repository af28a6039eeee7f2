"""PostgreSQL as the source of an import."""

from datetime import datetime
from typing import Any, cast

import psycopg
from psycopg import IsolationLevel

from counterfoil.importing.database import SourceDatabase, message_of
from counterfoil.importing.results import ImportFailed

ROWS_PER_FETCH = 2000


class PostgresSource(SourceDatabase):
    """A connection to PostgreSQL, in one read-only snapshot."""

    _error = psycopg.Error

    def __init__(self, url: str) -> None:
        try:
            self._connection = psycopg.connect(url, application_name="counterfoil import")
            self._connection.isolation_level = IsolationLevel.REPEATABLE_READ
            self._connection.read_only = True
            # The first statement of a transaction takes the snapshot.
            found = self._connection.execute("SELECT clock_timestamp(), localtimestamp").fetchone()
        except psycopg.Error as error:
            raise ImportFailed(f"cannot connect to the database: {message_of(error)}") from error
        self.now = cast("tuple[datetime, datetime]", found)

    def _cursor(self) -> Any:
        cursor = self._connection.cursor(name="counterfoil_import")
        cursor.itersize = ROWS_PER_FETCH
        return cursor

    def quoted(self, column: str) -> str:
        return 'source."' + column.replace('"', '""').replace("%", "%%") + '"'

    def oldest_transaction(self) -> int | None:
        found = self._connection.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text").fetchone()
        return int(found[0]) if found else None
