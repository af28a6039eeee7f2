"""Compares how long two things take: interleaved samples, Welch's t, with and without the slow tail.

Samples alternate in random order, so that a busy machine slows both down alike.
The untrimmed t is what theory asks for; the trimmed one drops the slowest tenth
of both, which interruptions made slow, and finds much smaller differences.
"""

import random
import time
from collections.abc import Callable, Sequence
from math import sqrt
from statistics import fmean, quantiles, variance

from msgspec import Struct

# Customary bound of leakage tests: a fair pair of samples is beyond it once in 150,000 comparisons.
BOUND = 4.5
KEPT = 0.9

Ask = Callable[[str], object]


class Comparison(Struct, frozen=True):
    """Welch's t of all samples and of the faster nine tenths; the difference of the latters' means."""

    t: float
    trimmed_t: float
    difference_ns: float

    @property
    def differs(self) -> bool:
        return abs(self.t) >= BOUND or abs(self.trimmed_t) >= BOUND


def compare(ask: Ask, first: Sequence[str], second: Sequence[str], samples: int, seed: int = 1) -> Comparison:
    """Ask for elements of both in random order, `samples` times in all, and compare how long the answers took."""
    draw = random.Random(seed)  # noqa: S311 - the same order in every run, nothing secret
    took: tuple[list[int], list[int]] = ([], [])
    clock = time.perf_counter_ns
    for asked in [*first, *second]:
        ask(asked)
    for _ in range(samples):
        # The choice and the element are drawn for both in the same way, so neither is warmer in the cache.
        which = draw.getrandbits(1)
        asked = draw.choice(second if which else first)
        began = clock()
        ask(asked)
        took[which].append(clock() - began)
    return compared(*took)


def compared(first: Sequence[int], second: Sequence[int]) -> Comparison:
    # One limit for both: the faster nine tenths of each on its own would hide a difference in the tail.
    limit = quantiles([*first, *second], n=100)[round(KEPT * 100) - 1]
    fast = [[one for one in side if one <= limit] for side in (first, second)]
    return Comparison(_welch(first, second), _welch(*fast), fmean(fast[1]) - fmean(fast[0]))


def _welch(first: Sequence[int], second: Sequence[int]) -> float:
    spread = sqrt(variance(first) / len(first) + variance(second) / len(second))
    return (fmean(second) - fmean(first)) / spread if spread else 0.0


def busy(microseconds: float) -> None:
    """Spend this long, as a row that is read for nothing would."""
    until = time.perf_counter_ns() + round(microseconds * 1000)
    while time.perf_counter_ns() < until:
        pass
