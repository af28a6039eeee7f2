"""Marks and cursors that are signed, self-contained, and bound to a key lineage and its scope.

The change feed and the list of digests use them. The service does not store the
position of a pass in these lists, so a mark or a cursor holds everything that is
needed to continue.
The signature proves that the service issued it for this lineage and scope.
"""

import msgspec
from msgspec import Struct, msgpack

from counterfoil.domain.access import Key
from counterfoil.domain.change_feed import FeedPosition, Window
from counterfoil.domain.day_totals import ShopDay
from counterfoil.domain.tokens import Signer


class _Mark(Struct, frozen=True, array_like=True, tag="m"):
    until: int


class _Cursor(Struct, frozen=True, array_like=True, tag="c"):
    since: int
    until: int
    shop_id: str
    part: int
    stamp: int
    id: str


class _DigestCursor(Struct, frozen=True, array_like=True, tag="d"):
    horizon: int
    query: str
    shop_id: str
    day: int


_Token = _Mark | _Cursor | _DigestCursor
_encode = msgpack.Encoder().encode
_decode = msgpack.Decoder(_Token).decode


class FeedTokens:
    """Writes and reads the marks and cursors of one deployment."""

    def __init__(self, key: bytes) -> None:
        self._signer = Signer(key)

    def mark(self, owner: Key, until: int) -> str:
        return self._signed(owner, _Mark(until))

    def cursor(self, owner: Key, window: Window, last: FeedPosition) -> str:
        return self._signed(owner, _Cursor(window.since, window.until, last.shop_id, last.part, last.stamp, last.id))

    def read_mark(self, owner: Key, text: str) -> int | None:
        """Return the horizon of a mark, or None if `text` is not a mark for the key's lineage and scope."""
        found = self._verified(owner, text)
        return found.until if isinstance(found, _Mark) else None

    def read_cursor(self, owner: Key, text: str) -> tuple[Window, FeedPosition] | None:
        """Return a window and a position in it, or None if `text` is not a cursor for the key's lineage and scope."""
        found = self._verified(owner, text)
        if not isinstance(found, _Cursor):
            return None
        position = FeedPosition(found.shop_id, found.part, found.stamp, found.id)
        return Window(found.since, found.until), position

    def digest_cursor(self, owner: Key, horizon: int, query: str, last: ShopDay) -> str:
        return self._signed(owner, _DigestCursor(horizon, query, last.shop_id, last.day))

    def read_digest_cursor(self, owner: Key, query: str, text: str) -> tuple[int, ShopDay] | None:
        """Return the horizon and the position in a digest cursor, or None if it is not valid for this key and query."""
        found = self._verified(owner, text)
        if not isinstance(found, _DigestCursor) or found.query != query:
            return None
        return found.horizon, ShopDay(found.shop_id, found.day)

    def _signed(self, owner: Key, token: _Token) -> str:
        return self._signer.signed(_encode(token), self._binding(owner))

    def _verified(self, owner: Key, text: str) -> _Token | None:
        payload = self._signer.verified(text, self._binding(owner))
        try:
            return None if payload is None else _decode(payload)
        except msgspec.MsgspecError:
            return None

    def _binding(self, owner: Key) -> bytes:
        return _encode((owner.lineage, owner.scope.kind, owner.scope.id))
