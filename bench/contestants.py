"""The contestants: how each one is started and queried.

Counterfoil runs with its default settings: key check, minute window, day quota, request records,
metrics and logging are enabled. The first four are its duties. Bun, Go and the FastAPI that joins
our stored JSON run twice: bare, and with the same duties. The other contestants have no duties.
Each contestant has one worker process, unless its title says otherwise.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from msgspec import Struct

from bench import cursors, duties, questions
from bench.questions import Question
from bench.world import COUNTERFOIL, GROUP, LARGE, World, issue_keys

HOST = "127.0.0.1"
HERE = Path(__file__).parent
PEERS = HERE / "peers"
PEERS_BIN = HERE / ".venv" / "bin"
FASTIFY = PEERS / "fastify"
BUN = PEERS / "bun" / "node_modules" / ".bin" / "bun"
GO = PEERS / "go" / "server"
PATIENCE_SEC = 60.0
# Requests rotate through this many keys. A single integration would not request the same pages again and again, but
# many integrations may each request them.
CALLERS = 50
NGINX = """
{user} daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
events {{ worker_connections 256; }}
http {{
    access_log off; sendfile on; tcp_nopush on; types {{ application/json json; }}
    open_file_cache max=1000; keepalive_requests 100000000;
    client_body_temp_path {folder}/nginx-body; proxy_temp_path {folder}/nginx-proxy;
    fastcgi_temp_path {folder}/nginx-fastcgi; uwsgi_temp_path {folder}/nginx-uwsgi; scgi_temp_path {folder}/nginx-scgi;
    server {{ listen {host}:{port}; root {root}; }}
}}
"""
POSTGREST = """
db-uri = "{database}"
db-schemas = "peers"
db-anon-role = "postgres"
server-host = "{host}"
server-port = {port}
"""


class Contestant(Struct, frozen=True, kw_only=True):
    """A server to measure.

    `command` returns the command line for a world and a port. `missing` says which
    required programs and files were not found, or is None. If `has_duties` is true,
    the contestant checks keys, and counts and records requests in its own file.
    wrk opens as many connections for each of its `workers`.
    """

    name: str
    title: str
    command: Callable[[World, int], list[str]]
    phrase: Callable[[Question], str | None] = questions.api
    environment: Callable[[World], dict[str, str]] = lambda _: _surroundings()
    missing: str | None = None
    asks_with_key: bool = False
    has_duties: bool = False
    workers: int = 1

    def duties_file(self, world: World) -> Path:
        return world.folder / f"{self.name}.sqlite3"


class Running(Struct, frozen=True):
    """A running contestant, with its URL and the keys of its callers."""

    contestant: Contestant
    url: str
    process_id: int
    keys: dict[str, list[str]]

    def headers(self, franchise: str, encoding: str) -> list[dict[str, str]]:
        """Return the request headers for each caller. A contestant without keys has a single caller."""
        if not self.keys:
            return [{"Accept-Encoding": encoding}]
        return [{"Accept-Encoding": encoding, "Authorization": f"Bearer {key}"} for key in self.keys[franchise]]


# --- the contestants ---------------------------------------------------------------


def _ours(_: World, port: int, workers: int = 1) -> list[str]:
    return [*COUNTERFOIL, *("serve", "--port", str(port), "--admin-port", str(free_port()), "--workers", str(workers))]


def _two_workers(world: World, port: int) -> list[str]:
    return _ours(world, port, workers=2)


def _fastapi(_: World, port: int) -> list[str]:
    return _uvicorn("fastapi_app:app", port)


def _fastapi_stored(_: World, port: int) -> list[str]:
    return _uvicorn("fastapi_stored:app", port)


def _uvicorn(app: str, port: int) -> list[str]:
    words = ("--app-dir", str(PEERS), "--host", HOST, "--port", str(port), "--no-access-log", "--log-level", "warning")
    return [str(PEERS_BIN / "uvicorn"), app, *words]


def _fastify(_: World, port: int) -> list[str]:
    return ["env", f"PORT={port}", "node", str(FASTIFY / "server.js")]


def _bun(_: World, port: int) -> list[str]:
    return ["env", f"PORT={port}", str(BUN), str(PEERS / "bun" / "server.js")]


def _go(_: World, port: int) -> list[str]:
    return ["env", f"PORT={port}", str(GO)]


def _datasette(world: World, port: int) -> list[str]:
    return [str(PEERS_BIN / "datasette"), "serve", str(world.books), "--host", HOST, "--port", str(port)]


def _nginx(world: World, port: int) -> list[str]:
    rules = world.folder / "nginx.conf"
    # If started by root, nginx switches to a user that cannot read our temporary folder, so keep it running as root.
    user = "user root;" if os.getuid() == 0 else ""
    text = NGINX.format(folder=world.folder, host=HOST, port=port, root=world.limits, user=user)
    rules.write_text(text, "utf-8")
    return [_program("nginx") or "nginx", "-c", str(rules), "-p", str(world.folder)]


def _memory(world: World, port: int) -> list[str]:
    return [sys.executable, str(PEERS / "memory.py"), str(port), str(world.limits)]


def _postgrest(world: World, port: int) -> list[str]:
    rules = world.folder / "postgrest.conf"
    rules.write_text(POSTGREST.format(database=world.database, host=HOST, port=port), "utf-8")
    return ["postgrest", str(rules)]


def _sqlite(world: World) -> dict[str, str]:
    return _surroundings() | {"DATABASE_URL": f"sqlite:///{world.peers}"}


def _postgres(world: World) -> dict[str, str]:
    return _surroundings() | {"DATABASE_URL": f"{world.database}?options=-csearch_path%3Dpeers"}


def _postgres_for_sqlalchemy(world: World) -> dict[str, str]:
    found = _postgres(world)
    return found | {"DATABASE_URL": found["DATABASE_URL"].replace("postgresql://", "postgresql+psycopg://", 1)}


def _surroundings() -> dict[str, str]:
    """Return the environment without PYTHONPATH, so that contestants cannot import our modules."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _program(name: str) -> str | None:
    """Return the path of a program, or None. Debian installs servers in folders that may not be on a user's PATH."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")


def _needs(*files: Path | str) -> str | None:
    """Return a message that names the missing files and programs, or None if nothing is missing."""
    lacking = [
        str(file.relative_to(HERE.parent)) if isinstance(file, Path) else file
        for file in files
        if not (file.exists() if isinstance(file, Path) else _program(file))
    ]
    return f"{', '.join(lacking)} not found" if lacking else None


def _framework(name: str, on_server: bool) -> Contestant:
    """Return the contestant for FastAPI or Fastify, on PostgreSQL or SQLite."""
    title, command, needed = {
        "fastapi": ("FastAPI + SQLAlchemy + Pydantic", _fastapi, (PEERS_BIN / "uvicorn",)),
        "fastify": ("Fastify", _fastify, ("node", FASTIFY / "node_modules" / "better-sqlite3" / "build")),
    }[name]
    on_postgres = _postgres if name == "fastify" else _postgres_for_sqlalchemy
    return Contestant(
        name=f"{name}-pg" if on_server else name,
        title=f"{title}, {'PostgreSQL' if on_server else 'SQLite'}",
        command=command,
        environment=on_postgres if on_server else _sqlite,
        missing=_needs(*needed),
    )


def _compiled(name: str, *, has_duties: bool) -> Contestant:
    """Return the contestant for Bun or Go, bare or with the same duties as ours."""
    title, command, program = {
        "bun": ("Bun.serve + bun:sqlite", _bun, BUN),
        "go": ("Go net/http + go-sqlite3", _go, GO),
    }[name]

    def environment(world: World) -> dict[str, str]:
        kept = {"DUTIES": str(contestant.duties_file(world))} if has_duties else {}
        return _surroundings() | {"DATABASE": str(world.peers), **kept}

    contestant = Contestant(
        name=f"{name}-duties" if has_duties else name,
        title=f"{title}, {'the same duties' if has_duties else 'bare'}",
        command=command,
        environment=environment,
        missing=_needs(program),
        has_duties=has_duties,
    )
    return contestant


def _stored(*, has_duties: bool) -> Contestant:
    """Return the contestant that joins the JSON of our own store on FastAPI, bare or with the same duties as ours."""

    def environment(world: World) -> dict[str, str]:
        kept = {"DUTIES": str(contestant.duties_file(world))} if has_duties else {}
        return _surroundings() | {"BOOKS": str(world.books), **kept}

    contestant = Contestant(
        name="stored-duties" if has_duties else "stored",
        title=f"FastAPI that joins our stored JSON, {'the same duties' if has_duties else 'bare'}",
        command=_fastapi_stored,
        phrase=questions.api_without_members,
        environment=environment,
        missing=_needs(PEERS_BIN / "uvicorn"),
        has_duties=has_duties,
    )
    return contestant


def field() -> dict[str, Contestant]:
    """Return all contestants, including those that are not installed, keyed by name."""
    ours = Contestant(
        name="counterfoil",
        title="Counterfoil",
        command=_ours,
        environment=lambda world: world.environment,
        asks_with_key=True,
    )
    return {
        one.name: one
        for one in (
            ours,
            Contestant(
                name="counterfoil-2",
                title="Counterfoil, two workers",
                command=_two_workers,
                environment=lambda world: world.environment,
                asks_with_key=True,
                workers=2,
            ),
            *(_framework(name, on_server) for on_server in (False, True) for name in ("fastapi", "fastify")),
            *(_stored(has_duties=has_duties) for has_duties in (True, False)),
            *(_compiled(name, has_duties=has_duties) for has_duties in (True, False) for name in ("bun", "go")),
            Contestant(
                name="datasette",
                title="Datasette, our SQLite file",
                command=_datasette,
                phrase=questions.datasette,
                missing=_needs(PEERS_BIN / "datasette"),
            ),
            Contestant(
                name="postgrest",
                title="PostgREST",
                command=_postgrest,
                phrase=questions.postgrest,
                missing=_needs("postgrest"),
            ),
            Contestant(
                name="memory",
                title="our HTTP server, from memory",
                command=_memory,
                phrase=questions.file,
                environment=lambda world: world.environment,
            ),
            Contestant(
                name="nginx",
                title="nginx, a file",
                command=_nginx,
                phrase=lambda asked: None if isinstance(asked, questions.Hello) else questions.file(asked),
                missing=_needs("nginx"),
            ),
        )
    }


# --- starting and stopping ---------------------------------------------------------


@contextmanager
def running(contestant: Contestant, world: World, cores: set[int] | None = None) -> Iterator[Running]:
    """Start a contestant on a free port, in its own session; stop it when the block ends."""
    port = free_port()
    keys: dict[str, list[str]] = {}
    if contestant.asks_with_key:
        keys = {name: issue_keys(world, name, CALLERS) for name in (GROUP, LARGE)}
        cursors.hand_out(world, keys[GROUP])
    elif contestant.has_duties:
        keys = duties.prepare(contestant.duties_file(world), (GROUP, LARGE), CALLERS)
    with (world.folder / f"{contestant.name}.log").open("wb") as log:
        process = subprocess.Popen(
            [*_pinned(cores), *contestant.command(world, port)],
            env=contestant.environment(world),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            started = Running(contestant, f"http://{HOST}:{port}", process.pid, keys)
            _await(started, process, Path(log.name))
            yield started
        finally:
            process.terminate()
            process.wait()


@contextmanager
def all_running(contestants: list[Contestant], world: World, cores: set[int] | None) -> Iterator[dict[str, Running]]:
    with ExitStack() as stack:
        yield {one.name: stack.enter_context(running(one, world, cores)) for one in contestants}


def _pinned(cores: set[int] | None) -> list[str]:
    return ["taskset", "-c", ",".join(map(str, sorted(cores)))] if cores else []


def _await(started: Running, process: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + PATIENCE_SEC
    while time.monotonic() < until and process.poll() is None:
        try:
            urlopen(started.url + "/", timeout=5).close()  # noqa: S310 - our own address
        except HTTPError:
            return
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise SystemExit(f"{started.contestant.title} did not start:\n{log.read_text('utf-8', 'replace')[-2000:]}")


def free_port() -> int:
    with socket.create_server((HOST, 0)) as probe:
        return int(probe.getsockname()[1])
