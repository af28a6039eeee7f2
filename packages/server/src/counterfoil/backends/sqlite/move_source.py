"""An embedded store as the source of a copy: it is read from snapshots, then locked, and finally retired.

In a retired store, triggers prevent changes to the horizon, the admissions and the keys. A service that still runs on
it answers 503, and loads fail, so no change can be made that the copy would miss.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from counterfoil.backends.moved_tables import IN_GROUP, MovedTable
from counterfoil.backends.sqlite import files, usage
from counterfoil.backends.sqlite.backup import FINGERPRINT, HORIZON, NEWEST_STAMP
from counterfoil.backends.sqlite.files import translated
from counterfoil.backends.sqlite.keys import SqliteKeyStore
from counterfoil.backends.sqlite.ledger import SHOP_SHIFT
from counterfoil.backends.sqlite.schema import NAMES, Name
from counterfoil.backends.sqlite.triggers import create_trigger
from counterfoil.ports import Clock, StoreUnavailable

_STEADY = "SELECT boot_id, shift FROM steady"
_SIZE: tuple[tuple[Name, str], ...] = (
    ("books", "SELECT count(*) FROM bills"),
    ("books", "SELECT count(*) FROM members"),
    ("usage", "SELECT count(*) FROM requests"),
)

# Subqueries for tables whose layout in SQLite differs from their layout in PostgreSQL.
_FROM = {
    # Accounts are numbered in the order in which the member's record lists them.
    "accounts": """(
        SELECT *, row_number() OVER (PARTITION BY provider_id, token ORDER BY rowid) - 1 AS place FROM accounts
    )""",
    # Every admission stores the key's count for its day, so the latest one has the current count.
    "meters": """(
        SELECT key_id, n, at + :shift AS at, 0 AS ahead, day, count FROM admissions AS latest
        WHERE n = (SELECT max(n) FROM admissions WHERE key_id = latest.key_id)
    )""",
    "admissions": "(SELECT key_id, n, at + :shift AS at FROM admissions)",
    "audit": "(SELECT 'sqlite' AS origin, * FROM audit)",
}
# Each shop has its own range of bill numbers, so this reads its bills in the order in which they are stored.
_IN_GROUP = IN_GROUP | {"shop": f"number BETWEEN :group << {SHOP_SHIFT} AND ((:group + 1) << {SHOP_SHIFT}) - 1"}
# Triggers that let a retired store reject every change that a copy would miss.
_RETIRE: tuple[tuple[Name, str], ...] = (
    (
        "books",
        """
        CREATE TRIGGER IF NOT EXISTS moved_0 BEFORE UPDATE ON horizon
        BEGIN SELECT RAISE(ABORT, :message); END
        """,
    ),
    (
        "usage",
        """
        CREATE TRIGGER IF NOT EXISTS moved_1 BEFORE INSERT ON admissions
        BEGIN SELECT RAISE(ABORT, :message); END
        """,
    ),
    (
        "keys",
        """
        CREATE TRIGGER IF NOT EXISTS moved_2 BEFORE INSERT ON keys
        BEGIN SELECT RAISE(ABORT, :message); END
        """,
    ),
    (
        "keys",
        """
        CREATE TRIGGER IF NOT EXISTS moved_3 BEFORE UPDATE ON keys
        BEGIN SELECT RAISE(ABORT, :message); END
        """,
    ),
    (
        "keys",
        """
        CREATE TRIGGER IF NOT EXISTS moved_4 BEFORE INSERT ON console_devices
        BEGIN SELECT RAISE(ABORT, :message); END
        """,
    ),
    (
        "keys",
        """
        CREATE TRIGGER IF NOT EXISTS moved_5 BEFORE UPDATE ON console_devices
        BEGIN SELECT RAISE(ABORT, :message); END
        """,
    ),
)


class SqliteMoveSource:
    """The three files of a store that is being copied."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        if not files.path_of(folder, "books").exists():
            raise StoreUnavailable(f"there is no store at {folder}")
        self._clock = clock
        self._connections: dict[Name, sqlite3.Connection] = {}
        files.require_whole(folder)
        self._folder = folder
        self._settle_revocations()
        for name in NAMES:
            self._connections[name] = files.read_only(folder, name)
        self._shift = 0

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def fingerprint(self) -> str:
        with translated():
            row = self._connections["books"].execute(FINGERPRINT).fetchone()
        if not row:
            raise StoreUnavailable("nothing has ever been loaded into the source, so there is nothing to copy")
        return str(row[0])

    def retired(self) -> bool:
        with translated():
            return all(files.moved(self._connections[name]) for name in NAMES)

    def moved_to(self) -> str:
        """Return the address of the store that replaces this one, even if retiring was interrupted, or "" if none."""
        with translated():
            return next(filter(None, map(files.moved, self._connections.values())), "")

    @contextmanager
    def snapshot(self) -> Iterator[int]:
        """Read everything from one snapshot, and yield its horizon."""
        with translated():
            for name in NAMES:
                self._connections[name].execute("BEGIN")
            try:
                self._settle_shift()
                for name in NAMES:
                    # The first read takes the snapshot.
                    self._connections[name].execute("SELECT count(*) FROM migrations").fetchone()
                yield self._horizon()
            finally:
                for name in NAMES:
                    self._connections[name].execute("ROLLBACK")

    @contextmanager
    def held(self) -> Iterator[int]:
        """Block all other writers, and yield the horizon."""
        self._settle_revocations()
        readers = self._connections
        with translated():
            self._connections = {name: files.read_write(self._folder, name) for name in NAMES}
            try:
                for name in NAMES:
                    connection = self._connections[name]
                    connection.execute(f"PRAGMA busy_timeout = {files.WAIT_SEC[name] * 1000:.0f}")
                    connection.execute("BEGIN IMMEDIATE")
                usage.move(self._connections["usage"], usage.EVERYTHING)
                self._settle_shift()
                yield self._horizon()
            finally:
                # Closing rolls back everything that `retire` has not committed.
                self.close()
                self._connections = readers

    def retire(self, moved_to: str) -> None:
        """Retire the store for good, within `held`: it stamps no bill, admits no request and issues no key."""
        for name, trigger in _RETIRE:
            create_trigger(self._connections[name], trigger, message=f"{files.MOVED_TO} {moved_to}")
        for name in NAMES:
            self._connections[name].execute("COMMIT")

    def size(self) -> int:
        """Return the approximate number of rows, for the progress bar."""
        with translated():
            return sum(self._connections[name].execute(query).fetchone()[0] for name, query in _SIZE)

    def newest_stamp(self) -> int:
        return self._connections["books"].execute(NEWEST_STAMP).fetchone()[0] or 0

    # --- rows ------------------------------------------------------------------------

    def ask(self, table: MovedTable, query: str, **values: Any) -> sqlite3.Cursor:
        return self._connections[table.file].execute(query, values | {"shift": self._shift})

    def rows(self, table: MovedTable, group: Any) -> sqlite3.Cursor:
        """Return the rows of a group."""
        return self.ask(table, _rows_of_group(table), group=group)

    def _horizon(self) -> int:
        row: tuple[int] = self._connections["books"].execute(HORIZON).fetchone()
        return row[0]

    def _settle_revocations(self) -> None:
        # With an older, restored keys.sqlite3, some revocations are only in usage.sqlite3. Add them before copying.
        with closing(SqliteKeyStore(self._folder, self._clock.now_ms)) as keys:
            keys.settle_revocations()

    def _settle_shift(self) -> None:
        """Compute the offset from the admissions' clock to the wall clock. It stays 0 if unused since the boot."""
        steady = self._connections["usage"].execute(_STEADY).fetchone()
        if steady and steady[0] == self._clock.boot_id():
            self._shift = self._clock.now_ms() * 1000 - self._clock.steady_us() - int(steady[1])


def _rows_of_group(table: MovedTable) -> str:
    """Return the statement for a declared table: see moved_tables.py."""
    source, condition = _FROM.get(table.name, table.name), _IN_GROUP[table.group]
    return f"SELECT {', '.join(table.columns)} FROM {source} WHERE {condition}"  # noqa: S608 - declared names
