"""Finds keys that the operator should look at: unused, idle, old, with needless permissions, or at their quota."""

from enum import Enum

from msgspec import Struct

from counterfoil.domain.access import Key
from counterfoil.domain.calendar import DAY_MS

# A key is reported as never used only if it was issued at least this long ago.
NEW_KEY_MS = 7 * DAY_MS
IDLE_MS = 90 * DAY_MS
ROTATE_MS = 365 * DAY_MS
# The permission to read personal data counts as unused only if the key was issued at least this long ago.
UNUSED_PERMISSION_MS = 30 * DAY_MS


class KeyWarning(Enum):
    """A reason to look at a key."""

    NEVER_USED = "never_used"
    IDLE = "idle"
    NOT_ROTATED = "not_rotated"
    PERSONAL_DATA_UNUSED = "personal_data_unused"
    AT_QUOTA = "at_quota"


class KeyUse(Struct, frozen=True, kw_only=True):
    """How a key has been used. Times are None if no use is known.

    The store keeps `last_used` for 400 days and `last_disclosed` for 90 days.
    """

    last_used: int | None = None
    last_disclosed: int | None = None
    requests_today: int = 0


def key_warnings(key: Key, use: KeyUse, now_ms: int) -> list[KeyWarning]:
    """Return the reasons to look at a key. A revoked key has none."""
    if key.is_revoked(now_ms):
        return []
    age = now_ms - key.created_at
    found = {
        KeyWarning.NEVER_USED: use.last_used is None and age >= NEW_KEY_MS,
        KeyWarning.IDLE: use.last_used is not None and now_ms - use.last_used >= IDLE_MS,
        # Rotation issues a new key, so the age of a key is the time since the latest rotation.
        KeyWarning.NOT_ROTATED: age >= ROTATE_MS,
        KeyWarning.PERSONAL_DATA_UNUSED: (
            key.personal_data and use.last_disclosed is None and age >= UNUSED_PERMISSION_MS
        ),
        KeyWarning.AT_QUOTA: use.requests_today >= key.per_day,
    }
    return [warning for warning, is_found in found.items() if is_found]
