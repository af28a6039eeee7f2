"""The operator finds requests by any of their properties, page by page, and sees counts, copies, loads and shops."""

import json
import random
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from functools import partial
from itertools import chain
from typing import Any

import pytest
from msgspec.structs import asdict, replace

from counterfoil.domain.access import Key, Scope
from counterfoil.domain.changes import EncodedBill
from counterfoil.domain.loads import MAX_REMEMBERED, RejectedLine
from counterfoil.domain.request_records import CHANGE_FEED, CHANGES_OF_SHOP, MAX_RANGES, CopyState, RequestRecord
from counterfoil.model.calendar import DAY_MS, HOUR_MS, thai_midnight
from counterfoil.operator_reads import BILLS_PER_READ, BillsOfDay, OperatorReads, QueryTooSlow
from counterfoil.ports import StoredKey, StoreUnavailable
from counterfoil.request_reads import (
    ANY_ERROR,
    DayOfKey,
    ErrorGroup,
    HourOfKey,
    Latency,
    RecordedRequest,
    RequestFilter,
)
from counterfoil.views.requests import RequestFollower
from ports.backends import OpenUsage, Store
from ports.conftest import Run
from ports.open_store import AFTER_MIDNIGHT, OpenStore, bill, gone, shop
from running_service import START_MS, ManualClock

KEY = Key(key_id="k_1", scope=Scope("shop", "sh_1"), per_min=3)
DAY = 86_400
FIRST_DAY = date(2026, 1, 1)
NOW = START_MS
SHOP_CHANGES = ("k_1", CHANGES_OF_SHOP, "sh_1")
FEED = ("k_1", CHANGE_FEED, "")
# More passes than ranges are kept, each of which leaves a gap.
ONE_BY_ONE = [(at, at + 1) for at in range(0, 10 * (MAX_RANGES + 5), 10)]


def record(at: int, **fields: Any) -> RequestRecord:
    values: dict[str, Any] = {"key_id": "k_1", "route": "transactions", "status": 200, "error": None, "took_us": 900}
    values |= {"request_id": f"r-{at}"}
    return RequestRecord(at=at, **values | fields)


class Log:
    """The request log of a store, which workers write and the operator reads."""

    def __init__(self, store: Store, clock: ManualClock, run: Run, usage: OpenUsage) -> None:
        self.store, self.clock, self.run, self.usage = store, clock, run, usage
        self.reads = store.operator_reads()

    def write(self, *records: RequestRecord) -> None:
        self.do(*(partial(self.usage.note, one) for one in records))

    def read(self, *passes: tuple[int, int]) -> None:
        """Note finished passes, each with the range of changes that it has read."""
        note = partial(self.usage.note_page, SHOP_CHANGES)
        self.do(*(partial(note, since, horizon, True, horizon) for since, horizon in passes))

    def do(self, *acts: Callable[[], object]) -> None:
        """Let a worker do all this, and then write it."""

        async def work() -> None:
            for act in acts:
                act()

        self.run(work())
        self.usage.flush()

    def found(self, **wanted: Any) -> list[RecordedRequest]:
        return self.reads.requests(RequestFilter(**wanted), 100).requests


@pytest.fixture
def usage(store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> OpenUsage:
    # Tests write records by calling `flush`, so the timer that writes them in the background must not run.
    monkeypatch.setattr("counterfoil.backends.pending_usage.RECORDS_SEC", 600)
    return store.usage(clock)


@pytest.fixture
def log(store: Store, clock: ManualClock, run: Run, usage: OpenUsage) -> Log:
    return Log(store, clock, run, usage)


def pages(reads: OperatorReads, **wanted: Any) -> Iterator[list[RecordedRequest]]:
    """Search for requests, 10 per page, to the end."""
    page = reads.requests(RequestFilter(**wanted), 10)
    yield page.requests
    while page.next:
        page = reads.requests(RequestFilter(**wanted, before=page.next), 10)
        yield page.requests


def ids(requests: list[RecordedRequest]) -> list[str | None]:
    return [one.request_id for one in requests]


# --- requests --------------------------------------------------------------------


def test_a_request_is_found_by_its_id_with_everything_that_was_recorded(log: Log) -> None:
    disclosed = record(NOW, request_id="r-1", personal_base="mb_a", personal_members=7, route="members")
    log.write(record(NOW, request_id="r-0"), disclosed)
    (one,) = log.found(request_id="r-1")
    assert asdict(one) == asdict(disclosed) | {"number": one.number}
    assert log.found(request_id="r-2") == []


def test_each_condition_of_a_filter_selects_its_requests(log: Log) -> None:
    log.write(
        record(NOW, request_id="plain"),
        record(NOW + 1, request_id="other key", key_id="k_2"),
        record(NOW + 2, request_id="other route", route="shops"),
        record(NOW + 3, request_id="other status", status=304),
        record(NOW + 4, request_id="failed", status=400, error="bad_cursor"),
        record(NOW + 5, request_id="failed for k_2", status=400, error="bad_query", key_id="k_2"),
        record(NOW + 6, request_id="slow", took_us=901),
        record(NOW + 7, request_id="disclosed", personal_base="mb_a", personal_members=1),
        record(NOW + 8, request_id="disclosed to k_2", personal_base="mb_a", personal_members=1, key_id="k_2"),
    )
    selections: list[tuple[dict[str, Any], list[str]]] = [
        ({"key_id": "k_2"}, ["disclosed to k_2", "failed for k_2", "other key"]),
        ({"route": "shops"}, ["other route"]),
        ({"status": 304}, ["other status"]),
        ({"status": 400}, ["failed for k_2", "failed"]),
        ({"error": "bad_cursor"}, ["failed"]),
        ({"error": "bad_query", "key_id": "k_1"}, []),
        ({"error": "bad_query", "key_id": "k_2"}, ["failed for k_2"]),
        ({"error": ANY_ERROR}, ["failed for k_2", "failed"]),
        ({"error": ANY_ERROR, "key_id": "k_1"}, ["failed"]),
        ({"slower_than_us": 900}, ["slow"]),
        ({"personal_data": True}, ["disclosed to k_2", "disclosed"]),
        ({"personal_data": True, "key_id": "k_2"}, ["disclosed to k_2"]),
        ({"request_id": "slow", "key_id": "k_2"}, []),
        ({"key_id": "k_1", "route": "shops", "status": 200}, ["other route"]),
        # A range of time includes its start, and not its end.
        ({"since": NOW + 1, "until": NOW + 3}, ["other route", "other key"]),
    ]
    for wanted, expected in selections:
        assert ids(log.found(**wanted)) == expected, wanted


@pytest.mark.parametrize("wanted", [{}, {"key_id": "k_1"}, {"error": "bad_query"}, {"request_id": "the same"}], ids=str)
def test_pages_contain_every_request_once_even_if_all_have_the_same_time(log: Log, wanted: dict[str, Any]) -> None:
    log.write(*(record(NOW, request_id="the same", error="bad_query", took_us=n) for n in range(25)))
    taken = [[one.took_us for one in page] for page in pages(log.reads, **wanted)]
    assert [len(page) for page in taken] == [10, 10, 5]
    assert sorted(chain(*taken)) == list(range(25))


def test_a_search_for_something_rare_stops_early_and_can_be_continued(log: Log) -> None:
    log.write(*(record(NOW + n, took_us=5_000 if n in (3, 18) else 1) for n in range(35)))
    found = pages(log.store.operator_reads(scanned=10), slower_than_us=1_000)
    assert [[one.at - NOW for one in page] for page in found] == [[], [18], [], [3]]


def test_a_query_that_takes_too_long_is_stopped(log: Log) -> None:
    log.write(*(record(NOW + n) for n in range(5_000)))
    with pytest.raises(QueryTooSlow, match=r"took longer than 0\.001 s"):
        log.store.operator_reads(query_sec=0.001).latencies(None, 0, DAY_MS)


def test_followed_requests_are_returned_once_and_oldest_first_even_if_written_late(log: Log) -> None:
    log.write(record(NOW - 1, request_id="before"))
    follower = RequestFollower(log.reads, RequestFilter(key_id="k_1"), NOW)
    assert follower.new_requests() == []
    log.write(record(NOW + 1, request_id="r-1"), record(NOW, request_id="r-0"), record(NOW, key_id="k_2"))
    assert ids(follower.new_requests()) == ["r-0", "r-1"]
    log.write(record(NOW + 4_000, request_id="r-3"))
    assert ids(follower.new_requests()) == ["r-3"]
    log.write(record(NOW + 3_000, request_id="r-2"))
    assert ids(follower.new_requests()) == ["r-2"]
    assert follower.new_requests() == []


def test_more_new_requests_than_fit_on_a_page_are_followed(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterfoil.views.requests.PER_QUERY", 3)
    follower = RequestFollower(log.reads, RequestFilter(), NOW)
    log.write(*(record(NOW + n, request_id=f"r-{n}") for n in range(8)))
    assert ids(follower.new_requests()) == [f"r-{n}" for n in range(8)]


# --- counts ----------------------------------------------------------------------


def test_requests_errors_and_refusals_are_counted_per_key_and_day(log: Log) -> None:
    for _ in range(3):
        log.run(log.usage.admit(KEY))
    log.write(record(NOW), record(NOW, status=400, error="bad_query"), record(NOW, status=429, error="quota_exceeded"))
    refusals = [("k_1", error, NOW) for error in ("rate_limited", "rate_limited", "key_revoked")]
    refusals.append(("k_2", "key_revoked", NOW + DAY * 1000))
    log.do(*(partial(log.usage.note_refusal, *refusal) for refusal in refusals))
    today = DayOfKey(key_id="k_1", day=FIRST_DAY, requests=3, errors=2, rate_limited=2, over_quota=1, refused=1)
    tomorrow = DayOfKey(key_id="k_2", day=FIRST_DAY + timedelta(days=1), refused=1)
    assert log.reads.days(FIRST_DAY, FIRST_DAY + timedelta(days=1)) == [today, tomorrow]
    assert log.reads.days(FIRST_DAY, FIRST_DAY) == [today]
    assert log.reads.days(FIRST_DAY, FIRST_DAY + timedelta(days=1), "k_2") == [tomorrow]


def test_counts_of_two_workers_are_added_up(log: Log) -> None:
    for usage in (log.store.usage(log.clock), log.store.usage(log.clock)):
        Log(log.store, log.clock, log.run, usage).do(partial(usage.note_refusal, "k_1", "rate_limited", NOW))
    assert [day.rate_limited for day in log.reads.days(FIRST_DAY, FIRST_DAY)] == [2]


def test_counts_and_copies_outlive_the_records_and_are_deleted_after_400_days(log: Log) -> None:
    log.write(record(NOW, status=400, error="bad_query"))
    log.do(partial(log.usage.note_page, FEED, 0, 1, True, NOW))
    log.clock.advance(91 * DAY)
    log.usage.prune()
    assert log.found() == []
    assert [day.errors for day in log.reads.days(FIRST_DAY, FIRST_DAY)] == [1]
    assert list(log.reads.copies()) == ["k_1"]
    log.clock.advance(310 * DAY)
    log.usage.prune()
    assert log.reads.days(FIRST_DAY, FIRST_DAY) == []
    assert log.reads.copies() == {}


def test_counts_that_cannot_be_written_are_written_later(log: Log) -> None:
    with log.store.out_of_space(), pytest.raises(StoreUnavailable):
        log.do(lambda: log.usage.note_refusal("k_1", "rate_limited", NOW))
    log.usage.flush()
    assert [day.rate_limited for day in log.reads.days(FIRST_DAY, FIRST_DAY)] == [1]


def test_requests_of_a_key_are_counted_per_hour(log: Log) -> None:
    start = NOW // HOUR_MS * HOUR_MS
    log.write(
        record(start - 1),
        record(start),
        record(start + 1, status=400, error="bad_query"),
        record(start + HOUR_MS),
        record(start, key_id="k_2"),
    )
    assert log.reads.hours("k_1", start - 5) == [HourOfKey(start, 2, 1), HourOfKey(start + HOUR_MS, 1, 0)]
    assert log.reads.hours(None, start) == [HourOfKey(start, 3, 1), HourOfKey(start + HOUR_MS, 1, 0)]


def test_the_median_and_the_95th_percentile_of_durations_are_computed_per_day(log: Log) -> None:
    start = thai_midnight(FIRST_DAY)
    log.write(
        record(start - 1, took_us=9_000_000),
        *(record(start + place, took_us=took_us) for place, took_us in enumerate(range(1_000, 21_000, 1_000))),
        record(start + DAY_MS, took_us=7),
        record(start + 5, took_us=8_000_000, key_id="k_2"),
    )
    first, second = Latency(start, 20, 10_000, 19_000), Latency(start + DAY_MS, 1, 7, 7)
    assert log.reads.latencies("k_1", start, DAY_MS) == [first, second]
    assert log.reads.latencies("k_1", start, HOUR_MS) == [first, second]
    assert log.reads.latencies(None, start, DAY_MS)[0] == Latency(start, 21, 11_000, 20_000)
    assert log.reads.latencies("k_3", start, DAY_MS) == []


def test_errors_are_grouped_by_code_and_route(log: Log) -> None:
    log.write(
        record(NOW - 1, error="bad_query"),
        record(NOW, error="bad_cursor"),
        record(NOW + 1, error="bad_cursor"),
        record(NOW + 2, error="bad_cursor", route="members", key_id="k_2"),
        record(NOW + 3),
    )
    both, other = ErrorGroup("bad_cursor", "transactions", 2, NOW + 1), ErrorGroup("bad_cursor", "members", 1, NOW + 2)
    assert log.reads.errors(NOW) == [both, other]
    assert log.reads.errors(NOW, "k_2") == [other]


def test_the_last_use_of_a_key_is_its_latest_request_and_only_its_day_after_records_are_deleted(log: Log) -> None:
    log.run(log.usage.admit(KEY))
    log.write(record(NOW), record(NOW + 5), record(NOW + 3, key_id="k_2"), record(NOW + 4, key_id="k_0"))
    assert log.reads.last_used() == {"k_0": NOW + 4, "k_1": NOW + 5, "k_2": NOW + 3}
    log.clock.advance(91 * DAY)
    log.usage.prune()
    assert log.reads.last_used() == {"k_1": thai_midnight(FIRST_DAY)}


def test_the_last_disclosure_to_each_key_is_known(log: Log) -> None:
    log.write(
        record(NOW, personal_base="mb_a", personal_members=1),
        record(NOW + 1, personal_base="mb_a", personal_members=1),
        record(NOW + 2),
        record(NOW, key_id="k_2", personal_base="mb_a", personal_members=1),
        record(NOW, key_id="k_3"),
    )
    assert log.reads.last_disclosed() == {"k_1": NOW + 1, "k_2": NOW}


# --- copies ----------------------------------------------------------------------


def shop_copy(server_time: int | None, at: int, *, finished: bool) -> CopyState:
    return CopyState(list_name=CHANGES_OF_SHOP, shop_id="sh_1", server_time=server_time, finished=finished, at=at)


def read_so_far(log: Log) -> list[tuple[int, int]]:
    """Return the ranges of changes that have been read from the list."""
    (state,) = log.reads.copies()["k_1"]
    assert state.server_time is not None
    starts = [state.read_from, *(gap.end for gap in state.gaps)]
    ends = [*(gap.start for gap in state.gaps), state.server_time]
    return list(zip(starts, ends, strict=True))


def test_a_copy_is_as_fresh_as_its_latest_finished_pass(log: Log) -> None:
    def read(horizon: int, at: int, *, is_last: bool) -> list[CopyState]:
        log.do(lambda: log.usage.note_page(SHOP_CHANGES, 0, horizon, is_last, at))
        return log.reads.copies().get("k_1", [])

    assert log.reads.copies().get("k_1", []) == []
    assert read(900, 1_000, is_last=False) == [shop_copy(None, 1_000, finished=False)]
    assert read(900, 1_100, is_last=True) == [shop_copy(900, 1_100, finished=True)]
    assert read(1_900, 2_000, is_last=False) == [shop_copy(900, 2_000, finished=False)]
    assert read(1_900, 2_100, is_last=True) == [shop_copy(1_900, 2_100, finished=True)]
    # A slow worker reports an older pass.
    assert read(1_500, 1_600, is_last=True) == [shop_copy(1_900, 2_100, finished=True)]


def test_each_lineage_and_list_has_its_own_state(log: Log) -> None:
    lists = (SHOP_CHANGES, FEED, ("k_2", CHANGES_OF_SHOP, "sh_1"))
    log.do(*(partial(log.usage.note_page, of, 0, n, True, 10 * n) for n, of in enumerate(lists, 1)))
    feed = CopyState(list_name=CHANGE_FEED, shop_id=None, server_time=2, finished=True, at=20)
    assert log.reads.copies() == {
        "k_1": [shop_copy(1, 10, finished=True), feed],
        "k_2": [shop_copy(3, 30, finished=True)],
    }


@pytest.mark.parametrize(
    ("earlier", "later", "read"),
    [
        ([(0, 100)], [(300, 400), (400, 500)], [(0, 100), (300, 500)]),
        ([(0, 100), (300, 400), (500, 600)], [(350, 700)], [(0, 100), (300, 700)]),
        ([(0, 100), (300, 400), (500, 600)], [(100, 800)], [(0, 800)]),
        ([(0, 100), (300, 400)], [(100, 200)], [(0, 200), (300, 400)]),
        ([(300, 400)], [(0, 500)], [(0, 500)]),
        ([(-5, 10)], [(20, 30)], [(0, 10), (20, 30)]),
        ([(9_000, 100)], [(0, 120), (9_000, 130)], [(0, 120)]),
        (ONE_BY_ONE[:3], ONE_BY_ONE[3:], ONE_BY_ONE[-MAX_RANGES:]),
    ],
    ids=[
        "a pass that begins after the end of the last one leaves a gap",
        "a pass that begins in time closes a gap",
        "a pass can close several gaps",
        "a slow worker's pass closes a gap only as far as it went",
        "a list that was first read from a mark",
        "a pass from before 1970 begins at 0",
        "a pass that begins in the future does not count",
        "only the newest ranges are kept",
    ],
)
def test_the_changes_that_passes_have_read_are_known(
    log: Log, earlier: list[tuple[int, int]], later: list[tuple[int, int]], read: list[tuple[int, int]]
) -> None:
    log.read(*earlier)
    log.read(*later)
    assert read_so_far(log) == read


def test_a_pass_counts_as_read_at_its_last_page_unless_it_began_in_the_future(log: Log) -> None:
    log.do(partial(log.usage.note_page, SHOP_CHANGES, 300, 400, False, 400))
    log.read((9_000, 410))
    (state,) = log.reads.copies()["k_1"]
    assert (state.server_time, state.finished, state.at) == (None, True, 410)
    log.read((300, 420))
    assert read_so_far(log) == [(300, 420)]


def test_workers_may_write_the_passes_of_one_caller_in_any_order(log: Log) -> None:
    chance = random.Random(7)  # noqa: S311 - chooses the order of a test
    workers = [log.usage, *(log.store.usage(log.clock) for _ in range(3))]
    passes = [(at, at + 10) for at in range(0, 240, 10)]
    unread = passes.pop(12)
    by_worker: list[list[tuple[int, int]]] = [[] for _ in workers]
    for one in passes:
        chance.choice(by_worker).append(one)
    for index in chance.sample(range(len(workers)), len(workers)):
        Log(log.store, log.clock, log.run, workers[index]).read(*by_worker[index])
    assert read_so_far(log) == [(0, unread[0]), (unread[1], 240)]


def test_passes_that_cannot_be_written_are_written_later_with_their_gaps(log: Log) -> None:
    with log.store.out_of_space(), pytest.raises(StoreUnavailable):
        log.read((0, 100), (300, 400))
    log.read((400, 500))
    assert read_so_far(log) == [(0, 100), (300, 500)]


# --- loads -----------------------------------------------------------------------


def test_loads_are_listed_newest_first_with_their_rejected_lines(open_store: OpenStore) -> None:
    began = open_store.clock.now_ms()
    first = open_store.ledger.begin_load("bills.ndjson")
    open_store.clock.advance(2)
    lines = [(4, "no_shop", []), (9, "unreadable_value", ["payments.amount"])]
    rejects = [RejectedLine("bills.ndjson", *line) for line in lines]
    counts = {"lines": 9, "changed": 7, "rejected": 2, "reasons": {"no_shop": 1, "unreadable_value": 1}}
    progress = replace(first, **counts, finished=True, new_rejects=[*rejects], rejects_file="/rejects/bills.ndjson")
    open_store.ledger.apply([], progress)
    open_store.ledger.begin_load("more.ndjson")
    newer, older = open_store.reads.loads(10)
    assert (newer.source, newer.finished_at, newer.reasons, newer.rejects_file) == ("more.ndjson", None, {}, None)
    assert (older.source, older.started_at, older.finished_at) == ("bills.ndjson", began, open_store.clock.now_ms())
    assert (older.lines, older.changed, older.rejected) == (9, 7, 2)
    assert (older.reasons, older.rejects_file) == (counts["reasons"], "/rejects/bills.ndjson")
    assert open_store.reads.loads(1) == [newer]
    assert open_store.reads.rejects(older.number, 10) == rejects
    assert open_store.reads.rejects(older.number, 1) == rejects[:1]
    assert open_store.reads.rejects(newer.number, 10) == []


def test_the_rejected_lines_of_a_load_are_remembered_up_to_a_limit(open_store: OpenStore) -> None:
    progress = open_store.ledger.begin_load("bills.ndjson")
    for batch in range(3):
        for line in range(MAX_REMEMBERED // 2):
            progress.add_reject(RejectedLine("bills.ndjson", batch * 1_000 + line, "no_shop"))
        open_store.ledger.apply([], progress)
        progress.mark_stored()
    remembered = open_store.reads.rejects(progress.number, 10_000)
    assert len(remembered) == MAX_REMEMBERED
    assert remembered[-1].line == 1_000 + MAX_REMEMBERED // 2 - 1


# --- quotas, shops and bills -------------------------------------------------------


def test_each_active_key_has_the_share_of_its_quota_that_it_used_today(
    store: Store, usage: OpenUsage, clock: ManualClock, run: Run
) -> None:
    key = Key(key_id="k_1", scope=Scope("shop", "sh_1"), per_min=100, per_day=10)
    smaller, idle = replace(key, key_id="k_2", per_day=4), replace(key, key_id="idle")
    revoked = replace(key, key_id="gone", revoked_at=1)
    key_store = store.key_store()
    for each, requests in ((key, 8), (smaller, 5), (idle, 0), (revoked, 9)):
        key_store.add(StoredKey(each, b"digest"), [])
        for _ in range(requests):
            run(usage.admit(each))
    usage.flush()
    assert sorted(store.operator_reads().quota_use(clock.now_ms())) == [0, 0.8, 1.25]
    clock.advance(DAY)
    run(usage.admit(key))
    usage.flush()
    assert sorted(store.operator_reads().quota_use(clock.now_ms())) == [0, 0, 0.1]


def test_loaded_shops_are_listed_by_name_with_their_franchise(open_store: OpenStore) -> None:
    open_store.put(shop("sh_2", name="Riverside", franchiseId="f_1"), shop("sh_1", name="Ari"), shop("sh_3"))
    open_store.put(gone(shop("sh_3")))
    listed = [(one.shop_id, one.shop_name, one.franchise_id) for one in open_store.reads.shop_names()]
    assert listed == [("sh_1", "Ari", "fr_a"), ("sh_2", "Riverside", "f_1")]


def test_bills_are_counted_per_shop_and_day(open_store: OpenStore) -> None:
    last_day = FIRST_DAY - timedelta(days=1)
    open_store.put(shop("sh_1"), shop("sh_2"))
    open_store.put(bill("b_1"), bill("b_2"), bill("b_3", closedAt=AFTER_MIDNIGHT), bill("b_4", "sh_2"))
    assert open_store.reads.bills(last_day, FIRST_DAY) == [
        BillsOfDay("sh_1", last_day, 2),
        BillsOfDay("sh_1", FIRST_DAY, 1),
        BillsOfDay("sh_2", last_day, 1),
    ]
    assert open_store.reads.bills(FIRST_DAY, FIRST_DAY) == [BillsOfDay("sh_1", FIRST_DAY, 1)]
    open_store.put(gone(bill("b_3")))
    assert open_store.reads.bills(FIRST_DAY, FIRST_DAY) == []


def test_stored_bills_are_read_with_their_revision_to_compare_a_delivery_with_them(open_store: OpenStore) -> None:
    open_store.put(shop("sh_1"), shop("sh_2"))
    open_store.put(bill("b_1", rev=2), bill("b_2"), bill("b_3", "sh_2"))
    wanted = ["b_1", "b_3", *(f"unknown {number}" for number in range(BILLS_PER_READ)), "b_2"]
    found = open_store.reads.stored_bills("sh_1", wanted)
    assert {bill_id: stored.rev for bill_id, stored in found.items()} == {"b_1": 2, "b_2": None}
    of_shops = open_store.reads.stored_bills_of_shops({"sh_1": wanted, "sh_2": ["b_1", "b_3"], "sh_3": ["b_1"]})
    assert of_shops.keys() == {("sh_1", "b_1"), ("sh_1", "b_2"), ("sh_2", "b_3")}
    assert of_shops["sh_1", "b_2"] == found["b_2"]
    change = open_store.change(bill("b_2"))
    assert isinstance(change, EncodedBill)
    assert found["b_2"].digest == change.digest
    assert json.loads(found["b_2"].body) == open_store.bill("b_2")
    of_day = open_store.reads.bills_of_days([("sh_1", date(2025, 12, 31)), ("sh_2", FIRST_DAY)])
    assert list(of_day) == [("sh_1", one.body) for one in found.values()]
