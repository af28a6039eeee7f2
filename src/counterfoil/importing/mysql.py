"""MySQL and MariaDB as the source of an import."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from urllib.parse import unquote, urlsplit

import pymysql
import pymysql.cursors

from counterfoil.importing.results import ImportFailed

DEFAULT_PORT = 3306
CONNECT_SEC = 10


class MySqlSource:
    """A connection to MySQL or MariaDB, in one read-only snapshot."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        try:
            self._connection = pymysql.connect(
                host=parts.hostname or "127.0.0.1",
                port=parts.port or DEFAULT_PORT,
                user=unquote(parts.username or ""),
                password=unquote(parts.password or ""),
                database=unquote(parts.path.lstrip("/")),
                charset="utf8mb4",
                connect_timeout=CONNECT_SEC,
                autocommit=True,
            )
            with self._connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
                cursor.execute("SELECT UTC_TIMESTAMP(6), NOW(6)")
                utc, local = cursor.fetchone()
        except (pymysql.Error, ValueError) as error:
            raise ImportFailed(f"cannot connect to the database: {_message(error)}") from error
        self._now = (utc.replace(tzinfo=UTC), local)

    def columns(self, query: str) -> list[str]:
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(f"SELECT * FROM ({query}) AS source LIMIT 0")
                return [column[0] for column in cursor.description]
        except pymysql.Error as error:
            raise ImportFailed(f"a query in the mapping failed: {_message(error)}") from error

    def rows(self, query: str, condition: str, parameters: Sequence[object]) -> Iterator[Sequence[object]]:
        statement = f"SELECT * FROM ({query}) AS source"
        if condition:
            statement = f"{statement.replace('%', '%%')} WHERE {condition}"
        try:
            with self._connection.cursor(pymysql.cursors.SSCursor) as cursor:
                cursor.execute(statement, list(parameters) if condition else None)
                yield from cursor
        except pymysql.Error as error:
            raise ImportFailed(f"a query in the mapping failed: {_message(error)}") from error

    def quoted(self, column: str) -> str:
        return "source.`" + column.replace("`", "``").replace("%", "%%") + "`"

    def now(self) -> tuple[datetime, datetime]:
        return self._now

    def oldest_transaction(self) -> int | None:
        return None

    def close(self) -> None:
        self._connection.close()


def _message(error: Exception) -> str:
    return str(error.args[-1]) if error.args else type(error).__name__
