"""Issues, updates, rotates and revokes keys, and audits each change. Only hashes of secrets are stored."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar
from unicodedata import category

from msgspec import Struct, json
from msgspec.structs import asdict, replace

from counterfoil.domain import credentials
from counterfoil.domain.access import DEFAULT_PER_DAY, DEFAULT_PER_MIN, Key, Scope, oldest_first, successors_of
from counterfoil.domain.audit import Act, Actor, AuditEntry, FieldChange, field_changes
from counterfoil.domain.credentials import Credential
from counterfoil.model.messages import Message, MessageError
from counterfoil.model.pos_values import MAX_ID_BYTES
from counterfoil.ports import AuditedTransaction, StoredKey

MAX_LIMIT = 1_000_000_000
MAX_LABEL_LENGTH = 200

Randomness = Callable[[int], bytes]


# The statements are written for SQLite, and a store on PostgreSQL translates them: see `operator_reads.py`.
_ALL = "SELECT body FROM keys"
_ONE = "SELECT body FROM keys WHERE key_id = :key_id"
_ADD = "INSERT INTO keys (key_id, secret_digest, body) VALUES (:key_id, :digest, :body) RETURNING key_id"
_CHANGE = "UPDATE keys SET body = :body WHERE key_id = :key_id RETURNING key_id"


class KeyStore(ABC):
    """The keys of a store and its audit log, for the operator. Audit entries are added and never changed or deleted.

    A back end opens transactions, of which only one at a time can change keys. So the second of two rotations finds the
    successor that the first one created.
    """

    # Running services read all keys again when the generation changes.
    NEXT_GENERATION: ClassVar[str] = "UPDATE generation SET number = number + 1 RETURNING number"

    @abstractmethod
    def changing(self) -> AbstractContextManager[AuditedTransaction]: ...

    @abstractmethod
    def close(self) -> None: ...

    def add(self, kept: StoredKey, entries: Sequence[AuditEntry]) -> None:
        with self.changing() as transaction:
            transaction.ask(_ADD, key_id=kept.key.key_id, digest=kept.secret_digest, body=json.encode(kept.key))
            transaction.ask(self.NEXT_GENERATION)
            transaction.audit(entries)

    def all(self) -> list[Key]:
        """Return all keys, oldest first."""
        with self.changing() as transaction:
            return oldest_first(transaction.ask(_ALL))

    def change(self, key_id: str, change: Callable[[Key], Key], act: Act, now_ms: int, by: Actor) -> Key:
        """Replace a key with the result of `change`, with an audit entry, and return it."""
        with self.changing() as transaction:
            found = key_in(oldest_first(transaction.ask(_ONE, key_id=key_id)), key_id)
            changed = change(found)
            transaction.ask(_CHANGE, key_id=key_id, body=json.encode(changed))
            transaction.ask(self.NEXT_GENERATION)
            if changes := field_changes(found, changed):
                transaction.audit([AuditEntry(at=now_ms, act=act, actor=by, key_id=key_id, changes=changes)])
            return changed

    def record(self, entry: AuditEntry) -> None:
        """Add an entry to the audit log."""
        with self.changing() as transaction:
            transaction.audit([entry])


class KeyIssuingError(MessageError):
    """The operation is not possible; the message says why."""


class KeyRevoked(KeyIssuingError):
    """The key is revoked, so it cannot be changed."""


CHANGED_MEANWHILE = Message(
    "changed_meanwhile",
    "key {key_id} was changed by somebody else in the meantime, so nothing was done. Run `counterfoil keys show "
    "{key_id}`, then run the command again.",
)
ALREADY_ROTATED = Message(
    "already_rotated", "key {key_id} already has the successor {successors}, so no further successor was issued."
)
ALREADY_ROTATED_OFTEN = Message(
    "already_rotated_often", "key {key_id} already has the successors {successors}, so no further successor was issued."
)


class KeyConflict(KeyIssuingError):
    """The key has changed since the operator last saw it, so nothing was done."""


class AlreadyRotated(KeyConflict):
    """The key has valid successors that the operator does not know of, so no further successor was issued."""

    def __init__(self, key_id: str, successors: list[str]) -> None:
        message = ALREADY_ROTATED if len(successors) == 1 else ALREADY_ROTATED_OFTEN
        super().__init__(message(key_id=key_id, successors=successors))
        self.successors = successors


class Grant(Struct, frozen=True, kw_only=True):
    """The scope, limits and permissions of a new key. If `revokes_at` is set, the key ends at that time."""

    scope: Scope
    label: str = ""
    per_min: int = DEFAULT_PER_MIN
    per_day: int = DEFAULT_PER_DAY
    personal_data: bool = False
    messaging_lookup: bool = False
    revokes_at: int | None = None


class KeyChanges(Struct, frozen=True, kw_only=True):
    """Changes to a key. None leaves a field unchanged. The scope never changes."""

    label: str | None = None
    per_min: int | None = None
    per_day: int | None = None
    personal_data: bool | None = None
    messaging_lookup: bool | None = None

    def changed_fields(self) -> dict[str, object]:
        return {name: value for name, value in asdict(self).items() if value is not None}


class Issued(Struct, frozen=True):
    """A key, and its credential as the string that clients send. `replaces` is the key that it was rotated from."""

    key: Key
    text: str
    replaces: Key | None = None


def issue(key_store: KeyStore, grant: Grant, random_bytes: Randomness, now_ms: int, by: Actor) -> Issued:
    return import_key(key_store, grant, credentials.generate(random_bytes), now_ms, by)


def import_key(key_store: KeyStore, grant: Grant, credential: Credential, now_ms: int, by: Actor) -> Issued:
    """Issue a key for an existing credential."""
    key = Key(key_id=credential.key_id, created_at=now_ms, **asdict(grant))
    key_store.add(StoredKey(_validated(key), credentials.digest(credential.secret)), [_issued(key, now_ms, by)])
    return Issued(key, credentials.format_key(credential))


def rotate(
    key_store: KeyStore,
    key_id: str,
    random_bytes: Randomness,
    now_ms: int,
    by: Actor,
    revoke_old_at: int | None = None,
    *,
    shown: Key | None = None,
    known_successors: Collection[str] = (),
) -> Issued:
    """Issue a successor with the same scope, limits and permissions.

    The old key stays valid until it is revoked, or until `revoke_old_at` if that is given. If the key has a valid
    successor that is not in `known_successors`, raise AlreadyRotated. `shown` is as in `update`.
    """
    if revoke_old_at is not None:
        _require_future(revoke_old_at, now_ms)
    credential = credentials.generate(random_bytes)

    with key_store.changing() as transaction:
        keys = oldest_first(transaction.ask(_ALL))
        old = key_in(keys, key_id)
        if old.is_revoked(now_ms):
            raise KeyIssuingError(
                Message(
                    "rotates_revoked",
                    "key {key_id} is revoked and cannot be rotated; issue a new key instead.",
                    key_id=key_id,
                )
            )
        valid = [key.key_id for key in successors_of(keys, key_id) if not key.is_revoked(now_ms)]
        unknown = [successor_id for successor_id in valid if successor_id not in known_successors]
        if unknown:
            raise AlreadyRotated(key_id, unknown)
        _require_unchanged(old, shown)
        derived = {"created_at": now_ms, "successor_of": key_id, "family": old.lineage, "revokes_at": None}
        successor = _validated(replace(old, key_id=credential.key_id, **derived))
        ending = old if revoke_old_at is None else replace(old, revokes_at=revoke_old_at)
        digest = credentials.digest(credential.secret)
        transaction.ask(_CHANGE, key_id=key_id, body=json.encode(ending))
        transaction.ask(_ADD, key_id=successor.key_id, digest=digest, body=json.encode(successor))
        transaction.ask(key_store.NEXT_GENERATION)
        transaction.audit(_rotation_entries(old, ending, successor, by))
    return Issued(successor, credentials.format_key(credential), ending)


def _rotation_entries(old: Key, ending: Key, successor: Key, by: Actor) -> list[AuditEntry]:
    now_ms, named = successor.created_at, {"successor": FieldChange(None, successor.key_id)}
    entries = [
        AuditEntry(at=now_ms, act=Act.KEY_ROTATED, actor=by, key_id=old.key_id, changes=named),
        _issued(successor, now_ms, by),
    ]
    if scheduled := field_changes(old, ending):
        act = Act.REVOCATION_SCHEDULED
        entries.append(AuditEntry(at=now_ms, act=act, actor=by, key_id=old.key_id, changes=scheduled))
    return entries


def update(
    key_store: KeyStore, key_id: str, changes: KeyChanges, now_ms: int, by: Actor, shown: Key | None = None
) -> Key:
    """Change a key. Raise KeyRevoked if it is revoked, or KeyConflict if it is not as the operator saw it (`shown`)."""

    def updated(key: Key) -> Key:
        require_not_revoked(key, now_ms)
        _require_unchanged(key, shown)
        return _validated(replace(key, **changes.changed_fields()))

    return key_store.change(key_id, updated, Act.KEY_CHANGED, now_ms, by)


def revoke(key_store: KeyStore, key_id: str, now_ms: int, by: Actor) -> Key:
    """Revoke a key permanently. A key that is already revoked keeps its original time of revocation."""

    def revoked(key: Key) -> Key:
        if key.revoked_at is not None:
            return key
        return replace(key, revoked_at=key.revokes_at if key.is_revoked(now_ms) else now_ms)

    return key_store.change(key_id, revoked, Act.KEY_REVOKED, now_ms, by)


def schedule_revocation(key_store: KeyStore, key_id: str, at: int, now_ms: int, by: Actor) -> Key:
    """Schedule the revocation of a key, replacing any earlier schedule. A revoked key is not changed."""
    _require_future(at, now_ms)

    def scheduled(key: Key) -> Key:
        return key if key.is_revoked(now_ms) else replace(key, revokes_at=at)

    return key_store.change(key_id, scheduled, Act.REVOCATION_SCHEDULED, now_ms, by)


def key_in(keys: Iterable[Key], key_id: str) -> Key:
    """Return the key with this ID. Raise `KeyIssuingError` if there is none."""
    for key in keys:
        if key.key_id == key_id:
            return key
    raise KeyIssuingError(
        Message(
            "unknown_key",
            "there is no key {key_id} in this store. Run `counterfoil keys list` to see all keys.",
            key_id=key_id,
        )
    )


def _issued(key: Key, now_ms: int, by: Actor) -> AuditEntry:
    changes = field_changes(None, key)
    return AuditEntry(at=now_ms, act=Act.KEY_ISSUED, actor=by, key_id=key.key_id, changes=changes)


def require_not_revoked(key: Key, now_ms: int) -> None:
    """Raise KeyRevoked if the key is revoked. A revocation that is only scheduled does not count."""
    if key.is_revoked(now_ms):
        raise KeyRevoked(
            Message(
                "changes_revoked",
                "key {key_id} is revoked, so it cannot be changed. Issue a new key instead.",
                key_id=key.key_id,
            )
        )


def _require_unchanged(key: Key, shown: Key | None) -> None:
    if shown is not None and key != shown:
        raise KeyConflict(CHANGED_MEANWHILE(key_id=key.key_id))


def _require_future(revocation_at: int, now_ms: int) -> None:
    if revocation_at <= now_ms:
        raise KeyIssuingError(Message("past_revocation", "the time of a scheduled revocation must be in the future."))


MINUTE_LIMIT = Message("minute_limit", "the limit per minute must be between 1 and {most}, not {number}.")
DAY_LIMIT = Message("day_limit", "the limit per day must be between 1 and {most}, not {number}.")


def _validated(key: Key) -> Key:
    for message, limit in ((MINUTE_LIMIT, key.per_min), (DAY_LIMIT, key.per_day)):
        if not 1 <= limit <= MAX_LIMIT:
            raise KeyIssuingError(message(most=MAX_LIMIT, number=limit))
    if len(key.label) > MAX_LABEL_LENGTH:
        raise KeyIssuingError(
            Message("long_label", "a label must not be longer than {most} characters.", most=MAX_LABEL_LENGTH)
        )
    if not _is_plain_text(key.label):
        raise KeyIssuingError(
            Message("label_characters", "a label must not contain line breaks, control characters or invalid UTF-8.")
        )
    identifier = Message("shop_id", "shop ID") if key.scope.kind == "shop" else Message("franchise_id", "franchise ID")
    if not key.scope.id.strip():
        raise KeyIssuingError(Message("blank_id", "a {id} must not be blank.", id=identifier))
    if not _is_plain_text(key.scope.id):
        raise KeyIssuingError(
            Message(
                "id_characters",
                "a {id} must not contain line breaks, control characters or invalid UTF-8.",
                id=identifier,
            )
        )
    if len(key.scope.id.encode()) > MAX_ID_BYTES:
        raise KeyIssuingError(
            Message("long_id", "a {id} must not be longer than {most} bytes.", id=identifier, most=MAX_ID_BYTES)
        )
    return key


def _is_plain_text(text: str) -> bool:
    """Return whether the text has no line breaks, no other control characters and no surrogates (invalid UTF-8)."""
    return not any(category(character) in ("Cc", "Cs", "Zl", "Zp") for character in text)
