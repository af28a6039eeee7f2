"""The code that all SQL sinks share. Subclasses implement how an engine receives the rows of a response.

The parser reads the objects of a response, and `fill` inserts the resulting rows. Apart from a few
expressions, the rest is SQL that all engines understand. Shops and members that have not changed are not written, so
the sink knows which tables changed.
"""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Raw, Struct, structs

from counterfoil.client import tables as layout
from counterfoil.client.calls import decode_row
from counterfoil.client.errors import NotThisService
from counterfoil.client.sinks.json_rows import Fill, JsonRows, ParsedRows, Rows, SinkError, escape_quotes
from counterfoil.client.tables import BILLS, CATEGORIES, COUPONS, MEMBERS, PARTS_OF_BILL, SHOPS, TABLES, Kind, Table

BillKey = tuple[str, str]


class ShopDayTotals(Struct, frozen=True):
    """Bill totals for one shop on one day, in the copy or from the service."""

    bills: int
    voids: int
    net: Decimal
    tip: Decimal
    hash: str


class Written(Struct, frozen=True):
    """How many bills or members were added, changed or unchanged. They are compared in full, with their parts."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    # How many of the bills have a time but no business day.
    without_day: int = 0


class BillHead(Struct, rename="camel"):
    id: str
    shop_id: str
    bill_date: str | None = None


_decode_head = msgspec.json.Decoder(BillHead).decode


def bill_head(row: bytes | Raw) -> BillHead:
    return decode_row(row, _decode_head)


class ShopHead(Struct, rename="camel"):
    shop_id: str
    provider_id: str | None = None


decode_shop_head = msgspec.json.Decoder(ShopHead).decode


def latest_versions(rows: Sequence[bytes]) -> list[bytes]:
    """Return the last version of each bill."""
    heads = map(bill_head, rows)
    return list({(head.shop_id, head.id): row for head, row in zip(heads, rows, strict=True)}.values())


# The columns that identify a bill, and those that say whether it lacks a business day.
_BILL_KEYS = Table(
    "bill_keys",
    tuple(column for column in BILLS.columns if column.name in (*BILLS.identity, "timestamp", "business_date")),
)
# The maximum number of pairs of shop ID and bill ID in one statement.
_PAIRS_PER_STATEMENT = 400


# A shop, bill or member is a row of the first table. The identity of its parts, in the others, begins with its own.
WHOLES = ((SHOPS, CATEGORIES), (BILLS, *PARTS_OF_BILL), (MEMBERS, COUPONS))
WHOLE_OF = {table.name: tables[0] for tables in WHOLES for table in tables}
TABLES_OF_SHOPS = (SHOPS, CATEGORIES, BILLS, *PARTS_OF_BILL)
COMPARED_TABLES = tuple(table for tables in WHOLES for table in tables)
# A condition for the rows of shops that the service returns.
IN_SCOPE = "shop_id NOT IN (SELECT shop_id FROM shops WHERE in_scope = FALSE)"
# The parser reads amounts and instants as text. An instant has the shop's offset.
_LOCAL_TIME = """left("timestamp", CASE WHEN "timestamp" LIKE '%Z' THEN -1 ELSE -6 END)"""
_REVENUE = """
    CASE WHEN "status" = 'void' THEN 0 ELSE coalesce(CAST("amounts"."net" AS DECIMAL(38,6)), 0)
        - coalesce(CAST("amounts"."tip" AS DECIMAL(38,6)), 0) END
"""
# The inserts that write a batch of shops or bills. Campaigns and coupons share a table.
_FILLS_OF_SHOPS = (Fill(SHOPS, {"removed_at": "NULL", "in_scope": "TRUE", "complete_until": "NULL"}), Fill(CATEGORIES))
_FILLS_OF_BILLS = (
    Fill(BILLS, {"revenue": _REVENUE, "local_time": _LOCAL_TIME}),
    *(Fill(table) for table in PARTS_OF_BILL if table is not layout.PROMOTIONS),
    *(Fill(layout.promotions_of(kind), {"kind": f"'{kind}'"}) for kind in layout.PROMOTION_KINDS),
)
_PARSED_OF_BILLS = tuple(fill.table for fill in _FILLS_OF_BILLS)


class Sink(ABC):
    """A copy in an SQL engine. Statements have `?` for values, and rows are JSON objects of responses, as bytes.

    The tables are written and compared in the same way, and differ in their columns and keys. So statements
    about any table are made from the declarations of `client/tables.py`: only names that are declared there, and what
    a `Dialect` declares, get into them. Statements about one table are written whole.
    """

    DIALECT: layout.Dialect
    # Selects all (table, column) pairs of the copy's tables, at least one pair for each view, and maybe other pairs.
    EXISTING: str
    # Selects the totals of each shop and day, from a day on that is given twice, or of all bills if it is null. Its
    # hash is that of `GET /v1/digests`; docs/own-client.md has equivalent queries for integrators.
    DAY_TOTALS: str
    BEGIN = "BEGIN"

    _db: Any
    _parser: JsonRows
    # The time of the service that rows get as `copied_at`. Whoever writes rows sets it first.
    now: str = ""
    _has_undelivered = False
    _has_removed = False
    # Whether parts may be in the copy without their bill, which a pass then brings.
    may_have_strays = False

    # --- methods that each engine implements --------------------------------------

    @abstractmethod
    def run(self, statement: str, values: Sequence[Any] = ()) -> Rows:
        """Run a statement and return its rows."""

    @abstractmethod
    def fill(self, fills: Sequence[Fill]) -> None:
        """Insert the parsed rows of several tables."""

    @abstractmethod
    def set_up(self) -> None:
        """Prepare the connection, and create what the copy lacks."""

    def set_up_or_close(self) -> None:
        try:
            self.set_up()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._parser.close()
        self._db.close()
        shutil.rmtree(self._parser.folder, ignore_errors=True)

    def existing(self) -> Rows:
        return self.run(self.EXISTING)

    def changed(self, *tables: Table) -> None:  # noqa: B027 - subclasses may override it
        """Hook: called inside the transaction that changed these tables."""

    def erase_remains(self) -> None:  # noqa: B027 - subclasses may override it
        """Write the file anew, without unused space, if that has personal data of deleted members."""

    def publish(self) -> list[str]:
        """Write files for readers, if the target has any. Return the names of those that had lost rows."""
        return []

    def file_differences(self) -> dict[str, tuple[int, int]]:
        """Return the tables whose published file differs: how many rows it lacks, and how many it has besides."""
        return {}

    # --- the copy ------------------------------------------------------------------

    def make_tables(self) -> None:
        """Create missing tables, columns, indexes and views. The state lists such tables: a full pass fills them."""
        found: dict[str, set[str]] = {}
        for name, column in self.existing():
            found.setdefault(name, set()).add(column)
        foreign = sorted(table.name for table in TABLES if table.name in found)
        if foreign and "pull_state" not in found:
            raise SinkError(
                f"the target already has a table `{foreign[0]}` that was not created by a pull. Choose another target."
            )
        missing = list(layout.missing_statements(found, self.DIALECT))
        if missing:
            with self.transaction():
                for statement in missing:
                    self.run(statement)
                if encoded := self.state():
                    state = msgspec.json.decode(encoded)
                    state["lost"] = layout.incomplete_tables(found)
                    state["dropped"] = layout.tables_without_columns(found, state.get("columns", {}))
                    self.save_state(msgspec.json.encode(state))
        if not self.state() and any(self.row_counts(most=1).values()):
            raise SinkError(
                "the target has rows of a copy, but the table pull_state is empty, so it is not known "
                "with which key they were copied. Choose another target, or drop the tables."
            )
        self._has_undelivered = bool(self.run("SELECT 1 FROM pull_undelivered LIMIT 1"))
        self._has_removed = bool(self.run("SELECT 1 FROM removed_bills LIMIT 1"))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything that is written inside the context, or roll it back if an error is raised."""
        self.run(self.BEGIN)
        try:
            yield
            self.run("COMMIT")
        except BaseException:
            self._has_undelivered = self._has_removed = True  # The rollback may restore rows of these tables.
            for clean_up in (lambda: self.run("ROLLBACK"), self._parser.release):
                with suppress(SinkError):  # Report the original error, not one that is raised here.
                    clean_up()
            raise
        self._parser.release()

    def state(self) -> bytes | None:
        rows = self.run("SELECT state FROM pull_state")
        return rows[0][0].encode() if rows else None

    def save_state(self, state: bytes) -> None:
        self.run("DELETE FROM pull_state")
        self.run("INSERT INTO pull_state VALUES (1, ?)", [state.decode()])

    def row_counts(self, most: int | None = None) -> dict[str, int]:
        """Return how many rows each table has. With `most`, do not count further."""
        statements = []
        for table in TABLES:
            rows = table.name if most is None else f"(SELECT 1 FROM {table.name} LIMIT {most}) AS first_rows"
            statements.append(f"SELECT '{table.name}', count(*) FROM {rows}")
        return dict(self.run(" UNION ALL ".join(statements)))

    # --- shops ---------------------------------------------------------------------

    def put_shops(self, rows: Sequence[bytes]) -> None:
        """Upsert shops that are listed, and so not removed and in scope."""
        if rows:
            self.stage_shops(rows)
            self._merge(SHOPS, CATEGORIES)

    def stage_shops(self, rows: Sequence[bytes]) -> None:
        """Fill the `staged_...` tables with listed shops, which must not be empty."""
        self._parser.read(rows, (SHOPS, CATEGORIES))
        self._stage(_FILLS_OF_SHOPS)

    def remove_shops(self, shops: Mapping[str, bool], complete_until: str | None) -> list[str]:
        """Mark shops as removed, and return those that have left. One that is not in the copy is added without a name.

        The values of `shops` say whether the key can still read their bills. If not, the copy has their changes up to
        `complete_until`, or it is not known up to when.
        """
        now, left = self._literal(self.now), []
        for shop_id, in_scope in shops.items():
            if not self.run("SELECT 1 FROM shops WHERE shop_id = ?", [shop_id]):
                self.run(f"INSERT INTO shops (shop_id, in_scope, copied_at) VALUES (?, TRUE, {now})", [shop_id])
            self.run(
                f"UPDATE shops SET removed_at = {now}, copied_at = {now} WHERE shop_id = ? AND removed_at IS NULL",
                [shop_id],
            )
            # A shop that had left before keeps its time.
            until = self._literal(complete_until) if complete_until and not in_scope else "NULL"
            changed = self.run(
                f"UPDATE shops SET in_scope = {in_scope}, complete_until = {until}, copied_at = {now} "
                f"WHERE shop_id = ? AND in_scope <> {in_scope} RETURNING in_scope",
                [shop_id],
            )
            left += [shop_id for (is_in_scope,) in changed if not is_in_scope]
        if shops:
            self.changed(SHOPS)
        return left

    def shop_ids(self) -> set[str]:
        """Return the IDs of all shops of the copy, including shops that are marked as removed."""
        return {row[0] for row in self.run("SELECT shop_id FROM shops UNION SELECT shop_id FROM bills")}

    def shops_with_rows(self) -> set[str]:
        """Return the IDs of all shops that have a row in any table, also if the shop and its bills are lost."""
        ids = " UNION ".join(f"SELECT shop_id FROM {table.name}" for table in TABLES_OF_SHOPS)
        return {row[0] for row in self.run(ids)}

    def shops_in_scope(self) -> set[str]:
        return {row[0] for row in self.run("SELECT shop_id FROM shops WHERE in_scope = TRUE")}

    def count_shops(self) -> int:
        """Return the number of shops that are not marked as removed."""
        return self._count("SELECT count(*) FROM shops WHERE removed_at IS NULL")

    def shops_that_left(self) -> set[str]:
        """Return the IDs of the shops whose bills the key can no longer read."""
        return {row[0] for row in self.run("SELECT shop_id FROM shops WHERE in_scope = FALSE")}

    def rows_of_shops(self, shop_ids: Collection[str]) -> dict[str, dict[str, int]]:
        """Return how many rows these shops have in each table that has any."""
        rows: dict[str, dict[str, int]] = {}
        if not shop_ids:
            return rows
        of_shops = f"shop_id IN ({', '.join('?' * len(shop_ids))})"
        for table in TABLES_OF_SHOPS:
            counted = f"SELECT shop_id, count(*) FROM {table.name} WHERE {of_shops} GROUP BY shop_id"
            for shop_id, count in self.run(counted, list(shop_ids)):
                rows.setdefault(shop_id, {})[table.name] = count
        return rows

    def forget_completeness(self, shop_ids: Collection[str]) -> None:
        """Store that it is not known up to when the copy has all changes to these shops."""
        now = self._literal(self.now)
        for shop_id in shop_ids:
            self._change(
                SHOPS,
                f"UPDATE shops SET complete_until = NULL, copied_at = {now} "
                "WHERE shop_id = ? AND complete_until IS NOT NULL",
                [shop_id],
            )

    def count_bills(self, shop_ids: Collection[str]) -> int:
        """Return how many bills of these shops the copy has."""
        bills = 0
        for shop_id in set(shop_ids):
            bills += self._count("SELECT count(*) FROM bills WHERE shop_id = ?", [shop_id])
        return bills

    def _count(self, statement: str, values: Sequence[Any] = ()) -> int:
        count: int = self.run(statement, values)[0][0]
        return count

    def _change(self, table: Table, statement: str, values: Sequence[Any] = ()) -> int:
        """Run a statement that deletes or updates rows of a table, and return their number."""
        count = len(self.run(f"{statement} RETURNING 1", values))
        if count:
            self.changed(table)
        return count

    def forget_shops(self, shop_ids: Sequence[str]) -> int:
        """Delete shops with all their rows, and return the number of deleted bills."""
        forgotten = self.count_bills(shop_ids)
        for shop_id in shop_ids:
            self._record_removals("shop_id = ?", [shop_id])
            for table in TABLES_OF_SHOPS:
                self.run(f"DELETE FROM {table.name} WHERE shop_id = ?", [shop_id])
            self.run("DELETE FROM pull_undelivered WHERE shop_id = ?", [shop_id])
        if shop_ids:
            self.changed(*TABLES_OF_SHOPS)
        return forgotten

    def bases(self, *, also_removed: bool = False) -> list[str]:
        """Return the IDs of the bases of all shops that are not marked as removed, or of all shops."""
        statement = "SELECT DISTINCT provider_id FROM shops WHERE provider_id IS NOT NULL AND removed_at IS NULL"
        if also_removed:
            statement = "SELECT DISTINCT provider_id FROM shops WHERE provider_id IS NOT NULL"
        return sorted(row[0] for row in self.run(statement))

    def bases_that_left(self) -> list[str]:
        """Return the bases of current members that no current shop has, so that the service does not return them."""
        listed = self.run("SELECT DISTINCT provider_id FROM members WHERE removed_at IS NULL")
        return sorted({row[0] for row in listed} - set(self.bases()))

    def forget_base(self, provider_id: str) -> int:
        """Delete the members of a base with all their rows, and return the number of deleted members."""
        self.open_pass(provider_id)
        deleted = self._delete_members("provider_id = ?", [provider_id])
        self._change(layout.REMOVED_MEMBERS, "DELETE FROM removed_members WHERE provider_id = ?", [provider_id])
        return deleted

    def _literal(self, instant: str) -> str:
        """Return SQL for an instant in the service's format."""
        return self.DIALECT.instant.format(f"'{escape_quotes(instant)}'")

    # --- members -------------------------------------------------------------------

    def open_pass(self, provider_id: str) -> None:
        """Begin a pass over the base: clear the list of members that were seen."""
        self.run("DELETE FROM pull_seen WHERE provider_id = ?", [provider_id])

    def put_members(self, provider_id: str, rows: Sequence[bytes]) -> Written:
        """Upsert members and mark them as seen by the current pass. `rows` must not contain a member twice."""
        if not rows:
            return Written()
        self.stage_members(provider_id, rows)
        written = self._merge(MEMBERS, COUPONS)
        self.run("INSERT INTO pull_seen SELECT provider_id, member_id FROM staged_members")
        self._change(
            layout.REMOVED_MEMBERS,
            "DELETE FROM removed_members WHERE member_id IN (SELECT member_id FROM staged_members)",
        )
        return written

    def stage_members(self, provider_id: str, rows: Sequence[bytes]) -> None:
        """Fill the `staged_...` tables with members, which must not be empty."""
        self._parser.read(rows, (MEMBERS, COUPONS))
        base = f"'{escape_quotes(provider_id)}'"
        self._stage([Fill(MEMBERS, {"provider_id": base, "removed_at": "NULL"}), Fill(COUPONS)])

    def close_pass(self, provider_id: str) -> int:
        """Delete the members that the pass has not seen, and record them as removed; return their number."""
        unseen = "provider_id = ? AND member_id NOT IN (SELECT member_id FROM pull_seen WHERE provider_id = ?)"
        values = [provider_id, provider_id]
        now = self._literal(self.now)
        recorded = "SELECT member_id FROM removed_members"
        self.run(
            f"INSERT INTO removed_members ({column_names(layout.REMOVED_MEMBERS)}) "
            f"SELECT member_id, provider_id, coalesce(removed_at, {now}), {now} FROM members "
            f"WHERE {unseen} AND member_id NOT IN ({recorded})",
            values,
        )
        vanished = self._delete_members(unseen, values)
        if vanished:
            self.changed(layout.REMOVED_MEMBERS)
        self.open_pass(provider_id)
        return vanished

    def mark_removed(self, provider_id: str) -> int:
        """Mark the members of a base that cannot be read any more as removed; return the number marked."""
        now = self._literal(self.now)
        self.open_pass(provider_id)
        return self._change(
            MEMBERS,
            f"UPDATE members SET removed_at = {now}, copied_at = {now} WHERE provider_id = ? AND removed_at IS NULL",
            [provider_id],
        )

    def _delete_members(self, condition: str, values: Sequence[Any]) -> int:
        chosen = f"SELECT member_id FROM members WHERE {condition}"
        if self.run(f"{chosen} AND (tel IS NOT NULL OR email IS NOT NULL) LIMIT 1", values):
            # Engines leave what they delete in unused space: see `erase_remains`.
            self.run("INSERT INTO pull_erased VALUES (?)", values[:1])
        self._change(COUPONS, f"DELETE FROM coupons WHERE member_id IN ({chosen})", values)
        return self._change(MEMBERS, f"DELETE FROM members WHERE {condition}", values)

    def has_remains(self) -> bool:
        """Return whether personal data was deleted that may still be in unused space."""
        return bool(self.run("SELECT 1 FROM pull_erased LIMIT 1"))

    # --- staged rows -----------------------------------------------------------------

    def _stage(self, fills: Sequence[Fill]) -> None:
        """Create a temporary table `staged_...` for each table, with the rows that were read."""
        for name, table in {fill.table.name: fill.table for fill in fills}.items():
            self.run(f"DROP TABLE IF EXISTS staged_{name}")
            self.run(f"CREATE TEMPORARY TABLE staged_{name} ({layout.definitions(table, self.DIALECT.types)})")
        self.fill(self._with_time(fills, is_staged=True))

    def _with_time(self, fills: Sequence[Fill], *, is_staged: bool = False) -> list[Fill]:
        """Return the same inserts with the time of writing. A comparison has none, and writes nothing."""
        time = {"copied_at": f"'{escape_quotes(self.now)}'" if self.now else "NULL"}
        return [Fill(fill.table, fill.supplied | time, is_staged) for fill in fills]

    def _merge(self, *tables: Table) -> Written:
        """Replace the rows of each shop, bill or member whose staged rows differ. The first table is that of wholes."""
        whole, *parts = tables
        added, changed = self._merge_table(whole)
        for part in parts:
            added_parts, changed_parts = self._merge_table(part)
            changed |= added_parts | changed_parts
        changed -= added
        unchanged = self._count(f"SELECT count(*) FROM staged_{whole.name}") - len(added) - len(changed)
        return Written(len(added), len(changed), unchanged)

    def _merge_table(self, table: Table) -> tuple[set[tuple[Any, ...]], set[tuple[Any, ...]]]:
        """Replace the rows of each key whose rows have changed; return the new keys and the changed keys."""
        key, names = ", ".join(key_of(table)), column_names(table)
        insert = f"INSERT INTO {table.name} ({names}) SELECT {names} FROM staged_{table.name}"
        if not self.run(f"SELECT 1 FROM {table.name} WHERE ({key}) IN ({_staged_keys(table)}) LIMIT 1"):
            self.run(insert)
            added = set(self.run(f"SELECT DISTINCT {key} FROM staged_{table.name}"))
            if added:
                self._touch_wholes(table, f"staged_{table.name}")
            return added, set()
        self.find_different(table)
        different = set(self.run(f"SELECT DISTINCT {key} FROM different"))
        if not different:
            return set(), set()
        of_different = f"({key}) IN (SELECT {key} FROM different)"
        known = set(self.run(f"SELECT DISTINCT {key} FROM {table.name} WHERE {of_different}"))
        self.run(f"DELETE FROM {table.name} WHERE {of_different}")
        self.run(f"{insert} WHERE {of_different}")
        self._touch_wholes(table, "different")
        return different - known, different & known

    def _touch_wholes(self, table: Table, parts: str) -> None:
        """Let the shops, bills or members of these parts count as written, also if only a part is gone."""
        whole, now = WHOLE_OF[table.name], self._literal(self.now)
        if table is whole:
            self.changed(table)
            return
        keys = f"SELECT {', '.join(key_of(table))} FROM {parts}"
        self.run(
            f"UPDATE {whole.name} SET copied_at = {now} "
            f"WHERE copied_at <> {now} AND ({', '.join(whole.identity)}) IN ({keys})"
        )
        self.changed(table, whole)

    def find_different(self, table: Table) -> None:
        """Fill `different` with the rows that differ; `served` and `held` are 1 if only the service or copy has one."""
        key, identity = ", ".join(key_of(table)), ", ".join(table.identity)
        names = column_names(table, without="copied_at")
        # EXCEPT removes duplicates, so equal rows are counted.
        served = f"SELECT {names}, count(*) FROM staged_{table.name} GROUP BY {names}"
        held = f"SELECT {names}, count(*) FROM {table.name} WHERE ({key}) IN ({_staged_keys(table)}) GROUP BY {names}"
        self.run("DROP TABLE IF EXISTS different")
        self.run(
            f"CREATE TEMPORARY TABLE different AS SELECT {identity}, max(served) AS served, max(held) AS held FROM ("
            f"SELECT {identity}, 1 AS served, 0 AS held FROM ({served} EXCEPT {held}) AS only_served UNION ALL "
            f"SELECT {identity}, 0, 1 FROM ({held} EXCEPT {served}) AS only_held) AS both_sides GROUP BY {identity}"
        )

    # --- bills -------------------------------------------------------------------------

    def parse_bills(self, rows: Sequence[bytes]) -> ParsedRows:
        """Parse bills ahead of `put_bills`. One other thread may call this while the sink writes."""
        return self._parser.read_ahead(rows, _PARSED_OF_BILLS)

    def put_bills(self, rows: Sequence[bytes], parsed: ParsedRows | None, shop_ids: Collection[str]) -> Written:
        """Upsert bills of these shops, none older than the copy's. `parsed`, from `parse_bills`, is used only once."""
        if not rows:
            return Written()
        count = self._read_bills(rows, parsed, shop_ids)
        incoming = "SELECT shop_id, id FROM staged_bill_keys"
        if self._has_undelivered:
            self.run(f"DELETE FROM pull_undelivered WHERE (shop_id, id) IN ({incoming})")
        self._forget_removals(incoming)
        is_known = self.may_have_strays or self.run(f"SELECT 1 FROM bills WHERE (shop_id, id) IN ({incoming}) LIMIT 1")
        without_day = self._count(
            'SELECT count(*) FROM staged_bill_keys WHERE "timestamp" IS NOT NULL AND business_date IS NULL'
        )
        if is_known:
            self._stage(_FILLS_OF_BILLS)
            return structs.replace(self._merge(BILLS, *PARTS_OF_BILL), without_day=without_day)
        self.fill(self._with_time(_FILLS_OF_BILLS))
        self.changed(BILLS, *PARTS_OF_BILL)
        return Written(added=count, without_day=without_day)

    def stage_bills(self, rows: Sequence[bytes], parsed: ParsedRows | None, shop_ids: Collection[str]) -> None:
        """Fill the `staged_...` tables with bills, which must not be empty, outside a transaction."""
        self._read_bills(rows, parsed, shop_ids)
        self._stage(_FILLS_OF_BILLS)
        self._parser.release()

    def _read_bills(self, rows: Sequence[bytes], parsed: ParsedRows | None, shop_ids: Collection[str]) -> int:
        """Parse the last version of each bill; return their number. Raise an error if one is not of these shops."""
        if parsed is None:
            self._parser.read(rows, _PARSED_OF_BILLS)
        else:
            self._parser.use(parsed)
        self._stage([Fill(_BILL_KEYS)])
        found = self.run(
            "SELECT shop_id, count(*), count(id) FROM (SELECT DISTINCT shop_id, id FROM staged_bill_keys) AS keys "
            "GROUP BY shop_id"
        )
        if any(shop_id not in shop_ids or with_id < count for shop_id, count, with_id in found):
            raise NotThisService("the service returned a bill without an ID, or of another shop. Check the base URL.")
        count: int = sum(count for _, count, _ in found)
        return count if count == len(rows) else self._read_bills(latest_versions(rows), None, shop_ids)

    def remove_bills(self, keys: Sequence[BillKey]) -> int:
        """Delete bills, and return how many of them were in the copy."""
        return self._remove(self.listed_keys(keys)) if keys else 0

    def listed_keys(self, keys: Sequence[BillKey]) -> str:
        """Store keys of bills in a temporary table, and return a SELECT for them."""
        text = self.DIALECT.types[Kind.TEXT]
        self.run("DROP TABLE IF EXISTS listed_keys")
        self.run(f"CREATE TEMPORARY TABLE listed_keys (shop_id {text}, id {text})")
        for start in range(0, len(keys), _PAIRS_PER_STATEMENT):
            pairs = keys[start : start + _PAIRS_PER_STATEMENT]
            values = ", ".join(["(?, ?)"] * len(pairs))
            self.run(f"INSERT INTO listed_keys VALUES {values}", [value for pair in pairs for value in pair])
        return "SELECT shop_id, id FROM listed_keys"

    def mark_undelivered(self, shop_ids: Sequence[str]) -> None:
        """Flag all bills of these shops as not delivered. `put_bills` and `remove_bills` clear the flag of a bill."""
        if not shop_ids:
            return
        of_shops = f"WHERE shop_id IN ({', '.join('?' * len(shop_ids))})"
        self.run(f"DELETE FROM pull_undelivered {of_shops}", shop_ids)
        self.run(f"INSERT INTO pull_undelivered SELECT shop_id, id FROM bills {of_shops}", shop_ids)
        if not self._has_undelivered:
            self._has_undelivered = bool(self.run("SELECT 1 FROM pull_undelivered LIMIT 1"))

    def clear_undelivered(self) -> None:
        """Remove the flag from all bills that are flagged as not delivered."""
        self.run("DELETE FROM pull_undelivered")
        self._has_undelivered = False

    def delete_undelivered(self) -> int:
        """Delete the bills that are still flagged as not delivered; return the number deleted."""
        if not self._has_undelivered:
            return 0
        removed = self._remove("SELECT shop_id, id FROM pull_undelivered")
        self.clear_undelivered()
        return removed

    def _remove(self, keys: str) -> int:
        """Delete the bills that a SELECT returns, and return how many of them were in the copy."""
        found = self._count(f"SELECT count(*) FROM bills WHERE (shop_id, id) IN ({keys})")
        if found:
            self._record_removals(f"(shop_id, id) IN ({keys})")
            self.changed(BILLS, *PARTS_OF_BILL)
        # The parts of a bill are deleted even if the bill is missing, because somebody may have deleted only the bill.
        for table in (BILLS, *PARTS_OF_BILL):
            self.run(f"DELETE FROM {table.name} WHERE ({', '.join(key_of(table))}) IN ({keys})")
        self.run(f"DELETE FROM pull_undelivered WHERE (shop_id, id) IN ({keys})")
        return found

    def delete_strays(self) -> int:
        """Delete parts without a bill or shop, and removals of bills that exist; return the number of rows.

        Call this at the end of a pass that has returned everything. What it could not return stays: the parts of shops
        that have left the key's scope, and coupons, because the service does not return members that were removed.
        """
        deleted = self._forget_removals("SELECT shop_id, id FROM bills")
        for whole, *parts in (SHOPS, CATEGORIES), (BILLS, *PARTS_OF_BILL):
            wholes = f"SELECT {', '.join(whole.identity)} FROM {whole.name}"
            for table in parts:
                key = ", ".join(key_of(table))
                strays = f"SELECT {key} FROM {table.name} WHERE {IN_SCOPE} EXCEPT {wholes}"
                deleted += self._change(table, f"DELETE FROM {table.name} WHERE ({key}) IN ({strays})")
        return deleted

    def _record_removals(self, condition: str, values: Sequence[Any] = ()) -> None:
        """Record the bills that are about to be deleted in `removed_bills`."""
        now = self._literal(self.now)
        self._forget_removals(f"SELECT shop_id, id FROM bills WHERE {condition}", values)
        self.run(
            f"INSERT INTO removed_bills ({column_names(layout.REMOVED_BILLS)}) "
            f"SELECT DISTINCT shop_id, id, business_date, bill_date, {now}, {now} FROM bills WHERE {condition}",
            values,
        )
        self._has_removed = True
        self.changed(layout.REMOVED_BILLS)

    def _forget_removals(self, keys: str, values: Sequence[Any] = ()) -> int:
        """Delete the records of removals of bills that the copy contains again; return the number of rows."""
        if not self._has_removed:
            return 0
        return self._change(layout.REMOVED_BILLS, f"DELETE FROM removed_bills WHERE (shop_id, id) IN ({keys})", values)

    # --- comparing -----------------------------------------------------------------

    def days_of_bills(self, shop_id: str, first: date | None = None, last: date | None = None) -> dict[str, str | None]:
        """Return a shop's bills from the day `first` to the day `last`, or those without a day, and their days."""
        if first is None or last is None:
            return dict(self.run("SELECT id, NULL FROM bills WHERE shop_id = ? AND bill_date IS NULL", [shop_id]))
        text, day = self.DIALECT.types[Kind.TEXT], self.DIALECT.types[Kind.DAY]
        listed = (
            f"SELECT id, CAST(bill_date AS {text}) FROM bills "
            f"WHERE shop_id = ? AND bill_date BETWEEN CAST(? AS {day}) AND CAST(? AS {day})"
        )
        return dict(self.run(listed, [shop_id, first.isoformat(), last.isoformat()]))

    def different_bills(self, shop_id: str, rows: Sequence[bytes]) -> set[str]:
        """Return the IDs of those bills of a shop that the copy does not have as they are, with all their parts."""
        different: set[str] = set()
        if rows:
            self.stage_bills(rows, None, [shop_id])
            for table in (BILLS, *PARTS_OF_BILL):
                self.find_different(table)
                different.update(row[0] for row in self.run(f"SELECT {key_of(table)[1]} FROM different"))
        return different

    def day_totals(self, since: date | None) -> dict[tuple[str, str | None], ShopDayTotals]:
        """Return totals by shop and day, from `since` on. If it is None, include all days and the undated bills."""
        first = None if since is None else since.isoformat()
        found: dict[tuple[str, str | None], ShopDayTotals] = {}
        for shop_id, day, bills, voids, net, tip, total in self.run(self.DAY_TOTALS, [first, first]):
            found[shop_id, day] = ShopDayTotals(bills, voids, Decimal(net), Decimal(tip), str(total))
        return found


def column_names(table: Table, without: str = "") -> str:
    """Return the column names in definition order. An older table may have a different order, so SQL must name them."""
    return ", ".join(f'"{column.name}"' for column in table.columns if column.name != without)


def key_of(table: Table) -> tuple[str, ...]:
    """Return the columns that identify the shop, bill or member that a row belongs to."""
    return table.identity[: len(WHOLE_OF[table.name].identity)]


def _staged_keys(table: Table) -> str:
    """Return SQL for the shops, bills or members that were read."""
    whole = WHOLE_OF[table.name]
    return f"SELECT {', '.join(whole.identity)} FROM staged_{whole.name}"
