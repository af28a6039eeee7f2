"""No response to a key uses data older than the key's floor. The tests use real servers that lag and die."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest

from backends.fleet import DAYS, Fleet, Reader, instant
from counterfoil.backends.postgres.servers import LAG_MS

# These tests start their own servers, which takes time, so they run only in `make test-long`.
pytestmark = pytest.mark.long

RUNS = 40
Make = Callable[..., Fleet]


@pytest.fixture
def fleet_of(tmp_path: Path) -> Iterator[Make]:
    """A function that starts a fleet, which is stopped after the test."""
    with ExitStack() as started:
        yield lambda **terms: started.enter_context(closing(Fleet(tmp_path, **terms)))


@pytest.mark.parametrize("meter", [True, False], ids=["meter in Valkey", "meter in PostgreSQL"])
@pytest.mark.parametrize("delays", [(0, 300), (0, 1_000), (50, 300)])
def test_a_copy_is_exact_although_one_replica_lags_behind_the_other(
    fleet_of: Make, meter: bool, delays: tuple[int, int]
) -> None:
    fleet = fleet_of(meter=meter)
    for replica, delay in enumerate(delays):
        fleet.delay(replica, delay)
    reader = Reader(fleet, fleet.key())
    with fleet.changing():
        for _ in range(RUNS):
            reader.run()
    reader.assert_copy_is_exact()
    assert reader.failed == []


def test_a_copy_is_exact_when_a_replica_crosses_the_lag_limit_and_comes_back(fleet_of: Make) -> None:
    fleet = fleet_of(nodes=2)
    reader = Reader(fleet, fleet.key())
    held = fleet.replicas[1]
    reader.until(lambda: reader.mark is not None)
    for _ in range(2):
        held.pause_replay()
        with fleet.changing():
            # Once the reader's serverTime is well past the replica's horizon, nothing more is read from the replica.
            reader.until(partial(reader.has_seen, reader.highest + 2 * LAG_MS))
            held.resume_replay()
            for _ in range(RUNS):
                reader.run()
    reader.assert_copy_is_exact()
    assert reader.failed == []


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_copy_is_exact_through_a_failover(fleet_of: Make, nodes: int) -> None:
    fleet = fleet_of(nodes=nodes)
    reader = Reader(fleet, fleet.key())
    # The promoted server must have every commit, so replication is synchronous here.
    fleet.primary.command("ALTER SYSTEM SET synchronous_standby_names = '*'")
    fleet.primary.command("SELECT pg_reload_conf()")
    reader.until(lambda: reader.mark is not None)
    with fleet.changing():
        for _ in range(RUNS):
            reader.run()
        fleet.fail_over()
        for _ in range(RUNS):
            reader.run()
    reader.assert_copy_is_exact()
    assert [status for status, _ in reader.failed if status >= 500] == []


def test_readers_that_share_a_key_and_a_mark_all_end_with_an_exact_copy(fleet_of: Make) -> None:
    fleet = fleet_of(nodes=2)
    fleet.delay(0, 50)
    fleet.delay(1, 300)
    key = fleet.key()
    readers = [Reader(fleet, key, limit) for limit in (1, 2, 5)]
    with fleet.changing():
        for _ in range(RUNS // 4):
            for reader in readers:
                reader.run()
            # The readers use the oldest of their marks, like jobs that share their state.
            oldest = min(reader.mark for reader in readers if reader.mark)
            for reader in readers:
                reader.mark = oldest
    for reader in readers:
        reader.assert_copy_is_exact()
        assert reader.failed == []


def test_a_page_by_day_has_every_change_up_to_the_callers_floor(fleet_of: Make) -> None:
    """The page may also contain later changes, which may be missing when it is read again."""
    fleet = fleet_of()
    fleet.delay(1, 1_000)
    reader = Reader(fleet, fleet.key())
    seen: dict[str, set[int]] = {}
    with fleet.changing():
        for _ in range(RUNS):
            assert reader.ask("shops")
            told = reader.highest
            page = reader.ask("transactions", shopId="s", limit=200, **DAYS)
            assert page
            for row in page["data"]:
                changed_at = instant(row["updatedAt"])
                known = seen.setdefault(row["id"], set())
                assert changed_at >= max((at for at in known if at <= told), default=0)
                known.add(changed_at)
    assert reader.failed == []
