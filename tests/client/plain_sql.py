"""Runs SQL on a copy of any kind as an analyst would: with the engine's own client and without Counterfoil."""

import sqlite3
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import psycopg

from client.targets import Target
from counterfoil.client.sinks.postgres import PostgresSink

Rows = list[tuple[Any, ...]]


def rows(kind: str, target: Target, folder: Path, statement: str) -> Rows:
    """Return the rows of a statement. Numbers are decimals, and days and local times are text."""
    return [tuple(map(_plain, row)) for row in _fetched(kind, target, folder, statement)]


def _fetched(kind: str, target: Target, folder: Path, statement: str) -> Rows:
    match kind:
        case "sqlite":
            with closing(sqlite3.connect(folder / "copy.sqlite")) as database:
                return database.execute(statement).fetchall()
        case "postgres":
            with closing(target()) as sink:
                assert isinstance(sink, PostgresSink)
                with psycopg.connect(sink._db.info.dsn) as connection:
                    return connection.execute(statement).fetchall()
        case "duckdb":
            with duckdb.connect(str(folder / "copy.duckdb"), read_only=True) as opened:
                return list(opened.execute(statement).fetchall())
        case _:
            with duckdb.connect() as opened:
                opened.execute(f"SET file_search_path = '{folder / 'parquet'}'")
                opened.execute((folder / "parquet" / "views.sql").read_text("utf-8"))
                return list(opened.execute(statement).fetchall())


def _plain(value: Any) -> Any:
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(" ", "milliseconds").removesuffix(".000")
    if isinstance(value, date):
        return value.isoformat()
    return Decimal(str(value)).normalize() + 0
