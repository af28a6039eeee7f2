"""What the operator reads about requests: their records, counts and errors, and how far copies have read.

The statements are written like those of `operator_reads.py`, and run in the same way.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import date
from typing import Any, ClassVar

from msgspec import Struct, json
from msgspec.structs import replace

from counterfoil.business_reads import Ask, Part
from counterfoil.domain.problems import KEY_REVOKED, QUOTA_EXCEEDED, RATE_LIMITED
from counterfoil.domain.request_records import CopyState, ReadProgress, RequestDetail, RequestRecord, copy_state
from counterfoil.model.calendar import HOUR_MS, THAI_OFFSET, as_number, date_of, thai_midnight

# A search with conditions that no index covers reads at most this many records per page.
SCANNED_REQUESTS = 25_000
# How long requests took is computed from at most this many records, the newest ones.
MEASURED_REQUESTS = 25_000
# A search reads this many records at a time, after a first page of them.
REQUESTS_PER_READ = 1_000
# As the error of a filter, this selects all requests that failed.
ANY_ERROR = "any"
# An instant that no request reaches.
NO_END = 2**62
# Requests with a known key that end with these errors were not admitted, so they do not count against the quota.
NOT_ADMITTED = frozenset({RATE_LIMITED.code, KEY_REVOKED.code})

Row = Sequence[Any]

# The instant and the number of a request record. Pages of records are sorted by both, newest first.
RecordPosition = tuple[int, int]


class RequestFilter(Struct, frozen=True, kw_only=True):
    """Selects request records; None is not applied. `until` is exclusive; `before` is the previous page's `next`."""

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

    @property
    def is_failed(self) -> bool:
        """Whether only requests that failed are selected."""
        return self.error is not None or (self.status or 0) >= 400

    def matches(self, record: RequestRecord) -> bool:
        """Return whether a record is selected, if its time is."""
        return (
            self.request_id in (None, record.request_id)
            and self.key_id in (None, record.key_id)
            and self.route in (None, record.route)
            and self.status in (None, record.status)
            and (self.error in (None, record.error) or (self.error == ANY_ERROR and record.error is not None))
            and (self.slower_than_us is None or record.took_us > self.slower_than_us)
            and (not self.personal_data or record.personal_base is not None)
        )


class RecordedRequest(RequestRecord, frozen=True, kw_only=True):
    """A stored request record."""

    number: int

    @property
    def returned(self) -> RequestDetail:
        return json.decode(self.detail, type=RequestDetail)

    @property
    def position(self) -> RecordPosition:
        return self.at, self.number


class RequestPage(Struct, frozen=True):
    """A page of request records, newest first.

    `next` is the position after which the next page begins, or None if there are no more records. A search for
    something rare stops after it has read a limited number of records. The page may then have fewer records than
    requested, or none, even though `next` is not None.
    """

    requests: list[RecordedRequest]
    next: RecordPosition | None


class DayOfKey(Struct, frozen=True, kw_only=True, rename="camel"):
    """The requests of a key on one day (Thailand time).

    `requests` counts admitted requests, as the quota does. `errors` counts the admitted requests that were answered
    with an error. They include the `over_quota` requests, which were refused because the quota was used up. Requests
    that were not admitted are counted in `rate_limited` if the minute window was full, and in `refused` if the key was
    revoked.
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


class Latency(Struct, frozen=True):
    """How long recorded requests took, in microseconds: of those in the hour or day (Thailand time) from `at` on."""

    at: int
    requests: int
    median_us: int
    p95_us: int


class ErrorGroup(Struct, frozen=True):
    """How many requests to one route ended with one error code, and when the latest of them did."""

    error: str
    route: str
    count: int
    last_at: int


class RequestReads(ABC):
    """The part of the operator's reads that is about requests. The other part opens the transactions.

    A back end finds request records, and has those statements that differ.
    """

    # Return the key, the day and the count of admitted requests. If two of them return one, the later one is newer.
    COUNTS: ClassVar[Sequence[str]]
    # Return the latest day on which each key was used.
    LAST_DAYS: ClassVar[str]

    def __init__(self, scanned: int) -> None:
        self._scanned = scanned

    @abstractmethod
    def _limited(self, part: Part) -> AbstractContextManager[Ask]:
        """Open a read-only transaction, whose queries are stopped at the time limit."""

    @abstractmethod
    def _newest_requests(self, ask: Ask, wanted: RequestFilter, before: RecordPosition, most: int) -> list[Row]:
        """Return up to `most` request records before a position, newest first, with their numbers.

        They are those of the times that the filter selects, and as many of its other conditions as an index has.
        """

    def requests(self, wanted: RequestFilter, limit: int) -> RequestPage:
        """Return a page of up to `limit` request records, newest first."""
        names = RecordedRequest.__struct_fields__
        found: list[RecordedRequest] = []
        position = wanted.before or (NO_END, NO_END)
        unread, most = self._scanned, limit + 1
        with self._limited("usage") as ask:
            while unread:
                most = min(most, unread)
                rows = self._newest_requests(ask, wanted, position, most)
                for row in rows:
                    record = RecordedRequest(**dict(zip(names, row, strict=True)))
                    if not wanted.matches(record):
                        continue
                    if len(found) == limit:
                        return RequestPage(found, found[-1].position)
                    found.append(record)
                if len(rows) < most:
                    return RequestPage(found, None)
                position = record.position
                unread, most = unread - most, REQUESTS_PER_READ
        return RequestPage(found, position)

    _ERRORS_IN_DAYS = "SELECT key_id, day, error, count FROM daily_errors WHERE day BETWEEN :first AND :last"

    def days(self, first: date, last: date, key_id: str | None = None) -> list[DayOfKey]:
        """Return daily counts of one key or of all keys, sorted by key and day. Days without requests are left out."""
        span = {"first": as_number(first), "last": as_number(last)}
        with self._limited("usage") as ask:
            counts = self._counts(ask, **span)
            errors = ask(self._ERRORS_IN_DAYS, **span)
        days: dict[tuple[str, int], DayOfKey] = {}
        for (key, day), count in counts.items():
            if key_id in (None, key):
                days[key, day] = DayOfKey(key_id=key, day=date_of(day), requests=count)
        for key, day, error, count in errors:
            if key_id in (None, key):
                known = days.get((key, day)) or DayOfKey(key_id=key, day=date_of(day))
                days[key, day] = _with_errors(known, error, count)
        return [days[place] for place in sorted(days)]

    def _counts(self, ask: Ask, first: int, last: int) -> dict[tuple[str, int], int]:
        """Return the number of admitted requests by key and day. If two statements return one, the later one counts."""
        counts: dict[tuple[str, int], int] = {}
        for statement in self.COUNTS:
            for key_id, day, count in ask(statement, first=first, last=last):
                counts[key_id, day] = count
        return counts

    _HOURS = f"""
        SELECT at / {HOUR_MS}, count(*) FROM requests WHERE at >= :since AND at < :until GROUP BY 1
    """  # noqa: S608 - contains only constants
    _HOURS_OF_KEY = f"""
        SELECT at / {HOUR_MS}, count(*) FROM requests
        WHERE key_id = :key_id AND at >= :since AND at < :until GROUP BY 1
    """  # noqa: S608 - contains only constants
    _FAILED_HOURS = f"""
        SELECT at / {HOUR_MS}, count(*) FROM requests
        WHERE error IS NOT NULL AND (CAST(:key_id AS text) IS NULL OR key_id = :key_id)
            AND at >= :since AND at < :until
        GROUP BY 1
    """  # noqa: S608 - contains only constants

    def hours(self, key_id: str | None, since: int, until: int = NO_END) -> list[HourOfKey]:
        """Return hourly counts of a key or of all keys, oldest first, of whole hours since `since`, until `until`."""
        values = {"key_id": key_id, "since": -(-since // HOUR_MS) * HOUR_MS, "until": until}
        with self._limited("usage") as ask:
            requests = ask(self._HOURS_OF_KEY if key_id else self._HOURS, **values)
            errors: dict[int, int] = dict(ask(self._FAILED_HOURS, **values))
        return [HourOfKey(hour * HOUR_MS, count, errors.get(hour, 0)) for hour, count in sorted(requests)]

    # A percentile is the smallest duration that so many of the requests did not exceed.
    _LATENCIES = f"""
        WITH newest AS (
            SELECT (at + {THAI_OFFSET}) / :slot AS slot, took_us FROM requests
            WHERE at >= :since ORDER BY at DESC LIMIT {MEASURED_REQUESTS}
        ), placed AS (
            SELECT slot, took_us, row_number() OVER (PARTITION BY slot ORDER BY took_us) AS place,
                count(*) OVER (PARTITION BY slot) AS requests
            FROM newest
        )
        SELECT slot, requests, max(CASE WHEN place = (requests + 1) / 2 THEN took_us END),
            max(CASE WHEN place = (requests * 95 + 99) / 100 THEN took_us END)
        FROM placed GROUP BY slot, requests ORDER BY slot
    """  # noqa: S608 - contains only constants
    _LATENCIES_OF_KEY = f"""
        WITH newest AS (
            SELECT (at + {THAI_OFFSET}) / :slot AS slot, took_us FROM requests
            WHERE key_id = :key_id AND at >= :since ORDER BY at DESC LIMIT {MEASURED_REQUESTS}
        ), placed AS (
            SELECT slot, took_us, row_number() OVER (PARTITION BY slot ORDER BY took_us) AS place,
                count(*) OVER (PARTITION BY slot) AS requests
            FROM newest
        )
        SELECT slot, requests, max(CASE WHEN place = (requests + 1) / 2 THEN took_us END),
            max(CASE WHEN place = (requests * 95 + 99) / 100 THEN took_us END)
        FROM placed GROUP BY slot, requests ORDER BY slot
    """  # noqa: S608 - contains only constants

    def latencies(self, key_id: str | None, since: int, slot_ms: int) -> list[Latency]:
        """Return how long the newest MEASURED_REQUESTS of a key or of all keys took, per hour or day, oldest first."""
        statement = self._LATENCIES_OF_KEY if key_id else self._LATENCIES
        with self._limited("usage") as ask:
            rows = ask(statement, key_id=key_id, since=since, slot=slot_ms)
        return [Latency(slot * slot_ms - THAI_OFFSET, *measured) for slot, *measured in rows]

    _ERRORS = """
        SELECT error, route, count(*), max(at) FROM requests
        WHERE at >= :since AND error IS NOT NULL AND (CAST(:key_id AS text) IS NULL OR key_id = :key_id)
        GROUP BY error, route
    """

    def errors(self, since: int, key_id: str | None = None) -> list[ErrorGroup]:
        """Return the errors of admitted requests since an instant, most frequent first."""
        with self._limited("usage") as ask:
            found = [ErrorGroup(*row) for row in ask(self._ERRORS, since=since, key_id=key_id)]
        return sorted(found, key=lambda group: (-group.count, group.error, group.route))

    # Each step of the recursion jumps to the next key in the index, so the cost depends only on the number of keys.
    _LATEST_REQUESTS = """
        WITH RECURSIVE used (key_id) AS (
            SELECT min(key_id) FROM requests
            UNION ALL
            SELECT (SELECT min(key_id) FROM requests WHERE key_id > used.key_id) FROM used WHERE used.key_id IS NOT NULL
        )
        SELECT key_id, (SELECT max(at) FROM requests WHERE key_id = used.key_id) FROM used WHERE key_id IS NOT NULL
    """

    def last_used(self) -> dict[str, int]:
        """Return when each key was last used, in 400 days. After 90 days only the day is known: its beginning."""
        with self._limited("usage") as ask:
            days = ask(self.LAST_DAYS)
            recorded = ask(self._LATEST_REQUESTS)
        return {key_id: thai_midnight(date_of(day)) for key_id, day in days} | dict(recorded)

    # As above, with the index of disclosures.
    _LATEST_DISCLOSURES = """
        WITH RECURSIVE used (key_id) AS (
            SELECT min(key_id) FROM requests WHERE personal_base IS NOT NULL
            UNION ALL
            SELECT (SELECT min(key_id) FROM requests WHERE key_id > used.key_id AND personal_base IS NOT NULL)
            FROM used WHERE used.key_id IS NOT NULL
        )
        SELECT key_id, (SELECT max(at) FROM requests WHERE key_id = used.key_id AND personal_base IS NOT NULL)
        FROM used WHERE key_id IS NOT NULL
    """

    def last_disclosed(self) -> dict[str, int]:
        """Return the time of the latest disclosure to each key that received personal data in the last 90 days."""
        with self._limited("usage") as ask:
            return dict(ask(self._LATEST_DISCLOSURES))

    _COPIES = """
        SELECT lineage, list_name, shop_id, server_time, ended_at, continued_at, covered FROM passes
        ORDER BY lineage, list_name, shop_id
    """

    def copies(self) -> dict[str, list[CopyState]]:
        """Return how far each lineage has read each list of changes, sorted by list and shop."""
        found: dict[str, list[CopyState]] = {}
        with self._limited("usage") as ask:
            for owner, list_name, shop_id, *progress in ask(self._COPIES):
                found.setdefault(owner, []).append(copy_state(list_name, shop_id, ReadProgress(*progress)))
        return found

    _LISTS_READ = """
        SELECT DISTINCT detail FROM requests
        WHERE key_id = :key_id AND at >= :since AND status = 200 AND route IN ('transactions', 'transactions/{id}')
    """

    def lists_read(self, key_id: str, since: int) -> set[str]:
        """Return the shops whose bills a key got from lists since an instant. For a single bill it is "", unknown."""
        with self._limited("usage") as ask:
            rows = ask(self._LISTS_READ, key_id=key_id, since=since)
        details = [json.decode(detail, type=RequestDetail) for (detail,) in rows]
        return {detail.shop_id for detail in details if detail.rows != 0}


def _with_errors(day: DayOfKey, error: str, count: int) -> DayOfKey:
    if error == RATE_LIMITED.code:
        return replace(day, rate_limited=day.rate_limited + count)
    if error in NOT_ADMITTED:
        return replace(day, refused=day.refused + count)
    over_quota = count if error == QUOTA_EXCEEDED.code else 0
    return replace(day, errors=day.errors + count, over_quota=day.over_quota + over_quota)
