"""Issues, updates, rotates and revokes keys.

Randomness and the current time are passed as arguments. A secret is returned
only once, in `Issued`, and only its hash is stored.
"""

from collections.abc import Callable
from unicodedata import category

from msgspec import Struct
from msgspec.structs import asdict, replace

from counterfoil.domain import credentials
from counterfoil.domain.access import DEFAULT_PER_DAY, DEFAULT_PER_MIN, Key, Scope
from counterfoil.domain.credentials import Credential
from counterfoil.ports import KeyStore, StoredKey

MAX_LIMIT = 1_000_000_000
MAX_LABEL_LENGTH = 200

Randomness = Callable[[int], bytes]


class KeyIssuingError(Exception):
    """The operation is not possible; the message says why."""


class Grant(Struct, frozen=True, kw_only=True):
    """The scope, limits and permissions of a new key."""

    scope: Scope
    label: str = ""
    per_min: int = DEFAULT_PER_MIN
    per_day: int = DEFAULT_PER_DAY
    personal_data: bool = False
    messaging_lookup: bool = False


class KeyChanges(Struct, frozen=True, kw_only=True):
    """Changes to a key. None leaves a field unchanged. The scope never changes."""

    label: str | None = None
    per_min: int | None = None
    per_day: int | None = None
    personal_data: bool | None = None
    messaging_lookup: bool | None = None

    def changed_fields(self) -> dict[str, object]:
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in values.items() if value is not None}


class Issued(Struct, frozen=True):
    """A key, and its credential as the text that clients send."""

    key: Key
    text: str


def issue(key_store: KeyStore, grant: Grant, random_bytes: Randomness, now_ms: int) -> Issued:
    return import_key(key_store, grant, credentials.generate(random_bytes), now_ms)


def import_key(key_store: KeyStore, grant: Grant, credential: Credential, now_ms: int) -> Issued:
    """Issue a key for an existing credential."""
    return _add(key_store, credential, Key(key_id=credential.key_id, created_at=now_ms, **asdict(grant)))


def rotate(
    key_store: KeyStore, key_id: str, random_bytes: Randomness, now_ms: int, revoke_old_at: int | None = None
) -> Issued:
    """Issue a successor with the same scope, limits and permissions.

    The old key stays valid until it is revoked, or until `revoke_old_at` if that is given.
    """
    old = find(key_store, key_id)
    if old.is_revoked(now_ms):
        raise KeyIssuingError(f"key {key_id} is revoked and cannot be rotated; issue a new key instead.")
    successor = replace(old, created_at=now_ms, successor_of=old.key_id, family=old.lineage, revokes_at=None)
    issued = _add(key_store, credentials.generate(random_bytes), successor)
    if revoke_old_at is not None:
        schedule_revocation(key_store, key_id, revoke_old_at, now_ms)
    return issued


def update(key_store: KeyStore, key_id: str, changes: KeyChanges) -> Key:
    return _apply_change(key_store, key_id, lambda key: _validated(replace(key, **changes.changed_fields())))


def revoke(key_store: KeyStore, key_id: str, now_ms: int) -> Key:
    """Revoke a key permanently. A key that is already revoked keeps its original time of revocation."""

    def revoked(key: Key) -> Key:
        if key.revoked_at is not None:
            return key
        return replace(key, revoked_at=key.revokes_at if key.is_revoked(now_ms) else now_ms)

    return _apply_change(key_store, key_id, revoked)


def schedule_revocation(key_store: KeyStore, key_id: str, at: int, now_ms: int) -> Key:
    """Schedule the revocation of a key, replacing any earlier schedule. A revoked key is not changed."""
    if at <= now_ms:
        raise KeyIssuingError("the time of a scheduled revocation must be in the future.")
    return _apply_change(key_store, key_id, lambda key: key if key.is_revoked(now_ms) else replace(key, revokes_at=at))


def find(key_store: KeyStore, key_id: str) -> Key:
    key = key_store.find(key_id)
    if key is None:
        raise _unknown_key(key_id)
    return key


def _add(key_store: KeyStore, credential: Credential, draft: Key) -> Issued:
    key = _validated(replace(draft, key_id=credential.key_id))
    key_store.add(StoredKey(key, credentials.digest(credential.secret)))
    return Issued(key, credentials.format_key(credential))


def _apply_change(key_store: KeyStore, key_id: str, change: Callable[[Key], Key]) -> Key:
    changed = key_store.change(key_id, change)
    if changed is None:
        raise _unknown_key(key_id)
    return changed


def _validated(key: Key) -> Key:
    for name, limit in (("per minute", key.per_min), ("per day", key.per_day)):
        if not 1 <= limit <= MAX_LIMIT:
            raise KeyIssuingError(f"the limit {name} must be between 1 and {MAX_LIMIT:,}, not {limit:,}.")
    if len(key.label) > MAX_LABEL_LENGTH or not _is_one_line(key.label):
        raise KeyIssuingError(f"a label must be one line of at most {MAX_LABEL_LENGTH} characters.")
    if not key.scope.id.strip() or not _is_one_line(key.scope.id):
        raise KeyIssuingError(f"a {key.scope.kind} ID must be one line and must not be blank.")
    return key


def _is_one_line(text: str) -> bool:
    """Return whether the text has no line breaks, no other control characters and no invalid UTF-8."""
    return not any(category(character) in ("Cc", "Cs", "Zl", "Zp") for character in text)


def _unknown_key(key_id: str) -> KeyIssuingError:
    return KeyIssuingError(f"there is no key {key_id} in this store. Run `counterfoil keys list` to see all keys.")
