"""Measures every step from the POS to a copy: load, first pull into DuckDB, pulls with and without changes, reconcile.

Every step runs the command that an operator or an integrator would run, so the time
includes starting Python, unless a line of the results says otherwise.
"""

import json
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from bench.contestants import field, running
from bench.targets import OURS, Verdict, at_most
from bench.world import COUNTERFOIL, GROUP, LOADED, World

# Before the pull with changes, this many bills are loaded again with a different receipt number.
CHANGED = 1_000


class Step(Struct, frozen=True):
    """A command that has ended: its duration, its peak memory, and the line of JSON that it printed, if any."""

    seconds: float
    megabytes: float
    report: dict[str, Any]


def measured(world: World, rounds: int, tell: Callable[[str], None]) -> tuple[dict[str, object], list[Verdict]]:
    """In every round, run a pull that finds no changes; run all other steps once. Return the facts and the verdicts."""
    empty = _empty(world)
    tell("load")
    loaded = _run(empty, ["load", str(empty.source), "--batch", "2000"], LOADED)
    bills = _lines(empty.source / "bills.ndjson")
    with running(field()[OURS], empty) as service:
        to = ["--url", f"{service.url}/ext/v1", "--to", str(empty.folder / "copy.duckdb"), "--json"]
        key = {"COUNTERFOIL_KEY": service.keys[GROUP][0]}
        tell("first pull")
        first = _run(empty, ["pull", *to], (0,), key)
        tell("pulls without changes")
        idle = [_run(empty, ["pull", *to, "--members-every", "1d"], (0,), key) for _ in range(rounds)]
        with_members = _run(empty, ["pull", *to], (0,), key)
        _run(empty, ["load", str(_changed(empty)), "--batch", "2000"], LOADED)
        tell("pull with changes")
        changed = _run(empty, ["pull", *to], (0,), key)
        tell("reconcile")
        reconciled = _run(empty, ["reconcile", *to], (0,), key)
    first_rate = first.report["billsWritten"] / first.seconds
    idle_sec = statistics.median(step.report["seconds"] for step in idle)
    facts: dict[str, object] = {
        "end to end: load": f"{bills / loaded.seconds:,.0f} bills per second",
        "end to end: first pull": f"{first_rate:,.0f} bills per second, {_requests(first)}, {first.megabytes:.0f} MB",
        "end to end: pull without changes": f"{idle_sec * 1000:,.0f} ms, {_requests(idle[0])} "
        f"({statistics.median(step.seconds for step in idle) * 1000:,.0f} ms with the start of Python)",
        "end to end: pull without changes that reads all members again": f"{with_members.seconds * 1000:,.0f} ms, "
        f"{_requests(with_members)}",
        f"end to end: pull after {CHANGED:,} changes": f"{changed.seconds * 1000:,.0f} ms, {_requests(changed)}, "
        f"{changed.report['billsWritten']:,} bills written",
        "end to end: reconcile": f"{reconciled.report['days']:,} days in {reconciled.seconds:.1f} s, "
        f"{_requests(reconciled)}",
    }
    return facts, [
        at_most("first pull into DuckDB: megabytes of memory", 500, first.megabytes),
        at_most("pull without changes: seconds, without the start of Python", 0.3, idle_sec),
    ]


def _empty(world: World) -> World:
    """Return a world with the same source records but without a store."""
    empty = World(world.folder / "end-to-end")
    shutil.rmtree(empty.folder, ignore_errors=True)
    empty.folder.mkdir()
    shutil.copy(world.folder / "secret", empty.folder)
    empty.source.symlink_to(world.source)
    empty.peers.symlink_to(world.peers)
    return empty


def _run(world: World, words: list[str], accepted: tuple[int, ...], variables: dict[str, str] | None = None) -> Step:
    printed = world.folder / "printed"
    began = time.monotonic()
    with printed.open("wb") as out:
        process = subprocess.Popen([*COUNTERFOIL, *words], env=world.environment | (variables or {}), stdout=out)
        _, status, used = os.wait4(process.pid, 0)
    seconds = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in accepted:
        raise SystemExit(f"counterfoil {words[0]} failed with status {process.returncode}")
    report = json.loads(printed.read_text("utf-8")) if "--json" in words else {}
    return Step(seconds, used.ru_maxrss / 1024, report)


def _changed(world: World) -> Path:
    """Copy the first bills to a new file, with their receipt numbers changed; return the path of the file."""
    target = world.folder / "changed.ndjson"
    with (world.source / "bills.ndjson").open("rb") as lines, target.open("w", encoding="utf-8") as out:
        for line in islice(lines, CHANGED):
            out.write(json.dumps(json.loads(line) | {"receiptNumber": "changed"}, ensure_ascii=False) + "\n")
    return target


def _lines(path: Path) -> int:
    with path.open("rb") as lines:
        return sum(1 for _ in lines)


def _requests(step: Step) -> str:
    return f"{step.report['requests']:,} requests"
