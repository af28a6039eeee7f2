"""The network is repeatedly cut, blocked or slow: time limits hold and no resources leak."""

from contextlib import ExitStack

import pytest

from counterfoil.backends.postgres.addresses import ConnectionLimits
from faults.http_clients import RepeatingClient
from faults.multi_node import BY_DAY, MultiNodeDeployment
from waiting import until

LIMITS = ConnectionLimits()

ROUNDS = 6
CALLERS = 8
GROWTH_KB = 20_000


@pytest.mark.long
def test_nothing_leaks_through_many_cuts(multi_node: MultiNodeDeployment) -> None:
    node = multi_node.node()
    befallen = [
        node.store_proxy.cut,
        node.meter_proxy.cut,
        node.store_proxy.reset,
        node.meter_proxy.reset,
        node.store_proxy.block,
        node.meter_proxy.block,
    ]

    def all_ask_again() -> None:
        asked = [len(caller.seen) for caller in callers]
        until(lambda: all(len(c.seen) > n for c, n in zip(callers, asked, strict=True)), "every caller was affected")

    def one_round() -> None:
        for befall in befallen:
            befall()
            all_ask_again()
            node.store_proxy.restore()
            node.meter_proxy.restore()
            until(lambda: all(caller.seen[-1].status == 200 for caller in callers), "all callers were served again")

    with ExitStack() as at_work:
        callers = [RepeatingClient(node.port, multi_node.key(), BY_DAY, every_sec=0.02) for _ in range(CALLERS)]
        for caller in callers:
            at_work.enter_context(caller)
        one_round()
        threads, descriptors, resident = node.threads(), node.descriptors(), node.resident_kb()
        for _ in range(ROUNDS):
            one_round()
        assert node.threads() <= threads
        # When the descriptors were first counted, up to one connection per caller may not have been reopened yet.
        assert node.descriptors() <= descriptors + CALLERS
        assert node.resident_kb() <= resident + GROWTH_KB
    calls = [call for caller in callers for call in caller.seen]
    assert {call.status for call in calls} <= {200, 500, 503}
    assert max(call.took for call in calls) < LIMITS.pool_wait_sec + LIMITS.answer_sec + 2


@pytest.mark.long
def test_a_slow_store_causes_slow_answers_but_no_wrong_ones(multi_node: MultiNodeDeployment) -> None:
    node = multi_node.node()
    client = node.client()
    quick = client.ask(BY_DAY)
    node.store_proxy.delay_sec = 0.1
    slow = [client.ask(BY_DAY) for _ in range(5)]
    assert {call.status for call in slow} == {200}
    assert all(call.data == quick.data and call.took > 0.1 for call in slow)
    node.store_proxy.restore()
    node.store_proxy.throttle = 200
    # At this rate, a page of bills may exceed its time limit, but the few bytes needed for admission do not.
    assert {(call.status, call.metered) for call in (client.ask(BY_DAY), client.ask(BY_DAY))} <= {
        (200, True),
        (500, True),
    }
    node.store_proxy.restore()
    assert until(lambda: client.ask(BY_DAY).status == 200, "the store was fast again")
