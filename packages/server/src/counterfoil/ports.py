"""The interfaces that the service requires of a store, and the errors that a store may raise.

Reads return JSON as bytes if the store has it in that form. They also return the horizon, which is the instant up to
which the returned rows are complete. For the change feed and the digests, the caller reads the horizon first instead.
Every method may raise `StoreUnavailable`. Opening a store may raise `StoreMismatch`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from counterfoil.domain.access import Admitted, Key, Scope, TooFast
from counterfoil.domain.audit import AuditEntry
from counterfoil.domain.change_feed import FeedPage, FeedPosition, Window
from counterfoil.domain.changes import Change, KnownFacts, Outcome
from counterfoil.domain.day_totals import DigestPage, ShopDay
from counterfoil.domain.forgetting import ForgottenMember
from counterfoil.domain.intake import Intake
from counterfoil.domain.loads import LoadProgress
from counterfoil.domain.members import Base
from counterfoil.domain.open_items import OpenItem
from counterfoil.domain.paging import Listing, Position, StoredCursor
from counterfoil.domain.replacements import ReplacementGuard
from counterfoil.domain.request_records import ChangeList, RequestRecord
from counterfoil.model.messages import MessageError

# A worker that stops has this many seconds to store its pending counts and request records.
STOP_SAVE_SEC = 5.0


class StoreUnavailable(MessageError):
    """The store cannot be read or written now. The message is for the operator."""

    prefix = "the store is unavailable: "


class StoreUnreachable(StoreUnavailable):
    """A server of the store cannot be reached or used, for example during a failover. Another server may respond."""


class StoreBusy(StoreUnavailable):
    """The store works, but it is locked by another process or has too many requests waiting."""


class StoreMismatch(MessageError):
    """The store cannot be used as it is, for example because its schema or its secret does not match."""


def wrong_secret() -> StoreMismatch:
    return StoreMismatch(
        "the deployment secret is not the one this store was built with: member tokens would change. "
        "Set the correct secret (COUNTERFOIL_SECRET or secret_file), or load into an empty store."
    )


class Clock(Protocol):
    """The two clocks of the machine. Tests use their own implementation."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970 UTC on the wall clock, which may jump forwards or backwards."""

    def steady_us(self) -> int:
        """Return microseconds on a clock that only moves forward and is shared by all processes on the machine."""

    def boot_id(self) -> str:
        """Return an ID of the current boot. Values of `steady_us` are comparable only within one boot."""


# --- reading the books -------------------------------------------------------

Place = TypeVar("Place")


class Slice(Struct, Generic[Place], frozen=True):
    """Which rows of a list are read: up to `limit` after a place, from a server that has reached this horizon."""

    limit: int
    after: Place | None = None
    reached: int = 0


class ShopList(Struct, frozen=True):
    """Shops as finished JSON, in a stable order."""

    horizon: int
    bodies: list[bytes]


class BillPage(Struct, frozen=True):
    """Bills as finished JSON, separated by commas. `seal` changes if and only if the bills change.

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
    """Templates of members in list order, which `domain/members.py` fills in. See `BillPage` for the other fields."""

    horizon: int
    base: Base | None
    count: int
    templates: bytes
    last: Position | None
    continues: bool = True


class FoundMember(Struct, frozen=True):
    horizon: int
    provider_id: str
    base: Base | None
    template: bytes


class FoundAccount(Struct, frozen=True):
    """A member record that has the requested messaging account."""

    channel: str | None
    token: str


class AccountList(Struct, frozen=True):
    """The member records of a base that have the requested messaging account, most recently created first."""

    horizon: int
    base: Base | None
    accounts: list[FoundAccount]


class Books(Protocol):
    """Read access to shops, bills and members.

    A store may have replicas that lag behind. Each result comes from a single server, as of that server's horizon, and
    only from a server whose horizon has reached `reached`. A store reports that something does not exist only after it
    has also asked the primary, or all other replicas if there is no primary.
    """

    async def horizon(self) -> int: ...

    async def shops(self, scope: Scope, reached: int = 0) -> ShopList:
        """Return the shops in scope."""

    async def has_shop(self, scope: Scope, shop_id: str, reached: int = 0) -> bool:
        """Return whether this shop is in scope. A removed shop counts too."""

    async def covers(self, scope: Scope, provider_id: str, reached: int = 0) -> bool:
        """Return whether a shop in scope uses this membership base."""

    async def bills_by_day(
        self, scope: Scope, shop_id: str, first: date, last: date, wanted: Slice[Position]
    ) -> BillPage | None:
        """Return a page of bills from `first` to `last`, or None if the shop is not in scope."""

    async def bills_by_change(
        self, scope: Scope, shop_id: str, since: int, until: int | None, wanted: Slice[Position]
    ) -> BillPage | None:
        """Return a page of the bills last changed from `since` to `until`, or None if the shop is not in scope.

        The horizon of the page is at or after `until`. If `until` is None, the range ends at the horizon.
        """

    async def changes(self, scope: Scope, window: Window, wanted: Slice[FeedPosition]) -> FeedPage:
        """Return a page of the change feed, from a server that has also reached `window.until`."""

    async def digests(
        self, scope: Scope, shop_id: str | None, days: tuple[int, int], wanted: Slice[ShopDay]
    ) -> DigestPage:
        """Return a page of totals per shop and day, for one shop or for all shops in scope."""

    async def bill(self, scope: Scope, bill_id: str, reached: int = 0) -> FoundBill | None: ...

    async def members(self, provider_id: str, wanted: Slice[Position]) -> MemberPage: ...

    async def member(self, scope: Scope, token: str, reached: int = 0) -> FoundMember | None:
        """Return the member with this token if a shop in scope uses its base, otherwise None."""

    async def accounts(self, provider_id: str, messaging_hash: str, reached: int = 0) -> AccountList: ...


# --- keys, limits and records ------------------------------------------------


class StoredKey(Struct, frozen=True):
    key: Key
    secret_digest: bytes


class AuditedTransaction(Struct, frozen=True):
    """An open transaction on the keys or the devices. What changes them is audited in the same transaction."""

    ask: Callable[..., list[Any]]
    """Runs a statement with named parameters, and returns all rows."""
    audit: Callable[[Sequence[AuditEntry]], None]
    """Writes entries to the audit log."""


class KeyLookup(Protocol):
    """Looks up the keys that requests are sent with."""

    async def find(self, key_id: str) -> StoredKey | None:
        """Return the key from the memory of this process, which may be slightly out of date."""

    async def find_again(self, key_id: str) -> StoredKey | None:
        """Return the key as it is in the store now. This is called before a refusal, because the key may be new."""


class Meter(Protocol):
    """Counts requests against the minute window and the daily quota. The counts are exact across all processes.

    With several servers, it also chooses the horizon that is reported as serverTime if a request has no cursor. That
    horizon is never earlier than a horizon that any node has already reported to the key's lineage.
    """

    async def admit(self, key: Key) -> Admitted | TooFast: ...

    async def counts(self, key: Key, days: Sequence[date]) -> dict[date, int]: ...


class RequestLog(Protocol):
    """The request records, which the contract requires to be kept for 90 days."""

    def note(self, record: RequestRecord) -> None:
        """Queue the record to be stored soon."""

    async def disclose(self, record: RequestRecord) -> None:
        """Store the record before returning, because personal data is about to be sent."""

    def note_refusal(self, key_id: str, error: str, at: int) -> None:
        """Count a refused request whose key is known. The count is stored shortly afterwards."""

    def note_page(self, read: ChangeList, since: int, horizon: int, is_last: bool, at: int) -> None:
        """Record that a page of the pass from `since` to `horizon` was sent, and whether it was the last one."""


class Cursors(Protocol):
    """The cursors that were handed out. Within a listing, each cursor stands for one position."""

    async def find(self, listing: Listing, cursor: str) -> StoredCursor | None:
        """Return the stored cursor and renew its lifetime, or return None if it is not valid in this listing."""

    async def hand_out(self, listing: Listing, held: StoredCursor, fresh: str | None) -> str | None:
        """Return an existing cursor, the row's ID, or `fresh` if that is taken. If None, try again with another."""


# --- writing the books -------------------------------------------------------


class LoadLedger(Protocol):
    """What a load writes. Each call is one transaction (except on Citus), with a stamp taken under the lock."""

    @property
    def forgotten(self) -> Collection[str]:
        """The marks of the members that were forgotten, as of the beginning of the load or its latest batch."""

    def facts(self, shop_id: str) -> KnownFacts | None: ...

    def begin_load(self, source: str) -> LoadProgress: ...

    def stop_load(self, number: int, changed: int) -> None:
        """Record that a load has ended with an error after it changed this many records, unless it has finished."""

    def apply(
        self, changes: Sequence[Change], progress: LoadProgress | None = None, guard: ReplacementGuard | None = None
    ) -> list[Outcome]:
        """Apply the changes. A bill that was read under outdated facts is not written; its outcome is `FACTS_MOVED`.

        With a guard, a record that is another bill than the stored one is not written: its outcome is `OTHER_BILL`. If
        the guard is exceeded, nothing is written.
        """

    def rewrite_bills(self, most: int) -> bool:
        """Rewrite up to `most` bills under their shop's current facts; return whether there may be more."""

    def change_intake(self, change: Callable[[Intake, int], Intake]) -> Intake:
        """Call `change` with the stored intake and the current time. Store its result and return it."""

    def close_loaded(self, lines: Mapping[str, int]) -> None:
        """Close the items whose own files a load has read to their end. `lines` are the lines that each file had."""


class UndoLedger(Protocol):
    """What the undo of a load writes. Each call is one transaction (except on Citus)."""

    def undo_bills(self, load: int, shop: int, bill_ids: Sequence[str], void_reason: str | None) -> int:
        """Take back those of the bills that the load added, if nothing has changed them; return their number."""

    def finish_undo(self, load: int) -> None: ...


class ForgetLedger(Protocol):
    """What forgetting a member writes. Each call is one transaction (except on Citus)."""

    def mark_forgotten(self, marks: Iterable[ForgottenMember]) -> None:
        """Let no later record bring these members back. Their data counts as unfinished until `finish_forgetting`."""

    def unlink_bills(self, shop: int, bill_ids: Sequence[str], marks: Collection[str]) -> int:
        """Take forgotten members off their bills; return the number of bills."""

    def erase_member(self, token: str) -> bool:
        """Delete the record, the accounts and the removal of a member; return whether there was a record."""

    def erase_lines(self, item: OpenItem, known_files: Mapping[str, int]) -> None: ...

    def finish_forgetting(self, marks: Iterable[str]) -> None: ...

    def empty_log(self) -> bool:
        """Empty the log of an embedded store; return False if that was not possible, or it is on a server."""

    def compact(self) -> bool:
        """Write an embedded store anew, without what deleted rows have left behind; return as `empty_log`."""


# --- inspection -------------------------------------------------------------------


class ServerRole(Enum):
    """The role of a PostgreSQL server. A replica too far behind to be read is `BEHIND`; one that is silent, `AWAY`."""

    PRIMARY = "primary"
    REPLICA = "replica"
    BEHIND = "behind"
    AWAY = "away"


class ServerState(Struct, frozen=True):
    """The state of a server at one moment. `horizon` is None if the server did not respond."""

    name: str
    role: ServerRole
    horizon: int | None = None

    @property
    def is_primary(self) -> bool:
        return self.role is ServerRole.PRIMARY


class StoreExtent(Struct, frozen=True):
    """The store's size on disk, its schema versions, and the version of the database software."""

    size_bytes: int
    schema: str
    software: str


class DiskUse(Struct, frozen=True):
    """The size of a store's files, the size of each write-ahead log by database, and the free space on the disk."""

    store_bytes: int
    log_bytes: dict[str, int]
    free_bytes: int


class Permissions(Struct, frozen=True):
    """The permissions of a PostgreSQL login."""

    login: str
    serves: bool
    loads: bool
    issues_keys: bool
    owns: bool


class ServingPorts(Struct, frozen=True):
    """The ports that a worker uses, and a function that closes them."""

    books: Books
    key_lookup: KeyLookup
    meter: Meter
    request_log: RequestLog
    cursors: Cursors
    close: Callable[[], None]
