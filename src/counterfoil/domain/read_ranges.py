"""The ranges of changes that were read from a list, and the text in which a store keeps them.

A range contains the changes from its first to its last instant, both included.
The text has the format of a PostgreSQL multirange, in which the end of a range
is the instant after its last one: `{[0,101),[200,301)}`. In this format,
PostgreSQL can merge ranges itself.
"""

from collections.abc import Iterable

# A list keeps at most this many ranges. The oldest are dropped rather than joined, so that changes that were not read
# never appear to have been read.
MAX_RANGES = 50

# The first and the last instant of a range, in milliseconds since 1970 UTC.
ReadRange = tuple[int, int]

NOTHING = "{}"


def merged(ranges: Iterable[ReadRange]) -> list[ReadRange]:
    """Return the newest MAX_RANGES ranges in order, after joining those that overlap or are adjacent."""
    found: list[ReadRange] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found[-MAX_RANGES:]


def as_text(ranges: Iterable[ReadRange]) -> str:
    return "{" + ",".join(f"[{first},{last + 1})" for first, last in ranges) + "}"


def from_text(text: str) -> list[ReadRange]:
    if text == NOTHING:
        return []
    pairs = (pair.split(",") for pair in text[2:-2].split("),["))
    return [(int(first), int(end) - 1) for first, end in pairs]


def merge_texts(known: str, read: str) -> str:
    """Return the ranges of a stored row together with the ranges that were read since."""
    if read == NOTHING:
        return known
    return as_text(merged(from_text(known) + from_text(read)))
