"""Inspects a store on PostgreSQL, for the supervisor, the console and commands such as `counterfoil doctor`.

With several servers, it inspects the primary or, while there is no primary, the
server with the newest horizon.
"""

import asyncio
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from msgspec import json
from msgspec.structs import astuple
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from counterfoil.backends.postgres.addresses import SCHEMA, Address, addresses
from counterfoil.backends.postgres.admin_connections import Connection, checked_connection, connect, translated
from counterfoil.backends.postgres.deployment import fingerprint_of
from counterfoil.backends.postgres.usage_admin import TOTALS
from counterfoil.domain.access import Key, Scope
from counterfoil.domain.activity import ClosedBetween, ShopActivity, activity, in_order
from counterfoil.domain.calendar import as_number, thai_day
from counterfoil.domain.intake import FORGET_FOLDER_MS, Intake, WatchedFolder
from counterfoil.domain.load_progress import LatestLoad, latest_load
from counterfoil.ports import (
    Permissions,
    ServerRole,
    ServerState,
    StoreExtent,
    StoreMismatch,
    StoreUnavailable,
)

# A server that does not answer within this time counts as unreachable.
ANSWER_SEC = 1.0

_STATE = "SELECT pg_is_in_recovery(), at FROM horizon"
_LATEST_LOAD = "SELECT lines, changed, rejected, finished_at, seen_at FROM loads ORDER BY number DESC LIMIT 1"

_INTAKE = "SELECT state FROM intake"
_WATCHED_FOLDERS = """
    SELECT name, seen_at, delivered_at, files, quarantined, stopped FROM watched_folders
    WHERE seen_at > %s ORDER BY name
"""

_KNOWN = {
    "shop": "SELECT 1 FROM shops WHERE id = %s AND NOT removed",
    "franchise": "SELECT 1 FROM shops WHERE franchise_id = %s AND NOT removed LIMIT 1",
}

_SHOPS = "SELECT number, facts, body FROM shops WHERE NOT removed"
_LAST_BILL = """
    SELECT closed_at FROM bills WHERE shop = %s AND closed_at <= %s ORDER BY bill_day DESC, closed_at DESC LIMIT 1
"""
_ALL_BILLS = "SELECT count(*) FROM bills WHERE shop = %s"
_BILLS_BETWEEN = """
    SELECT count(*) FROM bills WHERE shop = %s AND bill_day BETWEEN %s AND %s AND closed_at > %s AND closed_at <= %s
"""

_EXTENT = """
    SELECT pg_database_size(current_database())::bigint, (SELECT max(number) FROM migrations)::text,
        current_setting('server_version')
"""

_KEYS = "SELECT body FROM keys"

# Returns the login, whether it can serve, load and issue keys (see roles.sql), and whether it owns the schema.
_PERMISSIONS = """
    SELECT current_user,
        has_table_privilege('keys', 'SELECT') AND has_table_privilege('admissions', 'INSERT'),
        has_table_privilege('bills', 'INSERT'),
        has_table_privilege('keys', 'INSERT'),
        pg_has_role(nspowner, 'USAGE')
    FROM pg_namespace WHERE nspname = 'counterfoil'
"""

_key = json.Decoder(Key).decode


class PostgresInspection:
    """Inspects a store on PostgreSQL."""

    def __init__(self, url: str) -> None:
        self._url = url

    def problems(self) -> dict[str, str | None]:
        try:
            with checked_connection(self._address()):
                return {"store": None}
        except (StoreUnavailable, StoreMismatch) as error:
            return {"store": str(error)}

    def survives_primary(self) -> bool:
        return bool(addresses(self._url))

    def servers(self) -> Sequence[ServerState]:
        return _servers(self._url)

    def knows(self, scope: Scope) -> bool:
        return self._row(_KNOWN[scope.kind], scope.id) is not None

    def horizon(self) -> int | None:
        row = self._row("SELECT at FROM horizon")
        return row[0] if row else None

    def latest_load(self, now_ms: int) -> LatestLoad | None:
        row = self._row(_LATEST_LOAD)
        return latest_load(row, now_ms) if row else None

    def intake(self) -> Intake:
        row = self._row(_INTAKE)
        return json.decode(row[0], type=Intake) if row else Intake()

    def watched_folders(self, now_ms: int) -> list[WatchedFolder]:
        try:
            with closing(connect(self._address())) as connection, translated():
                return [
                    WatchedFolder(*row)
                    for row in connection.execute(_WATCHED_FOLDERS, (now_ms - FORGET_FOLDER_MS,)).fetchall()
                ]
        except StoreUnavailable:
            return []

    def shops(self, now_ms: int, *, count_all: bool) -> list[ShopActivity]:
        with checked_connection(self._address()) as connection:
            return in_order(
                activity(facts, body, PostgresShopBills(connection, number), now_ms, count_all=count_all)
                for number, facts, body in connection.execute(_SHOPS).fetchall()
            )

    def extent(self) -> StoreExtent:
        with checked_connection(self._address()) as connection:
            size, schema, software = connection.execute(_EXTENT).fetchone() or (0, "", "")
        return StoreExtent(size, schema, f"PostgreSQL {software.partition(' ')[0]}")

    def disk_use(self) -> None:
        return None

    def quota_use(self, now_ms: int) -> list[float]:
        today = as_number(thai_day(now_ms))
        with checked_connection(self._address()) as connection:
            keys = [_key(body) for (body,) in connection.execute(_KEYS).fetchall()]
            rows = connection.execute(TOTALS, {"first": today, "last": today}).fetchall()
        counts = {key_id: count for key_id, _, count in rows}
        return [counts.get(key.key_id, 0) / key.per_day for key in keys if not key.is_revoked(now_ms)]

    def permissions(self) -> Permissions | None:
        row = self._row(_PERMISSIONS)
        return Permissions(*row) if row else None

    def fingerprint(self) -> str | None:
        with checked_connection(self._address()) as connection:
            return fingerprint_of(connection)

    def is_built(self) -> bool:
        return self.fingerprint() is not None

    def _row(self, query: str, *values: str) -> tuple[Any, ...] | None:
        try:
            with closing(connect(self._address())) as connection, translated():
                return connection.execute(query.encode(), values).fetchone()
        except StoreUnavailable:
            return None

    def _address(self) -> str:
        return readable_address(self._url)


class PostgresShopBills:
    """Counts a shop's bills, in total or in a period, and finds when the last one was closed."""

    def __init__(self, connection: Connection, number: int) -> None:
        self._connection = connection
        self._number = number

    def total(self) -> int:
        return self._value(_ALL_BILLS) or 0

    def last_bill_at(self, now_ms: int) -> int | None:
        return self._value(_LAST_BILL, now_ms)

    def between(self, span: ClosedBetween) -> int:
        return self._value(_BILLS_BETWEEN, *astuple(span)) or 0

    def _value(self, query: str, *values: int) -> int | None:
        row: tuple[int | None] | None = self._connection.execute(query.encode(), (self._number, *values)).fetchone()
        return row[0] if row else None


def _address_of(url: str, address: Address) -> str:
    return make_conninfo(url, host=address.host, port=address.port, target_session_attrs="any")


def readable_address(url: str) -> str:
    """Return the address of the primary or, while there is no primary, of the server that is furthest ahead.

    All servers are queried in parallel. If none of them answers, or if `url` lists
    only one server, return `url` itself.
    """
    answering = [pair for pair in zip(addresses(url), _servers(url), strict=True) if pair[1].horizon]
    if not answering:
        return url
    address, _ = max(answering, key=lambda pair: (pair[1].is_primary, pair[1].horizon))
    return _address_of(url, address)


def _servers(url: str) -> list[ServerState]:
    return asyncio.run(_states(url)) if addresses(url) else []


async def _states(url: str) -> list[ServerState]:
    """Return the current state of each server that the address names."""
    return list(await asyncio.gather(*(_state(url, address) for address in addresses(url))))


async def _state(url: str, address: Address) -> ServerState:
    try:
        with translated():
            async with asyncio.timeout(ANSWER_SEC):
                in_recovery, horizon = await _asked(_address_of(url, address))
    except StoreUnavailable:
        return ServerState(address.name, ServerRole.AWAY)
    return ServerState(address.name, ServerRole.REPLICA if in_recovery else ServerRole.PRIMARY, horizon)


async def _asked(server: str) -> tuple[bool, int]:
    async with await AsyncConnection.connect(server, autocommit=True, options=f"-c search_path={SCHEMA}") as connection:
        found: tuple[bool, int] | None = await (await connection.execute(_STATE)).fetchone()
    if found is None:
        raise StoreUnavailable("PostgreSQL: the store has no horizon")
    return found
