"""The store is down or too slow, but the meter works: requests with known keys get 500 with the quota headers."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from counterfoil.backends.postgres.addresses import ConnectionLimits
from faults.http_clients import Call, call_concurrently
from faults.multi_node import BY_DAY, MultiNodeDeployment
from waiting import until

pytestmark = pytest.mark.programs

LIMITS = ConnectionLimits()

SLACK_SEC = 1.0


def assert_failed(calls: list[Call], within_sec: float) -> None:
    assert {(call.status, call.error, call.metered) for call in calls} == {(500, "internal", True)}
    assert max(call.took for call in calls) < within_sec


@contextmanager
def locked(multi_node: MultiNodeDeployment, table: str) -> Iterator[None]:
    """Hold a lock that keeps all other sessions from using a table."""
    with psycopg.connect(multi_node.address) as session:
        session.execute(f"LOCK TABLE counterfoil.{table} IN ACCESS EXCLUSIVE MODE".encode())
        yield


def test_a_dead_store_causes_failures_that_still_have_the_quota_headers(multi_node: MultiNodeDeployment) -> None:
    multi_node.issue("counted", per_min=1000, per_day=50)
    node = multi_node.node()
    client = node.client("counted")
    assert client.ask(BY_DAY).status == 200
    multi_node.postgres.kill()
    assert_failed([client.ask(BY_DAY) for _ in range(10)], SLACK_SEC)
    multi_node.postgres.start()
    until(lambda: client.ask(BY_DAY).status == 200, "the store was found again")
    usage = client.ask("usage").data
    assert usage["today"]["count"] >= 13


@pytest.mark.long
@pytest.mark.parametrize("befalls", ["freezes", "is silent", "is cut off", "is reset"])
def test_a_store_that_does_not_answer_causes_a_failure_within_the_time_limit(
    multi_node: MultiNodeDeployment, befalls: str
) -> None:
    node = multi_node.node()
    client = node.client()
    assert client.ask(BY_DAY).status == 200
    match befalls:
        case "freezes":
            for pid in multi_node.postgres.pids():
                multi_node.postgres.freeze(pid, signal.SIGSTOP)
        case "is silent":
            node.store_proxy.block()
        case "is cut off":
            node.store_proxy.cut()
        case "is reset":
            node.store_proxy.reset()
            # The store itself still works: the node only has to open new connections.
            assert until(lambda: client.ask(BY_DAY).status == 200, "a new connection was made")
            return
    assert_failed([client.ask(BY_DAY)], LIMITS.pool_wait_sec + LIMITS.answer_sec + SLACK_SEC)
    # There are fewer callers than connections. For more callers, see test_storm.py.
    limit_sec = LIMITS.pool_wait_sec + LIMITS.answer_sec + 2 * SLACK_SEC
    assert_failed(call_concurrently(node.port, multi_node.key(), BY_DAY, 4), limit_sec)
    for pid in multi_node.postgres.pids():
        multi_node.postgres.freeze(pid, signal.SIGCONT)
    node.store_proxy.restore()
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
    with locked(multi_node, "bills"):
        assert_failed([client.ask(BY_DAY)], LIMITS.answer_sec + SLACK_SEC)
        assert client.ask("shops").status == 200
    assert client.ask(BY_DAY).status == 200
