"""Computes values from the deployment secret, such as member tokens, lookup hashes, and keys for ETags and marks.

All of them are one-way hashes, so the store never holds an internal member ID or a messaging user ID. Every node has
the same secret and computes the same values. Marks, cursors and sign-in links are signed with keys from this secret.
"""

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TypeVar

import msgspec
from msgspec import Struct, msgpack

from counterfoil.domain.access import Key
from counterfoil.domain.credentials import base62

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


class Mark(Struct, frozen=True, array_like=True, tag="m"):
    until: int


class FeedCursor(Struct, frozen=True, array_like=True, tag="c"):
    since: int
    until: int
    shop_id: str
    part: int
    stamp: int
    id: str


class DigestCursor(Struct, frozen=True, array_like=True, tag="d"):
    horizon: int
    query: str
    shop_id: str
    day: int


Token = TypeVar("Token", Mark, FeedCursor, DigestCursor)
_encode = msgpack.Encoder().encode
_decode = msgpack.Decoder(Mark | FeedCursor | DigestCursor).decode


class FeedTokens:
    """Writes and reads the marks and cursors of one deployment."""

    def __init__(self, key: bytes) -> None:
        self._signer = Signer(key)

    def text_of(self, owner: Key, token: Mark | FeedCursor | DigestCursor) -> str:
        return self._signer.signed(_encode(token), self._binding(owner))

    def read(self, owner: Key, text: str, kind: type[Token]) -> Token | None:
        """Return the token, or None if `text` is not a token of this kind for the key's lineage and scope."""
        payload = self._signer.verified(text, self._binding(owner))
        try:
            found = None if payload is None else _decode(payload)
        except msgspec.MsgspecError:
            return None
        return found if isinstance(found, kind) else None

    def _binding(self, owner: Key) -> bytes:
        return _encode((owner.lineage, owner.scope.kind, owner.scope.id))
