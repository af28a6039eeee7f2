"""The code that all SQL sinks share. Subclasses implement how an engine extracts values and unnests lists.

Rows are put into a temporary table `incoming` unchanged, and INSERT ...
SELECT statements fill the copy's tables from it. Rows that have not changed
are not written, so the sink knows which tables changed.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from typing import Any

from counterfoil.client.sinks import CopiedBill, ShopDayTotals, SinkError
from counterfoil.client.sinks.newest import is_newer, latest_bills
from counterfoil.client.tables import (
    BILLS,
    CATEGORIES,
    COUPONS,
    MEMBERS,
    PARTS_OF_BILL,
    PROMOTION_KINDS,
    PROMOTIONS,
    SHOPS,
    TABLES,
    Column,
    Kind,
    Table,
)

Rows = list[tuple[Any, ...]]

# Columns that hold an element's index in its list, outermost list first.
_NUMBERS = {
    "categories": ("position",),
    "bill_items": ("line",),
    "item_options": ("line", "position"),
    "payments": ("position",),
    "coupons": ("position",),
}
_OWN_TABLES = (
    "CREATE TABLE IF NOT EXISTS pull_state (one INTEGER, state VARCHAR)",
    "CREATE TABLE IF NOT EXISTS pull_seen (provider_id VARCHAR, member_id VARCHAR)",
)
_EXISTING_TABLES = """
    SELECT table_name FROM information_schema.tables
    WHERE table_schema = current_schema() AND table_name IN ({names})
"""
_COLUMNS = """
    SELECT column_name FROM information_schema.columns
    WHERE table_schema = current_schema() AND table_name = ?
"""
_SELECT_BILLS = (
    "SELECT CAST(bill_date AS VARCHAR), id, {changed}, net, status = 'void', tip FROM bills WHERE shop_id = ?"
)
# docs/digests.md shows the same query to integrators.
_DAY_TOTALS = """
    SELECT shop_id, CAST(bill_date AS VARCHAR), count(*), sum(CASE WHEN status = 'void' THEN 1 ELSE 0 END),
        coalesce(sum(net), 0), coalesce(sum(tip), 0), CAST(sum({hash}) AS VARCHAR)
    FROM bills {days} GROUP BY shop_id, bill_date
"""


class SqlSink(ABC):
    """The copy's tables in an SQL engine. Statements are written with `?` for values."""

    TYPES: dict[Kind, str]

    # --- methods that each engine implements --------------------------------------

    @abstractmethod
    def run(self, statement: str, values: Sequence[Any] = ()) -> Rows:
        """Run a statement and return its rows."""

    @abstractmethod
    def read(self, rows: Sequence[bytes], tables: Sequence[Table]) -> None:
        """Put rows of a response into the temporary table `incoming`, with at least the fields that the tables use."""

    @abstractmethod
    def field(self, row: str, path: tuple[str, ...], kind: Kind) -> str:
        """Return SQL for the value at a path in `row`, in the column's type."""

    @abstractmethod
    def each(self, source: str, lists: Sequence[tuple[str, ...]]) -> tuple[str, str]:
        """Return a FROM source with a row per element of nested lists (numbered n1, n2), and the element's name."""

    @abstractmethod
    def microseconds(self, column: str) -> str:
        """Return SQL for an instant as microseconds since 1970."""

    @abstractmethod
    def hash_number(self, text: str) -> str:
        """Return SQL for the first 15 hexadecimal digits of a text's MD5 digest, as a number."""

    @abstractmethod
    def close(self) -> None: ...

    def changed(self, *tables: Table) -> None:  # noqa: B027 - subclasses may override it
        """Hook: called inside the transaction that changed these tables."""

    def publish(self) -> None:  # noqa: B027 - subclasses may override it
        """Do nothing: committed rows are already visible to readers."""

    # --- the copy ------------------------------------------------------------------

    def make_tables(self) -> None:
        names = ", ".join(f"'{name}'" for name in ("pull_state", *(table.name for table in TABLES)))
        found = {row[0] for row in self.run(_EXISTING_TABLES.format(names=names))}
        if found and "pull_state" not in found:
            raise SinkError(
                f"the target already has a table `{min(found)}` that was not created by a pull. Choose another target."
            )
        with self.transaction():
            for statement in _OWN_TABLES:
                self.run(statement)
            for table in TABLES:
                columns = ", ".join(f'"{column.name}" {self.TYPES[column.kind]}' for column in table.columns)
                self.run(f"CREATE TABLE IF NOT EXISTS {table.name} ({columns})")
                self._add_missing_columns(table)

    def _add_missing_columns(self, table: Table) -> None:
        """Add the columns that are missing because an older release created the table."""
        present = {row[0] for row in self.run(_COLUMNS, [table.name])}
        for column in table.columns:
            if column.name not in present:
                self.run(f'ALTER TABLE {table.name} ADD COLUMN "{column.name}" {self.TYPES[column.kind]}')

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.run("BEGIN")
        try:
            yield
            self.run("COMMIT")
        except BaseException:
            with suppress(SinkError):  # Report the original error, not the one that the rollback raises.
                self.run("ROLLBACK")
            raise

    def state(self) -> bytes | None:
        rows = self.run("SELECT state FROM pull_state")
        return rows[0][0].encode() if rows else None

    def save_state(self, state: bytes) -> None:
        self.run("DELETE FROM pull_state")
        self.run("INSERT INTO pull_state VALUES (1, ?)", [state.decode()])

    # --- shops and members -----------------------------------------------------------

    def put_shops(self, rows: Sequence[bytes], now: str) -> None:
        self.read(rows, (SHOPS, CATEGORIES))
        listed = self._incoming_keys("shopId")
        vanished = self.run(
            f"UPDATE shops SET removed_at = CAST(? AS {self.TYPES[Kind.INSTANT]}) "
            f"WHERE removed_at IS NULL AND shop_id NOT IN {listed} RETURNING 1",
            [now],
        )
        if self._merge(SHOPS, "shop_id", listed, {"removed_at": "NULL"}) or vanished:
            self.changed(SHOPS)
        if self._merge(CATEGORIES, "shop_id", listed):
            self.changed(CATEGORIES)

    def open_pass(self, provider_id: str) -> None:
        self.run("DELETE FROM pull_seen WHERE provider_id = ?", [provider_id])

    def put_members(self, provider_id: str, rows: Sequence[bytes]) -> int:
        if not rows:
            return 0
        self.read(rows, (MEMBERS, COUPONS))
        incoming_keys = self._incoming_keys("memberId")
        base = f"'{escape_quotes(provider_id)}'"
        self.run(f"INSERT INTO pull_seen SELECT {base}, member_id FROM {incoming_keys} AS came(member_id)")
        members = self._merge(MEMBERS, "member_id", incoming_keys, {"provider_id": base, "removed_at": "NULL"})
        coupons = self._merge(COUPONS, "member_id", incoming_keys)
        if members:
            self.changed(MEMBERS)
        if coupons:
            self.changed(COUPONS)
        return len(members | coupons)

    def close_pass(self, provider_id: str, now: str) -> int:
        vanished = self.run(
            f"UPDATE members SET removed_at = CAST(? AS {self.TYPES[Kind.INSTANT]}) "
            "WHERE provider_id = ? AND removed_at IS NULL AND member_id NOT IN "
            "(SELECT member_id FROM pull_seen WHERE provider_id = ?) RETURNING 1",
            [now, provider_id, provider_id],
        )
        self.open_pass(provider_id)
        if vanished:
            self.changed(MEMBERS)
        return len(vanished)

    def _incoming_keys(self, field: str) -> str:
        return f"(SELECT {self.field('incoming', (field,), Kind.TEXT)} FROM incoming)"

    def _merge(self, table: Table, key: str, incoming_keys: str, supplied: dict[str, str] | None = None) -> set[str]:
        """Replace the rows of every key in `incoming`, and return the keys whose rows changed."""
        self.run("DROP TABLE IF EXISTS staged")
        self.run(f"CREATE TEMPORARY TABLE staged AS {self._select(table, 'incoming', supplied or {})}")
        names = _names(table)
        copied = f"(SELECT {names} FROM {table.name} WHERE {key} IN {incoming_keys})"
        different = {
            row[0]
            for row in self.run(
                f"SELECT {key} FROM (SELECT * FROM staged EXCEPT SELECT * FROM {copied} AS held) AS newer "
                f"UNION SELECT {key} FROM (SELECT * FROM {copied} AS held EXCEPT SELECT * FROM staged) AS older"
            )
        }
        if different:
            keys = [sorted(different)]
            self.run(f"DELETE FROM {table.name} WHERE {key} IN {_ID_LIST}", keys)
            self.run(f"INSERT INTO {table.name} ({names}) SELECT * FROM staged WHERE {key} IN {_ID_LIST}", keys)
        return different

    # --- bills -------------------------------------------------------------------------

    def put_bills(self, shop_id: str, rows: Sequence[bytes], *, replace: bool = False) -> int:
        latest = latest_bills(rows)
        stored_versions = self._stored_versions(shop_id, list(latest))
        newer_bills = {
            bill_id: bill for bill_id, bill in latest.items() if replace or is_newer(bill, stored_versions.get(bill_id))
        }
        if not newer_bills:
            return 0
        if replace or not stored_versions.keys().isdisjoint(newer_bills):
            self._delete_bills(shop_id, list(newer_bills))
        self.read([bill.row for bill in newer_bills.values()], (BILLS, *PARTS_OF_BILL))
        for table in (BILLS, *PARTS_OF_BILL):
            if table is not PROMOTIONS:
                self.run(f"INSERT INTO {table.name} ({_names(table)}) {self._select(table, 'incoming', {})}")
        for kind in PROMOTION_KINDS:
            supplied = {"kind": f"'{kind}'", "position": "n1"}
            rows_of_kind = self._select(PROMOTIONS, "incoming", supplied, (("amounts", kind),))
            self.run(f"INSERT INTO promotions ({_names(PROMOTIONS)}) {rows_of_kind}")
        self.changed(BILLS, *PARTS_OF_BILL)
        return len(newer_bills)

    def _stored_versions(self, shop_id: str, ids: Sequence[str]) -> dict[str, int | None]:
        """Return, for each of the given bills that is in the copy, the time of its last change."""
        changed = self.microseconds("updated_at")
        rows = self.run(f"SELECT id, {changed} FROM bills WHERE shop_id = ? AND id IN {_ID_LIST}", [shop_id, ids])
        return dict(rows)

    def bills_of_days(self, shop_id: str, first: date, last: date) -> dict[str, list[CopiedBill]]:
        days: dict[str, list[CopiedBill]] = {}
        copied = _SELECT_BILLS.format(changed=self.microseconds("updated_at"))
        for day, *bill in self.run(f"{copied} AND bill_date BETWEEN ? AND ?", [shop_id, first, last]):
            days.setdefault(day, []).append(CopiedBill(*bill))
        return days

    def day_totals(self, since: date | None) -> dict[tuple[str, str | None], ShopDayTotals]:
        milliseconds = f"CAST(round({self.microseconds('updated_at')} / 1000.0) AS BIGINT)"
        hashed = self.hash_number(f"id || '|' || coalesce(CAST({milliseconds} AS VARCHAR), '')")
        days = "" if since is None else "WHERE bill_date >= ?"
        rows = self.run(_DAY_TOTALS.format(hash=hashed, days=days), [] if since is None else [since])
        return {(shop_id, day): ShopDayTotals(*totals) for shop_id, day, *totals in rows}

    def undated_bills(self, shop_id: str, since: str) -> list[CopiedBill]:
        copied = _SELECT_BILLS.format(changed=self.microseconds("updated_at"))
        since_then = f"updated_at >= CAST(? AS {self.TYPES[Kind.INSTANT]})"
        rows = self.run(f"{copied} AND bill_date IS NULL AND {since_then}", [shop_id, since])
        return [CopiedBill(*bill) for _, *bill in rows]

    def latest_day_before(self, shop_id: str, day: date) -> date | None:
        before = "SELECT max(bill_date) FROM bills WHERE shop_id = ? AND bill_date < ?"
        found: date | None = self.run(before, [shop_id, day])[0][0]
        return found

    def drop_bills(self, shop_id: str, ids: Sequence[str]) -> None:
        if ids:
            self._delete_bills(shop_id, list(ids))
            self.changed(BILLS, *PARTS_OF_BILL)

    def _delete_bills(self, shop_id: str, ids: Sequence[str]) -> None:
        self.run(f"DELETE FROM bills WHERE shop_id = ? AND id IN {_ID_LIST}", [shop_id, ids])
        for table in PARTS_OF_BILL:
            self.run(f"DELETE FROM {table.name} WHERE shop_id = ? AND bill_id IN {_ID_LIST}", [shop_id, ids])

    # --- from responses to rows ------------------------------------------------------------

    def _select(
        self, table: Table, source: str, supplied: dict[str, str], lists: tuple[tuple[str, ...], ...] = ()
    ) -> str:
        """Return a SELECT that builds the table's rows from the incoming rows."""
        lists = lists or table.each
        rows, element = self.each(source, lists) if lists else (source, "")
        row = "outer_row" if lists else source
        numbers = {name: f"n{depth}" for depth, name in enumerate(_NUMBERS.get(table.name, ()), 1)}
        given = {**numbers, **supplied}
        values = ", ".join(self._value(column, given, row, element) for column in table.columns)
        return f"SELECT {values} FROM {rows}"

    def _value(self, column: Column, supplied: dict[str, str], row: str, element: str) -> str:
        if column.path:
            value = self.field(row if not element or column.of_parent else element, column.path, column.kind)
        else:
            value = f"CAST({supplied[column.name]} AS {self.TYPES[column.kind]})"
        return f'{value} AS "{column.name}"'


# SQL for a list of values that is passed as a single parameter.
_ID_LIST = "(SELECT unnest(CAST(? AS VARCHAR[])))"


def _names(table: Table) -> str:
    """Return the columns in definition order. In an existing table, columns added later come last."""
    return ", ".join(f'"{column.name}"' for column in table.columns)


def escape_quotes(text: str) -> str:
    return text.replace("'", "''")
