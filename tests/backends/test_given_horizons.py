"""No key is given an older horizon than before, even after rotation, on another node, or if the meter has lost data.

The tests use real servers.
"""

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import closing

import pytest
from msgspec.structs import replace

import servers
from counterfoil.backends.postgres.servers import Servers
from counterfoil.backends.postgres.usage import PostgresUsage
from counterfoil.backends.redis.meter import RedisMeter
from counterfoil.domain.access import Admitted, Key, Scope, TooFast
from counterfoil.ports import Meter
from counterfoil.program.clock import SystemClock
from ports.open_store import Synchronous

KEY = Key(key_id="k_1", scope=Scope("shop", "sh_1"), per_min=1000, per_day=1000)
OTHER = replace(KEY, key_id="k_2")
SUCCESSOR = replace(KEY, key_id="k_3", family="k_1")


class KnownServers(Servers):
    """A primary with simulated replicas. The test sets the horizon that they have reached."""

    reached: int | None = 0

    async def offered(self) -> int | None:
        return self.reached


class TwoNodes:
    """Two nodes of one deployment."""

    def __init__(self, meter: str) -> None:
        self.runner = asyncio.Runner()
        self.database, url = servers.postgres(18).borrow_database()
        self.deployment = secrets.token_hex(8)
        self.servers = [KnownServers(url, SystemClock()) for _ in range(2)]
        self.usages = [PostgresUsage(known) for known in self.servers]
        self.shared = [
            RedisMeter(servers.valkey().url, self.deployment, usage, lambda _: None, known)
            for usage, known in zip(self.usages, self.servers, strict=True)
            if meter == "valkey"
        ]
        self.meters: list[Meter] = [*(self.shared or self.usages)]

    def primary_reaches(self, horizon: int) -> None:
        servers.postgres(18).command(f"UPDATE counterfoil.horizon SET at = {horizon}", self.database)  # noqa: S608

    def given(self, node: int, key: Key = KEY, *, reached: int | None) -> int | None:
        """Return the horizon that a node reports to this key while its servers are known to have reached `reached`."""
        self.servers[node].reached = reached
        verdict = Synchronous(self.meters[node], self.runner.run).admit(key)
        assert isinstance(verdict, Admitted)
        return verdict.horizon

    def forget(self) -> None:
        """Make the meter lose the floor of `KEY`."""
        if self.shared:
            servers.valkey().command(f"DEL {self.deployment}:{{k_1}}:horizon")
        else:
            servers.postgres(18).command("DELETE FROM counterfoil.floors", self.database)

    def close(self) -> None:
        for meter in self.shared:
            meter.close()
        for usage in self.usages:
            usage.close()
        self.runner.close()
        servers.postgres(18).return_database(self.database)


@pytest.fixture(params=["postgres", "valkey"])
def nodes(request: pytest.FixtureRequest) -> Iterator[TwoNodes]:
    with closing(TwoNodes(request.param)) as nodes:
        yield nodes


def test_a_key_is_given_the_horizon_that_all_servers_have_reached_and_never_an_older_one(nodes: TwoNodes) -> None:
    nodes.primary_reaches(1000)
    assert nodes.given(0, reached=900) == 1000
    assert nodes.given(0, reached=1100) == 1100
    assert nodes.given(0, reached=1050) == 1100
    assert nodes.given(0, reached=1200) == 1200


def test_the_floor_of_one_key_does_not_apply_to_another(nodes: TwoNodes) -> None:
    nodes.given(0, OTHER, reached=1)
    nodes.given(0, reached=5000)
    assert nodes.given(0, OTHER, reached=1000) == 1000


@pytest.mark.parametrize("key", [KEY, SUCCESSOR], ids=["the same key", "its successor by rotation"])
def test_another_node_gives_no_older_horizon(nodes: TwoNodes, key: Key) -> None:
    nodes.given(0, reached=1100)
    assert nodes.given(1, key, reached=1000) == 1100
    assert nodes.given(1, key, reached=1300) == 1300
    assert nodes.given(0, reached=1200) == 1300


def test_a_key_without_a_known_floor_is_given_the_primarys_horizon(nodes: TwoNodes) -> None:
    nodes.given(0, reached=1100)
    nodes.forget()
    nodes.primary_reaches(2000)
    assert nodes.given(1, reached=1000) == 2000
    assert nodes.given(1, reached=1000) == 2000


def test_a_store_with_one_server_gives_its_own_horizon(nodes: TwoNodes) -> None:
    assert nodes.given(0, reached=None) is None


def test_concurrent_requests_of_several_keys_are_admitted(nodes: TwoNodes) -> None:
    async def ask() -> list[Admitted | TooFast]:
        keys = (KEY, OTHER, SUCCESSOR, KEY)
        return await asyncio.gather(*(nodes.meters[0].admit(key) for key in keys))

    nodes.primary_reaches(500)
    nodes.given(0, OTHER, reached=900)
    nodes.servers[0].reached = 800
    verdicts = nodes.runner.run(ask())
    assert [verdict.horizon for verdict in verdicts if isinstance(verdict, Admitted)] == [800, 900, 800, 800]
