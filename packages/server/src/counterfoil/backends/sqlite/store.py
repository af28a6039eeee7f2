"""An embedded store: opens its components."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from counterfoil.backends.sqlite import backup, files
from counterfoil.backends.sqlite.books import SqliteBooks
from counterfoil.backends.sqlite.files import OpenFiles
from counterfoil.backends.sqlite.keys import SqliteKeyLookup, SqliteKeyStore, changing_devices
from counterfoil.backends.sqlite.ledger import SqliteLedger
from counterfoil.backends.sqlite.reads import SqliteReads
from counterfoil.backends.sqlite.schema import Name
from counterfoil.backends.sqlite.usage import SqliteCursors, SqliteUsage
from counterfoil.devices import DeviceStore
from counterfoil.domain.audit import AuditEntry
from counterfoil.ports import Clock, ServingPorts, StoreUnavailable
from counterfoil.program.clock import SystemClock


class SqliteStore:
    """The folder of a store. `fingerprint` returns the fingerprint of the deployment secret."""

    def __init__(self, folder: Path, clock: Clock | None, fingerprint: Callable[[], str]) -> None:
        self._folder = folder
        self._clock = clock or SystemClock()
        self._fingerprint = fingerprint

    def ledger(self) -> SqliteLedger:
        ledger = SqliteLedger(self._folder, self._clock, self._fingerprint())
        # Nothing may be stamped until it is known that no file of the store was replaced with an older copy.
        backup.settle_older_files(self._folder, self._clock.now_ms())
        return ledger

    def key_store(self) -> SqliteKeyStore:
        return SqliteKeyStore(self._folder, self._clock.now_ms)

    def devices(self) -> DeviceStore:
        return DeviceStore(partial(changing_devices, self._folder))

    def reads(self) -> SqliteReads:
        return SqliteReads(self._folder)

    def usage(self) -> SqliteUsage:
        return SqliteUsage(self._folder, self._clock)

    def prepare(self) -> list[Name]:
        """Create or migrate the files. Return the names of files that were replaced with older copies."""
        files.require_whole(self._folder)
        # The key store compares its revocations with those in the usage file, which is therefore migrated first.
        self.usage().close()
        self.key_store().close()
        older = backup.settle_older_files(self._folder, self._clock.now_ms())
        self.ledger().close()
        return older

    def migrate(self, describe: Callable[[list[str]], AuditEntry] | None) -> list[str]:  # noqa: ARG002 - as above
        self.prepare()
        return []

    def exists(self) -> bool:
        return files.exists(self._folder)

    def is_unfinished(self) -> bool:
        """Return whether the creation of the store has failed. `counterfoil init` or a load completes it."""
        return files.is_unfinished(self._folder)

    def require_exists(self) -> None:
        """Raise if the store does not exist, so that a mistyped path does not create an empty one."""
        files.require_store(self._folder)


def serving_ports(folder: Path, test_clock: Clock | None) -> ServingPorts:
    """Open the ports of a worker. A test may pass its own clock."""
    clock = test_clock or SystemClock()
    books, usage = SqliteBooks(folder), SqliteUsage(folder, clock)
    cursors = SqliteCursors(usage.connection, clock)
    keys = SqliteKeyLookup(folder, clock, OpenFiles(folder, ("books", "usage")).problem)

    def close() -> None:
        for part in (keys, usage, books):
            with suppress(StoreUnavailable):
                part.close()

    return ServingPorts(books, keys, usage, usage, cursors, close)
