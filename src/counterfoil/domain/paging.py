"""Cursors: one cursor stands for one position in one list.

The contract's cursor is the bare id of a row, and rows move: a bill moves to
the end of the list by change whenever it changes. So the service remembers the
position for which it handed a cursor out. While an id is held for one position
of a list, another position of that list gets a fresh id of the same shape; the
service never has to guess which one a caller means. `docs/sync.md` explains why
no row is missed.
"""

from itertools import cycle

from msgspec import Struct

HOUR_MS = 3_600_000
# A cursor is valid for this long after it was last handed out or used.
LIFETIME_MS = 7 * 24 * HOUR_MS
# After that, its id is not handed out for another position for this long, because a client may still send it.
RESERVED_MS = 90 * 24 * HOUR_MS
# The end of a cursor's lifetime is stored again only when it moves by at least this much.
EXTEND_MS = 60_000
# Readers whose horizons are further apart than this do not share a cursor. In a list by change, readers that share one
# continue with the latest horizon, and a pass must end however often others begin one. In the other lists they continue
# with the earliest horizon, which must not become older and older while somebody reads the list.
SHARED_MS = 24 * HOUR_MS

# The modes of a list; a list's `query` begins with its mode.
BY_DAY, BY_CHANGE, BY_SIGN_UP = "days", "changes", "members"


class Position(Struct, frozen=True, order=True):
    """A row's position in a list: what the list is sorted by, then the row's id."""

    major: int
    minor: int
    id: str


class Listing(Struct, frozen=True):
    """A list as one key lineage reads it. A cursor is valid only within its listing.

    `lineage` is the id of the first key of the lineage. `resource` names what
    is listed ("bills SHOP" or "members BASE"). `query` is the mode with its
    parameters, without `limit` ("changes 0").
    """

    lineage: str
    resource: str
    query: str

    @property
    def latest_horizon_serves(self) -> bool:
        """Whether readers that share a cursor continue with the latest of their horizons, rather than the earliest.

        A row that changes moves to the end of a list by change, so whatever
        changed between two horizons lies ahead of both readers. In any other
        order, a row that changed behind a reader is not read again, so only the
        earliest horizon is correct for all of them.
        """
        return self.query.partition(" ")[0] == BY_CHANGE


class StoredCursor(Struct, frozen=True):
    """What a cursor stands for: a position, and the earliest and the latest horizon that it was handed out with."""

    position: Position
    earliest: int
    latest: int

    def horizon_in(self, listing: Listing) -> int:
        """Return the horizon that all holders of the cursor continue with."""
        return self.latest if listing.latest_horizon_serves else self.earliest

    def at(self, position: Position) -> "StoredCursor":
        """Return what the cursor at the end of the next page stands for."""
        return StoredCursor(position, self.earliest, self.latest)


# This many additional random characters make an id unique, whatever else was handed out.
EXTRA = 16


def fresh_cursor(like: str, random: str, *, longer: bool = False) -> str:
    """Return a random id of the same shape: digits for digits, letters for letters of the same case.

    With `longer`, the id gets `EXTRA` more characters, because all ids of a short
    shape may be taken. The part up to an underscore near the start, such as the
    "m1_" of a member token, is a prefix and does not change.
    """
    start = like.find("_", 0, 5) + 1
    prefix, body = like[:start], like[start:]
    hexadecimal = all(letter in "abcdefABCDEF" for letter in body if letter.isascii() and letter.isalpha())
    alphabets = [_alphabet(letter, hexadecimal=hexadecimal) for letter in body]
    if longer:
        alphabets += [next((alphabet for alphabet in reversed(alphabets) if len(alphabet) > 1), _DIGITS)] * EXTRA
    return prefix + "".join(alphabet[ord(drawn) % len(alphabet)] for alphabet, drawn in zip(alphabets, cycle(random)))


def is_unique(fresh: str, like: str) -> bool:
    """Return whether a fresh cursor is long enough that it cannot be taken already."""
    return len(fresh) >= len(like) + EXTRA


_DIGITS = "0123456789"
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _alphabet(letter: str, *, hexadecimal: bool) -> str:
    """Return the possible replacements of a character: itself alone if it is neither an ASCII letter nor a digit."""
    if not letter.isascii() or not letter.isalnum():
        return letter
    if letter.isdigit():
        return _DIGITS
    letters = _LETTERS[:6] if hexadecimal else _LETTERS
    return letters if letter.islower() else letters.upper()
