"""A store is copied to PostgreSQL while it is being served, with real processes on both sides."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

import servers
from e2e.serve_process import SHOP, Deployment
from faults.http_clients import Repeating
from records import bills

# Moving a store to a real server takes time, so this test runs only in `make test-long`.
pytestmark = pytest.mark.long

PLENTY = {"caller": {"per_min": 1_000_000, "per_day": 1_000_000}}


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
    answers: list[httpx.Response] = []
    with Repeating(lambda: answers.append(service.get("shops", old.keys["caller"]))):
        copy(old, database)
        old.load(*bills(SHOP, 5))
        copy(old, database, "--cut-over")
    admitted = [answer for answer in answers if answer.status_code == 200]
    refused = [answer for answer in answers if answer.status_code != 200]
    for answer in (*refused, service.get("shops", old.keys["caller"])):
        assert (answer.status_code, answer.json()["error"]) == (503, "auth_unavailable")
    # The service writes its log a moment later, at the latest when it stops.
    service.stop()
    assert "was moved to postgresql://" in old.log.read_text("utf-8")

    (tmp_path / "new").mkdir()
    new = Deployment(tmp_path / "new", store=database)
    new.keys = old.keys
    node = new.start()
    spent = node.get("usage", old.keys["caller"]).json()["data"]
    assert spent["today"]["count"] == len(admitted) + 1
    assert node.get("shops", old.keys["caller"]).json()["serverTime"] >= admitted[-1].json()["serverTime"]
    changed = node.get("transactions?shopId=sh_1&updatedSince=2000-01-01T00:00:00Z&limit=200", old.keys["caller"])
    assert len(changed.json()["data"]) == 35
    assert node.stop() == 0
