"""Changes keys, writes audit entries, deletes expired data and migrates the schema, for operator and supervisor.

Triggers keep even the owner of the tables from changing or deleting audit entries. They can be deleted only while
`counterfoil copy` is filling the store, and only if they came from the source of that copy.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import LiteralString

from psycopg import sql

from counterfoil.backends.postgres.addresses import SCHEMA
from counterfoil.backends.postgres.admin_connections import (
    Connection,
    ReconnectingConnection,
    checked_connection,
    connect,
    fingerprint_of,
    psycopg_form,
    translated,
)
from counterfoil.backends.postgres.schema import DATABASE_BEFORE_RELEASE, MIGRATIONS, oldest_for, scripts
from counterfoil.domain.access import kept_since
from counterfoil.domain.audit import AuditEntry, to_row
from counterfoil.domain.paging import RESERVED_MS
from counterfoil.key_issuing import KeyStore
from counterfoil.model.calendar import as_number, thai_day
from counterfoil.ports import AuditedTransaction, Clock, StoreMismatch

# --- the audit log ------------------------------------------------------------------

# Entries are numbered under this lock, so that no number is used twice. Keys and devices are changed under it too.
_LOCK_AUDIT = "SELECT pg_advisory_xact_lock(hashtext('counterfoil audit'))"
_APPEND = """
    INSERT INTO audit (origin, number, at, act, actor, via, host, key_id, changes, detail)
    SELECT 'postgresql', coalesce(max(number), 0) + 1, %s, %s, %s, %s, %s, %s, %s, %s
    FROM audit WHERE origin = 'postgresql'
"""
# Running services read all keys again when the generation changes.
NEXT_GENERATION = "UPDATE generation SET number = number + 1, at = clock_timestamp() RETURNING number"


def append(connection: Connection, entries: Iterable[AuditEntry]) -> None:
    """Write entries within the open transaction."""
    connection.execute(_LOCK_AUDIT)
    for entry in entries:
        connection.execute(_APPEND, to_row(entry))


# --- keys ---------------------------------------------------------------------------


class PostgresKeyStore(KeyStore):
    """The keys and the audit log. They cannot be changed while `counterfoil copy` is filling the store."""

    NEXT_GENERATION = NEXT_GENERATION

    def __init__(self, url: str) -> None:
        self._connection = ReconnectingConnection(url)

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def changing(self) -> Iterator[AuditedTransaction]:
        with translated(), self._connection().transaction():
            yield _transaction_on(self._connection())


def _transaction_on(connection: Connection) -> AuditedTransaction:
    fingerprint_of(connection)
    connection.execute(_LOCK_AUDIT)
    return AuditedTransaction(
        lambda statement, **values: connection.execute(psycopg_form(statement), values).fetchall(),
        lambda entries: append(connection, entries),
    )


# --- the devices of the console -----------------------------------------------------


@contextmanager
def changing_devices(url: str) -> Iterator[AuditedTransaction]:
    with checked_connection(url) as connection, connection.transaction():
        yield _transaction_on(connection)


# --- expired data -------------------------------------------------------------------

PRUNE_ROWS = 5_000

_PRUNE_MONTHS = "SELECT drop_request_months(%s)"
_PRUNE_REQUESTS = """
    WITH old AS (SELECT tableoid, ctid FROM requests WHERE at < %s LIMIT %s)
    DELETE FROM requests USING old WHERE requests.tableoid = old.tableoid AND requests.ctid = old.ctid
"""
_PRUNE_TOTALS = "DELETE FROM daily_totals WHERE day < %s"
_PRUNE_ERRORS = "DELETE FROM daily_errors WHERE day < %s"
_PRUNE_PASSES = "DELETE FROM passes WHERE greatest(ended_at, continued_at) < %s"
# Deletes the rows of keys that have not been used for 400 days. Each row holds the count of the key's last active day.
_PRUNE_METERS = """
    DELETE FROM meters WHERE day < %s
        AND at <= coalesce(%s, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) + ahead - 60000000
    RETURNING key_id
"""
_PRUNE_ADMISSIONS = "DELETE FROM admissions WHERE key_id = ANY(%s)"
# The row of an expired cursor is kept for RESERVED_MS, so that its ID stays taken. If the clock is ahead for a while,
# cursors may expire too early, but their rows are not deleted right away.
_DELETE_CURSORS = """
    DELETE FROM cursors WHERE ctid = ANY (ARRAY(SELECT ctid FROM cursors WHERE ends_at <= %s AND expired LIMIT %s))
"""
_EXPIRE_CURSORS = """
    UPDATE cursors SET expired = true, ends_at = %s
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM cursors WHERE ends_at <= %s AND NOT expired LIMIT %s))
        AND NOT expired AND ends_at <= %s
"""


class PostgresUsageAdmin:
    """Deletes expired data. `meter_us` replaces the server's clock for the minute window, in microseconds."""

    def __init__(self, url: str, clock: Clock, meter_us: Callable[[], int] | None = None) -> None:
        self._url = url
        self._clock = clock
        self._meter_us = meter_us

    def close(self) -> None:
        """Do nothing: every method closes its own connection."""

    def checkpoint(self) -> None:
        """Do nothing: PostgreSQL runs its own checkpoints."""

    def move_recent(self) -> None:
        """Do nothing: on PostgreSQL, records are written to their table at once."""

    def prune(self) -> tuple[int, int]:
        """Delete records older than 90 days, and counts older than 400; return the number of records and of totals."""
        records_since, totals_since = kept_since(self._clock.now_ms())
        oldest = as_number(thai_day(totals_since))
        with checked_connection(self._url) as connection:
            (records,) = connection.execute(_PRUNE_MONTHS, (records_since,)).fetchone() or (0,)
            records += _in_batches(connection, _PRUNE_REQUESTS, (records_since, PRUNE_ROWS))
            totals = connection.execute(_PRUNE_TOTALS, (oldest,)).rowcount
            connection.execute(_PRUNE_ERRORS, (oldest,))
            connection.execute(_PRUNE_PASSES, (totals_since,))
            with connection.transaction():
                meter_us = self._meter_us() if self._meter_us else None
                inactive = [key_id for (key_id,) in connection.execute(_PRUNE_METERS, (oldest, meter_us))]
                connection.execute(_PRUNE_ADMISSIONS, (inactive,))
        return records, totals

    def prune_cursors(self) -> int:
        """Delete cursors that expired long ago, expire cursors unused for 7 days, and return how many were expired."""
        now = self._clock.now_ms()
        with checked_connection(self._url) as connection:
            _in_batches(connection, _DELETE_CURSORS, (now, PRUNE_ROWS))
            return _in_batches(connection, _EXPIRE_CURSORS, (now + RESERVED_MS, now, PRUNE_ROWS, now))


def _in_batches(connection: Connection, statement: str, values: tuple[int, ...]) -> int:
    """Repeat a statement that changes at most PRUNE_ROWS rows until none are left to change. Return the total count."""
    total = 0
    while True:
        changed = connection.execute(statement.encode(), values).rowcount
        total += changed
        if changed < PRUNE_ROWS:
            return total


# --- migrating the schema, and creating the three roles ---------------------

ROLES: tuple[LiteralString, ...] = ("counterfoil_serving", "counterfoil_loading", "counterfoil_administration")

_MIGRATIONS = """
    CREATE TABLE IF NOT EXISTS migrations (
        number integer PRIMARY KEY, file text NOT NULL, oldest integer NOT NULL, at timestamptz NOT NULL DEFAULT now()
    )
"""
_MIGRATED = "INSERT INTO migrations (number, file, oldest) VALUES (%s, %s, %s)"
_ROLE = "SELECT 1 FROM pg_roles WHERE rolname = %s"


def migrate(url: str, describe: Callable[[list[str]], AuditEntry] | None = None) -> list[str]:
    """Migrate the schema and return the names of the migrations run, which `describe` turns into an audit entry."""
    done: list[str] = []
    with translated(), connect(url) as connection, connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('counterfoil migrate'))")
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        connection.execute(_MIGRATIONS)
        (found,) = connection.execute("SELECT coalesce(max(number), 0) FROM migrations").fetchone() or (0,)
        if 0 < found < scripts()[0].number:
            raise StoreMismatch(DATABASE_BEFORE_RELEASE)
        for number, file, script in scripts():
            if number > found:
                connection.execute(script.encode())
                connection.execute(_MIGRATED, (number, file, oldest_for(number, script)))
                done.append(file)
        if done and all(connection.execute(_ROLE, (role,)).fetchone() for role in ROLES):
            # Grant the existing roles access to the objects that the migrations created.
            connection.execute(_roles_script())
        if done and describe:
            append(connection, [describe(done)])
    return done


def make_roles(url: str, describe: Callable[[list[str]], AuditEntry] | None = None) -> list[str]:
    """Create the three roles, which cannot log in, grant their permissions, and return their names."""
    roles: list[str] = list(ROLES)
    with translated(), connect(url) as connection, connection.transaction():
        for role in ROLES:
            if not connection.execute(_ROLE, (role,)).fetchone():
                connection.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(role)))
        connection.execute(_roles_script())
        if describe:
            append(connection, [describe(roles)])
    return roles


def _roles_script() -> bytes:
    return (MIGRATIONS / "roles.sql").read_bytes()
