"""Usage: the exact minute window, the day count, and the request records.

Requests that arrive together are admitted or refused in one round trip, which
also writes the records of requests that have finished. A key's row lock makes
its window exact across all nodes; the clock is the server's.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import closing
from datetime import date
from typing import Any

from counterfoil.backends.postgres.connections import GATE_SEC, ReconnectingConnection, translated
from counterfoil.backends.postgres.servers import Servers
from counterfoil.domain.access import Key
from counterfoil.domain.allowance import (
    DAILY_TOTAL_DAYS,
    REQUEST_RECORD_DAYS,
    Admitted,
    TooFast,
    retry_after,
)
from counterfoil.domain.calendar import as_number, date_of, days_until, thai_day
from counterfoil.ports import Clock, RequestRecord, StoreUnavailable, StoreUnreachable

DAY_MS = 86_400_000
# Records that no admission has written by then are written after this long.
RECORDS_SEC = 0.25
# At most this many records wait for an unreachable primary; then the oldest are deleted.
RECORDS_WAITING = 100_000
PRUNE_ROWS = 5_000

# Replaces the server's clock: returns the instant of an admission in microseconds and its day in Thailand time.
Instant = Callable[[], tuple[int, date]]

_ADMIT = "SELECT place, wait_us, day, count, NULL FROM admit($1, $2, $3, $4)"
# Used with several servers: see docs/decisions/0015-monotonic-reads.md.
_ADMIT_WITH_HORIZON = "SELECT place, wait_us, day, count, horizon FROM admit_with_horizon($1, $2, $3, $4, $5, $6)"
_RECORDS = """
    INSERT INTO requests (at, key_id, route, status, error, took_us, personal_base, personal_members)
    SELECT * FROM unnest({0}1::bigint[], {0}2::text[], {0}3::text[], {0}4::integer[], {0}5::text[], {0}6::bigint[],
        {0}7::text[], {0}8::integer[])
"""
_RECORD_LATER = _RECORDS.format("$")
_RECORD_NOW = """
    INSERT INTO requests (at, key_id, route, status, error, took_us, personal_base, personal_members)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
"""
_ADMIT_AND_RECORD = f"""
    WITH kept AS ({_RECORDS.format("$")})
    SELECT place, wait_us, day, count, NULL FROM admit($9, $10, $11, $12)
"""  # noqa: S608 - both parts are constants above
_ADMIT_WITH_HORIZON_AND_RECORD = f"""
    WITH kept AS ({_RECORDS.format("$")})
    SELECT place, wait_us, day, count, horizon FROM admit_with_horizon($9, $10, $11, $12, $13, $14)
"""  # noqa: S608 - as above
_MONTH = "SELECT request_month($1)"

_COUNTS = """
    SELECT day, count FROM daily_totals WHERE key_id = $1 AND day BETWEEN $2 AND $3
    UNION ALL
    SELECT day, count FROM meters WHERE key_id = $1 AND day BETWEEN $2 AND $3 AND n > 0
"""
_TOTALS = """
    SELECT key_id, day, count FROM daily_totals WHERE day BETWEEN %(first)s AND %(last)s
    UNION ALL
    SELECT key_id, day, count FROM meters WHERE day BETWEEN %(first)s AND %(last)s AND n > 0
"""
_RAISE_TOTALS = """
    INSERT INTO daily_totals (key_id, day, count)
    SELECT * FROM unnest($1::text[], $2::integer[], $3::bigint[]) AS told (key_id, day, count) ORDER BY key_id, day
    ON CONFLICT (key_id, day) DO UPDATE SET count = excluded.count WHERE daily_totals.count < excluded.count
"""
_HIGHER = """
    SELECT kept.key_id, kept.day, kept.count
    FROM unnest($1::text[], $2::integer[], $3::bigint[]) AS told (key_id, day, count)
    JOIN daily_totals AS kept USING (key_id, day) WHERE kept.count > told.count
"""
_RAISE_NOW = re.sub(r"\$\d", "%s", _RAISE_TOTALS)
_PRUNE_MONTHS = "SELECT drop_request_months(%s)"
_PRUNE_REQUESTS = """
    WITH old AS (SELECT tableoid, ctid FROM requests WHERE at < %s LIMIT %s)
    DELETE FROM requests USING old WHERE requests.tableoid = old.tableoid AND requests.ctid = old.ctid
"""
_PRUNE_TOTALS = "DELETE FROM daily_totals WHERE day < %s"
# Final-day rows of inactive keys.
_PRUNE_METERS = """
    DELETE FROM meters WHERE day < %s
        AND at <= coalesce(%s, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) + ahead - 60000000
    RETURNING key_id
"""
_PRUNE_ADMISSIONS = "DELETE FROM admissions WHERE key_id = ANY(%s)"
_DISCLOSURES = """
    SELECT at, key_id, route, status, error, took_us, personal_base, personal_members
    FROM requests WHERE personal_base IS NOT NULL ORDER BY at DESC LIMIT %s
"""


class PostgresUsage:
    """The meter and the request log."""

    def __init__(self, servers: Servers, url: str, clock: Clock, instant: Instant | None = None) -> None:
        self._servers = servers
        self._url = url
        self._clock = clock
        self._instant = instant
        self._waiting: list[tuple[Key, asyncio.Future[Admitted | TooFast]]] = []
        self._records: list[RequestRecord] = []
        self._months: set[int] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._servers.close()
        self.flush()

    # --- the meter -----------------------------------------------------------

    async def admit(self, key: Key) -> Admitted | TooFast:
        verdict: asyncio.Future[Admitted | TooFast] = asyncio.get_running_loop().create_future()
        if not self._waiting:
            self._start(self._admit_waiting())
        self._waiting.append((key, verdict))
        return await verdict

    async def _admit_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        try:
            verdicts = await self._admit_together([key for key, _ in waiting])
        except StoreUnavailable as error:
            for _, verdict in waiting:
                if not verdict.done():
                    verdict.set_exception(error)
            return
        for (_, verdict), outcome in zip(waiting, verdicts, strict=True):
            if not verdict.done():
                verdict.set_result(outcome)

    async def _admit_together(self, keys: Sequence[Key]) -> list[Admitted | TooFast]:
        now, day = self._instant() if self._instant else (None, None)
        asked: tuple[object, ...] = (
            [key.key_id for key in keys],
            [key.per_min for key in keys],
            now,
            as_number(day) if day else None,
        )
        statement, recording = _ADMIT, _ADMIT_AND_RECORD
        offered = await self._servers.offered()
        if offered is not None:
            statement, recording = _ADMIT_WITH_HORIZON, _ADMIT_WITH_HORIZON_AND_RECORD
            asked += ([key.lineage for key in keys], offered)
        records, self._records = self._records, []
        try:
            if records:
                await self._make_months(records)
                rows = await self._servers.primary.rows(recording, *_columns(records), *asked, within=GATE_SEC)
            else:
                rows = await self._servers.primary.rows(statement, *asked, within=GATE_SEC)
        except BaseException:
            self._records[:0] = records
            raise
        if self._flushing:
            await asyncio.wait({self._flushing})
        verdicts: list[Admitted | TooFast] = [TooFast(1)] * len(keys)
        for place, wait_us, counted_on, count, horizon in rows:
            if wait_us:
                verdicts[place - 1] = TooFast(retry_after(wait_us))
            else:
                self._servers.was_given(horizon or 0)
                verdicts[place - 1] = Admitted(date_of(counted_on), count, horizon)
        return verdicts

    async def counts(self, key: Key, days: Sequence[date]) -> dict[date, int]:
        asked = (key.key_id, as_number(days[0]), as_number(days[-1]))
        try:
            rows = await self._servers.primary.rows(_COUNTS, *asked, within=GATE_SEC)
        except StoreUnreachable:
            if not self._servers.several:
                raise
            rows = await self._servers.of_replica(lambda pool: pool.rows(_COUNTS, *asked, within=GATE_SEC))
        found: dict[date, int] = {}
        for day, count in rows:
            found[date_of(day)] = max(count, found.get(date_of(day), 0))
        return found

    async def raise_totals(self, counts: Mapping[tuple[str, date], int]) -> dict[tuple[str, date], int]:
        """Raise the stored totals to a shared meter's counts; return the stored totals that are higher."""
        told = _total_columns(counts)
        await self._servers.primary.do(_RAISE_TOTALS, *told)
        higher = await self._servers.primary.rows(_HIGHER, *told)
        return {(key_id, date_of(day)): count for key_id, day, count in higher}

    # --- request records -------------------------------------------------------

    def note(self, record: RequestRecord) -> None:
        self._records.append(record)
        if len(self._records) > RECORDS_WAITING:
            # The primary has been unreachable for long: limit the memory that records take.
            del self._records[: RECORDS_WAITING // 10]
        self._flush_soon()

    async def disclose(self, record: RequestRecord) -> None:
        await self._make_months([record])
        await self._servers.primary.do(_RECORD_LATER, *_columns([record]))

    def _flush_soon(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(RECORDS_SEC, self._flush_in_time)

    def _flush_in_time(self) -> None:
        self._timer = None
        self._flushing = self._start(self._flush_later())

    async def _flush_later(self) -> None:
        records, self._records = self._records, []
        try:
            await self._make_months(records)
            await self._servers.primary.do(_RECORD_LATER, *_columns(records))
        except StoreUnavailable:
            # The next admission or the next flush writes them.
            self._records[:0] = records
            self._flush_soon()
        finally:
            self._flushing = None

    async def _make_months(self, records: Sequence[RequestRecord]) -> None:
        for month in {_month(record.at) for record in records} - self._months:
            at = next(record.at for record in records if _month(record.at) == month)
            await self._servers.primary.do(_MONTH, at, within=GATE_SEC)
            self._months.add(month)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def flush(self) -> None:
        """Write the pending records; they stay pending if the store cannot be written."""
        if not self._records:
            return
        with translated(), closing(ReconnectingConnection(self._url)) as line, line().transaction():
            for at in {_month(record.at): record.at for record in self._records}.values():
                line().execute(_MONTH.replace("$1", "%s"), (at,))
            line().cursor().executemany(_RECORD_NOW, [_values(record) for record in self._records])
        self._records.clear()

    # --- for the operator --------------------------------------------------------

    def totals(self, days: int) -> dict[str, dict[date, int]]:
        """Return the counts of the last `days` days, by key."""
        span = days_until(thai_day(self._clock.now_ms()), days)
        found: dict[str, dict[date, int]] = {}
        with translated(), closing(ReconnectingConnection(self._url)) as line:
            for key_id, day, count in line().execute(
                _TOTALS, {"first": as_number(span[0]), "last": as_number(span[-1])}
            ):
                found.setdefault(key_id, {})[date_of(day)] = count
        return found

    def raise_totals_now(self, counts: Mapping[tuple[str, date], int]) -> None:
        """Raise the stored totals like `raise_totals`, from outside the event loop."""
        with translated(), closing(ReconnectingConnection(self._url)) as line:
            line().execute(_RAISE_NOW, _total_columns(counts))

    def disclosures(self, most: int) -> list[RequestRecord]:
        """Return the latest requests that returned personal data, newest first."""
        with translated(), closing(ReconnectingConnection(self._url)) as line:
            rows = line().execute(_DISCLOSURES, (most,)).fetchall()
        return [RequestRecord(**dict(zip(_NAMES, row, strict=True))) for row in rows]

    def checkpoint(self) -> None:
        """Do nothing: PostgreSQL runs its own checkpoints."""

    def prune(self) -> tuple[int, int]:
        """Delete request records older than 90 days and totals older than 400; return both counts."""
        now = self._clock.now_ms()
        cutoff = now - REQUEST_RECORD_DAYS * DAY_MS
        oldest = as_number(thai_day(now - DAILY_TOTAL_DAYS * DAY_MS))
        with translated(), closing(ReconnectingConnection(self._url)) as line:
            (records,) = line().execute(_PRUNE_MONTHS, (cutoff,)).fetchone() or (0,)
            while True:
                gone = line().execute(_PRUNE_REQUESTS, (cutoff, PRUNE_ROWS)).rowcount
                records += gone
                if gone < PRUNE_ROWS:
                    break
            totals = line().execute(_PRUNE_TOTALS, (oldest,)).rowcount
            with line().transaction():
                instant = self._instant()[0] if self._instant else None
                resting = [row[0] for row in line().execute(_PRUNE_METERS, (oldest, instant))]
                line().execute(_PRUNE_ADMISSIONS, (resting,))
        return records, totals


_NAMES = ("at", "key_id", "route", "status", "error", "took_us", "personal_base", "personal_members")


def _values(record: RequestRecord) -> tuple[Any, ...]:
    return tuple(getattr(record, name) for name in _NAMES)


def _columns(records: Sequence[RequestRecord]) -> list[list[Any]]:
    return [[getattr(record, name) for record in records] for name in _NAMES]


def _total_columns(counts: Mapping[tuple[str, date], int]) -> list[list[Any]]:
    return [[key_id for key_id, _ in counts], [as_number(day) for _, day in counts], list(counts.values())]


def _month(at: int) -> int:
    """Return the UTC month of an instant as YYYYMM, as request_month() in the migrations names it."""
    return as_number(thai_day(at - 7 * 3_600_000)) // 100
