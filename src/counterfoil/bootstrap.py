"""The composition root: the only module that chooses the back ends.

The PostgreSQL and Valkey drivers are an optional extra of the package, so the
modules that need them are imported inside the functions that use them. Several
other modules that not every process needs are imported in the same way, so that
commands start faster and workers use less memory.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from counterfoil import __version__
from counterfoil.backends.sqlite import files
from counterfoil.backends.sqlite.ledger import SqliteLedger
from counterfoil.backends.sqlite.schema import Name
from counterfoil.domain.audit import Actor, AuditEntry
from counterfoil.domain.calendar import thai_day
from counterfoil.domain.tokens import Pseudonyms
from counterfoil.machine.clock import SystemClock, random_ids, request_ids
from counterfoil.observe.events import Event, ServiceChanged
from counterfoil.ports import (
    STOP_SAVE_SEC,
    Books,
    Clock,
    Cursors,
    Inspection,
    KeyLookup,
    Meter,
    RequestLog,
    StoreUnavailable,
)
from counterfoil.settings import Settings, read_secret

if TYPE_CHECKING:
    from counterfoil.backends.postgres.audit import PostgresAudit
    from counterfoil.backends.postgres.copy_target import PostgresCopyTarget
    from counterfoil.backends.postgres.key_store import PostgresKeyStore
    from counterfoil.backends.postgres.ledger import PostgresLedger
    from counterfoil.backends.postgres.servers import Servers
    from counterfoil.backends.postgres.usage_admin import PostgresCursorAdmin, PostgresUsageAdmin
    from counterfoil.backends.sqlite.audit import SqliteAudit
    from counterfoil.backends.sqlite.backup import BackupManifest
    from counterfoil.backends.sqlite.copy_source import SqliteCopySource
    from counterfoil.backends.sqlite.cursors import SqliteCursors
    from counterfoil.backends.sqlite.keys import SqliteKeyStore
    from counterfoil.backends.sqlite.restore import Restored
    from counterfoil.backends.sqlite.usage import SqliteUsage
    from counterfoil.http.app import App
    from counterfoil.http.pages import StaticPage
    from counterfoil.operator_reads import OperatorReads


def deployment_secret(settings: Settings) -> bytes:
    # Open the inspection only if the secret is missing: on PostgreSQL, it imports psycopg, which workers do not need
    # otherwise.
    return read_secret(settings, lambda: inspection(settings).is_built())


def pseudonyms(settings: Settings) -> Pseudonyms:
    return Pseudonyms(deployment_secret(settings))


# --- components for the operator and the supervisor ------------------------------------
#
# On PostgreSQL, stamps and admissions use the server's clock, unless a test passes its own clock.


def ledger(settings: Settings, clock: Clock | None = None) -> SqliteLedger | PostgresLedger:
    fingerprint = pseudonyms(settings).fingerprint()
    if settings.database:
        from counterfoil.backends.postgres.citus_ledger import open_ledger

        return open_ledger(settings.database, fingerprint, clock.now_ms if clock else None)
    return SqliteLedger(settings.store, clock or SystemClock(), fingerprint)


def key_store(settings: Settings, clock: Clock | None = None) -> SqliteKeyStore | PostgresKeyStore:
    if settings.database:
        from counterfoil.backends.postgres.key_store import PostgresKeyStore

        return PostgresKeyStore(settings.database)
    from counterfoil.backends.sqlite.keys import SqliteKeyStore

    return SqliteKeyStore(settings.store, (clock or SystemClock()).now_ms)


def audit(settings: Settings) -> SqliteAudit | PostgresAudit:
    if settings.database:
        from counterfoil.backends.postgres.audit import PostgresAudit

        return PostgresAudit(settings.database)
    from counterfoil.backends.sqlite.audit import SqliteAudit

    return SqliteAudit(settings.store)


def operator_reads(settings: Settings) -> OperatorReads:
    """Open a store read-only, for the operator's pages and commands."""
    if settings.database:
        from counterfoil.backends.postgres.operator_reads import PostgresOperatorReads

        return PostgresOperatorReads(settings.database)
    from counterfoil.backends.sqlite.operator_reads import SqliteOperatorReads

    return SqliteOperatorReads(settings.store)


def usage(settings: Settings, clock: Clock | None = None) -> SqliteUsage | PostgresUsageAdmin:
    if settings.database:
        from counterfoil.backends.postgres.usage_admin import PostgresUsageAdmin

        return PostgresUsageAdmin(settings.database, clock or SystemClock(), clock.steady_us if clock else None)
    from counterfoil.backends.sqlite.usage import SqliteUsage

    return SqliteUsage(settings.store, clock or SystemClock())


def cursors(settings: Settings, clock: Clock | None = None) -> SqliteCursors | PostgresCursorAdmin:
    if settings.database:
        from counterfoil.backends.postgres.usage_admin import PostgresCursorAdmin

        return PostgresCursorAdmin(settings.database, clock or SystemClock())
    from counterfoil.backends.sqlite.cursors import SqliteCursors

    return SqliteCursors(settings.store, clock or SystemClock())


# --- components for a worker -----------------------------------------------------------


def _servers(settings: Settings, clock: Clock | None, observe: Callable[[Event], None]) -> Servers:
    from counterfoil.backends.postgres.addresses import ConnectionLimits
    from counterfoil.backends.postgres.citus_reads import open_servers

    limits = ConnectionLimits(**{name: getattr(settings, name) for name in ConnectionLimits.__struct_fields__})
    now_ms = clock.now_ms if clock else None
    return open_servers(settings.database, clock or SystemClock(), settings.replica_lag_ms, observe, now_ms, limits)


def _instant(clock: Clock | None) -> Callable[[], tuple[int, date]] | None:
    if clock is None:
        return None
    return lambda: (clock.steady_us(), thai_day(clock.now_ms()))


class ServingPorts(Struct, frozen=True):
    """The implementations of the ports (see ports.py) for a worker, and a function that closes them."""

    books: Books
    key_lookup: KeyLookup
    meter: Meter
    request_log: RequestLog
    cursors: Cursors
    close: Callable[[], None]


def _embedded(settings: Settings, clock: Clock) -> ServingPorts:
    from counterfoil.backends.sqlite.books import SqliteBooks
    from counterfoil.backends.sqlite.cursors import SqliteCursors
    from counterfoil.backends.sqlite.keys import SqliteKeyLookup
    from counterfoil.backends.sqlite.open_files import OpenFiles
    from counterfoil.backends.sqlite.usage import SqliteUsage

    books = SqliteBooks(settings.store)
    spent = SqliteUsage(settings.store, clock)
    handed_out = SqliteCursors(settings.store, clock, beside=spent)
    open_files = OpenFiles(settings.store, ("books", "usage"))
    keys = SqliteKeyLookup(settings.store, clock, open_files.problem)

    def close() -> None:
        for part in (keys, spent, handed_out, books):
            with contextlib.suppress(StoreUnavailable):
                part.close()

    return ServingPorts(books, keys, spent, spent, handed_out, close)


def _shared(settings: Settings, observe: Callable[[Event], None], clock: Clock | None) -> ServingPorts:
    from counterfoil.backends.postgres.books import PostgresBooks
    from counterfoil.backends.postgres.cursors import PostgresCursors
    from counterfoil.backends.postgres.key_lookup import PostgresKeyLookup
    from counterfoil.backends.postgres.usage import PostgresUsage

    servers = _servers(settings, clock, observe)
    node_clock = clock or SystemClock()
    spent = PostgresUsage(servers, _instant(clock))
    stored = PostgresCursors(servers, node_clock)
    meter: Meter = spent
    handed_out: Cursors = stored
    log: RequestLog = spent
    closing: list[Callable[[float], None]] = [spent.close]
    if settings.meter:
        from counterfoil.backends.redis.bridge import Bridge
        from counterfoil.backends.redis.client import key_prefix
        from counterfoil.backends.redis.meter import RedisMeter

        prefix = key_prefix(pseudonyms(settings).fingerprint())
        shared = RedisMeter(settings.meter, prefix, spent, observe, servers, _instant(clock))
        closing.insert(0, shared.close)
        meter = shared
        if servers.several:
            handed_out = log = bridge = Bridge(settings.meter, prefix, stored, spent, node_clock)
            closing.insert(0, bridge.close)

    def close() -> None:
        give_up = time.monotonic() + STOP_SAVE_SEC
        for position, part in enumerate(closing):
            # Divide the remaining time equally among the components that are still open.
            within = (give_up - time.monotonic()) / (len(closing) - position)
            try:
                part(within)
            except StoreUnavailable as error:
                observe(ServiceChanged(what="save_failed", detail=str(error)))

    return ServingPorts(PostgresBooks(servers), PostgresKeyLookup(servers, node_clock), meter, log, handed_out, close)


def serving_ports(settings: Settings, observe: Callable[[Event], None], clock: Clock | None = None) -> ServingPorts:
    return _shared(settings, observe, clock) if settings.database else _embedded(settings, clock or SystemClock())


class Service(Struct, frozen=True):
    """The application, and the function that closes its `ServingPorts`."""

    app: App
    close: Callable[[], None]


def reference_pages(settings: Settings) -> dict[str, StaticPage]:
    """Return the pages of the API reference by path, or no pages if the setting `reference` is `off`."""
    if settings.reference == "off":
        return {}
    from counterfoil.http.reference import build, example_base_url, served

    return served.reference_pages(build(settings.prefix, example_base_url(settings.prefix), {}))


def service(
    settings: Settings,
    observe: Callable[[Event], None],
    clock: Clock | None = None,
    pages: Mapping[str, StaticPage] | None = None,
) -> Service:
    """Build the service. The store must already be prepared. If `pages` is given, it replaces `reference_pages`."""
    from counterfoil.http.app import App
    from counterfoil.http.gate import Gate
    from counterfoil.http.openapi import document
    from counterfoil.http.wire import EntityTags
    from counterfoil.reads import Reads

    parts = serving_ports(settings, observe, clock)
    clock = clock or SystemClock()
    new_id = random_ids().__next__
    keyed = pseudonyms(settings)
    app = App(
        prefix=settings.prefix,
        gate=Gate(parts.key_lookup, parts.meter, clock),
        reads=Reads(
            books=parts.books,
            cursors=parts.cursors,
            meter=parts.meter,
            pseudonyms=keyed,
            clock=clock,
            new_id=new_id,
        ),
        request_log=parts.request_log,
        openapi=document(settings.prefix),
        tags=EntityTags(keyed.tag_key()),
        observe=observe,
        clock=clock,
        new_id=request_ids(clock.now_ms).__next__,
        pages=reference_pages(settings) if pages is None else pages,
    )
    return Service(app, parts.close)


def prepare(settings: Settings, clock: Clock | None = None) -> None:
    """Create or migrate the files of an embedded store, or check the schema of a database.

    In both cases, save the fingerprint of the secret if none is stored yet, and raise if another one is stored.
    """
    if not settings.database:
        files.require_whole(settings.store)
        # The key store compares its revocations with those in the usage file, which is therefore migrated first.
        usage(settings, clock).close()
        key_store(settings, clock).close()
    ledger(settings, clock).close()


def has_store(settings: Settings) -> bool:
    """Return whether a store exists: files in the folder, or a database that was initialised."""
    return inspection(settings).fingerprint() is not None if settings.database else files.exists(settings.store)


def is_unfinished(settings: Settings) -> bool:
    """Return whether the creation of an embedded store has failed. `counterfoil init` or a load completes it."""
    return not settings.database and files.is_unfinished(settings.store)


def require_store(settings: Settings) -> None:
    """Raise if an embedded store does not exist, so that a mistyped path does not create an empty one."""
    if not settings.database:
        files.require_store(settings.store)


def store_id(settings: Settings) -> str | None:
    """Return the ID of an embedded store, a random number. Return None for a database or an unreadable store."""
    if settings.database:
        return None
    from counterfoil.backends.sqlite.inspection import SqliteInspection

    return SqliteInspection(settings.store).store_id()


def lost_files(settings: Settings) -> list[Name]:
    """Return the names of the files that an embedded store has lost."""
    return [] if settings.database else files.lost(settings.store)


def recreate(settings: Settings, name: str) -> None:
    """Replace a lost file of an embedded store with an empty one."""
    files.recreate(settings.store, name)


def migrate(settings: Settings, describe: Callable[[list[str]], AuditEntry] | None = None) -> list[str]:
    """Migrate the schema. Return the names of the migrations that were run, or an empty list for an embedded store."""
    if not settings.database:
        prepare(settings)
        return []
    from counterfoil.backends.postgres import migrate

    return migrate.migrate(settings.database, describe)


def distribute(settings: Settings) -> list[str]:
    """Distribute the large tables over the workers of a Citus cluster; return the names of newly distributed tables."""
    from counterfoil.backends.postgres import citus_layout

    return citus_layout.distribute(settings.database)


def make_roles(settings: Settings, describe: Callable[[list[str]], AuditEntry] | None = None) -> list[str]:
    """Create the roles of a database and grant their permissions; return their names."""
    from counterfoil.backends.postgres import migrate

    return migrate.make_roles(settings.database, describe)


def run_statement(database: str, text: str) -> None:
    """Run one statement on a database server, using the credentials in the address."""
    from counterfoil.backends.postgres import admin_connections

    admin_connections.run(database, text)


def copy_source(folder: Path, clock: Clock | None = None) -> SqliteCopySource:
    """Open an embedded store to copy from."""
    from counterfoil.backends.sqlite.copy_source import SqliteCopySource

    return SqliteCopySource(folder, clock or SystemClock())


def copy_target(database: str) -> PostgresCopyTarget:
    """Open a database to copy into."""
    from counterfoil.backends.postgres.copy_target import PostgresCopyTarget

    return PostgresCopyTarget(database)


def back_up(settings: Settings, target: Path, *, with_secret: bool, clock: Clock | None = None) -> BackupManifest:
    """Back up an embedded store. A secret that was set directly and not in a file is never written to the backup."""
    from counterfoil.backends.sqlite import backup

    secret = deployment_secret(settings) if with_secret and not settings.secret else None
    return backup.back_up(settings.store, target, (clock or SystemClock()).now_ms(), __version__, secret)


def restore(settings: Settings, source: Path, by: Actor, *, replace: bool, clock: Clock | None = None) -> Restored:
    """Restore a backup to the store's folder. If no secret is set and no secret file exists, restore the secret too."""
    from counterfoil.backends.sqlite import restore as restoring

    now_ms = (clock or SystemClock()).now_ms()
    secret = restoring.SecretPlace(settings.secret, settings.secret_file)
    return restoring.restore(settings.store, source, secret, now_ms, by, replace=replace)


def meter_problem(settings: Settings) -> str | None:
    """Return the reason why the shared meter cannot be used, or None if it can."""
    from counterfoil.backends.redis import inspection as meter

    return meter.problem(settings.meter)


def inspection(settings: Settings) -> Inspection:
    if settings.database:
        from counterfoil.backends.postgres.inspection import PostgresInspection

        return PostgresInspection(settings.database)
    from counterfoil.backends.sqlite.inspection import SqliteInspection

    return SqliteInspection(settings.store)
