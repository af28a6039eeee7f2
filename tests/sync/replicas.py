"""Simulates several servers with different horizons in this process: lagging copies of the books, and two nodes.

`tests/backends/test_given_horizons.py` tests the rule for floors on real meters.
Here the whole service applies that rule, and Hypothesis chooses the order in which
servers are queried.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from msgspec.structs import replace

from counterfoil.backends.sqlite.books import SqliteBooks
from counterfoil.backends.sqlite.files import path_of, read_only
from counterfoil.domain.access import Admitted, Key, Scope, TooFast
from counterfoil.domain.change_feed import FeedPage, FeedPosition, Window
from counterfoil.domain.day_totals import DigestPage, ShopDay
from counterfoil.domain.paging import Position
from counterfoil.ports import AccountList, BillPage, FoundBill, FoundMember, MemberPage, Meter, ServingPorts, ShopList
from sync.in_process import InProcessService, Json, Reply, StoreParts
from sync.state_machine import SyncMachine

REPLICAS = 2
NODES = 2
ORDERS = st.permutations(range(REPLICAS))

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
    """The store as a node reads it: each read goes to one server.

    If a shop, base, bill or member was not found there, the primary is asked too.
    """

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    async def horizon(self) -> int:
        return await self._servers.first(lambda books: books.horizon(), 0)

    async def shops(self, scope: Scope, reached: int = 0) -> ShopList:
        return await self._servers.first(lambda books: books.shops(scope), reached)

    async def has_shop(self, scope: Scope, shop_id: str, reached: int = 0) -> bool:
        return await self._servers.found(lambda books: books.has_shop(scope, shop_id), reached)

    async def covers(self, scope: Scope, provider_id: str, reached: int = 0) -> bool:
        return await self._servers.found(lambda books: books.covers(scope, provider_id), reached)

    async def bills_by_day(
        self, scope: Scope, shop_id: str, first: date, last: date, after: Position | None, limit: int, reached: int = 0
    ) -> BillPage | None:
        def ask(books: SqliteBooks) -> Awaitable[BillPage | None]:
            return books.bills_by_day(scope, shop_id, first, last, after, limit)

        return await self._servers.found(ask, reached)

    async def bills_by_change(
        self,
        scope: Scope,
        shop_id: str,
        since: int,
        until: int | None,
        after: Position | None,
        limit: int,
        reached: int = 0,
    ) -> BillPage | None:
        def ask(books: SqliteBooks) -> Awaitable[BillPage | None]:
            return books.bills_by_change(scope, shop_id, since, until, after, limit)

        return await self._servers.found(ask, reached)

    async def changes(
        self, scope: Scope, window: Window, after: FeedPosition | None, limit: int, reached: int = 0
    ) -> FeedPage:
        def ask(books: SqliteBooks) -> Awaitable[FeedPage]:
            return books.changes(scope, window, after, limit)

        return await self._servers.first(ask, max(reached, window.until))

    async def digests(
        self,
        scope: Scope,
        shop_id: str | None,
        days: tuple[int, int],
        after: ShopDay | None,
        limit: int,
        reached: int = 0,
    ) -> DigestPage:
        return await self._servers.first(lambda books: books.digests(scope, shop_id, days, after, limit), reached)

    async def bill(self, scope: Scope, bill_id: str, reached: int = 0) -> FoundBill | None:
        return await self._servers.found(lambda books: books.bill(scope, bill_id), reached)

    async def members(self, provider_id: str, after: Position | None, limit: int, reached: int = 0) -> MemberPage:
        return await self._servers.found(lambda books: books.members(provider_id, after, limit), reached)

    async def member(self, scope: Scope, token: str, reached: int = 0) -> FoundMember | None:
        return await self._servers.found(lambda books: books.member(scope, token), reached)

    async def accounts(self, provider_id: str, messaging_hash: str, reached: int = 0) -> AccountList:
        return await self._servers.first(lambda books: books.accounts(provider_id, messaging_hash), reached)


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

    servers: type[Servers] = Servers
    meter: type[MeterWithFloors] = MeterWithFloors

    def __init__(self, folder: Path, parts: StoreParts) -> None:
        super().__init__(folder, parts)
        given: dict[str, int] = {}
        store = Path(self.settings.store)
        self.replicas = [Replica(store, folder / f"replica-{number}") for number in range(REPLICAS)]
        self.views = [self.servers(self.books, self.replicas) for _ in range(NODES)]
        self.apps = [self.application(self._node(view, given)) for view in self.views]
        self.turn = 0

    def _open(self, parts: StoreParts) -> ServingPorts:
        self._served = super()._open(parts)
        return self._served

    def _node(self, view: Servers, given: dict[str, int]) -> ServingPorts:
        return replace(self._served, books=LaggingBooks(view), meter=self.meter(self._served.meter, view, given))

    def close(self) -> None:
        for replica in self.replicas:
            replica.close()
        super().close()

    def answer(self, path: str, query: str, headers: dict[str, str]) -> Reply:
        """Return the response of the next node. `turn` is the node that answered last; a test may set it."""
        self.turn = (self.turn + 1) % NODES
        self.app = self.apps[self.turn]
        return super().answer(path, query, headers)

    def look(self, node: int) -> None:
        self._loop.run_until_complete(self.views[node].look())

    def everyone_catches_up(self) -> None:
        for replica in self.replicas:
            replica.catch_up()
        for node in range(NODES):
            self.look(node)


class LaggingReplicaMachine(SyncMachine):
    """The rules of `SyncMachine`, plus replicas that catch up at any time."""

    lagging: type[LaggingReplicaService] = LaggingReplicaService
    service: LaggingReplicaService

    def open_service(self) -> InProcessService:
        return self.lagging(self.folder, self.parts)

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
