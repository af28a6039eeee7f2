"""API keys, with their scope, limits and permissions."""

from typing import Literal

from msgspec import Struct

ScopeKind = Literal["shop", "franchise"]

DEFAULT_PER_MIN = 60
DEFAULT_PER_DAY = 10_000
# How long a worker trusts the keys in its memory while the store cannot be read. This is less than the five minutes
# that the contract allows for a revocation to take effect, because a request takes time too.
KEYS_TRUSTED_SEC = 270


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
    def lineage(self) -> str:
        """The ID of the first key of the lineage. Any key of a lineage can continue a pass that another began."""
        return self.family or self.key_id


def permissions(key: Key) -> list[str]:
    """Return the names of the key's extra permissions, which are also the flags of `counterfoil keys issue`."""
    granted = (("personal-data", key.personal_data), ("messaging-lookup", key.messaging_lookup))
    return [name for name, is_granted in granted if is_granted]
