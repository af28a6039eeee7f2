"""MySQL and MariaDB as the source of an import."""

from datetime import UTC
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql
import pymysql.cursors

from counterfoil.importing.database import SourceDatabase, message_of
from counterfoil.importing.results import ImportFailed

DEFAULT_PORT = 3306
CONNECT_SEC = 10


class MySqlSource(SourceDatabase):
    """A connection to MySQL or MariaDB, in one read-only snapshot."""

    _error = pymysql.Error

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
            raise ImportFailed(f"cannot connect to the database: {message_of(error)}") from error
        self.now = (utc.replace(tzinfo=UTC), local)

    def _cursor(self) -> Any:
        return self._connection.cursor(pymysql.cursors.SSCursor)

    def quoted(self, column: str) -> str:
        return "source.`" + column.replace("`", "``").replace("%", "%%") + "`"
