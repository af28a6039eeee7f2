"""Several servers: a primary with replicas that lag, die and take its place. Real servers, real replication."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from counterfoil.backends.postgres.keys import BRIDGE_SEC, PostgresKeyRing
from counterfoil.backends.postgres.servers import LOOK_SEC, Servers
from counterfoil.observe.events import ServerChanged
from counterfoil.ports import StoreUnavailable
from house import House, MovableClock
from records import EVER, NEW_YEAR, bill, bills, branch, member, shop
from servers import Postgres, Valkey, address_of

# Needs real servers: `make test-long`.
pytestmark = pytest.mark.long

PATIENCE_SEC = 15.0
Run = Callable[[Awaitable[Any]], Any]


class Cluster:
    """A primary, its replicas, a meter, and a service that reads from all of them."""

    def __init__(self, folder: Path, replicas: int = 1, **overrides: Any) -> None:
        self.primary = Postgres(18)
        database, _ = self.primary.fresh_database()
        self.database = database
        self.replicas = [Postgres(18, replica_of=self.primary) for _ in range(replicas)]
        self.meter = Valkey()
        address = address_of(database, self.primary, *self.replicas)
        self.house = House(folder, store=address, meter=self.meter.url, **overrides)

    def close(self) -> None:
        self.house.close()
        for server in (*self.replicas, self.primary, self.meter):
            server.remove()

    def load(self, *records: Any) -> None:
        self.house.load(*records)

    def tick(self, seconds: float = 1.0) -> None:
        """Time goes by, and the horizon with it."""
        self.house.clock.advance(seconds)
        self.house.ledger.advance_horizon()

    def roles(self) -> dict[str, str]:
        """What the service takes each server for, by its port."""
        return {
            event.server.rpartition(":")[2]: event.role
            for event in list(self.house.events)
            if isinstance(event, ServerChanged)
        }

    def until(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE_SEC
        while not holds():
            assert time.monotonic() < end, f"it took too long until {what}: {self.roles()}"

    def until_role(self, server: Postgres, role: str) -> None:
        self.until(lambda: self.roles().get(str(server.port), "").startswith(role), f"{server.port} was {role}")

    def settled(self) -> None:
        for replica in self.replicas:
            replica.caught_up(self.primary)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.close()


@pytest.fixture
def run() -> Iterator[Run]:
    with asyncio.Runner() as runner:

        async def awaited(awaitable: Awaitable[Any]) -> Any:
            return await awaitable

        yield lambda awaitable: runner.run(awaited(awaitable))


def bill_list(cluster: Cluster, key: str, of: dict[str, Any], **query: Any) -> dict[str, Any]:
    answer = cluster.house.get("transactions", key, shopId=of["id"], **query)
    assert answer.status_code == 200, (answer.text, cluster.house.events[-6:])
    found: dict[str, Any] = answer.json()
    return found


def ids(page: dict[str, Any]) -> list[str]:
    return [row["id"] for row in page["data"]]


def test_a_replica_that_is_behind_gives_an_older_server_time_and_no_hole(cluster: Cluster) -> None:
    of, replica = shop(), cluster.replicas[0]
    first, second = bill(of), bill(of)
    cluster.load(of, first)
    key = cluster.house.key(shop=of["id"])
    cluster.settled()
    before = bill_list(cluster, key, of, updatedSince=EVER)
    assert ids(before) == [first["id"]]
    replica.hold()
    cluster.tick()
    cluster.load(second)
    behind = bill_list(cluster, key, of, updatedSince=EVER)
    assert ids(behind) == [first["id"]]
    assert behind["serverTime"] == before["serverTime"]
    replica.let_go()
    cluster.settled()
    assert second["id"] in ids(bill_list(cluster, key, of, updatedSince=behind["serverTime"]))


def test_a_later_page_of_a_walk_comes_only_from_a_server_that_has_reached_its_first(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, replicas=2)
    of = shop()
    cluster.load(of)
    key = cluster.house.key(shop=of["id"], per_min=1000)
    cluster.settled()
    cluster.replicas[0].hold()
    cluster.tick()
    listed = bills(of, 6)
    cluster.load(*listed)
    cluster.replicas[1].caught_up(cluster.primary)
    cluster.house.get("shops", key)
    for query in ({"updatedSince": EVER}, NEW_YEAR):
        fresh = [page for _ in range(4) if ids(page := bill_list(cluster, key, of, limit=2, **query))]
        assert fresh, "no page came from the replica that is up to date"
        for page in fresh:
            for _ in range(4):
                after = bill_list(cluster, key, of, limit=2, cursor=page["nextCursor"], **query)
                assert ids(page) + ids(after) == [record["id"] for record in listed[:4]]
    cluster.close()


def test_what_a_replica_does_not_have_yet_is_asked_of_the_primary(cluster: Cluster) -> None:
    of, replica = branch(), cluster.replicas[0]
    cluster.load(shop())
    cluster.settled()
    replica.hold()
    early, late = bills(of, 2)
    person = member(of)
    cluster.load(of, early, late, person)
    key = cluster.house.key(franchise=of["franchiseId"], per_min=1000)
    assert cluster.house.get(f"transactions/{early['id']}", key).status_code == 200
    assert cluster.house.get(f"members/{cluster.house.token(person['id'])}", key).status_code == 200
    # The list itself is as old as the replica, and says so; the shop and the cursor are known all the same.
    page = bill_list(cluster, key, of, cursor=early["id"], **NEW_YEAR)
    assert ids(page) == []
    assert cluster.house.error("transactions/nobody", key) == "not_found"
    assert cluster.house.error("transactions", key, shopId=of["id"], cursor="nobody", **NEW_YEAR) == "bad_cursor"


def test_a_replica_that_is_too_far_behind_is_left_out_until_it_has_caught_up(cluster: Cluster) -> None:
    of, replica = shop(), cluster.replicas[0]
    cluster.load(of)
    key = cluster.house.key(shop=of["id"], per_min=1000)
    cluster.settled()
    cluster.house.get("shops", key)
    cluster.until_role(replica, "replica")
    replica.hold()
    cluster.load(bill(of))
    assert ids(bill_list(cluster, key, of, updatedSince=EVER)) == []
    cluster.tick(cluster.house.settings.replica_lag_ms / 1000 + 1)
    cluster.until_role(replica, "replica left out")
    assert len(ids(bill_list(cluster, key, of, updatedSince=EVER))) == 1
    replica.let_go()
    cluster.until(lambda: cluster.roles()[str(replica.port)] == "replica", "the replica was read again")


def test_a_replica_that_dies_costs_no_request_and_comes_back_by_itself(cluster: Cluster) -> None:
    of, replica = shop(), cluster.replicas[0]
    cluster.load(of, bill(of))
    key = cluster.house.key(shop=of["id"], per_min=1000)
    cluster.settled()
    bill_list(cluster, key, of, updatedSince=EVER)
    replica.kill()
    for _ in range(10):
        assert len(ids(bill_list(cluster, key, of, updatedSince=EVER))) == 1
    cluster.until_role(replica, "away")
    replica.start()
    cluster.until_role(replica, "replica")


def test_a_replica_that_freezes_holds_a_read_up_for_a_moment_only(cluster: Cluster) -> None:
    of, replica = shop(), cluster.replicas[0]
    cluster.load(of, bill(of))
    key = cluster.house.key(shop=of["id"], per_min=1000)
    cluster.settled()
    bill_list(cluster, key, of, updatedSince=EVER)
    replica.freeze_all(signal.SIGSTOP)
    began = time.monotonic()
    assert len(ids(bill_list(cluster, key, of, updatedSince=EVER))) == 1
    assert time.monotonic() - began < 4 * LOOK_SEC
    cluster.until_role(replica, "away")
    began = time.monotonic()
    assert len(ids(bill_list(cluster, key, of, updatedSince=EVER))) == 1
    assert time.monotonic() - began < LOOK_SEC
    replica.freeze_all(signal.SIGCONT)
    cluster.until_role(replica, "replica")


def test_while_the_primary_is_away_keys_hold_as_long_as_a_revocation_may_take(cluster: Cluster) -> None:
    of = shop()
    cluster.load(of, bill(of))
    key = cluster.house.key(shop=of["id"], per_min=1000)
    cluster.settled()
    bill_list(cluster, key, of, updatedSince=EVER)
    cluster.primary.kill()
    cluster.until_role(cluster.primary, "away")
    cluster.house.clock.advance(BRIDGE_SEC - 1)
    assert len(ids(bill_list(cluster, key, of, updatedSince=EVER))) == 1
    # Loads within one millisecond put the horizon a few ahead of the clock.
    cluster.house.clock.advance(1.5)
    assert cluster.house.error("shops", key) == "auth_unavailable"
    cluster.replicas[0].promote()
    cluster.until_role(cluster.replicas[0], "primary")
    assert len(ids(bill_list(cluster, key, of, updatedSince=EVER))) == 1


def test_keys_of_a_replica_count_as_far_as_its_horizon_proves_them_new(cluster: Cluster, run: Run) -> None:
    """A node that is cut off from the primary alone, and a replica that is not."""
    clock, replica = MovableClock(), cluster.replicas[0]
    key_id = cluster.house.key(shop="s").split("_")[2]
    cluster.tick()
    cluster.settled()
    nowhere = Postgres(18)
    nowhere.kill()
    clock.advance(1)
    servers = Servers(address_of(cluster.database, nowhere, replica), clock, now_ms=clock.now_ms)
    ring = PostgresKeyRing(servers, clock)
    assert run(ring.find(key_id)).key.revoked_at is None
    replica.hold()
    revoked_at = cluster.house.clock.now_ms()
    cluster.house.cabinet.change(key_id, lambda key: replace(key, revoked_at=revoked_at))
    clock.advance(BRIDGE_SEC - 1)
    assert run(ring.find(key_id)).key.revoked_at is None
    clock.advance(1)
    with pytest.raises(StoreUnavailable):
        run(ring.find(key_id))
    replica.let_go()
    cluster.tick(BRIDGE_SEC)
    cluster.settled()
    assert run(ring.find(key_id)).key.revoked_at == revoked_at
    servers.close()
    nowhere.remove()
