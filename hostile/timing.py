"""Compares how long two operations take, with Welch's t for all samples and for the means of the fastest 90%.

Both operations are sampled in random order, so that other load slows both down
equally. The t for all samples is the textbook statistic. The trimmed t leaves out
the slowest samples, most of which were interrupted, and so detects much smaller
differences. Its unit is an element: each takes its own time, by its place in an
index, so that two groups of elements always differ by some nanoseconds.
"""

import random
import time
from collections.abc import Callable, Sequence
from itertools import chain
from math import sqrt
from statistics import fmean, quantiles, variance

from msgspec import Struct

# The usual bound for leakage tests: if there is no difference, one value of t in 150,000 exceeds it.
BOUND = 4.5
KEPT = 0.9

Ask = Callable[[str], object]
# How long each call took, for each element of a group.
Samples = list[list[int]]


class Comparison(Struct, frozen=True):
    """The result of a comparison of two groups of samples.

    `t` is Welch's t for all samples, `trimmed_t` that of the elements' means over the
    fastest 90% of them, and `difference_ns` is the difference between those means.
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
    # The texts are new and made in turn: those of one group could lie together in memory, which takes a little less.
    pairs = [((one + " ")[:-1], (other + " ")[:-1]) for one, other in zip(first, second, strict=True)]
    took: tuple[Samples, Samples] = ([[] for _ in pairs], [[] for _ in pairs])
    clock = time.perf_counter_ns
    for asked in chain(*pairs):
        ask(asked)
    for _ in range(samples):
        # Elements of both groups are chosen in the same way, so the cache favours neither group.
        which, place = draw.getrandbits(1), draw.randrange(len(pairs))
        asked = pairs[place][which]
        began = clock()
        ask(asked)
        took[which][place].append(clock() - began)
    return compared(*took)


def compared(first: Samples, second: Samples) -> Comparison:
    sides = [list(chain(*side)) for side in (first, second)]
    # Both groups have the same limit: trimming each group separately would hide a difference in the tail.
    limit = quantiles(chain(*sides), n=100)[round(KEPT * 100) - 1]
    fast = [[[took for took in one if took <= limit] for one in side] for side in (first, second)]
    means = [[fmean(one) for one in side if one] for side in fast]
    return Comparison(_welch(*sides), _welch(*means), fmean(means[1]) - fmean(means[0]))


def _welch(first: Sequence[float], second: Sequence[float]) -> float:
    spread = sqrt(variance(first) / len(first) + variance(second) / len(second))
    return (fmean(second) - fmean(first)) / spread if spread else 0.0
