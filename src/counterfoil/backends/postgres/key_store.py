"""Issues, changes, rotates and revokes keys on behalf of the operator."""

from collections.abc import Callable, Sequence

from msgspec import json

from counterfoil.backends.postgres.admin_connections import Connection, ReconnectingConnection, translated
from counterfoil.backends.postgres.audit import append
from counterfoil.backends.postgres.deployment import fingerprint_of
from counterfoil.domain.access import Key
from counterfoil.domain.audit import AuditEntry
from counterfoil.domain.key_rotation import KeyRotation, RotateKey, successors_of
from counterfoil.ports import DescribeChange, StoredKey

_ALL = "SELECT body FROM keys"
_FIND = "SELECT body FROM keys WHERE key_id = %s"
_LOCK = "SELECT body FROM keys WHERE key_id = %s FOR UPDATE"
_ADD = "INSERT INTO keys (key_id, secret_digest, body) VALUES (%s, %s, %s)"
_CHANGE = "UPDATE keys SET body = %s WHERE key_id = %s"
# Running services read all keys again when the generation changes.
NEXT_GENERATION = "UPDATE generation SET number = number + 1, at = clock_timestamp()"

_key = json.Decoder(Key).decode


def all_keys(connection: Connection) -> list[Key]:
    """Return all keys, oldest first."""
    keys = [_key(body) for (body,) in connection.execute(_ALL)]
    return sorted(keys, key=lambda key: (key.created_at, key.key_id))


class PostgresKeyStore:
    """The table of keys. It cannot be changed while `counterfoil copy` is filling the store."""

    def __init__(self, url: str) -> None:
        self._connection = ReconnectingConnection(url)

    def close(self) -> None:
        self._connection.close()

    def add(self, kept: StoredKey, entries: Sequence[AuditEntry]) -> None:
        with translated(), self._connection().transaction():
            fingerprint_of(self._connection())
            self._connection().execute(_ADD, (kept.key.key_id, kept.secret_digest, json.encode(kept.key)))
            self._connection().execute(NEXT_GENERATION)
            append(self._connection(), entries)

    def all(self) -> list[Key]:
        with translated():
            return all_keys(self._connection())

    def find(self, key_id: str) -> Key | None:
        with translated():
            row = self._connection().execute(_FIND, (key_id,)).fetchone()
        return _key(row[0]) if row else None

    def change(self, key_id: str, change: Callable[[Key], Key], describe: DescribeChange) -> Key | None:
        with translated(), self._connection().transaction():
            fingerprint_of(self._connection())
            row = self._connection().execute(_LOCK, (key_id,)).fetchone()
            if not row:
                return None
            before = _key(row[0])
            changed = change(before)
            self._connection().execute(_CHANGE, (json.encode(changed), key_id))
            self._connection().execute(NEXT_GENERATION)
            entry = describe(before, changed)
            append(self._connection(), [entry] if entry else [])
            return changed

    def rotate(self, key_id: str, rotate: RotateKey) -> KeyRotation | None:
        with translated(), self._connection().transaction():
            connection = self._connection()
            fingerprint_of(connection)
            # A second rotation of this key waits for the lock until the first commits, so it sees the new successor.
            row = connection.execute(_LOCK, (key_id,)).fetchone()
            if not row:
                return None
            rotation = rotate(_key(row[0]), successors_of(all_keys(connection), key_id))
            successor = rotation.successor
            connection.execute(_CHANGE, (json.encode(rotation.old), key_id))
            connection.execute(_ADD, (successor.key_id, rotation.secret_digest, json.encode(successor)))
            connection.execute(NEXT_GENERATION)
            append(connection, rotation.entries)
            return rotation
