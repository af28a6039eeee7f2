"""Where a page begins and which cursor it offers.

The contract's cursor is the bare id of a row, and rows move: a bill goes to
the end of the incremental list whenever it changes. So the place at which a
cursor was handed out is remembered on our side (a bookmark), and a walk goes
on from there. `docs/sync.md` has the argument why no row is ever passed over.
"""

from collections.abc import Sequence

from msgspec import Struct

# How often an ambiguous cursor goes back to its earlier place before it goes
# on from the later one. Only walks of one row a page can get there.
PATIENCE = 3

# So many walks may stand at one place, each as itself; those that come after them are a crowd.
COMPANY = 8
DAY_MS = 24 * 3_600_000

# The modes of a list, as routes begin.
BY_DAY, BY_CHANGE, BY_SIGN_UP = "days", "changes", "members"


class Place(Struct, frozen=True, order=True):
    """A row's place in a list: what the list is sorted by, then the row's id."""

    major: int
    minor: int
    id: str


class Trail(Struct, frozen=True):
    """Whose walk, through which list, with which parameters. `route` is "mode parameters".

    A key and its successors by rotation are one `lineage`.
    """

    lineage: str
    listing: str
    route: str


class Walk(Struct, frozen=True):
    """One reader's way through one list; all its pages carry the horizon of the first."""

    id: str
    horizon: int


class Bookmark(Struct, frozen=True):
    """A cursor that was handed out: in which walk, and where its row stood then."""

    route: str
    walk: Walk
    place: Place
    finished: bool = False
    returns: int = 0


class Resumed(Struct, frozen=True):
    """Where a walk goes on. `worn` is the bookmark to count a return on."""

    after: Place
    walk: Walk | None
    worn: Bookmark | None = None


def resume(route: str, present: Place | None, bookmarks: Sequence[Bookmark]) -> Resumed | None:
    """Go on after a cursor; nothing when the cursor belongs to another list.

    `present` is where the row stands in this list today, if it stands there at
    all.
    """
    here = [mark for mark in bookmarks if mark.route == route]
    if here:
        return _from_bookmarks([mark for mark in here if not mark.finished] or here[-1:], route)
    mode = route.partition(" ")[0]
    foreign = bookmarks and all(mark.route.partition(" ")[0] != mode for mark in bookmarks)
    if present is None or foreign:
        return None
    return Resumed(present, None)


def _from_bookmarks(marks: Sequence[Bookmark], route: str) -> Resumed:
    """Of several places, the earliest: whoever holds the cursor then misses nothing."""
    marks = sorted(marks, key=lambda mark: mark.place)
    earliest, latest = marks[0], marks[-1]
    walks = [mark.walk for mark in marks]
    if earliest.place == latest.place:
        return Resumed(earliest.place, Walk(_together(walks), _serving(walks, route)))
    walk = Walk(_newest(walks), _serving(walks, route))
    if earliest.returns >= PATIENCE:
        return Resumed(latest.place, walk)
    return Resumed(earliest.place, walk, worn=earliest)


def crowd(at_ms: int) -> str:
    """The walk that stands for all that come to a place on this day when COMPANY others hold it.

    Nobody knows how many go on with it, so it never finishes: it is forgotten
    when it is old, and a day has one of its own so that it gets old.
    """
    return f"crowd {at_ms // DAY_MS}"


def is_crowd(walk_id: str) -> bool:
    return walk_id.startswith("crowd ")


def latest_serves(route: str) -> bool:
    """Whether walks that meet go on with the latest of their horizons, and not with the earliest.

    By change the latest serves all: rows that moved meanwhile are read again
    further on, below it. In any other order a row that changed behind the
    reader is not read again, so only the earliest can vouch for them.
    """
    return route.partition(" ")[0] == BY_CHANGE


def _serving(walks: Sequence[Walk], route: str) -> int:
    choose = max if latest_serves(route) else min
    return choose(walk.horizon for walk in walks)


def _together(walks: Sequence[Walk]) -> str:
    """Walks that meet at a place go on as its crowd: when one is through, the cursors of the others are still held."""
    first, *others = {walk.id for walk in walks}
    return crowd(max(walk.horizon for walk in walks)) if others else first


def _newest(walks: Sequence[Walk]) -> str:
    """Of walks at several places: when this one is through, the earliest is still open for the others."""
    return max(walks, key=lambda walk: walk.horizon).id
