"""Tracks the servers of a store: which one accepts writes, which ones can be read, and the horizon of each.

An address may name several servers. A watcher for each of them checks its role and horizon, so a failover needs neither
a proxy nor a change of settings. A replica is usable if it responds and is not too far behind. Reads rotate over the
usable replicas, or go to the primary if there are none. A read that fails is repeated on the next server. Each read
states the horizon that the server must have reached, which is the newest horizon that was ever reported to the caller.
Normally a horizon is reported only when every usable replica has reached it, so any of them can answer the caller's
next read. A single server is not watched: every statement goes to its pool.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from counterfoil.backends.postgres.addresses import NO_ANSWER, Address, ConnectionLimits, addresses
from counterfoil.backends.postgres.pool import GATE_SEC, Pool, Statement, open_connection, run_in_new_loop, translated
from counterfoil.model.messages import Message
from counterfoil.observe import Event, ServerChanged
from counterfoil.ports import Clock, ServerRole, StoreUnavailable, StoreUnreachable

# How often a server is checked. CHECK_SOON_SEC applies while it is unreachable or while no server accepts writes.
CHECK_EVERY_SEC = 0.25
CHECK_SOON_SEC = 0.1
# A server that does not respond within CHECK_TIMEOUT_SEC, FAILED_CHECKS times in a row, counts as unreachable.
CHECK_TIMEOUT_SEC = 0.5
FAILED_CHECKS = 2
LAG_MS = 5_000
# A read that needs a horizon that no server has reached is retried at this interval, for RETRY_FOR_SEC.
RETRY_EVERY_SEC = 0.05
RETRY_FOR_SEC = 2.0

_STATUS = """
    SELECT pg_is_in_recovery(), horizon.at,
        coalesce($1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint),
        CASE WHEN pg_is_in_recovery() THEN '' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END
    FROM horizon
"""
# Ensures that a new primary stamps rows above every horizon that was reported before the old primary was lost.
_RAISE_HORIZON = "UPDATE horizon SET at = greatest(at, $1)"
_HORIZON = "SELECT at FROM horizon"

Found = TypeVar("Found")


NO_SERVER_WRITES = Message("no_server_writes", "PostgreSQL: no server accepts writes.")


class DatabaseServer:
    """One server and its last known state."""

    def __init__(self, pool: Pool, address: Address | None = None) -> None:
        self.pool = pool
        self.address = address
        self.name = address.name if address else "the server"
        self.role = ServerRole.AWAY if address else ServerRole.PRIMARY
        self.horizon = 0
        # Timeline of the write-ahead log. Of two servers that accept writes, that with the lower one was replaced.
        self.timeline = ""
        # True if the watcher's last check of this server failed, or if a request to it has failed since that check.
        self.suspect = False
        # The role that was last logged. A role is logged only if it differs from this one.
        self.reported_role: ServerRole | None = None
        # The watcher has its own connection, so that an exhausted pool does not make the server look unreachable.
        self.connection: Any = None
        self.check_now = asyncio.Event()

    def disconnect(self) -> None:
        if self.connection is not None:
            self.connection.terminate()
            self.connection = None


class Servers:
    """All servers of a store, as one worker sees them."""

    def __init__(
        self,
        url: str,
        clock: Clock,
        lag_ms: int = LAG_MS,
        observe: Callable[[Event], None] = lambda _: None,
        now_ms: Callable[[], int] | None = None,
        limits: ConnectionLimits | None = None,
    ) -> None:
        self._url = url
        self._limits = limits or ConnectionLimits()
        self._clock = clock
        self._lag_ms = lag_ms
        self._observe = observe
        self._now_ms = now_ms
        self._addresses: Sequence[Address | None] = addresses(url)
        self._servers = [
            DatabaseServer(Pool(url, address, self._limits), address) for address in self._addresses or (None,)
        ]
        self._primary: DatabaseServer | None = None if self._addresses else self._servers[0]
        self._watchers: list[asyncio.Task[None]] = []
        self._checked: set[str] = set()
        self._all_checked = asyncio.Event()
        self._turn = 0
        self._highest = 0
        self._offered = 0
        # Two clocks, read at about the same time: this node's steady clock in microseconds, just before a query to the
        # primary, and the primary's own clock in milliseconds, as returned by that query.
        self._primary_clock: tuple[int, int] | None = None

    @property
    def several(self) -> bool:
        return bool(self._addresses)

    @property
    def writable(self) -> bool:
        return self._primary is not None and not self._primary.suspect

    def close(self) -> None:
        running = [task for task in self._watchers if not task.get_loop().is_closed()]
        for task in running:
            task.cancel()
        for server in self._servers:
            if running:
                server.disconnect()
            server.pool.close()
        self._watchers = []

    # --- reading -------------------------------------------------------------------

    async def rows(self, statement: Statement, *values: object, reached: int = 0) -> list[Any]:
        """Return rows, whose last column is their snapshot's horizon, from a server that has reached `reached`."""
        _, found = await self._first_answer(lambda pool: pool.rows(statement, *values), reached)
        return found

    async def found(
        self, statement: Statement, *values: object, reached: int = 0, there: Callable[[list[Any]], bool] | None = None
    ) -> list[Any]:
        """Return the rows of a statement. See `found_by` for the parameters."""
        return await self.found_by(lambda pool: pool.rows(statement, *values), reached, there)

    async def found_by(
        self,
        ask: Callable[[Pool], Awaitable[list[Any]]],
        reached: int = 0,
        there: Callable[[list[Any]], bool] | None = None,
    ) -> list[Any]:
        """Return the rows of a query. If a replica finds nothing, ask the primary too: the replica may be behind.

        While there is no primary, ask every other replica. `there` returns whether the rows contain the record; by
        default, whether the first column of the first row is not null.
        """
        is_there = there or _has_first_column
        answered_by, answer = await self._first_answer(ask, reached)
        for server in [] if is_there(answer) else self._others(answered_by):
            with suppress(StoreUnreachable):
                later = await self._ask(server, ask)
                if later[0][-1] >= reached and is_there(later):
                    return later
        return answer

    async def _first_answer(
        self, ask: Callable[[Pool], Awaitable[list[Any]]], reached: int
    ) -> tuple[DatabaseServer, list[Any]]:
        """Return the first server whose horizon is at least `reached`, together with its answer.

        Right after a failover there may be no such server for a moment, so the read is retried: a server that is being
        promoted or is catching up will soon reach the horizon.
        """
        give_up = asyncio.get_running_loop().time() + RETRY_FOR_SEC
        while True:
            failure = StoreUnreachable(
                Message("all_behind", "PostgreSQL: no readable server has reached the horizon that this request needs.")
            )
            behind = False
            for server in await self._readers(reached):
                try:
                    found = await self._ask(server, ask)
                except StoreUnreachable as error:
                    failure = error
                    continue
                server.horizon = max(server.horizon, found[0][-1])
                if found[0][-1] >= reached:
                    return server, found
                behind = True
            # A server that is checked again after a failure may soon become usable.
            may_recover = behind or any(server.suspect for server in self._servers)
            if not may_recover or asyncio.get_running_loop().time() > give_up:
                raise failure
            await asyncio.sleep(RETRY_EVERY_SEC)

    def _others(self, answered_by: DatabaseServer) -> list[DatabaseServer]:
        """Return servers that may have newer data: the primary, or all other usable replicas if there is no primary."""
        if answered_by is self._primary:
            return []
        if self._primary and self.writable:
            return [self._primary]
        return [server for server in self._usable_replicas() if server is not answered_by]

    def _usable_replicas(self) -> list[DatabaseServer]:
        return [server for server in self._servers if server.role is ServerRole.REPLICA and not server.suspect]

    # --- horizons reported to callers ------------------------------------------------

    async def offered(self) -> int | None:
        """Return the horizon to report to the next caller, or None with a single server.

        It is the lowest horizon of the usable replicas, or the primary's horizon if there are none. It never decreases,
        even if a replica that is further behind becomes usable.
        """
        if not self._addresses:
            return None
        await self._wait_for_first_checks()
        fit = [server.horizon for server in self._usable_replicas()]
        if not fit and self._primary and self.writable:
            fit = [self._primary.horizon]
        self._offered = max(self._offered, min(fit, default=0))
        return self._offered

    async def newest(self) -> int:
        """Return the primary's current horizon. No newer horizon can have been reported to a client."""
        ((horizon,),) = await self.primary(_HORIZON, within=GATE_SEC)
        return int(horizon)

    def was_reported(self, horizon: int) -> None:
        """Record that a node has reported this horizon. The next primary must not stamp rows at or below it."""
        self._highest = max(self._highest, horizon)

    async def on_replica(self, ask: Callable[[Pool], Awaitable[Found]]) -> Found:
        """Query a replica while the primary is unreachable, preferring the replica with the newest horizon."""
        for server in sorted(await self._readers(0), key=lambda server: -server.horizon):
            if server is not self._primary:
                with suppress(StoreUnreachable):
                    return await self._ask(server, ask)
        raise StoreUnreachable(Message("no_replica", "PostgreSQL: no replica can be read."))

    async def _readers(self, reached: int) -> list[DatabaseServer]:
        """Return the servers to read from, in order of preference."""
        if not self._addresses:
            return self._servers[:]
        await self._wait_for_first_checks()
        fit = self._usable_replicas()
        if len(fit) > 1:
            self._turn = (self._turn + 1) % len(fit)
            fit = fit[self._turn :] + fit[: self._turn]
            # First those known to have reached the horizon. The others may have done so since their last check.
            fit.sort(key=lambda server: server.horizon < reached)
        return [*fit, self._primary] if self._primary and self.writable else fit

    async def _ask(self, server: DatabaseServer, ask: Callable[[Pool], Awaitable[Found]]) -> Found:
        try:
            return await ask(server.pool)
        except StoreUnreachable:
            self._mark_suspect(server)
            raise

    # --- writing -------------------------------------------------------------------

    async def primary(self, statement: str, *values: object, within: float | None = None) -> list[Any]:
        """Run a statement on the server that currently accepts writes."""
        return await self.on_primary(lambda pool: pool.rows(statement, *values, within=within))

    async def on_primary(self, ask: Callable[[Pool], Awaitable[Found]]) -> Found:
        if self._addresses:
            await self._wait_for_first_checks()
        if self._primary is None or self._primary.suspect:
            raise StoreUnreachable(NO_SERVER_WRITES)
        return await self._ask(self._primary, ask)

    def write_now(self, write: Callable[[Any], Awaitable[None]], within: float) -> None:
        """Run a transaction on the primary, outside the event loop; raise StoreUnreachable after `within` seconds."""
        run_in_new_loop(lambda: self._write_in_time(write, within))

    async def _write_in_time(self, write: Callable[[Any], Awaitable[None]], within: float) -> None:
        if self._primary is None:
            raise StoreUnreachable(NO_SERVER_WRITES)
        try:
            async with asyncio.timeout(within):
                with translated():
                    connection = await open_connection(self._url, self._primary.address, self._limits)
                    try:
                        # After an error, no ROLLBACK is sent, because it would wait for a server that may not respond.
                        # Closing the connection makes the server roll back.
                        await connection.execute("BEGIN")
                        await write(connection)
                        await connection.execute("COMMIT")
                    finally:
                        connection.terminate()
        except TimeoutError as error:
            raise StoreUnreachable(NO_ANSWER(seconds=f"{max(0.0, within):.1f}")) from error

    # --- age of a replica's data ------------------------------------------------------

    def steady_us_of(self, horizon: int) -> int:
        """Convert a horizon to this node's steady clock, based on the last reading of the primary's clock."""
        steady_us, clock_ms = self._primary_clock or (self._clock.steady_us(), self._clock.now_ms())
        return steady_us - (clock_ms - horizon) * 1000

    # --- watching ------------------------------------------------------------------

    async def _wait_for_first_checks(self) -> None:
        if self._all_checked.is_set():
            return
        if not self._watchers:
            self._watchers = [asyncio.get_running_loop().create_task(self._watch(server)) for server in self._servers]
        with suppress(TimeoutError):
            await asyncio.wait_for(self._all_checked.wait(), FAILED_CHECKS * CHECK_TIMEOUT_SEC)
        self._all_checked.set()

    async def _watch(self, server: DatabaseServer) -> None:
        missed = 0
        while True:
            try:
                await self._check(server)
                missed = 0
            except StoreUnavailable as error:
                server.disconnect()
                # A late answer may be this process's fault, so check again. A connection error counts at once.
                missed += 1 if isinstance(error.__cause__, TimeoutError) else FAILED_CHECKS
                if missed >= FAILED_CHECKS:
                    server.role = ServerRole.AWAY
                    server.pool.drop()
            server.suspect = missed > 0
            self._update_roles(server)
            urgent = server.role is ServerRole.AWAY or not self.writable
            with suppress(TimeoutError):
                await asyncio.wait_for(server.check_now.wait(), CHECK_SOON_SEC if urgent else CHECK_EVERY_SEC)
            server.check_now.clear()

    async def _check(self, server: DatabaseServer) -> None:
        with translated():
            async with asyncio.timeout(CHECK_TIMEOUT_SEC):
                if server.connection is None:
                    server.connection = await open_connection(
                        self._url, server.address, self._limits, CHECK_TIMEOUT_SEC
                    )
                await self._read_status(server, server.connection)

    async def _read_status(self, server: DatabaseServer, connection: Any) -> None:
        now = self._now_ms() if self._now_ms else None
        asked_us = self._clock.steady_us()
        in_recovery, horizon, clock_ms, server.timeline = await connection.fetchrow(_STATUS, now)
        server.role = ServerRole.REPLICA if in_recovery else ServerRole.PRIMARY
        # Do not take the maximum: a server that was restored from a backup really has a lower horizon.
        server.horizon = horizon
        if not in_recovery and self._leads(server):
            self._primary_clock = asked_us, clock_ms
            if horizon < self._highest:
                await connection.execute(_RAISE_HORIZON, self._highest)

    def _leads(self, server: DatabaseServer) -> bool:
        return server.timeline >= max(other.timeline for other in self._servers if other.role is ServerRole.PRIMARY)

    def _update_roles(self, server: DatabaseServer) -> None:
        """Update the primary and the replicas' roles after a check of this server, and report changes."""
        self._highest = max(self._highest, *(other.horizon for other in self._servers))
        leaders = [other for other in self._servers if other.role is ServerRole.PRIMARY and self._leads(other)]
        self._primary = leaders[0] if leaders else None
        for other in self._servers:
            if other.role in (ServerRole.REPLICA, ServerRole.BEHIND):
                behind = self._highest - other.horizon > self._lag_ms
                other.role = ServerRole.BEHIND if behind else ServerRole.REPLICA
            if other.role is not other.reported_role and (other.reported_role or other is server):
                other.reported_role = other.role
                self._observe(ServerChanged(server=other.name, role=other.role.value))
        self._checked.add(server.name)
        if len(self._checked) == len(self._servers):
            self._all_checked.set()

    def _mark_suspect(self, server: DatabaseServer) -> None:
        """Stop using this server until its watcher has checked it again, because a request to it has failed."""
        if self._addresses:
            server.suspect = True
            server.check_now.set()


def _has_first_column(rows: list[Any]) -> bool:
    return rows[0][0] is not None
