"""Puts a backup of an embedded store in place, and keeps the promises that the store made after the backup.

- No stamp at or below a horizon that was reported is used again: the horizon is
  raised to the current time, or to that of the replaced store if it is newer.
- No cursor that a client holds is taken for another position: every cursor in
  the backup expires, and until no client can hold an older one, cursors get
  fresh ids instead of the ids of their rows.
- No mark of the feed of changes from before the restore is continued: a client may hold changes that the backup does
  not have.
- A key that the replaced store had revoked stays revoked, and a scheduled revocation stays scheduled, if its files
  can be read.
"""

import secrets
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace as replace_fields

from counterfoil.backends.sqlite import change_feed
from counterfoil.backends.sqlite.backup import BackupManifest, BackupRefused, sha256, sync
from counterfoil.backends.sqlite.files import WAIT_SEC, path_of, read_write, translated, writing
from counterfoil.backends.sqlite.keys import SqliteKeyStore
from counterfoil.backends.sqlite.schema import NAMES, Name
from counterfoil.domain.access import Key
from counterfoil.domain.paging import EXTRA, LIFETIME_MS, RESERVED_MS

# A random id of this length is never drawn twice.
LONG_ENOUGH = 16

_RAISE_HORIZON = "UPDATE horizon SET at = max(at + 1, ?) RETURNING at"
_EXPIRE_CURSORS = "UPDATE cursors SET expired = 1, ends_at = ? + ?"
_REMEMBER = "INSERT OR IGNORE INTO revocations (key_id, at) VALUES (?, ?)"
_DROP_GUARD = "DROP TRIGGER IF EXISTS restored_cursors"
# Cursors that were handed out after the backup are unknown here, and most have the id of their row. So that id is
# reserved when it would be handed out for the first time, and the service then tries a fresh one. A short fresh id may
# have been drawn before, so it is refused until the service tries a longer one. See `_next_cursor` in reads.py.
_GUARD = """
    CREATE TRIGGER restored_cursors BEFORE INSERT ON cursors
    WHEN NOT NEW.expired AND NEW.ends_at < {until} + {lifetime}
        AND (
            NEW.cursor = NEW.row_id
            OR (length(NEW.row_id) < {long_enough} AND length(NEW.cursor) < length(NEW.row_id) + {extra})
        )
        AND NOT EXISTS (
            SELECT 1 FROM cursors
            WHERE lineage = NEW.lineage AND resource = NEW.resource AND query = NEW.query AND cursor = NEW.cursor
        )
    BEGIN
        INSERT INTO cursors (lineage, resource, query, cursor, row_id, major, minor, earliest, latest, ends_at, expired)
        SELECT NEW.lineage, NEW.resource, NEW.query, NEW.cursor, NEW.row_id, 0, 0, 0, 0, {until}, 1
        WHERE NEW.cursor = NEW.row_id;
        SELECT RAISE(IGNORE);
    END
"""
_LEARN: dict[Name, str] = {
    "books": "SELECT 'horizon', at FROM horizon",
    "keys": """
        SELECT key_id, json_extract(record, '$.revoked_at'), json_extract(record, '$.revokes_at')
        FROM (SELECT key_id, CAST(body AS TEXT) AS record FROM keys)
    """,
    "usage": "SELECT key_id, at FROM revocations",
}


class Replaced(Struct):
    """What was learnt from the store that is replaced. `unreadable` lists the files that could not be read."""

    horizon: int = 0
    revoked: dict[str, int] = {}
    scheduled: dict[str, int] = {}
    unreadable: list[Name] = []


class Restored(Struct, frozen=True, kw_only=True):
    """The result of a restore. `kept_in` is the folder with the previous files; None if there were none."""

    manifest: BackupManifest
    horizon: int
    clock_behind_ms: int
    kept_in: Path | None
    replaced: Replaced


def restore(folder: Path, source: Path, manifest: BackupManifest, now_ms: int, *, replace: bool) -> Restored:
    """Restore a verified backup. The previous files, if any, are kept in a folder inside the store."""
    present = list(_files_of(folder))
    if present and not replace:
        raise BackupRefused(
            f"{folder} contains a store. To replace it, stop the service and all loads, then add --replace; "
            "its files are kept in a subfolder."
        )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = folder / f".restore-{secrets.token_hex(4)}"
    draft.mkdir(mode=0o700)
    try:
        _copy(source, draft, manifest)
        replaced = _learn_and_release(folder) if present else Replaced()
        horizon = _keep_promises(draft, replaced, now_ms)
        sync(draft)
        kept_in = _move_away(folder, now_ms) if present else None
        for name in NAMES:
            path_of(draft, name).rename(path_of(folder, name))
        sync(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    behind = max(0, max(manifest.horizon, replaced.horizon) - now_ms)
    return Restored(manifest=manifest, horizon=horizon, clock_behind_ms=behind, kept_in=kept_in, replaced=replaced)


def _files_of(folder: Path) -> Iterator[Path]:
    for name in NAMES:
        path = path_of(folder, name)
        yield from (
            file for file in (path, *(path.with_name(f"{path.name}-{end}") for end in ("wal", "shm"))) if file.exists()
        )


def _copy(source: Path, draft: Path, manifest: BackupManifest) -> None:
    for name in NAMES:
        path = path_of(draft, name)
        path.touch(mode=0o600)
        shutil.copyfile(path_of(source, name), path)
        if sha256(path) != manifest.files[name].sha256:
            raise BackupRefused(f"{name}.sqlite3 was not copied correctly. Check the disk, then run the command again.")


def _learn_and_release(folder: Path) -> Replaced:
    """Read what must outlive the store that is replaced. Refuse if a process still uses it."""
    found = Replaced()
    for name in NAMES:
        try:
            rows = _read_alone(folder, name)
        except sqlite3.Error:
            found.unreadable.append(name)
            continue
        if name == "books":
            found.horizon = (rows[0][1] or 0) if rows else 0
        else:
            found.revoked |= {row[0]: row[1] for row in rows if row[1] is not None}
        if name == "keys":
            found.scheduled = {key_id: at for key_id, _, at in rows if at is not None}
    return found


def _read_alone(folder: Path, name: Name) -> list[tuple[Any, ...]]:
    """Read a database that no other process has open; raise BackupRefused if one has."""
    uri = f"{path_of(folder, name).resolve().as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=0)) as connection:
        try:
            # Every process that uses a database holds a shared lock on it, which this lock excludes.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                raise BackupRefused(
                    f"another process uses {name}.sqlite3. Stop the service and all loads, then run the command again."
                ) from error
            raise
        rows: list[tuple[Any, ...]] = connection.execute(_LEARN[name]).fetchall()
        connection.execute("ROLLBACK")
        return rows


def _keep_promises(draft: Path, replaced: Replaced, now_ms: int) -> int:
    """Bring the restored files up to date with what the replaced store has promised; return the horizon."""
    with closing(read_write(draft, "books")) as books, translated(), writing(books, WAIT_SEC["books"]):
        # The horizon becomes higher than any that was reported, so marks from before the restore can be told apart.
        (horizon,) = books.execute(_RAISE_HORIZON, (max(now_ms, replaced.horizon + 1),)).fetchone()
        change_feed.refuse_marks_below(books, horizon)
    with closing(read_write(draft, "usage")) as usage, translated(), writing(usage, WAIT_SEC["usage"]):
        usage.execute(_EXPIRE_CURSORS, (now_ms, RESERVED_MS))
        usage.execute(_DROP_GUARD)
        until = now_ms + LIFETIME_MS + RESERVED_MS
        usage.execute(_GUARD.format(until=until, lifetime=LIFETIME_MS, long_enough=LONG_ENOUGH, extra=EXTRA))
        usage.executemany(_REMEMBER, replaced.revoked.items())
    # Opening the key store revokes the keys that `usage` says are revoked.
    with closing(SqliteKeyStore(draft)) as key_store:
        for key_id, at in replaced.scheduled.items():
            key_store.change(key_id, partial(_schedule, at))
    return int(horizon)


def _schedule(at: int, key: Key) -> Key:
    return key if key.revoked_at is not None else replace_fields(key, revokes_at=at)


def _move_away(folder: Path, now_ms: int) -> Path:
    at = datetime.fromtimestamp(now_ms / 1000, UTC)
    kept_in = folder / f"replaced-{at:%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"
    kept_in.mkdir(mode=0o700)
    # A log must never lie beside another database, so the logs go first.
    for file in sorted(_files_of(folder), key=lambda path: path.suffix == ".sqlite3"):
        with suppress(FileNotFoundError):
            file.rename(kept_in / file.name)
    return kept_in
