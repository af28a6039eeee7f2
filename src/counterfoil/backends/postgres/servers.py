"""The servers of a store: which can be written, which may be read, and how far each has come.

One address may name several servers. A watcher for each asks what it is and
where its horizon stands, so a failover needs neither a proxy nor a setting.
Reads go to the replicas in turn and to the primary when none is fit; what
breaks under a read is read again from the next. A read names the horizon that
it must have reached: the newest that its caller was ever given. What callers
are given next is a horizon that every fit replica has reached, so each of them
can answer. With one server there is nothing to watch, and all of this is its
pool.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum
from typing import Any, TypeVar

from msgspec import Struct

from counterfoil.backends.postgres.connections import GATE_SEC, Address, Pool, addresses, dial, translated
from counterfoil.observe.events import Event, ServerChanged
from counterfoil.ports import Clock, StoreUnavailable, StoreUnreachable

# A server is asked this often; more often while it is away or nothing can be written.
LOOK_EVERY_SEC = 0.25
HURRY_SEC = 0.1
# One that does not answer twice in this time is away.
LOOK_SEC = 0.5
PATIENCE = 2
LAG_MS = 5_000
# While no server has reached what a caller was given, a read asks again this often, and gives up after this long.
CATCHING_UP_SEC = 0.05
BEHIND_SEC = 2.0

_LOOK = """
    SELECT pg_is_in_recovery(), horizon.at,
        coalesce($1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint),
        CASE WHEN pg_is_in_recovery() THEN '' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END
    FROM horizon
"""
# A horizon that a replica gave out before its primary was lost stays the past of the next one.
_CATCH_UP = "UPDATE horizon SET at = greatest(at, $1)"
_HORIZON = "SELECT at FROM horizon"

Found = TypeVar("Found")


class Role(Enum):
    """What a server is to us."""

    PRIMARY = "primary"
    REPLICA = "replica"
    BEHIND = "behind"
    AWAY = "away"


class Server:
    """One server and what is known of it."""

    def __init__(self, name: str, pool: Pool, role: Role = Role.AWAY) -> None:
        self.name = name
        self.pool = pool
        self.role = role
        self.horizon = 0
        # Of the write-ahead log: of two servers that can be written, the lower one was left behind by a failover.
        self.timeline = ""
        self.doubted = False
        self.told: Role | None = None
        # The watcher's own connection: a pool that is exhausted does not make a server look dead.
        self.line: Any = None
        self.wake = asyncio.Event()

    def reached(self, horizon: int) -> None:
        self.horizon = max(self.horizon, horizon)

    def hang_up(self) -> None:
        if self.line is not None:
            self.line.terminate()
            self.line = None


class Sight(Struct, frozen=True):
    """A server as it was seen once; without a horizon it did not answer."""

    name: str
    role: Role
    horizon: int | None = None

    @property
    def is_primary(self) -> bool:
        return self.role is Role.PRIMARY


async def survey(url: str) -> list[Sight]:
    """A look at each of several servers, from outside."""
    return list(await asyncio.gather(*(_seen(url, address) for address in addresses(url))))


async def _seen(url: str, address: Address) -> Sight:
    try:
        with translated():
            connection = await dial(url, address, PATIENCE * LOOK_SEC)
            try:
                in_recovery, horizon, _, _ = await connection.fetchrow(_LOOK, None, timeout=PATIENCE * LOOK_SEC)
            finally:
                connection.terminate()
    except StoreUnavailable:
        return Sight(address.name, Role.AWAY)
    return Sight(address.name, Role.REPLICA if in_recovery else Role.PRIMARY, horizon)


class Servers:
    """All servers of a store, as one worker sees them."""

    def __init__(
        self,
        url: str,
        clock: Clock,
        lag_ms: int = LAG_MS,
        observe: Callable[[Event], None] = lambda _: None,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        self._url = url
        self._clock = clock
        self._lag_ms = lag_ms
        self._observe = observe
        self._now_ms = now_ms
        self._addresses = addresses(url)
        self._servers = [Server(address.name, Pool(url, address)) for address in self._addresses]
        if not self._servers:
            self._servers = [Server("the server", Pool(url), Role.PRIMARY)]
        self._primary: Server | None = None if self._addresses else self._servers[0]
        self._watching: list[asyncio.Task[None]] = []
        self._looked: set[str] = set()
        self._known = asyncio.Event()
        self._turn = 0
        self._highest = 0
        self._offered = 0
        # The primary's clock, and ours at that moment.
        self._seen_clock: tuple[int, int] | None = None
        self.primary = Primary(self)

    @property
    def several(self) -> bool:
        return bool(self._addresses)

    @property
    def writable(self) -> bool:
        return self._primary is not None and not self._primary.doubted

    def close(self) -> None:
        running = [task for task in self._watching if not task.get_loop().is_closed()]
        for task in running:
            task.cancel()
        for server in self._servers:
            if running:
                server.hang_up()
            server.pool.close()
        self._watching = []

    # --- reading -------------------------------------------------------------------

    async def rows(self, statement: str, *values: object, reached: int = 0) -> list[Any]:
        """Rows that each end with the horizon of their snapshot, from a server that has reached this one."""
        _, found = await self._first(lambda pool: pool.rows(statement, *values), reached)
        return found

    async def found(
        self, statement: str, *values: object, reached: int = 0, there: Callable[[list[Any]], bool] | None = None
    ) -> list[Any]:
        """The same where a first row without a first column means that nothing was found."""
        return await self.found_by(lambda pool: pool.rows(statement, *values), reached, there)

    async def found_by(
        self,
        ask: Callable[[Pool], Awaitable[list[Any]]],
        reached: int = 0,
        there: Callable[[list[Any]], bool] | None = None,
    ) -> list[Any]:
        """Rows if there are any. What a replica does not have, it may not have yet: the primary is asked as well.

        While there is no primary, every replica is.
        """
        is_there = there or _has_first_column
        answered_by, answer = await self._first(ask, reached)
        for server in [] if is_there(answer) else self._others(answered_by):
            with suppress(StoreUnreachable):
                later = await self._asked(server, lambda asked: ask(asked.pool))
                if later[0][-1] >= reached and is_there(later):
                    return later
        return answer

    async def _first(self, ask: Callable[[Pool], Awaitable[list[Any]]], reached: int) -> tuple[Server, list[Any]]:
        """The first server that has reached this horizon, and its answer.

        Right after a failover there may be none for a moment: one that is being
        promoted or is still applying what it received gets there.
        """
        give_up = asyncio.get_running_loop().time() + BEHIND_SEC
        while True:
            failure = StoreUnreachable("PostgreSQL: no server that has come far enough can be read")
            behind = False
            for server in await self._readers(reached):
                try:
                    found = await self._asked(server, lambda asked: ask(asked.pool))
                except StoreUnreachable as error:
                    failure = error
                    continue
                server.reached(found[0][-1])
                if found[0][-1] >= reached:
                    return server, found
                behind = True
            if not (behind or self._is_settling()) or asyncio.get_running_loop().time() > give_up:
                raise failure
            await asyncio.sleep(CATCHING_UP_SEC)

    def _is_settling(self) -> bool:
        """Whether a server may become fit within moments: the watchers are looking at one that was in doubt."""
        return bool(self._addresses) and any(server.doubted for server in self._servers)

    def _others(self, answered_by: Server) -> list[Server]:
        """Who may know what this server does not: the primary, or every other replica while there is none."""
        if answered_by is self._primary:
            return []
        if self._primary and self.writable:
            return [self._primary]
        fit = (server for server in self._servers if server.role is Role.REPLICA and not server.doubted)
        return [server for server in fit if server is not answered_by]

    # --- what callers are given ------------------------------------------------------

    async def offered(self) -> int | None:
        """The horizon to give to the next caller: every fit replica has reached it. None with a single server.

        It never goes back, whichever servers are fit.
        """
        if not self._addresses:
            return None
        await self._look_around()
        fit = [server.horizon for server in self._servers if server.role is Role.REPLICA and not server.doubted]
        if not fit and self._primary and self.writable:
            fit = [self._primary.horizon]
        self._offered = max(self._offered, min(fit, default=0))
        return self._offered

    async def newest(self) -> int:
        """The primary's horizon now: nobody can have been given a newer one."""
        row = await self.primary.row(_HORIZON, within=GATE_SEC)
        return int(row[0])

    def was_given(self, horizon: int) -> None:
        """Callers hold this horizon, from whatever node: the next primary must not stamp below it."""
        self._highest = max(self._highest, horizon)

    async def of_replica(self, ask: Callable[[Pool], Awaitable[Found]]) -> Found:
        """What a replica says while the primary is away, the furthest one first."""
        for server in sorted(await self._readers(0), key=lambda server: -server.horizon):
            if server is not self._primary:
                with suppress(StoreUnreachable):
                    return await self._asked(server, lambda asked: ask(asked.pool))
        raise StoreUnreachable("PostgreSQL: no server can be read")

    async def _readers(self, reached: int) -> list[Server]:
        """Whom to ask, in this order."""
        if not self._addresses:
            return self._servers[:]
        await self._look_around()
        fit = [server for server in self._servers if server.role is Role.REPLICA and not server.doubted]
        if len(fit) > 1:
            self._turn = (self._turn + 1) % len(fit)
            fit = fit[self._turn :] + fit[: self._turn]
            # Those known to have come far enough first; of the others the answer tells.
            fit.sort(key=lambda server: server.horizon < reached)
        return [*fit, self._primary] if self._primary and self.writable else fit

    async def _asked(self, server: Server, ask: Callable[[Server], Awaitable[Found]]) -> Found:
        try:
            return await ask(server)
        except StoreUnreachable:
            self._doubt(server)
            raise

    # --- writing -------------------------------------------------------------------

    async def of_primary(self, ask: Callable[[Pool], Awaitable[Found]]) -> Found:
        if self._addresses:
            await self._look_around()
        if self._primary is None or self._primary.doubted:
            raise StoreUnreachable("PostgreSQL: no server can be written")
        return await self._asked(self._primary, lambda asked: ask(asked.pool))

    # --- how old a copy is ------------------------------------------------------------

    def steady_us_of(self, horizon: int) -> int:
        """When a horizon was taken, on this node's steady clock: by the primary's clock as it was last seen."""
        steady_us, clock_ms = self._seen_clock or (self._clock.steady_us(), self._clock.now_ms())
        return steady_us - (clock_ms - horizon) * 1000

    # --- watching ------------------------------------------------------------------

    async def _look_around(self) -> None:
        if self._known.is_set():
            return
        if not self._watching:
            self._watching = [
                asyncio.get_running_loop().create_task(self._watch(server, address))
                for server, address in zip(self._servers, self._addresses, strict=True)
            ]
        with suppress(TimeoutError):
            await asyncio.wait_for(self._known.wait(), PATIENCE * LOOK_SEC)
        self._known.set()

    async def _watch(self, server: Server, address: Address) -> None:
        missed = 0
        while True:
            try:
                await self._look_at(server, address)
                missed = 0
            except StoreUnavailable as error:
                server.hang_up()
                # An answer that is late may be due to this process; a connection that broke is not.
                missed += 1 if isinstance(error.__cause__, TimeoutError) else PATIENCE
                if missed >= PATIENCE:
                    server.role = Role.AWAY
                    server.pool.drop()
            server.doubted = missed > 0
            self._settle(server)
            hurry = server.role is Role.AWAY or not self.writable
            with suppress(TimeoutError):
                await asyncio.wait_for(server.wake.wait(), HURRY_SEC if hurry else LOOK_EVERY_SEC)
            server.wake.clear()

    async def _look_at(self, server: Server, address: Address) -> None:
        with translated():
            async with asyncio.timeout(LOOK_SEC):
                if server.line is None:
                    server.line = await dial(self._url, address, LOOK_SEC)
                await self._look(server, server.line)

    async def _look(self, server: Server, connection: Any) -> None:
        now = self._now_ms() if self._now_ms else None
        asked_us = self._clock.steady_us()
        in_recovery, horizon, clock_ms, server.timeline = await connection.fetchrow(_LOOK, now)
        server.role = Role.REPLICA if in_recovery else Role.PRIMARY
        # Not the higher of the two: a server that was set back is as far as it says.
        server.horizon = horizon
        if not in_recovery and self._leads(server):
            self._seen_clock = asked_us, clock_ms
            if horizon < self._highest:
                await connection.execute(_CATCH_UP, self._highest)

    def _leads(self, server: Server) -> bool:
        return server.timeline >= max(other.timeline for other in self._servers if other.role is Role.PRIMARY)

    def _settle(self, server: Server) -> None:
        """Draw the conclusions from what was seen of a server."""
        self._highest = max(self._highest, *(other.horizon for other in self._servers))
        leaders = [other for other in self._servers if other.role is Role.PRIMARY and self._leads(other)]
        self._primary = leaders[0] if leaders else None
        for other in self._servers:
            if other.role in (Role.REPLICA, Role.BEHIND):
                behind = self._highest - other.horizon > self._lag_ms
                other.role = Role.BEHIND if behind else Role.REPLICA
            if other.role is not other.told and (other.told or other is server):
                other.told = other.role
                self._observe(ServerChanged(server=other.name, role=other.role.value))
        self._looked.add(server.name)
        if len(self._looked) == len(self._servers):
            self._known.set()

    def _doubt(self, server: Server) -> None:
        """A request met with trouble: nobody else is sent there until the watcher has looked."""
        if self._addresses:
            server.doubted = True
            server.wake.set()


def _has_first_column(rows: list[Any]) -> bool:
    return rows[0][0] is not None


class Primary:
    """The server that can be written, whichever it is now."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    async def rows(self, statement: str, *values: object, within: float | None = None) -> list[Any]:
        return await self._servers.of_primary(lambda pool: pool.rows(statement, *values, within=within))

    async def row(self, statement: str, *values: object, within: float | None = None) -> Any:
        return await self._servers.of_primary(lambda pool: pool.row(statement, *values, within=within))

    async def do(self, statement: str, *values: object, within: float | None = None) -> None:
        await self._servers.of_primary(lambda pool: pool.do(statement, *values, within=within))

    def close(self) -> None:
        self._servers.close()
