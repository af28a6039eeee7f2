"""A load that is killed at any point and run again leaves the same state as a load that was never killed."""

import os
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest

from cli.command import PYTHON
from counterfoil.demo.worldgen.plan import WorldPlan
from counterfoil.demo.worldgen.world import world
from counterfoil.domain.calendar import date_of

pytestmark = pytest.mark.programs

LINES = list(world(WorldPlan(until=date_of(20260930), bills=600, members=120, seed=3)))
ENVIRONMENT = os.environ | {"COUNTERFOIL_SECRET": "the-same-secret-in-every-store-of-this-test"}

# Queries for the state of a store without its stamps, which depend on the time of each load.
STATE = {
    "shops": "SELECT id, franchise_id, provider_id, removed, facts, body FROM shops ORDER BY id",
    "bases": "SELECT id, body FROM bases ORDER BY id",
    "members": "SELECT token, provider_id, created_at, record, form FROM members ORDER BY token",
    "accounts": "SELECT provider_id, hash, token, channel FROM accounts ORDER BY provider_id, hash, token",
    "bills": "SELECT id, bill_day, closed_at, updated_at IS NULL, trading_day, rev, digest FROM bills ORDER BY id",
}


def load(store: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [*PYTHON, "load", "-", "--batch", "25", "--store", store],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=ENVIRONMENT,
    )


def load_all(store: Path) -> None:
    process = load(store)
    process.communicate(b"\n".join(LINES))
    assert process.returncode == 0


def state(store: Path) -> dict[str, list[object]]:
    connection = sqlite3.connect(store / "books.sqlite3")
    try:
        return {name: connection.execute(query).fetchall() for name, query in STATE.items()}
    finally:
        connection.close()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[object]]:
    store = tmp_path_factory.mktemp("undisturbed") / "store"
    load_all(store)
    return state(store)


@pytest.mark.parametrize("part", [0.15, *(pytest.param(part, marks=pytest.mark.long) for part in (0.5, 0.9)), 1.0])
def test_a_load_killed_at_any_point_and_run_again_ends_in_the_same_state(
    tmp_path: Path, undisturbed: dict[str, list[object]], part: float
) -> None:
    store = tmp_path / "store"
    killed = load(store)
    assert killed.stdin
    killed.stdin.write(b"\n".join(LINES[: int(len(LINES) * part)]))
    killed.stdin.flush()
    killed.send_signal(signal.SIGKILL)
    killed.stdin.close()
    assert killed.wait() == -signal.SIGKILL
    load_all(store)
    assert state(store) == undisturbed
    assert len(undisturbed["bills"]) == 600
