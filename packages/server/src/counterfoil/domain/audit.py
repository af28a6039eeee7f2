"""The audit log: who did what to keys and to the store, when. It has no secrets, and no data of members or bills."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

from msgspec import Struct, json

from counterfoil.domain.access import Key, permissions
from counterfoil.model.calendar import iso_utc

Via = Literal["cli", "console", "automatic"]
FieldValue = int | str | list[str] | None


class Actor(Struct, frozen=True):
    """The user, console operator or process that acted. `host` is a machine, a device's ID or a proxy's address."""

    name: str
    via: Via
    host: str


# The actor when Counterfoil itself makes the files of a store consistent again.
AUTOMATIC = Actor("counterfoil", "automatic", "")


class Act(StrEnum):
    """The actions that are recorded. A newer version may have stored actions that are not listed here."""

    KEY_ISSUED = "key_issued"
    KEY_CHANGED = "key_changed"
    KEY_ROTATED = "key_rotated"
    REVOCATION_SCHEDULED = "revocation_scheduled"
    KEY_REVOKED = "key_revoked"
    # A revocation was applied again after an older copy of the keys had been restored.
    REVOCATION_RESTORED = "revocation_restored"
    STORE_CREATED = "store_created"
    FILE_RECREATED = "file_recreated"
    STORE_BACKED_UP = "store_backed_up"
    STORE_RESTORED = "store_restored"
    STORE_MOVED = "store_moved"
    RECORDS_PRUNED = "records_pruned"
    SCHEMA_MIGRATED = "schema_migrated"
    TABLES_DISTRIBUTED = "tables_distributed"
    ROLES_GRANTED = "roles_granted"
    CONSOLE_LINK_MADE = "console_link_made"
    CONSOLE_SIGNED_IN = "console_signed_in"
    CONSOLE_SIGNED_OUT = "console_signed_out"
    DEVICE_REVOKED = "device_revoked"
    # An operator looked at the text of a rejected line, which may contain personal data.
    REJECT_REVEALED = "reject_revealed"
    # An operator closed open items, although their lines or files were not loaded.
    ITEMS_RESOLVED = "items_resolved"
    # An operator set a shop's franchise, closing time or time zone.
    SHOP_CHANGED = "shop_changed"
    # An operator removed a shop that had no bills.
    SHOP_REMOVED = "shop_removed"
    DELIVERY_ACCEPTED = "delivery_accepted"
    DELIVERY_DISCARDED = "delivery_discarded"
    LOAD_UNDONE = "load_undone"
    # An operator looked up with the console what is known of a member.
    MEMBER_LOOKED_UP = "member_looked_up"
    MEMBER_FORGOTTEN = "member_forgotten"
    # An operator brought a file in with the console, and accepted its totals or discarded it.
    FILE_BROUGHT_IN = "file_brought_in"
    FILE_ACCEPTED = "file_accepted"
    FILE_DISCARDED = "file_discarded"
    # An operator accepted how the columns of an export are read.
    MAPPING_ACCEPTED = "mapping_accepted"


class FieldChange(Struct, frozen=True):
    """The value of a field before and after a change. None means that the field had or has no value."""

    before: FieldValue
    after: FieldValue


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One action in the audit log. `detail` describes an action that does not change the fields of a key."""

    at: int
    act: str
    actor: Actor
    key_id: str | None = None
    changes: Mapping[str, FieldChange] = {}
    detail: str = ""


class Backups(Struct, frozen=True):
    """When the latest backup of a store was made, if one is recorded, and when the store was created or moved.

    One that is known to be gone or incomplete is none: if a later one is, `lost` is the latest of these, with its
    time. `is_checked` says whether somebody has looked at the files of the latest one.
    """

    latest_at: int | None = None
    since: int | None = None
    lost: tuple[int, str] | None = None
    is_checked: bool = False


def field_changes(before: Key | None, after: Key) -> dict[str, FieldChange]:
    """Return the changed fields of a key, named as in `counterfoil keys list --json`."""
    old = _fields(before) if before else {}
    changes = {}
    for name, value in _fields(after).items():
        if old.get(name) != value:
            changes[name] = FieldChange(old.get(name), value)
    return changes


def _fields(key: Key) -> dict[str, FieldValue]:
    return {
        "scope": f"{key.scope.kind} {key.scope.id}",
        "label": key.label or None,
        "perMin": key.per_min,
        "perDay": key.per_day,
        "permissions": permissions(key) or None,
        "successorOf": key.successor_of,
        "revokesAt": None if key.revokes_at is None else iso_utc(key.revokes_at),
        "revokedAt": None if key.revoked_at is None else iso_utc(key.revoked_at),
    }


# --- how an entry is stored ------------------------------------------------------

_changes = json.Decoder(dict[str, FieldChange]).decode


def to_row(entry: AuditEntry) -> tuple[Any, ...]:
    """Return an entry as a database row, in the order of the columns of the table `audit`."""
    actor = entry.actor
    changes = json.encode(entry.changes).decode()
    return entry.at, str(entry.act), actor.name, actor.via, actor.host, entry.key_id, changes, entry.detail


def from_row(row: tuple[Any, ...]) -> AuditEntry:
    at, act, name, via, host, key_id, changes, detail = row
    return AuditEntry(
        at=at, act=act, actor=Actor(name, via, host), key_id=key_id, changes=_changes(changes), detail=detail
    )
