"""The back ends of the port suite.

A `Store` is one deployment's store on one back end. It can be pickled, so that a
test can pass it to another process. A new back end needs one class here and one
entry in `BACKENDS`; the suite then runs on it, and no test may exclude it. Each call
of a method that returns a port opens a new instance of the port.
"""

from __future__ import annotations

import resource
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import servers
from counterfoil.backends.postgres.administration import PostgresKeyStore, PostgresUsageAdmin
from counterfoil.backends.postgres.books import PostgresBooks
from counterfoil.backends.postgres.key_lookup import PostgresKeyLookup
from counterfoil.backends.postgres.ledger import PostgresLedger
from counterfoil.backends.postgres.reads import PostgresReads
from counterfoil.backends.postgres.servers import Servers
from counterfoil.backends.postgres.usage import PostgresCursors, PostgresUsage
from counterfoil.backends.redis.meter import RedisMeter
from counterfoil.backends.sqlite.books import SqliteBooks
from counterfoil.backends.sqlite.files import path_of
from counterfoil.backends.sqlite.keys import SqliteKeyLookup, SqliteKeyStore
from counterfoil.backends.sqlite.ledger import SqliteLedger
from counterfoil.backends.sqlite.reads import SqliteReads
from counterfoil.backends.sqlite.usage import SqliteCursors, SqliteUsage
from counterfoil.key_issuing import KeyStore
from counterfoil.model.calendar import thai_day
from counterfoil.operator_reads import QUERY_SEC, OperatorReads
from counterfoil.ports import Clock, Cursors, KeyLookup
from counterfoil.program.clock import SystemClock
from counterfoil.request_reads import SCANNED_REQUESTS


@dataclass(frozen=True)
class SqliteStore:
    folder: Path

    def books(self) -> OpenBooks:
        return SqliteBooks(self.folder)

    def ledger(self, clock: Clock, fingerprint: str) -> OpenLedger:
        return SqliteLedger(self.folder, clock, fingerprint)

    def key_lookup(self, clock: Clock) -> KeyLookup:
        return SqliteKeyLookup(self.folder, clock)

    def key_store(self) -> KeyStore:
        return SqliteKeyStore(self.folder, SystemClock().now_ms)

    def run_on_keys(self, statement: str) -> None:
        """Run a statement on the key database with full privileges."""
        with closing(sqlite3.connect(path_of(self.folder, "keys"), isolation_level=None)) as connection:
            connection.execute(statement)

    def usage(self, clock: Clock) -> OpenUsage:
        return SqliteUsage(self.folder, clock)

    def cursors(self, clock: Clock) -> OpenCursors:
        usage = SqliteUsage(self.folder, clock)
        return WholeCursors(SqliteCursors(usage.connection, clock), usage, usage.close)

    def operator_reads(self, query_sec: float = QUERY_SEC, scanned: int = SCANNED_REQUESTS) -> OperatorReads:
        return SqliteReads(self.folder, query_sec, scanned)

    @contextmanager
    def out_of_space(self) -> Iterator[None]:
        """Make every write to the store fail for the duration of the block, at least for this process."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    @contextmanager
    def without_keys(self) -> Iterator[None]:
        """Make the keys unavailable for the duration of the block, as a failed disk would."""
        lost = {file: file.with_name(f"lost-{file.name}") for file in self.folder.glob("keys.sqlite3*")}
        for file, elsewhere in lost.items():
            file.rename(elsewhere)
        yield
        for file, elsewhere in lost.items():
            elsewhere.rename(file)

    def outdate_keys(self) -> None:
        """Give the keys a schema version that this program does not support."""
        self.run_on_keys("PRAGMA user_version = 9999")

    def close(self) -> None:
        """Do nothing, because this object keeps no files open."""


Part = TypeVar("Part")


class SharedTime:
    """The clock of a server that all nodes share, driven by the test's clock. It keeps running when a node reboots."""

    def __init__(self) -> None:
        self._shifts: dict[str, int] = {}
        self._latest = 0

    def of(self, clock: Clock) -> Callable[[], tuple[int, date]] | None:
        """Return a function that returns the shared time in microseconds and the day in Thailand, driven by `clock`.

        Return None for the system clock, so that the server's own clock is used.
        """
        if isinstance(clock, SystemClock):
            return None
        boot = clock.boot_id()
        if boot not in self._shifts:
            self._shifts[boot] = max(clock.now_ms() * 1000, self._latest) - clock.steady_us()

        def instant() -> tuple[int, date]:
            self._latest = clock.steady_us() + self._shifts[boot]
            return self._latest, thai_day(clock.now_ms())

        return instant


class WholeUsage:
    """Combines the service's and the operator's usage objects on PostgreSQL, with or without a shared meter."""

    def __init__(self, log: PostgresUsage, admin: PostgresUsageAdmin, meter: RedisMeter | None = None) -> None:
        # The meter is flushed and closed first, because it writes its counts to the log.
        self._parts = [part for part in (meter, log) if part]
        counting = meter or log
        self.admit, self.counts = counting.admit, counting.counts
        self.note, self.disclose = log.note, log.disclose
        self.note_refusal, self.note_page = log.note_refusal, log.note_page
        self.prune = admin.prune

    def flush(self) -> None:
        for part in self._parts:
            part.flush()

    def close(self) -> None:
        for part in self._parts:
            part.close()


class WholeCursors:
    """Combines the service's cursors with the operator's object that prunes them."""

    def __init__(self, served: Cursors, admin: Any, close: Callable[[], None]) -> None:
        self.find, self.hand_out, self.close = served.find, served.hand_out, close
        self.prune = admin.prune_cursors


# With these triggers, each INSERT, UPDATE and DELETE in any table fails with the error of a full disk.
FULL_DISK = """
    CREATE FUNCTION counterfoil.full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
    END $$;
    DO $$
    DECLARE
        name text;
    BEGIN
        FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'counterfoil' LOOP
            EXECUTE format(
                'CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE OR DELETE ON counterfoil.%I '
                'FOR EACH STATEMENT EXECUTE FUNCTION counterfoil.full_disk()', name
            );
        END LOOP;
    END $$;
"""


class PostgresStore:
    """A separate database on a real server."""

    major = 18
    full_disk = FULL_DISK

    def __init__(self, _: Path) -> None:
        server = servers.postgres(self.major)
        self.database, self.url = server.borrow_database()
        self.time = SharedTime()
        self._open: list[Any] = []

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_open": []}

    def _kept(self, part: Part) -> Part:
        self._open.append(part)
        return part

    def close(self) -> None:
        for part in self._open:
            part.close()
        servers.postgres(self.major).return_database(self.database)

    def _servers(self) -> Servers:
        return self._kept(Servers(self.url, SystemClock()))

    def books(self) -> OpenBooks:
        return PostgresBooks(self._servers())

    def ledger(self, clock: Clock, fingerprint: str) -> OpenLedger:
        return self._kept(
            PostgresLedger(self.url, fingerprint, None if isinstance(clock, SystemClock) else clock.now_ms)
        )

    def key_lookup(self, clock: Clock) -> KeyLookup:
        return PostgresKeyLookup(self._servers(), clock)

    def key_store(self) -> KeyStore:
        return self._kept(PostgresKeyStore(self.url))

    def run_on_keys(self, statement: str) -> None:
        self._command(f"SET search_path TO counterfoil; {statement}")

    def usage(self, clock: Clock) -> OpenUsage:
        return WholeUsage(PostgresUsage(self._servers(), self.time.of(clock)), self._usage_admin(clock))

    def _usage_admin(self, clock: Clock) -> PostgresUsageAdmin:
        instant = self.time.of(clock)
        return PostgresUsageAdmin(self.url, clock, (lambda: instant()[0]) if instant else None)

    def cursors(self, clock: Clock) -> OpenCursors:
        served = PostgresCursors(self._servers(), clock)
        return WholeCursors(served, self._usage_admin(clock), served.close)

    def operator_reads(self, query_sec: float = QUERY_SEC, scanned: int = SCANNED_REQUESTS) -> OperatorReads:
        return PostgresReads(self.url, query_sec, scanned)

    @contextmanager
    def out_of_space(self) -> Iterator[None]:
        self._command(self.full_disk)
        try:
            yield
        finally:
            self._command("DROP FUNCTION counterfoil.full_disk CASCADE")

    @contextmanager
    def without_keys(self) -> Iterator[None]:
        self.run_on_keys("ALTER TABLE keys RENAME TO lost_keys")
        yield
        self.run_on_keys("ALTER TABLE lost_keys RENAME TO keys")

    def outdate_keys(self) -> None:
        self.run_on_keys("INSERT INTO migrations (number, file, oldest) VALUES (9999, 'of the future', 9999)")

    def _command(self, statement: str) -> None:
        servers.postgres(self.major).command(statement, self.database)


class Postgres16Store(PostgresStore):
    major = 16


class ValkeyStore(PostgresStore):
    """PostgreSQL with the meter on a real Valkey server."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.meter_url = servers.valkey().url
        # Databases are emptied and reused, but Valkey is not emptied, so each store needs its own prefix.
        self.deployment = secrets.token_hex(8)

    def usage(self, clock: Clock) -> OpenUsage:
        time = self.time.of(clock)
        log = PostgresUsage(self._servers(), time)
        meter = self._kept(RedisMeter(self.meter_url, self.deployment, log, lambda _: None, self._servers(), time))
        return WholeUsage(log, self._usage_admin(clock), meter)

    @contextmanager
    def out_of_space(self) -> Iterator[None]:
        with super().out_of_space():
            servers.valkey().command("CONFIG SET maxmemory 1")
            try:
                yield
            finally:
                servers.valkey().command("CONFIG SET maxmemory 0")


OpenBooks = SqliteBooks | PostgresBooks
OpenLedger = SqliteLedger | PostgresLedger
OpenCursors = WholeCursors
OpenUsage = SqliteUsage | WholeUsage
Store = SqliteStore | PostgresStore

BACKENDS: tuple[Callable[[Path], Store], ...] = (SqliteStore, PostgresStore, Postgres16Store)
# The meter may be outside the store, so its tests also run with Valkey.
METERS = (*BACKENDS, ValkeyStore)
