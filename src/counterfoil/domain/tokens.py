"""Computes values from the deployment secret, such as member tokens, lookup hashes, and keys for ETags and marks.

All of them are one-way hashes, so the store never holds an internal member ID or a messaging user ID. Every node has
the same secret and computes the same values. Marks, cursors and sign-in links are signed with keys from this secret.
"""

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec
from msgspec import Struct, msgpack

from counterfoil.domain.access import Key
from counterfoil.domain.change_feed import FeedPosition, Window
from counterfoil.domain.credentials import base62
from counterfoil.domain.day_totals import ShopDay

PREFIX = "m1_"
BODY_LENGTH = 32
MIN_SECRET_BYTES = 32
SIGNATURE_BYTES = 16


class Pseudonyms:
    """One-way hash functions that are keyed with the deployment secret."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) < MIN_SECRET_BYTES:
            raise ValueError(f"the deployment secret must be at least {MIN_SECRET_BYTES} bytes")
        self.secret = secret

    def member_token(self, member_id: str) -> str:
        return PREFIX + base62(int.from_bytes(self._keyed("member", member_id), "big"), BODY_LENGTH)

    def messaging_hash(self, user_id: str) -> str:
        return self._keyed("messaging", user_id)[:16].hex()

    def tag_key(self) -> bytes:
        """Return the key for ETags. Without this key, nobody can check a guessed response against its ETag."""
        return self._keyed("entity tag", "")

    def feed_key(self) -> bytes:
        """Return the key that signs the change feed's marks and cursors, and the cursors for lists of digests."""
        return self._keyed("change feed", "")

    def fingerprint(self) -> str:
        """Return a hash that shows whether two secrets are the same and reveals nothing else about them."""
        return self._keyed("fingerprint", "counterfoil")[:16].hex()

    def _keyed(self, purpose: str, text: str) -> bytes:
        return hmac.digest(self.secret, f"{purpose}:{text}".encode("utf-8", "surrogatepass"), hashlib.sha256)


class Signer:
    """Signs what is handed out and comes back: marks, cursors and sign-in links."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def signed(self, payload: bytes, bound_to: bytes = b"") -> str:
        """Return text that contains the payload. It is valid only together with the same `bound_to`."""
        return _text(self._signature(bound_to + payload) + payload)

    def verified(self, text: str, bound_to: bytes = b"") -> bytes | None:
        """Return the payload, or None if this text was not signed with this key and this `bound_to`."""
        try:
            data = urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))
        except ValueError:
            return None
        signature, payload = data[:SIGNATURE_BYTES], data[SIGNATURE_BYTES:]
        is_valid = hmac.compare_digest(signature, self._signature(bound_to + payload))
        # Different strings can decode to the same bytes. Only the string that was handed out is accepted.
        return payload if is_valid and _text(data) == text else None

    def _signature(self, data: bytes) -> bytes:
        return hmac.digest(self._key, data, hashlib.sha256)[:SIGNATURE_BYTES]


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


# --- marks and cursors of the change feed, and cursors for lists of digests ---
#
# The service does not store the position of a pass in these lists, so a mark or a cursor holds everything that is
# needed to continue. The signature proves that the service issued it for this key lineage and scope.


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
