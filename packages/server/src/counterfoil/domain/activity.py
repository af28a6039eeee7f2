"""Measures how busy a shop is compared with earlier weeks, and finds shops that are silent.

The usual number of bills in a period is the median over the same period of the last four weeks, so a weekly closing day
and the opening hours are respected. Only weeks count in which the shop traded for at least half of the period. If
there is no such week, it is the mean over the same period of earlier days, and one day without bills may be a weekly
closing day, unless the shop had bills on the same weekday. In its first three days, nothing is known to be usual, and
the shop is `learning`.

Nothing is missing of a shop whose bills were brought in once, such as those of an old month. It is compared with what
is usual once it delivers: loads have brought recent bills of it on two days.
"""

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, median
from typing import Literal

from msgspec import Struct, json
from msgspec.structs import replace

from counterfoil.domain.shops import ShopFacts
from counterfoil.model.calendar import DAY_MS, as_number, from_ms, to_ms
from counterfoil.model.resources import Shop

WEEK_MS = 7 * DAY_MS
WEEKS = 4
# A shop counts as silent if it has had no bill for a period in which it usually has at least this many.
MISSING_BILLS = 5
# Fewer than half of the usual bills is chance, unless at least this many are missing.
FEWER_BILLS = 3
# After this long without a bill, a shop counts as closed rather than silent.
CLOSED_AFTER_MS = WEEKS * WEEK_MS
# A week has next to no bills if it has less than this share of the busiest week.
NEXT_TO_NONE = 0.1
# A shop is learning until this many days have passed since its first bill.
LEARNING_DAYS = 3
# A load has brought a recent bill if that was closed within this time before the load began.
RECENT_MS = 2 * DAY_MS
# Two loads that began at least so long one after the other are those of two days.
OTHER_DAY_MS = DAY_MS // 2
# The load of bills that were loaded by a version that did not keep it.
UNKNOWN_LOAD = 0

# So many bills without a business day are counted per shop, because each of them has to be read.
MOST_COUNTED = 10_000

ShopState = Literal["silent", "few", "open", "learning", "imported", "closed", "empty"]


# Answers a question about the bills of one shop, given the bounds that the question needs: how many there are in
# `total`, how many were closed `between` two instants, and when the `first` of these and the `last` until an instant
# was closed. `load` is the number of the load of the last bill between two instants, and `load_began` when a load
# began, if the store remembers it. The bills `without_business_day` are counted up to a limit. `first_day` and
# `last_day` are the days of the instants `after` and `until` as numbers, because stores sort bills by day first.
BillFigure = Literal["total", "between", "first", "last", "load", "load_began", "without_business_day"]
ShopBills = Callable[..., int | None]


class ShopActivity(Struct, frozen=True, kw_only=True):
    """A loaded shop and how busy it is.

    `bills` is None if they were not counted. `usual_since_last` is the usual number for the time since the last bill,
    at most for a week. `days_known` are the days since the first bill, at most LEARNING_DAYS. If the shop is closed or
    has never had a bill, `today` and the usual numbers are 0.
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
    days_known: int
    is_closed: bool
    is_delivering: bool = True
    """Whether loads have brought recent bills on two days. It is only found out if bills are missing."""
    closing: str | None = None
    timezone: str | None = None
    without_business_day: int = 0
    """How many bills have no business day because the shop has no closing time, counted up to MOST_COUNTED."""

    @property
    def state(self) -> ShopState:
        """The state of the shop, as commands and console pages show it.

        - `empty`: it has never had a bill.
        - `closed`: it has had no bill for four weeks.
        - `learning`: its first bill is less than LEARNING_DAYS old, so nothing is known to be usual.
        - `silent`: it has had no bill for a period in which it usually has at least MISSING_BILLS.
        - `few`: it is not silent, but has had less than half of its usual number of bills by this time of day, and at
          least FEWER_BILLS fewer.
        - `imported`: bills seem to be missing, but it does not deliver: its bills were brought in once.
        - `open`: none of these.
        """
        if self.last_bill_at is None:
            return "empty"
        if self.is_closed:
            return "closed"
        if self.days_known < LEARNING_DAYS:
            return "learning"
        if self.usual_since_last < MISSING_BILLS and not self.has_few:
            return "open"
        if not self.is_delivering:
            return "imported"
        return "silent" if self.usual_since_last >= MISSING_BILLS else "few"

    @property
    def has_few(self) -> bool:
        """Whether it has had fewer than half of its usual bills today, and so many fewer that this is no chance."""
        is_below_half = self.today * 2 < self.usual_by_now
        return is_below_half and self.usual_by_now - self.today >= FEWER_BILLS

    @property
    def is_silent(self) -> bool:
        return self.state == "silent"


def activity(facts: bytes, body: bytes, bills: ShopBills, now_ms: int, *, count_all: bool) -> ShopActivity:
    """Return the activity of a shop, given its stored facts and body and its bills."""
    shop, known = json.decode(body, type=Shop), json.decode(facts, type=ShopFacts)
    zone = known.zone()
    # With a closing time, only a bill without a readable time has no business day.
    undated = 0 if known.closing else bills("without_business_day", most=MOST_COUNTED) or 0
    last_bill_at = bills("last", until=now_ms)
    today, usual_by_now, usual_since_last, days_known = 0, 0.0, 0.0, 0

    def figure(name: BillFigure, after: int, until: int) -> int | None:
        first_day, last_day = (as_number(from_ms(instant, zone).date()) for instant in (after, until))
        return bills(name, first_day=first_day, last_day=last_day, after=after, until=until)

    def count(after: int, until: int) -> int:
        return figure("between", after, until) or 0

    is_closed = last_bill_at is not None and last_bill_at <= now_ms - CLOSED_AFTER_MS
    if last_bill_at is not None and not is_closed:
        weeks = _weeks_of_trade(count, last_bill_at)
        began_at = last_bill_at - weeks * WEEK_MS
        if weeks <= WEEKS:
            began_at = figure("first", began_at, last_bill_at) or began_at
        midnight = to_ms(from_ms(now_ms, zone).replace(hour=0, minute=0, second=0, microsecond=0))
        today = count(midnight - 1, now_ms)
        days_known = min(LEARNING_DAYS, (now_ms - began_at) // DAY_MS)
        if days_known == LEARNING_DAYS:
            usual_by_now = _usual(count, began_at, midnight - 1, now_ms)
            silent_until = min(now_ms, last_bill_at + WEEK_MS)
            usual_since_last = _usual(count, began_at, last_bill_at, silent_until, closed_ms=DAY_MS)
    found = ShopActivity(
        shop_id=shop.shop_id,
        name=shop.shop_name,
        franchise_id=shop.franchise_id,
        provider_id=shop.provider_id,
        bills=(bills("total") or 0) if count_all else None,
        last_bill_at=last_bill_at,
        today=today,
        usual_by_now=usual_by_now,
        usual_since_last=usual_since_last,
        days_known=days_known,
        is_closed=is_closed,
        closing=known.closing,
        timezone=known.timezone,
        without_business_day=undated,
    )
    if found.last_bill_at is None or found.state not in ("silent", "few"):
        return found
    loads = [figure("load", until - DAY_MS, until) for until in _days_before(found.last_bill_at)]
    return replace(found, is_delivering=_is_delivering(loads, found.last_bill_at, now_ms, bills))


def _days_before(last_bill_at: int) -> list[int]:
    """Return the ends of the days that are compared, the latest first. The last of them ends with the last bill."""
    return [last_bill_at - number * DAY_MS for number in range(WEEKS * 7)]


def _is_delivering(loads: Sequence[int | None], last_bill_at: int, now_ms: int, bills: ShopBills) -> bool:
    """Return whether loads have brought recent bills on two days. `loads` has that of the last bill of each day.

    If that cannot be known, the shop counts as delivering: an alarm too many is better than none.
    """
    began: list[int] = []
    forgotten = 0
    checked: set[int] = set()
    for load, day_end in zip(loads, _days_before(last_bill_at), strict=True):
        if load is None or load in checked:
            continue
        checked.add(load)
        if load == UNKNOWN_LOAD:
            return True
        began_at = bills("load_began", load=load)
        if began_at is None:
            # The store remembers only the latest loads, so there were many others since.
            forgotten += 1
        elif began_at > now_ms:
            # One of the clocks is wrong.
            return True
        elif began_at - day_end <= RECENT_MS:
            began.append(began_at)
    if forgotten:
        return forgotten + len(began) > 1
    return bool(began) and max(began) - min(began) >= OTHER_DAY_MS


def in_order(shops: Iterable[ShopActivity]) -> list[ShopActivity]:
    """Return the shops sorted by franchise and then by name, with independent shops last."""
    return sorted(
        shops, key=lambda shop: (shop.franchise_id is None, shop.franchise_id or "", shop.name or "", shop.shop_id)
    )


def _weeks_of_trade(count: Callable[[int, int], int], last_bill_at: int) -> int:
    """Return for how many weeks the shop has traded, up to one more than are compared.

    Weeks before that with next to no bills do not count: a test bill, one with a wrong year, or the time before a long
    closure says nothing about what is usual now.
    """
    weeks = []
    for weeks_before in range(WEEKS + 1):
        week_end = last_bill_at - weeks_before * WEEK_MS
        weeks.append(count(week_end - WEEK_MS, week_end))
    while weeks[-1] < NEXT_TO_NONE * max(weeks):
        weeks.pop()
    return len(weeks)


def _usual(count: Callable[[int, int], int], began_at: int, after: int, until: int, closed_ms: int = 0) -> float:
    """Return how many bills a shop usually has in a period; in its first week, it may be closed for `closed_ms`."""

    def earlier(step: int, steps: range) -> list[int]:
        """Return the number of bills in the same period, so many steps earlier, if the shop existed for half of it."""
        middle = (after + until) // 2
        counts = []
        for number in steps:
            back = number * step
            if middle - back >= began_at:
                counts.append(count(after - back, until - back))
        return counts

    weeks = earlier(WEEK_MS, range(1, WEEKS + 1))
    if weeks:
        return float(median(weeks))
    same_weekday = count(after - WEEK_MS, until - WEEK_MS)
    until -= closed_ms
    if until <= after:
        return same_weekday
    # A shop that is silent for longer than it had bills is compared with the whole days in which it had them.
    until = min(until, after + max(DAY_MS, (after - began_at) // DAY_MS * DAY_MS))
    nearest = max(1, -(-(until - after) // DAY_MS))
    days = earlier(DAY_MS, range(nearest, 2 * WEEK_MS // DAY_MS))
    return max(same_weekday, fmean(days or [count(after - nearest * DAY_MS, until - nearest * DAY_MS)]))
