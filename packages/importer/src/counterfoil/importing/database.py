"""Imports new and changed bills from a POS database. A watermark column shows what changed since the last import.

No row may be missed, so each import reads some rows again; loading a row twice changes nothing. All queries run in one
snapshot, so that a bill is consistent with its lines. The next import starts before the highest watermark that was
read, by an interval called the overlap, because transactions that commit late and tills whose clocks are slow write
rows with older watermarks. A watermark in the future counts as the current time. With a watermark of kind `xid` on
PostgreSQL, no overlap is needed, because every transaction before the oldest running one is complete.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import count
from typing import Any

from msgspec import Struct, json

from counterfoil.importing.mapping import DatabaseMapping, ImportMapping, TableMapping
from counterfoil.importing.results import Imported, ImportFailed, RowProblem
from counterfoil.importing.sheets import Sheet, TableRow
from counterfoil.importing.sorted_rows import BILL, LINE, PAYMENT
from counterfoil.importing.tables import ImportOptions, TableImport, TableInput
from counterfoil.importing.values import decimal_text
from counterfoil.model.text import first_line

Watermark = datetime | int
WATERMARKS: dict[str, tuple[Any, str]] = {"number": (int | Decimal, "a whole number"), "time": (datetime, "a time")}


class SavedState(Struct):
    """What an import says at its end, for the next one."""

    fingerprint: str
    """A hash of the mapping. If it changes, bills that were already imported have to be read again."""
    watermark: Watermark | None = None


KEYS_PER_QUERY = 500
# For more bills than this, reading all lines in one pass is faster than selecting them by key.
MAX_KEYS = 20_000


class SourceDatabase(ABC):
    """A connection to a POS database, in one read-only snapshot."""

    _error: type[Exception]
    """The class of the driver's errors."""
    _connection: Any
    now: tuple[datetime, datetime]
    """The time of the snapshot twice: with an offset, and as the server's local time without an offset."""

    @abstractmethod
    def _cursor(self) -> Any:
        """Return a cursor that does not keep all rows in memory."""

    @abstractmethod
    def quoted(self, column: str) -> str:
        """Return a column name, quoted for use in a condition."""

    def columns(self, query: str) -> list[str]:
        with self._statement_errors(), self._connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM ({query}) AS source LIMIT 0")
            return [column[0] for column in cursor.description or ()]

    def rows(self, query: str, condition: str, parameters: Sequence[object]) -> Iterator[Sequence[object]]:
        """Yield the rows of a query that satisfy a condition on its columns."""
        statement = f"SELECT * FROM ({query}) AS source"
        if condition:
            statement = f"{statement.replace('%', '%%')} WHERE {condition}"
        with self._statement_errors(), self._cursor() as cursor:
            cursor.execute(statement, list(parameters) if condition else None)
            yield from cursor

    @contextmanager
    def _statement_errors(self) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            raise ImportFailed(f"a query in the mapping failed: {message_of(error)}") from error

    def oldest_transaction(self) -> int | None:
        """Return the ID before which every transaction is complete, or None if the database has no such IDs."""
        return None

    def close(self) -> None:
        self._connection.close()


def message_of(error: Exception) -> str:
    """Return what a driver says about an error. MySQL's errors have a number before the text."""
    has_number = len(error.args) > 1 and isinstance(error.args[0], int)
    return str(error.args[-1]) if has_number else first_line(error)


class DatabaseImport:
    """One import from a database. `saved` is what the last one said at its end; without it, everything is read."""

    def __init__(
        self, source: SourceDatabase, mapping: ImportMapping, options: ImportOptions, saved: SavedState | None
    ) -> None:
        if mapping.database is None:
            raise ImportFailed(f"the mapping {mapping.name} has no [database] table. Add one with the queries.")
        self._source = source
        self._mapping = mapping
        self._database: DatabaseMapping = mapping.database
        self._options = options
        self.notes: list[str] = []
        self._last = None if saved is None else self._believable(saved)
        self._highest: Watermark | None = None
        self._keys: list[object] | None = []
        self._oldest = source.oldest_transaction() if self._database.kind == "xid" else None
        if self._database.kind == "xid" and self._oldest is None:
            raise ImportFailed("a watermark of kind xid needs PostgreSQL. Set database.kind to time or number.")

    def records(self) -> Iterator[Imported]:
        yield from TableImport(self._mapping, self._inputs(), self._options, has_all_bills=False).records()

    def state(self) -> SavedState:
        """Return what the next import needs. Call it after `records`."""
        return SavedState(self._fingerprint(), self._next())

    def _fingerprint(self) -> str:
        return hashlib.sha256(json.encode(repr(self._mapping))).hexdigest()[:16]

    def _inputs(self) -> list[TableInput]:
        bills = self._sheet("bills", self._database.bills)
        if self._database.watermark not in bills.columns:
            raise ImportFailed(
                f"the bills query has no column {self._database.watermark}. Add the watermark column to the query."
            )
        inputs = [TableInput(BILL, bills, self._bills(bills))]
        tables = (
            (LINE, "lines", self._database.lines, self._mapping.line),
            (PAYMENT, "payments", self._database.payments, next((p for p in self._mapping.payments if p.key), None)),
        )
        for kind, name, query, table in tables:
            if query is not None:
                sheet = self._sheet(name, query)
                inputs.append(TableInput(kind, sheet, self._parts(sheet, query, _key_column(table, name))))
        return inputs

    def _sheet(self, name: str, query: str) -> Sheet:
        return Sheet(name, {column: position for position, column in enumerate(self._source.columns(query))})

    def _bills(self, sheet: Sheet) -> Iterator[TableRow | RowProblem]:
        watermark = sheet.columns[self._database.watermark]
        key_source = self._mapping.bill.key or self._mapping.bill.fields["id"]
        key = sheet.columns.get(key_source.columns[0]) if len(key_source.columns) == 1 else None
        condition, parameters = self._since()
        for number, row in enumerate(self._source.rows(self._database.bills, condition, parameters), start=1):
            self._note(row[watermark])
            self._note_key(None if key is None else row[key])
            yield TableRow(sheet, number, [cell_of(value) for value in row])

    def _since(self) -> tuple[str, list[object]]:
        """Return the SQL condition that selects bills that may be new or changed, and its parameters."""
        if self._last is None:
            return "", []
        column = self._source.quoted(self._database.watermark)
        overlap = self._database.span()
        if isinstance(self._last, datetime) and isinstance(overlap, timedelta):
            since: object = self._last - overlap
        else:
            since = int(str(self._last)) - int(str(overlap))
        cast = "%s::text::xid8" if self._database.kind == "xid" else "%s"
        return f"{column} >= {cast} OR {column} IS NULL", [str(since) if self._database.kind == "xid" else since]

    def _note(self, value: object) -> None:
        """Remember the highest watermark. Ignore a row without a watermark: every import reads such rows anyway."""
        if value is None or self._database.kind == "xid":
            return
        types, name = WATERMARKS[self._database.kind]
        if not isinstance(value, types) or isinstance(value, bool):
            raise ImportFailed(
                f"the watermark {self._database.watermark} is not {name}. Set database.kind to match the column."
            )
        found: Watermark = value if isinstance(value, datetime) else int(str(value))
        if self._highest is None or found > self._highest:  # type: ignore[operator]
            self._highest = found

    def _note_key(self, key: object) -> None:
        if self._keys is not None:
            self._keys.append(key)
            if key is None or len(self._keys) > MAX_KEYS:
                self._keys = None

    def _parts(self, sheet: Sheet, query: str, key: str) -> Iterator[TableRow | RowProblem]:
        """Yield the lines or payments of the bills that were read, or all if these are very many or have no key."""
        column = self._source.quoted(key)
        numbers, known = count(1), None if self._last is None else self._keys
        for start in [0] if known is None else range(0, len(known), KEYS_PER_QUERY):
            keys = (known or ())[start : start + KEYS_PER_QUERY]
            condition = f"{column} IN ({', '.join(['%s'] * len(keys))})" if keys else ""
            for row in self._source.rows(query, condition, keys):
                yield TableRow(sheet, next(numbers), [cell_of(value) for value in row])

    def _believable(self, saved: SavedState) -> Watermark | None:
        """Return the saved watermark, or None if it is ahead of the database, for example after a restore."""
        last = saved.watermark if saved.fingerprint == self._fingerprint() else None
        is_ahead = False
        if isinstance(last, datetime):
            aware, local = self._source.now
            is_ahead = last > (aware if last.tzinfo else max(local, aware.astimezone(UTC).replace(tzinfo=None)))
        elif last is not None and self._database.kind == "xid":
            is_ahead = last > (self._source.oldest_transaction() or 0)
        elif last is not None:
            is_ahead = last > self._highest_number()
        if is_ahead:
            self.notes.append("The saved watermark is ahead of this database, so everything is read again.")
            return None
        if last is None:
            self.notes.append("The last import saved no watermark for this mapping, so everything is read again.")
        return last

    def _highest_number(self) -> int:
        column = self._source.quoted(self._database.watermark)
        query = f"SELECT max({column}) AS highest FROM ({self._database.bills}) AS source"
        [(highest,)] = self._source.rows(query, "", ())
        return int(str(highest or 0))

    def _next(self) -> Watermark | None:
        """Return the watermark to save. The next import starts at this watermark minus the overlap."""
        if self._database.kind == "xid":
            return self._oldest
        highest = self._highest
        if isinstance(highest, datetime):
            aware, local = self._source.now
            # A time without an offset may be in UTC or in the server's local time. The earlier of the two is safe.
            limit = aware if highest.tzinfo else min(local, aware.astimezone(UTC).replace(tzinfo=None))
            highest = min(highest, limit)
        if highest is None or (self._last is not None and self._last > highest):  # type: ignore[operator]
            return self._last
        return highest


def _key_column(table: TableMapping | None, name: str) -> str:
    key = table.key if table else None
    if key is None or len(key.columns) != 1:
        raise ImportFailed(
            f"the {name} query needs a key with a single column in the "
            "mapping. Set it to the column that holds the bill ID."
        )
    return key.columns[0]


def cell_of(value: Any) -> str:
    """Return a database value as the text that a CSV export would contain."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float() | Decimal():
            return decimal_text(Decimal(str(value)))
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return str((datetime(1, 1, 1) + value).time())  # noqa: DTZ001 - a time of day has no zone
        case bytes():
            # MySQL returns the value of a BIT(1) column as a byte.
            return str(value[0]) if value in (b"\0", b"\1") else value.decode("utf-8", "replace")
        case dict() | list():
            return json.encode(value).decode()
    return str(value)
