"""A node is killed with SIGKILL under load: requests to the other node succeed, and every count stays exact."""

from contextlib import ExitStack

import pytest

from faults.http_clients import NO_ANSWER, Call, RepeatingClient
from faults.multi_node import BY_DAY, MultiNodeDeployment, Node
from waiting import until

CALLERS = 4


@pytest.mark.long
@pytest.mark.parametrize("meter", [True, False], ids=["counted by the meter", "counted by the store"])
def test_only_the_requests_under_way_fail_and_every_count_stays_exact(
    multi_node: MultiNodeDeployment, meter: bool
) -> None:
    multi_node.issue("counted", per_min=1_000_000, per_day=1_000_000)
    first, second = multi_node.node(meter=meter), multi_node.node(meter=meter)
    doomed, lasting = (callers_of(multi_node, node) for node in (first, second))
    with ExitStack() as at_work:
        for caller in (*doomed, *lasting):
            at_work.enter_context(caller)
        until(lambda: all(len(caller.seen) > 30 for caller in (*doomed, *lasting)), "every caller had been answered")
        first.kill()
        seen_then = [len(caller.seen) for caller in lasting]
        until(
            lambda: all(len(caller.seen) > then + 30 for caller, then in zip(lasting, seen_then, strict=True)),
            "the other node kept responding",
        )
    others = [call for caller in lasting for call in caller.seen]
    assert {call.status for call in others} == {200}
    cut_off = [_until_cut(caller.seen) for caller in doomed]
    answered = len(others) + sum(len(calls) for calls in cut_off)
    usage = second.client("counted").ask("usage").data
    # Requests in flight when the node died, at most one per caller, may or may not have been counted.
    assert answered <= usage["today"]["count"] - 1 <= answered + CALLERS


def callers_of(multi_node: MultiNodeDeployment, node: Node) -> list[RepeatingClient]:
    return [RepeatingClient(node.port, multi_node.key("counted"), BY_DAY) for _ in range(CALLERS)]


def _until_cut(seen: list[Call]) -> list[Call]:
    """Return the calls that were answered before the node was killed. All later calls must have failed."""
    answered = [call for call in seen if call.status != NO_ANSWER]
    assert {call.status for call in answered} == {200}
    assert seen[: len(answered)] == answered
    return answered
