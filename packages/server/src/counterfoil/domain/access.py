"""API keys, with their scope, limits and permissions; how much of the limits is used; keys to look at.

For every key, the meter records the instants of the requests that it admitted, in microseconds. These instants never
decrease, even if the clock is set back. The minute window is computed from them and is exact.
"""

from collections.abc import Iterable
from datetime import date
from enum import Enum
from typing import Literal

from msgspec import Struct, json

from counterfoil.model.calendar import DAY_MS, compact, days_until
from counterfoil.model.resources import DayCount, Rate, Today, Usage

ScopeKind = Literal["shop", "franchise"]

DEFAULT_PER_MIN = 60
DEFAULT_PER_DAY = 10_000
# How long a worker trusts the keys in its memory while the store cannot be read. This is less than the five minutes
# that the contract allows for a revocation to take effect, because a request takes time too.
KEYS_TRUSTED_SEC = 270
# The label of a key with which an operator tries requests in the console, and how long it is valid.
TRY_LABEL, TRY_MS = "try it", 15 * 60_000


class Scope(Struct, frozen=True):
    """The shop or the franchise that a key is bound to. A request can narrow the scope but never widen it."""

    kind: ScopeKind
    id: str


class Key(Struct, frozen=True, kw_only=True):
    """An issued API key, without its secret. `revokes_at` is when a scheduled revocation takes effect."""

    key_id: str
    scope: Scope
    label: str = ""
    per_min: int = DEFAULT_PER_MIN
    per_day: int = DEFAULT_PER_DAY
    personal_data: bool = False
    messaging_lookup: bool = False
    created_at: int = 0
    revoked_at: int | None = None
    successor_of: str | None = None
    family: str = ""
    revokes_at: int | None = None

    def is_revoked(self, now_ms: int) -> bool:
        return self.revoked_at is not None or (self.revokes_at is not None and now_ms >= self.revokes_at)

    @property
    def is_for_trying(self) -> bool:
        """Whether the console issued the key to try requests. Such keys are not an integrator's, so lists omit them."""
        return self.label == TRY_LABEL and self.revokes_at == self.created_at + TRY_MS

    @property
    def lineage(self) -> str:
        """The ID of the first key of the lineage. Any key of a lineage can continue a pass that another began."""
        return self.family or self.key_id


decode_key = json.Decoder(Key).decode


def oldest_first(rows: Iterable[tuple[bytes]]) -> list[Key]:
    """Return the keys in rows that contain only the stored form of a key."""
    return sorted((decode_key(body) for (body,) in rows), key=lambda key: (key.created_at, key.key_id))


def successors_of(keys: Iterable[Key], key_id: str) -> list[Key]:
    """Return the keys that were made by rotating this key. Keys made by rotating those are not included."""
    return [key for key in keys if key.successor_of == key_id]


def permissions(key: Key) -> list[str]:
    """Return the names of the key's extra permissions, which are also the flags of `counterfoil keys issue`."""
    granted = (("personal-data", key.personal_data), ("messaging-lookup", key.messaging_lookup))
    return [name for name, is_granted in granted if is_granted]


# --- keys that the operator should look at ----------------------------------

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
    """How a key has been used. The store keeps `last_used` for 400 days and `last_disclosed` for 90 days."""

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


# --- the minute window and the daily quota (Thailand time) ------------------


WINDOW_SEC = 60
WINDOW_US = WINDOW_SEC * 1_000_000
USAGE_DAYS = 7
REQUEST_RECORD_DAYS = 90
DAILY_TOTAL_DAYS = 400


def kept_since(now_ms: int) -> tuple[int, int]:
    """Return the instants since which request records and daily totals are kept."""
    return now_ms - REQUEST_RECORD_DAYS * DAY_MS, now_ms - DAILY_TOTAL_DAYS * DAY_MS


# The operator is warned about a key that has used this fraction of its daily quota.
NEARLY_USED_UP = 0.8


class Admitted(Struct, frozen=True):
    """The request was admitted. `count` is the number of requests today, including this one.

    `horizon` is the newest horizon that was ever reported to the key's lineage: the serverTime of the response. It is
    None on a store with one server, whose horizon never moves back.
    """

    day: date
    count: int
    horizon: int | None = None


class TooFast(Struct, frozen=True):
    """The request was refused, because the minute window is full for another `retry_after_sec` seconds."""

    retry_after_sec: int


def wait_before(oldest_that_blocks: int | None, now: int) -> int:
    """Return the microseconds until the minute window has room for another request, or 0 if it has room now.

    `oldest_that_blocks` is the instant of the `per_min`-th latest admission, if there is one. An admission that is
    exactly 60 seconds old no longer counts.
    """
    return 0 if oldest_that_blocks is None else max(0, oldest_that_blocks + WINDOW_US - now)


def retry_after(wait_us: int) -> int:
    return max(1, -(-wait_us // 1_000_000))


def remaining(key: Key, count: int) -> int:
    return max(0, key.per_day - count)


def usage_report(key: Key, admitted: Admitted, counts: dict[date, int]) -> Usage:
    """Return the usage report. Today's count includes this request."""
    days = days_until(admitted.day, USAGE_DAYS)
    known = counts | {admitted.day: admitted.count}
    return Usage(
        key_id=key.key_id,
        label=key.label,
        scope=key.scope.kind,
        rate=Rate(per_min=key.per_min, per_day=key.per_day),
        today=Today(date=compact(admitted.day), count=admitted.count, remaining=remaining(key, admitted.count)),
        days=[DayCount(date=compact(day), count=known.get(day, 0)) for day in days],
    )
