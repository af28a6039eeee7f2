"""PostgreSQL as the source of an import."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import cast

import psycopg
from psycopg import IsolationLevel

from counterfoil.importing.results import ImportFailed
from counterfoil.text import first_line

ROWS_PER_FETCH = 2000


class PostgresSource:
    """A connection to PostgreSQL, in one read-only snapshot."""

    def __init__(self, url: str) -> None:
        try:
            self._connection = psycopg.connect(url, application_name="counterfoil import")
            self._connection.isolation_level = IsolationLevel.REPEATABLE_READ
            self._connection.read_only = True
            # The first statement of a transaction takes the snapshot.
            found = self._connection.execute("SELECT clock_timestamp(), localtimestamp").fetchone()
        except psycopg.Error as error:
            raise ImportFailed(f"cannot connect to the database: {first_line(error)}") from error
        self._now = cast("tuple[datetime, datetime]", found)

    def columns(self, query: str) -> list[str]:
        try:
            cursor = self._connection.execute(f"SELECT * FROM ({query}) AS source LIMIT 0".encode())
        except psycopg.Error as error:
            raise ImportFailed(f"a query in the mapping failed: {first_line(error)}") from error
        return [column.name for column in cursor.description or ()]

    def rows(self, query: str, condition: str, parameters: Sequence[object]) -> Iterator[Sequence[object]]:
        statement = f"SELECT * FROM ({query}) AS source"
        if condition:
            statement = f"{statement.replace('%', '%%')} WHERE {condition}"
        try:
            with self._connection.cursor(name="counterfoil_import") as cursor:
                cursor.itersize = ROWS_PER_FETCH
                cursor.execute(statement.encode(), list(parameters) if condition else None)
                yield from cursor
        except psycopg.Error as error:
            raise ImportFailed(f"a query in the mapping failed: {first_line(error)}") from error

    def quoted(self, column: str) -> str:
        return 'source."' + column.replace('"', '""').replace("%", "%%") + '"'

    def now(self) -> tuple[datetime, datetime]:
        return self._now

    def oldest_transaction(self) -> int | None:
        found = self._connection.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text").fetchone()
        return int(found[0]) if found else None

    def close(self) -> None:
        self._connection.close()
