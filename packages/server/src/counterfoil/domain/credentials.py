"""Generates, parses and verifies API keys: `cf_live_<keyId>_<secret>`.

The secret is 256 random bits in base 62, followed by a checksum of everything before it. The checksum lets a secret
scanner tell a key from random text, and lets the service refuse a mistyped key without looking it up. Only the stored
hash decides whether a key is genuine. `PATTERN` is the published pattern.
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
# If a key ID is unknown, its secret is compared with this digest, so that the check takes as long as for a known ID.
_UNKNOWN_KEY_DIGEST = hashlib.sha256(b"no key has this secret").digest()


class Credential(Struct, frozen=True):
    """A well-formed key, split into its ID and its secret."""

    key_id: str
    secret: str


def base62(number: int, length: int) -> str:
    """Return the last `length` base-62 digits of a number, computed in pairs, because large divisions are slow."""
    pairs = []
    for _ in range(0, length, 2):
        number, pair = divmod(number, 62 * 62)
        pairs.append(_PAIRS[pair])
    return "".join(reversed(pairs))[-length:]


def generate(random_bytes: Callable[[int], bytes]) -> Credential:
    """Generate a new key from a source of randomness."""
    key_id = base62(int.from_bytes(random_bytes(12), "big"), ID_LENGTH)
    body = base62(int.from_bytes(random_bytes(32), "big"), RANDOM_LENGTH)
    return Credential(key_id, body + _checksum_of(f"cf_live_{key_id}_{body}"))


def format_key(credential: Credential) -> str:
    return f"cf_live_{credential.key_id}_{credential.secret}"


def parse_authorization(authorization: str | None) -> Credential | None:
    """Return the key in an Authorization header, or None if it is missing or malformed or has a wrong checksum."""
    scheme, _, token = (authorization or "").partition(" ")
    token = token.strip(" ")
    if scheme.lower() != "bearer" or not _KEY.fullmatch(token):
        return None
    if _checksum_of(token[:-CHECKSUM_LENGTH]) != token[-CHECKSUM_LENGTH:]:
        return None
    return Credential(token[8 : 8 + ID_LENGTH], token[9 + ID_LENGTH :])


def digest(secret: str) -> bytes:
    """Return the hash of a secret. A plain hash is enough, because 256 random bits cannot be guessed."""
    return hashlib.sha256(secret.encode()).digest()


def matches(secret: str, stored_digest: bytes | None) -> bool:
    """Return whether the secret matches the stored hash. The check takes the same time if there is no hash."""
    is_equal = hmac.compare_digest(digest(secret), stored_digest if stored_digest is not None else _UNKNOWN_KEY_DIGEST)
    return is_equal and stored_digest is not None


def _checksum_of(text: str) -> str:
    return base62(zlib.crc32(text.encode()), CHECKSUM_LENGTH)
