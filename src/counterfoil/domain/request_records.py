"""What the service remembers about requests: a record of each one, counts of refusals, and how far copies have read."""

from collections import Counter

from msgspec import Struct

from counterfoil.domain.calendar import as_number, thai_day

# A worker remembers at most this many lists of changes and counts between two writes. Others are left out.
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


class ChangeList(Struct, frozen=True):
    """A list of changes as one key lineage reads it. The feed covers all shops, so its `shop_id` is empty."""

    lineage: str
    list_name: str
    shop_id: str


class PassPage(Struct, frozen=True):
    """A page of a pass over a list of changes, with the horizon that the pass reports as serverTime."""

    list: ChangeList
    horizon: int
    is_last: bool


class CopyProgress(Struct, frozen=True):
    """How far a list has been read. Each value is 0 if there is none.

    `server_time` is the newest horizon of a pass that has ended. `ended_at` and
    `continued_at` are the times of the latest last page and of the latest other
    page.
    """

    server_time: int = 0
    ended_at: int = 0
    continued_at: int = 0

    @property
    def is_finished(self) -> bool:
        """Whether no pass has been continued since the latest one ended."""
        return self.ended_at >= self.continued_at

    @property
    def at(self) -> int:
        return max(self.ended_at, self.continued_at)

    def after(self, page: PassPage, at: int) -> "CopyProgress":
        if page.is_last:
            return CopyProgress(max(self.server_time, page.horizon), max(self.ended_at, at), self.continued_at)
        return CopyProgress(self.server_time, self.ended_at, max(self.continued_at, at))

    def joined(self, other: "CopyProgress") -> "CopyProgress":
        return CopyProgress(
            max(self.server_time, other.server_time),
            max(self.ended_at, other.ended_at),
            max(self.continued_at, other.continued_at),
        )


# A key, a day in Thailand time as a number, and an error code.
ErrorOfDay = tuple[str, int, str]


class RequestTally(Struct):
    """What a worker has counted and not written yet. Writing it costs the same however many requests it covers."""

    errors: Counter[ErrorOfDay]
    copies: dict[ChangeList, CopyProgress]

    @classmethod
    def empty(cls) -> "RequestTally":
        return cls(Counter(), {})

    def __bool__(self) -> bool:
        return bool(self.errors or self.copies)

    def add_error(self, key_id: str, error: str, at: int) -> None:
        counted = (key_id, as_number(thai_day(at)), error)
        if counted in self.errors or len(self.errors) < MAX_PENDING:
            self.errors[counted] += 1

    def add_page(self, page: PassPage, at: int) -> None:
        known = self.copies.get(page.list)
        if known is not None or len(self.copies) < MAX_PENDING:
            self.copies[page.list] = (known or CopyProgress()).after(page, at)

    def add_all(self, other: "RequestTally") -> None:
        """Add what could not be written."""
        self.errors.update(other.errors)
        for read, progress in other.copies.items():
            self.copies[read] = self.copies.get(read, CopyProgress()).joined(progress)
