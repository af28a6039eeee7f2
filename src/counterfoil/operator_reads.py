"""The interface through which the operator's pages and commands read a store.

All times are milliseconds since 1970 UTC, and all days are days in Thailand
time. Nothing here contains a parameter of a request, a returned value, a secret
or a value of a source record. Every method opens its own transaction, changes
nothing, and may raise `StoreUnavailable`; a query that takes longer than its
time limit raises `QueryTooSlow`.
"""

from collections.abc import Sequence
from datetime import date
from typing import Protocol

from msgspec import Struct

from counterfoil.ports import StoreUnavailable

# How long one query may take.
QUERY_SEC = 5.0

# The instant and the number of a request record. Pages of records are sorted by both, newest first.
RecordPosition = tuple[int, int]


class QueryTooSlow(StoreUnavailable):
    """A query took longer than its time limit, so it was stopped."""


class RequestFilter(Struct, frozen=True, kw_only=True):
    """Selects request records. Conditions that are None select everything.

    `since` is included and `until` is not. `before` is where a page continues:
    the `next` of the previous page.
    """

    request_id: str | None = None
    key_id: str | None = None
    route: str | None = None
    status: int | None = None
    error: str | None = None
    slower_than_us: int | None = None
    personal_data: bool = False
    """Whether to select only responses that contained personal data (disclosures)."""
    since: int | None = None
    until: int | None = None
    before: RecordPosition | None = None


class RecordedRequest(Struct, frozen=True, kw_only=True):
    """A stored request record. Records of earlier versions have no request ID."""

    number: int
    at: int
    request_id: str | None
    key_id: str
    route: str
    status: int
    error: str | None
    took_us: int
    personal_base: str | None = None
    personal_members: int = 0

    @property
    def position(self) -> RecordPosition:
        return self.at, self.number


class RequestPage(Struct, frozen=True):
    """Some request records, newest first.

    `next` is the position after which the next page begins, or None if there
    are no more records. A search for something rare stops after a limited
    number of records. The page may then have fewer records than requested, or
    none, although `next` is not None.
    """

    requests: list[RecordedRequest]
    next: RecordPosition | None


class DayOfKey(Struct, frozen=True, kw_only=True):
    """The requests of a key on one day.

    `requests` counts the admitted requests, as the quota does. `errors` counts
    those among them that were answered with an error, including `over_quota`,
    which were refused because the quota was used up. `rate_limited` and
    `refused` count requests that were not admitted: the minute window was full,
    or the key was revoked.
    """

    key_id: str
    day: date
    requests: int = 0
    errors: int = 0
    rate_limited: int = 0
    over_quota: int = 0
    refused: int = 0


class HourOfKey(Struct, frozen=True):
    """The requests of a key in the hour that begins at `at`. Hours without requests are left out."""

    at: int
    requests: int
    errors: int


class ErrorGroup(Struct, frozen=True):
    """The number of requests to a route that were answered with an error code, and the time of the latest."""

    error: str
    route: str
    count: int
    last_at: int


# The `list_name` of a `CopyState`.
CHANGES_OF_SHOP, CHANGE_FEED = "changes", "feed"


class CopyState(Struct, frozen=True, kw_only=True):
    """How far a key lineage has read one list of changes.

    The list is the changes of a shop (`CHANGES_OF_SHOP`) or the change feed
    (`CHANGE_FEED`), whose `shop_id` is None because it covers all shops in scope.
    `server_time` is the newest serverTime that was returned at the end of a
    pass: everything up to then has been handed out. It is None if no pass has
    ended yet. `finished` is False if a later pass has begun and has not ended.
    `at` is the time of the latest request that was part of a pass.
    """

    list_name: str
    shop_id: str | None
    server_time: int | None
    finished: bool
    at: int


class LoadRow(Struct, frozen=True, kw_only=True):
    """A load: where it read from, its progress, and the number of rejected lines by reason.

    `rejects_file` is the name of the rejects file, without its folder.
    """

    number: int
    source: str
    started_at: int
    seen_at: int
    finished_at: int | None
    lines: int
    changed: int
    rejected: int
    reasons: dict[str, int]
    rejects_file: str | None


class RejectedLine(Struct, frozen=True):
    """Where a rejected line is, and why it was rejected. `fields` are the names of the fields that are wrong."""

    source: str
    line: int
    reason: str
    fields: Sequence[str] = ()


class OperatorReads(Protocol):
    """Everything that the operator can look up about requests, copies and loads."""

    def requests(self, wanted: RequestFilter, limit: int) -> RequestPage:
        """Return a page of up to `limit` request records, newest first."""

    def days(self, first: date, last: date, key_id: str | None = None) -> list[DayOfKey]:
        """Return the days of one key or of all keys, sorted by key and day. Days without requests are left out."""

    def hours(self, key_id: str, since: int) -> list[HourOfKey]:
        """Return the hours of a key that begin at or after `since`, oldest first."""

    def errors(self, since: int, key_id: str | None = None) -> list[ErrorGroup]:
        """Return the errors of admitted requests since an instant, most frequent first."""

    def last_used(self) -> dict[str, int]:
        """Return, for each key that was used in the last 400 days, the time of its latest admitted request.

        If that request is more than 90 days old, its record has been deleted. The
        time is then the beginning of its day.
        """

    def last_disclosed(self) -> dict[str, int]:
        """Return, for each key that received personal data in the last 90 days, the latest time."""

    def copies(self, lineage: str) -> list[CopyState]:
        """Return how far a lineage has read each list of changes, sorted by list and shop."""

    def loads(self, limit: int) -> list[LoadRow]:
        """Return the latest loads, newest first. The store remembers 100 loads."""

    def rejects(self, load: int, limit: int) -> list[RejectedLine]:
        """Return rejected lines of a load in the order of rejection. The store remembers the first 1,000 of a load."""

    def close(self) -> None: ...
