"""The composition root: the only module that chooses the back ends.

The PostgreSQL and Valkey drivers are an optional extra of the package, so the modules that need them are imported
inside the functions that use them. Several other modules that not every process needs are imported in the same way, so
that commands start faster and workers use less memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from counterfoil.domain.audit import Actor, AuditEntry
from counterfoil.domain.tokens import Pseudonyms
from counterfoil.model.version import __version__
from counterfoil.observe import Event
from counterfoil.ports import Clock, ServingPorts, wrong_secret
from counterfoil.program.clock import SystemClock, random_ids, request_ids
from counterfoil.settings import Settings, read_secret

if TYPE_CHECKING:
    from counterfoil.backends.postgres.ledger import PostgresLedger
    from counterfoil.backends.postgres.store import PostgresStore
    from counterfoil.backends.sqlite.backup import BackupManifest, Restored
    from counterfoil.backends.sqlite.ledger import SqliteLedger
    from counterfoil.backends.sqlite.move_source import SqliteMoveSource
    from counterfoil.backends.sqlite.store import SqliteStore
    from counterfoil.http.app import App
    from counterfoil.http.wire import StaticPage

    Ledger = SqliteLedger | PostgresLedger


def store(settings: Settings, clock: Clock | None = None) -> SqliteStore | PostgresStore:
    """Return the store, which opens its components. A test may pass its own clock."""
    if not settings.database:
        from counterfoil.backends.sqlite.store import SqliteStore

        return SqliteStore(settings.store, clock, lambda: pseudonyms(settings).fingerprint())
    from counterfoil.backends.postgres.store import PostgresStore

    return PostgresStore(settings.database, clock, lambda: pseudonyms(settings).fingerprint())


def is_without_store(settings: Settings) -> bool:
    """Return whether the store is embedded and does not exist yet. A load then creates it."""
    return not settings.database and not store(settings).exists()


def serving_ports(settings: Settings, observe: Callable[[Event], None], clock: Clock | None = None) -> ServingPorts:
    if not settings.database:
        from counterfoil.backends.sqlite.store import serving_ports

        return serving_ports(settings.store, clock)
    from counterfoil.backends.cluster import serving_ports as cluster_ports
    from counterfoil.backends.postgres.addresses import ConnectionLimits

    limits = ConnectionLimits(**{name: getattr(settings, name) for name in ConnectionLimits.__struct_fields__})
    fingerprint, lag_ms = lambda: pseudonyms(settings).fingerprint(), settings.replica_lag_ms
    return cluster_ports(settings.database, settings.meter, fingerprint, clock, lag_ms, limits, observe)


# --- the deployment secret -------------------------------------------------------------


def deployment_secret(settings: Settings) -> bytes:
    # Open the store only if the secret is missing: this may import psycopg, which workers do not need otherwise.
    return read_secret(settings, lambda: store(settings).reads().is_built())


def pseudonyms(settings: Settings) -> Pseudonyms:
    return Pseudonyms(deployment_secret(settings))


def require_secret(settings: Settings) -> None:
    """Raise if the store was built with another secret. Nothing is written."""
    if store(settings).reads().fingerprint() not in (None, pseudonyms(settings).fingerprint()):
        raise wrong_secret()


# --- the service -------------------------------------------------------------------------


class Service(Struct, frozen=True):
    """The application, and the function that closes its `ServingPorts`."""

    app: App
    close: Callable[[], None]


def reference_pages(settings: Settings) -> dict[str, StaticPage]:
    """Return the pages of the API reference by path, or no pages if the setting `reference` is `off`."""
    if settings.reference == "off":
        return {}
    from counterfoil.http.reference import build, example_base_url, served_pages

    return served_pages(build(settings.prefix, example_base_url(settings.prefix), {}))


def service(
    settings: Settings,
    observe: Callable[[Event], None],
    clock: Clock | None = None,
    pages: Mapping[str, StaticPage] | None = None,
) -> Service:
    """Build the service. The store must already be prepared. If `pages` is given, it replaces `reference_pages`."""
    from counterfoil.http.app import App, RouteTable
    from counterfoil.http.gate import Gate
    from counterfoil.http.openapi import document
    from counterfoil.http.wire import EntityTags
    from counterfoil.reads import Reads

    parts = serving_ports(settings, observe, clock)
    clock = clock or SystemClock()
    new_id = random_ids().__next__
    keyed = pseudonyms(settings)
    app = App(
        routes=RouteTable(settings.prefix),
        gate=Gate(parts.key_lookup, parts.meter, clock),
        reads=Reads(
            books=parts.books, cursors=parts.cursors, meter=parts.meter, pseudonyms=keyed, clock=clock, new_id=new_id
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


# --- commands for one back end --------------------------------------------------------------


def distribute(settings: Settings) -> list[str]:
    """Distribute the large tables over the workers of a Citus cluster; return the names of newly distributed tables."""
    from counterfoil.backends.postgres import citus

    return citus.distribute(settings.database)


def make_roles(settings: Settings, describe: Callable[[list[str]], AuditEntry] | None = None) -> list[str]:
    """Create the roles of a database and grant their permissions; return their names."""
    from counterfoil.backends.postgres import administration

    return administration.make_roles(settings.database, describe)


def move_source(folder: Path, clock: Clock | None = None) -> SqliteMoveSource:
    """Open an embedded store to copy from."""
    from counterfoil.backends.sqlite.backup import settle_older_files
    from counterfoil.backends.sqlite.move_source import SqliteMoveSource

    source = SqliteMoveSource(folder, clock or SystemClock())
    settle_older_files(folder, (clock or SystemClock()).now_ms())
    return source


def back_up(settings: Settings, target: Path, *, with_secret: bool, clock: Clock | None = None) -> BackupManifest:
    """Back up an embedded store. A secret that was set directly and not in a file is never written to the backup."""
    from counterfoil.backends.sqlite import backup

    secret = deployment_secret(settings) if with_secret and not settings.secret else None
    return backup.back_up(settings.store, target, (clock or SystemClock()).now_ms(), __version__, secret)


def restore(settings: Settings, source: Path, by: Actor, *, replace: bool, clock: Clock | None = None) -> Restored:
    """Restore a backup to the store's folder. If no secret is set and no secret file exists, restore the secret too."""
    from counterfoil.backends.sqlite import backup

    now_ms = (clock or SystemClock()).now_ms()
    return backup.restore(settings.store, source, settings.secret, settings.secret_file, now_ms, by, replace=replace)
