"""Loader, server and puller killed with -9 at random points: nothing lost or doubled, nothing to repair by hand."""

from pathlib import Path

import pytest

from sync.killable_processes import KillableProcesses

VICTIMS = ("loader", "puller", "server")
# Who is done sooner than that is given less time, so that a fast machine's are killed at work too.
LONGEST_SEC, SHORTEST_SEC = 1.5, 0.3


def run_killing(folder: Path, kills: int, bills: int, seed: int) -> KillableProcesses:
    """All three at work; one after the other is killed and started again, until there were so many kills.

    Of each at least an eighth.
    """
    processes = KillableProcesses(folder, bills, seed)
    longest = dict.fromkeys(VICTIMS, LONGEST_SEC)
    version = 0
    try:
        processes.start("server", version)
        while processes.kills.total() < kills or min(processes.kills[victim] for victim in VICTIMS) < kills / 8:
            version += 1
            assert version <= kills, f"too few could be killed at work: {processes.kills}"
            processes.start("loader", version)
            processes.start("puller", version)
            for victim in processes.chance.sample(VICTIMS, 3):
                processes.let_work(victim, processes.chance.uniform(0.2, longest[victim]))
                if not processes.kill(victim):
                    longest[victim] = max(SHORTEST_SEC, longest[victim] * 0.8)
                if victim == "server":
                    processes.start("server", version)
        processes.start("loader", version)
        processes.finish("loader")
        processes.start("puller", version)
        processes.finish("puller")
        processes.assert_nothing_lost_or_doubled(version)
    finally:
        processes.close()
    return processes


def test_nothing_is_lost_or_doubled_by_a_few_kills(tmp_path: Path) -> None:
    run_killing(tmp_path, kills=6, bills=400, seed=1)


@pytest.mark.long
def test_nothing_is_lost_or_doubled_by_two_hundred_kills(tmp_path: Path) -> None:
    run_killing(tmp_path, kills=200, bills=1500, seed=2)
