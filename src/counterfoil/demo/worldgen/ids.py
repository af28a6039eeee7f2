"""IDs like those of a POS: 20 letters or digits, in upper and lower case, derived from the seed."""

from binascii import b2a_base64
from hashlib import blake2b
from random import Random

LETTERS_AND_DIGITS_ONLY = bytes.maketrans(b"+/", b"kV")


def stream(seed: int, *purpose: object) -> Random:
    """Return a random generator for one purpose. Generators for different purposes are independent."""
    return Random("/".join(map(str, (seed, *purpose))))  # noqa: S311 - a world must be reproducible


def opaque(*path: object) -> str:
    """Return the ID for a path, which starts with the seed or the owner's ID. Equal paths give equal IDs."""
    return _spelled(_digest(15, path))


def fresh(draw: Random) -> str:
    """Return a random ID. Unlike an ID from `opaque`, it cannot be computed again from a path."""
    return _spelled(draw.randbytes(15))


def messaging_user_id(seed: int, channel: str, person: object) -> str:
    """Return a person's user ID in a messaging channel. Each channel has a different ID for the same person."""
    return "U" + _digest(16, (seed, "account", channel, person)).hex()


def _digest(size: int, path: tuple[object, ...]) -> bytes:
    return blake2b("/".join(map(str, path)).encode(), digest_size=size).digest()


def _spelled(raw: bytes) -> str:
    return b2a_base64(raw, newline=False).translate(LETTERS_AND_DIGITS_ONLY).decode()
