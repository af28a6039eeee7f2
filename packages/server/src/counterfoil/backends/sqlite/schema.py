"""The databases of a store, and the numbered migrations of their schemas."""

import sqlite3
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal

from counterfoil.backends.migrations import Migration, read_scripts
from counterfoil.model.messages import Message
from counterfoil.ports import StoreMismatch

Name = Literal["books", "keys", "usage"]
NAMES: tuple[Name, ...] = ("books", "keys", "usage")
MIGRATIONS = Path(__file__).parent / "migrations"


def scripts(name: Name) -> tuple[Migration, ...]:
    return _scripts_in(MIGRATIONS, name)


@cache
def _scripts_in(folder: Path, name: Name) -> tuple[Migration, ...]:
    return read_scripts(folder / name)


def version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def check_version(connection: sqlite3.Connection, name: Name) -> None:
    """Raise StoreMismatch if this version of Counterfoil cannot use a database, or only after its migration."""
    found, wanted = version(connection), scripts(name)[-1].number
    _require_known(found, name)
    if found < wanted:
        raise StoreMismatch(
            Message(
                "older_schema",
                "the {name} database has schema {found}, but this version needs {wanted}: stop the processes of the "
                "older version, then run `counterfoil serve` or `counterfoil load` to upgrade it.",
                name=name,
                found=found,
                wanted=wanted,
            )
        )


def _require_known(found: int, name: Name) -> None:
    first, latest = scripts(name)[0].number, scripts(name)[-1].number
    if found > latest:
        raise StoreMismatch(
            Message(
                "newer_schema",
                "the {name} database has schema {found}, but this version supports only schemas up to {wanted}: it "
                "was written by a newer version of Counterfoil. Use that version, or restore a backup.",
                name=name,
                found=found,
                wanted=latest,
            )
        )
    if 0 < found < first:
        raise StoreMismatch(
            Message(
                "before_release",
                "the {name} database was made before the first release, and this version cannot read it: create a "
                "new store in another folder with `counterfoil init`, load the source records into it, and issue new "
                "keys. A new store makes a new deployment secret, and so a new token for every member in every copy: "
                "to keep the tokens, use `counterfoil init --secret-file` with the `secret` of this folder.",
                name=name,
            )
        )


def run_migrations(connection: sqlite3.Connection, name: Name) -> None:
    """Run the migrations that have not been applied to a database yet, within the open transaction."""
    done = version(connection)
    _require_known(done, name)
    if done == scripts(name)[-1].number:
        return
    connection.execute(
        "CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, file TEXT NOT NULL, at TEXT NOT NULL)"
    )
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
