"""The store on Citus, for the port suite."""

from pathlib import Path

from citus.cluster import cluster
from counterfoil.backends.postgres.citus import DISTRIBUTED, open_ledger
from counterfoil.backends.postgres.citus_reads import open_books
from counterfoil.ports import Clock
from counterfoil.program.clock import SystemClock
from ports.backends import FULL_DISK, OpenBooks, OpenLedger, PostgresStore, SharedTime


class CitusStore(PostgresStore):
    """A database whose tables are distributed across the workers."""

    # Citus does not allow triggers on distributed tables. Triggers on the other tables are enough, because every write
    # also changes a table that is not distributed.
    full_disk = FULL_DISK.replace(
        "schemaname = 'counterfoil'",
        f"schemaname = 'counterfoil' AND tablename NOT IN ({', '.join(map(repr, DISTRIBUTED))})",
    )

    def __init__(self, _: Path) -> None:
        self.database, self.url = cluster().borrow_database()
        self.time = SharedTime()
        self._open = []

    def close(self) -> None:
        for part in self._open:
            part.close()
        cluster().return_database(self.database)

    def books(self) -> OpenBooks:
        return open_books(self._servers())

    def ledger(self, clock: Clock, fingerprint: str) -> OpenLedger:
        now_ms = None if isinstance(clock, SystemClock) else clock.now_ms
        return self._kept(open_ledger(self.url, fingerprint, now_ms))

    def _command(self, statement: str) -> None:
        cluster().coordinator.command(statement, self.database)
