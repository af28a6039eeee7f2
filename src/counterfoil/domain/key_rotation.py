"""The rotation of a key: a successor is issued, and both keys are valid for a while.

A store reads the key and its successors and writes the result in one transaction. If two rotations of a key run at the
same time, the second one therefore finds the successor that the first one created.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from counterfoil.domain.access import Key
from counterfoil.domain.audit import AuditEntry


class KeyRotation(Struct, frozen=True, kw_only=True):
    """The rows that a rotation writes. `old` may have a scheduled revocation; `secret_digest` is for the successor."""

    old: Key
    successor: Key
    secret_digest: bytes
    entries: Sequence[AuditEntry]


# Takes a key and its successors. Returns the rotation, or raises if the key must not be rotated.
RotateKey = Callable[[Key, Sequence[Key]], KeyRotation]


def successors_of(keys: Iterable[Key], key_id: str) -> list[Key]:
    """Return the keys that were made by rotating this key. Keys made by rotating those are not included."""
    return [key for key in keys if key.successor_of == key_id]
