"""Measure how fast a first pull fills a DuckDB file from a local service, and what it costs.

    .venv/bin/python bench/pull.py --bills 1000000

Generates, loads and serves a restaurant group, with a key that has practically
no limits, then pulls it in a separate process. Prints a table on standard error
and one line of JSON on standard output.
"""

import argparse
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import httpx

from counterfoil import bootstrap, key_issuing, settings
from counterfoil.client import Client
from counterfoil.client.conversation import Call, HttpResponse
from counterfoil.client.pull import Options, Puller
from counterfoil.client.sinks.duckdb import DuckDBSink
from counterfoil.domain.access import Scope
from counterfoil.machine.operator import operator

COUNTERFOIL = (sys.executable, "-m", "counterfoil")
HOST = "127.0.0.1"
PLENTY = 1_000_000_000
FRANCHISE = "bench"
COUNTED = """
    SELECT (SELECT count(*) FROM bills) + (SELECT count(*) FROM bill_items) + (SELECT count(*) FROM payments)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast a first pull fills a DuckDB file.")
    parser.add_argument("--bills", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=1, help="worker processes of the service")
    parser.add_argument("--folder", type=Path, help="keep store and copy here, and use the store that is there")
    parser.add_argument("--child", nargs=3, metavar=("URL", "KEY", "TARGET"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(pulled(*given.child)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        result = measured(given.folder or Path(scratch), given.bills, given.workers)
    tell(result)
    print(json.dumps(result))


# --- the pull, in a separate process -------------------------------------------------


class MeasuredClient(Client):
    """Measures the wall and processor time of requests. Processor time is the client's own; the rest is waiting."""

    asking_sec = 0.0
    asking_cpu_sec = 0.0

    def send(self, call: Call) -> HttpResponse:
        began, cpu = time.perf_counter(), time.thread_time()
        try:
            return super().send(call)
        finally:
            self.asking_sec += time.perf_counter() - began
            self.asking_cpu_sec += time.thread_time() - cpu


def pulled(url: str, key: str, target: str) -> dict[str, Any]:
    began = time.perf_counter()
    with MeasuredClient(url, key) as client, closing(DuckDBSink(Path(target))) as sink:
        with closing(Puller(client, sink, Options())) as puller:
            tally = puller.run()
        seconds = time.perf_counter() - began
        counted = sink.run(COUNTED)[0][0]
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "bills": tally.bills_written,
        "rows": counted,
        "members": tally.members_written,
        "requests": tally.requests,
        "seconds": seconds,
        "waitingSeconds": tally.waiting_sec,
        "writingSeconds": tally.writing_sec,
        "askingSeconds": client.asking_sec,
        "askingCpuSeconds": client.asking_cpu_sec,
        "cpuSeconds": spent.ru_utime + spent.ru_stime,
        "peakMegabytes": spent.ru_maxrss / 1024,
    }


# --- setup and report ------------------------------------------------------------------


def measured(folder: Path, bills: int, workers: int) -> dict[str, Any]:
    store, target = folder / "store", folder / "copy.duckdb"
    if not store.exists():
        say(f"generating and loading {bills:,} bills")
        fill(store, bills)
    target.unlink(missing_ok=True)
    key = issue_key(store, Scope("franchise", FRANCHISE))
    with serving(store, workers) as url:
        say("pulling")
        child = [sys.executable, __file__, "--child", url, key, str(target)]
        done = subprocess.run(child, stdout=subprocess.PIPE, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    wall = result["seconds"]
    own = wall - result["waitingSeconds"] - result["writingSeconds"]
    return result | {
        "billsPerSecond": result["bills"] / wall,
        "rowsPerSecond": result["rows"] / wall,
        "shareWaiting": result["waitingSeconds"] / wall,
        "shareDuckDB": result["writingSeconds"] / wall,
        # Requests overlap with writing, so this is an upper bound on the client's share.
        "shareClientAtMost": (own + result["askingCpuSeconds"]) / wall,
        "copyMegabytes": target.stat().st_size / 1e6 if target.exists() else None,
        "duckdb": duckdb.__version__,
        "cores": os.cpu_count(),
    }


def fill(store: Path, bills: int) -> None:
    """Generate and load a restaurant group. All shops belong to one franchise, so that one key can read them all."""
    generate = subprocess.Popen([*COUNTERFOIL, "generate", "--bills", str(bills)], stdout=subprocess.PIPE)
    load = subprocess.Popen(
        [*COUNTERFOIL, "load", "-", "--store", str(store), "--batch", "2000"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    assert generate.stdout
    assert load.stdin
    for line in generate.stdout:
        load.stdin.write(_of_one_franchise(line) if b'"kind":"shop"' in line else line)
    load.stdin.close()
    # Exit status 3 means that some lines were rejected; all other lines were loaded.
    if generate.wait() or load.wait() not in (0, 3):
        raise SystemExit("the load failed")


def _of_one_franchise(line: bytes) -> bytes:
    return json.dumps(json.loads(line) | {"franchiseId": FRANCHISE}).encode() + b"\n"


def issue_key(store: Path, scope: Scope) -> str:
    with closing(bootstrap.key_store(settings.load({"store": str(store)}))) as key_store:
        grant = key_issuing.Grant(scope=scope, per_min=PLENTY, per_day=PLENTY)
        return key_issuing.issue(key_store, grant, os.urandom, 0, operator()).text


@contextmanager
def serving(store: Path, workers: int) -> Iterator[str]:
    with socket.create_server((HOST, 0)) as probe:
        port = probe.getsockname()[1]
    words = ["--port", str(port), "--admin-port", "0", "--log", "off", "--workers", str(workers), "--store", str(store)]
    server = subprocess.Popen([*COUNTERFOIL, "serve", *words])
    url = f"http://{HOST}:{port}/ext/v1"
    try:
        wait_for(f"{url}/openapi.json")
        yield url
    finally:
        server.terminate()
        server.wait()


def wait_for(url: str) -> None:
    for _ in range(500):
        try:
            httpx.get(url)
            return
        except httpx.HTTPError:
            threading.Event().wait(0.05)
    raise SystemExit("the service did not start")


def tell(result: dict[str, Any]) -> None:
    rows = (
        ("bills", f"{result['bills']:,} in {result['seconds']:.1f} s"),
        ("bills a second", f"{result['billsPerSecond']:,.0f}"),
        ("rows a second", f"{result['rowsPerSecond']:,.0f} (bills, lines and payments)"),
        ("requests", f"{result['requests']:,}"),
        ("waiting for the service", f"{result['shareWaiting']:.0%}"),
        ("in DuckDB", f"{result['shareDuckDB']:.0%}"),
        ("in the client, at most", f"{result['shareClientAtMost']:.0%}"),
        ("peak memory", f"{result['peakMegabytes']:.0f} MB"),
        ("the copy", f"{result['copyMegabytes']:.0f} MB"),
    )
    for name, value in rows:
        say(f"{name:<26}{value}")


def say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    main()
