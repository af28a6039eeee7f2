"""The interface through which the operator's pages and commands read a store.

All times are milliseconds since 1970 UTC. Days are in Thailand time, except for
the days of bills, which are in the shop's time zone. No result contains a secret,
the data of a member or a bill, the text of a rejected line, or a query string.
Every method opens its own transaction, changes nothing, and may raise
`StoreUnavailable`; a query that takes longer than its time limit raises
`QueryTooSlow`.
"""

from collections.abc import Iterable, Sequence
from datetime import date
from enum import Enum
from itertools import pairwise
from typing import Any, Protocol

from msgspec import Struct, json
from msgspec.structs import replace

from counterfoil.domain.access import Key
from counterfoil.domain.audit import AuditEntry
from counterfoil.domain.calendar import date_of
from counterfoil.domain.load_progress import RejectedLine, decode_seen_at
from counterfoil.domain.problems import KEY_REVOKED, QUOTA_EXCEEDED, RATE_LIMITED
from counterfoil.domain.request_records import ReadProgress
from counterfoil.ports import StoreUnavailable

# Time limit in seconds: on SQLite for all queries of a call together, on PostgreSQL for each query.
QUERY_SEC = 5.0
# A search with conditions that no index covers reads at most this many records per page.
SCANNED_REQUESTS = 25_000
HOUR_MS = 3_600_000
# An unfinished load that has not written anything for this long counts as stopped, because it may have been killed.
STALLED_MS = 120_000
# Requests with a known key that end with these errors were not admitted, so they do not count against the quota.
NOT_ADMITTED = frozenset({RATE_LIMITED.code, KEY_REVOKED.code})

# The instant and the number of a request record. Pages of records are sorted by both, newest first.
RecordPosition = tuple[int, int]


class QueryTooSlow(StoreUnavailable):
    """A query took longer than its time limit, so it was stopped."""


class RequestFilter(Struct, frozen=True, kw_only=True):
    """Selects request records. A condition that is None is not applied.

    `since` is inclusive and `until` is exclusive. Pages are sorted newest first,
    and `before` is the `next` of the previous page: it selects older records.
    """

    request_id: str | None = None
    key_id: str | None = None
    route: str | None = None
    status: int | None = None
    error: str | None = None
    slower_than_us: int | None = None
    personal_data: bool = False
    """If true, select only the records of disclosures."""
    since: int | None = None
    until: int | None = None
    before: RecordPosition | None = None


class RecordedRequest(Struct, frozen=True, kw_only=True):
    """A stored request record. Records written by earlier versions have no request ID."""

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
    """A page of request records, newest first.

    `next` is the position after which the next page begins, or None if there
    are no more records. A search for something rare stops after it has
    read a limited number of records. The page may then have fewer records than requested, or
    none, even though `next` is not None.
    """

    requests: list[RecordedRequest]
    next: RecordPosition | None


class DayOfKey(Struct, frozen=True, kw_only=True):
    """The requests of a key on one day.

    `requests` counts admitted requests, as the quota does. `errors` counts the
    admitted requests that were answered with an error. They include the
    `over_quota` requests, which were refused because the quota was used up.
    Requests that were not admitted are counted in `rate_limited` if the minute
    window was full, and in `refused` if the key was revoked.
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
    """How many requests to one route ended with one error code, and when the latest of them did."""

    error: str
    route: str
    count: int
    last_at: int


class ReadGap(Struct, frozen=True):
    """Changes that no pass returned: those after the instant `start` and before the instant `end`."""

    start: int
    end: int


class CopyState(Struct, frozen=True, kw_only=True):
    """How far a key lineage has read one list of changes.

    `list_name` is CHANGES_OF_SHOP or CHANGE_FEED (see `domain/request_records.py`).
    The feed covers all shops in scope, so its `shop_id` is None.
    `server_time` is the newest serverTime that was returned at the end of a
    pass. It is None if no pass has ended yet. The passes have returned everything
    from `read_from` to `server_time`, except for the `gaps`, which are sorted
    oldest first. `read_from` is 0 if a pass began at the beginning. `finished`
    says whether the latest page that was sent ended its pass, and `at` is the
    time of that page.
    """

    list_name: str
    shop_id: str | None
    server_time: int | None
    finished: bool
    at: int
    read_from: int = 0
    gaps: Sequence[ReadGap] = ()


class LoadRow(Struct, frozen=True, kw_only=True):
    """A load: its source, its progress, and the number of rejected lines by reason.

    `rejects_file` is the name of the rejects file, which is in the folder `rejects`
    of the store unless `load --rejects` named a different file. `is_stopped` says
    that the load has recorded that it ended with an error.
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
    is_stopped: bool


def load_state(load: LoadRow, now: int) -> str:
    """Return `finished`, `running` or `stopped`.

    An unfinished load counts as stopped if it ended with an error, or if it has not written anything for STALLED_MS.
    """
    if load.finished_at is not None:
        return "finished"
    return "stopped" if load.is_stopped or now - load.seen_at > STALLED_MS else "running"


class BillsOfDay(Struct, frozen=True):
    """The number of bills that a shop has for one day in its own time zone."""

    shop_id: str
    day: date
    bills: int


class ShopName(Struct, frozen=True, kw_only=True, rename="camel"):
    """The name and the franchise of a loaded shop."""

    shop_id: str
    shop_name: str | None = None
    franchise_id: str | None = None


class OperatorReads(Protocol):
    """Everything that the operator can look up about keys, audit entries, requests, copies, loads and shops."""

    def keys(self) -> list[Key]:
        """Return all keys, oldest first."""

    def audit(self, most: int, key_id: str | None = None, since: int = 0) -> list[AuditEntry]:
        """Return up to `most` audit entries since an instant, newest first. `key_id` selects the entries of one key."""

    def shop_names(self) -> list[ShopName]:
        """Return the loaded shops, sorted by name and ID."""

    def bills(self, first: date, last: date) -> list[BillsOfDay]:
        """Return the number of bills per shop and day, sorted by shop and day. Days without bills are left out."""

    def requests(self, wanted: RequestFilter, limit: int) -> RequestPage:
        """Return a page of up to `limit` request records, newest first."""

    def days(self, first: date, last: date, key_id: str | None = None) -> list[DayOfKey]:
        """Return daily counts of one key or of all keys, sorted by key and day. Days without requests are left out."""

    def hours(self, key_id: str, since: int) -> list[HourOfKey]:
        """Return hourly counts of a key, oldest first, for the hours that begin at or after `since`."""

    def errors(self, since: int, key_id: str | None = None) -> list[ErrorGroup]:
        """Return the errors of admitted requests since an instant, most frequent first."""

    def last_used(self) -> dict[str, int]:
        """Return, for each key that was used in the last 400 days, the time of its latest admitted request.

        If that request is more than 90 days old, its record has been deleted, so
        the time is the beginning of its day.
        """

    def last_disclosed(self) -> dict[str, int]:
        """Return the time of the latest disclosure to each key that received personal data in the last 90 days."""

    def copies(self, lineage: str) -> list[CopyState]:
        """Return how far a lineage has read each list of changes, sorted by list and shop."""

    def all_copies(self) -> dict[str, list[CopyState]]:
        """Return the same as `copies` for every lineage that has read a list of changes."""

    def loads(self, limit: int) -> list[LoadRow]:
        """Return the latest loads, newest first. The store remembers the last 100 loads."""

    def rejects(self, load: int, limit: int) -> list[RejectedLine]:
        """Return rejected lines of a load in the order of its rejects file. The store remembers the first 1,000."""

    def close(self) -> None: ...


# A record may be written up to this many milliseconds after the time that it contains.
LATE_MS = 5_000
FOLLOWED_PER_PAGE = 1_000


class RequestFollower:
    """Finds new request records as they are written, and returns each of them once."""

    def __init__(self, reads: OperatorReads, wanted: RequestFilter, since: int) -> None:
        self._reads = reads
        self._wanted = wanted
        self._newest = since
        self._seen: set[RecordPosition] = set()
        self._since = since

    def new_requests(self) -> list[RecordedRequest]:
        """Return the records that were written since the last call, oldest first."""
        since = max(self._since, self._newest - LATE_MS)
        found = [one for one in self._records(since) if one.position not in self._seen]
        self._seen = {position for position in self._seen if position[0] >= since}
        self._seen |= {one.position for one in found}
        # If only late records were found, the next call must not look further back than `_seen` does.
        self._newest = max([self._newest, *(one.at for one in found)])
        return found[::-1]

    def _records(self, since: int) -> list[RecordedRequest]:
        page = self._reads.requests(replace(self._wanted, since=since), FOLLOWED_PER_PAGE)
        found = page.requests
        while page.next:
            page = self._reads.requests(replace(self._wanted, since=since, before=page.next), FOLLOWED_PER_PAGE)
            found += page.requests
        return found


# --- shared by the implementations ------------------------------------------------

Row = Sequence[Any]


class Records(Enum):
    """The sets of request records that have an index sorted by time."""

    WITH_ID = "with id"
    FAILED = "failed"
    DISCLOSURES = "disclosures"
    DISCLOSURES_TO_KEY = "disclosures to key"
    OF_KEY = "of key"
    ALL = "all"


class SearchPlan(Struct, frozen=True):
    """How to find the records that match a filter: the set to search, its bounds, and conditions for each record."""

    records: Records
    bounds: list[str]
    checks: list[str]


# Conditions that every record of a set satisfies. They need not be checked for each record.
_SATISFIED = {
    Records.WITH_ID: ("request_id",),
    Records.FAILED: (),
    Records.DISCLOSURES: ("personal_data",),
    Records.DISCLOSURES_TO_KEY: ("personal_data", "key_id"),
    Records.OF_KEY: ("key_id",),
    Records.ALL: (),
}
_BOUNDS = ("since", "until", "before")


def plan_search(wanted: RequestFilter) -> SearchPlan:
    """Return a plan that searches an indexed set which contains every record that matches the filter."""
    given = [name for name in RequestFilter.__struct_fields__ if getattr(wanted, name) not in (None, False)]
    if wanted.request_id is not None:
        records = Records.WITH_ID
    elif wanted.personal_data:
        records = Records.DISCLOSURES if wanted.key_id is None else Records.DISCLOSURES_TO_KEY
    elif wanted.error is not None or (wanted.status or 0) >= 400:
        records = Records.FAILED
    else:
        records = Records.ALL if wanted.key_id is None else Records.OF_KEY
    checks = [name for name in given if name not in _BOUNDS and name not in _SATISFIED[records]]
    return SearchPlan(records, [name for name in _BOUNDS if name in given], checks)


def filter_values(wanted: RequestFilter) -> dict[str, Any]:
    """Return the values of a filter by name. `before` is split into `before_at` and `before_number`."""
    values = {name: getattr(wanted, name) for name in RequestFilter.__struct_fields__ if name != "before"}
    at, number = wanted.before or (None, None)
    return values | {"before_at": at, "before_number": number}


def request_page(rows: Sequence[Row], limit: int, last_scanned: RecordPosition | None) -> RequestPage:
    """Return a page of request records.

    If `rows` has more than `limit` rows, the next page begins after the last record of this page, otherwise after
    `last_scanned`.
    """
    names = RecordedRequest.__struct_fields__
    found = [RecordedRequest(**dict(zip(names, row, strict=True))) for row in rows[:limit]]
    return RequestPage(found, found[-1].position if len(rows) > limit else last_scanned)


def days_of_keys(counts: Iterable[Row], errors: Iterable[Row], key_id: str | None) -> list[DayOfKey]:
    """Return the request counts of one key, or of all keys if `key_id` is None, sorted by key and day.

    A row of `counts` has a key, a day and the number of admitted requests; the last row for a key and day is used. A
    row of `errors` has a key, a day, an error code and the number of requests that ended with this code.
    """
    days: dict[tuple[str, int], DayOfKey] = {}
    for key, day, count in counts:
        if key_id in (None, key):
            days[key, day] = DayOfKey(key_id=key, day=date_of(day), requests=count)
    for key, day, error, count in errors:
        if key_id in (None, key):
            known = days.get((key, day)) or DayOfKey(key_id=key, day=date_of(day))
            days[key, day] = _with_errors(known, error, count)
    return [days[place] for place in sorted(days)]


def _with_errors(day: DayOfKey, error: str, count: int) -> DayOfKey:
    if error == RATE_LIMITED.code:
        return replace(day, rate_limited=day.rate_limited + count)
    if error in NOT_ADMITTED:
        return replace(day, refused=day.refused + count)
    over_quota = count if error == QUOTA_EXCEEDED.code else 0
    return replace(day, errors=day.errors + count, over_quota=day.over_quota + over_quota)


def first_hour(since: int) -> int:
    """Return the first instant at or after `since` at which an hour begins."""
    return -(-since // HOUR_MS) * HOUR_MS


def hours_of_key(requests: Iterable[Row], failed: Iterable[Row]) -> list[HourOfKey]:
    """Return hourly counts, oldest first. Rows of both arguments have an hour (in hours since 1970 UTC) and a count."""
    errors: dict[int, int] = dict(tuple(row) for row in failed)
    counts: list[tuple[int, int]] = sorted((hour, count) for hour, count in requests)
    return [HourOfKey(hour * HOUR_MS, count, errors.get(hour, 0)) for hour, count in counts]


def copy_states(rows: Iterable[Row]) -> dict[str, list[CopyState]]:
    """Return the state of each list by lineage. A row has a lineage, a list, a shop and the fields of ReadProgress."""
    found: dict[str, list[CopyState]] = {}
    for lineage, list_name, shop_id, *progress in rows:
        found.setdefault(lineage, []).append(_copy_state(list_name, shop_id, ReadProgress(*progress)))
    return found


def _copy_state(list_name: str, shop_id: str, progress: ReadProgress) -> CopyState:
    ranges = progress.ranges
    return CopyState(
        list_name=list_name,
        shop_id=shop_id or None,
        server_time=ranges[-1][1] if ranges else None,
        finished=progress.is_finished,
        at=progress.at,
        read_from=ranges[0][0] if ranges else 0,
        gaps=tuple(ReadGap(before[1], after[0]) for before, after in pairwise(ranges)),
    )


def shop_names(bodies: Iterable[Row]) -> list[ShopName]:
    """Return shops sorted by name and ID. Each row of `bodies` has one column, the stored body of a shop."""
    found = [json.decode(body, type=ShopName) for (body,) in bodies]
    return sorted(found, key=lambda shop: (shop.shop_name or "", shop.shop_id))


def load_row(row: Row) -> LoadRow:
    values = dict(zip(LoadRow.__struct_fields__, (*row, False), strict=True))
    seen_at, is_stopped = decode_seen_at(values["seen_at"])
    reasons = json.decode(values["reasons"], type=dict[str, int])
    return LoadRow(**values | {"seen_at": seen_at, "is_stopped": is_stopped, "reasons": reasons})


def rejected_line(row: Row) -> RejectedLine:
    source, line, reason, fields = row
    return RejectedLine(source, line, reason, json.decode(fields, type=list[str]))
