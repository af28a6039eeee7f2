"""The data that the service keeps about requests: request records, error counts, and the progress of copies."""

from collections import Counter

from msgspec import Struct

from counterfoil.domain.calendar import as_number, thai_day

# Between two writes, a worker holds at most this many error counts and this many lists of changes. It drops the rest.
MAX_PENDING = 10_000
# The lists of changes that a copy is made from: the changes of one shop, and the change feed.
CHANGES_OF_SHOP, CHANGE_FEED = "changes", "feed"


class RequestRecord(Struct, frozen=True, kw_only=True):
    """The record of a request. It never contains a parameter or a returned value."""

    at: int
    key_id: str
    route: str
    status: int
    error: str | None
    took_us: int
    personal_base: str | None = None
    personal_members: int = 0
    request_id: str | None = None


class ReadProgress(Struct, frozen=True):
    """How far a list of changes has been read.

    `server_time` is the newest horizon of a pass that has ended. `ended_at` is
    the time of the latest page that ended a pass, and `continued_at` is the time
    of the latest page that did not. Each value is 0 if there was no such page.
    """

    server_time: int = 0
    ended_at: int = 0
    continued_at: int = 0

    @property
    def is_finished(self) -> bool:
        """True if the latest page that was sent ended a pass."""
        return self.ended_at >= self.continued_at

    @property
    def at(self) -> int:
        return max(self.ended_at, self.continued_at)


# A key lineage, the name of a list of changes, and a shop. The change feed covers all shops, so its shop is empty.
ChangeList = tuple[str, str, str]
# Identifies an error count: an API key, a day in Thailand time (as a number) and an error code.
ErrorOfDay = tuple[str, int, str]


class RequestTally:
    """A worker's error counts and pass progress that are not stored yet.

    The cost of storing them does not depend on the number of requests.
    `add_page` is called for every poll. To be fast, it only saves values, and `progress` computes the rest.
    """

    def __init__(self) -> None:
        self.errors: Counter[ErrorOfDay] = Counter()
        self._ended: dict[ChangeList, tuple[int, int]] = {}
        self._continued: dict[ChangeList, int] = {}

    def __bool__(self) -> bool:
        return bool(self.errors or self._ended or self._continued)

    def add_error(self, key_id: str, error: str, at: int) -> None:
        counted = (key_id, as_number(thai_day(at)), error)
        if counted in self.errors or len(self.errors) < MAX_PENDING:
            self.errors[counted] += 1

    def add_page(self, read: ChangeList, horizon: int, is_last: bool, at: int) -> None:
        if is_last:
            known = self._ended.get(read)
            if known is not None:
                # An older pass may end after a newer pass, so keep the newest horizon.
                newest = known[0]
                self._ended[read] = (newest if newest > horizon else horizon, at)
            elif len(self._ended) < MAX_PENDING:
                self._ended[read] = (horizon, at)
        elif read in self._continued or len(self._continued) < MAX_PENDING:
            self._continued[read] = at

    def progress(self) -> dict[ChangeList, ReadProgress]:
        """Return the progress of each list."""
        return {
            read: ReadProgress(*self._ended.get(read, (0, 0)), self._continued.get(read, 0))
            for read in {**self._ended, **self._continued}
        }

    def add_all(self, other: "RequestTally") -> None:
        """Add the contents of an older tally that could not be written."""
        self.errors.update(other.errors)
        for read, (horizon, at) in other._ended.items():
            newest, latest = self._ended.get(read, (0, 0))
            self._ended[read] = (max(newest, horizon), max(latest, at))
        self._continued = other._continued | self._continued
