"""The meter loses its data: counting continues from the store, no quota is reset, and a metric reports the loss."""

import pytest

from faults.multi_node import MultiNodeDeployment, Node
from waiting import until

PER_DAY = 12


def spend(node: Node, times: int) -> list[tuple[int, str | None]]:
    client = node.client("counted")
    return [(call.status, call.error) for call in (client.ask("shops") for _ in range(times))]


def stored_count(multi_node: MultiNodeDeployment) -> int:
    """Return the total of the counts that have reached the store."""
    ((total,),) = multi_node.postgres.command(
        "SELECT coalesce(sum(count), 0) FROM counterfoil.daily_totals", multi_node.database
    )
    return int(total)


@pytest.mark.long
def test_a_meter_that_lost_its_data_while_the_store_is_unavailable_admits_nobody(
    multi_node: MultiNodeDeployment,
) -> None:
    multi_node.issue("counted", per_min=1000, per_day=PER_DAY)
    node = multi_node.node()
    spend(node, 5)
    until(lambda: stored_count(multi_node) == 5, "the counts had reached the store")
    node.store_proxy.cut()
    multi_node.valkey.command("FLUSHALL")
    assert spend(node, 3) == [(503, "auth_unavailable")] * 3
    node.store_proxy.restore()
    until(lambda: spend(node, 1) == [(200, None)], "the store was found again")
    assert node.client("counted").ask("usage").data["today"]["count"] >= 7


@pytest.mark.long
def test_a_meter_restarted_from_an_old_snapshot_is_updated_from_the_store(multi_node: MultiNodeDeployment) -> None:
    """By default, Valkey writes snapshots, and after a crash it continues from the last snapshot."""
    multi_node.issue("counted", per_min=100_000, per_day=100_000)
    node = multi_node.node()
    spend(node, 3)
    multi_node.valkey.command("SAVE")
    spend(node, 200)
    until(lambda: stored_count(multi_node) == 203, "the counts had reached the store")
    multi_node.valkey.kill()
    multi_node.valkey.start()
    until(lambda: spend(node, 1) == [(200, None)], "the meter was found again")
    until(lambda: node.running.metric("counts_reseeded_total") == 1, "the meter was updated from the store")
    assert int(multi_node.valkey.everything(f"HVALS {days_of(multi_node)}").split()[-1]) >= 203


def days_of(multi_node: MultiNodeDeployment) -> str:
    """Return the Valkey key under which the meter stores the day counts."""
    names = multi_node.valkey.everything("KEYS *:days").decode().split()
    return next(name for name in names if name.endswith(":days"))
