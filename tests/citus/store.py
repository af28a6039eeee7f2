"""The store on Citus, for the port suite."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from citus.cluster import cluster
from counterfoil.backends.postgres.citus import DISTRIBUTED, open_ledger
from counterfoil.backends.postgres.citus_reads import CitusBooks, CitusServers
from counterfoil.backends.postgres.servers import Servers
from counterfoil.machine.clock import SystemClock
from counterfoil.observe import Event
from counterfoil.ports import Clock
from ports.backends import FULL_DISK, OpenBooks, OpenLedger, PostgresStore, SharedTime

# Citus does not allow triggers on distributed tables. Triggers on the other tables are enough, because every write also
# changes a table that is not distributed.
_FULL_DISK = FULL_DISK.replace(
    "schemaname = 'counterfoil'",
    f"schemaname = 'counterfoil' AND tablename NOT IN ({', '.join(repr(table) for table in DISTRIBUTED)})",
)


class CitusStore(PostgresStore):
    """A database whose tables are distributed across the workers."""

    def __init__(self, _: Path) -> None:
        self.database, self.url = cluster().borrow_database()
        self.time = SharedTime()
        self.events: list[Event] = []
        self._open = []

    def close(self) -> None:
        for part in self._open:
            part.close()
        cluster().return_database(self.database)

    def _servers(self) -> Servers:
        return self._kept(CitusServers(self.url, SystemClock()))

    def books(self) -> OpenBooks:
        return CitusBooks(self._servers())

    def ledger(self, clock: Clock, fingerprint: str) -> OpenLedger:
        now_ms = None if isinstance(clock, SystemClock) else clock.now_ms
        return self._kept(open_ledger(self.url, fingerprint, now_ms))

    def everything_written(self) -> bytes:
        return cluster().everything_written(self.database)

    @contextmanager
    def out_of_space(self) -> Iterator[None]:
        self._command(_FULL_DISK)
        try:
            yield
        finally:
            self._command("DROP FUNCTION counterfoil.full_disk CASCADE")

    def _command(self, statement: str) -> None:
        cluster().coordinator.command(statement, self.database)
