"""Opening the store's files: modes, pragmas, migrations, and the one place that translates SQLite's errors.

A store is a folder of three databases, so that each side opens only what it
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

# A writer that finds the file locked asks again after this long, then less and
# less often; SQLite's own waiting starts at a millisecond, which is thirty admissions.
RETRY_SEC = 0.000_05
SLOWEST_RETRY_SEC = 0.005
# Bills are read by the page, so theirs are large; an admission writes one page, so those are small.
PAGE_BYTES = {"books": 8192, "keys": 4096, "usage": 1024}
# A usage log may be long, and who opens it after a kill reads all of it; keys are opened between two requests.
OPEN_SEC = {"books": 2.0, "keys": 2.0, "usage": 5.0}
SETTLE_SEC = 10.0
WAIT_SEC = {"books": 60.0, "keys": 5.0, "usage": 2.0}

# How a store says that it was retired: see departure.py.
MOVED_TO = "this store was moved to"
_RETIRED = "SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND name LIKE 'moved_%' LIMIT 1"

# Whoever commits onto a log of this many pages moves them into the main file, and is held up by the disk meanwhile.
# For usage that is a request: as long as there is a supervisor, it moves them before that.
LONGEST_LOG = {"books": 4_000, "keys": 4_000, "usage": 65_536}
# A log longer than this is begun anew: see `checkpoint`.
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


class translated:  # noqa: N801 - used as a function, like contextlib's own; a generator would cost five times as much
    """Whatever SQLite raises becomes the port's own error."""

    __slots__ = ()

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.Error):
            raise _unavailable(error) from error


def row(connection: sqlite3.Connection, statement: str, values: Sequence[object] = ()) -> Any:
    """The first row of what a statement finds; nothing where it finds nothing."""
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
    """Open for writing, making the file and bringing its schema up to date."""
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
    """Make the file readable by its owner alone.

    Only a file that is not there yet is opened: closing any descriptor of a
    database drops the locks that this process holds on it through SQLite.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return


class writing:  # noqa: N801 - as above
    """One transaction that holds the write lock from its first statement."""

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
            # Whatever failed, the body or the commit.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")


def checkpoint(connection: sqlite3.Connection) -> None:
    """Move what is written into the main file.

    No request has to do it then, and the log stays short: a page is looked up
    there past every older copy of it, and some are written with every commit.
    Nobody waits for that. But under load there is always a commit that has not
    been moved yet, and so a log that only grows: a long one is begun anew, and
    writers wait for as long as it takes to move the last few pages.
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
    """Ask for something that needs a lock, again and again while others hold it."""
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
        # Whoever closes a file last tidies it up, and for that moment nobody else gets in.
        _patiently(greet, OPEN_SEC[name])
    except BaseException:
        connection.close()
        raise
    return connection


def _settle_layout(connection: sqlite3.Connection, name: Name) -> None:
    # The page size holds only for a file that is still empty.
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES[name]}")
    # Of two processes that make a store at once one is told that it is locked, whatever the busy timeout.
    _patiently(lambda: connection.execute("PRAGMA journal_mode = WAL"), SETTLE_SEC)


# --- migrations --------------------------------------------------------------


@lru_cache
def scripts(name: Name) -> list[tuple[int, str, str]]:
    """The numbered migrations of a database: number, file name, SQL."""
    folder = resources.files(__package__) / "migrations" / name
    files = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(int(file[:4]), file, (folder / file).read_text(encoding="utf-8")) for file in files]


def version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _check_version(connection: sqlite3.Connection, name: Name) -> None:
    found, wanted = version(connection), scripts(name)[-1][0]
    if found > wanted:
        raise StoreMismatch(
            f"the {name} database has schema {found}, and this program knows up to {wanted}: "
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
    """The statements of a script one by one: `executescript` would commit the transaction they belong to."""
    pending = ""
    for line in sql.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""


def moved(connection: sqlite3.Connection) -> str | None:
    """The sentence that a retired store refuses with; of any other, nothing."""
    retired = connection.execute(_RETIRED).fetchone()
    if not retired:
        return None
    trigger: str = retired[0]
    return trigger[trigger.index(MOVED_TO) : trigger.rindex("')")].replace("''", "'")
