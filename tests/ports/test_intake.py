"""Tests for what a store remembers about earlier loads and about watched folders."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from counterfoil.domain.intake import DeliveryCounts, Intake, with_load
from counterfoil.domain.loads import FORGET_FOLDER_MS, WatchedFolder
from counterfoil.domain.open_items import OpenItem
from ports.backends import Store
from ports.open_store import OpenStore, bill, open_ledger, shop
from running_service import ManualClock

LOAD = DeliveryCounts(lines=300, bills=300, undated=3, records={"bill": 300}, unreadable={"bill: lines.qty": 2})


def add_load(store: Store, clock: ManualClock, counts: DeliveryCounts = LOAD) -> Intake:
    with closing(open_ledger(store, clock)) as ledger:
        return ledger.change_intake(lambda intake, now: with_load(intake, counts, now))


def test_a_new_store_remembers_nothing(store: Store, clock: ManualClock) -> None:
    open_ledger(store, clock).close()
    assert store.operator_reads().intake() == Intake()
    assert store.operator_reads().watched_folders(clock.now_ms()) == []


def test_what_is_remembered_is_stored(store: Store, clock: ManualClock) -> None:
    for number in range(3):
        intake = add_load(store, clock)
        assert intake.groups == number + 1
        assert store.operator_reads().intake() == intake
    alarmed = add_load(store, clock, DeliveryCounts(lines=300, bills=300, undated=150, records={"bill": 300}))
    assert [alarm.measure for alarm in store.operator_reads().intake().alarms] == ["undated"]
    assert alarmed.alarmed_at == clock.now_ms()


def test_loads_that_end_at_the_same_time_are_all_counted(store: Store, clock: ManualClock) -> None:
    open_ledger(store, clock).close()
    with ThreadPoolExecutor(8) as loaders:
        for _ in range(8):
            loaders.submit(add_load, store, clock)
    assert store.operator_reads().intake().groups == 8


def test_a_watched_folder_reports_its_heartbeat_and_its_deliveries(store: Store, clock: ManualClock) -> None:
    ledger = open_ledger(store, clock)
    began = clock.now_ms()
    ledger.report_watched_folder("/spool/a", 0, 0)
    ledger.report_watched_folder("/spool/b", 2, 1)
    clock.advance(10)
    ledger.report_watched_folder("/spool/a", 0, 0)
    clock.advance(10)
    ledger.report_watched_folder("/spool/b", 1, 0, is_stopped=True)
    ledger.close()
    assert store.operator_reads().watched_folders(clock.now_ms()) == [
        WatchedFolder("/spool/a", began + 10_000, began),
        WatchedFolder("/spool/b", began + 20_000, began + 20_000, 3, 1, is_stopped=True),
    ]
    assert store.operator_reads().watched_folders(began + FORGET_FOLDER_MS + 10_000) == [
        WatchedFolder("/spool/b", began + 20_000, began + 20_000, 3, 1, is_stopped=True)
    ]


def test_the_state_with_which_deliveries_are_compared_changes_with_loads_and_shops(open_store: OpenStore) -> None:
    reads, ledger = open_store.reads, open_store.ledger
    states = [reads.compared_state()]
    open_store.put(shop())
    states.append(reads.compared_state())
    open_store.put(shop(closingTime="04:00"))
    states.append(reads.compared_state())
    progress = ledger.begin_load("bills.ndjson")
    states.append(reads.compared_state())
    progress.lines = progress.changed = 1
    ledger.apply([open_store.change(bill())], progress)
    states.append(reads.compared_state())
    ledger.change_intake(lambda intake, now: with_load(intake, LOAD, now))
    states.append(reads.compared_state())
    ledger.finish_undo(progress.number)
    states.append(reads.compared_state())
    assert len(set(states)) == len(states)


def test_the_state_with_which_deliveries_are_compared_stays_while_a_watcher_reports(open_store: OpenStore) -> None:
    open_store.put(shop())
    open_store.put(bill())
    state = open_store.reads.compared_state()
    open_store.ledger.report_watched_folder("/spool", 0, 0)
    open_store.ledger.add_items([OpenItem(identity="accepted bills.ndjson", kind="not_begun", files={"bills": 0})])
    assert open_store.reads.compared_state() == state
