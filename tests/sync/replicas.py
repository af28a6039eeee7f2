"""Simulates several servers with different horizons in this process: lagging copies of the books, and two nodes.

`tests/backends/test_given_horizons.py` tests the rule for floors on real meters.
Here the whole service applies that rule, and Hypothesis chooses the order in which
servers are queried.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from msgspec.structs import replace

from counterfoil.backends.sqlite.books import SqliteBooks
from counterfoil.backends.sqlite.files import path_of, read_only
from counterfoil.domain.access import Admitted, Key, TooFast
from counterfoil.ports import BillPage, MemberPage, Meter, ServingPorts
from raw_http import AppResponse
from sync.in_process import InProcessService, Json, StoreParts
from sync.state_machine import SyncMachine

REPLICAS = 2
NODES = 2
# Replicas that lag catch up once clients have paused this long.
LAG_SEC = 5
ORDERS = st.permutations(range(REPLICAS))
# Reads whose answer is never that something does not exist.
COMPLETE_LISTS = {"shops", "changes", "digests", "accounts"}

T = TypeVar("T")


class Replica:
    """A copy of the books as they were when it last caught up."""

    def __init__(self, store: Path, folder: Path) -> None:
        self._source = read_only(store, "books")
        folder.mkdir()
        self._copy = sqlite3.connect(path_of(folder, "books"), isolation_level=None)
        self.catch_up()
        self.books = SqliteBooks(folder)

    def catch_up(self) -> None:
        self._source.backup(self._copy)

    def close(self) -> None:
        self.books.close()
        self._copy.close()
        self._source.close()


class Servers:
    """The primary and its replicas, as one node sees them."""

    def __init__(self, primary: SqliteBooks, replicas: Sequence[Replica]) -> None:
        self.primary = primary
        self.replicas = replicas
        self.order: Sequence[int] = range(REPLICAS)
        self.primary_only = False
        self._known = [0] * REPLICAS
        self._offered = 0

    async def look(self) -> None:
        """Update the known horizon of each replica."""
        self._known = [await replica.books.horizon() for replica in self.replicas]

    def offered(self) -> int:
        self._offered = max(self._offered, min(self._known))
        return self._offered

    async def first(self, ask: Callable[[SqliteBooks], Awaitable[T]], reached: int) -> T:
        """Return the answer of the first replica in `order` whose horizon is at least `reached`, or of the primary."""
        for which in () if self.primary_only else self.order:
            books = self.replicas[which].books
            if await self.is_fit(books, reached):
                return await ask(books)
        return await ask(self.primary)

    async def is_fit(self, books: SqliteBooks, reached: int) -> bool:
        return await books.horizon() >= reached

    async def found(self, ask: Callable[[SqliteBooks], Awaitable[T]], reached: int) -> T:
        """Like `first`, but ask the primary as well if the row was not found."""
        answer = await self.first(ask, reached)
        is_there = answer.continues if isinstance(answer, BillPage | MemberPage) else answer
        return answer if is_there else await ask(self.primary)


class LaggingBooks:
    """The store as a node reads it: each read goes to one server that has reached the last argument of the read.

    If a shop, base, bill or member was not found there, the primary is asked too.
    """

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    async def horizon(self) -> int:
        return await self._servers.first(lambda books: books.horizon(), 0)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        read = self._servers.first if name in COMPLETE_LISTS else self._servers.found
        return lambda *asked: read(lambda books: getattr(books, name)(*asked), _reached(asked[-1]))


def _reached(last_argument: Any) -> int:
    """Return the horizon that the server must have reached. A read that does not name one may use any server."""
    reached = getattr(last_argument, "reached", last_argument)
    return reached if isinstance(reached, int) else 0


class MeterWithFloors:
    """Wraps a meter and keeps a floor per lineage, so that the horizon reported to a lineage never goes back."""

    def __init__(self, meter: Meter, servers: Servers, given: dict[str, int]) -> None:
        self._meter = meter
        self._servers = servers
        self._given = given
        self.counts = meter.counts

    async def admit(self, key: Key) -> Admitted | TooFast:
        verdict = await self._meter.admit(key)
        if isinstance(verdict, TooFast):
            return verdict
        before = self._given.get(key.lineage) or await self._servers.primary.horizon()
        self._given[key.lineage] = max(before, self._servers.offered())
        return replace(verdict, horizon=self._given[key.lineage])


class LaggingReplicaService(InProcessService):
    """Two nodes on a primary and two replicas. A test may choose which node answers next."""

    def __init__(self, folder: Path, parts: StoreParts, servers: type[Servers], meter: type[MeterWithFloors]) -> None:
        super().__init__(folder, parts)
        given: dict[str, int] = {}
        store = Path(self.settings.store)
        self.replicas = [Replica(store, folder / f"replica-{number}") for number in range(REPLICAS)]
        self.views = [servers(self.books, self.replicas) for _ in range(NODES)]
        meters = [meter(self._served.meter, view, given) for view in self.views]
        self.apps = [
            self.application(replace(self._served, books=LaggingBooks(view), meter=metered))
            for view, metered in zip(self.views, meters, strict=True)
        ]
        self.turn = 0
        self.paused_sec = 0.0

    def _open(self, parts: StoreParts) -> ServingPorts:
        self._served = super()._open(parts)
        return self._served

    def close(self) -> None:
        for replica in self.replicas:
            replica.close()
        super().close()

    def answer(self, path: str, query: str, headers: dict[str, str]) -> AppResponse:
        """Return the response of the next node. `turn` is the node that answered last; a test may set it."""
        self.turn = (self.turn + 1) % NODES
        self.app = self.apps[self.turn]
        return super().answer(path, query, headers)

    def look(self, node: int) -> None:
        self._loop.run_until_complete(self.views[node].look())

    def pause(self, seconds: float) -> None:
        super().pause(seconds)
        self.paused_sec += seconds
        if self.paused_sec >= LAG_SEC:
            self.paused_sec = 0.0
            self.everyone_catches_up()

    def everyone_catches_up(self) -> None:
        for replica in self.replicas:
            replica.catch_up()
        for node in range(NODES):
            self.look(node)


class LaggingReplicaMachine(SyncMachine):
    """The rules of `SyncMachine`, plus replicas that catch up at any time."""

    servers: type[Servers] = Servers
    meter: type[MeterWithFloors] = MeterWithFloors
    service: LaggingReplicaService

    def open_service(self) -> InProcessService:
        return LaggingReplicaService(self.folder, self.parts, self.servers, self.meter)

    @rule(which=st.integers(0, REPLICAS - 1))
    def a_replica_catches_up(self, which: int) -> None:
        self.service.replicas[which].catch_up()

    @rule(node=st.integers(0, NODES - 1))
    def a_node_looks_at_its_servers(self, node: int) -> None:
        self.service.look(node)

    @rule(node=st.integers(0, NODES - 1), order=ORDERS)
    def a_node_prefers_other_replicas(self, node: int, order: list[int]) -> None:
        self.service.views[node].order = order

    @precondition(lambda self: self.readers)
    @rule(which=st.integers(0, 5), replica=st.integers(0, REPLICAS - 1), orders=st.tuples(*[ORDERS] * NODES))
    def a_reader_runs_while_one_replica_is_ahead(self, which: int, replica: int, orders: tuple[list[int], ...]) -> None:
        """One replica has just caught up, so the mark and the pages may come from servers with different horizons."""
        reader = self.readers[which]
        self.the_horizon_is_moved()
        self.a_replica_catches_up(replica)
        for node, order in enumerate(orders):
            self.service.look(node)
            self.service.views[node].order = order
        reader.number = self.number
        reader.finish()

    def load(self, records: list[Json], batch: int = 500) -> None:
        """Load records. History reaches all replicas at once: it has no stamp, so readers that miss it never get it."""
        super().load(records, batch)
        if any(record.get("history") for record in records):
            self.service.everyone_catches_up()

    def quiet(self, reconcile: bool) -> None:
        while self.paused:
            self.a_paused_loader_commits(0)
        self.service.ledger.advance_horizon()
        self.service.everyone_catches_up()
        super().quiet(reconcile)

    def check_members(self, read: Any) -> None:
        """Do nothing: replicas may lack members. Members are compared when all replicas have caught up."""

    def ask(self, path: str, **query: Any) -> Json:
        """Send a request that the primary answers, because the copies are compared with the primary's data."""
        for view in self.service.views:
            view.primary_only = True
        try:
            return super().ask(path, **query)
        finally:
            for view in self.service.views:
                view.primary_only = False
