"""Deliberate faults like those known from other products. None of them is in the shipped code."""

import sqlite3
from pathlib import Path
from typing import Any

from counterfoil.backends.sqlite.books import SqliteBooks
from counterfoil.backends.sqlite.files import read_only
from counterfoil.backends.sqlite.ledger import SqliteLedger
from counterfoil.backends.sqlite.usage import SqliteCursors
from counterfoil.client.pull import Puller
from counterfoil.client.pull_state import State
from counterfoil.domain.access import Admitted, Key, Scope, TooFast
from counterfoil.domain.batch import Batch
from counterfoil.domain.paging import Listing, Position, StoredCursor
from counterfoil.ports import BillPage, Clock
from running_service import ManualClock
from sync.in_process import StoreParts
from sync.pullers import PulledCopy
from sync.replicas import MeterWithFloors, Servers
from sync.state_machine import SyncMachine


class StampBeforeLock(SqliteLedger):
    """Takes the stamp for its changes before it waits for the write lock."""

    _drawn: list[int]
    _used: int | None = None

    def pauses(self) -> None:
        self._drawn = [*getattr(self, "_drawn", []), max(self._clock.now_ms(), self._horizon() + 1)]

    def commits(self, which: int) -> None:
        self._used = self._drawn.pop(which)

    def committed(self) -> None:
        self._used = None

    def _take_stamp(self) -> tuple[int, int]:
        if self._used is None:
            return super()._take_stamp()
        self._connection.execute("UPDATE horizon SET at = max(at, ?)", (self._used,))
        return self._used, self._clock.now_ms()


class ServerTimeIsNow(SqliteBooks):
    """Reports the current time instead of the horizon."""

    clock: Clock = ManualClock()

    def _horizon(self) -> int:
        return self.clock.now_ms()


class ExclusiveLowerBound(SqliteBooks):
    """Selects changes with `>` instead of `>=`."""

    async def bills_by_change(
        self, scope: Scope, shop_id: str, since: int, *rest: Any, **named: Any
    ) -> BillPage | None:
        return await super().bills_by_change(scope, shop_id, since + 1, *rest, **named)


class UnboundedPass(SqliteBooks):
    """Does not bound the pages of a pass by the horizon of the first page."""

    async def bills_by_change(
        self, scope: Scope, shop_id: str, since: int, until: int | None, *rest: Any, **named: Any
    ) -> BillPage | None:
        del until
        return await super().bills_by_change(scope, shop_id, since, None, *rest, **named)


class CurrentRowPosition(SqliteCursors):
    """Continues from the current position of the cursor's row, not from its position when the cursor was handed out."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        super().__init__(connection, clock)
        usage_file: str = connection.execute("PRAGMA database_list").fetchone()[2]
        self._books = read_only(Path(usage_file).parent, "books")

    async def find(self, listing: Listing, cursor: str) -> StoredCursor | None:
        held = await super().find(listing, cursor)
        found = self._books.execute("SELECT updated_at FROM bills WHERE id = ?", (cursor,)).fetchone()
        if held is None or not found or not listing.uses_latest_horizon:
            return held
        return held.at(Position(found[0], 0, cursor))


class LatestPositionWins(SqliteCursors):
    """Always hands out the row's ID, even if a client holds it as a cursor for another position."""

    _OVERWRITE = """
        UPDATE cursors SET major = ?5, minor = ?6, latest = ?7
        WHERE lineage = ?1 AND resource = ?2 AND query = ?3 AND cursor = ?4
    """

    async def hand_out(self, listing: Listing, held: StoredCursor, fresh: str | None) -> str | None:
        position = held.position
        handed_out = await super().hand_out(listing, held, fresh or f"fresh {position}")
        if handed_out != position.id:
            key = (listing.lineage, listing.resource, listing.query, position.id)
            self._connection.execute(self._OVERWRITE, (*key, position.major, position.minor, held.latest))
        return position.id


class LatestHorizonByDay(SqliteCursors):
    """In a list by day or of members, lets readers that share a cursor continue with the latest of their horizons."""

    async def find(self, listing: Listing, cursor: str) -> StoredCursor | None:
        held = await super().find(listing, cursor)
        return held and StoredCursor(held.position, held.latest, held.latest)


class EarliestHorizonByChange(SqliteCursors):
    """In a list by change, lets readers that share a cursor continue with the earliest of their horizons."""

    async def find(self, listing: Listing, cursor: str) -> StoredCursor | None:
        held = await super().find(listing, cursor)
        return held and StoredCursor(held.position, held.earliest, held.earliest)


class ReadsFromAnyServer(Servers):
    """Also reads from servers that have not reached the caller's floor."""

    async def is_fit(self, books: SqliteBooks, reached: int) -> bool:  # noqa: ARG002 - that is the fault
        return True


class ForgetsFloors(MeterWithFloors):
    """Does not apply floors: serverTime is the horizon of whichever server answers the request."""

    async def admit(self, key: Key) -> Admitted | TooFast:
        return await self._meter.admit(key)


class FeedMarkIsNow(SqliteBooks):
    """Ends each pass through the feed at the current time instead of at the horizon."""

    clock: Clock = ManualClock()

    async def horizon(self) -> int:
        return self.clock.now_ms()


class WritesAfterwards(SqliteLedger):
    """Corrupts data that the feed depends on, in the transaction that writes it."""

    damage: str

    def _write(self, batch: Batch) -> None:
        super()._write(batch)
        self._connection.execute(self.damage)


class PullerThatMarksLate(Puller):
    """After each pass, makes another pass, discards its elements and stores its mark."""

    def _end_pass(self, state: State, mark: str, now: str) -> None:
        for page in self._client.change_pages(since=mark):
            mark = page.mark or mark
        super()._end_pass(state, mark, now)


class CopyThatMarksLate(PulledCopy):
    puller = PullerThatMarksLate


def faulty(kind: type[SyncMachine] = SyncMachine, **replaced: object) -> type[SyncMachine]:
    return type("FaultyMachine", (kind,), replaced)


def with_parts(**parts: Any) -> type[SyncMachine]:
    return faulty(parts=StoreParts(**parts))


def damaging(statement: str) -> type[SyncMachine]:
    """Return a machine whose ledger runs this statement after each write."""
    return with_parts(ledger=type("DamagingLedger", (WritesAfterwards,), {"damage": statement}))
