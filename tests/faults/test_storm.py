"""More concurrent requests than a node can serve at once: they wait, but only for a limited time."""

import pytest

from counterfoil.backends.postgres.addresses import ConnectionLimits
from counterfoil.http.gate import MAX_CONCURRENT_REQUESTS
from faults.http_clients import call_concurrently
from faults.multi_node import BY_DAY, MultiNodeDeployment
from faults.test_store_away import locked

LIMITS = ConnectionLimits()

CROWD = 300
# On a busy machine, running this many threads takes additional time.
SLACK_SEC = 10.0


@pytest.mark.long
def test_hundreds_of_concurrent_callers_are_all_served(multi_node: MultiNodeDeployment) -> None:
    node = multi_node.node()
    seen = call_concurrently(node.port, multi_node.key(), BY_DAY, CROWD)
    assert {call.status for call in seen} <= {200, 503}
    assert sum(call.status == 200 for call in seen) > 2 * MAX_CONCURRENT_REQUESTS
    assert max(call.took for call in seen) < LIMITS.pool_wait_sec + LIMITS.answer_sec + SLACK_SEC


@pytest.mark.long
@pytest.mark.parametrize("meter", [True, False], ids=["counted by the meter", "counted by the store"])
def test_when_every_connection_is_in_use_callers_wait_for_a_limited_time_and_are_refused(
    multi_node: MultiNodeDeployment, meter: bool
) -> None:
    multi_node.issue("counted", per_min=1_000_000, per_day=1_000_000)
    node = multi_node.node(meter=meter)
    client = node.client("counted")
    assert client.ask(BY_DAY).status == 200
    with locked(multi_node, "bills"):
        seen = call_concurrently(node.port, multi_node.key("counted"), BY_DAY, CROWD)
    statuses = {(call.status, call.error, call.metered) for call in seen}
    assert statuses <= {(500, "internal", True), (503, "auth_unavailable", False)}
    assert (503, "auth_unavailable", False) in statuses
    assert max(call.took for call in seen) < LIMITS.pool_wait_sec + LIMITS.answer_sec + SLACK_SEC
    # A request that was refused because no slot became free has not been counted.
    assert client.ask("usage").data["today"]["count"] <= MAX_CONCURRENT_REQUESTS + 2
    assert {call.status for call in call_concurrently(node.port, multi_node.key(), BY_DAY, 20)} == {200}
