"""Connections: pools and timeouts, migrations, and the one place that translates the drivers' errors.

The serving side holds a pool of asyncpg's connections to each server; loaders
and the operator hold one connection of psycopg's to the server that can be
written. Both find the tables in the schema `counterfoil` and wait for nothing
longer than their bound.
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
# Connections of a worker to one server. A request waits this long for one, behind so many others at most.
CONNECTIONS = 8
QUEUE_SEC = 2.0
QUEUE_LENGTH = 512
# A statement waits this long for its rows.
STATEMENT_SEC = 5.0
# What the server does not answer in its own time, the network has swallowed.
COMMAND_SEC = STATEMENT_SEC + 1.0
# A caller learns in this time that keys or counts are out of reach.
GATE_SEC = 1.5
IDLE_SEC = 300.0
# A loader waits this long for the write lock, and a network that is gone is noticed in this time.
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
# Every join of the loader starts from a handful of rows; a plan that reads a whole table is never meant.
_LOADING = _SETTINGS | {"lock_timeout": f"{LOCK_SEC:.0f}s", "enable_hashjoin": "off", "enable_mergejoin": "off"}

# Citus finds the shard of a statement only when its plan knows the values.
_PLAN_FOR_CITUS = "SELECT set_config('plan_cache_mode', 'auto', false) FROM pg_extension WHERE extname = 'citus'"

_VERSION = "SELECT number, oldest FROM migrations ORDER BY number DESC LIMIT 1"
_LEDGER_THERE = "SELECT to_regclass('counterfoil.migrations') IS NOT NULL"

# Of the drivers' errors, those that say nothing about the request: the server is away, starting or full.
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
    # Of a server that has become a replica, or that had to undo what the statement was reading.
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.SerializationError,
)
_FAILED = (asyncpg.PostgresError, psycopg.Error)

# It tells on standard error what it also raises.
logging.getLogger("psycopg").setLevel(logging.CRITICAL)


@contextmanager
def translated() -> Iterator[None]:
    """Whatever a driver raises becomes the port's own error. The server's first line only: the rest may hold data."""
    try:
        yield
    except (*_AWAY, *_FAILED) as error:
        kind = StoreUnreachable if _is_away(error) else StoreUnavailable
        raise kind(f"PostgreSQL: {_first_line(error)}") from error


def _is_away(error: BaseException) -> bool:
    if isinstance(error, psycopg.OperationalError):
        # Without a code of the server's the connection itself has failed.
        return error.sqlstate is None or error.sqlstate.startswith(("08", "57P0", "53300", "25006"))
    return isinstance(error, _AWAY)


def _first_line(error: Exception) -> str:
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        return error.diag.message_primary
    return (str(error).partition("\n")[0] or type(error).__name__).strip()


def storable(text: str) -> bool:
    """Whether PostgreSQL can hold this text; NUL and half a surrogate pair it cannot."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text))


# --- serving -----------------------------------------------------------------


class Address(Struct, frozen=True):
    """One server of those that the setting names."""

    host: str
    port: str

    @property
    def name(self) -> str:
        return f"{self.host}:{self.port}"


def addresses(url: str) -> list[Address]:
    """The servers of an address that names several; of any other, none."""
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


async def dial(url: str, address: Address | None, within: float) -> Any:
    """A connection of the serving side, to this server or to the only one."""
    place = {"host": address.host, "port": int(address.port), "target_session_attrs": "any"} if address else {}
    settings = _unless_told(url, _SERVING)
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


def _unless_told(url: str, settings: dict[str, str]) -> dict[str, str]:
    """The settings that the address does not make itself, by its `options`."""
    told = str(conninfo_to_dict(url).get("options") or "")
    return {name: value for name, value in settings.items() if f"{name}=" not in told}


class Pool:
    """The serving side's connections to one server. Opened when they are needed; what breaks is replaced.

    Nothing that a request does outlives its statement, so nothing is reset
    between two requests and no round trip is spent on it.
    """

    def __init__(self, url: str, address: Address | None = None, size: int = CONNECTIONS) -> None:
        self._url = url
        self._address = address
        self._slots = asyncio.Semaphore(size)
        self._queue = 0
        # The one used last is on top, so that the others may fall idle.
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
        """One of the connections; `within` also bounds the time that making it may take."""
        await self._take_slot()
        try:
            with translated():
                connection = self._rested() or await self._made(min(CONNECT_SEC, within or CONNECT_SEC))
                try:
                    yield connection
                except BaseException as error:
                    # Only a server that says no leaves its connection fit for another. If the statement runs on,
                    # its own time limit ends it.
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
        """An open connection that is not in use; one that has been idle for long may have been cut unnoticed."""
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
        connection = await dial(self._url, self._address, within)
        self._open.add(connection)
        return connection

    def _put_back(self, connection: Any) -> None:
        if self._closed:
            # It was still being made when all others were cut.
            connection.terminate()
        if connection.is_closed():
            self._open.discard(connection)
        else:
            self._idle.append((connection, asyncio.get_running_loop().time()))

    def drop(self) -> None:
        """Cut every connection: whoever waits on one learns it now."""
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
    """A connection that commits each statement unless told otherwise; of several servers, to one that can write."""
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


class Line:
    """One connection, made again when it has broken."""

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
        """The connection, cut when this takes longer: a server that is frozen holds its end for ever."""
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
    """The numbered migrations: number, file name, SQL."""
    folder = resources.files(__package__) / "migrations"
    files = sorted(entry.name for entry in folder.iterdir() if entry.name[:4].isdigit())
    return [(int(file[:4]), file, (folder / file).read_text(encoding="utf-8")) for file in files]


# A migration that older nodes can live with says so, and how old they may be.
_SUITS = re.compile(r"^-- Suits programs that know schema (\d+)\.$", re.MULTILINE)


def oldest_for(number: int, script: str) -> int:
    """The oldest schema a program may know to go on using the store after this migration."""
    said = _SUITS.search(script)
    return int(said[1]) if said else number


LATEST = scripts()[-1][0]


def unfit(number: int | None, oldest: int) -> str | None:
    """What keeps this program from using a store of this schema, or nothing."""
    if number is None or number < LATEST:
        return f"the database has schema {number or 0}, and this program needs {LATEST}: run `counterfoil migrate`."
    if oldest > LATEST:
        return (
            f"the database has schema {number}, and this program knows up to {LATEST}: "
            "it was brought up to date by a newer Counterfoil. Run that version, or restore a backup."
        )
    return None


def check_version(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    with translated():
        there = connection.execute(_LEDGER_THERE).fetchone()
        found = connection.execute(_VERSION).fetchone() if there and there[0] else None
    number, oldest = found or (None, 0)
    problem = unfit(number, oldest)
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
            # What the files have added is not yet granted to the roles that exist.
            connection.execute(_roles_script())
    return done


_ROLE = "SELECT 1 FROM pg_roles WHERE rolname = %s"
ROLES: tuple[LiteralString, ...] = ("counterfoil_serving", "counterfoil_loading", "counterfoil_administration")


def make_roles(url: str) -> None:
    """The three roles with what each needs. They cannot log in: give them to users of your own."""
    with translated(), connect(url) as connection, connection.transaction():
        for role in ROLES:
            if not connection.execute(_ROLE, (role,)).fetchone():
                connection.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(role)))
        connection.execute(_roles_script())


def _has_roles(connection: psycopg.Connection[tuple[Any, ...]]) -> bool:
    return all(connection.execute(_ROLE, (role,)).fetchone() for role in ROLES)


def _roles_script() -> bytes:
    return (resources.files(__package__) / "migrations" / "roles.sql").read_bytes()
