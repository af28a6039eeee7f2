"""The progress of a pull, stored in the copy with the rows, and the counts of a run. All times are the service's."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime

from msgspec import MsgspecError, Struct, field, json

from counterfoil.client.errors import CopyMismatch
from counterfoil.client.sinks.sql import Sink, Written
from counterfoil.client.tables import TABLES

# Formats 1 to 5 were used before the first release.
FORMAT = 6


class Origin(Struct, frozen=True):
    """The address and key that a copy was made with."""

    url: str
    key_id: str
    scope: str


class CopySelection(Struct, frozen=True, omit_defaults=True):
    """The part of the data that a copy contains.

    With `since`, it contains the bills of that day and later, and the bills without a date. With `shops`, a sorted
    tuple of IDs, it contains only these shops.
    """

    since: date | None = None
    shops: tuple[str, ...] | None = None

    def has_shop(self, shop_id: str) -> bool:
        return self.shops is None or shop_id in self.shops

    def has_day(self, day: str | None) -> bool:
        return self.since is None or day is None or day >= self.since.isoformat()


class FeedState(Struct, omit_defaults=True):
    """The position in the change feed.

    `mark` is the mark of the last complete pass, and `as_of` is the `serverTime` of that pass. Both are None until a
    full pass is complete. `cursor` is the position in the current pass. `delivered` lists the shops that a pass without
    a mark has delivered so far. `earlier` is the `as_of` from before everything had to be read again.

    `repairs` is whether the pass repairs the copy, so that it may meet parts of bills whose bill is missing. `lost`
    lists the tables that had lost rows or columns when it began.
    """

    mark: str | None = None
    as_of: str | None = None
    cursor: str | None = None
    delivered: list[str] = field(default_factory=list)
    earlier: str | None = None
    repairs: bool = False
    lost: list[str] = field(default_factory=list)

    @property
    def last_complete(self) -> str | None:
        """The `serverTime` of the last complete pass."""
        return self.as_of or self.earlier


class BaseState(Struct, omit_defaults=True):
    """The progress of reading a base.

    The current pass started at `began`, and the last complete pass at `passed`. `cursor` is the position in the current
    pass, and was received at `asked`; without it, the pass begins anew. All times are values of the feed's `as_of`.
    """

    passed: str | None = None
    began: str | None = None
    cursor: str | None = None
    asked: str = ""


class State(Struct):
    """The stored progress.

    `copied_at` is the latest time that a row has got. `changes` counts the rows that were ever added, changed or
    removed. `changes_handled` is the value that `changes` had when the `pull --then` command last succeeded. `rows`
    says how many rows each table has at least, and `lost` lists tables that lacked columns when the copy was opened.
    `columns` says how many columns each table has, so `dropped` are the tables that lacked columns which they once had.

    `left` has the shops that have left the key's scope, with the number of their rows in each table. Those that have
    lost some are in `incomplete`, with the names of these tables.
    """

    format: int = FORMAT
    origin: Origin | None = None
    selection: CopySelection = CopySelection()
    feed: FeedState = field(default_factory=FeedState)
    bases: dict[str, BaseState] = field(default_factory=dict)
    copied_at: str = ""
    changes: int = 0
    changes_handled: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    columns: dict[str, int] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    left: dict[str, dict[str, int]] = field(default_factory=dict)
    incomplete: dict[str, list[str]] = field(default_factory=dict)

    def lost_tables(self, counts: Mapping[str, int]) -> list[str]:
        """Return the tables that have lost columns or rows since the last run. `counts` has their numbers of rows."""
        short = (name for name, least in self.rows.items() if counts.get(name, 0) < least)
        return sorted({*self.lost, *short})

    @property
    def has_unhandled_changes(self) -> bool:
        """Whether the copy has changed since the `pull --then` command last succeeded."""
        return self.changes > self.changes_handled


def set_write_time(sink: Sink, state: State, now: str) -> None:
    """Write rows with the service's time, or with the rows' latest one if a restored service is behind it."""
    if not state.copied_at or seconds_between(state.copied_at, now) > 0:
        state.copied_at = now
    sink.now = state.copied_at


class _FormatOnly(Struct):
    format: int = 0


def decode(state: bytes | None) -> State:
    """Return the stored progress. Raise `CopyMismatch` if this version cannot read a copy in its format."""
    if not state:
        return State()
    try:
        found = json.decode(state, type=_FormatOnly).format
        if found == FORMAT:
            return json.decode(state, type=State)
    except MsgspecError as error:
        raise CopyMismatch(f"the progress that is stored in this copy cannot be read: {error}.") from error
    raise CopyMismatch(
        f"this copy has format {found}, but this version of Counterfoil reads only format {FORMAT}. "
        "Pull into another target or, if the copy is newer, upgrade Counterfoil."
    )


def save(sink: Sink, state: State, counts: dict[str, int] | None = None) -> None:
    """Store the state. If the rows have not been counted, store only which tables have rows."""
    state.rows = sink.row_counts(most=1) if counts is None else counts
    state.columns = {table.name: len(table.columns) for table in TABLES}
    sink.save_state(json.encode(state))


def record_handled(sink: Sink, changes: int) -> None:
    """Record that the `pull --then` command has handled this many changes.

    The stored number never decreases, because another run may have handled more changes. It is at most `state.changes`,
    because the changes of a failed transaction were counted but not stored.
    """
    with sink.transaction():
        state = decode(sink.state())
        state.changes_handled = max(state.changes_handled, min(changes, state.changes))
        save(sink, state, state.rows)


class Tally(Struct):
    """The progress of a pull or a comparison. `waiting_for` has a reason; every change calls `on_progress`."""

    shops: int = 0
    shops_done: int = 0
    bases: int = 0
    out_of_scope: int = 0
    requests: int = 0
    bills_read: int = 0
    # Bills with a time that were read without a business day.
    bills_without_day: int = 0
    bills_added: int = 0
    bills_changed: int = 0
    bills_unchanged: int = 0
    bills_removed: int = 0
    members_read: int = 0
    members_added: int = 0
    members_changed: int = 0
    members_unchanged: int = 0
    members_removed: int = 0
    shops_changed: int = 0
    # Rows of lines, payments and so on, whose bill, shop or member was not in the copy.
    strays_removed: int = 0
    missing_shops: list[str] = field(default_factory=list)
    shops_that_left: list[str] = field(default_factory=list)
    # Tables that had lost rows or columns, so that everything was read again.
    lost_tables: list[str] = field(default_factory=list)
    # Shops that have left the key's scope and have lost rows, with the names of the tables.
    incomplete_shops: dict[str, list[str]] = field(default_factory=dict)
    remaining: int | None = None
    reading: str = ""
    writing_sec: float = 0.0
    waiting_sec: float = 0.0
    waiting_for: str = ""
    on_progress: Callable[["Tally"], None] = lambda _: None

    def count_response(self, remaining: int | None) -> None:
        self.requests += 1
        self.remaining = remaining
        self.on_progress(self)

    def count_bills(self, written: Written) -> None:
        self.bills_added += written.added
        self.bills_changed += written.changed
        self.bills_unchanged += written.unchanged
        self.bills_without_day += written.without_day

    def count_members(self, written: Written) -> None:
        self.members_added += written.added
        self.members_changed += written.changed
        self.members_unchanged += written.unchanged

    @property
    def bills_written(self) -> int:
        return self.bills_added + self.bills_changed

    @property
    def members_written(self) -> int:
        return self.members_added + self.members_changed

    @property
    def has_read(self) -> bool:
        """Whether the run has received any bills, members or changes."""
        return bool(self.bills_read or self.members_read or self.changes)

    @property
    def changes(self) -> int:
        """The number of bills, members and shops that the run has added, changed or removed, and of stray rows."""
        bills = self.bills_written + self.bills_removed + self.strays_removed
        return bills + self.members_written + self.members_removed + self.shops_changed


# --- the origin of a copy ------------------------------------------------------------


def require_origin(known: Origin | None, origin: Origin) -> None:
    """Raise `CopyMismatch` if the copy has a different origin."""
    if known is not None and known != origin:
        raise CopyMismatch(
            f"this copy was made from {known.url} with the {known.scope} key {known.key_id}, not from "
            f"{origin.url} with the {origin.scope} key {origin.key_id}. If both return the same data, for example "
            "because the address is new or the key was replaced, run `counterfoil pull` with --adopt. Otherwise, "
            "use another target."
        )


# --- the feed --------------------------------------------------------------------


def require_full_pass(state: State) -> None:
    """Make the next pass return everything. When it ends, its shops keep only the bills that it delivered."""
    feed = state.feed
    state.feed = FeedState(earlier=feed.last_complete, repairs=feed.repairs, lost=feed.lost)


def chosen(known: CopySelection, since: date | None, shops: Sequence[str] | None) -> CopySelection:
    """Return the selection with these options. None keeps the known value, and an empty list means all shops."""
    return CopySelection(
        known.since if since is None else since, known.shops if shops is None else tuple(sorted(set(shops))) or None
    )


def seconds_between(earlier: str, later: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()
