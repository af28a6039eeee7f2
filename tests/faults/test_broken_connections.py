"""Tests that a broken connection is not reused."""

import asyncio

import pytest

import servers
from counterfoil.backends.postgres.addresses import ConnectionLimits
from counterfoil.backends.postgres.pool import Pool
from counterfoil.ports import StoreUnreachable
from faults.proxy import Proxy
from waiting import until

END_THE_OTHERS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}' AND pid <> pg_backend_pid()
"""


@pytest.mark.long
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

    try:
        assert asyncio.run(ask_before_and_after()) == [6, 7]
    finally:
        proxy.close()
