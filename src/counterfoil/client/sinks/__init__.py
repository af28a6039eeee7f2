"""Sinks store a copy. Rows and the progress of the pull are committed in one transaction."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import date
from decimal import Decimal
from typing import Protocol

from msgspec import Struct


class SinkError(Exception):
    """The target cannot be used. The message says why."""


class CopiedBill(Struct, frozen=True):
    """The fields of a bill that are compared. `changed_us` is `updatedAt` in microseconds since 1970."""

    id: str
    changed_us: int | None
    net: Decimal | None
    void: bool
    tip: Decimal | None = None


class ShopDayTotals(Struct, frozen=True):
    """The totals of the bills of one shop and day, in the copy or from the service."""

    bills: int
    voids: int
    net: Decimal
    tip: Decimal
    hash: str


class Sink(Protocol):
    """A copy. Each row is passed as the raw JSON of one element of a response."""

    def transaction(self) -> AbstractContextManager[None]:
        """Commit everything that is written inside the context, or roll it back if an error is raised."""

    def state(self) -> bytes | None: ...

    def save_state(self, state: bytes) -> None: ...

    def put_shops(self, rows: Sequence[bytes], now: str) -> None:
        """Store all shops. Mark shops in the copy that are not among them as removed."""

    def put_bills(self, shop_id: str, rows: Sequence[bytes], *, replace: bool = False) -> int:
        """Upsert bills and return the number written. Unless `replace` is set, skip bills that are not newer."""

    def open_pass(self, provider_id: str) -> None:
        """Begin a pass over the base: clear the list of members that were seen."""

    def put_members(self, provider_id: str, rows: Sequence[bytes]) -> int:
        """Upsert members, mark them as seen by the current pass, and return the number of new and changed ones.

        No member may be in `rows` twice.
        """

    def close_pass(self, provider_id: str, now: str) -> int:
        """Mark the members of the base that the pass has not seen as removed, and return their number."""

    def bills_of_days(self, shop_id: str, first: date, last: date) -> dict[str, list[CopiedBill]]:
        """Return the bills of these days, by day."""

    def day_totals(self, since: date | None) -> dict[tuple[str, str | None], ShopDayTotals]:
        """Return totals by shop and day, from the day `since` on. If it is None, include all days and undated bills."""

    def undated_bills(self, shop_id: str, since: str) -> list[CopiedBill]:
        """Return the undated bills that changed at or after an instant."""

    def latest_day_before(self, shop_id: str, day: date) -> date | None:
        """Return the last day before this one on which the copy has a bill, or None."""

    def drop_bills(self, shop_id: str, ids: Sequence[str]) -> None: ...

    def publish(self) -> None:
        """Make the written rows visible to readers, if committing them is not enough."""

    def close(self) -> None: ...
