"""A store on PostgreSQL, for commands and the supervisor: opens its components. cluster.py opens those of workers."""

from collections.abc import Callable
from functools import partial

from counterfoil.backends.postgres.administration import PostgresKeyStore, PostgresUsageAdmin, changing_devices, migrate
from counterfoil.backends.postgres.citus import open_ledger
from counterfoil.backends.postgres.ledger import PostgresLedger
from counterfoil.backends.postgres.reads import PostgresReads
from counterfoil.devices import DeviceStore
from counterfoil.domain.audit import AuditEntry
from counterfoil.ports import Clock
from counterfoil.program.clock import SystemClock


class PostgresStore:
    """A database. Stamps and the minute window use its server's clock, unless a test passes its own `clock`."""

    def __init__(self, url: str, clock: Clock | None, fingerprint: Callable[[], str]) -> None:
        self._url = url
        self._test_clock = clock
        self._fingerprint = fingerprint

    def reads(self) -> PostgresReads:
        return PostgresReads(self._url)

    def ledger(self) -> PostgresLedger:
        return open_ledger(self._url, self._fingerprint(), self._test_clock.now_ms if self._test_clock else None)

    def key_store(self) -> PostgresKeyStore:
        return PostgresKeyStore(self._url)

    def devices(self) -> DeviceStore:
        return DeviceStore(partial(changing_devices, self._url))

    def usage(self) -> PostgresUsageAdmin:
        steady_us = self._test_clock.steady_us if self._test_clock else None
        return PostgresUsageAdmin(self._url, self._test_clock or SystemClock(), steady_us)

    def prepare(self) -> list[str]:
        """Check the schema. A database has no files that could be replaced."""
        self.ledger().close()
        return []

    def migrate(self, describe: Callable[[list[str]], AuditEntry] | None) -> list[str]:
        return migrate(self._url, describe)

    def exists(self) -> bool:
        """Return whether the database was initialised."""
        return self.reads().fingerprint() is not None

    def is_unfinished(self) -> bool:
        return False

    def require_exists(self) -> None:
        """Do nothing: a mistyped address does not create a database."""
