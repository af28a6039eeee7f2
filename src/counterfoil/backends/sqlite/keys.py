"""Keys: the ring, which checks requests in memory, and the key_store, in which the operator changes keys.

The ring holds every key and looks up every key id in the same dictionary, so
an unknown id takes as long as a known one. It reads the file again after
`REFRESH_SEC`, over a new connection: a revocation takes effect within that
time, and a missing or damaged file is noticed within it.
"""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from msgspec import MsgspecError, json

from counterfoil.backends.sqlite.files import WAIT_SEC, path_of, read_only, read_write, translated, writing
from counterfoil.domain.access import Key
from counterfoil.ports import Clock, StoredKey, StoreMismatch, StoreUnavailable

REFRESH_SEC = 0.5

_ALL = "SELECT key_id, secret_digest, body FROM keys"
_ONE = "SELECT body FROM keys WHERE key_id = ?"
_ADD = "INSERT INTO keys (key_id, secret_digest, body) VALUES (?, ?, ?)"
_CHANGE = "UPDATE keys SET body = ? WHERE key_id = ?"

_GENERATION = "SELECT number FROM generation"
_NEXT_GENERATION = "UPDATE generation SET number = number + 1"

_key = json.Decoder(Key).decode


class SqliteKeyLookup:
    """All keys, at most half a second old."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._kept: dict[str, StoredKey] = {}
        self._generation: tuple[int, int] | None = None
        self._due = 0

    async def find(self, key_id: str) -> StoredKey | None:
        if self._clock.steady_us() >= self._due:
            self._refresh()
        return self._kept.get(key_id)

    async def find_again(self, key_id: str) -> StoredKey | None:
        self._refresh()
        return self._kept.get(key_id)

    def _refresh(self) -> None:
        try:
            connection = read_only(self._folder, "keys")
        except StoreMismatch as error:
            # Another version has migrated the file while this service was running.
            raise StoreUnavailable(str(error)) from error
        try:
            with translated():
                self._read(connection)
        except (OSError, MsgspecError) as error:
            raise StoreUnavailable(f"the keys cannot be read: {error}") from error
        finally:
            connection.close()
        self._due = self._clock.steady_us() + int(REFRESH_SEC * 1_000_000)

    def _read(self, connection: sqlite3.Connection) -> None:
        (number,) = connection.execute(_GENERATION).fetchone()
        generation = (path_of(self._folder, "keys").stat().st_ino, number)
        if generation != self._generation:
            rows = connection.execute(_ALL)
            self._kept = {key_id: StoredKey(_key(body), digest) for key_id, digest, body in rows}
            self._generation = generation


class SqliteKeyStore:
    """Issues, changes and revokes keys for the operator."""

    def __init__(self, folder: Path) -> None:
        self._connection: sqlite3.Connection = read_write(folder, "keys")

    def close(self) -> None:
        self._connection.close()

    def add(self, kept: StoredKey) -> None:
        with translated(), writing(self._connection, WAIT_SEC["keys"]):
            self._connection.execute(_ADD, (kept.key.key_id, kept.secret_digest, json.encode(kept.key)))
            self._connection.execute(_NEXT_GENERATION)

    def all(self) -> list[Key]:
        with translated():
            keys = [_key(body) for _, _, body in self._connection.execute(_ALL)]
        return sorted(keys, key=lambda key: (key.created_at, key.key_id))

    def find(self, key_id: str) -> Key | None:
        with translated():
            row = self._connection.execute(_ONE, (key_id,)).fetchone()
        return _key(row[0]) if row else None

    def change(self, key_id: str, change: Callable[[Key], Key]) -> Key | None:
        """Replace a key with the result of `change`, in one transaction; return None if the key does not exist."""
        with translated(), writing(self._connection, WAIT_SEC["keys"]):
            row = self._connection.execute(_ONE, (key_id,)).fetchone()
            if not row:
                return None
            changed = change(_key(row[0]))
            self._connection.execute(_CHANGE, (json.encode(changed), key_id))
            self._connection.execute(_NEXT_GENERATION)
            return changed
