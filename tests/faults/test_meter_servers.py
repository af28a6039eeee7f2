"""The meter behind sentinels, in a cluster, and over TLS. If its primary is killed, nodes find the new primary."""

import ssl
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from faults.http_clients import RepeatingClient
from faults.multi_node import MultiNodeDeployment, Node
from faults.proxy import Proxy
from servers import Valkey
from waiting import until

pytestmark = pytest.mark.long

SLOTS = 16_384
KEYS = 12


@pytest.fixture
def started() -> Iterator[list[Valkey]]:
    """A list to which a test adds the servers that it starts. They are stopped and deleted after the test."""
    started: list[Valkey] = []
    yield started
    for server in started:
        server.remove()


def replica_of(primary: Valkey, *settings: str) -> Valkey:
    replica = Valkey("--replicaof", f"127.0.0.1 {primary.port}", *settings)
    until(lambda: b"master_link_status:up" in replica.everything("INFO replication"), "the replica followed")
    return replica


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
    started.append(replica_of(multi_node.valkey))
    sentinel = Valkey(sentinel_of=multi_node.valkey)
    started.append(sentinel)
    sentinel.command("SENTINEL SET meter down-after-milliseconds 500")
    until(lambda: b"slaves=1" in sentinel.everything("INFO sentinel"), "the sentinel knew the replica")
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
        until(lambda s=server: b"cluster_known_nodes:6" in s.everything("CLUSTER INFO"), "all had joined")  # type: ignore[misc]
    for primary, replica in zip(primaries, replicas, strict=True):
        name = primary.everything("CLUSTER MYID").decode().split()[1]
        replica.command(f"CLUSTER REPLICATE {name}")
        until(lambda r=replica: b"master_link_status:up" in r.everything("INFO replication"), "the replica synced")  # type: ignore[misc]
    for server in servers:
        until(lambda s=server: b"cluster_state:ok" in s.everything("CLUSTER INFO"), "the cluster was whole")  # type: ignore[misc]
    return primaries


def test_over_tls_only_a_server_with_a_trusted_certificate_is_accepted(
    multi_node: MultiNodeDeployment, tmp_path: Path
) -> None:
    certificate, private = tmp_path / "certificate.pem", tmp_path / "private.pem"
    make_certificate(certificate, private)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, private)
    proxy = Proxy(multi_node.valkey.port, tls)
    try:
        address = f"rediss://127.0.0.1:{proxy.port}/0"
        trusting = multi_node.node(meter=f"{address}?ssl_ca_certs={certificate}")
        assert trusting.client().ask("shops").status == 200
        doubting = multi_node.node(meter=address)
        assert doubting.client().ask("shops").error == "auth_unavailable"
    finally:
        proxy.close()


def make_certificate(certificate: Path, private: Path) -> None:
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    names = ["-subj", "/CN=meter", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    files = ["-keyout", str(private), "-out", str(certificate)]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
