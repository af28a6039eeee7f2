"""The change feed: one list of the changes and removals in all shops of a key's scope.

A pass returns what changed after `since`, the horizon of the previous pass, and up to `until`, the horizon when the
pass began. Shops are sorted by ID. Each shop has up to four sections: its own entry, removed bills, bills without
`updatedAt`, and bills with `updatedAt`. Rows within a section are sorted by stamp. Anything that changes during a pass
gets a stamp above `until`, so the next pass returns it. docs/decisions/0017 explains why no change is missed.
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum

from msgspec import Struct, json

from counterfoil.model.calendar import DAY_MS

# The value of `since` in a first pass, which is lower than every stamp.
BEGINNING = -1
# How long removals of bills are kept. A pass cannot start from an older mark.
REMOVALS_KEPT_MS = 400 * DAY_MS
# A page ends early once its elements take up this many bytes in total.
MAX_PAGE_BYTES = 8 * 1024 * 1024


class Part(IntEnum):
    """The kinds of section that a shop has in the feed, in the order in which they are returned."""

    SHOP = 0
    REMOVED = 1
    UNTRACKED = 2
    TRACKED = 3


class Window(Struct, frozen=True):
    """The range of stamps that a pass covers: above `since`, up to and including `until`."""

    since: int
    until: int


class FeedPosition(Struct, frozen=True, order=True):
    """The position of an element in a pass."""

    shop_id: str
    part: int = Part.SHOP
    stamp: int = 0
    id: str = ""


class FeedShop(Struct, frozen=True):
    """What a pass needs to know about a shop.

    `body` is the shop's entry in `GET /v1/shops`, or None if this entry has not changed since the previous pass. For a
    shop that left the scope, `joined_at` and `listed_at` are the stamp of its departure, and `body` is None.
    """

    shop_id: str
    number: int
    in_scope: bool
    removed: bool
    joined_at: int
    listed_at: int
    body: bytes | None


class Section(Struct, frozen=True):
    """Rows of one kind that a pass still has to read from a shop: the rows after a stamp and an ID."""

    shop: FeedShop
    part: Part
    stamp: int
    id: str

    def after(self, stamp: int, row_id: str) -> "Section":
        """Return the part of the section that follows the row with this stamp and ID."""
        return Section(self.shop, self.part, stamp, row_id)


class FoundRow(Struct, frozen=True):
    """A bill, or the removal of a bill, as read from the store. A removal has no seal and no body."""

    stamp: int
    id: str
    seal: bytes | None
    body: bytes | None


class FeedPage(Struct, frozen=True):
    """A page of the feed as JSON. `last` is None if the pass ends here; `oldest` is the oldest mark still valid."""

    elements: list[bytes]
    seal: bytes
    last: FeedPosition | None
    oldest: int


class PageBuilder:
    """Builds a page from the shops and rows that are read from the store."""

    def __init__(self, window: Window, after: FeedPosition | None, limit: int) -> None:
        self._window = window
        self._after = after
        self._limit = limit
        self._elements: list[bytes] = []
        self._seals: list[bytes] = []
        self._bytes = 0
        self._last: FeedPosition | None = None

    @property
    def remaining(self) -> int:
        """The number of elements that still fit on the page."""
        return 0 if self._bytes >= MAX_PAGE_BYTES else self._limit - len(self._elements)

    def sections(self, shop: FeedShop) -> list[Section]:
        """Return the sections of a shop that this pass still has to read, in order."""
        since, until = self._window.since, self._window.until
        if shop.joined_at > until or (since == BEGINNING and not shop.in_scope):
            # The next pass reports a shop that joined or left since this one began. A first one reports none that left.
            return []
        whole = shop.joined_at > since
        starts_at = (BEGINNING if whole else since) + 1
        found: list[Section] = []
        if whole or since < shop.listed_at <= until:
            found.append(Section(shop, Part.SHOP, 0, ""))
        if shop.in_scope:
            # If a shop is sent in full, the client first deletes its copies of the bills, so it needs no removals.
            parts = (Part.UNTRACKED, Part.TRACKED) if whole else (Part.REMOVED, Part.UNTRACKED, Part.TRACKED)
            found += [Section(shop, part, starts_at, "") for part in parts]
        if self._after is None or self._after.shop_id != shop.shop_id:
            return found
        return list(self._rest(found, self._after))

    def _rest(self, sections: Iterable[Section], after: FeedPosition) -> Iterator[Section]:
        for section in sections:
            if section.part > after.part:
                yield section
            elif section.part == after.part != Part.SHOP:
                yield section.after(after.stamp, after.id)

    def add(self, section: Section, rows: Iterable[FoundRow]) -> None:
        """Add the rows of a section, or the shop's own entry, until the page is full."""
        shop_id = json.encode(section.shop.shop_id)
        if section.part is Part.SHOP and self.remaining:
            whole = section.shop.in_scope and section.shop.joined_at > self._window.since
            self._append(FeedPosition(section.shop.shop_id), _entry(section.shop, whole=whole))
        for row in rows:
            if not self.remaining:
                return
            position = FeedPosition(section.shop.shop_id, section.part, row.stamp, row.id)
            if row.body is None:
                self._append(position, b'{"type":"billRemoved","shopId":%b,"id":%b}' % (shop_id, json.encode(row.id)))
            else:
                self._append(position, b'{"type":"bill","shopId":%b,"bill":%b}' % (shop_id, row.body), row.seal)

    def page(self, oldest: int) -> FeedPage:
        last = None if self.remaining else self._last
        return FeedPage(self._elements, b"".join(self._seals), last, oldest)

    def _append(self, position: FeedPosition, element: bytes, seal: bytes | None = None) -> None:
        self._elements.append(element)
        # A page's seal includes those of its bills, and other elements, which are short or rare, in full.
        self._seals.append(json.encode(position.shop_id) + seal if seal else element)
        self._bytes += len(element)
        self._last = position


def _entry(shop: FeedShop, *, whole: bool) -> bytes:
    shop_id, full = json.encode(shop.shop_id), b"true" if whole else b"false"
    if shop.in_scope and not shop.removed:
        return b'{"type":"shop","shopId":%b,"full":%b,"shop":%b}' % (shop_id, full, shop.body or b"null")
    in_scope = b"true" if shop.in_scope else b"false"
    return b'{"type":"shopRemoved","shopId":%b,"full":%b,"inScope":%b}' % (shop_id, full, in_scope)
