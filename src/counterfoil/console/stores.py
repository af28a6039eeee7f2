"""Opens the store for the console's pages. All pages read through `ConsoleStore`. Nothing here changes the store."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from counterfoil import bootstrap
from counterfoil.checks.findings import Finding
from counterfoil.checks.overview import Overview, overview, service_finding
from counterfoil.domain.access import Key
from counterfoil.domain.activity import ShopActivity
from counterfoil.domain.audit import AuditEntry
from counterfoil.operator_reads import OperatorReads, ShopName
from counterfoil.ports import Clock, StoreMismatch, StoreUnavailable
from counterfoil.settings import Settings

# The checks are slow: they count bills and query the service. Pages opened in quick succession share one result.
SHARED_SEC = 2
Result = TypeVar("Result")


class SharedResult(Generic[Result]):
    """The result of a slow function. Pages share a result for SHARED_SEC seconds."""

    def __init__(self, clock: Clock, compute: Callable[[], Result]) -> None:
        self._clock = clock
        self._compute = compute
        self._lock = threading.Lock()
        self._result: tuple[Result, int] | None = None

    def get(self) -> Result:
        with self._lock:
            if self._result is None or self._clock.steady_us() - self._result[1] >= SHARED_SEC * 1_000_000:
                self._result = self._compute(), self._clock.steady_us()
            return self._result[0]


class ConsoleStore:
    """Reads the store on behalf of the operator."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._overview = SharedResult(clock, lambda: overview(settings, clock.now_ms(), deep=True))
        self._service = SharedResult(clock, self._ask_service)

    def all_keys(self) -> list[Key]:
        """Return all keys, oldest first."""
        with self.reads() as reads:
            return reads.keys()

    def shop_names(self) -> list[ShopName]:
        """Return the names of the loaded shops, or an empty list if the store cannot be read.

        Pages show names beside IDs, and must also work without names.
        """
        try:
            with self.reads() as reads:
                return reads.shop_names()
        except (StoreUnavailable, StoreMismatch):
            return []

    def audit(self, most: int, key_id: str | None = None, since: int = 0) -> list[AuditEntry]:
        with self.reads() as reads:
            return reads.audit(most, key_id, since)

    @contextmanager
    def reads(self) -> Iterator[OperatorReads]:
        reads = bootstrap.operator_reads(self._settings)
        yield reads

    def inspection(self) -> OperatorReads:
        return bootstrap.operator_reads(self._settings)

    def shops(self, *, count_all: bool = False) -> list[ShopActivity]:
        return self.inspection().shops(self._clock.now_ms(), count_all=count_all)

    def overview(self) -> Overview:
        """Return the findings of `counterfoil status --deep`, and the values that they are based on."""
        return self._overview.get()

    def findings(self) -> list[Finding]:
        """Return the findings without those about the login, because the service has another one than the console."""
        return [finding for finding in self.overview().findings if finding.check != "rights"]

    def service(self) -> Finding:
        """Return a finding that says whether the service is ready."""
        return self._service.get()

    def _ask_service(self) -> Finding:
        horizon = None if self._settings.admin_port else self.inspection().horizon()
        return service_finding(self._settings, horizon, self._clock.now_ms())
