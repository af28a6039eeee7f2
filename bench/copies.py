"""Fill the contestants' tables (peers/tables.sql) in SQLite or PostgreSQL with the data that our store publishes."""

import json as lenient
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from msgspec import json

from bench.world import World
from counterfoil import bootstrap
from counterfoil.domain.members import Base, StoredMember, is_current_account, member_from, published

TABLES = Path(__file__).parent / "peers" / "tables.sql"
TABLE_NAMES = ("shops", "categories", "bills", "members", "accounts")
SCHEMA = "peers"

_BASES = "SELECT body FROM bases"
_SHOPS = "SELECT number, body FROM shops WHERE NOT removed ORDER BY number"
_BILLS = "SELECT bill_day, closed_at, updated_at, body FROM bills ORDER BY shop, updated_at, id"
_MEMBERS = "SELECT created_at, record FROM members ORDER BY provider_id, created_at, token"

Row = dict[str, Any]


def _books(world: World) -> Any:
    """Connect to our store. The same statements work on SQLite and PostgreSQL."""
    if world.database:
        return psycopg.connect(world.database, options="-csearch_path=counterfoil", autocommit=True)
    return sqlite3.connect(f"file:{world.books}?mode=ro", uri=True)


class Published:
    """The data that our store publishes, as rows for the contestants' tables. Lists and objects are JSON strings."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._books = _books(world)
        bases = [json.decode(body, type=Base) for (body,) in self._books.execute(_BASES)]
        self._bases = {base.provider_id: base for base in bases}

    def close(self) -> None:
        self._books.close()

    def rows(self, table: str) -> Iterator[Row]:
        rows: Iterator[Row] = getattr(self, table)()
        return rows

    def shops(self) -> Iterator[Row]:
        for number, body in self._books.execute(_SHOPS):
            shop = _snake(json.decode(body))
            del shop["categories"]
            yield {"place": number, **shop}

    def categories(self) -> Iterator[Row]:
        for _, body in self._books.execute(_SHOPS):
            shop = json.decode(body)
            for place, category in enumerate(shop["categories"]):
                yield {"shop_id": shop["shopId"], "place": place, **_snake(category)}

    def bills(self) -> Iterator[Row]:
        for bill_day, closed, updated, body in self._books.execute(_BILLS):
            yield {"bill_day": bill_day, "closed_ms": closed, "updated_ms": updated, **_snake(json.decode(body))}

    def members(self) -> Iterator[Row]:
        now_ms = time.time_ns() // 1_000_000
        for created, body in self._books.execute(_MEMBERS):
            record = json.decode(body, type=StoredMember)
            member = published(record, self._bases.get(record.provider_id), now_ms, personal_data=False)
            shown = _snake(msgspec.to_builtins(member))
            yield {"provider_id": record.provider_id, "created_ms": created, **shown}

    def accounts(self) -> Iterator[Row]:
        """Yield the accounts that a lookup can find.

        They are read from the source records, because our store has only hashes of user IDs.
        """
        token_of = bootstrap.pseudonyms(self._world.settings).member_token
        with (self._world.source / "members.ndjson").open("rb") as lines:
            for line in lines:
                # Some POS systems write NaN, which only the lenient parser accepts.
                member = member_from(lenient.loads(line), token_of, str)
                for account in member.accounts:
                    if is_current_account(self._bases.get(member.provider_id), account.channel):
                        yield {
                            "provider_id": member.provider_id,
                            "messaging_user_id": account.user,
                            "created_ms": -1 if member.created_at is None else member.created_at,
                            "member_id": member.token,
                        }


def _snake(shown: dict[str, Any]) -> Row:
    """Convert field names to column names, and lists and objects to JSON strings."""
    return {
        "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name): (
            json.encode(value).decode() if isinstance(value, list | dict) else value
        )
        for name, value in shown.items()
    }


def fill_sqlite(world: World) -> None:
    if world.peers.exists():
        return
    draft = world.peers.with_suffix(".partial")
    draft.unlink(missing_ok=True)
    with closing(Published(world)) as source, closing(sqlite3.connect(draft)) as target:
        target.execute("PRAGMA journal_mode = WAL")
        target.executescript(TABLES.read_text("utf-8"))
        for table in TABLE_NAMES:
            for row in source.rows(table):
                target.execute(_insert(table, row), row)
        target.commit()
        target.execute("ANALYZE")
        target.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    draft.rename(world.peers)


def _insert(table: str, row: Row) -> str:
    return f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join(f':{name}' for name in row)})"


def fill_postgres(world: World) -> None:
    """Fill the contestants' tables in a separate schema of our store's database."""
    with closing(Published(world)) as source, psycopg.connect(world.database, autocommit=True) as target:
        target.execute(f"CREATE SCHEMA {SCHEMA}".encode())
        target.execute(f"SET search_path TO {SCHEMA}".encode())
        target.execute(TABLES.read_bytes())
        for table in TABLE_NAMES:
            _copy(target, table, source.rows(table))
        target.execute(b"VACUUM ANALYZE")


def _copy(target: psycopg.Connection[Any], table: str, rows: Iterator[Row]) -> None:
    first = next(rows)
    with target.cursor().copy(f"COPY {table} ({', '.join(first)}) FROM STDIN".encode()) as copy:
        copy.write_row(tuple(first.values()))
        for row in rows:
            copy.write_row(tuple(row.values()))
