"""A copy in PostgreSQL. Rows are sent as jsonb with COPY, and SQL extracts the columns."""

from collections.abc import Sequence
from typing import Any

import psycopg

from counterfoil.client.sinks import SinkError
from counterfoil.client.sinks.sql import Rows, SqlSink, escape_quotes
from counterfoil.client.tables import Kind, Table

_INDEXES = (
    "CREATE UNIQUE INDEX IF NOT EXISTS bills_identity ON bills (shop_id, id)",
    "CREATE INDEX IF NOT EXISTS bills_by_day ON bills (shop_id, bill_date)",
    "CREATE INDEX IF NOT EXISTS bill_items_of_bill ON bill_items (shop_id, bill_id)",
    "CREATE INDEX IF NOT EXISTS item_options_of_bill ON item_options (shop_id, bill_id)",
    "CREATE INDEX IF NOT EXISTS payments_of_bill ON payments (shop_id, bill_id)",
    "CREATE INDEX IF NOT EXISTS promotions_of_bill ON promotions (shop_id, bill_id)",
    "CREATE UNIQUE INDEX IF NOT EXISTS members_identity ON members (member_id)",
    "CREATE INDEX IF NOT EXISTS coupons_of_member ON coupons (member_id)",
    "CREATE INDEX IF NOT EXISTS pull_seen_of_base ON pull_seen (provider_id)",
)
# Fields of a bill, shop or member that are repeated in the rows made from its nested lists.
_PARENT_FIELDS = ("shopId", "id", "memberId")
# Two pulls into one schema would overwrite each other's work. If a pull is killed, its connection ends, which releases
# the lock.
_LOCK = "SELECT pg_advisory_lock(hashtext('counterfoil pull'), hashtext(current_schema()))"
_SETTINGS = ("SET lock_timeout = 0", "SET TimeZone = 'UTC'", "SET client_min_messages = warning")


class PostgresSink(SqlSink):
    LOCK_WAIT = "SET lock_timeout = '5s'"
    TYPES = {  # noqa: RUF012 - never modified
        Kind.TEXT: "text",
        Kind.TEXTS: "text[]",
        Kind.DECIMAL: "numeric(38,6)",
        Kind.QUANTITY: "numeric(38,18)",
        Kind.INTEGER: "bigint",
        Kind.FLAG: "boolean",
        Kind.INSTANT: "timestamptz",
        Kind.DAY: "date",
    }

    def __init__(self, url: str) -> None:
        try:
            self._db = psycopg.connect(url, autocommit=True)
        except psycopg.Error as error:
            raise SinkError(f"cannot connect to PostgreSQL: {_first_line(error)}") from error
        try:
            self._set_up()
        except BaseException:
            self._db.close()
            raise

    def _set_up(self) -> None:
        self.run(self.LOCK_WAIT)
        try:
            self._db.execute(_LOCK)
        except psycopg.errors.LockNotAvailable as error:
            raise SinkError("another pull is writing to this schema. Wait until it has finished.") from error
        for setting in _SETTINGS:
            self.run(setting)
        self.make_tables()
        for index in _INDEXES:
            self.run(index)

    def close(self) -> None:
        self._db.close()

    def run(self, statement: str, values: Sequence[Any] = ()) -> Rows:
        try:
            cursor = self._db.execute(_with_driver_placeholders(statement) if values else statement, values or None)
            return cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise SinkError(f"PostgreSQL: {_first_line(error)}") from error

    def read(self, rows: Sequence[bytes], tables: Sequence[Table]) -> None:  # noqa: ARG002 - jsonb needs no schema
        self.run("DROP TABLE IF EXISTS incoming")
        self.run("CREATE TEMPORARY TABLE incoming (j jsonb)")
        try:
            with self._db.cursor() as cursor, cursor.copy("COPY incoming FROM STDIN") as copy:
                for row in rows:
                    copy.write_row((row.decode(),))
        except psycopg.Error as error:
            raise SinkError(f"PostgreSQL: {_first_line(error)}") from error

    def field(self, row: str, path: tuple[str, ...], kind: Kind) -> str:
        if row == "outer_row":
            return f'outer_row."{path[0]}"'
        owner = "".join(f"->'{escape_quotes(part)}'" for part in path[:-1])
        document = row if row.startswith("e") else f"{row}.j"
        if kind is Kind.TEXTS:
            at = f"{document}{owner}->'{escape_quotes(path[-1])}'"
            return f"CASE jsonb_typeof({at}) WHEN 'array' THEN ARRAY(SELECT jsonb_array_elements_text({at})) END"
        text = f"{document}{owner}->>'{escape_quotes(path[-1])}'"
        return f"({text})" if kind is Kind.TEXT else f"({text})::{self.TYPES[kind]}"

    def each(self, source: str, lists: Sequence[tuple[str, ...]]) -> tuple[str, str]:
        # Extract the parent's fields once per row, because every access to a large document decompresses it again.
        parents = ", ".join(f"""j->>'{name}' AS "{name}\"""" for name in _PARENT_FIELDS)
        joined = f"(SELECT j, {parents} FROM {source} OFFSET 0) AS outer_row"
        for depth, path in enumerate(lists, 1):
            owner = "outer_row.j" if depth == 1 else f"e{depth - 1}"
            at = owner + "".join(f"->'{escape_quotes(part)}'" for part in path)
            joined += (
                f" CROSS JOIN LATERAL jsonb_array_elements({at}) WITH ORDINALITY AS list{depth}(e{depth}, n{depth})"
            )
        return joined, f"e{len(lists)}"

    def microseconds(self, column: str) -> str:
        return f"CAST(extract(epoch FROM {column}) * 1000000 AS bigint)"

    def hash_number(self, text: str) -> str:
        return f"('x' || substr(md5({text}), 1, 15))::bit(60)::bigint"


def _with_driver_placeholders(statement: str) -> str:
    """Replace the placeholders `?` with the driver's `%s`, and escape `%`."""
    return statement.replace("%", "%%").replace("?", "%s")


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
