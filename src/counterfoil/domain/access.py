"""Keys: what a caller is bound to and what it is allowed to see."""

from typing import Literal

from msgspec import Struct

ScopeKind = Literal["shop", "franchise"]

DEFAULT_PER_MIN = 60
DEFAULT_PER_DAY = 10_000


class Scope(Struct, frozen=True):
    """One shop or one franchise. A request can only ask for less."""

    kind: ScopeKind
    id: str


class Key(Struct, frozen=True, kw_only=True):
    """An issued API key, without its secret."""

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

    @property
    def lineage(self) -> str:
        """The first key of the line that rotation made; what one of them began another can go on with."""
        return self.family or self.key_id
