"""Mint, read and verify an API key: `cf_live_<keyId>_<secret>`.

The secret is 256 random bits in base 62 followed by a checksum of everything
before it, by which a secret scanner can tell a key from noise. Whether a key
is genuine its hash tells, mistyped or not. Published pattern: `PATTERN`.
"""

import hashlib
import hmac
import re
import zlib
from collections.abc import Callable

from msgspec import Struct

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ID_LENGTH = 12
RANDOM_LENGTH = 43
CHECKSUM_LENGTH = 6
PATTERN = rf"cf_live_[0-9A-Za-z]{{{ID_LENGTH}}}_[0-9A-Za-z]{{{RANDOM_LENGTH + CHECKSUM_LENGTH}}}"

_PAIRS = [first + second for first in ALPHABET for second in ALPHABET]
_KEY = re.compile(PATTERN, re.ASCII)
# What an unknown key id is compared with: the work is that of a wrong secret.
_NOBODY = hashlib.sha256(b"no key has this secret").digest()


class Credential(Struct, frozen=True):
    """A well-formed key as a caller presented it."""

    key_id: str
    secret: str


def base62(number: int, length: int) -> str:
    """The last `length` digits; taken in pairs, since every division of a large number costs the same."""
    pairs = []
    for _ in range(0, length, 2):
        number, pair = divmod(number, 62 * 62)
        pairs.append(_PAIRS[pair])
    return "".join(reversed(pairs))[-length:]


def mint(random_bytes: Callable[[int], bytes]) -> Credential:
    """A new key from a source of randomness."""
    key_id = base62(int.from_bytes(random_bytes(12), "big"), ID_LENGTH)
    body = base62(int.from_bytes(random_bytes(32), "big"), RANDOM_LENGTH)
    return Credential(key_id, body + _checksum(key_id, body))


def written(credential: Credential) -> str:
    return f"cf_live_{credential.key_id}_{credential.secret}"


def presented(authorization: str | None) -> Credential | None:
    """The key in an Authorization header, or nothing when there is none of that form."""
    scheme, _, token = (authorization or "").partition(" ")
    token = token.strip(" ")
    if scheme.lower() != "bearer" or not _KEY.fullmatch(token):
        return None
    return Credential(token[8 : 8 + ID_LENGTH], token[9 + ID_LENGTH :])


def digest(secret: str) -> bytes:
    """What the store keeps. The secret has 256 bits of its own, so a plain hash cannot be searched."""
    return hashlib.sha256(secret.encode()).digest()


def matches(secret: str, kept: bytes | None) -> bool:
    """Whether the secret is the one kept; takes the same time when there is none."""
    right = hmac.compare_digest(digest(secret), kept if kept is not None else _NOBODY)
    return right and kept is not None


def _checksum(key_id: str, body: str) -> str:
    return base62(zlib.crc32(f"cf_live_{key_id}_{body}".encode()), CHECKSUM_LENGTH)
