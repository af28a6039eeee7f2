"""Restores a backup of an embedded store, so that clients of the replaced store can continue.

If only some files were replaced with older copies, `settle_older_files` does the same for the clients.

- New stamps must be above every horizon that was reported to a client. The
  horizon is therefore raised to the current time, or above the horizons of the
  backup and of the replaced store if one of them is newer.
- A cursor that a client received earlier must not stand for another position.
  Every cursor in the backup therefore expires. For as long as clients may hold
  cursors that were created after the backup, new cursors get random IDs instead
  of the IDs of their rows.
- A client may hold changes that the backup does not contain, so every mark of
  the feed that was handed out before the restore is refused.
- Keys that were revoked in the replaced store stay revoked, and scheduled
  revocations stay scheduled, if the files of that store can be read. If it is
  the store that was backed up, the audit entries that it wrote after the backup
  are kept too.
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

from counterfoil.backends.sqlite import change_feed, positions
from counterfoil.backends.sqlite.backup import (
    SECRET,
    BackupManifest,
    BackupRefused,
    checked,
    sha256,
    sync,
    write_private,
)
from counterfoil.backends.sqlite.files import WAIT_SEC, path_of, read_write, shares, translated, uri, writing
from counterfoil.backends.sqlite.keys import SqliteKeyStore, append
from counterfoil.backends.sqlite.schema import NAMES, Name
from counterfoil.domain.access import Key
from counterfoil.domain.audit import AUTOMATIC, COLUMNS, Act, Actor, AuditEntry
from counterfoil.domain.calendar import iso_utc
from counterfoil.domain.paging import EXTRA, LIFETIME_MS, RESERVED_MS
from counterfoil.domain.tokens import MIN_SECRET_BYTES, Pseudonyms
from counterfoil.machine.files import read_regular

# In practice, random IDs of this length are never generated twice.
LONG_ENOUGH = 16
# Positions are exchanged every second. This is longer than the exchange can be delayed by locked files.
UNKNOWN_MS = 300_000

_RAISE_HORIZON = "UPDATE horizon SET at = max(at + 1, ?) RETURNING at"
_EXPIRE_CURSORS = "UPDATE cursors SET expired = 1, ends_at = ? + ?"
_REMEMBER = "INSERT OR IGNORE INTO revocations (key_id, at) VALUES (?, ?)"
_DROP_GUARD = "DROP TRIGGER IF EXISTS restored_cursors"
# Clients may still hold cursors that were created after the backup, so the IDs of these cursors must not be used again.
# Most cursors have the ID of their row. When such a cursor is first inserted, the trigger stores its ID as expired
# instead, and the service retries with a random ID. A short random ID may have been handed out before too, so the
# trigger skips the insert, and the service retries with a longer ID. See `_next_cursor` in reads.py.
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
_READ_REPLACED: dict[Name, str] = {
    "books": "SELECT 'horizon', at FROM horizon",
    "keys": """
        SELECT key_id, json_extract(record, '$.revoked_at'), json_extract(record, '$.revokes_at')
        FROM (SELECT key_id, CAST(body AS TEXT) AS record FROM keys)
    """,
    "usage": "SELECT key_id, at FROM revocations",
}
_STORE_ID = "PRAGMA application_id"
_AUDIT = f"SELECT number, {', '.join(COLUMNS)} FROM audit ORDER BY number"  # noqa: S608 - names of our own columns
_KEEP_ENTRY = f"INSERT INTO audit (number, {', '.join(COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
_LATEST_ENTRY = "SELECT coalesce(max(number), 0) FROM audit"


class Replaced(Struct):
    """Data that is kept from the replaced store. `unreadable` lists the databases that could not be read."""

    horizon: int = 0
    revoked: dict[str, int] = {}
    scheduled: dict[str, int] = {}
    store_id: int = 0
    audit: list[tuple[Any, ...]] = []
    unreadable: list[Name] = []


class Restored(Struct, frozen=True, kw_only=True):
    """The result of a restore. `kept_in` is the folder with the previous files, or None if there were none."""

    manifest: BackupManifest
    horizon: int
    clock_behind_ms: int
    kept_in: Path | None
    replaced: Replaced


class SecretPlace(Struct, frozen=True):
    """Where to find the deployment secret: in `text` itself or, if that is empty, in `file`."""

    text: str
    file: Path


def restore(folder: Path, source: Path, place: SecretPlace, now_ms: int, by: Actor, *, replace: bool) -> Restored:
    """Restore a backup after verifying it and the deployment secret.

    The store's previous files are kept in a subfolder. If no secret is
    configured, the secret from the backup is written to `place.file`.
    """
    if source.resolve() == folder.resolve():
        raise BackupRefused(f"{source} is the backup itself. Choose another folder as the store.")
    manifest = checked(source)
    secret = _secret_of(place, source, manifest)
    restored = _restore_files(folder, source, manifest, now_ms, by, replace=replace)
    if not place.text and not place.file.exists():
        place.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(place.file, secret + b"\n")
    return restored


def _secret_of(place: SecretPlace, source: Path, manifest: BackupManifest) -> bytes:
    """Return the restored store's secret. Raise BackupRefused if it cannot be read or does not match the backup."""
    secret, file = place.text.encode(), place.file
    if not secret:
        file = source / SECRET if manifest.has_secret and not file.exists() else file
        try:
            secret = read_regular(file).strip()
        except OSError as error:
            raise BackupRefused(
                f"the deployment secret cannot be read from {file} ({error.strerror}). "
                "Put the secret there, or set COUNTERFOIL_SECRET."
            ) from error
    if len(secret) < MIN_SECRET_BYTES:
        raise BackupRefused(
            f"the deployment secret in {'COUNTERFOIL_SECRET' if place.text else file} is shorter than "
            f"{MIN_SECRET_BYTES} bytes. Set the original secret in COUNTERFOIL_SECRET or secret_file."
        )
    if manifest.fingerprint not in (None, Pseudonyms(secret).fingerprint()):
        raise BackupRefused(
            "the deployment secret is not the one that the backed-up store was built with: member tokens would change. "
            "Set the original secret in COUNTERFOIL_SECRET or secret_file."
        )
    return secret


def _restore_files(
    folder: Path, source: Path, manifest: BackupManifest, now_ms: int, by: Actor, *, replace: bool
) -> Restored:
    present = list(_files_of(folder))
    if present and not replace:
        raise BackupRefused(
            f"{folder} already contains a store. To replace it, stop the service and all loads, then run the command "
            "again with --replace. The current files are kept in a subfolder."
        )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = folder / f".restore-{secrets.token_hex(4)}"
    draft.mkdir(mode=0o700)
    try:
        _copy(source, draft, manifest)
        replaced = _read_replaced(folder) if present else Replaced()
        if replaced.store_id == manifest.store_id:
            _keep_audit(draft, replaced)
        horizon = _apply_replaced(draft, replaced, now_ms)
        _record(draft, manifest, now_ms, by)
        sync(draft)
        kept_in = _move_away(folder, now_ms) if present else None
        for name in NAMES:
            if shares(folder, name):
                path_of(draft, name).chmod(0o660)
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


def _read_replaced(folder: Path) -> Replaced:
    """Return the data to keep from the store being replaced. Raise BackupRefused if that store is still in use."""
    found = Replaced()
    for name in NAMES:
        try:
            rows = _read_alone(folder, name, _READ_REPLACED[name])
        except sqlite3.Error:
            found.unreadable.append(name)
            continue
        if name == "books":
            found.horizon = (rows[0][1] or 0) if rows else 0
        else:
            found.revoked |= {row[0]: row[1] for row in rows if row[1] is not None}
        if name == "keys":
            found.scheduled = {key_id: at for key_id, _, at in rows if at is not None}
            found.store_id = _read_alone(folder, name, _STORE_ID)[0][0]
            found.audit = _read_alone(folder, name, _AUDIT)
    return found


def _read_alone(folder: Path, name: Name, query: str) -> list[tuple[Any, ...]]:
    """Run a query and return its rows. Raise BackupRefused if another process has the database open."""
    with closing(sqlite3.connect(uri(folder, name, "rw"), uri=True, isolation_level=None, timeout=0)) as connection:
        try:
            # This fails while another process has the database open, because that process holds a shared lock.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                raise BackupRefused(
                    f"another process is using {name}.sqlite3. Stop the service and all loads, then try again."
                ) from error
            raise
        rows: list[tuple[Any, ...]] = connection.execute(query).fetchall()
        connection.execute("ROLLBACK")
        return rows


def _keep_audit(draft: Path, replaced: Replaced) -> None:
    """Add the audit entries that the replaced store wrote after the backup. Newer entries have higher numbers."""
    with closing(read_write(draft, "keys")) as keys, translated(), writing(keys, WAIT_SEC["keys"]):
        (latest,) = keys.execute(_LATEST_ENTRY).fetchone()
        keys.executemany(_KEEP_ENTRY, (row for row in replaced.audit if row[0] > latest))


def _apply_replaced(draft: Path, replaced: Replaced, now_ms: int) -> int:
    """Raise the horizon, invalidate feed marks and cursors, and apply the replaced store's revocations.

    Return the new horizon.
    """
    horizon = _refuse_marks_and_cursors(draft, replaced.horizon, now_ms)
    positions.agree(draft, NAMES, horizon)
    with closing(read_write(draft, "usage")) as usage, translated(), writing(usage, WAIT_SEC["usage"]):
        usage.executemany(_REMEMBER, replaced.revoked.items())
    # Opening the key store revokes the keys that are listed as revoked in `usage`.
    with closing(SqliteKeyStore(draft, lambda: now_ms)) as key_store:
        for key_id, at in replaced.scheduled.items():
            key_store.change(key_id, partial(_schedule, at), key_store.describe_restored)
    return horizon


def _refuse_marks_and_cursors(folder: Path, reported: int, now_ms: int) -> int:
    """Invalidate all cursors and feed marks, and raise the horizon above `reported`. Return the new horizon."""
    with closing(read_write(folder, "usage")) as usage, translated(), writing(usage, WAIT_SEC["usage"]):
        usage.execute(_EXPIRE_CURSORS, (now_ms, RESERVED_MS))
        usage.execute(_DROP_GUARD)
        until = now_ms + LIFETIME_MS + RESERVED_MS
        usage.execute(_GUARD.format(until=until, lifetime=LIFETIME_MS, long_enough=LONG_ENOUGH, extra=EXTRA))
    with closing(read_write(folder, "books")) as books, translated(), writing(books, WAIT_SEC["books"]):
        # Raise the horizon above every reported horizon, so that marks from before the restore can be recognised.
        (horizon,) = books.execute(_RAISE_HORIZON, (max(now_ms, reported) + 1,)).fetchone()
        change_feed.refuse_marks_below(books, horizon)
    return int(horizon)


def settle_older_files(folder: Path, now_ms: int) -> list[Name]:
    """If files of a store were replaced with older copies, do for clients what a restore does, and return their names.

    An older copy of `keys` does not affect the copies of clients, so it is only recorded. If this is interrupted, the
    next call starts again, because the positions of the files are changed last.
    """
    older = positions.older_files(folder)
    if not older:
        return []
    known = positions.known_positions(folder)
    reached = max(at for file in known.values() for at in file.values())
    if reached >= now_ms:
        # The clock is behind, so it does not show how far the horizon had advanced after the last known position.
        reached += UNKNOWN_MS
    if older != ["keys"]:
        reached = _refuse_marks_and_cursors(folder, reached, now_ms)
    detail = f"an older copy of {' and '.join(f'{name}.sqlite3' for name in older)}"
    with closing(read_write(folder, "keys")) as keys, translated(), writing(keys, WAIT_SEC["keys"]):
        append(keys, [AuditEntry(at=now_ms, act=Act.STORE_RESTORED, actor=AUTOMATIC, detail=detail)])
    positions.agree(folder, list(known), reached)
    return older


def _record(draft: Path, manifest: BackupManifest, now_ms: int, by: Actor) -> None:
    detail = f"the backup taken at {iso_utc(manifest.created_at)}"
    with closing(read_write(draft, "keys")) as keys, translated(), writing(keys, WAIT_SEC["keys"]):
        append(keys, [AuditEntry(at=now_ms, act=Act.STORE_RESTORED, actor=by, detail=detail)])


def _schedule(at: int, key: Key) -> Key:
    return key if key.revoked_at is not None else replace_fields(key, revokes_at=at)


def _move_away(folder: Path, now_ms: int) -> Path:
    at = datetime.fromtimestamp(now_ms / 1000, UTC)
    kept_in = folder / f"replaced-{at:%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"
    kept_in.mkdir(mode=0o700)
    # The write-ahead logs are moved first, because a log must never be next to a database that it does not belong to.
    for file in sorted(_files_of(folder), key=lambda path: path.suffix == ".sqlite3"):
        with suppress(FileNotFoundError):
            file.rename(kept_in / file.name)
    return kept_in
