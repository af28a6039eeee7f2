"""An empty copy in DuckDB that is created once per test process and then duplicated.

Creating the tables and views takes longer than opening a copy that has them.
"""

import tempfile
from functools import cache
from pathlib import Path

from counterfoil.client.sinks.duckdb import DuckDBSink


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
