"""Targets of every kind. Each is empty at first and can be opened repeatedly."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import servers
from counterfoil.client.sinks.duckdb import DuckDBSink, ParquetSink
from counterfoil.client.sinks.postgres import PostgresSink
from counterfoil.client.sinks.sql import Sink
from counterfoil.client.sinks.sqlite import SQLiteSink
from empty_copy import with_empty_copy
from records import fresh

Target = Callable[[], Sink]


def duckdb_target(folder: Path) -> Target:
    return lambda: DuckDBSink(with_empty_copy(folder / "copy.duckdb"))


def sqlite_target(folder: Path) -> Target:
    return lambda: SQLiteSink(folder / "copy.sqlite")


def parquet_target(folder: Path) -> Target:
    return lambda: ParquetSink(folder / "parquet")


def postgres_url() -> str:
    """Create an empty database; return its address."""
    name = fresh("copy").replace("-", "_")
    server = servers.postgres(18)
    server.command(f"CREATE DATABASE {name}")
    return server.url(name)


def postgres_target(_: Path) -> Target:
    url = postgres_url()
    return lambda: PostgresSink(url)


@contextmanager
def held_open_by_a_writer(file: Path) -> Iterator[None]:
    """Change a DuckDB file in another process, which keeps it open for writing until the block ends, as a pull does."""
    source = (
        "import duckdb, sys; db = duckdb.connect(sys.argv[1]); db.execute('CREATE OR REPLACE TABLE t AS SELECT 1');"
        "db.execute('CHECKPOINT'); print('open', flush=True); sys.stdin.read(); db.close()"
    )
    other = subprocess.Popen([sys.executable, "-c", source, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout
    assert other.stdout.readline() == b"open\n"
    try:
        yield
    finally:
        other.communicate()


TARGETS = {"duckdb": duckdb_target, "sqlite": sqlite_target, "parquet": parquet_target, "postgres": postgres_target}

# Every kind of target. `make test` pulls into DuckDB and SQLite, and `make test-programs` into the others.
EVERY_KIND = [
    pytest.param(name, marks=() if name in ("duckdb", "sqlite") else pytest.mark.programs) for name in TARGETS
]
