"""Measures how long the operator's searches take in a store with millions of request records.

    PYTHONPATH=tests .venv/bin/python -m bench.request_log --records 10000000 --folder DIR

Fills an embedded store, or with --postgresql a database on a server that this
program starts, and measures each kind of search. Prints one line of JSON. For each
search, it contains the fastest and the median time of ten runs, in milliseconds.
The folder can be deleted afterwards.
"""

import argparse
import json
import random
import sqlite3
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psycopg

import servers
from counterfoil.backends.postgres.addresses import SCHEMA
from counterfoil.backends.postgres.administration import migrate
from counterfoil.backends.postgres.reads import PostgresReads
from counterfoil.backends.sqlite.files import path_of, read_write
from counterfoil.backends.sqlite.reads import SqliteReads
from counterfoil.model.calendar import DAY_MS, thai_day
from counterfoil.operator_reads import OperatorReads
from counterfoil.program.clock import SystemClock
from counterfoil.request_reads import RequestFilter

DAYS = 90
KEYS = 30
RUNS = 10
ROUTES = ("transactions", "transactions/{id}", "changes", "shops", "members", "members/{memberToken}")
ERRORS = ("bad_query", "bad_cursor", "not_found", "shop_not_in_scope")
COLUMNS = "at, key_id, route, status, error, took_us, personal_base, personal_members, request_id"
PLACES = "?, ?, ?, ?, ?, ?, ?, ?, ?"

Row = tuple[object, ...]


class Records:
    """Generated request records over 90 days. A few keys are busy, most keys are quiet, and 1% of requests fail."""

    def __init__(self, count: int, now: int) -> None:
        self.count = count
        self.now = now
        self.first = now - DAYS * DAY_MS
        self.keys = [f"K{number:011}" for number in range(KEYS)]
        self._weights = [0.8**number for number in range(KEYS)]

    def at(self, number: int) -> int:
        return self.first + number * (self.now - self.first) // self.count

    def request_id(self, number: int) -> str:
        return f"{self.at(number):011x}{number:09x}"

    def rows(self) -> Iterator[Row]:
        """Yield one row per request record, with its values in the order of `COLUMNS`."""
        draw = random.Random(1)  # noqa: S311 - not for secrets
        for start in range(0, self.count, 10_000):
            some = min(10_000, self.count - start)
            for number, key in enumerate(draw.choices(self.keys, self._weights, k=some), start):
                chance = draw.random()
                failed, personal = chance < 0.01, chance > 0.98
                route = ROUTES[int(chance * 600) % len(ROUTES)]
                error = ERRORS[number % len(ERRORS)] if failed else None
                took_us = 400 + int(chance * chance * 4_000) + (500_000 if number % 100_000 == 7 else 0)
                base, members = ("mb_1", 5) if personal else (None, 0)
                status, request_id = 400 if failed else 200, self.request_id(number)
                yield self.at(number), key, route, status, error, took_us, base, members, request_id


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def timed(what: str, act: Callable[[], object], results: dict[str, float]) -> None:
    began = time.perf_counter()
    act()
    results[what] = round(time.perf_counter() - began, 1)
    say(f"{what}: {results[what]} s")


# --- an embedded store -----------------------------------------------------------


def fill_folder(folder: Path, records: Records, results: dict[str, float]) -> OperatorReads:
    read_write(folder, "usage").close()
    with closing(sqlite3.connect(path_of(folder, "usage"), isolation_level=None)) as connection:
        connection.executescript("PRAGMA synchronous = OFF; PRAGMA cache_size = -500000")
        connection.execute("BEGIN")
        # Building the indexes after all rows are inserted is faster than updating them for each row.
        indexes = connection.execute(
            "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'requests'"
        ).fetchall()
        for name, _ in indexes:
            connection.execute(f"DROP INDEX {name}")
        timed("fillSec", lambda: _insert(connection, records), results)
        for _, created in indexes:
            connection.execute(created)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return SqliteReads(folder)


def _insert(connection: sqlite3.Connection, records: Records) -> None:
    connection.executemany(f"INSERT INTO requests ({COLUMNS}) VALUES ({PLACES})", records.rows())


# --- a database ------------------------------------------------------------------


def fill_database(records: Records, results: dict[str, float]) -> OperatorReads:
    server = servers.postgres(18)
    server.command("CREATE DATABASE request_log")
    url = server.url("request_log")
    migrate(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"SET search_path TO {SCHEMA}".encode())
        for day in range(DAYS + 1):
            connection.execute("SELECT request_month(%s)", (records.first + day * DAY_MS,))
        timed("fillSec", lambda: _copy(connection, records), results)
        connection.execute("VACUUM (ANALYZE) requests")
    return PostgresReads(url)


def _copy(connection: psycopg.Connection[Row], records: Records) -> None:
    with connection.cursor().copy(f"COPY requests ({COLUMNS}) FROM STDIN".encode()) as copy:
        for row in records.rows():
            copy.write_row(row)


# --- searches --------------------------------------------------------------------


def searches(reads: OperatorReads, records: Records) -> dict[str, Callable[[], object]]:
    busy, quiet, now = records.keys[0], records.keys[-1], records.now
    middle = (records.at(records.count // 2), 2**62)
    today = thai_day(now)

    def found(limit: int = 50, **wanted: object) -> Callable[[], object]:
        return lambda: reads.requests(RequestFilter(**wanted), limit)  # type: ignore[arg-type]

    return {
        "newest": found(),
        "a page in the middle": found(before=middle),
        "busy key": found(key_id=busy),
        "quiet key": found(key_id=quiet),
        "quiet key, a page in the middle": found(key_id=quiet, before=middle),
        "error": found(error="bad_cursor"),
        "error of quiet key": found(error="bad_cursor", key_id=quiet),
        "slow requests": found(slower_than_us=500_000),
        "slow requests of busy key": found(slower_than_us=500_000, key_id=busy),
        "unused route": found(route="usage"),
        "disclosures": found(personal_data=True),
        "disclosures to quiet key": found(personal_data=True, key_id=quiet),
        "500 of a day": found(500, since=middle[0], until=middle[0] + DAY_MS),
        "days": lambda: reads.days(today - timedelta(days=399), today),
        "hours of busy key, 7 days": lambda: reads.hours(busy, now - 7 * DAY_MS),
        "errors, 7 days": lambda: reads.errors(now - 7 * DAY_MS),
        "errors of busy key, 90 days": lambda: reads.errors(now - DAYS * DAY_MS, busy),
        "last used": reads.last_used,
        "last disclosed": reads.last_disclosed,
        "request ID": found(request_id=records.request_id(records.count // 3)),
        "unknown request ID": found(request_id="none"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--records", type=int, default=10_000_000)
    store = parser.add_mutually_exclusive_group(required=True)
    store.add_argument("--folder", type=Path, help="new folder for the embedded store")
    store.add_argument("--postgresql", action="store_true", help="use a new PostgreSQL server")
    asked = parser.parse_args()
    records, results = Records(asked.records, SystemClock().now_ms()), {"records": float(asked.records)}
    reads = fill_database(records, results) if asked.postgresql else fill_folder(asked.folder, records, results)
    searched: dict[str, list[float]] = {}
    for name, search in searches(reads, records).items():
        searched[name] = _times_ms(search)
        say(f"{name}: {searched[name]} ms")
    print(json.dumps(results | {"milliseconds": searched}))


def _times_ms(search: Callable[[], object]) -> list[float]:
    taken = []
    for _ in range(RUNS):
        began = time.perf_counter()
        search()
        taken.append((time.perf_counter() - began) * 1000)
    return [round(min(taken), 1), round(statistics.median(taken), 1)]


if __name__ == "__main__":
    main()
