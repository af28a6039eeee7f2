"""Stores the keys: the service looks them up with `SqliteKeyLookup`, and commands change them with `SqliteKeyStore`.

The lookup holds all keys in one dictionary, so finding an unknown key ID takes as long as finding a known one. If the
last check of the file is older than `REFRESH_SEC`, a request starts another check, in a thread and over a new
connection. A revocation therefore takes effect within that time, and a missing or damaged file is noticed. While the
file is locked but unchanged, the keys in memory stay in use for at most `KEYS_TRUSTED_SEC`.

A revocation is also recorded in `usage.sqlite3`, so that a revoked key stays revoked if an older `keys.sqlite3` is
restored.
"""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from counterfoil.backends.sqlite import files
from counterfoil.backends.sqlite.files import WAIT_SEC, read_write, translated, writing
from counterfoil.domain.access import KEYS_TRUSTED_SEC, Key, decode_key
from counterfoil.domain.audit import AUTOMATIC, Act, Actor, AuditEntry, to_row
from counterfoil.key_issuing import KeyStore
from counterfoil.model.messages import Message
from counterfoil.ports import AuditedTransaction, Clock, StoreBusy, StoredKey, StoreMismatch, StoreUnavailable

if TYPE_CHECKING:
    import asyncio

REFRESH_SEC = 0.5
# All keys are read again after this time, even if the file seems unchanged.
REREAD_SEC = 60.0
# The thread waits up to LOCK_SEC for a lock. While the keys in memory may be used, a request waits at most BRIEFLY_SEC
# for the thread, and a locked file is checked again after RETRY_SEC.
LOCK_SEC, RETRY_SEC, BRIEFLY_SEC = 0.02, 0.1, 0.1

_ALL = "SELECT key_id, secret_digest, body FROM keys"
_GENERATION = "SELECT number FROM generation"

REVOCATIONS = "SELECT key_id, at FROM revocations"
REMEMBER = "INSERT OR IGNORE INTO revocations (key_id, at) VALUES (?, ?)"

# The inode, size and times of the database and of its log. They show whether either file was written or replaced.
FileState = tuple[tuple[int, ...] | None, ...]


class SqliteKeyLookup:
    """Holds all keys in memory. `problem` returns a reason to refuse all requests even if the keys can be read."""

    def __init__(self, folder: Path, clock: Clock, problem: Callable[[], Message | None] = lambda: None) -> None:
        self._folder = folder
        self._clock = clock
        self._problem = problem
        path = files.path_of(folder, "keys")
        self._files = (str(path), f"{path}-wal")
        # Commands that look no key up start faster without it.
        from concurrent.futures import ThreadPoolExecutor

        self._thread = ThreadPoolExecutor(1, "keys")
        self._looking: asyncio.Task[None] | None = None
        self._kept: dict[str, StoredKey] = {}
        self._revoked: dict[str, int] = {}
        self._seen: tuple[FileState, int] | None = None
        self._store_id: int | None = None
        self._failure: StoreUnavailable | None = None
        self._locked: StoreBusy | None = None
        # Times on the steady clock: the next check of the file, the last full read, and the last successful check.
        self._due = 0
        self._read_at = 0
        self._as_of: int | None = None

    def close(self) -> None:
        self._thread.shutdown(wait=False)

    async def find(self, key_id: str) -> StoredKey | None:
        if self._clock.steady_us() >= self._due or self._failure:
            bridging = self._may_bridge()
            await self._look(BRIEFLY_SEC if bridging else files.REQUEST_SEC, bridging=bridging)
        return self._kept.get(key_id)

    async def find_again(self, key_id: str) -> StoredKey | None:
        import asyncio

        # If the file is unchanged, the keys in memory are up to date.
        loop = asyncio.get_running_loop()
        deadline = loop.time() + files.REQUEST_SEC
        while not self._is_unchanged():
            await self._look(deadline - loop.time(), bridging=False)
        return self._kept.get(key_id)

    def _may_bridge(self) -> bool:
        """Return whether keys in memory may be used while the file is locked: if recent, and the file unchanged."""
        if self._as_of is None or self._clock.steady_us() >= self._as_of + KEYS_TRUSTED_SEC * 1_000_000:
            return False
        return self._is_unchanged()

    def _is_unchanged(self) -> bool:
        """Return whether the file is the same as when it was last read."""
        return self._seen is not None and self._seen[0] == self._state()

    async def _look(self, within_sec: float, *, bridging: bool) -> None:
        """Wait for a check of the file, which all requests share. Raise if the keys must not be used."""
        import asyncio

        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_sec
        while True:
            if self._looking is None:
                self._looking = loop.create_task(self._look_once())
            done, _ = await asyncio.wait({self._looking}, timeout=max(0, deadline - loop.time()))
            if self._failure:
                raise self._failure
            if done and self._locked is None:
                return
            if bridging:
                # Until the next check is due, requests use the keys in memory without waiting.
                self._due = self._clock.steady_us() + int(RETRY_SEC * 1_000_000)
                return
            if loop.time() >= deadline:
                raise self._locked or StoreBusy(
                    Message(
                        "keys_slow", "the keys could not be read within {seconds} s.", seconds=str(files.REQUEST_SEC)
                    )
                )
            await asyncio.sleep(LOCK_SEC)

    async def _look_once(self) -> None:
        import asyncio

        now, failure, locked = self._clock.steady_us(), None, None
        whole = now >= self._read_at + REREAD_SEC * 1_000_000
        try:
            seen, kept = await asyncio.get_running_loop().run_in_executor(self._thread, self._read, whole)
            self._seen = seen
            if kept is not None:
                self._kept, self._read_at = kept, now
            self._as_of, self._due = now, now + int(REFRESH_SEC * 1_000_000)
        except StoreBusy as error:
            locked = error
        except StoreUnavailable as error:
            failure = error
        except Exception as error:  # noqa: BLE001 - after any error, the keys in memory may be out of date
            failure = StoreUnavailable(
                Message(
                    "keys_unreadable",
                    "the keys cannot be read: {kind}: {reason}",
                    kind=type(error).__name__,
                    reason=str(error),
                )
            )
        self._failure, self._locked, self._looking = failure, locked, None

    def _state(self) -> FileState:
        return tuple(map(_file_state, self._files))

    # --- methods that run in the thread --------------------------------------------

    def _read(self, whole: bool) -> tuple[tuple[FileState, int], dict[str, StoredKey] | None]:
        """Return the state and the generation of the file, and all keys or None if they were not read again."""
        if problem := self._problem():
            raise StoreUnavailable(problem)
        state = self._state()
        try:
            with closing(files.read_only(self._folder, "keys", LOCK_SEC)) as connection, translated():
                self._check_store(files.id_in(connection))
                (generation,) = connection.execute(_GENERATION).fetchone()
                if not whole and self._seen == (state, generation):
                    return (state, generation), None
                rows = connection.execute(_ALL).fetchall()
            kept = {key_id: StoredKey(decode_key(body), digest) for key_id, digest, body in rows}
        except StoreMismatch as error:
            # Another version has migrated the file while this service was running.
            raise StoreUnavailable(error.message) from error
        return (state, generation), self._without_revoked(kept)

    def _check_store(self, store_id: int) -> None:
        """Raise if the file was replaced with the file of another store, whose keys are not valid here."""
        if self._store_id is None:
            self._store_id = store_id
        if store_id != self._store_id:
            raise StoreUnavailable(
                Message(
                    "other_keys",
                    "{file} belongs to another store: restore the file of this store.",
                    file="keys.sqlite3",
                )
            )

    def _without_revoked(self, kept: dict[str, StoredKey]) -> dict[str, StoredKey]:
        """Return the keys with every known revocation applied, because a restored file may lack some revocations."""
        try:
            with closing(files.read_only(self._folder, "usage", LOCK_SEC)) as connection, translated():
                self._revoked.update(connection.execute(REVOCATIONS).fetchall())
        except StoreMismatch as error:
            raise StoreUnavailable(error.message) from error
        for key_id, stored in kept.items():
            if stored.key.revoked_at is not None:
                self._revoked[key_id] = stored.key.revoked_at
        for key_id in self._revoked.keys() & kept.keys():
            kept[key_id] = replace(kept[key_id], key=replace(kept[key_id].key, revoked_at=self._revoked[key_id]))
        return kept


def _file_state(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - called for every unknown key, and Path takes twice as long
    except OSError:
        return None
    if not found.st_size:
        # Opening a database creates an empty log, so an empty log is treated as a missing log.
        return None
    # Opening a database also sets the owner of its log, which changes the log's ctime, so the ctime is ignored.
    changed = 0 if path.endswith("-wal") else found.st_ctime_ns
    return found.st_ino, found.st_size, found.st_mtime_ns, changed


class SqliteKeyStore(KeyStore):
    """The keys and the audit log in `keys.sqlite3`."""

    def __init__(self, folder: Path, now_ms: Callable[[], int]) -> None:
        self._folder = folder
        self._now_ms = now_ms
        self._connection: sqlite3.Connection = read_write(folder, "keys")
        # If `usage` cannot be read or written now, the next command or the next start of the service tries again.
        with suppress(StoreUnavailable, StoreMismatch):
            self.settle_revocations()

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def changing(self) -> Iterator[AuditedTransaction]:
        with translated(), writing(self._connection, WAIT_SEC["keys"]):
            yield transaction_on(self._connection)

    def change(self, key_id: str, change: Callable[[Key], Key], act: Act, now_ms: int, by: Actor) -> Key:
        changed = super().change(key_id, change, act, now_ms, by)
        if changed.revoked_at is not None:
            with suppress(StoreUnavailable, StoreMismatch):
                self._remember([(key_id, changed.revoked_at)])
        return changed

    def settle_revocations(self) -> None:
        """Make both files agree on the revoked keys, in case one of them was restored from an older backup."""
        with closing(files.read_only(self._folder, "usage")) as usage, translated():
            remembered: dict[str, int] = dict(usage.execute(REVOCATIONS).fetchall())
        keys = {key.key_id: key for key in self.all()}

        def revoked(key: Key) -> Key:
            return key if key.revoked_at is not None else replace(key, revoked_at=remembered[key.key_id])

        for key_id in remembered:
            if key_id in keys and keys[key_id].revoked_at is None:
                self.change(key_id, revoked, Act.REVOCATION_RESTORED, self._now_ms(), AUTOMATIC)
        self._remember(
            (key_id, key.revoked_at)
            for key_id, key in keys.items()
            if key.revoked_at is not None and key_id not in remembered
        )

    def _remember(self, revoked: Iterable[tuple[str, int]]) -> None:
        rows = list(revoked)
        if rows:
            with closing(read_write(self._folder, "usage")) as usage, translated(), writing(usage, WAIT_SEC["usage"]):
                usage.executemany(REMEMBER, rows)


# --- the audit log ------------------------------------------------------------------


# The columns are those of `to_row`.
_APPEND = """
    INSERT INTO audit (at, act, actor, via, host, key_id, changes, detail) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""


def append(connection: sqlite3.Connection, entries: Iterable[AuditEntry]) -> None:
    """Write entries within the open transaction."""
    connection.executemany(_APPEND, map(to_row, entries))


def transaction_on(connection: sqlite3.Connection) -> AuditedTransaction:
    return AuditedTransaction(
        lambda statement, **values: connection.execute(statement, values).fetchall(),
        lambda entries: append(connection, entries),
    )


@contextmanager
def changing_devices(folder: Path) -> Iterator[AuditedTransaction]:
    with closing(read_write(folder, "keys")) as connection, translated(), writing(connection, WAIT_SEC["keys"]):
        yield transaction_on(connection)
