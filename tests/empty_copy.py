"""What tests of copies need of DuckDB, made once per test process: an empty copy, and an in-memory database.

Creating the tables and views takes longer than opening a copy that has them.
"""

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from counterfoil.client.sinks.duckdb import DuckDBSink
from counterfoil.client.sinks.json_rows import in_memory_database


def with_empty_copy(path: Path) -> Path:
    """Create an empty copy at this path unless there is a file already; return the path."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_empty_copy())
    return path


@cache
def _empty_copy() -> bytes:
    with tempfile.TemporaryDirectory(prefix="counterfoil-empty-") as folder:
        path = Path(folder) / "copy.duckdb"
        DuckDBSink(path).close()
        return path.read_bytes()


def connection_to_shared_database() -> Any:
    """Return a new connection to one in-memory database, because opening a database takes 25 ms."""
    return _shared_database().cursor()


@cache
def _shared_database() -> Any:
    return in_memory_database()
