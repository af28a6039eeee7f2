"""Backs up an embedded store while it is in use, and verifies backups.

The databases are copied one after the other, and `books` is copied last. Each
copy is a snapshot. The horizon in the copy of `books` is therefore at least as
new as that of every cursor in the copy of `usage`. `_manifest` checks this.
"""

import hashlib
import os
import secrets
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from msgspec import DecodeError, Struct, json

from counterfoil.backends.sqlite.files import moved, path_of, read_only, require_whole, translated
from counterfoil.backends.sqlite.positions import mark_as_copy
from counterfoil.backends.sqlite.schema import NAMES, Name, scripts, version
from counterfoil.machine.files import open_regular, read_regular

FORMAT = 1
MANIFEST = "backup.json"
SECRET = "secret"  # noqa: S105 - a file name, not a secret
IN_THIS_ORDER: tuple[Name, ...] = ("keys", "usage", "books")
# Pages are copied in portions, so that a backup can be interrupted. The open transaction keeps the snapshot consistent.
PORTION_PAGES = 4_096

_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
_NEWEST_CURSOR = "SELECT max(latest) FROM cursors WHERE NOT expired"
_NEWEST_STAMP = "SELECT max((SELECT max(updated_at) FROM bills WHERE shop = shops.number)) FROM shops"
_HORIZON = "SELECT at FROM horizon"
_FINGERPRINT = "SELECT secret_fingerprint FROM deployment"


class BackupRefused(Exception):
    """A backup or a restore is not possible. The message says why and what to do next."""


class BackedUpFile(Struct, frozen=True, rename="camel"):
    """A database in a backup: its size, its hash, its schema version and the number of rows in each table."""

    size_bytes: int
    sha256: str
    schema: int
    rows: dict[str, int]


class BackupManifest(Struct, frozen=True, rename="camel", kw_only=True):
    """The contents of `backup.json`. `fingerprint` is None if the store had no deployment secret yet."""

    format: int
    created_at: int
    software: str
    store_id: int
    horizon: int
    fingerprint: str | None
    has_secret: bool
    files: dict[Name, BackedUpFile]

    def rows(self, name: Name, table: str) -> int:
        return self.files[name].rows.get(table, 0)


def back_up(folder: Path, target: Path, now_ms: int, software: str, secret: bytes | None) -> BackupManifest:
    """Copy a store to a new folder, verify the copy and return its manifest. A failed backup leaves no files behind."""
    require_whole(folder)
    if target.resolve().is_relative_to(folder.resolve()):
        raise BackupRefused(f"{target} is inside the store itself. Choose a folder elsewhere.")
    if target.exists() or target.is_symlink():
        raise BackupRefused(f"{target} already exists, and backups are never overwritten. Choose a new folder.")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _draft_of(target) as draft:
        for name in IN_THIS_ORDER:
            _copy(folder, draft, name)
        if secret is not None:
            write_private(draft / SECRET, secret + b"\n")
        manifest = _manifest(draft, now_ms, software, has_secret=secret is not None)
        write_private(draft / MANIFEST, json.format(json.encode(manifest)) + b"\n")
        sync(draft)
        if target.exists():
            raise BackupRefused(f"another process has just created {target}. Choose a new folder.")
        draft.rename(target)
        sync(target.parent)
    return manifest


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def checked(source: Path) -> BackupManifest:
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
            if _size(path.with_name(f"{path.name}-wal")) or path.stat().st_size != expected.size_bytes:
                raise BackupRefused(f"{path} has changed since the backup was taken. Use another backup.")
            if sha256(path) != expected.sha256:
                raise BackupRefused(
                    f"{path} is damaged: its hash differs from the one in {MANIFEST}. Use another backup."
                )
            _verify(source, name, expected.rows)
        if manifest.has_secret and not (source / SECRET).exists():
            raise BackupRefused(f"{source / SECRET} is missing. Put the file back.")
    except (OSError, DecodeError, KeyError) as error:
        raise BackupRefused(f"{source} is not a complete backup ({_reason(error)}). Use another folder.") from error
    return manifest


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
    """Yield a private temporary folder next to the target. Delete it at the end, unless it was renamed."""
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    draft.mkdir(mode=0o700)
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _copy(folder: Path, draft: Path, name: Name) -> None:
    """Copy a snapshot of one database, and verify that the copy has the same number of rows in each table."""
    path = path_of(draft, name)
    write_private(path, b"")
    with closing(read_only(folder, name)) as source, translated():
        if address := moved(source):
            raise BackupRefused(f"this store was moved to {address}. Back up that store instead.")
        source.execute("BEGIN")
        rows = _count_rows(source)
        with closing(sqlite3.connect(path, isolation_level=None)) as copy:
            source.backup(copy, pages=PORTION_PAGES)
            mark_as_copy(copy, name)
        source.execute("ROLLBACK")
    _verify(draft, name, rows)


def _verify(folder: Path, name: Name, rows: dict[str, int]) -> None:
    with closing(_unchanging(folder, name)) as copy, translated():
        said = copy.execute("PRAGMA integrity_check(1)").fetchone()
        if said != ("ok",):
            raise BackupRefused(f"the copy of {name}.sqlite3 is damaged ({said[0]}). Run `counterfoil doctor`.")
        if _count_rows(copy) != rows:
            raise BackupRefused(
                f"the copy of {name}.sqlite3 has the wrong number of rows. Check the disk, then try again."
            )


def _manifest(draft: Path, now_ms: int, software: str, *, has_secret: bool) -> BackupManifest:
    copies = {name: _unchanging(draft, name) for name in NAMES}
    try:
        with translated():
            ids = {_number(copy, "PRAGMA application_id") for copy in copies.values()}
            horizon = _number(copies["books"], _HORIZON)
            newest = max(_number(copies["usage"], _NEWEST_CURSOR), _number(copies["books"], _NEWEST_STAMP))
            fingerprint = copies["books"].execute(_FINGERPRINT).fetchone()
            described = {
                name: BackedUpFile(
                    path_of(draft, name).stat().st_size, sha256(path_of(draft, name)), version(copy), _count_rows(copy)
                )
                for name, copy in copies.items()
            }
    finally:
        for copy in copies.values():
            copy.close()
    if len(ids) != 1 or 0 in ids:
        raise BackupRefused("the three databases do not share a store ID. Run `counterfoil doctor`.")
    if newest > horizon:
        raise BackupRefused(
            "the copy is not consistent: a cursor or a bill is newer than the horizon. Run the command again."
        )
    return BackupManifest(
        format=FORMAT,
        created_at=now_ms,
        software=software,
        store_id=ids.pop(),
        horizon=horizon,
        fingerprint=fingerprint[0] if fingerprint else None,
        has_secret=has_secret,
        files=described,
    )


def _unchanging(folder: Path, name: Name) -> sqlite3.Connection:
    """Open a copy that no process writes to. SQLite then needs no other files, so the folder may be read-only."""
    uri = f"{path_of(folder, name).resolve().as_uri()}?mode=ro&immutable=1"
    with translated():
        return sqlite3.connect(uri, uri=True, isolation_level=None)


def _count_rows(connection: sqlite3.Connection) -> dict[str, int]:
    tables = [name for (name,) in connection.execute(_TABLES).fetchall()]
    return {name: _number(connection, f'SELECT count(*) FROM "{name}"') for name in tables}  # noqa: S608 - our own table names


def _number(connection: sqlite3.Connection, query: str) -> int:
    row = connection.execute(query).fetchone()
    return int(row[0] or 0) if row else 0


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{Path(error.filename).name}: {error.strerror}" if error.filename else str(error.strerror)
    return f"{MANIFEST} cannot be read"
