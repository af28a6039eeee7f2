"""Migrates the schema of a database and creates the three roles."""

from collections.abc import Callable
from typing import LiteralString

from psycopg import sql

from counterfoil.backends.postgres.addresses import SCHEMA
from counterfoil.backends.postgres.admin_connections import Connection, connect, translated
from counterfoil.backends.postgres.administration import append
from counterfoil.backends.postgres.schema import DATABASE_BEFORE_RELEASE, MIGRATIONS, oldest_for, scripts
from counterfoil.domain.audit import AuditEntry
from counterfoil.ports import StoreMismatch

ROLES: tuple[LiteralString, ...] = ("counterfoil_serving", "counterfoil_loading", "counterfoil_administration")

_ROLE = "SELECT 1 FROM pg_roles WHERE rolname = %s"


def migrate(url: str, describe: Callable[[list[str]], AuditEntry] | None = None) -> list[str]:
    """Migrate the schema and return the names of the migrations that were run. Safe to run concurrently.

    `describe` returns the audit entry for the migrations that were run.
    """
    with translated(), connect(url) as connection, connection.transaction():
        return _run_migrations(connection, describe)


def _run_migrations(connection: Connection, describe: Callable[[list[str]], AuditEntry] | None) -> list[str]:
    done: list[str] = []
    connection.execute("SELECT pg_advisory_xact_lock(hashtext('counterfoil migrate'))")
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS migrations (number integer PRIMARY KEY, file text NOT NULL, "
        "oldest integer NOT NULL, at timestamptz NOT NULL DEFAULT now())"
    )
    (found,) = connection.execute("SELECT coalesce(max(number), 0) FROM migrations").fetchone() or (0,)
    if 0 < found < scripts()[0].number:
        raise StoreMismatch(DATABASE_BEFORE_RELEASE)
    for number, file, script in scripts():
        if number <= found:
            continue
        connection.execute(script.encode())
        connection.execute(
            "INSERT INTO migrations (number, file, oldest) VALUES (%s, %s, %s)",
            (number, file, oldest_for(number, script)),
        )
        done.append(file)
    if done and _has_roles(connection):
        # Grant the existing roles access to the objects that the migrations created.
        connection.execute(_roles_script())
    if done and describe:
        append(connection, [describe(done)])
    return done


def make_roles(url: str, describe: Callable[[list[str]], AuditEntry] | None = None) -> list[str]:
    """Create the three roles unless they exist, grant their permissions, and return the names of the roles.

    The roles cannot log in: grant them to your own users.
    """
    roles: list[str] = list(ROLES)
    with translated(), connect(url) as connection, connection.transaction():
        for role in ROLES:
            if not connection.execute(_ROLE, (role,)).fetchone():
                connection.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(role)))
        connection.execute(_roles_script())
        if describe:
            append(connection, [describe(roles)])
    return roles


def _has_roles(connection: Connection) -> bool:
    return all(connection.execute(_ROLE, (role,)).fetchone() for role in ROLES)


def _roles_script() -> bytes:
    return (MIGRATIONS / "roles.sql").read_bytes()
