"""Waits for other processes and threads. No other test module calls `sleep` to let time pass."""

import asyncio
import os
import time
from collections.abc import Callable
from typing import TypeVar

import httpx

# Set TEST_PATIENCE_SEC if 30 seconds is too short, for example on a busy machine.
PATIENCE_SEC = float(os.environ.get("TEST_PATIENCE_SEC", "30"))
PAUSE_SEC = 0.01
FIRST_PAUSE_SEC = 0.001

T = TypeVar("T")


def until(
    condition: Callable[[], T | None],
    what: str,
    patience_sec: float = PATIENCE_SEC,
    longest_pause_sec: float = PAUSE_SEC,
) -> T:
    """Return the first true value of `condition`; fail with `what` if it does not become true in time."""
    deadline, pause_sec = time.monotonic() + patience_sec, FIRST_PAUSE_SEC
    while True:
        if found := condition():
            return found
        assert time.monotonic() < deadline, f"after {patience_sec:g} seconds it was still not true that {what}"
        time.sleep(pause_sec)
        pause_sec = min(2 * pause_sec, longest_pause_sec)


def throughout(seconds: float, condition: Callable[[], object], what: str) -> None:
    """Check `condition` repeatedly for this long; fail with `what` as soon as it is not true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert condition(), f"it did not stay true that {what}"
        time.sleep(PAUSE_SEC)


def answers(address: str) -> bool:
    """Return whether a server answers a GET of this address with status 200."""
    try:
        return httpx.get(address).status_code == 200
    except httpx.TransportError:
        return False


async def latency(seconds: float) -> None:
    """Wait this long, to simulate network latency. Tests themselves wait for conditions instead."""
    await asyncio.sleep(seconds)
