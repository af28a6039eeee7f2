"""A store is copied to PostgreSQL while it is being served, with real processes on both sides."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import servers
from e2e.serve_process import SHOP, Deployment, ServeProcess
from records import bills

# Moving a store to a real server takes time, so this test runs only in `make test-long`.
pytestmark = pytest.mark.long

PLENTY = {"caller": {"per_min": 1_000_000, "per_day": 1_000_000}}


class Caller(threading.Thread):
    """Repeats requests until `enough` is set. Counts the requests that succeed, and records the refusals."""

    def __init__(self, service: ServeProcess, key: str) -> None:
        super().__init__()
        self._service, self._key = service, key
        self.admitted, self.last_time = 0, ""
        self.refusals: list[dict[str, Any]] = []
        self.enough = threading.Event()

    def run(self) -> None:
        while not self.enough.is_set():
            answer = self._service.get("shops", self._key)
            if answer.status_code == 200:
                self.admitted += 1
                self.last_time = answer.json()["serverTime"]
            else:
                self.refusals.append({"status": answer.status_code, "error": answer.json()["error"]})


def copy(deployment: Deployment, database: str, *more: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "counterfoil", "copy", "--from", f"sqlite:{deployment.store}", "--to", database, *more],
        env=deployment.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_no_count_no_horizon_and_no_change_is_lost_when_a_served_store_is_moved(tmp_path: Path) -> None:
    database = servers.postgres(18).fresh_database()[1]
    old = Deployment(tmp_path)
    old.load(SHOP, *bills(SHOP, 30))
    old.issue(PLENTY)
    service = old.start(workers=2)
    caller = Caller(service, old.keys["caller"])
    caller.start()
    try:
        copy(old, database)
        old.load(*bills(SHOP, 5))
        copy(old, database, "--cut-over")
    finally:
        caller.enough.set()
        caller.join()
    after = service.get("shops", old.keys["caller"])
    assert (after.status_code, after.json()["error"]) == (503, "auth_unavailable")
    assert all(refusal == {"status": 503, "error": "auth_unavailable"} for refusal in caller.refusals)
    assert "was moved to postgresql://" in old.log.read_text("utf-8")
    service.stop()

    (tmp_path / "new").mkdir()
    new = Deployment(tmp_path / "new", store=database)
    new.keys = old.keys
    node = new.start()
    spent = node.get("usage", old.keys["caller"]).json()["data"]
    assert spent["today"]["count"] == caller.admitted + 1
    assert node.get("shops", old.keys["caller"]).json()["serverTime"] >= caller.last_time
    changed = node.get("transactions?shopId=sh_1&updatedSince=2000-01-01T00:00:00Z&limit=200", old.keys["caller"])
    assert len(changed.json()["data"]) == 35
    assert node.stop() == 0
