"""The loader, the server and the clients are killed at random points: nothing is lost, duplicated or left broken."""

from pathlib import Path

import pytest

from sync.killable_processes import KillableProcesses

# With 400 bills, the maximum CPU time, in seconds, that each process may use before it is killed. If a process has
# ended before it could be killed, its maximum is lower in the next round.
WORK_SEC = {"loader": 0.35, "puller": 0.9, "server": 0.1}


@pytest.mark.long
@pytest.mark.parametrize(("kills", "bills"), [(6, 400), (200, 1500)], ids=["a few kills", "two hundred kills"])
def test_nothing_is_lost_or_doubled_by_kills(tmp_path: Path, kills: int, bills: int) -> None:
    """The loader, the puller and the server are each killed at least `kills / 8` times.

    In each round, the example client in docs/own-client.md is killed last.
    """
    processes = KillableProcesses(tmp_path, bills, seed=kills)
    longest = {victim: seconds * bills / 400 for victim, seconds in WORK_SEC.items()}
    version = 0
    try:
        processes.start("server", version)
        while processes.kills.total() < kills or min(processes.kills[victim] for victim in WORK_SEC) < kills / 8:
            version += 1
            assert version <= kills, f"too few processes were killed while they were working: {processes.kills}"
            for name in ("loader", "puller", "follower"):
                processes.start(name, version)
            for victim in processes.chance.sample(list(WORK_SEC), 3):
                processes.let_work(victim, processes.chance.uniform(longest[victim] / 4, longest[victim]))
                if not processes.kill(victim):
                    longest[victim] = max(WORK_SEC[victim] / 4, longest[victim] * 0.8)
                if victim == "server":
                    processes.start("server", version)
            processes.kill("follower")
        processes.finish_all(version)
        processes.assert_nothing_lost_or_doubled(version)
    finally:
        processes.close()
