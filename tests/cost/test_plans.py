"""Tests that every statement uses the intended index, and that no statement scans a table that grows."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

import servers
from cost.counting_worker import plan_of, statements_run
from counterfoil import bootstrap, member_reads, operator_reads
from counterfoil.backends.load_book import LoadBook
from counterfoil.backends.postgres import books, change_feed, usage
from counterfoil.backends.postgres.admin_connections import ReconnectingConnection
from counterfoil.backends.sqlite import reads as sqlite_reads
from counterfoil.operator_reads import OperatorReads
from records import NEW_YEAR, Record, base, bill, bills, branch, member, removal
from running_service import RunningService

MESSAGING_USER = "U" + 32 * "7"
# Tables that stay small (`loads` has the last 100), and tables that are read only when a process starts or keys have
# changed.
SMALL = (
    "loads horizon feed intake deployment steady generation positions keys revocations sqlite_master recent_requests "
    "migrations forgotten_members"
)
# Statements that contain one of these texts run for the operator, who requests the whole table.
FOR_THE_OPERATOR = ("max(n)", "personal_base IS NOT NULL")
# The supervisor runs these statements once an hour, and the tables are small: `admissions` holds each key's latest
# admission and those of about the last minute, and `passes` has a row for each list of changes that a lineage reads.
HOURLY = ("DELETE FROM admissions WHERE day <", "DELETE FROM passes WHERE")

# A migration runs once.
ONCE = ("WHERE voids > 0 AND bill_day >=",)

Seen = tuple[str, str]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Seen]]:
    """A store, and the SELECT, UPDATE and DELETE statements that were run to load, change, read and prune it.

    Statements that match FOR_THE_OPERATOR are left out.
    """
    with statements_run() as statements:
        service = RunningService(tmp_path_factory.mktemp("plans"))
        _live(service)
        service.close()
    return Path(service.settings.store), [(database, text) for database, text in statements if _planned(text)]


def _live(service: RunningService) -> None:
    of = branch()
    key = service.key(franchise=of["franchiseId"], personal_data=True, messaging_lookup=True)
    one = service.key(shop=of["id"])
    sold: list[Record] = bills(of, 5)
    who = member(of, messaging=[{"userId": MESSAGING_USER}])
    service.load(of, base(of), who, member(of, rev=1), *sold)
    service.load(of | {"timezone": "Asia/Tokyo"}, sold[0] | {"cashier": "Lek"}, removal(sold[1]), bill(of, rev=3))
    service.tick()
    for holder in (key, one):

        def walk(path: str, query: dict[str, Any], holder: str = holder) -> None:
            assert list(service.pages(path, holder, limit=2, **query))

        service.data("shops", holder)
        service.data("usage", holder)
        service.data(f"transactions/{sold[0]['id']}", holder)
        service.data(f"members/{service.token(who['id'])}", holder)
        walk("transactions", {"shopId": of["id"], **NEW_YEAR})
        walk("transactions", {"shopId": of["id"], "updatedSince": "2020-01-01T00:00:00Z"})
        walk("members", {"providerId": of["providerId"]})
        walk("digests", {"shopId": of["id"], "from": "20200101"})
        walk("changes", {})
        mark = service.get("changes", holder, limit=100).json()["mark"]
        service.load(removal(sold[2]), bill(of, history=True))
        service.tick()
        walk("changes", {"since": mark})
    service.ledger.compute_totals(10)
    service.ledger.prune_removals()
    service.data("members/lookup", key, providerId=of["providerId"], messagingUserId=MESSAGING_USER)
    with closing(bootstrap.store(service.settings, service.clock).usage()) as usage:
        usage.prune()
        usage.prune_cursors()


def _planned(text: str) -> bool:
    verb = text.split(None, 1)[0].upper()
    asked_for_all = any(mark in text for mark in FOR_THE_OPERATOR)
    return verb in ("SELECT", "UPDATE", "DELETE") and not asked_for_all


def test_no_statement_scans_a_growing_table(seen: tuple[Path, list[Seen]]) -> None:
    store, statements = seen
    scans = {
        f"{line}: {' '.join(text.split())}"
        for database, text in statements
        for line in plan_of(store, database, text)
        if (scan := re.match(r"SCAN (\w+)", line))
        and scan[1] not in [*SMALL.split(), "CONSTANT", "base"]  # `base` is the list of bases that a key covers
        and not any(words in text for words in (*HOURLY, *ONCE))
        # These partial indexes contain only the shops and days that are due for recomputation.
        and "shops_to_rewrite" not in line
        and "stale_days" not in line
    }
    assert len(statements) > 100
    assert not scans


# What the operator reads in tables that grow, and the index that SQLite chooses although no statement names it.
INDEX_OF: dict[str, tuple[str, ...]] = {
    "requests_by_time": (OperatorReads._HOURS, OperatorReads._LATENCIES, sqlite_reads._ALL_REQUESTS),
    "requests_by_key": (
        OperatorReads._HOURS_OF_KEY,
        OperatorReads._LATENCIES_OF_KEY,
        OperatorReads._LATEST_REQUESTS,
        OperatorReads._LISTS_READ,
        member_reads._LATEST_READ,
        sqlite_reads._REQUESTS_OF_KEY,
    ),
    "requests_failed": (OperatorReads._FAILED_HOURS, OperatorReads._ERRORS, sqlite_reads._FAILED_REQUESTS),
    "requests_by_id": (sqlite_reads._REQUESTS_WITH_ID,),
    "requests_with_personal_data": (sqlite_reads._DISCLOSURES,),
    "disclosures_by_key": (
        OperatorReads._LATEST_DISCLOSURES,
        member_reads._DISCLOSURES,
        sqlite_reads._DISCLOSURES_TO_KEY,
    ),
    "bills_by_day": (
        OperatorReads._LATEST_CLOSINGS,
        operator_reads.WITHOUT_BUSINESS_DAY,
        operator_reads._BILLS_BETWEEN,
        operator_reads._FIRST_BILL,
        operator_reads._LAST_BILL,
        LoadBook._BILLS_OF_DAY,
    ),
    "bills_by_shop": (operator_reads.TOTAL_BILLS, OperatorReads._STORED_BILLS, LoadBook._OUTDATED_BILLS),
    "bills_by_change": (OperatorReads._TRACKED_BILLS_OF_LOAD,),
    "bills_untracked": (OperatorReads._UNTRACKED_BILLS_OF_LOAD,),
    "removed_bills_by_time": (OperatorReads._REMOVED_BY_LOAD, LoadBook._ALLOW_REMOVED),
    "stale_days": (LoadBook._STALE_DAYS,),
    "members_by_base": (member_reads._MEMBERS_AFTER,),
}


@pytest.mark.parametrize("index", INDEX_OF)
def test_sqlite_chooses_the_intended_index_for_what_the_operator_reads(
    seen: tuple[Path, list[Seen]], index: str
) -> None:
    store, _ = seen
    database = "usage" if index.startswith(("requests", "disclosures")) else "books"
    for statement in INDEX_OF[index]:
        assert any(f"INDEX {index}" in line for line in plan_of(store, database, statement)), statement


def test_no_list_is_sorted_at_request_time(seen: tuple[Path, list[Seen]]) -> None:
    store, statements = seen
    sorting = {
        " ".join(text.split())
        for database, text in statements
        if database == "books"
        and any("TEMP B-TREE" in line for line in plan_of(store, database, text))
        # These two statements sort only a few rows: the member records of one messaging account, and the shops of one
        # franchise that have changed or left.
        and "JOIN accounts" not in text
        and "FROM departures" not in text
    }
    assert not sorting


# --- on a server ---------------------------------------------------------------

GROWING = {"bills", "members", "accounts", "shops", "cursors", "removed_bills", "shop_changes", "day_totals"}


def _constants() -> dict[str, str]:
    """Return the parameterized statements, except inserts, that requests run on PostgreSQL, keyed by name."""
    named = [
        (f"{module.__name__.rpartition('.')[2]}.{name}", value)
        for module in (usage, books, change_feed)
        for name, value in vars(module).items()
    ]
    each = [pair for name, value in named for pair in _each(name, value)]
    return {name: text for name, text in each if isinstance(text, str) and "$1" in text and "INSERT" not in text}


def _each(name: str, value: object) -> list[tuple[str, object]]:
    return [(f"{name}[{key}]", text) for key, text in value.items()] if isinstance(value, dict) else [(name, value)]


@pytest.fixture(scope="module")
def server() -> Iterator[psycopg.Connection[Any]]:
    """A connection to a new database, on which PostgreSQL scans a table only if no index can be used."""
    with closing(ReconnectingConnection(servers.postgres(18).fresh_database()[1])) as connection:
        connection().execute("SET enable_seqscan = off")
        yield connection()


@pytest.mark.parametrize("name", sorted(_constants()))
def test_on_postgresql_no_read_needs_to_scan_a_growing_table(server: psycopg.Connection[Any], name: str) -> None:
    cursor = psycopg.RawCursor(server)
    plan = "\n".join(row[0] for row in cursor.execute(f"EXPLAIN (GENERIC_PLAN) {_constants()[name]}".encode()))
    scanned = {table for table in re.findall(r"Seq Scan on (\w+)", plan) if table in GROWING}
    assert not scanned, plan
