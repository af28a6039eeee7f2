"""A meter that lost its memory: counts go on from the store, no quota begins anew, and a metric says so."""

import pytest

from e2e.running import until
from faults.estate import Estate, Node

PER_DAY = 12


def spend(node: Node, times: int) -> list[tuple[int, str | None]]:
    desk = node.desk("counted")
    return [(call.status, call.error) for call in (desk.ask("shops") for _ in range(times))]


def told(estate: Estate) -> int:
    """The counts that have reached the store."""
    ((total,),) = estate.postgres.command(
        "SELECT coalesce(sum(count), 0) FROM counterfoil.daily_totals", estate.database
    )
    return int(total)


def test_a_flushed_meter_gives_nobody_a_new_quota(estate: Estate) -> None:
    estate.issue("counted", per_min=1000, per_day=PER_DAY)
    node = estate.node()
    assert spend(node, PER_DAY - 2) == [(200, None)] * (PER_DAY - 2)
    until(lambda: told(estate) == PER_DAY - 2, "the counts had reached the store")
    estate.valkey.command("FLUSHALL")
    assert spend(node, 4) == [(200, None)] * 2 + [(429, "quota_exceeded")] * 2
    assert node.running.metric("counts_reseeded_total") == 1
    assert until(lambda: reseeded(node), "the log said so") == [PER_DAY - 2]


def reseeded(node: Node) -> list[int]:
    return [line["count"] for line in node.running.logged() if line.get("type") == "counts_reseeded"]


@pytest.mark.long
def test_a_meter_that_lost_its_memory_while_the_store_is_away_lets_nobody_through(estate: Estate) -> None:
    estate.issue("counted", per_min=1000, per_day=PER_DAY)
    node = estate.node()
    spend(node, 5)
    until(lambda: told(estate) == 5, "the counts had reached the store")
    node.to_store.cut()
    estate.valkey.command("FLUSHALL")
    assert spend(node, 3) == [(503, "auth_unavailable")] * 3
    node.to_store.mend()
    until(lambda: spend(node, 1) == [(200, None)], "the store was found again")
    assert node.desk("counted").ask("usage").data["today"]["count"] >= 7


@pytest.mark.long
def test_a_meter_that_came_back_from_an_old_snapshot_is_brought_up_to_the_store(estate: Estate) -> None:
    """Valkey as it comes writes a snapshot now and then; a killed one goes on from the last."""
    estate.issue("counted", per_min=100_000, per_day=100_000)
    node = estate.node()
    spend(node, 3)
    estate.valkey.command("SAVE")
    spend(node, 200)
    until(lambda: told(estate) == 203, "the counts had reached the store")
    estate.valkey.kill()
    estate.valkey.start()
    until(lambda: spend(node, 1) == [(200, None)], "the meter was found again")
    until(lambda: node.running.metric("counts_reseeded_total") == 1, "the meter was brought up")
    assert int(estate.valkey.everything(f"HVALS {days_of(estate)}").split()[-1]) >= 203


def days_of(estate: Estate) -> str:
    """Where the meter keeps the counts of days."""
    names = estate.valkey.everything("KEYS *:days").decode().split()
    return next(name for name in names if name.endswith(":days"))
