"""Compares how long two operations take, with Welch's t for all samples and for the fastest 90% of the samples.

Both operations are sampled in random order, so that other load slows both down
equally. The t for all samples is the textbook statistic. The trimmed t leaves out
the slowest samples, most of which were interrupted, and so detects much smaller
differences.
"""

import random
import time
from collections.abc import Callable, Sequence
from math import sqrt
from statistics import fmean, quantiles, variance

from msgspec import Struct

# The usual bound for leakage tests: if there is no difference, one value of t in 150,000 exceeds it.
BOUND = 4.5
KEPT = 0.9

Ask = Callable[[str], object]


class Comparison(Struct, frozen=True):
    """The result of a comparison of two groups of samples.

    `t` is Welch's t for all samples. `trimmed_t` is the same for the fastest 90% of
    them, and `difference_ns` is the difference between the means of those samples.
    """

    t: float
    trimmed_t: float
    difference_ns: float

    @property
    def differs(self) -> bool:
        return abs(self.t) >= BOUND or abs(self.trimmed_t) >= BOUND


def compare(ask: Ask, first: Sequence[str], second: Sequence[str], samples: int, seed: int = 1) -> Comparison:
    """Call `ask` `samples` times with random elements of both groups; compare how long the calls took."""
    draw = random.Random(seed)  # noqa: S311 - the same order in every run, nothing secret
    took: tuple[list[int], list[int]] = ([], [])
    clock = time.perf_counter_ns
    for asked in [*first, *second]:
        ask(asked)
    for _ in range(samples):
        # Elements of both groups are chosen in the same way, so the cache favours neither group.
        which = draw.getrandbits(1)
        asked = draw.choice(second if which else first)
        began = clock()
        ask(asked)
        took[which].append(clock() - began)
    return compared(*took)


def compared(first: Sequence[int], second: Sequence[int]) -> Comparison:
    # Both groups have the same limit: trimming each group separately would hide a difference in the tail.
    limit = quantiles([*first, *second], n=100)[round(KEPT * 100) - 1]
    fast = [[one for one in side if one <= limit] for side in (first, second)]
    return Comparison(_welch(first, second), _welch(*fast), fmean(fast[1]) - fmean(fast[0]))


def _welch(first: Sequence[int], second: Sequence[int]) -> float:
    spread = sqrt(variance(first) / len(first) + variance(second) / len(second))
    return (fmean(second) - fmean(first)) / spread if spread else 0.0
