"""Runs a loader, a server and two clients as real processes, which are killed at random points and started again."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing, suppress
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec

import records as r
from actors import OPERATOR
from client import copy_contents, expected
from client.copy_contents import Json, assert_same, plain
from counterfoil import bootstrap, key_issuing, settings
from counterfoil.client.sinks.duckdb import DuckDBSink
from counterfoil.domain.access import Scope
from counterfoil.machine.addresses import is_listening
from running_service import SECRET, free_port
from waiting import until

COMMAND = (sys.executable, "-m", "counterfoil")
PLENTY = 1_000_000_000
FINISH_SEC = 300
# After failed requests, a client may wait up to a minute before it sends the next one.
WORK_PATIENCE_SEC = 120
FRANCHISE = "f"
FEED_CLIENT = Path(__file__).parents[2] / "docs" / "examples" / "feed_client.py"


class KillableProcesses:
    """A deployment, its two copies, and the processes that read and write them."""

    def __init__(self, folder: Path, bills: int, seed: int, store: str = "") -> None:
        self.folder = folder
        self.chance = random.Random(seed)  # noqa: S311 - the test must be reproducible
        self.records = _records(bills)
        self.port = free_port()
        self.kills: Counter[str] = Counter()
        self.store = store or str(folder / "store")
        self.settings = settings.load({"store": self.store, "secret": SECRET}, environment={})
        bootstrap.store(self.settings).prepare()
        self.key = self._issue_key()
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def _issue_key(self) -> str:
        grant = key_issuing.Grant(scope=Scope("franchise", FRANCHISE), per_min=PLENTY, per_day=PLENTY)
        with closing(bootstrap.store(self.settings).key_store()) as key_store:
            return key_issuing.issue(key_store, grant, os.urandom, 0, OPERATOR).text

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/ext/v1"

    # --- processes -----------------------------------------------------------------

    def start(self, who: str, version: int) -> None:
        match who:
            case "server":
                ports = ("--port", str(self.port), "--admin-port", "0")
                self._start(who, *COMMAND, "serve", *ports, "--log", "off", "--store", self.store)
                until(lambda: is_listening("127.0.0.1", self.port), "the server listens")
            case "loader":
                self._write_source(version)
                self._start(who, *COMMAND, "load", "source.ndjson", "--batch", "10", "--store", self.store)
            case "puller":
                limit = str(self.chance.randint(5, 60))
                self._start(who, *COMMAND, "pull", "--to", str(self.copy), "--limit", limit)
            case "follower":
                self._start_follower()

    def _start_follower(self) -> None:
        """Start the example client of docs/own-client.md with small pages, to be killed between two of them."""
        code = FEED_CLIENT.read_text("utf-8")
        assert '"limit": 1000' in code
        limit = f'"limit": {self.chance.randint(5, 60)}'
        (self.folder / "follower.py").write_text(code.replace('"limit": 1000', limit))
        self._start("follower", sys.executable, "follower.py")

    @property
    def copy(self) -> Path:
        return self.folder / "copy.duckdb"

    def _start(self, who: str, *command: str) -> None:
        variables = {"COUNTERFOIL_SECRET": SECRET, "COUNTERFOIL_URL": self.url, "COUNTERFOIL_KEY": self.key}
        with (self.folder / f"{who}.log").open("ab") as log:
            self.running[who] = subprocess.Popen(
                command, cwd=self.folder, env=os.environ | variables, stdout=log, stderr=log, start_new_session=True
            )

    def _write_source(self, version: int) -> None:
        """Write all records to the source file. Each version changes about a fifth of the bills."""
        with (self.folder / "source.ndjson").open("wb") as out:
            for number, record in enumerate(self.records):
                changed = record["kind"] == "bill" and number % 5 == version % 5
                out.write(msgspec.json.encode(record | {"cashier": f"Nok {version}"} if changed else record) + b"\n")

    def let_work(self, who: str, cpu_seconds: float) -> None:
        """Wait until a process has used this much more CPU time, or until it or all other processes have ended.

        Unlike wall time, CPU time does not depend on other load, so it shows how far
        the process has got.
        """
        enough = self._cpu_seconds(who) + cpu_seconds
        others = [process for name, process in self.running.items() if name != who]

        def has_worked() -> bool:
            if self.running[who].poll() is not None or all(process.poll() is not None for process in others):
                return True
            return self._cpu_seconds(who) >= enough

        until(has_worked, f"the {who} has used {cpu_seconds:.1f} seconds of CPU time", WORK_PATIENCE_SEC)

    def _cpu_seconds(self, who: str) -> float:
        """Return the CPU time of a process and its children."""
        first = self.running[who].pid
        ticks = 0
        for pid in [first, *_children(first)]:
            with suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def kill(self, who: str) -> bool:
        """Kill the process and its children with SIGKILL; return whether the process was still running."""
        process = self.running.pop(who)
        at_work = process.poll() is None
        self.kills[who] += at_work
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return at_work

    def finish(self, who: str) -> None:
        process = self.running.pop(who)
        assert process.wait(FINISH_SEC) == 0, (self.folder / f"{who}.log").read_text()

    def close(self) -> None:
        for who in list(self.running):
            self.kill(who)

    def finish_all(self, version: int) -> None:
        """Run the loader and the clients to their ends.

        The example client runs twice: the first run only finishes the interrupted pass, and the second run reads the
        later changes.
        """
        for name in ("loader", "puller", "follower", "follower"):
            self.start(name, version)
            self.finish(name)

    # --- checks ----------------------------------------------------------------------

    def assert_nothing_lost_or_doubled(self, version: int) -> None:
        with httpx.Client(headers={"authorization": f"Bearer {self.key}"}, timeout=30) as client:

            def ask(path: str, **query: Any) -> Json:
                body: Json = client.get(f"{self.url}/{path}", params=query).json()
                assert body["ok"], body
                return body

            shops = expected.shops(ask)
            bills: dict[Any, Json] = {}
            members: dict[Any, Json] = {}
            for shop_id, shop in shops.items():
                bills |= expected.bills(ask, shop_id)
                members |= expected.members(ask, shop["providerId"]) if shop["providerId"] else {}
        with closing(DuckDBSink(self.copy)) as sink:
            assert_same(copy_contents.shops(sink), shops)
            assert_same(copy_contents.members(sink), members)
            assert_same(copy_contents.bills(sink), bills)
        with closing(sqlite3.connect(self.folder / "feed.sqlite3")) as followed:
            rows = followed.execute("SELECT shop, id, body FROM bills")
            assert_same({(shop, bill_id): plain(msgspec.json.decode(body)) for shop, bill_id, body in rows}, bills)
        self._assert_all_loaded(bills, version)

    def _assert_all_loaded(self, bills: dict[Any, Json], version: int) -> None:
        numbered = enumerate(self.records)
        sent = {(record["shopId"], record["id"]): number for number, record in numbered if record["kind"] == "bill"}
        assert set(sent) == set(bills)
        changed = [bills[identity] for identity, number in sent.items() if number % 5 == version % 5]
        assert {bill["cashier"] for bill in changed} == {f"Nok {version}"}


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]
    return []


def _records(bills: int) -> list[Json]:
    """Return the records of a franchise: three branches, a base, its members, and bills, some of them undated."""
    shops = [r.branch(id=f"s{number}", franchiseId=FRANCHISE, providerId="p") for number in range(3)]
    members = [r.member("p", id=f"m{number}") for number in range(bills // 10)]
    first = date(2025, 3, 1)
    sold = [
        r.bill(
            shops[number % 3],
            id=f"b{number}",
            closedAt=None if number % 97 == 0 else f"{first + timedelta(days=number % 300)}T12:00:00+07:00",
            lines=[r.line(options=[{"id": "o"}]) for _ in range(number % 4)],
        )
        for number in range(bills)
    ]
    return [*shops, r.base("p"), *members, *sold]
