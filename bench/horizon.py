"""Measure how far `serverTime` is behind the clock: idle, under load, and while a loader's transaction hangs.

    .venv/bin/python -m bench.horizon --seconds 20

Starts the service, sends one request at a time, and prints the age of `serverTime`
on arrival (so it includes the network time). At the end, a loader is frozen while
it holds the lock. While it is frozen, `serverTime` must not advance, and changes
that become visible later must be newer than that `serverTime`. Prints one line of
JSON on standard output. The exit status is 1 if either condition is violated.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from bench.pull import COUNTERFOIL, FRANCHISE, fill, issue_key, say, serving
from counterfoil.client import Client
from counterfoil.domain.access import Scope

FROZEN_SEC = 3.0
STANDS_STILL_SEC = 1.0
MOST_FREEZES = 200


class Service:
    """Sends requests to a running service."""

    def __init__(self, url: str, key: str) -> None:
        self._http = httpx.Client(headers={"authorization": f"Bearer {key}"}, base_url=url, timeout=30)
        self.client = Client(url, key, per_min=10**9)
        self.shops = [shop["shopId"] for shop in self.client.shops()]

    def server_time(self) -> str:
        return str(self._http.get("/usage").json()["serverTime"])

    def ages(self, seconds: float) -> list[float]:
        """Send requests for `seconds` seconds; return the age of `serverTime` in each response, in seconds."""
        ages, end = [], time.time() + seconds
        while time.time() < end:
            horizon = datetime.fromisoformat(self.server_time()).timestamp()
            ages.append(time.time() - horizon)
        return ages

    def changes(self, since: str) -> dict[tuple[str, str], str]:
        """Return the `updatedAt` of each bill that has changed since the mark `since`, keyed by shop and bill ID."""
        return {
            (shop_id, bill["id"]): str(bill["updatedAt"])
            for shop_id in self.shops
            for bill in self.client.bills(shop_id, updated_since=since)
        }


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how far serverTime is behind the clock.")
    parser.add_argument("--seconds", type=float, default=20.0, help="duration of each phase")
    parser.add_argument("--bills", type=int, default=5000)
    parser.add_argument("--loaders", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        result = measured(Path(scratch), given.bills, given.loaders, given.seconds)
    print(json.dumps(result))
    raise SystemExit(0 if result["promiseHeld"] else 1)


def measured(folder: Path, bills: int, loaders: int, seconds: float) -> dict[str, Any]:
    store = folder / "store"
    fill(store, bills)
    sources = [versions(folder, bills, seed) for seed in range(loaders)]
    key = issue_key(store, Scope("franchise", FRANCHISE))
    with serving(store, 1) as url:
        service = Service(url, key)
        result = {"idle": told("idle", service.ages(seconds))}
        with loading(store, sources) as processes:
            result[f"{loaders} loaders"] = told(f"{loaders} loaders", service.ages(seconds))
            held, recovered = frozen(service, processes)
    say(f"frozen inside a transaction  serverTime correct: {held}; recovered after {recovered:.2f} s")
    return result | {"promiseHeld": held, "recoveredSeconds": round(recovered, 3)}


def told(phase: str, ages: list[float]) -> dict[str, float]:
    ages.sort()
    part = {name: round(ages[int(at * (len(ages) - 1))], 4) for name, at in (("p50", 0.5), ("p99", 0.99), ("max", 1))}
    say(f"{phase:<29}" + "  ".join(f"{name} {1000 * age:.0f} ms" for name, age in part.items()) + f"  ({len(ages):,})")
    return part | {"answers": len(ages)}


# --- loaders ---------------------------------------------------------------------------


def versions(folder: Path, bills: int, seed: int) -> list[Path]:
    """Write two files with the same bills but different cashiers: loading them alternately changes every bill."""
    words = ("generate", "--bills", str(bills), "--seed", str(seed + 1))
    lines = subprocess.run([*COUNTERFOIL, *words], capture_output=True, check=True).stdout.splitlines()
    files = [folder / f"{seed}-{cashier}.ndjson" for cashier in ("Nok", "Lek")]
    for file in files:
        with file.open("w") as out:
            for record in map(json.loads, lines):
                own = {"franchiseId": FRANCHISE} if record["kind"] == "shop" else {"cashier": file.stem}
                out.write(json.dumps(record | own) + "\n")
    return files


@contextmanager
def loading(store: Path, sources: list[list[Path]]) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Run loaders that load their files in an endless loop, each in its own shell."""
    command = " ".join(COUNTERFOIL)
    processes = [
        subprocess.Popen(
            [
                "/bin/sh",
                "-c",
                f"while :; do for f in {' '.join(map(str, files))}; do {command} load $f --store {store}; done; done",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for files in sources
    ]
    try:
        yield processes
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def frozen(service: Service, processes: list["subprocess.Popen[bytes]"]) -> tuple[bool, float]:
    """Freeze a loader while it holds the lock; return whether serverTime was correct, and the seconds until recovery.

    The loader is frozen at random moments until `serverTime` stops advancing, which
    shows that the loader holds the lock.
    """
    began = service.server_time()
    for _ in range(MOST_FREEZES):
        time.sleep(random.uniform(0.05, 0.5))  # noqa: S311 - not for security
        os.killpg(processes[0].pid, signal.SIGSTOP)
        stood = service.server_time()
        time.sleep(STANDS_STILL_SEC)
        caught = service.server_time() == stood
        if caught:
            break
        os.killpg(processes[0].pid, signal.SIGCONT)
    else:
        raise SystemExit(f"the loader was frozen {MOST_FREEZES} times, but never while it held the lock")
    before = service.changes(began)
    time.sleep(FROZEN_SEC)
    vouched = service.server_time()
    os.killpg(processes[0].pid, signal.SIGCONT)
    freed = time.time()
    while datetime.fromisoformat(service.server_time()).timestamp() < freed:
        time.sleep(0.01)
    recovered = time.time() - freed
    limit = datetime.fromisoformat(vouched)
    late = [
        bill
        for bill, changed in service.changes(began).items()
        if datetime.fromisoformat(changed) <= limit and before.get(bill) != changed
    ]
    return not late and vouched == stood, recovered


if __name__ == "__main__":
    main()
