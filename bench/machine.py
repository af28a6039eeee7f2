"""Describes the machine and the installed versions, and measures the processor time and memory of processes."""

import os
import platform
import re
import shutil
import sqlite3
import subprocess
from importlib.metadata import version
from pathlib import Path

from bench.contestants import BUN, FASTIFY, PEERS_BIN

TICKS = os.sysconf("SC_CLK_TCK")
# Indexes of fields in /proc/<pid>/stat. Index 0 is the field after the command's name.
SESSION, USER_TICKS, SYSTEM_TICKS = 3, 11, 12


def described() -> dict[str, str]:
    """Return a description of the machine that does not identify it."""
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "load": f"{os.getloadavg()[0]:.1f} at the start of the run",
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return platform.processor()
    found = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    part = re.search(r"^CPU part\s*: (.*)$", text, re.MULTILINE)
    return found[1] if found else f"{platform.machine()}, part {part[1]}" if part else platform.machine()


def versions() -> dict[str, str]:
    """Return the versions of the software that the benchmark uses.

    A missing program is reported as "not installed"; a missing package is left out.
    """
    ours = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    ours |= {f"{name} (ours)": version(name) for name in ("granian", "msgspec", "uvloop")}
    told = {
        "wrk": ("wrk", "--version"),
        "node": ("node", "--version"),
        "nginx": ("/usr/sbin/nginx", "-v"),
        "bun": (str(BUN), "--version"),
        "go": ("go", "version"),
    }
    return ours | {name: _told(*words) for name, words in told.items()} | _of_peers() | _of_node()


def _told(*words: str) -> str:
    if not shutil.which(words[0]):
        return "not installed"
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    found = re.search(r"\d+(\.\d+)+", done.stdout + done.stderr)
    return found[0] if found else "unknown"


def _of_peers() -> dict[str, str]:
    names = ("fastapi", "uvicorn", "SQLAlchemy", "pydantic", "datasette", "sqlite-utils", "dlt")
    if not PEERS_BIN.exists():
        return {}
    asked = f"from importlib.metadata import version; print(*(version(n) for n in {names!r}))"
    done = subprocess.run([PEERS_BIN / "python", "-c", asked], capture_output=True, text=True, check=False)
    return dict(zip(names, done.stdout.split(), strict=False))


def _of_node() -> dict[str, str]:
    found = {}
    for name in ("fastify", "better-sqlite3", "pg"):
        package = FASTIFY / "node_modules" / name / "package.json"
        if package.exists():
            match = re.search(r'"version": "([^"]+)"', package.read_text("utf-8"))
            found[name] = match[1] if match else "unknown"
    return found


# --- processor time and memory of processes, on Linux ------------------------------


def processor_seconds(session: int) -> float | None:
    """Return the total processor time of the live processes in a session, or None if none are found.

    Other load on the machine hardly affects it.
    """
    spent = [_spent(process) for process in _members(session)]
    return sum(spent) if spent else None


def resident_megabytes(session: int) -> list[float]:
    """Return the memory usage of each process in a session, excluding file-backed pages, in ascending order."""
    return sorted(_private(process) for process in _members(session))


def _members(session: int) -> list[Path]:
    return [
        process for process in Path("/proc").glob("[0-9]*") if _fields(process)[SESSION : SESSION + 1] == [str(session)]
    ]


def _fields(process: Path) -> list[str]:
    try:
        return (process / "stat").read_text("ascii", "replace").rpartition(") ")[2].split()
    except OSError:
        return []


def _spent(process: Path) -> float:
    fields = _fields(process)
    return (int(fields[USER_TICKS]) + int(fields[SYSTEM_TICKS])) / TICKS if fields else 0.0


def _private(process: Path) -> float:
    try:
        text = (process / "status").read_text("ascii", "replace")
    except OSError:
        return 0.0
    found = re.search(r"^RssAnon:\s+(\d+) kB$", text, re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0
