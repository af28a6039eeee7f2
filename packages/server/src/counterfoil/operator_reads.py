"""What the operator's pages and commands read from a store: the port, and the statements that every back end shares.

All times are milliseconds since 1970 UTC. Days are in Thailand time, except for the days of bills, which are in the
shop's time zone. No result contains a secret, the data of a member, the text of a rejected line, or a query string.
Every method opens its own transaction, changes nothing, and may raise `StoreUnavailable`, or `QueryTooSlow` after its
time limit.

The statements are for SQLite and PostgreSQL. Their parameters are written as SQLite names them, `:name`. What one back
end must say in its own words is a whole statement of its own, which its class has.
"""

import hashlib
from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import date
from typing import Any, ClassVar

from msgspec import Struct, json

from counterfoil.business_reads import Ask, BusinessReads, Part
from counterfoil.domain.access import Key, Scope, oldest_first
from counterfoil.domain.activity import BillFigure, ShopActivity, activity, in_order
from counterfoil.domain.audit import AuditEntry, Backups, from_row
from counterfoil.domain.batch import known_facts
from counterfoil.domain.changes import KnownFacts
from counterfoil.domain.devices import Device
from counterfoil.domain.intake import Intake
from counterfoil.domain.loads import FORGET_FOLDER_MS, LoadRow, RejectedLine, WatchedFolder, load_row
from counterfoil.domain.members import Base
from counterfoil.domain.open_items import OpenItem, item_of
from counterfoil.domain.replacements import StoredBill
from counterfoil.domain.shops import ShopFacts, with_base
from counterfoil.domain.undo import LoadedBill
from counterfoil.member_reads import MemberReads
from counterfoil.model.calendar import as_number, date_of, from_ms, thai_day
from counterfoil.model.control_totals import TotalsReport
from counterfoil.model.messages import Message
from counterfoil.model.resources import Shop
from counterfoil.ports import DiskUse, Permissions, ServerState, StoreExtent, StoreMismatch, StoreUnavailable
from counterfoil.request_reads import SCANNED_REQUESTS, RequestReads, Row

# Time limit in seconds: on SQLite for all queries of a call together, on PostgreSQL for each query.
QUERY_SEC = 5.0
# The hours in which a shop sells are those of at most this many bills, the latest ones.
CLOSINGS_READ = 2_000
# The number of bills that one query reads.
BILLS_PER_READ = 200


class QueryTooSlow(StoreUnavailable):
    """A query took longer than its time limit, so it was stopped."""


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


# --- statements that others run, too -------------------------------------------------

FACTS = "SELECT latest_version, facts FROM shops WHERE id = :id"
ITEM = """
    SELECT identity, kind, files, load, path, machine, reason, digest, decision, number, opened_at, closed_at, closed_by
    FROM open_items WHERE identity = :identity
"""
# The places for the IDs of up to BILLS_PER_READ bills.
BILL_IDS = ", ".join(f":bill_{number}" for number in range(BILLS_PER_READ))


def bill_values(bill_ids: Sequence[str]) -> dict[str, str]:
    """Return the parameters of `BILL_IDS` for up to BILLS_PER_READ bills. The first one fills the other places."""
    filled = [*bill_ids, *[bill_ids[0]] * (BILLS_PER_READ - len(bill_ids))]
    return {f"bill_{number}": bill_id for number, bill_id in enumerate(filled)}


# --- the port ----------------------------------------------------------------------


class OperatorReads(BusinessReads, MemberReads, RequestReads):
    """Everything that commands, the console and the admin listener read. Each call uses its own connection.

    A back end opens connections, and has those statements that differ.
    """

    # Return the columns of an audit entry, in the order of `audit.from_row`.
    LATEST_ENTRIES: ClassVar[str]
    # Return the time, the folder and the machine of each backup, latest first.
    BACKUPS: ClassVar[str]

    def __init__(self, query_sec: float = QUERY_SEC, scanned: int = SCANNED_REQUESTS) -> None:
        super().__init__(scanned)
        self._query_sec = query_sec

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
        with self._limited("keys") as ask:
            return [from_row(row) for row in ask(self.LATEST_ENTRIES, most=most, key_id=key_id, since=since)]

    _STORE_SINCE = """
        SELECT coalesce(max(CASE WHEN act IN ('store_created', 'store_moved') THEN at END), min(at)) FROM audit
    """

    def backups(self) -> Backups:
        """Return what the audit log says about backups. A backup of the store that this one was moved from is none."""
        with self._limited("keys") as ask:
            ((since,),) = ask(self._STORE_SINCE)
            made = list(ask(self.BACKUPS, since=since or 0))
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

    def quota_use(self, now_ms: int) -> list[float]:
        """Return the used fraction of today's quota for each active key: 1 or more if the quota is used up."""
        today = as_number(thai_day(now_ms))
        with self._limited("usage") as ask:
            counts = self._counts(ask, today, today)
        active = [key for key in self.keys() if not key.is_revoked(now_ms)]
        return [counts.get((key.key_id, today), 0) / key.per_day for key in active]

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

    _LOADED_SHOPS = "SELECT number, facts, body FROM shops WHERE NOT removed ORDER BY id"

    def loaded_shops(self) -> list[LoadedShop]:
        """Return the shops that are not removed, sorted by ID."""
        loaded = []
        with self._opened("books") as ask:
            for number, facts, body in ask(self._LOADED_SHOPS):
                ((bills,),) = ask(TOTAL_BILLS, shop=number)
                shop = json.decode(body, type=Shop)
                known = with_base(json.decode(facts, type=ShopFacts), shop.provider_id)
                loaded.append(LoadedShop(shop, known, bills))
        return loaded

    _LATEST_CLOSINGS = """
        SELECT closed_at FROM bills WHERE shop = :shop AND closed_at IS NOT NULL
        ORDER BY bill_day DESC, closed_at DESC LIMIT :most
    """

    def bill_hours(self, shop_ids: Collection[str]) -> Counter[int]:
        """Return how many of the latest bills of these shops were closed in each hour of their local day."""
        hours = Counter[int]()
        with self._opened("books") as ask:
            for number, facts, body in ask(self._LOADED_SHOPS):
                if json.decode(body, type=Shop).shop_id in shop_ids:
                    zone = json.decode(facts, type=ShopFacts).zone()
                    closings = ask(self._LATEST_CLOSINGS, shop=number, most=CLOSINGS_READ)
                    hours.update(from_ms(closed_at, zone).hour for (closed_at,) in closings)
        return hours

    # Bills of a stale day are counted directly, because the stored total is out of date.
    _BILLS_PER_DAY = """
        SELECT * FROM (
            SELECT id, bill_day, CASE WHEN stale = 0 THEN day_totals.bills ELSE
                (SELECT count(*) FROM bills WHERE bills.shop = day_totals.shop AND bills.bill_day = day_totals.bill_day)
            END AS counted
            FROM shops JOIN day_totals ON shop = number
            WHERE bill_day BETWEEN :first AND :last
        ) AS days WHERE counted > 0 ORDER BY id, bill_day
    """

    def bills(self, first: date, last: date) -> list[BillsOfDay]:
        """Return the number of bills per shop and day, sorted by shop and day. Days without bills are left out."""
        with self._limited("books") as ask:
            rows = ask(self._BILLS_PER_DAY, first=as_number(first), last=as_number(last))
        return [BillsOfDay(shop_id, date_of(day), count) for shop_id, day, count in rows]

    def facts(self, shop_id: str) -> KnownFacts | None:
        """Return the facts of a shop, or None if it was not loaded."""
        with self._opened("books") as ask:
            row = next(iter(ask(FACTS, id=shop_id)), None)
        return known_facts(*row) if row else None

    _STORED_BILLS = f"""
        SELECT bills.id, bills.rev, bills.digest, bills.load, bills.body
        FROM shops JOIN bills ON bills.shop = shops.number
        WHERE shops.id = :shop AND bills.id IN ({BILL_IDS})
    """  # noqa: S608 - contains only places

    def stored_bills(self, shop_id: str, bill_ids: Sequence[str]) -> dict[str, StoredBill]:
        """Return those of the bills that the store has, by ID."""
        found = self.stored_bills_of_shops({shop_id: bill_ids})
        return {bill_id: bill for (_, bill_id), bill in found.items()}

    def stored_bills_of_shops(self, bill_ids: Mapping[str, Sequence[str]]) -> dict[tuple[str, str], StoredBill]:
        """Return those of the bills of these shops that the store has, by shop and ID."""
        found: dict[tuple[str, str], StoredBill] = {}
        with self._opened("books") as ask:
            for shop_id, wanted in bill_ids.items():
                for start in range(0, len(wanted), BILLS_PER_READ):
                    asked = bill_values(wanted[start : start + BILLS_PER_READ])
                    for bill_id, *bill in ask(self._STORED_BILLS, shop=shop_id, **asked):
                        found[shop_id, bill_id] = StoredBill(*bill)
        return found

    _BILLS_OF_SHOP_AND_DAY = """
        SELECT bills.body FROM shops JOIN bills ON bills.shop = shops.number
        WHERE shops.id = :shop AND bills.bill_day = :day
    """

    def bills_of_days(self, days: Iterable[tuple[str, date]]) -> Iterator[tuple[str, bytes]]:
        """Yield the body of each bill of these shops and calendar days, with its shop."""
        with self._opened("books") as ask:
            for shop_id, day in days:
                for (body,) in ask(self._BILLS_OF_SHOP_AND_DAY, shop=shop_id, day=as_number(day)):
                    yield shop_id, body

    _LOADS = """
        SELECT number, source, started_at, seen_at, finished_at, lines, changed, rejected, reasons, rejects_file,
            files, alarms,
            EXISTS (SELECT 1 FROM open_items WHERE load = loads.number AND closed_by = 'accepted') AS is_accepted,
            horizon, undone_at
        FROM loads ORDER BY number DESC LIMIT :most
    """

    def loads(self, limit: int) -> list[LoadRow]:
        """Return the latest loads, newest first. The store remembers the last 100 loads."""
        with self._limited("books") as ask:
            return [load_row(row) for row in ask(self._LOADS, most=limit)]

    _REJECTS = "SELECT source, line, reason, fields FROM rejected_lines WHERE load = :load ORDER BY place LIMIT :most"

    def rejects(self, load: int, limit: int) -> list[RejectedLine]:
        """Return rejected lines of a load in the order of its rejects file. The store remembers the first 1,000."""
        with self._limited("books") as ask:
            rows = ask(self._REJECTS, load=load, most=limit)
        lines = []
        for source, line, reason, fields in rows:
            lines.append(RejectedLine(source, line, reason, json.decode(fields, type=list[str])))
        return lines

    # --- the undo of a load ------------------------------------------------------

    def undone_loads(self) -> set[int]:
        with self._limited("books") as ask:
            return {number for (number,) in ask("SELECT number FROM loads WHERE undone_at IS NOT NULL")}

    _SHOPS_CHANGED = """
        SELECT number, id, shops.franchise_id FROM shop_changes JOIN shops ON number = shop
        WHERE latest_at > :since ORDER BY number
    """

    def shops_changed(self, since: int) -> list[tuple[int, str, str | None]]:
        """Return the number, the ID and the franchise of each shop with changes above a horizon."""
        with self._limited("books") as ask:
            rows = ask(self._SHOPS_CHANGED, since=since)
        return [(number, shop_id, franchise_id) for number, shop_id, franchise_id in rows]

    # All bills of a load have a stamp above the horizon at which it began.
    _TRACKED_BILLS_OF_LOAD = """
        SELECT id, load, load_before, confirmed_by, body, updated_at FROM bills
        WHERE shop = :shop AND updated_at >= :at AND (updated_at, id) > (:at, :after)
            AND (load IN (:load, :undone) OR load_before = :load)
        ORDER BY updated_at, id LIMIT :most
    """
    _UNTRACKED_BILLS_OF_LOAD = """
        SELECT id, load, load_before, confirmed_by, body, loaded_at FROM bills
        WHERE shop = :shop AND updated_at IS NULL AND loaded_at >= :at AND (loaded_at, id) > (:at, :after)
            AND (load IN (:load, :undone) OR load_before = :load)
        ORDER BY loaded_at, id LIMIT :most
    """

    def bills_of_load(self, load: int, shop: int, shop_id: str, since: int) -> Iterator[LoadedBill]:
        """Yield the bills of a shop that a load has added or changed, except those changed by two later loads."""
        for statement in (self._TRACKED_BILLS_OF_LOAD, self._UNTRACKED_BILLS_OF_LOAD):
            at, after = since + 1, ""
            while True:
                with self._opened("books") as ask:
                    values = {"load": load, "undone": -load, "shop": shop, "at": at, "after": after}
                    rows = ask(statement, **values, most=BILLS_PER_READ)
                for bill_id, *loads_and_body, stamp in rows:
                    at, after = stamp, bill_id
                    yield LoadedBill(shop_id, bill_id, *loads_and_body)
                if len(rows) < BILLS_PER_READ:
                    break

    _REMOVED_BY_LOAD = "SELECT shop, id FROM removed_bills WHERE removed_at > :since AND load = :load"
    _EXISTING_BILLS = f"SELECT id FROM bills WHERE shop = :shop AND id IN ({BILL_IDS})"  # noqa: S608 - only places

    def removed_by_load(self, load: int, since: int) -> int:
        """Return the number of bills that the records of a load removed, and that do not exist now."""
        removed: dict[int, list[str]] = {}
        existing = 0
        with self._opened("books") as ask:
            for shop, bill_id in ask(self._REMOVED_BY_LOAD, load=load, since=since):
                removed.setdefault(shop, []).append(bill_id)
            for shop, bill_ids in removed.items():
                for start in range(0, len(bill_ids), BILLS_PER_READ):
                    asked = bill_values(bill_ids[start : start + BILLS_PER_READ])
                    existing += len(ask(self._EXISTING_BILLS, shop=shop, **asked))
        return sum(map(len, removed.values())) - existing

    _OPEN_ITEMS = """
        SELECT identity, kind, files, load, path, machine, reason, digest, decision, number, opened_at, closed_at,
            closed_by
        FROM open_items WHERE closed_at IS NULL ORDER BY number
    """

    def open_items(self) -> list[OpenItem]:
        """Return what waits for the operator, oldest first."""
        with self._limited("books") as ask:
            return [item_of(row) for row in ask(self._OPEN_ITEMS)]

    def items_of(self, identities: Iterable[str]) -> list[OpenItem]:
        """Return the items of these kept files, open or closed."""
        with self._limited("books") as ask:
            rows = [ask(ITEM, identity=identity) for identity in identities]
        return [item_of(found[0]) for found in rows if found]

    def totals(self, load: int) -> TotalsReport | None:
        """Return the control totals of a load, or None if it has not ended or ended with an error."""
        with self._limited("books") as ask:
            rows = ask("SELECT totals FROM loads WHERE number = :load", load=load)
        return json.decode(rows[0][0], type=TotalsReport) if rows and rows[0][0] else None

    _KNOWN_SHOP = "SELECT 1 FROM shops WHERE id = :id AND NOT removed"
    _KNOWN_FRANCHISE = "SELECT 1 FROM shops WHERE franchise_id = :id AND NOT removed LIMIT 1"

    def knows(self, scope: Scope) -> bool:
        """Return whether a shop in this scope has been loaded, or False if the store cannot be read."""
        statement = self._KNOWN_SHOP if scope.kind == "shop" else self._KNOWN_FRANCHISE
        return self._row(statement, id=scope.id) is not None

    def horizon(self) -> int | None:
        """Return the horizon, or None if the store cannot be read."""
        row = self._row("SELECT at FROM horizon")
        return row[0] if row else None

    # A load that has not finished comes first, unless its source was loaded again or there is an item about it.
    _LATEST_LOAD = """
        SELECT number, source, started_at, seen_at, finished_at, lines, changed, rejected, reasons, rejects_file,
            files, alarms,
            EXISTS (SELECT 1 FROM open_items WHERE load = loads.number AND closed_by = 'accepted') AS is_accepted,
            horizon, undone_at
        FROM loads
        ORDER BY (
            finished_at IS NULL
            AND NOT EXISTS (
                SELECT 1 FROM loads AS later WHERE later.number > loads.number AND later.source = loads.source
            )
            AND NOT EXISTS (
                SELECT 1 FROM open_items
                WHERE load = loads.number AND kind IN ('quarantined', 'needs_answers', 'unfinished')
            )
        ) DESC, number DESC LIMIT 1
    """

    def latest_load(self) -> LoadRow | None:
        """Return the latest load, or the latest unfinished one if it may still be running or was killed."""
        row = self._row(self._LATEST_LOAD)
        return load_row(row) if row else None

    # A load changes its own row with each batch, and an undo changes it, too.
    _COMPARED = (
        "SELECT number, seen_at, finished_at, lines, changed, undone_at FROM loads ORDER BY number",
        "SELECT state FROM intake",
        "SELECT id, latest_version, facts, removed FROM shops ORDER BY id",
        "SELECT max(latest_at) FROM shop_changes",
    )

    def compared_state(self) -> str:
        """Return a digest that changes with anything with which a delivery is compared: bills, shops and loads."""
        state = hashlib.sha256()
        with self._opened("books") as ask:
            for statement in self._COMPARED:
                rows = [list(row) for row in ask(statement)]
                state.update(json.encode(rows))
        return state.hexdigest()

    def intake(self) -> Intake:
        """Return the stored intake, which includes the active alarms."""
        row = self._row("SELECT state FROM intake")
        return json.decode(row[0], type=Intake) if row else Intake()

    _WATCHED_FOLDERS = """
        SELECT name, seen_at, delivered_at, files, quarantined, stopped, problem FROM watched_folders
        WHERE seen_at > :since ORDER BY name
    """

    def watched_folders(self, now_ms: int) -> list[WatchedFolder]:
        """Return the folders that were watched in the last 30 days, or an empty list if the store cannot be read."""
        found = self._rows(self._WATCHED_FOLDERS, since=now_ms - FORGET_FOLDER_MS)
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


# --- the bills of a shop, for its activity ---------------------------------------------

TOTAL_BILLS = "SELECT count(*) FROM bills WHERE shop = :shop"
# In the order of their days, because the bills of a day are close together in the store.
WITHOUT_BUSINESS_DAY = """
    SELECT count(*) FROM (
        SELECT 1 FROM bills WHERE shop = :shop AND trading_day IS NULL ORDER BY bill_day LIMIT :most
    ) AS found
"""
_BILLS_BETWEEN = """
    SELECT count(*) FROM bills
    WHERE shop = :shop AND bill_day BETWEEN :first_day AND :last_day AND closed_at > :after AND closed_at <= :until
"""
_FIRST_BILL = """
    SELECT closed_at FROM bills
    WHERE shop = :shop AND bill_day >= :first_day AND closed_at > :after ORDER BY bill_day, closed_at LIMIT 1
"""
_LAST_BILL = """
    SELECT closed_at FROM bills
    WHERE shop = :shop AND closed_at <= :until ORDER BY bill_day DESC, closed_at DESC LIMIT 1
"""
# The load of a bill that was undone is negative. Bills that an early version loaded have none.
_LOAD_OF_LAST_BILL = """
    SELECT coalesce(abs(load), 0) FROM bills
    WHERE shop = :shop AND bill_day BETWEEN :first_day AND :last_day AND closed_at > :after AND closed_at <= :until
    ORDER BY bill_day DESC, closed_at DESC LIMIT 1
"""
_LOAD_BEGAN = "SELECT started_at FROM loads WHERE number = :load"
_FIGURES: Mapping[BillFigure, str] = {
    "total": TOTAL_BILLS,
    "without_business_day": WITHOUT_BUSINESS_DAY,
    "between": _BILLS_BETWEEN,
    "first": _FIRST_BILL,
    "last": _LAST_BILL,
    "load": _LOAD_OF_LAST_BILL,
    "load_began": _LOAD_BEGAN,
}


def _activity(ask: Ask, row: Row, now_ms: int, *, count_all: bool) -> ShopActivity:
    """Return the activity of the shop in this row, which has its number, its facts and its body."""
    number, facts, body = row

    def bills(figure: BillFigure, **bounds: int) -> int | None:
        return next((found[0] for found in ask(_FIGURES[figure], shop=number, **bounds)), None)

    return activity(facts, body, bills, now_ms, count_all=count_all)
