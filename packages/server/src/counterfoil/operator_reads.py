"""What the operator's pages and commands read from a store: the port, and the statements that every back end shares.

All times are milliseconds since 1970 UTC. Days are in Thailand time, except for the days of bills, which are in the
shop's time zone. No result contains a secret, the data of a member, the text of a rejected line, or a query string.
Every method opens its own transaction, changes nothing, and may raise `StoreUnavailable`, or `QueryTooSlow` after its
time limit.

The statements are written for SQLite, with named parameters. PostgreSQL needs other parameters and no `INDEXED BY`: see
`to_postgres`.
"""

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct, json
from msgspec.structs import asdict, replace

from counterfoil.business_reads import Ask, BusinessReads, Part
from counterfoil.domain.access import Key, Scope, oldest_first
from counterfoil.domain.activity import BillFigure, ShopActivity, activity, in_order
from counterfoil.domain.audit import COLUMNS, AuditEntry, Backups, from_row
from counterfoil.domain.batch import known_facts
from counterfoil.domain.changes import KnownFacts
from counterfoil.domain.devices import Device
from counterfoil.domain.intake import FORGET_FOLDER_MS, Intake, LoadRow, RejectedLine, WatchedFolder, load_row
from counterfoil.domain.members import Base
from counterfoil.domain.open_items import COLUMNS as ITEM_COLUMNS
from counterfoil.domain.open_items import OpenItem, item_of
from counterfoil.domain.problems import KEY_REVOKED, QUOTA_EXCEEDED, RATE_LIMITED
from counterfoil.domain.replacements import StoredBill
from counterfoil.domain.request_records import CopyState, ReadProgress, RequestDetail, RequestRecord, copy_state
from counterfoil.domain.shops import ShopFacts
from counterfoil.domain.undo import LoadedBill
from counterfoil.member_reads import MemberReads
from counterfoil.model.calendar import HOUR_MS, THAI_OFFSET, as_number, date_of, from_ms, thai_day, thai_midnight
from counterfoil.model.control_totals import TotalsReport
from counterfoil.model.messages import Message
from counterfoil.model.resources import Shop
from counterfoil.model.text import statements
from counterfoil.ports import DiskUse, Permissions, ServerState, StoreExtent, StoreMismatch, StoreUnavailable

# Time limit in seconds: on SQLite for all queries of a call together, on PostgreSQL for each query.
QUERY_SEC = 5.0
# A search with conditions that no index covers reads at most this many records per page.
SCANNED_REQUESTS = 25_000
# How long requests took is computed from at most this many records, the newest ones.
MEASURED_REQUESTS = 25_000
# The hours in which a shop sells are those of at most this many bills, the latest ones.
CLOSINGS_READ = 2_000
# As the error of a filter, this selects all requests that failed.
ANY_ERROR = "any"
# The number of bills that one query reads.
BILLS_PER_READ = 200
# Requests with a known key that end with these errors were not admitted, so they do not count against the quota.
NOT_ADMITTED = frozenset({RATE_LIMITED.code, KEY_REVOKED.code})

Row = Sequence[Any]

# The instant and the number of a request record. Pages of records are sorted by both, newest first.
RecordPosition = tuple[int, int]


class QueryTooSlow(StoreUnavailable):
    """A query took longer than its time limit, so it was stopped."""


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


class BillsOfDay(Struct, frozen=True):
    """The number of bills that a shop has for one day in its own time zone."""

    shop_id: str
    day: date
    bills: int


class ShopName(Struct, frozen=True, kw_only=True, rename="camel"):
    """The name, the franchise and the membership base of a loaded shop."""

    shop_id: str
    shop_name: str | None = None
    franchise_id: str | None = None
    provider_id: str | None = None


class LoadedShop(Struct, frozen=True):
    """A loaded shop, its facts, and how many bills it has."""

    shop: Shop
    facts: ShopFacts
    bills: int


# --- searching request records ----------------------------------------------------


def _records_to_search(wanted: RequestFilter) -> tuple[str, str, set[str]]:
    """Return an index sorted by time, a condition, and the names of the filter's conditions that it implies.

    All records that match the filter satisfy the condition. The statements name the index, because SQLite might choose
    a different index if ANALYZE has not been run.
    """
    if wanted.request_id is not None:
        return "requests_by_id", "request_id = :request_id", set()
    if wanted.personal_data and wanted.key_id is None:
        return "requests_with_personal_data", "personal_base IS NOT NULL", {"personal_data"}
    if wanted.personal_data:
        return "disclosures_by_key", "key_id = :key_id AND personal_base IS NOT NULL", {"personal_data", "key_id"}
    if wanted.error is not None or (wanted.status or 0) >= 400:
        return "requests_failed", "error IS NOT NULL", set()
    if wanted.key_id is not None:
        return "requests_by_key", "key_id = :key_id", {"key_id"}
    return "requests_by_time", "true", set()


# --- statements --------------------------------------------------------------------


@lru_cache(maxsize=512)
def to_postgres(statement: str) -> bytes:
    """Return the statement as psycopg runs it on PostgreSQL."""
    without_hints = re.sub(r" INDEXED BY \w+", "", statement)
    # A colon that follows or precedes another one belongs to a cast.
    return re.sub(r"(?<!:):([a-z]\w*)", r"%(\1)s", without_hints).encode()


BILL_IDS = ", ".join(f":bill_{number}" for number in range(BILLS_PER_READ))


def bill_values(bill_ids: Sequence[str]) -> dict[str, str]:
    """Return the parameters of `BILL_IDS` for up to BILLS_PER_READ bills. The first one fills the other places."""
    filled = [*bill_ids, *[bill_ids[0]] * (BILLS_PER_READ - len(bill_ids))]
    return {f"bill_{number}": bill_id for number, bill_id in enumerate(filled)}


_SQL = statements(
    Path(__file__).with_suffix(".sql").read_text("utf-8"),
    audit_columns=", ".join(COLUMNS),
    item_columns=", ".join(ITEM_COLUMNS),
    bill_ids=BILL_IDS,
    hour_ms=HOUR_MS,
    thai_offset=THAI_OFFSET,
    measured=MEASURED_REQUESTS,
)
_CONDITIONS: Mapping[str, str] = {
    "key_id": "key_id = :key_id",
    "route": "route = :route",
    "status": "status = :status",
    "error": f"(error = :error OR CAST(:error AS text) = '{ANY_ERROR}')",
    "slower_than_us": "took_us > :slower_than_us",
    "personal_data": "personal_base IS NOT NULL",
}
_BOUNDS: Mapping[str, str] = {
    "since": "at >= :since",
    "until": "at < :until",
    # The comparison `at <= ...` is redundant, but lets the index scan start at the right entry.
    "before": "at <= :before_at AND (at < :before_at OR {number} < :before_number)",
}
_NEWEST_FIRST = "ORDER BY at DESC, {number} DESC"
_FROM_SCANNED = "at >= :last_at AND (at > :last_at OR {number} >= :last_number)"
_ALL_REQUESTS = {"index": "requests_by_time", "condition": "true"}
_REQUESTS_OF_KEY = {"index": "requests_by_key", "condition": "key_id = :key_id"}
_FAILED_REQUESTS = {
    "index": "requests_failed",
    "condition": "error IS NOT NULL AND (CAST(:key_id AS text) IS NULL OR key_id = :key_id)",
}
# An instant that no request reaches.
NO_END = 2**62
UNFINISHED, ITEM = _SQL["unfinished"], _SQL["item"]
FACTS = "SELECT latest_version, facts FROM shops WHERE id = :id"
_LATEST_LOAD = _SQL["loads"].replace("ORDER BY", f"ORDER BY ({UNFINISHED}) DESC,")


# --- the port ----------------------------------------------------------------------


class OperatorReads(BusinessReads, MemberReads):
    """Everything that commands, the console and the admin listener read. Each call uses its own connection.

    A back end opens connections, and defines what differs: the number of a request record, and the statements for the
    counts per day and for the latest day on which each key was used.
    """

    NUMBER: ClassVar[str]
    AUDIT_ORIGIN: ClassVar[str] = ""
    # The folder and the machine of a backup. On PostgreSQL, a node may not read them.
    BACKUP_PLACE: ClassVar[str] = "'', ''"
    COUNTS: ClassVar[Sequence[str]]
    LAST_DAYS: ClassVar[str]

    def __init__(self, query_sec: float = QUERY_SEC, scanned: int = SCANNED_REQUESTS) -> None:
        self._query_sec = query_sec
        self._scanned = scanned

    @abstractmethod
    def _opened(self, part: Part, query_sec: float | None = None) -> AbstractContextManager[Ask]:
        """Open a read-only transaction, whose queries are stopped at the time limit, if there is one."""

    def _limited(self, part: Part) -> AbstractContextManager[Ask]:
        return self._opened(part, self._query_sec)

    # --- keys and requests -------------------------------------------------------

    def keys(self) -> list[Key]:
        """Return all keys, oldest first."""
        with self._limited("keys") as ask:
            return oldest_first(ask("SELECT body FROM keys"))

    def audit(self, most: int, key_id: str | None = None, since: int = 0) -> list[AuditEntry]:
        """Return up to `most` audit entries since an instant, newest first. `key_id` selects the entries of one key."""
        statement = _SQL["latest_entries"].format(origin=self.AUDIT_ORIGIN)
        with self._limited("keys") as ask:
            return [from_row(row) for row in ask(statement, most=most, key_id=key_id, since=since)]

    def backups(self) -> Backups:
        """Return what the audit log says about backups. A backup of the store that this one was moved from is none."""
        with self._limited("keys") as ask:
            ((since,),) = ask(_SQL["store_since"])
            made = list(ask(_SQL["backups"].format(place=self.BACKUP_PLACE), since=since or 0))
        lost = None
        for at, name, machine in made:
            is_whole = self._is_whole(name, machine)
            if is_whole is not False:
                return Backups(at, since, lost, is_checked=is_whole is True)
            lost = lost or (at, name)
        return Backups(None, since, lost)

    def _is_whole(self, backup: str, machine: str) -> bool | None:  # noqa: ARG002 - for stores whose backups are files
        """Return whether a backup has all its files, or None if nobody can tell."""
        return None

    def devices(self) -> list[Device]:
        """Return the devices that signed in to the console and the links for others, newest first."""
        with self._limited("keys") as ask:
            found = [json.decode(body, type=Device) for (body,) in ask("SELECT body FROM console_devices")]
        return sorted(found, key=lambda device: (-device.made_at, device.device_id))

    def device(self, token_digest: bytes) -> Device | None:
        """Return the device whose token has this hash."""
        with self._limited("keys") as ask:
            rows = ask("SELECT body FROM console_devices WHERE token_digest = :digest", digest=token_digest)
        return json.decode(rows[0][0], type=Device) if rows else None

    def requests(self, wanted: RequestFilter, limit: int) -> RequestPage:
        """Return a page of up to `limit` request records, newest first."""
        index, condition, implied = _records_to_search(wanted)
        given = {name for name, value in asdict(wanted).items() if value not in (None, False)}
        checks = [_CONDITIONS[name] for name in _CONDITIONS if name in given - implied]
        bounds = [_BOUNDS[name] for name in _BOUNDS if name in given]
        among = f"FROM requests INDEXED BY {index} WHERE " + " AND ".join([condition, *bounds])
        before_at, before_number = wanted.before or (None, None)
        values = asdict(wanted) | {"before_at": before_at, "before_number": before_number}
        last_scanned: RecordPosition | None = None
        with self._limited("usage") as ask:
            if checks:
                ending = f"SELECT at, {{number}} {among} {_NEWEST_FIRST} LIMIT 1 OFFSET {self._scanned - 1}"
                last_scanned = next((tuple(row) for row in ask(ending.format(number=self.NUMBER), **values)), None)
                among = " AND ".join([among, *checks])
            if last_scanned:
                among += f" AND {_FROM_SCANNED}"
                values |= {"last_at": last_scanned[0], "last_number": last_scanned[1]}
            query = (
                f"SELECT {', '.join(RequestRecord.__struct_fields__)}, {{number}} {among} {_NEWEST_FIRST} LIMIT :limit"
            )
            rows = ask(query.format(number=self.NUMBER), **values, limit=limit + 1)
        names = RecordedRequest.__struct_fields__
        found = [RecordedRequest(**dict(zip(names, row, strict=True))) for row in rows[:limit]]
        return RequestPage(found, found[-1].position if len(rows) > limit else last_scanned)

    def days(self, first: date, last: date, key_id: str | None = None) -> list[DayOfKey]:
        """Return daily counts of one key or of all keys, sorted by key and day. Days without requests are left out."""
        span = {"first": as_number(first), "last": as_number(last)}
        with self._limited("usage") as ask:
            counts, errors = self._counts(ask, **span), ask(_SQL["errors_in_days"], **span)
        days = {
            (key, day): DayOfKey(key_id=key, day=date_of(day), requests=count)
            for (key, day), count in counts.items()
            if key_id in (None, key)
        }
        for key, day, error, count in errors:
            if key_id in (None, key):
                known = days.get((key, day)) or DayOfKey(key_id=key, day=date_of(day))
                days[key, day] = _with_errors(known, error, count)
        return [days[place] for place in sorted(days)]

    def _counts(self, ask: Ask, first: int, last: int) -> dict[tuple[str, int], int]:
        """Return the number of admitted requests by key and day. If two statements return one, the later one counts."""
        rows = [row for statement in self.COUNTS for row in ask(statement, first=first, last=last)]
        return {(key_id, day): count for key_id, day, count in rows}

    def hours(self, key_id: str | None, since: int, until: int = NO_END) -> list[HourOfKey]:
        """Return hourly counts of a key or of all keys, oldest first, of whole hours since `since`, until `until`."""
        values = {"key_id": key_id, "since": -(-since // HOUR_MS) * HOUR_MS, "until": until}
        failed = _SQL["hours"].format(**_FAILED_REQUESTS)
        with self._limited("usage") as ask:
            requests = ask(_SQL["hours"].format(**(_REQUESTS_OF_KEY if key_id else _ALL_REQUESTS)), **values)
            errors: dict[int, int] = dict(ask(failed, **values))
        return [HourOfKey(hour * HOUR_MS, count, errors.get(hour, 0)) for hour, count in sorted(requests)]

    def latencies(self, key_id: str | None, since: int, slot_ms: int) -> list[Latency]:
        """Return how long the newest MEASURED_REQUESTS of a key or of all keys took, per hour or day, oldest first."""
        with self._limited("usage") as ask:
            statement = _SQL["latencies"].format(**(_REQUESTS_OF_KEY if key_id else _ALL_REQUESTS))
            rows = ask(statement, key_id=key_id, since=since, slot=slot_ms)
        return [Latency(slot * slot_ms - THAI_OFFSET, *measured) for slot, *measured in rows]

    def errors(self, since: int, key_id: str | None = None) -> list[ErrorGroup]:
        """Return the errors of admitted requests since an instant, most frequent first."""
        with self._limited("usage") as ask:
            found = [ErrorGroup(*row) for row in ask(_SQL["errors"], since=since, key_id=key_id)]
        return sorted(found, key=lambda group: (-group.count, group.error, group.route))

    def last_used(self) -> dict[str, int]:
        """Return when each key was last used, in 400 days. After 90 days only the day is known: its beginning."""
        with self._limited("usage") as ask:
            days, recorded = (
                ask(self.LAST_DAYS),
                ask(_SQL["latest_by_key"].format(index="requests_by_key", part="true")),
            )
        return {key_id: thai_midnight(date_of(day)) for key_id, day in days} | dict(recorded)

    def last_disclosed(self) -> dict[str, int]:
        """Return the time of the latest disclosure to each key that received personal data in the last 90 days."""
        with self._limited("usage") as ask:
            return dict(ask(_SQL["latest_by_key"].format(index="disclosures_by_key", part="personal_base IS NOT NULL")))

    def copies(self) -> dict[str, list[CopyState]]:
        """Return how far each lineage has read each list of changes, sorted by list and shop."""
        found: dict[str, list[CopyState]] = {}
        with self._limited("usage") as ask:
            for owner, list_name, shop_id, *progress in ask(_SQL["copies"]):
                found.setdefault(owner, []).append(copy_state(list_name, shop_id, ReadProgress(*progress)))
        return found

    def quota_use(self, now_ms: int) -> list[float]:
        """Return the used fraction of today's quota for each active key: 1 or more if the quota is used up."""
        today = as_number(thai_day(now_ms))
        with self._limited("usage") as ask:
            counts = self._counts(ask, today, today)
        return [counts.get((key.key_id, today), 0) / key.per_day for key in self.keys() if not key.is_revoked(now_ms)]

    # --- shops and loads ---------------------------------------------------------

    def shop_names(self) -> list[ShopName]:
        """Return the loaded shops, sorted by name and ID."""
        with self._limited("books") as ask:
            found = [json.decode(body, type=ShopName) for (body,) in ask("SELECT body FROM shops WHERE NOT removed")]
        return sorted(found, key=lambda shop: (shop.shop_name or "", shop.shop_id))

    def known_facts(self) -> list[KnownFacts]:
        """Return the facts of all loaded shops."""
        with self._limited("books") as ask:
            return [known_facts(*row) for row in ask("SELECT latest_version, facts FROM shops")]

    def bases(self) -> list[Base]:
        """Return the membership bases."""
        with self._limited("books") as ask:
            return [json.decode(body, type=Base) for (body,) in ask("SELECT body FROM bases ORDER BY id")]

    def shops(self, now_ms: int, *, count_all: bool) -> list[ShopActivity]:
        """Return the shops that are not removed, by franchise and name. `count_all` counts all their bills."""
        with self._opened("books") as ask:
            rows = ask("SELECT number, facts, body FROM shops WHERE NOT removed")
            return in_order(_activity(ask, row, now_ms, count_all=count_all) for row in rows)

    def shop(self, shop_id: str, now_ms: int) -> ShopActivity | None:
        """Return one shop, without counting all its bills, or None if it is not loaded."""
        with self._limited("books") as ask:
            rows = ask("SELECT number, facts, body FROM shops WHERE id = :id AND NOT removed", id=shop_id)
            return _activity(ask, rows[0], now_ms, count_all=False) if rows else None

    def loaded_shops(self) -> list[LoadedShop]:
        """Return the shops that are not removed, sorted by ID."""
        with self._opened("books") as ask:
            return [
                LoadedShop(
                    json.decode(body, type=Shop),
                    json.decode(facts, type=ShopFacts),
                    ask(_SQL["total_bills"], shop=number)[0][0],
                )
                for number, facts, body in ask(_SQL["loaded_shops"])
            ]

    def bill_hours(self, shop_ids: Collection[str]) -> Counter[int]:
        """Return how many of the latest bills of these shops were closed in each hour of their local day."""
        hours = Counter[int]()
        with self._opened("books") as ask:
            for number, facts, body in ask(_SQL["loaded_shops"]):
                if json.decode(body, type=Shop).shop_id in shop_ids:
                    zone = json.decode(facts, type=ShopFacts).zone()
                    closings = ask(_SQL["latest_closings"], shop=number, most=CLOSINGS_READ)
                    hours.update(from_ms(closed_at, zone).hour for (closed_at,) in closings)
        return hours

    def bills(self, first: date, last: date) -> list[BillsOfDay]:
        """Return the number of bills per shop and day, sorted by shop and day. Days without bills are left out."""
        with self._limited("books") as ask:
            rows = ask(_SQL["bills_per_day"], first=as_number(first), last=as_number(last))
        return [BillsOfDay(shop_id, date_of(day), count) for shop_id, day, count in rows]

    def facts(self, shop_id: str) -> KnownFacts | None:
        """Return the facts of a shop, or None if it was not loaded."""
        with self._opened("books") as ask:
            row = next(iter(ask(FACTS, id=shop_id)), None)
        return known_facts(*row) if row else None

    def stored_bills(self, shop_id: str, bill_ids: Sequence[str]) -> dict[str, StoredBill]:
        """Return those of the bills that the store has, by ID."""
        found = []
        with self._opened("books") as ask:
            for start in range(0, len(bill_ids), BILLS_PER_READ):
                asked = bill_values(bill_ids[start : start + BILLS_PER_READ])
                found += ask(_SQL["stored_bills"], shop=shop_id, **asked)
        return {bill_id: StoredBill(*bill) for bill_id, *bill in found}

    def bills_of_days(self, days: Iterable[tuple[str, date]]) -> Iterator[tuple[str, bytes]]:
        """Yield the body of each bill of these shops and calendar days, with its shop."""
        with self._opened("books") as ask:
            for shop_id, day in days:
                yield from ((shop_id, body) for (body,) in ask(_SQL["bills_of_day"], shop=shop_id, day=as_number(day)))

    def loads(self, limit: int) -> list[LoadRow]:
        """Return the latest loads, newest first. The store remembers the last 100 loads."""
        with self._limited("books") as ask:
            return [load_row(row) for row in ask(_SQL["loads"], most=limit)]

    def rejects(self, load: int, limit: int) -> list[RejectedLine]:
        """Return rejected lines of a load in the order of its rejects file. The store remembers the first 1,000."""
        with self._limited("books") as ask:
            rows = ask(_SQL["rejects"], load=load, most=limit)
        return [RejectedLine(row[0], row[1], row[2], json.decode(row[3], type=list[str])) for row in rows]

    # --- the undo of a load ------------------------------------------------------

    def undone_loads(self) -> set[int]:
        with self._limited("books") as ask:
            return {number for (number,) in ask(_SQL["undone_loads"])}

    def shops_changed(self, since: int) -> list[tuple[int, str, str | None]]:
        """Return the number, the ID and the franchise of each shop with changes above a horizon."""
        with self._limited("books") as ask:
            return [
                (number, shop_id, franchise_id)
                for number, shop_id, franchise_id in ask(_SQL["shops_changed"], since=since)
            ]

    def bills_of_load(self, load: int, shop: int, shop_id: str, since: int) -> Iterator[LoadedBill]:
        """Yield the bills of a shop that a load has added or changed, except those changed by two later loads."""
        for name in ("tracked_bills_of_load", "untracked_bills_of_load"):
            at, after = since + 1, ""
            while True:
                with self._opened("books") as ask:
                    values = {"load": load, "undone": -load, "shop": shop, "at": at, "after": after}
                    rows = ask(_SQL[name], **values, most=BILLS_PER_READ)
                for bill_id, *loads_and_body, stamp in rows:
                    at, after = stamp, bill_id
                    yield LoadedBill(shop_id, bill_id, *loads_and_body)
                if len(rows) < BILLS_PER_READ:
                    break

    def removed_by_load(self, load: int, since: int) -> int:
        """Return the number of bills that the records of a load removed, and that do not exist now."""
        removed: dict[int, list[str]] = {}
        existing = 0
        with self._opened("books") as ask:
            for shop, bill_id in ask(_SQL["removed_by_load"], load=load, since=since):
                removed.setdefault(shop, []).append(bill_id)
            for shop, bill_ids in removed.items():
                for start in range(0, len(bill_ids), BILLS_PER_READ):
                    asked = bill_values(bill_ids[start : start + BILLS_PER_READ])
                    existing += len(ask(_SQL["which_bills"], shop=shop, **asked))
        return sum(map(len, removed.values())) - existing

    def lists_read(self, key_id: str, since: int) -> set[str]:
        """Return the shops whose bills a key got from lists since an instant. For a single bill it is "", unknown."""
        with self._limited("usage") as ask:
            rows = ask(_SQL["lists_read"], key_id=key_id, since=since)
        details = [json.decode(detail, type=RequestDetail) for (detail,) in rows]
        return {detail.shop_id for detail in details if detail.rows != 0}

    def open_items(self) -> list[OpenItem]:
        """Return what waits for the operator, oldest first."""
        with self._limited("books") as ask:
            return [item_of(row) for row in ask(_SQL["open_items"])]

    def items_of(self, identities: Iterable[str]) -> list[OpenItem]:
        """Return the items of these kept files, open or closed."""
        with self._limited("books") as ask:
            return [item_of(row) for identity in identities for row in ask(ITEM, identity=identity)]

    def totals(self, load: int) -> TotalsReport | None:
        """Return the control totals of a load, or None if it has not ended or ended with an error."""
        with self._limited("books") as ask:
            rows = ask("SELECT totals FROM loads WHERE number = :load", load=load)
        return json.decode(rows[0][0], type=TotalsReport) if rows and rows[0][0] else None

    def knows(self, scope: Scope) -> bool:
        """Return whether a shop in this scope has been loaded, or False if the store cannot be read."""
        return self._row(_SQL[f"known_{scope.kind}"], id=scope.id) is not None

    def horizon(self) -> int | None:
        """Return the horizon, or None if the store cannot be read."""
        row = self._row("SELECT at FROM horizon")
        return row[0] if row else None

    def latest_load(self) -> LoadRow | None:
        """Return the latest load, or the latest unfinished one if it may still be running or was killed."""
        row = self._row(_LATEST_LOAD, most=1)
        return load_row(row) if row else None

    def intake(self) -> Intake:
        """Return the stored intake, which includes the active alarms."""
        row = self._row("SELECT state FROM intake")
        return json.decode(row[0], type=Intake) if row else Intake()

    def watched_folders(self, now_ms: int) -> list[WatchedFolder]:
        """Return the folders that were watched in the last 30 days, or an empty list if the store cannot be read."""
        found = self._rows(_SQL["watched_folders"], since=now_ms - FORGET_FOLDER_MS)
        return [
            WatchedFolder(name, seen_at, delivered_at, files, quarantined, bool(stopped), problem)
            for name, seen_at, delivered_at, files, quarantined, stopped, problem in found
        ]

    def _row(self, statement: str, **values: object) -> Any | None:
        return next(iter(self._rows(statement, **values)), None)

    def _rows(self, statement: str, **values: object) -> list[Any]:
        """Return the rows of a statement, or an empty list if the store cannot be read."""
        try:
            with self._opened("books") as ask:
                return ask(statement, **values)
        except (StoreUnavailable, StoreMismatch):
            return []

    # --- the store itself ----------------------------------------------------------

    @abstractmethod
    def problems(self) -> dict[str, Message | None]:
        """Return, for each database, the reason why it cannot be used, or None if it can."""

    def survives_primary(self) -> bool:
        """Return whether the store can be read while its primary is down."""
        return False

    def servers(self) -> Sequence[ServerState]:
        """Return the state of each server, or an empty list for a store with only one server."""
        return ()

    @abstractmethod
    def extent(self) -> StoreExtent: ...

    def disk_use(self) -> DiskUse | None:
        """Return the disk usage of an embedded store, even if its files cannot be read, or None for a database."""
        return None

    def permissions(self) -> Permissions | None:
        """Return the permissions of the login, or None for an embedded store, which relies on file modes."""
        return None

    @abstractmethod
    def fingerprint(self) -> str | None:
        """Return the fingerprint of the secret that the store was built with, or None for a new store."""

    def is_built(self) -> bool:
        """Return whether the store was built with a secret, or True if an embedded store cannot be read."""
        return self.fingerprint() is not None

    def store_id(self) -> str | None:
        """Return the ID of an embedded store and its file, or None for a database or a store that cannot be read."""
        return None


def _activity(ask: Ask, row: Row, now_ms: int, *, count_all: bool) -> ShopActivity:
    """Return the activity of the shop in this row, which has its number, its facts and its body."""
    number, facts, body = row

    def bills(figure: BillFigure, **bounds: int) -> int | None:
        return next((found[0] for found in ask(_SQL[f"{figure}_bills"], shop=number, **bounds)), None)

    return activity(facts, body, bills, now_ms, count_all=count_all)


def _with_errors(day: DayOfKey, error: str, count: int) -> DayOfKey:
    if error == RATE_LIMITED.code:
        return replace(day, rate_limited=day.rate_limited + count)
    if error in NOT_ADMITTED:
        return replace(day, refused=day.refused + count)
    over_quota = count if error == QUOTA_EXCEEDED.code else 0
    return replace(day, errors=day.errors + count, over_quota=day.over_quota + over_quota)
