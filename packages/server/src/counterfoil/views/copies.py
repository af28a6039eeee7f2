"""How fresh an integrator's copy is: how far a key lineage has read the changes of each shop."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.domain.access import Key
from counterfoil.domain.activity import ShopActivity
from counterfoil.domain.change_feed import REMOVALS_KEPT_MS
from counterfoil.domain.request_records import CHANGE_FEED, CHANGES_OF_SHOP, CopyState
from counterfoil.model.calendar import HOUR_MS, from_ms, iso_utc, to_ms
from counterfoil.model.messages import Message, duration
from counterfoil.model.text import translatable
from counterfoil.program.columns import DATA, ListColumn
from counterfoil.program.times import minute

# A copy that was brought up to date within this time counts as fresh. Integrators usually read at least once a day.
FRESH_MS = 26 * HOUR_MS
# A gap is reported until it is this old. The marks of the change feed expire after the same time.
GAP_REPORTED_MS = REMOVALS_KEPT_MS

# Returns the loaded shops, or None if they cannot be read.
LoadedShops = Callable[[], Sequence[ShopActivity] | None]

# The possible verdicts about a list, most urgent first.
ListVerdict = Literal["behind", "gap", "reading", "never", "fresh"]
VERDICTS: tuple[ListVerdict, ...] = get_args(ListVerdict)


class CopyRow(Struct, frozen=True, kw_only=True, rename="camel"):
    """How far one list of changes was read. `shop_id` is None for the change feed, which covers all shops in scope.

    `state` is the verdict:
    - `fresh`: a pass has read the list to its end, up to a time within the last 26 hours.
    - `behind`: passes have ended, but none of them read up to such a time.
    - `gap`: like `fresh`, but some of the changes between `gap_from` and `gap_until` were not returned by any pass.
    - `reading`: the list would be `behind` or `never`, but a pass has begun and has not ended.
    - `never`: no pass has ever ended.

    Everything from `read_from` (or the beginning) to `complete_until` was read, except for gaps too old to be reported.
    `no_longer_read`: the integrator has changed between the feed and the lists of shops, and the other one has it all.
    """

    list_name: str
    shop_id: str | None
    shop_name: str | None
    state: ListVerdict
    read_from: datetime | None = None
    complete_until: datetime | None = None
    gap_from: datetime | None = None
    gap_until: datetime | None = None
    last_read_at: datetime | None = None
    no_longer_read: bool = False


class CopySummary(Struct, frozen=True, rename="camel"):
    """The most urgent verdict about a key's lists, None if it has read none of them, and how many are up to date.

    Lists that are no longer read do not count. `unit` is `shops`, unless the change feed is one of the lists.
    """

    state: ListVerdict | None
    fresh: int
    lists: int
    read_from: datetime | None
    unit: Literal["shops", "lists"]


def copy_rows(key: Key, found: Sequence[CopyState], shops: Sequence[ShopActivity] | None, now: int) -> list[CopyRow]:
    """Return a row for each list that was read, and for each shop in scope of which nothing was ever read."""
    names = {shop.shop_id: shop.name for shop in shops or () if _covers(key, shop)}
    by_shop: dict[str, CopyState] = {}
    for copy in found:
        is_in_scope = shops is None or copy.shop_id in names or copy.shop_id == key.scope.id
        if copy.shop_id is not None and is_in_scope:
            by_shop[copy.shop_id] = copy
    of_shops = []
    for shop_id in {**names, **by_shop}:
        name = names.get(shop_id)
        if shop_id in by_shop:
            of_shops.append(_row(by_shop[shop_id], name, now))
        else:
            of_shops.append(CopyRow(list_name=CHANGES_OF_SHOP, shop_id=shop_id, shop_name=name, state="never"))
    feeds = [_row(copy, None, now) for copy in found if copy.list_name == CHANGE_FEED]
    if not feeds:
        return of_shops
    feed = feeds[0]
    if shops is not None and _is_replaced(feed, of_shops, now):
        return [replace(feed, no_longer_read=True), *of_shops]
    # A pass over the feed has read every shop.
    read = [row for row in of_shops if row.last_read_at or not feed.complete_until]
    return [feed, *(replace(row, no_longer_read=_is_replaced(row, [feed], now)) for row in read)]


def _is_replaced(row: CopyRow, others: Sequence[CopyRow], now: int) -> bool:
    """Return whether a list has not been read for FRESH_MS, and the others are up to date from where it ended."""
    if not others or row.last_read_at is None or now - to_ms(row.last_read_at) <= FRESH_MS:
        return False
    for other in others:
        if other.state != "fresh":
            return False
        if other.read_from is None:
            continue  # It was read from the beginning.
        if row.complete_until is None or other.read_from > row.complete_until:
            return False
    return True


def summary(rows: Sequence[CopyRow]) -> CopySummary:
    counted = worst_first(rows)
    was_read = any(row.state != "never" for row in counted)
    times = [row.read_from for row in counted if row.read_from]
    return CopySummary(
        state=counted[0].state if was_read else None,
        fresh=sum(row.state == "fresh" for row in counted),
        lists=len(counted),
        read_from=max(times, default=None),
        unit="shops" if all(row.shop_id for row in counted) else "lists",
    )


def worst_first(rows: Sequence[CopyRow]) -> list[CopyRow]:
    """Return the lists that count, the most urgent first."""
    return sorted((row for row in rows if not row.no_longer_read), key=lambda row: VERDICTS.index(row.state))


def _covers(key: Key, shop: ShopActivity) -> bool:
    return key.scope.id == (shop.shop_id if key.scope.kind == "shop" else shop.franchise_id)


def _row(state: CopyState, name: str | None, now: int) -> CopyRow:
    gaps = [gap for gap in state.gaps if gap.end > now - GAP_REPORTED_MS]
    return CopyRow(
        list_name=state.list_name,
        shop_id=state.shop_id,
        shop_name=name,
        state=_verdict(state, has_gap=bool(gaps), now=now),
        read_from=_time(state.read_from) if state.read_from else None,
        complete_until=_time(gaps[0].start if gaps else state.server_time),
        gap_from=_time(gaps[0].start) if gaps else None,
        gap_until=_time(gaps[-1].end) if gaps else None,
        last_read_at=_time(state.at),
    )


def _verdict(state: CopyState, *, has_gap: bool, now: int) -> ListVerdict:
    if state.server_time is not None and now - state.server_time <= FRESH_MS:
        return "gap" if has_gap else "fresh"
    if not state.finished:
        return "reading"
    return "never" if state.server_time is None else "behind"


def _time(instant: int | None) -> datetime | None:
    return None if instant is None else from_ms(instant, UTC)


def list_name(row: CopyRow) -> str:
    if row.shop_id is None:
        return "all shops (change feed)"
    return f"{row.shop_name} ({row.shop_id})" if row.shop_name else row.shop_id


STATES: dict[ListVerdict, Message] = {
    "fresh": Message("copy_fresh", "up to date"),
    "behind": Message("copy_behind", "behind"),
    "gap": Message("copy_gap", "gap"),
    "reading": Message("copy_reading", "pass not finished"),
    "never": Message("copy_never", "never read"),
}
NO_LONGER_READ = Message("copy_no_longer_read", "no longer read")
FRESH_SINCE = Message("copy_fresh_since", "up to date for changes since {start}")
_BEHIND_BY = Message("copy_behind_by", "behind by {span}")
_GAP = Message(
    "copy_gap_note",
    "Changes between {start} and {end} were not read from the list of changes. This is expected if the copy was "
    "rebuilt during that time.",
)
_CLOSE_GAP = Message(
    "copy_close_gap", "To close the gap, ask the integrator to read this shop once with updatedSince={mark}."
)
_CLOSE_GAPS = Message(
    "copy_close_gaps", "To close the gap, ask the integrator to read each shop once with updatedSince={mark}."
)
_NOT_BEFORE = Message("copy_read_from", "Changes before {start} were not read from the list of changes.")


def state(row: CopyRow, now: int) -> Message:
    if row.no_longer_read:
        return NO_LONGER_READ
    if row.state == "behind" and row.complete_until:
        return _BEHIND_BY(span=duration(now - to_ms(row.complete_until)))
    if row.state == "fresh" and row.read_from:
        return FRESH_SINCE(start=minute(row.read_from))
    return STATES[row.state]


def notes(row: CopyRow) -> Iterator[Message]:
    """Yield what is to be known about changes that were not read."""
    if row.no_longer_read:
        return
    if row.gap_from and row.gap_until:
        yield _GAP(start=minute(row.gap_from), end=minute(row.gap_until))
        yield (_CLOSE_GAP if row.shop_id else _CLOSE_GAPS)(mark=iso_utc(to_ms(row.gap_from)))
    if row.read_from:
        yield _NOT_BEFORE(start=minute(row.read_from))


def columns(now: int) -> Sequence[ListColumn[CopyRow]]:
    """Return the columns in a terminal and on a page. In JSON, a row has all its fields."""
    return (
        ListColumn("list", list_name, terminal="shop", page=translatable("Shop"), without=DATA),
        ListColumn(
            "state", lambda row: str(state(row, now)), terminal="copy", page=translatable("State"), without=DATA
        ),
        ListColumn(
            "completeUntil",
            lambda row: row.complete_until,
            kind="time",
            terminal="complete until",
            page=translatable("Complete until"),
            without=DATA,
        ),
        ListColumn(
            "lastReadAt",
            lambda row: row.last_read_at,
            kind="time",
            terminal="last read",
            page=translatable("Last read"),
            without=DATA,
        ),
    )
