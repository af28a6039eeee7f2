"""Ids as a POS makes them: opaque, twenty letters and digits of either case, all from the seed."""

from binascii import b2a_base64
from hashlib import blake2b
from random import Random

LETTERS_AND_DIGITS_ONLY = bytes.maketrans(b"+/", b"kV")


def stream(seed: int, *purpose: object) -> Random:
    """The random numbers of one purpose, which no other purpose can disturb."""
    return Random("/".join(map(str, (seed, *purpose))))  # noqa: S311 - a world must be drawn the same twice


def opaque(*path: object) -> str:
    """The id of the thing at a path that starts with the seed or its owner's id; the same whenever it is asked for."""
    return _spelled(_digest(15, path))


def fresh(draw: Random) -> str:
    """The next id of a stream, for things that nobody asks for again."""
    return _spelled(draw.randbytes(15))


def messaging_user_id(seed: int, channel: str, person: object) -> str:
    """An account as its messaging channel knows it: another channel knows the same person by another id."""
    return "U" + _digest(16, (seed, "account", channel, person)).hex()


def _digest(size: int, path: tuple[object, ...]) -> bytes:
    return blake2b("/".join(map(str, path)).encode(), digest_size=size).digest()


def _spelled(raw: bytes) -> str:
    return b2a_base64(raw, newline=False).translate(LETTERS_AND_DIGITS_ONLY).decode()
