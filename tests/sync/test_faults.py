"""The state machine detects every deliberate fault, and finds no fault in the shipped service.

The faults are like those known from other products. None of them is in the shipped code. A scenario is a fixed sequence
of the machine's rules. It passes with the shipped parts and fails with the fault.
"""

import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

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
from sync.readers import Reader
from sync.replicas import LaggingReplicaMachine, MeterWithFloors, Servers
from sync.source_data import Json
from sync.state_machine import SyncMachine

SHOP: Json = {"kind": "shop", "id": "s0", "franchiseId": "f", "closingTime": "02:00", "providerId": None}
MOST_PAGES = 60


# --- faults -----------------------------------------------------------------------


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

    def _take_stamp(self) -> int:
        if self._used is None:
            return super()._take_stamp()
        self._connection.execute("UPDATE horizon SET at = max(at, ?)", (self._used,))
        return self._used


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
        for page in self.client.change_pages(since=mark):
            mark = page.mark or mark
        super()._end_pass(state, mark, now)


class CopyThatMarksLate(PulledCopy):
    puller = PullerThatMarksLate


def faulty(kind: type[SyncMachine] = SyncMachine, **replaced: object) -> type[SyncMachine]:
    """Return a machine with these parts. Only a faulty copy needs copies, which take most of the time."""
    return type("FaultyMachine", (kind,), {"pulled_copies": int("copy" in replaced)} | replaced)


def with_parts(**parts: Any) -> type[SyncMachine]:
    return faulty(parts=StoreParts(**parts))


def damaging(statement: str) -> type[SyncMachine]:
    """Return a machine whose ledger runs this statement after each write."""
    return with_parts(ledger=type("DamagingLedger", (WritesAfterwards,), {"damage": statement}))


# --- scenarios --------------------------------------------------------------------


def bill(number: int, **fields: object) -> Json:
    closed_at = "2025-12-31T12:00:00+07:00"
    return {"kind": "bill", "shopId": "s0", "id": f"b{number}", "closedAt": closed_at, "history": False, **fields}


def begin(machine: SyncMachine, limit: int = 2) -> None:
    machine.begin((SHOP, {**SHOP, "id": "s1"}), (limit,) * 9)
    machine.time_passes(1)
    machine.quiet(reconcile=False)


def one_by_one(machine: SyncMachine, number: int) -> None:
    for each in range(number):
        machine.time_passes(1)
        machine.bills_come_or_change([bill(each)])


def a_late_commit(machine: SyncMachine) -> None:
    begin(machine)
    machine.a_loader_pauses_before_it_commits([bill(1)])
    machine.time_passes(1)
    machine.the_horizon_is_moved()
    for reader in machine.readers:
        reader.finish()
    machine.a_paused_loader_commits(0)


def a_clock_that_steps_back(machine: SyncMachine) -> None:
    begin(machine)
    machine.time_passes(3600)
    for reader in machine.readers:
        reader.finish()
    machine.the_clock_steps(-7200)
    machine.bills_come_or_change([bill(1)])


def a_cursor_whose_row_changes(machine: SyncMachine) -> None:
    begin(machine)
    one_by_one(machine, 6)
    reader = machine.readers[0]
    # The reader requests the shops, then a page that ends with b1.
    for _ in range(2):
        reader.step()
    machine.time_passes(1)
    machine.bills_come_or_change([bill(1, cashier="Ying")])


def a_reader_that_begins_inside_a_tie(machine: SyncMachine) -> None:
    begin(machine)
    machine.time_passes(1)
    machine.bills_come_or_change([bill(number) for number in range(6)])


def changes_on_the_way(machine: SyncMachine) -> None:
    """Every page of an incremental pass is followed by a change. The pass must still end."""
    begin(machine, limit=1)
    one_by_one(machine, 6)
    reader = machine.readers[0]
    reader.step()
    for page in range(MOST_PAGES):
        reader.step()
        if not reader.running:
            return
        machine.time_passes(1)
        machine.bills_come_or_change([bill(page % 6, cashier=f"Nok {page}")])
    raise AssertionError("the pass does not end")


def a_change_behind_the_puller(machine: SyncMachine) -> None:
    begin(machine)
    one_by_one(machine, 6)
    machine.copies[0].pull(meanwhile={4: partial(machine.load, [bill(0, void=True)])})


def two_jobs_read_one_list(machine: SyncMachine) -> None:
    begin(machine, limit=1)
    one_by_one(machine, 6)
    machine.a_second_job_reads_the_list_of_the_first(2, 3, (1, 1), [bill(6), bill(7)], None, 0)


def a_first_read_that_another_overtakes(machine: SyncMachine) -> None:
    """A bill changes after the slow reader has read it by day.

    That reader's mark is the earliest serverTime on the last pages of the shop's lists.
    """
    machine.begin((SHOP, {**SHOP, "id": "s1"}), (2,) * 9)
    one_by_one(machine, 6)
    slow, fast = machine.readers[4], machine.readers[3]
    slow.step()
    slow.step_to_a_cursor()
    machine.time_passes(1)
    machine.bills_come_or_change([bill(0, void=True)])
    machine.the_horizon_is_moved()
    fast.finish()


def a_second_pass_from_the_same_mark(machine: SyncMachine) -> None:
    """The second reader begins after a change, and both first pages end with the same cursor."""
    begin(machine, limit=1)
    one_by_one(machine, 6)
    first, second = machine.readers[2], machine.readers[3]
    first.step()
    first.step_to_a_cursor()
    machine.time_passes(1)
    machine.bills_come_or_change([bill(5, void=True)])
    machine.the_horizon_is_moved()
    second.finish()


def a_new_key_while_replicas_lag(machine: SyncMachine) -> None:
    """The first response for a new key has the primary's horizon. No later page may have an older horizon."""
    machine.begin((SHOP, {**SHOP, "id": "s1"}), (2,) * 9)
    if isinstance(machine, LaggingReplicaMachine):
        machine.service.everyone_catches_up()
    one_by_one(machine, 3)
    machine.readers[2].finish()


def a_mark_from_the_server_that_is_ahead(machine: SyncMachine) -> None:
    """One replica is ahead of the other. On a state machine without replicas, this scenario only loads bills."""
    begin(machine)
    one_by_one(machine, 3)
    if not isinstance(machine, LaggingReplicaMachine):
        return
    for order in ([0, 1], [1, 0]):
        machine.service.views[0].order, machine.service.views[1].order = order, order[::-1]
        machine.a_replica_catches_up(0)
        for node in range(2):
            machine.a_node_looks_at_its_servers(node)
        for reader in machine.readers[2:4]:
            # The nodes take turns, beginning with the node that prefers the server that is ahead.
            machine.service.turn = 1 - order[0]
            reader.finish()
        one_by_one(machine, 3)


WANDERER: Json = {**SHOP, "id": "w0", "franchiseId": "g"}


def a_load_in_the_millisecond_of_a_pass(machine: SyncMachine) -> None:
    begin(machine)
    machine.time_passes(1)
    for reader in machine.feed_readers:
        reader.finish()
    machine.bills_come_or_change([bill(1)])


def a_shop_leaves_loses_a_bill_and_returns(machine: SyncMachine) -> None:
    begin(machine)
    machine.a_shop_moves_to_another_franchise(WANDERER)
    machine.bills_come_to_a_shop_that_moves([bill(1), bill(2)], "w0")
    machine.quiet(reconcile=False)
    machine.a_shop_moves_to_another_franchise({**WANDERER, "franchiseId": "h"})
    machine.load([{"kind": "bill", "shopId": "w0", "id": "b1", "removed": True}])
    for reader in machine.feed_readers:
        reader.finish()
    machine.a_shop_moves_to_another_franchise(WANDERER)


def a_shop_leaves_for_good(machine: SyncMachine) -> None:
    begin(machine)
    machine.a_shop_moves_to_another_franchise(WANDERER)
    machine.quiet(reconcile=False)
    machine.a_shop_moves_to_another_franchise({**WANDERER, "franchiseId": None})


def history_comes_late(machine: SyncMachine) -> None:
    begin(machine)
    machine.bills_come_or_change([bill(1, history=True, closedAt=None)])


def a_bill_goes(machine: SyncMachine) -> None:
    begin(machine)
    one_by_one(machine, 3)
    machine.quiet(reconcile=False)
    machine.a_bill_is_removed(1)


# What is wrong: a machine with this fault, and a scenario that detects it.
FAULTS: dict[str, tuple[type[SyncMachine], Callable[[SyncMachine], None]]] = {
    "stamp taken before the lock": (with_parts(ledger=StampBeforeLock), a_late_commit),
    "serverTime is now": (with_parts(books=ServerTimeIsNow), a_clock_that_steps_back),
    "cursor read at its row's present position": (with_parts(cursors=CurrentRowPosition), a_cursor_whose_row_changes),
    "latest position of a cursor wins": (with_parts(cursors=LatestPositionWins), two_jobs_read_one_list),
    "latest horizon by day": (with_parts(cursors=LatestHorizonByDay), a_first_read_that_another_overtakes),
    "earliest horizon by change": (with_parts(cursors=EarliestHorizonByChange), a_second_pass_from_the_same_mark),
    "reads from any server": (faulty(LaggingReplicaMachine, servers=ReadsFromAnyServer), a_new_key_while_replicas_lag),
    "each server reports its own time": (
        faulty(LaggingReplicaMachine, meter=ForgetsFloors),
        a_mark_from_the_server_that_is_ahead,
    ),
    "greater instead of greater or equal": (with_parts(books=ExclusiveLowerBound), a_reader_that_begins_inside_a_tie),
    "pass without end": (with_parts(books=UnboundedPass), changes_on_the_way),
    "puller's mark taken after the last page": (faulty(copy=CopyThatMarksLate), a_change_behind_the_puller),
    "feed ends at the clock": (with_parts(books=FeedMarkIsNow), a_load_in_the_millisecond_of_a_pass),
    "feed forgets when shops joined": (
        damaging("UPDATE shop_changes SET joined_at = 0"),
        a_shop_leaves_loses_a_bill_and_returns,
    ),
    "feed forgets when history was loaded": (damaging("UPDATE bills SET loaded_at = 0"), history_comes_late),
    "feed forgets removals": (damaging("DELETE FROM removed_bills"), a_bill_goes),
    "feed forgets departures": (damaging("DELETE FROM departures"), a_shop_leaves_for_good),
}


def run_scenario(kind: type[SyncMachine], scenario: Callable[[SyncMachine], None]) -> None:
    """Run a scenario and then check every copy."""
    machine = kind()
    try:
        scenario(machine)
        machine.quiet(reconcile=False)
    finally:
        # Without readers, `teardown` skips its final checks.
        machine.readers = []
        machine.teardown()


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_the_shipped_service_passes_every_scenario(fault: str) -> None:
    machine, scenario = FAULTS[fault]
    run_scenario(LaggingReplicaMachine if issubclass(machine, LaggingReplicaMachine) else SyncMachine, scenario)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_service_or_client_with_the_fault_is_caught(fault: str) -> None:
    with pytest.raises(AssertionError, match=r"missing|'b\d'|does not end|(later|different) serverTime|came twice"):
        run_scenario(*FAULTS[fault])


# --- replicas that lag ------------------------------------------------------------------


class ImpatientReader(Reader):
    """Starts a list again at once after `bad_cursor`."""

    def pause(self, refusals: int) -> None:
        pass


def test_a_reader_that_pauses_ends_although_a_replica_lags_and_one_that_does_not_is_refused_for_ever() -> None:
    machine = LaggingReplicaMachine()
    try:
        begin(machine, limit=1)
        one_by_one(machine, 3)
        machine.the_horizon_is_moved()
        machine.service.everyone_catches_up()
        for _ in range(3):
            machine.a_bill_is_removed(0)
        # Only the second replica learns of the removals, and each node prefers another replica.
        machine.a_replica_catches_up(1)
        machine.a_node_prefers_other_replicas(0, [0, 1])
        machine.a_node_prefers_other_replicas(1, [1, 0])
        patient = machine.readers[2]
        with pytest.raises(AssertionError, match="does not end"):
            ImpatientReader(machine.service, patient.key, limit=1).finish()
        patient.finish()
        machine.quiet(reconcile=False)
    finally:
        machine.readers = []
        machine.teardown()
