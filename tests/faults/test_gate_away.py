"""Keys or counts are unavailable: requests soon get 503, nobody is admitted, and the service recovers."""

import signal

import pytest

from counterfoil.backends.postgres.pool import GATE_SEC
from counterfoil.http.gate import MAX_WAIT_SEC
from faults.http_clients import Call, call_concurrently
from faults.multi_node import BY_DAY, MultiNodeDeployment
from waiting import until

pytestmark = pytest.mark.programs

# Extra time allowed because the machine may be busy.
SLACK_SEC = 1.0
# If there are many callers, some of them first have to wait for a free slot.
BOUND_SEC = MAX_WAIT_SEC + GATE_SEC + SLACK_SEC
# The number of callers that send requests before and after the meter is restarted. The node may open enough connections
# to the meter for all of them.
RETURNING = 16


def assert_refused(calls: list[Call], within_sec: float) -> None:
    assert {(call.status, call.error) for call in calls} == {(503, "auth_unavailable")}
    assert not any(call.metered or call.data for call in calls)
    assert max(call.took for call in calls) < within_sec


def test_after_the_meter_was_restarted_the_first_request_of_every_caller_is_answered(
    multi_node: MultiNodeDeployment,
) -> None:
    """Connections that died with the meter are replaced before they are used again, so callers do not notice."""
    node = multi_node.node()
    # While the meter is slow, the node needs a separate connection to it for each caller.
    node.meter_proxy.delay_sec = 0.1
    assert {call.status for call in call_concurrently(node.port, multi_node.key(), BY_DAY, RETURNING)} == {200}
    node.meter_proxy.delay_sec = 0.0
    multi_node.valkey.kill()
    multi_node.valkey.start()
    assert {call.status for call in call_concurrently(node.port, multi_node.key(), BY_DAY, RETURNING)} == {200}


@pytest.mark.long
@pytest.mark.parametrize("befalls", ["freezes", "is silent", "trickles"])
def test_an_unresponsive_meter_delays_every_caller_by_the_same_short_time(
    multi_node: MultiNodeDeployment, befalls: str
) -> None:
    node = multi_node.node()
    client = node.client()
    assert client.ask(BY_DAY).status == 200
    match befalls:
        case "freezes":
            multi_node.valkey.signal(signal.SIGSTOP)
        case "is silent":
            node.meter_proxy.block()
        case "trickles":
            node.meter_proxy.throttle = 1
    for _ in range(2):
        assert_refused(call_concurrently(node.port, multi_node.key(), BY_DAY, 100), BOUND_SEC)
    multi_node.valkey.signal(signal.SIGCONT)
    node.meter_proxy.restore()
    until(lambda: client.ask(BY_DAY).status == 200, "the meter was found again")
    assert {call.status for call in call_concurrently(node.port, multi_node.key(), BY_DAY, 20)} == {200}


@pytest.mark.long
@pytest.mark.parametrize("befalls", ["is killed", "is cut off", "freezes", "is silent"])
def test_a_node_without_keys_admits_nobody_while_the_store_is_unavailable(
    multi_node: MultiNodeDeployment, befalls: str
) -> None:
    node = multi_node.node()
    with node.outage_of_the_store(befalls):
        for _ in range(2):
            assert_refused(call_concurrently(node.port, multi_node.key(), BY_DAY, 50), BOUND_SEC)
    client = node.client()
    until(lambda: client.ask(BY_DAY).status == 200, "the store was found again")
