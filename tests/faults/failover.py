"""A service on three PostgreSQL servers under Patroni, with a loader, readers and a puller running throughout."""

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import httpx
from msgspec import Struct

import records as r
from client import copy_contents, expected
from client.copy_contents import Json, assert_same
from counterfoil.client.sinks.duckdb import DuckDBSink
from counterfoil.ports import StoreUnavailable
from e2e.serve_process import SHOP, Deployment, ServeProcess
from faults.http_clients import Call, Repeating, RepeatingClient, longest_gap
from faults.patroni import Cluster
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


class Loader(Repeating):
    """Repeatedly loads new versions of bills. No acknowledged version may be lost."""

    def __init__(self, deployment: Deployment) -> None:
        super().__init__(self._load)
        self._deployment = deployment
        self._version = 1
        self.acknowledged: dict[str, int] = {}
        # The time at which each batch was acknowledged.
        self.times: list[float] = []

    def _load(self) -> None:
        """Load the next version of some bills. If that fails, the next call loads the same version."""
        first = self._version * BATCH % BILLS
        versions = {f"bill-{number}": self._version for number in range(first, first + BATCH)}
        try:
            self._deployment.load(*(r.bill(SHOP, id=each, cashier=f"Nok {self._version}") for each in versions))
        except StoreUnavailable:
            self.stopping.wait(0.02)
        else:
            self.acknowledged |= versions
            self.times.append(time.monotonic())
            self._version += 1


class Puller(Repeating):
    """Runs `counterfoil pull` repeatedly."""

    def __init__(self, folder: Path, url: str, key: str) -> None:
        super().__init__(self.pull, patience_sec=300)
        self.copy = folder / "copy.duckdb"
        self.log = folder / "pull.log"
        (folder / "key").write_text(key)
        self._words = ("--url", url, "--key-file", str(folder / "key"), "--to", str(self.copy), "--limit", "50")
        self.ends: list[int] = []

    def pull(self) -> None:
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "counterfoil", "pull", *self._words]
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
        self.office = Deployment(folder / "office", store=address)
        self.office.load(SHOP, *(r.bill(SHOP, id=f"bill-{number}") for number in range(BILLS)))
        self.office.issue({name: {"per_min": PLENTY, "per_day": PLENTY} for name in ("reader", "puller", "checker")})
        self.node = Deployment(folder / "node", store=address, meter=valkey.url)
        self.running: ServeProcess = self.node.start()
        self.loader = Loader(self.office)
        self.puller = Puller(folder, self.running.url, self.office.keys["puller"])
        self.callers = [
            RepeatingClient(self.node.port, self.office.keys["reader"], question, every_sec=every)
            for question, every in QUESTIONS.items()
        ]
        self.events: list[Event] = []
        self._at_work = ExitStack()

    def __enter__(self) -> Self:
        for repeating in (self.loader, self.puller, *self.callers):
            self._at_work.enter_context(repeating)
        self._until_called_for(SETTLING_SEC)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop everything but the service, and pull once more, so that the copy has the final state."""
        self._at_work.close()
        self.puller.pull()

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


def _between(seen: list[Call], start: float, end: float) -> list[Call]:
    return [call for call in seen if call.ended >= start and call.began <= end]
