"""What the service asks of a store, and the few errors a store may raise.

Reads answer with finished bytes where the store keeps them. Every read that
carries rows also carries the horizon: an instant up to which those rows are
complete. A back end may raise `StoreUnavailable` from any of these methods.
"""

from collections.abc import Callable, Sequence
from datetime import date
from enum import Enum
from typing import Protocol

from msgspec import Struct

from counterfoil.domain.access import Key, Scope
from counterfoil.domain.allowance import Admitted, TooFast
from counterfoil.domain.bills import ClosedBill
from counterfoil.domain.members import Base, MemberRecord
from counterfoil.domain.paging import Held, Listing, Position
from counterfoil.domain.resources import Shop
from counterfoil.domain.shops import ShopFacts


class StoreUnavailable(Exception):
    """The store cannot be read or written now; the message is for the operator."""


class StoreUnreachable(StoreUnavailable):
    """The store does not answer; whether it still holds what it held is not known."""


class StoreBusy(StoreUnavailable):
    """More requests wait for the store than it can take; nothing is wrong with it."""


class StoreMismatch(Exception):
    """The store is not one this program can use: wrong schema version or wrong secret."""


class Clock(Protocol):
    """The two clocks of the machine; tests bring their own."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since 1970 UTC. It may step either way."""

    def steady_us(self) -> int:
        """Microseconds on a clock that only ever moves forward, shared by all processes of the machine."""

    def boot_id(self) -> str:
        """Names the stretch of time over which `steady_us` is comparable."""


# --- reading the books -------------------------------------------------------


class ShopList(Struct, frozen=True):
    """Finished records of branches, in a stable order."""

    horizon: int
    bodies: list[bytes]


class BillPage(Struct, frozen=True):
    """Finished bills as the list returns them, with commas between; `seal` changes with them and with nothing else.

    `last` is the position of a full page's last row; a page with fewer rows than were asked for has none.
    `continues` is false if the row that the page should continue after has been removed.
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
    """Members' forms in the order of the list, as `domain/forms.py` fills them in; the rest as on a page of bills."""

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


class Account(Struct, frozen=True):
    """A member record that holds the messaging account asked for."""

    channel: str | None
    token: str


class AccountList(Struct, frozen=True):
    """The records of a base that hold an account, the most recently created first."""

    horizon: int
    base: Base | None
    accounts: list[Account]


class Books(Protocol):
    """Shops, bills and members, for reading.

    A store may have replicas that lag. Each answer comes from a single one of
    its servers, as of that server's horizon, and only from a server whose
    horizon has reached `reached`. "Not there" is said only after the server
    that is furthest ahead was asked too.
    """

    async def horizon(self) -> int: ...

    async def shops(self, scope: Scope, reached: int = 0) -> ShopList:
        """The scope's branches."""

    async def has_shop(self, scope: Scope, shop_id: str, reached: int = 0) -> bool:
        """Whether this shop is in scope, removed or not."""

    async def covers(self, scope: Scope, provider_id: str, reached: int = 0) -> bool:
        """Whether a branch in scope uses this membership base."""

    async def bills_by_day(
        self, scope: Scope, shop_id: str, first: date, last: date, after: Position | None, limit: int, reached: int = 0
    ) -> BillPage | None:
        """Bills of these days; None if the shop is not in scope."""

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
        """Bills last changed in `since..until`, which the horizon has reached; without `until`, up to the horizon.

        None if the shop is not in scope.
        """

    async def bill(self, scope: Scope, bill_id: str, reached: int = 0) -> FoundBill | None: ...

    async def members(self, provider_id: str, after: Position | None, limit: int, reached: int = 0) -> MemberPage: ...

    async def member(self, scope: Scope, token: str, reached: int = 0) -> FoundMember | None:
        """A member of a base that a branch in scope uses."""

    async def accounts(self, provider_id: str, messaging_hash: str, reached: int = 0) -> AccountList: ...


# --- keys, limits and records ------------------------------------------------


class KeptKey(Struct, frozen=True):
    key: Key
    secret_digest: bytes


class KeyRing(Protocol):
    """Keys, for checking requests."""

    async def find(self, key_id: str) -> KeptKey | None:
        """The key as this process knows it, which may be a moment behind."""

    async def find_again(self, key_id: str) -> KeptKey | None:
        """The key as the store has it now: asked for before a credential is refused, since it may be new."""


class KeyCabinet(Protocol):
    """Keys, for the operator. Not used by the serving side."""

    def add(self, kept: KeptKey) -> None: ...

    def all(self) -> list[Key]: ...

    def find(self, key_id: str) -> Key | None: ...

    def change(self, key_id: str, change: Callable[[Key], Key]) -> Key | None: ...


class RequestRecord(Struct, frozen=True, kw_only=True):
    """What is kept of a request: never a parameter, never a value that was returned."""

    at: int
    key_id: str
    route: str
    status: int
    error: str | None
    took_us: int
    personal_base: str | None = None
    personal_members: int = 0


class Meter(Protocol):
    """The minute window and the day's count, exact over all processes.

    With several servers it also says what each answer may report as
    serverTime: never less than the key's lineage was given before, on whatever
    node.
    """

    async def admit(self, key: Key) -> Admitted | TooFast: ...

    async def counts(self, key: Key, days: Sequence[date]) -> dict[date, int]: ...


class RequestLog(Protocol):
    """The request records that the contract keeps for 90 days."""

    def note(self, record: RequestRecord) -> None:
        """Keep the record soon."""

    async def disclose(self, record: RequestRecord) -> None:
        """Keep the record before returning: personal data is about to leave."""


class Cursors(Protocol):
    """The cursors that were handed out. Within a listing each stands for one position."""

    async def find(self, listing: Listing, cursor: str) -> Held | None:
        """The cursor, which is valid for another lifetime from now on; None if it is not valid in this listing."""

    async def hand_out(self, listing: Listing, held: Held, fresh: str | None) -> str | None:
        """Return the cursor for a position: one that others hold for it, the row's id, or `fresh` if that is taken.

        None if there is no such id: ask again with a fresh one.
        """


# --- writing the books -------------------------------------------------------


class PutShop(Struct, frozen=True):
    shop: Shop
    facts: ShopFacts
    rev: float | None


class RemoveShop(Struct, frozen=True):
    shop_id: str
    rev: float | None


class PutBase(Struct, frozen=True):
    base: Base
    rev: float | None


class PutMember(Struct, frozen=True):
    record: MemberRecord
    rev: float | None


class RemoveMember(Struct, frozen=True):
    token: str
    rev: float | None


class KnownFacts(Struct, frozen=True):
    """A version of a shop's facts."""

    version: int
    facts: ShopFacts


class PutBill(Struct, frozen=True):
    """A bill as projected under a version of its shop's facts."""

    closed: ClosedBill
    known: KnownFacts
    rev: float | None


class RemoveBill(Struct, frozen=True):
    shop_id: str
    bill_id: str
    rev: float | None


Change = PutShop | RemoveShop | PutBase | PutMember | RemoveMember | PutBill | RemoveBill


class Outcome(Enum):
    """What became of a change."""

    ADDED = "added"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    LATE = "late"
    REMOVED = "removed"
    UNKNOWN_SHOP = "unknown_shop"
    FACTS_MOVED = "facts_moved"


class LoadProgress(Struct):
    """How far a load has come; kept with every batch."""

    number: int
    lines: int = 0
    changed: int = 0
    rejected: int = 0
    finished: bool = False


class Ledger(Protocol):
    """The books, for writing. Each call is one transaction with one stamp, taken under the write lock."""

    def facts(self, shop_id: str) -> KnownFacts | None: ...

    def begin_load(self, source: str) -> LoadProgress: ...

    def apply(self, changes: Sequence[Change], progress: LoadProgress | None = None) -> list[Outcome]:
        """Carry out the changes; a bill projected under facts that have moved since is left to be projected again."""

    def rewrite_bills(self, most: int) -> bool:
        """Bring some bills up to their shop's present facts; whether there may be more."""

    def advance_horizon(self) -> int:
        """Vouch for everything up to now; the horizon after it."""
