"""Backs up an embedded store while it is in use, verifies backups, and restores them.

The databases are copied one after the other, and `books` is copied last. Each copy is a snapshot. The horizon in the
copy of `books` is therefore at least as new as that of every cursor in the copy of `usage`. `_manifest` checks this.
"""

import fcntl
import hashlib
import os
import re
import secrets
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import DecodeError, Struct, json
from msgspec.structs import replace as replace_fields

from counterfoil.backends.load_book import REFUSE_MARKS
from counterfoil.backends.sqlite import positions
from counterfoil.backends.sqlite.files import (
    WAIT_SEC,
    moved,
    path_of,
    read_only,
    read_write,
    require_whole,
    shares,
    size_of,
    translated,
    uri,
    writing,
)
from counterfoil.backends.sqlite.keys import REMEMBER, SqliteKeyStore, append
from counterfoil.backends.sqlite.mappings import (
    FOLDER,
    BackedUpMapping,
    copy_mappings,
    is_mapping_name,
    put_mappings,
    who_may_write_backup,
    write_mapping,
)
from counterfoil.backends.sqlite.positions import mark_as_backup
from counterfoil.backends.sqlite.schema import NAMES, Name, scripts, version
from counterfoil.backends.sqlite.triggers import create_trigger
from counterfoil.domain.access import Key
from counterfoil.domain.audit import AUTOMATIC, Act, Actor, AuditEntry
from counterfoil.domain.paging import EXTRA, LIFETIME_MS, RESERVED_MS
from counterfoil.domain.tokens import MIN_SECRET_BYTES, Pseudonyms
from counterfoil.machine.files import open_regular, read_regular
from counterfoil.model.calendar import iso_utc
from counterfoil.model.messages import MessageError

FORMAT = 1
MANIFEST = "backup.json"
SECRET = "secret"  # noqa: S105 - a file name, not a secret
IN_THIS_ORDER: tuple[Name, ...] = ("keys", "usage", "books")
# Pages are copied in portions, so that a backup can be interrupted. The open transaction keeps the snapshot consistent.
PORTION_PAGES = 4_096

_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
_NEWEST_CURSOR = "SELECT max(latest) FROM cursors WHERE NOT expired"
NEWEST_STAMP = "SELECT max((SELECT max(updated_at) FROM bills WHERE shop = shops.number)) FROM shops"
HORIZON = "SELECT at FROM horizon"
FINGERPRINT = "SELECT secret_fingerprint FROM deployment"


class BackupRefused(MessageError):
    """A backup or a restore is not possible. The message says why and what to do next."""


class BackedUpFile(Struct, frozen=True, rename="camel"):
    """A database in a backup: its size, its hash, its schema version and the number of rows in each table."""

    size_bytes: int
    sha256: str
    schema: int
    rows: dict[str, int]


class BackupManifest(Struct, frozen=True, rename="camel", kw_only=True):
    """The contents of `backup.json`. `fingerprint` is None if the store had no deployment secret yet.

    `mappings` is None if the backup was made by a version that did not copy them. `left_out` has a sentence about each
    mapping that was not copied.
    """

    format: int
    created_at: int
    software: str
    store_id: int
    horizon: int
    fingerprint: str | None
    has_secret: bool
    files: dict[Name, BackedUpFile]
    mappings: dict[str, BackedUpMapping] | None = None
    left_out: list[str] = []

    def rows(self, name: Name, table: str) -> int:
        return self.files[name].rows.get(table, 0)


def back_up(folder: Path, target: Path, now_ms: int, software: str, secret: bytes | None) -> BackupManifest:
    """Copy a store to a new folder, verify the copy and return its manifest. A failed backup leaves no files behind."""
    require_whole(folder)
    _require_outside(folder, target)
    if target.exists() or target.is_symlink():
        raise BackupRefused(f"{target} already exists, and backups are never overwritten. Choose a new folder.")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _draft_of(target) as draft:
        files = {name: _copy_database(folder, draft, name) for name in IN_THIS_ORDER}
        if secret is not None:
            write_private(draft / SECRET, secret + b"\n")
        manifest = _manifest(draft, files, now_ms, software, has_secret=secret is not None)
        mappings, left_out = copy_mappings(folder, draft)
        manifest = replace_fields(manifest, mappings=mappings, left_out=left_out)
        write_private(draft / MANIFEST, json.format(json.encode(manifest)) + b"\n")
        if mappings:
            sync(draft / FOLDER)
        sync(draft)
        if target.exists():
            raise BackupRefused(f"another process has just created {target}. Choose a new folder.")
        draft.rename(target)
        sync(target.parent)
    return manifest


def _require_outside(folder: Path, target: Path) -> None:
    if target.resolve().is_relative_to(folder.resolve()):
        raise BackupRefused(f"{target} is inside the store itself. Choose a folder elsewhere.")


# --- keeping only the newest backups --------------------------------------------

_DATED = re.compile(r"\d{4}-\d\d-\d\dT\d{6}Z")
# A backup that was not completed, or not deleted completely.
_REMAINS = re.compile(rf"\.{_DATED.pattern}\.[0-9a-f]{{8}}")


@contextmanager
def rotating(folder: Path, backups: Path, now_ms: int) -> Iterator[Path]:
    """Yield the folder of a new dated backup in `backups`, in which no other process makes or deletes one meanwhile."""
    _require_outside(folder, backups)
    if not backups.parent.is_dir():
        raise BackupRefused(
            f"there is no folder {backups.parent}, so a path may be mistyped or a disk not mounted. If the path is "
            "right, create that folder first."
        )
    backups.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(backups, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BackupRefused(f"another process is making a backup in {backups}. Try again later.") from error
        yield backups / f"{datetime.fromtimestamp(now_ms / 1000, UTC):%Y-%m-%dT%H%M%SZ}"
    finally:
        os.close(descriptor)


def delete_older(newest: Path, store_id: int, keep: int) -> list[Path]:
    """Delete all dated backups of this store beside `newest`, except for the newest ones; return the deleted ones.

    `keep` backups remain. One of them is `newest`, which is complete, even if the clock was set back. What an
    interrupted run has left behind is deleted too, and nothing else.
    """
    folders = [path for path in newest.parent.iterdir() if path.is_dir() and not path.is_symlink()]
    remains = [path for path in folders if _REMAINS.fullmatch(path.name)]
    dated = [path for path in folders if path != newest and _DATED.fullmatch(path.name)]
    of_store = [path for path in dated if _store_id_of(path) == store_id]
    older = sorted(of_store, reverse=True)[keep - 1 :]
    for path in older:
        # It is renamed first, so that one that is not deleted completely is not taken for a backup.
        hidden = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        remains.append(path.rename(hidden))
    for path in remains:
        shutil.rmtree(path)
    return sorted(older)


def _store_id_of(backup: Path) -> int | None:
    try:
        return json.decode(read_regular(backup / MANIFEST), type=BackupManifest).store_id
    except (OSError, DecodeError):
        return None


# --- verifying a backup ----------------------------------------------------------


def is_whole(source: Path) -> bool | None:
    """Return whether a backup has files of the right sizes, or None if this process may not look there."""
    try:
        checked(source, with_hashes=False)
    except BackupRefused as error:
        return None if isinstance(error.__cause__, PermissionError) else False
    return True


def checked(source: Path, *, with_hashes: bool = True) -> BackupManifest:
    """Verify that a backup is complete and unchanged, and return its manifest. Raise BackupRefused if it is not."""
    try:
        manifest = json.decode(read_regular(source / MANIFEST), type=BackupManifest)
        if manifest.format != FORMAT:
            raise BackupRefused(
                f"{source} was written by a newer version of Counterfoil. Restore it with that version."
            )
        if any(manifest.files[name].schema < scripts(name)[0].number for name in NAMES):
            raise BackupRefused(
                f"{source} was made before the first release, and this version cannot restore it. Create a store with "
                "`counterfoil init`, load the source records into it, and issue new keys."
            )
        for name in NAMES:
            path, expected = path_of(source, name), manifest.files[name]
            # An empty log is allowed, because a command that only reads the backup may leave one behind.
            if size_of(path.with_name(f"{path.name}-wal")) or path.stat().st_size != expected.size_bytes:
                raise BackupRefused(f"{path} has changed since the backup was taken. Use another backup.")
            if with_hashes and sha256(path) != expected.sha256:
                raise BackupRefused(
                    f"{path} is damaged: its hash differs from the one in {MANIFEST}. Use another backup."
                )
        _check_mappings(source, manifest, with_hashes=with_hashes)
        if manifest.has_secret and not (source / SECRET).exists():
            raise BackupRefused(f"{source / SECRET} is missing. Put the file back.")
    except (OSError, DecodeError, KeyError) as error:
        backups = sorted(manifest.parent for manifest in source.glob(f"*/{MANIFEST}"))
        if backups:
            newest = backups[-1]
            raise BackupRefused(
                f"{source} is a folder of backups. Name one of them; the newest is {newest}."
            ) from error
        raise BackupRefused(f"{source} is not a complete backup ({_reason(error)}). Use another folder.") from error
    return manifest


def _check_mappings(source: Path, manifest: BackupManifest, *, with_hashes: bool) -> None:
    for name, expected in (manifest.mappings or {}).items():
        if not is_mapping_name(name):
            raise BackupRefused(f"{source / MANIFEST} names a mapping in another folder. Use another backup.")
        path = source / FOLDER / name
        if path.stat().st_size != expected.size_bytes:
            raise BackupRefused(f"{path} has changed since the backup was taken. Use another backup.")
        if with_hashes and sha256(path) != expected.sha256:
            raise BackupRefused(f"{path} is damaged: its hash differs from the one in {MANIFEST}. Use another backup.")


def write_private(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def sync(folder: Path) -> None:
    """Flush a folder and the files in it to disk."""
    for path in (*(file for file in folder.iterdir() if file.is_file()), folder):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sha256(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _draft_of(target: Path) -> Iterator[Path]:
    """Yield a private temporary folder next to a path. Delete it at the end, unless it was renamed."""
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    draft.mkdir(mode=0o700)
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _copy_database(folder: Path, draft: Path, name: Name) -> BackedUpFile:
    """Copy a snapshot of one database, and verify that the copy is intact and has the same rows in each table."""
    path = path_of(draft, name)
    write_private(path, b"")
    with closing(read_only(folder, name)) as source, translated():
        if address := moved(source):
            raise BackupRefused(f"this store was moved to {address}. Back up that store instead.")
        source.execute("BEGIN")
        rows = _count_rows(source)
        with closing(sqlite3.connect(path, isolation_level=None)) as copy:
            source.backup(copy, pages=PORTION_PAGES)
            mark_as_backup(copy, name)
        source.execute("ROLLBACK")
    with closing(_unchanging(draft, name)) as copy, translated():
        reported = copy.execute("PRAGMA integrity_check(1)").fetchone()
        if reported != ("ok",):
            raise BackupRefused(f"the copy of {name}.sqlite3 is damaged ({reported[0]}). Run `counterfoil doctor`.")
        if _count_rows(copy) != rows:
            raise BackupRefused(
                f"the copy of {name}.sqlite3 has the wrong number of rows. Check the disk, then try again."
            )
        return BackedUpFile(path.stat().st_size, sha256(path), version(copy), rows)


def _manifest(
    draft: Path, files: dict[Name, BackedUpFile], now_ms: int, software: str, *, has_secret: bool
) -> BackupManifest:
    def ask(name: Name, query: str) -> Any:
        with closing(_unchanging(draft, name)) as copy, translated():
            row = copy.execute(query).fetchone()
        return row[0] if row else None

    ids = {ask(name, _STORE_ID) for name in NAMES}
    horizon = ask("books", HORIZON) or 0
    if len(ids) != 1 or 0 in ids:
        raise BackupRefused("the three databases do not share a store ID. Run `counterfoil doctor`.")
    if max(ask("usage", _NEWEST_CURSOR) or 0, ask("books", NEWEST_STAMP) or 0) > horizon:
        raise BackupRefused(
            "the copy is not consistent: a cursor or a bill is newer than the horizon. Run the command again."
        )
    return BackupManifest(
        format=FORMAT,
        created_at=now_ms,
        software=software,
        store_id=ids.pop(),
        horizon=horizon,
        fingerprint=ask("books", FINGERPRINT),
        has_secret=has_secret,
        files=files,
    )


def _unchanging(folder: Path, name: Name) -> sqlite3.Connection:
    """Open a copy that no process writes to. SQLite then needs no other files, so the folder may be read-only."""
    uri = f"{path_of(folder, name).resolve().as_uri()}?mode=ro&immutable=1"
    with translated():
        return sqlite3.connect(uri, uri=True, isolation_level=None)


def _count_rows(connection: sqlite3.Connection) -> dict[str, int]:
    counts = {}
    for (table,) in connection.execute(_TABLES).fetchall():
        (counts[table],) = connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()  # noqa: S608 - our own table names
    return counts


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{Path(error.filename).name}: {error.strerror}" if error.filename else str(error.strerror)
    return f"{MANIFEST} cannot be read"


# --- restoring a backup, so that clients of the replaced store can continue --
#
# If only some files were replaced with older copies, `settle_older_files` does the same for the clients.
#
# - New stamps must be above every horizon that was reported to a client. The horizon is therefore raised to the current
#   time, or above the horizons of the backup and of the replaced store if one of them is newer.
# - A cursor that a client received earlier must not stand for another position. Every cursor in the backup therefore
#   expires. For as long as clients may hold cursors that were created after the backup, new cursors get random IDs
#   instead of the IDs of their rows.
# - A client may hold changes that the backup does not contain, so every mark of the feed that was handed out before the
#   restore is refused.
# - Keys that were revoked in the replaced store stay revoked, and scheduled revocations stay scheduled, if the files of
#   that store can be read. If it is the store that was backed up, the audit entries that it wrote after the backup are
#   kept too. All devices are signed out of the console.
# - Members who were forgotten in the replaced store stay out: their marks are kept, and the command forgets them again.

# In practice, random IDs of this length are never generated twice.
LONG_ENOUGH = 16
# Positions are exchanged every second. This is longer than the exchange can be delayed by locked files.
UNKNOWN_MS = 300_000

_RAISE_HORIZON = "UPDATE horizon SET at = max(at + 1, ?) RETURNING at"
_EXPIRE_CURSORS = "UPDATE cursors SET expired = 1, ends_at = ? + ?"
_SIGN_OUT_DEVICES = "DELETE FROM console_devices"
_DROP_GUARD = "DROP TRIGGER IF EXISTS restored_cursors"
# Clients may still hold cursors that were created after the backup, so the IDs of these cursors must not be used again.
# Most cursors have the ID of their row. When such a cursor is first inserted, the trigger stores its ID as expired
# instead, and the service retries with a random ID. A short random ID may have been handed out before too, so the
# trigger skips the insert, and the service retries with a longer ID. See `_next_cursor` in reads.py.
_GUARD = """
    CREATE TRIGGER restored_cursors BEFORE INSERT ON cursors
    WHEN NOT NEW.expired AND NEW.ends_at < :until + :lifetime
        AND (
            NEW.cursor = NEW.row_id
            OR (length(NEW.row_id) < :long_enough AND length(NEW.cursor) < length(NEW.row_id) + :extra)
        )
        AND NOT EXISTS (
            SELECT 1 FROM cursors
            WHERE lineage = NEW.lineage AND resource = NEW.resource AND query = NEW.query AND cursor = NEW.cursor
        )
    BEGIN
        INSERT INTO cursors (lineage, resource, query, cursor, row_id, major, minor, earliest, latest, ends_at, expired)
        SELECT NEW.lineage, NEW.resource, NEW.query, NEW.cursor, NEW.row_id, 0, 0, 0, 0, :until, 1
        WHERE NEW.cursor = NEW.row_id;
        SELECT RAISE(IGNORE);
    END
"""
_STORE_ID = "PRAGMA application_id"
_AUDIT = "SELECT number, at, act, actor, via, host, key_id, changes, detail FROM audit ORDER BY number"
_REVOCATIONS_OF_KEYS = """
    SELECT key_id, json_extract(record, '$.revoked_at'), json_extract(record, '$.revokes_at')
    FROM (SELECT key_id, CAST(body AS TEXT) AS record FROM keys)
"""
_READ_REPLACED: dict[Name, tuple[str, ...]] = {
    "books": ("SELECT 'horizon', at FROM horizon",),
    "keys": (_REVOCATIONS_OF_KEYS, _STORE_ID, _AUDIT),
    "usage": ("SELECT key_id, at FROM revocations",),
}
_HAS_MARKS = "SELECT 1 FROM sqlite_schema WHERE name = 'forgotten_members'"
_MARKS = "SELECT mark, at FROM forgotten_members"
_KEEP_MARK = "INSERT INTO forgotten_members (mark, at) VALUES (?, ?) ON CONFLICT DO NOTHING"
_KEEP_ENTRY = """
    INSERT INTO audit (number, at, act, actor, via, host, key_id, changes, detail) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_LATEST_ENTRY = "SELECT coalesce(max(number), 0) FROM audit"


class Replaced(Struct):
    """Data that is kept from the replaced store. `unreadable` lists the databases that could not be read."""

    horizon: int = 0
    revoked: dict[str, int] = {}
    scheduled: dict[str, int] = {}
    store_id: int = 0
    audit: list[tuple[Any, ...]] = []
    marks: list[tuple[str, int]] = []
    """The marks of the members that were forgotten, each with its time."""
    unreadable: list[Name] = []


class Restored(Struct, frozen=True, kw_only=True):
    """The result of a restore. `kept_in` is the folder with the previous files, or None if there were none.

    `mappings` are the names of those that were restored, and `left_out` has a sentence about others.
    """

    manifest: BackupManifest
    horizon: int
    clock_behind_ms: int
    kept_in: Path | None
    replaced: Replaced
    mappings: list[str]
    left_out: list[str]


def restore(
    folder: Path, source: Path, secret_text: str, secret_file: Path, now_ms: int, by: Actor, *, replace: bool
) -> Restored:
    """Restore a backup after verifying it and the secret, which is written to its file if none is configured."""
    if source.resolve() == folder.resolve():
        raise BackupRefused(f"{source} is the backup itself. Choose another folder as the store.")
    manifest = checked(source)
    secret = _secret_of(secret_text, secret_file, source, manifest)
    restored = _restore_files(folder, source, manifest, now_ms, by, replace=replace)
    if not secret_text and not secret_file.exists():
        secret_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(secret_file, secret + b"\n")
    return restored


def _secret_of(text: str, file: Path, source: Path, manifest: BackupManifest) -> bytes:
    """Return the restored store's secret. Raise BackupRefused if it cannot be read or does not match the backup."""
    secret = text.encode()
    if not secret:
        file = source / SECRET if manifest.has_secret and not file.exists() else file
        try:
            secret = read_regular(file).strip()
        except OSError as error:
            raise BackupRefused(
                f"the deployment secret cannot be read from {file} ({error.strerror}). Put the secret there, or set "
                "COUNTERFOIL_SECRET."
            ) from error
    if len(secret) < MIN_SECRET_BYTES:
        place = "COUNTERFOIL_SECRET" if text else file
        raise BackupRefused(
            f"the deployment secret in {place} is shorter than {MIN_SECRET_BYTES} bytes. Set the original secret in "
            "COUNTERFOIL_SECRET or secret_file."
        )
    if manifest.fingerprint not in (None, Pseudonyms(secret).fingerprint()):
        raise BackupRefused(
            "the deployment secret is not the one that the backed-up store was built with: member tokens would "
            "change. Set the original secret in COUNTERFOIL_SECRET or secret_file."
        )
    return secret


def _restore_files(
    folder: Path, source: Path, manifest: BackupManifest, now_ms: int, by: Actor, *, replace: bool
) -> Restored:
    present = _files_of(folder)
    if present and not replace:
        raise BackupRefused(
            f"{folder} already contains a store. To replace it, stop the service and all loads, then run the command "
            "again with --replace. The current files are kept in a subfolder."
        )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _draft_of(folder / "restore") as draft:
        _copy(source, draft, manifest)
        mappings = sorted(manifest.mappings or {})
        problem = who_may_write_backup(source, mappings) if mappings else None
        if not problem:
            _copy_mappings(source, draft, manifest)
        replaced = _read_replaced(folder) if present else Replaced()
        if replaced.store_id == manifest.store_id:
            _keep_audit(draft, replaced)
        horizon = _apply_replaced(draft, replaced, now_ms)
        _record(draft, now_ms, by, f"the backup taken at {iso_utc(manifest.created_at)}", with_keys=True)
        sync(draft)
        kept_in = _move_away(folder, now_ms, with_mappings=manifest.mappings is not None) if present else None
        for name in NAMES:
            if shares(folder, name):
                path_of(draft, name).chmod(0o660)
            path_of(draft, name).rename(path_of(folder, name))
        others = put_mappings(draft, folder)
        sync(folder)
    left_out = [f"{folder / FOLDER / name} differs from the mapping in the backup, and was kept." for name in others]
    if problem:
        left_out = [
            f"{problem}, and mappings decide how money is read. So no mapping was restored, and the next import asks."
        ]
    return Restored(
        manifest=manifest,
        horizon=horizon,
        clock_behind_ms=max(0, max(manifest.horizon, replaced.horizon) - now_ms),
        kept_in=kept_in,
        replaced=replaced,
        mappings=[] if problem else [name for name in mappings if name not in others],
        left_out=left_out,
    )


def _files_of(folder: Path) -> list[Path]:
    files = []
    for name in NAMES:
        files += [folder / f"{name}.sqlite3", folder / f"{name}.sqlite3-wal", folder / f"{name}.sqlite3-shm"]
    return [file for file in files if file.exists()]


def _copy(source: Path, draft: Path, manifest: BackupManifest) -> None:
    for name in NAMES:
        path = path_of(draft, name)
        path.touch(mode=0o600)
        shutil.copyfile(path_of(source, name), path)
        if sha256(path) != manifest.files[name].sha256:
            raise BackupRefused(f"{name}.sqlite3 was not copied correctly. Check the disk, then run the command again.")


def _copy_mappings(source: Path, draft: Path, manifest: BackupManifest) -> None:
    for name, expected in (manifest.mappings or {}).items():
        path = source / FOLDER / name
        content = read_regular(path)
        if hashlib.sha256(content).hexdigest() != expected.sha256:
            raise BackupRefused(f"{path} was not read correctly. Check the disk, then run the command again.")
        write_mapping(draft, name, content)
    if manifest.mappings:
        sync(draft / FOLDER)


def _read_replaced(folder: Path) -> Replaced:
    """Return the data to keep from the store being replaced. Raise BackupRefused if that store is still in use."""
    found = Replaced()
    for name in NAMES:
        try:
            rows, *others = _read_alone(folder, name)
        except sqlite3.Error:
            found.unreadable.append(name)
            continue
        if name == "books":
            found.horizon = (rows[0][1] or 0) if rows else 0
            found.marks = list(chain.from_iterable(others))
            continue
        for key_id, revoked_at, *_ in rows:
            if revoked_at is not None:
                found.revoked[key_id] = revoked_at
        if name == "keys":
            for key_id, _, scheduled_at in rows:
                if scheduled_at is not None:
                    found.scheduled[key_id] = scheduled_at
            ((found.store_id,),), found.audit = others
    return found


def _read_alone(folder: Path, name: Name) -> list[list[tuple[Any, ...]]]:
    """Return the rows of each query of a database. Raise BackupRefused if another process has it open."""
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
        queries = _READ_REPLACED[name]
        if name == "books" and connection.execute(_HAS_MARKS).fetchone():
            queries = (*queries, _MARKS)
        return [connection.execute(query).fetchall() for query in queries]


def _keep_audit(draft: Path, replaced: Replaced) -> None:
    """Add the audit entries that the replaced store wrote after the backup. Newer entries have higher numbers."""
    with closing(read_write(draft, "keys")) as keys, translated(), writing(keys, WAIT_SEC["keys"]):
        (latest,) = keys.execute(_LATEST_ENTRY).fetchone()
        keys.executemany(_KEEP_ENTRY, (row for row in replaced.audit if row[0] > latest))


def _apply_replaced(draft: Path, replaced: Replaced, now_ms: int) -> int:
    """Raise the horizon and return it, invalidate marks and cursors, and apply the replaced store's revocations."""
    horizon = _refuse_marks_and_cursors(draft, replaced.horizon, now_ms)
    positions.agree(draft, NAMES, horizon)
    with closing(read_write(draft, "usage")) as usage, translated(), writing(usage, WAIT_SEC["usage"]):
        usage.executemany(REMEMBER, replaced.revoked.items())
    with closing(read_write(draft, "books")) as books, translated(), writing(books, WAIT_SEC["books"]):
        # Their data is in the backup, so they are unfinished: see `counterfoil members forget --unfinished`.
        books.executemany(_KEEP_MARK, replaced.marks)

    def scheduled(key: Key) -> Key:
        return key if key.revoked_at is not None else replace_fields(key, revokes_at=replaced.scheduled[key.key_id])

    # Opening the key store revokes the keys that are listed as revoked in `usage`.
    with closing(SqliteKeyStore(draft, lambda: now_ms)) as key_store:
        for key_id in replaced.scheduled.keys() & {key.key_id for key in key_store.all()}:
            key_store.change(key_id, scheduled, Act.REVOCATION_RESTORED, now_ms, AUTOMATIC)
    return horizon


def _refuse_marks_and_cursors(folder: Path, reported: int, now_ms: int) -> int:
    """Invalidate all cursors and feed marks, and raise the horizon above `reported`. Return the new horizon."""
    with closing(read_write(folder, "usage")) as usage, translated(), writing(usage, WAIT_SEC["usage"]):
        usage.execute(_EXPIRE_CURSORS, (now_ms, RESERVED_MS))
        usage.execute(_DROP_GUARD)
        until = now_ms + LIFETIME_MS + RESERVED_MS
        create_trigger(usage, _GUARD, until=until, lifetime=LIFETIME_MS, long_enough=LONG_ENOUGH, extra=EXTRA)
    with closing(read_write(folder, "books")) as books, translated(), writing(books, WAIT_SEC["books"]):
        # Raise the horizon above every reported horizon, so that marks from before the restore can be recognised.
        (horizon,) = books.execute(_RAISE_HORIZON, (max(now_ms, reported) + 1,)).fetchone()
        books.execute(REFUSE_MARKS, {"kept": 0})
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
    _record(folder, now_ms, AUTOMATIC, detail, with_keys="keys" in older)
    positions.agree(folder, list(known), reached)
    return older


def _record(folder: Path, now_ms: int, by: Actor, detail: str, *, with_keys: bool) -> None:
    """Record a restore. If the keys were restored, sign all devices out, because some may have been revoked since."""
    with closing(read_write(folder, "keys")) as keys, translated(), writing(keys, WAIT_SEC["keys"]):
        if with_keys:
            keys.execute(_SIGN_OUT_DEVICES)
        append(keys, [AuditEntry(at=now_ms, act=Act.STORE_RESTORED, actor=by, detail=detail)])


def _move_away(folder: Path, now_ms: int, *, with_mappings: bool) -> Path:
    at = datetime.fromtimestamp(now_ms / 1000, UTC)
    kept_in = folder / f"replaced-{at:%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"
    kept_in.mkdir(mode=0o700)
    if with_mappings and (folder / FOLDER).exists():
        # This fails if the folder belongs to another user, so it is done while the store is still whole.
        (folder / FOLDER).rename(kept_in / FOLDER)
    # The write-ahead logs are moved first, because a log must never be next to a database that it does not belong to.
    for file in sorted(_files_of(folder), key=lambda path: path.suffix == ".sqlite3"):
        with suppress(FileNotFoundError):
            file.rename(kept_in / file.name)
    return kept_in
