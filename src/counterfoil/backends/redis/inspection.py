"""Checks whether the meter can be used, for `counterfoil doctor` and the console."""

import asyncio

from counterfoil.backends.redis.client import GATE_SEC, disconnect, open_clients, translated
from counterfoil.ports import StoreUnavailable


def problem(url: str) -> str | None:
    """Return the reason the meter cannot be used, or None."""
    try:
        asyncio.run(_ping(url))
    except StoreUnavailable as error:
        return str(error)
    return None


async def _ping(url: str) -> None:
    clients = open_clients(url)
    try:
        with translated():
            async with asyncio.timeout(GATE_SEC):
                await clients[0].ping()
    finally:
        await disconnect(clients)
