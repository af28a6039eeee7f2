"""Cursors: each cursor stands for one position in one list.

The contract's cursor is the bare ID of a row, and rows move: a bill moves to the end of the list by change whenever it
changes. So the service remembers the position for which it handed out a cursor. While an ID stands for one position of
a list, another position of that list gets a fresh ID of the same shape, so the service never has to guess which
position a caller means. `docs/own-client.md` explains why no row is missed.
"""

from itertools import cycle

from msgspec import Struct

from counterfoil.model.calendar import HOUR_MS

# Lifetime of a cursor after it was last handed out or used.
LIFETIME_MS = 7 * 24 * HOUR_MS
# How long an expired cursor's ID is reserved for its position, because a client may still send it.
RESERVED_MS = 90 * 24 * HOUR_MS
# The stored expiry of a cursor is updated only if it changes by at least this many milliseconds.
EXTEND_MS = 60_000
# Readers whose horizons are further apart than this do not share a cursor. In a list by change, readers that share a
# cursor continue with the latest horizon; the limit ensures that every pass ends, however often other readers begin a
# pass. In other lists, they continue with the earliest horizon; the limit keeps it from falling further and further
# behind.
SHARED_MS = 24 * HOUR_MS

# The modes of a list. A list's `query` begins with its mode.
BY_DAY, BY_CHANGE, BY_SIGN_UP = "days", "changes", "members"


class Position(Struct, frozen=True, order=True):
    """A row's position in a list: the value that the list is sorted by, then the row's ID."""

    major: int
    minor: int
    id: str


class Listing(Struct, frozen=True):
    """A list as one key lineage reads it. A cursor is valid only within its listing.

    `lineage` is the ID of the first key of the lineage. `resource` is the listed resource ("bills SHOP" or "members
    BASE"). `query` is the mode with its parameters, without `limit` ("changes 0").
    """

    lineage: str
    resource: str
    query: str

    @property
    def uses_latest_horizon(self) -> bool:
        """True if readers that share a cursor continue with the latest of their horizons, and not with the earliest.

        A row that changes moves to the end of a list by change, so whatever changed between two horizons is still ahead
        of both readers. In any other order, a row that changes behind a reader is not read again, so only the earliest
        horizon is correct for all readers.
        """
        return self.query.partition(" ")[0] == BY_CHANGE


class StoredCursor(Struct, frozen=True):
    """A cursor as it is stored: its position, and the earliest and latest horizons it was handed out with."""

    position: Position
    earliest: int
    latest: int

    def horizon_in(self, listing: Listing) -> int:
        """Return the horizon with which all readers that share the cursor continue."""
        return self.latest if listing.uses_latest_horizon else self.earliest

    def at(self, position: Position) -> "StoredCursor":
        """Return this cursor moved to another position, such as the end of the next page."""
        return StoredCursor(position, self.earliest, self.latest)


# With this many additional random characters, an ID is unique no matter which other IDs were handed out.
EXTRA = 16


def fresh_cursor(like: str, random: str, *, longer: bool = False) -> str:
    """Return a random ID of the same shape as `like`: digits stay digits, and letters stay letters of the same case.

    With `longer`, the ID gets `EXTRA` more characters, because all IDs of a short shape may be taken. The part up to an
    underscore near the start, such as the "m1_" of a member token, is a prefix and does not change.
    """
    start = like.find("_", 0, 5) + 1
    prefix, body = like[:start], like[start:]
    letters = [letter for letter in body if letter.isascii() and letter.isalpha()]
    hexadecimal = all(letter in "abcdefABCDEF" for letter in letters)
    alphabets = [_alphabet(letter, hexadecimal=hexadecimal) for letter in body]
    if longer:
        # The last place that is no fixed character.
        varied = [alphabet for alphabet in alphabets if len(alphabet) > 1]
        alphabets += [varied[-1] if varied else _DIGITS] * EXTRA
    fresh = prefix
    for alphabet, drawn in zip(alphabets, cycle(random)):
        fresh += alphabet[ord(drawn) % len(alphabet)]
    return fresh


def is_unique(fresh: str, like: str) -> bool:
    """Return whether a fresh cursor is long enough that no other cursor can have the same ID."""
    return len(fresh) >= len(like) + EXTRA


_DIGITS = "0123456789"
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _alphabet(letter: str, *, hexadecimal: bool) -> str:
    """Return the characters that may replace a character of an ID. Only ASCII letters and digits are replaced."""
    if not letter.isascii() or not letter.isalnum():
        return letter
    if letter.isdigit():
        return _DIGITS
    letters = _LETTERS[:6] if hexadecimal else _LETTERS
    return letters if letter.islower() else letters.upper()
