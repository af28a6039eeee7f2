"""Usage for the operator and the supervisor: totals, disclosures, and the deletion of expired data."""

from collections.abc import Callable
from datetime import date

from psycopg.rows import kwargs_row

from counterfoil.backends.postgres.admin_connections import Connection, checked_connection
from counterfoil.domain.allowance import DAILY_TOTAL_DAYS, REQUEST_RECORD_DAYS
from counterfoil.domain.calendar import DAY_MS, as_number, date_of, days_until, thai_day
from counterfoil.domain.paging import RESERVED_MS
from counterfoil.domain.request_records import RequestRecord
from counterfoil.ports import Clock

PRUNE_ROWS = 5_000

# After a switch between the store's own meter and a shared meter, both `meters` and `daily_totals` may have a count for
# the same day. The higher count is newer.
TOTALS = """
    SELECT key_id, day, max(count) FROM (
        SELECT key_id, day, count FROM daily_totals WHERE day BETWEEN %(first)s AND %(last)s
        UNION ALL
        SELECT key_id, day, count FROM meters WHERE day BETWEEN %(first)s AND %(last)s AND n > 0
    ) AS counts GROUP BY key_id, day
"""
_PRUNE_MONTHS = "SELECT drop_request_months(%s)"
_PRUNE_REQUESTS = """
    WITH old AS (SELECT tableoid, ctid FROM requests WHERE at < %s LIMIT %s)
    DELETE FROM requests USING old WHERE requests.tableoid = old.tableoid AND requests.ctid = old.ctid
"""
_PRUNE_TOTALS = "DELETE FROM daily_totals WHERE day < %s"
_PRUNE_ERRORS = "DELETE FROM daily_errors WHERE day < %s"
_PRUNE_PASSES = "DELETE FROM passes WHERE greatest(ended_at, continued_at) < %s"
# Deletes the rows of keys that have not been used for 400 days. Each row holds the count of the key's last active day.
_PRUNE_METERS = """
    DELETE FROM meters WHERE day < %s
        AND at <= coalesce(%s, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) + ahead - 60000000
    RETURNING key_id
"""
_PRUNE_ADMISSIONS = "DELETE FROM admissions WHERE key_id = ANY(%s)"
_DISCLOSURES = """
    SELECT at, key_id, route, status, error, took_us, personal_base, personal_members, request_id
    FROM requests WHERE personal_base IS NOT NULL AND (%(key_id)s::text IS NULL OR key_id = %(key_id)s)
    ORDER BY at DESC LIMIT %(most)s
"""
# The row of an expired cursor is kept for RESERVED_MS, so that its ID stays taken. If the clock is ahead for a while,
# cursors may expire too early, but their rows are not deleted right away.
_DELETE_CURSORS = """
    DELETE FROM cursors WHERE ctid = ANY (ARRAY(SELECT ctid FROM cursors WHERE ends_at <= %s AND expired LIMIT %s))
"""
_EXPIRE_CURSORS = """
    UPDATE cursors SET expired = true, ends_at = %s
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM cursors WHERE ends_at <= %s AND NOT expired LIMIT %s))
        AND NOT expired AND ends_at <= %s
"""


class PostgresUsageAdmin:
    """Request counts and records.

    `meter_us` returns microseconds and replaces the server's clock for the minute window.
    """

    def __init__(self, url: str, clock: Clock, meter_us: Callable[[], int] | None = None) -> None:
        self._url = url
        self._clock = clock
        self._meter_us = meter_us

    def close(self) -> None:
        """Do nothing: every method closes its own connection."""

    def checkpoint(self) -> None:
        """Do nothing: PostgreSQL runs its own checkpoints."""

    def move_recent(self) -> None:
        """Do nothing: on PostgreSQL, records are written to their table at once."""

    def index_requests(self) -> bool:
        """Do nothing: on PostgreSQL, `counterfoil migrate` builds the indexes."""
        return False

    def totals(self, days: int) -> dict[str, dict[date, int]]:
        """Return the counts of the last `days` days, by key."""
        span = days_until(thai_day(self._clock.now_ms()), days)
        found: dict[str, dict[date, int]] = {}
        with checked_connection(self._url) as connection:
            values = {"first": as_number(span[0]), "last": as_number(span[-1])}
            for key_id, day, count in connection.execute(TOTALS, values):
                found.setdefault(key_id, {})[date_of(day)] = count
        return found

    def disclosures(self, most: int, key_id: str | None = None) -> list[RequestRecord]:
        """Return the latest disclosures to one key or to all keys, newest first."""
        with checked_connection(self._url) as connection:
            cursor = connection.cursor(row_factory=kwargs_row(RequestRecord))
            return cursor.execute(_DISCLOSURES, {"most": most, "key_id": key_id}).fetchall()

    def prune(self) -> tuple[int, int]:
        """Delete request records older than 90 days, and counts and pass progress older than 400 days.

        Return the number of records and the number of daily totals deleted.
        """
        now = self._clock.now_ms()
        cutoff = now - REQUEST_RECORD_DAYS * DAY_MS
        oldest = as_number(thai_day(now - DAILY_TOTAL_DAYS * DAY_MS))
        with checked_connection(self._url) as connection:
            (records,) = connection.execute(_PRUNE_MONTHS, (cutoff,)).fetchone() or (0,)
            records += _in_batches(connection, _PRUNE_REQUESTS, (cutoff, PRUNE_ROWS))
            totals = connection.execute(_PRUNE_TOTALS, (oldest,)).rowcount
            connection.execute(_PRUNE_ERRORS, (oldest,))
            connection.execute(_PRUNE_PASSES, (now - DAILY_TOTAL_DAYS * DAY_MS,))
            with connection.transaction():
                meter_us = self._meter_us() if self._meter_us else None
                inactive = [key_id for (key_id,) in connection.execute(_PRUNE_METERS, (oldest, meter_us))]
                connection.execute(_PRUNE_ADMISSIONS, (inactive,))
        return records, totals


class PostgresCursorAdmin:
    """Expires unused cursors, and deletes those that expired long ago."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._url = url
        self._clock = clock

    def close(self) -> None:
        """Do nothing: `prune` closes its own connection."""

    def prune(self) -> int:
        """Delete cursors that expired long ago, expire cursors unused for 7 days, and return how many were expired."""
        now = self._clock.now_ms()
        with checked_connection(self._url) as connection:
            _in_batches(connection, _DELETE_CURSORS, (now, PRUNE_ROWS))
            return _in_batches(connection, _EXPIRE_CURSORS, (now + RESERVED_MS, now, PRUNE_ROWS, now))


def _in_batches(connection: Connection, statement: str, values: tuple[int, ...]) -> int:
    """Repeat a statement that changes at most PRUNE_ROWS rows until none are left to change. Return the total count."""
    total = 0
    while True:
        changed = connection.execute(statement.encode(), values).rowcount
        total += changed
        if changed < PRUNE_ROWS:
            return total
