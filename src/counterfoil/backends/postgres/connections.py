"""Connections: pools and time limits, migrations, and the only place that translates the drivers' errors.

The serving side has a pool of asyncpg connections to each server; loaders and
the operator have one psycopg connection to the server that can be written. Both
find the tables in the schema `counterfoil`, and every wait has a time limit.
"""

import asyncio
import logging
import os
import re
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from importlib import resources
from typing import Any, LiteralString

import asyncpg
import psycopg
from msgspec import Struct
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from counterfoil.ports import StoreBusy, StoreMismatch, StoreUnavailable, StoreUnreachable

SCHEMA = "counterfoil"
PORT = "5432"
CONNECT_SEC = 3.0
# Connections per worker and server. A request waits up to QUEUE_SEC for one, behind at most QUEUE_LENGTH others.
CONNECTIONS = 8
QUEUE_SEC = 2.0
QUEUE_LENGTH = 512
# The server cancels a statement of the serving side after this long.
STATEMENT_SEC = 5.0
# If there is no answer after the server's own time limit, the network has lost it.
COMMAND_SEC = STATEMENT_SEC + 1.0
# A request learns within this time that keys or counts are unreachable.
GATE_SEC = 1.5
IDLE_SEC = 300.0
# A loader waits up to LOCK_SEC for the write lock, and notices a broken network within SILENCE_MS.
LOCK_SEC = 60.0
SILENCE_MS = 15_000

_SETTINGS = {
    "search_path": SCHEMA,
    "application_name": "counterfoil",
    "timezone": "UTC",
    "jit": "off",
    "idle_in_transaction_session_timeout": "60s",
}
_SERVING = _SETTINGS | {"statement_timeout": f"{STATEMENT_SEC:.0f}s", "plan_cache_mode": "force_generic_plan"}
# Every join of the loader starts from a few rows, so a plan that reads a whole table is never wanted.
_LOADING = _SETTINGS | {"lock_timeout": f"{LOCK_SEC:.0f}s", "enable_hashjoin": "off", "enable_mergejoin": "off"}

# Citus finds the shard of a statement only if its plan knows the values.
_PLAN_FOR_CITUS = "SELECT set_config('plan_cache_mode', 'auto', false) FROM pg_extension WHERE extname = 'citus'"

_VERSION = "SELECT number, oldest FROM migrations ORDER BY number DESC LIMIT 1"
_LEDGER_THERE = "SELECT to_regclass('counterfoil.migrations') IS NOT NULL"

# Driver errors that say nothing about the request: the server is unreachable, starting or full.
_AWAY = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    # The server has become a replica, or is a replica that cancelled the statement in order to apply its log.
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.SerializationError,
)
_FAILED = (asyncpg.PostgresError, psycopg.Error)

# psycopg also logs the errors that it raises.
logging.getLogger("psycopg").setLevel(logging.CRITICAL)


@contextmanager
def translated() -> Iterator[None]:
    """Translate the drivers' errors to the port's, with the server's first line only: the rest may contain data."""
    try:
        yield
    except (*_AWAY, *_FAILED) as error:
        kind = StoreUnreachable if _is_away(error) else StoreUnavailable
        raise kind(f"PostgreSQL: {_first_line(error)}") from error


def _is_away(error: BaseException) -> bool:
    if isinstance(error, psycopg.OperationalError):
        # Without an SQLSTATE from the server, the connection itself has failed.
        return error.sqlstate is None or error.sqlstate.startswith(("08", "57P0", "53300", "25006"))
    return isinstance(error, _AWAY)


def _first_line(error: Exception) -> str:
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        return error.diag.message_primary
    return (str(error).partition("\n")[0] or type(error).__name__).strip()


def is_storable(text: str) -> bool:
    """Return whether PostgreSQL can store this text: it cannot store NUL or unpaired surrogates."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text))


# --- serving -----------------------------------------------------------------


class Address(Struct, frozen=True):
    """One of the servers that the setting names."""

    host: str
    port: str

    @property
    def name(self) -> str:
        return f"{self.host}:{self.port}"


def addresses(url: str) -> list[Address]:
    """Return the servers of an address that names several; an empty list for any other address."""
    with translated():
        told = conninfo_to_dict(url)
    hosts = str(told.get("host") or "").split(",")
    ports = str(told.get("port") or PORT).split(",")
    if len(hosts) < 2:
        return []
    if len(ports) == 1:
        ports = ports * len(hosts)
    if len(ports) != len(hosts):
        raise StoreUnavailable(f"PostgreSQL: the address names {len(hosts)} servers and {len(ports)} ports")
    return [Address(host, port or PORT) for host, port in zip(hosts, ports, strict=True)]


async def open_connection(url: str, address: Address | None, within: float) -> Any:
    """Open a connection for the serving side, to this server or to the only one."""
    place = {"host": address.host, "port": int(address.port), "target_session_attrs": "any"} if address else {}
    settings = _without_overridden(url, _SERVING)
    connection = await asyncpg.connect(
        url, timeout=within, command_timeout=COMMAND_SEC, server_settings=settings, **place
    )
    if "plan_cache_mode" in settings:
        try:
            await connection.execute(_PLAN_FOR_CITUS)
        except BaseException:
            connection.terminate()
            raise
    return connection


def _without_overridden(url: str, settings: dict[str, str]) -> dict[str, str]:
    """Return the settings that the address does not set itself in its `options`."""
    told = str(conninfo_to_dict(url).get("options") or "")
    return {name: value for name, value in settings.items() if f"{name}=" not in told}


class Pool:
    """The serving side's connections to one server, opened on demand and replaced when they break.

    A request leaves no session state behind, so connections are not reset
    between requests, which saves a round trip.
    """

    def __init__(self, url: str, address: Address | None = None, size: int = CONNECTIONS) -> None:
        self._url = url
        self._address = address
        self._slots = asyncio.Semaphore(size)
        self._queue = 0
        # The connection that was used last is reused first, so that surplus connections become idle.
        self._idle: list[tuple[Any, float]] = []
        self._open: set[Any] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    async def rows(self, statement: str, *values: object, within: float | None = None) -> list[Any]:
        async with self.connection(within) as connection:
            found: list[Any] = await connection.fetch(statement, *values, timeout=within)
            return found

    async def row(self, statement: str, *values: object, within: float | None = None) -> Any:
        async with self.connection(within) as connection:
            return await connection.fetchrow(statement, *values, timeout=within)

    async def do(self, statement: str, *values: object, within: float | None = None) -> None:
        async with self.connection(within) as connection:
            await connection.execute(statement, *values, timeout=within)

    @asynccontextmanager
    async def connection(self, within: float | None = None) -> AsyncIterator[Any]:
        """Yield a connection; `within` also limits the time for opening it."""
        await self._take_slot()
        try:
            with translated():
                connection = self._rested() or await self._made(min(CONNECT_SEC, within or CONNECT_SEC))
                try:
                    yield connection
                except BaseException as error:
                    # A connection can be reused only if the server itself has reported the error. If the statement is
                    # still running, its own time limit ends it.
                    if not isinstance(error, asyncpg.PostgresError) or _is_away(error):
                        connection.terminate()
                    raise
                finally:
                    self._put_back(connection)
        finally:
            self._slots.release()

    async def _take_slot(self) -> None:
        if not self._slots.locked():
            await self._slots.acquire()
            return
        if self._queue >= QUEUE_LENGTH:
            raise StoreBusy("PostgreSQL: too many requests wait for a connection")
        self._queue += 1
        try:
            async with asyncio.timeout(QUEUE_SEC):
                await self._slots.acquire()
        except TimeoutError as error:
            raise StoreBusy(f"PostgreSQL: no connection became free in {QUEUE_SEC:.0f} s") from error
        finally:
            self._queue -= 1

    def _rested(self) -> Any:
        """Return an idle connection or None; close those idle for long, which may have been cut unnoticed."""
        while self._idle:
            connection, since = self._idle.pop()
            if connection.is_closed():
                self._open.discard(connection)
            elif asyncio.get_running_loop().time() - since > IDLE_SEC:
                self._open.discard(connection)
                connection.terminate()
            else:
                return connection
        return None

    async def _made(self, within: float) -> Any:
        self._loop = asyncio.get_running_loop()
        connection = await open_connection(self._url, self._address, within)
        self._open.add(connection)
        return connection

    def _put_back(self, connection: Any) -> None:
        if self._closed:
            # This connection was still being opened when the pool was closed.
            connection.terminate()
        if connection.is_closed():
            self._open.discard(connection)
        else:
            self._idle.append((connection, asyncio.get_running_loop().time()))

    def drop(self) -> None:
        """Cut every connection, so that requests that wait for an answer fail at once."""
        for connection in self._open:
            connection.terminate()

    def close(self) -> None:
        self._closed = True
        if self._loop is not None and not self._loop.is_closed():
            self.drop()
        self._open.clear()
        self._idle.clear()


# --- loading and operating ---------------------------------------------------


def connect(url: str) -> psycopg.Connection[tuple[Any, ...]]:
    """Open a connection in autocommit mode; with several servers, to the one that can be written."""
    options = " ".join(f"-c {name}={value}" for name, value in _LOADING.items())
    with translated():
        several = {"target_session_attrs": "read-write"} if addresses(url) else {}
        return psycopg.connect(
            make_conninfo(url, **several),
            autocommit=True,
            connect_timeout=int(CONNECT_SEC),
            options=options,
            keepalives_idle=5,
            keepalives_interval=5,
            keepalives_count=2,
            tcp_user_timeout=SILENCE_MS,
        )


def run(url: str, statement: str) -> None:
    with translated(), closing(connect(url)) as connection:
        connection.execute(statement.encode())


class ReconnectingConnection:
    """One connection, reopened after it has broken."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection = connect(url)
        try:
            check_version(self._connection)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._connection.close()

    def __call__(self) -> psycopg.Connection[tuple[Any, ...]]:
        if self._connection.closed:
            self._connection = connect(self._url)
            check_version(self._connection)
        return self._connection

    @contextmanager
    def within(self, seconds: float) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """Yield the connection, and cut it after this time: a frozen server would keep it open forever."""
        connection = self()
        cut = threading.Timer(seconds, _cut, (connection,))
        cut.daemon = True
        cut.start()
        try:
            yield connection
        finally:
            cut.cancel()


def _cut(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


# --- migrations --------------------------------------------------------------


def scripts() -> list[tuple[int, str, str]]:
    """Return the numbered migrations: number, file name, SQL."""
    folder = resources.files(__package__) / "migrations"
    files = sorted(entry.name for entry in folder.iterdir() if entry.name[:4].isdigit())
    return [(int(file[:4]), file, (folder / file).read_text(encoding="utf-8")) for file in files]


# A migration that older nodes can keep running with names the oldest schema that they may know.
_SUITS = re.compile(r"^-- Suits programs that know schema (\d+)\.$", re.MULTILINE)


def oldest_for(number: int, script: str) -> int:
    """Return the oldest schema that a program may know to keep using the store after this migration."""
    said = _SUITS.search(script)
    return int(said[1]) if said else number


LATEST = scripts()[-1][0]


def mismatch(number: int | None, oldest: int) -> str | None:
    """Return why this program cannot use a store of this schema, or None."""
    if number is None or number < LATEST:
        return f"the database has schema {number or 0}, and this program needs {LATEST}: run `counterfoil migrate`."
    if oldest > LATEST:
        return (
            f"the database has schema {number}, but this version supports only schemas up to {LATEST}: "
            "it was brought up to date by a newer Counterfoil. Run that version, or restore a backup."
        )
    return None


def check_version(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    with translated():
        there = connection.execute(_LEDGER_THERE).fetchone()
        found = connection.execute(_VERSION).fetchone() if there and there[0] else None
    number, oldest = found or (None, 0)
    problem = mismatch(number, oldest)
    if problem:
        raise StoreMismatch(problem)


def migrate(url: str) -> list[str]:
    """Bring the schema up to date and return the files that were run. Safe to run concurrently."""
    done: list[str] = []
    with translated(), connect(url) as connection, connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('counterfoil migrate'))")
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS migrations (number integer PRIMARY KEY, file text NOT NULL, "
            "oldest integer NOT NULL, at timestamptz NOT NULL DEFAULT now())"
        )
        latest = connection.execute("SELECT coalesce(max(number), 0) FROM migrations").fetchone()
        for number, file, script in scripts():
            if latest is not None and number <= latest[0]:
                continue
            connection.execute(script.encode())
            connection.execute(
                "INSERT INTO migrations (number, file, oldest) VALUES (%s, %s, %s)",
                (number, file, oldest_for(number, script)),
            )
            done.append(file)
        if done and _has_roles(connection):
            # The existing roles have no rights yet on what the migrations have added.
            connection.execute(_roles_script())
    return done


_ROLE = "SELECT 1 FROM pg_roles WHERE rolname = %s"
ROLES: tuple[LiteralString, ...] = ("counterfoil_serving", "counterfoil_loading", "counterfoil_administration")


def make_roles(url: str) -> None:
    """Create the three roles and grant each what it needs. They cannot log in: grant them to your own users."""
    with translated(), connect(url) as connection, connection.transaction():
        for role in ROLES:
            if not connection.execute(_ROLE, (role,)).fetchone():
                connection.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(role)))
        connection.execute(_roles_script())


def _has_roles(connection: psycopg.Connection[tuple[Any, ...]]) -> bool:
    return all(connection.execute(_ROLE, (role,)).fetchone() for role in ROLES)


def _roles_script() -> bytes:
    return (resources.files(__package__) / "migrations" / "roles.sql").read_bytes()
