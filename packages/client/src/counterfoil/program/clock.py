"""The system's clocks, and generators of random IDs. Apart from the client, only this module reads the wall clock."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class SystemClock:
    """The clocks of this machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def steady_us(self) -> int:
        return time.monotonic_ns() // 1000

    def boot_id(self) -> str:
        try:
            return _BOOT_ID.read_text(encoding="ascii").strip()
        except OSError:
            # Only Linux has this file. Elsewhere, use the boot time on the wall clock, rounded to ten minutes.
            return str(round((time.time() - time.monotonic()) / 600))


def request_ids(now_ms: Callable[[], int]) -> Iterator[str]:
    """Yield IDs of 20 hexadecimal digits, the first 11 of them the time, so that new ones are close in an index."""
    return (f"{now_ms():011x}{digits}" for digits in random_ids(9))


def random_ids(length: int = 16) -> Iterator[str]:
    """Yield IDs of hexadecimal digits. One system call provides the randomness for hundreds of them."""
    while True:
        digits = os.urandom(4608).hex()  # 9216 digits, a multiple of both lengths.
        for start in range(0, len(digits), length):
            yield digits[start : start + length]
