"""The progress of a pull, which is stored in the copy together with the rows.

Every shop has its own mark, the instant from which its changes are read next.
While a shop is being read, its pass holds the position. The functions here are
pure. Every instant comes from the service, never from this machine's clock.
"""

from datetime import date, datetime, timedelta

from msgspec import Struct, field, json
from msgspec.structs import replace

from counterfoil.client.errors import CopyMismatch

FORMAT = 1
WINDOW_DAYS = 31
EMPTY_WINDOWS = 12
# The service accepts a cursor for 7 days after its last use and then refuses it with bad_cursor. The client restarts a
# list much earlier, so that it does not depend on how long cursors are valid.
CURSOR_LIFE_SEC = 36 * 3600
BEFORE_ALL_BILLS = "1970-01-01T00:00:00Z"


class Origin(Struct, frozen=True):
    """The address and key that a copy was made with."""

    url: str
    key_id: str
    scope: str


class ShopPass(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The position in the bills of one shop. `mark` becomes the shop's mark when the pass ends.

    An incremental pass reads the changes since `since`. The first pass reads
    windows (`first` to `last`), newest first, and then the list by change, to
    find bills that are in no window. `empty` is the number of empty windows in a
    row, and `seen` says whether the current window has had a bill. The windows
    cover the days `known_from` to `known_to`. `asked` is the service's time in
    the run that received the cursor.
    """

    mark: str
    since: str | None = None
    first: date | None = None
    last: date | None = None
    known_from: date | None = None
    known_to: date | None = None
    empty: int = 0
    seen: bool = False
    cursor: str | None = None
    asked: str = ""


class ShopState(Struct, omit_defaults=True):
    """A shop's mark and its unfinished pass, if any. The pass is stored as `journey`, its former name."""

    mark: str | None = None
    shop_pass: ShopPass | None = field(default=None, name="journey")


class BaseState(Struct, omit_defaults=True):
    """The progress of a base. `began` and `passed` are the starts of the current pass and of the last complete one."""

    passed: str | None = None
    began: str | None = None
    cursor: str | None = None
    asked: str = ""


class State(Struct, omit_defaults=True):
    format: int = FORMAT
    origin: Origin | None = None
    shops: dict[str, ShopState] = field(default_factory=dict)
    bases: dict[str, BaseState] = field(default_factory=dict)


class _FormatOnly(Struct):
    format: int = FORMAT


def decode(state: bytes | None) -> State:
    if not state:
        return State()
    found = json.decode(state, type=_FormatOnly).format
    if found > FORMAT:
        raise CopyMismatch(
            f"this copy has format {found}, but this version of Counterfoil supports only formats up to {FORMAT}. "
            "Upgrade Counterfoil, or pull into another target."
        )
    return json.decode(state, type=State)


def encode(state: State) -> bytes:
    return json.encode(state)


# --- the origin of a copy ------------------------------------------------------------


def record_origin(state: State, origin: Origin, *, adopt: bool) -> None:
    """Record the copy's origin. Raise `CopyMismatch` if it has a different one, unless `adopt` is set."""
    known = state.origin
    if known is None or known == origin:
        state.origin = origin
        return
    if not adopt:
        raise CopyMismatch(
            f"this copy was made from {known.url} with the {known.scope} key {known.key_id}, "
            f"not from {origin.url} with the {origin.scope} key {origin.key_id}. If both return the same data, for "
            "example because the address is new or the key was rotated, add --adopt. Otherwise, use another target."
        )
    state.origin = origin
    # A cursor is valid for one key lineage only, and the new key may belong to another one.
    for shop in state.shops.values():
        shop.shop_pass = shop.shop_pass and restarted(shop.shop_pass)
    for base in state.bases.values():
        base.cursor = None


# --- the bills of a shop -----------------------------------------------------------


def latest_day(mark: str) -> date:
    """Return the last day of the newest window, which is 31 days in the future, as the clock of a till may be ahead."""
    return _parse_instant(mark).date() + timedelta(days=WINDOW_DAYS)


def first_pass(mark: str, oldest: date | None) -> ShopPass:
    last = latest_day(mark)
    return ShopPass(mark=mark, first=window_start(last, oldest), last=last, known_to=last)


def increment(mark: str, since: str) -> ShopPass:
    return ShopPass(mark=mark, since=since)


def after_page(shop_pass: ShopPass, cursor: str | None, rows: int, asked: str, oldest: date | None) -> ShopPass | None:
    """Return the pass that continues after a page, in the same list or the next one, or None at the end."""
    seen = shop_pass.seen or rows > 0
    if cursor is not None:
        return replace(shop_pass, cursor=cursor, asked=asked, seen=seen)
    if shop_pass.first is None:
        return None
    empty = 0 if seen else shop_pass.empty + 1
    next_pass = replace(shop_pass, cursor=None, seen=False, empty=empty)
    if shop_pass.first <= oldest if oldest else empty >= EMPTY_WINDOWS:
        return replace(next_pass, first=None, last=None, since=start_of_day(oldest), known_from=shop_pass.first)
    last = shop_pass.first - timedelta(days=1)
    return replace(next_pass, first=window_start(last, oldest), last=last)


def restarted(shop_pass: ShopPass) -> ShopPass:
    """Return the pass at the start of its list, for use when its cursor is invalid or too old."""
    return replace(shop_pass, cursor=None)


def without_stale_cursor(shop_pass: ShopPass, mark: str) -> ShopPass:
    return restarted(shop_pass) if shop_pass.cursor is not None and is_stale(shop_pass.asked, mark) else shop_pass


def is_covered(shop_pass: ShopPass, bill_date: str | None) -> bool:
    """Return whether the windows of this first pass cover the bill's day.

    If so, the bill was read there, or it has changed since then and the next incremental pass reads it.
    """
    if bill_date is None or shop_pass.known_from is None or shop_pass.known_to is None:
        return False
    return shop_pass.known_from.isoformat() <= bill_date <= shop_pass.known_to.isoformat()


def share_done(shop_pass: ShopPass, reached: str | None, oldest: date | None) -> float:
    """Estimate the fraction of the pass that is done, from 0 to 1. `reached` is the last row's `updatedAt`."""
    if shop_pass.known_to is None:
        return _increment_share_done(shop_pass, reached)
    if shop_pass.first is None or shop_pass.last is None:
        return 0.5  # The windows are done, and the list by change reads every bill a second time.
    if oldest is None:
        return 0.0
    return 0.5 * (shop_pass.known_to - shop_pass.last).days / max(1, (shop_pass.known_to - oldest).days + 1)


def _increment_share_done(shop_pass: ShopPass, reached: str | None) -> float:
    if shop_pass.since is None or reached is None:
        return 0.0
    length = seconds_between(shop_pass.since, shop_pass.mark)
    return min(1.0, max(0.0, seconds_between(shop_pass.since, reached) / length)) if length > 0 else 0.0


# --- the members of a base ---------------------------------------------------------


def is_due(base: BaseState, mark: str, every_sec: float) -> bool:
    return base.passed is None or seconds_between(base.passed, mark) >= every_sec


def is_stale(asked: str, mark: str) -> bool:
    return not asked or seconds_between(asked, mark) > CURSOR_LIFE_SEC


# --- instants in the service's format ------------------------------------------------


def seconds_between(earlier: str, later: str) -> float:
    return (_parse_instant(later) - _parse_instant(earlier)).total_seconds()


def _parse_instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def start_of_day(day: date | None) -> str:
    """Return the start of a day in the earliest time zone (UTC+14). For None, return an instant before all bills."""
    return f"{day}T00:00:00+14:00" if day else BEFORE_ALL_BILLS


def window_start(last: date, oldest: date | None = None) -> date:
    length = min(timedelta(days=WINDOW_DAYS - 1), last - date.min)
    return min(last, max(last - length, oldest or date.min))
