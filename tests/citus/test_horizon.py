"""The horizon advances only past committed rows: whatever fails, no row appears below a horizon already reported."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest

from citus.cluster import Node, cluster
from citus.store import CitusStore
from counterfoil.backends.postgres.citus import DistributedLedger
from counterfoil.backends.postgres.ledger import PostgresLedger
from counterfoil.domain.changes import BillRow, Outcome, PutMember
from counterfoil.ports import Slice, StoreUnavailable
from counterfoil.program.clock import SystemClock
from ports.conftest import Run
from ports.open_store import PSEUDONYMS, OpenStore, base, bill, gone, member, shop
from waiting import until

PATIENCE_SEC = 60
SHOPS = [f"sh_{number}" for number in range(8)]

_TWO_PHASES = "SELECT gid FROM pg_dist_transaction"
_INSERTS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND state = 'active' AND query LIKE '%INSERT INTO bills%'
    AND application_name = 'counterfoil'
"""
_ALL_PREPARED = """
    SELECT EXISTS (SELECT FROM pg_prepared_xacts WHERE database = current_database()) AND NOT EXISTS (
        SELECT FROM pg_stat_activity
        WHERE datname = current_database() AND application_name LIKE 'citus_internal%' AND state <> 'idle'
    )
"""
_TAKEN = "SELECT taken FROM counterfoil.horizon"
# The trigger is deferred, so it runs when the transaction is committed or prepared.
_AT_COMMIT = """
    SET citus.enable_ddl_propagation TO off;
    CREATE FUNCTION counterfoil.at_commit() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        {does};
        RETURN NULL;
    END $$;
    DO $$
    DECLARE
        shard text;
    BEGIN
        FOR shard IN SELECT tablename FROM pg_tables WHERE tablename ~ '^{table}_[0-9]+$' LOOP
            EXECUTE format(
                'CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT OR UPDATE OR DELETE ON counterfoil.%I '
                'DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION counterfoil.at_commit()', shard
            );
        END LOOP;
    END $$;
"""


_AS_ALWAYS = "SET citus.enable_ddl_propagation TO off; DROP FUNCTION counterfoil.at_commit CASCADE"


@contextmanager
def at_commit(database: str, table: str, does: str, *nodes: Node) -> Iterator[None]:
    """Make these nodes run a statement before they commit or prepare a change to this table."""
    for node in nodes:
        node.command(_AT_COMMIT.format(table=table, does=does), database)
    try:
        yield
    finally:
        for node in nodes:
            node.command(_AS_ALWAYS, database)


class PausedLedger(DistributedLedger):
    """A writer that pauses after writing the bills of the first shop in its batch."""

    def __init__(self, url: str) -> None:
        super().__init__(url, PSEUDONYMS.fingerprint())
        self.paused, self.go_on = threading.Event(), threading.Event()

    def _put_bills(self, bills: Sequence[BillRow]) -> None:
        super()._put_bills([bill for bill in bills if bill.shop == bills[0].shop])
        if bills:
            self.paused.set()
            assert self.go_on.wait(PATIENCE_SEC)
        super()._put_bills([bill for bill in bills if bill.shop != bills[0].shop])


class TwoShops:
    """Two shops on two workers, one writer, one reader and one ticker."""

    def __init__(self, store: CitusStore, open_store: OpenStore) -> None:
        self.store, self.open_store = store, open_store
        self.open_store.put(*(shop(shop_id, franchiseId="fr_a") for shop_id in SHOPS))
        places = cluster().places(store.database)
        self.near = SHOPS[0]
        self.far = next(shop_id for shop_id in SHOPS if places[shop_id] != places[self.near])
        self.far_node = next(node for node in cluster().workers if node.port == places[self.far])
        self.open_store.put(bill("b_0", self.near), bill("b_0", self.far))
        self.writer = PausedLedger(store.url)
        self._thread = ThreadPoolExecutor(1)

    def start_writing(self) -> int:
        """Start a batch with a bill in each shop and pause it between the two shops; return its stamp."""
        changes = [self.open_store.change(bill("b_1", shop_id)) for shop_id in (self.near, self.far)]
        self._batch = self._thread.submit(self.writer.apply, changes)
        assert self.writer.paused.wait(PATIENCE_SEC)
        ((stamp,),) = cluster().coordinator.command(_TAKEN, self.store.database)
        return int(stamp)

    def finish_writing(self) -> BaseException | None:
        """Let the batch end; return the error with which it failed, if it did."""
        self.writer.go_on.set()
        failure = self._batch.exception(PATIENCE_SEC)
        assert failure is None or isinstance(failure, StoreUnavailable)
        return failure

    def tick(self) -> int:
        with closing(self.store.ledger(SystemClock(), PSEUDONYMS.fingerprint())) as ledger:
            return ledger.advance_horizon()

    def ticks_past(self, stamp: int) -> None:
        """Tick until the horizon has reached this stamp."""

        def is_past() -> bool:
            try:
                return self.tick() >= stamp
            except StoreUnavailable:
                return False

        until(is_past, "the horizon had reached the stamp", PATIENCE_SEC)

    def changed(self, shop_id: str) -> list[str]:
        return [found["id"] for found in self.open_store.by_change(shop_id)]

    def close(self) -> None:
        self.writer.go_on.set()
        self._thread.shutdown(wait=False)
        self.writer.close()


@pytest.fixture
def open_store(store: CitusStore, run: Run) -> Iterator[OpenStore]:
    """An empty store, opened with the machine's clock."""
    with closing(OpenStore(store, SystemClock(), run)) as open_store:
        yield open_store


@pytest.fixture
def two_shops(store: CitusStore, open_store: OpenStore) -> Iterator[TwoShops]:
    with closing(TwoShops(store, open_store)) as two_shops:
        yield two_shops


# --- one phase -----------------------------------------------------------------------


def test_nothing_that_is_loaded_is_committed_in_two_phases(store: CitusStore, run: Run) -> None:
    def two_phases() -> set[Any]:
        return {gid for (gid,) in cluster().coordinator.command(_TWO_PHASES, store.database)}

    before = two_phases()
    open_store = OpenStore(store, SystemClock(), run)
    open_store.put(*(shop(shop_id) for shop_id in SHOPS), base("mb_a"), base("mb_b"))
    sold = [bill(f"b_{number}", shop_id) for shop_id in SHOPS for number in range(3)]
    people = [member(f"m_{number}", messaging=[{"userId": f"U{number}"}]) for number in range(5)]
    open_store.put(*sold, *people)
    open_store.put(*(record | {"cashier": "Lek"} for record in sold), *(gone(record) for record in sold[:5]))
    open_store.put(*(record | {"rev": 7} for record in sold), *(person | {"providerId": "mb_b"} for person in people))
    open_store.put(*(gone(person) for person in people), shop(SHOPS[0], timezone="Asia/Tokyo"))
    open_store.rewrite()
    open_store.ledger.advance_horizon()
    open_store.close()
    assert two_phases() <= before


@pytest.mark.parametrize("record", [member("m_1"), bill("b_1", SHOPS[0])], ids=["members", "bills"])
def test_a_commit_that_fails_on_a_worker_fails_the_load(
    store: CitusStore, open_store: OpenStore, record: dict[str, Any]
) -> None:
    """Citus reports some failed commits only as a warning. The load must treat them as errors."""
    open_store.put(shop(SHOPS[0]))
    steps = [
        (record, Outcome.ADDED),
        (record | {"cashier": "Lek", "createdAt": "2025-01-01T00:00:00Z"}, Outcome.CHANGED),
        (gone(record), Outcome.REMOVED),
    ]
    for step, outcome in steps:
        fails = at_commit(store.database, f"{record['kind']}s", "RAISE EXCEPTION 'fails at commit'", *cluster().workers)
        with fails, pytest.raises(StoreUnavailable):
            open_store.put(step)
        assert open_store.put(step) == [outcome]


# --- a batch under way -----------------------------------------------------------------


def test_the_ticker_stays_below_the_stamp_of_a_batch_that_is_being_written(two_shops: TwoShops) -> None:
    stamp = two_shops.start_writing()
    ticker = threading.Thread(target=two_shops.tick)
    ticker.start()
    until(lambda: two_shops.open_store.horizon() == stamp - 1, "the horizon was just below the stamp")
    assert two_shops.open_store.bill("b_1", two_shops.near) is not None
    assert two_shops.changed(two_shops.near) == ["b_0"]
    two_shops.finish_writing()
    ticker.join(PATIENCE_SEC)
    assert two_shops.open_store.horizon() >= stamp
    assert two_shops.changed(two_shops.near) == two_shops.changed(two_shops.far) == ["b_0", "b_1"]


def test_the_horizon_waits_for_a_worker_that_hangs_while_it_writes(two_shops: TwoShops) -> None:
    stamp = two_shops.start_writing()
    with two_shops.far_node.frozen():
        two_shops.writer.go_on.set()
        with pytest.raises(StoreUnavailable):
            two_shops.tick()
        assert two_shops.open_store.horizon() < stamp
    two_shops.finish_writing()
    assert two_shops.changed(two_shops.far) == ["b_0", "b_1"]


# --- a writer that dies ------------------------------------------------------------------


def test_an_interrupted_batch_is_published_up_to_the_interruption_and_can_be_loaded_again(two_shops: TwoShops) -> None:
    stamp = two_shops.start_writing()
    cluster().coordinator.command(f"SELECT pg_terminate_backend({two_shops.writer._line().info.backend_pid}, 5000)")
    assert two_shops.finish_writing()
    two_shops.ticks_past(stamp)
    assert two_shops.changed(two_shops.near) == ["b_0", "b_1"]
    assert two_shops.changed(two_shops.far) == ["b_0"]
    told = two_shops.open_store.horizon()
    assert two_shops.open_store.put(bill("b_1", two_shops.near), bill("b_1", two_shops.far)) == [
        Outcome.UNCHANGED,
        Outcome.ADDED,
    ]
    assert two_shops.open_store.stamp("b_1", two_shops.far) > told  # type: ignore[operator]


def test_a_coordinator_killed_in_the_middle_of_a_batch_leaves_no_row_below_a_reported_horizon(
    two_shops: TwoShops,
) -> None:
    """A worker that hangs may still have to run the dead coordinator's statement."""
    stamp = two_shops.start_writing()
    with two_shops.far_node.frozen():
        two_shops.writer.go_on.set()
        until(lambda: cluster().coordinator.command(_INSERTS, two_shops.store.database)[0][0], "the statement was sent")
        cluster().coordinator.kill()()
        two_shops.finish_writing()
        with pytest.raises(StoreUnavailable):
            two_shops.tick()
        assert cluster().coordinator.command("SELECT at < taken FROM counterfoil.horizon", two_shops.store.database)[0][
            0
        ]
    two_shops.ticks_past(stamp)
    seen = _bills_of(two_shops.far_node, two_shops.store.database)
    until(lambda: not _abandoned_sessions(two_shops), "the sessions of the dead writer were gone")
    assert _bills_of(two_shops.far_node, two_shops.store.database) == seen


def test_a_worker_killed_in_the_middle_of_a_batch_holds_the_horizon_until_it_is_back(two_shops: TwoShops) -> None:
    stamp = two_shops.start_writing()
    start = two_shops.far_node.kill()
    assert two_shops.finish_writing()
    with pytest.raises(StoreUnavailable, match="does not respond"):
        two_shops.tick()
    assert two_shops.open_store.horizon() < stamp
    start()
    two_shops.ticks_past(stamp)
    assert two_shops.open_store.put(bill("b_1", two_shops.far)) == [Outcome.ADDED]


def test_a_member_that_was_moving_when_its_loader_died_ends_in_one_base(
    store: CitusStore, open_store: OpenStore
) -> None:
    open_store.put(member("m_1"))
    change = open_store.change(member("m_1", provider_id="mb_b"))
    assert isinstance(change, PutMember)
    with closing(DiesBeforeItRemoves(store.url, PSEUDONYMS.fingerprint())) as writer, pytest.raises(StoreUnavailable):
        writer.apply([change])
    assert [open_store.books.members(base_id, Slice(5)).count for base_id in ("mb_a", "mb_b")] == [1, 1]
    assert open_store.ledger.apply([change])[0] in (Outcome.CHANGED, Outcome.UNCHANGED)
    assert [open_store.books.members(base_id, Slice(5)).count for base_id in ("mb_a", "mb_b")] == [0, 1]


class DiesBeforeItRemoves(DistributedLedger):
    """A writer that dies after adding a moved member to its new base, before removing it from its old base."""

    def _put_members(self, batch: Any) -> None:
        batch.removed_members = _dies
        super()._put_members(batch)


def _dies() -> Any:
    raise psycopg.OperationalError("cut off")


def _bills_of(node: Node, database: str) -> list[Any]:
    """Return every bill that is visible on a worker when it is queried directly."""
    shards = [
        name for (name,) in node.command("SELECT tablename FROM pg_tables WHERE tablename ~ '^bills_[0-9]+$'", database)
    ]
    return sorted(
        row
        for shard in shards
        for row in node.command(f"SELECT shop, id FROM counterfoil.{shard}", database)  # noqa: S608 - names of shards
    )


def _abandoned_sessions(two_shops: TwoShops) -> int:
    ((writer,),) = cluster().coordinator.command("SELECT writer FROM counterfoil.horizon", two_shops.store.database)
    asked = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = 'citus_internal gpid={writer}'"  # noqa: S608 - a number
    return sum(node.command(asked)[0][0] for node in cluster().workers)


# --- why the ledger for a single server is not used ------------------------------------


class SingleServerLedger(PostgresLedger):
    """The ledger for a single server, except that it accepts distributed tables."""

    _is_distributed = True


@contextmanager
def held_batch(
    open_store: OpenStore, store: CitusStore, records: Sequence[dict[str, Any]], held: Node
) -> Iterator[tuple[Callable[[], None], "Future[list[Outcome]]"]]:
    """Let the ledger for a single server write a batch; yield a function that releases it, and its outcomes.

    One worker is blocked just before it commits or prepares the transaction with
    its bills, until the batch is released.
    """
    changes = [open_store.change(record) for record in records]
    with (
        at_commit(store.database, "bills", "PERFORM pg_advisory_xact_lock_shared(1)", held),
        closing(SingleServerLedger(store.url, PSEUDONYMS.fingerprint())) as ledger,
        ThreadPoolExecutor(1) as writer,
        closing(psycopg.connect(held.url(store.database), autocommit=True)) as hold,
    ):
        hold.execute("SELECT pg_advisory_lock(1)")
        yield hold.close, writer.submit(ledger.apply, changes)


@contextmanager
def no_recovery(database: str) -> Iterator[None]:
    """Prevent Citus from recovering prepared transactions, which it otherwise does once a minute."""
    with psycopg.connect(cluster().coordinator.url(database)) as connection:
        connection.execute("LOCK TABLE pg_dist_transaction IN SHARE UPDATE EXCLUSIVE MODE")
        yield


def test_a_batch_in_two_phases_shows_a_horizon_above_rows_that_are_not_visible(
    store: CitusStore, open_store: OpenStore
) -> None:
    """Shows what would happen if the ledger for a single server changed bills in distributed tables."""
    open_store.put(*(shop(shop_id) for shop_id in SHOPS))
    open_store.put(*(bill("b_1", shop_id) for shop_id in SHOPS))
    before = open_store.horizon()
    first, second = cluster().workers
    changed = [bill("b_1", shop_id, cashier="Lek") for shop_id in SHOPS]
    with no_recovery(store.database):
        with held_batch(open_store, store, changed, second) as (release, outcomes):
            until(lambda: first.command(_ALL_PREPARED, store.database) == [(True,)], "every session had prepared")
            start = first.kill()
            release()
            assert outcomes.result(PATIENCE_SEC) == [Outcome.CHANGED] * len(SHOPS)
            start()
        _assert_published(open_store, before, _shops_on(second, store.database))
    cluster().coordinator.command("SELECT recover_prepared_transactions()", store.database)
    assert _published(open_store, before) == set(SHOPS)


def test_new_bills_in_one_transaction_are_lost_if_a_worker_dies_while_it_commits(
    store: CitusStore, open_store: OpenStore
) -> None:
    """Shows what would happen if the ledger for a single server added bills to distributed tables.

    The ledger looks for the bills before it inserts them. Citus then inserts them
    in the same sessions, which it regards as read-only. It commits these sessions
    without preparing them, after it has committed the horizon.
    """
    open_store.put(*(shop(shop_id) for shop_id in SHOPS))
    before = open_store.horizon()
    first, second = cluster().workers
    near = _shops_on(first, store.database)
    with held_batch(open_store, store, [bill("b_1", shop_id) for shop_id in SHOPS], second) as (_, outcomes):
        until(lambda: _published(open_store, before) == near, "the first worker had committed its bills")
        _assert_published(open_store, before, near)
        start = second.kill()
        assert outcomes.result(PATIENCE_SEC) == [Outcome.ADDED] * len(SHOPS)
        start()
    cluster().coordinator.command("SELECT recover_prepared_transactions()", store.database)
    _assert_published(open_store, before, near)


def _shops_on(node: Node, database: str) -> set[str]:
    return {shop_id for shop_id, port in cluster().places(database).items() if port == node.port}


def _published(open_store: OpenStore, before: int) -> set[str]:
    """Return the shops in which a client sees a change above this horizon."""
    return {shop_id for shop_id in SHOPS if open_store.by_change(shop_id, since=before + 1)}


def _assert_published(open_store: OpenStore, before: int, shops: set[str]) -> None:
    """Assert that the horizon has reached the batch, but that a client sees the batch only in these shops."""
    told = open_store.horizon()
    assert _published(open_store, before) == shops
    assert {open_store.stamp("b_1", shop_id) for shop_id in shops} == {told}
    assert shops < set(SHOPS)
