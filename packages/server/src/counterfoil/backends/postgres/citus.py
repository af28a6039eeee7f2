"""The store on Citus: the large tables are distributed, and all others stay on the coordinator.

There are no reference tables, and each transaction of a load writes only to the coordinator or only to the shards of
one shop or base. So none spans two nodes, and none needs two-phase commit. See docs/decisions/0013 for the reasons.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain, starmap
from typing import Any

from counterfoil.backends.postgres.admin_connections import (
    STATEMENT_SEC,
    Connection,
    checked_connection,
    connect,
    translated,
)
from counterfoil.backends.postgres.ledger import (
    BASES,
    LAST_SHOP,
    MEMBERS,
    NOW,
    PUT_SHOPS,
    REMOVALS,
    SHOPS,
    PostgresLedger,
    all_rows,
    asked_rows,
    only,
)
from counterfoil.backends.postgres.schema import IS_DISTRIBUTED
from counterfoil.backends.postgres.written_rows import columns, rev_text
from counterfoil.domain.batch import Batch, NeededRows
from counterfoil.domain.changes import BaseRow, BillRow, MemberRow, Row, ShopRow, account_values
from counterfoil.model.messages import Message
from counterfoil.ports import StoreMismatch, StoreUnavailable

# Maps each distributed table to its distribution column. Tables with the same column are co-located.
DISTRIBUTED = {"bills": "shop", "members": "provider_id", "accounts": "provider_id"}

# `taken` is the highest stamp that any writer has taken; `writer` is the Citus global PID of that writer's session.
_ADD_WRITER = """
    ALTER TABLE horizon ADD COLUMN taken bigint NOT NULL DEFAULT 0, ADD COLUMN writer bigint NOT NULL DEFAULT 0
"""
_DISTRIBUTE = "SELECT create_distributed_table(%s, %s, colocate_with => %s)"
_HAS_CITUS = "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')"
_WORKERS = "SELECT count(*) FROM pg_dist_node WHERE noderole = 'primary' AND isactive AND shouldhaveshards"
_PLACEMENTS = """
    SELECT coalesce(max(copies), 1) FROM (
        SELECT count(*) AS copies FROM citus_shards WHERE table_name = ANY(%s::regclass[]) GROUP BY shardid
    ) AS placed
"""
_OTHER_SESSIONS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'counterfoil' AND pid <> pg_backend_pid()
"""
_UNCOMMITTED = """
    SELECT coalesce(sum(CASE WHEN success THEN result::integer ELSE 1 END), 0) FROM run_command_on_all_nodes(
        'SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database() AND gid LIKE ''citus%%'''
    )
"""


def is_distributed(connection: Connection) -> bool:
    return bool(_value(connection, IS_DISTRIBUTED))


def distribute(url: str) -> list[str]:
    """Distribute the large tables over the workers; return the names of the tables that this call distributed."""
    with checked_connection(url) as connection:
        if is_distributed(connection):
            return []
        _require_citus(connection)
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('counterfoil migrate'))")
            if is_distributed(connection):
                return []
            connection.execute(_ADD_WRITER)
            # `horizon` is locked from here on, so a ledger that connects later waits and then sees the new layout.
            _require_no_other_sessions(connection)
            _distribute(connection)
        if _value(connection, _UNCOMMITTED):
            # A node has not committed its part yet, and its rows are invisible until then.
            raise StoreUnavailable(
                "the tables are distributed, but not every node has committed yet. Start services only when `SELECT "
                "gid FROM pg_prepared_xacts` returns no rows on any node, which normally takes less than a minute."
            )
    return list(DISTRIBUTED)


def _distribute(connection: Connection) -> None:
    first: dict[str, str] = {}
    for table, column in DISTRIBUTED.items():
        connection.execute(_DISTRIBUTE, (table, column, first.setdefault(column, "none")))
        first[column] = table
    if _value(connection, _PLACEMENTS, list(DISTRIBUTED)) > 1:
        raise StoreMismatch(
            "citus.shard_replication_factor is greater than 1, so Citus would commit every write in two phases. Set "
            "it to 1 and use streaming replication for each worker."
        )


def _require_citus(connection: Connection) -> None:
    if not _value(connection, _HAS_CITUS):
        raise StoreMismatch(
            "this database does not have Citus. Run `CREATE EXTENSION citus` in it on every node, add the workers "
            "with `citus_add_node`, then run `counterfoil migrate --distribute` again."
        )
    if not _value(connection, _WORKERS):
        raise StoreMismatch("the Citus cluster has no workers. Add one with `SELECT citus_add_node(host, port)`.")
    _require_no_other_sessions(connection)


def _require_no_other_sessions(connection: Connection) -> None:
    """Raise StoreMismatch if there are other sessions, after waiting up to two seconds for those that are closing."""
    for _ in range(20):
        # Within a transaction, PostgreSQL would otherwise return the same sessions each time.
        connection.execute("SELECT pg_stat_clear_snapshot()")
        others = _value(connection, _OTHER_SESSIONS)
        if not others:
            return
        connection.execute("SELECT pg_sleep(0.1)")
    raise StoreMismatch(
        f"other Counterfoil sessions are using this database ({others}), and they would keep writing as if the tables "
        "were not distributed. Stop every `serve` and `load`, then run `counterfoil migrate --distribute` again."
    )


def _value(connection: Connection, statement: str, *values: object) -> Any:
    (found,) = connection.execute(statement.encode(), values).fetchone() or (None,)
    return found


# --- the write side of the books: rows are written first, then the horizon moves --
#
# A batch is not one transaction here. Each shop's bills and each base's members are written to their shard
# separately, in one phase, under a stamp above the horizon. When all of them are acknowledged, the horizon moves to
# the stamp. A client that sees a horizon therefore sees every row stamped at or below it.
#
# The state is one row on the coordinator, `horizon`: `at` is the horizon, and `taken` is the highest stamp that a
# writer has taken. While `taken` is above `at`, a batch is being written or its writer has died. In that state, the
# horizon stays below `taken` until it is certain that no more rows of that batch can appear. docs/decisions/0013
# explains why this is correct.


# Rows per statement. PostgreSQL accepts at most 65,535 parameters in one statement.
ROWS = 1_000

_PLACES_OF_ROW = re.compile(r"(?<=VALUES )\([^()]*\)")

# Only one writer at a time holds this lock. It belongs to the session, so it is released when that ends.
_LOCK = "SELECT pg_advisory_lock(hashtext('counterfoil write'))"
_UNLOCK = "SELECT pg_advisory_unlock(hashtext('counterfoil write'))"

_TAKE = """
    UPDATE horizon
    SET taken = greatest(coalesce(%(now)s::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint), at + 1),
        writer = citus_backend_gpid()
    WHERE taken <= at
    RETURNING taken, coalesce(%(now)s::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
"""
_PUBLISH = "UPDATE horizon SET at = taken WHERE taken > at"
# Moves the horizon as far as is safe, and returns it, and whether a higher stamp is still unpublished.
_ADVANCE = """
    UPDATE horizon
    SET at = greatest(
        at,
        least(
            coalesce(%(now)s::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint),
            CASE WHEN taken > at THEN taken - 1 END
        )
    )
    RETURNING at, taken > at
"""
_UNPUBLISHED = "SELECT taken, writer FROM horizon WHERE taken > at"
_PUBLISH_ABANDONED = "UPDATE horizon SET at = taken WHERE taken = %s AND taken > at"

# Terminates a dead writer's sessions on all nodes, waits up to 3 s for each, and returns whether none is left.
_WRITER_IS_GONE = """
    SELECT coalesce(bool_and(success AND result = 't'), true) FROM run_command_on_all_nodes(format(
        'SELECT coalesce(bool_and(pg_terminate_backend(pid, 3000)), true) FROM pg_stat_activity
         WHERE application_name = ''citus_internal gpid=%%s''', %s::bigint
    ))
"""

_BILLS = """
    SELECT shop, id, trading_day, rev, digest, withheld, bill_day, load, confirmed_by FROM bills
    WHERE shop = %s AND id = ANY(%s)
"""
_BODIES = "SELECT shop, id, body FROM bills WHERE shop = %s AND id = ANY(%s)"
# An INSERT has the places of one row. `_insert` repeats them for so many rows.
# Without a load, the bill is rewritten under the facts of its shop, so it stays the bill of its load.
_PUT_BILLS = """
    INSERT INTO bills
        (shop, id, bill_day, closed_at, updated_at, trading_day, rev, facts_version, digest, seal, withheld, body,
        loaded_at, load)
    VALUES (%s::integer, %s, %s::integer, %s::bigint, %s::bigint, %s, %s::numeric, %s::integer, %b, %b, %b, %b,
        %s::bigint, %s::integer)
    ON CONFLICT (shop, id) DO UPDATE SET
        bill_day = excluded.bill_day, closed_at = excluded.closed_at, updated_at = excluded.updated_at,
        trading_day = excluded.trading_day, rev = excluded.rev, facts_version = excluded.facts_version,
        digest = excluded.digest, seal = excluded.seal, withheld = excluded.withheld, body = excluded.body,
        loaded_at = excluded.loaded_at, load = coalesce(excluded.load, bills.load),
        load_before = CASE
            WHEN excluded.load IS NULL OR excluded.load = bills.load THEN bills.load_before
            -- An undone load that had only changed the bill counts for nothing.
            WHEN bills.load < 0 AND bills.load_before IS DISTINCT FROM -bills.load THEN coalesce(bills.load_before, 0)
            ELSE coalesce(bills.load, 0)
        END,
        confirmed_by = CASE WHEN excluded.load IS NULL THEN bills.confirmed_by END
"""
_SETTLE_BILLS = """
    UPDATE bills SET trading_day = asked.trading_day, rev = asked.rev, withheld = asked.withheld,
        confirmed_by = asked.confirmed_by
    FROM unnest(%s::text[], %s::text[], %s::numeric[], %s::bytea[], %s::integer[])
        AS asked (id, trading_day, rev, withheld, confirmed_by)
    WHERE bills.id = asked.id AND bills.shop = %s
"""
_SETTLE_FACTS = """
    UPDATE bills SET facts_version = asked.version, trading_day = asked.trading_day, withheld = asked.withheld
    FROM unnest(%s::text[], %s::integer[], %s::text[], %s::bytea[]) AS asked (id, version, trading_day, withheld)
    WHERE bills.id = asked.id AND bills.shop = %s
"""
_REMOVE_BILLS = "DELETE FROM bills WHERE id = ANY(%s) AND shop = %s"
_PUT_MEMBERS = """
    INSERT INTO members (provider_id, token, created_at, rev, record, form)
    VALUES (%s, %s, %s::bigint, %s::numeric, %b, %b)
    ON CONFLICT (provider_id, token) DO UPDATE SET
        created_at = excluded.created_at, rev = excluded.rev, record = excluded.record, form = excluded.form
"""
_REMOVE_MEMBERS = "DELETE FROM members WHERE provider_id = %s AND token = ANY(%s)"
_ADD_ACCOUNTS = """
    INSERT INTO accounts (provider_id, token, place, hash, created_at, channel)
    VALUES (%s, %s, %s::integer, %s, %s::bigint, %s)
"""
_REMOVE_ACCOUNTS = "DELETE FROM accounts WHERE provider_id = %s AND token = ANY(%s)"


def open_ledger(url: str, fingerprint: str, now_ms: Callable[[], int] | None = None) -> PostgresLedger:
    """Open the ledger of a store: DistributedLedger if its tables are distributed, otherwise PostgresLedger."""
    with translated(), closing(connect(url)) as connection:
        kind = DistributedLedger if is_distributed(connection) else PostgresLedger
    return kind(url, fingerprint, now_ms)


class DistributedLedger(PostgresLedger):
    """The write side of books whose large tables are distributed."""

    _is_distributed = True

    def advance_horizon(self) -> int:
        with translated(), self._line.within(STATEMENT_SEC) as connection:
            horizon, is_unpublished = only(connection.execute(_ADVANCE, self._now()))
            if is_unpublished:
                # A live writer publishes its stamp before it releases the lock, so one that is left is a dead writer's.
                connection.execute(_LOCK)
                try:
                    self._publish_abandoned(connection)
                    horizon, _ = only(connection.execute(_ADVANCE, self._now()))
                finally:
                    connection.execute(_UNLOCK)
        return int(horizon)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the write lock. The writes commit separately; the horizon moves when all of them have committed."""
        with translated():
            connection = self._line()
            try:
                connection.execute(_LOCK)
                self._publish_abandoned(connection)
                yield
                connection.execute(_PUBLISH)
                connection.execute(_UNLOCK)
            except BaseException:
                # The outcome of the last statement may be unknown. Closing the session releases the lock, and the next
                # writer makes sure that this session has ended on every node.
                connection.close()
                raise

    def _publish_abandoned(self, connection: Connection) -> None:
        """Publish the stamp of a writer that died, once no more rows of its batch can appear.

        The rows that it had written become visible. Loading the same delivery again writes the rest of the batch.
        """
        found = connection.execute(_UNPUBLISHED).fetchone()
        if not found:
            return
        stamp, writer = found
        (ended,) = only(connection.execute(_WRITER_IS_GONE, (writer,)))
        if not ended:
            raise StoreUnavailable(
                Message(
                    "session_left",
                    "Citus: a load was interrupted, and a session that may still be writing its rows does not end, "
                    "or a node does not respond. The horizon does not advance until all sessions of that load have "
                    "ended. If a node is permanently lost, remove it from the cluster.",
                )
            )
        connection.execute(_PUBLISH_ABANDONED, (stamp,))

    @contextmanager
    def _locked(self) -> Iterator[int]:
        with self._writing():
            yield int(only(self._line().execute(NOW, self._now()))[0])

    def _take_stamp(self) -> int:
        stamp, _ = self._reserve_stamp()
        return stamp

    def _reserve_stamp(self) -> tuple[int, int]:
        """Reserve a stamp; return it and the current time. The ticker keeps the horizon below a reserved stamp."""
        stamp, now = only(self._line().execute(_TAKE, self._now()))
        return stamp, now

    # --- many rows -----------------------------------------------------------------

    def _batch(self, needed: NeededRows) -> tuple[Batch, int]:
        connection = self._line()
        stamp, now = self._reserve_stamp()
        shops = list(starmap(ShopRow, all_rows(asked_rows(connection, SHOPS, needed.shops))))
        removals = asked_rows(connection, REMOVALS, *columns(needed.removals))
        batch = Batch(
            stamp,
            only(connection.execute(LAST_SHOP))[0] if needed.new_shops else 0,
            shops,
            self._known_bills(needed, shops),
            starmap(BaseRow, all_rows(asked_rows(connection, BASES, needed.bases))),
            self._known_members(needed),
            {row[:3]: row[3] for row in all_rows(removals)},
        )
        return batch, now

    def _known_bills(self, needed: NeededRows, shops: Iterable[ShopRow]) -> Iterator[BillRow]:
        """Yield the stored bills. One statement per shop reads them by primary key from a single shard."""
        for shop in shops:
            ids = [bill_id for shop_id, bill_id in needed.bills if shop_id == shop.shop_id]
            if ids:
                found = self._line().execute(_BILLS, (shop.number, ids), binary=True)
                yield from starmap(BillRow, all_rows(found))

    def _bodies(self, keys: Sequence[tuple[int, str]]) -> list[Row]:
        rows: list[Row] = []
        for shop, of_shop in _grouped(keys):
            bill_ids = [bill_id for _, bill_id in of_shop]
            rows += self._line().execute(_BODIES, (shop, bill_ids), binary=True).fetchall()
        return rows

    def _known_members(self, needed: NeededRows) -> list[MemberRow]:
        """Return stored members of all bases. If a writer died while moving one, it has two rows, the newest last."""
        rows = all_rows(asked_rows(self._line(), MEMBERS, needed.tokens))
        found = starmap(MemberRow, rows)
        return sorted(found, key=lambda row: float("-inf") if row.rev is None else row.rev)

    def _write(self, batch: Batch) -> None:
        """Write the tables on the coordinator in one transaction, before any bill.

        If the writer dies before it has written all bills, nothing is lost: the feed reads a shop that has not changed,
        or skips a removal because the bill still exists. If the bills were written first, the feed could miss them.
        """
        with self._line().transaction():
            self._do(PUT_SHOPS, [row.values(rev_text(row.rev)) for row in batch.written_shops()])
            self._note(batch)
        self._remove_bills(batch.removed_bills())
        self._put_bills(batch.added_bills())
        self._put_bills(batch.changed_bills())
        settled = [row.settled_values(rev_text(row.rev)) for row in batch.settled_bills()]
        self._do_per_shop(_SETTLE_BILLS, settled)
        self._put_members(batch)

    def _rewrite(self, bills: Sequence[BillRow]) -> None:
        with_body = [bill for bill in bills if bill.body is not None]
        without_body = [bill for bill in bills if bill.body is None]
        self._put_bills(with_body)
        self._do_per_shop(_SETTLE_FACTS, [bill.facts_values() for bill in without_body])

    def _remove_bills(self, keys: Sequence[tuple[int, str]]) -> None:
        self._do_per_shop(_REMOVE_BILLS, keys)

    def _put_bills(self, bills: Sequence[BillRow]) -> None:
        for _, of_shop in _grouped(bill.values(rev_text(bill.rev)) for bill in bills):
            self._insert(_PUT_BILLS, of_shop)

    def _do_per_shop(self, statement: str, rows: Sequence[Row]) -> None:
        """Run a statement for the rows of each shop. Its number comes first in a row, and last in the statement."""
        for shop, of_shop in _grouped(rows):
            without_number = [row[1:] for row in of_shop]
            self._line().execute(statement.encode(), [*columns(without_number), shop])

    def _put_members(self, batch: Batch) -> None:
        """Write members and their accounts, in one transaction per base. All of a base's rows are on the same node.

        A member that moves is written to its new base before it is removed from the old one. If the writer dies in
        between, the member is in both bases until its record is loaded again.
        """
        for provider_id, of_base in _grouped((row.provider_id, row) for row in batch.written_members()):
            rows = [row for _, row in of_base]
            with self._line().transaction():
                self._line().execute(_REMOVE_ACCOUNTS, (provider_id, [row.token for row in rows]))
                self._insert(_PUT_MEMBERS, [row.values(rev_text(row.rev)) for row in rows])
                self._insert(_ADD_ACCOUNTS, account_values(rows))
        for provider_id, gone in _grouped(batch.removed_members()):
            tokens = [token for _, token in gone]
            with self._line().transaction():
                self._line().execute(_REMOVE_MEMBERS, (provider_id, tokens))
                self._line().execute(_REMOVE_ACCOUNTS, (provider_id, tokens))

    def _insert(self, statement: str, rows: Sequence[Row]) -> None:
        """Insert rows with VALUES, because Citus would commit an INSERT ... SELECT from arrays in two phases."""
        for start in range(0, len(rows), ROWS):
            written = rows[start : start + ROWS]
            values = list(chain.from_iterable(written))
            self._line().execute(for_rows(statement, len(written)), values, prepare=False)


def for_rows(statement: str, count: int) -> bytes:
    """Return an INSERT of one row with places for so many rows."""
    return _PLACES_OF_ROW.sub(lambda places: ", ".join([places[0]] * count), statement, count=1).encode()


def _grouped(rows: Iterable[Row]) -> Iterable[tuple[Any, list[Row]]]:
    """Group rows by their first column, which determines their shard."""
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[0]].append(row)
    return groups.items()
