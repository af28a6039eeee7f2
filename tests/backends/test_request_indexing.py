"""Request records written by an earlier version are indexed after an upgrade, and can then be found by key."""

import sqlite3
from contextlib import closing
from datetime import date
from pathlib import Path

import psycopg
import pytest

import servers
from counterfoil.backends.postgres.addresses import SCHEMA
from counterfoil.backends.postgres.migrate import migrate
from counterfoil.backends.postgres.operator_reads import PostgresOperatorReads
from counterfoil.backends.postgres.schema import scripts as server_scripts
from counterfoil.backends.sqlite.files import path_of
from counterfoil.backends.sqlite.operator_reads import SqliteOperatorReads
from counterfoil.backends.sqlite.request_records import INDEXED_ROWS
from counterfoil.backends.sqlite.schema import scripts
from counterfoil.backends.sqlite.usage import SqliteUsage
from counterfoil.machine.clock import SystemClock
from counterfoil.operator_reads import OperatorReads, RequestFilter

# The first record is from 07:00 on 1 January 2026 in Thailand.
FIRST_AT = 1_767_225_600_000
COUNT = 5 * INDEXED_ROWS // 2
OLD = "INSERT INTO requests (at, key_id, route, status, error, took_us, personal_base, personal_members) VALUES "
RECORDS = [
    (
        FIRST_AT + n,
        f"k_{n % 2}",
        "members",
        400 if n % 5 == 0 else 200,
        "bad_cursor" if n % 5 == 0 else None,
        1,
        None,
        0,
    )
    for n in range(COUNT)
]
# Simulates an interrupted index build, which leaves behind an incomplete index with the name that the build uses.
LEFTOVER = "CREATE INDEX requests_202601_by_key ON counterfoil.requests_202601 (at)"


def of_key(reads: OperatorReads) -> list[int]:
    return [one.at - FIRST_AT for one in reads.requests(RequestFilter(key_id="k_1"), 10_000).requests]


def check_other_searches(reads: OperatorReads) -> None:
    everything = reads.requests(RequestFilter(), 10_000).requests
    assert [one.at - FIRST_AT for one in everything] == list(reversed(range(COUNT)))
    assert {one.request_id for one in everything} == {None}
    assert [(one.error, one.count) for one in reads.errors(0)] == [("bad_cursor", COUNT // 5)]
    assert sum(day.errors for day in reads.days(date(2026, 1, 1), date(2026, 1, 1))) == COUNT // 5


@pytest.fixture
def upgraded(tmp_path: Path) -> SqliteUsage:
    with closing(sqlite3.connect(path_of(tmp_path, "usage"))) as old:
        for _, _, script in scripts("usage")[:3]:
            old.executescript(script)
        old.executemany(OLD + "(?, ?, ?, ?, ?, ?, ?, ?)", RECORDS)
        old.execute("PRAGMA user_version = 3")
        old.commit()
    return SqliteUsage(tmp_path, SystemClock())


def test_a_folder_indexes_the_newest_records_first(
    upgraded: SqliteUsage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = SqliteOperatorReads(tmp_path)
    check_other_searches(reads)
    assert of_key(reads) == []
    monkeypatch.setattr("counterfoil.backends.sqlite.request_records.INDEXING_SEC", 0.001)
    monkeypatch.setattr("counterfoil.backends.sqlite.request_records.PAUSE_SEC", 0.01)
    indexed = []
    while upgraded.index_requests():
        indexed.append(of_key(reads))
    expected = [n for n in reversed(range(COUNT)) if n % 2]
    assert indexed[0] == expected[: INDEXED_ROWS // 2]
    assert indexed[-1] == expected
    assert not upgraded.index_requests()
    check_other_searches(reads)
    upgraded.close()


def test_records_that_expire_meanwhile_do_not_disturb_the_indexing(upgraded: SqliteUsage, tmp_path: Path) -> None:
    upgraded.prune()
    while upgraded.index_requests():
        pass
    assert of_key(SqliteOperatorReads(tmp_path)) == []
    upgraded.close()


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_database_indexes_existing_months_after_the_migration(interrupted: bool) -> None:
    server, name = servers.postgres(18), f"with_months_{interrupted}".lower()
    server.command(f"CREATE DATABASE {name}")
    url = server.url(name)
    with psycopg.connect(url) as old:
        old.execute(f"CREATE SCHEMA {SCHEMA}; SET search_path TO {SCHEMA}".encode())
        old.execute(
            "CREATE TABLE migrations (number integer PRIMARY KEY, file text NOT NULL, oldest integer NOT NULL, "
            "at timestamptz NOT NULL DEFAULT now())"
        )
        for number, file, script in server_scripts()[:8]:
            old.execute(script.encode())
            old.execute("INSERT INTO migrations (number, file, oldest) VALUES (%s, %s, %s)", (number, file, number))
        old.execute("SELECT request_month(%s)", (FIRST_AT,))
        old.cursor().executemany(OLD + "(%s, %s, %s, %s, %s, %s, %s, %s)", RECORDS)
    if interrupted:
        server.command(LEFTOVER, name)
    assert migrate(url) == ["0009_operator_reads.sql", "0010_read_ranges.sql"]
    with psycopg.connect(url) as connection:
        valid = connection.execute(
            "SELECT bool_and(indisvalid) FROM pg_index WHERE indrelid IN "
            "('counterfoil.requests'::regclass, 'counterfoil.requests_202601'::regclass)"
        ).fetchone()
    assert valid == (True,)
    reads = PostgresOperatorReads(url)
    assert of_key(reads) == [n for n in reversed(range(COUNT)) if n % 2]
    check_other_searches(reads)
    assert migrate(url) == []
