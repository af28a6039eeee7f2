"""Rows of the books as they are read under the write lock and written back."""

from collections.abc import Sequence
from decimal import Decimal
from hashlib import blake2b
from typing import Any

from msgspec import Struct

from counterfoil.domain.members import StoredMember

Row = tuple[Any, ...]
# Identifies what was removed: the shop of a bill (empty for other kinds), the kind, the id.
Removal = tuple[str, str, str]

NO_DAY = 0
# Members whose sign-up time cannot be read come last.
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
    """A bill as it is or will be stored. `body` is never read from the store: it is set only if it is to be written."""

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
    """A member as it is or will be stored; `record` is set only if it is to be written."""

    provider_id: str
    token: str
    rev: float | None
    kept: bytes
    form: bytes | None
    record: StoredMember | None = None


class Outdated(Struct, frozen=True):
    """A stored bill that has not been rewritten under its shop's current facts yet."""

    bill_id: str
    closed_at: int | None
    updated_at: int | None
    trading_day: str | None
    rev: float | None
    withheld: bytes | None
    body: bytes


# --- rows as the statements return them ----------------------------------------------


def shop_row(row: Row) -> ShopRow:
    return ShopRow(*row[:5], rev_of(row[5]), *row[6:])  # type: ignore[call-arg]


def bill_row(row: Row) -> BillRow:
    return BillRow(row[0], row[1], row[2], rev_of(row[3]), row[4], withheld=row[5])


def base_row(row: Row) -> BaseRow:
    return BaseRow(row[0], rev_of(row[1]), row[2])


def member_row(row: Row) -> MemberRow:
    return MemberRow(row[0], row[1], rev_of(row[2]), row[3], row[4])


def outdated_row(row: Row) -> Outdated:
    return Outdated(*row[:4], rev_of(row[4]), *row[5:])  # type: ignore[call-arg]


def removals_of(rows: Sequence[Row]) -> dict[Removal, float | None]:
    return {(shop, kind, of): rev_of(rev) for shop, kind, of, rev in rows}


# --- rows as the statements take them ------------------------------------------------


def shop_values(row: ShopRow) -> Row:
    return (
        row.number,
        row.shop_id,
        row.franchise_id,
        row.provider_id,
        row.removed,
        rev_text(row.rev),
        row.facts_version,
        row.applied_version,
        row.facts,
        row.body,
    )


def bill_values(row: BillRow) -> Row:
    return (
        row.shop,
        row.bill_id,
        row.bill_day,
        row.closed_at,
        row.updated_at,
        row.trading_day,
        rev_text(row.rev),
        row.facts_version,
        row.digest,
        seal_of(row.body or b""),
        row.withheld,
        row.body,
    )


def settled_values(row: BillRow) -> Row:
    return row.shop, row.bill_id, row.trading_day, rev_text(row.rev), row.withheld


def facts_values(row: BillRow) -> Row:
    return row.shop, row.bill_id, row.facts_version, row.trading_day, row.withheld


def member_values(row: MemberRow) -> Row:
    created_at = NEVER if row.record is None or row.record.created_at is None else row.record.created_at
    return row.provider_id, row.token, created_at, rev_text(row.rev), row.kept, row.form


def account_values(rows: Sequence[MemberRow]) -> list[Row]:
    return [
        (
            record.provider_id,
            record.token,
            place,
            account.user,
            # A person's most recent record comes first, so one without a creation time is sorted as the oldest.
            -1 if record.created_at is None else record.created_at,
            account.channel,
        )
        for record in (row.record for row in rows)
        if record
        for place, account in enumerate(record.accounts)
    ]


def seal_of(finished: bytes) -> bytes:
    return blake2b(finished, digest_size=8).digest()


def rev_of(kept: Decimal | None) -> float | None:
    """Return a revision as it was loaded: a whole number of any length as an integer, any other as a float."""
    if kept is None:
        return None
    return int(kept) if kept == kept.to_integral_value() else float(kept)


def rev_text(rev: float | None) -> str | None:
    return None if rev is None else repr(rev)
