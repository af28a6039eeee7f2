"""Opens the store's files: modes, pragmas, migrations, and the only place that translates SQLite's errors.

A store is a folder with three databases, so that each process opens only what it
needs: `books` (loaders write, the service reads), `keys` (the operator
writes, the service reads) and `usage` (the service writes).
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from counterfoil.ports import StoreMismatch, StoreUnavailable

Name = Literal["books", "keys", "usage"]
NAMES: tuple[Name, ...] = ("books", "keys", "usage")

# A writer that finds the file locked retries after this long, then at longer and longer
# intervals. SQLite's own busy handler starts at a millisecond, the time of thirty admissions.
RETRY_SEC = 0.000_05
SLOWEST_RETRY_SEC = 0.005
# A request reads many bills at once, so pages of `books` are large; an admission writes one page of `usage`.
PAGE_BYTES = {"books": 8192, "keys": 4096, "usage": 1024}
# Opening `usage` after a crash reads its whole log, which may be long; opening `keys` makes requests wait.
OPEN_SEC = {"books": 2.0, "keys": 2.0, "usage": 5.0}
SETTLE_SEC = 10.0
WAIT_SEC = {"books": 60.0, "keys": 5.0, "usage": 2.0}

# The message of a retired store begins with this: see departure.py.
MOVED_TO = "this store was moved to"
_RETIRED = "SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND name LIKE 'moved_%' LIMIT 1"

# A commit that finds a log of this many pages moves them into the main file and waits for the disk. For `usage` that
# would delay a request, so the supervisor, if there is one, moves them earlier.
LONGEST_LOG = {"books": 4_000, "keys": 4_000, "usage": 65_536}
# A log longer than this is restarted: see `checkpoint`.
LONG_LOG_BYTES = 32_000_000
RESTART_SEC = 0.05

_PRAGMAS = """
    PRAGMA busy_timeout = 0;
    PRAGMA synchronous = NORMAL;
    PRAGMA cache_size = -16000;
    PRAGMA mmap_size = 1099511627776;
"""


def path_of(folder: Path, name: Name) -> Path:
    return folder / f"{name}.sqlite3"


class translated:  # noqa: N801 - called like contextlib's own managers; a generator would cost five times as much
    """Translate SQLite's errors to StoreUnavailable."""

    __slots__ = ()

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.Error):
            raise _unavailable(error) from error


def row(connection: sqlite3.Connection, statement: str, values: Sequence[object] = ()) -> Any:
    """Return the first row that a statement finds, or None."""
    try:
        return connection.execute(statement, values).fetchone()
    except sqlite3.Error as error:
        raise _unavailable(error) from error


def rows(connection: sqlite3.Connection, statement: str, values: Sequence[object] = ()) -> list[Any]:
    try:
        return connection.execute(statement, values).fetchall()
    except sqlite3.Error as error:
        raise _unavailable(error) from error


def _unavailable(error: sqlite3.Error) -> StoreUnavailable:
    return StoreUnavailable(f"SQLite: {error}")


def read_only(folder: Path, name: Name) -> sqlite3.Connection:
    with translated():
        return _connect(f"{path_of(folder, name).resolve().as_uri()}?mode=ro", name)


def read_write(folder: Path, name: Name) -> sqlite3.Connection:
    """Open a file for writing; create it if it is missing, and bring its schema up to date."""
    path = path_of(folder, name)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make_private(path)
    except OSError as error:
        raise StoreUnavailable(f"cannot open {path}: {error.strerror}") from error
    with translated():
        connection = _connect(f"{path.resolve().as_uri()}?mode=rw", name, checked=False)
        _settle_layout(connection, name)
        _migrate(connection, name)
        return connection


def _make_private(path: Path) -> None:
    """Create the file, readable only by its owner, if it does not exist.

    An existing file must not be opened here: closing any descriptor of a
    database releases the locks that this process holds on it through SQLite.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return


class writing:  # noqa: N801 - as above
    """A transaction that holds the write lock from its start."""

    __slots__ = ("_connection", "_wait_sec")

    def __init__(self, connection: sqlite3.Connection, wait_sec: float) -> None:
        self._connection = connection
        self._wait_sec = wait_sec

    def __enter__(self) -> None:
        _patiently(self._begin, self._wait_sec)

    def _begin(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            if kind is None:
                self._connection.execute("COMMIT")
        finally:
            # Roll back, whether the body or the commit has failed.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")


def checkpoint(connection: sqlite3.Connection) -> None:
    """Move committed pages from the log into the main file.

    This spares requests the work and keeps the log short: some pages are
    written by every commit, and a lookup in the log passes all their copies.
    A passive checkpoint blocks nobody. But under load there is always a commit
    that it has not moved yet, so the log only grows. A long log is therefore
    restarted, and writers wait while its last few pages are moved.
    """
    with translated():
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if pages * page_bytes <= LONG_LOG_BYTES:
            return
        deadline, busy = time.monotonic() + RESTART_SEC, True
        while busy and time.monotonic() < deadline:
            time.sleep(RETRY_SEC)
            busy = connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()[0]


def _patiently(ask: Callable[[], object], wait_sec: float) -> None:
    """Call `ask`, which needs a lock; retry for up to `wait_sec` while others hold it."""
    deadline, pause = 0.0, RETRY_SEC
    while True:
        try:
            ask()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            now = time.monotonic()
            deadline = deadline or now + wait_sec
            if now > deadline:
                raise
            time.sleep(pause)
            pause = min(2 * pause, SLOWEST_RETRY_SEC)


def _connect(uri: str, name: Name, *, checked: bool = True) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, cached_statements=256)

    def greet() -> None:
        connection.executescript(f"{_PRAGMAS} PRAGMA wal_autocheckpoint = {LONGEST_LOG[name]};")
        if checked:
            _check_version(connection, name)

    try:
        # The last connection to close a file cleans it up, and nobody else can open it meanwhile.
        _patiently(greet, OPEN_SEC[name])
    except BaseException:
        connection.close()
        raise
    return connection


def _settle_layout(connection: sqlite3.Connection, name: Name) -> None:
    # The page size can be set only while the file is empty.
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES[name]}")
    # If two processes create a store at once, one finds it locked, whatever the busy timeout.
    _patiently(lambda: connection.execute("PRAGMA journal_mode = WAL"), SETTLE_SEC)


# --- migrations --------------------------------------------------------------


@lru_cache
def scripts(name: Name) -> list[tuple[int, str, str]]:
    """Return the numbered migrations of a database: number, file name, SQL."""
    folder = resources.files(__package__) / "migrations" / name
    files = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(int(file[:4]), file, (folder / file).read_text(encoding="utf-8")) for file in files]


def version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _check_version(connection: sqlite3.Connection, name: Name) -> None:
    found, wanted = version(connection), scripts(name)[-1][0]
    if found > wanted:
        raise StoreMismatch(
            f"the {name} database has schema {found}, but this version supports only schemas up to {wanted}: "
            "it was written by a newer Counterfoil. Run that version, or restore a backup."
        )
    if found < wanted:
        raise StoreMismatch(
            f"the {name} database has schema {found}, and this program needs {wanted}: "
            "stop the older processes and start `counterfoil serve` or `counterfoil load` once to bring it up to date."
        )


def _migrate(connection: sqlite3.Connection, name: Name) -> None:
    with writing(connection, SETTLE_SEC):
        connection.execute(
            "CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, file TEXT NOT NULL, at TEXT NOT NULL)"
        )
        done = version(connection)
        for number, file, sql in scripts(name):
            if number <= done:
                continue
            for statement in statements(sql):
                connection.execute(statement)
            connection.execute("INSERT INTO migrations VALUES (?, ?, datetime('now'))", (number, file))
            connection.execute(f"PRAGMA user_version = {number}")
    _check_version(connection, name)


def statements(sql: str) -> Iterator[str]:
    """Yield the statements of a script one by one, because `executescript` would commit the open transaction."""
    pending = ""
    for line in sql.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""


def moved(connection: sqlite3.Connection) -> str | None:
    """Return the message with which a retired store refuses changes; None for any other store."""
    retired = connection.execute(_RETIRED).fetchone()
    if not retired:
        return None
    trigger: str = retired[0]
    return trigger[trigger.index(MOVED_TO) : trigger.rindex("')")].replace("''", "'")
