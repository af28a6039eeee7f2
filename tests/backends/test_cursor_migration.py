"""After the migration, cursors issued by an earlier version are no longer found, and their IDs stay reserved."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg

import servers
from counterfoil.backends.postgres.addresses import SCHEMA
from counterfoil.backends.postgres.cursors import PostgresCursors
from counterfoil.backends.postgres.migrate import migrate
from counterfoil.backends.postgres.schema import scripts as server_scripts
from counterfoil.backends.postgres.servers import Servers
from counterfoil.backends.sqlite.cursors import SqliteCursors
from counterfoil.backends.sqlite.files import path_of
from counterfoil.backends.sqlite.schema import scripts
from counterfoil.domain.paging import Listing, Position, StoredCursor
from counterfoil.machine.clock import SystemClock
from counterfoil.ports import Cursors

LISTING = Listing("k_1", "bills sh_1", "changes 0")
OLD = """
    INSERT INTO bookmarks (lineage, listing, cursor, route, major, minor, walk, horizon, kept_at)
    VALUES ('k_1', 'bills sh_1', 'b_1', 'changes 0', 900, 0, 'w_1', 1000, 1000),
        ('k_1', 'bills sh_1', 'b_1', 'changes 0', 900, 0, 'w_2', 1000, 1000),
        ('k_1', 'bills sh_1', 'b_1', 'changes 0', 950, 0, 'w_2', 1000, 1000)
"""


async def old_ids_stay_taken(cursors: Cursors) -> None:
    moved = StoredCursor(Position(2000, 0, "b_1"), 3000, 3000)
    assert await cursors.find(LISTING, "b_1") is None
    assert await cursors.hand_out(LISTING, moved, None) is None
    assert await cursors.hand_out(LISTING, moved, "f_1") == "f_1"
    assert await cursors.find(LISTING, "b_1") is None


def test_a_folder_of_the_previous_version_is_migrated(tmp_path: Path) -> None:
    with closing(sqlite3.connect(path_of(tmp_path, "usage"))) as old:
        old.executescript(scripts("usage")[0][2] + OLD + "; PRAGMA user_version = 1;")
    with closing(SqliteCursors(tmp_path, SystemClock())) as cursors:
        asyncio.run(old_ids_stay_taken(cursors))


def test_a_database_of_the_previous_version_is_migrated() -> None:
    server = servers.postgres(18)
    server.command("CREATE DATABASE of_the_version_before")
    url = server.url("of_the_version_before")
    with psycopg.connect(url) as old:
        old.execute(f"CREATE SCHEMA {SCHEMA}; SET search_path TO {SCHEMA}".encode())
        old.execute(
            "CREATE TABLE migrations (number integer PRIMARY KEY, file text NOT NULL, oldest integer NOT NULL, "
            "at timestamptz NOT NULL DEFAULT now())"
        )
        for number, file, script in server_scripts()[:3]:
            old.execute(script.encode())
            old.execute("INSERT INTO migrations (number, file, oldest) VALUES (%s, %s, %s)", (number, file, number))
        old.execute(OLD)
    assert "0004_cursors.sql" in migrate(url)

    async def check() -> None:
        with closing(PostgresCursors(Servers(url, SystemClock()), SystemClock())) as cursors:
            await old_ids_stay_taken(cursors)

    asyncio.run(check())
