"""The interfaces that the service requires of a store, and the errors that a store may raise.

Reads return finished bytes where the store has them. Every read that returns
rows also returns the horizon: the instant up to which those rows are complete.
A back end may raise `StoreUnavailable` or one of its subclasses from any of
these methods, and `StoreMismatch` when a store is opened.
"""

from collections.abc import Callable, Sequence
from datetime import date
from enum import Enum
from typing import Protocol

from msgspec import Struct

from counterfoil.domain.access import Key, Scope
from counterfoil.domain.activity import ShopActivity
from counterfoil.domain.allowance import Admitted, TooFast
from counterfoil.domain.change_feed import FeedPage, FeedPosition, Window
from counterfoil.domain.changes import Change, KnownFacts, Outcome
from counterfoil.domain.day_totals import DigestPage, ShopDay
from counterfoil.domain.members import Base
from counterfoil.domain.paging import Listing, Position, StoredCursor


class StoreUnavailable(Exception):
    """The store cannot be read or written now; the message is for the operator."""


class StoreUnreachable(StoreUnavailable):
    """The store does not respond, so it is unknown whether its data is intact."""


class StoreBusy(StoreUnavailable):
    """The store works, but it is locked by another process or has too many requests waiting."""


class StoreMismatch(Exception):
    """This version of Counterfoil cannot use the store: its schema or its secret does not match."""


class Clock(Protocol):
    """The two clocks of the machine. Tests pass their own."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970 UTC on the wall clock, which may jump forwards or backwards."""

    def steady_us(self) -> int:
        """Return microseconds on a clock that only moves forward and is shared by all processes of the machine."""

    def boot_id(self) -> str:
        """Return an ID of the current boot. Values of `steady_us` are comparable only within one boot."""


# --- reading the books -------------------------------------------------------


class ShopList(Struct, frozen=True):
    """Shops as finished JSON, in a stable order."""

    horizon: int
    bodies: list[bytes]


class BillPage(Struct, frozen=True):
    """Bills as finished JSON, separated by commas. `seal` changes if and only if they change.

    `last` is the position of the last row of a full page, and None on a page with fewer rows than requested.
    `continues` is False if the row after which the page should continue has been removed.
    """

    horizon: int
    count: int
    seal: bytes
    bodies: bytes
    last: Position | None
    continues: bool = True


class FoundBill(Struct, frozen=True):
    horizon: int
    seal: bytes
    body: bytes


class MemberPage(Struct, frozen=True):
    """Templates of members in list order, for `domain/member_template.py` to fill in; otherwise as in `BillPage`."""

    horizon: int
    base: Base | None
    count: int
    forms: bytes
    last: Position | None
    continues: bool = True


class FoundMember(Struct, frozen=True):
    horizon: int
    provider_id: str
    base: Base | None
    form: bytes


class FoundAccount(Struct, frozen=True):
    """A member record that has the requested messaging account."""

    channel: str | None
    token: str


class AccountList(Struct, frozen=True):
    """The member records of a base that have a messaging account, most recently created first."""

    horizon: int
    base: Base | None
    accounts: list[FoundAccount]


class Books(Protocol):
    """Read access to shops, bills and members.

    A store may have replicas that lag behind. Each result comes from a single
    server, as of that server's horizon, and only from a server whose horizon
    has reached `reached`. A store reports that something does not exist only
    after it has also asked the server that is furthest ahead.
    """

    async def horizon(self) -> int: ...

    async def shops(self, scope: Scope, reached: int = 0) -> ShopList:
        """Return the shops in scope."""

    async def has_shop(self, scope: Scope, shop_id: str, reached: int = 0) -> bool:
        """Return whether this shop is in scope, even if it has been removed."""

    async def covers(self, scope: Scope, provider_id: str, reached: int = 0) -> bool:
        """Return whether a shop in scope uses this membership base."""

    async def bills_by_day(
        self, scope: Scope, shop_id: str, first: date, last: date, after: Position | None, limit: int, reached: int = 0
    ) -> BillPage | None:
        """Return a page of the bills of these days; None if the shop is not in scope."""

    async def bills_by_change(
        self,
        scope: Scope,
        shop_id: str,
        since: int,
        until: int | None,
        after: Position | None,
        limit: int,
        reached: int = 0,
    ) -> BillPage | None:
        """Return a page of the bills last changed from `since` to `until`; None if the shop is not in scope.

        The horizon of the page has reached `until`. Without `until`, the range ends at the horizon.
        """

    async def changes(
        self, scope: Scope, window: Window, after: FeedPosition | None, limit: int, reached: int = 0
    ) -> FeedPage:
        """Return a page of the feed of changes. The server has reached `window.until` as well as `reached`."""

    async def digests(
        self,
        scope: Scope,
        shop_id: str | None,
        days: tuple[int, int],
        after: ShopDay | None,
        limit: int,
        reached: int = 0,
    ) -> DigestPage:
        """Return a page of the totals per shop and day, of one shop or of all shops in scope."""

    async def bill(self, scope: Scope, bill_id: str, reached: int = 0) -> FoundBill | None: ...

    async def members(self, provider_id: str, after: Position | None, limit: int, reached: int = 0) -> MemberPage: ...

    async def member(self, scope: Scope, token: str, reached: int = 0) -> FoundMember | None:
        """Return a member of a base that a shop in scope uses; None if there is no such member."""

    async def accounts(self, provider_id: str, messaging_hash: str, reached: int = 0) -> AccountList: ...


# --- keys, limits and records ------------------------------------------------


class StoredKey(Struct, frozen=True):
    key: Key
    secret_digest: bytes


class KeyLookup(Protocol):
    """Looks up keys to check requests."""

    async def find(self, key_id: str) -> StoredKey | None:
        """Return the key as this process knows it, which may be slightly out of date."""

    async def find_again(self, key_id: str) -> StoredKey | None:
        """Return the key as it is in the store now. Called before a request is refused, because the key may be new."""


class KeyStore(Protocol):
    """Manages keys on behalf of the operator. The serving side does not use it."""

    def add(self, kept: StoredKey) -> None: ...

    def all(self) -> list[Key]: ...

    def find(self, key_id: str) -> Key | None: ...

    def change(self, key_id: str, change: Callable[[Key], Key]) -> Key | None: ...


class RequestRecord(Struct, frozen=True, kw_only=True):
    """What is recorded about a request. It never contains a parameter or a returned value."""

    at: int
    key_id: str
    route: str
    status: int
    error: str | None
    took_us: int
    personal_base: str | None = None
    personal_members: int = 0


class Meter(Protocol):
    """The minute window and the daily quota, exact across all processes.

    With several servers it also decides which horizon a response reports as
    serverTime. It is never earlier than one that the key's lineage was given
    before, on any node.
    """

    async def admit(self, key: Key) -> Admitted | TooFast: ...

    async def counts(self, key: Key, days: Sequence[date]) -> dict[date, int]: ...


class RequestLog(Protocol):
    """The request records, which the contract requires to be kept for 90 days."""

    def note(self, record: RequestRecord) -> None:
        """Queue the record to be stored soon."""

    async def disclose(self, record: RequestRecord) -> None:
        """Store the record before returning, because personal data is about to be sent."""


class Cursors(Protocol):
    """The cursors that were handed out. Within a listing, each cursor stands for one position."""

    async def find(self, listing: Listing, cursor: str) -> StoredCursor | None:
        """Return what the cursor stands for and renew its lifetime; None if it is not valid in this listing."""

    async def hand_out(self, listing: Listing, held: StoredCursor, fresh: str | None) -> str | None:
        """Return the cursor for a position: an existing one, the row's ID, or `fresh` if that ID is taken.

        Return None if none of them is available; the caller then tries again
        with another `fresh`.
        """


# --- writing the books -------------------------------------------------------


class LoadProgress(Struct):
    """The progress of a load, stored with every batch."""

    number: int
    lines: int = 0
    changed: int = 0
    rejected: int = 0
    finished: bool = False


class Ledger(Protocol):
    """Write access to the books.

    Each call is one transaction. If it changes records, it has one stamp, taken
    under the write lock.
    """

    def facts(self, shop_id: str) -> KnownFacts | None: ...

    def begin_load(self, source: str) -> LoadProgress: ...

    def apply(self, changes: Sequence[Change], progress: LoadProgress | None = None) -> list[Outcome]:
        """Apply the changes. A bill that was read under outdated facts is not written; its outcome is `FACTS_MOVED`."""

    def rewrite_bills(self, most: int) -> bool:
        """Rewrite up to `most` bills under their shop's current facts; return whether there may be more."""

    def advance_horizon(self) -> int:
        """Advance the horizon to the current time and return it. It never moves back."""


# --- inspection -------------------------------------------------------------------


class ServerRole(Enum):
    """The role of a PostgreSQL server. A replica that is too far behind to be read is `BEHIND`."""

    PRIMARY = "primary"
    REPLICA = "replica"
    BEHIND = "behind"
    AWAY = "away"


class ServerState(Struct, frozen=True):
    """The state of a server at one moment; `horizon` is None if it did not answer."""

    name: str
    role: ServerRole
    horizon: int | None = None

    @property
    def is_primary(self) -> bool:
        return self.role is ServerRole.PRIMARY


class LatestLoad(Struct, frozen=True):
    """The progress of the latest load; `idle_ms` is the time since it last wrote a batch."""

    lines: int
    changed: int
    rejected: int
    finished: bool
    idle_ms: int


class StoreExtent(Struct, frozen=True):
    """The store's size on disk, its schema versions, and the version of the database software."""

    size_bytes: int
    schema: str
    software: str


class Permissions(Struct, frozen=True):
    """What a PostgreSQL login may do."""

    login: str
    serves: bool
    loads: bool
    issues_keys: bool
    owns: bool


class Inspection(Protocol):
    """What `doctor` and the admin listener need to know about a store. Each call uses its own connection."""

    def problems(self) -> dict[str, str | None]:
        """Return, for each database, the reason it cannot be used, or None."""
        ...

    def survives_primary(self) -> bool:
        """Return whether the store can be read while its primary is down."""
        ...

    def servers(self) -> Sequence[ServerState]:
        """Return the state of each server, or an empty list for a store with only one."""
        ...

    def knows(self, scope: Scope) -> bool:
        """Return whether a shop in this scope has been loaded; False if the store cannot be read."""
        ...

    def horizon(self) -> int | None:
        """Return the horizon, or None if the store cannot be read."""
        ...

    def latest_load(self, now_ms: int) -> LatestLoad | None: ...

    def shops(self, now_ms: int, *, count_all: bool) -> list[ShopActivity]:
        """Return the shops that were loaded and not removed, by franchise and name. `count_all` counts all bills."""
        ...

    def extent(self) -> StoreExtent: ...

    def permissions(self) -> Permissions | None:
        """Return the permissions of the login; None for an embedded store, which relies on file modes."""
        ...

    def fingerprint(self) -> str | None:
        """Return the fingerprint of the secret that the store was built with, or None for a new store."""
        ...
