"""The primary is repeatedly killed with SIGKILL while bills are loaded, read and pulled."""

from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from faults.failover import FailoverScenario
from faults.patroni import Cluster
from servers import Valkey

pytestmark = pytest.mark.long

KILLS = 20
# Every seventh time, Patroni is killed together with the database, as if the machine had failed.
WHOLE_EVERY = 7
GAP_SEC = 0.1


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.remove()


def test_reads_continue_after_the_primary_is_killed_and_nothing_is_lost(
    tmp_path: Path, cluster: Cluster, valkey: Valkey
) -> None:
    scenario = FailoverScenario(tmp_path, cluster, valkey)
    try:
        with scenario:
            for number in range(1, KILLS + 1):
                kill_the_primary(scenario, whole=number % WHOLE_EVERY == 0)
        print(*scenario.events, sep="\n")
        assert scenario.lost() == []
        scenario.assert_copy_is_right()
        assert set(scenario.puller.ends) == {0}, scenario.puller.log.read_text("utf-8")
        assert sum(event.failed for event in scenario.events) == 0
        # A busy machine has gaps even without a failure, so the gaps of calm periods are subtracted.
        gap = median(event.read_gap for event in scenario.events) - median(event.calm_gap for event in scenario.events)
        assert gap < GAP_SEC
    finally:
        scenario.close()


def kill_the_primary(scenario: FailoverScenario, *, whole: bool) -> None:
    primary = scenario.cluster.primary()
    assert primary is not None
    if whole:
        scenario.fail("kill -9 of the primary's node", primary.kill_both, primary.start)
    else:
        scenario.fail("kill -9 of postgres alone", primary.kill_postgres, lambda: None)
