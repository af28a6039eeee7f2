"""Services to attack: real processes, on SQLite or on PostgreSQL with Valkey.

The module also re-exports helpers from other tests.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import servers
from actors import OPERATOR
from counterfoil import bootstrap, key_issuing
from counterfoil.domain.access import Scope
from e2e.serve_process import COMMAND, Deployment, ServeProcess
from running_service import SECRET, RecordSource, ServerThread, free_port
from servers import Postgres, Valkey
from waiting import until

__all__ = ["COMMAND", "SECRET", "Postgres", "RecordSource", "ServerThread", "Site", "Valkey", "free_port", "until"]

UNLIMITED = 1_000_000_000


class Attacked(Protocol):
    """The interface of a service under attack: a `Site`, or a service with a planted defect."""

    folder: Path

    @property
    def ports(self) -> list[int]: ...

    @property
    def office(self) -> Any: ...

    @property
    def nodes(self) -> list[Any]: ...

    @property
    def deployments(self) -> list[Any]: ...

    def start(self) -> Any: ...

    def stop(self) -> None: ...

    def load(self, *records: Any) -> None: ...

    def issue(self, kind: Any, scope_id: str, **terms: Any) -> str: ...

    def revoke(self, key: str) -> None: ...

    def processes(self) -> dict[str, int]: ...

    def stored(self) -> dict[str, bytes]: ...

    def logs(self) -> bytes: ...


class Site:
    """A deployment of one or more nodes, with methods for the operator's actions."""

    def __init__(self, folder: Path, addresses: list[dict[str, str]], workers: int) -> None:
        self.folder = folder
        self.workers = workers
        folder.mkdir(parents=True, exist_ok=True)
        self.deployments = []
        for number, address in enumerate(addresses):
            place = folder / f"node{number}"
            place.mkdir(exist_ok=True)
            self.deployments.append(Deployment(place, **address))
        self.nodes: list[ServeProcess] = []
        # Set only if the deployment uses PostgreSQL or Valkey, respectively.
        self.database: tuple[Postgres, str] | None = None
        self.valkey: Valkey | None = None

    @property
    def office(self) -> Deployment:
        return self.deployments[0]

    @property
    def ports(self) -> list[int]:
        return [deployment.port for deployment in self.deployments]

    def start(self) -> "Site":
        self.nodes = [deployment.start(self.workers, ready=False) for deployment in self.deployments]
        for node in self.nodes:
            node.wait_until_ready()
        return self

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()
        self.nodes = []

    def load(self, *records: Any) -> None:
        summary = self.office.load(*records)
        assert not summary.rejected, summary

    def issue(self, kind: Any, scope_id: str, **terms: Any) -> str:
        """Issue a key. It has no limits unless `terms` sets them."""
        grant = {"per_min": UNLIMITED, "per_day": UNLIMITED} | terms
        store = bootstrap.store(self.office.settings).key_store()
        try:
            granted = key_issuing.Grant(scope=Scope(kind, scope_id), **grant)
            return key_issuing.issue(store, granted, secrets.token_bytes, 0, OPERATOR).text
        finally:
            store.close()

    def revoke(self, key: str) -> None:
        store = bootstrap.store(self.office.settings).key_store()
        try:
            key_issuing.revoke(store, key_id(key), 1, OPERATOR)
        finally:
            store.close()

    def processes(self) -> dict[str, int]:
        """Return the PIDs of supervisors and workers, keyed by name."""
        found = {}
        for number, node in enumerate(self.nodes):
            found[f"supervisor {number}"] = node.process.pid
            found |= {f"worker {number}.{place}": pid for place, pid in enumerate(sorted(node.pids()))}
        return found

    def stored(self) -> dict[str, bytes]:
        """Return the stored data, keyed by name.

        That is the contents of the files except the secret, or, on PostgreSQL, the
        contents of the tables and the names of all Valkey keys.
        """
        if self.database is None:
            files = [file for file in self.office.store.rglob("*") if file.is_file() and file.name != "secret"]
            return {file.name: file.read_bytes() for file in files}
        postgres, name = self.database
        held = self.valkey.everything("KEYS *") if self.valkey else b""
        return postgres.files_of(name) | {"meter": held}

    def logs(self) -> bytes:
        return b"".join(deployment.log.read_bytes() for deployment in self.deployments)


def key_id(key: str) -> str:
    return key.split("_")[2]


@contextmanager
def on_sqlite(folder: Path, workers: int = 2) -> Iterator[Site]:
    """Yield a site with one node, which has not been started yet."""
    site = Site(folder, [{}], workers)
    try:
        yield site
    finally:
        site.stop()


@contextmanager
def on_servers(
    folder: Path,
    nodes: int = 2,
    workers: int = 1,
    *,
    meter: bool = True,
    postgres: Postgres | None = None,
    valkey: Valkey | None = None,
) -> Iterator[Site]:
    """Yield a site with several nodes, which have not been started yet.

    By default, the PostgreSQL and Valkey servers are shared with other tests.
    """
    postgres = postgres or servers.postgres(18)
    valkey = (valkey or servers.valkey()) if meter else None
    name, store = postgres.fresh_database()
    site = Site(folder, [{"store": store, "meter": valkey.url if valkey else ""}] * nodes, workers)
    site.database, site.valkey = (postgres, name), valkey
    try:
        yield site
    finally:
        site.stop()


BACK_ENDS: dict[str, Callable[[Path], Any]] = {"sqlite": on_sqlite, "postgres": on_servers}
