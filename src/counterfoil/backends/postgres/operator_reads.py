"""Reads keys, audit entries, requests, copies, loads and bill counts of a store on PostgreSQL, for the operator."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date

from psycopg.errors import QueryCanceled

from counterfoil.backends.postgres.admin_connections import Connection, checked_connection
from counterfoil.backends.postgres.audit import latest_entries
from counterfoil.backends.postgres.inspection import readable_address
from counterfoil.backends.postgres.key_store import all_keys
from counterfoil.backends.postgres.usage_admin import TOTALS
from counterfoil.domain.access import Key
from counterfoil.domain.audit import AuditEntry
from counterfoil.domain.calendar import as_number, date_of, thai_midnight
from counterfoil.domain.load_progress import RejectedLine
from counterfoil.operator_reads import (
    HOUR_MS,
    QUERY_SEC,
    SCANNED_REQUESTS,
    BillsOfDay,
    CopyState,
    DayOfKey,
    ErrorGroup,
    HourOfKey,
    LoadRow,
    QueryTooSlow,
    RecordPosition,
    Records,
    RequestFilter,
    RequestPage,
    ShopName,
    copy_states,
    days_of_keys,
    filter_values,
    first_hour,
    hours_of_key,
    load_row,
    plan_search,
    rejected_line,
    request_page,
    shop_names,
)

# Records are never updated, so the physical position of a record in its partition does not change. Records with the
# same time, which are always in the same partition, are sorted by this position.
_NUMBER = "((ctid::text::point)[0]::bigint * 65536 + (ctid::text::point)[1]::bigint)"
_COLUMNS = f"{_NUMBER}, at, request_id, key_id, route, status, error, took_us, personal_base, personal_members"
_RECORDS: Mapping[Records, str] = {
    Records.WITH_ID: "request_id = %(request_id)s",
    Records.FAILED: "error IS NOT NULL",
    Records.DISCLOSURES: "personal_base IS NOT NULL",
    Records.DISCLOSURES_TO_KEY: "key_id = %(key_id)s AND personal_base IS NOT NULL",
    Records.OF_KEY: "key_id = %(key_id)s",
    Records.ALL: "true",
}
_CONDITIONS: Mapping[str, str] = {
    "key_id": "key_id = %(key_id)s",
    "route": "route = %(route)s",
    "status": "status = %(status)s",
    "error": "error = %(error)s",
    "slower_than_us": "took_us > %(slower_than_us)s",
    "personal_data": "personal_base IS NOT NULL",
    "since": "at >= %(since)s",
    "until": "at < %(until)s",
    # The comparison `at <= ...` is redundant, but lets PostgreSQL start its index scan at the right entry.
    "before": f"at <= %(before_at)s AND (at < %(before_at)s OR {_NUMBER} < %(before_number)s)",
}
_NEWEST_FIRST = f"ORDER BY at DESC, {_NUMBER} DESC"
_FROM_SCANNED = f"at >= %(last_at)s AND (at > %(last_at)s OR {_NUMBER} >= %(last_number)s)"
_ERRORS_IN_DAYS = "SELECT key_id, day, error, count FROM daily_errors WHERE day BETWEEN %(first)s AND %(last)s"
_HOURS = f"SELECT at / {HOUR_MS}, count(*) FROM requests WHERE key_id = %s AND at >= %s GROUP BY 1"  # noqa: S608
_FAILED_HOURS = f"""
    SELECT at / {HOUR_MS}, count(*) FROM requests WHERE key_id = %s AND at >= %s AND error IS NOT NULL GROUP BY 1
"""  # noqa: S608 - contains only a number
_ERRORS = """
    SELECT error, route, count(*), max(at) FROM requests
    WHERE at >= %(since)s AND error IS NOT NULL AND (%(key_id)s::text IS NULL OR key_id = %(key_id)s)
    GROUP BY error, route ORDER BY count(*) DESC, error COLLATE "C", route COLLATE "C"
"""
# Each step of the recursion jumps to the next key in the index, so the cost depends only on the number of keys.
_LATEST_BY_KEY = """
    WITH RECURSIVE used (key_id) AS (
        (SELECT key_id FROM requests WHERE {part} ORDER BY key_id LIMIT 1)
        UNION ALL
        SELECT (SELECT r.key_id FROM requests AS r WHERE r.key_id > used.key_id AND {part} ORDER BY r.key_id LIMIT 1)
        FROM used WHERE used.key_id IS NOT NULL
    )
    SELECT key_id, (
        SELECT r.at FROM requests AS r WHERE r.key_id = used.key_id AND {part} ORDER BY r.at DESC LIMIT 1
    )
    FROM used WHERE key_id IS NOT NULL
"""
_LAST_USED = _LATEST_BY_KEY.format(part="true")
_LAST_DISCLOSED = _LATEST_BY_KEY.format(part="personal_base IS NOT NULL")
_LAST_DAYS = """
    SELECT key_id, max(day) FROM (
        SELECT key_id, day FROM daily_totals WHERE count > 0 UNION ALL SELECT key_id, day FROM meters WHERE n > 0
    ) AS used GROUP BY key_id
"""
_COPIES = """
    SELECT lineage, list_name, shop_id, server_time, ended_at, continued_at, covered FROM passes WHERE lineage = %s
    ORDER BY list_name, shop_id
"""
_ALL_COPIES = """
    SELECT lineage, list_name, shop_id, server_time, ended_at, continued_at, covered FROM passes
    ORDER BY lineage, list_name, shop_id
"""
_SHOP_BODIES = "SELECT body FROM shops WHERE NOT removed"
_LOADS = """
    SELECT number, source, started_at, seen_at, finished_at, lines, changed, rejected, reasons, rejects_file
    FROM loads ORDER BY number DESC LIMIT %s
"""
_REJECTS = "SELECT source, line, reason, fields FROM rejected_lines WHERE load = %s ORDER BY place LIMIT %s"

# Bills of a stale day are counted directly, because the stored total is out of date.
_BILLS_PER_DAY = """
    SELECT * FROM (
        SELECT id, bill_day, CASE WHEN stale = 0 THEN day_totals.bills ELSE
            (SELECT count(*) FROM bills WHERE bills.shop = day_totals.shop AND bills.bill_day = day_totals.bill_day)
        END AS counted
        FROM shops JOIN day_totals ON shop = number
        WHERE bill_day BETWEEN %s AND %s
    ) AS days WHERE counted > 0 ORDER BY id, bill_day
"""


class PostgresOperatorReads:
    """Reads in read-only transactions.

    While there is no primary, it reads from the replica that is furthest ahead.
    """

    def __init__(self, url: str, query_sec: float = QUERY_SEC, scanned: int = SCANNED_REQUESTS) -> None:
        self._url = url
        self._query_sec = query_sec
        self._scanned = scanned

    def close(self) -> None:
        """Do nothing: every method closes its own connection."""

    def keys(self) -> list[Key]:
        with self._opened() as connection:
            return all_keys(connection)

    def audit(self, most: int, key_id: str | None = None, since: int = 0) -> list[AuditEntry]:
        with self._opened() as connection:
            return latest_entries(connection, most, key_id, since)

    def shop_names(self) -> list[ShopName]:
        with self._opened() as connection:
            return shop_names(connection.execute(_SHOP_BODIES).fetchall())

    def bills(self, first: date, last: date) -> list[BillsOfDay]:
        with self._opened() as connection:
            rows = connection.execute(_BILLS_PER_DAY, (as_number(first), as_number(last))).fetchall()
        return [BillsOfDay(shop_id, date_of(day), count) for shop_id, day, count in rows]

    def requests(self, wanted: RequestFilter, limit: int) -> RequestPage:
        plan = plan_search(wanted)
        among = "FROM requests WHERE " + " AND ".join(
            [_RECORDS[plan.records], *(_CONDITIONS[name] for name in plan.bounds)]
        )
        values = filter_values(wanted)
        last_scanned: RecordPosition | None = None
        with self._opened() as connection:
            if plan.checks:
                ending = f"SELECT at, {_NUMBER} {among} {_NEWEST_FIRST} LIMIT 1 OFFSET {self._scanned - 1}"
                row = connection.execute(ending.encode(), values).fetchone()
                last_scanned = (row[0], row[1]) if row else None
                among = " AND ".join([among, *(_CONDITIONS[name] for name in plan.checks)])
            if last_scanned:
                among += f" AND {_FROM_SCANNED}"
                values |= {"last_at": last_scanned[0], "last_number": last_scanned[1]}
            query = f"SELECT {_COLUMNS} {among} {_NEWEST_FIRST} LIMIT %(limit)s"
            rows = connection.execute(query.encode(), values | {"limit": limit + 1}).fetchall()
        return request_page(rows, limit, last_scanned)

    def days(self, first: date, last: date, key_id: str | None = None) -> list[DayOfKey]:
        span = {"first": as_number(first), "last": as_number(last)}
        with self._opened() as connection:
            counts = connection.execute(TOTALS, span).fetchall()
            errors = connection.execute(_ERRORS_IN_DAYS, span).fetchall()
        return days_of_keys(counts, errors, key_id)

    def hours(self, key_id: str, since: int) -> list[HourOfKey]:
        wanted = (key_id, first_hour(since))
        with self._opened() as connection:
            requests = connection.execute(_HOURS.encode(), wanted).fetchall()
            failed = connection.execute(_FAILED_HOURS.encode(), wanted).fetchall()
        return hours_of_key(requests, failed)

    def errors(self, since: int, key_id: str | None = None) -> list[ErrorGroup]:
        with self._opened() as connection:
            rows = connection.execute(_ERRORS, {"since": since, "key_id": key_id}).fetchall()
        return [ErrorGroup(*row) for row in rows]

    def last_used(self) -> dict[str, int]:
        with self._opened() as connection:
            days = connection.execute(_LAST_DAYS).fetchall()
            recorded = connection.execute(_LAST_USED.encode()).fetchall()
        return {key_id: thai_midnight(date_of(day)) for key_id, day in days} | dict(recorded)

    def last_disclosed(self) -> dict[str, int]:
        with self._opened() as connection:
            return dict(connection.execute(_LAST_DISCLOSED.encode()).fetchall())

    def copies(self, lineage: str) -> list[CopyState]:
        with self._opened() as connection:
            rows = connection.execute(_COPIES, (lineage,)).fetchall()
        return copy_states(rows).get(lineage, [])

    def all_copies(self) -> dict[str, list[CopyState]]:
        with self._opened() as connection:
            return copy_states(connection.execute(_ALL_COPIES).fetchall())

    def loads(self, limit: int) -> list[LoadRow]:
        with self._opened() as connection:
            rows = connection.execute(_LOADS, (limit,)).fetchall()
        return [load_row(row) for row in rows]

    def rejects(self, load: int, limit: int) -> list[RejectedLine]:
        with self._opened() as connection:
            rows = connection.execute(_REJECTS, (load, limit)).fetchall()
        return [rejected_line(row) for row in rows]

    @contextmanager
    def _opened(self) -> Iterator[Connection]:
        """Yield a connection in a read-only transaction. The server stops statements that take too long."""
        with checked_connection(readable_address(self._url)) as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            connection.execute(f"SET LOCAL statement_timeout = {round(self._query_sec * 1000)}".encode())
            try:
                yield connection
            except QueryCanceled as error:
                raise QueryTooSlow(f"PostgreSQL: the query took longer than {self._query_sec:g} s") from error
