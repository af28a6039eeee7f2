"""The changes that a load makes to the books, the outcome of a change, and the rows that are written."""

from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal

from msgspec import Struct, json
from msgspec.structs import astuple, replace

from counterfoil.domain.bills import NO_AMOUNTS, ClosedBill
from counterfoil.domain.members import Base, StoredMember
from counterfoil.domain.shops import ShopFacts, ShopSettings
from counterfoil.model.control_totals import CountedBill, Figures, figures_of, lines_amount
from counterfoil.model.resources import Bill, Number, Shop

# Identifies a record by its shop (empty except for bills), its kind and its ID (for a member, the token).
RecordKey = tuple[str, str, str]
# A part that most bills have.
BillPart = Literal["date", "items", "amounts"]
_encode = json.Encoder().encode


class PutShop(Struct, frozen=True):
    """A shop, with its entry in the shop list and its facts as JSON."""

    shop: Shop
    facts: ShopFacts
    rev: float | None
    body: bytes
    facts_body: bytes

    @property
    def key(self) -> RecordKey:
        return "", "shop", self.shop.shop_id


class SetShop(Struct, frozen=True):
    """What the operator sets for a loaded shop, and the fields for which the shop's record is to count again."""

    shop_id: str
    settings: ShopSettings
    reset: tuple[str, ...] = ()
    rev: None = None

    @property
    def key(self) -> RecordKey:
        return "", "shop", self.shop_id


class PutBase(Struct, frozen=True):
    base: Base
    rev: float | None
    body: bytes

    @property
    def key(self) -> RecordKey:
        return "", "base", self.base.provider_id


class PutMember(Struct, frozen=True):
    record: StoredMember
    rev: float | None
    body: bytes
    template: bytes

    @property
    def key(self) -> RecordKey:
        return "", "member", self.record.token


class Removal(Struct, frozen=True):
    """The removal of a shop, a bill or a member."""

    key: RecordKey
    rev: float | None


class KnownFacts(Struct, frozen=True):
    """A shop's facts and their version."""

    version: int
    facts: ShopFacts


class EncodedBill(Struct, frozen=True, gc=False):
    """A bill as it will be stored, except that `updatedAt` is null in its body. `lacks` is counted by a load.

    `facts_version` and `timezone` are those of the shop's facts under which it was converted.
    """

    shop_id: str
    bill_id: str
    history: bool
    closed_at: int | None
    trading_day: str | None
    bill_day: int
    withheld: bytes | None
    body: bytes
    digest: bytes
    facts_version: int
    timezone: str | None
    rev: float | None
    figures: Figures
    lacks: tuple[BillPart, ...]

    @property
    def key(self) -> RecordKey:
        return self.shop_id, "bill", self.bill_id

    @property
    def counted(self) -> CountedBill:
        return self.shop_id, self.bill_id, self.figures


Change = PutShop | SetShop | PutBase | PutMember | EncodedBill | Removal


def put_bill(closed: ClosedBill, known: KnownFacts, rev: float | None) -> EncodedBill:
    return encode_bill(closed, known, rev, lines_amount(closed.bill.items))


def encode_bill(closed: ClosedBill, known: KnownFacts, rev: float | None, lines: Number | None) -> EncodedBill:
    """Return the bill with everything that its row needs, except for the stamp. `lines` is the sum of its lines."""
    bill = closed.bill
    body = _encode(bill)
    bill_day = _day_number(bill.bill_date)
    return EncodedBill(
        bill.shop_id,
        bill.id,
        closed.history,
        closed.closed_at,
        closed.trading_day.isoformat() if closed.trading_day else None,
        bill_day,
        None if closed.withheld is None else _encode(closed.withheld),
        body,
        digest_of(body),
        known.version,
        known.facts.timezone,
        rev,
        figures_of(
            _day_number(bill.business_date or bill.bill_date),
            bill.status,
            bill.amounts,
            lines,
            bill.payments,
            lacks_day=bill.business_date is None and bill.bill_date is not None,
        ),
        () if bill_day and bill.items and bill.amounts.net is not None else _lacking(bill),
    )


def _lacking(bill: Bill) -> tuple[BillPart, ...]:
    found: dict[BillPart, object] = {"date": bill.bill_date, "items": bill.items, "amounts": bill.amounts != NO_AMOUNTS}
    return tuple(part for part, value in found.items() if not value)


@lru_cache(maxsize=1024)
def _day_number(day: str | None) -> int:
    return int(day.replace("-", "")) if day else NO_DAY


class Outcome(Enum):
    """The result of a change."""

    ADDED = "added"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    LATE = "late"
    REMOVED = "removed"
    UNKNOWN_SHOP = "unknown_shop"
    FACTS_MOVED = "facts_moved"
    OTHER_BILL = "other_bill"
    OTHER_BASE = "other_base"
    FORGOTTEN = "forgotten"


# --- rows, as a ledger reads them under the write lock and writes them back --
#
# Back ends store revisions differently, so `values()` takes the revision in the back end's format.


Row = tuple[Any, ...]

# The day that is stored for a bill without a readable time.
NO_DAY = 0
# In `confirmed_by`, which has room for the number of one load.
SEVERAL_LOADS = 0
# Stored as the sign-up time of a member whose sign-up time cannot be read, so that such members come last.
NEVER = 2**62


class ShopRow(Struct):
    number: int
    shop_id: str
    franchise_id: str | None
    provider_id: str | None
    removed: bool
    rev: float | None
    facts_version: int
    applied_version: int
    facts: bytes
    body: bytes
    dirty: bool = False
    relisted: bool = False  # True if the shop's published entry has appeared, changed or disappeared.

    def values(self, rev: object) -> Row:
        """Return the columns: all fields before `dirty`."""
        return astuple(replace(self, rev=rev))[:-2]


class BillRow(Struct, gc=False):
    """A bill that is stored or will be stored.

    For a stored bill, a ledger reads only the fields up to `confirmed_by`. `body` is set only if it has to be written.
    `loaded_at` is the stamp of a bill that is written without `updated_at`, and 0 for other bills.

    `load` is the load that added the bill or last changed it, 0 if it is not known, and negative if it was
    undone. None stands for an unknown load in a stored bill, and in one that is written for the load that it has.
    `confirmed_by` is the later load that delivered the same content, or SEVERAL_LOADS.
    """

    shop: int
    bill_id: str
    trading_day: str | None
    rev: float | None
    digest: bytes
    withheld: bytes | None
    bill_day: int = NO_DAY
    load: int | None = None
    confirmed_by: int | None = None
    closed_at: int | None = None
    updated_at: int | None = None
    facts_version: int = 0
    body: bytes | None = None
    settled: bool = False
    loaded_at: int = 0

    def values(self, rev: object) -> Row:
        return (
            self.shop,
            self.bill_id,
            self.bill_day,
            self.closed_at,
            self.updated_at,
            self.trading_day,
            rev,
            self.facts_version,
            self.digest,
            self.seal,
            self.withheld,
            self.body,
            self.loaded_at,
            self.load,
        )

    @property
    def seal(self) -> bytes:
        """A hash that changes if and only if the stored body changes. Hashing the whole body would take longer."""
        return blake2b(b"%b%d" % (self.digest, self.updated_at or 0), digest_size=8).digest()

    def settled_values(self, rev: object) -> Row:
        """Return the columns to write if the record changed but the body did not."""
        return self.shop, self.bill_id, self.trading_day, rev, self.withheld, self.confirmed_by

    def facts_values(self) -> Row:
        """Return the columns to write if the shop's facts changed but the body did not."""
        return self.shop, self.bill_id, self.facts_version, self.trading_day, self.withheld


class OutdatedBill(Struct, frozen=True):
    """A stored bill that has not yet been rewritten under its shop's current facts."""

    closed_at: int | None
    updated_at: int | None
    trading_day: str | None
    rev: float | None
    withheld: bytes | None
    body: bytes
    bill_day: int = NO_DAY


class BaseRow(Struct):
    provider_id: str
    rev: float | None
    body: bytes
    dirty: bool = False


class MemberRow(Struct):
    """A member that is stored or will be stored. `record` is set only if the member has to be written."""

    provider_id: str
    token: str
    rev: float | None
    kept: bytes
    template: bytes
    record: StoredMember | None = None

    def values(self, rev: object) -> Row:
        created_at = NEVER if self.record is None or self.record.created_at is None else self.record.created_at
        return self.provider_id, self.token, created_at, rev, self.kept, self.template


def account_values(rows: Iterable[MemberRow]) -> list[Row]:
    values: list[Row] = []
    for row in rows:
        record = row.record
        if record is None:
            continue
        # A lookup returns the person's newest record; one without a creation time counts as the oldest.
        created_at = -1 if record.created_at is None else record.created_at
        for place, account in enumerate(record.accounts):
            values.append((record.provider_id, record.token, place, account.user, created_at, account.channel))
    return values


def digest_of(unstamped: bytes) -> bytes:
    """Return the hash of a bill's body without its stamp. The hash shows whether a record changes the body."""
    return blake2b(unstamped, digest_size=16).digest()
