"""Rows of the books as they are read under the write lock and written back."""

from msgspec import Struct

from counterfoil.domain.members import MemberRecord

NO_DAY = 0
# Members whose sign-up cannot be read come last.
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


class BillRow(Struct):
    """A bill as it is stored or will be; `body` is not read, so it is there only when it is to be written."""

    shop: int
    bill_id: str
    trading_day: str | None
    rev: float | None
    digest: bytes
    bill_day: int = NO_DAY
    closed_at: int | None = None
    updated_at: int | None = None
    facts_version: int = 0
    withheld: bytes | None = None
    body: bytes | None = None
    settled: bool = False


class BaseRow(Struct):
    provider_id: str
    rev: float | None
    body: bytes
    dirty: bool = False


class MemberRow(Struct):
    """A member as it is stored; with `record`, as it is to be written."""

    provider_id: str
    token: str
    rev: float | None
    kept: bytes
    form: bytes | None
    record: MemberRecord | None = None
