"""Marks and cursors that are signed, self-contained, and bound to a key lineage and its scope.

The change feed and the list of digests use them. The service does not store the
position of a pass in these lists, so a mark or a cursor holds everything that is
needed to continue.
The signature proves that the service issued it for this lineage and scope.
"""

import binascii
import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec
from msgspec import Struct, msgpack

from counterfoil.domain.access import Key
from counterfoil.domain.change_feed import FeedPosition, Window
from counterfoil.domain.day_totals import ShopDay

SIGNATURE_BYTES = 16


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
        self._key = key

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
        payload = _encode(token)
        return urlsafe_b64encode(self._signature(owner, payload) + payload).decode().rstrip("=")

    def _verified(self, owner: Key, text: str) -> _Token | None:
        try:
            data = urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))
        except (ValueError, binascii.Error):
            return None
        signature, payload = data[:SIGNATURE_BYTES], data[SIGNATURE_BYTES:]
        # Different strings can decode to the same bytes. Only the string that the service handed out is accepted.
        is_canonical = urlsafe_b64encode(data).decode().rstrip("=") == text
        if not hmac.compare_digest(signature, self._signature(owner, payload)) or not is_canonical:
            return None
        try:
            found: _Token = _decode(payload)
            return found
        except msgspec.MsgspecError:
            return None

    def _signature(self, owner: Key, payload: bytes) -> bytes:
        bound_to = _encode((owner.lineage, owner.scope.kind, owner.scope.id))
        return hmac.digest(self._key, bound_to + payload, hashlib.sha256)[:SIGNATURE_BYTES]
