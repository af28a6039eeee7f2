"""Compare how fast our loader, `sqlite-utils insert` and dlt (into DuckDB) load the same NDJSON."""

import json
import resource
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from bench import growth
from bench.contestants import PEERS, PEERS_BIN
from bench.targets import Verdict, at_least
from bench.world import COUNTERFOIL, World

# The short load shows what starting the process costs. dlt takes half a minute for it, so the long load leaves dlt out.
SHORT, LONG = 20_000, 60_000
UTILS, DLT = "sqlite-utils insert", "dlt into DuckDB"
# Our loader should be at least this many times as fast as each of the other tools.
WANTED = {UTILS: 2.5, DLT: 1.0}


class Taken(Struct, frozen=True):
    """Wall time and processor time of one load, in seconds."""

    seconds: float
    processor: float


def compared(
    world: World, rounds: int, tell: Callable[[str], None]
) -> tuple[dict[str, object], dict[str, float], list[Verdict]]:
    """Return the facts, the rates of the short load, and the verdicts."""
    facts, rates, verdicts = _compared(world, SHORT, (UTILS, DLT), "load", rounds, tell)
    if growth.bills_in(world) >= LONG:
        more_facts, _, more = _compared(world, LONG, (UTILS,), f"load of {LONG:,} bills", rounds, tell)
        facts, verdicts = facts | more_facts, verdicts + more
    return facts, rates, verdicts


def _compared(
    world: World, bills: int, others: Sequence[str], title: str, rounds: int, tell: Callable[[str], None]
) -> tuple[dict[str, object], dict[str, float], list[Verdict]]:
    folder = world.folder / "loading"
    folder.mkdir(exist_ok=True)
    lines = _strict(world.source / "bills.ndjson", folder / "bills.ndjson", bills)
    ours = "Counterfoil"
    commands: dict[str, Callable[[], list[str]]] = {
        ours: lambda: _ours(world, folder),
        UTILS: lambda: _sqlite_utils(folder),
        DLT: lambda: _dlt(folder),
    }
    contestants = [ours, *others] if (PEERS_BIN / "sqlite-utils").exists() else [ours]
    taken: dict[str, list[Taken]] = {name: [] for name in contestants}
    for number in range(1, rounds + 1):
        for name in contestants:
            tell(f"{title} {number} of {rounds}: {name}")
            taken[name].append(_timed(commands[name](), world))
    rates = {name: lines / statistics.median(one.seconds for one in found) for name, found in taken.items()}
    spent = {name: statistics.median(one.processor for one in found) for name, found in taken.items()}
    facts: dict[str, object] = {
        f"{title}, {name}": f"{rates[name]:,.0f} bills per second, {spent[name] / lines * 1e6:,.0f} us of CPU time each"
        for name in taken
    }
    verdicts = [
        at_least(f"{title}, times {name}", WANTED[name], rates[ours] / rates[name], spent[name] / spent[ours])
        for name in contestants[1:]
    ]
    return facts, rates, verdicts


def _strict(source: Path, target: Path, bills: int) -> int:
    """Copy up to this many bills that are valid JSON; return the count.

    Some bills contain NaN, which is not valid JSON.
    """
    kept = 0
    with source.open("rb") as lines, target.open("wb") as out:
        for line in lines:
            if kept < bills and _parses(line):
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


def _timed(words: list[str], world: World) -> Taken:
    began, before = time.monotonic(), _spent()
    environment = _environment(world)
    done = subprocess.run(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode not in (0, 3):
        raise SystemExit(f"{words[0]} failed: {done.stderr.decode()[-500:]}")
    return Taken(time.monotonic() - began, _spent() - before)


def _environment(world: World) -> dict[str, str]:
    """Return the environment for a load. It lets Python store compiled modules, so that later loads can reuse them."""
    return {name: value for name, value in world.environment.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _spent() -> float:
    """Return the processor time of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _ours(world: World, folder: Path) -> list[str]:
    """Prepare a store with the bases and shops that the bills need; return the command that loads the bills."""
    store = folder / "store"
    shutil.rmtree(store, ignore_errors=True)
    load = [*COUNTERFOIL, "load", "--store", str(store)]
    standing = [str(world.source / f"{name}.ndjson") for name in ("bases", "shops")]
    subprocess.run([*load, *standing], env=_environment(world), stdout=subprocess.DEVNULL, check=True)
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
