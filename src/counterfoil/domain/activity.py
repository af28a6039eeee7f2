"""Measures how busy a shop is compared with the same weekday of earlier weeks, and finds shops that are silent."""

from collections.abc import Iterable
from datetime import tzinfo
from typing import Literal, Protocol

from msgspec import Struct, json

from counterfoil.domain.calendar import DAY_MS, as_number, from_ms, to_ms
from counterfoil.domain.resources import Shop
from counterfoil.domain.shops import ShopFacts

WEEK_MS = 7 * DAY_MS
WEEKS = 4
# A shop counts as silent if it has had no bill for a period in which it usually has at least this many.
MISSING_BILLS = 5
# After this long without a bill, a shop counts as closed rather than silent.
CLOSED_AFTER_MS = WEEKS * WEEK_MS

ShopState = Literal["silent", "few", "open", "closed", "empty"]


class ClosedBetween(Struct, frozen=True):
    """Selects the bills of a shop that were closed after the instant `after` and up to `until`.

    `first_day` and `last_day` are the days of these two instants, as numbers. Stores need them, because they sort
    bills by day first.
    """

    first_day: int
    last_day: int
    after: int
    until: int


class ShopBills(Protocol):
    """Counts the bills of one shop."""

    def total(self) -> int: ...

    def last_bill_at(self, now_ms: int) -> int | None:
        """Return when the last bill up to `now_ms` was closed, or None if there is no such bill."""

    def between(self, span: ClosedBetween) -> int: ...


class ShopActivity(Struct, frozen=True, kw_only=True):
    """A loaded shop and how busy it is.

    `bills` is the total number of bills, or None if they were not counted.
    `usual_by_now` is the median number of bills that the shop had by this time of
    day, on the same weekday in each of the last four weeks. `usual_since_last` is the
    corresponding median for the time since the last bill, or only for the first
    week after it if the bill is more than a week old. `is_closed` is true if the
    last bill is at least four weeks old. If the shop is closed or has never had
    a bill, `today` and the two medians are 0.
    """

    shop_id: str
    name: str | None
    franchise_id: str | None
    provider_id: str | None
    bills: int | None
    last_bill_at: int | None
    today: int
    usual_by_now: float
    usual_since_last: float
    is_closed: bool

    @property
    def state(self) -> ShopState:
        """The state of the shop, as commands and console pages show it.

        - `empty`: it has never had a bill.
        - `closed`: it has had no bill for four weeks.
        - `silent`: it has had no bill for a period in which it usually has at least MISSING_BILLS.
        - `few`: it is not silent, but has had less than half of its usual number of bills by this time of day.
        - `open`: none of these.
        """
        if self.last_bill_at is None:
            return "empty"
        if self.is_closed:
            return "closed"
        if self.usual_since_last >= MISSING_BILLS:
            return "silent"
        return "few" if self.today * 2 < self.usual_by_now else "open"

    @property
    def is_silent(self) -> bool:
        """True if the state of the shop is `silent`."""
        return self.state == "silent"


def activity(facts: bytes, body: bytes, bills: ShopBills, now_ms: int, *, count_all: bool) -> ShopActivity:
    """Return the activity of a shop, given its stored facts and body and a counter of its bills."""
    shop, zone = json.decode(body, type=Shop), json.decode(facts, type=ShopFacts).zone()
    last_bill_at = bills.last_bill_at(now_ms)
    today, usual_by_now, usual_since_last = 0, 0.0, 0.0
    is_closed = last_bill_at is not None and last_bill_at <= now_ms - CLOSED_AFTER_MS
    if last_bill_at is not None and not is_closed:
        midnight = to_ms(from_ms(now_ms, zone).replace(hour=0, minute=0, second=0, microsecond=0))
        today = bills.between(_span(midnight - 1, now_ms, zone))
        usual_by_now = _usual(bills, midnight - 1, now_ms, zone)
        usual_since_last = _usual(bills, last_bill_at, min(now_ms, last_bill_at + WEEK_MS), zone)
    return ShopActivity(
        shop_id=shop.shop_id,
        name=shop.shop_name,
        franchise_id=shop.franchise_id,
        provider_id=shop.provider_id,
        bills=bills.total() if count_all else None,
        last_bill_at=last_bill_at,
        today=today,
        usual_by_now=usual_by_now,
        usual_since_last=usual_since_last,
        is_closed=is_closed,
    )


def format_usual(count: float) -> str:
    """Format a median of whole numbers without rounding it, for example as 4 or 4.5."""
    return f"{count:,.1f}".removesuffix(".0")


def in_order(shops: Iterable[ShopActivity]) -> list[ShopActivity]:
    """Return the shops sorted by franchise and then by name, with independent shops last."""
    return sorted(
        shops, key=lambda shop: (shop.franchise_id is None, shop.franchise_id or "", shop.name or "", shop.shop_id)
    )


def _usual(bills: ShopBills, after: int, until: int, zone: tzinfo) -> float:
    from statistics import median  # noqa: PLC0415 - most commands import this module but do not need statistics

    weeks = (week * WEEK_MS for week in range(1, WEEKS + 1))
    return float(median(bills.between(_span(after - back, until - back, zone)) for back in weeks))


def _span(after: int, until: int, zone: tzinfo) -> ClosedBetween:
    first, last = (as_number(from_ms(instant, zone).date()) for instant in (after, until))
    return ClosedBetween(first, last, after, until)
