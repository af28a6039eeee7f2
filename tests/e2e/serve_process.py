"""Runs the real `counterfoil serve` command as a process, with a store in a temporary folder or on database servers."""

import json
import os
import secrets
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from actors import OPERATOR
from counterfoil import bootstrap, key_issuing, settings
from counterfoil.domain.access import Scope
from counterfoil.ingest.pipeline import LoadRules, Pipeline, RejectsFile, Summary
from empty_store import copy_empty_store
from running_service import SECRET, RecordSource, free_port
from waiting import PATIENCE_SEC, until

SHOP = {"kind": "shop", "id": "sh_1", "name": "Riverside", "franchiseId": "fr_a", "providerId": "mb_a"}
COMMAND = (sys.executable, "-m", "counterfoil", "serve")


class Deployment:
    """A store with its settings, ports and keys, with or without a running service."""

    def __init__(self, folder: Path, store: str = "", meter: str = "") -> None:
        self.folder = folder
        self.store = folder / "store"
        self.addresses = {"store": store or str(self.store), "meter": meter}
        self.port, self.admin_port = free_port(), free_port()
        self.log = folder / "log"
        self.keys: dict[str, str] = {}
        self.variables: dict[str, str] = {}
        self.counters = folder / "tmp"
        self.counters.mkdir(parents=True, exist_ok=True)
        self.settings = settings.load({**self.addresses, "secret": SECRET}, environment={})
        if not (self.settings.database or self.store.exists()):
            copy_empty_store(self.store)
        bootstrap.store(self.settings).prepare()

    # --- the operator --------------------------------------------------------------

    def load(self, *records: Any) -> Summary:
        ledger = bootstrap.store(self.settings).ledger()
        rejects = RejectsFile(self.folder / "rejects.ndjson")
        try:
            pipeline = Pipeline(ledger, bootstrap.pseudonyms(self.settings), rejects, LoadRules())
            return pipeline.load(RecordSource(list(records)))
        finally:
            ledger.close()

    def issue(self, keys: dict[str, dict[str, Any]]) -> None:
        """Issue named keys for the shop, with these limits and permissions."""
        key_store = bootstrap.store(self.settings).key_store()
        for name, terms in keys.items():
            grant = key_issuing.Grant(scope=Scope("shop", "sh_1"), label=name, **terms)
            self.keys[name] = key_issuing.issue(key_store, grant, secrets.token_bytes, 0, OPERATOR).text
        key_store.close()

    @contextmanager
    def database(self, name: str) -> Iterator[sqlite3.Connection]:
        """Open one of the store's files, bypassing the service."""
        connection = sqlite3.connect(self.store / f"{name}.sqlite3", timeout=10, isolation_level=None)
        try:
            yield connection
        finally:
            connection.close()

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("COUNTERFOIL_")}
        return kept | {
            "COUNTERFOIL_STORE": self.addresses["store"],
            "COUNTERFOIL_METER": self.addresses["meter"],
            "COUNTERFOIL_SECRET": SECRET,
            "COUNTERFOIL_PORT": str(self.port),
            "COUNTERFOIL_ADMIN_PORT": str(self.admin_port),
            "TMPDIR": str(self.counters),
            **self.variables,
        }

    def refusal(self, **environment: str) -> str:
        """Start the service, which must fail; return its message, which must be a single line."""
        done = subprocess.run(
            COMMAND,
            env=self.environment() | environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SEC,
            check=False,
        )
        assert done.returncode == 1, done.stderr
        assert done.stdout == ""
        (sentence,) = [line for line in done.stderr.splitlines() if not line.startswith("{")]
        return sentence

    # --- the service -----------------------------------------------------------------

    def start(self, workers: int = 1, *, ready: bool = True) -> "ServeProcess":
        running = ServeProcess(self, workers)
        if ready:
            running.wait_until_ready()
        return running


class ServeProcess:
    """A running `counterfoil serve`."""

    def __init__(self, deployment: Deployment, workers: int) -> None:
        self.deployment = deployment
        self.workers = workers
        with deployment.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*COMMAND, "--workers", str(workers)],
                env=deployment.environment(),
                cwd=deployment.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        # Every request uses a new connection, so that any worker may answer.
        self._client = httpx.Client(timeout=10, limits=httpx.Limits(max_keepalive_connections=0))
        self.url = f"http://127.0.0.1:{deployment.port}/ext/v1/"

    def wait_until_ready(self) -> None:
        try:
            until(self._answers, "the service answered")
        except BaseException:
            self.process.kill()
            raise

    def _answers(self) -> bool:
        assert self.process.poll() is None, self.deployment.log.read_text(encoding="utf-8")
        try:
            return self.admin("ready").status_code == 200 and len(self.pids()) == self.workers
        except httpx.TransportError:
            return False

    def pids(self) -> set[int]:
        """Return the PIDs of the workers."""
        return {
            pid
            for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
            if self._is_worker(pid)
        }

    def _is_worker(self, pid: int) -> bool:
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False
        return int(state[1]) == self.process.pid and state[0] != "Z" and b"serving.worker" in command

    def key(self, name: str) -> str:
        return self.deployment.keys[name]

    def get(self, path: str, key: str | None = None, headers: dict[str, str] | None = None) -> httpx.Response:
        sent = {"authorization": f"Bearer {key}"} if key else {}
        return self._client.get(self.url + path, headers=sent | (headers or {}))

    def admin(self, path: str) -> httpx.Response:
        return self._client.get(f"http://127.0.0.1:{self.deployment.admin_port}/{path}")

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of the metric's samples that have these labels."""
        return sum(
            sample.value
            for family in text_string_to_metric_families(self.admin("metrics").text)
            for sample in family.samples
            if sample.name == f"counterfoil_{name}" and labels.items() <= sample.labels.items()
        )

    def logged(self) -> list[dict[str, Any]]:
        """Return the complete log lines so far."""
        text = self.deployment.log.read_bytes()
        return [json.loads(line) for line in text[: text.rfind(b"\n") + 1].splitlines()]

    def stop(self) -> int:
        """Ask the service to stop; return its exit status."""
        self._client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE_SEC)
        except subprocess.TimeoutExpired:
            for pid in self.pids():
                os.kill(pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()
            raise


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def is_pending(pid: int, number: signal.Signals) -> bool:
    """Return whether this signal was sent to a frozen process and has not been delivered yet."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    (pending,) = [line.split()[1] for line in status.splitlines() if line.startswith("ShdPnd:")]
    return bool(int(pending, 16) & 1 << (number - 1))
