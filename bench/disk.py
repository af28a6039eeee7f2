"""The bytes that a bill takes on disk, table by table and index by index, in our store and in the contestants' file."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bench.world import World

# The virtual table `dbstat` knows the pages of each table and index. Overflow pages and unused space are included.
_PARTS_OF_BILLS = """
    SELECT schema.name, schema.type, sum(pages.pgsize)
    FROM sqlite_schema AS schema JOIN dbstat AS pages ON pages.name = schema.name
    WHERE schema.tbl_name = 'bills' GROUP BY schema.name ORDER BY sum(pages.pgsize) DESC
"""
_BILLS = "SELECT count(*) FROM bills"


def facts(world: World) -> dict[str, str]:
    """Return the bytes a bill of each file, as facts for the report."""
    return {
        "bytes a bill, Counterfoil and the FastAPI that reads its file": _described(world.books),
        "bytes a bill, the tables of FastAPI, Fastify, Bun and Go": _described(world.peers),
    }


def _described(path: Path) -> str:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        (bills,) = connection.execute(_BILLS).fetchone()
        parts = list(_bytes_a_bill(connection, bills))
    total = sum(size for _, size in parts)
    named = ", ".join(f"{name} {size:,.0f}" for name, size in parts)
    return f"{total:,.0f}: {named}"


def _bytes_a_bill(connection: sqlite3.Connection, bills: int) -> Iterator[tuple[str, float]]:
    for name, kind, size in connection.execute(_PARTS_OF_BILLS):
        if kind == "table":
            yield "rows", size / bills
        elif name.startswith("sqlite_autoindex"):
            yield "primary key", size / bills
        else:
            yield name, size / bills
