"""The changes that a load makes to the books, and the outcome of a change."""

from enum import Enum

from msgspec import Struct

from counterfoil.domain.bills import ClosedBill
from counterfoil.domain.members import Base, StoredMember
from counterfoil.domain.resources import Shop
from counterfoil.domain.shops import ShopFacts

# Identifies a record by its shop (empty except for bills), its kind and its ID (for a member, the token).
RecordKey = tuple[str, str, str]


class PutShop(Struct, frozen=True):
    shop: Shop
    facts: ShopFacts
    rev: float | None

    @property
    def key(self) -> RecordKey:
        return "", "shop", self.shop.shop_id


class RemoveShop(Struct, frozen=True):
    shop_id: str
    rev: float | None

    @property
    def key(self) -> RecordKey:
        return "", "shop", self.shop_id


class PutBase(Struct, frozen=True):
    base: Base
    rev: float | None

    @property
    def key(self) -> RecordKey:
        return "", "base", self.base.provider_id


class PutMember(Struct, frozen=True):
    record: StoredMember
    rev: float | None

    @property
    def key(self) -> RecordKey:
        return "", "member", self.record.token


class RemoveMember(Struct, frozen=True):
    token: str
    rev: float | None

    @property
    def key(self) -> RecordKey:
        return "", "member", self.token


class KnownFacts(Struct, frozen=True):
    """A shop's facts and their version."""

    version: int
    facts: ShopFacts


class PutBill(Struct, frozen=True):
    """A bill as published under one version of its shop's facts."""

    closed: ClosedBill
    known: KnownFacts
    rev: float | None

    @property
    def key(self) -> RecordKey:
        return self.closed.bill.shop_id, "bill", self.closed.bill.id


class EncodedBill(Struct, frozen=True, gc=False):
    """A bill as it will be stored, except that `updatedAt` is null in its body."""

    shop_id: str
    bill_id: str
    history: bool
    closed_at: int | None
    trading_day: str | None
    bill_day: int
    withheld: bytes | None
    body: bytes
    digest: bytes
    known: KnownFacts
    rev: float | None

    @property
    def key(self) -> RecordKey:
        return self.shop_id, "bill", self.bill_id


class RemoveBill(Struct, frozen=True):
    shop_id: str
    bill_id: str
    rev: float | None

    @property
    def key(self) -> RecordKey:
        return self.shop_id, "bill", self.bill_id


Change = PutShop | RemoveShop | PutBase | PutMember | RemoveMember | PutBill | EncodedBill | RemoveBill


class Outcome(Enum):
    """The result of a change."""

    ADDED = "added"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    LATE = "late"
    REMOVED = "removed"
    UNKNOWN_SHOP = "unknown_shop"
    FACTS_MOVED = "facts_moved"
