"""Serves the demo's data in this process, and runs third-party programs that read it."""

import os
import sqlite3
import subprocess
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest

from counterfoil import bootstrap, settings
from counterfoil.demo import showcase
from counterfoil.demo.showcase import Showcase
from counterfoil.demo.worldgen.plan import WorldPlan
from running_service import ServerThread

SEED = 3
PLAN = WorldPlan(until=date(2026, 1, 31), seed=SEED, days=40, bills=1_500, members=300)


class Demo:
    """A running service with the data of the demo."""

    def __init__(self, folder: Path) -> None:
        flags = {"store": str(folder), "secret": showcase.demo_secret(SEED), "log": "off"}
        self.settings = settings.load(flags, environment={})
        self.shown: Showcase = showcase.build(
            self.settings, PLAN, lambda purpose: showcase.seeded_randomness(SEED, purpose)
        )
        bootstrap.store(self.settings).ledger().advance_horizon()
        self.server = ServerThread(bootstrap.service(self.settings, lambda _: None))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def key(self, purpose: str) -> str:
        return self.shown.key(purpose).text

    def held(self, shop_ids: set[str], *, tracked_only: bool = False) -> set[tuple[str, str]]:
        """Return the IDs of these shops' bills directly from the store: all bills, or only those with `updatedAt`."""
        with closing(sqlite3.connect(self.settings.store / "books.sqlite3")) as books:
            query = "SELECT shops.id, bills.id, updated_at FROM bills JOIN shops ON shops.number = bills.shop"
            rows = books.execute(query).fetchall()
        return {
            (shop_id, bill_id)
            for shop_id, bill_id, updated_at in rows
            if shop_id in shop_ids and not (tracked_only and updated_at is None)
        }


def run(*command: str, cwd: Path, environment: dict[str, str] | None = None) -> str:
    """Run a program that must succeed; return its output."""
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | (environment or {}), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


# --- npm packages, installed by `make node-tools`. Without them, tests that need them are skipped ---------

MODULES = Path(__file__).parents[2] / ".ci" / "node" / "node_modules"

needs_node_tools = pytest.mark.skipif(
    not (MODULES / ".ready").exists(),
    reason="the npm packages are not installed, so this was NOT checked (make node-tools)",
)


def node_program(name: str) -> str:
    return str(MODULES / ".bin" / name)
