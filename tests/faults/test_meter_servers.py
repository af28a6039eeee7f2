"""The meter behind sentinels, in a cluster and over TLS, and after it has lost data.

If its primary is killed, nodes find the new primary. If counts are lost, counting continues from the store.
"""

import ssl
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from certificates import make_certificate
from faults.http_clients import RepeatingClient
from faults.multi_node import MultiNodeDeployment, Node
from faults.proxy import Proxy
from servers import Valkey
from waiting import until

pytestmark = pytest.mark.long

SLOTS = 16_384
KEYS = 12
PER_DAY = 12


@pytest.fixture
def started() -> Iterator[list[Valkey]]:
    """A list to which a test adds the servers that it starts. They are stopped and deleted after the test."""
    started: list[Valkey] = []
    yield started
    for server in started:
        server.remove()


def until_told(server: Valkey, command: str, expected: bytes) -> None:
    until(lambda: expected in server.everything(command), f"{command} contains {expected.decode()}")


def assert_it_survives(multi_node: MultiNodeDeployment, node: Node, doomed: Valkey) -> None:
    """Kill the primary under load. Until another server takes over, no request is admitted, and none hangs."""
    with RepeatingClient(node.port, multi_node.key(), "shops", every_sec=0.02) as caller:
        until(lambda: len(caller.seen) > 20, "requests were being answered")
        doomed.kill()
        until(lambda: caller.seen[-1].status == 503, "the loss was noticed")
        until(lambda: caller.seen[-1].status == 200, "the new primary was found")
    assert {call.status for call in caller.seen} == {200, 503}
    assert max(call.took for call in caller.seen) < 3
    answered = sum(call.status == 200 for call in caller.seen)
    counted = node.client().ask("usage").data["today"]["count"]
    # Counts that a replica had not received when its primary died are lost: at most those of the last second.
    assert counted > 20
    assert counted <= answered + sum(call.status == 503 for call in caller.seen) + 1


def test_after_a_failure_sentinels_name_the_next_primary(
    multi_node: MultiNodeDeployment, started: list[Valkey]
) -> None:
    replica = Valkey("--replicaof", f"127.0.0.1 {multi_node.valkey.port}")
    sentinel = Valkey(sentinel_of=multi_node.valkey)
    started += [replica, sentinel]
    until_told(replica, "INFO replication", b"master_link_status:up")
    sentinel.command("SENTINEL SET meter down-after-milliseconds 500")
    until_told(sentinel, "INFO sentinel", b"slaves=1")
    node = multi_node.node(meter=f"redis+sentinel://127.0.0.1:{sentinel.port}/meter/0")
    assert_it_survives(multi_node, node, multi_node.valkey)


def test_a_valkey_cluster_survives_the_loss_of_a_primary(
    multi_node: MultiNodeDeployment, started: list[Valkey]
) -> None:
    primaries = make_cluster(started)
    for number in range(KEYS):
        multi_node.issue(f"k{number}", per_min=5, per_day=1000)
    node = multi_node.node(meter=f"redis+cluster://127.0.0.1:{primaries[0].port},127.0.0.1:{primaries[1].port}")
    for number in range(KEYS):
        client = node.client(f"k{number}")
        assert [client.ask("shops").status for _ in range(7)] == [200] * 5 + [429] * 2
    # Several primaries hold data. All data for one API key is in the same slot, so one primary holds it.
    assert sum(int(primary.command("DBSIZE")[1:]) > 0 for primary in primaries) > 1
    holder = next(server for server in primaries if owns(server, multi_node))
    assert_it_survives(multi_node, node, holder)


def owns(server: Valkey, multi_node: MultiNodeDeployment) -> bool:
    """Return whether the server holds the slot of the key that `assert_it_survives` uses."""
    tag = multi_node.key().split("_")[2]
    slot = int(server.command(f"CLUSTER KEYSLOT {{{tag}}}")[1:])
    mine = next(line for line in server.everything("CLUSTER NODES").decode().splitlines() if "myself" in line)
    return any(int(part.split("-")[0]) <= slot <= int(part.split("-")[-1]) for part in mine.split()[8:])


def make_cluster(started: list[Valkey]) -> list[Valkey]:
    """Start three primaries, each with a replica; return the primaries."""
    terms = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1000")
    servers = [Valkey(*terms) for _ in range(6)]
    started.extend(servers)
    primaries, replicas = servers[:3], servers[3:]
    bounds = [number * SLOTS // 3 for number in range(4)]
    for primary, (first, end) in zip(primaries, pairwise(bounds), strict=True):
        primary.command(f"CLUSTER ADDSLOTSRANGE {first} {end - 1}")
    for server in servers[1:]:
        servers[0].command(f"CLUSTER MEET 127.0.0.1 {server.port}")
    for server in servers:
        until_told(server, "CLUSTER INFO", b"cluster_known_nodes:6")
    for primary, replica in zip(primaries, replicas, strict=True):
        name = primary.everything("CLUSTER MYID").decode().split()[1]
        replica.command(f"CLUSTER REPLICATE {name}")
        until_told(replica, "INFO replication", b"master_link_status:up")
    for server in servers:
        until_told(server, "CLUSTER INFO", b"cluster_state:ok")
    return primaries


def test_over_tls_only_a_server_with_a_trusted_certificate_is_accepted(
    multi_node: MultiNodeDeployment, tmp_path: Path
) -> None:
    certificate, private = tmp_path / "certificate.pem", tmp_path / "private.pem"
    make_certificate(certificate, private)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, private)
    with closing(Proxy(multi_node.valkey.port, tls)) as proxy:
        address = f"rediss://127.0.0.1:{proxy.port}/0"
        trusting = multi_node.node(meter=f"{address}?ssl_ca_certs={certificate}")
        assert trusting.client().ask("shops").status == 200
        doubting = multi_node.node(meter=address)
        assert doubting.client().ask("shops").error == "auth_unavailable"


# --- lost data -------------------------------------------------------------------------


def spend(node: Node, times: int) -> list[tuple[int, str | None]]:
    client = node.client("counted")
    return [(call.status, call.error) for call in (client.ask("shops") for _ in range(times))]


def stored_count(multi_node: MultiNodeDeployment) -> int:
    """Return the total of the counts that have reached the store."""
    ((total,),) = multi_node.postgres.command(
        "SELECT coalesce(sum(count), 0) FROM counterfoil.daily_totals", multi_node.database
    )
    return int(total)


def test_a_meter_that_lost_its_data_while_the_store_is_unavailable_admits_nobody(
    multi_node: MultiNodeDeployment,
) -> None:
    multi_node.issue("counted", per_min=1000, per_day=PER_DAY)
    node = multi_node.node()
    spend(node, 5)
    until(lambda: stored_count(multi_node) == 5, "the counts had reached the store")
    node.store_proxy.cut()
    multi_node.valkey.command("FLUSHALL")
    assert spend(node, 3) == [(503, "auth_unavailable")] * 3
    node.store_proxy.restore()
    until(lambda: spend(node, 1) == [(200, None)], "the store was found again")
    assert node.client("counted").ask("usage").data["today"]["count"] >= 7


def test_a_meter_restarted_from_an_old_snapshot_is_updated_from_the_store(multi_node: MultiNodeDeployment) -> None:
    """By default, Valkey writes snapshots, and after a crash it continues from the last snapshot."""
    multi_node.issue("counted", per_min=100_000, per_day=100_000)
    node = multi_node.node()
    spend(node, 3)
    multi_node.valkey.command("SAVE")
    spend(node, 200)
    until(lambda: stored_count(multi_node) == 203, "the counts had reached the store")
    multi_node.valkey.kill()
    multi_node.valkey.start()
    until(lambda: spend(node, 1) == [(200, None)], "the meter was found again")
    until(lambda: node.running.metric("counts_reseeded_total") == 1, "the meter was updated from the store")
    assert int(multi_node.valkey.everything(f"HVALS {days_of(multi_node)}").split()[-1]) >= 203


def days_of(multi_node: MultiNodeDeployment) -> str:
    """Return the Valkey key under which the meter stores the day counts."""
    names = multi_node.valkey.everything("KEYS *:days").decode().split()
    return next(name for name in names if name.endswith(":days"))
