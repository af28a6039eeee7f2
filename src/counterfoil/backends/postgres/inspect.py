"""Inspects the store from outside, for the admin listener and `counterfoil doctor`.

With several servers the primary is inspected or, while there is none, the
server with the newest horizon.
"""

import asyncio
from contextlib import closing
from typing import Any

from msgspec import Struct
from psycopg.conninfo import make_conninfo

from counterfoil.backends.postgres.connections import addresses, check_version, connect, translated
from counterfoil.backends.postgres.deployment import fingerprint_of
from counterfoil.backends.postgres.servers import Role, Sight, survey
from counterfoil.domain.access import Scope
from counterfoil.ports import StoreMismatch, StoreUnavailable

_LATEST_LOAD = "SELECT lines, changed, rejected, finished_at, seen_at FROM loads ORDER BY number DESC LIMIT 1"

_KNOWN = {
    "shop": "SELECT 1 FROM shops WHERE id = %s AND NOT removed",
    "franchise": "SELECT 1 FROM shops WHERE franchise_id = %s AND NOT removed LIMIT 1",
}


# What a login may do beyond reading: the grants of roles.sql, and the rights of the owner.
_RIGHTS = """
    SELECT current_user,
        has_table_privilege('keys', 'SELECT') AND has_table_privilege('admissions', 'INSERT'),
        has_table_privilege('bills', 'INSERT'),
        has_table_privilege('keys', 'INSERT'),
        pg_has_role(nspowner, 'USAGE')
    FROM pg_namespace WHERE nspname = 'counterfoil'
"""


class Rights(Struct, frozen=True):
    login: str
    serves: bool
    loads: bool
    issues_keys: bool
    owns: bool


class LatestLoad(Struct, frozen=True):
    lines: int
    changed: int
    rejected: int
    finished: bool
    idle_ms: int


def problem(url: str) -> str | None:
    """Return why this database cannot be used, or None."""
    try:
        with closing(connect(_answering(url))) as connection:
            check_version(connection)
    except (StoreUnavailable, StoreMismatch) as error:
        return str(error)
    return None


def several(url: str) -> bool:
    """Return whether the address names several servers, so that reads do not need the primary."""
    return bool(addresses(url))


def servers(url: str) -> list[Sight]:
    """Return the current state of each of several servers; nothing for a single server."""
    return asyncio.run(survey(url)) if several(url) else []


def horizon(url: str) -> int | None:
    row = _row(url, "SELECT at FROM horizon")
    return row[0] if row else None


def knows(url: str, scope: Scope) -> bool:
    """Return whether the books have a shop of this scope."""
    return _row(url, _KNOWN[scope.kind], scope.id) is not None


def fingerprint(url: str) -> str | None:
    """Return the fingerprint of the store's secret, or None for a new store; raise if the store cannot be read."""
    with closing(connect(_answering(url))) as connection, translated():
        check_version(connection)
        return fingerprint_of(connection)


def rights(url: str) -> Rights | None:
    """Return what the login of this address may do, or None if the server cannot be asked."""
    row = _row(url, _RIGHTS)
    return Rights(*row) if row else None


def latest_load(url: str, now_ms: int) -> LatestLoad | None:
    row = _row(url, _LATEST_LOAD)
    if not row:
        return None
    lines, changed, rejected, finished_at, seen_at = row
    return LatestLoad(lines, changed, rejected, finished_at is not None, max(0, now_ms - seen_at))


def _row(url: str, query: str, *values: str) -> tuple[Any, ...] | None:
    try:
        with closing(connect(_answering(url))) as connection, translated():
            return connection.execute(query.encode(), values).fetchone()
    except StoreUnavailable:
        return None


def _answering(url: str) -> str:
    """Return the address of the server to inspect. All are asked at once, so a silent one costs only a moment."""
    seen = [(place, sight) for place, sight in zip(addresses(url), servers(url), strict=True) if sight.horizon]
    if not seen:
        return url
    place, _ = max(seen, key=lambda found: (found[1].role is Role.PRIMARY, found[1].horizon))
    return make_conninfo(url, host=place.host, port=place.port, target_session_attrs="any")
