"""Loading the same NDJSON: our loader against `sqlite-utils insert` and dlt into DuckDB."""

import json
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from bench.contestants import PEERS, PEERS_BIN
from bench.targets import Verdict, at_least
from bench.world import COUNTERFOIL, World

BILLS = 10_000


def compared(
    world: World, rounds: int, tell: Callable[[str], None]
) -> tuple[dict[str, object], dict[str, float], list[Verdict]]:
    folder = world.folder / "loading"
    folder.mkdir(exist_ok=True)
    lines = _strict(world.source / "bills.ndjson", folder / "bills.ndjson")
    contestants: dict[str, Callable[[], list[str]]] = {
        "Counterfoil": lambda: _ours(world, folder),
        "sqlite-utils insert": lambda: _sqlite_utils(folder),
        "dlt into DuckDB": lambda: _dlt(folder),
    }
    if not (PEERS_BIN / "sqlite-utils").exists():
        contestants = {"Counterfoil": contestants["Counterfoil"]}
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(1, rounds + 1):
        for name, prepared in contestants.items():
            tell(f"load {number} of {rounds}: {name}")
            rates[name].append(lines / _timed(prepared(), world))
    medians = {name: statistics.median(found) for name, found in rates.items()}
    facts: dict[str, object] = {
        f"bills a second, {name}": f"{medians[name]:,.0f} ({min(found):,.0f} - {max(found):,.0f})"
        for name, found in rates.items()
    }
    ours = medians.pop("Counterfoil")
    verdicts = [at_least(f"load, times {name}", 1, ours / theirs) for name, theirs in medians.items()]
    return facts, {"Counterfoil": ours, **medians}, verdicts


def _strict(source: Path, target: Path) -> int:
    """The first bills that every JSON parser takes: some tills write NaN, which only ours sets right."""
    kept = 0
    with source.open("rb") as lines, target.open("wb") as out:
        for line in lines:
            if kept < BILLS and _parses(line):
                out.write(line)
                kept += 1
    return kept


def _parses(line: bytes) -> bool:
    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        json.loads(line, parse_constant=refuse)
    except ValueError:
        return False
    return True


def _timed(words: list[str], world: World) -> float:
    began = time.monotonic()
    done = subprocess.run(words, env=world.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode not in (0, 3):
        raise SystemExit(f"{words[0]} failed: {done.stderr.decode()[-500:]}")
    return time.monotonic() - began


def _ours(world: World, folder: Path) -> list[str]:
    """Into a store that knows the shops already: without them no bill could be finished."""
    store = folder / "store"
    shutil.rmtree(store, ignore_errors=True)
    load = [*COUNTERFOIL, "load", "--store", str(store)]
    standing = [str(world.source / f"{name}.ndjson") for name in ("bases", "shops")]
    subprocess.run([*load, *standing], env=world.environment, stdout=subprocess.DEVNULL, check=True)
    return [*load, str(folder / "bills.ndjson"), "--batch", "2000"]


def _sqlite_utils(folder: Path) -> list[str]:
    target = folder / "utils.sqlite3"
    target.unlink(missing_ok=True)
    words = ["insert", str(target), "bills", str(folder / "bills.ndjson"), "--nl", "--alter", "--pk", "id", "--replace"]
    return [str(PEERS_BIN / "sqlite-utils"), *words]


def _dlt(folder: Path) -> list[str]:
    shutil.rmtree(folder / "dlt", ignore_errors=True)
    words = [str(PEERS / "dlt_load.py"), str(folder / "bills.ndjson"), str(folder / "dlt")]
    return [str(PEERS_BIN / "python"), *words]
