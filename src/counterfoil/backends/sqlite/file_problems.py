"""Recognises a missing, damaged or unreadable file of a store, and says what the operator can do about it."""

import errno
import os
import sqlite3
from pathlib import Path

from counterfoil.backends.sqlite.schema import Name

# SQLite creates a file of this size (`-shm`) when it opens a database.
SHARED_MEMORY_BYTES = 32_768
_FULL_DISK_ERRORS = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL)


def is_damage(error: BaseException | None) -> bool:
    """Return whether the error means that the file is damaged, rather than locked or inaccessible."""
    damage = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR)
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in damage


def is_missing(name: Name) -> str:
    return (
        f"{name}.sqlite3 is missing or empty: put the file back or restore it from a backup. "
        f"If it is lost, run `counterfoil init --recreate {name}` to continue with an empty one."
    )


def is_damaged(name: Name, reason: object) -> str:
    return f"{name}.sqlite3 is damaged ({reason}): stop the service and restore the file from a backup."


def cannot_be_read(folder: Path, name: Name, error: BaseException | None) -> str:
    """Return the message for a file that SQLite cannot read. On a full disk, its errors do not mean damage."""
    if is_disk_full(folder, error):
        return f"{name}.sqlite3 cannot be opened, because the disk is full ({error}): free up disk space."
    return is_damaged(name, error)


def cannot_be_created(folder: Path, reason: object) -> str:
    return (
        f"a store cannot be created in {folder}, because the disk is full ({reason}): free up disk space, then run "
        "the same command again."
    )


def no_store(folder: Path) -> str:
    return (
        f"there is no store at {folder}. Check --store or COUNTERFOIL_STORE; "
        "to create a new store there, run `counterfoil init`."
    )


def unfinished_store(folder: Path) -> str:
    return (
        f"the store in {folder} is incomplete, because it could not be created completely: "
        "run `counterfoil init` to complete it."
    )


def is_disk_full(folder: Path, error: BaseException | None) -> bool:
    """Return whether the cause of an error is a full disk."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOSPC
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    # SQLite may delete its log after an error, so there may be free space again.
    return code == sqlite3.SQLITE_FULL or (code in _FULL_DISK_ERRORS and _has_no_space(folder))


def _has_no_space(folder: Path) -> bool:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < SHARED_MEMORY_BYTES
