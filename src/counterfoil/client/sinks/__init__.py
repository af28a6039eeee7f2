"""Where a copy is kept. A sink writes rows and the pull's own state in one transaction, so both or neither survive."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import date
from decimal import Decimal
from typing import Protocol

from msgspec import Struct


class SinkError(Exception):
    """The target cannot be used; the message says why."""


class CopiedBill(Struct, frozen=True):
    """As much of a bill in the copy as a comparison needs. `changed_us` is its `updatedAt`."""

    id: str
    changed_us: int | None
    net: Decimal | None
    void: bool


class Sink(Protocol):
    """A copy. Rows come as the JSON bytes of the answer's elements."""

    def transaction(self) -> AbstractContextManager[None]:
        """Everything written inside becomes visible together, or not at all."""

    def state(self) -> bytes | None: ...

    def save_state(self, state: bytes) -> None: ...

    def put_shops(self, rows: Sequence[bytes], now: str) -> None:
        """All shops there are; those that the copy has beyond them are marked removed."""

    def put_bills(self, shop_id: str, rows: Sequence[bytes], *, replace: bool = False) -> int:
        """Upsert; what is not later than the stored row is left out, unless it is to replace it. How many went in."""

    def open_pass(self, provider_id: str) -> None:
        """A pass over the base begins: none of its members has been seen yet."""

    def put_members(self, provider_id: str, rows: Sequence[bytes]) -> int:
        """Upsert members, each of them once, as seen by the pass under way. How many were new or different."""

    def close_pass(self, provider_id: str, now: str) -> int:
        """Mark the members of the base that the pass has not seen as removed; how many there were."""

    def bills_of_days(self, shop_id: str, first: date, last: date) -> dict[str, list[CopiedBill]]:
        """The bills of these days, by day."""

    def undated_bills(self, shop_id: str, since: str) -> list[CopiedBill]:
        """Bills without a date that changed at or after an instant."""

    def latest_day_before(self, shop_id: str, day: date) -> date | None:
        """The last day before this one on which the copy has a bill."""

    def drop_bills(self, shop_id: str, ids: Sequence[str]) -> None: ...

    def publish(self) -> None:
        """Show what was written to whoever reads the copy, where that takes a step of its own."""

    def close(self) -> None: ...
