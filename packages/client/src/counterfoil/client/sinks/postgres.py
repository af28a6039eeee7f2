"""A copy in PostgreSQL. DuckDB parses the rows and writes CSV files, which are sent with COPY."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import psycopg

from counterfoil.client.copy_views import POSTGRES_VIEWS
from counterfoil.client.sinks.json_rows import Fill, RowConverter, Rows, SinkError
from counterfoil.client.sinks.sql import Sink, column_names
from counterfoil.client.tables import TABLES, Dialect, Kind
from counterfoil.model.text import first_line

# `pull` and `reconcile` lock the schema, because two processes would overwrite each other's work. If the process is
# killed, its connection ends, which releases the lock.
_LOCK = "SELECT pg_advisory_lock(hashtext('counterfoil pull'), hashtext(current_schema()))"
# This string stands for NULL in the CSV. A value that is equal to it is quoted.
NULL_TEXT = "\\N"
BLOCK_BYTES = 1024 * 1024
_SETTINGS = ("SET lock_timeout = 0", "SET TimeZone = 'UTC'", "SET client_min_messages = warning")


_TYPES = {
    Kind.TEXT: "text",
    Kind.TEXTS: "text[]",
    Kind.DECIMAL: "numeric(38,6)",
    Kind.QUANTITY: "numeric(38,18)",
    Kind.INTEGER: "bigint",
    Kind.FLAG: "boolean",
    Kind.INSTANT: "timestamptz",
    Kind.LOCAL_TIME: "timestamp",
    Kind.DAY: "date",
}


class PostgresSink(Sink):
    LOCK_WAIT = "SET lock_timeout = '5s'"
    DIALECT = Dialect(_TYPES, POSTGRES_VIEWS)
    DAY_TOTALS = """
        WITH hashed AS (
            SELECT *,
                id || '|' || coalesce(CAST(CAST(round(extract(epoch FROM updated_at) * 1000) AS bigint) AS text), '')
                    AS id_and_change
            FROM bills WHERE CAST(? AS date) IS NULL OR bill_date >= CAST(? AS date)
        )
        SELECT shop_id, CAST(bill_date AS text), count(*), sum(CASE WHEN status = 'void' THEN 1 ELSE 0 END),
            coalesce(sum(net), 0), coalesce(sum(tip), 0),
            coalesce(sum(('x' || substr(md5(id_and_change), 1, 15))::bit(60)::bigint), 0)
        FROM hashed GROUP BY shop_id, bill_date
    """
    EXISTING = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()"

    _db: psycopg.Connection[tuple[Any, ...]]
    _parser: RowConverter

    def __init__(self, url: str) -> None:
        self._is_new = False
        try:
            self._db = psycopg.connect(url, autocommit=True)
            self._parser = RowConverter(Path(mkdtemp(prefix="counterfoil-pull-")))
        except psycopg.Error as error:
            raise SinkError(f"cannot connect to PostgreSQL: {first_line(error)}") from error
        except OSError as error:
            raise SinkError(f"cannot create a folder for temporary data: {error.strerror}") from error
        self.set_up_or_close()

    def set_up(self) -> None:
        self.run(self.LOCK_WAIT)
        try:
            self._db.execute(_LOCK)
        except psycopg.errors.LockNotAvailable as error:
            raise SinkError("another pull or reconcile is using this schema. Wait until it has finished.") from error
        for setting in _SETTINGS:
            self.run(setting)
        self.make_tables()

    def make_tables(self) -> None:
        """Create missing tables, but leave a new copy to its first transaction: a wrong key then leaves no tables."""
        found = {row[0] for row in self.existing()}
        self._is_new = found.isdisjoint({"pull_state", *(table.name for table in TABLES)})
        if not self._is_new:
            super().make_tables()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self._is_new:
            self._is_new = False
            super().make_tables()
        with super().transaction():
            yield

    def state(self) -> bytes | None:
        return None if self._is_new else super().state()

    def run(self, statement: str, values: Sequence[Any] = ()) -> Rows:
        if values:  # The driver has another placeholder.
            statement = statement.replace("%", "%%").replace("?", "%s")
        try:
            cursor = self._db.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise SinkError(f"PostgreSQL: {first_line(error)}") from error

    def fill(self, fills: Sequence[Fill]) -> None:
        """Insert the rows of several tables. DuckDB converts a table while PostgreSQL stores the previous one."""
        with closing(self._parser.csv_files(fills, _convert, NULL_TEXT)) as files:
            for fill, file in zip(fills, files, strict=True):
                self._copy(fill, file)

    def _copy(self, fill: Fill, file: Path) -> None:
        statement = f"COPY {fill.target} ({column_names(fill.table)}) FROM STDIN (FORMAT csv, NULL '{NULL_TEXT}')"
        try:
            with self._db.cursor() as cursor, cursor.copy(statement) as copy, file.open("rb") as opened:
                while block := opened.read(BLOCK_BYTES):
                    copy.write(block)
        except psycopg.Error as error:
            raise SinkError(f"PostgreSQL: {first_line(error)}") from error


def _convert(value: str, kind: Kind) -> str:
    """Return SQL for DuckDB that writes a list as a PostgreSQL array literal. Other values stay as they are."""
    if kind is not Kind.TEXTS:
        return value
    quoted = """'"' || replace(replace(x, '\\', '\\\\'), '"', '\\"') || '"'"""
    elements = f"list_transform({value}, lambda x: CASE WHEN x IS NULL THEN 'NULL' ELSE {quoted} END)"
    return f"'{{' || array_to_string({elements}, ',') || '}}'"
