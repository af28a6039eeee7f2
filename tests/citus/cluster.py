"""A Citus cluster that is already running.

`COUNTERFOIL_TEST_CITUS` is the URL for connecting to its coordinator as a superuser.
Databases are created on all of its nodes. A node that runs on this machine can be
frozen, killed and started again.
"""

import atexit
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

import servers
from counterfoil.backends.postgres.administration import migrate
from counterfoil.backends.postgres.citus import DISTRIBUTED, distribute
from waiting import until

COORDINATOR = os.environ.get("COUNTERFOIL_TEST_CITUS", "")
# Fewer shards than Citus's default, because every shard is emptied before a database is used again.
SHARDS = 4

_WORKERS = "SELECT nodename, nodeport FROM pg_dist_node WHERE noderole = 'primary' AND groupid > 0 ORDER BY nodeport"
# By default, workers hide their shards when tables are listed, so turn that off.
_SHOW_SHARDS = "-c citus.override_table_visibility=off"
_PLACES = """
    SELECT shops.id, node.nodeport FROM counterfoil.shops
    JOIN pg_dist_placement AS placement
        ON placement.shardid = get_shard_id_for_distribution_column('counterfoil.bills', number)
    JOIN pg_dist_node AS node USING (groupid)
"""


class Node:
    """One PostgreSQL server of the cluster."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

    def url(self, database: str) -> str:
        user = psycopg.conninfo.conninfo_to_dict(COORDINATOR).get("user", "postgres")
        return f"postgresql://{user}@{self.host}:{self.port}/{database}"

    def command(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url(database), autocommit=True, options=_SHOW_SHARDS) as connection:
            found = connection.execute(statement.encode())
            return found.fetchall() if found.description else []

    def answers(self) -> bool:
        with suppress(psycopg.OperationalError):
            psycopg.connect(make_conninfo(self.url("postgres"), connect_timeout=2)).close()
            return True
        return False

    # --- processes -----------------------------------------------------------------------

    @property
    def postmaster(self) -> int:
        return int(self.command("SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)")[0][0])

    def processes(self) -> list[int]:
        first = self.postmaster
        children = Path(f"/proc/{first}/task/{first}/children").read_text("ascii").split()
        return [first, *map(int, children)]

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Freeze all processes while their connections stay open, as if the machine hung."""
        processes = self.processes()
        _signal(processes, signal.SIGSTOP)
        try:
            yield
        finally:
            _signal(processes, signal.SIGCONT)

    def kill(self) -> Callable[[], None]:
        """Kill all processes of the node with SIGKILL; return a function that starts the node again."""
        processes = self.processes()
        command = _strings(processes[0], "cmdline")
        environment = dict(entry.split("=", 1) for entry in _strings(processes[0], "environ"))
        owner = Path(f"/proc/{processes[0]}").stat().st_uid
        _signal(processes, signal.SIGKILL)
        # A new server refuses to start while a process with the old PID exists, so wait until all processes are gone.
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in processes), "the processes were gone")

        def start() -> None:
            # Like the original server, the new one must outlive the tests, so it gets its own session.
            subprocess.run(
                ["setsid", "--fork", *command],
                user=owner if os.getuid() == 0 else None,
                # With the HOME of these tests, Citus could not connect to another node: libpq would look for a
                # certificate in a folder that the owner may not read.
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                check=True,
            )
            until(self.answers, "the node answered again")

        return start


def _strings(pid: int, name: str) -> list[str]:
    """Return the strings in a file of /proc that ends each of them with a null character."""
    return Path(f"/proc/{pid}/{name}").read_text("utf-8").rstrip("\0").split("\0")


def _signal(processes: list[int], number: int) -> None:
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


class Cluster:
    """The coordinator and its workers."""

    def __init__(self, address: str) -> None:
        told = psycopg.conninfo.conninfo_to_dict(address)
        self.coordinator = Node(str(told["host"]), int(told.get("port") or 5432))
        self.home = str(told.get("dbname") or "postgres")
        self.workers = [Node(host, port) for host, port in self.coordinator.command(_WORKERS, self.home)]
        self._numbers = count(1)
        self._made: list[str] = []
        self._returned: list[str] = []
        atexit.register(self.remove)

    @property
    def nodes(self) -> list[Node]:
        return [self.coordinator, *self.workers]

    def undistributed_database(self) -> tuple[str, str]:
        """Create a migrated but not yet distributed database on all nodes; return its name and address."""
        name = f"counterfoil_test_{os.getpid()}_{next(self._numbers)}"
        self._made.append(name)
        for node in self.nodes:
            node.command(f"CREATE DATABASE {name}")
            node.command("CREATE EXTENSION citus", name)
        place = f"'{self.coordinator.host}', {self.coordinator.port}"
        self.coordinator.command(f"SELECT citus_set_coordinator_host({place})", name)
        for worker in self.workers:
            self.coordinator.command(f"SELECT citus_add_node('{worker.host}', {worker.port})", name)
        self.coordinator.command(f"ALTER DATABASE {name} SET citus.shard_count = {SHARDS}", name)
        migrate(self.coordinator.url(name))
        return name, self.coordinator.url(name)

    def fresh_database(self) -> tuple[str, str]:
        """Create a distributed, empty database; return its name and address."""
        name, url = self.undistributed_database()
        distribute(url)
        self.coordinator.command(servers.KEEP_FIRST_ROWS, name)
        return name, url

    def borrow_database(self) -> tuple[str, str]:
        """Return the name and address of a distributed, empty database.

        A database that a test has returned is reused, if there is one. If it
        cannot be emptied, it is dropped: Citus runs three daemons for each
        database, and many of them slow the cluster down until requests time out.
        """
        while self._returned:
            name = self._returned.pop()
            with suppress(psycopg.Error):
                self.coordinator.command(f"TRUNCATE {', '.join(f'counterfoil.{table}' for table in DISTRIBUTED)}", name)
                self.coordinator.command(servers.EMPTY, name)
                return name, self.coordinator.url(name)
            self._drop(name)
        return self.fresh_database()

    def return_database(self, database: str) -> None:
        self._returned.append(database)

    def places(self, database: str) -> dict[str, int]:
        """Return, for each shop, the port of the node that stores its bills."""
        return dict(self.coordinator.command(_PLACES, database))

    def remove(self) -> None:
        for name in self._made:
            self._drop(name)

    def _drop(self, name: str) -> None:
        for node in self.nodes:
            with suppress(psycopg.Error):
                node.command(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@cache
def cluster() -> Cluster:
    return Cluster(COORDINATOR)
