"""Deliberate faults like those known from other products. None of them is in the shipped code."""

import sqlite3
from pathlib import Path

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
from sync.replicas import LaggingReplicaMachine, LaggingReplicaService, MeterWithFloors, Servers
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
        self,
        scope: Scope,
        shop_id: str,
        since: int,
        until: int | None,
        after: Position | None,
        limit: int,
        reached: int = 0,
    ) -> BillPage | None:
        return await super().bills_by_change(scope, shop_id, since + 1, until, after, limit, reached)


class UnboundedPass(SqliteBooks):
    """Does not bound the pages of a pass by the horizon of the first page."""

    async def bills_by_change(
        self,
        scope: Scope,
        shop_id: str,
        since: int,
        until: int | None,  # noqa: ARG002 - that is the fault
        after: Position | None,
        limit: int,
        reached: int = 0,
    ) -> BillPage | None:
        return await super().bills_by_change(scope, shop_id, since, None, after, limit, reached)


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


class _WritesAfterwards(SqliteLedger):
    """Corrupts data that the feed depends on, in the transaction that writes it."""

    damage: str

    def _write(self, batch: Batch) -> None:
        super()._write(batch)
        self._connection.execute(self.damage)


class ForgetsWhenShopsJoined(_WritesAfterwards):
    damage = "UPDATE shop_changes SET joined_at = 0"


class ForgetsWhenHistoryWasLoaded(_WritesAfterwards):
    damage = "UPDATE bills SET loaded_at = 0"


class ForgetsRemovals(_WritesAfterwards):
    damage = "DELETE FROM removed_bills"


class ForgetsDepartures(_WritesAfterwards):
    damage = "DELETE FROM departures"


class ServiceReadingAnyServer(LaggingReplicaService):
    servers = ReadsFromAnyServer


class ServiceWithoutFloors(LaggingReplicaService):
    meter = ForgetsFloors


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


MACHINES = {
    "stamp taken before the lock": faulty(parts=StoreParts(ledger=StampBeforeLock)),
    "serverTime is now": faulty(parts=StoreParts(books=ServerTimeIsNow)),
    "cursor read at its row's present position": faulty(parts=StoreParts(cursors=CurrentRowPosition)),
    "latest position of a cursor wins": faulty(parts=StoreParts(cursors=LatestPositionWins)),
    "latest horizon by day": faulty(parts=StoreParts(cursors=LatestHorizonByDay)),
    "earliest horizon by change": faulty(parts=StoreParts(cursors=EarliestHorizonByChange)),
    "reads from any server": faulty(LaggingReplicaMachine, lagging=ServiceReadingAnyServer),
    "each server reports its own time": faulty(LaggingReplicaMachine, lagging=ServiceWithoutFloors),
    "greater instead of greater or equal": faulty(parts=StoreParts(books=ExclusiveLowerBound)),
    "pass without end": faulty(parts=StoreParts(books=UnboundedPass)),
    "puller's mark taken after the last page": faulty(copy=CopyThatMarksLate),
    "feed ends at the clock": faulty(parts=StoreParts(books=FeedMarkIsNow)),
    "feed forgets when shops joined": faulty(parts=StoreParts(ledger=ForgetsWhenShopsJoined)),
    "feed forgets when history was loaded": faulty(parts=StoreParts(ledger=ForgetsWhenHistoryWasLoaded)),
    "feed forgets removals": faulty(parts=StoreParts(ledger=ForgetsRemovals)),
    "feed forgets departures": faulty(parts=StoreParts(ledger=ForgetsDepartures)),
}
