"""Nodes that share a PostgreSQL database and a Valkey server: real processes that can be disconnected or killed."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import servers
from e2e.serve_process import SHOP, Deployment, ServeProcess
from faults.http_clients import Client
from faults.proxy import Proxy
from records import bills
from servers import Postgres, Valkey

PLENTY = 1_000_000_000
BY_DAY = "transactions?shopId=sh_1&from=20260101&to=20260101"
BY_CHANGE = "transactions?shopId=sh_1&updatedSince=2000-01-01T00:00:00Z"


class MultiNodeDeployment:
    """A deployment with several nodes. Each node reaches the store, and usually the meter, through its own proxies."""

    def __init__(self, folder: Path, postgres: Postgres | None = None, valkey: Valkey | None = None) -> None:
        self.folder = folder
        self.postgres = postgres or servers.postgres(18)
        self.valkey = valkey or servers.valkey()
        self.database, self.address = self.postgres.fresh_database()
        self.nodes: list[Node] = []
        self.office = Deployment(folder / "office", store=self.address)
        self.office.load(SHOP, *bills(SHOP, 30))
        self.issue("plenty", per_min=PLENTY, per_day=PLENTY)

    def issue(self, name: str, **terms: Any) -> None:
        self.office.issue({name: terms})

    def key(self, name: str = "plenty") -> str:
        return self.office.keys[name]

    def node(self, *, meter: bool | str = True, workers: int = 1) -> "Node":
        """Start another node. `meter` is True for Valkey (through a proxy), False for the store, or an address."""
        node = Node(self, self.folder / f"node{len(self.nodes)}", meter, workers)
        self.nodes.append(node)
        node.running.wait_until_ready()
        return node

    def close(self) -> None:
        for node in self.nodes:
            node.close()


class Node:
    """One `counterfoil serve` with its worker processes."""

    def __init__(self, multi_node: MultiNodeDeployment, folder: Path, meter: bool | str, workers: int) -> None:
        self.store_proxy = Proxy(multi_node.postgres.port)
        self.meter_proxy = Proxy(multi_node.valkey.port)
        store = f"postgresql://postgres@127.0.0.1:{self.store_proxy.port}/{multi_node.database}"
        through = f"redis://127.0.0.1:{self.meter_proxy.port}/0" if meter else ""
        self.deployment = Deployment(folder, store=store, meter=meter if isinstance(meter, str) else through)
        self.port = self.deployment.port
        self._multi_node = multi_node
        self._clients: list[Client] = []
        self.running = ServeProcess(self.deployment, workers)

    def client(self, key: str = "plenty") -> Client:
        """Return a client with its own connection."""
        self._clients.append(Client(self.port, self._multi_node.key(key)))
        return self._clients[-1]

    def close(self) -> None:
        for client in self._clients:
            client.close()
        for proxy in (self.store_proxy, self.meter_proxy):
            proxy.restore()
        if self.running.process.poll() is None:
            self.running.stop()
        for proxy in (self.store_proxy, self.meter_proxy):
            proxy.close()

    @contextmanager
    def outage_of_the_store(self, befalls: str) -> Iterator[None]:
        """Kill or freeze the store, or cut this node off from it, for the duration of the block."""
        postgres = self._multi_node.postgres
        match befalls:
            case "is killed":
                postgres.kill()
            case "freezes":
                postgres.freeze_all(signal.SIGSTOP)
            case "is cut off":
                self.store_proxy.cut()
            case "is silent":
                self.store_proxy.block()
        yield
        if befalls == "is killed":
            postgres.start()
        postgres.freeze_all(signal.SIGCONT)
        self.store_proxy.restore()

    # --- resources ------------------------------------------------------------------

    def threads(self) -> int:
        return sum(len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in self.running.pids())

    def descriptors(self) -> int:
        return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in self.running.pids())

    def resident_kb(self) -> int:
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) for pid in self.running.pids())
        return pages * resource.getpagesize() // 1024
