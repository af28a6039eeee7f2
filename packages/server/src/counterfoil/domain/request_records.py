"""The data that the service keeps about requests: request records, error counts, and the progress of copies."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec import Struct

from counterfoil.model.calendar import as_number, thai_day

# --- ranges of changes that were read from a list, and the text in which a store keeps them --
#
# A range contains the changes from its first to its last instant, both included. The text has the format of a
# PostgreSQL multirange, in which the end of a range is the instant after its last one: `{[0,101),[200,301)}`. In this
# format, PostgreSQL can merge ranges itself.


# At most so many ranges: the oldest are dropped, not joined, so that no change wrongly appears to have been read.
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


# Between two writes, a worker holds at most this many error counts and this many lists of changes. It drops the rest.
MAX_PENDING = 10_000
# The lists of changes that a copy is made from: the changes of one shop, and the change feed.
CHANGES_OF_SHOP, CHANGE_FEED = "changes", "feed"


# Stands for a parameter that the API does not have, and for a shop that is not in the store.
UNKNOWN = "="


class RequestDetail(Struct, frozen=True, array_like=True):
    """What a request asked for and what it got.

    `parameters` are the names of the parameters, separated by commas, and `shop_id` is the shop that was asked for.
    A name that the API does not have and a shop that is not in the store are UNKNOWN, because a caller could send data
    in them, such as a phone number.
    `rows` is the number of rows of the page, and `is_last` is false if the response has a cursor to continue with.
    Both are None if no page was sent. `message` is the text of an error.
    """

    parameters: str = ""
    shop_id: str = ""
    rows: int | None = None
    is_last: bool | None = None
    message: str = ""

    @property
    def names(self) -> list[str]:
        """The names of the known parameters, and how many others there were."""
        unknown = self.parameters.count(UNKNOWN)
        known = [name for name in self.parameters.split(",") if name not in ("", UNKNOWN)]
        return [*known, f"{unknown} unknown"] if unknown else known

    @property
    def shop(self) -> str | None:
        """The ID of the shop that was asked for, `unknown` if it is not in the store, or None."""
        return "unknown" if self.shop_id == UNKNOWN else self.shop_id or None


class RequestRecord(Struct, frozen=True, kw_only=True):
    """The record of a request. It contains no returned values, and no values of parameters except a base or a shop."""

    at: int
    key_id: str
    route: str
    status: int
    error: str | None
    took_us: int
    personal_base: str | None = None
    personal_members: int = 0
    request_id: str
    detail: str = "[]"
    """A `RequestDetail` as JSON."""


class ReadProgress(Struct, frozen=True):
    """How far a list of changes has been read.

    `server_time` is the newest horizon of a pass that has ended. `ended_at` is the time of the latest page that ended a
    pass, and `continued_at` that of the latest page that did not, or 0. `covered` are the ranges that passes returned.
    """

    server_time: int = 0
    ended_at: int = 0
    continued_at: int = 0
    covered: str = NOTHING


class ReadGap(Struct, frozen=True):
    """Changes that no pass returned: those after the instant `start` and before the instant `end`."""

    start: int
    end: int


class CopyState(Struct, frozen=True, kw_only=True):
    """How far a key lineage has read CHANGES_OF_SHOP, or CHANGE_FEED, which covers all shops.

    The passes that have ended returned everything from `read_from` to `server_time`, except for the `gaps`, oldest
    first. `finished` says whether the latest page, which was sent at `at`, ended its pass.
    """

    list_name: str
    shop_id: str | None
    server_time: int | None
    finished: bool
    at: int
    read_from: int = 0
    gaps: Sequence[ReadGap] = ()


def copy_state(list_name: str, shop_id: str, progress: ReadProgress) -> CopyState:
    ranges = from_text(progress.covered)
    return CopyState(
        list_name=list_name,
        shop_id=shop_id or None,
        server_time=ranges[-1][1] if ranges else None,
        finished=progress.ended_at >= progress.continued_at,
        at=max(progress.ended_at, progress.continued_at),
        read_from=ranges[0][0] if ranges else 0,
        gaps=tuple(ReadGap(before[1], after[0]) for before, after in pairwise(ranges)),
    )


# A key lineage, the name of a list of changes, and a shop. The change feed covers all shops, so its shop is empty.
ChangeList = tuple[str, str, str]
# Identifies an error count: an API key, a day in Thailand time (as a number) and an error code.
ErrorOfDay = tuple[str, int, str]


class RequestTally:
    """A worker's error counts and pass progress that are not stored yet. `add_page` does as little as possible."""

    def __init__(self) -> None:
        self.errors: Counter[ErrorOfDay] = Counter()
        # The latest range of changes that was read from each list, and the time of the page that ended its latest pass.
        self._ended: dict[ChangeList, tuple[int, int, int]] = {}
        # Earlier ranges that the latest range does not continue, for example because a caller skipped changes or read
        # some again, or because another worker sent the pages in between.
        self._apart: dict[ChangeList, list[ReadRange]] = {}
        self._continued: dict[ChangeList, int] = {}

    def __bool__(self) -> bool:
        return bool(self.errors or self._ended or self._continued)

    def add_error(self, key_id: str, error: str, at: int) -> None:
        counted = (key_id, as_number(thai_day(at)), error)
        if counted in self.errors or len(self.errors) < MAX_PENDING:
            self.errors[counted] += 1

    def add_page(self, read: ChangeList, since: int, horizon: int, is_last: bool, at: int) -> None:
        """Add a page of a pass that returns the changes from `since` to `horizon`, both included."""
        if not is_last:
            if read in self._continued or len(self._continued) < MAX_PENDING:
                self._continued[read] = at
            return
        known = self._ended.get(read)
        if known is None:
            if len(self._ended) < MAX_PENDING:
                # A pass that asks only for changes after the horizon returns nothing, so its range is empty.
                self._ended[read] = (min(since, horizon + 1), horizon, at)
        elif known[0] <= since <= known[1] + 1 <= horizon + 1:
            self._ended[read] = (known[0], horizon, at)
        elif since > horizon:
            self._ended[read] = (known[0], known[1], at)
        else:
            self._keep_apart(read, known[0], known[1])
            self._ended[read] = (since, horizon, at)

    def _keep_apart(self, read: ChangeList, first: int, last: int) -> None:
        if first <= last:
            self._apart[read] = merged([*self._apart.get(read, []), (max(0, first), last)])

    def progress(self) -> dict[ChangeList, ReadProgress]:
        """Return how far each list of changes has been read."""
        return {read: self._progress_of(read) for read in {**self._ended, **self._continued}}

    def _progress_of(self, read: ChangeList) -> ReadProgress:
        first, last, ended_at = self._ended.get(read, (0, -1, 0))
        ranges = list(self._apart.get(read, ()))
        if first <= last:
            ranges.append((max(0, first), last))
        covered = merged(ranges)
        server_time = covered[-1][1] if covered else 0
        return ReadProgress(server_time, ended_at, self._continued.get(read, 0), as_text(covered))

    def add_all(self, other: "RequestTally") -> None:
        """Add the contents of an older tally that could not be written."""
        self.errors.update(other.errors)
        for read, (first, last, at) in other._ended.items():
            known = self._ended.get(read)
            if known is None:
                self._ended[read] = (first, last, at)
            else:
                self._keep_apart(read, first, last)
                self._ended[read] = (known[0], known[1], max(known[2], at))
        for read, ranges in other._apart.items():
            self._apart[read] = merged([*self._apart.get(read, []), *ranges])
        self._continued = other._continued | self._continued
