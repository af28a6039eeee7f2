"""The databases of a store, and the numbered migrations of their schemas."""

import sqlite3
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Literal

from counterfoil.ports import StoreMismatch

Name = Literal["books", "keys", "usage"]
NAMES: tuple[Name, ...] = ("books", "keys", "usage")


@lru_cache
def scripts(name: Name) -> list[tuple[int, str, str]]:
    """Return the numbered migrations of a database as number, file name and SQL."""
    # `importlib.resources` would import modules for zip archives and temporary files, which takes 10 ms.
    folder = Path(__file__).parent / "migrations" / name
    files = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(int(file[:4]), file, (folder / file).read_text(encoding="utf-8")) for file in files]


def version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def check_version(connection: sqlite3.Connection, name: Name) -> None:
    found, wanted = version(connection), scripts(name)[-1][0]
    if found > wanted:
        raise StoreMismatch(
            f"the {name} database has schema {found}, but this version supports only schemas up to {wanted}: "
            "it was written by a newer version of Counterfoil. Use that version, or restore a backup."
        )
    if found < wanted:
        raise StoreMismatch(
            f"the {name} database has schema {found}, but this version needs {wanted}: "
            "stop the processes of the older version, then run `counterfoil serve` or `counterfoil load` to upgrade it."
        )


def run_migrations(connection: sqlite3.Connection, name: Name) -> None:
    """Run the migrations that have not been applied to a database yet, within the open transaction."""
    connection.execute(
        "CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, file TEXT NOT NULL, at TEXT NOT NULL)"
    )
    done = version(connection)
    for number, file, sql in scripts(name):
        if number <= done:
            continue
        for statement in statements(sql):
            connection.execute(statement)
        connection.execute("INSERT INTO migrations VALUES (?, ?, datetime('now'))", (number, file))
        connection.execute(f"PRAGMA user_version = {number}")


def statements(sql: str) -> Iterator[str]:
    """Yield the statements of a script one by one, because `executescript` would commit the open transaction."""
    pending = ""
    for line in sql.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
