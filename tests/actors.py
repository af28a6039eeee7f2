"""The operator who acts in tests."""

from counterfoil.domain.access import Key
from counterfoil.domain.audit import Actor, AuditEntry

OPERATOR = Actor("alice", "cli", "back-office")


def unrecorded(before: Key, after: Key) -> AuditEntry | None:
    """Leave no entry in the audit."""
    return None
