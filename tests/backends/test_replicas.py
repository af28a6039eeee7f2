"""Tests with several servers: a primary with replicas that lag, die and are promoted. The tests use real servers."""

import signal
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from actors import CHANGED
from counterfoil import bootstrap
from counterfoil.backends.postgres.admin_connections import STATEMENT_SEC
from counterfoil.backends.postgres.key_lookup import PostgresKeyLookup
from counterfoil.backends.postgres.reads import ANSWER_SEC
from counterfoil.backends.postgres.servers import CHECK_TIMEOUT_SEC, Servers
from counterfoil.backends.redis.bridge import SETTLING_MS
from counterfoil.checks.cluster import servers
from counterfoil.domain.access import KEYS_TRUSTED_SEC
from counterfoil.model.calendar import iso_utc
from counterfoil.observe import ServerChanged
from counterfoil.ports import StoreUnavailable
from ports.conftest import Run, run  # noqa: F401 - a fixture
from records import EVER, NEW_YEAR, base, bill, bills, branch, member, shop
from running_service import ManualClock, RunningService
from servers import Postgres, Valkey, address_of
from waiting import until

# These tests start their own servers, which takes time, so they run only in `make test-long`.
pytestmark = pytest.mark.long


class Cluster:
    """A primary, its replicas, a meter, and a service that reads from all the servers."""

    def __init__(self, folder: Path, replicas: int) -> None:
        self.primary = Postgres(18)
        self.database, _ = self.primary.fresh_database()
        self.replicas = [Postgres(18, replica_of=self.primary) for _ in range(replicas)]
        self.meter = Valkey()
        address = address_of(self.database, self.primary, *self.replicas)
        self.service = RunningService(folder, store=address, meter=self.meter.url)

    def close(self) -> None:
        self.service.close()
        for server in (*self.replicas, self.primary, self.meter):
            server.remove()

    def key_to(self, of: dict[str, Any], *records: Any) -> str:
        """Load a shop with its records, issue a key to it, and wait until the replicas have caught up."""
        self.service.load(of, *records)
        key = self.service.key(shop=of["id"], per_min=1000)
        self.settled()
        return key

    def tick(self, seconds: float = 1.0) -> None:
        """Advance the clock, then the horizon."""
        self.service.clock.advance(seconds)
        self.service.ledger.advance_horizon()

    def roles(self) -> dict[str, str]:
        """Return the role of each server as the service sees it, keyed by port."""
        return {
            event.server.rpartition(":")[2]: event.role
            for event in list(self.service.events)
            if isinstance(event, ServerChanged)
        }

    def until_role(self, server: Postgres, role: str) -> None:
        until(lambda: self.roles().get(str(server.port), "").startswith(role), f"{server.port} was {role}")

    def bridged(self) -> None:
        """Wait until the bridge stores every new cursor and the replicas have caught up."""
        until(lambda: self.meter.command(f"EXISTS {self.bridge}:mark") == b":1", "the bridge was marked")
        self.tick(SETTLING_MS / 1000 + 1)
        self.settled()

    def carried_over(self) -> None:
        until(lambda: self.meter.command(f"LLEN {self.bridge}:deferred") == b":0", "everything was written back")

    @property
    def bridge(self) -> str:
        return f"counterfoil:{bootstrap.pseudonyms(self.service.settings).fingerprint()[:12]}:{{bridge}}"

    def fail_over(self) -> None:
        """Promote the first replica."""
        self.replicas[0].promote()
        self.until_role(self.replicas[0], "primary")

    def load_again(self, *records: Any) -> None:
        """Load records twice, because the first load may fail after a failover."""
        with suppress(StoreUnavailable):
            self.service.load(*records)
        self.service.load(*records)

    def settled(self) -> None:
        for replica in self.replicas:
            replica.wait_until_caught_up(self.primary)


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    with closing(Cluster(tmp_path, replicas=getattr(request, "param", 1))) as cluster:
        yield cluster


TWO_REPLICAS = pytest.mark.parametrize("cluster", [2], indirect=True, ids=["two replicas"])


def bill_list(cluster: Cluster, key: str, of: dict[str, Any], **query: Any) -> dict[str, Any]:
    answer = cluster.service.get("transactions", key, shopId=of["id"], **query)
    assert answer.status_code == 200, (answer.text, cluster.service.events[-6:])
    found: dict[str, Any] = answer.json()
    return found


def ids(page: dict[str, Any]) -> list[str]:
    return [row["id"] for row in page["data"]]


def test_a_lagging_replica_gives_an_older_server_time_and_no_gap(cluster: Cluster) -> None:
    of, replica = shop(), cluster.replicas[0]
    first, second = bill(of), bill(of)
    key = cluster.key_to(of, first)
    before = bill_list(cluster, key, of, updatedSince=EVER)
    assert ids(before) == [first["id"]]
    replica.pause_replay()
    cluster.tick()
    cluster.service.load(second)
    behind = bill_list(cluster, key, of, updatedSince=EVER)
    assert ids(behind) == [first["id"]]
    assert behind["serverTime"] == before["serverTime"]
    replica.resume_replay()
    horizon = iso_utc(cluster.service.ledger.advance_horizon())
    until(lambda: cluster.service.get("shops", key).json()["serverTime"] >= horizon, "the horizon was given")
    assert second["id"] in ids(bill_list(cluster, key, of, updatedSince=behind["serverTime"]))


@TWO_REPLICAS
def test_a_later_page_is_read_only_from_a_server_that_has_reached_the_horizon_of_the_first(cluster: Cluster) -> None:
    of = shop()
    key = cluster.key_to(of)
    cluster.replicas[0].pause_replay()
    cluster.tick()
    listed = bills(of, 6)
    cluster.service.load(*listed)
    cluster.replicas[1].wait_until_caught_up(cluster.primary)
    cluster.service.get("shops", key)
    for query in ({"updatedSince": EVER}, NEW_YEAR):
        fresh = [page for _ in range(4) if ids(page := bill_list(cluster, key, of, limit=2, **query))]
        assert fresh, "no page came from the replica that is up to date"
        for page in fresh:
            for _ in range(4):
                after = bill_list(cluster, key, of, limit=2, cursor=page["nextCursor"], **query)
                assert ids(page) + ids(after) == [record["id"] for record in listed[:4]]


def test_the_primary_is_asked_for_rows_that_a_replica_does_not_have_yet(cluster: Cluster) -> None:
    sister, replica = branch(), cluster.replicas[0]
    cluster.service.load(sister)
    cluster.settled()
    replica.pause_replay()
    # The replica has the franchise, but not yet this branch or its base.
    of = branch(franchiseId=sister["franchiseId"])
    early, late = bills(of, 2)
    person = member(of)
    cluster.service.load(of, early, late, person)
    key = cluster.service.key(franchise=of["franchiseId"], per_min=1000)
    assert cluster.service.get(f"transactions/{early['id']}", key).status_code == 200
    assert cluster.service.get(f"members/{cluster.service.token(person['id'])}", key).status_code == 200
    # A new key first gets the primary's horizon, and never gets an older horizon afterwards.
    assert ids(bill_list(cluster, key, of, **NEW_YEAR)) == [early["id"], late["id"]]
    assert cluster.service.error("transactions/nobody", key) == "not_found"
    assert cluster.service.error("transactions", key, shopId=of["id"], cursor="nobody", **NEW_YEAR) == "bad_cursor"


def test_a_replica_that_is_too_far_behind_is_left_out_until_it_has_caught_up(cluster: Cluster) -> None:
    of, replica = shop(), cluster.replicas[0]
    key = cluster.key_to(of)
    cluster.service.get("shops", key)
    cluster.until_role(replica, "replica")
    replica.pause_replay()
    cluster.service.load(bill(of))
    assert ids(bill_list(cluster, key, of, updatedSince=EVER)) == []
    cluster.tick(cluster.service.settings.replica_lag_ms / 1000 + 1)
    cluster.until_role(replica, "behind")
    assert len(ids(bill_list(cluster, key, of, updatedSince=EVER))) == 1
    replica.resume_replay()
    until(lambda: cluster.roles()[str(replica.port)] == "replica", "the replica was read again")


def test_a_replica_that_dies_causes_no_failed_request_and_is_used_again_after_its_return(cluster: Cluster) -> None:
    of, replica = shop(), cluster.replicas[0]
    key = cluster.key_to(of, bill(of))
    bill_list(cluster, key, of, updatedSince=EVER)
    replica.kill()
    for _ in range(10):
        assert len(ids(bill_list(cluster, key, of, updatedSince=EVER))) == 1
    cluster.until_role(replica, "away")
    replica.start()
    cluster.until_role(replica, "replica")


def test_a_replica_that_freezes_delays_a_read_only_briefly(cluster: Cluster) -> None:
    of, replica = shop(), cluster.replicas[0]
    key = cluster.key_to(of, bill(of))
    bill_list(cluster, key, of, updatedSince=EVER)
    replica.freeze_all(signal.SIGSTOP)
    began = time.monotonic()
    assert len(ids(bill_list(cluster, key, of, updatedSince=EVER))) == 1
    assert time.monotonic() - began < 4 * CHECK_TIMEOUT_SEC
    cluster.until_role(replica, "away")
    began = time.monotonic()
    assert len(ids(bill_list(cluster, key, of, updatedSince=EVER))) == 1
    assert time.monotonic() - began < CHECK_TIMEOUT_SEC
    replica.freeze_all(signal.SIGCONT)
    cluster.until_role(replica, "replica")


def test_without_a_primary_keys_stay_valid_for_the_documented_delay_of_a_revocation(cluster: Cluster) -> None:
    of = shop()
    key = cluster.key_to(of, bill(of))
    bill_list(cluster, key, of, updatedSince=EVER)
    cluster.primary.kill()
    cluster.until_role(cluster.primary, "away")
    cluster.service.clock.advance(KEYS_TRUSTED_SEC - 1)
    assert len(ids(bill_list(cluster, key, of, updatedSince=EVER))) == 1
    # Advance by more than a second: several loads in one millisecond can put the horizon ahead of the clock.
    cluster.service.clock.advance(1.5)
    assert cluster.service.error("shops", key) == "auth_unavailable"
    cluster.fail_over()
    assert len(ids(bill_list(cluster, key, of, updatedSince=EVER))) == 1


def test_keys_read_from_a_replica_count_only_if_its_horizon_proves_them_recent(cluster: Cluster, run: Run) -> None:  # noqa: F811
    """The node cannot reach the primary, but it can reach a replica that follows the primary."""
    clock, replica = ManualClock(), cluster.replicas[0]
    key_id = cluster.service.key(shop="s").split("_")[2]
    cluster.tick()
    cluster.settled()
    nowhere = Postgres(18)
    nowhere.kill()
    clock.advance(1)
    servers = Servers(address_of(cluster.database, nowhere, replica), clock, now_ms=clock.now_ms)
    ring = PostgresKeyLookup(servers, clock)
    assert run(ring.find(key_id)).key.revoked_at is None
    replica.pause_replay()
    revoked_at = cluster.service.clock.now_ms()
    cluster.service.key_store.change(key_id, lambda key: replace(key, revoked_at=revoked_at), *CHANGED)
    clock.advance(KEYS_TRUSTED_SEC - 1)
    assert run(ring.find(key_id)).key.revoked_at is None
    clock.advance(1)
    with pytest.raises(StoreUnavailable):
        run(ring.find(key_id))
    replica.resume_replay()
    cluster.tick(KEYS_TRUSTED_SEC)
    cluster.settled()
    assert run(ring.find(key_id)).key.revoked_at == revoked_at
    servers.close()
    nowhere.remove()


# --- without a primary, and after a failover ---------------------------------------


def test_a_pass_continues_without_a_primary_and_with_the_next_one(cluster: Cluster) -> None:
    of = shop()
    listed = bills(of, 9)
    cluster.service.load(of, *listed)
    key = cluster.service.key(shop=of["id"], per_min=1000)
    query = {"updatedSince": EVER, "limit": 2}
    bill_list(cluster, key, of, **query)
    cluster.bridged()
    pages = [bill_list(cluster, key, of, **query)]
    cluster.primary.kill()
    for _ in range(2):
        pages.append(bill_list(cluster, key, of, cursor=pages[-1]["nextCursor"], **query))
    cluster.fail_over()
    # The bill whose ID is the cursor moves to the end. The bills after its old position must not be skipped.
    cluster.load_again(listed[5] | {"receiptNumber": "R-2"})
    cluster.carried_over()
    for forgotten in (False, True):
        if forgotten:
            cluster.meter.command("FLUSHALL")
        after = bill_list(cluster, key, of, cursor=pages[-1]["nextCursor"], **query)
        read = [identity for page in (*pages, after) for identity in ids(page)]
        assert read == [record["id"] for record in listed[:8]]
        assert after["serverTime"] == pages[0]["serverTime"]


def test_a_cursor_that_no_replica_has_yet_is_found_without_the_primary_or_refused(cluster: Cluster) -> None:
    of = shop()
    listed = bills(of, 5)
    cluster.service.load(of, *listed)
    key = cluster.service.key(shop=of["id"], per_min=1000)
    query = {"limit": 2, **NEW_YEAR}
    bill_list(cluster, key, of, **query)
    cluster.bridged()
    cluster.replicas[0].pause_replay()
    page = bill_list(cluster, key, of, **query)
    cluster.primary.kill()
    after = bill_list(cluster, key, of, cursor=page["nextCursor"], **query)
    assert ids(page) + ids(after) == [record["id"] for record in listed[:4]]
    # After this, no server that the service can reach has the cursor or the floor of the key.
    cluster.meter.command("FLUSHALL")
    asked = {"shopId": of["id"], "cursor": page["nextCursor"], **query}
    assert cluster.service.error("transactions", key, **asked) == "auth_unavailable"


def test_personal_data_is_returned_without_a_primary_once_the_disclosure_is_recorded(cluster: Cluster) -> None:
    of = branch()
    cluster.service.load(of, base(of), member(of))
    key = cluster.service.key(shop=of["id"], per_min=1000, personal_data=True)
    cluster.settled()
    cluster.service.get("shops", key)
    cluster.primary.kill()
    assert cluster.service.data("members", key, providerId=of["providerId"])[0]["tel"]
    cluster.fail_over()
    cluster.carried_over()
    recorded = cluster.replicas[0].command(
        "SELECT personal_members FROM counterfoil.requests WHERE personal_base IS NOT NULL", cluster.database
    )
    assert recorded == [(1,)]


def test_readiness_reports_each_server_and_a_frozen_one_delays_it_only_briefly(cluster: Cluster) -> None:
    cluster.tick()
    cluster.settled()
    cluster.primary.freeze_all(signal.SIGSTOP)
    look = bootstrap.store(cluster.service.settings).reads()
    began = time.monotonic()
    assert look.problems() == {"store": None}
    assert look.horizon() == cluster.service.clock.now_ms()
    assert [server.role.value for server in look.servers()] == ["away", "replica"]
    assert time.monotonic() - began < 3 * 2 * ANSWER_SEC
    cluster.primary.freeze_all(signal.SIGCONT)
    assert [server.role.value for server in look.servers()] == ["primary", "replica"]


def test_the_doctor_names_each_server_and_warns_about_an_unavailable_one(cluster: Cluster) -> None:
    def told() -> list[tuple[str, str]]:
        service = cluster.service.settings
        seen = servers(bootstrap.store(service).reads().servers(), service.replica_lag_ms)
        return [(found.status, str(found.message).split(" ", 1)[1]) for found in seen]

    cluster.tick()
    cluster.replicas[0].wait_until_caught_up(cluster.primary)
    assert told() == [("ok", "is the primary."), ("ok", "is a replica, 0 ms behind.")]
    cluster.replicas[0].pause_replay()
    cluster.tick(60)
    assert told()[1] == ("warn", "is 60.0 s behind, so no reads are sent to it.")
    cluster.replicas[0].resume_replay()
    cluster.primary.kill()
    (away, *_, conclusion) = told()
    assert away == ("warn", "does not respond.")
    assert conclusion[0] == "fail"


def test_a_primary_that_freezes_does_not_hold_back_the_horizon_of_the_next(cluster: Cluster) -> None:
    cluster.tick()
    cluster.settled()
    cluster.primary.freeze_all(signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(StoreUnavailable):
        cluster.service.ledger.advance_horizon()
    assert time.monotonic() - began < 2 * STATEMENT_SEC
    cluster.replicas[0].promote()
    cluster.service.clock.advance(1)
    assert cluster.service.ledger.advance_horizon() == cluster.service.clock.now_ms()


@TWO_REPLICAS
def test_a_new_primary_continues_from_the_highest_reported_horizon(cluster: Cluster) -> None:
    behind, ahead = cluster.replicas
    of = shop()
    key = cluster.key_to(of)
    cluster.service.get("shops", key)
    behind.pause_replay()
    behind.command("ALTER SYSTEM SET primary_conninfo = ''")
    behind.command("SELECT pg_reload_conf()")
    cluster.tick(3)
    ahead.wait_until_caught_up(cluster.primary)
    given_out = max(cluster.service.get("shops", key).json()["serverTime"] for _ in range(4))
    cluster.primary.kill()
    behind.resume_replay()
    cluster.fail_over()
    until(
        lambda: horizon_of(behind, cluster.database) == horizon_of(ahead, cluster.database), "the new primary caught up"
    )
    # New stamps must be above every reported horizon, even if the clock steps back.
    cluster.service.clock.step(-60)
    cluster.load_again(bill(of))
    # The other replica does not follow the new primary, so it falls behind.
    cluster.tick(120)
    cluster.until_role(ahead, "behind")
    assert len(ids(bill_list(cluster, key, of, updatedSince=given_out))) == 1


def horizon_of(server: Postgres, database: str) -> int:
    return int(server.command("SELECT at FROM counterfoil.horizon", database)[0][0])
