"""How far a pull has come: what is kept in the copy beside its rows.

Every shop has a mark of its own, the instant from which its next increment is
read; while a shop is being read, its journey tells where. Pure values; every
instant here was told by the service, none by the clock of this machine.
"""

from datetime import date, datetime, timedelta

from msgspec import Struct, field, json
from msgspec.structs import replace

from counterfoil.client.errors import CopyMismatch

FORMAT = 1
WINDOW_DAYS = 31
EMPTY_WINDOWS = 12
# The service remembers a cursor's place for days, but the contract does not say how many: an old one is not trusted.
CURSOR_LIFE_SEC = 36 * 3600
BEFORE_EVERYTHING = "1970-01-01T00:00:00Z"


class Origin(Struct, frozen=True):
    """Where a copy comes from."""

    url: str
    key_id: str
    scope: str


class Journey(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One list being read. A first reading goes back in windows and ends with the bills that no window shows.

    `known_from..known_to` are the days that windows have shown; `asked` is the
    service's time in the run that got the cursor.
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
    mark: str | None = None
    journey: Journey | None = None


class BaseState(Struct, omit_defaults=True):
    """`began` is the service's time in the run that began the pass under way, `passed` that of the last whole one."""

    passed: str | None = None
    began: str | None = None
    cursor: str | None = None
    asked: str = ""


class State(Struct, omit_defaults=True):
    format: int = FORMAT
    origin: Origin | None = None
    shops: dict[str, ShopState] = field(default_factory=dict)
    bases: dict[str, BaseState] = field(default_factory=dict)


class _Format(Struct):
    format: int = FORMAT


def read(state: bytes | None) -> State:
    if not state:
        return State()
    found = json.decode(state, type=_Format).format
    if found > FORMAT:
        raise CopyMismatch(
            f"this copy has format {found}, and this program knows up to {FORMAT}: "
            "it was made by a newer Counterfoil. Use that version, or pull into another target."
        )
    return json.decode(state, type=State)


def written(state: State) -> bytes:
    return json.encode(state)


# --- whose copy it is ------------------------------------------------------------


def claim(state: State, origin: Origin, *, adopt: bool) -> None:
    """Note where the copy comes from; one that comes from elsewhere is left alone, unless it is to be adopted."""
    known = state.origin
    if known is None or known == origin:
        state.origin = origin
        return
    if not adopt:
        raise CopyMismatch(
            f"this copy was made from {known.url} with the {known.scope} key {known.key_id}, "
            f"not from {origin.url} with the {origin.scope} key {origin.key_id}. If both show the same data "
            "(a new address, a key's successor), add --adopt; otherwise pull into another target."
        )
    state.origin = origin
    # The places of cursors are remembered by key: those of the old one mean nothing to the new.
    for shop in state.shops.values():
        shop.journey = shop.journey and restarted(shop.journey)
    for base in state.bases.values():
        base.cursor = None


# --- through the bills of a shop ---------------------------------------------------


def latest_day(mark: str) -> date:
    """Where windows begin: a till whose clock is ahead by up to a month is no reason to miss its bills."""
    return _instant(mark).date() + timedelta(days=WINDOW_DAYS)


def first_journey(mark: str, oldest: date | None) -> Journey:
    last = latest_day(mark)
    return Journey(mark=mark, first=window_start(last, oldest), last=last, known_to=last)


def increment(mark: str, since: str) -> Journey:
    return Journey(mark=mark, since=since)


def turned(journey: Journey, cursor: str | None, rows: int, asked: str, oldest: date | None) -> Journey | None:
    """The journey after a page: on by cursor, to the window before, to the undated, or at its end."""
    seen = journey.seen or rows > 0
    if cursor is not None:
        return replace(journey, cursor=cursor, asked=asked, seen=seen)
    if journey.first is None:
        return None
    empty = 0 if seen else journey.empty + 1
    on = replace(journey, cursor=None, seen=False, empty=empty)
    if journey.first <= oldest if oldest else empty >= EMPTY_WINDOWS:
        return replace(on, first=None, last=None, since=beginning(oldest), known_from=journey.first)
    last = journey.first - timedelta(days=1)
    return replace(on, first=window_start(last, oldest), last=last)


def restarted(journey: Journey) -> Journey:
    """The same list from its beginning: the cursor is gone or too old to be trusted."""
    return replace(journey, cursor=None)


def trusted(journey: Journey, mark: str) -> Journey:
    return restarted(journey) if journey.cursor is not None and is_stale(journey.asked, mark) else journey


def shown_before(journey: Journey, bill_date: str | None) -> bool:
    """Whether the windows of this first reading have shown the bill already, or the next increment will."""
    if bill_date is None or journey.known_from is None or journey.known_to is None:
        return False
    return journey.known_from.isoformat() <= bill_date <= journey.known_to.isoformat()


def part(journey: Journey, reached: str | None, oldest: date | None) -> float:
    """How much of the list lies behind, as far as that can be told. `reached` is the last row's `updatedAt`."""
    if journey.known_to is None:
        return _part_of_increment(journey, reached)
    if journey.first is None or journey.last is None:
        return 0.5  # every bill is read twice, and the windows are behind
    if oldest is None:
        return 0.0
    return 0.5 * (journey.known_to - journey.last).days / max(1, (journey.known_to - oldest).days + 1)


def _part_of_increment(journey: Journey, reached: str | None) -> float:
    if journey.since is None or reached is None:
        return 0.0
    length = seconds_between(journey.since, journey.mark)
    return min(1.0, max(0.0, seconds_between(journey.since, reached) / length)) if length > 0 else 0.0


# --- through the members of a base -------------------------------------------------


def is_due(base: BaseState, mark: str, every_sec: float) -> bool:
    return base.passed is None or seconds_between(base.passed, mark) >= every_sec


def is_stale(asked: str, mark: str) -> bool:
    return not asked or seconds_between(asked, mark) > CURSOR_LIFE_SEC


# --- instants as the service writes them ---------------------------------------------


def seconds_between(earlier: str, later: str) -> float:
    return (_instant(later) - _instant(earlier)).total_seconds()


def _instant(written: str) -> datetime:
    return datetime.fromisoformat(written)


def beginning(day: date | None) -> str:
    """When a day begins where on earth it begins first; without one, before everything."""
    return f"{day}T00:00:00+14:00" if day else BEFORE_EVERYTHING


def window_start(last: date, oldest: date | None = None) -> date:
    length = min(timedelta(days=WINDOW_DAYS - 1), last - date.min)
    return min(last, max(last - length, oldest or date.min))
