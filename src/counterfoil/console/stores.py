"""Opens the store for the console's pages. Every page reads through this class, and nothing here changes the store."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

from counterfoil import bootstrap
from counterfoil.checks.diagnosis import run_checks
from counterfoil.checks.local import Finding
from counterfoil.checks.overview import Overview, overview
from counterfoil.domain.access import Key
from counterfoil.domain.activity import ShopActivity
from counterfoil.domain.audit import AuditEntry
from counterfoil.operator_reads import OperatorReads
from counterfoil.ports import Clock, Inspection
from counterfoil.settings import Settings

# The checks are slow: they count bills and query the service. Pages opened in quick succession share one result.
OVERVIEW_SEC = 2


class ConsoleStore:
    """Reads the store on behalf of the operator."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._overview: Overview | None = None
        self._overview_us = 0
        self._lock = threading.Lock()

    def all_keys(self) -> list[Key]:
        """Return all keys, oldest first."""
        with self.reads() as reads:
            return reads.keys()

    def audit(self, most: int, key_id: str | None = None, since: int = 0) -> list[AuditEntry]:
        with self.reads() as reads:
            return reads.audit(most, key_id, since)

    @contextmanager
    def reads(self) -> Iterator[OperatorReads]:
        with closing(bootstrap.operator_reads(self._settings)) as reads:
            yield reads

    def inspection(self) -> Inspection:
        return bootstrap.inspection(self._settings)

    def shops(self, *, count_all: bool = False) -> list[ShopActivity]:
        return self.inspection().shops(self._clock.now_ms(), count_all=count_all)

    def overview(self) -> Overview:
        """Return the findings of `counterfoil status`. The result is at most OVERVIEW_SEC old."""
        with self._lock:
            now = self._clock.steady_us()
            if self._overview is None or now - self._overview_us >= OVERVIEW_SEC * 1_000_000:
                self._overview, self._overview_us = overview(self._settings, self._clock.now_ms()), now
            return self._overview

    def diagnosis(self) -> list[Finding]:
        """Return the findings of `counterfoil doctor`."""
        return run_checks(self._settings)
