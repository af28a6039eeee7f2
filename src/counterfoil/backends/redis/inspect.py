"""A look at the meter from outside, as the doctor takes it."""

import asyncio

from counterfoil.backends.redis.client import GATE_SEC, connected, hang_up, translated
from counterfoil.ports import StoreUnavailable


def problem(url: str) -> str | None:
    """What keeps the meter from being used, or nothing."""
    try:
        asyncio.run(_asked(url))
    except StoreUnavailable as error:
        return str(error)
    return None


async def _asked(url: str) -> None:
    clients = connected(url)
    try:
        with translated():
            async with asyncio.timeout(GATE_SEC):
                await clients[0].ping()
    finally:
        await hang_up(clients)
