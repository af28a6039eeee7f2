"""A store on PostgreSQL, with or without a shared meter: opens its components.

Workers need asyncpg and commands need psycopg, so each component is imported only where it is opened.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from counterfoil.domain.calendar import thai_day
from counterfoil.machine.clock import SystemClock
from counterfoil.observe import Event, ServiceChanged
from counterfoil.ports import STOP_SAVE_SEC, Clock, Cursors, Meter, RequestLog, ServingPorts, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date

    from counterfoil.backends.postgres.addresses import ConnectionLimits
    from counterfoil.backends.postgres.administration import (
        PostgresDevices,
        PostgresKeyStore,
        PostgresUsageAdmin,
    )
    from counterfoil.backends.postgres.ledger import PostgresLedger
    from counterfoil.backends.postgres.reads import PostgresReads
    from counterfoil.backends.sqlite.schema import Name
    from counterfoil.domain.audit import AuditEntry


class PostgresStore:
    """A database and a shared meter, whose address may be empty.

    Stamps and admissions use the server's clock, unless a test passes its own `clock`. `fingerprint` returns the
    fingerprint of the deployment secret.
    """

    def __init__(
        self,
        url: str,
        clock: Clock | None,
        fingerprint: Callable[[], str],
        meter: str,
        replica_lag_ms: int,
        limits: ConnectionLimits,
    ) -> None:
        self._url = url
        self._test_clock = clock
        self._clock = clock or SystemClock()
        self._fingerprint = fingerprint
        self._meter = meter
        self._replica_lag_ms = replica_lag_ms
        self._limits = limits

    def reads(self) -> PostgresReads:
        from counterfoil.backends.postgres.reads import PostgresReads

        return PostgresReads(self._url)

    def ledger(self) -> PostgresLedger:
        from counterfoil.backends.postgres.citus import open_ledger

        return open_ledger(self._url, self._fingerprint(), self._test_clock.now_ms if self._test_clock else None)

    def key_store(self) -> PostgresKeyStore:
        from counterfoil.backends.postgres.administration import PostgresKeyStore

        return PostgresKeyStore(self._url)

    def devices(self) -> PostgresDevices:
        from counterfoil.backends.postgres.administration import PostgresDevices

        return PostgresDevices(self._url)

    def usage(self) -> PostgresUsageAdmin:
        from counterfoil.backends.postgres.administration import PostgresUsageAdmin

        return PostgresUsageAdmin(self._url, self._clock, self._test_clock.steady_us if self._test_clock else None)

    def serving_ports(self, observe: Callable[[Event], None]) -> ServingPorts:
        from counterfoil.backends.postgres.citus_reads import open_books, open_servers
        from counterfoil.backends.postgres.key_lookup import PostgresKeyLookup
        from counterfoil.backends.postgres.usage import PostgresCursors, PostgresUsage

        now_ms, instant = (self._clock.now_ms, self._instant) if self._test_clock else (None, None)
        servers = open_servers(self._url, self._clock, self._replica_lag_ms, observe, now_ms, self._limits)
        usage, stored = PostgresUsage(servers, instant), PostgresCursors(servers, self._clock)
        meter: Meter = usage
        cursors: Cursors = stored
        log: RequestLog = usage
        closing: list[Callable[[float], None]] = [usage.close]
        if self._meter:
            from counterfoil.backends.redis.bridge import Bridge
            from counterfoil.backends.redis.client import key_prefix
            from counterfoil.backends.redis.meter import RedisMeter

            prefix = key_prefix(self._fingerprint())
            meter = shared = RedisMeter(self._meter, prefix, usage, observe, servers, instant)
            closing.insert(0, shared.close)
            if servers.several:
                cursors = log = bridge = Bridge(self._meter, prefix, stored, usage, self._clock)
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

        keys = PostgresKeyLookup(servers, self._clock)
        return ServingPorts(open_books(servers), keys, meter, log, cursors, close)

    def _instant(self) -> tuple[int, date]:
        return self._clock.steady_us(), thai_day(self._clock.now_ms())

    def prepare(self) -> list[Name]:
        """Check the schema. A database has no files that could be replaced."""
        self.ledger().close()
        return []

    def migrate(self, describe: Callable[[list[str]], AuditEntry] | None) -> list[str]:
        from counterfoil.backends.postgres import administration

        return administration.migrate(self._url, describe)

    def exists(self) -> bool:
        """Return whether the database was initialised."""
        return self.reads().fingerprint() is not None

    def is_unfinished(self) -> bool:
        return False

    def require_exists(self) -> None:
        """Do nothing: a mistyped address does not create a database."""
