"""Tests for the shared meter on its own server: data loss, re-seeding, sentinels, clusters and connections."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from typing import Any

import pytest
from msgspec.structs import replace
from redis.asyncio import Redis
from redis.exceptions import TimeoutError as RedisTimeoutError

import servers
from counterfoil.backends.postgres.administration import PostgresKeyStore
from counterfoil.backends.postgres.reads import PostgresReads
from counterfoil.backends.postgres.servers import Servers
from counterfoil.backends.postgres.usage import Instant, PostgresUsage
from counterfoil.backends.redis.client import disconnect
from counterfoil.backends.redis.meter import RedisMeter
from counterfoil.domain.access import Admitted, Key, Scope
from counterfoil.model.calendar import thai_day
from counterfoil.observe import CountsReseeded, Event
from counterfoil.ports import StoredKey, StoreUnavailable
from counterfoil.program.clock import SystemClock
from ports.open_store import Synchronous
from servers import Valkey
from waiting import until

KEY = Key(key_id="k_1", scope=Scope("shop", "sh_1"), per_min=5, per_day=1000)


class MeterAndStore:
    """A meter and its store, using the machine's own clock unless another one is given."""

    def __init__(self, meter_url: str, instant: Instant | None = None) -> None:
        self.database, self.url = servers.postgres(18).borrow_database()
        self.events: list[Event] = []
        self.runner = asyncio.Runner()
        self.servers = Servers(self.url, SystemClock())
        totals = PostgresUsage(self.servers)
        meter = RedisMeter(meter_url, "test", totals, self.events.append, self.servers, instant)
        self.totals: Any = Synchronous(totals, self.runner.run)
        self.meter: Any = Synchronous(meter, self.runner.run)

    def close(self) -> None:
        self.meter.close()
        self.totals.close()
        self.runner.close()
        servers.postgres(18).return_database(self.database)


@pytest.fixture(scope="module")
def started() -> Iterator[Valkey]:
    server = Valkey()
    yield server
    server.remove()


@pytest.fixture
def own(started: Valkey) -> Valkey:
    """An empty server, which a test may kill."""
    started.command("FLUSHALL")
    return started


@pytest.fixture
def metered(own: Valkey) -> Iterator[MeterAndStore]:
    with closing(MeterAndStore(own.url)) as metered:
        yield metered


def counts(metered: MeterAndStore, times: int, key: Key = KEY) -> list[int]:
    return [verdict.count for _ in range(times) if isinstance(verdict := metered.meter.admit(key), Admitted)]


def today() -> date:
    return thai_day(SystemClock().now_ms())


def test_a_flushed_meter_continues_with_the_count_of_the_day_and_reports_it(
    metered: MeterAndStore, own: Valkey
) -> None:
    assert counts(metered, 4) == [1, 2, 3, 4]
    assert metered.events == []
    metered.meter.flush()
    own.command("FLUSHALL")
    assert counts(metered, 2) == [5, 6]
    assert [event for event in metered.events if isinstance(event, CountsReseeded)] == [
        CountsReseeded(key_id="k_1", day=today().strftime("%Y%m%d"), count=4)
    ]


def test_a_day_that_begins_during_an_admission_does_not_continue_the_count_of_the_day_before(own: Valkey) -> None:
    monday, tuesday = date(2026, 6, 1), date(2026, 6, 2)
    midnight = 1_780_333_200_000_000
    instants = iter([(midnight - 1_000 * n, monday) for n in (5, 4, 3, 2, 1)] + [(midnight, tuesday)] * 3)
    with closing(MeterAndStore(own.url, lambda: next(instants))) as metered:
        assert counts(metered, 3) == [1, 2, 3]
        metered.meter.flush()
        own.command("FLUSHALL")
        # The meter reads Monday's count from the store, but it is Tuesday when the admission is repeated.
        assert metered.meter.admit(KEY) == Admitted(tuesday, 1)
        assert metered.events == []


def test_all_reports_of_a_day_that_both_meters_counted_agree_on_the_higher_count(metered: MeterAndStore) -> None:
    """The store's own meter counts first. Then the shared meter continues, and raises only the stored daily total."""
    with closing(PostgresKeyStore(metered.url)) as key_store:
        key_store.add(StoredKey(KEY, b"digest"), [])
    for _ in range(2):
        metered.totals.admit(KEY)
    day = today()
    metered.totals.raise_totals({(KEY.key_id, day): 50})
    assert metered.totals.counts(KEY, [day]) == {day: 50}
    assert [one.requests for one in PostgresReads(metered.url).days(day, day)] == [50]
    assert PostgresReads(metered.url).quota_use(SystemClock().now_ms()) == [50 / KEY.per_day]


def test_counts_reach_the_store_automatically_within_a_second(metered: MeterAndStore) -> None:
    counts(metered, 3)
    until(lambda: metered.totals.counts(KEY, [today()]) == {today(): 3}, "the store has the counts", 1.0)


def test_a_script_that_the_server_has_forgotten_is_sent_again(metered: MeterAndStore, own: Valkey) -> None:
    counts(metered, 1)
    own.command("SCRIPT FLUSH")
    assert counts(metered, 1) == [2]


def test_nobody_is_admitted_while_the_meter_is_unavailable_and_it_recovers_automatically(
    metered: MeterAndStore, own: Valkey
) -> None:
    counts(metered, 2)
    metered.meter.flush()
    own.kill()
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            metered.meter.admit(KEY)
    own.start()
    assert counts(metered, 1) == [3]


def test_a_key_stays_in_one_slot_of_a_cluster() -> None:
    server = Valkey("--cluster-enabled", "yes")
    server.command("CLUSTER ADDSLOTSRANGE 0 16383")
    server.await_answer(lambda: _require(b"cluster_state:ok" in server.everything("CLUSTER INFO")), OSError)
    with closing(MeterAndStore(f"redis+cluster://127.0.0.1:{server.port}")) as metered:
        for n in range(5):
            assert counts(metered, 7, replace(KEY, key_id=f"k_{n}")) == [1, 2, 3, 4, 5]
        assert metered.meter.counts(KEY, [today()]) == {today(): 5}
    server.remove()


def test_sentinels_name_the_primary(own: Valkey) -> None:
    sentinel = Valkey(sentinel_of=own)
    with closing(MeterAndStore(f"redis+sentinel://127.0.0.1:{sentinel.port}/meter")) as metered:
        assert counts(metered, 7) == [1, 2, 3, 4, 5]
    sentinel.remove()


def _require(holds: bool) -> None:
    if not holds:
        raise OSError("not yet")


class NeverClosed(Redis):
    """A client that times out when it closes its connections."""

    async def aclose(self, *_: Any, **__: Any) -> None:
        raise RedisTimeoutError("Timed out closing connection after 1.0")


def test_a_connection_that_cannot_be_closed_does_not_keep_the_others_open(own: Valkey) -> None:
    async def scenario() -> None:
        stuck, other = NeverClosed.from_url(own.url), Redis.from_url(own.url)
        await other.ping()
        (connection,) = other.connection_pool._available_connections
        assert connection.is_connected
        await disconnect([stuck, other])
        assert not connection.is_connected

    asyncio.run(scenario())
