"""Breaks and repairs a store while the service is running, so that tests of failures do not need mocks."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from running_service import RunningService


def _with_version(version: int, path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")


# What is put in the place of the key file.
KEY_FILE_PROBLEMS: dict[str, Callable[[Path], object]] = {
    "missing": lambda _: None,
    "empty": Path.touch,
    "garbage": lambda path: path.write_bytes(b"this is no database, whatever its name says" * 200),
    "a folder": Path.mkdir,
    "of a newer version": partial(_with_version, 9999),
    "without its tables": partial(_with_version, 1),
}


# Similar problems on a PostgreSQL server: the statement that causes the problem, and the statement that undoes it.
KEY_TABLE_PROBLEMS = {
    "missing": ("ALTER TABLE keys RENAME TO keys_aside", "ALTER TABLE keys_aside RENAME TO keys"),
    "empty": ("ALTER SCHEMA counterfoil RENAME TO aside", "ALTER SCHEMA aside RENAME TO counterfoil"),
    "garbage": ("ALTER TABLE generation RENAME number TO what", "ALTER TABLE generation RENAME what TO number"),
    "a folder": (
        (
            "ALTER TABLE keys RENAME TO keys_aside; CREATE SEQUENCE keys; REVOKE ALL ON keys FROM PUBLIC; "
            "ALTER TABLE migrations RENAME TO migrations_aside"
        ),
        "DROP SEQUENCE keys; ALTER TABLE keys_aside RENAME TO keys; ALTER TABLE migrations_aside RENAME TO migrations",
    ),
    "of a newer version": (
        "INSERT INTO migrations (number, file, oldest) VALUES (9999, 'of the future', 9999)",
        "DELETE FROM migrations WHERE number = 9999",
    ),
    "without its tables": ("ALTER TABLE generation RENAME TO aside", "ALTER TABLE aside RENAME TO generation"),
}


@contextmanager
def keys_unreadable(service: RunningService, trouble: str = "missing") -> Iterator[None]:
    """Make the keys unreadable for the duration of the block. Advance the clock so that the service notices."""
    with _broken_key_table(service, trouble) if service.settings.database else _broken_key_file(service, trouble):
        service.clock.advance(1)
        yield


@contextmanager
def _broken_key_table(service: RunningService, trouble: str) -> Iterator[None]:
    done, undone = KEY_TABLE_PROBLEMS[trouble]
    run_sql(service, "keys", done)
    yield
    run_sql(service, "keys", undone)


@contextmanager
def _broken_key_file(service: RunningService, trouble: str) -> Iterator[None]:
    """Replace or remove the key file, and restore it at the end."""
    store = service.settings.store
    path, aside = store / "keys.sqlite3", store / "aside"
    aside.mkdir()
    for file in store.glob("keys.sqlite3*"):
        file.rename(aside / file.name)
    KEY_FILE_PROBLEMS[trouble](path)
    yield
    for file in store.glob("keys.sqlite3*"):
        file.rmdir() if file.is_dir() else file.unlink()
    for file in aside.iterdir():
        file.rename(store / file.name)
    aside.rmdir()


@contextmanager
def table_missing(service: RunningService, database: str, table: str) -> Iterator[None]:
    """Make a table of the store seem missing for the duration of the block, by renaming it."""
    run_sql(service, database, f"ALTER TABLE {table} RENAME TO {table}_elsewhere")
    yield
    run_sql(service, database, f"ALTER TABLE {table}_elsewhere RENAME TO {table}")


def run_sql(service: RunningService, database: str, statement: str) -> None:
    """Run a statement that the service itself would never run, directly on the store."""
    with _opened(service, database) as connection:
        connection.execute(statement.encode() if service.settings.database else statement)
        connection.commit()


def stored_rows(service: RunningService, database: str, query: str) -> list[dict[str, Any]]:
    """Run a query directly on the store; return the rows as dictionaries."""
    with _opened(service, database) as connection:
        found = connection.execute(query.encode() if service.settings.database else query)
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


@contextmanager
def _opened(service: RunningService, database: str) -> Iterator[Any]:
    if service.settings.database:
        with closing(psycopg.connect(service.settings.database, options="-c search_path=counterfoil,aside")) as server:
            yield server
    else:
        with closing(sqlite3.connect(service.settings.store / f"{database}.sqlite3", timeout=30)) as file:
            yield file


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a file of a store so that nobody else can read or write it."""
    with closing(sqlite3.connect(path, timeout=10, isolation_level=None)) as holder:
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        yield
        holder.execute("ROLLBACK")
