"""Connections that serve requests (asyncpg): one pool per server, and the translation of asyncpg's errors.

Every wait has a time limit. This pool needs less CPU time than asyncpg's own
pool: see docs/decisions/0007-dependencies.md for the figures. The connections
of loaders, commands and the supervisor are in admin_connections.py.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from threading import Thread
from typing import Any, TypeVar

import asyncpg
from msgspec import Struct

from counterfoil.backends.postgres.addresses import SESSION_SETTINGS, Address, ConnectionLimits, parameter, server_error
from counterfoil.model.messages import Message
from counterfoil.ports import StoreBusy, StoreUnavailable, StoreUnreachable

# Time limit for short statements, so that a request fails quickly if the primary does not respond.
GATE_SEC = 1.5
# A connection that was idle for longer than this is replaced, because a firewall may have dropped it silently.
IDLE_SEC = 300.0

# Settings for connections to Citus. Citus can route a statement to its shard only if the plan contains the values, not
# placeholders. It also hides shards in every query of pg_class. With that filter, the query in which asyncpg looks up
# types takes about a second of CPU time for each new connection.
_CITUS_SETTINGS = {"plan_cache_mode": "auto", "citus.override_table_visibility": "off"}
_SET_ON_CITUS = """
    SELECT set_config(setting.name, setting.value, false)
    FROM pg_extension CROSS JOIN unnest($1::text[], $2::text[]) AS setting (name, value) WHERE extname = 'citus'
"""

# Errors that the statement did not cause: the server is unreachable, stopping or starting, or has too many connections.
_UNREACHABLE = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    # The server has become a replica, or it is a replica that cancelled the statement to apply replicated changes.
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.SerializationError,
)

Result = TypeVar("Result")


@contextmanager
def translated() -> Iterator[None]:
    """Convert errors of asyncpg and the operating system to the exceptions defined in ports.py."""
    try:
        yield
    except (*_UNREACHABLE, asyncpg.PostgresError) as error:
        kind = StoreUnreachable if isinstance(error, _UNREACHABLE) else StoreUnavailable
        raise kind(server_error(error)) from error


def is_storable(text: str) -> bool:
    """Return whether PostgreSQL can store this string. It cannot store NUL or unpaired surrogates."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text))


async def open_connection(
    url: str, address: Address | None, limits: ConnectionLimits, within: float | None = None
) -> Any:
    """Open a connection to the given server, or to the only server if `address` is None."""
    server = {"host": address.host, "port": int(address.port), "target_session_attrs": "any"} if address else {}
    settings = _session_settings(url, limits)
    connection = await asyncpg.connect(
        url,
        timeout=min(limits.connect_sec, within or limits.connect_sec),
        command_timeout=limits.answer_sec,
        server_settings=settings,
        **server,
    )
    on_citus = _without_options(_CITUS_SETTINGS, url)
    if on_citus:
        try:
            await connection.execute(_SET_ON_CITUS, list(on_citus), list(on_citus.values()))
        except BaseException:
            connection.terminate()
            raise
    return connection


def _session_settings(url: str, limits: ConnectionLimits) -> dict[str, str]:
    settings = SESSION_SETTINGS | {
        "statement_timeout": str(limits.statement_timeout_ms),
        "plan_cache_mode": "force_generic_plan",
    }
    return _without_options(settings, url)


def _without_options(settings: Mapping[str, str], url: str) -> dict[str, str]:
    """Return the settings, except those that the address already sets in `options`."""
    options = parameter(url, "options")
    return {name: value for name, value in settings.items() if f"{name}=" not in options}


def run_in_new_loop(work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Run a coroutine on a new loop in its own thread, which works before and after the loop that serves requests."""
    outcome: Future[Result] = Future()

    async def run() -> None:
        # The caller gets the result before the loop is closed, because closing the loop waits for pending DNS lookups.
        try:
            outcome.set_result(await work())
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits for the result
            outcome.set_exception(error)

    Thread(target=lambda: asyncio.run(run()), name="new loop", daemon=True).start()
    return outcome.result()


class SplitStatement(Struct, frozen=True):
    """A statement for Citus in two parts, for the coordinator and for a shard. `read` runs both and joins the rows."""

    head: str
    rows: str
    read: "Callable[[Pool, SplitStatement, tuple[Any, ...]], Awaitable[list[Any]]]"


Statement = str | SplitStatement


class Pool:
    """Connections to one server, opened on demand. Requests leave no session state, so that none needs a reset."""

    def __init__(self, url: str, address: Address | None = None, limits: ConnectionLimits | None = None) -> None:
        self._url = url
        self._address = address
        self._limits = limits or ConnectionLimits()
        self._slots = asyncio.Semaphore(self._limits.pool_size)
        # The most recently used connection is reused first, so that surplus connections stay idle and expire.
        self._idle: list[tuple[Any, float]] = []
        self._open: set[Any] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    async def rows(self, statement: Statement, *values: object, within: float | None = None) -> list[Any]:
        if isinstance(statement, SplitStatement):
            return await statement.read(self, statement, values)
        async with self.connection(within) as connection:
            found: list[Any] = await connection.fetch(statement, *values, timeout=within)
            return found

    @asynccontextmanager
    async def connection(self, within: float | None = None) -> AsyncIterator[Any]:
        """Yield a connection. If a new one must be opened, that may take at most `within` seconds."""
        await self._take_slot()
        try:
            with translated():
                connection = self._idle_connection() or await self._new_connection(within)
                try:
                    yield connection
                except BaseException as error:
                    # A connection can be reused only if the server itself reported the error. In other cases a
                    # statement may still be running; the server cancels it at its time limit.
                    if not isinstance(error, asyncpg.PostgresError) or isinstance(error, _UNREACHABLE):
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
        try:
            async with asyncio.timeout(self._limits.pool_wait_sec):
                await self._slots.acquire()
        except TimeoutError as error:
            busy = Message(
                "pool_busy",
                "PostgreSQL: none of {count:connection} became free within {time} ms.",
                count=self._limits.pool_size,
                time=self._limits.pool_wait_ms,
            )
            raise StoreBusy(busy) from error

    def _idle_connection(self) -> Any:
        """Return an idle connection, or None if there is none. Close connections that were idle for too long."""
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

    async def _new_connection(self, within: float | None) -> Any:
        self._loop = asyncio.get_running_loop()
        connection = await open_connection(self._url, self._address, self._limits, within)
        self._open.add(connection)
        return connection

    def _put_back(self, connection: Any) -> None:
        if self._closed:
            # The pool was closed while this connection was being opened.
            connection.terminate()
        if connection.is_closed():
            self._open.discard(connection)
        else:
            self._idle.append((connection, asyncio.get_running_loop().time()))

    def drop(self) -> None:
        """Close all connections, so that requests that are waiting for an answer fail immediately."""
        for connection in self._open:
            connection.terminate()

    def close(self) -> None:
        self._closed = True
        if self._loop is not None and not self._loop.is_closed():
            self.drop()
        self._open.clear()
        self._idle.clear()
