"""Reads a store for the operator: from the primary or, while there is none, from the newest replica."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo
from psycopg.errors import QueryCanceled

from counterfoil.backends.postgres.addresses import SCHEMA, Address, addresses
from counterfoil.backends.postgres.admin_connections import checked_connection, fingerprint_of, psycopg_form, translated
from counterfoil.business_reads import Ask, Part
from counterfoil.model.messages import Message
from counterfoil.operator_reads import QUERY_SEC, OperatorReads, QueryTooSlow
from counterfoil.ports import Permissions, ServerRole, ServerState, StoreExtent, StoreMismatch, StoreUnavailable
from counterfoil.request_reads import NO_END, SCANNED_REQUESTS, RecordPosition, RequestFilter, Row

# A server that does not answer within this time counts as unreachable.
ANSWER_SEC = 1.0

_STATE = "SELECT pg_is_in_recovery(), at FROM horizon"
_EXTENT = """
    SELECT pg_database_size(current_database())::bigint, (SELECT max(number) FROM migrations)::text,
        current_setting('server_version')
"""
# Returns the login, whether it can serve, load and issue keys (see roles.sql), and whether it owns the schema.
_PERMISSIONS = """
    SELECT current_user,
        has_table_privilege('keys', 'SELECT') AND has_table_privilege('admissions', 'INSERT'),
        has_table_privilege('bills', 'INSERT'),
        has_table_privilege('keys', 'INSERT'),
        pg_has_role(nspowner, 'USAGE')
    FROM pg_namespace WHERE nspname = 'counterfoil'
"""
# After a switch to or from a shared meter, both tables may have a count of the same day. The higher one is newer.
_COUNTS = """
    SELECT key_id, day, max(count) FROM (
        SELECT key_id, day, count FROM daily_totals WHERE day BETWEEN :first AND :last
        UNION ALL
        SELECT key_id, day, count FROM meters WHERE day BETWEEN :first AND :last AND n > 0
    ) AS counts GROUP BY key_id, day
"""


# Records are never updated, so the physical position of a record in its partition does not change. Records with the
# same time, which are always in the same partition, are sorted by this position.
# PostgreSQL plans for the given values, so a condition that does not apply does not prevent the use of an index.
_REQUESTS = """
    SELECT at, key_id, route, status, error, took_us, personal_base, personal_members, request_id, detail, number
    FROM (
        SELECT *, (ctid::text::point)[0]::bigint * 65536 + (ctid::text::point)[1]::bigint AS number FROM requests
    ) AS requests
    WHERE at >= :since AND at < :until
        AND at <= :before_at AND (at < :before_at OR number < :before_number)
        AND (CAST(:request_id AS text) IS NULL OR request_id = :request_id)
        AND (CAST(:key_id AS text) IS NULL OR key_id = :key_id)
        AND (NOT :personal_data OR personal_base IS NOT NULL)
        AND (NOT :is_failed OR error IS NOT NULL)
    ORDER BY at DESC, number DESC LIMIT :most
"""


class PostgresReads(OperatorReads):
    """Reads in read-only transactions."""

    LATEST_ENTRIES = """
        SELECT at, act, actor, via, host, key_id, changes, detail FROM audit
        WHERE at >= :since AND (CAST(:key_id AS text) IS NULL OR key_id = :key_id)
        ORDER BY at DESC, origin, number DESC LIMIT :most
    """
    # Whoever serves cannot look at the folder of a backup.
    BACKUPS = """
        SELECT at, '', '' FROM audit WHERE act = 'store_backed_up' AND at >= :since ORDER BY at DESC LIMIT 100
    """
    BILLS_WITH = """
        SELECT shop, id, body FROM bills
        WHERE position(:first IN body) > 0 OR position(:second IN body) > 0 OR position(:third IN body) > 0
    """
    MEMBERS_OF_BILLS = """
        SELECT shop, id, substring(body FROM position(:text IN body) + :after FOR :length) FROM bills
        WHERE position(:text IN body) > 0
    """
    COUNTS = (_COUNTS,)
    LAST_DAYS = """
        SELECT key_id, max(day) FROM (
            SELECT key_id, day FROM daily_totals WHERE count > 0 UNION ALL SELECT key_id, day FROM meters WHERE n > 0
        ) AS used GROUP BY key_id
    """

    def __init__(self, url: str, query_sec: float = QUERY_SEC, scanned: int = SCANNED_REQUESTS) -> None:
        super().__init__(query_sec, scanned)
        self._url = url

    @contextmanager
    def _opened(self, part: Part, query_sec: float | None = None) -> Iterator[Ask]:  # noqa: ARG002 - one database has all
        with checked_connection(readable_address(self._url)) as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            if query_sec is not None:
                connection.execute(f"SET LOCAL statement_timeout = {round(query_sec * 1000)}".encode())
            try:
                yield lambda statement, **values: connection.execute(psycopg_form(statement), values).fetchall()
            except QueryCanceled as error:
                raise QueryTooSlow(f"PostgreSQL: the query took longer than {query_sec:g} s") from error

    def _newest_requests(self, ask: Ask, wanted: RequestFilter, before: RecordPosition, most: int) -> list[Row]:
        return ask(
            _REQUESTS,
            since=wanted.since or 0,
            until=NO_END if wanted.until is None else wanted.until,
            before_at=before[0],
            before_number=before[1],
            request_id=wanted.request_id,
            key_id=wanted.key_id,
            personal_data=wanted.personal_data,
            is_failed=wanted.is_failed,
            most=most,
        )

    def problems(self) -> dict[str, Message | None]:
        try:
            with checked_connection(readable_address(self._url)):
                return {"store": None}
        except (StoreUnavailable, StoreMismatch) as error:
            return {"store": error.message}

    def survives_primary(self) -> bool:
        return bool(addresses(self._url))

    def servers(self) -> Sequence[ServerState]:
        return _servers(self._url)

    def extent(self) -> StoreExtent:
        with self._opened("books") as ask:
            ((size, schema, software),) = ask(_EXTENT)
        return StoreExtent(size, schema, f"PostgreSQL {software.partition(' ')[0]}")

    def permissions(self) -> Permissions | None:
        row = self._row(_PERMISSIONS)
        return Permissions(*row) if row else None

    def fingerprint(self) -> str | None:
        with checked_connection(readable_address(self._url)) as connection:
            return fingerprint_of(connection)


def _address_of(url: str, address: Address) -> str:
    return make_conninfo(url, host=address.host, port=address.port, target_session_attrs="any")


def readable_address(url: str) -> str:
    """Return the address of the primary or, while there is none, of the server that is furthest ahead."""
    answering = [pair for pair in zip(addresses(url), _servers(url), strict=True) if pair[1].horizon]
    if not answering:
        return url
    address, _ = max(answering, key=lambda pair: (pair[1].is_primary, pair[1].horizon))
    return _address_of(url, address)


def _servers(url: str) -> list[ServerState]:
    """Return the current state of each server that the address lists."""

    async def states() -> list[ServerState]:
        return await asyncio.gather(*(_state(url, address) for address in addresses(url)))

    return asyncio.run(states()) if addresses(url) else []


async def _state(url: str, address: Address) -> ServerState:
    try:
        with translated():
            async with asyncio.timeout(ANSWER_SEC):
                server, options = _address_of(url, address), f"-c search_path={SCHEMA}"
                async with await AsyncConnection.connect(server, autocommit=True, options=options) as connection:
                    found = await (await connection.execute(_STATE)).fetchone()
    except StoreUnavailable:
        found = None
    if found is None:
        return ServerState(address.name, ServerRole.AWAY)
    return ServerState(address.name, ServerRole.REPLICA if found[0] else ServerRole.PRIMARY, found[1])
