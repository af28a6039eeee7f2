"""The network is repeatedly cut, blocked or slow: time limits hold, no resources leak, no dead connection is used."""

import asyncio
from contextlib import ExitStack, closing

import pytest

import servers
from counterfoil.backends.postgres.addresses import ConnectionLimits
from counterfoil.backends.postgres.pool import Pool
from counterfoil.ports import StoreUnreachable
from faults.http_clients import RepeatingClient
from faults.multi_node import BY_DAY, MultiNodeDeployment
from faults.proxy import Proxy
from waiting import until

pytestmark = pytest.mark.long

END_THE_OTHERS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}' AND pid <> pg_backend_pid()
"""
LIMITS = ConnectionLimits()

ROUNDS = 6
CALLERS = 8
GROWTH_KB = 20_000


def test_nothing_leaks_through_many_cuts(multi_node: MultiNodeDeployment) -> None:
    node = multi_node.node()
    proxies = (node.store_proxy, node.meter_proxy)

    def all_ask_again() -> None:
        asked = [len(caller.seen) for caller in callers]
        until(lambda: all(len(c.seen) > n for c, n in zip(callers, asked, strict=True)), "every caller was affected")

    def one_round() -> None:
        for befall in (action for proxy in proxies for action in (proxy.cut, proxy.reset, proxy.block)):
            befall()
            all_ask_again()
            for proxy in proxies:
                proxy.restore()
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


def test_a_connection_closed_by_the_server_is_not_reused() -> None:
    """After the server has announced the end of a session, the connection still looks usable until it is closed.

    The proxy hides the disconnect, which makes this time longer.
    """
    server = servers.postgres(18)
    database, url = server.fresh_database()
    proxy = Proxy(server.port)
    proxy.hides_disconnect = True

    async def ask_before_and_after() -> list[int]:
        pool = Pool(url.replace(str(server.port), str(proxy.port)), limits=ConnectionLimits(pool_size=1))
        before = await pool.rows("SELECT 6")
        await asyncio.to_thread(server.command, END_THE_OTHERS.format(database))
        await asyncio.to_thread(until, lambda: proxy.hidden_disconnects, "the server has disconnected")
        with pytest.raises(StoreUnreachable):
            await pool.rows("SELECT 6")
        after = await pool.rows("SELECT 7")
        pool.close()
        return [before[0][0], after[0][0]]

    with closing(proxy):
        assert asyncio.run(ask_before_and_after()) == [6, 7]
