"""Opens the files of an embedded store: sets modes and pragmas, runs migrations, and translates SQLite's errors.

A store is a folder with three databases: `books` (written by loads, read by the service), `keys` (written by the
operator, read by the service) and `usage` (written by the service). Each process opens only the files it needs.

The files of a store are created together, and each is then marked with the ID of the store (SQLite's `application_id`,
which backups keep). If a marked store lacks a file, the file was lost, so it is not silently replaced by an empty one.
"""

import errno
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from stat import S_ISREG, S_IWGRP
from typing import Any, TypeVar
from urllib.parse import quote_from_bytes

from counterfoil.backends.sqlite.mappings import share_mappings
from counterfoil.backends.sqlite.schema import NAMES, Name, check_version, run_migrations, version
from counterfoil.machine.files import is_shared
from counterfoil.model.messages import Message, quoted
from counterfoil.ports import StoreBusy, StoreMismatch, StoreUnavailable

# --- problems of a file, and what the operator can do about them ------------

# SQLite creates a file of this size (`-shm`) when it opens a database.
SHARED_MEMORY_BYTES = 32_768
_FULL_DISK_ERRORS = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL)


def is_damage(error: BaseException | None) -> bool:
    """Return whether the error means that the file is damaged, rather than locked or inaccessible."""
    damage = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR)
    return isinstance(error, sqlite3.Error) and primary_code(error) in damage


DAMAGED = Message(
    "damaged", "{name}.sqlite3 is damaged ({reason}): stop the service and restore the file from a backup."
)
TRUNCATED = Message("truncated", "it was truncated")
STORE_MOVED = Message("store_moved", "this store was moved to {address}.")
MISSING_FILE = Message(
    "missing_file",
    "{name}.sqlite3 is missing or empty: put the file back or restore it from a backup. If it is lost, run "
    "`counterfoil init --recreate {name}` to continue with an empty one.",
)
DISK_FULL = Message(
    "disk_full", "{name}.sqlite3 cannot be opened, because the disk is full ({reason}): free up disk space."
)
# What frequent errors mean: other languages show it instead of the words of SQLite.
_MEANINGS = {
    sqlite3.SQLITE_CORRUPT: Message("sqlite.malformed", "the content of the file is damaged"),
    sqlite3.SQLITE_NOTADB: Message("sqlite.not_database", "the file is not a database"),
    sqlite3.SQLITE_BUSY: Message("sqlite.locked", "another process has locked the file"),
    sqlite3.SQLITE_FULL: Message("sqlite.full", "the disk is full"),
    sqlite3.SQLITE_READONLY: Message("sqlite.read_only", "the file cannot be written"),
    sqlite3.SQLITE_CANTOPEN: Message("sqlite.cannot_open", "the file cannot be opened"),
    sqlite3.SQLITE_IOERR: Message("sqlite.disk_error", "the disk cannot be read or written"),
}


def reason(error: BaseException | None) -> Message:
    """Return the words of SQLite or the operating system, with what they mean."""
    return quoted(error).meaning(_MEANINGS.get(primary_code(error)))


def cannot_be_read(folder: Path, name: Name, error: BaseException | None) -> Message:
    """Return the message for a file that SQLite cannot read. On a full disk, its errors do not mean damage."""
    message = DISK_FULL if is_disk_full(folder, error) else DAMAGED
    return message(name=name, reason=reason(error))


def primary_code(error: BaseException | None) -> int:
    """Return SQLite's primary error code, or 0 if the error has none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def is_disk_full(folder: Path, error: BaseException | None) -> bool:
    """Return whether the cause of an error is a full disk."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOSPC
    code = primary_code(error)
    # SQLite may delete its log after an error, so there may be free space again.
    return code == sqlite3.SQLITE_FULL or (code in _FULL_DISK_ERRORS and _has_no_space(folder))


def _has_no_space(folder: Path) -> bool:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < SHARED_MEMORY_BYTES


Result = TypeVar("Result")

# A writer that finds the file locked retries after RETRY_SEC, then at increasing intervals. SQLite's own busy handler
# first waits for one millisecond, which is long enough for thirty admissions.
RETRY_SEC = 0.000_05
SLOWEST_RETRY_SEC = 0.005
# Pages of `books` are large, as a request reads many bills; those of `usage` small, as an admission writes one.
PAGE_BYTES = {"books": 8192, "keys": 4096, "usage": 1024}
# How long to wait for a file that is locked when it is opened. After a crash, the first process to open `usage` locks
# it while it reads the whole log, which may be long.
OPEN_SEC = {"books": 2.0, "keys": 2.0, "usage": 5.0}
SETTLE_SEC = 10.0
WAIT_SEC = {"books": 60.0, "keys": 5.0, "usage": 2.0}
# A request first waits BRIEFLY_SEC for a lock without yielding to the event loop, because another worker's commit takes
# less than that. After that it sleeps between attempts, so that other requests are answered in the meantime.
BRIEFLY_SEC = 0.002
REQUEST_SEC = 1.0
PAUSE_SEC = 0.005
LONGEST_PAUSE_SEC = 0.02

# `_store_id` returns this value instead of a store's ID if the file is locked.
LOCKED = -1

# The error message of a retired store starts with this text (see move_source.py).
MOVED_TO = "this store was moved to"
_RETIRED = "SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND name LIKE 'moved_%' LIMIT 1"

# The number of pages at which SQLite checkpoints the write-ahead log during a commit, which waits for the disk. For
# `usage` that would delay a request, so a running supervisor checkpoints the log earlier.
LONGEST_LOG = {"books": 4_000, "keys": 4_000, "usage": 65_536}
# A log longer than this is restarted: see `checkpoint`.
LONG_LOG_BYTES = 32_000_000
RESTART_SEC = 0.05
# How long to wait for a moment in which nobody reads the log.
EMPTY_SEC = 10.0

# What is deleted is overwritten, so that a member who is forgotten leaves nothing in unused space.
# Not memory-mapped: reading a truncated mapped file kills the process. Otherwise, SQLite reports it as damaged.
_PRAGMAS = """
    PRAGMA busy_timeout = 0;
    PRAGMA synchronous = NORMAL;
    PRAGMA cache_size = -16000;
    PRAGMA mmap_size = 0;
    PRAGMA secure_delete = ON;
"""


def path_of(folder: Path, name: Name) -> Path:
    return folder / f"{name}.sqlite3"


class translated:  # noqa: N801 - lowercase like contextlib's managers; a generator would be five times as slow
    """Convert SQLite errors to StoreUnavailable, or to StoreBusy if the file is locked."""

    __slots__ = ()

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.Error):
            raise _unavailable(error) from error


# The values of a statement, in the order of their places or by name.
Parameters = Sequence[object] | Mapping[str, object]


def row(connection: sqlite3.Connection, statement: str, values: Parameters = ()) -> Any:
    """Return the first row of a statement's result, or None if there are no rows."""
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
    kind = StoreBusy if _is_busy(error) else StoreUnavailable
    # A trigger of a retired store can only pass on a text.
    if str(error).startswith(MOVED_TO):
        return kind(STORE_MOVED(address=str(error).removeprefix(MOVED_TO).strip()))
    return kind(Message("sqlite", "SQLite: {reason}", reason=reason(error)))


def _is_busy(error: sqlite3.Error) -> bool:
    return primary_code(error) == sqlite3.SQLITE_BUSY


def size_of(file: Path) -> int:
    """Return a file's size, or 0 if it does not exist, for example because SQLite has just deleted it."""
    try:
        return file.stat().st_size
    except OSError:
        return 0


def never_open(*names: Name) -> None:
    """Let this process never open these files of any store: from now on they are as files of another user."""
    endings = tuple(f"{name}.sqlite3{suffix}" for name in names for suffix in ("", "-wal", "-shm", "-journal"))

    def refuse(event: str, arguments: tuple[object, ...]) -> None:
        if event not in ("open", "sqlite3.connect"):
            return
        file = os.fsdecode(arguments[0]) if isinstance(arguments[0], str | bytes | os.PathLike) else ""
        if file.partition("?")[0].endswith(endings):
            if event == "sqlite3.connect":
                raise sqlite3.OperationalError("unable to open database file")
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), file)

    # Such a hook stays until the process ends.
    sys.addaudithook(refuse)


def read_only(folder: Path, name: Name, wait_sec: float | None = None) -> sqlite3.Connection:
    return open_existing(folder, name, "ro", OPEN_SEC[name] if wait_sec is None else wait_sec)


def open_existing(folder: Path, name: Name, mode: str, wait_sec: float) -> sqlite3.Connection:
    """Open a file with SQLite's mode `ro` or `rw`, without creating it or migrating its schema."""
    if not size_of(path_of(folder, name)):
        raise StoreUnavailable(MISSING_FILE(name=name))
    with translated():
        return _connect(uri(folder, name, mode), name, wait_sec)


def read_write(folder: Path, name: Name) -> sqlite3.Connection:
    """Open a file for writing and migrate its schema. If there is no store yet, create all of its files."""
    if _store_id(folder, name):
        return _settled(folder, name)
    require_whole(folder)
    try:
        for file_name in NAMES:
            if _store_id(folder, file_name) is None:
                _settled(folder, file_name).close()
        _settle_id(folder)
        return _settled(folder, name)
    except StoreUnavailable as error:
        if is_disk_full(folder, error.__cause__):
            message = Message(
                "cannot_create",
                "a store cannot be created in {folder}, because the disk is full ({reason}): free up disk space, "
                "then run the same command again.",
                folder=str(folder),
                reason=reason(error.__cause__),
            )
            raise StoreUnavailable(message) from error
        raise


def _settled(folder: Path, name: Name) -> sqlite3.Connection:
    """Open one file for writing. Create it if it is missing, and migrate its schema."""
    path = path_of(folder, name)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make_private(path, 0o660 if shares(folder, name) else 0o600)
    except OSError as error:
        raise StoreUnavailable(
            Message("cannot_open", "cannot open {file}: {reason}", file=str(path), reason=str(error.strerror))
        ) from error
    with translated():
        connection = _connect(uri(folder, name, "rw"), name, OPEN_SEC[name], checked=False)
        try:
            # The page size can be set only while the file is empty.
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES[name]}")
            # If two processes create a store, SQLite tells one at once that the file is locked.
            _wait_for_lock(lambda: connection.execute("PRAGMA journal_mode = WAL"), SETTLE_SEC)
            with writing(connection, SETTLE_SEC):
                run_migrations(connection, name)
        except BaseException:
            connection.close()
            raise
        return connection


def uri(folder: Path, name: Name, mode: str) -> str:
    """Return the address of a database for SQLite. Raise if SQLite would apply files that Counterfoil did not write."""
    # A command opens about ten files, and `Path.resolve` with `Path.as_uri` takes nearly twice as long.
    path = os.path.realpath(folder / f"{name}.sqlite3")
    _require_own_files(path, PAGE_BYTES[name])
    return f"file://{quote_from_bytes(os.fsencode(path))}?mode={mode}"


def _require_own_files(path: str, page_bytes: int) -> None:
    """Raise StoreUnavailable if a file beside a database was written by somebody else.

    When SQLite opens a database, it changes the database as such a file says. Our databases use a write-ahead log, so
    a rollback journal is never ours. A log is ours if it has the owner of the database or, if the group of the
    database may write to it, its group.
    """
    try:
        database = os.stat(path)  # noqa: PTH116 - see `uri`
        if not database.st_size:
            return
        # While SQLite creates a database, there is a journal until the first page is written.
        wait_sec = SETTLE_SEC / 5 if database.st_size <= page_bytes else 0
        _require_no_journal(f"{path}-journal", wait_sec)
        for log in (f"{path}-wal", f"{path}-shm"):
            if os.path.lexists(log) and not _is_own_log(os.lstat(log), database):
                raise StoreUnavailable(
                    Message(
                        "foreign_log",
                        "{name} belongs to another user than {database}, or is not a file: SQLite would change "
                        "the database as it says. Stop the service. If somebody else put it there, move {log} "
                        "out of the folder; if Counterfoil wrote it, give it the owner of {database}. If the "
                        "database was opened meanwhile, restore a backup.",
                        name=Path(log).name,
                        log=log,
                        database=Path(path).name,
                    )
                )
    except OSError:
        # The file does not exist, or it cannot be read, which SQLite reports. It may also have just been deleted.
        return


def _require_no_journal(journal: str, wait_sec: float) -> None:
    """Raise StoreUnavailable if a rollback journal is still there after this time."""
    deadline = time.monotonic() + wait_sec
    while os.path.lexists(journal):
        if time.monotonic() >= deadline:
            raise StoreUnavailable(
                Message(
                    "foreign_journal",
                    "{name} is a rollback journal, which Counterfoil never writes: somebody else put it there, "
                    "and SQLite would change the database as it says. Do not open the database with another "
                    "program. Move {journal} out of the folder, and find out who can write there. If the "
                    "database was opened meanwhile, restore a backup.",
                    name=Path(journal).name,
                    journal=journal,
                )
            )
        time.sleep(PAUSE_SEC)


def _is_own_log(log: os.stat_result, database: os.stat_result) -> bool:
    is_of_owner = log.st_uid == database.st_uid
    is_of_group = bool(database.st_mode & S_IWGRP) and log.st_gid == database.st_gid
    return S_ISREG(log.st_mode) and (is_of_owner or is_of_group)


def shares(folder: Path, name: Name) -> bool:
    """Return whether a database is shared with the group of its folder. The watcher of a folder writes only `books`."""
    return name == "books" and is_shared(folder)


def share(folder: Path) -> None:
    """Share the books of a store with the group of its folder. The store may not exist yet."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        shared = {folder: 0o3770, folder / "rejects": 0o3770, folder / "secret": 0o640}
        for path, mode in {**shared, **dict.fromkeys(folder.glob("books.sqlite3*"), 0o660)}.items():
            if path.exists():
                path.chmod(mode)
        share_mappings(folder)
    except OSError as error:
        raise StoreUnavailable(f"cannot share {folder}: {error.strerror}") from error


def _make_private(path: Path, mode: int) -> None:
    """Create the file with this mode. An existing one is not opened: closing it would release this process's locks."""
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    except FileExistsError:
        return
    os.fchmod(descriptor, mode)
    os.close(descriptor)


class writing:  # noqa: N801 - lowercase like `translated`
    """Context manager for a transaction that holds the write lock from its start."""

    __slots__ = ("_connection", "_wait_sec")

    def __init__(self, connection: sqlite3.Connection, wait_sec: float) -> None:
        self._connection = connection
        self._wait_sec = wait_sec

    def __enter__(self) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                raise
            _wait_for_lock(lambda: self._connection.execute("BEGIN IMMEDIATE"), self._wait_sec)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            if kind is None:
                self._connection.execute("COMMIT")
        finally:
            # Roll back if the body or the commit has failed.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")


def checkpoint(connection: sqlite3.Connection) -> None:
    """Move committed pages from the log into the main file.

    Requests then need not do this, and the log stays short. Lookups in a long log are slow, because it contains many
    copies of the same pages. A passive checkpoint does not block other processes, but under load there is always a
    commit that it has not moved yet, so the log keeps growing. A long log is therefore restarted, and writers wait
    while its last few pages are moved.
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


def empty_log(connection: sqlite3.Connection) -> bool:
    """Move the log into the main file and truncate it. Return False if readers have used it for EMPTY_SEC."""
    deadline, busy = time.monotonic() + EMPTY_SEC, True
    while busy and time.monotonic() < deadline:
        busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if busy:
            time.sleep(RETRY_SEC)
    return not busy


async def retry_while_locked(act: Callable[[], Result]) -> Result:
    """Run a short transaction. While the file is locked, retry for up to `REQUEST_SEC` without blocking the loop."""
    try:
        return act()
    except StoreBusy:
        import asyncio

        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + REQUEST_SEC, PAUSE_SEC
    while True:
        await asyncio.sleep(pause)
        try:
            return act()
        except StoreBusy:
            if loop.time() > deadline:
                raise
        pause = min(2 * pause, LONGEST_PAUSE_SEC)


def _wait_for_lock(ask: Callable[[], Result], wait_sec: float) -> Result:
    """Return the result of `ask`, which needs a lock. While another connection holds it, retry for up to `wait_sec`."""
    deadline, pause = 0.0, RETRY_SEC
    while True:
        try:
            return ask()
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                raise
            now = time.monotonic()
            deadline = deadline or now + wait_sec
            if now > deadline:
                raise
            time.sleep(pause)
            pause = min(2 * pause, SLOWEST_RETRY_SEC)


def _connect(uri: str, name: Name, wait_sec: float, *, checked: bool = True) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, cached_statements=256)

    def set_up() -> None:
        connection.executescript(f"{_PRAGMAS} PRAGMA wal_autocheckpoint = {LONGEST_LOG[name]};")
        if checked:
            check_version(connection, name)

    try:
        # The last process to close a database deletes its log. Wait, because the database cannot be opened meanwhile.
        _wait_for_lock(set_up, wait_sec)
    except BaseException:
        connection.close()
        raise
    return connection


# --- the store that a file belongs to ---------------------------------------


def exists(folder: Path) -> bool:
    """Return whether the folder contains a store, even if a file of it was lost or cannot be read."""
    return _has_files(folder) and not is_unfinished(folder)


def is_unfinished(folder: Path) -> bool:
    """Return whether a store could not be created: no file has an ID, and at least one has no schema."""
    if not _has_files(folder):
        return False
    lacks_schema = False
    try:
        for name in NAMES:
            store_id = _store_id(folder, name)
            # The other files need not be opened: one file with an ID is enough.
            if store_id:
                return False
            if store_id is None:
                lacks_schema = True
    except StoreUnavailable:
        return False
    return lacks_schema


def _has_files(folder: Path) -> bool:
    return any(path_of(folder, name).exists() for name in NAMES)


def require_store(folder: Path) -> None:
    """Raise if the folder contains no store, or one whose creation has failed."""
    if not _has_files(folder):
        raise StoreMismatch(
            Message(
                "no_store",
                "there is no store at {folder}. Check --store or COUNTERFOIL_STORE; to create a new store there, run "
                "`counterfoil init`.",
                folder=str(folder),
            )
        )
    if is_unfinished(folder):
        raise StoreMismatch(
            Message(
                "unfinished_store",
                "the store in {folder} is incomplete, because it could not be created completely: run `counterfoil "
                "init` to complete it.",
                folder=str(folder),
            )
        )


def has_schema(folder: Path, name: Name) -> bool:
    """Return whether a file exists and contains a schema."""
    return _store_id(folder, name) is not None


def require_whole(folder: Path) -> None:
    """Raise StoreMismatch if a file of the store was lost, or if the files belong to different stores."""
    store_ids = {name: _store_id(folder, name) for name in NAMES}
    known = {name: store_id for name, store_id in store_ids.items() if store_id and store_id != LOCKED}
    for name, store_id in store_ids.items():
        # Look again: another process may have just created the store. A file gets its ID only when all files exist.
        if known and store_id is None and _store_id(folder, name) is None:
            raise StoreMismatch(MISSING_FILE(name=name))
    if len(set(known.values())) > 1:
        raise StoreMismatch(
            Message(
                "mixed_files",
                "{files} belong to different stores: restore files that belong to the same store.",
                files=[f"{name}.sqlite3" for name in known],
            )
        )


def lost(folder: Path) -> list[Name]:
    """Return the names of the files that are missing from an existing store."""
    store_ids: dict[Name, int | None] = {}
    for name in NAMES:
        with suppress(StoreUnavailable):
            store_ids[name] = _store_id(folder, name)
    is_marked = any(store_id not in (None, 0, LOCKED) for store_id in store_ids.values())
    return [name for name, store_id in store_ids.items() if is_marked and store_id is None]


def recreate(folder: Path, name: str) -> None:
    """Replace a lost file with an empty one."""
    found = next((lost_name for lost_name in lost(folder) if lost_name == name), None)
    if found is None:
        raise StoreMismatch(
            Message("not_missing", "{name}.sqlite3 is not missing, so it was not recreated.", name=name)
        )
    _settled(folder, found).close()
    _settle_id(folder)


def _store_id(folder: Path, name: Name) -> int | None:
    """Return the ID of a file's store, 0 if it has none yet, LOCKED if it is locked, or None if it is no database."""
    if not path_of(folder, name).exists():
        return None
    with translated(), closing(_plain(folder, name, "ro")) as connection:
        try:
            schema, store_id = _wait_for_lock(lambda: (version(connection), id_in(connection)), OPEN_SEC[name])
        except sqlite3.Error as error:
            if _is_busy(error):
                return LOCKED
            raise StoreUnavailable(cannot_be_read(folder, name, error)) from error
    return store_id if schema else None


def _plain(folder: Path, name: Name, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(uri(folder, name, mode), uri=True, isolation_level=None, timeout=0)


def id_in(connection: sqlite3.Connection) -> int:
    """Return the ID of the store that an open file belongs to, or 0 if it has none yet."""
    return int(connection.execute("PRAGMA application_id").fetchone()[0])


def _settle_id(folder: Path) -> None:
    """Assign the store's ID to files that have none, because they are new."""
    # Skip files that do not exist: if two files were lost, each call of `recreate` replaces only one of them.
    store_ids = {name: _store_id(folder, name) or 0 for name in NAMES if path_of(folder, name).exists()}
    if all(store_ids.values()):
        return
    # Processes that create a store at the same time agree on its ID, because all of them start with the same file.
    chosen = max(0, *store_ids.values())
    for name in store_ids:
        with translated(), closing(_plain(folder, name, "rw")) as file, writing(file, SETTLE_SEC):
            (fresh,) = file.execute("SELECT abs(random() % 2147483646) + 1").fetchone()
            chosen = id_in(file) or chosen or fresh
            file.execute(f"PRAGMA application_id = {chosen}")


# --- retirement ----------------------------------------------------


def moved(connection: sqlite3.Connection) -> str | None:
    """Return where a retired store was moved to, or None if the store is not retired."""
    retired = connection.execute(_RETIRED).fetchone()
    if not retired:
        return None
    trigger: str = retired[0]
    return trigger[trigger.index(MOVED_TO) + len(MOVED_TO) : trigger.rindex("')")].replace("''", "'").strip()


# --- files that a process has open --------------------------------------------------


class OpenFiles:
    """Remembers which files were opened, because a process can keep using a file that was removed or replaced."""

    def __init__(self, folder: Path, names: Sequence[Name], *, logs: bool = True) -> None:
        self._folder = folder
        self._known: list[tuple[Name, Path, int]] = []
        for name in names:
            path = path_of(folder, name)
            for file in (path, path.with_name(f"{path.name}-wal"))[: 1 + logs]:
                if (inode := _inode(file)) is not None:
                    self._known.append((name, file, inode))

    def problem(self, name: Name | None = None) -> Message | None:
        """Return the first problem found with one database, or with any of them if `name` is None, or None."""
        for known, path, inode in self._known:
            if name in (None, known) and (found := _inode(path)) != inode:
                if found is None and not path_of(self._folder, known).exists():
                    return MISSING_FILE(name=known)
                return Message(
                    "file_replaced",
                    "{file} was replaced or removed while the service was running: restart the service.",
                    file=path.name,
                )
        return None


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None
