"""An empty copy in DuckDB that is created once per test process and then duplicated.

Creating the tables and views takes longer than opening a copy that has them.
"""

import tempfile
from functools import cache
from pathlib import Path

from counterfoil.client.sinks.duckdb import DuckDBSink


def with_empty_copy(path: Path) -> Path:
    """Return the path, at which there is an empty copy if there was no file."""
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
