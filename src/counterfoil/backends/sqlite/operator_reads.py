"""Reads keys, audit entries, requests, copies, loads and bill counts of an embedded store, for the operator."""

import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import date
from pathlib import Path

from counterfoil.backends.sqlite.audit import latest_entries
from counterfoil.backends.sqlite.day_totals import BILLS_PER_DAY
from counterfoil.backends.sqlite.files import read_only, translated
from counterfoil.backends.sqlite.keys import all_keys
from counterfoil.backends.sqlite.schema import Name
from counterfoil.backends.sqlite.usage import DAY_OF_ALL, TOTALS_OF_ALL
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

# SQLite checks the time limit each time its virtual machine has run this many steps, which takes less than 1 ms.
STEPS = 10_000

_COLUMNS = "number, at, nullif(request_id, ''), key_id, route, status, error, took_us, personal_base, personal_members"
# For each set of records, the index that contains the set and the condition that selects it. The statements name the
# index, because SQLite might choose a different index if ANALYZE has not been run.
_RECORDS: Mapping[Records, tuple[str, str]] = {
    Records.WITH_ID: ("requests_by_id", "request_id = :request_id AND request_id > ''"),
    Records.FAILED: ("requests_failed", "error IS NOT NULL"),
    Records.DISCLOSURES: ("requests_with_personal_data", "personal_base IS NOT NULL"),
    Records.DISCLOSURES_TO_KEY: ("disclosures_by_key", "key_id = :key_id AND personal_base IS NOT NULL"),
    Records.OF_KEY: ("requests_by_key", "key_id = :key_id AND request_id IS NOT NULL"),
    Records.ALL: ("requests_by_time", "true"),
}
_CONDITIONS: Mapping[str, str] = {
    "key_id": "key_id = :key_id",
    "route": "route = :route",
    "status": "status = :status",
    "error": "error = :error",
    "slower_than_us": "took_us > :slower_than_us",
    "personal_data": "personal_base IS NOT NULL",
    "since": "at >= :since",
    "until": "at < :until",
    # The comparison `at <= ...` is redundant, but lets SQLite start its index scan at the right entry.
    "before": "at <= :before_at AND (at < :before_at OR number < :before_number)",
}
_NEWEST_FIRST = "ORDER BY at DESC, number DESC"
_FROM_SCANNED = "at >= :last_at AND (at > :last_at OR number >= :last_number)"
_ERRORS_IN_DAYS = "SELECT key_id, day, error, count FROM daily_errors WHERE day BETWEEN ?1 AND ?2"
_HOURS = f"""
    SELECT at / {HOUR_MS}, count(*) FROM requests INDEXED BY requests_by_key
    WHERE key_id = ?1 AND at >= ?2 AND request_id IS NOT NULL GROUP BY 1
"""  # noqa: S608 - contains only a number
_FAILED_HOURS = f"""
    SELECT at / {HOUR_MS}, count(*) FROM requests INDEXED BY requests_failed
    WHERE key_id = ?1 AND at >= ?2 AND error IS NOT NULL GROUP BY 1
"""  # noqa: S608 - contains only a number
_ERRORS = """
    SELECT error, route, count(*), max(at) FROM requests INDEXED BY requests_failed
    WHERE at >= ?1 AND error IS NOT NULL AND (?2 IS NULL OR key_id = ?2)
    GROUP BY error, route ORDER BY count(*) DESC, error, route
"""
# Each step of the recursion jumps to the next key in the index, so the cost depends only on the number of keys.
_LATEST_BY_KEY = """
    WITH RECURSIVE used (key_id) AS (
        SELECT min(key_id) FROM requests INDEXED BY {index} WHERE {part}
        UNION ALL
        SELECT (SELECT min(key_id) FROM requests INDEXED BY {index} WHERE key_id > used.key_id AND {part})
        FROM used WHERE used.key_id IS NOT NULL
    )
    SELECT key_id, (SELECT max(at) FROM requests INDEXED BY {index} WHERE key_id = used.key_id AND {part})
    FROM used WHERE key_id IS NOT NULL
"""
_LAST_USED = _LATEST_BY_KEY.format(index="requests_by_key", part="request_id IS NOT NULL")
_LAST_DISCLOSED = _LATEST_BY_KEY.format(index="disclosures_by_key", part="personal_base IS NOT NULL")
_LAST_DAYS = """
    SELECT key_id, max(day) FROM (
        SELECT key_id, day FROM daily_totals WHERE count > 0 UNION ALL SELECT key_id, day FROM admissions
    ) GROUP BY key_id
"""
_COPIES = """
    SELECT lineage, list_name, shop_id, server_time, ended_at, continued_at, covered FROM passes WHERE lineage = ?
    ORDER BY list_name, shop_id
"""
_ALL_COPIES = """
    SELECT lineage, list_name, shop_id, server_time, ended_at, continued_at, covered FROM passes
    ORDER BY lineage, list_name, shop_id
"""
_SHOP_BODIES = "SELECT body FROM shops WHERE NOT removed"
_LOADS = """
    SELECT number, source, started_at, seen_at, finished_at, lines, changed, rejected, reasons, rejects_file
    FROM loads ORDER BY number DESC LIMIT ?
"""
_REJECTS = "SELECT source, line, reason, fields FROM rejected_lines WHERE load = ? ORDER BY place LIMIT ?"


class SqliteOperatorReads:
    """Reads over read-only connections. Each call opens a new one, so that after a restore it reads the new files."""

    def __init__(self, folder: Path, query_sec: float = QUERY_SEC, scanned: int = SCANNED_REQUESTS) -> None:
        self._folder = folder
        self._query_sec = query_sec
        self._scanned = scanned

    def close(self) -> None:
        """Do nothing: every method closes its own connection."""

    def keys(self) -> list[Key]:
        with self._opened("keys") as connection:
            return all_keys(connection)

    def audit(self, most: int, key_id: str | None = None, since: int = 0) -> list[AuditEntry]:
        with self._opened("keys") as connection:
            return latest_entries(connection, most, key_id, since)

    def shop_names(self) -> list[ShopName]:
        with self._opened("books") as connection:
            return shop_names(connection.execute(_SHOP_BODIES).fetchall())

    def bills(self, first: date, last: date) -> list[BillsOfDay]:
        with self._opened("books") as connection:
            rows = connection.execute(BILLS_PER_DAY, (as_number(first), as_number(last))).fetchall()
        return [BillsOfDay(shop_id, date_of(day), count) for shop_id, day, count in rows]

    def requests(self, wanted: RequestFilter, limit: int) -> RequestPage:
        plan = plan_search(wanted)
        index, condition = _RECORDS[plan.records]
        among = f"FROM requests INDEXED BY {index} WHERE " + " AND ".join(
            [condition, *(_CONDITIONS[name] for name in plan.bounds)]
        )
        values = filter_values(wanted)
        last_scanned: RecordPosition | None = None
        with self._opened("usage") as connection:
            if plan.checks:
                ending = f"SELECT at, number {among} {_NEWEST_FIRST} LIMIT 1 OFFSET {self._scanned - 1}"
                last_scanned = connection.execute(ending, values).fetchone()
                among = " AND ".join([among, *(_CONDITIONS[name] for name in plan.checks)])
            if last_scanned:
                among += f" AND {_FROM_SCANNED}"
                values |= {"last_at": last_scanned[0], "last_number": last_scanned[1]}
            query = f"SELECT {_COLUMNS} {among} {_NEWEST_FIRST} LIMIT :limit"
            rows = connection.execute(query, values | {"limit": limit + 1}).fetchall()
        return request_page(rows, limit, last_scanned)

    def days(self, first: date, last: date, key_id: str | None = None) -> list[DayOfKey]:
        span = (as_number(first), as_number(last))
        with self._opened("usage") as connection:
            # Both queries may return a count for the same key and day. The newer one, from the second query, is used.
            counts = [row for query in (TOTALS_OF_ALL, DAY_OF_ALL) for row in connection.execute(query, span)]
            errors = connection.execute(_ERRORS_IN_DAYS, span).fetchall()
        return days_of_keys(counts, errors, key_id)

    def hours(self, key_id: str, since: int) -> list[HourOfKey]:
        wanted = (key_id, first_hour(since))
        with self._opened("usage") as connection:
            requests = connection.execute(_HOURS, wanted).fetchall()
            failed = connection.execute(_FAILED_HOURS, wanted).fetchall()
        return hours_of_key(requests, failed)

    def errors(self, since: int, key_id: str | None = None) -> list[ErrorGroup]:
        with self._opened("usage") as connection:
            return [ErrorGroup(*row) for row in connection.execute(_ERRORS, (since, key_id)).fetchall()]

    def last_used(self) -> dict[str, int]:
        with self._opened("usage") as connection:
            days = connection.execute(_LAST_DAYS).fetchall()
            recorded = connection.execute(_LAST_USED).fetchall()
        return {key_id: thai_midnight(date_of(day)) for key_id, day in days} | dict(recorded)

    def last_disclosed(self) -> dict[str, int]:
        with self._opened("usage") as connection:
            return dict(connection.execute(_LAST_DISCLOSED).fetchall())

    def copies(self, lineage: str) -> list[CopyState]:
        with self._opened("usage") as connection:
            rows = connection.execute(_COPIES, (lineage,)).fetchall()
        return copy_states(rows).get(lineage, [])

    def all_copies(self) -> dict[str, list[CopyState]]:
        with self._opened("usage") as connection:
            return copy_states(connection.execute(_ALL_COPIES).fetchall())

    def loads(self, limit: int) -> list[LoadRow]:
        with self._opened("books") as connection:
            rows = connection.execute(_LOADS, (limit,)).fetchall()
        return [load_row(row) for row in rows]

    def rejects(self, load: int, limit: int) -> list[RejectedLine]:
        with self._opened("books") as connection:
            rows = connection.execute(_REJECTS, (load, limit)).fetchall()
        return [rejected_line(row) for row in rows]

    @contextmanager
    def _opened(self, name: Name) -> Iterator[sqlite3.Connection]:
        """Yield a read-only connection whose queries are stopped at the time limit."""
        deadline = time.monotonic() + self._query_sec
        with translated(), closing(read_only(self._folder, name)) as connection:
            connection.set_progress_handler(lambda: time.monotonic() > deadline, STEPS)
            try:
                connection.execute("BEGIN")
                yield connection
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
                    raise QueryTooSlow(f"SQLite: the query took longer than {self._query_sec:g} s") from error
                raise
