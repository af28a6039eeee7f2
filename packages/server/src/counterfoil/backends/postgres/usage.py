"""Counts and records requests: the exact minute window, the daily count, the request records, and cursors.

Requests that arrive together are admitted or refused in one round trip, which also writes the records of finished
requests. A row lock per key keeps the window exact across all nodes. Admissions use the server's clock.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple

from counterfoil.backends.pending_usage import PendingUsage
from counterfoil.backends.postgres.pool import GATE_SEC, is_storable
from counterfoil.backends.postgres.servers import Servers
from counterfoil.backends.stored_cursors import FIND, StoredCursors, held_in, place_of
from counterfoil.domain.access import Admitted, Key, TooFast, retry_after
from counterfoil.domain.paging import LIFETIME_MS, Listing, StoredCursor
from counterfoil.domain.request_records import RequestRecord, RequestTally
from counterfoil.model.calendar import HOUR_MS, as_number, date_of, thai_day
from counterfoil.model.text import counted
from counterfoil.ports import STOP_SAVE_SEC, Clock, StoreUnavailable, StoreUnreachable

# Replaces the server's clock: returns the instant of an admission in microseconds and its day in Thailand time.
Instant = Callable[[], tuple[int, date]]

_ADMIT = "SELECT place, wait_us, day, count, NULL FROM admit($1, $2, $3, $4)"
# With several servers, an admission also returns the horizon to report: see docs/decisions/0015-monotonic-reads.md.
_ADMIT_WITH_HORIZON = "SELECT place, wait_us, day, count, horizon FROM admit_with_horizon($1, $2, $3, $4, $5, $6)"
# The columns are those of a request record, in its order.
_RECORD = """
    INSERT INTO requests (
        at, key_id, route, status, error, took_us, personal_base, personal_members, request_id, detail
    )
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::bigint[],
        $7::text[], $8::integer[], $9::text[], $10::text[])
"""
_ADMIT_AND_RECORD = """
    WITH kept AS (
        INSERT INTO requests (
            at, key_id, route, status, error, took_us, personal_base, personal_members, request_id, detail
        )
        SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::bigint[],
            $7::text[], $8::integer[], $9::text[], $10::text[])
    )
    SELECT place, wait_us, day, count, NULL FROM admit($11, $12, $13, $14)
"""
_ADMIT_WITH_HORIZON_AND_RECORD = """
    WITH kept AS (
        INSERT INTO requests (
            at, key_id, route, status, error, took_us, personal_base, personal_members, request_id, detail
        )
        SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::bigint[],
            $7::text[], $8::integer[], $9::text[], $10::text[])
    )
    SELECT place, wait_us, day, count, horizon FROM admit_with_horizon($11, $12, $13, $14, $15, $16)
"""
_MONTH = "SELECT request_month($1)"
# Rows are locked in a fixed order, so that two nodes cannot deadlock.
_COUNT_ERRORS = """
    INSERT INTO daily_errors AS known (key_id, day, error, count)
    SELECT * FROM unnest($1::text[], $2::integer[], $3::text[], $4::bigint[]) AS counted (key_id, day, error, count)
    ORDER BY key_id COLLATE "C", day, error COLLATE "C"
    ON CONFLICT (key_id, day, error) DO UPDATE SET count = known.count + excluded.count
"""
_RECORD_PASSES = """
    INSERT INTO passes AS known (lineage, list_name, shop_id, server_time, ended_at, continued_at, covered)
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[])
        AS read (lineage, list_name, shop_id, server_time, ended_at, continued_at, covered)
    ORDER BY lineage COLLATE "C", list_name COLLATE "C", shop_id COLLATE "C"
    ON CONFLICT (lineage, list_name, shop_id) DO UPDATE SET
        covered = merge_ranges(known.covered, excluded.covered),
        server_time = greatest(known.server_time, excluded.server_time),
        ended_at = greatest(known.ended_at, excluded.ended_at),
        continued_at = greatest(known.continued_at, excluded.continued_at)
"""

_COUNTS = """
    SELECT day, count FROM daily_totals WHERE key_id = $1 AND day BETWEEN $2 AND $3
    UNION ALL
    SELECT day, count FROM meters WHERE key_id = $1 AND day BETWEEN $2 AND $3 AND n > 0
"""
_RAISE_TOTALS = """
    INSERT INTO daily_totals (key_id, day, count)
    SELECT * FROM unnest($1::text[], $2::integer[], $3::bigint[]) AS meter (key_id, day, count) ORDER BY key_id, day
    ON CONFLICT (key_id, day) DO UPDATE SET count = excluded.count WHERE daily_totals.count < excluded.count
"""
_HIGHER = """
    SELECT kept.key_id, kept.day, kept.count
    FROM unnest($1::text[], $2::integer[], $3::bigint[]) AS meter (key_id, day, count)
    JOIN daily_totals AS kept USING (key_id, day) WHERE kept.count > meter.count
"""


class _InFlight(Struct):
    """Records, error counts and the progress of passes that are being written."""

    records: list[RequestRecord]
    tally: RequestTally


class PostgresUsage(PendingUsage):
    """The meter and the request log."""

    def __init__(self, servers: Servers, instant: Instant | None = None) -> None:
        super().__init__()
        self._servers = servers
        self._instant = instant
        # What is being written, by `id()`. If the worker stops meanwhile, a new connection repeats the write.
        self._in_flight: dict[int, _InFlight] = {}
        self._months: set[int] = set()
        self._flushing: asyncio.Task[None] | None = None

    def close(self, within: float = STOP_SAVE_SEC) -> None:
        """Write pending data and close the connections. Raise StoreUnavailable if that takes longer than `within` s."""
        give_up = time.monotonic() + within
        if self._timer is not None:
            self._timer.cancel()
        self._finish_writing(min(GATE_SEC, within / 2))
        self._servers.close()
        self.flush(give_up - time.monotonic())

    # --- the meter -----------------------------------------------------------

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
        if self._records:
            with self._taken(RequestTally()) as taken:
                await self._make_months(taken.records)
                rows = await self._servers.primary(recording, *_columns(taken.records), *asked, within=GATE_SEC)
        else:
            rows = await self._servers.primary(statement, *asked, within=GATE_SEC)
        if self._flushing:
            await asyncio.wait({self._flushing})
        verdicts: list[Admitted | TooFast] = [TooFast(1)] * len(keys)
        for place, wait_us, counted_on, count, horizon in rows:
            if wait_us:
                verdicts[place - 1] = TooFast(retry_after(wait_us))
            else:
                self._servers.was_reported(horizon or 0)
                verdicts[place - 1] = Admitted(date_of(counted_on), count, horizon)
        return verdicts

    async def counts(self, key: Key, days: Sequence[date]) -> dict[date, int]:
        asked = (key.key_id, as_number(days[0]), as_number(days[-1]))
        try:
            rows = await self._servers.primary(_COUNTS, *asked, within=GATE_SEC)
        except StoreUnreachable:
            if not self._servers.several:
                raise
            rows = await self._servers.on_replica(lambda pool: pool.rows(_COUNTS, *asked, within=GATE_SEC))
        found: dict[date, int] = {}
        for day, count in rows:
            found[date_of(day)] = max(count, found.get(date_of(day), 0))
        return found

    async def raise_totals(self, counts: Mapping[tuple[str, date], int]) -> dict[tuple[str, date], int]:
        """Raise the stored totals to the shared meter's counts. Return the stored totals that are higher."""
        columns = _total_columns(counts)
        await self._servers.primary(_RAISE_TOTALS, *columns)
        higher = await self._servers.primary(_HIGHER, *columns)
        return {(key_id, date_of(day)): count for key_id, day, count in higher}

    def raise_totals_now(self, counts: Mapping[tuple[str, date], int], within: float) -> None:
        """Do the same as `raise_totals` outside the event loop, but return nothing. Time out after `within` seconds."""
        self._servers.write_now(lambda connection: connection.execute(_RAISE_TOTALS, *_total_columns(counts)), within)

    # --- request records -------------------------------------------------------

    async def disclose(self, record: RequestRecord) -> None:
        await self._make_months([record])
        await self._servers.primary(_RECORD, *_columns([record]))

    def _flush_in_time(self) -> None:
        self._flush_due = False
        self._flushing = self._start(self._flush_later())

    async def _flush_later(self) -> None:
        try:
            tally, self._tally = self._tally, RequestTally()
            with self._taken(tally) as taken:
                if taken.records:
                    await self._make_months(taken.records)
                    await self._servers.primary(_RECORD, *_columns(taken.records))
                    taken.records.clear()
                for statement, columns in _tally_statements(taken.tally):
                    await self._servers.primary(statement, *columns)
        except StoreUnavailable:
            # Try again later. The next admission may write the records before that.
            self._flush_soon()
        finally:
            self._flushing = None

    @contextmanager
    def _taken(self, tally: RequestTally) -> Iterator["_InFlight"]:
        """Yield the pending records with a tally. If writing them fails, what is left of them becomes pending again."""
        taken = _InFlight(self._records, tally)
        self._records = []
        self._in_flight[id(taken)] = taken
        try:
            yield taken
        except BaseException:
            if id(taken) in self._in_flight:
                self._put_back(taken)
            raise
        finally:
            self._in_flight.pop(id(taken), None)

    def _put_back(self, taken: "_InFlight") -> None:
        self._records[:0] = taken.records
        self._tally.add_all(taken.tally)

    def _finish_writing(self, within: float) -> None:
        """Wait up to `within` seconds for writes in progress, so that they need not be repeated."""
        running = {task for task in self._tasks if not task.done()}
        for loop in {task.get_loop() for task in running}:
            if not loop.is_closed() and not loop.is_running():
                loop.run_until_complete(asyncio.wait(running, timeout=within))

    async def _make_months(self, records: Sequence[RequestRecord]) -> None:
        times = {_month(record.at): record.at for record in records}
        for month in times.keys() - self._months:
            await self._servers.primary(_MONTH, times[month], within=GATE_SEC)
            self._months.add(month)

    def flush(self, within: float = STOP_SAVE_SEC) -> None:
        """Write pending records and counts from outside the event loop. If the write fails, they stay pending."""
        # It is unknown whether this was written.
        for taken in self._in_flight.values():
            self._put_back(taken)
        self._in_flight.clear()
        if not (self._records or self._tally):
            return
        try:
            self._servers.write_now(self._write_all, within)
        except StoreUnavailable as error:
            records, errors = counted(len(self._records), "request record"), self._tally.errors.total()
            raise type(error)(f"{error}. Not stored: {records} and the counts of {counted(errors, 'error')}") from error
        self._records.clear()
        self._tally = RequestTally()

    async def _write_all(self, connection: Any) -> None:
        for at in {_month(record.at): record.at for record in self._records}.values():
            await connection.execute(_MONTH, at)
        await connection.execute(_RECORD, *_columns(self._records))
        for statement, columns in _tally_statements(self._tally):
            await connection.execute(statement, *columns)


def _columns(records: Sequence[RequestRecord]) -> list[list[Any]]:
    return [[getattr(record, name) for record in records] for name in RequestRecord.__struct_fields__]


def _tally_statements(tally: RequestTally) -> Iterator[tuple[str, list[list[Any]]]]:
    """Yield the statements that write a tally. The statement that must not be repeated comes last."""
    passes = [(*read, *astuple(how_far)) for read, how_far in tally.progress().items()]
    if passes:
        yield _RECORD_PASSES, _columns_of(passes)
    errors = [(*counted, count) for counted, count in tally.errors.items()]
    if errors:
        yield _COUNT_ERRORS, _columns_of(errors)


def _columns_of(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _total_columns(counts: Mapping[tuple[str, date], int]) -> list[list[Any]]:
    return [[key_id for key_id, _ in counts], [as_number(day) for _, day in counts], list(counts.values())]


def _month(at: int) -> int:
    """Return the UTC month of an instant as YYYYMM, like request_month() in the migrations."""
    return as_number(thai_day(at - 7 * HOUR_MS)) // 100


# --- cursors that were handed out: they are on the primary, so that all nodes see them --


_FIND_ON_REPLICA = """
    SELECT found.*, horizon.at FROM horizon LEFT JOIN LATERAL (
        SELECT row_id, major, minor, earliest, latest, ends_at FROM cursors
        WHERE lineage = $1 AND resource = $2 AND query = $3 AND cursor = $4 AND ends_at > $5 AND NOT expired
    ) AS found ON true
"""
# Stores a cursor that was handed out without a primary. A row with its long random ID is the same cursor.
_ADOPT = """
    INSERT INTO cursors (lineage, resource, query, cursor, row_id, major, minor, earliest, latest, ends_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (lineage, resource, query, cursor) DO NOTHING
"""
# Stores a cursor that was lost in a failover or not transferred yet. It overwrites any other cursor with the same ID.
_CORRECT = """
    INSERT INTO cursors (lineage, resource, query, cursor, row_id, major, minor, earliest, latest, ends_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (lineage, resource, query, cursor) DO UPDATE SET
        row_id = excluded.row_id, major = excluded.major, minor = excluded.minor,
        earliest = excluded.earliest, latest = excluded.latest,
        ends_at = excluded.ends_at, expired = false
"""


class PostgresCursors(StoredCursors):
    """Stores cursors on the primary."""

    def __init__(self, servers: Servers, clock: Clock) -> None:
        super().__init__(clock)
        self._servers = servers
        # With several servers, do not wait long for the primary: the bridge may store the cursor instead.
        self._within = GATE_SEC if servers.several else None

    def close(self) -> None:
        self._servers.close()

    async def _found(self, values: tuple[object, ...]) -> Any:
        return await self._first(FIND, values) if all(map(_is_storable, values)) else None

    async def _write(self, statement: str, values: tuple[object, ...]) -> Any:
        return await self._first(statement, values)

    async def _first(self, statement: str, values: tuple[object, ...]) -> Any:
        rows = await self._servers.primary(statement, *values, within=self._within)
        return rows[0] if rows else None

    async def find_on_replica(self, listing: Listing, cursor: str, reached: int) -> StoredCursor | None:
        """Return a cursor as stored on a replica whose horizon is at least `reached`."""
        asked = (*astuple(listing), cursor, self._clock.now_ms())
        if not all(map(_is_storable, asked)):
            return None
        (row,) = await self._servers.rows(_FIND_ON_REPLICA, *asked, reached=reached)
        return held_in(row) if row[0] is not None else None

    async def horizon(self) -> int:
        return await self._servers.newest()

    async def adopt(self, listing: Listing, cursor: str, held: StoredCursor, handed_out_at: int) -> None:
        """Store a cursor that the bridge handed out, unless it is already stored."""
        await self._put(_ADOPT, listing, cursor, held, handed_out_at)

    async def correct(self, listing: Listing, cursor: str, held: StoredCursor) -> None:
        """Store a cursor with the position it was handed out for, overwriting any other position."""
        await self._put(_CORRECT, listing, cursor, held, self._clock.now_ms())

    async def _put(self, statement: str, listing: Listing, cursor: str, held: StoredCursor, handed_out_at: int) -> None:
        terms = (held.earliest, held.latest, handed_out_at + LIFETIME_MS)
        await self._first(statement, (*astuple(listing), cursor, *place_of(held), *terms))


def _is_storable(value: object) -> bool:
    return not isinstance(value, str) or is_storable(value)
