"""The composition root: the only file that names a concrete back end or owns a clock.

The PostgreSQL and Valkey drivers are an optional extra of the package, so the
modules that need them are imported inside the functions that use them. The same
goes for modules that no worker needs.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from counterfoil.backends.sqlite import inspect
from counterfoil.backends.sqlite.books import SqliteBooks
from counterfoil.backends.sqlite.cursors import SqliteCursors
from counterfoil.backends.sqlite.files import NAMES, path_of
from counterfoil.backends.sqlite.keys import SqliteKeyCabinet, SqliteKeyRing
from counterfoil.backends.sqlite.ledger import SqliteLedger
from counterfoil.backends.sqlite.usage import SqliteUsage
from counterfoil.domain.access import Scope
from counterfoil.domain.calendar import thai_day
from counterfoil.domain.tokens import MIN_SECRET_BYTES, Pseudonyms
from counterfoil.http.app import App
from counterfoil.http.gate import Gate
from counterfoil.http.openapi import document
from counterfoil.observe.events import Event
from counterfoil.ports import Books, Clock, Cursors, KeyRing, Meter, RequestLog, StoreUnavailable
from counterfoil.reads import Reads
from counterfoil.settings import Settings, SettingsError

if TYPE_CHECKING:
    from counterfoil.backends.postgres import inspect as server
    from counterfoil.backends.postgres.arrival import PostgresArrival
    from counterfoil.backends.postgres.cursors import PostgresCursors
    from counterfoil.backends.postgres.keys import PostgresKeyCabinet
    from counterfoil.backends.postgres.ledger import PostgresLedger
    from counterfoil.backends.postgres.servers import Servers, Sight
    from counterfoil.backends.postgres.usage import PostgresUsage
    from counterfoil.backends.sqlite.departure import SqliteDeparture

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class SystemClock:
    """The clocks of this machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def steady_us(self) -> int:
        return time.monotonic_ns() // 1000

    def boot_id(self) -> str:
        try:
            return _BOOT_ID.read_text(encoding="ascii").strip()
        except OSError:
            # Other systems than Linux: use the time of the boot by the wall clock, rounded to ten minutes.
            return str(round((time.time() - time.monotonic()) / 600))


def random_ids() -> Iterator[str]:
    """Yield ids of 16 hexadecimal digits; one system call provides the randomness for 512 of them."""
    while True:
        digits = os.urandom(4096).hex()
        yield from (digits[start : start + 16] for start in range(0, len(digits), 16))


def deployment_secret(settings: Settings) -> bytes:
    """Return the secret from the settings or from its file.

    A missing file is created, unless the store was already built with a secret.
    """
    if not settings.secret and not settings.secret_file.exists() and _is_built(settings):
        raise SettingsError(
            f"the deployment secret {settings.secret_file} is missing, and this store was built with one: "
            "restore it from your backup; a new secret would change every member token"
        )
    secret = settings.secret.encode() if settings.secret else _secret_in(settings.secret_file)
    if len(secret) < MIN_SECRET_BYTES:
        raise SettingsError(f"the deployment secret is shorter than {MIN_SECRET_BYTES} bytes")
    return secret


def _is_built(settings: Settings) -> bool:
    if settings.database:
        from counterfoil.backends.postgres import inspect as server

        return server.fingerprint(settings.database) is not None
    return path_of(settings.store, "books").exists()


def _secret_in(file: Path) -> bytes:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make_secret(file)
        return file.read_bytes().strip()
    except OSError as error:
        raise SettingsError(f"cannot read the deployment secret {file}: {error.strerror}") from error


def _make_secret(file: Path) -> None:
    """Write the secret to a temporary file and link it into place, so that concurrent starts read the same one."""
    if file.exists():
        return
    draft = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as out:
        out.write(secrets.token_hex(32) + "\n")
    try:
        os.link(draft, file)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def pseudonyms(settings: Settings) -> Pseudonyms:
    return Pseudonyms(deployment_secret(settings))


# --- the parts of a store, on the back end that the settings name -----------------
#
# On PostgreSQL, stamps and admissions use the server's clock. A clock that is passed in, as tests do, replaces it.


def ledger(settings: Settings, clock: Clock | None = None) -> SqliteLedger | PostgresLedger:
    fingerprint = pseudonyms(settings).fingerprint()
    if settings.database:
        from counterfoil.backends.postgres.distributed import open_ledger

        return open_ledger(settings.database, fingerprint, clock.now_ms if clock else None)
    return SqliteLedger(settings.store, clock or SystemClock(), fingerprint)


def key_cabinet(settings: Settings) -> SqliteKeyCabinet | PostgresKeyCabinet:
    if settings.database:
        from counterfoil.backends.postgres.keys import PostgresKeyCabinet

        return PostgresKeyCabinet(settings.database)
    return SqliteKeyCabinet(settings.store)


def usage(settings: Settings, clock: Clock | None = None) -> SqliteUsage | PostgresUsage:
    if settings.database:
        return _shared_usage(settings, _servers(settings, clock), clock)
    return SqliteUsage(settings.store, clock or SystemClock())


def cursors(settings: Settings, clock: Clock | None = None) -> SqliteCursors | PostgresCursors:
    if settings.database:
        from counterfoil.backends.postgres.cursors import PostgresCursors

        return PostgresCursors(_servers(settings, clock), settings.database, clock or SystemClock())
    return SqliteCursors(settings.store, clock or SystemClock())


def _servers(settings: Settings, clock: Clock | None, observe: Callable[[Event], None] = lambda _: None) -> Servers:
    from counterfoil.backends.postgres.horizonfirst import open_servers

    now_ms = clock.now_ms if clock else None
    return open_servers(settings.database, clock or SystemClock(), settings.replica_lag_ms, observe, now_ms)


def _shared_usage(settings: Settings, servers: Servers, clock: Clock | None) -> PostgresUsage:
    from counterfoil.backends.postgres.usage import PostgresUsage

    return PostgresUsage(servers, settings.database, clock or SystemClock(), _instant(clock))


def _instant(clock: Clock | None) -> Callable[[], tuple[int, date]] | None:
    if clock is None:
        return None
    return lambda: (clock.steady_us(), thai_day(clock.now_ms()))


class Parts(Struct, frozen=True):
    """The ports that a worker serves from, and a function that closes them."""

    books: Books
    key_ring: KeyRing
    meter: Meter
    request_log: RequestLog
    cursors: Cursors
    close: Callable[[], None]


def _embedded(settings: Settings, clock: Clock) -> Parts:
    books = SqliteBooks(settings.store)
    spent = SqliteUsage(settings.store, clock)
    handed_out = SqliteCursors(settings.store, clock, beside=spent)

    def close() -> None:
        for part in (spent, handed_out, books):
            part.close()

    return Parts(books, SqliteKeyRing(settings.store, clock), spent, spent, handed_out, close)


def _shared(settings: Settings, observe: Callable[[Event], None], clock: Clock | None) -> Parts:
    from counterfoil.backends.postgres.books import PostgresBooks
    from counterfoil.backends.postgres.cursors import PostgresCursors
    from counterfoil.backends.postgres.keys import PostgresKeyRing

    servers = _servers(settings, clock, observe)
    node_clock = clock or SystemClock()
    spent = _shared_usage(settings, servers, clock)
    stored = PostgresCursors(servers, settings.database, node_clock)
    meter: Meter = spent
    handed_out: Cursors = stored
    log: RequestLog = spent
    closing: list[Callable[[], None]] = [spent.close]
    if settings.meter:
        from counterfoil.backends.redis.bridge import Bridge
        from counterfoil.backends.redis.meter import RedisMeter

        prefix = f"counterfoil:{pseudonyms(settings).fingerprint()[:12]}"
        shared = RedisMeter(settings.meter, prefix, spent, observe, servers, _instant(clock))
        closing.insert(0, shared.close)
        meter = shared
        if servers.several:
            handed_out = log = bridge = Bridge(settings.meter, prefix, stored, spent, node_clock)
            closing.insert(0, bridge.close)

    def close() -> None:
        for part in closing:
            with contextlib.suppress(StoreUnavailable):
                part()

    return Parts(PostgresBooks(servers), PostgresKeyRing(servers, node_clock), meter, log, handed_out, close)


class Service(Struct, frozen=True):
    """The application, and the function that closes the parts it uses."""

    app: App
    close: Callable[[], None]


def service(settings: Settings, observe: Callable[[Event], None], clock: Clock | None = None) -> Service:
    """Build the read service. The store must have been prepared."""
    parts = _shared(settings, observe, clock) if settings.database else _embedded(settings, clock or SystemClock())
    clock = clock or SystemClock()
    new_id = random_ids().__next__
    app = App(
        prefix=settings.prefix,
        gate=Gate(parts.key_ring, parts.meter),
        reads=Reads(
            books=parts.books,
            cursors=parts.cursors,
            meter=parts.meter,
            pseudonyms=pseudonyms(settings),
            clock=clock,
            new_id=new_id,
        ),
        request_log=parts.request_log,
        openapi=document(settings.prefix),
        observe=observe,
        clock=clock,
        new_id=new_id,
    )
    return Service(app, parts.close)


def prepare(settings: Settings, clock: Clock | None = None) -> None:
    """Create or migrate the files of an embedded store; on a server, only check the schema."""
    if not settings.database:
        key_cabinet(settings).close()
        usage(settings, clock).close()
    ledger(settings, clock).close()


def require_serving(settings: Settings) -> None:
    """Raise if the login may not read keys or count requests: it would answer every request with 503."""
    rights = Inspection(settings).rights()
    if rights and not rights.serves:
        raise SettingsError(f"the login {rights.login} may not serve: it needs the role counterfoil_serving")


def migrate(settings: Settings) -> list[str]:
    """Bring the schema up to date; return the migration files that were run on a server."""
    if not settings.database:
        prepare(settings)
        return []
    from counterfoil.backends.postgres import connections

    return connections.migrate(settings.database)


def distribute(settings: Settings) -> list[str]:
    """Distribute the tables of a Citus cluster over its workers; return the tables that were not distributed before."""
    if not settings.database:
        raise SettingsError("only a store on PostgreSQL with Citus can be distributed: set COUNTERFOIL_STORE to it.")
    from counterfoil.backends.postgres import layout

    return layout.distribute(settings.database)


def make_roles(settings: Settings) -> list[str]:
    if not settings.database:
        raise SettingsError("roles are for a store on PostgreSQL; the embedded store goes by the modes of its files")
    from counterfoil.backends.postgres import connections

    connections.make_roles(settings.database)
    return list(connections.ROLES)


def statement(database: str, text: str) -> None:
    """Run one statement on a server, with the login in its address."""
    from counterfoil.backends.postgres import connections

    connections.run(database, text)


def departure(folder: Path, clock: Clock | None = None) -> SqliteDeparture:
    """Open an embedded store to copy from."""
    from counterfoil.backends.sqlite.departure import SqliteDeparture

    return SqliteDeparture(folder, clock or SystemClock())


def arrival(database: str) -> PostgresArrival:
    """Open a server's database to copy into."""
    from counterfoil.backends.postgres.arrival import PostgresArrival

    return PostgresArrival(database)


def meter_problem(settings: Settings) -> str | None:
    """Return what prevents the shared meter from being used, or None."""
    from counterfoil.backends.redis import inspect as meter

    return meter.problem(settings.meter)


class Inspection:
    """Inspects the store for the admin listener and `doctor`. Each call opens what it reads and closes it again."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._look = _ServerLook(settings.database) if settings.database else _FolderLook(settings.store)

    def problems(self) -> dict[str, str | None]:
        """Return each database with what is wrong with it, or None."""
        return self._look.problems()

    def several(self) -> bool:
        """Return whether the store can be read while its primary is away."""
        return self._look.several()

    def servers(self) -> list[Sight]:
        """Return the state of each server; empty for a store with only one."""
        return self._look.servers()

    def knows(self, scope: Scope) -> bool:
        """Return whether a shop of this scope has been loaded; False if the store cannot be read."""
        return self._look.knows(scope)

    def horizon_ms(self) -> int | None:
        return self._look.horizon()

    def horizon_age_ms(self) -> int | None:
        horizon = self.horizon_ms()
        return None if horizon is None else max(0, self._clock.now_ms() - horizon)

    def latest_load(self) -> inspect.LatestLoad | server.LatestLoad | None:
        return self._look.latest_load(self._clock.now_ms())

    def rights(self) -> server.Rights | None:
        """Return the permissions of the login on a server; None for a folder, which relies on file modes."""
        return self._look.rights()

    def fingerprint(self) -> str | None:
        """Return the fingerprint of the secret that a server's store was built with; None if there is none."""
        return self._look.fingerprint()


class _FolderLook:
    """Inspects the files of an embedded store."""

    def __init__(self, store: Path) -> None:
        self._store = store

    def problems(self) -> dict[str, str | None]:
        return {name: inspect.problem(self._store, name) for name in NAMES}

    def several(self) -> bool:
        return False

    def servers(self) -> list[Sight]:
        return []

    def knows(self, scope: Scope) -> bool:
        return inspect.knows(self._store, scope)

    def horizon(self) -> int | None:
        return inspect.horizon(self._store)

    def latest_load(self, now_ms: int) -> inspect.LatestLoad | None:
        return inspect.latest_load(self._store, now_ms)

    def rights(self) -> None:
        return None

    def fingerprint(self) -> None:
        return None


class _ServerLook:
    """Inspects a store on PostgreSQL."""

    def __init__(self, database: str) -> None:
        from counterfoil.backends.postgres import inspect as server

        self._server = server
        self._database = database

    def problems(self) -> dict[str, str | None]:
        return {"store": self._server.problem(self._database)}

    def several(self) -> bool:
        return self._server.several(self._database)

    def servers(self) -> list[Sight]:
        return self._server.servers(self._database)

    def knows(self, scope: Scope) -> bool:
        return self._server.knows(self._database, scope)

    def horizon(self) -> int | None:
        return self._server.horizon(self._database)

    def latest_load(self, now_ms: int) -> server.LatestLoad | None:
        return self._server.latest_load(self._database, now_ms)

    def rights(self) -> server.Rights | None:
        return self._server.rights(self._database)

    def fingerprint(self) -> str | None:
        return self._server.fingerprint(self._database)
