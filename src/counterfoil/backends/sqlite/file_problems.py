"""Recognises a missing, damaged or unreadable file of a store, and says what the operator can do about it."""

import errno
import os
import sqlite3
from pathlib import Path

from counterfoil.backends.sqlite.schema import Name
from counterfoil.domain.messages import Message, quoted

# SQLite creates a file of this size (`-shm`) when it opens a database.
SHARED_MEMORY_BYTES = 32_768
_FULL_DISK_ERRORS = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL)


def is_damage(error: BaseException | None) -> bool:
    """Return whether the error means that the file is damaged, rather than locked or inaccessible."""
    damage = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR)
    return isinstance(error, sqlite3.Error) and primary_code(error) in damage


MISSING_FILE = Message(
    "missing_file",
    "{name}.sqlite3 is missing or empty: put the file back or restore it from a backup. "
    "If it is lost, run `counterfoil init --recreate {name}` to continue with an empty one.",
)
DAMAGED = Message(
    "damaged", "{name}.sqlite3 is damaged ({reason}): stop the service and restore the file from a backup."
)
TRUNCATED = Message("truncated", "it was truncated")
DISK_FULL = Message(
    "disk_full", "{name}.sqlite3 cannot be opened, because the disk is full ({reason}): free up disk space."
)
CANNOT_CREATE = Message(
    "cannot_create",
    "a store cannot be created in {folder}, because the disk is full ({reason}): free up disk space, then run the same "
    "command again.",
)
FOREIGN_JOURNAL = Message(
    "foreign_journal",
    "{name} is a rollback journal, which Counterfoil never writes: somebody else put it there, and SQLite would change "
    "the database as it says. Do not open the database with another program. Move {journal} out of the folder, and "
    "find out who can write there. If the database was opened meanwhile, restore a backup.",
)
FOREIGN_LOG = Message(
    "foreign_log",
    "{name} belongs to another user than {database}, or is not a file: SQLite would change the database as it says. "
    "Stop the service. If somebody else put it there, move {log} out of the folder; if Counterfoil wrote it, give it "
    "the owner of {database}. If the database was opened meanwhile, restore a backup.",
)
NO_STORE = Message(
    "no_store",
    "there is no store at {folder}. Check --store or COUNTERFOIL_STORE; to create a new store there, run "
    "`counterfoil init`.",
)
UNFINISHED_STORE = Message(
    "unfinished_store",
    "the store in {folder} is incomplete, because it could not be created completely: run `counterfoil init` to "
    "complete it.",
)
# The names of frequent errors in the codes of messages that quote SQLite.
_ERROR_NAMES = {
    sqlite3.SQLITE_CORRUPT: "malformed",
    sqlite3.SQLITE_NOTADB: "not_database",
    sqlite3.SQLITE_BUSY: "locked",
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_READONLY: "read_only",
    sqlite3.SQLITE_CANTOPEN: "cannot_open",
    sqlite3.SQLITE_IOERR: "disk_error",
}


def reason(error: BaseException | None) -> Message:
    """Return the words of SQLite or the operating system, with a code for the kind of error."""
    return quoted(error, f"sqlite.{_ERROR_NAMES.get(primary_code(error), 'other')}")


def cannot_be_read(folder: Path, name: Name, error: BaseException | None) -> Message:
    """Return the message for a file that SQLite cannot read. On a full disk, its errors do not mean damage."""
    return (DISK_FULL if is_disk_full(folder, error) else DAMAGED)(name=name, reason=reason(error))


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
