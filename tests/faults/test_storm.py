"""More concurrent requests than a node can serve at once: they wait, but only for a limited time."""

import pytest

from counterfoil.backends.postgres.addresses import ConnectionLimits
from counterfoil.http.gate import MAX_CONCURRENT_REQUESTS
from faults.http_clients import call_concurrently
from faults.multi_node import BY_DAY, MultiNodeDeployment

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
