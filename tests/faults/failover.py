"""A service on three PostgreSQL servers under Patroni, with a loader, readers and a puller running throughout."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
from msgspec import Struct

import records as r
from client import copy_contents, expected
from client.copy_contents import Json, assert_same
from counterfoil import bootstrap
from counterfoil.client.sinks.duckdb import DuckDBSink
from counterfoil.ingest.pipeline import Pipeline, RejectsFile
from counterfoil.ports import StoreUnavailable
from e2e.serve_process import SHOP, Deployment, ServeProcess
from faults.http_clients import Call, RepeatingClient, longest_gap
from faults.patroni import Cluster
from running_service import RecordSource
from servers import Valkey
from waiting import PATIENCE_SEC, until

PLENTY = 1_000_000_000
# In its first ten seconds, a node needs the primary to resolve cursors, so wait longer before causing a failure.
SETTLING_SEC = 15.0
CALM_SEC = 4.0
BATCH = 10
BILLS = 400
# Intervals between requests. The frequent requests measure gaps, and the infrequent requests produce cursors.
OFTEN_SEC, NOW_AND_THEN_SEC = 0.005, 0.25
QUESTIONS = {
    "transactions/bill-7": OFTEN_SEC,
    "shops": OFTEN_SEC,
    "transactions?shopId=sh_1&from=20260101&to=20260101&limit=50": NOW_AND_THEN_SEC,
    "transactions?shopId=sh_1&updatedSince=2000-01-01T00:00:00Z&limit=50": NOW_AND_THEN_SEC,
}


class Loader:
    """Repeatedly loads new versions of bills. No acknowledged version may be lost."""

    def __init__(self, deployment: Deployment) -> None:
        self._settings = deployment.settings
        self._rejects = RejectsFile(deployment.folder / "rejects.ndjson")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._load_on, daemon=True)
        self.acknowledged: dict[str, int] = {}
        # The time at which each batch was acknowledged, and the errors after which a batch was loaded again.
        self.times: list[float] = []
        self.failures: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "a load hangs"

    def _load_on(self) -> None:
        version = 0
        while not self._stop.is_set():
            version += 1
            first = version * BATCH % BILLS
            self._until_acknowledged({f"bill-{number}": version for number in range(first, first + BATCH)})

    def _until_acknowledged(self, versions: dict[str, int]) -> None:
        bills = [r.bill(SHOP, id=bill_id, cashier=f"Nok {version}") for bill_id, version in versions.items()]
        while not self._stop.is_set():
            try:
                with closing(bootstrap.store(self._settings).ledger()) as ledger:
                    Pipeline(ledger, bootstrap.pseudonyms(self._settings), self._rejects, 500).load(RecordSource(bills))
            except StoreUnavailable as error:
                self.failures.append(str(error))
                if self._stop.wait(0.02):
                    return
            else:
                self.acknowledged |= versions
                self.times.append(time.monotonic())
                return


class Puller:
    """Runs `counterfoil pull` repeatedly."""

    def __init__(self, folder: Path, url: str, key: str) -> None:
        self.copy = folder / "copy.duckdb"
        self.log = folder / "pull.log"
        self._key = folder / "key"
        self._key.write_text(key)
        self._url = url
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._pull_on, daemon=True)
        self.ends: list[int] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Wait for the current pull and pull once more, so that the copy has the final state."""
        self._stop.set()
        self._thread.join(300)
        assert not self._thread.is_alive(), "a pull hangs"
        self.pull()

    def _pull_on(self) -> None:
        while not self._stop.is_set():
            self.pull()

    def pull(self) -> None:
        words = ("--url", self._url, "--key-file", str(self._key), "--to", str(self.copy), "--limit", "50")
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "counterfoil", "pull", *words]
            self.ends.append(subprocess.run(command, stdout=log, stderr=log, check=False).returncode)


class Event(Struct, frozen=True):
    """The effect of one failure of the primary on writes and on reads, compared with the calm period before it."""

    what: str
    writes_paused: float
    read_gap: float
    calm_gap: float
    reads: int
    failed: int


class FailoverScenario:
    """The cluster, the service and its clients, with the checks that the tests use."""

    def __init__(self, folder: Path, cluster: Cluster, valkey: Valkey) -> None:
        self.cluster = cluster
        address = cluster.database(f"trial_{abs(hash(folder)) % 10**6}")
        self.office = Deployment(_made(folder / "office"), store=address)
        self.office.load(SHOP, *(r.bill(SHOP, id=f"bill-{number}") for number in range(BILLS)))
        self.office.issue({name: {"per_min": PLENTY, "per_day": PLENTY} for name in ("reader", "puller", "checker")})
        self.node = Deployment(_made(folder / "node"), store=address, meter=valkey.url)
        self.running: ServeProcess = self.node.start()
        self.loader = Loader(self.office)
        self.puller = Puller(folder, self.running.url, self.office.keys["puller"])
        self.callers = [
            RepeatingClient(self.node.port, self.office.keys["reader"], question, every_sec=every)
            for question, every in QUESTIONS.items()
        ]
        self.events: list[Event] = []

    def __enter__(self) -> "FailoverScenario":
        self.loader.start()
        self.puller.start()
        for caller in self.callers:
            caller.__enter__()
        self._until_called_for(SETTLING_SEC)
        return self

    def __exit__(self, *_: object) -> None:
        for caller in self.callers:
            caller.__exit__(None, None, None)
        self.loader.stop()

    def close(self) -> None:
        self.running.stop()

    def fail(self, what: str, kill: Callable[[], None], back: Callable[[], None]) -> None:
        """Cause a failure, wait for the recovery, and record the effect."""
        calm_from = time.monotonic()
        self._until_called_for(CALM_SEC)
        struck = time.monotonic()
        kill()
        self._until_written_after(struck)
        over = time.monotonic()
        back()
        self.cluster.wait_until_whole()
        self._until_called_for(0.5)
        seen = [_between(caller.seen, struck, time.monotonic()) for caller in self.callers]
        often = [caller for caller, every in zip(self.callers, QUESTIONS.values(), strict=True) if every == OFTEN_SEC]
        meanwhile = [_between(caller.seen, struck, over) for caller in often]
        calm = [_between(caller.seen, calm_from, struck) for caller in often]
        self.events.append(
            Event(
                what,
                max(b - a for a, b in pairwise(self.loader.times) if b > struck),
                max(longest_gap(calls) for calls in meanwhile),
                max(longest_gap(calls) for calls in calm),
                sum(len(calls) for calls in seen),
                sum(call.status != 200 for calls in seen for call in calls),
            )
        )

    def _until_called_for(self, seconds: float) -> None:
        """Let the clients call for this many seconds; then wait until each of them has received another response."""
        moment = time.monotonic() + seconds
        until(
            lambda: all(caller.seen and caller.seen[-1].ended > moment for caller in self.callers),
            f"every client had a response after another {seconds:g} seconds",
            seconds + PATIENCE_SEC,
        )

    def _until_written_after(self, moment: float) -> None:
        times = self.loader.times
        until(lambda: times and times[-1] > moment + 0.3, "bills were written after the failure", 90)

    # --- checks at the end --------------------------------------------------------------

    def lost(self) -> list[str]:
        """Return the IDs of bills for which the service has an older version than was acknowledged."""
        served = self._bills()
        return [
            bill_id
            for bill_id, version in self.loader.acknowledged.items()
            if int(served["sh_1", bill_id]["cashier"].removeprefix("Nok ")) < version
        ]

    def assert_copy_is_right(self) -> None:
        with closing(DuckDBSink(self.puller.copy)) as sink:
            assert_same(copy_contents.bills(sink), self._bills())

    def _bills(self) -> dict[tuple[str, str], Json]:
        with httpx.Client(headers={"authorization": f"Bearer {self.office.keys['checker']}"}, timeout=30) as client:

            def ask(path: str, **query: Any) -> Json:
                body: Json = client.get(self.running.url + path, params=query).json()
                assert body["ok"], body
                return body

            return expected.bills(ask, "sh_1")

    def table(self) -> str:
        lines = [
            "| event | times | writes paused | longest read gap (calm) | reads | failed |",
            "|---|---|---|---|---|---|",
        ]
        for what in dict.fromkeys(event.what for event in self.events):
            each = [event for event in self.events if event.what == what]
            paused = [event.writes_paused for event in each]
            lines.append(
                f"| {what} | {len(each)} | {min(paused):.1f}-{max(paused):.1f} s "
                f"| {1000 * max(event.read_gap for event in each):.0f} ms "
                f"({1000 * max(event.calm_gap for event in each):.0f} ms) "
                f"| {sum(event.reads for event in each)} | {sum(event.failed for event in each)} |"
            )
        return "\n".join(lines)


def _between(seen: list[Call], start: float, end: float) -> list[Call]:
    return [call for call in seen if call.ended >= start and call.began <= end]


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
