"""The operator finds requests by any of their properties, page by page, and sees counts, copies and loads."""

import random
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pytest

from counterfoil.domain.access import Key, Scope
from counterfoil.domain.calendar import DAY_MS, HOUR_MS, thai_midnight
from counterfoil.domain.intake import MAX_REMEMBERED, LoadProgress, RejectedLine
from counterfoil.domain.request_records import (
    CHANGE_FEED,
    CHANGES_OF_SHOP,
    MAX_RANGES,
    CopyState,
    ReadGap,
    RequestRecord,
)
from counterfoil.operator_reads import (
    ANY_ERROR,
    DayOfKey,
    ErrorGroup,
    HourOfKey,
    Latency,
    OperatorReads,
    QueryTooSlow,
    RecordedRequest,
    RequestFilter,
)
from counterfoil.ports import StoreUnavailable
from counterfoil.views.requests import RequestFollower
from ports.backends import OpenUsage, Store
from ports.conftest import Run
from ports.open_store import OpenStore
from running_service import ManualClock

KEY = Key(key_id="k_1", scope=Scope("shop", "sh_1"), per_min=3)
DAY = 86_400
FIRST_DAY = date(2026, 1, 1)


def record(at: int, **fields: Any) -> RequestRecord:
    values: dict[str, Any] = {"key_id": "k_1", "route": "transactions", "status": 200, "error": None, "took_us": 900}
    values |= {"request_id": f"r-{at}"}
    return RequestRecord(at=at, **values | fields)


class Recorder:
    """Writes to the request log of a store."""

    def __init__(self, usage: OpenUsage, run: Run) -> None:
        self.usage = usage
        self._run = run

    def write(self, *records: RequestRecord) -> None:
        def note() -> None:
            for one in records:
                self.usage.note(one)

        self.do(note)

    def do(self, act: Callable[[], object]) -> None:
        async def acting() -> None:
            act()

        self._run(acting())
        self.usage.flush()


@pytest.fixture
def usage(store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> OpenUsage:
    # Tests write records by calling `flush`, so the timer that writes them in the background must not run.
    monkeypatch.setattr("counterfoil.backends.pending_usage.RECORDS_SEC", 600)
    return store.usage(clock)


@pytest.fixture
def recorder(usage: OpenUsage, run: Run) -> Recorder:
    return Recorder(usage, run)


def found(reads: OperatorReads, limit: int = 100, **wanted: Any) -> list[RecordedRequest]:
    return reads.requests(RequestFilter(**wanted), limit).requests


def ids(requests: list[RecordedRequest]) -> list[str | None]:
    return [one.request_id for one in requests]


# --- requests --------------------------------------------------------------------


def test_a_request_is_found_by_its_id_with_everything_that_was_recorded(
    recorder: Recorder, reads: OperatorReads, now: int
) -> None:
    disclosed = record(now, request_id="r-1", personal_base="mb_a", personal_members=7, route="members")
    recorder.write(record(now, request_id="r-0"), disclosed)
    (one,) = found(reads, request_id="r-1")
    assert one == RecordedRequest(
        number=one.number,
        at=now,
        request_id="r-1",
        key_id="k_1",
        route="members",
        status=200,
        error=None,
        took_us=900,
        personal_base="mb_a",
        personal_members=7,
    )
    assert found(reads, request_id="r-2") == []


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"key_id": "k_2"}, ["other key"]),
        ({"route": "shops"}, ["other route"]),
        ({"status": 304}, ["other status"]),
        ({"status": 400}, ["failed for k_2", "failed"]),
        ({"error": "bad_cursor"}, ["failed"]),
        ({"error": "bad_query", "key_id": "k_1"}, []),
        ({"error": "bad_query", "key_id": "k_2"}, ["failed for k_2"]),
        ({"slower_than_us": 900}, ["slow"]),
        ({"personal_data": True}, ["disclosed to k_2", "disclosed"]),
        ({"personal_data": True, "key_id": "k_2"}, ["disclosed to k_2"]),
        ({"request_id": "slow", "key_id": "k_2"}, []),
        ({"key_id": "k_1", "route": "shops", "status": 200}, ["other route"]),
    ],
)
def test_each_condition_of_a_filter_selects_its_requests(
    recorder: Recorder, reads: OperatorReads, now: int, wanted: dict[str, Any], expected: list[str]
) -> None:
    recorder.write(
        record(now, request_id="plain"),
        record(now + 1, request_id="other key", key_id="k_2"),
        record(now + 2, request_id="other route", route="shops"),
        record(now + 3, request_id="other status", status=304),
        record(now + 4, request_id="failed", status=400, error="bad_cursor"),
        record(now + 5, request_id="failed for k_2", status=400, error="bad_query", key_id="k_2"),
        record(now + 6, request_id="slow", took_us=901),
        record(now + 7, request_id="disclosed", personal_base="mb_a", personal_members=1),
        record(now + 8, request_id="disclosed to k_2", personal_base="mb_a", personal_members=1, key_id="k_2"),
    )
    if wanted.get("key_id") == "k_2" and len(wanted) == 1:
        expected = ["disclosed to k_2", "failed for k_2", *expected]
    assert ids(found(reads, **wanted)) == expected


def test_a_time_range_includes_its_start_and_not_its_end(recorder: Recorder, reads: OperatorReads, now: int) -> None:
    recorder.write(*(record(now + shift, request_id=f"r-{shift}") for shift in range(4)))
    assert ids(found(reads, since=now + 1, until=now + 3)) == ["r-2", "r-1"]


@pytest.mark.parametrize("wanted", [{}, {"key_id": "k_1"}, {"error": "bad_query"}, {"request_id": "the same"}])
def test_pages_contain_every_request_once_even_if_all_have_the_same_time(
    recorder: Recorder, reads: OperatorReads, now: int, wanted: dict[str, Any]
) -> None:
    recorder.write(*(record(now, request_id="the same", error="bad_query", took_us=n) for n in range(25)))
    taken: list[int] = []
    page = reads.requests(RequestFilter(**wanted), 10)
    sizes = [len(page.requests)]
    taken += [one.took_us for one in page.requests]
    while page.next:
        page = reads.requests(RequestFilter(**wanted, before=page.next), 10)
        sizes.append(len(page.requests))
        taken += [one.took_us for one in page.requests]
    assert sizes == [10, 10, 5]
    assert sorted(taken) == list(range(25))


def test_a_search_for_something_rare_stops_early_and_can_be_continued(
    recorder: Recorder, store: Store, now: int
) -> None:
    recorder.write(*(record(now + n, took_us=5_000 if n in (3, 18) else 1) for n in range(35)))
    reads, pages = store.operator_reads(scanned=10), []
    page = reads.requests(RequestFilter(slower_than_us=1_000), 10)
    pages.append([one.at - now for one in page.requests])
    while page.next:
        page = reads.requests(RequestFilter(slower_than_us=1_000, before=page.next), 10)
        pages.append([one.at - now for one in page.requests])
    assert pages == [[], [18], [], [3]]


def test_a_query_that_takes_too_long_is_stopped(recorder: Recorder, store: Store, clock: ManualClock) -> None:
    recorder.write(*(record(clock.now_ms() + n) for n in range(20_000)))
    with pytest.raises(QueryTooSlow, match=r"took longer than 0\.001 s"):
        store.operator_reads(query_sec=0.001).requests(RequestFilter(slower_than_us=10_000), 100)


def test_followed_requests_are_returned_once_and_oldest_first_even_if_written_late(
    recorder: Recorder, reads: OperatorReads, now: int
) -> None:
    recorder.write(record(now - 1, request_id="before"))
    follower = RequestFollower(reads, RequestFilter(key_id="k_1"), now)
    assert follower.new_requests() == []
    recorder.write(record(now + 1, request_id="r-1"), record(now, request_id="r-0"), record(now, key_id="k_2"))
    assert ids(follower.new_requests()) == ["r-0", "r-1"]
    recorder.write(record(now + 4_000, request_id="r-3"))
    assert ids(follower.new_requests()) == ["r-3"]
    recorder.write(record(now + 3_000, request_id="r-2"))
    assert ids(follower.new_requests()) == ["r-2"]
    assert follower.new_requests() == []


def test_more_new_requests_than_fit_on_a_page_are_followed(
    recorder: Recorder, reads: OperatorReads, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterfoil.views.requests.PER_QUERY", 3)
    now = clock.now_ms()
    follower = RequestFollower(reads, RequestFilter(), now)
    recorder.write(*(record(now + n, request_id=f"r-{n}") for n in range(8)))
    assert ids(follower.new_requests()) == [f"r-{n}" for n in range(8)]


# --- counts ----------------------------------------------------------------------


def test_requests_errors_and_refusals_are_counted_per_key_and_day(
    usage: OpenUsage, recorder: Recorder, reads: OperatorReads, clock: ManualClock, run: Run
) -> None:
    for _ in range(3):
        run(usage.admit(KEY))
    now = clock.now_ms()
    recorder.write(
        record(now), record(now, status=400, error="bad_query"), record(now, status=429, error="quota_exceeded")
    )

    def refuse() -> None:
        for error in ("rate_limited", "rate_limited", "key_revoked"):
            usage.note_refusal("k_1", error, now)
        usage.note_refusal("k_2", "key_revoked", now + DAY * 1000)

    recorder.do(refuse)
    today = DayOfKey(key_id="k_1", day=FIRST_DAY, requests=3, errors=2, rate_limited=2, over_quota=1, refused=1)
    tomorrow = DayOfKey(key_id="k_2", day=FIRST_DAY + timedelta(days=1), refused=1)
    assert reads.days(FIRST_DAY, FIRST_DAY + timedelta(days=1)) == [today, tomorrow]
    assert reads.days(FIRST_DAY, FIRST_DAY) == [today]
    assert reads.days(FIRST_DAY, FIRST_DAY + timedelta(days=1), "k_2") == [tomorrow]


def test_counts_of_two_workers_are_added_up(store: Store, clock: ManualClock, run: Run, reads: OperatorReads) -> None:
    for _ in range(2):
        usage = store.usage(clock)
        recorder = Recorder(usage, run)
        recorder.do(lambda usage=usage: usage.note_refusal("k_1", "rate_limited", clock.now_ms()))  # type: ignore[misc]
    assert [day.rate_limited for day in reads.days(FIRST_DAY, FIRST_DAY)] == [2]


def test_counts_outlive_the_records_and_are_deleted_after_400_days(
    recorder: Recorder, reads: OperatorReads, clock: ManualClock
) -> None:
    recorder.write(record(clock.now_ms(), status=400, error="bad_query"))
    clock.advance(91 * DAY)
    recorder.usage.prune()
    assert found(reads) == []
    assert [day.errors for day in reads.days(FIRST_DAY, FIRST_DAY)] == [1]
    clock.advance(310 * DAY)
    recorder.usage.prune()
    assert reads.days(FIRST_DAY, FIRST_DAY) == []


def test_counts_that_cannot_be_written_are_written_later(
    store: Store, usage: OpenUsage, recorder: Recorder, now: int, reads: OperatorReads
) -> None:
    with store.out_of_space(), pytest.raises(StoreUnavailable):
        recorder.do(lambda: usage.note_refusal("k_1", "rate_limited", now))
    usage.flush()
    assert [day.rate_limited for day in reads.days(FIRST_DAY, FIRST_DAY)] == [1]


def test_requests_of_a_key_are_counted_per_hour(recorder: Recorder, reads: OperatorReads, clock: ManualClock) -> None:
    start = clock.now_ms() // HOUR_MS * HOUR_MS
    recorder.write(
        record(start - 1),
        record(start),
        record(start + 1, status=400, error="bad_query"),
        record(start + HOUR_MS),
        record(start, key_id="k_2"),
    )
    assert reads.hours("k_1", start - 5) == [HourOfKey(start, 2, 1), HourOfKey(start + HOUR_MS, 1, 0)]
    assert reads.hours(None, start) == [HourOfKey(start, 3, 1), HourOfKey(start + HOUR_MS, 1, 0)]


def test_the_median_and_the_95th_percentile_of_durations_are_computed_per_day(
    recorder: Recorder, reads: OperatorReads
) -> None:
    start = thai_midnight(FIRST_DAY)
    recorder.write(
        record(start - 1, took_us=9_000_000),
        *(record(start + place, took_us=took_us) for place, took_us in enumerate(range(1_000, 21_000, 1_000))),
        record(start + DAY_MS, took_us=7),
        record(start + 5, took_us=8_000_000, key_id="k_2"),
    )
    first, second = Latency(start, 20, 10_000, 19_000), Latency(start + DAY_MS, 1, 7, 7)
    assert reads.latencies("k_1", start, DAY_MS) == [first, second]
    assert reads.latencies("k_1", start, HOUR_MS) == [first, second]
    assert reads.latencies(None, start, DAY_MS)[0] == Latency(start, 21, 11_000, 20_000)
    assert reads.latencies("k_3", start, DAY_MS) == []


def test_all_failed_requests_can_be_selected(recorder: Recorder, reads: OperatorReads, now: int) -> None:
    recorder.write(record(now), record(now + 1, error="bad_query"), record(now + 2, error="not_found", key_id="k_2"))
    assert [request.at for request in found(reads, error=ANY_ERROR)] == [now + 2, now + 1]
    assert [request.at for request in found(reads, error=ANY_ERROR, key_id="k_1")] == [now + 1]


def test_errors_are_grouped_by_code_and_route(recorder: Recorder, reads: OperatorReads, now: int) -> None:
    recorder.write(
        record(now - 1, error="bad_query"),
        record(now, error="bad_cursor"),
        record(now + 1, error="bad_cursor"),
        record(now + 2, error="bad_cursor", route="members", key_id="k_2"),
        record(now + 3),
    )
    both, other = ErrorGroup("bad_cursor", "transactions", 2, now + 1), ErrorGroup("bad_cursor", "members", 1, now + 2)
    assert reads.errors(now) == [both, other]
    assert reads.errors(now, "k_2") == [other]


def test_the_last_use_of_a_key_is_its_latest_request(
    usage: OpenUsage, recorder: Recorder, reads: OperatorReads, now: int, run: Run
) -> None:
    run(usage.admit(KEY))
    recorder.write(record(now), record(now + 5), record(now + 3, key_id="k_2"), record(now + 4, key_id="k_0"))
    assert reads.last_used() == {"k_0": now + 4, "k_1": now + 5, "k_2": now + 3}


def test_the_last_use_of_an_idle_key_is_known_by_day_after_its_records_are_deleted(
    usage: OpenUsage, recorder: Recorder, reads: OperatorReads, clock: ManualClock, run: Run
) -> None:
    run(usage.admit(KEY))
    recorder.write(record(clock.now_ms()))
    clock.advance(91 * DAY)
    usage.prune()
    assert reads.last_used() == {"k_1": thai_midnight(FIRST_DAY)}


def test_the_last_disclosure_to_each_key_is_known(recorder: Recorder, reads: OperatorReads, now: int) -> None:
    recorder.write(
        record(now, personal_base="mb_a", personal_members=1),
        record(now + 1, personal_base="mb_a", personal_members=1),
        record(now + 2),
        record(now, key_id="k_2", personal_base="mb_a", personal_members=1),
        record(now, key_id="k_3"),
    )
    assert reads.last_disclosed() == {"k_1": now + 1, "k_2": now}


# --- copies ----------------------------------------------------------------------

SHOP_CHANGES = ("k_1", CHANGES_OF_SHOP, "sh_1")
FEED = ("k_1", CHANGE_FEED, "")


def shop_copy(server_time: int | None, at: int, *, finished: bool) -> CopyState:
    return CopyState(list_name=CHANGES_OF_SHOP, shop_id="sh_1", server_time=server_time, finished=finished, at=at)


def read_passes(recorder: Recorder, *passes: tuple[int, int]) -> None:
    """Record finished passes, each with the range of changes that it has read, and write them together."""

    def note() -> None:
        for since, horizon in passes:
            recorder.usage.note_page(SHOP_CHANGES, since, horizon, True, horizon)

    recorder.do(note)


def read_so_far(reads: OperatorReads) -> list[tuple[int, int]]:
    """Return the ranges of changes that have been read from the list."""
    (state,) = reads.copies().get("k_1", [])
    assert state.server_time is not None
    starts = [state.read_from, *(gap.end for gap in state.gaps)]
    ends = [*(gap.start for gap in state.gaps), state.server_time]
    return list(zip(starts, ends, strict=True))


def test_a_copy_is_as_fresh_as_its_latest_finished_pass(recorder: Recorder, reads: OperatorReads) -> None:
    def read(horizon: int, at: int, *, is_last: bool) -> list[CopyState]:
        recorder.do(lambda: recorder.usage.note_page(SHOP_CHANGES, 0, horizon, is_last, at))
        return reads.copies().get("k_1", [])

    assert reads.copies().get("k_1", []) == []
    assert read(900, 1_000, is_last=False) == [shop_copy(None, 1_000, finished=False)]
    assert read(900, 1_100, is_last=True) == [shop_copy(900, 1_100, finished=True)]
    assert read(1_900, 2_000, is_last=False) == [shop_copy(900, 2_000, finished=False)]
    assert read(1_900, 2_100, is_last=True) == [shop_copy(1_900, 2_100, finished=True)]
    # A slow worker reports an older pass.
    assert read(1_500, 1_600, is_last=True) == [shop_copy(1_900, 2_100, finished=True)]


def test_each_lineage_and_list_has_its_own_state(recorder: Recorder, reads: OperatorReads) -> None:
    def read() -> None:
        recorder.usage.note_page(SHOP_CHANGES, 0, 1, True, 10)
        recorder.usage.note_page(FEED, 0, 2, True, 20)
        recorder.usage.note_page(("k_2", CHANGES_OF_SHOP, "sh_1"), 0, 3, True, 30)

    recorder.do(read)
    feed = CopyState(list_name=CHANGE_FEED, shop_id=None, server_time=2, finished=True, at=20)
    assert reads.copies().get("k_1", []) == [shop_copy(1, 10, finished=True), feed]
    assert reads.copies().get("k_3", []) == []
    assert reads.copies() == {"k_1": [shop_copy(1, 10, finished=True), feed], "k_2": [shop_copy(3, 30, finished=True)]}


def test_a_copy_that_was_not_read_for_400_days_is_forgotten(
    recorder: Recorder, reads: OperatorReads, clock: ManualClock
) -> None:
    recorder.do(lambda: recorder.usage.note_page(FEED, 0, 1, True, clock.now_ms()))
    clock.advance(401 * DAY)
    recorder.usage.prune()
    assert reads.copies().get("k_1", []) == []


def test_a_pass_that_begins_after_the_end_of_the_last_pass_leaves_a_gap(
    recorder: Recorder, reads: OperatorReads
) -> None:
    read_passes(recorder, (0, 100))
    read_passes(recorder, (300, 400))
    (state,) = reads.copies().get("k_1", [])
    assert (state.read_from, state.server_time, list(state.gaps)) == (0, 400, [ReadGap(100, 300)])
    read_passes(recorder, (400, 500), (500, 600))
    assert read_so_far(reads) == [(0, 100), (300, 600)]


def test_a_pass_that_begins_in_time_closes_the_gap(recorder: Recorder, reads: OperatorReads) -> None:
    read_passes(recorder, (0, 100), (300, 400), (500, 600))
    assert read_so_far(reads) == [(0, 100), (300, 400), (500, 600)]
    read_passes(recorder, (350, 700))
    assert read_so_far(reads) == [(0, 100), (300, 700)]
    read_passes(recorder, (100, 800))
    assert read_so_far(reads) == [(0, 800)]


def test_a_pass_from_before_1970_begins_at_0(recorder: Recorder, reads: OperatorReads) -> None:
    read_passes(recorder, (-5, 10), (20, 30))
    assert read_so_far(reads) == [(0, 10), (20, 30)]


def test_a_gap_is_only_closed_as_far_as_the_pass_went(recorder: Recorder, reads: OperatorReads) -> None:
    read_passes(recorder, (0, 100))
    read_passes(recorder, (300, 400))
    # A slow worker reports a pass that ended before the gap did.
    read_passes(recorder, (100, 200))
    assert read_so_far(reads) == [(0, 200), (300, 400)]


def test_a_list_that_is_first_read_from_a_mark_shows_when_that_was(recorder: Recorder, reads: OperatorReads) -> None:
    # The first page of the pass is not the last one, so at first no change counts as read.
    recorder.do(lambda: recorder.usage.note_page(SHOP_CHANGES, 300, 400, False, 400))
    read_passes(recorder, (300, 400))
    assert read_so_far(reads) == [(300, 400)]
    read_passes(recorder, (0, 500))
    assert read_so_far(reads) == [(0, 500)]


def test_a_pass_that_begins_in_the_future_does_not_count_as_read(recorder: Recorder, reads: OperatorReads) -> None:
    read_passes(recorder, (9_000, 100), (9_000, 110))
    (state,) = reads.copies().get("k_1", [])
    assert (state.server_time, state.finished, state.at) == (None, True, 110)
    read_passes(recorder, (0, 120), (9_000, 130))
    assert read_so_far(reads) == [(0, 120)]


@pytest.mark.parametrize("seed", range(3))
def test_workers_may_write_the_passes_of_one_caller_in_any_order(
    store: Store, clock: ManualClock, run: Run, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr("counterfoil.backends.pending_usage.RECORDS_SEC", 600)
    chance = random.Random(seed)  # noqa: S311 - chooses the order of a test
    workers = [store.usage(clock) for _ in range(4)]
    passes = [(at, at + 10) for at in range(0, 240, 10)]
    unread = passes.pop(12)
    by_worker: list[list[tuple[int, int]]] = [[] for _ in workers]
    for one in passes:
        chance.choice(by_worker).append(one)
    for index in chance.sample(range(len(workers)), len(workers)):
        read_passes(Recorder(workers[index], run), *by_worker[index])
    assert read_so_far(store.operator_reads()) == [(0, unread[0]), (unread[1], 240)]


def test_passes_that_cannot_be_written_are_written_later_with_their_gaps(
    store: Store, usage: OpenUsage, recorder: Recorder, reads: OperatorReads
) -> None:
    with store.out_of_space(), pytest.raises(StoreUnavailable):
        read_passes(recorder, (0, 100), (300, 400))
    read_passes(recorder, (400, 500))
    assert read_so_far(reads) == [(0, 100), (300, 500)]


def test_only_the_newest_ranges_of_a_list_are_kept(recorder: Recorder, reads: OperatorReads) -> None:
    passes = [(at, at + 1) for at in range(0, 10 * (MAX_RANGES + 5), 10)]
    for start in range(0, len(passes), 3):
        read_passes(recorder, *passes[start : start + 3])
    assert read_so_far(reads) == passes[-MAX_RANGES:]


# --- loads -----------------------------------------------------------------------


def test_loads_are_listed_newest_first_with_their_rejected_lines(
    open_store: OpenStore, reads: OperatorReads, clock: ManualClock
) -> None:
    began = clock.now_ms()
    first = open_store.ledger.begin_load("bills.ndjson")
    clock.advance(2)
    rejects = [
        RejectedLine("bills.ndjson", 4, "no_shop", []),
        RejectedLine("bills.ndjson", 9, "unreadable_value", ["payments.amount"]),
    ]
    progress = LoadProgress(
        first.number,
        lines=9,
        changed=7,
        rejected=2,
        finished=True,
        reasons={"no_shop": 1, "unreadable_value": 1},
        rejects_file="/rejects/bills.ndjson",
        new_rejects=list(rejects),
    )
    open_store.ledger.apply([], progress)
    open_store.ledger.begin_load("more.ndjson")
    newer, older = reads.loads(10)
    assert (newer.source, newer.finished_at, newer.reasons, newer.rejects_file) == ("more.ndjson", None, {}, None)
    assert (older.source, older.started_at, older.finished_at) == ("bills.ndjson", began, clock.now_ms())
    assert (older.lines, older.changed, older.rejected) == (9, 7, 2)
    assert (older.reasons, older.rejects_file) == ({"no_shop": 1, "unreadable_value": 1}, "/rejects/bills.ndjson")
    assert reads.loads(1) == [newer]
    assert reads.rejects(older.number, 10) == rejects
    assert reads.rejects(older.number, 1) == rejects[:1]
    assert reads.rejects(newer.number, 10) == []


def test_the_rejected_lines_of_a_load_are_remembered_up_to_a_limit(open_store: OpenStore, reads: OperatorReads) -> None:
    progress = open_store.ledger.begin_load("bills.ndjson")
    for batch in range(3):
        for line in range(MAX_REMEMBERED // 2):
            progress.add_reject(RejectedLine("bills.ndjson", batch * 1_000 + line, "no_shop"))
        open_store.ledger.apply([], progress)
        progress.mark_stored()
    remembered = reads.rejects(progress.number, 10_000)
    assert len(remembered) == MAX_REMEMBERED
    assert remembered[-1].line == 1_000 + MAX_REMEMBERED // 2 - 1


def test_the_rejected_lines_of_a_forgotten_load_are_deleted(open_store: OpenStore, reads: OperatorReads) -> None:
    progress = open_store.ledger.begin_load("bills.ndjson")
    progress.add_reject(RejectedLine("bills.ndjson", 1, "no_shop"))
    open_store.ledger.apply([], progress)
    for _ in range(100):
        open_store.ledger.begin_load("bills.ndjson")
    assert len(reads.loads(1_000)) == 100
    assert reads.rejects(progress.number, 10) == []
