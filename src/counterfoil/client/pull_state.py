"""The progress of a pull, which is stored in the copy together with the rows.

Except for `record_handled`, the functions here do no I/O. Every instant comes
from the service, never from this machine's clock.
"""

from collections.abc import Sequence
from datetime import date, datetime

from msgspec import Struct, field, json

from counterfoil.client.errors import CopyMismatch
from counterfoil.client.sinks import Sink

# Format 1 had a mark for each shop. The next pull into a copy in format 1 reads everything from the service again and
# saves the state in format 2.
FORMAT = 2
# The service accepts a cursor of a member list for 7 days after it was last handed out or used, and then refuses it
# with bad_cursor.
# The client restarts a list much earlier, so that it does not depend on how long cursors are valid.
CURSOR_LIFE_SEC = 36 * 3600


class Origin(Struct, frozen=True):
    """The address and key that a copy was made with."""

    url: str
    key_id: str
    scope: str


class CopySelection(Struct, frozen=True, omit_defaults=True):
    """The part of the data that a copy contains.

    With `since`, it contains the bills of that day and later, and the bills
    without a date. With `shops`, a sorted tuple of IDs, it contains only these
    shops.
    """

    since: date | None = None
    shops: tuple[str, ...] | None = None

    def has_shop(self, shop_id: str) -> bool:
        return self.shops is None or shop_id in self.shops

    def has_day(self, day: str | None) -> bool:
        return self.since is None or day is None or day >= self.since.isoformat()


class FeedState(Struct, omit_defaults=True):
    """The position in the change feed.

    `mark` is the mark of the last complete pass, and `as_of` is the `serverTime`
    of that pass. Both are None until a full pass is complete. `cursor` is the
    position in the current pass. `delivered` lists the shops that a pass without
    a mark has delivered so far.
    """

    mark: str | None = None
    as_of: str | None = None
    cursor: str | None = None
    delivered: list[str] = field(default_factory=list)


class BaseState(Struct, omit_defaults=True):
    """The progress of reading a base.

    The current pass started at `began`, and the last complete pass at `passed`.
    `cursor` is the position in the current pass, and was received at `asked`.
    All three times are values of the feed's `as_of`.
    """

    passed: str | None = None
    began: str | None = None
    cursor: str | None = None
    asked: str = ""


class State(Struct):
    """The stored progress.

    `changes` counts the rows that were ever added, changed or removed.
    `changes_handled` is the value that `changes` had when the `pull --then` command last succeeded.
    """

    format: int = FORMAT
    origin: Origin | None = None
    selection: CopySelection = CopySelection()
    feed: FeedState = field(default_factory=FeedState)
    bases: dict[str, BaseState] = field(default_factory=dict)
    changes: int = 0
    changes_handled: int = 0

    @property
    def has_unhandled_changes(self) -> bool:
        """Whether the copy has changed since the `pull --then` command last succeeded."""
        return self.changes > self.changes_handled


class _FormatOnly(Struct):
    format: int = 1  # Format 1 had no such field.


def decode(state: bytes | None) -> State:
    if not state:
        return State()
    found = json.decode(state, type=_FormatOnly).format
    if found > FORMAT:
        raise CopyMismatch(
            f"this copy has format {found}, but this version of Counterfoil supports only formats up to {FORMAT}. "
            "Upgrade Counterfoil, or pull into another target."
        )
    decoded = json.decode(state, type=State)
    decoded.format = FORMAT
    return decoded


def encode(state: State) -> bytes:
    return json.encode(state)


def record_handled(sink: Sink, changes: int) -> None:
    """Record that the `pull --then` command has handled this many changes.

    The stored number never decreases, because another run may have handled more changes. It is at most `state.changes`,
    because the changes of a failed transaction were counted but not stored.
    """
    with sink.transaction():
        state = decode(sink.state())
        state.changes_handled = max(state.changes_handled, min(changes, state.changes))
        sink.save_state(encode(state))


# --- the origin of a copy ------------------------------------------------------------


def require_origin(known: Origin | None, origin: Origin) -> None:
    """Raise `CopyMismatch` if the copy has a different origin."""
    if known is not None and known != origin:
        raise mismatch(known, origin)


def mismatch(known: Origin, origin: Origin) -> CopyMismatch:
    return CopyMismatch(
        f"this copy was made from {known.url} with the {known.scope} key {known.key_id}, "
        f"not from {origin.url} with the {origin.scope} key {origin.key_id}. If both return the same data, for "
        "example because the address is new or the key was replaced, run `counterfoil pull` with --adopt. "
        "Otherwise, use another target."
    )


# --- the feed --------------------------------------------------------------------


def require_full_pass(state: State) -> None:
    """Make the next pass return everything. When it ends, its shops keep only the bills that it delivered."""
    state.feed = FeedState()


def restart_pass(state: State) -> None:
    state.feed.cursor = None
    state.feed.delivered = []


def changes_selection(state: State, since: date | None, shops: Sequence[str] | None) -> bool:
    """Return whether these options change which part of the data the copy contains."""
    return _chosen(state, since, shops) != state.selection


def select(state: State, since: date | None, shops: Sequence[str] | None) -> None:
    """Record which part of the data the copy contains. If that part changes, the next pass returns everything.

    An option that is None keeps its recorded value. An empty list of shops means all shops.
    """
    if changes_selection(state, since, shops):
        state.selection = _chosen(state, since, shops)
        require_full_pass(state)


def _chosen(state: State, since: date | None, shops: Sequence[str] | None) -> CopySelection:
    return CopySelection(
        state.selection.since if since is None else since,
        state.selection.shops if shops is None else tuple(sorted(set(shops))) or None,
    )


# --- the members of a base ---------------------------------------------------------


def is_due(base: BaseState, now: str, every_sec: float) -> bool:
    return base.passed is None or seconds_between(base.passed, now) >= every_sec


def is_stale(asked: str, now: str) -> bool:
    return not asked or seconds_between(asked, now) > CURSOR_LIFE_SEC


def seconds_between(earlier: str, later: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()
