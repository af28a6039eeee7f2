"""Request records are kept for 90 days and daily totals for 400.

Disclosures are written before the response is sent.
"""

import asyncio
from contextlib import closing
from datetime import date, timedelta

import pytest
from msgspec.structs import asdict, replace

from counterfoil.domain.access import Key, Scope
from counterfoil.domain.request_records import RequestRecord
from counterfoil.operator_reads import RequestFilter
from counterfoil.ports import StoreUnavailable
from ports.backends import OpenUsage, Store
from ports.conftest import Run
from running_service import ManualClock

KEY = Key(key_id="k_1", scope=Scope("shop", "sh_1"))
DAY = 86_400
RECORD = RequestRecord(
    at=0,
    key_id="k_1",
    route="members",
    status=200,
    error=None,
    took_us=1234,
    personal_base="mb_a",
    personal_members=7,
    request_id="r-1",
)


def at(clock: ManualClock, **fields: object) -> RequestRecord:
    return replace(RECORD, at=clock.now_ms(), **fields)


def disclosures(store: Store, clock: ManualClock, most: int = 10, key_id: str | None = None) -> list[RequestRecord]:
    """Return the latest disclosures, newest first, after all written records were indexed."""
    with closing(store.usage(clock)) as usage:
        usage.flush()
    found = store.operator_reads().requests(RequestFilter(personal_data=True, key_id=key_id), most).requests
    return [RequestRecord(**{name: value for name, value in asdict(one).items() if name != "number"}) for one in found]


def test_a_disclosure_is_recorded_before_the_call_returns(
    store: Store, clock: ManualClock, run: Run, usage: OpenUsage
) -> None:
    run(usage.disclose(at(clock)))
    assert disclosures(store, clock) == [at(clock)]


def test_an_ordinary_record_is_not_a_disclosure(store: Store, clock: ManualClock, run: Run, usage: OpenUsage) -> None:
    async def note() -> None:
        usage.note(at(clock, personal_base=None, personal_members=0))

    run(note())
    usage.flush()
    assert disclosures(store, clock) == []


def test_a_queued_record_is_written_when_the_worker_stops(
    store: Store, clock: ManualClock, run: Run, usage: OpenUsage
) -> None:
    async def note() -> None:
        for _ in range(3):
            usage.note(at(clock))

    run(note())
    usage.close()
    assert len(disclosures(store, clock)) == 3


def test_a_record_that_is_being_written_when_the_worker_stops_is_written_once(
    store: Store, clock: ManualClock, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterfoil.backends.postgres.usage.RECORDS_SEC", 0)
    usage = store.usage(clock)

    async def note() -> None:
        usage.note(at(clock))
        # Let the event loop run until the statement has been sent.
        await asyncio.to_thread(int)

    run(note())
    usage.close()
    assert disclosures(store, clock) == [at(clock)]


def test_a_queued_record_is_written_with_the_next_admission(
    store: Store, clock: ManualClock, run: Run, usage: OpenUsage
) -> None:
    async def note_and_admit() -> None:
        usage.note(at(clock))
        await usage.admit(KEY)

    run(note_and_admit())
    assert disclosures(store, clock) == [at(clock)]


def test_every_record_before_the_latest_admission_outlives_a_worker_that_is_killed(
    store: Store, clock: ManualClock, run: Run, usage: OpenUsage
) -> None:
    async def note_and_admit() -> None:
        for members in range(40):
            usage.note(at(clock, personal_members=members))
            await usage.admit(KEY)

    run(note_and_admit())
    kept = disclosures(store, clock, 100)
    assert sorted(record.personal_members for record in kept) == list(range(40))


def test_disclosures_are_listed_newest_first_up_to_the_requested_number(
    store: Store, clock: ManualClock, run: Run, usage: OpenUsage
) -> None:
    for members in (1, 2, 3):
        run(usage.disclose(at(clock, personal_members=members)))
        clock.advance(1)
    assert [record.personal_members for record in disclosures(store, clock, 2)] == [3, 2]


def test_disclosures_of_one_key_are_found_however_many_others_are_newer(
    store: Store, clock: ManualClock, run: Run, usage: OpenUsage
) -> None:
    for key_id in ("mine", "other", "other"):
        run(usage.disclose(at(clock, key_id=key_id)))
        clock.advance(1)
    assert [record.key_id for record in disclosures(store, clock, 1, "mine")] == ["mine"]
    assert disclosures(store, clock, key_id="nobody") == []


def test_a_record_that_cannot_be_written_waits_and_nothing_is_written_twice(
    store: Store, clock: ManualClock, run: Run, usage: OpenUsage
) -> None:
    async def note() -> None:
        usage.note(at(clock))

    run(note())
    with store.out_of_space(), pytest.raises(StoreUnavailable):
        usage.flush()
    usage.flush()
    usage.flush()
    assert disclosures(store, clock) == [at(clock)]


def test_a_disclosure_that_could_not_be_recorded_is_an_error(
    store: Store, clock: ManualClock, run: Run, usage: OpenUsage
) -> None:
    with store.out_of_space(), pytest.raises(StoreUnavailable):
        run(usage.disclose(at(clock)))


def test_a_disclosure_that_was_refused_is_not_recorded_later(
    store: Store, clock: ManualClock, run: Run, usage: OpenUsage
) -> None:
    """The caller received a 500 and no data."""
    with store.out_of_space(), pytest.raises(StoreUnavailable):
        run(usage.disclose(at(clock)))
    usage.flush()
    assert disclosures(store, clock) == []


def test_records_are_dropped_after_ninety_days(store: Store, clock: ManualClock, run: Run, usage: OpenUsage) -> None:
    run(usage.disclose(at(clock)))
    clock.advance(90 * DAY)
    run(usage.disclose(at(clock)))
    assert usage.prune() == (0, 0)
    clock.advance(0.001)
    assert usage.prune() == (1, 0)
    assert len(disclosures(store, clock)) == 1
    assert usage.prune() == (0, 0)


def test_totals_are_dropped_after_four_hundred_days(usage: OpenUsage, clock: ManualClock, run: Run) -> None:
    for _ in range(3):
        run(usage.admit(KEY))
        clock.advance(DAY)
    first = date(2026, 1, 1)
    clock.advance(398 * DAY)
    run(usage.admit(KEY))
    assert usage.prune() == (0, 1)
    kept = run(usage.counts(KEY, [first + timedelta(days=n) for n in range(402)]))
    assert kept == {first + timedelta(days=n): 1 for n in (1, 2, 401)}


def test_pruning_does_not_affect_the_minute_and_the_day(usage: OpenUsage, run: Run) -> None:
    key = replace(KEY, per_min=2)
    run(usage.admit(key))
    run(usage.admit(key))
    usage.prune()
    assert type(run(usage.admit(key))).__name__ == "TooFast"
    assert sum(run(usage.counts(KEY, [date(2026, 1, 1)])).values()) == 2


def test_counts_of_inactive_keys_are_deleted_after_400_days_too(usage: OpenUsage, clock: ManualClock, run: Run) -> None:
    run(usage.admit(KEY))
    clock.advance(402 * DAY)
    usage.prune()
    assert run(usage.counts(KEY, [date(2026, 1, 1)])) == {}


def test_records_survive_a_restart(store: Store, clock: ManualClock, run: Run, usage: OpenUsage) -> None:
    run(usage.disclose(at(clock)))
    run(usage.admit(KEY))
    usage.close()
    assert disclosures(store, clock) == [at(clock)]
    assert run(store.usage(clock).counts(KEY, [date(2026, 1, 1)])) == {date(2026, 1, 1): 1}


def test_many_old_records_are_deleted_in_one_call(usage: OpenUsage, clock: ManualClock, run: Run) -> None:
    async def note() -> None:
        for _ in range(12_000):
            usage.note(at(clock))

    run(note())
    usage.flush()
    clock.advance(91 * DAY)
    assert usage.prune() == (12_000, 0)
