"""The meter or the store is down, too slow or overloaded: what callers get, and within which time."""

import signal

import psycopg
import pytest

from counterfoil.backends.postgres.addresses import ConnectionLimits
from counterfoil.backends.postgres.pool import GATE_SEC
from counterfoil.http.gate import MAX_CONCURRENT_REQUESTS, MAX_WAIT_SEC
from faults.http_clients import Call, call_concurrently
from faults.multi_node import BY_DAY, MultiNodeDeployment
from waiting import until

pytestmark = pytest.mark.programs

LIMITS = ConnectionLimits()
ANSWERED_SEC = LIMITS.pool_wait_sec + LIMITS.answer_sec
# Extra time allowed because the machine may be busy.
SLACK_SEC = 1.0
# If there are many callers, some of them first have to wait for a free slot.
BOUND_SEC = MAX_WAIT_SEC + GATE_SEC + SLACK_SEC
# The number of callers that send requests before and after the meter is restarted. The node may open enough connections
# to the meter for all of them.
RETURNING = 16
CROWD = 300
# On a busy machine, running so many threads takes additional time.
CROWD_SLACK_SEC = 10.0


# --- keys or counts are unavailable: requests soon get 503, and nobody is admitted ---------


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


def test_a_node_whose_meter_or_store_is_away_is_not_ready_but_serves_errors(multi_node: MultiNodeDeployment) -> None:
    """Kubernetes asks /serving: if it asked /ready, no pod would be left to say that clients shall try again."""
    node = multi_node.node()
    for proxy in (node.meter_proxy, node.store_proxy):
        proxy.cut()
        assert_refused(call_concurrently(node.port, multi_node.key(), BY_DAY, 1), BOUND_SEC)
        assert node.running.admin("ready").status_code == 503
        serving = node.running.admin("serving")
        assert (serving.status_code, serving.json()) == (200, {"serving": True, "problem": None})
        proxy.restore()


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


# --- the meter works: requests with known keys get 500 with the quota headers --------------


def assert_failed(calls: list[Call], within_sec: float) -> None:
    assert {(call.status, call.error, call.metered) for call in calls} == {(500, "internal", True)}
    assert max(call.took for call in calls) < within_sec


def test_a_dead_store_causes_failures_that_still_have_the_quota_headers(multi_node: MultiNodeDeployment) -> None:
    multi_node.issue("counted", per_min=1000, per_day=50)
    node = multi_node.node()
    client = node.client("counted")
    assert client.ask(BY_DAY).status == 200
    with node.outage_of_the_store("is killed"):
        assert_failed([client.ask(BY_DAY) for _ in range(10)], SLACK_SEC)
    until(lambda: client.ask(BY_DAY).status == 200, "the store was found again")
    usage = client.ask("usage").data
    assert usage["today"]["count"] >= 13


@pytest.mark.long
@pytest.mark.parametrize("befalls", ["freezes", "is silent", "is cut off"])
def test_a_store_that_does_not_answer_causes_a_failure_within_the_time_limit(
    multi_node: MultiNodeDeployment, befalls: str
) -> None:
    node = multi_node.node()
    client = node.client()
    assert client.ask(BY_DAY).status == 200
    with node.outage_of_the_store(befalls):
        assert_failed([client.ask(BY_DAY)], ANSWERED_SEC + SLACK_SEC)
        # There are fewer callers than connections.
        assert_failed(call_concurrently(node.port, multi_node.key(), BY_DAY, 4), ANSWERED_SEC + 2 * SLACK_SEC)
    until(lambda: client.ask(BY_DAY).status == 200, "the store was found again")


@pytest.mark.long
def test_a_key_that_cannot_be_looked_up_is_not_reported_as_invalid(multi_node: MultiNodeDeployment) -> None:
    node = multi_node.node()
    assert node.client().ask(BY_DAY).status == 200
    node.store_proxy.cut()
    multi_node.issue("new", per_min=10, per_day=10)
    assert node.client("new").ask(BY_DAY).error == "auth_unavailable"
    node.store_proxy.restore()
    assert until(lambda: node.client("new").ask(BY_DAY).status == 200, "the store was found again")


@pytest.mark.long
def test_a_query_past_its_time_limit_is_a_failure_and_the_next_one_is_not(multi_node: MultiNodeDeployment) -> None:
    node = multi_node.node()
    client = node.client()
    with psycopg.connect(multi_node.address) as session:
        session.execute("LOCK TABLE counterfoil.bills IN ACCESS EXCLUSIVE MODE")
        assert_failed([client.ask(BY_DAY)], LIMITS.answer_sec + SLACK_SEC)
        assert client.ask("shops").status == 200
    assert client.ask(BY_DAY).status == 200


@pytest.mark.long
def test_hundreds_of_concurrent_callers_are_all_served(multi_node: MultiNodeDeployment) -> None:
    """They wait until the node can serve them, but only for a limited time."""
    node = multi_node.node()
    seen = call_concurrently(node.port, multi_node.key(), BY_DAY, CROWD)
    assert {call.status for call in seen} <= {200, 503}
    assert sum(call.status == 200 for call in seen) > 2 * MAX_CONCURRENT_REQUESTS
    assert max(call.took for call in seen) < ANSWERED_SEC + CROWD_SLACK_SEC
