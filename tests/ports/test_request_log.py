"""Request records are kept for 90 days and daily totals for 400.

Disclosures are written before the response is sent.
"""

import asyncio
from contextlib import closing
from datetime import date, timedelta

import pytest
from msgspec.structs import replace

from counterfoil.domain.access import Key, Scope
from counterfoil.domain.request_records import RequestRecord
from counterfoil.ports import StoreUnavailable
from counterfoil.request_reads import RequestFilter
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


class Log:
    """The request log of a store, and what is found in it."""

    def __init__(self, store: Store, clock: ManualClock, run: Run, usage: OpenUsage) -> None:
        self.store, self.clock, self.run, self.usage = store, clock, run, usage

    def at(self, **fields: object) -> RequestRecord:
        return replace(RECORD, at=self.clock.now_ms(), **fields)

    def disclose(self) -> None:
        self.run(self.usage.disclose(self.at()))

    def note(self, count: int = 1) -> None:
        async def note() -> None:
            for _ in range(count):
                self.usage.note(self.at())

        self.run(note())

    def disclosures(self) -> list[RequestRecord]:
        """Return the disclosures, newest first, after all written records were indexed."""
        with closing(self.store.usage(self.clock)) as usage:
            usage.flush()
        found = self.store.operator_reads().requests(RequestFilter(personal_data=True), 100).requests
        return [
            RequestRecord(**{name: getattr(one, name) for name in RequestRecord.__struct_fields__}) for one in found
        ]


@pytest.fixture
def log(store: Store, clock: ManualClock, run: Run, usage: OpenUsage) -> Log:
    return Log(store, clock, run, usage)


def test_a_disclosure_is_recorded_before_the_call_returns(log: Log) -> None:
    log.disclose()
    assert log.disclosures() == [log.at()]


def test_a_queued_record_is_written_when_the_worker_stops(log: Log) -> None:
    log.note(3)
    log.usage.close()
    assert len(log.disclosures()) == 3


def test_a_record_that_is_being_written_when_the_worker_stops_is_written_once(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterfoil.backends.pending_usage.RECORDS_SEC", 0)
    usage = log.store.usage(log.clock)

    async def note() -> None:
        usage.note(log.at())
        # Let the event loop run until the statement has been sent.
        await asyncio.to_thread(int)

    log.run(note())
    usage.close()
    assert log.disclosures() == [log.at()]


def test_every_record_before_the_latest_admission_outlives_a_worker_that_is_killed(log: Log) -> None:
    async def note_and_admit() -> None:
        for members in range(40):
            log.usage.note(log.at(personal_members=members))
            await log.usage.admit(KEY)

    log.run(note_and_admit())
    kept = log.disclosures()
    assert sorted(record.personal_members for record in kept) == list(range(40))


def test_a_record_that_cannot_be_written_waits_and_nothing_is_written_twice(log: Log) -> None:
    log.note()
    with log.store.out_of_space(), pytest.raises(StoreUnavailable):
        log.usage.flush()
    log.usage.flush()
    log.usage.flush()
    assert log.disclosures() == [log.at()]


def test_a_disclosure_that_was_refused_is_not_recorded_later(log: Log) -> None:
    """The caller received a 500 and no data."""
    with log.store.out_of_space(), pytest.raises(StoreUnavailable):
        log.disclose()
    log.usage.flush()
    assert log.disclosures() == []


def test_records_are_dropped_after_ninety_days(log: Log) -> None:
    log.disclose()
    log.clock.advance(90 * DAY)
    log.disclose()
    assert log.usage.prune() == (0, 0)
    log.clock.advance(0.001)
    assert log.usage.prune() == (1, 0)
    assert len(log.disclosures()) == 1
    assert log.usage.prune() == (0, 0)


def test_totals_are_dropped_after_four_hundred_days(usage: OpenUsage, clock: ManualClock, run: Run) -> None:
    days = [date(2026, 1, 1) + timedelta(days=n) for n in range(402)]
    for _ in range(3):
        run(usage.admit(KEY))
        clock.advance(DAY)
    clock.advance(398 * DAY)
    run(usage.admit(KEY))
    assert usage.prune() == (0, 1)
    assert run(usage.counts(KEY, days)) == {days[n]: 1 for n in (1, 2, 401)}
    # The key is not used any more.
    clock.advance(402 * DAY)
    usage.prune()
    assert run(usage.counts(KEY, days)) == {}


def test_pruning_does_not_affect_the_minute_and_the_day(usage: OpenUsage, run: Run) -> None:
    key = replace(KEY, per_min=2)
    run(usage.admit(key))
    run(usage.admit(key))
    usage.prune()
    assert type(run(usage.admit(key))).__name__ == "TooFast"
    assert sum(run(usage.counts(KEY, [date(2026, 1, 1)])).values()) == 2
